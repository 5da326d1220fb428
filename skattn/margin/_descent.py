"""Dual coordinate descent to a certified gap, compiled whole.

Small problems spend less time here than a call from Python costs, so that the check of
the bounds is compiled too; `skattn.margin.certificate` judges the outcome again.
"""

import numpy as np
from numba import njit

from skattn.margin._kernels import (
    FAST,
    activate_all,
    adjoint,
    descend_epoch,
    margins,
)

#: Epochs between two looks at the bounds.
CHECK_EVERY = 10

#: Share of the violation of the epoch before at which coordinates are set aside.
SET_ASIDE = 0.1


@njit(cache=True, nogil=True)
def descend(
    differences,
    offsets,
    queries,
    difference_norms,
    query_norms,
    C,
    dual,
    best_coef,
    best_dual,
    bounds,
    tol,
    max_epochs,
    random_state,
):
    """Lower the dual of the Frobenius problem until its bounds meet.

    Parameters
    ----------
    differences, offsets, queries, difference_norms, query_norms, C : arrays
        As in `descend_epoch`.

    dual : array of shape (m,)
        Within [0, C]; updated in place.

    best_coef, best_dual : arrays of shape (d, d_q), (m,)
        The candidates of the best bounds; updated in place.

    bounds : array of shape (2,)
        Best lower and upper bound, of ``|W|`` when all rows are hard, otherwise of the
        soft objective; updated in place.

    tol : float
        Relative gap at which to stop.

    max_epochs : int
        Epochs to run at most; the last ones always end in a check.

    random_state : uint64 array of shape (1,)
        Updated in place.

    Returns
    -------
    n_epochs : int
        Epochs that were run.
    """
    rows = np.arange(dual.size)
    n_active = np.diff(offsets)
    violation = np.inf
    n_epochs = 0
    coef = adjoint(differences, offsets, queries, dual)
    while n_epochs < max_epochs and not _is_reached(bounds, tol):
        for _ in range(min(CHECK_EVERY, max_epochs - n_epochs)):
            violation = descend_epoch(
                differences,
                offsets,
                queries,
                difference_norms,
                query_norms,
                C,
                coef,
                dual,
                rows,
                n_active,
                SET_ASIDE * violation,
                random_state,
            )
            n_epochs += 1
            if violation <= 0.1 * tol:
                break
        activate_all(offsets, n_active)
        # Rounding adds up in the running coef.
        coef = adjoint(differences, offsets, queries, dual)
        _keep_best(
            margins(differences, offsets, queries, coef),
            C,
            coef,
            dual,
            best_coef,
            best_dual,
            bounds,
        )
    return n_epochs


@njit(cache=True, nogil=True)
def _is_reached(bounds, tol):
    return bounds[1] < np.inf and bounds[1] - bounds[0] <= tol * bounds[1]


@njit(cache=True, nogil=True)
def _keep_best(row_margins, C, coef, dual, best_coef, best_dual, bounds):
    square = np.sum(coef * coef)
    lower = _lower_bound(C, dual, square)
    if lower > bounds[0]:
        bounds[0] = lower
        best_dual[:] = dual
    upper = _upper_bound(row_margins, C, square)
    if upper < bounds[1]:
        bounds[1] = upper
        best_coef[:] = coef


@njit(cache=True, nogil=True)
def _lower_bound(C, dual, square):
    total, largest_factor, is_all_hard = 0.0, np.inf, True
    for row in range(dual.size):
        total += dual[row]
        if C[row] < np.inf:
            is_all_hard = False
            if dual[row] > 0.0:
                largest_factor = min(largest_factor, C[row] / dual[row])
    if square == 0.0:
        return total if total == 0.0 or not is_all_hard else np.inf
    if is_all_hard:
        return total / np.sqrt(square)
    factor = min(total / square, largest_factor)
    return factor * total - 0.5 * factor**2 * square


@njit(cache=True, nogil=True)
def _upper_bound(row_margins, C, square):
    smallest, smallest_hard, is_all_hard = np.inf, np.inf, True
    for row in range(C.size):
        smallest = min(smallest, row_margins[row])
        if C[row] == np.inf:
            smallest_hard = min(smallest_hard, row_margins[row])
        else:
            is_all_hard = False
    if smallest_hard <= 0.0:
        return np.inf
    if is_all_hard:
        return np.sqrt(square) / smallest
    # A soft objective leaves the scale free above what the hard rows need.
    least = max(1.0, 1.0 / smallest_hard)
    value = _soft_value(row_margins, C, square, least)
    if smallest > 0.0:
        value = min(
            value, _soft_value(row_margins, C, square, max(least, 1.0 / smallest))
        )
    return value


@njit(cache=True, nogil=True, fastmath=FAST)
def _soft_value(row_margins, C, square, factor):
    value = 0.5 * factor**2 * square
    for row in range(C.size):
        lacking = 1.0 - factor * row_margins[row]
        if lacking > 0.0 and C[row] < np.inf:
            value += C[row] * lacking
    return value
