"""Batches, paths over C, and the choice of a solver."""

import subprocess
import sys

import numpy as np
import pytest

from skattn.margin import (
    SOLVERS,
    MarginProblem,
    attention_svm_path,
    solve,
    solve_many,
    solvers,
    supports,
)
from skattn.theory import attention_svm


def random_problem(seed, *, C=np.inf, norm="fro", is_bilinear=True, n=6, T=5, d=10):
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((n, d)) if is_bilinear else None
    tokens = rng.standard_normal((n, T, d))
    return MarginProblem(tokens, rng.integers(0, T, n), queries, C, norm)


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_many_problems_are_solved_as_each_by_itself(tol):
    problems = [random_problem(seed) for seed in range(10)]
    problems += [random_problem(seed, C=0.5, n=9, T=3) for seed in range(5)]
    problems += [random_problem(0, is_bilinear=False, n=40)]
    problems += [MarginProblem(np.ones((2, 3, 4)), [0, 1])]
    together = solve_many(problems, tol)
    for problem, solution in zip(problems, together, strict=True):
        alone = solve(problem, tol, solver="dual_cd")
        assert solution.status == alone.status
        np.testing.assert_array_equal(solution.coef, alone.coef)
        np.testing.assert_array_equal(solution.dual_coef, alone.dual_coef)
        assert solution.n_iter == alone.n_iter
    assert [solution.status for solution in together[-2:]] == ["infeasible", "optimal"]


def test_many_problems_of_other_norms_and_named_solvers():
    problems = [random_problem(0, norm="nuc"), random_problem(1, norm=3.0)]
    for solver in ("auto", "cvxpy"):
        for problem, solution in zip(
            problems, solve_many(problems, 1e-6, solver=solver), strict=True
        ):
            assert solution.status == "optimal"
            reference = solve(problem, 1e-8, solver="cvxpy").objective
            np.testing.assert_allclose(solution.objective, reference, rtol=2e-6)
    assert solve_many([]) == []
    with pytest.raises(TypeError, match="problem must be a MarginProblem"):
        solve_many([np.zeros(3)])
    with pytest.raises(ValueError, match="solver must be"):
        solve_many(problems, solver="best")


@pytest.mark.parametrize("has_query", [True, False])
@pytest.mark.parametrize("C", [np.inf, "per sample", "per problem"])
def test_a_leading_axis_is_a_batch(has_query, C):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((7, 6, 4, 30))
    X[2, 1, 0] = np.nan
    selected = rng.integers(1, 4, (7, 6))
    query = rng.standard_normal((7, 6, 3)) if has_query else None
    costs = np.full((7, 6), np.inf)
    if C == "per sample":
        C = rng.random(6)
        costs = np.tile(C, (7, 1))
    elif C == "per problem":
        C = costs = rng.random((7, 6))
    batch = attention_svm(X, selected, query, C=C, tol=1e-9)
    assert len(batch) == 7
    for index, solution in enumerate(batch):
        alone = attention_svm(
            X[index],
            selected[index],
            None if query is None else query[index],
            C=costs[index],
            tol=1e-9,
            solver="cvxpy",
        )
        np.testing.assert_allclose(solution.coef, alone.coef, rtol=0, atol=1e-4)
        np.testing.assert_allclose(solution.objective, alone.objective, rtol=2e-9)


def test_batches_of_wrong_shape_are_refused():
    X = np.zeros((2, 3, 4, 5))
    with pytest.raises(ValueError, match=r"selected must have shape \(2, 3\)"):
        attention_svm(X, [0, 0, 0])
    selected = np.zeros((2, 3), dtype=int)
    with pytest.raises(ValueError, match=r"query must have shape \(2, 3, n_query"):
        attention_svm(X, selected, np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"C must be a number or have shape \(3,\)"):
        attention_svm(X, selected, C=np.ones(2))
    with pytest.raises(ValueError, match="at least one problem"):
        attention_svm(X[:0], selected[:0])


@pytest.mark.parametrize("norm", ["fro", "nuc", 3.0])
def test_a_path_is_the_solutions_one_by_one(norm):
    problem = random_problem(3, n=12, norm=norm)
    Cs = [1.0, 0.01, np.inf, 0.1]
    path = attention_svm_path(problem, Cs, tol=1e-7)
    for C, solution in zip(Cs, path, strict=True):
        alone = solve(problem.with_C(C), tol=1e-8, solver="cvxpy")
        assert solution.status == alone.status == "optimal"
        np.testing.assert_allclose(solution.objective, alone.objective, rtol=2e-7)


def test_a_path_may_weight_the_samples():
    problem = random_problem(4, n=12)
    weights = np.random.default_rng(4).integers(0, 3, 12).astype(float)
    Cs = np.outer([0.1, 1.0], weights)
    path = attention_svm_path(problem, Cs, tol=1e-9)
    for C, solution in zip(Cs, path, strict=True):
        alone = solve(problem.with_C(C), tol=1e-9)
        np.testing.assert_allclose(solution.coef, alone.coef, atol=1e-4)
    zero = np.repeat(weights == 0, 5)
    np.testing.assert_array_equal(path[0].dual_coef[zero], 0)


def test_a_path_ends_where_the_hard_margin_is_infeasible():
    problem = random_problem(5, n=40, is_bilinear=False)
    soft, hard = attention_svm_path(problem, [1.0, np.inf])
    assert (soft.status, hard.status) == ("optimal", "infeasible")


def test_a_path_goes_on_in_the_direction_it_came():
    # While all constraints have slack, solutions are linear in C.
    problem = random_problem(6, n=30, T=8)
    Cs = [1e-5, 2e-5, 3e-5]
    path = attention_svm_path(problem, Cs, tol=1e-4)
    for C, last, solution in zip(Cs[2:], path[1:], path[2:], strict=False):
        assert solution.status == "optimal"
        assert solution.n_iter == 0
        again = solve(problem.with_C(C), 1e-4, warm_start=last, solver="dual_cd")
        assert again.n_iter > 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", ["fro", "nuc", 3.0])
def test_a_path_may_jump_and_stand_still(norm):
    problem = random_problem(7, n=12, norm=norm)
    Cs = [0.1, 0.1, 0.1001, 5.0, np.inf, np.inf, np.inf]
    path = attention_svm_path(problem, Cs, tol=1e-6)
    for C, solution in zip(Cs, path, strict=True):
        alone = solve(problem.with_C(C), tol=1e-8, solver="cvxpy")
        assert solution.status == "optimal"
        np.testing.assert_allclose(solution.objective, alone.objective, rtol=2e-6)


def test_a_path_stays_infeasible_after_infeasible_samples():
    problem = random_problem(5, n=40, is_bilinear=False)
    Cs = np.ones((4, 40))
    for n_hard, row in zip([0, 38, 39, 40], Cs, strict=True):
        row[:n_hard] = np.inf
    statuses = [solution.status for solution in attention_svm_path(problem, Cs)]
    assert statuses == ["optimal", "infeasible", "infeasible", "infeasible"]


def test_paths_of_wrong_shape_are_refused():
    problem = random_problem(6)
    for Cs in ([], 1.0, np.ones((2, 5)), np.ones((1, 1, 6))):
        with pytest.raises(ValueError, match="Cs must have shape"):
            attention_svm_path(problem, Cs)
    with pytest.raises(ValueError, match="C must be above 0"):
        attention_svm_path(problem, [1.0, -1.0])


def test_a_path_takes_at_most_half_the_epochs_of_cold_solves():
    rng = np.random.default_rng(7)
    problem = MarginProblem(
        rng.standard_normal((300, 10, 8)),
        rng.integers(0, 10, 300),
        rng.standard_normal((300, 8)),
    )
    Cs = np.geomspace(1e-3, 1, 20)
    warm = attention_svm_path(problem, Cs, tol=1e-4)
    cold = [solve(problem.with_C(C), 1e-4, solver="dual_cd") for C in Cs]
    assert {solution.solver for solution in warm} == {"dual_cd"}
    assert sum(s.n_iter for s in warm) <= 0.5 * sum(s.n_iter for s in cold)


def test_auto_takes_cvxpy_for_small_problems_and_ours_beyond():
    assert solve(random_problem(8)).solver == "cvxpy"
    large = random_problem(8, n=40, T=6, d=25)
    assert solve(large).solver == "dual_cd"


def test_auto_goes_on_where_a_certificate_is_not_reached(monkeypatch):
    monkeypatch.setattr(solvers, "AUTO_WORK", 0)
    monkeypatch.setattr(solvers, "FEWEST_AUTO_EPOCHS", 1)
    problem = random_problem(9, C=1.0, n=300, T=6, d=8)
    short = solve(problem, 1e-8, max_iter=1, solver="dual_cd")
    assert short.status == "max_iter"
    solution = solve(problem, 1e-8)
    assert solution.status == "optimal"
    assert solution.solver != "dual_cd"

    stages = []

    def stop(progress):
        stages.append(progress.stage)
        return True

    stopped = solve(problem, 1e-8, callback=stop)
    assert stopped.status == "max_iter"
    assert len(stages) == 1


def test_supported_problems_are_what_solvers_accept():
    for norm in ("fro", "nuc", 1.5):
        problem = random_problem(10, norm=norm, n=3, T=3, d=4)
        for name in SOLVERS:
            if supports(name, problem):
                assert solve(problem, 1e-4, solver=name).status == "optimal"
            else:
                with pytest.raises(ValueError, match="norm"):
                    solve(problem, solver=name)


def test_numba_and_cvxpy_are_loaded_by_solvers_only():
    code = (
        "import sys, numpy as np, skattn.theory\n"
        "from skattn.margin import MarginProblem, solve\n"
        "MarginProblem(np.ones((2, 3, 4)), [0, 1], C=1.0).merged\n"
        "assert not {'numba', 'cvxpy', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
