"""Cases that break solvers, for every solver and norm."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skattn.margin import SOLVERS, MarginProblem, dual_bound, solve, supports
from skattn.theory import attention_svm

NORMS = ["fro", "nuc", 1.5, 3.0]

TOL = 1e-6


def planted(seed, n_samples=8, n_tokens=4, n_features=5, n_query_features=3):
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((n_samples, n_tokens, n_features))
    queries = rng.standard_normal((n_samples, n_query_features))
    coef = rng.standard_normal((n_features, n_query_features))
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    return tokens, scores.argmax(axis=1), queries


def cases_of(norms=NORMS, n_query_features=3):
    """Every solver and norm that go together."""
    data = planted(0, n_query_features=n_query_features)
    return [
        pytest.param(solver, norm, id=f"{solver}-{norm}")
        for solver in sorted(SOLVERS)
        for norm in norms
        if supports(solver, MarginProblem(*data, norm=norm))
    ]


every_solver = pytest.mark.parametrize(("solver", "norm"), cases_of())


def solved(tokens, selected, queries, solver, norm, C=np.inf, tol=TOL):
    problem = MarginProblem(tokens, selected, queries, C=C, norm=norm)
    solution = solve(problem, solver=solver, tol=tol)
    assert solution.status == "optimal", solution.duality_gap
    assert solution.duality_gap <= tol
    return solution


@every_solver
@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_one_token_a_sample_is_no_constraint(solver, norm, C):
    tokens, queries = np.ones((3, 1, 2)), np.ones((3, 2))
    solution = solved(tokens, [0, 0, 0], queries, solver, norm, C)
    np.testing.assert_array_equal(solution.coef, np.zeros((2, 2)))
    assert solution.objective == 0
    assert solution.duality_gap == 0
    assert solution.min_margin == np.inf
    assert solution.rank == 0


@every_solver
def test_equal_tokens_are_no_constraints(solver, norm):
    tokens, queries = np.full((2, 4, 3), 0.7), np.ones((2, 2))
    solution = solved(tokens, [1, 3], queries, solver, norm)
    np.testing.assert_array_equal(solution.coef, np.zeros((3, 2)))
    np.testing.assert_array_equal(solution.dual_coef, np.zeros(8))


@every_solver
@pytest.mark.parametrize("C", [np.inf, 0.5])
def test_one_sample(solver, norm, C):
    # The norm of W is that of the prompt for the same tokens: W = p z' / z'z for fro
    # and nuc, whose value is |p| / |z|.
    tokens, selected, queries = planted(4, n_samples=1)
    solution = solved(tokens, selected, queries, solver, norm, C)
    assert np.isfinite(solution.objective)
    if norm in ("fro", "nuc") and np.isinf(C):
        prompt = solve(MarginProblem(tokens, selected), tol=1e-9)
        expected = np.outer(prompt.coef, queries[0]) / (queries[0] @ queries[0])
        np.testing.assert_allclose(
            solution.coef, expected, rtol=0, atol=3e-3 * np.abs(expected).max()
        )
        assert solution.rank == 1


@every_solver
@pytest.mark.parametrize("widths", [(7, 2), (2, 7)])
def test_queries_of_another_width_than_tokens(solver, norm, widths):
    tokens, selected, queries = planted(1, 8, 4, *widths)
    solution = solved(tokens, selected, queries, solver, norm, C=0.5)
    reference = solve(MarginProblem(tokens, selected, queries, 0.5, norm), tol=1e-9)
    assert solution.coef.shape == widths
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=2 * TOL)


@every_solver
@pytest.mark.parametrize("C", [np.inf, 0.5])
def test_a_constant_feature_has_no_weight(solver, norm, C):
    tokens, selected, queries = planted(2)
    constant = np.full((*tokens.shape[:2], 1), 1e3)
    plain = solved(tokens, selected, queries, solver, norm, C)
    wider = np.concatenate([tokens, constant], axis=2)
    solution = solved(wider, selected, queries, solver, norm, C)
    np.testing.assert_allclose(solution.objective, plain.objective, rtol=2 * TOL)
    np.testing.assert_allclose(
        solution.coef[-1], 0, atol=1e-6 * np.abs(solution.coef).max()
    )


@every_solver
@pytest.mark.parametrize("scale", [1e-5, 1e5])
@pytest.mark.parametrize("query_scale", [1.0, 1e-5])
def test_tolerances_have_no_dimension(solver, norm, scale, query_scale):
    tokens, selected, queries = planted(3)
    factor = scale * query_scale
    for C in (np.inf, 0.5):
        plain = solved(tokens, selected, queries, solver, norm, C)
        scaled = solved(
            scale * tokens,
            selected,
            query_scale * queries,
            solver,
            norm,
            C / factor**2,
        )
        power = 1 if np.isinf(C) else 2
        np.testing.assert_allclose(
            scaled.objective * factor**power, plain.objective, rtol=2 * TOL
        )


@every_solver
def test_features_of_very_different_scales(solver, norm):
    tokens, selected, queries = planted(6)
    tokens = tokens * np.logspace(-2, 2, tokens.shape[2])
    problem = MarginProblem(tokens, selected, queries, C=1.0, norm=norm)
    solution = solve(problem, solver=solver, tol=TOL)
    reference = solve(problem, tol=1e-9)
    assert reference.status == "optimal"
    # A first-order method may give up here, but not silently.
    assert solution.status == ("optimal" if solution.duality_gap <= TOL else "max_iter")
    low, high = solution.lower_bound, solution.upper_bound
    assert low * (1 - 1e-9) <= reference.objective <= high * (1 + 1e-9)


@every_solver
@pytest.mark.parametrize("C", [np.inf, 0.3])
def test_duplicated_tokens_and_samples(solver, norm, C):
    tokens, selected, queries = planted(5)
    doubled = np.concatenate([tokens, tokens], axis=1)
    solution = solved(doubled, selected, queries, solver, norm, C)
    # A copy of the selected token makes no constraint; another copy shares the cost.
    plain = solved(tokens, selected, queries, solver, norm, 2 * C)
    np.testing.assert_allclose(solution.coef, plain.coef, rtol=1e-9, atol=1e-12)
    duals = solution.dual_coef.reshape(len(tokens), 2, -1)
    np.testing.assert_allclose(duals[:, 0], duals[:, 1], rtol=1e-9, atol=1e-12)


@every_solver
def test_what_is_not_separable_has_a_ray(solver, norm):
    # Two samples ask for opposite things, four others for anything.
    tokens, selected, queries = planted(0, n_samples=4)
    contradiction = np.stack([tokens[0], tokens[0]])
    tokens = np.concatenate([tokens, contradiction])
    queries = np.concatenate([queries, queries[:1], queries[:1]])
    selected = np.concatenate([selected, [0, 1]])
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    solution = solve(problem, solver=solver, tol=TOL)
    assert solution.status == "infeasible"
    assert np.isnan(solution.coef).all()
    assert solution.solver == solver
    ray = solution.ray[problem.rows]
    assert np.all(solution.ray >= 0)
    np.testing.assert_allclose(solution.ray.sum(), 1.0)
    combination = np.linalg.norm(problem.adjoint(ray))
    assert combination <= 2e-9 * (ray @ problem.constraints.row_norms())
    assert solution.ray_residual <= 1e-9


@every_solver
def test_what_is_barely_separable_is_not_called_infeasible(solver, norm):
    # The margins need a coef 1e4 times the usual.
    rng = np.random.default_rng(0)
    tokens = np.zeros((2, 2, 3))
    direction = rng.standard_normal(3)
    tokens[0, 1], tokens[1, 1] = direction, -direction + 1e-4 * rng.standard_normal(3)
    queries = np.ones((2, 2))
    problem = MarginProblem(tokens, [0, 0], queries, norm=norm)
    solution = solve(problem, solver=solver, tol=TOL)
    assert solution.status in ("optimal", "max_iter")
    if solution.status == "optimal":
        np.testing.assert_allclose(problem.margins(solution.coef).min(), 1.0, rtol=1e-6)
        reference = solve(problem, solver="cvxpy", tol=TOL)
        np.testing.assert_allclose(
            solution.objective, reference.objective, rtol=3 * TOL
        )


@pytest.mark.parametrize("norm", NORMS)
def test_auto_solves_what_is_barely_separable(norm):
    tokens, selected, queries = planted(9, 30, 10, 8, 8)
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    solution = solve(problem, tol=TOL)
    assert solution.status == "optimal"
    assert solution.duality_gap <= TOL
    lower, _ = dual_bound(problem, solution.dual_coef)
    np.testing.assert_allclose(lower, solution.objective, rtol=2 * TOL)


@every_solver
def test_interrupts_pass_through(solver, norm):
    def interrupt(progress):
        raise KeyboardInterrupt

    problem = MarginProblem(*planted(7, 30, 6, 6, 6), C=1.0, norm=norm)
    with pytest.raises(KeyboardInterrupt):
        solve(problem, solver=solver, tol=1e-12, callback=interrupt)


@every_solver
def test_what_is_not_reached_is_said(solver, norm):
    tokens, selected, queries = planted(7, 30, 6, 6, 6)
    problem = MarginProblem(tokens, selected, queries, C=1.0, norm=norm)
    solution = solve(problem, solver=solver, tol=1e-15, max_iter=1)
    reference = solve(problem, tol=1e-9)
    assert solution.status == (
        "optimal" if solution.duality_gap <= 1e-15 else "max_iter"
    )
    assert solution.lower_bound <= reference.objective * (1 + 1e-9)
    assert solution.upper_bound >= reference.objective * (1 - 1e-9)
    np.testing.assert_allclose(
        solution.duality_gap,
        (solution.upper_bound - solution.lower_bound) / solution.upper_bound,
        atol=1e-15,
    )


def test_attention_svm_warns_of_the_gap():
    tokens, selected, queries = planted(7, 30, 6, 6, 6)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        solution = attention_svm(
            tokens, selected, queries, norm=3.0, C=1.0, tol=1e-300, solver="sqp"
        )
    assert solution.status == "max_iter"


@pytest.mark.slow
def test_random_labels_at_the_limit_of_separability():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((1_000, 50, 64))
    tokens /= np.linalg.norm(tokens, axis=2, keepdims=True)
    queries = rng.standard_normal((1_000, 64))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    problem = MarginProblem(tokens, rng.integers(0, 50, 1_000), queries)
    solution = solve(problem, tol=1e-6)
    if solution.status == "optimal":
        assert solution.duality_gap <= 1e-6
        assert problem.margins(solution.coef).min() >= 1 - 1e-9
    elif solution.status == "infeasible":
        ray = solution.ray[problem.rows]
        combination = np.linalg.norm(problem.adjoint(ray))
        assert combination <= 2e-9 * (ray @ problem.constraints.row_norms())
    else:
        assert solution.duality_gap > 1e-6
