"""What a solver returns, and how it is put together from certified bounds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

#: Singular values below this share of the largest one do not count in the rank.
RANK_TOLERANCE = 1e-3


@dataclass(frozen=True)
class MarginSolution:
    """A certified solution of a `MarginProblem` or a `GeneralProblem`.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (d, d_q)
        The solution W. When all margins are hard it is rescaled to a minimum margin of
        exactly 1, or of what is asked for. All NaN when the problem is infeasible.

    objective : float
        ``|W|`` when all margins are hard, otherwise the primal value
        ``1/2 |W|^2 + sum of C * slack``. Infinite without a feasible W.

    dual_coef : ndarray of shape (n_tokens,)
        Dual variables, one a real token: 0 at the selected one and wherever a token
        has no constraint. The Frobenius solution is the sum of
        ``dual_coef * dx z'``. Of several selected tokens of a sample all but the first
        have the dual, of any sign, of being level with the first.

    slack : ndarray of shape (n_tokens,)
        What the margin lacks of 1, or of what is asked for, in the same layout; 0
        where the margin is hard.

    duality_gap : float
        ``(upper_bound - lower_bound) / upper_bound``. NaN when infeasible.

    lower_bound, upper_bound : float
        What the duals and the coef prove about the optimum.

    min_margin : float
        Smallest ``dx' W z``; infinite without constraints. Where samples ask for
        margins of their own it is the smallest ratio to what is asked for, where that
        is above 0.

    status : {"optimal", "infeasible", "max_iter"}
        "optimal" when the gap reached the tolerance; "infeasible" when `ray` proves
        that no W meets the hard margins; otherwise "max_iter".

    solver : str
        Name of the solver that ran.

    n_iter : int
        Its iterations.

    ray : ndarray of shape (n_tokens,) or None
        When infeasible: weights >= 0 of sum 1 on the hard constraints whose
        ``sum of ray * dx z'`` vanishes (Gordan's theorem): no W can have all its
        margins positive.

    ray_residual : float or None
        Frobenius norm of that sum, relative to the same weighted sum of the norms of
        its terms. With several selected tokens `ray` has a sum of absolute values of
        1, and any sign at selected tokens (Farkas' lemma); with margins of different
        sizes the residual is also relative to the share of the largest one that `ray`
        reaches.

    finite : MarginSolution or None
        The finite component of attention weights, where `attention_svm` was given
        them: the smallest W that reproduces their ratios within selected sets.

    finite_coef : ndarray of shape (d,) or (d, d_q), or None
        Its `coef`.

    rank : int
        Singular values of `coef` above 1e-3 of the largest; 0 when infeasible.
    """

    coef: np.ndarray
    objective: float
    dual_coef: np.ndarray
    slack: np.ndarray
    duality_gap: float
    lower_bound: float
    upper_bound: float
    min_margin: float
    status: Literal["optimal", "infeasible", "max_iter"]
    solver: str
    n_iter: int
    ray: np.ndarray | None = None
    ray_residual: float | None = None
    finite: "MarginSolution | None" = None

    @property
    def finite_coef(self):
        """The finite component W_fin, where it was asked for."""
        return None if self.finite is None else self.finite.coef

    @cached_property
    def rank(self):
        """Singular values of `coef` above 1e-3 of the largest; 0 when infeasible."""
        if not np.isfinite(self.coef).all():
            return 0
        # Small problems are solved in the time that this takes: it is left to be asked.
        return rank_of(self.coef, RANK_TOLERANCE)


def rank_of(coef, tol):
    """Count the singular values above `tol` of the largest.

    Parameters
    ----------
    coef : ndarray of shape (d,), (d, d_q) or (..., d, d_q)

    tol : float

    Returns
    -------
    rank : int, or int array of shape (...)
    """
    singular = np.linalg.svd(np.atleast_2d(coef), compute_uv=False)
    rank = np.sum(singular > tol * singular[..., :1], axis=-1)
    return rank if coef.ndim > 2 else int(rank)


def certified_solution(problem, certificate, *, tol, solver, n_iter):
    """Return the best of what a certificate has seen.

    Parameters
    ----------
    problem : MarginProblem

    certificate : Certificate
        Bounds on that problem.

    tol : float
        Relative gap below which the status is "optimal".

    solver : str
        Name of the solver that ran.

    n_iter : int
        Its iterations.

    Returns
    -------
    solution : MarginSolution
        With status "optimal" or "max_iter".
    """
    coef = certificate.coef
    slack = np.zeros(problem.n_tokens)
    if coef is None:
        coef, min_margin = np.full(problem.coef_shape, np.nan), np.nan
    else:
        margins = certificate.margins
        min_margin = float(margins.min(initial=np.inf))
        if not problem.merged.is_all_hard:
            lacking = np.where(problem.merged.is_hard, 0, np.maximum(1 - margins, 0))
            slack[problem.rows] = problem.spread(lacking)
    dual_coef = np.zeros(problem.n_tokens)
    if certificate.dual is not None:
        dual_coef = problem.split_dual(certificate.dual)
    return MarginSolution(
        coef=coef,
        objective=certificate.upper_bound,
        dual_coef=dual_coef,
        slack=slack,
        duality_gap=certificate.gap,
        lower_bound=certificate.lower_bound,
        upper_bound=certificate.upper_bound,
        min_margin=min_margin,
        status="optimal" if certificate.gap <= tol else "max_iter",
        solver=solver,
        n_iter=n_iter,
    )


def infeasible_solution(problem, ray, ray_residual, *, solver, n_iter):
    """Return the solution that says there is none.

    Parameters
    ----------
    problem : MarginProblem

    ray : ndarray of shape (problem.merged.size,)
        Weights on the merged constraints, of sum 1.

    ray_residual : float
        As in `MarginSolution`.

    solver : str
        Name of the solver that ran.

    n_iter : int
        Its iterations.

    Returns
    -------
    solution : MarginSolution
        With status "infeasible".
    """
    return MarginSolution(
        coef=np.full(problem.coef_shape, np.nan),
        objective=np.inf,
        dual_coef=np.zeros(problem.n_tokens),
        slack=np.zeros(problem.n_tokens),
        duality_gap=np.nan,
        lower_bound=np.inf,
        upper_bound=np.inf,
        min_margin=np.nan,
        status="infeasible",
        solver=solver,
        n_iter=n_iter,
        ray=problem.split_dual(ray),
        ray_residual=ray_residual,
    )
