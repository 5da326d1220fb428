"""The polish for the nuclear norm, on factors of the solution."""

import numpy as np
from scipy import linalg, sparse

from skattn.margin._polish import guess_sets

#: More unknowns than this make the equations too large to be cheap.
MOST_UNKNOWNS = 2000

#: Newton's method is quadratic: what is not reached by then will not be.
MAX_STEPS = 6


def polish_nuclear(problem, certificate, reduced, dual, required=1.0, is_equality=None):
    """Newton's method on the rank and the equalities that an interior point found.

    With W = P Q', the nuclear norm of W is the least value of
    ``h = (|P|^2 + |Q|^2) / 2``. Where margins are exactly what is required on the free
    constraints, the solution of the convex problem satisfies::

        h P = A(a) Q,    h Q = A(a)' P,    margins(P Q') = required

    Every step is offered to `certificate`, which sees to it that a wrong guess of the
    rank or of the free constraints does no harm.

    Parameters
    ----------
    problem : MarginProblem or GeneralProblem
        Of the nuclear norm.

    certificate : Certificate
        What judges the steps; holds a primal candidate already.

    reduced : ReducedProblem
        Coordinates of the rows, in which the equations are written.

    dual : ndarray of shape (problem.merged.size,)
        Dual variables of the solver that ran.

    required, is_equality : object
        As in `polish`.
    """
    constraints = problem.merged
    # The equations are those of the half square, whose duals are at their best factor.
    certificate.offer(dual=dual)
    dual = certificate.dual
    if not (np.isfinite(certificate.upper_bound) and certificate.coef.any()):
        return
    if not dual.any():
        return
    distance = constraints.margins(certificate.coef) - required
    is_zero, is_full = guess_sets(constraints, dual, distance, is_equality)
    free = np.flatnonzero(~is_zero & ~is_full)
    dual = np.where(is_full, constraints.C, np.where(is_zero, 0, dual))
    dual = dual * reduced.scale**2
    point = reduced.drop(certificate.coef)
    gradient = (reduced.rows.T @ dual).reshape(reduced.shape)
    if not gradient.any():
        return
    left, right = _factors(point, gradient)
    n_factor_entries = left.size + right.size
    if not 0 < n_factor_entries + free.size <= MOST_UNKNOWNS:
        return
    free_rows = reduced.rows[free]
    if sparse.issparse(free_rows):
        free_rows = free_rows.toarray()
    free_rows = free_rows.reshape(free.size, *reduced.shape)
    targets = np.broadcast_to(required, constraints.C.shape)[free]
    for _ in range(MAX_STEPS):
        gradient = (reduced.rows.T @ dual).reshape(reduced.shape)
        system, residual = _equations(left, right, gradient, free_rows, targets)
        step = linalg.lstsq(system, -residual)[0]
        left = left + step[: left.size].reshape(left.shape)
        right = right + step[left.size : n_factor_entries].reshape(right.shape)
        dual[free] += step[n_factor_entries:]
        gap_before = certificate.gap
        certificate.offer(
            coef=reduced.lift(left @ right.T), dual=dual / reduced.scale**2
        )
        if not certificate.gap < gap_before:
            break


def _factors(point, gradient):
    # A singular value counts when the solution has more of it than the dual, whose
    # singular values are equal on the range of the solution, lacks.
    left, values, right = np.linalg.svd(point, full_matrices=False)
    dual_values = np.linalg.svd(gradient, compute_uv=False)
    lacking = 1 - dual_values / dual_values[0]
    rank = int(np.sum(values / values[0] > lacking))
    roots = np.sqrt(values[:rank])
    return left[:, :rank] * roots, right[:rank].T * roots


def _equations(left, right, gradient, free_rows, targets):
    rank = left.shape[1]
    factors = np.concatenate([left.ravel(), right.ravel()])
    size = 0.5 * float(factors @ factors)
    coupling = np.kron(gradient, np.eye(rank))
    curvature = size * np.eye(factors.size) + np.outer(factors, factors)
    curvature[: left.size, left.size :] -= coupling
    curvature[left.size :, : left.size] -= coupling.T
    n_free = free_rows.shape[0]
    slopes = np.hstack(
        [
            (free_rows @ right).reshape(n_free, left.size),
            (free_rows.transpose(0, 2, 1) @ left).reshape(n_free, right.size),
        ]
    )
    stationarity = np.concatenate(
        [
            (size * left - gradient @ right).ravel(),
            (size * right - gradient.T @ left).ravel(),
        ]
    )
    margins = np.einsum("mij,ij->m", free_rows, left @ right.T)
    system = np.block([[curvature, -slopes.T], [-slopes, np.zeros((n_free, n_free))]])
    return system, np.concatenate([stationarity, targets - margins])
