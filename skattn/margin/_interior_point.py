"""A primal-dual interior point that uses the structure of the rows ``dx z'``."""

import numpy as np

from skattn.margin._factored_rows import FactoredRows
from skattn.margin._interior_iterate import LARGEST_SYSTEM, InteriorPoint
from skattn.margin._norms import EntrywiseNorm, NuclearNorm
from skattn.margin._polish import polish
from skattn.margin._polish_nuclear import polish_nuclear
from skattn.margin._ray import RaySearch, prove_from_support
from skattn.margin._reduction import LARGEST_EXPLICIT, reduce_problem
from skattn.margin._run import Run
from skattn.margin._threads import single_blas_thread

#: Each digit costs about one iteration, and the rank of a solution shows only where
#: singular values have settled: this is aimed at, as long as there is progress.
AIM = 1e-8

#: What an iteration must make of the gap or the barrier parameter to count as
#: progress, and the iterations without any after which there will be none.
PROGRESS = 0.9
PATIENCE = 15


def solve_interior_point(
    problem, tol=1e-6, max_iter=200, warm_start=None, callback=None
):
    """Solve a Frobenius or nuclear margin problem by Newton's method on a barrier.

    Mehrotra's predictor and corrector; for the nuclear norm in Nesterov and Todd's
    scaling. The matrix of all products ``dx z'`` is never formed: a Newton system has
    one equation an entry of the solution or one a row, whichever are fewer. Made for
    tight tolerances and problems that are barely separable, of up to about 64 features
    a side.

    Parameters
    ----------
    problem : MarginProblem
        Of the Frobenius or the nuclear norm.

    tol : float, default=1e-6
        Relative duality gap to reach.

    max_iter : int, default=200
        Limit on the iterations; 10 to 40 are usual.

    warm_start : MarginSolution, default=None
        A candidate only, as for cvxpy: an interior point cannot start from it.

    callback : callable, default=None
        Called with a `Progress` after "warm_start", each "iteration" and "polish";
        returning True ends the work there.

    Returns
    -------
    solution : MarginSolution

    Raises
    ------
    ValueError
        If the norm is entrywise, or the Newton system would exceed 4096 equations.

    References
    ----------
    Y. Nesterov and M. Todd (1997), "Self-scaled barriers and interior-point methods
    for convex programming"; S. Mehrotra (1992), "On the implementation of a
    primal-dual interior point method".

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem, solve
    >>> tokens = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> solution = solve(MarginProblem(tokens, [0]), solver="interior_point")
    >>> solution.coef.round(4)
    array([-0.099 ,  0.9901])
    """
    if isinstance(problem.norm, EntrywiseNorm):
        raise ValueError(
            "solver='interior_point' solves norms 'fro' and 'nuc'; pass "
            "solver='cvxpy' for an entrywise norm."
        )
    run = Run(problem, tol, callback, "interior_point")
    with single_blas_thread():
        return _iterate(run, tol, max_iter, warm_start)


def _iterate(run, tol, max_iter, warm_start):
    problem = run.problem
    if run.needs_no_iteration(warm_start):
        return run.best_so_far()
    merged, certificate = problem.merged, run.certificate
    rows = FactoredRows(merged)
    if min(rows.size, rows.n_entries) > LARGEST_SYSTEM:
        raise ValueError(
            f"solver='interior_point' solves systems of up to {LARGEST_SYSTEM} "
            f"equations, but the problem has {rows.size} constraints and "
            f"{rows.n_entries} entries; pass solver='auto'."
        )
    search = RaySearch(merged)
    for starts_slack in (True,) if merged.is_hard.all() else (True, False):
        iterate = InteriorPoint(problem, rows, starts_slack)
        solution = _follow_path(run, rows, iterate, search, min(tol, AIM), max_iter)
        if solution is not None:
            return solution
        if np.isinf(certificate.upper_bound):
            proof = prove_from_support(merged, iterate.dual)
            if proof is not None:
                return run.infeasible(*proof)
        else:
            _polish(problem, certificate)
            if run.is_stopped_after("polish") or run.is_certified:
                break
    return run.best_so_far()


def _follow_path(run, rows, iterate, search, target, max_iter):
    """Iterate as long as there is progress.

    Returns
    -------
    solution : MarginSolution or None
        None when digits or iterations ran out before anything was settled.
    """
    certificate = run.certificate
    best_gap, best_barrier, n_stalled = np.inf, np.inf, 0
    while run.n_iter < max_iter and n_stalled < PATIENCE:
        try:
            # Overflow gives no valid candidate, and the certificate takes no other.
            with np.errstate(all="ignore"):
                iterate.step()
        except np.linalg.LinAlgError:
            # Rounding has the last word: no digits are left to gain.
            break
        run.n_iter += 1
        dual = iterate.dual / rows.scale**2
        certificate.offer(coef=rows.lift(iterate.coordinates), dual=dual)
        if run.is_stopped_after("iteration") or certificate.gap <= target:
            return run.best_so_far()
        if np.isinf(certificate.upper_bound):
            proof = search.look(dual)
            if proof is not None:
                return run.infeasible(*proof)
            continue
        is_progress = certificate.gap < PROGRESS * best_gap
        is_progress |= iterate.barrier < PROGRESS * best_barrier
        n_stalled = 0 if is_progress else n_stalled + 1
        best_gap = min(best_gap, certificate.gap)
        best_barrier = min(best_barrier, iterate.barrier)
        if n_stalled and run.is_certified:
            return run.best_so_far()
        if n_stalled > 1 and iterate.use_rows_if_possible():
            n_stalled = 0
    return None


def _polish(problem, certificate):
    if not isinstance(problem.norm, NuclearNorm):
        polish(problem, certificate, None, certificate.dual)
    elif problem.merged.size * int(np.prod(problem.coef_shape)) <= LARGEST_EXPLICIT:
        polish_nuclear(problem, certificate, reduce_problem(problem), certificate.dual)
