"""From the digits of an interior point to those of the machine."""

import numpy as np
from scipy import linalg, sparse

from skattn.margin._norms import FrobeniusNorm

#: More constraints than this at the margin make the equations too large to be cheap.
LARGEST_FREE_SET = 5000

#: This many constraints are cheap in any case.
SMALL_FREE_SET = 100

#: Singular equations are solved by singular values up to this size, above it nearly.
LARGEST_SINGULAR = 300

#: Rounds after which a polish that has not settled gives up.
MAX_ROUNDS = 20


def polish(problem, certificate, reduced, dual, required=1.0, is_equality=None):
    """Newton's method on the constraints that hold with equality.

    Constraints are guessed to be free (at the margin, 0 < a < C), inactive (a = 0) or
    at their bound (a = C). The free duals solve ``margins = required``, which for the
    Frobenius norm is one linear system; a dual that leaves its interval and a margin
    on the wrong side change the guess. Every round is offered to `certificate`.

    Parameters
    ----------
    problem : MarginProblem or GeneralProblem
        Of a norm with a primal solution to each dual: Frobenius or entrywise.

    certificate : Certificate
        What judges the rounds; holds a primal candidate already.

    reduced : ReducedProblem or None
        Coordinates of the rows, of which the linear systems of entrywise norms are
        made; the Frobenius norm does without. Residuals are computed from the
        constraints themselves, so that errors here are repaired.

    dual : ndarray of shape (problem.merged.size,)
        Dual variables of the solver that ran.

    required : float or ndarray of shape (m,), default=1.0
        What each margin is to reach.

    is_equality : boolean array of shape (m,), default=None
        Rows that are free always, with duals of any sign; None: there is none.
    """
    constraints = problem.merged
    norm = problem.norm
    C = constraints.C
    least = 0.0 if is_equality is None else np.where(is_equality, -np.inf, 0.0)
    dual = np.clip(dual, least, C)
    if not dual.any():
        return
    distance = constraints.margins(certificate.coef) - required
    is_zero, is_full = guess_sets(constraints, dual, distance, is_equality)
    # Far more free constraints than dimensions: the guess is too poor to settle.
    most_free = min(2 * int(np.prod(problem.coef_shape)), LARGEST_FREE_SET)
    most_free = max(most_free, SMALL_FREE_SET)
    for _ in range(MAX_ROUNDS):
        dual = np.where(is_full, C, np.where(is_zero, 0, dual))
        free = np.flatnonzero(~is_zero & ~is_full)
        if free.size > most_free:
            break
        gradient = constraints.adjoint(dual)
        if free.size and gradient.any():
            margins = constraints.margins(norm.primal_from_dual(gradient))
            residual = (required - margins)[free]
            curvature = _curvature(problem, reduced, free, gradient)
            dual[free] += _solve_symmetric(curvature, residual)

        gap_before = certificate.gap
        coef = norm.primal_from_dual(constraints.adjoint(np.clip(dual, least, C)))
        certificate.offer(coef=coef, dual=dual)
        margins = constraints.margins(coef)
        rounding = 1e-12 * max(1.0, np.abs(margins).max())
        leaves_zero = is_zero & (margins < required - rounding)
        leaves_full = is_full & (margins > required + rounding)
        is_settled = not (leaves_zero.any() or leaves_full.any())
        is_settled &= bool(np.all(dual >= least) and np.all(dual <= C))
        is_zero = (is_zero & ~leaves_zero) | (dual < least)
        is_full = (is_full & ~leaves_full) | (dual > C)
        if is_settled and certificate.gap >= gap_before:
            break


def _curvature(problem, reduced, free, gradient):
    if isinstance(problem.norm, FrobeniusNorm):
        return problem.merged.gram(free)
    curvature = problem.norm.dual_curvature(reduced.rows[free], gradient)
    return curvature * reduced.scale**2


def guess_sets(constraints, dual, distance, is_equality=None):
    """Tell constraints apart by which of dual and distance to the margin is nearer 0.

    Parameters
    ----------
    constraints : Constraints

    dual : ndarray of shape (m,)
        Not all 0; within [0, C], and of any sign in equalities.

    distance : ndarray of shape (m,)
        How far a primal candidate exceeds the margins asked for.

    is_equality : boolean array of shape (m,), default=None
        Rows that are at the margin in any case.

    Returns
    -------
    is_zero, is_full : boolean arrays of shape (m,)
        Where the dual is taken to be 0, and where C; the rest is at the margin.
    """
    largest = np.abs(dual).max()
    is_zero = dual / largest < distance
    is_full = (constraints.C - dual) / largest < -distance
    if is_equality is not None:
        is_zero &= ~is_equality
    return is_zero, is_full & ~is_zero & ~constraints.is_hard


def _solve_symmetric(matrix, target):
    if sparse.issparse(matrix):
        matrix = matrix.toarray()
    try:
        return linalg.cho_solve(linalg.cho_factor(matrix), target)
    except linalg.LinAlgError:
        pass
    # More constraints at the margin than dimensions: the smallest change will do.
    if matrix.shape[0] <= LARGEST_SINGULAR:
        return linalg.lstsq(matrix, target)[0]
    shift = 1e-10 * matrix.diagonal().max() * np.eye(matrix.shape[0])
    try:
        return linalg.cho_solve(linalg.cho_factor(matrix + shift), target)
    except linalg.LinAlgError:
        return np.zeros_like(target)
