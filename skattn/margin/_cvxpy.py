"""The problem as a cone program: cvxpy with Clarabel, then a polish."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skattn.margin._infeasibility import RAY_TOLERANCE, find_ray
from skattn.margin._norms import EntrywiseNorm, NuclearNorm
from skattn.margin._polish import polish
from skattn.margin._polish_nuclear import polish_nuclear
from skattn.margin._reduction import reduce_problem
from skattn.margin.certificate import Certificate
from skattn.margin.progress import Progress
from skattn.margin.solution import certified_solution, infeasible_solution

#: What Clarabel is asked for: it stops earlier where progress ends, and each digit
#: costs about one iteration. The looser one is tried when the tighter ends in an error.
TOLERANCES = (1e-12, 1e-8)

#: Cost of slack, relative to the size of the rows, that calls for other formulations.
LARGE_COST = 1e3


def solve_cvxpy(problem, tol=1e-6, max_iter=200, warm_start=None, callback=None):
    """Solve a margin problem by an interior-point method for cones.

    Clarabel's own verdict, which may be "inaccurate", decides nothing: the status is
    "optimal" when the gap of the certificate is, and "infeasible" only with a ray that
    proves it. Clarabel is always asked for more than `tol`.

    Parameters
    ----------
    problem : MarginProblem

    tol : float, default=1e-6
        Relative duality gap to reach.

    max_iter : int, default=200
        Limit on Clarabel's iterations.

    warm_start : MarginSolution, default=None
        A solution of a problem of the same shapes. An interior point cannot start
        from it: it counts as a candidate, and when it is good enough already it is
        returned without any iteration.

    callback : callable, default=None
        Called with a `Progress` after the stages "warm_start", "clarabel" and
        "polish"; returning True ends the work there.

    Returns
    -------
    solution : MarginSolution
    """
    certificate = Certificate(problem)
    n_iter = 0

    def is_stopped_after(stage):
        if callback is None:
            return False
        bounds = certificate.lower_bound, certificate.upper_bound, certificate.gap
        return callback(Progress(stage, n_iter, *bounds)) is True

    def best_so_far():
        return certified_solution(
            problem, certificate, tol=tol, solver="cvxpy", n_iter=n_iter
        )

    if problem.merged.size == 0:
        certificate.offer(coef=np.zeros(problem.coef_shape), dual=np.zeros(0))
        return best_so_far()
    if warm_start is not None:
        certificate.offer(
            coef=warm_start.coef, dual=problem.merge_dual(warm_start.dual_coef)
        )
        if is_stopped_after("warm_start") or certificate.gap <= tol:
            return best_so_far()

    if not problem.merged.is_hard.any():
        certificate.offer(coef=np.zeros(problem.coef_shape))
    reduced = reduce_problem(problem)
    is_nuclear = isinstance(problem.norm, NuclearNorm)
    improve = polish_nuclear if is_nuclear else polish
    for program in _programs(problem, reduced):
        outcome = run_clarabel(program, reduced, min(tol, TOLERANCES[0]), max_iter)
        n_iter += outcome.n_iter
        if outcome.point is not None:
            certificate.offer(coef=reduced.lift(outcome.point), dual=outcome.dual)
        if is_stopped_after("clarabel"):
            break
        if outcome.point is not None:
            improve(problem, certificate, reduced, outcome.dual)
            if is_stopped_after("polish") or certificate.gap <= tol:
                break
    if np.isinf(certificate.upper_bound) and problem.merged.is_hard.any():
        ray, residual = find_ray(problem.merged, reduced.rows, outcome.dual)
        if residual <= RAY_TOLERANCE:
            return infeasible_solution(
                problem, ray, residual, solver="cvxpy", n_iter=n_iter
            )
    return best_so_far()


class Program(NamedTuple):
    """A cone program, and what its solution means in reduced coordinates."""

    problem: object
    point: object
    margins: "_Margins"
    point_unit: float
    dual_unit: float


class _Margins:
    """The rows as constraints of cvxpy, and their duals in one array."""

    def __init__(self, left_side, required, is_equality):
        self._parts = [(slice(None), left_side >= required, 1)]
        if is_equality is not None:
            margins, levels = np.flatnonzero(~is_equality), np.flatnonzero(is_equality)
            self._parts = [
                (margins, left_side[margins] >= required[margins], 1),
                # cvxpy adds equalities to the Lagrangian and subtracts margins.
                (levels, left_side[levels] == required[levels], -1),
            ]
        self._size = left_side.size

    @property
    def constraints(self):
        return [constraint for _, constraint, _ in self._parts if constraint.size]

    @property
    def dual_value(self):
        dual = np.zeros(self._size)
        for rows, constraint, sign in self._parts:
            if constraint.size:
                if constraint.dual_value is None:
                    return None
                dual[rows] = sign * constraint.dual_value
        return dual


class Outcome(NamedTuple):
    """What Clarabel found; None where it found nothing."""

    point: np.ndarray | None
    dual: np.ndarray | None
    n_iter: int


def run_clarabel(program, reduced, tol, max_iter):
    """Solve a program that was written in reduced coordinates.

    Parameters
    ----------
    program : Program

    reduced : ReducedProblem
        Its coordinates.

    tol : float
        What Clarabel is asked for.

    max_iter : int
        Limit on its iterations.

    Returns
    -------
    outcome : Outcome
        The point in reduced coordinates, the duals of the problem itself.
    """
    import cvxpy as cp

    for attempt in (tol, max(tol, TOLERANCES[1])):
        try:
            with warnings.catch_warnings():
                # cvxpy warns of inaccuracy; the certificate measures it.
                warnings.simplefilter("ignore", UserWarning)
                program.problem.solve(
                    solver=cp.CLARABEL,
                    max_iter=max_iter,
                    max_threads=1,
                    tol_gap_abs=attempt,
                    tol_gap_rel=attempt,
                    tol_feas=attempt,
                    accept_unknown=True,
                )
            break
        except cp.SolverError:
            continue
    else:
        return Outcome(None, None, 0)
    point, dual = program.point.value, program.margins.dual_value
    return Outcome(
        None if point is None else program.point_unit * point,
        None if dual is None else program.dual_unit * dual / reduced.scale**2,
        program.problem.solver_stats.num_iters or 0,
    )


def _programs(problem, reduced):
    """Write the problem in one or more ways, the most promising first.

    Numbers of very different size cost an interior point its digits. A small C is
    taken as the unit of solution and duals. Where C is large, the hard margin is tried
    first: its solution is the soft one unless a dual exceeds C, and then slack is what
    counts in the objective, which is divided by C.
    """
    is_hard = problem.merged.is_hard
    cost = problem.merged.C * reduced.scale**2
    if is_hard.all():
        yield write_program(problem, reduced, is_hard, 1.0, 1.0)
        return
    largest = float(cost[~is_hard].max())
    if largest > LARGE_COST:
        yield write_program(problem, reduced, np.ones_like(is_hard), 1.0, 1.0)
        yield write_program(problem, reduced, is_hard, 1.0, largest)
    unit = 1.0 if is_hard.any() else min(1.0, largest)
    yield write_program(problem, reduced, is_hard, unit, unit)


def write_program(
    problem,
    reduced,
    is_hard,
    point_unit=1.0,
    dual_unit=1.0,
    required=1.0,
    is_equality=None,
):
    """Write a margin problem as a cone program.

    Parameters
    ----------
    problem : MarginProblem or GeneralProblem

    reduced : ReducedProblem
        The coordinates of its rows.

    is_hard : boolean array of shape (m,)
        Which rows are to have no slack.

    point_unit, dual_unit : float
        Units of the solution and of the duals.

    required : float or ndarray of shape (m,), default=1.0
        What each row must reach.

    is_equality : boolean array of shape (m,), default=None
        Which rows must not exceed it either; None: none.

    Returns
    -------
    program : Program
    """
    import cvxpy as cp

    point = cp.Variable(reduced.shape)
    left_side = point_unit * (reduced.rows @ cp.vec(point, order="C"))
    constraints = []
    if isinstance(problem.norm, NuclearNorm):
        size = cp.normNuc(point)
        half_square = 0.5 * cp.square(size)
    elif isinstance(problem.norm, EntrywiseNorm):
        # sum of |w|^p / size^(p - 1) <= size, by cones that are exact for every p.
        size = cp.Variable(nonneg=True)
        share = cp.Variable(reduced.shape)
        spread = size * np.ones(reduced.shape)
        constraints.append(cp.sum(share) <= size)
        constraints.append(cp.PowCone3D(share, spread, point, 1 / problem.norm.p))
        half_square = 0.5 * cp.square(size)
    else:
        size = half_square = 0.5 * cp.sum_squares(point)
    if is_hard.all():
        objective = size
    else:
        soft = np.flatnonzero(~is_hard)
        slack = cp.Variable(soft.size, nonneg=True)
        placement = sparse.csr_array(
            (np.ones(soft.size), (soft, np.arange(soft.size))),
            shape=(is_hard.size, soft.size),
        )
        left_side = left_side + placement @ slack
        cost = problem.merged.C[soft] * reduced.scale**2
        objective = (point_unit**2 / dual_unit) * half_square
        objective = objective + (cost / dual_unit) @ slack
    margins = _Margins(left_side, required, is_equality)
    return Program(
        cp.Problem(cp.Minimize(objective), [*margins.constraints, *constraints]),
        point,
        margins,
        point_unit,
        dual_unit,
    )
