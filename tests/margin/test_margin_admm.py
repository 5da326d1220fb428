"""Alternating directions for the nuclear norm against cvxpy and the interior point."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem, dual_bound, primal_bound, solve

kernels = pytest.importorskip("skattn.margin._admm_kernels")


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def planted(seed, n_samples, n_tokens, n_features, n_query_features, rank=None):
    rng = np.random.default_rng(seed)
    tokens = on_sphere(rng, n_samples, n_tokens, n_features)
    queries = on_sphere(rng, n_samples, n_query_features)
    rank = rank or min(n_features, n_query_features)
    coef = rng.standard_normal((n_features, rank)) @ rng.standard_normal(
        (rank, n_query_features)
    )
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    return tokens, scores.argmax(axis=1), queries


def random_problem(seed):
    rng = np.random.default_rng(seed)
    shape = [int(rng.integers(*bounds)) for bounds in [(2, 15), (2, 9), (4, 11)]]
    instance = planted(seed, *shape, int(rng.integers(3, 11)))
    return MarginProblem(*instance, C=[np.inf, 1.0, 0.05][seed % 3], norm="nuc")


def solve_admm(problem, **kwargs):
    return solve(problem, solver="admm", **kwargs)


def assert_agrees_with_cvxpy(problem):
    solution = solve_admm(problem)
    reference = solve(problem, tol=1e-9, solver="cvxpy")
    assert solution.status == "optimal"
    assert solution.solver == "admm"
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=1e-6)
    assert solution.rank == reference.rank
    upper, _ = primal_bound(problem, solution.coef)
    lower, _ = dual_bound(problem, solution.dual_coef)
    np.testing.assert_allclose(upper, solution.objective, rtol=1e-9)
    assert (upper - lower) / upper <= 1.01e-6


@pytest.mark.parametrize("weight", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 6)])
def test_shrink_meets_the_optimality_conditions(shape, weight):
    matrix = np.random.default_rng(0).standard_normal(shape)
    point, size = kernels.shrink(matrix, weight)
    np.testing.assert_allclose(np.linalg.norm(point, "nuc"), size)
    # weight * (matrix - point) is a subgradient of |V|_*^2 / 2 at V = point: of
    # spectral norm |V|_*, and aligned with V.
    subgradient = weight * (matrix - point)
    np.testing.assert_allclose(np.linalg.norm(subgradient, 2), size)
    np.testing.assert_allclose(np.sum(subgradient * point), size**2)


def test_shrink_of_zero_and_of_rank_one():
    assert not kernels.shrink(np.zeros((3, 2)), 1.0)[0].any()
    matrix = np.outer([3.0, 0, 4], [1.0, 0])
    point, size = kernels.shrink(matrix, 4.0)
    np.testing.assert_allclose(point, 0.8 * matrix, atol=1e-14)
    np.testing.assert_allclose(size, 4.0)


@pytest.mark.parametrize("seed", range(24))
def test_agrees_with_cvxpy(seed):
    assert_agrees_with_cvxpy(random_problem(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 100))
def test_agrees_with_cvxpy_on_more(seed):
    assert_agrees_with_cvxpy(random_problem(seed))


@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_agrees_with_the_interior_point(C):
    problem = MarginProblem(*planted(0, 60, 10, 12, 12), C=C, norm="nuc")
    solution = solve_admm(problem, tol=1e-8)
    reference = solve(problem, tol=1e-8, solver="interior_point")
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=1e-8)
    assert solution.rank == reference.rank
    # The nuclear solution need not be strongly determined; here it is.
    np.testing.assert_allclose(
        solution.coef, reference.coef, atol=1e-3 * np.abs(reference.coef).max()
    )


def test_rank_is_exact():
    problem = MarginProblem(*planted(1, 40, 6, 10, 10, rank=1), norm="nuc")
    solution = solve_admm(problem, tol=1e-4)
    singular = np.linalg.svd(solution.coef, compute_uv=False)
    assert solution.rank < 10
    np.testing.assert_allclose(singular[solution.rank :], 0, atol=1e-12 * singular[0])


def test_hard_and_soft_samples_together():
    tokens, selected, queries = planted(2, 12, 5, 4, 4)
    C = np.where(np.arange(12) % 2, np.inf, 0.3)
    assert_agrees_with_cvxpy(MarginProblem(tokens, selected, queries, C, "nuc"))


@pytest.mark.parametrize("scale", [1e-5, 1e5])
@pytest.mark.parametrize("is_soft", [True, False])
def test_scale_of_features_does_not_matter(scale, is_soft):
    tokens, selected, queries = planted(5, 8, 5, 4, 3)
    costs = (0.5, 0.5 / scale**2) if is_soft else (np.inf, np.inf)
    solutions = [
        solve_admm(MarginProblem(values, selected, queries, C, "nuc"), tol=1e-8)
        for values, C in zip((tokens, scale * tokens), costs, strict=True)
    ]
    assert [solution.status for solution in solutions] == ["optimal", "optimal"]
    # The order of constraints depends on their values.
    assert abs(solutions[0].n_iter - solutions[1].n_iter) <= 20
    np.testing.assert_allclose(
        solutions[1].coef * scale,
        solutions[0].coef,
        atol=1e-6 * np.abs(solutions[0].coef).max(),
    )


def test_ragged_samples_and_sparse_tokens():
    rng = np.random.default_rng(6)
    lengths = np.array([1, 3, 7, 2, 40, 1, 5])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = on_sphere(rng, lengths.sum(), 6) * (rng.random((lengths.sum(), 6)) < 0.8)
    queries = on_sphere(rng, lengths.size, 4)

    class Dense:
        pass

    class Sparse:
        pass

    Dense.values, Dense.offsets = values, offsets
    Sparse.values, Sparse.offsets = sparse.csr_array(values), offsets
    selected = np.zeros(lengths.size, dtype=int)
    solutions = [
        solve_admm(MarginProblem(tokens, selected, queries, 0.5, "nuc"))
        for tokens in (Dense, Sparse)
    ]
    assert [solution.status for solution in solutions] == ["optimal", "optimal"]
    np.testing.assert_allclose(
        solutions[0].objective, solutions[1].objective, rtol=1e-6
    )
    assert not solutions[0].slack[[0, 53]].any()
    assert_agrees_with_cvxpy(MarginProblem(Dense, selected, queries, 0.5, "nuc"))


def test_no_constraint_gives_zero():
    solution = solve_admm(
        MarginProblem(np.ones((3, 4, 2)), [0, 1, 2], np.eye(3), norm="nuc")
    )
    assert solution.status == "optimal"
    assert not solution.coef.any()


def test_opposite_rows_of_soft_samples_give_zero():
    tokens = np.array([[[1.0, 0], [0, 1]]] * 2)
    solution = solve_admm(MarginProblem(tokens, [0, 1], np.ones((2, 2)), 0.5, "nuc"))
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.objective, 1.0, rtol=1e-6)


@pytest.mark.parametrize("shape", [(20, 5, 4, 4), (60, 10, 10, 10), (150, 8, 9, 8)])
def test_infeasible_margins_are_proved(shape):
    rng = np.random.default_rng(7)
    n_samples, n_tokens, n_features, n_query_features = shape
    problem = MarginProblem(
        on_sphere(rng, n_samples, n_tokens, n_features),
        rng.integers(0, n_tokens, n_samples),
        on_sphere(rng, n_samples, n_query_features),
        norm="nuc",
    )
    solution = solve_admm(problem)
    assert solution.status == "infeasible"
    ray = solution.ray[problem.rows]
    assert ray.min() >= 0
    np.testing.assert_allclose(ray.sum(), 1)
    np.testing.assert_allclose(problem.adjoint(ray), 0, atol=1e-9)


def test_warm_starts_save_alternations():
    problem = MarginProblem(*planted(8, 40, 8, 10, 10), C=1.0, norm="nuc")
    cold = solve_admm(problem, tol=1e-7)
    assert solve_admm(problem, tol=1e-6, warm_start=cold).n_iter == 0
    near = problem.with_C(1.1)
    warm, cold = solve_admm(near, warm_start=cold), solve_admm(near)
    assert warm.status == "optimal"
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.objective, cold.objective, rtol=2e-6)


def test_the_same_problem_gives_the_same_bits():
    tokens, selected, queries = planted(9, 15, 6, 6, 6)
    order = np.random.default_rng(0).permutation(15)
    first = solve_admm(MarginProblem(tokens, selected, queries, norm="nuc"))
    again = solve_admm(
        MarginProblem(tokens[order], selected[order], queries[order], norm="nuc")
    )
    np.testing.assert_array_equal(first.coef, again.coef)


def test_a_limit_on_iterations_is_admitted():
    problem = MarginProblem(*planted(11, 30, 8, 6, 6), norm="nuc")
    solution = solve_admm(problem, max_iter=3, tol=1e-13)
    assert solution.n_iter == 3
    gap = 1 - solution.lower_bound / solution.upper_bound
    np.testing.assert_allclose(solution.duality_gap, gap, atol=1e-15)
    assert (solution.status == "optimal") == (gap <= 1e-13)


def test_callback_stops_and_interrupts_pass_through():
    problem = MarginProblem(*planted(12, 12, 6, 6, 6), norm="nuc")
    seen = []

    def stop_at_tenth(progress):
        seen.append(progress)
        return progress.n_iter == 10

    assert solve_admm(problem, tol=1e-9, callback=stop_at_tenth).n_iter == 10
    assert [progress.stage for progress in seen] == ["alternation"] * 2

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_admm(problem, callback=interrupt)


@pytest.mark.parametrize("norm", ["fro", 1.5])
def test_refuses_other_norms(norm):
    tokens, selected, queries = planted(13, 6, 4, 4, 4)
    with pytest.raises(ValueError, match="norm='nuc'"):
        solve_admm(MarginProblem(tokens, selected, queries, norm=norm))
