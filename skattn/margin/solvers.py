"""The solvers by name, and which one is for what."""

from numbers import Integral, Real

import numpy as np
from scipy import sparse

from skattn.margin._admm import solve_admm
from skattn.margin._blocks import LARGEST_DENSE
from skattn.margin._cvxpy import solve_cvxpy
from skattn.margin._dual_cd import solve_dual_cd
from skattn.margin._interior_iterate import LARGEST_SYSTEM
from skattn.margin._interior_point import solve_interior_point
from skattn.margin._norms import EntrywiseNorm, FrobeniusNorm, NuclearNorm
from skattn.margin._sqp import solve_sqp
from skattn.margin.problem import MarginProblem
from skattn.margin.solution import MarginSolution

#: Solvers by name: callables ``(problem, tol, max_iter, warm_start, callback)``.
SOLVERS = {
    "admm": solve_admm,
    "cvxpy": solve_cvxpy,
    "dual_cd": solve_dual_cd,
    "interior_point": solve_interior_point,
    "sqp": solve_sqp,
}

#: What "auto" tries on problems that are not small, by norm, in this order.
AUTO = {
    FrobeniusNorm: ("dual_cd", "interior_point", "cvxpy"),
    NuclearNorm: ("admm", "interior_point", "cvxpy"),
    EntrywiseNorm: ("sqp", "cvxpy"),
}

#: Entries of the matrix of all ``dx z'`` up to which a problem is small. The last
#: digits of "sqp" depend on the order of sums, and small problems can have them all.
SMALL = {FrobeniusNorm: 2**12, NuclearNorm: 2**12, EntrywiseNorm: 2**16}

#: And up to which cvxpy is worth a try.
LARGEST_FOR_CVXPY = 2**24

#: Work of "dual_cd" in "auto" while there is another solver to try: numbers read, and
#: epochs in any case.
AUTO_WORK = 2e9
FEWEST_AUTO_EPOCHS = 1000

#: The same for "admm", which has mostly converged after some tens of alternations.
AUTO_ALTERNATIONS = 2000


def supports(solver, problem):
    """Tell whether a solver is made for a problem.

    Parameters
    ----------
    solver : str
        A key of `SOLVERS`.

    problem : MarginProblem

    Returns
    -------
    is_supported : bool
        By the norm of the problem, its size and whether its tokens are sparse.

    Examples
    --------
    >>> from skattn.margin import MarginProblem, supports
    >>> problem = MarginProblem([[[2.0, 0.0], [0.0, 0.0]]], [0], norm=1.5)
    >>> supports("cvxpy", problem), supports("dual_cd", problem)
    (True, False)
    """
    n_rows, n_entries = problem.merged.size, int(np.prod(problem.coef_shape))
    if solver == "cvxpy":
        return n_rows * n_entries <= LARGEST_FOR_CVXPY or sparse.issparse(
            problem.merged.differences
        )
    if sparse.issparse(problem.merged.differences) and (
        n_rows * problem.coef_shape[0] > LARGEST_DENSE
    ):
        return False
    if solver == "dual_cd":
        return isinstance(problem.norm, FrobeniusNorm)
    if solver == "interior_point":
        return not isinstance(problem.norm, EntrywiseNorm) and (
            min(n_rows, n_entries) <= LARGEST_SYSTEM
        )
    if solver == "admm":
        return isinstance(problem.norm, NuclearNorm)
    return isinstance(problem.norm, EntrywiseNorm)


def solve(
    problem, tol=1e-6, max_iter=None, warm_start=None, callback=None, solver="auto"
):
    """Solve a margin problem to a certified gap.

    Parameters
    ----------
    problem : MarginProblem
        What to solve.

    tol : float, default=1e-6
        Relative duality gap ``(upper - lower) / upper`` to reach.

    max_iter : int, default=None
        Limit on the iterations of the solver. None: the default of each solver.

    warm_start : MarginSolution, default=None
        An earlier solution of a problem with the same tokens and shape of the
        solution: returned at once when its gap on this problem is within `tol`. The
        first-order solvers start from it. For interior points and cvxpy it is a
        candidate only, kept if the solver finds nothing better.

    callback : callable, default=None
        Called with a `Progress` at the end of each stage. Returning True stops, and
        what is best so far is returned.

    solver : {"auto"} or a key of `SOLVERS`, default="auto"
        "auto" takes cvxpy with Clarabel for small problems, up to 4,096 entries in the
        matrix of all ``dx z'`` (65,536 for l_p norms), and the solver made for the norm
        beyond. Where the
        gap is not reached, it goes on with the next solver from there. The `solver` of
        the solution says whose result it is.

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
        If the solver is unknown or not made for the norm, `tol` or `max_iter` is not
        positive, or the shapes of `warm_start` do not fit.

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
    check_request(problem, tol, max_iter, solver)
    if warm_start is not None:
        _check_warm_start(warm_start, problem)
    if solver != "auto":
        return _run(solver, problem, tol, max_iter, warm_start, callback)
    names = solvers_for(problem)
    return run_in_turn(names, problem, tol, max_iter, warm_start, callback)


def check_request(problem, tol, max_iter, solver):
    """Refuse what `solve` cannot work with.

    Parameters
    ----------
    problem, tol, max_iter, solver : object
        As in `solve`.

    Raises
    ------
    TypeError, ValueError
        As in `solve`.
    """
    if not isinstance(problem, MarginProblem):
        raise TypeError(
            f"problem must be a MarginProblem, got {type(problem).__name__}."
        )
    check_limits(tol, max_iter)
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(
            f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}."
        )


def check_limits(tol, max_iter):
    """Refuse a `tol` or `max_iter` that is not positive, by `ValueError`."""
    if not (isinstance(tol, Real) and tol > 0):
        raise ValueError(f"tol must be above 0, got {tol!r}.")
    if max_iter is not None and not (isinstance(max_iter, Integral) and max_iter > 0):
        raise ValueError(f"max_iter must be a positive integer, got {max_iter!r}.")


def solvers_for(problem, *, prefers_cvxpy=True):
    """Name the solvers that "auto" tries, in order.

    Parameters
    ----------
    problem : MarginProblem

    prefers_cvxpy : bool, default=True
        Whether cvxpy comes first on small problems. Otherwise it comes last on all.

    Returns
    -------
    names : list of str
        Never empty.
    """
    n_products = problem.merged.size * int(np.prod(problem.coef_shape))
    names = [
        name
        for name in AUTO[type(problem.norm)]
        if name in SOLVERS and supports(name, problem)
    ]
    if not names or (n_products <= SMALL[type(problem.norm)] and prefers_cvxpy):
        names = ["cvxpy", *(name for name in names if name != "cvxpy")]
    return names


def patience(name, problem):
    """Return the iterations after which "auto" tries another solver; None for all."""
    if name == "admm":
        return AUTO_ALTERNATIONS
    if name != "dual_cd":
        return None
    epoch = problem.merged.size * problem.coef_shape[0]
    return max(int(AUTO_WORK / max(epoch, 1)), FEWEST_AUTO_EPOCHS)


def run_in_turn(names, problem, tol, max_iter, warm_start=None, callback=None):
    """Run one solver after the other until the gap is reached.

    Parameters
    ----------
    names : list of str
        Keys of `SOLVERS`.

    problem, tol, max_iter, warm_start, callback : object
        As in `solve`.

    Returns
    -------
    solution : MarginSolution
        The one with the smallest gap, under the name of the solver that found it.
    """
    has_stopped = False

    def watched(progress):
        nonlocal has_stopped
        has_stopped = callback(progress) is True
        return has_stopped

    best = None
    for name in names:
        limit = max_iter
        if limit is None and name != names[-1]:
            limit = patience(name, problem)
        start = warm_start if best is None else best
        solution = _run(
            name, problem, tol, limit, start, None if callback is None else watched
        )
        # The gap of an infeasible problem is NaN, and that is an answer.
        if best is None or not solution.duality_gap >= best.duality_gap:
            best = solution
        if solution.status != "max_iter" or has_stopped:
            break
    return best


def _run(name, problem, tol, max_iter, warm_start, callback):
    limit = {} if max_iter is None else {"max_iter": max_iter}
    return SOLVERS[name](
        problem, tol=tol, warm_start=warm_start, callback=callback, **limit
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
