"""How beta is chosen: a path of betas in every fold, one of them for all samples."""

import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight

from skattn.convex import convex_path
from skattn.estimators._convex_state import state_of

#: Mean scores this close are equal: which beta wins must not hang on rounding.
_SAME_SCORE = 1e-9


@dataclass(frozen=True)
class BetaSearch:
    """The parameters of a choice of beta by cross-validation.

    Parameters are those of :class:`skattn.ConvexAttentionClassifierCV`.
    """

    betas: Any = 10
    eps: float = 1e-3
    cv: Any = None
    scoring: Any = None
    refit: bool = True
    n_jobs: int | None = None

    def __post_init__(self):
        """Refuse candidates that are no betas."""
        betas = np.asarray(self.betas, dtype=np.float64)
        if betas.ndim > 1 or betas.size == 0:
            raise ValueError(
                f"betas must be a number or a list of them, got shape {betas.shape}."
            )
        invalid = ~((betas > 0) & (betas < np.inf))
        if invalid.any():
            raise ValueError(
                f"betas must be above 0 and finite, got {betas[invalid][0]}."
            )

    def candidates(self, beta_max):
        """Return the betas from the largest to the smallest."""
        if isinstance(self.betas, Integral):
            return np.geomspace(beta_max, beta_max * self.eps, self.betas)
        return np.sort(np.asarray(self.betas, dtype=np.float64))[::-1]

    def splits(self, samples, classifier):
        """Return the training and held-out samples of each fold."""
        cv = check_cv(self.cv, samples.y, classifier=classifier)
        return list(cv.split(samples.X, samples.y))


class FoldedSamples(NamedTuple):
    """What is split into folds."""

    X: Any
    y: np.ndarray
    sample_weight: np.ndarray | None

    @classmethod
    def make(cls, X, y, sample_weight):
        """Make X a container that can be indexed."""
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, y)
        return cls(indexable(X)[0], y, sample_weight)

    def take(self, indices):
        """Return the samples in `indices`."""
        weight = self.sample_weight
        return FoldedSamples(
            _safe_indexing(self.X, indices),
            self.y[indices],
            None if weight is None else weight[indices],
        )


class Fold(NamedTuple):
    """Scores by beta, the fitted attributes of the best, fits that did not converge."""

    scores: np.ndarray
    state: dict
    classes: np.ndarray | None
    n_unfinished: int


def fit_folds(template, search, betas, samples, splits, seed, reporter):
    """Return the `Fold` of each split, up to the one where a callback stops.

    Parameters
    ----------
    template : estimator instance
        Is fitted in the folds, at the betas instead of its own.

    search : BetaSearch
        How models are scored, and how many folds are fitted at the same time.

    betas : ndarray of shape (n_betas,)
        From the largest to the smallest.

    samples : FoldedSamples
        All training samples.

    splits : list of (ndarray, ndarray)
        Training and held-out samples of each fold.

    seed : int
        Draws the gates, the same in all folds.

    reporter : IterationReporter
        Is told about each fold.
    """
    scorer = check_scoring(template, scoring=search.scoring)
    results = Parallel(n_jobs=search.n_jobs, return_as="generator")(
        delayed(_fit_fold)(template, betas, samples, train, test, seed, scorer)
        for train, test in splits
    )
    folds = []
    reporter.begin_iteration()
    for fold in results:
        folds.append(fold)
        is_stopped = reporter.end_iteration(lambda fold=fold: fold.state)
        if is_stopped or len(folds) == len(splits):
            break
        reporter.begin_iteration()
    return folds


def _fit_fold(template, betas, samples, train, test, seed, scorer):
    inside, outside = samples.take(train), samples.take(test)
    score_parameters = {}
    if outside.sample_weight is not None:
        score_parameters["sample_weight"] = outside.sample_weight
    template = copy.copy(template)
    training = template._read_training(*inside)
    gates, problem = template._make_problem(training, seed)
    solutions = convex_path(problem, betas, **template._solver_options())
    states = [state_of(gates, problem, solution) for solution in solutions]
    scores = np.empty(len(betas))
    for index, state in enumerate(states):
        vars(template).update(state)
        scores[index] = scorer(template, outside.X, outside.y, **score_parameters)
    n_unfinished = sum(solution.status != "optimal" for solution in solutions)
    classes = getattr(template, "classes_", None)
    return Fold(scores, states[first_best(scores)], classes, n_unfinished)


def first_best(scores):
    """Return the index of the highest score, the first among equals."""
    best = scores.max()
    return int(np.argmax(scores >= best - _SAME_SCORE * abs(best)))
