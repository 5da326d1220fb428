"""What a choice of a parameter by cross-validation needs: folds, and the best score."""

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight

#: Mean scores this close are equal: which candidate wins must not hang on rounding.
_SAME_SCORE = 1e-9


class FoldedSamples(NamedTuple):
    """What is split into folds.

    Attributes
    ----------
    X : indexable
        Samples of a form that scorers can pass on.

    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets.

    sample_weight : ndarray of shape (n_samples,) or None
        Weights, in the fit and in the score.

    selected : ndarray of shape (n_samples,) or None
        Positions of the tokens to select, where an estimator is given them.
    """

    X: Any
    y: np.ndarray
    sample_weight: np.ndarray | None
    selected: np.ndarray | None

    @classmethod
    def make(cls, X, y, sample_weight, selected=None):
        """Check what `fit` was given, and make it indexable."""
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, y)
        if selected is not None:
            selected = np.asarray(selected)
        return cls(indexable(X)[0], y, sample_weight, selected)

    def take(self, indices):
        """Return the samples in `indices`."""
        return FoldedSamples(
            _safe_indexing(self.X, indices),
            *(None if each is None else each[indices] for each in self[1:]),
        )

    def score(self, model, scorer):
        """Return the score of a model on these samples, by their weights."""
        weights = {}
        if self.sample_weight is not None:
            weights["sample_weight"] = self.sample_weight
        return scorer(model, self.X, self.y, **weights)


@dataclass(frozen=True)
class Fold:
    """What a fold has come to.

    Attributes
    ----------
    scores : ndarray of shape (n_candidates,)
        On the held-out samples.

    state : dict
        Fitted attributes of the model of the highest score.

    classes : ndarray of shape (n_classes,) or None
        Labels in the fold; None for numbers.

    n_unfinished : int
        Fits that did not converge.
    """

    scores: np.ndarray
    state: dict
    classes: np.ndarray | None
    n_unfinished: int


def fit_fold(fit_candidates, template, n_candidates, samples, train, test, scorer):
    """Fit the models of all candidates on a fold, and score them.

    Parameters
    ----------
    fit_candidates : callable
        ``fit_candidates(model, inside)`` prepares a copy of the template for the
        samples inside the fold, and yields ``(candidate, state, is_finished)``: the
        index of a candidate, the fitted attributes of its model, and whether the fit
        converged.

    template : estimator instance
        Unfitted.

    n_candidates : int
        Models of a fold.

    samples : FoldedSamples
        All training samples.

    train, test : ndarray
        Indices of the samples inside and outside.

    scorer : callable
        ``scorer(estimator, X, y)``.

    Returns
    -------
    fold : Fold
    """
    model, outside = copy.copy(template), samples.take(test)
    scores, states, n_unfinished = np.empty(n_candidates), {}, 0
    for candidate, state, is_finished in fit_candidates(model, samples.take(train)):
        vars(model).update(state)
        scores[candidate] = outside.score(model, scorer)
        states[candidate] = state
        n_unfinished += not is_finished
    classes = getattr(model, "classes_", None)
    return Fold(scores, states[first_best(scores)], classes, n_unfinished)


def fit_folds(
    fit_candidates, template, n_candidates, samples, splits, scorer, *, n_jobs, reporter
):
    """Return the `Fold` of each split, up to the one where a callback stops.

    Parameters
    ----------
    fit_candidates, template, n_candidates, samples, scorer : object
        As in :func:`fit_fold`.

    splits : list of (ndarray, ndarray)
        Training and held-out samples of each fold.

    n_jobs : int or None
        Folds that are fitted at the same time.

    reporter : IterationReporter
        Is told about each fold.

    Returns
    -------
    folds : list of Fold
    """
    results = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(fit_fold)(
            fit_candidates, template, n_candidates, samples, train, test, scorer
        )
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


def check_same_classes(folds, classes):
    """Refuse to average the models of folds that know different classes."""
    if any(not np.array_equal(fold.classes, classes) for fold in folds):
        raise ValueError(
            "refit=False averages the models of the folds, but a class is absent from "
            "a fold. Use refit=True, or fewer folds."
        )


def first_best(scores):
    """Return the index of the highest score, the first among equals."""
    best = scores.max()
    return int(np.argmax(scores >= best - _SAME_SCORE * abs(best)))
