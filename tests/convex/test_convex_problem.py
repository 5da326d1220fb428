"""The problem, its certificate, and what it is the same as."""

import cvxpy as cp
import numpy as np
import pytest
from convex_cases import KINDS, LOSSES, gates_of, problem_of, targets_of, tokens_of

from skattn.convex import (
    ConvexProblem,
    beta_max,
    beta_path,
    certify,
    make_features,
    relative_gap,
    solve,
)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_nothing_is_left_from_beta_max_on(block, activation, loss):
    problem, *_ = problem_of(block, activation, loss)
    assert beta_max(problem) == problem.beta_max
    above = solve(problem.with_beta(1.0001 * problem.beta_max))
    assert (above.rank, above.n_iter) == (0, 0)
    np.testing.assert_array_equal(above.intercept, problem.intercept_only)
    below = solve(problem.with_beta(0.99 * problem.beta_max), tol=1e-8)
    assert below.rank > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_bounds_hold_at_any_candidate(block, activation, loss):
    problem, *_ = problem_of(block, activation, loss)
    optimum = solve(problem, tol=1e-9).objective
    rng = np.random.default_rng(0)
    informative = 0
    for scale in (0.0, 1e-2, 0.1, 1.0, 10.0):
        coef = scale * rng.standard_normal(problem.coef_shape)
        certificate, intercept = certify(problem, coef)
        assert certificate.lower_bound <= optimum * (1 + 1e-12)
        assert certificate.objective >= optimum * (1 - 1e-9)
        np.testing.assert_allclose(
            certificate.objective, problem.objective(coef, intercept), rtol=1e-12
        )
        informative += certificate.lower_bound > 0
    assert informative >= 2


def test_the_bound_is_that_of_its_formula():
    problem, tokens, targets, gates = problem_of("mixer", "gated", "logistic")
    coef = 0.3 * np.random.default_rng(0).standard_normal(problem.coef_shape)
    certificate, intercept = certify(problem, coef)
    features = make_features(gates, tokens)
    outputs = (features.predict(coef) + intercept)[:, 0]
    signs = 2 * targets - 1
    slope = -signs / (1 + np.exp(signs * outputs)) / len(targets)
    np.testing.assert_allclose(slope.sum(), 0, atol=1e-14)
    gradient = features.gradient(slope[:, None])
    loss = np.log1p(np.exp(-signs * outputs)).mean()
    norms = np.linalg.norm(gradient, 2, axis=(1, 2))
    scale = max(1.0, norms.max() / problem.beta)
    np.testing.assert_allclose(certificate.gradient_norms, norms, rtol=1e-10)
    np.testing.assert_allclose(
        certificate.lower_bound, (loss - np.vdot(gradient, coef)) / scale, rtol=1e-10
    )


def test_relative_gaps():
    assert relative_gap(3.0, 2.0) == 0.5
    assert relative_gap(2.0, 2.0 + 1e-15) == 0.0
    assert relative_gap(1.0, 0.0) == np.inf
    assert relative_gap(1.0, -1.0) == np.inf
    assert relative_gap(0.0, 0.0) == 0.0


def solution_on(tokens, targets, loss, weight=None, block="self_attention"):
    # As an estimator does: gates and all from what it is given.
    gates = gates_of(block, "gated", tokens, 6, sample_weight=weight)
    problem = ConvexProblem(
        make_features(gates, tokens), targets, loss, 1.0, sample_weight=weight
    )
    return solve(problem.with_beta(0.05 * problem.beta_max), tol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("block", ["self_attention", "mlp", "mixer", "fno"])
def test_weights_are_repeats_number_for_number(block, loss):
    tokens, targets = tokens_of(3, 12, 3, 3), targets_of(3, loss, 12)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, 12).astype(float)
    weight[0] = 0
    repeated = rng.permutation(np.repeat(np.arange(12), weight.astype(int)))
    weighted = solution_on(tokens, targets, loss, weight, block)
    expected = solution_on(tokens[repeated], targets[repeated], loss, None, block)
    np.testing.assert_array_equal(weighted.coef, expected.coef)
    np.testing.assert_array_equal(weighted.intercept, expected.intercept)
    assert weighted.coef.any()
    unweighted = solution_on(tokens, targets, loss, None, block)
    assert unweighted.objective != weighted.objective


def test_only_ratios_of_weights_count():
    tokens, targets = tokens_of(3, 12, 3, 3), targets_of(3, "logistic", 12)
    weight = np.arange(12.0)
    plain = solution_on(tokens, targets, "logistic", weight)
    for factor in (2.0**40, 2.0**-1000):
        scaled = solution_on(tokens, targets, "logistic", factor * weight)
        np.testing.assert_array_equal(plain.coef, scaled.coef)


def test_samples_that_differ_in_the_target_are_not_merged():
    tokens = np.repeat(tokens_of(0, 3), 2, axis=0)
    features = make_features(gates_of("mlp", "gated", tokens), tokens)
    problem = ConvexProblem(features, [0, 1, 0, 0, 1, 1], "logistic", 1.0)
    assert problem.features.n_samples == 4
    np.testing.assert_allclose(
        problem.objective(np.zeros(problem.coef_shape), [0.0]), np.log(2)
    )


def test_linear_fno_is_the_linear_head_at_a_smaller_beta():
    tokens, targets = tokens_of(0, 10, 4, 3), targets_of(0, "multinomial", 10)
    fno, mlp = (
        ConvexProblem(
            make_features(gates_of(block, "linear", tokens), tokens),
            targets,
            "multinomial",
            1.0,
        )
        for block in ("fno", "mlp")
    )
    np.testing.assert_allclose(fno.beta_max, mlp.beta_max * np.sqrt(4), rtol=1e-12)
    beta = 0.1 * fno.beta_max
    one = solve(fno.with_beta(beta), tol=1e-9)
    other = solve(mlp.with_beta(beta / np.sqrt(4)), tol=1e-9)
    np.testing.assert_allclose(one.objective, other.objective, rtol=1e-8)


def nuclear_head(inputs, matrices, targets, beta):
    """Optimum of squares under a nuclear norm, by cvxpy; inputs (n, rows, columns)."""
    matrix, intercept = cp.Variable(matrices), cp.Variable()
    outputs = [cp.sum(cp.multiply(x, matrix)) + intercept for x in inputs]
    loss = 0.5 * cp.sum_squares(cp.hstack(outputs) - targets) / len(targets)
    problem = cp.Problem(cp.Minimize(loss + beta * cp.normNuc(matrix)))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def test_linear_mlp_is_the_linear_head_on_the_mean_token():
    tokens, targets = tokens_of(0, 10, 4, 3), targets_of(0, "squared", 10, 1)
    gates = gates_of("mlp", "linear", tokens)
    problem = ConvexProblem(make_features(gates, tokens), targets, "squared", 0.05)
    means = tokens.mean(axis=1)[:, :, None]
    expected = nuclear_head(means, (3, 1), targets[:, 0], 0.05)
    np.testing.assert_allclose(solve(problem, tol=1e-9).objective, expected, rtol=1e-6)


def test_linear_mixer_is_a_nuclear_head_on_the_flattened_sample():
    tokens, targets = tokens_of(0, 10, 4, 3), targets_of(0, "squared", 10, 1)
    gates = gates_of("mixer", "linear", tokens)
    problem = ConvexProblem(make_features(gates, tokens), targets, "squared", 0.05)
    expected = nuclear_head(tokens / 4, (4, 3), targets[:, 0], 0.05 / np.sqrt(4))
    np.testing.assert_allclose(solve(problem, tol=1e-9).objective, expected, rtol=1e-6)


def test_betas_fall_geometrically_from_beta_max():
    problem, *_ = problem_of("mlp", "gated", "squared")
    betas = beta_path(problem, 5, 1e-2)
    np.testing.assert_allclose(
        betas[[0, -1]], [problem.beta_max, problem.beta_max / 100]
    )
    np.testing.assert_allclose(np.diff(np.log(betas)), np.log(1e-2) / 4)
    np.testing.assert_array_equal(betas, beta_path(problem.beta_max, 5, 1e-2))
    assert (beta_path(0.0) > 0).all()
    with pytest.raises(ValueError, match="n_betas must be a positive integer"):
        beta_path(problem, 0)
    with pytest.raises(ValueError, match="ratio must be between 0 and 1"):
        beta_path(problem, 3, 1.0)


@pytest.mark.parametrize("beta", [0, -1.0, np.inf, np.nan, "auto", None])
def test_a_beta_that_is_none_is_refused(beta):
    problem, *_ = problem_of("mlp", "gated", "squared")
    with pytest.raises(ValueError, match="beta must be a number above 0"):
        problem.with_beta(beta)


def test_arguments_that_do_not_fit_are_refused():
    problem, tokens, targets, gates = problem_of("mlp", "gated", "squared")
    features = make_features(gates, tokens)
    with pytest.raises(TypeError, match="features must be ConvexFeatures, got ndarray"):
        ConvexProblem(tokens, targets, "squared", 1.0)
    with pytest.raises(ValueError, match="targets must have shape"):
        ConvexProblem(features, targets[:3], "squared", 1.0)
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        ConvexProblem(features, targets, "squared", 1.0, sample_weight=[1.0])
    with pytest.raises(ValueError, match="coef must have shape"):
        certify(problem, np.zeros(3))


def test_numbers_whose_products_overflow_are_refused():
    _, tokens, targets, gates = problem_of("self_attention", "gated", "squared")
    with pytest.raises(ValueError, match=r"Tokens have values up to .*Scale them"):
        ConvexProblem(make_features(gates, 1e60 * tokens), targets, "squared", 1.0)
    with pytest.raises(ValueError, match="Targets have values up to"):
        ConvexProblem(make_features(gates, tokens), 1e60 * targets, "squared", 1.0)
