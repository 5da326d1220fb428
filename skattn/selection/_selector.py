"""Keep the tokens that attention is on."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skattn._input import read_input
from skattn._output import like_input
from skattn.selection._base import BaseAttentionTransformer
from skattn.selection._pooling import given, n_pooled_features, pooled
from skattn.selection._rules import keep_above, keep_mass, keep_top
from skattn.tokens import Tokens
from skattn.tokens._selection import owners
from skattn.tokens._table import TableTokens

_DEFAULT_MASS = 0.95


def _gives_table(selector):
    if selector.output == "indices":
        return selector.n_tokens is not None
    return selector.output in ("concat", "pooled")


class TokenSelector(BaseAttentionTransformer):
    """Keep the tokens of each sample that get most of an estimator's attention.

    What `SelectFromModel` does for features, for tokens: each sample keeps its own.
    With several heads, the weights are averaged over heads. At most one of `n_tokens`,
    `mass` and `threshold` can be given; every sample keeps at least its top token.

    Parameters
    ----------
    estimator : AttentionClassifier or TokenSVM
        The estimator whose attention selects.

    n_tokens : int, default=None
        Keep this many tokens with the highest weights; all, where a sample has fewer.

    mass : float in (0, 1], default=None
        Keep the smallest set of tokens with this share of the attention. The default,
        if nothing else is given, is 0.95.

    threshold : float in [0, 1], default=None
        Keep the tokens with at least this weight.

    output : {"tokens", "mask", "indices", "concat", "pooled"}, default="tokens"
        What `transform` returns:

        - "tokens": the kept tokens in their order;
        - "mask": which tokens are kept;
        - "indices": their positions, -1 where a sample keeps fewer than others may;
        - "concat": the kept tokens side by side in one row a sample, 0 where a sample
          keeps fewer; needs `n_tokens`, and any estimator of scikit-learn can follow;
        - "pooled": the tokens pooled by attention, as :class:`AttentionPooling`.

    prefit : bool, default=False
        Whether the estimator is fitted already and used as it is.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    input_kind_ : {"sequences", "table"}
        What the estimator was fitted on.

    See Also
    --------
    AttentionPooling : Pool all tokens by attention.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from skattn import TokenSelector, TokenSVM
    >>> from skattn.datasets import make_token_selection
    >>> X, y, planted = make_token_selection(n_samples=60, random_state=0)
    >>> selector = TokenSelector(TokenSVM(), n_tokens=1, output="indices").fit(X, y)
    >>> float((selector.transform(X)[:, 0] == planted).mean())
    1.0
    >>> model = make_pipeline(selector.set_params(output="concat"), SVC()).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseAttentionTransformer._parameter_constraints,
        "n_tokens": [Interval(Integral, 1, None, closed="left"), None],
        "mass": [Interval(Real, 0, 1, closed="right"), None],
        "threshold": [Interval(Real, 0, 1, closed="both"), None],
        "output": [StrOptions({"tokens", "mask", "indices", "concat", "pooled"})],
    }

    def __init__(
        self,
        estimator,
        *,
        n_tokens=None,
        mass=None,
        threshold=None,
        output="tokens",
        prefit=False,
    ):
        self.estimator = estimator
        self.n_tokens = n_tokens
        self.mass = mass
        self.threshold = threshold
        self.output = output
        self.prefit = prefit

    def get_support(self, X, query=None):
        """Return which tokens of each sample are kept.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for an estimator with ``query="given"``.

        Returns
        -------
        mask : ndarray of bool of shape (n_samples, n_positions), or list of \
                (n_positions_i,) arrays
            An array for array input, a list for a list or `Tokens`; False at absent
            tokens.
        """
        read, keep = self._select(X, query)
        return read.per_token(keep, fill=False)

    def transform(self, X, query=None):
        """Reduce each sample to the tokens that attention is on.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for an estimator with ``query="given"``.

        Returns
        -------
        X_new : array, list or Tokens
            For ``output="tokens"``, the container of the input: an array of shape
            (n_samples, n_kept, n_features), filled up with NaN, for an array or a
            table; a list of arrays for a list; `Tokens` for `Tokens`. `n_kept` is
            `n_tokens`, or else the number of positions of the input, so that it never
            depends on what is kept.

            For "mask", see :meth:`get_support`. For "indices", an array of shape
            (n_samples, n_kept), or a list of arrays for a list or `Tokens` without
            `n_tokens`. For "concat" and "pooled", an array of two dimensions, or a
            dataframe after ``set_output``.
        """
        if self.output == "pooled":
            check_is_fitted(self)
            return pooled(self._attention(), X, query)
        if self.output == "mask":
            return self.get_support(X, query=query)
        read, keep = self._select(X, query)
        kept = _keep_rows(read.tokens, keep)
        if self.output == "indices":
            return self._indices(kept, read)
        if self.output == "concat":
            values = _packed(kept.values, kept.offsets, self.n_tokens, fill=0.0)
            return values.reshape(len(kept), -1)
        if read.form.container == "array":
            return _packed(kept.values, kept.offsets, self._width(read), fill=np.nan)
        if read.form.container == "list":
            return kept.to_list()
        return like_input(kept, read.form)

    @available_if(_gives_table)
    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns that `transform` returns.

        Exists for the outputs "concat" and "pooled", and "indices" with `n_tokens`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features of a token; by default ``feature_names_in_``, or
            ``x0``, ``x1``, ...

        Returns
        -------
        feature_names_out : ndarray of str objects
            For "concat" ``token0_x0``, ..., where ``token0`` is the first token kept;
            the tokens of a table have ``is_x0``, ... before ``x0``, ...
        """
        check_is_fitted(self)
        if self.output == "pooled":
            width = n_pooled_features(self._attention())
            names = [f"tokenselector{index}" for index in range(width)]
            return np.asarray(names, dtype=object)
        if self.output == "indices":
            names = [f"position{index}" for index in range(self.n_tokens)]
            return np.asarray(names, dtype=object)
        features = list(_check_feature_names_in(self, input_features))
        if self.input_kind_ == "table":
            features = [f"is_{name}" for name in features] + features
        return np.asarray(
            [f"token{k}_{name}" for k in range(self.n_tokens) for name in features],
            dtype=object,
        )

    def _check_parameters(self):
        rules = {
            name: getattr(self, name)
            for name in ("n_tokens", "mass", "threshold")
            if getattr(self, name) is not None
        }
        if len(rules) > 1:
            raise ValueError(
                "At most one of n_tokens, mass and threshold can be given; got "
                + ", ".join(f"{name}={value}" for name, value in rules.items())
                + "."
            )
        if self.output == "concat" and self.n_tokens is None:
            raise ValueError(
                "output='concat' needs n_tokens: without it, rows would differ in "
                "length."
            )

    def _select(self, X, query):
        """Return what was read and a mask of its real tokens."""
        check_is_fitted(self)
        self._check_parameters()
        estimator = self._attention()
        read = read_input(estimator, X, query=query)
        weights = estimator.attention_weights(X, **given(query))
        if getattr(estimator, "n_heads", 1) > 1:
            weights = _mean_over_heads(weights)
        weights = read.of_real_tokens(weights)
        offsets = read.tokens.offsets
        if self.n_tokens is not None:
            return read, keep_top(weights, offsets, self.n_tokens)
        if self.threshold is not None:
            return read, keep_above(weights, offsets, self.threshold)
        if (weights < 0).any():
            raise ValueError(
                "mass is a share of weights that add up to 1, and the attention of "
                "estimator has negative ones (mapping='linear'). Use n_tokens, "
                "threshold, or another mapping."
            )
        mass = _DEFAULT_MASS if self.mass is None else self.mass
        return read, keep_mass(weights, offsets, mass)

    def _width(self, read):
        """Return how many tokens a sample of an array may keep."""
        return self.n_tokens or int(read.tokens.n_positions.max())

    def _indices(self, kept, read):
        if read.form.container == "array" or self.n_tokens is not None:
            return _packed(kept.positions, kept.offsets, self._width(read), fill=-1)
        return np.split(kept.positions, kept.offsets[1:-1])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.output in ("mask", "indices"):
            tags.transformer_tags.preserves_dtype = []
        elif self.output == "pooled":
            tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def _mean_over_heads(weights):
    if isinstance(weights, list):
        return [sample.mean(axis=0) for sample in weights]
    return weights.mean(axis=1)


def _keep_rows(tokens, keep):
    """Return `Tokens` with the real tokens in the mask `keep`, densely."""
    lengths = np.bincount(owners(tokens)[keep], minlength=len(tokens))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if isinstance(tokens, TableTokens):
        values = tokens.values[np.flatnonzero(keep)].toarray()
    else:
        values = tokens.values[keep]
    return Tokens._from_parts(
        values, offsets, tokens.positions[keep], tokens.query, tokens.n_positions
    )


def _packed(values, offsets, width, fill):
    """Return (n_samples, width, ...) with the rows of each sample first."""
    lengths = np.diff(offsets)
    samples = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.arange(len(values)) - np.repeat(offsets[:-1], lengths)
    packed = np.full((len(lengths), width, *values.shape[1:]), fill, values.dtype)
    packed[samples, columns] = values
    return packed
