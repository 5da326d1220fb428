"""Whether tokens can be selected, and the proofs either way."""

import numpy as np
import pytest
from scipy.optimize import linprog

from skattn import Tokens
from skattn.theory import feasibility, margins


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def combination(X, selected, query, certificate):
    """The rows ``dx z'`` added up by the weights, from the definition."""
    total = 0
    for sample, (weights, tokens) in enumerate(zip(certificate, X, strict=True)):
        z = np.ones(1) if query is None else query[sample]
        differences = tokens[np.atleast_1d(selected[sample])[0]] - tokens
        total = total + np.outer(weights @ differences, z)
    return total


def test_directions_have_the_margins_they_prove():
    rng = np.random.default_rng(0)
    X, query = on_sphere(rng, 6, 8, 10), on_sphere(rng, 6, 10)
    selected = rng.integers(8, size=6)
    result = feasibility(X, selected, query)
    assert result.is_feasible is True
    assert result.certificate is None
    smallest = margins(X, selected, result.direction, query).min()
    np.testing.assert_allclose(smallest, 1, rtol=1e-12)
    assert 0 <= result.residual < 1e-12


def test_certificates_are_convex_combinations_that_vanish():
    rng = np.random.default_rng(1)
    X = on_sphere(rng, 10, 8, 10)
    selected = rng.integers(8, size=10)
    result = feasibility(X, selected)
    assert result.is_feasible is False
    assert result.direction is None
    weights = result.certificate
    assert weights.shape == (10, 8)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(), 1)
    np.testing.assert_array_equal(weights[np.arange(10), selected], 0)
    assert np.abs(combination(X, selected, None, weights)).max() < 1e-12
    assert result.residual < 1e-9


def test_certificates_have_the_form_of_the_tokens():
    X = np.array(
        [[[-1.0], [np.nan], [0.0], [1.0]], [[3.0], [np.nan], [np.nan], [np.nan]]]
    )
    padded = feasibility(X, [2, 0]).certificate
    np.testing.assert_allclose(padded, [[0.5, 0, 0, 0.5], [0, 0, 0, 0]], atol=1e-12)
    ragged = [X[0, [0, 2, 3]], X[1, :1]]
    for forms, selected, n_positions in (
        (ragged, [1, 0], [3, 1]),
        (Tokens.from_padded(X), [2, 0], [4, 4]),
    ):
        as_list = feasibility(forms, selected).certificate
        assert isinstance(as_list, list)
        assert [own.size for own in as_list] == n_positions


def test_queries_of_their_own_make_random_samples_feasible():
    # d >= T - 1 and d_q >= n: almost surely.
    for seed, (n, T) in enumerate([(4, 8), (8, 4), (10, 6)] * 3):
        rng = np.random.default_rng(seed)
        X, query = rng.standard_normal((n, T, T - 1)), rng.standard_normal((n, n))
        assert feasibility(X, rng.integers(T, size=n), query).is_feasible


def test_unit_norm_tokens_need_no_more_features():
    # A token of unit length is ahead of the others in its own direction.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, query = on_sphere(rng, 5, 12, 3), rng.standard_normal((5, 5))
        assert feasibility(X, rng.integers(12, size=5), query).is_feasible


def test_too_few_features_are_mostly_infeasible():
    rng = np.random.default_rng(2)
    X, query = rng.standard_normal((20, 5, 8, 2)), rng.standard_normal((20, 5, 2))
    results = feasibility(X, rng.integers(8, size=(20, 5)), query)
    assert sum(result.is_feasible for result in results) <= 2


def test_prompts_are_infeasible_at_random():
    # n=10, T=8, d=10: hardly any of 40. With n (T - 1) features all are feasible.
    rng = np.random.default_rng(3)
    selected = rng.integers(8, size=(40, 10))
    X = on_sphere(rng, 40, 10, 8, 10)
    results = feasibility(X, selected)
    assert sum(result.is_feasible for result in results) <= 2
    assert max(result.residual for result in results) < 1e-9
    for own, chosen, result in zip(X, selected, results, strict=True):
        rows = (own[np.arange(10), chosen][:, None] - own).reshape(-1, 10)
        rows = rows[rows.any(axis=1)]
        program = linprog(
            np.zeros(10), A_ub=-rows, b_ub=-np.ones(70), bounds=(None, None)
        )
        # Status 0 is a feasible point, 2 the proof that there is none.
        assert program.status == (0 if result.is_feasible else 2)
    wide = feasibility(on_sphere(rng, 3, 10, 8, 70), selected[:3])
    assert all(result.is_feasible for result in wide)


def test_exact_small_cases():
    keys = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    first = feasibility(keys, [0])
    np.testing.assert_allclose(first.direction, [-0.0990099, 0.9900990], atol=1e-7)
    np.testing.assert_allclose(feasibility(keys, [1]).direction, [1, 0], atol=1e-12)
    third = feasibility(keys, [2])
    assert third.is_feasible
    # Within the triangle of the others it would not be.
    inside = [[*keys[0], [0.3, 0.3]]]
    certificate = feasibility(inside, [3]).certificate[0]
    # 0.3, 0.3 in barycentric coordinates of the three keys.
    np.testing.assert_allclose(certificate, [0.3, 0.33, 0.37, 0], atol=1e-12)


def test_sets_of_tokens_and_margins_of_their_own():
    line = np.array([[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])
    result = feasibility(line, [[0, 2]])
    assert result.is_feasible is False
    certificate = result.certificate
    np.testing.assert_allclose(certificate, [[0, 2 / 3, -1 / 3, 0]], atol=1e-12)
    assert np.abs(combination(line, [[0, 2]], None, certificate)).max() < 1e-12
    level = feasibility(line, [[0, 1, 2]])
    assert level.is_feasible
    scores = line[0] @ level.direction
    np.testing.assert_allclose(scores[:3] - scores[3], 1)
    opposed = [[[1.0], [0.0]], [[-1.0], [0.0]]]
    assert feasibility(opposed, [0, 0], margin=[1, 0]).is_feasible is False
    assert feasibility(opposed, [0, 1], margin=[1, 0]).is_feasible is True


def test_a_batch_is_its_problems():
    rng = np.random.default_rng(4)
    X, query = rng.standard_normal((4, 3, 5, 2)), rng.standard_normal((4, 3, 3))
    selected, margin = rng.integers(5, size=(4, 3)), rng.integers(1, 3, (4, 3))
    results = feasibility(X, selected, query, margin=margin)
    assert {result.is_feasible for result in results} == {True, False}
    for own, result in enumerate(results):
        alone = feasibility(X[own], selected[own], query[own], margin=margin[own])
        assert result.is_feasible == alone.is_feasible
        if result.is_feasible:
            np.testing.assert_allclose(result.direction, alone.direction, atol=1e-9)
    selected[2, 0] = 7
    with pytest.raises(ValueError, match="In problem 2 of the batch: selected"):
        feasibility(X, selected, query)
