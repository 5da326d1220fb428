"""Margins, selected sets, saturation, rank and optimality of selections."""

import numpy as np
import pandas as pd
import pytest

from skattn import Tokens
from skattn.theory import (
    attention_svm,
    effective_rank,
    global_optimality,
    is_locally_optimal,
    margins,
    saturation,
    selected_set,
)


def random_instance(seed, *shape):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((*shape, 4, 6))
    query = rng.standard_normal((*shape, 6))
    return X, query, rng.integers(4, size=shape), rng


def test_margins_are_differences_of_scores():
    X, query, selected, rng = random_instance(0, 5)
    coef = rng.standard_normal((6, 6))
    scores = np.einsum("ntd,de,ne->nt", X, coef, query)
    expected = scores[np.arange(5), selected][:, None] - scores
    expected[np.arange(5), selected] = np.inf
    actual = margins(X, selected, coef, query)
    np.testing.assert_allclose(actual, expected)
    for forms in (list(X), Tokens.from_padded(X)):
        as_list = margins(forms, selected, coef, query)
        assert isinstance(as_list, list)
        np.testing.assert_array_equal(np.stack(as_list), actual)


def test_smallest_margin_of_a_solution_is_one():
    X, query, selected, _ = random_instance(1, 5)
    solution = attention_svm(X, selected, query)
    assert margins(X, selected, solution.coef, query).min() == pytest.approx(1)


def test_margins_from_a_set_are_the_smallest_of_it():
    X, query, _, rng = random_instance(2, 5)
    is_selected = rng.random((5, 4)) < 0.5
    is_selected[:, 0] = True
    coef = rng.standard_normal((6, 6))
    scores = np.einsum("ntd,de,ne->nt", X, coef, query)
    lowest = np.where(is_selected, scores, np.inf).min(axis=1, keepdims=True)
    expected = np.where(is_selected, np.inf, lowest - scores)
    assert (is_selected.sum(axis=1) > 1).any()
    np.testing.assert_allclose(margins(X, is_selected, coef, query), expected)


def test_margins_of_absent_tokens_and_copies_are_infinite():
    X = np.array([[[np.nan], [2.0], [1.0], [2.0]], [[1.0], [np.nan], [0.0], [3.0]]])
    actual = margins(X, [1, 0], [2.0])
    np.testing.assert_array_equal(
        actual, [[np.inf, np.inf, 2, np.inf], [np.inf, np.inf, 2, -4]]
    )
    ragged = margins([X[0, 1:], X[1, [0, 2, 3]]], [0, 0], [2.0])
    np.testing.assert_array_equal(ragged[0], actual[0, 1:])
    np.testing.assert_array_equal(ragged[1], actual[1, [0, 2, 3]])


def test_margins_of_a_table():
    # Token t is [e_t, x_t e_t], and scores of a prompt pick its entries.
    coef = [1.0, 2.0, 10.0, 20.0]
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, -1.0]})
    np.testing.assert_allclose(
        margins(table, [0, 1], coef), [[np.inf, 11 - 62], [-18 - 21, np.inf]]
    )


def test_margins_of_a_batch():
    X, query, selected, rng = random_instance(3, 3, 5)
    coef = rng.standard_normal((3, 6, 6))
    batch = margins(X, selected, coef, query)
    for own in range(3):
        alone = margins(X[own], selected[own], coef[own], query[own])
        np.testing.assert_array_equal(batch[own], alone)
    coef[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="In problem 1 of the batch: coef contains"):
        margins(X, selected, coef, query)
    with pytest.raises(ValueError, match="coef must hold one entry for each of the 3"):
        margins(X, selected, coef[0, 0, 0], query)
    with pytest.raises(ValueError, match="query must hold one entry for each of the"):
        margins(X, selected, coef, query[:2])


@pytest.mark.parametrize(
    ("coef", "message"),
    [
        (np.ones(6), r"coef must have shape \(6, 6\), a row a feature of a token and"),
        (np.full((6, 6), np.nan), "coef contains NaN"),
    ],
)
def test_refused_coef(coef, message):
    X, query, selected, _ = random_instance(4, 5)
    with pytest.raises(ValueError, match=message):
        margins(X, selected, coef, query)
    with pytest.raises(ValueError, match=r"coef must have shape \(6,\), one weight a"):
        margins(X, selected, np.ones((6, 6)))


def test_selected_set_is_above_the_threshold():
    weights = np.array([[0.6, 0.399, 1e-3], [1.0, 0.0, 0.0]])
    expected = [[True, True, False], [True, False, False]]
    np.testing.assert_array_equal(selected_set(weights), expected)
    np.testing.assert_array_equal(selected_set(weights, 0.5), weights > 0.5)
    # Heads and a batch are axes in front.
    stacked = np.stack([weights, weights[::-1]])
    np.testing.assert_array_equal(selected_set(stacked)[1], expected[::-1])
    as_list = selected_set(list(weights))
    assert isinstance(as_list, list)
    ragged = selected_set([np.array([0.5, 0.5]), np.array([1.0])])
    np.testing.assert_array_equal(ragged[0], [True, True])
    np.testing.assert_array_equal(ragged[1], [True])
    assert selected_set([]) == []


def test_selected_set_is_a_selection():
    X, query, _, rng = random_instance(5, 5)
    weights = rng.dirichlet(np.full(4, 0.3), size=5)
    selected = selected_set(weights, 0.2)
    by_position = [np.flatnonzero(own > 0.2) for own in weights]
    np.testing.assert_array_equal(
        attention_svm(X, selected, query).coef,
        attention_svm(X, by_position, query).coef,
    )


@pytest.mark.parametrize("function", [selected_set, saturation])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[np.nan, 1.0]], "contains NaN or infinity"),
        ([np.array([np.inf]), np.array([0.5, 0.5])], "contains NaN or infinity"),
        (0.5, "must be an array, got a scalar"),
    ],
)
def test_refused_weights(function, weights, message):
    with pytest.raises(ValueError, match=message):
        function(weights)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, np.nan, "a"])
def test_refused_thresholds(threshold):
    with pytest.raises(ValueError, match=r"threshold must be within \[0, 1\)"):
        selected_set([[1.0]], threshold)
    with pytest.raises(ValueError, match=r"tol must be within \[0, 1\)"):
        effective_rank([[1.0]], threshold)


def test_saturation_is_the_top_weight():
    weights = np.random.default_rng(6).dirichlet(np.ones(5), size=(3, 2))
    np.testing.assert_array_equal(saturation(weights), weights.max(axis=-1))
    rest = saturation(weights, complement=True)
    np.testing.assert_allclose(rest, 1 - weights.max(axis=-1))
    ragged = saturation([np.array([0.25, 0.75]), np.array([1.0])])
    np.testing.assert_array_equal(ragged, [0.75, 1])
    with pytest.raises(ValueError, match="at least one token a sample"):
        saturation(np.zeros((2, 0)))


def test_what_is_left_keeps_its_digits():
    weights = np.array([1.0, 1e-20, 3e-20])
    assert saturation(weights) == 1
    np.testing.assert_allclose(saturation(weights, complement=True), 4e-20)


def test_effective_rank_is_relative():
    rng = np.random.default_rng(7)
    left, right = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    coef = left @ np.diag([1, 0.5, 2e-3, 5e-4, 1e-9, 0]) @ right
    assert effective_rank(coef) == effective_rank(1e6 * coef) == 3
    assert effective_rank(coef, tol=1e-5) == 4
    assert effective_rank(np.zeros((3, 4))) == effective_rank(np.zeros(3)) == 0
    assert effective_rank([0.0, 2.0]) == 1
    stack = np.stack([coef, np.zeros_like(coef)])
    np.testing.assert_array_equal(effective_rank(stack), [3, 0])
    X, query, selected, _ = random_instance(8, 5)
    solution = attention_svm(X, selected, query, norm="nuc")
    assert effective_rank(solution.coef) == solution.rank
    with pytest.raises(ValueError, match="coef contains NaN"):
        effective_rank([[np.nan]])
    with pytest.raises(ValueError, match="at least one axis"):
        effective_rank(1.0)


def test_ranks_of_random_instances():
    # T=5, chosen = best, (n, d) = (5, 10): Frobenius 5, nuclear 2.8 on average.
    rng = np.random.default_rng(9)
    X, query = rng.standard_normal((30, 5, 5, 10)), rng.standard_normal((30, 5, 10))
    head, y = rng.standard_normal((30, 10)), rng.choice([-1, 1], (30, 5))
    for array in (X, query, head):
        array /= np.linalg.norm(array, axis=-1, keepdims=True)
    best = (y[:, :, None] * np.einsum("bntd,bd->bnt", X, head)).argmax(axis=2)
    mean_rank = {
        norm: np.mean(
            [
                effective_rank(solution.coef)
                for solution in attention_svm(X, best, query, norm=norm)
            ]
        )
        for norm in ("fro", "nuc")
    }
    assert mean_rank["fro"] == 5
    assert abs(mean_rank["nuc"] - 2.8) < 0.3


def test_best_tokens_are_globally_optimal():
    X, _, _, rng = random_instance(10, 4, 5)
    head, y = rng.standard_normal((4, 6)), rng.choice([-1, 1], (4, 5))
    gamma = y[:, :, None] * np.einsum("bntd,bd->bnt", X, head)
    selected = gamma.argmax(axis=2)
    assert global_optimality(X, y, head, selected).all()
    selected[2, 3] = gamma[2, 3].argsort()[-2]
    selected[0, 0] = gamma[0, 0].argmin()
    expected = np.ones((4, 5), dtype=bool)
    expected[2, 3] = expected[0, 0] = False
    np.testing.assert_array_equal(global_optimality(X, y, head, selected), expected)
    for own in range(4):
        alone = global_optimality(X[own], y[own], head[own], selected[own])
        np.testing.assert_array_equal(alone, expected[own])
    shared = global_optimality(X, y, head[0], selected)
    np.testing.assert_array_equal(shared[0], expected[0])


def test_ties_with_copies_are_optimal():
    # Equal tokens have scores that may differ in the last digit.
    token = np.random.default_rng(11).standard_normal(17)
    X = [np.stack([token] * 5)]
    for selected in range(5):
        assert global_optimality(X, [1], token, [selected]).all()


def test_labels_are_read_alike():
    X = [[[1.0], [0.0]], [[1.0], [0.0]]]
    for y in (["a", "b"], [0, 1], [-1, 1], [-1.0, 1.0], [3, 7]):
        np.testing.assert_array_equal(
            global_optimality(X, y, [1.0], [0, 0]), [False, True]
        )
    # Random signs of few samples can all be equal.
    assert global_optimality(X, [1, 1], [1.0], [0, 0]).all()
    assert not global_optimality(X, [-1, -1], [1.0], [0, 0]).any()
    for y in ([0, 0], ["a", "a"], [2, 2]):
        with pytest.raises(ValueError, match="y must hold two labels"):
            global_optimality(X, y, [1.0], [0, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1]}, r"y must have shape \(2,\)"),
        ({"head": [1.0, 2.0]}, r"head must have shape \(1,\)"),
        ({"head": [np.nan]}, "head contains NaN"),
        ({"selected": [0, 2]}, r"selected\[1\] is 2, but sample 1 has no token"),
        ({"selected": [[0], [0, 1]]}, "selected must be an array of 2 integers"),
    ],
)
def test_refused_arguments(arguments, message):
    valid = {
        "X": [[[1.0], [0.0]], [[1.0], [0.0]]],
        "y": [0, 1],
        "head": [1.0],
        "selected": [0, 0],
    }
    with pytest.raises(ValueError, match=message):
        global_optimality(**{**valid, **arguments})
    with pytest.raises(ValueError, match=message):
        is_locally_optimal(**{**valid, **arguments})


def test_batches_share_a_head_or_have_one_each():
    X, _, selected, _ = random_instance(12, 3, 5)
    with pytest.raises(ValueError, match=r"head must have shape \(d,\) or \(3, d\)"):
        global_optimality(X, np.ones((3, 5)), np.ones((2, 6)), selected)
    with pytest.raises(ValueError, match=r"y must have shape \(3, 5\)"):
        global_optimality(X, np.ones(5), np.ones(6), selected)
    selected[1, 2] = 9
    with pytest.raises(ValueError, match="In problem 1 of the batch: selected"):
        global_optimality(X, np.ones((3, 5)), np.ones(6), selected)


def test_violations_are_the_active_tokens_that_score_no_less():
    X, query, selected, rng = random_instance(13, 5)
    y, head = np.array([1, -1, 1, -1, 1]), rng.standard_normal(6)
    is_optimal, violations = is_locally_optimal(
        X, y, head, selected, query, return_violations=True
    )
    coef = attention_svm(X, selected, query, tol=1e-9).coef
    is_active = margins(X, selected, coef, query) <= 1 + 1e-3
    gamma = y[:, None] * (X @ head)
    is_behind = gamma[np.arange(5), selected][:, None] <= gamma
    expected = np.argwhere(is_active & is_behind)
    assert expected.size
    np.testing.assert_array_equal(violations, expected)
    assert is_optimal is False
    best = gamma.argmax(axis=1)
    is_optimal, violations = is_locally_optimal(
        X, y, head, best, query, return_violations=True
    )
    assert is_optimal is True
    assert violations.shape == (0, 2)


def test_violations_are_positions_as_given():
    # (1, 0) is selected, and (0, 0) is at its margin with a better score.
    X = np.full((2, 5, 2), np.nan)
    X[0, [1, 2, 4]] = [[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]
    X[1, 3] = 0
    arguments = {"head": [-1.0, 2.0], "selected": [2, 3], "return_violations": True}
    is_optimal, violations = is_locally_optimal(X, [1, 0], **arguments)
    assert not is_optimal
    np.testing.assert_array_equal(violations, [[0, 4]])


def test_local_optimality_of_a_batch():
    X, query, selected, rng = random_instance(14, 6, 5)
    y, head = rng.choice([-1, 1], (6, 5)), rng.standard_normal((6, 6))
    best = (y[:, :, None] * np.einsum("bntd,bd->bnt", X, head)).argmax(axis=2)
    selected[:3] = best[:3]
    is_optimal, violations = is_locally_optimal(
        X, y, head, selected, query, return_violations=True
    )
    assert is_optimal[:3].all()
    assert not is_optimal.all()
    for own in range(6):
        alone, which = is_locally_optimal(
            X[own], y[own], head[own], selected[own], query[own], return_violations=True
        )
        assert is_optimal[own] == alone
        np.testing.assert_array_equal(violations[own], which)
    np.testing.assert_array_equal(
        is_locally_optimal(X, y, head, selected, query), is_optimal
    )
    # The middle one of tokens on a line.
    X[4, 0] = np.arange(4)[:, None] * np.ones(6)
    selected[4, 0] = 1
    with pytest.raises(ValueError, match="In problem 4 of the batch: The attention S"):
        is_locally_optimal(X, y, head, selected, query)
