"""Proof that hard margins cannot be met."""

import numpy as np
from scipy import sparse
from scipy.optimize import nnls

#: Largest residual at which a ray counts as a proof. A feasible problem that came this
#: close would need a solution 1e9 times the size its tokens suggest.
RAY_TOLERANCE = 1e-9


def ray_residual(constraints, ray):
    """Relative size of ``sum of ray * dx z'``: 0 for a proof of infeasibility."""
    scale = float(ray @ constraints.row_norms())
    if scale == 0:
        return 0.0
    return float(np.linalg.norm(constraints.adjoint(ray))) / scale


def find_ray(constraints, rows, guess=None):
    """Look for weights on the hard constraints whose combination vanishes.

    By Gordan's theorem either some W has every hard margin positive, or the origin is
    a convex combination of the hard rows.

    Parameters
    ----------
    constraints : Constraints
        The merged constraints of the problem, at least one of them hard.

    rows : ndarray or csr_array of shape (m, r)
        Coordinates of the rows ``dx z'``, up to a common factor.

    guess : ndarray of shape (m,), default=None
        Dual variables of a solver that found the problem infeasible.

    Returns
    -------
    ray : ndarray of shape (m,)
        Weights of sum 1, 0 on soft constraints.

    residual : float
        The size of their combination; a proof when it is below `RAY_TOLERANCE`.
    """
    is_hard = constraints.is_hard
    candidates = [_smallest_combination(rows[is_hard])]
    if guess is not None and np.isfinite(guess).all():
        candidates.append(np.maximum(guess[is_hard], 0))
    best, best_residual = np.zeros(constraints.size), np.inf
    for weights in candidates:
        if weights.sum() > 0:
            ray = np.zeros(constraints.size)
            ray[is_hard] = weights / weights.sum()
            residual = ray_residual(constraints, ray)
            if residual < best_residual:
                best, best_residual = ray, residual
    return best, best_residual


def _smallest_combination(rows):
    # Non-negative least squares is exact to rounding, which no interior point is; it
    # needs dense rows, and only problems that failed otherwise come here.
    if sparse.issparse(rows):
        rows = rows.toarray()
    lengths = np.linalg.norm(rows, axis=1)
    weights = np.zeros(lengths.size)
    if lengths.min() == 0:
        weights[np.argmin(lengths)] = 1.0
        return weights
    system = np.vstack([(rows / lengths[:, None]).T, np.ones(lengths.size)])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    try:
        return nnls(system, target)[0] / lengths
    except RuntimeError:
        # scipy's limit on iterations.
        return weights
