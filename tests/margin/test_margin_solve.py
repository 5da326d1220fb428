"""Solutions against closed forms, scipy, and what is known of each norm."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from skattn.margin import (
    SOLVERS,
    MarginProblem,
    dual_bound,
    primal_bound,
    solve,
)

NORMS = ["fro", "nuc", 1.5, 3.0]
SOFT_AND_HARD = [np.inf, 1.0]


class Container:
    def __init__(self, values, offsets):
        self.values = values
        self.offsets = offsets


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def planted(seed, n_samples=5, n_tokens=4, n_features=4, n_query_features=3):
    rng = np.random.default_rng(seed)
    tokens = on_sphere(rng, n_samples, n_tokens, n_features)
    queries = on_sphere(rng, n_samples, n_query_features)
    coef = rng.standard_normal((n_features, n_query_features))
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    return tokens, queries, scores.argmax(axis=1)


def full_matrix(tokens, selected, queries=None):
    rows = []
    for sample, token in enumerate(selected):
        z = np.ones(1) if queries is None else queries[sample]
        for other in range(len(tokens[sample])):
            if other != token:
                dx = tokens[sample][token] - tokens[sample][other]
                rows.append(np.outer(dx, z).ravel())
    return np.array(rows)


# Exact cases: one sample with keys (-.1, 1), (1, 0), (0, 0), and three samples whose
# other token is the origin.
KEYS = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
JOINT = np.array([[[1.0, 1], [0, 0]], [[1, -1], [0, 0]], [[0.5, 1], [0, 0]]])


@pytest.mark.parametrize(
    ("tokens", "selected", "expected"),
    [
        (KEYS, [0], np.array([-0.1, 1.0]) / 1.01),
        (KEYS, [1], [1.0, 0.0]),
        (JOINT, [0, 0, 0], [4 / 3, 1 / 3]),
    ],
)
@pytest.mark.parametrize("norm", ["fro", "nuc", 2])
def test_exact_small_cases(tokens, selected, expected, norm):
    solution = solve(MarginProblem(tokens, selected, norm=norm))
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.coef, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.objective, np.linalg.norm(expected))
    assert solution.rank == 1
    assert solution.solver == "cvxpy"


def test_duals_of_an_exact_case():
    solution = solve(MarginProblem(JOINT, [0, 0, 0]))
    # (4/3, 1/3) = a (1, -1) + b (.5, 1)
    np.testing.assert_allclose(
        solution.dual_coef, [0, 0, 0, 14 / 18, 0, 20 / 18], atol=1e-12
    )
    np.testing.assert_array_equal(solution.slack, np.zeros(6))


@pytest.mark.parametrize("C", [0.01, 0.3, 100.0])
def test_soft_margin_of_one_constraint(C):
    # minimise w^2 / 2 + C max(0, 1 - 2 w): w = min(2 C, 1 / 2)
    solution = solve(MarginProblem([[[2.0], [0.0]]], [0], C=C))
    w = min(2 * C, 0.5)
    np.testing.assert_allclose(solution.coef, [w], rtol=1e-10)
    np.testing.assert_allclose(solution.objective, w**2 / 2 + C * max(0, 1 - 2 * w))
    np.testing.assert_allclose(solution.slack, [0, max(0, 1 - 2 * w)], atol=1e-10)
    np.testing.assert_allclose(solution.dual_coef, [0, w / 2], rtol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
def test_one_bilinear_constraint_is_hoelder(norm):
    rng = np.random.default_rng(0)
    tokens, query = rng.standard_normal((1, 2, 5)), rng.standard_normal((1, 4))
    row = np.outer(tokens[0, 1] - tokens[0, 0], query[0])
    solution = solve(MarginProblem(tokens, [1], query, norm=norm), tol=1e-8)
    if norm in ("fro", "nuc"):
        expected = row / np.sum(row**2)
    else:
        q = norm / (norm - 1)
        expected = np.sign(row) * np.abs(row) ** (q - 1) / np.sum(np.abs(row) ** q)
    np.testing.assert_allclose(solution.coef, expected, rtol=0, atol=1e-8)
    assert solution.rank == np.linalg.matrix_rank(expected, rtol=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("C", [np.inf, 0.5])
@pytest.mark.parametrize("norm", ["fro", 1.5, 3.0])
def test_agrees_with_slsqp(norm, C, seed):
    tokens, queries, selected = planted(seed)
    matrix = full_matrix(tokens, selected, queries)
    n_rows, n_coef = matrix.shape
    p = 2.0 if norm == "fro" else norm
    n_slack = 0 if np.isinf(C) else n_rows
    padding = np.eye(n_rows)[:, :n_slack]

    def value(variables):
        coef, slack = variables[:n_coef], variables[n_coef:]
        size = np.sum(np.abs(coef) ** p) ** (2 / p)
        return 0.5 * size + (C * slack.sum() if n_slack else 0.0)

    start = np.concatenate([np.full(n_coef, 0.1), np.full(n_slack, 5.0)])
    reference = minimize(
        value,
        start,
        method="SLSQP",
        bounds=[(None, None)] * n_coef + [(0, None)] * n_slack,
        constraints={
            "type": "ineq",
            "fun": lambda v: matrix @ v[:n_coef] + padding @ v[n_coef:] - 1,
            "jac": lambda v: np.hstack([matrix, padding]),
        },
        options={"maxiter": 2000, "ftol": 1e-13},
    )
    solution = solve(MarginProblem(tokens, selected, queries, C, norm), tol=1e-8)
    expected = np.sqrt(2 * reference.fun) if np.isinf(C) else reference.fun
    np.testing.assert_allclose(solution.objective, expected, rtol=1e-5)
    coef = reference.x[:n_coef].reshape(solution.coef.shape)
    np.testing.assert_allclose(solution.coef, coef, atol=0.01)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("C", [np.inf, 0.5])
def test_nuclear_norm_agrees_with_factors(C, seed):
    # |W|_* is the least (|P|^2 + |Q|^2) / 2 with W = P Q', here by SLSQP.
    tokens, queries, selected = planted(seed)
    matrix = full_matrix(tokens, selected, queries)
    n_rows = matrix.shape[0]
    n_slack = 0 if np.isinf(C) else n_rows
    padding = np.eye(n_rows)[:, :n_slack]

    def coef_of(variables):
        return variables[:12].reshape(4, 3) @ variables[12:21].reshape(3, 3).T

    def value(variables):
        size = 0.5 * np.sum(variables[:21] ** 2)
        return 0.5 * size**2 + (C * variables[21:].sum() if n_slack else 0.0)

    best = np.inf
    rng = np.random.default_rng(seed)
    for _ in range(4):
        start = np.concatenate([rng.standard_normal(21), np.full(n_slack, 5.0)])
        reference = minimize(
            value,
            start,
            method="SLSQP",
            bounds=[(None, None)] * 21 + [(0, None)] * n_slack,
            constraints={
                "type": "ineq",
                "fun": lambda v: matrix @ coef_of(v).ravel() + padding @ v[21:] - 1,
            },
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if reference.success:
            best = min(best, reference.fun)
    solution = solve(MarginProblem(tokens, selected, queries, C, "nuc"), tol=1e-9)
    expected = np.sqrt(2 * best) if np.isinf(C) else best
    np.testing.assert_allclose(solution.objective, expected, rtol=1e-6)


@pytest.mark.parametrize("C", [np.inf, 1.0, "mixed"])
@pytest.mark.parametrize("norm", [*NORMS, 1.2])
@pytest.mark.parametrize("is_bilinear", [True, False])
def test_solution_carries_a_tight_certificate(norm, C, is_bilinear):
    tokens, queries, selected = planted(3, n_samples=6, n_features=20)
    if C == "mixed":
        C = np.array([np.inf, 1.0, 0.01, np.inf, 100.0, 1.0])
    queries = queries if is_bilinear else None
    problem = MarginProblem(tokens, selected, queries, C, norm)
    solution = solve(problem, tol=1e-9)
    assert solution.status == "optimal"
    assert solution.duality_gap <= 1e-9
    upper, _ = primal_bound(problem, solution.coef)
    lower, _ = dual_bound(problem, solution.dual_coef)
    np.testing.assert_allclose([lower, upper], solution.objective, rtol=2e-9)
    margins = problem.margins(solution.coef)
    np.testing.assert_allclose(margins.min(), solution.min_margin)
    is_hard = problem.constraints.is_hard
    if is_hard.any():
        assert margins[is_hard].min() >= 1 - 1e-14
    if problem.is_hard:
        np.testing.assert_allclose(solution.min_margin, 1, rtol=1e-14)
    slack = np.where(is_hard, 0, np.maximum(1 - margins, 0))
    np.testing.assert_allclose(solution.slack[problem.rows], slack, atol=1e-15)
    assert np.all(solution.dual_coef >= 0)
    # The duals are stationary: the best factor of the dual value is 1.
    if norm == "fro":
        np.testing.assert_allclose(
            problem.adjoint(solution.dual_coef[problem.rows]), solution.coef, atol=1e-8
        )


def test_frobenius_prompt_of_musk_size_is_tight():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((96, 5, 166))
    selected = (tokens @ rng.standard_normal(166)).argmax(axis=1)
    solution = solve(MarginProblem(tokens, selected), tol=1e-10)
    assert solution.status == "optimal"
    assert solution.duality_gap <= 1e-12


@pytest.mark.parametrize(("n_samples", "d", "rank"), [(5, 10, 2.8), (10, 10, 3.7)])
def test_rank_of_solutions_on_the_sphere(n_samples, d, rank):
    # Frobenius solutions have rank n, nuclear ones the published low rank.
    frobenius_ranks, nuclear_ranks = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        tokens, queries = on_sphere(rng, n_samples, 5, d), on_sphere(rng, n_samples, d)
        signs = rng.choice([-1, 1], n_samples)
        selected = (signs[:, None] * (tokens @ on_sphere(rng, d))).argmax(axis=1)
        frobenius = solve(MarginProblem(tokens, selected, queries))
        frobenius_ranks.append(frobenius.rank)
        nuclear = solve(MarginProblem(tokens, selected, queries, norm="nuc"))
        nuclear_ranks.append(nuclear.rank)
        assert frobenius.objective <= nuclear.objective
        own = np.linalg.norm(frobenius.coef, "nuc")
        assert nuclear.objective <= own * (1 + 1e-6)
    assert abs(np.mean(frobenius_ranks) - n_samples) < 0.3
    assert abs(np.mean(nuclear_ranks) - rank) < 0.6


@pytest.mark.parametrize("C", SOFT_AND_HARD)
def test_entrywise_norm_leaves_the_span_of_the_rows(C):
    tokens, queries, selected = planted(4, n_samples=2, n_features=6)
    problem = MarginProblem(tokens, selected, queries, C, 1.5)
    solution = solve(problem, tol=1e-8)
    matrix = full_matrix(tokens, selected, queries)
    inside = np.linalg.pinv(matrix) @ (matrix @ solution.coef.ravel())
    outside = np.linalg.norm(solution.coef.ravel() - inside)
    assert outside > 0.05 * np.linalg.norm(solution.coef)


@pytest.mark.parametrize("C", SOFT_AND_HARD)
@pytest.mark.parametrize("is_bilinear", [True, False])
def test_exponent_two_is_frobenius(C, is_bilinear):
    tokens, queries, selected = planted(5)
    queries = queries if is_bilinear else None
    two = solve(MarginProblem(tokens, selected, queries, C, 2))
    # 2.00001 takes the way of the cones, 2 the Frobenius one.
    near = solve(MarginProblem(tokens, selected, queries, C, 2.00001), tol=1e-8)
    frobenius = solve(MarginProblem(tokens, selected, queries, C))
    np.testing.assert_allclose(two.coef, frobenius.coef)
    np.testing.assert_allclose(near.coef, frobenius.coef, atol=1e-3)


@pytest.mark.parametrize("C", SOFT_AND_HARD)
@pytest.mark.parametrize("norm", NORMS)
def test_constant_query_is_the_prompt(norm, C):
    tokens, _, selected = planted(6)
    prompt = solve(MarginProblem(tokens, selected, None, C, norm), tol=1e-8)
    bilinear = solve(
        MarginProblem(tokens, selected, np.ones((5, 1)), C, norm), tol=1e-8
    )
    np.testing.assert_allclose(bilinear.coef[:, 0], prompt.coef, atol=1e-7)
    np.testing.assert_allclose(bilinear.objective, prompt.objective)


@pytest.mark.parametrize("norm", NORMS)
def test_large_cost_is_the_hard_margin(norm):
    tokens, queries, selected = planted(7)
    hard = solve(MarginProblem(tokens, selected, queries, norm=norm), tol=1e-9)
    C = 1.01 * hard.dual_coef.max()
    for factor in (1, 1e3, 1e8):
        soft = solve(MarginProblem(tokens, selected, queries, factor * C, norm), 1e-9)
        assert soft.status == "optimal"
        np.testing.assert_allclose(soft.objective, hard.objective**2 / 2, rtol=1e-8)
        np.testing.assert_allclose(soft.coef, hard.coef, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-5, 1e5])
@pytest.mark.parametrize("norm", NORMS)
def test_scaling_of_tokens_scales_the_solution(norm, scale):
    tokens, queries, selected = planted(8)
    for C in SOFT_AND_HARD:
        one = solve(MarginProblem(tokens, selected, queries, C, norm), tol=1e-9)
        problem = MarginProblem(tokens * scale, selected, queries, C / scale**2, norm)
        other = solve(problem, tol=1e-9)
        assert other.status == "optimal"
        np.testing.assert_allclose(other.coef * scale, one.coef, atol=1e-4)
        factor = scale if np.isinf(C) else scale**2
        np.testing.assert_allclose(other.objective * factor, one.objective, rtol=1e-8)


@pytest.mark.parametrize("seed", [0, 1])
def test_unscaled_features_with_an_unscaled_cost(seed):
    # C = 1 on features of size 1e5 is nearly hard, with nothing to be hard about.
    rng = np.random.default_rng(seed)
    tokens = 1e5 * rng.standard_normal((20, 6, 5))
    solution = solve(MarginProblem(tokens, rng.integers(0, 6, 20), C=1.0))
    assert solution.status == "optimal"
    assert solution.min_margin < 0


@pytest.mark.parametrize("C", SOFT_AND_HARD)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("is_bilinear", [True, False])
@pytest.mark.parametrize("n_samples", [3, 12])
def test_sparse_tokens_equal_dense_ones(norm, C, is_bilinear, n_samples):
    # Tokens of a table: [e_t, x e_t].
    rng = np.random.default_rng(9)
    n_columns = 4
    cells = rng.standard_normal((n_samples, n_columns)).round(1)
    values = np.zeros((n_samples, n_columns, 2 * n_columns))
    columns = np.arange(n_columns)
    values[:, columns, columns] = 1
    values[:, columns, n_columns + columns] = cells
    queries = rng.standard_normal((n_samples, 2))
    coef = rng.standard_normal((2 * n_columns, 2)) if is_bilinear else None
    if is_bilinear:
        selected = np.einsum("ntd,nd->nt", values, queries @ coef.T).argmax(axis=1)
    else:
        queries = None
        selected = (values @ rng.standard_normal(2 * n_columns)).argmax(axis=1)
    offsets = np.arange(n_samples + 1) * n_columns
    table = Container(sparse.csr_array(values.reshape(-1, 2 * n_columns)), offsets)
    dense = solve(MarginProblem(values, selected, queries, C, norm), tol=1e-8)
    other = solve(MarginProblem(table, selected, queries, C, norm), tol=1e-8)
    assert dense.status == other.status == "optimal"
    np.testing.assert_allclose(other.coef, dense.coef, atol=1e-3)
    np.testing.assert_allclose(other.objective, dense.objective, rtol=2e-8)


def test_gram_and_explicit_reduction_agree(monkeypatch):
    from skattn.margin import _reduction

    tokens, queries, selected = planted(10, n_samples=4, n_features=10)
    queries = np.repeat(queries, 3, axis=1)
    for C in SOFT_AND_HARD:
        problem = MarginProblem(tokens, selected, queries, C)
        explicit = solve(problem)
        monkeypatch.setattr(_reduction, "LARGEST_EXPLICIT", 0)
        gram = solve(problem)
        monkeypatch.undo()
        np.testing.assert_allclose(gram.coef, explicit.coef, atol=1e-9)


def sparsemax(scores):
    ordered = -np.sort(-scores, axis=1)
    counts = np.arange(1, scores.shape[1] + 1)
    excess = np.cumsum(ordered, axis=1) - 1
    sizes = np.sum(ordered - excess / counts > 0, axis=1)
    threshold = excess[np.arange(len(scores)), sizes - 1] / sizes
    return np.maximum(scores - threshold[:, None], 0)


def test_solution_is_the_smallest_prompt_with_one_hot_sparsemax():
    rng = np.random.default_rng(11)
    tokens = rng.standard_normal((200, 6, 30))
    selected = (tokens @ rng.standard_normal(30)).argmax(axis=1)
    coef = solve(MarginProblem(tokens, selected), tol=1e-10).coef

    def n_not_one_hot(factor):
        weights = sparsemax(tokens @ (factor * coef))
        return np.sum(weights[np.arange(200), selected] < 1)

    assert n_not_one_hot(1 + 1e-8) == 0
    assert 5 < n_not_one_hot(1 - 1e-6) < 60


def independent_check_of_ray(tokens, selected, queries, solution):
    matrix = full_matrix(tokens, selected, queries)
    others = np.ones(solution.ray.size, dtype=bool)
    n_tokens = np.array([len(sample) for sample in tokens])
    others[np.concatenate([[0], np.cumsum(n_tokens)[:-1]]) + selected] = False
    assert np.all(solution.ray >= 0)
    assert np.all(solution.ray[~others] == 0)
    np.testing.assert_allclose(solution.ray.sum(), 1)
    combination = solution.ray[others] @ matrix
    scale = solution.ray[others] @ np.linalg.norm(matrix, axis=1)
    assert np.linalg.norm(combination) <= 1e-9 * scale


def test_random_prompts_are_infeasible_with_proof():
    # n = 10, T = 8, d = 10: none of 40 random instances is feasible.
    for seed in range(40):
        rng = np.random.default_rng(seed)
        tokens, selected = on_sphere(rng, 10, 8, 10), rng.integers(0, 8, 10)
        solution = solve(MarginProblem(tokens, selected))
        assert solution.status == "infeasible"
        assert np.isnan(solution.coef).all()
        assert np.isinf(solution.objective)
        independent_check_of_ray(tokens, selected, None, solution)


@pytest.mark.parametrize("norm", NORMS)
def test_opposite_demands_are_infeasible_in_every_norm(norm):
    tokens = np.array([[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 2.0]]])
    queries = np.array([[1.0, 3.0], [1.0, 3.0]])
    for query in (None, queries):
        solution = solve(MarginProblem(tokens, [0, 0], query, norm=norm))
        assert solution.status == "infeasible"
        np.testing.assert_allclose(solution.ray, [0, 0.5, 0, 0.5])
        assert solution.ray_residual <= 1e-15
    mixed = solve(MarginProblem(tokens, [0, 0], queries, [np.inf, 1.0], norm))
    assert mixed.status == "optimal"
    np.testing.assert_allclose(mixed.slack, [0, 0, 0, 2], atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_wide_bilinear_problems_are_feasible(seed):
    # d >= T - 1 and d_q >= n.
    rng = np.random.default_rng(seed)
    tokens, queries = rng.standard_normal((6, 5, 4)), rng.standard_normal((6, 6))
    selected = rng.integers(0, 5, 6)
    for norm in ("fro", "nuc"):
        solution = solve(MarginProblem(tokens, selected, queries, norm=norm))
        assert solution.status == "optimal"


def test_zero_query_makes_the_hard_margin_infeasible():
    tokens, query = [[[1.0], [0.0]]], [[0.0, 0.0]]
    hard = solve(MarginProblem(tokens, [0], query))
    assert hard.status == "infeasible"
    soft = solve(MarginProblem(tokens, [0], query, C=2.0))
    assert soft.status == "optimal"
    np.testing.assert_allclose(soft.objective, 2.0)
    np.testing.assert_allclose(soft.coef, 0, atol=1e-12)


@pytest.mark.parametrize("C", SOFT_AND_HARD)
@pytest.mark.parametrize(
    "tokens", [np.ones((3, 1, 2)), np.ones((3, 4, 2))], ids=["single", "equal"]
)
def test_no_constraint(tokens, C):
    solution = solve(MarginProblem(tokens, [0, 0, 0], C=C))
    assert solution.status == "optimal"
    np.testing.assert_array_equal(solution.coef, [0, 0])
    assert solution.objective == solution.duality_gap == 0
    assert solution.min_margin == np.inf
    assert solution.rank == 0
    np.testing.assert_array_equal(solution.dual_coef, np.zeros(tokens.shape[1] * 3))


def test_warm_start_that_is_good_enough_returns_at_once():
    tokens, queries, selected = planted(12)
    for norm in NORMS:
        problem = MarginProblem(tokens, selected, queries, 1.0, norm)
        first = solve(problem)
        again = solve(problem, warm_start=first)
        assert again.n_iter == 0
        np.testing.assert_allclose(again.coef, first.coef, atol=1e-12)
        other = MarginProblem(tokens, selected, queries, 0.1, norm)
        moved = solve(other, warm_start=first)
        assert moved.n_iter > 0
        np.testing.assert_allclose(moved.coef, solve(other).coef, atol=1e-6)


def test_warm_start_from_an_infeasible_problem_is_harmless():
    tokens = np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    infeasible = solve(MarginProblem(tokens, [0, 0]))
    soft = solve(MarginProblem(tokens, [0, 0], C=1.0), warm_start=infeasible)
    assert soft.status == "optimal"


def test_callback_sees_improving_bounds_and_can_stop():
    tokens, queries, selected = planted(13)
    problem = MarginProblem(tokens, selected, queries, 1.0)
    seen = []
    solve(problem, callback=seen.append)
    assert [progress.stage for progress in seen] == ["clarabel", "polish"]
    assert seen[1].duality_gap <= seen[0].duality_gap
    assert seen[0].lower_bound <= seen[0].upper_bound * (1 + 1e-12)
    assert seen[0].n_iter > 0

    rough = solve(MarginProblem(tokens, selected, queries, 2.0))
    stages = []

    def stop(progress):
        stages.append(progress.stage)
        return True

    stopped = solve(problem, warm_start=rough, callback=stop)
    assert stages == ["warm_start"]
    assert stopped.status == "max_iter"
    assert stopped.n_iter == 0
    assert stopped.lower_bound < stopped.upper_bound


def test_too_few_iterations_are_reported_with_their_gap():
    tokens, queries, selected = planted(14)
    for C in SOFT_AND_HARD:
        problem = MarginProblem(tokens, selected, queries, C, "nuc")
        optimum = solve(problem).objective
        solution = solve(problem, max_iter=2)
        assert solution.status == "max_iter"
        assert solution.duality_gap > 1e-6
        assert solution.lower_bound <= optimum <= solution.upper_bound


def test_solutions_do_not_depend_on_the_order_of_samples():
    tokens, queries, selected = planted(15, n_samples=8)
    order = np.random.default_rng(0).permutation(8)
    for norm in NORMS:
        one = solve(MarginProblem(tokens, selected, queries, 1.0, norm))
        other = solve(
            MarginProblem(tokens[order], selected[order], queries[order], 1.0, norm)
        )
        np.testing.assert_array_equal(one.coef, other.coef)
        np.testing.assert_array_equal(
            one.dual_coef.reshape(8, -1)[order], other.dual_coef.reshape(8, -1)
        )


def test_registry_and_refused_arguments():
    problem = MarginProblem(KEYS, [0])
    assert {"cvxpy", "dual_cd"} <= set(SOLVERS)
    assert solve(problem, solver="cvxpy").solver == "cvxpy"
    with pytest.raises(ValueError, match="solver must be 'auto' or one of"):
        solve(problem, solver="osqp")
    with pytest.raises(ValueError, match="tol must be above 0"):
        solve(problem, tol=0)
    with pytest.raises(ValueError, match="max_iter must be a positive integer"):
        solve(problem, max_iter=0)
    with pytest.raises(TypeError, match="problem must be a MarginProblem"):
        solve(KEYS)
    with pytest.raises(TypeError, match="warm_start must be a MarginSolution"):
        solve(problem, warm_start=np.zeros(2))
    with pytest.raises(ValueError, match="warm_start has a coef of shape"):
        solve(problem, warm_start=solve(MarginProblem(JOINT, [0, 0, 0])))
