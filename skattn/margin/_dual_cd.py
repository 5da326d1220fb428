"""Block dual coordinate descent for the Frobenius norm, then a polish."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from skattn.margin._blocks import make_blocks
from skattn.margin._free_duals import improve_free_duals
from skattn.margin._infeasibility import ray_residual
from skattn.margin._norms import FrobeniusNorm
from skattn.margin._polish import LARGEST_FREE_SET, polish
from skattn.margin._ray import prove_from_support
from skattn.margin._run import Run
from skattn.margin._threads import single_blas_thread
from skattn.margin.certificate import duality_gap

#: Seed of the order of blocks.
SEED = 0

#: Multiplications in a call of the kernel, about a second: Python sees interrupts, and
#: the callback its turn, only between calls. A call ends in a look at the bounds, which
#: a large problem should not take more often than after these many epochs.
WORK_PER_CALL = 2e8
FEWEST_PER_CALL = 10

#: Descent alone goes down to this gap; where less is asked for, the polish takes over,
#: first from POLISH_GAP, then from a tenth of it, and so on.
DESCENT_GAP = 1e-4
POLISH_GAP = 1e-3

#: Epochs after which the polish is tried, or the search for a ray, though the gap is
#: not there yet; then after twice as many, and so on.
PATIENCE = 100

#: Newton steps on the free duals are thought of after this many epochs, and taken once
#: epochs have cost as much.
FEWEST_EPOCHS = 50

#: Relative size of ``adjoint(dual)`` above which no ray is looked for.
LOOKS_INFEASIBLE = 0.03

#: Epochs by default.
MAX_EPOCHS = 100_000


def solve_dual_cd(
    problem, tol=1e-6, max_iter=MAX_EPOCHS, warm_start=None, callback=None
):
    """Solve a Frobenius problem by dual coordinate descent in blocks of one query.

    For prompts and bilinear problems, hard and soft. An epoch visits every constraint
    that is not set aside, at about the cost of reading it; the certificate takes all of
    them into account every ten epochs. Gaps below 1e-4 are reached by Newton's method
    on the constraints at the margin, where these are few enough.

    Parameters
    ----------
    problem : MarginProblem
        Of the Frobenius norm. Sparse tokens are stored densely while they fit.

    tol : float, default=1e-6
        Relative duality gap to reach.

    max_iter : int, default=100_000
        Limit on the epochs.

    warm_start : MarginSolution, default=None
        A solution of a problem of the same shapes, at any C: its duals are the start.

    callback : callable, default=None
        Called with a `Progress` after the stages "warm_start", "descent" and "polish";
        returning True ends the work there.

    Returns
    -------
    solution : MarginSolution

    Raises
    ------
    ValueError
        If the problem is of another norm, or sparse and too large to be stored densely.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for
    large-scale linear SVM", ICML 2008: the step and the setting aside.
    """
    if not isinstance(problem.norm, FrobeniusNorm):
        raise ValueError("solver='dual_cd' is for norm='fro' only.")
    run = Run(problem, tol, callback, "dual_cd")
    with single_blas_thread():
        if run.needs_no_iteration(warm_start):
            return run.best_so_far()
        return _descend(run, _Descent(problem, warm_start), tol, max_iter)


def solve_many_dual_cd(problems, tol, limits):
    """Solve many Frobenius problems, their descents at the same time.

    Compiled code lets go of Python's lock, so that threads are enough; there are as
    many as ``numba.config.NUMBA_NUM_THREADS`` (the environment variable of this name,
    by default one a core).

    Parameters
    ----------
    problems : sequence of MarginProblem
        Each as in `solve_dual_cd`.

    tol : float
        Relative duality gap to reach in each.

    limits : sequence of int
        The `max_iter` of each.

    Returns
    -------
    solutions : list of MarginSolution
        Each exactly what `solve_dual_cd` returns.
    """
    from numba import config

    runs = [Run(problem, tol, None, "dual_cd") for problem in problems]

    def begin(run, descent, limit):
        if descent is not None:
            run.n_iter = descent.run(_first_target(tol), min(limit, FEWEST_EPOCHS))

    with single_blas_thread(), ThreadPoolExecutor(config.NUMBA_NUM_THREADS) as pool:
        descents = [
            None if run.needs_no_iteration(None) else _Descent(run.problem, None)
            for run in runs
        ]
        list(pool.map(begin, runs, descents, limits))
        return [
            run.best_so_far() if descent is None else _descend(run, descent, tol, limit)
            for run, descent, limit in zip(runs, descents, limits, strict=True)
        ]


def _first_target(tol):
    return tol if tol >= DESCENT_GAP else POLISH_GAP


def _descend(run, descent, tol, max_epochs):
    problem, certificate = run.problem, run.certificate
    target = _first_target(tol)
    patience = PATIENCE
    newton_at, next_newton = 0, FEWEST_EPOCHS
    while run.n_iter < max_epochs:
        limit = min(max_epochs, patience, next_newton)
        run.n_iter += descent.run(target, max(limit - run.n_iter, 0))
        is_impatient = run.n_iter >= min(max_epochs, patience)
        is_on_target = descent.gap <= target
        if is_on_target or is_impatient or run.has_callback:
            certificate.offer(
                coef=descent.best_coef.reshape(problem.coef_shape),
                dual=descent.best_dual,
            )
            if run.is_stopped_after("descent") or run.is_certified:
                break
        if is_on_target:
            polish(problem, certificate, None, descent.best_dual)
            # Where the compiled bounds are there, rounding keeps the certificate off.
            if (
                run.is_stopped_after("polish")
                or run.is_certified
                or target <= 0.1 * tol
            ):
                break
            target = max(0.1 * descent.gap, 0.1 * tol)
        elif is_impatient and np.isinf(descent.gap):
            proof = _find_proof(problem.merged, descent.dual)
            if proof is not None:
                return run.infeasible(*proof)
        if is_impatient:
            patience *= 2
        if run.n_iter >= next_newton:
            if run.n_iter - newton_at >= descent.epochs_worth_newton:
                improve_free_duals(problem.merged, descent.dual)
                newton_at = run.n_iter
            next_newton = run.n_iter + FEWEST_EPOCHS
    return run.best_so_far()


def _find_proof(constraints, dual):
    hard_dual = np.where(constraints.is_hard, dual, 0)
    if not hard_dual.any() or ray_residual(constraints, hard_dual) > LOOKS_INFEASIBLE:
        return None
    return prove_from_support(constraints, hard_dual)


class _Descent:
    """The state of the compiled loop."""

    def __init__(self, problem, warm_start):
        self.blocks = blocks = make_blocks(problem.merged)
        self.dual = _starting_dual(problem, warm_start)
        self.best_dual = self.dual.copy()
        shape = blocks.differences.shape[1], blocks.queries.shape[1]
        self.best_coef = np.zeros(shape)
        self.bounds = np.array([0.0, np.inf])
        self._random_state = np.array([SEED], dtype=np.uint64)
        self._epoch_work = (
            blocks.differences.size + blocks.queries.shape[0] * shape[0] * shape[1]
        )
        epochs = int(WORK_PER_CALL / self._epoch_work)
        self._epochs_per_call = max(epochs, FEWEST_PER_CALL)

    @property
    def gap(self):
        """Relative gap of the bounds seen so far."""
        return duality_gap(self.bounds[1], self.bounds[0])

    def run(self, tol, max_epochs):
        """Descend for one call's worth; return the number of epochs."""
        from skattn.margin._descent import descend

        return descend(
            *self.blocks.arrays,
            self.dual,
            self.best_coef,
            self.best_dual,
            self.bounds,
            tol,
            min(max_epochs, self._epochs_per_call),
            self._random_state,
        )

    @property
    def epochs_worth_newton(self):
        """Epochs that cost about as much as Newton steps on the free duals."""
        is_free = (self.dual > 0) & (self.dual < self.blocks.C)
        n_free = np.count_nonzero(is_free)
        if not 0 < n_free <= LARGEST_FREE_SET:
            return np.inf
        return n_free**3 / self._epoch_work


def _starting_dual(problem, warm_start):
    constraints = problem.merged
    if warm_start is None:
        return np.zeros(constraints.size)
    clipped = np.clip(problem.merge_dual(warm_start.dual_coef), 0, constraints.C)
    # Where there was slack, the dual was at its bound, and is expected at the new one.
    has_slack = (problem.merge_dual(warm_start.slack) > 0) & ~constraints.is_hard
    if not has_slack.any():
        return clipped
    raised = np.where(has_slack, constraints.C, clipped)

    def value(dual):
        return dual.sum() - 0.5 * np.sum(constraints.adjoint(dual) ** 2)

    return max(raised, clipped, key=value)
