"""Solvers of softmax regression."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

# The trust region measures progress by the loss, whose rounding hides the last digits;
# from this share of the gradient's scale on, full Newton steps are judged by gradients.
_END_OF_TRUST_REGION = 1e-5


@dataclass(frozen=True)
class SoftmaxSolution:
    """A stationary point of a `SoftmaxProblem`.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The weights x; of those with the same scores, the smallest.

    loss : float
        Value of L.

    gradient_norm : float
        Norm of the gradient with respect to the scores, within what the features can
        express, as a share of its natural size at zero weights. Rescaling the features
        or repeating the data does not change it.

    n_iter : int
        Iterations of the solver.

    is_converged : bool
        Whether `gradient_norm` is at most the tolerance.

    is_stopped : bool
        Whether `on_iteration` ended the search.
    """

    coef: np.ndarray
    loss: float
    gradient_norm: float
    n_iter: int
    is_converged: bool
    is_stopped: bool


class _Stop(Exception):
    """The caller wants no further iteration."""


def solve(
    problem, solver="newton", tol=1e-6, max_iter=300, start=None, on_iteration=None
):
    """Find a stationary point of softmax regression.

    Parameters
    ----------
    problem : SoftmaxProblem

    solver : {"newton", "lbfgs"}, default="newton"
        Newton's method in a trust region, which needs no convexity, followed by full
        Newton steps for the last digits; or scipy's L-BFGS.

    tol : float, default=1e-6
        Largest `SoftmaxSolution.gradient_norm`.

    max_iter : int, default=300
        Largest number of iterations.

    start : ndarray of shape (d,), default=None
        Weights to start from; zero for None.

    on_iteration : callable, default=None
        Called after each iteration with the weights, of shape (d,); a true result
        stops.

    Returns
    -------
    solution : SoftmaxSolution

    Raises
    ------
    ValueError
        If the solver is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.softmax_regression import SoftmaxProblem, solve
    >>> problem = SoftmaxProblem(np.eye(3), np.array([0.6, 0.3, 0.1]))
    >>> solution = solve(problem)
    >>> problem.predict(solution.coef).round(6)
    array([0.6, 0.3, 0.1])
    """
    if solver not in SOLVERS:
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}."
        )
    # In an orthonormal basis of the scores that features can make, the problem is well
    # scaled whatever the features, and its Hessian is singular for no reason of theirs.
    basis, inverse = _basis_of_scores(problem)
    reduced = problem.with_values(problem.values @ basis)
    scale = problem.gradient_scale()
    best = np.zeros(basis.shape[1]) if start is None else inverse @ start
    n_iter, is_stopped = 0, False

    def note(coef):
        nonlocal best, n_iter, is_stopped
        best, n_iter = np.array(coef), n_iter + 1
        if on_iteration is not None and on_iteration(basis @ best):
            is_stopped = True
            raise _Stop

    if basis.shape[1]:
        with suppress(_Stop):
            SOLVERS[solver](reduced, best, tol * scale, scale, max_iter, note)
    relative = float(np.linalg.norm(reduced.gradient(best)) / scale)
    return SoftmaxSolution(
        coef=basis @ best,
        loss=reduced.loss(best),
        gradient_norm=relative,
        n_iter=n_iter,
        is_converged=relative <= tol,
        is_stopped=is_stopped,
    )


def _basis_of_scores(problem):
    """Return (d, r) coordinates of orthonormal weighted scores, and their inverse."""
    weighted = np.sqrt(problem.token_weights)[:, None] * problem.values
    triangle = np.linalg.qr(weighted, mode="r")
    _, singular, directions = np.linalg.svd(triangle, full_matrices=False)
    rounding = max(weighted.shape) * np.finfo(np.float64).eps
    kept = singular > rounding * singular.max(initial=0.0)
    directions, singular = directions[kept], singular[kept]
    return directions.T / singular, singular[:, None] * directions


def _newton(problem, start, goal, scale, max_iter, note):
    coef, n_done = start, 0

    def take(candidate):
        nonlocal coef, n_done
        coef, n_done = np.array(candidate), n_done + 1
        note(coef)

    # Scores that change by 1 on average are a step of this size.
    radius = np.sqrt(problem.token_weights.sum())
    handover = max(goal, _END_OF_TRUST_REGION * scale)
    while True:
        minimize(
            problem.loss,
            coef,
            jac=problem.gradient,
            hess=problem.hessian,
            method="trust-exact",
            callback=take,
            options={
                "gtol": handover,
                "maxiter": max_iter - n_done,
                "initial_trust_radius": radius,
                "max_trust_radius": 1e6 * radius,
            },
        )
        gradient = _take_full_steps(problem, coef, scale, max_iter - n_done, take)
        if gradient <= goal or handover <= goal or n_done >= max_iter:
            return
        # The gradient was small beside a saddle: the trust region leads away from it.
        handover = max(goal, 0.01 * min(gradient, handover))


def _take_full_steps(problem, coef, scale, max_iter, take):
    """Take full Newton steps while gradients fall; return the norm of the last."""
    gradient = problem.gradient(coef)
    norm = np.linalg.norm(gradient)
    for _ in range(max_iter):
        if norm <= np.finfo(np.float64).eps * scale:
            break
        try:
            factor = cho_factor(problem.hessian(coef))
        except LinAlgError:
            break
        candidate = coef - cho_solve(factor, gradient)
        gradient = problem.gradient(candidate)
        new_norm = np.linalg.norm(gradient)
        if not new_norm < norm:
            break
        coef, norm = candidate, new_norm
        take(coef)
    return norm


def _lbfgs(problem, start, goal, scale, max_iter, note):
    # Losses of order one, so that the line search resolves their last digits.
    size = scale * np.sqrt(problem.token_weights.sum())

    def loss_and_gradient(coef):
        loss, gradient = problem.loss_and_gradient(coef)
        return loss / size, gradient / size

    minimize(
        loss_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=note,
        options={
            "gtol": goal / size / np.sqrt(len(start)),
            "ftol": 0.0,
            "maxiter": max_iter,
            "maxfun": 20 * max_iter,
            "maxcor": 30,
        },
    )


#: Solvers by the names that the estimator accepts.
SOLVERS = {"newton": _newton, "lbfgs": _lbfgs}
