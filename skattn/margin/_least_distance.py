"""The shortest vector under linear constraints, by non-negative least squares."""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.optimize import nnls

#: Singular values of the equalities below this share of the largest are rounding.
RANK_TOLERANCE = 1e-12

#: The units of length that are tried: each takes the length that the one before found.
MAX_UNITS = 3

#: Lengths within this factor of the unit cost no digits worth having.
ENOUGH = 10.0


class LeastDistance(NamedTuple):
    """A vector and its multipliers, or the multipliers of a contradiction.

    Parameters
    ----------
    point : ndarray of shape (r,)
        ``rows.T @ dual``.

    dual : ndarray of shape (m,)
        The multipliers of the rows. Where nothing meets them all, `point` almost
        vanishes while ``required @ dual`` is above 0.
    """

    point: np.ndarray
    dual: np.ndarray


def least_distance(rows, required, is_equality):
    """Find the shortest vector with ``rows @ point >= required``, or ``==``.

    Equalities are solved first. What inequalities ask of the rest of the vector is a
    least-distance problem, which non-negative least squares solves exactly, or shows
    to have no solution (Lawson and Hanson 1974, section 23.4).

    Parameters
    ----------
    rows : ndarray of shape (m, r)

    required : ndarray of shape (m,)
        Where there are inequalities, 0 in equalities.

    is_equality : boolean array of shape (m,)

    Yields
    ------
    outcome : LeastDistance
        One or several, the later the more precise. A certificate has to tell which is
        a solution: that the smallest combination of rows is as good as 0 is a matter
        of rounding.

    References
    ----------
    C. L. Lawson and R. J. Hanson (1974), "Solving Least Squares Problems".
    """
    equalities, targets = rows[is_equality], required[is_equality]
    start, complement = _solve_equalities(equalities, targets, rows.shape[1])
    inequalities = rows[~is_equality]
    reduced = inequalities @ complement
    # Of rows that equalities decide only rounding is left, and duals to divide by it.
    lengths = np.linalg.norm(inequalities, axis=1)
    is_decided = np.linalg.norm(reduced, axis=1) <= RANK_TOLERANCE * lengths
    reduced[is_decided] = 0
    if targets.any():
        dual = np.zeros(required.size)
        dual[is_equality] = targets - equalities @ start
        yield LeastDistance(rows.T @ dual, dual)
    for multipliers in _combinations(reduced, required[~is_equality]):
        dual = np.zeros(required.size)
        dual[~is_equality] = multipliers
        point = start + complement @ (reduced.T @ multipliers)
        if equalities.size:
            rest = point - inequalities.T @ multipliers
            dual[is_equality] = linalg.lstsq(equalities.T, rest)[0]
        yield LeastDistance(point, dual)


def _solve_equalities(equalities, targets, n_columns):
    """Return the shortest solution and a basis of what equalities leave free."""
    if equalities.size == 0:
        return np.zeros(n_columns), np.eye(n_columns)
    left, values, right = np.linalg.svd(equalities)
    rank = int(np.sum(values > RANK_TOLERANCE * values[0]))
    start = right[:rank].T @ ((left[:, :rank].T @ targets) / values[:rank])
    return start, right[rank:].T


def _combinations(rows, required):
    """Yield multipliers of rows whose combination meets, or contradicts, them all."""
    if required.size == 0 or not (required > 0).any():
        yield np.zeros(required.size)
        return
    lengths = np.linalg.norm(rows, axis=1)
    is_impossible = (lengths == 0) & (required > 0)
    if is_impossible.any():
        yield is_impossible.astype(np.float64)
        return
    lengths[lengths == 0] = 1.0
    rows, required = rows / lengths[:, None], required / lengths
    unit = 1 / required.max()
    for _ in range(MAX_UNITS):
        system = np.vstack([rows.T, unit * required])
        target = np.zeros(system.shape[0])
        target[-1] = 1.0
        try:
            weights = nnls(system, target)[0]
        except RuntimeError:
            # scipy's limit on iterations.
            return
        direction = rows.T @ weights
        reached = rows @ direction
        is_positive = required > 0
        smallest = np.min(reached[is_positive] / required[is_positive])
        if smallest <= 0:
            yield weights / lengths
            return
        yield weights / (smallest * lengths)
        # The rows that have a weight hold with equality: their equations have digits
        # that the iterations of nnls have lost.
        active = weights > 0
        shortest = linalg.lstsq(rows[active], required[active])[0]
        exact = np.zeros(required.size)
        exact[active] = np.maximum(linalg.lstsq(rows[active].T, shortest)[0], 0)
        yield exact / lengths
        length = np.linalg.norm(direction) / smallest
        if length * unit < ENOUGH:
            return
        unit = 1 / length
