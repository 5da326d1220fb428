"""Batches of problems: an array of one more axis, solved or checked in one call."""

from contextlib import contextmanager

import numpy as np


def is_batch(X):
    """Whether X holds several problems: an array of shape (B, n, T, d)."""
    return isinstance(X, np.ndarray) and X.ndim == 4


def check_batch(X, **parts):
    """Refuse a batch of no problem, and parts that do not hold one entry a problem.

    Parameters
    ----------
    X : ndarray of shape (B, n, T, d)

    **parts : sequences or None
        By the names that errors call them.

    Raises
    ------
    ValueError
        Naming the part.
    """
    n_problems = len(X)
    if n_problems == 0:
        raise ValueError("X must hold at least one problem, got a batch of none.")
    for name, part in parts.items():
        if part is not None and not has_length(part, n_problems):
            got = len(part) if has_length(part) else repr(part)
            raise ValueError(
                f"{name} must hold one entry for each of the {n_problems} problems in "
                f"the batch, got {got}."
            )


def has_length(parts, length=None):
    """Whether something has a length, this one if one is given."""
    try:
        actual = len(parts)
    except TypeError:
        return False
    return length is None or actual == length


@contextmanager
def naming_problem(index):
    """Say in errors which problem of the batch they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"In problem {index} of the batch: {error}") from error
