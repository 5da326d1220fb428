"""Factors of low rank by L-BFGS, of higher rank until the certificate holds."""

import numpy as np
from scipy.optimize import minimize

from skattn.convex._spectra import balance, leading_pairs, thin_factors
from skattn.convex.certificate import certificate_of
from skattn.convex.solution import (
    RANK_TOLERANCE,
    Progress,
    certified_solution,
    starting_point,
)

#: Pairs of columns that a gate gets at a time.
NEW_PAIRS = 2

#: Corrections that L-BFGS remembers.
MEMORY = 20

#: L-BFGS ends where the objective falls by less than this share of itself times `tol`,
#: and by ten times less wherever a round has not halved the gap.
SHARE_OF_TOL = 1e-2

#: Rounds without a smaller gap after which the digits are used up.
IDLE_ROUNDS = 20


def solve_burer_monteiro(problem, tol=1e-4, max_iter=20_000, start=None, callback=None):
    """Solve in the factors ``Z_g = L_g R_g'``, whose weight decay is the penalty.

    ``beta |Z|_*`` is the least of ``beta / 2 (|L|^2 + |R|^2)``. The factors start at
    rank 0 and are trained by L-BFGS. A gate whose gradient at the end has a spectral
    norm above beta gets its leading singular vectors as new columns, along which the
    objective falls.

    Parameters
    ----------
    problem : ConvexProblem

    tol : float, default=1e-4
        Relative gap to reach.

    max_iter : int, default=20_000
        Limit on the iterations of L-BFGS, of all rounds.

    start : ConvexSolution, default=None
        Where to start instead of 0.

    callback : callable, default=None
        Called with a `Progress` after each round. Returning True stops.

    Returns
    -------
    solution : ConvexSolution
        The candidate of the smallest gap that a round ended with.

    References
    ----------
    S. Burer and R. D. C. Monteiro, "A nonlinear programming algorithm for solving
    semidefinite programs via low-rank factorization", Math. Program. 95 (2003).
    """
    coef, intercept = starting_point(problem, start)
    factors = thin_factors(coef, RANK_TOLERANCE)
    fit = _FactoredFit(problem, intercept)
    best, best_gap, n_iter, idle = (coef, intercept), np.inf, 0, 0
    needed = SHARE_OF_TOL * tol
    while True:
        outputs = fit.outputs(factors)
        gradient = problem.features.gradient(
            problem.loss.residuals(outputs + fit.intercept)
        )
        coef = _products(factors)
        penalty = problem.beta * _half_squares(factors)
        certificate = certificate_of(
            problem, coef, outputs + fit.intercept, penalty, gradient
        )
        gap = certificate.duality_gap
        if gap > 0.5 * best_gap:
            # The factors are not yet where they can go: what was added misled.
            needed = max(needed / 10, np.finfo(float).eps)
        idle = 0 if gap < 0.9 * best_gap else idle + 1
        if gap < best_gap:
            best, best_gap = (coef, fit.intercept), gap
        is_stopped = callback is not None and callback(
            Progress(n_iter, certificate.objective, certificate.lower_bound, gap)
        )
        is_over = gap <= tol or n_iter >= max_iter or idle == IDLE_ROUNDS
        if is_over or is_stopped is True:
            break
        grown = fit.grow(factors, outputs, gradient)
        scale = 1 / max(certificate.objective, np.finfo(float).tiny)
        factors, n_steps = fit.train(grown, needed, max_iter - n_iter, scale)
        n_iter += n_steps
    return certified_solution(
        problem, *best, tol=tol, solver="burer_monteiro", n_iter=n_iter
    )


class _FactoredFit:
    """The objective in the factors, the intercept at its best."""

    def __init__(self, problem, intercept):
        self.problem = problem
        self.intercept = intercept

    def outputs(self, factors):
        """Return the outputs, and move the intercept to its best there."""
        outputs = self.problem.features.predict_factors(factors)
        self.intercept = self.problem.loss.best_intercept(outputs, self.intercept)
        return outputs

    def grow(self, factors, outputs, gradient):
        """Return the factors with columns along which the objective falls."""
        beta, loss = self.problem.beta, self.problem.loss
        left, singular, right = leading_pairs(-gradient, NEW_PAIRS)
        excess = np.maximum(singular - beta, 0)
        if not excess.any():
            return factors
        roots = np.sqrt(excess)[:, None]
        pairs = [
            (u * root, v * root) for u, v, root in zip(left, right, roots, strict=True)
        ]
        # The best length by an upper bound of the loss that is quadratic along it.
        moved = self.problem.features.predict_factors(pairs)
        curvature = loss.curvature * (loss.weight @ (moved**2).sum(axis=1))
        length = np.sqrt((excess**2).sum() / curvature)
        return [
            (
                np.hstack([old_left, length * new_left[:, is_new]]),
                np.hstack([old_right, length * new_right[:, is_new]]),
            )
            for (old_left, old_right), (new_left, new_right), is_new in zip(
                factors, pairs, excess > 0, strict=True
            )
        ]

    def train(self, factors, tol, max_iter, scale):
        """Return the factors where L-BFGS ends, without columns of 0, and its steps."""
        shapes = [(len(left), len(right), left.shape[1]) for left, right in factors]
        outcome = minimize(
            self._value_and_gradient,
            _flatten(factors),
            args=(shapes, scale),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": max_iter,
                "maxfun": 2 * max_iter,
                "maxcor": MEMORY,
                "ftol": tol,
                "gtol": 0.0,
            },
        )
        trained = balance(_unflatten(outcome.x, shapes), RANK_TOLERANCE)
        return trained, max(outcome.nit, 1)

    def _value_and_gradient(self, flat, shapes, scale):
        problem = self.problem
        factors = _unflatten(flat, shapes)
        outputs = self.outputs(factors) + self.intercept
        value = problem.loss.value(outputs) + problem.beta * _half_squares(factors)
        gradients = problem.features.gradient_factors(
            problem.loss.residuals(outputs), factors
        )
        slope = _flatten(gradients) + problem.beta * flat
        # SciPy measures progress against 1.
        return scale * value, scale * slope


def _products(factors):
    return np.stack([left @ right.T for left, right in factors])


def _half_squares(factors):
    return 0.5 * sum(
        float(np.vdot(left, left) + np.vdot(right, right)) for left, right in factors
    )


def _flatten(factors):
    return np.concatenate([part.ravel() for pair in factors for part in pair])


def _unflatten(flat, shapes):
    factors, first = [], 0
    for n_rows, n_columns, rank in shapes:
        middle, stop = first + n_rows * rank, first + (n_rows + n_columns) * rank
        factors.append(
            (
                flat[first:middle].reshape(n_rows, rank),
                flat[middle:stop].reshape(n_columns, rank),
            )
        )
        first = stop
    return factors
