"""The structured interior point against cvxpy and closed forms."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem, dual_bound, primal_bound, solve

SHAPES = [(6, 8, 10, 10), (12, 4, 5, 3), (10, 5, 3, 6), (25, 6, 4, 4)]
COSTS = [np.inf, 1.0, 0.01]


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def planted(seed, n_samples, n_tokens, n_features, n_query_features):
    rng = np.random.default_rng(seed)
    tokens = on_sphere(rng, n_samples, n_tokens, n_features)
    queries = on_sphere(rng, n_samples, n_query_features)
    coef = rng.standard_normal((n_features, n_query_features))
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    return tokens, scores.argmax(axis=1), queries


def solve_ip(problem, **kwargs):
    return solve(problem, solver="interior_point", **kwargs)


def assert_certified(problem, solution, tol):
    upper, _ = primal_bound(problem, solution.coef)
    lower, _ = dual_bound(problem, solution.dual_coef)
    np.testing.assert_allclose(upper, solution.objective, rtol=1e-9)
    assert (upper - lower) / upper <= tol * 1.01
    assert solution.status == "optimal"


@pytest.mark.parametrize("C", COSTS)
@pytest.mark.parametrize("norm", ["fro", "nuc"])
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_cvxpy(shape, norm, C):
    problem = MarginProblem(*planted(0, *shape), C=C, norm=norm)
    solution = solve_ip(problem)
    reference = solve(problem, tol=1e-9, solver="cvxpy")
    assert_certified(problem, solution, 1e-6)
    assert solution.solver == "interior_point"
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=1e-6)
    assert solution.rank == reference.rank
    assert solution.n_iter < 30


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_tight_tolerance(norm):
    tokens, selected, queries = planted(1, 50, 10, 10, 10)
    for C in (np.inf, 1.0):
        problem = MarginProblem(tokens, selected, queries, C, norm)
        assert_certified(problem, solve_ip(problem, tol=1e-9), 1e-9)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_hard_and_soft_samples_together(norm):
    tokens, selected, queries = planted(2, 12, 5, 4, 4)
    C = np.where(np.arange(12) % 2, np.inf, 0.3)
    problem = MarginProblem(tokens, selected, queries, C, norm)
    solution = solve_ip(problem)
    assert_certified(problem, solution, 1e-6)
    margins = problem.margins(solution.coef)
    assert margins[problem.samples % 2 == 1].min() >= 1 - 1e-12
    assert margins.min() < 1 - 1e-3
    reference = solve(problem, tol=1e-9, solver="cvxpy")
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=1e-6)


def test_prompt_has_the_closed_form():
    joint = np.array([[[1.0, 1], [0, 0]], [[1, -1], [0, 0]], [[0.5, 1], [0, 0]]])
    solution = solve_ip(MarginProblem(joint, [0, 0, 0]), tol=1e-10)
    np.testing.assert_allclose(solution.coef, [4 / 3, 1 / 3], rtol=1e-8)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_both_ways_to_assemble_give_one_solution(norm):
    tokens, selected, queries = planted(3, 20, 5, 4, 4)
    few_rows = MarginProblem(tokens[:3], selected[:3], queries[:3], norm=norm)
    many_rows = MarginProblem(tokens, selected, queries, norm=norm)
    for problem in (few_rows, many_rows):
        expected = solve(problem, tol=1e-9, solver="cvxpy").objective
        np.testing.assert_allclose(solve_ip(problem).objective, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_changes_system_when_digits_run_out(norm, monkeypatch):
    from skattn.margin._interior_iterate import InteriorPoint

    tokens, selected, queries = planted(4, 50, 20, 10, 10)
    problem = MarginProblem(tokens, selected, queries, 1.0, norm)
    with_rows = solve_ip(problem, tol=1e-9)
    monkeypatch.setattr(InteriorPoint, "use_rows_if_possible", lambda self: False)
    without = solve_ip(problem, tol=1e-9)
    assert with_rows.duality_gap <= 1e-9
    np.testing.assert_allclose(without.objective, with_rows.objective, rtol=1e-6)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
@pytest.mark.parametrize("scale", [1e-5, 1e5])
@pytest.mark.parametrize("is_soft", [True, False])
def test_scale_of_features_does_not_matter(scale, norm, is_soft):
    tokens, selected, queries = planted(5, 8, 5, 4, 3)
    costs = (0.5, 0.5 / scale**2) if is_soft else (np.inf, np.inf)
    solutions = [
        solve_ip(MarginProblem(values, selected, queries, C, norm))
        for values, C in zip((tokens, scale * tokens), costs, strict=True)
    ]
    assert [solution.status for solution in solutions] == ["optimal", "optimal"]
    np.testing.assert_allclose(
        solutions[1].coef * scale,
        solutions[0].coef,
        atol=1e-6 * np.abs(solutions[0].coef).max(),
    )


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_ragged_samples_with_a_constant_feature(norm):
    rng = np.random.default_rng(6)
    lengths = [1, 3, 7, 2, 40, 1]
    tokens = [on_sphere(rng, length, 4) for length in lengths]
    for sample in tokens:
        sample[:, 2] = 1.0
    queries = on_sphere(rng, 6, 3)
    selected = [
        int((sample @ np.ones((4, 3)) @ query).argmax())
        for sample, query in zip(tokens, queries, strict=True)
    ]
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    solution = solve_ip(problem)
    assert_certified(problem, solution, 1e-6)
    np.testing.assert_allclose(solution.coef[2], 0, atol=1e-6)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_no_constraint_gives_zero(norm):
    tokens = np.ones((3, 4, 2))
    solution = solve_ip(MarginProblem(tokens, [0, 1, 2], np.eye(3), norm=norm))
    assert solution.status == "optimal"
    assert not solution.coef.any()


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_opposite_rows_of_soft_samples_give_zero(norm):
    # Either token could be selected: what one gains the other loses.
    tokens = np.array([[[1.0, 0], [0, 1]]] * 2)
    queries = np.ones((2, 2))
    solution = solve_ip(MarginProblem(tokens, [0, 1], queries, 0.5, norm))
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.objective, 1.0, rtol=1e-9)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
@pytest.mark.parametrize("shape", [(20, 5, 4, 4), (60, 10, 10, 10), (150, 8, 9, 8)])
def test_infeasible_margins_are_proved(shape, norm):
    rng = np.random.default_rng(7)
    n_samples, n_tokens, n_features, n_query_features = shape
    problem = MarginProblem(
        on_sphere(rng, n_samples, n_tokens, n_features),
        rng.integers(0, n_tokens, n_samples),
        on_sphere(rng, n_samples, n_query_features),
        norm=norm,
    )
    solution = solve_ip(problem)
    assert solution.status == "infeasible"
    ray = solution.ray[problem.rows]
    assert ray.min() >= 0
    np.testing.assert_allclose(ray.sum(), 1)
    np.testing.assert_allclose(problem.adjoint(ray), 0, atol=1e-9)


@pytest.mark.parametrize("is_small", [True, False])
def test_rays_by_projection_and_by_least_squares(is_small, monkeypatch):
    from skattn.margin import _ray

    monkeypatch.setattr(_ray, "SMALL", np.inf if is_small else 0)
    monkeypatch.setattr(_ray, "LARGEST_EXPLICIT", np.inf if is_small else 0)
    rng = np.random.default_rng(8)
    problem = MarginProblem(
        on_sphere(rng, 60, 10, 6), rng.integers(0, 10, 60), on_sphere(rng, 60, 6)
    )
    solution = solve_ip(problem)
    assert solution.status == "infeasible"
    np.testing.assert_allclose(
        problem.adjoint(solution.ray[problem.rows]), 0, atol=1e-9
    )


@pytest.mark.parametrize("solver", ["interior_point", "admm"])
def test_a_query_of_zeros_cannot_have_a_hard_margin(solver):
    tokens, selected, queries = planted(17, 5, 4, 4, 4)
    queries[2] = 0
    problem = MarginProblem(tokens, selected, queries, norm="nuc")
    solution = solve(problem, solver=solver)
    assert solution.status == "infeasible"
    assert not solution.ray[problem.rows[problem.samples != 2]].any()
    soft = np.where(np.arange(5) == 2, 0.5, np.inf)
    problem = MarginProblem(tokens, selected, queries, soft, "nuc")
    solution = solve(problem, solver=solver)
    assert solution.status == "optimal"
    # Its margins are 0 whatever W is: each of its three constraints costs C.
    others = [0, 1, 3, 4]
    rest = MarginProblem(tokens[others], selected[others], queries[others], norm="nuc")
    size = solve(rest, solver=solver).objective
    np.testing.assert_allclose(solution.objective, 1.5 + size**2 / 2, rtol=2e-6)


@pytest.mark.parametrize("seed", range(20))
def test_samples_of_very_different_scales(seed):
    rng = np.random.default_rng(seed)
    n_samples = int(rng.integers(2, 8))
    tokens = [
        rng.standard_normal((int(rng.integers(2, 6)), 4)) * 10 ** rng.uniform(-3, 3)
        for _ in range(n_samples)
    ]
    problem = MarginProblem(
        tokens,
        np.zeros(n_samples, dtype=int),
        rng.standard_normal((n_samples, 3)),
        C=[1.0, 1e6, 1e-6, np.inf][seed % 4],
        norm=["fro", "nuc"][seed // 4 % 2],
    )
    solution = solve_ip(problem)
    if solution.status == "infeasible":
        ray = solution.ray[problem.rows]
        sizes = ray @ problem.constraints.row_norms()
        assert np.linalg.norm(problem.adjoint(ray)) <= 1e-9 * sizes
    else:
        assert_certified(problem, solution, 1e-6)
    reference = solve(problem, solver="cvxpy")
    if reference.status != "max_iter":
        assert solution.status == reference.status
        np.testing.assert_allclose(solution.objective, reference.objective, rtol=2e-6)


def test_sparse_tokens():
    rng = np.random.default_rng(9)
    dense = on_sphere(rng, 8, 3, 5) * (rng.random((8, 3, 5)) < 0.7)

    class Container:
        values = sparse.csr_array(dense.reshape(-1, 5))
        offsets = np.arange(0, 25, 3)

    selected, queries = np.zeros(8, dtype=int), on_sphere(rng, 8, 8)
    for norm in ("fro", "nuc"):
        solutions = [
            solve_ip(MarginProblem(tokens, selected, queries, 1.0, norm), tol=1e-9)
            for tokens in (dense, Container())
        ]
        np.testing.assert_allclose(
            solutions[0].objective, solutions[1].objective, rtol=1e-8
        )


def test_warm_start_is_returned_when_good_enough():
    problem = MarginProblem(*planted(10, 6, 4, 4, 4), norm="nuc")
    first = solve_ip(problem)
    again = solve_ip(problem, warm_start=first)
    assert again.n_iter == 0
    assert again.status == "optimal"


def test_a_limit_on_iterations_is_admitted():
    problem = MarginProblem(*planted(11, 30, 8, 6, 6), norm="nuc")
    solution = solve_ip(problem, max_iter=3, tol=1e-12)
    assert solution.n_iter == 3
    gap = 1 - solution.lower_bound / solution.upper_bound
    np.testing.assert_allclose(solution.duality_gap, gap)
    assert (solution.status == "optimal") == (gap <= 1e-12)


def test_callback_stops_and_interrupts_pass_through():
    problem = MarginProblem(*planted(12, 12, 6, 6, 6), norm="nuc")
    seen = []

    def stop_at_third(progress):
        seen.append(progress)
        return progress.n_iter == 3

    assert solve_ip(problem, callback=stop_at_third).n_iter == 3
    assert [progress.stage for progress in seen] == ["iteration"] * 3

    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_ip(problem, callback=interrupt)


def test_refuses_what_it_is_not_made_for(monkeypatch):
    tokens, selected, queries = planted(13, 6, 4, 4, 4)
    with pytest.raises(ValueError, match="entrywise"):
        solve_ip(MarginProblem(tokens, selected, queries, norm=1.5))
    monkeypatch.setattr("skattn.margin._interior_point.LARGEST_SYSTEM", 10)
    with pytest.raises(ValueError, match="systems of up to 10"):
        solve_ip(MarginProblem(tokens, selected, queries))
