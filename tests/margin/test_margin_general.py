"""General problems: equalities, margins of any size, and their certificates."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from skattn.margin import (
    MarginProblem,
    farkas_residual,
    finite_problem,
    level_residual,
    selection_problem,
    solve,
    solve_general,
)
from skattn.margin._general_certificate import GeneralCertificate
from skattn.margin._least_distance import least_distance

NORMS = ["fro", "nuc", 1.5, 3.0]


class Layout:
    """Tokens laid end to end, as `MarginProblem` reads them."""

    def __init__(self, values, offsets):
        self.values, self.offsets = values, offsets


def random_problem(seed, norm="fro", C=np.inf, has_query=True, n=4, T=5, d=6):
    rng = np.random.default_rng(seed)
    width = d if has_query else n * (T - 1) + 1
    tokens = rng.standard_normal((n, T, width))
    query = rng.standard_normal((n, d)) if has_query else None
    is_selected = np.zeros((n, T), dtype=bool)
    for sample, n_selected in zip(is_selected, rng.permutation(n), strict=True):
        sample[rng.permutation(T)[: 1 + n_selected % 3]] = True
    margin = rng.permutation([0.0, 1.0, 1.0, 2.5])
    return selection_problem(
        tokens, is_selected.ravel(), query, margin=margin, C=C, norm=norm
    )


def dense_rows(problem):
    constraints = problem.constraints
    if constraints.queries is None:
        return constraints.differences
    queries = constraints.queries[constraints.query_index]
    rows = constraints.differences[:, :, None] * queries[:, None]
    return rows.reshape(constraints.size, -1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [np.inf, 0.5, 1e6])
def test_solvers_agree(norm, C):
    problem = random_problem(0, norm, C)
    names = ["cvxpy"]
    if norm in ("fro", "nuc"):
        names.append("interior_point")
    else:
        names.append("lbfgs")
    if norm == "fro" and np.isinf(C):
        names.append("least_distance")
    auto = solve_general(problem, tol=1e-7)
    assert auto.status == "optimal"
    for name in names:
        solution = solve_general(problem, tol=1e-7, solver=name)
        assert (solution.status, solution.solver) == ("optimal", name)
        np.testing.assert_allclose(solution.objective, auto.objective, rtol=2e-7)
        np.testing.assert_allclose(solution.coef, auto.coef, atol=2e-3)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [np.inf, 0.5])
def test_any_candidate_gives_bounds(norm, C):
    problem = random_problem(1, norm, C)
    optimum = solve_general(problem, tol=1e-9).objective
    rows, is_equality = dense_rows(problem), problem.is_equality
    level = rows[is_equality]
    rng = np.random.default_rng(1)
    n_upper = 0
    for _ in range(50):
        certificate = GeneralCertificate(problem)
        point = 5 * rng.standard_normal(rows.shape[1])
        if rng.random() < 0.5:
            # Something feasible: level where it has to be, ahead elsewhere.
            wanted = np.where(is_equality, 0, problem.required + rng.random(len(rows)))
            point = np.linalg.lstsq(rows, wanted)[0]
        point = point - np.linalg.pinv(level) @ (level @ point)
        dual = rng.standard_normal(len(rows)) ** 2 / rng.integers(1, 100)
        dual[is_equality] *= rng.choice([-1, 1], is_equality.sum())
        certificate.offer(point.reshape(problem.coef_shape), dual)
        assert certificate.lower_bound <= optimum * (1 + 1e-9)
        assert certificate.upper_bound >= optimum * (1 - 1e-9)
        n_upper += np.isfinite(certificate.upper_bound)
    assert n_upper >= 20


def test_candidates_that_are_not_level_give_no_bound():
    problem = selection_problem(
        [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], np.array([True, True, False])
    )
    certificate = GeneralCertificate(problem)
    certificate.offer(np.array([2.0, 1.0]))
    assert certificate.upper_bound == np.inf
    certificate.offer(np.array([2.0, 2.0]))
    np.testing.assert_allclose(certificate.upper_bound, np.sqrt(2))
    assert level_residual(problem, np.array([1.0, 1.0])) == 0
    assert level_residual(problem, np.array([2.0, 1.0])) > 0.1
    assert level_residual(problem, np.array([0.5, 0.5])) > 0.1


@pytest.mark.parametrize("seed", range(4))
def test_small_random_problems_end_as_cvxpy_says(seed):
    rng = np.random.default_rng(seed)
    verdicts = []
    while len(verdicts) < 15:
        n, T, d = rng.integers(1, 4), rng.integers(2, 5), rng.integers(1, 5)
        # Small integers make contradictions, dependent rows and copies.
        tokens = rng.integers(-2, 3, (n, T, d)).astype(float)
        is_selected = rng.random((n, T)) < 0.4
        is_selected[np.arange(n), rng.integers(T, size=n)] = True
        margin = rng.choice([0.0, 1.0, 1.0, 2.5], n)
        margin[0] = 1.0
        norm = ["fro", 1.5, 3.0][rng.integers(3)]
        problem = selection_problem(
            tokens, is_selected.ravel(), margin=margin, norm=norm
        )
        solution = solve_general(problem)
        verdicts.append(solution.status)
        w = cp.Variable(d)
        rows, is_equality = dense_rows(problem), problem.is_equality
        program = cp.Problem(
            cp.Minimize(cp.pnorm(w, 2 if norm == "fro" else norm)),
            [
                rows[~is_equality] @ w >= problem.required[~is_equality],
                rows[is_equality] @ w == 0,
            ],
        )
        expected = program.solve(solver=cp.CLARABEL)
        if solution.status == "infeasible":
            assert expected == np.inf
            assert solution.ray_residual < 1e-9
            ray = solution.ray[problem.rows]
            assert (ray[~is_equality] >= 0).all()
            assert ray @ problem.required > 0
            np.testing.assert_allclose(ray @ rows, 0, atol=1e-9)
        else:
            assert solution.status == "optimal"
            np.testing.assert_allclose(solution.objective, expected, atol=1e-6)
    assert set(verdicts) == {"optimal", "infeasible"}


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("norm", NORMS)
def test_units_do_not_matter(scale, norm):
    rng = np.random.default_rng(2)
    tokens, query = rng.standard_normal((4, 5, 6)), rng.standard_normal((4, 6))
    is_selected = np.tile([True, True, False, False, False], 4)
    problem = selection_problem(tokens, is_selected, query, norm=norm)
    scaled = selection_problem(scale * tokens, is_selected, query, norm=norm)
    expected = solve_general(problem).objective / scale
    solution = solve_general(scaled)
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.objective, expected, rtol=1e-6)


def test_plain_problems_are_a_special_case():
    rng = np.random.default_rng(3)
    tokens, query = rng.standard_normal((5, 4, 6)), rng.standard_normal((5, 5))
    selected = rng.integers(4, size=5)
    is_selected = np.zeros((5, 4), dtype=bool)
    is_selected[np.arange(5), selected] = True
    C = np.array([1.0, np.inf, 0.2, 3.0, 0.0])
    for norm in NORMS:
        plain = solve(MarginProblem(tokens, selected, query, C=C, norm=norm), tol=1e-9)
        general = solve_general(
            selection_problem(tokens, is_selected.ravel(), query, C=C, norm=norm),
            tol=1e-8,
        )
        np.testing.assert_allclose(general.objective, plain.objective, rtol=1e-7)
        np.testing.assert_allclose(general.slack, plain.slack, atol=1e-3)
        np.testing.assert_allclose(general.dual_coef[16:], 0)


def test_barely_separable_rows_keep_their_digits():
    # The second row leaves a gap of 1e-7 to the opposite of the first.
    gap = 1e-7
    tokens = np.array([[[0.0, 0.0], [-1.0, 0.0], [1.0, -gap]]])
    problem = selection_problem(tokens, np.array([True, False, False]))
    solution = solve_general(problem)
    assert solution.status == "optimal"
    # w_1 >= 1 and gap w_2 - w_1 >= 1.
    np.testing.assert_allclose(solution.coef, [1, 2 / gap], rtol=1e-7)
    # The bound leaves room for the digits that so long a solution has lost.
    assert solution.duality_gap < 1e-7


@pytest.mark.parametrize("norm", ["fro", 1.5, 3.0])
def test_rows_that_equalities_decide_have_no_say(norm):
    # With one feature all rows of a sample are parallel: level tokens leave nothing
    # but rounding of its margins of 0, which duals of any size could lean on.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        tokens, query = np.sort(rng.random((3, 4, 1)), axis=1), rng.random((3, 4))
        is_selected = np.array([[0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool)
        problem = selection_problem(
            tokens, is_selected.ravel(), query, margin=[1.0, 0.0, 2.5], norm=norm
        )
        solution = solve_general(problem)
        assert solution.status == "optimal"
        rows, is_equality = dense_rows(problem), problem.is_equality
        is_asked = problem.required > 0
        w = cp.Variable(4)
        program = cp.Problem(
            cp.Minimize(cp.pnorm(w, 2 if norm == "fro" else norm)),
            [
                rows[is_asked] @ w >= problem.required[is_asked],
                rows[is_equality] @ w == 0,
            ],
        )
        expected = program.solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(solution.objective, expected, rtol=1e-6)
        assert solution.lower_bound <= expected * (1 + 1e-6)


def test_bounds_leave_room_for_rounding():
    # Duals of opposite rows cancel, down to the error of their sum.
    tokens = [[[1 / 3], [0.0]], [[-1 / 3 - 1e-16], [0.0]]]
    problem = selection_problem(
        tokens, np.array([True, False, True, False]), margin=[1.0, 0.0], C=np.inf
    )
    certificate = GeneralCertificate(problem)
    certificate.offer(dual=np.array([1.0, 1.0]))
    assert certificate.lower_bound < 1e16


def test_least_distance_is_the_shortest_point():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((9, 7))
    required = np.concatenate([rng.random(4), np.zeros(3), np.zeros(2)])
    is_equality = np.arange(9) >= 7
    *_, (point, dual) = least_distance(rows, required, is_equality)
    reference = minimize(
        lambda x: x @ x / 2,
        np.zeros(7),
        jac=lambda x: x,
        constraints=[
            {"type": "ineq", "fun": lambda x: (rows @ x - required)[:7]},
            {"type": "eq", "fun": lambda x: rows[7:] @ x},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(point, reference.x, atol=1e-6)
    np.testing.assert_allclose(rows.T @ dual, point, atol=1e-12)
    assert (dual[:7] >= 0).all()


def test_dependent_equalities_are_no_trouble():
    # The third selected token is the mean of the first two: level in any case.
    tokens = np.array([[[2.0, 0, 0], [0, 2, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]])
    is_selected = np.array([True, True, True, False, False])
    for norm in ("fro", 1.5, 3.0):
        solution = solve_general(selection_problem(tokens, is_selected, norm=norm))
        assert solution.status == "optimal"
        np.testing.assert_allclose(tokens[0, :3] @ solution.coef, 1, atol=1e-6)


def test_finite_component_with_queries_is_certified():
    rng = np.random.default_rng(5)
    tokens, query = rng.standard_normal((4, 4, 5)), rng.standard_normal((4, 4))
    weights = rng.dirichlet(np.ones(4), size=4).ravel()
    for norm in NORMS:
        problem = finite_problem(
            tokens, weights > 0.1, np.log(weights), query, norm=norm
        )
        assert problem.is_equality.all()
        solution = solve_general(problem, tol=1e-8)
        assert solution.status == "optimal"
        assert solution.lower_bound <= solution.objective * (1 + 1e-12)
        np.testing.assert_allclose(
            dense_rows(problem) @ solution.coef.ravel(), problem.required, atol=1e-9
        )


def test_sparse_tokens_are_read():
    rng = np.random.default_rng(6)
    values = rng.integers(0, 3, (12, 6)).astype(float)
    offsets, query = np.arange(0, 13, 4), rng.standard_normal((3, 3))
    is_selected = np.tile([True, True, False, False], 3)
    dense = selection_problem(Layout(values, offsets), is_selected, query)
    stored = Layout(sparse.csr_array(values), offsets)
    from_sparse = selection_problem(stored, is_selected, query)
    np.testing.assert_array_equal(dense_rows(from_sparse), dense_rows(dense))


def test_proofs_are_measured_by_what_they_reach():
    tokens = [[[1.0], [0.0]], [[-1.0], [0.0]]]
    is_selected = np.array([True, False, True, False])
    problem = selection_problem(tokens, is_selected, margin=[1, 0])
    assert farkas_residual(problem, np.array([1.0, 1.0])) == 0
    # Of the sample that asks for nothing alone there is nothing to contradict.
    assert farkas_residual(problem, np.array([0.0, 1.0])) == np.inf
    assert farkas_residual(problem, np.array([1.0, 0.0])) == 1
    plain = MarginProblem(tokens, [0, 0])
    solution = solve(plain)
    general = selection_problem(tokens, is_selected)
    assert solution.status == solve_general(general).status == "infeasible"
    np.testing.assert_allclose(
        farkas_residual(general, solution.ray[general.rows]), solution.ray_residual
    )


def test_queries_of_zeros_are_infeasible():
    tokens = np.random.default_rng(7).standard_normal((2, 3, 4))
    query = np.array([[1.0, 0.5], [0.0, 0.0]])
    is_selected = np.array([True, True, False] * 2)
    for norm in NORMS:
        problem = selection_problem(tokens, is_selected, query, norm=norm)
        solution = solve_general(problem)
        assert solution.status == "infeasible"
        np.testing.assert_array_equal(solution.ray, [0, 0, 0, 0, 0, 1])


def test_an_unreached_gap_is_reported():
    problem = random_problem(8, "nuc")
    solution = solve_general(problem, max_iter=3, solver="interior_point")
    assert solution.status == "max_iter"
    assert 1e-6 < solution.duality_gap < 1
    optimum = solve_general(problem).objective
    assert solution.lower_bound <= optimum <= solution.upper_bound
    # A feasible point is known all the same.
    np.testing.assert_allclose(solution.min_margin, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"solver": "sqp"}, ValueError, r"must be 'auto' or one of \['cvxpy', 'in"),
        ({"solver": "lbfgs"}, ValueError, "solver='lbfgs' is for entrywise norms"),
        ({"tol": -1.0}, ValueError, "tol must be above 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be a positive integer"),
        ({"problem": MarginProblem([[[1.0], [0.0]]], [0])}, TypeError, "must be a Gen"),
    ],
)
def test_refused_requests(arguments, error, message):
    with pytest.raises(error, match=message):
        solve_general(**{"problem": random_problem(9), **arguments})


@pytest.mark.parametrize(
    ("is_selected", "message"),
    [
        ([True, False], r"boolean array of shape \(4,\), one entry a token; got bool"),
        ([1, 0, 1, 0], "got int64 of shape"),
        ([True, True, False, False], "Sample 1 has no selected token"),
    ],
)
def test_refused_sets(is_selected, message):
    tokens = np.zeros((2, 2, 3))
    with pytest.raises(ValueError, match=message):
        selection_problem(tokens, is_selected)
    with pytest.raises(ValueError, match=message):
        finite_problem(tokens, is_selected, np.zeros(4))


def test_refused_logarithms():
    is_selected = np.array([True, True, False])
    weights = np.array([0.0, -np.inf, -np.inf])
    with pytest.raises(ValueError, match="log_weights must be finite at selected"):
        finite_problem([[[1.0], [2.0], [3.0]]], is_selected, weights)
    weights[1] = -1.0
    assert finite_problem([[[1.0], [2.0], [3.0]]], is_selected, weights).required == 1
    with pytest.raises(ValueError, match=r"log_weights must have shape \(3,\)"):
        finite_problem([[[1.0], [2.0], [3.0]]], is_selected, weights[:2])
