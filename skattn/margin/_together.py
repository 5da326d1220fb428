"""Many problems in one call, and one problem at many costs."""

from dataclasses import replace

import numpy as np

from skattn.margin._dual_cd import MAX_EPOCHS, solve_many_dual_cd
from skattn.margin._norms import FrobeniusNorm
from skattn.margin.solvers import (
    check_request,
    patience,
    run_in_turn,
    solve,
    solvers_for,
    supports,
)

#: Steps in C longer than this many times the step before are too long to extrapolate.
LONGEST_STEP = 4


def solve_many(problems, tol=1e-6, max_iter=None, solver="auto"):
    """Solve many problems, those of the Frobenius norm at the same time.

    Parameters
    ----------
    problems : sequence of MarginProblem
        Of any shapes and norms.

    tol : float, default=1e-6
        Relative duality gap to reach in each.

    max_iter : int, default=None
        As in `solve`.

    solver : {"auto"} or a key of `SOLVERS`, default="auto"
        As in `solve`, but "auto" comes to cvxpy last, on small problems too: a cone
        program takes a hundred times as long to set up as to solve by other means.

    Returns
    -------
    solutions : list of MarginSolution
        In the order of `problems`.

    Raises
    ------
    TypeError, ValueError
        As in `solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem, solve_many
    >>> tokens = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problems = [MarginProblem(tokens, [selected]) for selected in (0, 1)]
    >>> [solution.coef.round(3) for solution in solve_many(problems)]
    [array([-0.099,  0.99 ]), array([1., 0.])]
    """
    problems = list(problems)
    for problem in problems:
        check_request(problem, tol, max_iter, solver)
    descending = [
        index
        for index, problem in enumerate(problems)
        if solver in ("auto", "dual_cd")
        and isinstance(problem.norm, FrobeniusNorm)
        and supports("dual_cd", problem)
    ]
    if max_iter is not None:
        limits = [max_iter] * len(descending)
    elif solver == "dual_cd":
        limits = [MAX_EPOCHS] * len(descending)
    else:
        limits = [patience("dual_cd", problems[index]) for index in descending]
    descended = solve_many_dual_cd(
        [problems[index] for index in descending], tol, limits
    )
    solutions = dict(zip(descending, descended, strict=True))
    for index, problem in enumerate(problems):
        solution = solutions.get(index)
        if solver != "auto":
            if solution is None:
                solutions[index] = solve(problem, tol, max_iter, solver=solver)
        elif solution is None or solution.status == "max_iter":
            names = solvers_for(problem, prefers_cvxpy=False)
            if solution is not None:
                names.remove("dual_cd")
            if names:
                solutions[index] = run_in_turn(names, problem, tol, max_iter, solution)
    return [solutions[index] for index in range(len(problems))]


def attention_svm_path(problem, Cs, *, tol=1e-6, max_iter=None, solver="auto"):
    """Solve a problem at many costs of slack, each from the solutions before.

    Parameters
    ----------
    problem : MarginProblem
        Its own C does not matter. Tokens, queries and norm are shared by the path and
        prepared once.

    Cs : array-like of shape (n_Cs,) or (n_Cs, n)
        The costs of slack, a number or one a sample each; infinity is the hard margin.
        They are solved in ascending order of their sum.

    tol : float, default=1e-6
        Relative duality gap to reach in each.

    max_iter : int, default=None
        As in `solve`.

    solver : {"auto"} or a key of `SOLVERS`, default="auto"
        As in `solve`, but "auto" comes to cvxpy last, on small problems too: it cannot
        start from a solution.

    Returns
    -------
    solutions : list of MarginSolution
        In the order of `Cs`. Nothing is raised where hard margins are infeasible; the
        status says so.

    Raises
    ------
    TypeError, ValueError
        As in `solve`; `Cs` also if it is empty or of another shape.

    Examples
    --------
    >>> from skattn.margin import MarginProblem, attention_svm_path
    >>> problem = MarginProblem([[[2.0], [0.0]]], [0])
    >>> path = attention_svm_path(problem, [0.1, 0.2, 0.4])
    >>> [round(float(solution.coef[0]), 6) for solution in path]
    [0.2, 0.4, 0.5]
    """
    check_request(problem, tol, max_iter, solver)
    Cs = np.asarray(Cs, dtype=np.float64)
    is_path = Cs.ndim == 1 or (Cs.ndim == 2 and Cs.shape[1] == problem.n_samples)
    if Cs.size == 0 or not is_path:
        raise ValueError(
            f"Cs must have shape (n_Cs,) or (n_Cs, {problem.n_samples}), one cost a "
            f"problem or one a sample in each; got shape {Cs.shape}."
        )
    solutions = [None] * len(Cs)
    sums = Cs.reshape(len(Cs), -1).sum(axis=1)
    order = np.argsort(sums, kind="stable")
    start = None
    for position, index in enumerate(order):
        C = Cs[index] if Cs.ndim == 2 else float(Cs[index])
        problem = problem.with_C(C)
        names = [solver]
        if solver == "auto":
            names = solvers_for(problem, prefers_cvxpy=False)
        solutions[index] = run_in_turn(names, problem, tol, max_iter, start)
        start = _next_start(position, order, sums, solutions)
    return solutions


def _next_start(position, order, sums, solutions):
    """Return the last solution, moved on the way it came where that makes sense.

    For the Frobenius norm the solutions are piecewise linear in C, for every norm they
    are while all constraints have slack.
    """
    last = solutions[order[position]]
    if not 0 < position < len(order) - 1:
        return last
    before = solutions[order[position - 1]]
    c0, c1, c2 = sums[order[position - 1 : position + 2]]
    if c2 == np.inf or not 0 < c2 - c1 <= LONGEST_STEP * (c1 - c0):
        return last
    factor = (c2 - c1) / (c1 - c0)
    coef = last.coef + factor * (last.coef - before.coef)
    dual_coef = last.dual_coef + factor * (last.dual_coef - before.dual_coef)
    if not np.isfinite(coef).all():
        return last
    return replace(last, coef=coef, dual_coef=np.maximum(dual_coef, 0))
