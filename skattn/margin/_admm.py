"""The nuclear norm by alternating directions over coordinate descent."""

import numpy as np

from skattn.margin._norms import NuclearNorm
from skattn.margin._polish_nuclear import polish_nuclear
from skattn.margin._ray import RaySearch, prove_from_support
from skattn.margin._reduction import LARGEST_EXPLICIT, reduce_problem
from skattn.margin._run import Run
from skattn.margin._threads import single_blas_thread

#: Alternations by default.
MAX_ALTERNATIONS = 10_000

#: Alternations after which a ray is looked for while no point is feasible; then after
#: twice as many, and so on.
PATIENCE = 50


def solve_admm(
    problem, tol=1e-6, max_iter=MAX_ALTERNATIONS, warm_start=None, callback=None
):
    """Solve a nuclear margin problem by alternating directions.

    The problem is split into margins, which one copy of W meets, and norm, which
    another copy minimises. The first step is a Frobenius problem around the current
    point, for block dual coordinate descent; the second lowers singular values, so
    that its copy, which is what is returned, is of low rank exactly. Over-relaxed,
    with the residuals kept in balance (Boyd et al. 2011, section 3.4).

    Parameters
    ----------
    problem : MarginProblem
        Of the nuclear norm. Sparse tokens are stored densely while they fit.

    tol : float, default=1e-6
        Relative duality gap to reach.

    max_iter : int, default=10_000
        Limit on the alternations; 30 to 200 are usual.

    warm_start : MarginSolution, default=None
        A solution of a problem of the same shapes, at any C: where to start.

    callback : callable, default=None
        Called with a `Progress` after the stages "warm_start", "alternation" (every
        fifth) and "polish"; returning True ends the work there.

    Returns
    -------
    solution : MarginSolution

    Raises
    ------
    ValueError
        If the problem is of another norm, or sparse and too large to be stored densely.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato and J. Eckstein (2011), "Distributed
    optimization and statistical learning via the alternating direction method of
    multipliers".

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem, solve
    >>> tokens = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    >>> problem = MarginProblem(tokens, [0, 0], query=np.eye(2), norm="nuc")
    >>> solution = solve(problem, solver="admm")
    >>> round(solution.objective, 4), solution.status
    (2.0, 'optimal')
    """
    if not isinstance(problem.norm, NuclearNorm):
        raise ValueError(
            "solver='admm' is for norm='nuc' with queries of more than one feature "
            "only; pass solver='auto'."
        )
    run = Run(problem, tol, callback, "admm")
    with single_blas_thread():
        if run.needs_no_iteration(warm_start):
            return run.best_so_far()
        from skattn.margin._alternation import Alternation

        return _alternate(run, Alternation(problem, warm_start), tol, max_iter)


def _alternate(run, state, tol, max_iter):
    problem, certificate = run.problem, run.certificate
    search, patience = RaySearch(problem.merged), PATIENCE
    while run.n_iter < max_iter:
        limit = state.alternations_per_call(run.has_callback)
        if np.isinf(certificate.upper_bound):
            limit = min(limit, patience)
            patience *= 2
        run.n_iter += state.advance(tol, run.n_iter, min(limit, max_iter - run.n_iter))
        certificate.offer(coef=state.coef, dual=state.dual)
        if run.is_stopped_after("alternation") or run.is_certified:
            return run.best_so_far()
        if np.isinf(certificate.upper_bound):
            proof = search.look(state.dual)
            if proof is not None:
                return run.infeasible(*proof)
    if np.isinf(certificate.upper_bound):
        proof = prove_from_support(problem.merged, state.dual)
        return run.best_so_far() if proof is None else run.infeasible(*proof)
    n_products = problem.merged.size * int(np.prod(problem.coef_shape))
    if n_products <= LARGEST_EXPLICIT:
        polish_nuclear(problem, certificate, reduce_problem(problem), state.dual)
        run.is_stopped_after("polish")
    return run.best_so_far()
