"""Sequential quadratic programming for entrywise norms, p > 1.

Near a pair of a point W and the gradient G of ``1/2 |W|_p^2`` there, the inverse
Hessian is a diagonal plus a matrix of rank one, so that coordinate descent on the dual
of the quadratic model costs no more than it does for the Frobenius norm. The half
squared norm is twice differentiable for p > 2, and its dual for p < 2: on that side
the step is damped by an exact line search.
"""

from typing import NamedTuple

import numpy as np

from skattn.margin._blocks import make_blocks
from skattn.margin._norms import EntrywiseNorm
from skattn.margin._polish import polish
from skattn.margin._ray import RaySearch, prove_from_support
from skattn.margin._run import Run
from skattn.margin._threads import single_blas_thread
from skattn.margin.certificate import _dual_bound, primal_bound

#: A model is solved once its violations are at most this many margins, or this share
#: of those it started with.
MODEL_TOLERANCE = 1e-2

#: Passes over the active blocks in one model.
MAX_EPOCHS = 300

#: Passes after which the bounds are looked at, lest a model be solved for nothing.
LOOK_EVERY = 20

#: Entries at 0 have no curvature on the side of the line search: what is below this
#: share of the largest is raised to it.
SMALLEST_CURVATURE = 1e-3

#: Halvings of the interval in a line search.
N_BISECTIONS = 40

#: Gap below which the polish is worth a try, and by how much it must fall before the
#: next one.
POLISH_GAP = 1e-4
POLISH_AGAIN = 1e-2

#: Iterations without a feasible point after which a ray is looked for in any case.
PATIENCE = 10


def solve_sqp(problem, tol=1e-6, max_iter=200, warm_start=None, callback=None):
    """Solve a margin problem of an entrywise norm by a sequence of quadratic models.

    Parameters
    ----------
    problem : MarginProblem
        Of an entrywise norm.

    tol : float, default=1e-6
        Relative duality gap to reach. Below about 1e-6 it takes the polish, for which
        the constraints at the margin must be few.

    max_iter : int, default=200
        Limit on the number of quadratic models.

    warm_start : MarginSolution, default=None
        A solution of a problem of the same shapes; its duals are the start.

    callback : callable, default=None
        Called with a `Progress` after the stages "warm_start", "model" and "polish";
        returning True ends the work there.

    Returns
    -------
    solution : MarginSolution

    Raises
    ------
    ValueError
        If the norm is another one, or sparse tokens are too many to be stored densely.

    References
    ----------
    arXiv 2410.14581: mirror descent on attention weights leads to this problem.
    """
    if not isinstance(problem.norm, EntrywiseNorm):
        raise ValueError(
            "solver='sqp' is for entrywise norms; norm must be a number above 1 other "
            "than 2. Use solver='auto'."
        )
    run = Run(problem, tol, callback, "sqp")
    with single_blas_thread():
        if run.needs_no_iteration(warm_start):
            return run.best_so_far()
        return _iterate(run, _Models(problem), max_iter)


def _iterate(run, models, max_iter):
    certificate, constraints = run.certificate, run.problem.merged
    iterate = models.start(certificate)
    next_polish, search = POLISH_GAP, RaySearch(constraints)
    while iterate is not None and not run.is_certified and run.n_iter < max_iter:
        run.n_iter += 1
        iterate = models.advance(iterate, run)
        if run.is_stopped_after("model"):
            break
        if not run.is_certified and certificate.gap <= next_polish:
            polish(run.problem, certificate, models, certificate.dual)
            next_polish = POLISH_AGAIN * certificate.gap
            if run.is_stopped_after("polish"):
                break
        if constraints.is_any_hard and np.isinf(certificate.upper_bound):
            proof = search.look(certificate.dual)
            if proof is None and run.n_iter in (PATIENCE, max_iter):
                proof = prove_from_support(constraints, certificate.dual)
            if proof is not None:
                return run.infeasible(*proof)
    return run.best_so_far()


class _Iterate(NamedTuple):
    """A point, the gradient of half its squared norm there, and duals.

    Point and gradient are of shape (d, d_q). At the optimum the gradient is the adjoint
    of the duals.
    """

    point: np.ndarray
    gradient: np.ndarray
    dual: np.ndarray


class _Models:
    """The quadratic models of a problem, and the rows that the polish asks for."""

    #: The rows are not rescaled.
    scale = 1.0

    def __init__(self, problem):
        self._problem = problem
        self._constraints = problem.merged
        self._norm = problem.norm
        self._dual_norm = EntrywiseNorm(problem.norm.q)
        self._blocks = make_blocks(problem.merged)
        self._shape = (problem.coef_shape[0], self._blocks.queries.shape[1])
        self._generator = np.random.default_rng(0)

    @property
    def rows(self):
        """The rows ``dx z'``, formed where they are looked at."""
        return self

    def __getitem__(self, index):
        constraints = self._constraints
        differences = self._blocks.differences[index]
        if constraints.queries is None:
            return differences
        queries = constraints.queries[constraints.query_index[index]]
        return (differences[:, :, None] * queries[:, None, :]).reshape(index.size, -1)

    def start(self, certificate):
        """Return the first iterate, or None if there is nothing to do."""
        constraints = self._constraints
        candidates = [np.minimum(1.0, constraints.C)]
        if certificate.dual is not None:
            candidates.insert(0, certificate.dual)
        # The sum of all rows can vanish; then almost no other combination does.
        candidates.append(candidates[-1] * self._generator.random(constraints.size))
        for candidate in candidates:
            _, dual = _dual_bound(self._problem, candidate)
            iterate = self._from_dual(dual)
            if iterate.gradient.any():
                certificate.offer(coef=self._coef(iterate.point), dual=dual)
                return iterate
            certificate.offer(dual=dual)
        return None

    def advance(self, iterate, run):
        """Solve one model and move towards its solution.

        Parameters
        ----------
        iterate : _Iterate

        run : Run
            Its certificate is offered what is met on the way.

        Returns
        -------
        iterate : _Iterate or None
            None if the point has become 0, where there is no model.
        """
        certificate = run.certificate
        target, dual = self._solve_model(iterate, run)
        certificate.offer(coef=self._coef(target), dual=dual)
        if run.is_certified:
            return iterate
        if self._norm.p < 2:
            iterate = self._search_duals(iterate, dual)
        else:
            iterate = self._search_points(iterate, target, dual)
        certificate.offer(coef=self._coef(iterate.point), dual=iterate.dual)
        return iterate if iterate.point.any() else None

    def _solve_model(self, iterate, run):
        """Return the solution and the duals of the model at `iterate`."""
        from skattn.margin._sqp_kernels import descend_model

        blocks, norm = self._blocks, self._norm
        direction = iterate.point / norm.value(iterate.point)
        twist = 2 - norm.q
        curvature = self._curvature(np.abs(direction))
        dual = iterate.dual.copy()
        lag = self._adjoint(dual) - iterate.gradient
        slope = iterate.point + curvature * lag
        along = float(np.sum(direction * lag))
        n_blocks = blocks.offsets.size - 1
        is_active = np.ones(n_blocks, dtype=bool)
        tolerance = None
        for epoch in range(1, MAX_EPOCHS + 1):
            along, violation = descend_model(
                *blocks.layout,
                blocks.C,
                dual,
                slope,
                curvature,
                direction,
                twist,
                along,
                self._generator.permutation(np.flatnonzero(is_active)),
                is_active,
            )
            if tolerance is None:
                tolerance = MODEL_TOLERANCE * min(violation, 1.0)
            if violation <= tolerance or not is_active.any():
                break
            if epoch % LOOK_EVERY == 0:
                target = slope + twist * along * direction
                run.certificate.offer(coef=self._coef(target), dual=dual)
                if run.is_certified:
                    break
        return slope + twist * along * direction, dual

    def _curvature(self, share):
        """Diagonal of the inverse Hessian; `share` is |W| / |W|_p."""
        p, q = self._norm.p, self._norm.q
        with np.errstate(divide="ignore"):
            powers = share ** (2 - p)
        if p < 2:
            powers = np.maximum(powers, SMALLEST_CURVATURE * powers.max())
        else:
            powers = np.minimum(powers, powers.min() / SMALLEST_CURVATURE)
        return (q - 1) * powers

    def _search_duals(self, iterate, dual):
        change = dual - iterate.dual
        start, direction = self._adjoint(iterate.dual), self._adjoint(change)

        def derivative(step):
            point = self._norm.primal_from_dual(start + step * direction)
            return np.sum(point * direction) - change.sum()

        dual = iterate.dual + _minimiser_on_unit_interval(derivative) * change
        if self._constraints.is_all_hard:
            _, dual = _dual_bound(self._problem, dual)
        return self._from_dual(dual)

    def _search_points(self, iterate, target, dual):
        constraints = self._constraints
        value, start = self._primal_bound(iterate.point)
        target_value, end = self._primal_bound(target)
        if np.isinf(value) or np.isinf(target_value):
            return self._from_point(target, dual)
        is_soft = ~constraints.is_hard
        margins = constraints.margins(self._coef(start))
        margin_change = constraints.margins(self._coef(end)) - margins
        direction = end - start

        def derivative(step):
            gradient = self._dual_norm.primal_from_dual(start + step * direction)
            has_slack = is_soft & (margins + step * margin_change < 1)
            cost = constraints.C[has_slack] @ margin_change[has_slack]
            return np.sum(gradient * direction) - cost

        step = _minimiser_on_unit_interval(derivative)
        return self._from_point(start + step * direction, dual)

    def _from_dual(self, dual):
        gradient = self._adjoint(dual)
        return _Iterate(self._norm.primal_from_dual(gradient), gradient, dual)

    def _from_point(self, point, dual):
        return _Iterate(point, self._dual_norm.primal_from_dual(point), dual)

    def _primal_bound(self, point):
        value, scaled = primal_bound(self._problem, self._coef(point))
        return value, scaled.reshape(self._shape)

    def _adjoint(self, dual):
        return self._constraints.adjoint(dual).reshape(self._shape)

    def _coef(self, point):
        return point.reshape(self._problem.coef_shape)


def _minimiser_on_unit_interval(derivative):
    # Of a convex function that falls at 0, by bisection of its derivative.
    if derivative(1.0) <= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        if derivative(middle) <= 0:
            low = middle
        else:
            high = middle
    return low
