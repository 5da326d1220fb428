"""What every `fit` promises."""

import functools
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.validation import _check_sample_weight


def all_or_nothing(method):
    """Decorate a fit method: if it raises, the estimator stays as it was."""

    @functools.wraps(method)
    def fit_or_restore(estimator, *args, **kwargs):
        before = dict(vars(estimator))
        try:
            return method(estimator, *args, **kwargs)
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return fit_or_restore


def effective_weights(sample_weight, class_weight, classes, y):
    """Return sample weights times class weights.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or None
        As given to `fit`.

    class_weight : dict, "balanced" or None
        As given to the constructor.

    classes : ndarray of shape (n_classes,)
        The labels, sorted.

    y : ndarray of shape (n_samples,)
        Indices into `classes`.

    Returns
    -------
    weights : ndarray of shape (n_samples,)
        Non-negative, not all zero.
    """
    # Given y, which has a length whatever the form of X.
    weights = _check_sample_weight(
        sample_weight, y, dtype=np.float64, ensure_non_negative=True
    )
    _refuse_no_weight(weights)
    if class_weight is not None:
        weights = weights * _weights_of_classes(class_weight, classes, y, weights)[y]
        _refuse_no_weight(weights)
    return weights


def _weights_of_classes(class_weight, classes, y, weights):
    if class_weight != "balanced":
        return compute_class_weight(class_weight, classes=classes, y=classes[y])
    # A class whose samples all have weight zero counts as absent: balancing it would
    # divide by zero.
    used = weights > 0
    present = np.unique(y[used])
    by_class = np.zeros(len(classes))
    by_class[present] = compute_class_weight(
        class_weight, classes=present, y=y[used], sample_weight=weights[used]
    )
    return by_class


def _refuse_no_weight(weights):
    if not (weights > 0).any():
        raise ValueError("Sample weights must contain at least one non-zero number.")


def local_generator(random_state):
    """Return the generator that `random_state` means, of its own for None.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        The parameter of an estimator.

    Returns
    -------
    rng : RandomState
        A generator of its own for an int and for None.
    """
    if random_state is None:
        return np.random.RandomState()
    return check_random_state(random_state)


def refuse_one_class(estimator, classes):
    """Raise if there is nothing to tell apart."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in the "
            f"data, but the data contains only one class: {classes[0]!r}."
        )


def refuse_class_without_weight(estimator, classes, y, weights):
    """Raise if all samples of a class have weight zero.

    Parameters are those of :func:`effective_weights`, which gives the weights.
    """
    without = np.setdiff1d(np.arange(len(classes)), y[weights > 0])
    if len(without):
        raise ValueError(
            f"{type(estimator).__name__} needs samples of every class, but all samples "
            f"of class {classes[without[0]]!r} have weight zero. Leave them out."
        )


def warn_not_converged(message, n_functions_below_fit=2):
    """Warn the caller of a fit method.

    The warning names the caller's line: `fit` has three decorators, and this function
    is called `n_functions_below_fit` functions below it.
    """
    stacklevel = 6 + n_functions_below_fit
    warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)
