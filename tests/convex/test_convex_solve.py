"""Solvers against each other, the non-convex block, and their own promises."""

import time

import numpy as np
import pytest
from convex_cases import KINDS, LOSSES, NonConvex, gates_of, problem_of, ragged_of
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from skattn.convex import (
    SOLVERS,
    ConvexProblem,
    convex_path,
    make_features,
    make_gates,
    solve,
)
from skattn.datasets import load_japanese_vowels, load_musk1

OWN = ["burer_monteiro", "fista"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_the_three_solvers_agree(block, activation, loss):
    problem, tokens, targets, gates = problem_of(block, activation, loss)
    features = make_features(gates, tokens)
    plain = ConvexProblem(features, targets, loss, problem.beta)
    solutions = [solve(problem, solver, tol=1e-6) for solver in SOLVERS]
    objectives = [plain.objective(s.coef, s.intercept) for s in solutions]
    np.testing.assert_allclose(objectives, objectives[0], rtol=2e-6)
    for solver, solution, value in zip(SOLVERS, solutions, objectives, strict=True):
        assert solution.solver == solver
        assert solution.status == "optimal"
        assert solution.duality_gap <= 1e-6
        np.testing.assert_allclose(solution.objective, value, rtol=1e-12)
        assert solution.lower_bound <= min(objectives) * (1 + 1e-12)


def check_against_training(block, activation, loss, n_starts, **options):
    problem, tokens, targets, gates = problem_of(
        block, activation, loss, options=options
    )
    solution = solve(problem, tol=1e-10)
    n_heads = int(solution.ranks.max()) + 1
    trained = NonConvex(gates, tokens, targets, loss, problem.beta, n_heads)
    best = trained.best_of(n_starts)
    assert solution.objective <= best * (1 + 1e-9)
    np.testing.assert_allclose(best, solution.objective, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_no_training_of_the_block_finds_less(block, activation, loss):
    check_against_training(block, activation, loss, n_starts=6)


@pytest.mark.parametrize("activation", ["linear", "gated"])
def test_no_training_of_self_attention_finds_less(activation):
    check_against_training("self_attention", activation, "logistic", n_starts=2)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("block", "activation", "options"),
    [
        ("self_attention", "gated", {"gate_rank": "full"}),
        ("fno", "gated", {"n_groups": 2}),
        ("fno", "linear", {"n_groups": 2}),
    ],
)
def test_no_training_of_other_forms_finds_less(block, activation, options, loss):
    check_against_training(block, activation, loss, n_starts=3, **options)


def test_groups_of_features_are_solved_alike_by_all():
    options = {"n_groups": 2}
    problem, *_ = problem_of("fno", "gated", "multinomial", options=options)
    assert problem.coef_shape[1] == 3
    solutions = [solve(problem, solver, tol=1e-6) for solver in SOLVERS]
    objectives = [solution.objective for solution in solutions]
    np.testing.assert_allclose(objectives, objectives[0], rtol=2e-6)
    assert {solution.status for solution in solutions} == {"optimal"}


@pytest.mark.parametrize("solver", OWN)
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_all_digits_can_be_had(block, activation, solver):
    problem, *_ = problem_of(block, activation, "multinomial")
    solution = solve(problem, solver, tol=1e-10)
    assert solution.status == "optimal"


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solution_that_is_good_enough_is_returned_at_once(solver):
    problem, *_ = problem_of("self_attention", "gated", "logistic")
    start = solve(problem, tol=1e-6)
    again = solve(problem, solver, tol=1e-5, start=start)
    assert again.n_iter == 0
    np.testing.assert_allclose(again.coef, start.coef, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", OWN)
def test_a_start_nearby_saves_iterations(solver):
    problem, *_ = problem_of("self_attention", "gated", "logistic", n_samples=20)
    start = solve(problem, solver, tol=1e-6)
    nearby = problem.with_beta(0.98 * problem.beta)
    cold, warm = solve(nearby, solver), solve(nearby, solver, start=start)
    assert warm.n_iter < cold.n_iter
    assert warm.status == cold.status == "optimal"


@pytest.mark.parametrize("solver", [*OWN, "auto"])
def test_a_callback_is_told_and_can_stop(solver):
    problem, *_ = problem_of("self_attention", "gated", "squared", share=1e-2)
    told = []
    full = solve(problem, solver, tol=1e-6, callback=told.append)
    assert [p.n_iter for p in told] == sorted(p.n_iter for p in told)
    assert told[-1].duality_gap <= 1e-6
    assert told[-1].lower_bound <= full.objective <= told[0].objective
    stopped = solve(problem, solver, tol=1e-6, callback=lambda p: p.n_iter >= 20)
    assert stopped.status == "max_iter"
    assert 20 <= stopped.n_iter < full.n_iter


@pytest.mark.parametrize(
    ("solver", "gap"), [("fista", 1e-12), ("burer_monteiro", 1e-9)]
)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_tolerance_below_rounding_ends(loss, solver, gap):
    problem, *_ = problem_of("self_attention", "gated", loss)
    solution = solve(problem, solver, tol=1e-300, max_iter=1000)
    assert solution.duality_gap < gap
    assert solution.status == ("optimal" if solution.duality_gap == 0 else "max_iter")


@pytest.mark.parametrize("solver", [*OWN, "auto"])
def test_a_limit_on_iterations_is_kept_and_said(solver):
    problem, *_ = problem_of("self_attention", "gated", "squared", share=1e-2)
    solution = solve(problem, solver, tol=1e-8, max_iter=7)
    assert (solution.status, solution.n_iter) == ("max_iter", 7)
    assert solution.duality_gap > 1e-8
    assert solution.objective >= solution.lower_bound


def test_auto_goes_on_where_features_have_different_scales(monkeypatch):
    monkeypatch.setattr("skattn.convex.solvers.PATIENCE", 200)
    tokens = np.random.default_rng(0).standard_normal((12, 4, 3)) * [1e3, 1, 1e-3]
    gates = gates_of("self_attention", "gated", tokens)
    problem = ConvexProblem(
        make_features(gates, tokens), np.arange(12) % 2, "logistic", 1.0
    )
    problem = problem.with_beta(1e-3 * problem.beta_max)
    told = []
    solution = solve(problem, tol=1e-6, callback=told.append)
    assert (solution.solver, solution.status) == ("burer_monteiro", "optimal")
    assert solution.n_iter > 200
    assert told[-1].n_iter == solution.n_iter


def test_wide_tokens_are_solved_in_factors():
    tokens = ragged_of(0, lengths=[3, 4, 5] * 3, n_features=33)
    gates = gates_of("self_attention", "gated", tokens, 2)
    targets = np.arange(9) % 2
    problem = ConvexProblem(make_features(gates, tokens), targets, "logistic", 1.0)
    problem = problem.with_beta(0.1 * problem.beta_max)
    solution = solve(problem)
    assert (solution.solver, solution.status) == ("burer_monteiro", "optimal")
    referee = solve(problem, "fista")
    np.testing.assert_allclose(solution.objective, referee.objective, rtol=1e-4)


@pytest.mark.parametrize("solver", OWN)
@pytest.mark.parametrize(
    "tokens",
    [
        np.zeros((6, 3, 2)),
        np.ones((6, 3, 2)),
        np.arange(36).reshape(6, 3, 2),
        1e5 * np.random.default_rng(0).standard_normal((6, 1, 2)),
        np.random.default_rng(0).standard_normal((6, 3, 1)).astype(np.float32),
    ],
    ids=["zeros", "ones", "integers", "large", "float32"],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_odd_tokens_are_solved(tokens, loss, solver):
    targets = np.array([0, 1, 1, 0, 1, 0])
    gates = gates_of("self_attention", "gated", tokens)
    problem = ConvexProblem(make_features(gates, tokens), targets, loss, 1.0)
    beta = max(0.1 * problem.beta_max, 1e-6)
    solution = solve(problem.with_beta(beta), solver)
    assert solution.status == "optimal"
    assert np.isfinite(solution.coef).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_one_sample_is_fitted_by_the_intercept(loss):
    tokens = np.ones((1, 2, 2))
    gates = gates_of("mlp", "gated", tokens)
    targets = np.array([1])
    problem = ConvexProblem(make_features(gates, tokens), targets, loss, 0.1)
    solution = solve(problem)
    assert solution.rank == 0
    assert solution.objective < 1e-10


def test_a_constant_target_has_no_gap():
    tokens = np.random.default_rng(0).standard_normal((6, 3, 2))
    gates = gates_of("mlp", "gated", tokens)
    features = make_features(gates, tokens)
    solution = solve(ConvexProblem(features, np.full(6, 0.1), "squared", 0.1))
    assert (solution.rank, solution.duality_gap) == (0, 0.0)
    np.testing.assert_allclose(solution.intercept, 0.1)


def test_a_path_goes_down_and_equals_its_solutions():
    problem, *_ = problem_of("self_attention", "gated", "multinomial")
    solutions = convex_path(problem, n_betas=4, ratio=3e-2, tol=1e-7)
    betas = [solution.beta for solution in solutions]
    np.testing.assert_allclose(betas, problem.beta_max * np.geomspace(1, 3e-2, 4))
    assert solutions[0].rank == 0 < solutions[-1].rank
    losses = [solution.loss for solution in solutions]
    assert losses == sorted(losses, reverse=True)
    for solution in solutions:
        alone = solve(problem.with_beta(solution.beta), tol=1e-7)
        np.testing.assert_allclose(solution.objective, alone.objective, rtol=2e-7)


def test_a_path_of_given_betas_that_is_stopped():
    problem, *_ = problem_of("mlp", "gated", "squared")
    solutions = convex_path(problem, [0.01, 0.2, 0.05])
    assert [solution.beta for solution in solutions] == [0.2, 0.05, 0.01]
    stopped = convex_path(problem, [0.01, 0.2, 0.05], callback=lambda progress: True)
    assert [solution.beta for solution in stopped] == [0.2]
    with pytest.raises(ValueError, match="betas must hold at least one"):
        convex_path(problem, [])
    with pytest.raises(ValueError, match="beta must be a number above 0"):
        convex_path(problem, [0.1, 0.0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"solver": "adam"}, ValueError, "solver must be 'auto' or one of"),
        ({"tol": 0.0}, ValueError, "tol must be above 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be a positive integer"),
        ({"max_iter": 2.0}, ValueError, "max_iter must be a positive integer"),
        ({"start": np.zeros(3)}, TypeError, "start must be a ConvexSolution"),
    ],
)
def test_bad_requests_are_refused(options, error, message):
    problem, *_ = problem_of("mlp", "gated", "squared")
    with pytest.raises(error, match=message):
        solve(problem, **options)


def test_cvxpy_refuses_what_it_cannot_solve():
    tokens = np.random.default_rng(0).standard_normal((4, 2, 24))
    gates = gates_of("self_attention", "gated", tokens, 8)
    problem = ConvexProblem(make_features(gates, tokens), np.arange(4), "squared", 1.0)
    with pytest.raises(ValueError, match="'cvxpy' is for small problems"):
        solve(problem, "cvxpy")


def test_a_start_of_another_shape_is_refused():
    problem, *_ = problem_of("mlp", "gated", "squared")
    other, *_ = problem_of("mlp", "linear", "squared")
    with pytest.raises(ValueError, match="start has a coef of shape"):
        solve(problem, start=solve(other))
    with pytest.raises(TypeError, match="problem must be a ConvexProblem"):
        solve(other.features)


def standardised(samples, n_components=None):
    values = StandardScaler().fit_transform(np.concatenate(samples))
    if n_components is not None:
        values = PCA(n_components, random_state=0).fit_transform(values)
        values /= values.std()
    return np.split(values, np.cumsum([len(sample) for sample in samples])[:-1])


def musk():
    samples, targets = load_musk1(return_X_y=True)
    return standardised(samples, 16), targets, "logistic"


def vowels():
    samples, labels = load_japanese_vowels(split="train", return_X_y=True)
    return (
        standardised(samples),
        np.unique(labels, return_inverse=True)[1],
        "multinomial",
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.01])
@pytest.mark.parametrize("data", [musk, vowels])
def test_real_data_are_solved_within_a_minute(data, share):
    tokens, targets, loss = data()
    gates = make_gates("self_attention", "gated_relu", tokens, 8, rng=0)
    assert gates.n_gates == 8
    start = time.process_time()
    problem = ConvexProblem(make_features(gates, tokens), targets, loss, 1.0)
    problem = problem.with_beta(share * problem.beta_max)
    solution = solve(problem, tol=1e-4)
    assert solution.duality_gap <= 1e-4
    assert time.process_time() - start < 60


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_steps_are_finite_where_the_first_direction_is_the_intercept():
    # Every sample has a mirror image: their even sum is 0.
    tokens = np.array([1.0, -1.0, 2.0, -2.0]).reshape(4, 1, 1)
    gates = gates_of("mlp", "linear", tokens)
    targets = np.array([0, 1, 0, 1])
    problem = ConvexProblem(make_features(gates, tokens), targets, "logistic", 0.01)
    solution = solve(problem, "fista", tol=1e-6)
    assert solution.status == "optimal"
    other = solve(problem, "cvxpy", tol=1e-6)
    np.testing.assert_allclose(solution.objective, other.objective, rtol=2e-6)
