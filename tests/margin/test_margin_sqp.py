"""Sequential quadratic programming against cvxpy, closed forms and mirror descent."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem, solve


def planted(seed, n_samples, n_tokens, n_features, n_query_features):
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((n_samples, n_tokens, n_features))
    queries = rng.standard_normal((n_samples, n_query_features))
    coef = rng.standard_normal((n_features, n_query_features))
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    return tokens, scores.argmax(axis=1), queries


@pytest.mark.parametrize("p", [1.1, 1.5, 1.9, 2.2, 3.0, 5.0])
@pytest.mark.parametrize("C", [np.inf, 0.3, 30.0])
def test_objective_and_solution_of_cvxpy(p, C):
    for seed in range(4):
        tokens, selected, queries = planted(seed, 6, 4, 4, 3)
        problem = MarginProblem(tokens, selected, queries, C=C, norm=p)
        ours = solve(problem, solver="sqp", tol=1e-8)
        theirs = solve(problem, solver="cvxpy", tol=1e-8)
        assert ours.status == theirs.status == "optimal"
        assert ours.solver == "sqp"
        np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-7)
        np.testing.assert_allclose(
            ours.coef, theirs.coef, rtol=0, atol=2e-3 * np.abs(theirs.coef).max()
        )


@pytest.mark.parametrize("p", [1.02, 1.3, 4.0, 20.0])
def test_one_bilinear_constraint_is_hoelder(p):
    rng = np.random.default_rng(1)
    tokens, query = rng.standard_normal((1, 2, 5)), rng.standard_normal((1, 4))
    row = np.outer(tokens[0, 1] - tokens[0, 0], query[0])
    q = p / (p - 1)
    expected = np.sign(row) * np.abs(row) ** (q - 1) / np.sum(np.abs(row) ** q)
    solution = solve(MarginProblem(tokens, [1], query, norm=p), solver="sqp", tol=1e-9)
    np.testing.assert_allclose(
        solution.coef, expected, rtol=0, atol=1e-8 * np.abs(expected).max()
    )


@pytest.mark.parametrize("p", [1.2, 3.0, 8.0])
def test_gap_of_1e_9_with_many_samples(p):
    tokens, selected, queries = planted(0, 60, 8, 12, 10)
    solution = solve(
        MarginProblem(tokens, selected, queries, norm=p), solver="sqp", tol=1e-9
    )
    assert solution.status == "optimal"
    assert solution.duality_gap <= 1e-9
    np.testing.assert_allclose(solution.min_margin, 1.0, rtol=1e-12)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_direction_of_mirror_descent(p):
    # arXiv 2410.14581: gradient steps on U with W = sign(U) |U|^(1 / (p - 1)), here for
    # the exponential of the margins, whose bias is the same problem.
    tokens, selected, _ = planted(3, 3, 4, 12, 1)
    problem = MarginProblem(tokens, selected, norm=p)
    rows = problem.differences
    state = np.zeros(rows.shape[1])
    for _ in range(40_000):
        coef = np.sign(state) * np.abs(state) ** (1 / (p - 1))
        margins = rows @ coef
        weights = np.exp(margins.min() - margins)
        state += 1e-2 * (rows.T @ weights) / np.linalg.norm(rows.T @ weights)
    coef = np.sign(state) * np.abs(state) ** (1 / (p - 1))
    expected = solve(problem, solver="sqp").coef
    cosine = coef @ expected / np.linalg.norm(coef) / np.linalg.norm(expected)
    assert cosine > 0.999


@pytest.mark.parametrize("p", [1.5, 3.0])
@pytest.mark.parametrize("n_samples", [20, 1_500])
def test_infeasible_margins_have_a_ray(p, n_samples):
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((n_samples, 10, 6))
    problem = MarginProblem(tokens, rng.integers(0, 10, n_samples), norm=p)
    solution = solve(problem, solver="sqp")
    assert solution.status == "infeasible"
    np.testing.assert_allclose(solution.ray.sum(), 1.0)
    assert np.all(solution.ray >= 0)
    combination = problem.differences.T @ solution.ray[problem.rows]
    assert np.linalg.norm(combination) < 1e-8


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_rows_that_cancel_have_a_start(p):
    # The uniform dual, where the method starts, has the adjoint 0.
    tokens = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]], [[0.0, 1], [0, 0]]]
    tokens.append([[0.0, -1.0], [0.0, 0.0]])
    C = np.array([5.0, 1.0, 1.0, 1.0])
    problem = MarginProblem(tokens, [0, 0, 0, 0], C=C, norm=p)
    ours, theirs = solve(problem, solver="sqp"), solve(problem, solver="cvxpy")
    assert ours.status == "optimal"
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-6)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_mixed_hard_and_soft_samples(p):
    tokens, selected, queries = planted(5, 8, 4, 3, 3)
    rng = np.random.default_rng(5)
    selected[4:] = rng.integers(0, 4, 4)
    C = np.where(np.arange(8) < 4, np.inf, 0.2)
    problem = MarginProblem(tokens, selected, queries, C=C, norm=p)
    ours, theirs = solve(problem, solver="sqp"), solve(problem, solver="cvxpy")
    assert ours.status == theirs.status == "optimal"
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=2e-6)


def test_sparse_tokens_are_the_dense_problem():
    class Container:
        def __init__(self, values, offsets):
            self.values, self.offsets = values, offsets

    tokens, selected, _ = planted(2, 7, 3, 9, 1)
    tokens[np.abs(tokens) < 0.8] = 0
    values = sparse.csr_array(tokens.reshape(-1, 9))
    as_sparse = MarginProblem(Container(values, np.arange(8) * 3), selected, norm=1.5)
    as_dense = MarginProblem(tokens, selected, norm=1.5)
    np.testing.assert_allclose(
        solve(as_sparse, solver="sqp").coef, solve(as_dense, solver="sqp").coef
    )


def test_a_warm_start_saves_models():
    tokens, selected, queries = planted(0, 60, 8, 12, 10)
    cold = solve(
        MarginProblem(tokens, selected, queries, C=1.0, norm=3.0), solver="sqp"
    )
    problem = MarginProblem(tokens, selected, queries, C=1.02, norm=3.0)
    warm = solve(problem, solver="sqp", warm_start=cold)
    assert warm.status == "optimal"
    assert warm.n_iter <= solve(problem, solver="sqp").n_iter
    np.testing.assert_allclose(
        warm.objective, solve(problem, solver="sqp").objective, rtol=1e-6
    )


def test_too_few_models_say_so():
    tokens, selected, queries = planted(0, 60, 8, 12, 10)
    problem = MarginProblem(tokens, selected, queries, norm=6.0)
    solution = solve(problem, solver="sqp", tol=1e-12, max_iter=2)
    assert solution.status == "max_iter"
    assert solution.n_iter == 2
    optimum = solve(problem, solver="sqp").objective
    assert solution.lower_bound <= optimum * (1 + 1e-6)
    assert solution.upper_bound >= optimum * (1 - 1e-6)


def test_a_callback_stops():
    tokens, selected, queries = planted(0, 60, 8, 12, 10)
    stages = []

    def stop(progress):
        stages.append(progress.stage)
        return True

    solution = solve(
        MarginProblem(tokens, selected, queries, norm=6.0), solver="sqp", callback=stop
    )
    assert stages == ["model"]
    assert solution.status == "max_iter"


@pytest.mark.parametrize("norm", ["fro", "nuc", 2])
def test_other_norms_are_refused(norm):
    tokens, selected, queries = planted(0, 3, 3, 3, 3)
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    with pytest.raises(ValueError, match="norm must be a number above 1 other than 2"):
        solve(problem, solver="sqp")
