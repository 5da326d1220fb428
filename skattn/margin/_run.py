"""What every iterative solver does around its iterations."""

import numpy as np

from skattn.margin.certificate import Certificate
from skattn.margin.progress import Progress
from skattn.margin.solution import certified_solution, infeasible_solution


class Run:
    """One run of a solver: its certificate, its callback and what it returns.

    Parameters
    ----------
    problem : MarginProblem

    tol : float
        Relative duality gap to reach.

    callback : callable or None
        Called with a `Progress` after each stage; returning True ends the run.

    solver : str
        Name of the solver.

    Attributes
    ----------
    certificate : Certificate
        The best bounds so far.

    n_iter : int
        Iterations so far.
    """

    def __init__(self, problem, tol, callback, solver):
        self.problem = problem
        self.certificate = Certificate(problem)
        self.n_iter = 0
        self._tol = tol
        self._callback = callback
        self._solver = solver

    @property
    def has_callback(self):
        """Whether anybody wants to be told of the stages."""
        return self._callback is not None

    @property
    def is_certified(self):
        """Whether the gap has reached the tolerance."""
        return self.certificate.gap <= self._tol

    def needs_no_iteration(self, warm_start):
        """Offer what is known in advance, and say whether that is enough.

        Parameters
        ----------
        warm_start : MarginSolution or None
            A solution of a problem of the same shapes.

        Returns
        -------
        is_done : bool
        """
        problem, certificate = self.problem, self.certificate
        if problem.merged.size == 0:
            certificate.offer(coef=np.zeros(problem.coef_shape), dual=np.zeros(0))
            return True
        if not problem.merged.is_any_hard:
            certificate.offer(coef=np.zeros(problem.coef_shape))
        if warm_start is None:
            return False
        certificate.offer(
            coef=warm_start.coef, dual=problem.merge_dual(warm_start.dual_coef)
        )
        return self.is_stopped_after("warm_start") or self.is_certified

    def is_stopped_after(self, stage):
        """Tell the callback that a stage has ended, and say whether it wants to stop.

        Parameters
        ----------
        stage : str

        Returns
        -------
        is_stopped : bool
        """
        if self._callback is None:
            return False
        best = self.certificate
        bounds = best.lower_bound, best.upper_bound, best.gap
        return self._callback(Progress(stage, self.n_iter, *bounds)) is True

    def best_so_far(self):
        """Return the best of what was seen as a `MarginSolution`."""
        return certified_solution(
            self.problem,
            self.certificate,
            tol=self._tol,
            solver=self._solver,
            n_iter=self.n_iter,
        )

    def infeasible(self, ray, residual):
        """Return the `MarginSolution` that says there is none, with its proof."""
        return infeasible_solution(
            self.problem, ray, residual, solver=self._solver, n_iter=self.n_iter
        )
