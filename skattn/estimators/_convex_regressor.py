"""Regression by a convex attention block."""

from typing import ClassVar

from sklearn.base import RegressorMixin, _fit_context
from sklearn.callback import with_callbacks

from skattn._fitting import all_or_nothing, effective_weights
from skattn._input import read_input, read_targets
from skattn.estimators._convex_base import BaseConvexAttention, ConvexTraining


class ConvexAttentionRegressor(RegressorMixin, BaseConvexAttention):
    """Predict numbers by an attention, MLP, mixer or Fourier block at its optimum.

    The blocks of :class:`skattn.ConvexAttentionClassifier` [1]_ with the loss

        F = half the mean squared error,

    summed over outputs: a convex problem, solved until its duality gap certifies the
    global optimum.

    Parameters
    ----------
    block : {"self_attention", "mlp", "mixer", "fno"}, default="self_attention"
        What a head computes.

    activation : {"gated_relu", "linear"}, default="gated_relu"
        With fixed gates, or without; "linear" is for self-attention only.

    n_gates : int, default=8
        Gates to draw, for each group.

    gate_rank : {"rank_one", "full"}, default=None
        Form of the gates of self-attention.

    n_groups : int, default=1
        For "fno", the number of blocks of features.

    beta : float > 0 or "auto", default=0.01
        Strength of the regularisation. It has the unit of the targets, times that of
        the features of the block: scale both, or use "auto", which chooses by 5-fold
        cross-validation among 10 values between `beta_max_` and a thousandth of it.

    solver : {"auto", "fista", "burer_monteiro", "cvxpy"}, default="auto"
        How the problem is solved.

    tol : float > 0, default=1e-4
        The solver stops at a relative duality gap of `tol`.

    max_iter : int, default=None
        Largest number of iterations; None is the solver's own.

    random_state : int, RandomState instance or None, default=None
        Draws the gates. Nothing else is random.

    Attributes
    ----------
    n_outputs_ : int
        Numbers that are predicted for a sample.

    coef_, intercept_, heads_, gates_, n_gates_, rank_, objective_, duality_gap_, \
            beta_, beta_max_, n_iter_, solver_, n_token_features_
        As in :class:`skattn.ConvexAttentionClassifier`.

    beta_path_ : ndarray of shape (n_betas,)
        With ``beta="auto"``, the candidates from the largest to the smallest.

    rank_path_ : ndarray of shape (n_betas,)
        With ``beta="auto"``, the ranks of their models of all samples.

    scores_ : ndarray of shape (n_folds, n_betas)
        With ``beta="auto"``, R^2 on the held-out samples of each fold.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    See Also
    --------
    skattn.ConvexAttentionClassifier : The same for classes; its page says more.

    References
    ----------
    .. [1] Sahiner et al., "Unraveling Attention via Convex Duality: Analysis and
       Interpretations of Vision Transformers", ICML 2022, arXiv 2205.08078.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn import ConvexAttentionRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 5, 3))
    >>> y = np.maximum(X @ [1.0, -2.0, 0.5], 0).mean(axis=1)
    >>> model = ConvexAttentionRegressor("mlp", n_gates=30, beta=1e-3, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = BaseConvexAttention._parameter_constraints

    def __init__(
        self,
        block="self_attention",
        *,
        activation="gated_relu",
        n_gates=8,
        gate_rank=None,
        n_groups=1,
        beta=0.01,
        solver="auto",
        tol=1e-4,
        max_iter=None,
        random_state=None,
    ):
        self.block = block
        self.activation = activation
        self.n_gates = n_gates
        self.gate_rank = gate_rank
        self.n_groups = n_groups
        self.beta = beta
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sample_weight=None):
        """Find the global optimum.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss.

        Returns
        -------
        self : ConvexAttentionRegressor
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed, the combination of block and activation is a
            linear model, samples differ in length where they must not, or tokens have
            too many features.

        Warns
        -----
        ConvergenceWarning
            If a solver does not reach `tol`; the message gives the gap reached.

        UserWarning
            If the fit is going to take more than 1 GB of memory.
        """
        return self._fit(X, y, sample_weight)

    def _read_training(self, X, y, sample_weight):
        tokens = read_input(self, X, reset=True).tokens
        y = read_targets(self, y, len(tokens))
        weights = effective_weights(sample_weight, None, None, y)
        self.n_outputs_ = 1 if y.ndim == 1 else y.shape[1]
        return ConvexTraining(tokens, y, y, weights, "squared", self.n_outputs_)

    def predict(self, X):
        """Return the predicted numbers.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Of one dimension for one output.
        """
        return self._outputs(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
