"""The problem as a cone program: the referee for small ones."""

import warnings

import numpy as np

from skattn.convex.losses import Logistic, Multinomial
from skattn.convex.solution import Progress, certified_solution, starting_point

#: Numbers on both sides of all matrices, squared and added up, beyond which Clarabel
#: gives way to SCS.
LARGEST_FOR_CLARABEL = 2**11

#: And beyond which no cone solver ends within hours.
LARGEST = 2**21

#: What Clarabel is asked for: it stops earlier where progress ends, and each digit
#: costs about one iteration. The looser one is tried when the tighter ends in an error.
TOLERANCES = (1e-12, 1e-8)

#: What SCS is asked for, as a share of the gap: it is judged by the certificate.
SHARE_OF_TOL = 1e-2

SCS_ITERATIONS = 20_000


def solve_cvxpy(problem, tol=1e-4, max_iter=None, start=None, callback=None):
    """Solve as a cone program, with semidefinite cones for the nuclear norms.

    For small problems: a matrix of p rows and q columns takes a cone of (p + q)^2
    numbers. Clarabel solves the smaller ones, SCS the others.

    Parameters
    ----------
    problem : ConvexProblem

    tol : float, default=1e-4
        Relative gap at which the status is "optimal".

    max_iter : int, default=None
        Limit on the iterations of the cone solver; None for 200 of Clarabel or 20,000
        of SCS.

    start : ConvexSolution, default=None
        Returned if its gap on this problem is within `tol`, and if the cone solver
        finds nothing better. Cone programs start from nowhere.

    callback : callable, default=None
        Called with a `Progress` at the end.

    Returns
    -------
    solution : ConvexSolution

    Raises
    ------
    ValueError
        If the problem is not small.
    """
    if _size(problem) > LARGEST:
        raise ValueError(
            "solver='cvxpy' is for small problems: the semidefinite cones of coef of "
            f"shape {problem.coef_shape} hold {_size(problem):.1e} numbers, and at "
            f"most {LARGEST:.1e} are accepted. Take solver='fista' or "
            "'burer_monteiro'."
        )

    def candidate(coef, intercept, n_iter):
        return certified_solution(
            problem, coef, intercept, tol=tol, solver="cvxpy", n_iter=n_iter
        )

    best = candidate(*starting_point(problem, start), 0)
    if best.duality_gap > tol:
        found = _run(problem, tol, max_iter)
        if found is not None:
            solution = candidate(*found)
            if solution.duality_gap <= best.duality_gap:
                best = solution
    if callback is not None:
        callback(
            Progress(best.n_iter, best.objective, best.lower_bound, best.duality_gap)
        )
    return best


def _size(problem):
    n_gates, n_rows, n_columns = problem.coef_shape
    return n_gates * (n_rows + n_columns) ** 2


def _run(problem, tol, max_iter):
    import cvxpy as cp

    matrices, intercept, program = _write_program(problem)
    for settings in _settings(problem, tol, max_iter):
        try:
            with warnings.catch_warnings():
                # cvxpy warns of inaccuracy; the certificate measures it.
                warnings.simplefilter("ignore", UserWarning)
                program.solve(**settings)
        except cp.SolverError:
            continue
        if intercept.value is not None:
            coef = np.stack([matrix.value for matrix in matrices])
            return coef, intercept.value, program.solver_stats.num_iters or 0
    return None


def _settings(problem, tol, max_iter):
    import cvxpy as cp

    if _size(problem) <= LARGEST_FOR_CLARABEL:
        for attempt in TOLERANCES:
            yield {
                "solver": cp.CLARABEL,
                "max_iter": max_iter or 200,
                "max_threads": 1,
                "tol_gap_abs": attempt,
                "tol_gap_rel": attempt,
                "tol_feas": attempt,
                "accept_unknown": True,
            }
    yield {
        "solver": cp.SCS,
        "max_iters": max_iter or SCS_ITERATIONS,
        "eps_abs": SHARE_OF_TOL * tol,
        "eps_rel": SHARE_OF_TOL * tol,
    }


def _write_program(problem):
    import cvxpy as cp

    n_gates, n_rows, n_columns = problem.coef_shape
    n_outputs, loss = problem.n_outputs, problem.loss
    matrices = [cp.Variable((n_rows, n_columns)) for _ in range(n_gates)]
    intercept = cp.Variable(n_outputs)
    features = np.split(problem.features.matrix(), n_gates, axis=1)
    outputs = [
        intercept[output]
        + sum(
            part @ cp.vec(matrix[:, output::n_outputs], order="C")
            for part, matrix in zip(features, matrices, strict=True)
        )
        for output in range(n_outputs)
    ]
    outputs = cp.vstack(outputs).T
    if isinstance(loss, Logistic):
        losses = cp.logistic(-cp.multiply(loss.targets, outputs))[:, 0]
    elif isinstance(loss, Multinomial):
        own = cp.sum(cp.multiply(loss.targets, outputs), axis=1)
        losses = cp.log_sum_exp(outputs, axis=1) - own
    else:
        losses = 0.5 * cp.sum(cp.square(outputs - loss.targets), axis=1)
    penalty = sum(cp.normNuc(matrix) for matrix in matrices)
    objective = loss.weight @ losses + problem.beta * penalty
    return matrices, intercept, cp.Problem(cp.Minimize(objective))
