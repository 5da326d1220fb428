"""Compiled iterations of the alternating directions for the nuclear norm.

Importing this module loads numba: the solver does it when it runs.
"""

import numpy as np
from numba import njit

from skattn.margin._kernels import activate_all, adjoint, descend_epoch, margins

#: Alternations between two looks at the bounds.
CHECK_EVERY = 5

#: Over-relaxation: the point moves by this many times the difference.
RELAXATION = 1.6

#: Epochs of coordinate descent in one alternation at most, and the share of the first
#: one's violation at which they end: with less care the alternations may diverge.
MAX_EPOCHS = 20
ACCURACY = 0.3

#: When one relative residual is IMBALANCE times the other the weight changes by the
#: factor REBALANCE, up to LAST_REBALANCE: a weight that kept changing could prevent
#: convergence.
IMBALANCE = 1.5
REBALANCE = 1.5
LAST_REBALANCE = 500

#: At a weight of the rank, singular values lose their mean in a step. Weights farther
#: than this factor outside the possible ranks are taken for errors of the balance.
WEIGHT_RANGE = 10


@njit(cache=True, nogil=True)
def alternate(
    blocks, C, coef, dual, point, shift, weight, order, tol, n_before, max_iter
):
    """Alternate between the margins, which `coef` meets, and the norm, of `point`.

    Parameters
    ----------
    blocks : tuple of arrays
        Differences, offsets, queries and the squared norms of differences and
        queries, as in `descend_epoch`.

    C : array of shape (m,)
        Cost of slack, infinite where hard.

    coef, dual, point, shift : arrays of shape (r, s), (m,), (r, s), (r, s)
        The iterate, updated in place. Before and after,
        ``coef = point - shift + adjoint(dual)``; the duals of the problem are
        ``weight * dual``.

    weight : array of shape (1,)
        Weight of the distance between the two, updated in place.

    order : tuple of arrays
        Rows, numbers of active ones and random state, as in `descend_epoch`.

    tol : float
        Relative gap of the bounds that `point` and `dual` give at which to stop.

    n_before, max_iter : int
        Alternations done before, and to be done at most.

    Returns
    -------
    n_iter : int
        Alternations done.
    """
    differences, offsets, queries = blocks[:3]
    n_iter = 0
    while n_iter < max_iter:
        scaled_C = C / weight[0]
        activate_all(offsets, order[1])
        threshold = np.inf
        distance = movement = size = 0.0
        # What coordinate descent sets aside comes back at the next look only.
        for _ in range(min(CHECK_EVERY, max_iter - n_iter)):
            threshold = _meet_margins(blocks, scaled_C, coef, dual, order, threshold)
            distance, movement, size = _lower_norm(coef, point, shift, weight[0])
            n_iter += 1
        # Updates of coef pile up rounding: it is formed anew.
        gradient = adjoint(differences, offsets, queries, dual)
        coef[:] = point - shift + gradient
        reached = margins(differences, offsets, queries, point)
        gap = _gap(reached, C, weight[0] * dual, size, weight[0] * _spectral(gradient))
        if gap <= tol:
            break
        if n_before + n_iter < LAST_REBALANCE:
            factor = _balancing_factor(
                distance * np.sqrt(np.sum(shift**2)),
                movement * np.sqrt(np.sum(point**2)),
                weight[0],
                min(point.shape),
            )
            weight[0] *= factor
            dual /= factor
            shift /= factor
            coef[:] = point - shift + gradient / factor
    return n_iter


@njit(cache=True, nogil=True)
def shrink(matrix, weight):
    """Minimise ``|V|_*^2 / 2 + weight / 2 |V - matrix|^2`` over V.

    The singular values s of `matrix` lose ``|V|_* / weight``, those below it vanish.
    When k remain their sum is ``(s_1 + ... + s_k) / (1 + k / weight)``. They come from
    the eigenvalues of ``matrix.T @ matrix``, which lack precision only where they are
    small, and those vanish.

    Parameters
    ----------
    matrix : ndarray of shape (r, s)

    weight : float

    Returns
    -------
    V : ndarray of shape (r, s)

    size : float
        Its nuclear norm.
    """
    if matrix.shape[0] < matrix.shape[1]:
        transposed, size = shrink(np.ascontiguousarray(matrix.T), weight)
        return np.ascontiguousarray(transposed.T), size
    eigenvalues, vectors = np.linalg.eigh(matrix.T @ matrix)
    values = np.sqrt(np.maximum(eigenvalues, 0.0))[::-1]
    total, n_kept = 0.0, 0
    for value in values:
        # The next value remains if it exceeds the level that it itself would set.
        if value * (weight + n_kept + 1) <= total + value:
            break
        total += value
        n_kept += 1
    level = total / (weight + n_kept)
    kept = np.ascontiguousarray(vectors[:, vectors.shape[1] - n_kept :])
    factors = 1 - level / values[:n_kept][::-1]
    return (matrix @ kept) * factors @ kept.T, total - n_kept * level


@njit(cache=True, nogil=True)
def _meet_margins(blocks, C, coef, dual, order, threshold):
    differences, offsets, queries, difference_norms, query_norms = blocks
    rows, n_active, random_state = order
    first_violation = 0.0
    for epoch in range(MAX_EPOCHS):
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
            threshold,
            random_state,
        )
        if epoch == 0:
            first_violation = violation
        threshold = min(threshold, violation)
        if violation <= ACCURACY * first_violation:
            break
    # How far the margins of the next alternation are likely to be off.
    return first_violation


@njit(cache=True, nogil=True)
def _lower_norm(coef, point, shift, weight):
    shifted = RELAXATION * coef + (1 - RELAXATION) * point + shift
    new_point, size = shrink(shifted, weight)
    new_shift = shifted - new_point
    distance = np.sqrt(np.sum((coef - new_point) ** 2))
    movement = np.sqrt(np.sum((new_point - point) ** 2))
    coef += new_point - new_shift - (point - shift)
    point[:] = new_point
    shift[:] = new_shift
    return distance, movement, size


@njit(cache=True, nogil=True)
def _balancing_factor(distance, movement, weight, largest_rank):
    # Residuals relative to what they are residuals of (Wohlberg 2017, arXiv
    # 1704.06209): the distance to the point, the movement to the shift.
    factor = 1.0
    if distance > IMBALANCE * movement:
        factor = REBALANCE
    elif movement > IMBALANCE * distance:
        factor = 1 / REBALANCE
    if 1 / WEIGHT_RANGE <= weight * factor <= WEIGHT_RANGE * largest_rank:
        return factor
    return 1.0


@njit(cache=True, nogil=True)
def _spectral(matrix):
    if matrix.shape[0] < matrix.shape[1]:
        matrix = np.ascontiguousarray(matrix.T)
    largest = np.linalg.eigvalsh(matrix.T @ matrix)[-1]
    return np.sqrt(max(largest, 0.0))


@njit(cache=True, nogil=True)
def _gap(margins, C, dual, size, dual_size):
    # The bounds of `skattn.margin.certificate`, which has the last word.
    total, smallest, room, n_hard = 0.0, np.inf, np.inf, 0
    for row in range(C.size):
        total += dual[row]
        if np.isinf(C[row]):
            n_hard += 1
            smallest = min(smallest, margins[row])
        elif dual[row] > 0:
            room = min(room, C[row] / dual[row])
    if n_hard and smallest <= 0:
        return np.inf
    if n_hard == C.size:
        if dual_size == 0:
            return np.inf
        return 1 - (total / dual_size) / (size / smallest)
    factor = max(1.0, 1 / smallest) if n_hard else 1.0
    upper = 0.5 * (factor * size) ** 2
    for row in range(C.size):
        if not np.isinf(C[row]):
            upper += C[row] * max(1 - factor * margins[row], 0.0)
    factor = room if dual_size == 0 else min(total / dual_size**2, room)
    if np.isinf(factor):
        return np.inf
    return 1 - (factor * total - 0.5 * (factor * dual_size) ** 2) / upper
