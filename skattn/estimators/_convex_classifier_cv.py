"""Classification by a convex attention block, with beta chosen by cross-validation."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.metrics import get_scorer_names
from sklearn.utils._param_validation import Interval, StrOptions

from skattn.estimators._convex_classifier import ConvexAttentionClassifier
from skattn.estimators._convex_folds import BetaSearch


class ConvexAttentionClassifierCV(ConvexAttentionClassifier):
    """A :class:`ConvexAttentionClassifier` whose `beta` is chosen by cross-validation.

    In each fold the models of all betas are fitted from the largest beta to the
    smallest, each from the solution before, and to a certified duality gap.

    Parameters
    ----------
    block : {"self_attention", "mlp", "mixer", "fno"}, default="self_attention"
        What a head computes.

    betas : int or list of float > 0, default=10
        The candidates; a number stands for that many on a logarithmic scale, from the
        `beta_max_` of all samples down to `eps` times it.

    eps : float in (0, 1), default=1e-3
        The smallest of `betas`, if that is a number, as a share of the largest.

    activation, n_gates, gate_rank, n_groups, solver, tol, max_iter, class_weight, \
            random_state
        As in :class:`ConvexAttentionClassifier`. The gates are the same in all folds.

    cv : int, cross-validation generator or iterable, default=None
        How samples are split into folds, as everywhere in scikit-learn: None is a
        stratified split into 5.

    scoring : str or callable, default=None
        Name of a scorer, or a callable ``scorer(estimator, X, y)``; None is accuracy.

    refit : bool, default=True
        Whether the path is computed for all samples too, and the model is that of the
        best beta. Otherwise it is the mean of the models of the folds, at the best beta
        of each.

    n_jobs : int, default=None
        Number of folds that are fitted at the same time.

    Attributes
    ----------
    beta_ : float
        The beta of the highest mean score, the largest among equals. With
        ``refit=False`` the mean of the best beta of each fold.

    beta_path_ : ndarray of shape (n_betas,)
        The candidates, from the largest to the smallest.

    rank_path_ : ndarray of shape (n_betas,)
        Rank of the model of all samples at each beta; absent with ``refit=False``.

    scores_ : ndarray of shape (n_folds, n_betas)
        Score of each beta on the held-out samples of each fold.

    classes_, coef_, intercept_, heads_, gates_, n_gates_, rank_, beta_max_, \
            n_token_features_
        As in :class:`ConvexAttentionClassifier`.

    objective_, duality_gap_, solver_
        As in :class:`ConvexAttentionClassifier`; absent with ``refit=False``.

    n_iter_ : int
        Iterations of the solver at `beta_`; with ``refit=False`` the most of a fold.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    See Also
    --------
    skattn.ConvexAttentionClassifier : The same with a beta of your own.

    Examples
    --------
    >>> from skattn import ConvexAttentionClassifierCV
    >>> from skattn.datasets import make_token_selection
    >>> X, y, _ = make_token_selection(n_samples=60, random_state=0)
    >>> model = ConvexAttentionClassifierCV("mlp", betas=4, cv=3, random_state=0)
    >>> model.fit(X, y).scores_.shape
    (3, 4)
    >>> model.beta_ in model.beta_path_
    True
    >>> int(model.rank_path_[0])  # all matrices are zero at beta_max_
    0
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: constraint
            for name, constraint in (
                ConvexAttentionClassifier._parameter_constraints.items()
            )
            if name != "beta"
        },
        "betas": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        block="self_attention",
        *,
        betas=10,
        eps=1e-3,
        activation="gated_relu",
        n_gates=8,
        gate_rank=None,
        n_groups=1,
        solver="auto",
        tol=1e-4,
        max_iter=None,
        class_weight=None,
        cv=None,
        scoring=None,
        refit=True,
        n_jobs=None,
        random_state=None,
    ):
        self.block = block
        self.activation = activation
        self.n_gates = n_gates
        self.gate_rank = gate_rank
        self.n_groups = n_groups
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.betas = betas
        self.eps = eps
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs

    def _beta_search(self):
        return BetaSearch(
            self.betas, self.eps, self.cv, self.scoring, self.refit, self.n_jobs
        )

    def _with_given_beta(self):
        parameters = self.get_params(deep=False)
        shared = ConvexAttentionClassifier().get_params(deep=False).keys() - {"beta"}
        return ConvexAttentionClassifier(**{name: parameters[name] for name in shared})
