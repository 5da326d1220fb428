"""The support vector machine over tokens, with C chosen by cross-validation."""

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.callback import with_callbacks
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval, StrOptions

from skattn._fitting import all_or_nothing, warn_not_converged
from skattn.estimators._callbacks import IterationReporter
from skattn.estimators._folds import (
    FoldedSamples,
    check_same_classes,
    first_best,
    fit_folds,
)
from skattn.estimators._token_svm import TokenSVM

#: What a model is, when it comes from averaging those of the folds.
_AVERAGED = ("attention_coef_", "coef_", "intercept_")


class TokenSVMCV(TokenSVM):
    """A :class:`TokenSVM` whose `C` is chosen by cross-validation.

    In each fold the models of all `Cs` are fitted from the smallest C to the largest.
    They begin with the same selection of tokens, so that the convex problem is built
    once and each solution is the start of the next.

    Parameters
    ----------
    Cs : int or list of float > 0, default=10
        The candidates; a number stands for that many on a logarithmic scale from 1e-4
        to 1e4. Each is a `C` of :class:`TokenSVM`, and finite.

    norm, query, mapping, head, head_C, tokens, max_iter, solver, tol, class_weight, \
            random_state
        As in :class:`TokenSVM`.

    cv : int, cross-validation generator or iterable, default=None
        How samples are split into folds, as everywhere in scikit-learn: None is a
        stratified split into 5.

    scoring : str or callable, default=None
        Name of a scorer, or a callable ``scorer(estimator, X, y)``; None is accuracy.

    refit : bool, default=True
        Whether a model with the best C is fitted on all samples. Otherwise weights are
        the means of those of the folds, at the best C of each.

    n_jobs : int, default=None
        Number of folds that are fitted at the same time.

    Attributes
    ----------
    C_ : float
        The C of the highest mean score, the first among equals. With ``refit=False``
        the mean of the best C of each fold.

    Cs_ : ndarray of shape (n_Cs,)
        The candidates.

    scores_ : ndarray of shape (n_folds, n_Cs)
        Score of each candidate on the held-out samples of each fold.

    attention_coef_ : ndarray of shape (n_token_features,) or \
            (n_token_features, n_query_features)
        The weights of attention: a prompt, or W.

    coef_ : ndarray of shape (1, n_token_features) or (n_classes, n_token_features)
        Weights of the head.

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Offsets of the head.

    classes_ : ndarray of shape (n_classes,)
        The labels.

    selected_, dual_coef_, slack_, support_tokens_, objective_, duality_gap_, solver_, \
            n_iter_, loss_curve_
        As in :class:`TokenSVM`, of the model with the best C; absent with
        ``refit=False``.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    n_token_features_ : int
        Width of the tokens that attention sees.

    n_query_features_in_ : int
        Features of a query, with ``query="given"``.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    See Also
    --------
    skattn.TokenSVM : The same with a C of your own.

    Examples
    --------
    >>> from skattn import TokenSVMCV
    >>> from skattn.datasets import make_token_selection
    >>> X, y, planted = make_token_selection(n_samples=60, random_state=0)
    >>> model = TokenSVMCV(Cs=[0.01, 1.0], cv=3).fit(X, y)
    >>> model.scores_.shape
    (3, 2)
    >>> model.C_ in model.Cs_
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: constraint
            for name, constraint in TokenSVM._parameter_constraints.items()
            if name != "C"
        },
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        Cs=10,
        norm="fro",
        query="prompt",
        mapping="sparsemax",
        head="svm",
        head_C=0.03,
        tokens="score",
        max_iter=5,
        solver="auto",
        tol=1e-8,
        class_weight=None,
        cv=None,
        scoring=None,
        refit=True,
        n_jobs=None,
        random_state=None,
    ):
        self.Cs = Cs
        self.norm = norm
        self.query = query
        self.mapping = mapping
        self.head = head
        self.head_C = head_C
        self.tokens = tokens
        self.max_iter = max_iter
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sample_weight=None, query=None, selected=None):
        """Choose C by cross-validation, and fit with it.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample, when fitting and in the score of its fold.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        selected : array-like of shape (n_samples,), default=None
            Position of the token to select in each sample, for ``tokens="given"``.

        Returns
        -------
        self : TokenSVMCV
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed, a C is not positive and finite, or there is only
            one class in all samples or in those of a fold.

        Warns
        -----
        ConvergenceWarning
            If the selection does not settle, or a convex problem does not reach `tol`:
            one warning for the folds, and those of :class:`TokenSVM` for the last fit.
        """
        self.Cs_ = _read_candidates(self.Cs)
        training = self._read_training(X, y, sample_weight, query, selected)
        labels = self.classes_[training.y]
        splits = list(check_cv(self.cv, labels, classifier=True).split(X, labels))
        reporter = IterationReporter(
            self,
            "fold" if not self.refit else "fold or refit",
            len(splits) + self.refit,
            X=X,
            y=y,
            metadata={"sample_weight": sample_weight, "query": query},
        )
        template = self._with_one_C()
        folds = fit_folds(
            RisingCs(self.Cs_),
            template,
            len(self.Cs_),
            FoldedSamples.make(
                # Scorers pass samples on, but not queries: these travel inside.
                X if query is None else _container(training.tokens),
                labels,
                sample_weight,
                selected,
            ),
            splits,
            check_scoring(template, scoring=self.scoring),
            n_jobs=self.n_jobs,
            reporter=reporter,
        )
        self.scores_ = np.array([fold.scores for fold in folds])
        n_unfinished = sum(fold.n_unfinished for fold in folds)
        if n_unfinished:
            warn_not_converged(
                f"{n_unfinished} of {self.scores_.size} fits in the folds did not "
                "converge: a selection of tokens did not settle, or a margin problem "
                "did not reach tol. Scale the features, or increase max_iter or tol.",
                n_functions_below_fit=0,
            )
        if self.refit:
            self.C_ = float(self.Cs_[first_best(self.scores_.mean(axis=0))])
            reporter.begin_iteration()
            rounds = self._alternate(training, self.C_, reporter=None)
            for message in self._complaints(rounds):
                warn_not_converged(message, n_functions_below_fit=0)
            state = self._state_after(rounds, training.tokens)
            reporter.end_iteration(lambda: state)
        else:
            state = _average(folds, self.classes_)
            best = [first_best(scores) for scores in self.scores_]
            self.C_ = float(self.Cs_[best].mean())
            state["n_token_features_"] = training.tokens.n_features
        for name, value in state.items():
            setattr(self, name, value)
        reporter.end(lambda: state)
        return self

    def _with_one_C(self):
        """Return an unfitted estimator that looks at its C."""
        parameters = self.get_params(deep=False)
        shared = TokenSVM._parameter_constraints.keys() - {"C"}
        return TokenSVM(**{name: parameters[name] for name in shared})


@dataclass(frozen=True)
class RisingCs:
    """Fits the models of all `Cs` on the samples of a fold, each from the one before.

    Parameters
    ----------
    Cs : ndarray of shape (n_Cs,)
        In any order; the smallest comes first.
    """

    Cs: np.ndarray

    def __call__(self, model, inside):
        """Yield index, weights and success of each C."""
        training = model._read_training(
            inside.X, inside.y, inside.sample_weight, None, inside.selected
        )
        rounds = None
        for candidate in np.argsort(self.Cs, kind="stable"):
            model.C = self.Cs[candidate]
            rounds = model._alternate(training, model.C, reporter=None, earlier=rounds)
            state = model._state_after(rounds, training.tokens)
            # What concerns the samples of the fold would only travel and be dropped.
            weights = {name: state[name] for name in _AVERAGED}
            yield candidate, weights, not model._complaints(rounds)


def _average(folds, classes):
    check_same_classes(folds, classes)
    return {
        name: np.mean([fold.state[name] for fold in folds], axis=0)
        for name in _AVERAGED
    }


def _read_candidates(Cs):
    if isinstance(Cs, Integral):
        return np.logspace(-4, 4, Cs)
    Cs = np.asarray(Cs, dtype=np.float64)
    if Cs.ndim != 1 or Cs.size == 0:
        raise ValueError(
            f"Cs must be a number or a list of them, got shape {Cs.shape}."
        )
    invalid = ~((Cs > 0) & (Cs < np.inf))
    if invalid.any():
        raise ValueError(
            f"Cs must be above 0 and finite, got {Cs[invalid][0]}. For a hard margin "
            "use TokenSVM(C=np.inf)."
        )
    return Cs


def _container(tokens):
    return tokens.to_tokens() if hasattr(tokens, "to_tokens") else tokens
