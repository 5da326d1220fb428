"""The solvers by name."""

from numbers import Integral, Real

from skattn.margin._cvxpy import solve_cvxpy
from skattn.margin.problem import MarginProblem
from skattn.margin.solution import MarginSolution

#: Solvers by name: callables ``(problem, tol, max_iter, warm_start, callback)``.
SOLVERS = {"cvxpy": solve_cvxpy}


def solve(
    problem, tol=1e-6, max_iter=200, warm_start=None, callback=None, solver="auto"
):
    """Solve a margin problem to a certified gap.

    Parameters
    ----------
    problem : MarginProblem
        What to solve.

    tol : float, default=1e-6
        Relative duality gap ``(upper - lower) / upper`` to reach.

    max_iter : int, default=200
        Limit on the iterations of the solver.

    warm_start : MarginSolution, default=None
        An earlier solution of a problem with the same tokens and shape of the
        solution. With cvxpy it is a candidate only: returned at once when its gap on
        this problem is within `tol`, otherwise kept if the solver finds nothing better.

    callback : callable, default=None
        Called with a `Progress` at the end of each stage. Returning True stops, and
        what is best so far is returned.

    solver : {"auto", "cvxpy"}, default="auto"
        "auto" picks by the size of the problem; so far it is cvxpy with Clarabel.

    Returns
    -------
    solution : MarginSolution
        Its status says whether the gap was reached; nothing is raised or warned when
        it was not, or when hard margins are infeasible.

    Raises
    ------
    TypeError
        If `problem` or `warm_start` is of another type.

    ValueError
        If the solver is unknown, `tol` or `max_iter` is not positive, or the shapes of
        `warm_start` do not fit.

    References
    ----------
    arXiv 2308.16898, "Transformers as Support Vector Machines" (Att-SVM);
    arXiv 2306.13596, "Max-Margin Token Selection in Attention Mechanism".

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem, solve
    >>> tokens = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> solution = solve(MarginProblem(tokens, [0]))
    >>> solution.status, solution.coef.round(4)
    ('optimal', array([-0.099 ,  0.9901]))
    """
    if not isinstance(problem, MarginProblem):
        raise TypeError(
            f"problem must be a MarginProblem, got {type(problem).__name__}."
        )
    if not (isinstance(tol, Real) and tol > 0):
        raise ValueError(f"tol must be above 0, got {tol!r}.")
    if not (isinstance(max_iter, Integral) and max_iter > 0):
        raise ValueError(f"max_iter must be a positive integer, got {max_iter!r}.")
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(
            f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}."
        )
    if warm_start is not None:
        _check_warm_start(warm_start, problem)
    chosen = SOLVERS["cvxpy" if solver == "auto" else solver]
    return chosen(
        problem,
        tol=tol,
        max_iter=max_iter,
        warm_start=warm_start,
        callback=callback,
    )


def _check_warm_start(warm_start, problem):
    if not isinstance(warm_start, MarginSolution):
        raise TypeError(
            f"warm_start must be a MarginSolution, got {type(warm_start).__name__}."
        )
    coef_shape, n_tokens = warm_start.coef.shape, warm_start.dual_coef.size
    if coef_shape != problem.coef_shape or n_tokens != problem.n_tokens:
        raise ValueError(
            f"warm_start has a coef of shape {coef_shape} and {n_tokens} tokens, but "
            f"the problem has {problem.coef_shape} and {problem.n_tokens}."
        )
