"""The solvers by name, and which one is for what."""

from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral, Real

from skattn._threads import SingleThread
from skattn.convex._burer_monteiro import solve_burer_monteiro
from skattn.convex._cvxpy import solve_cvxpy
from skattn.convex._fista import solve_fista
from skattn.convex.problem import ConvexProblem
from skattn.convex.solution import ConvexSolution

#: Solvers by name: callables ``(problem, tol, max_iter, start, callback)``.
SOLVERS = {
    "burer_monteiro": solve_burer_monteiro,
    "cvxpy": solve_cvxpy,
    "fista": solve_fista,
}

#: Width of tokens up to which "auto" takes "fista" first for self-attention.
WIDEST_FOR_FISTA = 32

#: Iterations after which "auto" goes on with the other solver.
PATIENCE = 2000

#: Bytes of features up to which matrices are too small for more than one thread.
SMALL_FEATURES = 2**26

_SINGLE_THREAD = SingleThread(user_api="blas")


def solve(problem, solver="auto", tol=1e-4, max_iter=None, start=None, callback=None):
    """Solve a convex problem to a certified gap.

    Parameters
    ----------
    problem : ConvexProblem
        What to solve.

    solver : {"auto", "fista", "burer_monteiro", "cvxpy"}, default="auto"
        "auto" is "fista", and goes on with "burer_monteiro" after 2,000 iterations,
        as features of very different scales call for. For self-attention on tokens of
        more than 32 features it is the other way round: matrices are too large there
        for their singular values at each step. The `solver` of the solution says whose
        result it is.

    tol : float, default=1e-4
        Relative gap ``(objective - lower_bound) / lower_bound`` to reach.

    max_iter : int, default=None
        Limit on the iterations of the solver. None: the default of each solver.

    start : ConvexSolution, default=None
        An earlier solution of a problem of the same shapes, to start from.

    callback : callable, default=None
        Called with a `Progress` from time to time. Returning True stops, and the best
        candidate so far is returned.

    Returns
    -------
    solution : ConvexSolution
        Its status says whether the gap was reached; nothing is raised or warned when
        it was not.

    Raises
    ------
    TypeError
        If `problem` or `start` is of another type.

    ValueError
        If the solver is unknown, `tol` or `max_iter` is not positive, `start` does
        not fit the problem, or the problem is not small enough for "cvxpy".

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import ConvexProblem, make_features, make_gates, solve
    >>> tokens = np.random.default_rng(0).standard_normal((20, 3, 2))
    >>> targets = tokens[:, 0, 0] * tokens[:, 1, 0]
    >>> gates = make_gates("self_attention", "gated_relu", tokens, rng=0)
    >>> features = make_features(gates, tokens)
    >>> problem = ConvexProblem(features, targets, "squared", beta=0.1)
    >>> solution = solve(problem, tol=1e-6)
    >>> solution.status, solution.duality_gap < 1e-6
    ('optimal', True)
    """
    check_request(problem, solver, tol, max_iter, start)
    if solver != "auto":
        return _run(solver, problem, tol, max_iter, start, callback)
    return _run_in_turn(problem, tol, max_iter, start, callback)


def _run(solver, problem, tol, max_iter, start, callback):
    limit = {} if max_iter is None else {"max_iter": max_iter}
    is_small = problem.features.nbytes <= SMALL_FEATURES
    with _SINGLE_THREAD if is_small else nullcontext():
        return SOLVERS[solver](
            problem, tol=tol, start=start, callback=callback, **limit
        )


def _run_in_turn(problem, tol, max_iter, start, callback):
    n_before, has_stopped = 0, False

    def watched(progress):
        nonlocal has_stopped
        progress = progress._replace(n_iter=n_before + progress.n_iter)
        has_stopped = callback(progress) is True
        return has_stopped

    watch = None if callback is None else watched
    first, second = _order(problem)
    patience = PATIENCE if max_iter is None else min(PATIENCE, max_iter)
    best = _run(first, problem, tol, patience, start, watch)
    left = None if max_iter is None else max_iter - best.n_iter
    if best.status == "optimal" or has_stopped or left == 0:
        return best
    n_before = best.n_iter
    other = _run(second, problem, tol, left, best, watch)
    solution = min(best, other, key=lambda solution: solution.duality_gap)
    return replace(solution, n_iter=best.n_iter + other.n_iter)


def _order(problem):
    gates = problem.features.gates
    is_wide = gates.block == "self_attention" and gates.n_features > WIDEST_FOR_FISTA
    return ("burer_monteiro", "fista") if is_wide else ("fista", "burer_monteiro")


def check_request(problem, solver, tol, max_iter, start):
    """Refuse what `solve` cannot work with.

    Parameters
    ----------
    problem, solver, tol, max_iter, start : object
        As in `solve`.

    Raises
    ------
    TypeError, ValueError
        As in `solve`.
    """
    if not isinstance(problem, ConvexProblem):
        raise TypeError(
            f"problem must be a ConvexProblem, got {type(problem).__name__}."
        )
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(
            f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}."
        )
    if not (isinstance(tol, Real) and tol > 0):
        raise ValueError(f"tol must be above 0, got {tol!r}.")
    if max_iter is not None and not (isinstance(max_iter, Integral) and max_iter > 0):
        raise ValueError(f"max_iter must be a positive integer, got {max_iter!r}.")
    if start is None:
        return
    if not isinstance(start, ConvexSolution):
        raise TypeError(f"start must be a ConvexSolution, got {type(start).__name__}.")
    if start.coef.shape != problem.coef_shape:
        raise ValueError(
            f"start has a coef of shape {start.coef.shape}, but the problem has "
            f"{problem.coef_shape}."
        )
