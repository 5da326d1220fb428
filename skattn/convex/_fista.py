"""Accelerated proximal gradient steps with singular-value thresholding."""

from typing import NamedTuple

import numpy as np

from skattn.convex._spectra import nuclear_norms, shrink
from skattn.convex.certificate import certify_outputs
from skattn.convex.solution import Progress, certified_solution, starting_point

#: Iterations between two looks at the gap: each costs a gradient.
CHECK_EVERY = 10

#: A step that is too long is halved; each iteration tries one a little longer.
GROWTH = 1.1

#: And halved so often at most: where matrices no longer move at all, a rounding of
#: their outputs would ask for more.
HALVINGS = 60

POWER_ITERATIONS = 8

#: A curvature of this share of another is what rounding left.
NEGLIGIBLE = 1e-12


def solve_fista(problem, tol=1e-4, max_iter=20_000, start=None, callback=None):
    """Solve by accelerated proximal gradient.

    Each step moves against the gradient of the loss, its intercept always at the best,
    and lowers all singular values by ``beta * step``. Step lengths come from
    backtracking. The momentum is dropped when it points uphill (adaptive restart of
    O'Donoghue and Candes).

    Parameters
    ----------
    problem : ConvexProblem

    tol : float, default=1e-4
        Relative gap to reach.

    max_iter : int, default=20_000
        Limit on the steps.

    start : ConvexSolution, default=None
        Where to start instead of 0.

    callback : callable, default=None
        Called with a `Progress` at each look at the gap. Returning True stops.

    Returns
    -------
    solution : ConvexSolution
        The candidate of the smallest gap that was looked at.
    """
    coef, intercept = starting_point(problem, start)
    current = _point(problem, coef, intercept, float(nuclear_norms(coef).sum()))
    best, best_gap = current, np.inf
    previous, momentum = current, 1.0
    inverse_step = _first_inverse_step(problem)
    n_iter = 0
    for n_iter in range(max_iter + 1):
        if n_iter % CHECK_EVERY == 0 or n_iter == max_iter:
            gap, progress = _look(problem, current, n_iter)
            if gap < best_gap:
                best, best_gap = current, gap
            is_stopped = callback is not None and callback(progress) is True
            if gap <= tol or is_stopped:
                break
        if n_iter == max_iter:
            break
        longer = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = _extrapolate(problem, current, previous, (momentum - 1) / longer)
        following, inverse_step = _step(problem, ahead, inverse_step)
        is_uphill = (
            np.vdot(ahead.coef - following.coef, following.coef - current.coef) > 0
        )
        momentum = 1.0 if is_uphill else longer
        current, previous = following, current
        inverse_step /= GROWTH
    return certified_solution(
        problem, best.coef, best.intercept, tol=tol, solver="fista", n_iter=n_iter
    )


class _Point(NamedTuple):
    coef: np.ndarray
    outputs: np.ndarray
    intercept: np.ndarray
    nuclear_norm: float


def _point(problem, coef, intercept, nuclear_norm, outputs=None):
    if outputs is None:
        outputs = problem.features.predict(coef)
    intercept = problem.loss.best_intercept(outputs, intercept)
    return _Point(coef, outputs, intercept, nuclear_norm)


def _extrapolate(problem, current, previous, share):
    if share == 0:
        return current
    # Outputs are linear in the matrices: no features are needed.
    coef = current.coef + share * (current.coef - previous.coef)
    outputs = current.outputs + share * (current.outputs - previous.outputs)
    intercept = current.intercept + share * (current.intercept - previous.intercept)
    return _point(problem, coef, intercept, np.nan, outputs)


def _step(problem, point, inverse_step):
    residuals = problem.loss.residuals(point.outputs + point.intercept)
    gradient = problem.features.gradient(residuals)
    for _ in range(HALVINGS):
        coef, nuclear_norm = shrink(
            point.coef - gradient / inverse_step, problem.beta / inverse_step
        )
        trial = _point(problem, coef, point.intercept, nuclear_norm)
        moved = coef - point.coef
        start = point.outputs + point.intercept
        rise = problem.loss.divergence(start, trial.outputs + trial.intercept - start)
        if rise <= inverse_step / 2 * float(np.vdot(moved, moved)):
            break
        inverse_step *= 2
    return trial, inverse_step


def _look(problem, point, n_iter):
    certificate = certify_outputs(
        problem,
        point.coef,
        point.outputs + point.intercept,
        problem.beta * point.nuclear_norm,
    )
    gap = certificate.duality_gap
    return gap, Progress(n_iter, certificate.objective, certificate.lower_bound, gap)


def _first_inverse_step(problem):
    """Estimate the Lipschitz constant of the gradient by power iterations."""
    root = np.sqrt(problem.loss.weight[:, None])
    direction = problem.features.gradient(root)
    norm = _largest_curvature(problem, direction)
    if norm <= NEGLIGIBLE * float(np.vdot(direction, direction)):
        # All of that direction goes into the intercept, and it says nothing of others.
        # Without an estimate steps would be endless.
        turned = root * np.cos(np.arange(len(root)))[:, None]
        norm = max(norm, _largest_curvature(problem, problem.features.gradient(turned)))
    return max(problem.loss.curvature * norm, np.finfo(float).tiny)


def _largest_curvature(problem, direction):
    weight = problem.loss.weight[:, None]
    norm = 0.0
    for _ in range(POWER_ITERATIONS):
        size = np.linalg.norm(direction)
        if size == 0:
            break
        outputs = problem.features.predict(direction / size)
        # The intercept takes the mean.
        direction = problem.features.gradient(weight * (outputs - weight.T @ outputs))
        norm = np.linalg.norm(direction)
    return norm
