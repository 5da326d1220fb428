"""Bounds hold for any candidate, and are equal only at the optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from skattn.margin import (
    Certificate,
    MarginProblem,
    dual_bound,
    duality_gap,
    primal_bound,
    solve,
)

NORMS = ["fro", "nuc", 1.5, 3.0, 8.0]


def planted(rng, n_samples=6, n_tokens=5, n_features=4, n_query_features=3):
    tokens = rng.standard_normal((n_samples, n_tokens, n_features))
    queries = rng.standard_normal((n_samples, n_query_features))
    coef = rng.standard_normal((n_features, n_query_features))
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    return tokens, queries, scores.argmax(axis=1), coef


def independent_norm(array, norm):
    if norm == "nuc":
        return np.linalg.svd(array, compute_uv=False).sum()
    return np.sum(np.abs(array) ** (2 if norm == "fro" else norm)) ** (
        1 / (2 if norm == "fro" else norm)
    )


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("C", [np.inf, 1.0, "mixed"])
def test_bounds_of_random_candidates_enclose_the_optimum(norm, C):
    rng = np.random.default_rng(0)
    tokens, queries, selected, coef = planted(rng)
    if C == "mixed":
        C = np.array([np.inf, 1.0, 0.1, np.inf, 10.0, 1.0])
    problem = MarginProblem(tokens, selected, queries, C, norm)
    optimum = solve(problem, tol=1e-8).objective
    uppers, lowers = [], []
    for scale in 10.0 ** rng.uniform(-2, 2, 30):
        candidate = coef * scale + 0.1 * scale * rng.standard_normal(coef.shape)
        uppers.append(primal_bound(problem, candidate)[0])
        dual = scale * rng.standard_normal(problem.n_tokens)
        lowers.append(dual_bound(problem, dual)[0])
    assert np.isfinite(uppers).any()
    assert min(uppers) >= optimum * (1 - 1e-8)
    assert max(lowers) <= optimum * (1 + 1e-8)
    assert max(lowers) > 0


@pytest.mark.parametrize("norm", NORMS)
def test_hard_primal_bound_is_norm_over_minimum_margin(norm):
    rng = np.random.default_rng(1)
    tokens, queries, selected, coef = planted(rng)
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    bound, scaled = primal_bound(problem, coef)
    smallest = problem.margins(coef).min()
    np.testing.assert_allclose(bound, independent_norm(coef, norm) / smallest)
    np.testing.assert_allclose(problem.margins(scaled).min(), 1, rtol=1e-15)
    assert primal_bound(problem, -coef)[0] == np.inf


@pytest.mark.parametrize("norm", NORMS)
def test_hard_dual_bound_uses_the_dual_norm(norm):
    rng = np.random.default_rng(2)
    tokens, queries, selected, _ = planted(rng)
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    dual = np.zeros(problem.n_tokens)
    dual[problem.rows] = rng.random(problem.rows.size)
    gradient = problem.adjoint(dual[problem.rows])
    if norm == "nuc":
        dual_norm = np.linalg.svd(gradient, compute_uv=False)[0]
    else:
        p = 2 if norm == "fro" else norm
        dual_norm = independent_norm(gradient, p / (p - 1))
    bound, scaled = dual_bound(problem, dual)
    np.testing.assert_allclose(bound, dual.sum() / dual_norm)
    np.testing.assert_allclose(scaled, dual * dual.sum() / dual_norm**2)


@pytest.mark.parametrize("norm", NORMS)
def test_soft_bounds_are_primal_and_dual_values(norm):
    rng = np.random.default_rng(3)
    tokens, queries, selected, coef = planted(rng)
    C = rng.random(6) + 0.1
    problem = MarginProblem(tokens, selected, queries, C, norm)
    costs = C[problem.samples]
    coef = -coef
    slack = np.maximum(1 - problem.margins(coef), 0)
    value = 0.5 * independent_norm(coef, norm) ** 2 + costs @ slack
    np.testing.assert_allclose(primal_bound(problem, coef)[0], value)

    dual = np.zeros(problem.n_tokens)
    dual[problem.rows] = 3 * rng.standard_normal(problem.rows.size)
    bound, scaled = dual_bound(problem, dual)
    assert np.all(scaled >= 0)
    assert np.all(scaled[problem.rows] <= costs * (1 + 1e-15))
    clipped = np.clip(dual[problem.rows], 0, costs)
    gradient = problem.adjoint(clipped)
    p = 2 if norm == "fro" else norm
    dual_norm = (
        np.linalg.norm(gradient, 2)
        if norm == "nuc"
        else independent_norm(gradient, p / (p - 1))
    )
    largest = np.min(costs[clipped > 0] / clipped[clipped > 0])
    best = minimize_scalar(
        lambda factor: 0.5 * (factor * dual_norm) ** 2 - factor * clipped.sum(),
        bounds=(0, largest),
        method="bounded",
        options={"xatol": 1e-12},
    )
    np.testing.assert_allclose(bound, -best.fun, rtol=1e-6)


def test_certificate_keeps_the_best_of_each_side():
    problem = MarginProblem([[[1.0, 0.0], [0.0, 0.0]]], [0])
    certificate = Certificate(problem)
    assert certificate.gap == np.inf
    certificate.offer(coef=np.array([1.0, 1.0]))
    certificate.offer(coef=np.array([1.0, 0.5]))
    certificate.offer(coef=np.array([1.0, 2.0]))
    certificate.offer(coef=np.array([np.nan, 0.0]), dual=np.array([np.inf]))
    np.testing.assert_allclose(certificate.upper_bound, np.sqrt(1.25))
    np.testing.assert_allclose(certificate.coef, [1.0, 0.5])
    assert certificate.dual is None
    certificate.offer(dual=np.array([5.0]))
    np.testing.assert_allclose(certificate.lower_bound, 1.0)
    np.testing.assert_allclose(certificate.gap, 1 - 1 / np.sqrt(1.25))


def test_duals_that_cancel_prove_infeasibility():
    problem = MarginProblem([[[0.0], [1.0], [-1.0]]], [0])
    assert dual_bound(problem, np.array([0.0, 1.0, 1.0]))[0] == np.inf


def test_gap_of_bounds():
    assert duality_gap(4.0, 3.0) == 0.25
    assert duality_gap(np.inf, 3.0) == np.inf
    assert duality_gap(1.0, 1.0 + 1e-16) == 0.0


def test_wrong_shapes_are_refused():
    problem = MarginProblem([[[0.0, 1.0], [1.0, 1.0]]], [0])
    with pytest.raises(ValueError, match=r"coef must have shape \(2,\)"):
        primal_bound(problem, np.ones(3))
    with pytest.raises(ValueError, match=r"dual_coef must have shape \(2,\)"):
        dual_bound(problem, np.ones(1))


@pytest.mark.parametrize(
    ("norm", "scale"),
    [("fro", 1e-140), ("fro", 1e140), ("nuc", 1e-200), (1.5, 1e-200)],
)
def test_hard_bounds_do_not_depend_on_the_scale_of_the_dual(norm, scale):
    rng = np.random.default_rng(0)
    tokens, queries, selected, _ = planted(rng)
    problem = MarginProblem(tokens, selected, queries, norm=norm)
    dual = rng.random(problem.merged.size)
    certificate, scaled = Certificate(problem), Certificate(problem)
    certificate.offer(dual=dual)
    scaled.offer(dual=scale * dual)
    np.testing.assert_allclose(scaled.lower_bound, certificate.lower_bound)
    np.testing.assert_allclose(scaled.dual, certificate.dual)
