"""Attention that a support-vector regression already is."""

import numpy as np
from sklearn.utils.validation import _get_feature_names

from skattn._input import read_input
from skattn.estimators._svr_expansion import check_predictions, expansion_of_svr
from skattn.tokens._shared import SharedTokens


class FromSVR:
    """What an estimator does that holds the keys of a regression.

    Its samples are queries, and their tokens the keys, each with its value behind it.
    """

    @classmethod
    def from_svr(
        cls, svr, keys, *, kernel_scale=1.0, attention_norm=None, head_scale=None
    ):
        """Write a support-vector regression as an attention layer.

        The estimator that is returned holds the keys and a value for each. Its samples
        are queries, the rows of a table: each attends to the keys, and what it pools of
        their values is what `svr` predicts for it, as long as its parameters are left
        as they are. :meth:`fit` makes an estimator without keys of it again, and needs
        queries, since ``query="given"`` stays.

        Parameters
        ----------
        svr : sklearn.svm.SVR or sklearn.svm.NuSVR
            Fitted on the keys with :func:`skattn.theory.attention_kernel`, with
            ``kernel="precomputed"`` on what that returns, or with ``kernel="linear"``,
            which is linear attention.

        keys : array-like of shape (n_keys, n_features)
            The samples that `svr` was fitted on.

        kernel_scale : float, default=1.0
            With ``kernel="precomputed"``: the factor `scale` of the kernel. Neither it
            nor the keys can be checked then.

        attention_norm : {"batch"} or None, default=None
            With ``kernel="precomputed"``: that of the kernel.

        head_scale : int, default=None
            If given, `svr` was fitted on the means of windows of so many keys, as
            Attention-SH averages them.

        Returns
        -------
        regressor : AttentionRegressor
            Fitted, with `keys_` (n_keys, n_features), `values_` (n_keys,) and
            `intercept_`.

        Raises
        ------
        TypeError
            If `svr` is none.

        ValueError
            If its kernel is no attention, or `keys` are not its samples.

        References
        ----------
        Nguyen et al., "A Primal-Dual Framework for Transformers and Neural Networks",
        arXiv 2406.13781.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.svm import SVR
        >>> from skattn import AttentionRegressor
        >>> keys = np.random.default_rng(0).standard_normal((20, 3))
        >>> svr = SVR(kernel="linear").fit(keys, keys.sum(axis=1))
        >>> attention = AttentionRegressor.from_svr(svr, keys)
        >>> bool(np.allclose(attention.predict(keys), svr.predict(keys)))
        True
        """
        expansion = expansion_of_svr(
            svr, keys, kernel_scale, attention_norm, head_scale
        )
        n_features = expansion.keys.shape[1]
        regressor = cls(
            query="given",
            parameterization="KQ",
            rank=n_features,
            **expansion.parameters,
        )
        # Attention sees keys with their values behind them: it scores by the keys, and
        # its head reads the values. Attention-BN divides by sqrt(D) itself.
        is_scaled = regressor.mapping == "softmax" and regressor.attention_norm is None
        size = 1.0 / np.sqrt(n_features) if is_scaled else 1.0
        key_coef = np.vstack([np.eye(n_features), np.zeros((1, n_features))])
        query_coef = size * np.eye(n_features)
        regressor.key_coef_, regressor.query_coef_ = key_coef, query_coef
        regressor.attention_coef_ = key_coef @ query_coef.T
        regressor.keys_, regressor.values_ = expansion.keys, expansion.values
        regressor.coef_ = np.eye(n_features + 1)[-1:]
        regressor.intercept_ = np.array([expansion.intercept])
        regressor.input_kind_ = "table"
        regressor.n_features_in_ = regressor.n_query_features_in_ = n_features
        regressor.n_token_features_ = n_features + 1
        regressor.n_outputs_ = 1
        check_predictions(svr, regressor)
        names = _get_feature_names(keys)
        if names is not None:
            regressor.feature_names_in_ = names
        return regressor

    def _read(self, X, query):
        if not hasattr(self, "keys_"):
            return super()._read(X, query)
        if query is not None:
            raise ValueError(
                "query was passed, but this AttentionRegressor holds the keys of a "
                "support-vector regression: the rows of X are its queries."
            )
        read = read_input(self, X)
        memory = np.column_stack([self.keys_, self.values_])
        return read._replace(tokens=SharedTokens(memory, read.tokens.cells))

    def _read_training(self, X, query, reset):
        if not reset:
            self._refuse_keys("partial_fit", "Use fit.")
        return super()._read_training(X, query, reset)

    def _refuse_keys(self, what, remedy):
        if hasattr(self, "keys_"):
            raise ValueError(
                f"{what} cannot go on from a support-vector regression, whose keys "
                f"this AttentionRegressor holds. {remedy}"
            )
