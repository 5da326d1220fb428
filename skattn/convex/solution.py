"""What a solver returns, and what it tells on the way."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from skattn.convex.certificate import certify

#: Singular values below this share of the largest of all matrices are none.
RANK_TOLERANCE = 1e-9


class Progress(NamedTuple):
    """Where a solver stands.

    Attributes
    ----------
    n_iter : int
        Iterations so far.

    objective, lower_bound : float
        Of the current candidate.

    duality_gap : float
        Their relative distance.
    """

    n_iter: int
    objective: float
    lower_bound: float
    duality_gap: float


@dataclass(frozen=True)
class ConvexSolution:
    """A certified solution of a `ConvexProblem`.

    Attributes
    ----------
    coef : ndarray of shape (n_gates, p, q * n_outputs)
        The matrices Z_g.

    intercept : ndarray of shape (n_outputs,)
        The best for `coef`.

    objective : float
        ``loss + beta * sum of nuclear norms``.

    loss : float
        Averaged loss, without the penalty.

    lower_bound : float
        Proved by `coef`: the optimum is not below.

    duality_gap : float
        ``(objective - lower_bound) / lower_bound``.

    n_iter : int
        Iterations of the solver.

    solver : str
        Name of the solver that ran.

    status : {"optimal", "max_iter"}
        "optimal" when the gap reached the tolerance.

    beta : float
        Strength of the penalty.

    ranks : int array of shape (n_gates,)
        Singular values of each matrix above 1e-9 of the largest of all.

    rank : int
        Their sum: the heads that the block needs.
    """

    coef: np.ndarray
    intercept: np.ndarray
    objective: float
    loss: float
    lower_bound: float
    duality_gap: float
    n_iter: int
    solver: str
    status: Literal["optimal", "max_iter"]
    beta: float

    @cached_property
    def ranks(self):
        """Rank of each matrix."""
        singular = np.linalg.svd(self.coef, compute_uv=False)
        smallest = RANK_TOLERANCE * singular.max(initial=0.0)
        return (singular > smallest).sum(axis=1)

    @property
    def rank(self):
        """Sum of the ranks of all matrices."""
        return int(self.ranks.sum())


def certified_solution(problem, coef, intercept, *, tol, solver, n_iter):
    """Return a solution with what it proves.

    Parameters
    ----------
    problem : ConvexProblem

    coef : ndarray of shape problem.coef_shape

    intercept : ndarray of shape (n_outputs,)
        Near the best for `coef`.

    tol : float
        Relative gap up to which the status is "optimal".

    solver : str

    n_iter : int

    Returns
    -------
    solution : ConvexSolution
    """
    certificate, intercept = certify(problem, coef, intercept)
    gap = certificate.duality_gap
    return ConvexSolution(
        coef=coef,
        intercept=intercept,
        objective=certificate.objective,
        loss=certificate.loss,
        lower_bound=certificate.lower_bound,
        duality_gap=gap,
        n_iter=n_iter,
        solver=solver,
        status="optimal" if gap <= tol else "max_iter",
        beta=problem.beta,
    )


def starting_point(problem, start):
    """Return matrices and intercept to start from.

    Parameters
    ----------
    problem : ConvexProblem

    start : ConvexSolution or None

    Returns
    -------
    coef : ndarray of shape problem.coef_shape

    intercept : ndarray of shape (n_outputs,)
    """
    if start is None:
        return np.zeros(problem.coef_shape), problem.intercept_only
    return start.coef, start.intercept
