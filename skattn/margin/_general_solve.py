"""General problems solved to a certified gap."""

from dataclasses import replace

import numpy as np

from skattn.margin._cvxpy import LARGE_COST, TOLERANCES, run_clarabel, write_program
from skattn.margin._dual_lbfgs import dual_lbfgs
from skattn.margin._factored_rows import FactoredRows
from skattn.margin._general_certificate import GeneralCertificate, farkas_residual
from skattn.margin._general_problem import GeneralProblem
from skattn.margin._infeasibility import RAY_TOLERANCE
from skattn.margin._interior_iterate import LARGEST_SYSTEM, InteriorPoint
from skattn.margin._interior_point import AIM, PATIENCE, PROGRESS
from skattn.margin._least_distance import least_distance
from skattn.margin._levelling import Levelling
from skattn.margin._norms import EntrywiseNorm, FrobeniusNorm, NuclearNorm
from skattn.margin._polish import polish
from skattn.margin._polish_nuclear import polish_nuclear
from skattn.margin._reduction import reduce_problem
from skattn.margin._threads import single_blas_thread
from skattn.margin.solution import certified_solution, infeasible_solution
from skattn.margin.solvers import check_limits

#: Iterations by default: of interior points, and of quasi-Newton steps.
MAX_INTERIOR = 200
MAX_QUASI_NEWTON = 1000

#: Gap that leaves nothing to polish, little above what rounding leaves of any gap.
POLISHED = 1e-13


def solve_general(problem, tol=1e-6, max_iter=None, solver="auto"):
    """Solve a general problem to a certified gap.

    Parameters
    ----------
    problem : GeneralProblem
        From `selection_problem` or `finite_problem`.

    tol : float, default=1e-6
        Relative duality gap ``(upper - lower) / upper`` to reach.

    max_iter : int, default=None
        Limit on the iterations of a solver. None: 1,000 quasi-Newton steps, 200
        iterations of an interior point or of Clarabel.

    solver : {"auto", "least_distance", "interior_point", "lbfgs", "cvxpy"}, \
            default="auto"
        "least_distance" is non-negative least squares, exact, for hard margins in the
        Frobenius norm. "interior_point" is for the Frobenius and the nuclear norm,
        "lbfgs" for entrywise norms: quasi-Newton steps on the dual. "auto" takes the
        first of these that is made for the problem, and the next where the gap is not
        reached.

    Returns
    -------
    solution : MarginSolution
        In hard problems with margins `coef` is rescaled to their smallest ratio to
        what is required of exactly 1, and `min_margin` is that ratio.

    Raises
    ------
    TypeError
        If `problem` is of another type.

    ValueError
        If the solver is unknown or not made for the problem, or `tol` or `max_iter`
        is not positive.

    Examples
    --------
    The first token is to be ahead by 1 in one sample, and only not behind in the other:

    >>> import numpy as np
    >>> from skattn.margin import selection_problem, solve_general
    >>> tokens = np.array([[[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]]])
    >>> is_selected = np.array([True, False, True, False])
    >>> problem = selection_problem(tokens, is_selected, margin=[1.0, 0.0])
    >>> solve_general(problem).coef.round(4)
    array([0.6667, 0.3333])
    """
    _check(problem, tol, max_iter, solver)
    names = _solvers_for(problem) if solver == "auto" else [solver]
    run = _GeneralRun(problem, tol, max_iter)
    with single_blas_thread():
        if not problem.required.any():
            zero = np.zeros(problem.coef_shape)
            run.certificate.offer(coef=zero, dual=np.zeros(problem.rows.size))
            return run.solution(names[0])
        if not problem.is_hard:
            run.start_from_hard_margins()
        for name in names:
            proof = _RUNS[name](run)
            if proof is None and np.isinf(run.certificate.upper_bound):
                proof = run.contradiction()
            if proof is not None:
                return run.infeasible(proof, name)
            run.polish()
            if run.certificate.gap <= tol:
                break
        return run.solution(name)


class _GeneralRun:
    """The solvers, each of which offers what it finds to one certificate.

    They return a ray where they have proved that there is no solution, or else None.
    """

    def __init__(self, problem, tol, max_iter):
        self._problem = problem
        self._tol = tol
        self._max_iter = max_iter
        self._n_iter = 0
        self._levelled = Levelling(problem)
        self.certificate = GeneralCertificate(problem)
        if not problem.required[problem.constraints.is_hard].any():
            self.certificate.offer(coef=np.zeros(problem.coef_shape))

    def start_from_hard_margins(self):
        """Offer the hard solution, which is the soft one where C is large.

        Numbers of very different size would cost an interior point its digits.
        """
        problem = self._problem
        constraints = problem.constraints
        cost = constraints.C[problem.is_soft].max() * constraints.row_norms().max() ** 2
        if cost > LARGE_COST:
            solution = solve_general(problem.with_hard_margins(), self._tol)
            if np.isfinite(solution.objective):
                self.certificate.offer(solution.coef, solution.dual_coef[problem.rows])

    def least_distance(self):
        """Solve the hard rows in the Frobenius norm: exact there, a start elsewhere."""
        for coef, dual in self._least_distances():
            self._n_iter += 1
            if self._is_proof(dual):
                return dual
            self.certificate.offer(coef, dual)
        return None

    def contradiction(self):
        """Look for a ray, and nothing else."""
        for _, dual in self._least_distances():
            if self._is_proof(dual):
                return dual
        return None

    def _is_proof(self, dual):
        return farkas_residual(self._problem, dual) <= RAY_TOLERANCE

    def _least_distances(self):
        is_hard = self._problem.constraints.is_hard
        hard = replace(self._problem.select(is_hard), norm=FrobeniusNorm())
        if not hard.required.any():
            return
        reduced = reduce_problem(hard)
        for point, multipliers in least_distance(
            reduced.rows, hard.required, hard.is_equality
        ):
            dual = np.zeros(is_hard.size)
            dual[is_hard] = multipliers / reduced.scale**2
            yield self._levelled(reduced.lift(point)), dual

    def interior_point(self):
        """Newton's method on a barrier, as long as there is progress."""
        problem = self._problem
        # An interior point needs an interior.
        proof = self.contradiction()
        rows = FactoredRows(problem.constraints)
        if proof is None and min(rows.size, rows.n_entries) <= LARGEST_SYSTEM:
            for starts_slack in (True,) if problem.is_hard else (True, False):
                if self.certificate.gap > self._tol:
                    self._follow_path(rows, starts_slack)
        return proof

    def _follow_path(self, rows, starts_slack):
        problem, certificate = self._problem, self.certificate
        iterate = InteriorPoint(
            problem, rows, starts_slack, problem.required, problem.is_equality
        )
        best_gap, best_barrier, n_stalled = np.inf, np.inf, 0
        target, limit = min(self._tol, AIM), self._limit(MAX_INTERIOR)
        while (
            certificate.gap > target
            and n_stalled < PATIENCE
            and not (n_stalled and certificate.gap <= self._tol)
            and self._n_iter < limit
        ):
            try:
                # Overflow gives no valid candidate, and the certificate takes no other.
                with np.errstate(all="ignore"):
                    iterate.step()
            except np.linalg.LinAlgError:
                break
            self._n_iter += 1
            coef = rows.lift(iterate.coordinates)
            certificate.offer(self._levelled(coef), iterate.dual / rows.scale**2)
            is_progress = certificate.gap < PROGRESS * best_gap
            is_progress |= iterate.barrier < PROGRESS * best_barrier
            n_stalled = 0 if is_progress else n_stalled + 1
            best_gap = min(best_gap, certificate.gap)
            best_barrier = min(best_barrier, iterate.barrier)
            if n_stalled > 1 and iterate.use_rows_if_possible():
                n_stalled = 0

    def lbfgs(self):
        """Quasi-Newton steps on the dual, from that of the Frobenius norm."""
        problem, certificate = self._problem, self.certificate
        proof = self.least_distance()
        if proof is not None:
            return proof
        certificate.offer(dual=np.where(problem.is_equality, 0.0, 1.0))
        if certificate.dual.any():
            limit = self._limit(MAX_QUASI_NEWTON)
            coef, dual, n_iter = dual_lbfgs(problem, certificate.dual, limit)
            self._n_iter += n_iter
            certificate.offer(self._levelled(coef), dual)
        return None

    def cvxpy(self):
        """Give the problem to Clarabel, as a cone program."""
        problem = self._problem
        reduced = reduce_problem(problem)
        program = write_program(
            problem,
            reduced,
            problem.constraints.is_hard,
            required=problem.required,
            is_equality=problem.is_equality,
        )
        outcome = run_clarabel(
            program, reduced, min(self._tol, TOLERANCES[0]), self._limit(MAX_INTERIOR)
        )
        self._n_iter += outcome.n_iter
        if outcome.point is not None:
            coef = self._levelled(reduced.lift(outcome.point))
            self.certificate.offer(coef, outcome.dual)
        return None

    def polish(self):
        """Give the solution the digits that an interior point leaves open."""
        problem, certificate = self._problem, self.certificate
        is_nuclear = isinstance(problem.norm, NuclearNorm)
        # Its equations are many: they take longer to solve than the problem.
        enough = self._tol if is_nuclear else POLISHED
        has_both = certificate.coef is not None and certificate.dual is not None
        if not has_both or not enough < certificate.gap < np.inf:
            return
        (polish_nuclear if is_nuclear else polish)(
            problem,
            certificate,
            reduce_problem(problem),
            certificate.dual,
            problem.required,
            problem.is_equality,
        )

    def _limit(self, default):
        return default if self._max_iter is None else self._max_iter

    def solution(self, solver):
        """Return the best of what the certificate has seen as a `MarginSolution`."""
        problem, certificate = self._problem, self.certificate
        solution = certified_solution(
            problem, certificate, tol=self._tol, solver=solver, n_iter=self._n_iter
        )
        if certificate.coef is None:
            return solution
        required, is_soft = problem.required, problem.is_soft
        margins = certificate.margins
        is_asked = (required > 0) & ~problem.is_equality
        ratios = margins[is_asked] / required[is_asked]
        slack = np.where(is_soft, np.maximum(required - margins, 0), 0)
        return replace(
            solution,
            min_margin=float(np.min(ratios, initial=np.inf)),
            slack=problem.split_dual(slack),
        )

    def infeasible(self, dual, solver):
        """Return the `MarginSolution` that says there is none, with its proof."""
        problem = self._problem
        return infeasible_solution(
            problem,
            dual / np.abs(dual).sum(),
            farkas_residual(problem, dual),
            solver=solver,
            n_iter=self._n_iter,
        )


_RUNS = {
    "least_distance": _GeneralRun.least_distance,
    "interior_point": _GeneralRun.interior_point,
    "lbfgs": _GeneralRun.lbfgs,
    "cvxpy": _GeneralRun.cvxpy,
}


def _solvers_for(problem):
    if isinstance(problem.norm, EntrywiseNorm):
        return ["lbfgs", "cvxpy"]
    names = ["interior_point", "cvxpy"]
    is_exact = problem.is_hard and isinstance(problem.norm, FrobeniusNorm)
    return ["least_distance", *names] if is_exact else names


def _check(problem, tol, max_iter, solver):
    if not isinstance(problem, GeneralProblem):
        raise TypeError(
            f"problem must be a GeneralProblem, got {type(problem).__name__}."
        )
    check_limits(tol, max_iter)
    if solver != "auto" and solver not in _RUNS:
        raise ValueError(
            f"solver must be 'auto' or one of {sorted(_RUNS)} for several selected "
            f"tokens or margins other than 1, got {solver!r}."
        )
    if solver == "least_distance" and not (
        problem.is_hard and isinstance(problem.norm, FrobeniusNorm)
    ):
        raise ValueError(
            "solver='least_distance' is for hard margins in the Frobenius norm only; "
            "pass solver='auto'."
        )
    if solver == "lbfgs" and not isinstance(problem.norm, EntrywiseNorm):
        raise ValueError(
            "solver='lbfgs' is for entrywise norms only; pass solver='auto'."
        )
    if solver == "interior_point" and isinstance(problem.norm, EntrywiseNorm):
        raise ValueError(
            "solver='interior_point' solves norms 'fro' and 'nuc'; pass solver='auto' "
            "for an entrywise norm."
        )
