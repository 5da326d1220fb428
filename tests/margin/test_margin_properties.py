"""What must hold of every solver, on problems that hypothesis makes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from skattn.margin import (
    SOLVERS,
    MarginProblem,
    attention_svm_path,
    dual_bound,
    duality_gap,
    primal_bound,
    solve,
    supports,
)

NORMS = ["fro", "nuc", 1.5, 3.0]

TOL = 1e-7

#: Every solver with every norm that it is for.
SMALLEST = {
    norm: MarginProblem(np.eye(3)[None], [0], np.eye(2)[:1], norm=norm)
    for norm in NORMS
}
SOLVER_AND_NORM = [
    (solver, norm)
    for solver in sorted(SOLVERS)
    for norm in NORMS
    if supports(solver, SMALLEST[norm])
]

every_solver = pytest.mark.parametrize(("solver", "norm"), SOLVER_AND_NORM)

few_examples = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much],
)


@st.composite
def instances(draw, needs_query=True):
    """A separable problem as arrays: ragged tokens, selected, queries."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n_features, n_query_features = draw(st.integers(2, 5)), draw(st.integers(2, 4))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    assume(max(lengths) > 1)
    tokens = [rng.standard_normal((length, n_features)) for length in lengths]
    queries = rng.standard_normal((len(lengths), n_query_features))
    coef = rng.standard_normal((n_features, n_query_features))
    if not needs_query and draw(st.booleans()):
        queries, coef = None, coef[:, 0]
    selected = []
    for sample, x in enumerate(tokens):
        direction = coef if queries is None else coef @ queries[sample]
        best = int(np.argmax(x @ direction))
        # Away from the limit of separability, where no solver has digits to spare.
        x[best] += 0.3 * direction / np.linalg.norm(direction)
        selected.append(best)
    return tokens, np.array(selected), queries


def problem_for(solver, instance, norm, C=np.inf):
    """The problem, if the solver is for it: a prompt has no nuclear norm."""
    problem = MarginProblem(*instance, C=C, norm=norm)
    assume(supports(solver, problem))
    return problem


def solved(instance, solver, norm, C=np.inf, tol=TOL):
    problem = problem_for(solver, instance, norm, C)
    solution = solve(problem, solver=solver, tol=tol)
    assert solution.status == "optimal", (solver, norm, C, solution.duality_gap)
    return solution


@every_solver
@few_examples
@given(instance=instances(needs_query=False), C=st.sampled_from([np.inf, 0.05, 2.0]))
def test_solutions_are_what_they_claim(instance, C, solver, norm):
    problem = problem_for(solver, instance, norm, C)
    solution = solve(problem, solver=solver, tol=TOL)
    assert solution.status == "optimal"
    assert solution.solver == solver
    assert 0 <= solution.duality_gap <= TOL
    # Bounds from the public functions, which know nothing of the solver.
    upper, _ = primal_bound(problem, solution.coef)
    lower, _ = dual_bound(problem, solution.dual_coef)
    assert duality_gap(upper, lower) <= 1.01 * TOL + 1e-12
    np.testing.assert_allclose(upper, solution.objective, rtol=1e-9)
    margins = problem.margins(solution.coef)
    np.testing.assert_allclose(solution.min_margin, margins.min(), rtol=1e-9)
    assert np.all(solution.dual_coef >= 0)
    if np.isinf(C):
        np.testing.assert_allclose(margins.min(), 1.0, rtol=1e-9)
        np.testing.assert_array_equal(solution.slack, 0)
    else:
        assert np.all(solution.dual_coef <= C * (1 + 1e-9))
        np.testing.assert_allclose(
            solution.slack[problem.rows], np.maximum(1 - margins, 0), atol=1e-12
        )


@every_solver
@few_examples
@given(instance=instances(needs_query=False), scale=st.sampled_from([1e-5, 0.1, 1e5]))
def test_solutions_shrink_as_tokens_grow(instance, scale, solver, norm):
    tokens, selected, queries = instance
    plain = solved(instance, solver, norm)
    scaled = solved(([scale * x for x in tokens], selected, queries), solver, norm)
    np.testing.assert_allclose(scaled.objective * scale, plain.objective, rtol=3 * TOL)
    np.testing.assert_allclose(
        scaled.coef * scale, plain.coef, rtol=0, atol=2e-2 * np.abs(plain.coef).max()
    )


@every_solver
@few_examples
@given(
    instance=instances(needs_query=False),
    seed=st.integers(0, 100),
    C=st.sampled_from([np.inf, 0.5]),
)
def test_order_of_samples_and_tokens_does_not_matter(instance, seed, C, solver, norm):
    tokens, selected, queries = instance
    rng = np.random.default_rng(seed)
    samples = rng.permutation(len(tokens))
    within = [rng.permutation(len(x)) for x in tokens]
    shuffled = (
        [tokens[i][within[i]] for i in samples],
        np.array([np.flatnonzero(within[i] == selected[i])[0] for i in samples]),
        None if queries is None else queries[samples],
    )
    plain = solved(instance, solver, norm, C)
    other = solved(shuffled, solver, norm, C)
    np.testing.assert_allclose(other.coef, plain.coef, rtol=1e-9, atol=1e-12)
    starts = np.cumsum([0, *(len(x) for x in tokens)])
    order = np.concatenate([starts[i] + within[i] for i in samples])
    largest = max(np.abs(plain.dual_coef).max(), 1e-12)
    np.testing.assert_allclose(
        other.dual_coef, plain.dual_coef[order], atol=1e-9 * largest
    )


@every_solver
@few_examples
@given(instance=instances(needs_query=False), C=st.sampled_from([np.inf, 0.5]))
def test_a_token_beyond_its_margin_changes_nothing(instance, C, solver, norm):
    tokens, selected, queries = instance
    plain = solved(instance, solver, norm, C)
    direction = plain.coef if queries is None else plain.coef @ queries[0]
    assume(np.linalg.norm(direction) > 1e-6)
    # Behind the selected token by a margin of 2.
    further = tokens[0][selected[0]] - 2 * direction / (direction @ direction)
    longer = [np.vstack([tokens[0], further]), *tokens[1:]]
    other = solved((longer, selected, queries), solver, norm, C)
    np.testing.assert_allclose(other.objective, plain.objective, rtol=3 * TOL)
    np.testing.assert_allclose(
        other.coef, plain.coef, rtol=0, atol=2e-2 * np.abs(plain.coef).max()
    )
    assert other.dual_coef[len(tokens[0])] <= 2e-2 * other.dual_coef.max()


@every_solver
@few_examples
@given(instance=instances(needs_query=False))
def test_soft_at_large_cost_is_hard(instance, solver, norm):
    hard = solved(instance, solver, norm)
    # The duals of the half square: beyond the largest of them C does not bind.
    C = 2 * hard.objective**2
    soft = solved(instance, solver, norm, C)
    np.testing.assert_allclose(soft.objective, hard.objective**2 / 2, rtol=3 * TOL)
    np.testing.assert_allclose(
        soft.coef, hard.coef, rtol=0, atol=2e-2 * np.abs(hard.coef).max()
    )


@every_solver
@few_examples
@given(instance=instances(needs_query=False), factor=st.integers(2, 3))
def test_repeated_samples_share_one_cost(instance, factor, solver, norm):
    tokens, selected, queries = instance
    repeated = (
        tokens * factor,
        np.tile(selected, factor),
        None if queries is None else np.tile(queries, (factor, 1)),
    )
    plain = solved(instance, solver, norm, C=1.0)
    other = solved(repeated, solver, norm, C=1.0 / factor)
    np.testing.assert_allclose(other.coef, plain.coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@few_examples
@given(instance=instances(needs_query=False))
def test_solvers_agree(instance, norm):
    problem = MarginProblem(*instance, norm=norm)
    objectives = [
        solve(problem, solver=solver, tol=1e-8).objective
        for solver in SOLVERS
        if supports(solver, problem)
    ]
    assert len(objectives) >= 2
    np.testing.assert_allclose(objectives, objectives[0], rtol=3e-8)


@every_solver
@few_examples
@given(instance=instances(needs_query=False))
def test_the_optimum_grows_with_the_cost_along_a_path(instance, solver, norm):
    problem = problem_for(solver, instance, norm)
    Cs = [0.01, 0.1, 1.0]
    path = attention_svm_path(problem, Cs, tol=TOL, solver=solver)
    objectives = [solution.objective for solution in path]
    assert np.all(np.diff(objectives) >= -TOL * np.array(objectives[:-1]))
    for C, solution in zip(Cs, path, strict=True):
        cold = solved(instance, solver, norm, C)
        np.testing.assert_allclose(solution.objective, cold.objective, rtol=3 * TOL)
