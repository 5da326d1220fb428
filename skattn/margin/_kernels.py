"""Compiled loops over constraints in blocks that share a query.

Block i owns the rows from ``offsets[i]`` to ``offsets[i + 1]`` of `differences` (the
dx) and has the query ``queries[i]``; a prompt has queries of one feature, 1. A coef is
always of shape (d, d_q) here, a dual of shape (m,). Importing this module loads numba:
solvers do it when they run.
"""

import numpy as np
from numba import njit

#: Floating-point sums may be reordered, but infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}

#: Visits to the coordinates of a block before the coef is updated.
N_PASSES = 3


@njit(cache=True, nogil=True, fastmath=FAST)
def margins(differences, offsets, queries, coef):
    """Return ``dx' W z`` for every row, an array of shape (m,)."""
    n_features = coef.shape[0]
    result = np.empty(differences.shape[0])
    projected = np.empty(n_features)
    for block in range(offsets.size - 1):
        _project(coef, queries[block], projected)
        for row in range(offsets[block], offsets[block + 1]):
            total = 0.0
            for feature in range(n_features):
                total += differences[row, feature] * projected[feature]
            result[row] = total
    return result


@njit(cache=True, nogil=True, fastmath=FAST)
def adjoint(differences, offsets, queries, dual):
    """Return the sum of ``dual * dx z'``, an array of shape (d, d_q)."""
    n_features = differences.shape[1]
    coef = np.zeros((n_features, queries.shape[1]))
    combined = np.empty(n_features)
    for block in range(offsets.size - 1):
        combined[:] = 0.0
        is_zero = True
        for row in range(offsets[block], offsets[block + 1]):
            weight = dual[row]
            if weight != 0.0:
                is_zero = False
                for feature in range(n_features):
                    combined[feature] += weight * differences[row, feature]
        if not is_zero:
            _add_outer(coef, combined, queries[block])
    return coef


@njit(cache=True, nogil=True, fastmath=FAST)
def squared_norms(rows):
    """Return the squared Euclidean norm of each row."""
    result = np.empty(rows.shape[0])
    for row in range(rows.shape[0]):
        total = 0.0
        for column in range(rows.shape[1]):
            total += rows[row, column] ** 2
        result[row] = total
    return result


@njit(cache=True, nogil=True)
def activate_all(offsets, n_active):
    """Bring back every coordinate that `descend_epoch` set aside."""
    for block in range(n_active.size):
        n_active[block] = offsets[block + 1] - offsets[block]


@njit(cache=True, nogil=True, fastmath=FAST)
def descend_epoch(
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
):
    """Visit every block with active coordinates once, in random order.

    In a block, with u = W z, each coordinate minimises the dual exactly in turn::

        a <- clip(a - (dx'u - 1) / (|dx|^2 |z|^2), 0, C)

    a few times over, then W takes the change of all of them at once. A coordinate at a
    bound whose margin lies beyond 1 by more than `threshold` is set aside: it is not
    visited again until `activate_all`. ``coef - adjoint(dual)`` stays what it was, so
    that a coef started at Q plus the adjoint solves the problem with W - Q in place of
    W in the norm.

    Parameters
    ----------
    differences, offsets, queries : arrays of shape (m, d), (n + 1,), (n, d_q)
        The constraints in blocks.

    difference_norms, query_norms : arrays of shape (m,), (n,)
        Squared norms of the rows of `differences` and `queries`.

    C : array of shape (m,)
        Upper bounds of the dual, infinite where hard.

    coef, dual : arrays of shape (d, d_q), (m,)
        Updated in place.

    rows, n_active : int arrays of shape (m,), (n,)
        The rows of a block, its first `n_active` being the active ones. Updated in
        place. A start: ``arange(m)`` and ``diff(offsets)``.

    threshold : float
        Usually the violation of the epoch before; infinite sets nothing aside.

    random_state : uint64 array of shape (1,)
        Updated in place.

    Returns
    -------
    violation : float
        Largest distance of a margin from where optimality wants it, as met on the
        first visit. Dimensionless, as margins are.
    """
    n_features = differences.shape[1]
    projected = np.empty(n_features)
    # What the last block visited has changed is added to the coef only when the next
    # one reads it: for a large coef, memory is what costs.
    change = np.zeros(n_features)
    changed_block = 0
    is_changed = False
    order = np.flatnonzero(n_active)
    _shuffle(order, random_state)
    violation = 0.0
    for block in order:
        if is_changed:
            _add_outer_and_project(
                coef, change, queries[changed_block], queries[block], projected
            )
            change[:] = 0.0
            is_changed = False
        else:
            _project(coef, queries[block], projected)
        changed_block = block
        first, n_rows = offsets[block], n_active[block]
        for visit in range(N_PASSES):
            block_violation = 0.0
            position = 0
            while position < n_rows:
                row = rows[first + position]
                before = dual[row]
                excess = -1.0
                for feature in range(n_features):
                    excess += differences[row, feature] * projected[feature]
                is_satisfied = (before <= 0.0 and excess >= 0.0) or (
                    before >= C[row] and excess <= 0.0
                )
                if is_satisfied:
                    if abs(excess) > threshold:
                        n_rows -= 1
                        rows[first + position] = rows[first + n_rows]
                        rows[first + n_rows] = row
                    else:
                        position += 1
                    continue
                position += 1
                block_violation = max(block_violation, abs(excess))
                after = _minimiser(
                    before, excess, difference_norms[row] * query_norms[block], C[row]
                )
                step = after - before
                if step != 0.0:
                    dual[row] = after
                    is_changed = True
                    scaled = step * query_norms[block]
                    for feature in range(n_features):
                        projected[feature] += scaled * differences[row, feature]
                        change[feature] += step * differences[row, feature]
            if visit == 0:
                violation = max(violation, block_violation)
            if block_violation <= 1e-3 * violation:
                break
        n_active[block] = n_rows
    if is_changed:
        _add_outer(coef, change, queries[changed_block])
    return violation


@njit(cache=True, nogil=True)
def _minimiser(dual, excess, curvature, upper):
    if curvature <= 0.0:
        # No dual moves this margin: with a cost of slack it takes all it may.
        return upper if np.isfinite(upper) else dual
    return min(max(dual - excess / curvature, 0.0), upper)


@njit(cache=True, nogil=True, fastmath=FAST)
def _project(coef, query, projected):
    for feature in range(coef.shape[0]):
        total = 0.0
        for query_feature in range(coef.shape[1]):
            total += coef[feature, query_feature] * query[query_feature]
        projected[feature] = total


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_outer_and_project(coef, left, right, query, projected):
    for feature in range(coef.shape[0]):
        weight = left[feature]
        total = 0.0
        for query_feature in range(coef.shape[1]):
            entry = coef[feature, query_feature] + weight * right[query_feature]
            coef[feature, query_feature] = entry
            total += entry * query[query_feature]
        projected[feature] = total


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_outer(coef, left, right):
    for feature in range(coef.shape[0]):
        weight = left[feature]
        if weight != 0.0:
            for query_feature in range(coef.shape[1]):
                coef[feature, query_feature] += weight * right[query_feature]


@njit(cache=True, nogil=True)
def _shuffle(items, random_state):
    # Fisher and Yates, over a linear congruential generator of our own: numba's is
    # shared by the whole process.
    for last in range(items.size - 1, 0, -1):
        random_state[0] = random_state[0] * np.uint64(6364136223846793005) + np.uint64(
            1442695040888963407
        )
        draw = np.int64((random_state[0] >> np.uint64(33)) % np.uint64(last + 1))
        items[last], items[draw] = items[draw], items[last]
