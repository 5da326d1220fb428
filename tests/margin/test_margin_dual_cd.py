"""Coordinate descent and its polish against cvxpy and what its bounds must satisfy."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem, dual_bound, primal_bound, solve
from skattn.margin._infeasibility import RAY_TOLERANCE


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def planted(seed, n=12, T=6, d=8, d_q=5, *, is_bilinear=True, push=0.3):
    rng = np.random.default_rng(seed)
    tokens, queries = on_sphere(rng, n, T, d), on_sphere(rng, n, d_q)
    if is_bilinear:
        directions = queries @ rng.standard_normal((d_q, d))
    else:
        directions = np.tile(rng.standard_normal(d), (n, 1))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    selected = np.einsum("ntd,nd->nt", tokens, directions).argmax(axis=1)
    tokens[np.arange(n), selected] += push * directions
    return tokens, selected, queries if is_bilinear else None


def random_labels(seed, n=30, T=6, d=5, d_q=3, *, is_bilinear=True):
    rng = np.random.default_rng(seed)
    queries = on_sphere(rng, n, d_q) if is_bilinear else None
    return on_sphere(rng, n, T, d), rng.integers(0, T, n), queries


def check_certified(problem, solution, tol):
    assert solution.status == "optimal"
    assert solution.solver == "dual_cd"
    assert solution.duality_gap <= tol
    upper, _ = primal_bound(problem, solution.coef)
    lower, _ = dual_bound(problem, solution.dual_coef)
    np.testing.assert_allclose([lower, upper], solution.objective, rtol=2 * tol + 1e-12)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("is_bilinear", [True, False])
def test_agrees_with_cvxpy(seed, is_bilinear):
    hard = planted(seed, is_bilinear=is_bilinear)
    soft = random_labels(seed, is_bilinear=is_bilinear)
    costs = np.random.default_rng(seed).choice([0.1, 1.0, 10.0], 30)
    for data, C in ((hard, np.inf), (soft, 1.0), (soft, costs)):
        problem = MarginProblem(*data, C)
        reference = solve(problem, tol=1e-9, solver="cvxpy")
        solution = solve(problem, tol=1e-9, solver="dual_cd")
        check_certified(problem, solution, 1e-9)
        np.testing.assert_allclose(solution.objective, reference.objective, rtol=2e-9)
        np.testing.assert_allclose(solution.coef, reference.coef, atol=2e-4)
        assert solution.rank == reference.rank


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-9])
def test_every_tolerance_is_reached(tol):
    for data, C in ((planted(0), np.inf), (random_labels(0), 0.5)):
        problem = MarginProblem(*data, C)
        check_certified(problem, solve(problem, tol=tol, solver="dual_cd"), tol)


def test_the_polish_gives_the_digits_of_the_machine():
    problem = MarginProblem(*planted(1, n=40, T=10, d=20, d_q=20))
    solution = solve(problem, tol=1e-9, solver="dual_cd")
    assert solution.duality_gap <= 1e-13
    active = problem.margins(solution.coef) < 1 + 1e-10
    duals = solution.dual_coef[problem.rows]
    np.testing.assert_array_equal(duals > 0, active)


def test_hard_and_soft_samples_may_be_mixed():
    tokens, selected, queries = planted(2, n=10)
    selected[:5] = np.random.default_rng(2).integers(0, 6, 5)
    C = np.where(np.arange(10) < 5, 0.7, np.inf)
    problem = MarginProblem(tokens, selected, queries, C)
    solution = solve(problem, tol=1e-8, solver="dual_cd")
    check_certified(problem, solution, 1e-8)
    reference = solve(problem, tol=1e-8, solver="cvxpy")
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=2e-8)
    is_hard = problem.constraints.is_hard
    assert problem.margins(solution.coef)[is_hard].min() >= 1 - 1e-12


@pytest.mark.parametrize("is_bilinear", [True, False])
def test_infeasible_margins_are_proved_by_a_ray(is_bilinear):
    tokens, selected, queries = random_labels(3, n=60, is_bilinear=is_bilinear)
    problem = MarginProblem(tokens, selected, queries)
    solution = solve(problem, solver="dual_cd")
    assert solution.status == "infeasible"
    assert np.all(solution.ray >= 0)
    np.testing.assert_allclose(solution.ray.sum(), 1)
    combination = problem.adjoint(solution.ray[problem.rows])
    assert np.linalg.norm(combination) <= 1e-8
    assert solution.ray_residual <= RAY_TOLERANCE


def test_too_few_epochs_are_reported_with_their_gap():
    barely = planted(4, n=60, T=20, is_bilinear=False, push=0.0)
    for data, C in ((barely, np.inf), (random_labels(4, n=300), 5.0)):
        problem = MarginProblem(*data, C)
        optimum = solve(problem, tol=1e-9).objective
        solution = solve(problem, tol=1e-9, max_iter=3, solver="dual_cd")
        assert solution.status == "max_iter"
        assert solution.n_iter == 3
        assert solution.duality_gap > 1e-9
        assert solution.lower_bound <= optimum * (1 + 1e-9)
        assert solution.upper_bound >= optimum * (1 - 1e-9)


def test_without_a_feasible_coef_the_lower_bound_is_what_is_known():
    problem = MarginProblem(*planted(5, n=60, T=20, is_bilinear=False, push=0.0))
    optimum = solve(problem).objective
    solution = solve(problem, max_iter=2, solver="dual_cd")
    assert solution.status == "max_iter"
    assert solution.objective == solution.duality_gap == np.inf
    assert 0 < solution.lower_bound < optimum
    bound, _ = dual_bound(problem, solution.dual_coef)
    np.testing.assert_allclose(bound, solution.lower_bound)


@pytest.mark.parametrize("scale", [1e-5, 1e5])
@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_the_tolerance_has_no_dimension(scale, C):
    tokens, selected, queries = planted(6)
    one = solve(MarginProblem(tokens, selected, queries, C), solver="dual_cd")
    other = solve(
        MarginProblem(scale * tokens, selected, queries, C / scale**2),
        solver="dual_cd",
    )
    assert one.n_iter == other.n_iter
    np.testing.assert_allclose(scale * other.coef, one.coef, rtol=1e-6, atol=1e-9)


def test_sparse_tokens_equal_dense_ones():
    rng = np.random.default_rng(7)
    values = rng.standard_normal((60, 6)) * (rng.random((60, 6)) < 0.5)

    class Container:
        offsets = np.arange(0, 61, 5)

    Container.values = sparse.csr_array(values)
    selected = rng.integers(0, 5, 12)
    dense = MarginProblem(values.reshape(12, 5, 6), selected, C=1.0)
    one = solve(dense, solver="dual_cd")
    other = solve(MarginProblem(Container, selected, C=1.0), solver="dual_cd")
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9)


def test_runs_are_repeatable_and_ignore_the_order_of_samples():
    tokens, selected, queries = random_labels(8)
    order = np.random.default_rng(0).permutation(30)
    one = solve(MarginProblem(tokens, selected, queries, 1.0), solver="dual_cd")
    other = solve(
        MarginProblem(tokens[order], selected[order], queries[order], 1.0),
        solver="dual_cd",
    )
    np.testing.assert_array_equal(one.coef, other.coef)


def test_warm_starts_save_epochs():
    tokens, selected, queries = random_labels(9, n=300, T=10)
    problem = MarginProblem(tokens, selected, queries, 1.0)
    first = solve(problem, tol=1e-4, solver="dual_cd")
    assert solve(problem, 1e-4, warm_start=first, solver="dual_cd").n_iter == 0
    for C in (0.8, 1.25):
        other = problem.with_C(C)
        cold = solve(other, 1e-4, solver="dual_cd")
        warm = solve(other, 1e-4, warm_start=first, solver="dual_cd")
        check_certified(other, warm, 1e-4)
        assert warm.n_iter < cold.n_iter


def test_the_callback_sees_improving_bounds_and_can_stop():
    problem = MarginProblem(*random_labels(10, n=300, T=10), C=1.0)
    seen = []
    solve(problem, tol=1e-6, solver="dual_cd", callback=seen.append)
    gaps = [progress.duality_gap for progress in seen]
    assert gaps == sorted(gaps, reverse=True)
    assert {progress.stage for progress in seen} >= {"descent"}
    stopped = solve(problem, tol=1e-6, solver="dual_cd", callback=lambda _: True)
    assert stopped.status == "max_iter"
    assert stopped.n_iter == seen[0].n_iter


def test_interrupts_pass_through():
    def interrupt(progress):
        raise KeyboardInterrupt

    problem = MarginProblem(*random_labels(11), C=1.0)
    with pytest.raises(KeyboardInterrupt):
        solve(problem, solver="dual_cd", callback=interrupt)


def test_other_norms_are_refused():
    tokens, selected, queries = planted(12)
    for norm in ("nuc", 1.5):
        problem = MarginProblem(tokens, selected, queries, norm=norm)
        with pytest.raises(ValueError, match="norm='fro' only"):
            solve(problem, solver="dual_cd")


@pytest.mark.slow
def test_one_long_sample_costs_what_its_tokens_cost():
    rng = np.random.default_rng(13)
    lengths = [1044] + [12] * 100
    direction = rng.standard_normal(20)
    samples, selected = [], []
    for length in lengths:
        sample = on_sphere(rng, length, 20)
        selected.append(int((sample @ direction).argmax()))
        sample[selected[-1]] += direction / np.linalg.norm(direction)
        samples.append(sample)
    problem = MarginProblem(samples, selected)
    assert problem.merged.differences.shape == (sum(lengths) - 101, 20)
    check_certified(problem, solve(problem, solver="dual_cd"), 1e-6)


@pytest.mark.slow
def test_memory_stays_within_three_times_the_tokens():
    import tracemalloc

    tokens, selected, queries = planted(14, n=2000, T=50, d=64, d_q=64)
    solve(MarginProblem(tokens[:9], selected[:9], queries[:9]), solver="dual_cd")
    tracemalloc.start()
    solution = solve(
        MarginProblem(tokens, selected, queries), tol=1e-4, solver="dual_cd"
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert solution.status == "optimal"
    # The tokens themselves are not traced.
    assert peak <= 2 * tokens.nbytes
