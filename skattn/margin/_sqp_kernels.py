"""The compiled loop of sequential quadratic programming; importing it loads numba."""

import numpy as np
from numba import njit

from skattn.margin._kernels import FAST

#: Passes over the constraints of a block while its part of the model is at hand.
N_PASSES = 3

#: A block is left once its violations are below this share of the largest one met.
BLOCK_TOLERANCE = 1e-2


@njit(cache=True, nogil=True, fastmath=FAST)
def descend_model(
    differences,
    offsets,
    queries,
    C,
    dual,
    slope,
    curvature,
    direction,
    twist,
    along,
    order,
    is_active,
):
    """Visit the blocks of `order` once, improving their duals one by one.

    The dual of the model is a quadratic in the duals whose margins are those of
    ``slope + twist * along * direction``, where `along` is the product of `direction`
    with what was added to the adjoint of the duals.

    Parameters
    ----------
    differences, offsets, queries, C : ndarray
        The constraints, as in `skattn.margin._blocks.Blocks`.

    dual : ndarray of shape (m,)
        Duals, changed in place.

    slope : ndarray of shape (d, d_q)
        Changed in place by `curvature` times the change of the adjoint.

    curvature, direction : ndarray of shape (d, d_q)
        The inverse Hessian of the model is ``diag(curvature) + twist * direction
        direction'``.

    twist, along : float
        As above.

    order : int array
        The blocks to visit.

    is_active : boolean array of shape (n_blocks,)
        Set for each visited block: whether any of its duals could be improved.

    Returns
    -------
    along : float
        As given, kept up to date.

    violation : float
        Largest violation of the optimality conditions met, in units of the margin.
    """
    n_features, n_query_features = slope.shape
    scores = np.empty(n_features)
    weights = np.empty(n_features)
    turned = np.empty(n_features)
    change = np.empty(n_features)
    violation = 0.0
    for block in order:
        for j in range(n_features):
            score = weight = turn = 0.0
            for k in range(n_query_features):
                z = queries[block, k]
                score += slope[j, k] * z
                weight += curvature[j, k] * z * z
                turn += direction[j, k] * z
            scores[j], weights[j], turned[j], change[j] = score, weight, turn, 0.0
        is_changed = is_improvable = False
        for sweep in range(N_PASSES):
            largest = 0.0
            for row in range(offsets[block], offsets[block + 1]):
                margin = radial = 0.0
                for j in range(n_features):
                    margin += differences[row, j] * scores[j]
                    radial += differences[row, j] * turned[j]
                excess = margin + twist * along * radial - 1.0
                old = dual[row]
                if (old <= 0.0 and excess >= 0.0) or (old >= C[row] and excess <= 0.0):
                    continue
                is_improvable = True
                largest = max(largest, abs(excess))
                second = twist * radial * radial
                for j in range(n_features):
                    second += differences[row, j] ** 2 * weights[j]
                if second <= 0.0:
                    continue
                new = min(max(old - excess / second, 0.0), C[row])
                step = new - old
                if step == 0.0:
                    continue
                dual[row] = new
                along += step * radial
                is_changed = True
                for j in range(n_features):
                    moved = step * differences[row, j]
                    change[j] += moved
                    scores[j] += moved * weights[j]
            if sweep == 0:
                violation = max(violation, largest)
            if largest < BLOCK_TOLERANCE * violation:
                break
        is_active[block] = is_improvable
        if is_changed:
            for j in range(n_features):
                for k in range(n_query_features):
                    slope[j, k] += curvature[j, k] * change[j] * queries[block, k]
    return along, violation
