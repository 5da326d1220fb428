"""The closed forms of softmax regression against autograd and other optimisers."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from skattn.softmax_regression import SOLVERS, SoftmaxProblem, solve


def random_problem(seed=0, d=4, lengths=(5, 1, 7, 3), simplex=True, **options):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = rng.normal(size=(offsets[-1], d))
    targets = rng.normal(size=offsets[-1])
    if simplex:
        problem = SoftmaxProblem(values, targets, offsets)
        targets = problem.predict(2 * rng.normal(size=d))
    options = {
        "alpha": rng.uniform(0, 0.1, offsets[-1]),
        "multiplicity": rng.uniform(0.5, 3, offsets[-1]),
        "weights": rng.uniform(0.5, 2, len(lengths)),
    } | options
    return SoftmaxProblem(values, targets, offsets, **options)


def torch_loss(problem, x):
    """The loss, written from the definition and one sequence at a time."""
    values, targets, alpha, counts = (
        torch.from_numpy(np.array(array))
        for array in (
            problem.values,
            problem.targets,
            problem.alpha,
            problem.multiplicity,
        )
    )
    total = 0.0
    stops = problem.starts + problem.lengths
    for start, stop, weight in zip(problem.starts, stops, problem.weights, strict=True):
        rows = slice(start, stop)
        scores = values[rows] @ x
        shares = torch.softmax(scores + torch.log(counts[rows]), 0) / counts[rows]
        squares = (shares - targets[rows]) ** 2 + alpha[rows] * scores**2
        total = total + weight * 0.5 * torch.sum(counts[rows] * squares)
    return total


@pytest.mark.parametrize("simplex", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_and_hessian_equal_autograd(seed, simplex):
    problem = random_problem(seed, simplex=simplex)
    x = torch.from_numpy(np.random.default_rng(seed + 10).normal(size=4))
    x.requires_grad_()

    def loss(x):
        return torch_loss(problem, x)

    coef = x.detach().numpy()
    gradient = torch.autograd.grad(loss(x), x)[0].numpy()
    hessian = torch.autograd.functional.hessian(loss, x).numpy()
    assert problem.loss(coef) == pytest.approx(loss(x).item(), rel=1e-13)
    assert_allclose(problem.gradient(coef), gradient, rtol=1e-10, atol=1e-13)
    assert_allclose(problem.hessian(coef), hessian, rtol=1e-10, atol=1e-12)
    both = problem.loss_and_gradient(coef)
    assert both[0] == problem.loss(coef)
    assert_array_equal(both[1], problem.gradient(coef))


def test_the_hessian_by_scores_is_that_of_the_paper():
    # MATH.md, section 5, with its n x n matrices written out.
    rng = np.random.default_rng(0)
    A, b, x, w = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=3), 0.3
    f = np.exp(A @ x) / np.exp(A @ x).sum()
    c, J = f - b, np.diag(f) - np.outer(f, f)
    B = np.diag(c - f @ c) @ J + np.diag(f) @ J - np.outer(f, J @ (c + f))
    problem = SoftmaxProblem(A, b, alpha=w**2)
    assert_allclose(problem.hessian(x), A.T @ (B + w**2 * np.eye(6)) @ A, atol=1e-13)
    assert_allclose(problem.gradient(x), A.T @ (J @ c + w**2 * A @ x), atol=1e-14)
    assert problem.loss(x) == pytest.approx(0.5 * (c @ c + w**2 * (A @ x) @ (A @ x)))


def test_alpha_of_a_quarter_makes_it_convex_and_less_does_not():
    rng = np.random.default_rng(0)
    least = 0.0
    for _ in range(2000):
        n = rng.integers(2, 5)
        f_scores, b = 3 * rng.normal(size=n), rng.dirichlet(np.full(n, 0.1))
        hessian = SoftmaxProblem(np.eye(n), b).hessian(f_scores)
        least = min(least, np.linalg.eigvalsh(hessian)[0])
    # MATH.md: the least eigenvalue of B is -.240409.
    assert -0.240409 <= least < -0.22


def test_weights_and_multiplicities_are_repeats():
    lengths = np.array([3, 4])
    problem = random_problem(1, lengths=lengths, multiplicity=None, weights=None)
    twice = SoftmaxProblem(
        np.concatenate([problem.values[:3], problem.values]),
        np.concatenate([problem.targets[:3], problem.targets]),
        np.array([0, 3, 6, 10]),
        np.concatenate([problem.alpha[:3], problem.alpha]),
    )
    weighted = SoftmaxProblem(
        problem.values,
        problem.targets,
        np.array([0, 3, 7]),
        problem.alpha,
        weights=np.array([2.0, 1.0]),
    )
    counts, rows = np.array([1, 2, 1, 1, 3, 1, 1.0]), [0, 1, 1, 2, 3, 4, 4, 4, 5, 6]
    A, b = problem.values, problem.targets
    one = SoftmaxProblem(A, b, alpha=1e-3, multiplicity=counts)
    repeated = SoftmaxProblem(A[rows], b[rows], alpha=1e-3)
    x = np.random.default_rng(0).normal(size=4)
    for left, right in ((weighted, twice), (one, repeated)):
        assert left.loss(x) == pytest.approx(right.loss(x), rel=1e-13)
        assert_allclose(left.gradient(x), right.gradient(x), atol=1e-14)
        assert_allclose(left.hessian(x), right.hessian(x), atol=1e-14)
        assert left.gradient_scale() == pytest.approx(right.gradient_scale())
        assert_allclose(solve(left).coef, solve(right).coef, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_solvers_reach_what_a_generic_optimiser_reaches(solver, seed):
    problem = random_problem(seed, d=3, alpha=1e-3)
    solution = solve(problem, solver, tol=1e-8)
    generic = minimize(problem.loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert solution.is_converged
    assert solution.gradient_norm <= 1e-8
    assert solution.loss == pytest.approx(generic.fun, rel=1e-10)
    assert_allclose(solution.coef, generic.x, atol=1e-4)
    assert np.linalg.eigvalsh(problem.hessian(solution.coef))[0] > 0
    assert solution.loss == pytest.approx(problem.loss(solution.coef), rel=1e-12)


def test_newton_ends_at_rounding_in_few_iterations():
    problem = random_problem(0, d=5, lengths=(10,) * 40, alpha=1e-4)
    solution = solve(problem)
    assert solution.gradient_norm < 1e-13
    assert solution.n_iter < 25


def test_newton_passes_saddles():
    # Targets that no softmax has make indefinite Hessians with gradients near zero.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = SoftmaxProblem(
            rng.normal(size=(100, 20)),
            50 * rng.dirichlet(np.full(100, 0.05)),
            np.arange(0, 101, 5),
            alpha=1e-4,
        )
        solution = solve(problem)
        assert solution.is_converged
        assert np.linalg.eigvalsh(problem.hessian(solution.coef))[0] > 0


def test_scale_of_features_does_not_matter():
    problem = random_problem(0)
    expected = solve(problem)
    scale = np.array([1e-6, 1.0, 1e5, 1e8])
    scaled = solve(problem.with_values(problem.values * scale))
    assert_allclose(scaled.coef * scale, expected.coef, rtol=1e-6)
    assert scaled.loss == pytest.approx(expected.loss, rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_dependent_features_give_the_smallest_weights(solver):
    problem = random_problem(0, d=3)
    doubled = problem.with_values(np.hstack([problem.values, problem.values]))
    expected = solve(problem, solver, tol=1e-9)
    solution = solve(doubled, solver, tol=1e-9)
    assert_allclose(solution.coef, np.tile(expected.coef / 2, 2), rtol=1e-5)
    more_features_than_tokens = random_problem(0, d=40)
    assert solve(more_features_than_tokens, solver).is_converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_degenerate_problems(solver):
    zero = solve(SoftmaxProblem(np.zeros((5, 2)), np.arange(5.0)), solver)
    assert_array_equal(zero.coef, [0, 0])
    assert zero.is_converged
    constant = SoftmaxProblem(np.random.default_rng(0).normal(size=(5, 2)), np.ones(5))
    assert_array_equal(solve(constant, solver).coef, [0, 0])
    # From elsewhere, where it is not stationary, it goes somewhere that is.
    constant.alpha = np.full(5, 0.3)
    moved = solve(constant, solver, start=np.ones(2), tol=1e-8)
    assert_allclose(moved.coef, [0, 0], atol=1e-6)
    one_token = SoftmaxProblem(np.array([[2.0]]), np.array([0.3]), alpha=0.1)
    assert_array_equal(solve(one_token, solver).coef, [0])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_sees_each_iteration_and_can_stop(solver):
    problem = random_problem(0)
    seen = []
    solution = solve(problem, solver, on_iteration=seen.append)
    assert len(seen) == solution.n_iter
    assert_allclose(seen[-1], solution.coef)
    stopped = solve(problem, solver, on_iteration=lambda coef: True)
    assert stopped.is_stopped
    assert stopped.n_iter == 1
    assert not solution.is_stopped


@pytest.mark.parametrize("solver", SOLVERS)
def test_iterations_are_limited_and_a_start_is_used(solver):
    problem = random_problem(0)
    short = solve(problem, solver, max_iter=2, tol=1e-12)
    assert short.n_iter == 2
    assert not short.is_converged
    assert short.gradient_norm > 1e-12
    solution = solve(problem, solver)
    again = solve(problem, solver, start=solution.coef)
    assert again.n_iter <= 1


def test_scores_of_any_size_are_safe():
    problem = random_problem(0, alpha=0.0)
    x = np.full(4, 1e5)
    for value in (problem.loss(x), problem.gradient(x), problem.hessian(x)):
        assert np.isfinite(value).all()
    assert_allclose(
        np.add.reduceat(problem.multiplicity * problem.predict(x), problem.starts), 1
    )


def test_unknown_solver():
    with pytest.raises(ValueError, match="solver must be one of 'newton', 'lbfgs'"):
        solve(random_problem(), "sgd")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": np.ones(3)}, "values must have shape"),
        ({"values": np.ones((0, 2))}, "values must have shape"),
        ({"targets": np.ones(2)}, r"targets must have shape \(3,\)"),
        ({"targets": [1, np.nan, 0]}, "targets contains NaN"),
        ({"offsets": [0, 2]}, "offsets must start at 0 and end at"),
        ({"offsets": [0, 0, 3]}, "sample 0 has no token"),
        ({"alpha": -1.0}, "alpha must be at least 0, got -1"),
        ({"alpha": [1.0, 2.0]}, r"alpha must have shape \(3,\)"),
        ({"multiplicity": [1, 1, -1]}, "multiplicity must be above 0"),
        ({"weights": [1, 1]}, r"weights must have shape \(1,\)"),
        ({"weights": [-1]}, "weights must be above 0"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxProblem(
            **({"values": np.ones((3, 2)), "targets": np.ones(3)} | arguments)
        )
