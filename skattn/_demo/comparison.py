"""Evaluation of several models on one problem."""

import warnings
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

import numpy as np
from joblib import parallel_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from skattn.selection import TokenSelector

KEPT_DEFINITION = (
    "share of the held-out tokens that TokenSelector keeps by default, the smallest "
    "set of each sample with 95 % of its attention; pooling looks at all tokens"
)


class Evaluation(NamedTuple):
    """How one model did."""

    #: Name of the model.
    model: str
    #: Held-out accuracy, one number a split; or a run, after `over_runs`.
    accuracies: np.ndarray
    #: Median seconds of a fit: the first of a process also pays for imports.
    fit_time: float
    #: Mean share of the held-out tokens that the model keeps.
    share_kept: float
    #: Fits that ended at the iteration limit of an estimator, and all fits.
    n_at_limit: int
    n_fits: int


def evaluate(models, problem, *, n_jobs=1, callbacks=()):
    """Fit every model on every split and measure it on what is held out.

    Parameters
    ----------
    models : dict of str to Pipeline
        The models by name.

    problem : Problem
        Samples, labels and splits.

    n_jobs : int, default=1
        Fits to run at a time.

    callbacks : sequence of scikit-learn callbacks, default=()
        Hear about the progress.

    Returns
    -------
    evaluations : list of Evaluation
        In the order of `models`.
    """
    pipelines = list(models.values())
    # A search over one "parameter", the model, does the bookkeeping, runs in parallel
    # and reports to callbacks.
    search = GridSearchCV(
        _TimedPipeline([("model", pipelines[0])]),
        {"model": pipelines},
        scoring=_measure,
        cv=problem.splits,
        refit=False,
        n_jobs=n_jobs,
        error_score="raise",
    )
    search.set_callbacks(*callbacks)
    with _quiet_single_threads():
        search.fit(problem.X, problem.y)
    n_fits = len(problem.splits)
    accuracies, times, shares, at_limit = (
        np.column_stack(
            [search.cv_results_[f"split{k}_test_{name}"] for k in range(n_fits)]
        )
        for name in ("accuracy", "fit_time", "share_kept", "at_limit")
    )
    return [
        Evaluation(
            name,
            accuracies[row],
            float(np.median(times[row])),
            float(shares[row].mean()),
            int(at_limit[row].sum()),
            n_fits,
        )
        for row, name in enumerate(models)
    ]


def fit_model(pipeline, X, y, *, n_jobs=1):
    """Fit one model in the conditions of `evaluate`.

    Parameters
    ----------
    pipeline : Pipeline
        The model.

    X : Tokens
        Training samples.

    y : ndarray of shape (n_samples,)
        Their labels.

    n_jobs : int, default=1
        As in `evaluate`; more than one means a worker process here.

    Returns
    -------
    fitted : Pipeline
        The fitted model.
    """
    with _quiet_single_threads():
        return Parallel(n_jobs=n_jobs)([delayed(pipeline.fit)(X, y)])[0]


@contextmanager
def _quiet_single_threads():
    """Let worker processes compute in one thread each and not warn.

    The tensors are small: several threads would spend their time waiting for each
    other. What does not converge is counted instead, in `n_at_limit`.
    """
    with (
        warnings.catch_warnings(),
        parallel_config(backend="loky", inner_max_num_threads=1),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


class _TimedPipeline(Pipeline):
    """A pipeline that knows its time of fitting; `GridSearchCV` keeps only means."""

    def fit(self, X, y):
        start = perf_counter()
        super().fit(X, y)
        self.fit_time_ = perf_counter() - start
        return self


def over_runs(runs):
    """Merge evaluations of the same models in several runs.

    Parameters
    ----------
    runs : list of list of Evaluation
        What `evaluate` returned, once a run.

    Returns
    -------
    evaluations : list of Evaluation
        One a model; its accuracies are the means of the runs.
    """
    return [
        Evaluation(
            of_model[0].model,
            np.array([run.accuracies.mean() for run in of_model]),
            float(np.mean([run.fit_time for run in of_model])),
            float(np.mean([run.share_kept for run in of_model])),
            sum(run.n_at_limit for run in of_model),
            sum(run.n_fits for run in of_model),
        )
        for of_model in zip(*runs, strict=True)
    ]


def _measure(fitted, X, y):
    """Score a fitted ``_TimedPipeline([("model", pipeline)])`` for `GridSearchCV`."""
    pipeline = fitted["model"]
    return {
        "accuracy": pipeline.score(X, y),
        "fit_time": fitted.fit_time_,
        "share_kept": share_kept(pipeline, X),
        "at_limit": any(_ended_at_limit(step) for _, step in pipeline.steps),
    }


def share_kept(pipeline, X):
    """Return the share of the tokens of X that are needed for 95 % of the attention.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted, with at most one step that attends, which is not the first.

    X : Tokens
        The samples.

    Returns
    -------
    share : float
        1 for a pipeline without attention.
    """
    for index, (_, step) in enumerate(pipeline.steps):
        step = getattr(step, "best_estimator_", step)
        if hasattr(step, "attention_weights"):
            step = TokenSelector(step, prefit=True)
        if isinstance(step, TokenSelector):
            kept = step.get_support(pipeline[:index].transform(X))
            return float(np.concatenate(kept).sum() / X.n_tokens)
    return 1.0


def _ended_at_limit(step):
    step = getattr(step, "best_estimator_", step)
    estimator = getattr(step, "estimator_", step)
    limit = getattr(estimator, "max_iter", -1)
    # For SVC -1 means no limit.
    return limit > 0 and bool(np.max(getattr(estimator, "n_iter_", 0)) >= limit)
