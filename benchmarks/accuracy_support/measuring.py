"""Accuracy and fit time of models, over splits and seeds."""

import time
import warnings
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning


class Measured(NamedTuple):
    """How one model did on one problem."""

    #: Mean accuracy of each repetition.
    accuracies: np.ndarray
    #: Median CPU time of a fit, in seconds.
    fit_time: float


def measure(make_model, problem, samples, *, seeds, n_jobs):
    """Fit a model on every split with every seed.

    Parameters
    ----------
    make_model : callable
        Given a seed, returns the model.

    problem : Problem
        Says what is predicted, and how the samples are divided.

    samples : Tokens or ndarray
        What the model sees: the tokens, the table, or the texts.

    seeds : sequence of int
        One a repetition; they shuffle the folds too, where there are folds.

    n_jobs : int
        Fits at a time.

    Returns
    -------
    measured : Measured
    """
    # The arrays are small: more threads in each process would wait for each other.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs)(
            delayed(fit_and_score)(make_model(seed), samples, problem.y, *split)
            for seed in seeds
            for split in problem.splits(seed)
        )
    accuracies, times = np.array(results).T
    return Measured(
        accuracies.reshape(len(seeds), -1).mean(axis=1), float(np.median(times))
    )


def fit_and_score(model, samples, y, train, test):
    """Return the accuracy on the test rows, and the CPU time of the fit."""
    model = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model.fit(samples[train], y[train])
        fit_time = time.process_time() - start
    return model.score(samples[test], y[test]), fit_time
