"""The attention SVM, alignment and local optimality as users call them."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skattn import Tokens
from skattn.theory import alignment, attention_svm, is_locally_optimal

KEYS = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def instance(seed):
    rng = np.random.default_rng(seed)
    tokens, queries = on_sphere(rng, 6, 8, 10), on_sphere(rng, 6, 10)
    head = on_sphere(rng, 10)
    y = rng.choice([-1, 1], 6)
    while np.unique(y).size < 2:
        y = rng.choice([-1, 1], 6)
    return tokens, queries, head, y, rng


def attention_gradient(tokens, queries, head, y, coef):
    """Direction of the logistic gradient, free of cancellation near saturation.

    The usual s_t (g_t - o) is written as s_t * sum_u s_u (g_t - g_u), all of it times
    exp(smallest top gap).
    """
    values = tokens @ head
    scores = np.einsum("ntd,nd->nt", tokens, queries @ coef.T)
    ordered = np.sort(scores, axis=1)
    smallest_gap = (ordered[:, -1] - ordered[:, -2]).min()
    log_weights = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    output = np.sum(np.exp(log_weights) * values, axis=1)
    differences = values[:, :, None] - values[:, None, :]
    exponents = log_weights[:, :, None] + log_weights[:, None, :] + smallest_gap
    pairs = np.where(differences != 0, np.exp(np.minimum(exponents, 700)), 0)
    inner = np.sum(pairs * differences, axis=2)
    inner *= (-y / (1 + np.exp(y * output)))[:, None]
    gradient = np.einsum("nt,ntd,nq->dq", inner, tokens, queries)
    return gradient / np.abs(gradient).max(), scores


def train_weights(tokens, queries, head, y, rng, n_iter=2000):
    coef = rng.uniform(-1, 1, (10, 10)) / np.sqrt(10)
    for _ in range(n_iter):
        gradient, _ = attention_gradient(tokens, queries, head, y, coef)
        coef -= 0.1 * gradient / np.linalg.norm(gradient)
    return coef


def train_keys_and_queries(tokens, queries, head, y, rng, n_iter=2000):
    K, Q = (rng.uniform(-1, 1, (10, 10)) / np.sqrt(10) for _ in range(2))
    for _ in range(n_iter):
        gradient, _ = attention_gradient(tokens, queries, head, y, K @ Q.T)
        for_keys, for_queries = gradient @ Q, gradient.T @ K
        K = K - 0.1 * for_keys / np.linalg.norm(for_keys)
        Q = Q - 0.1 * for_queries / np.linalg.norm(for_queries)
    return K @ Q.T


@pytest.mark.parametrize(
    ("train", "norm", "least"),
    [(train_weights, "fro", 0.99), (train_keys_and_queries, "nuc", 0.975)],
)
def test_normalised_gradient_descent_finds_the_svm(train, norm, least):
    # Each parametrisation goes to its own norm, and to a selection that is locally
    # optimal; the solutions of the other norm are about .87 away.
    alignments, crossed, n_optimal = [], [], 0
    other = "nuc" if norm == "fro" else "fro"
    for seed in range(8):
        tokens, queries, head, y, rng = instance(seed)
        coef = train(tokens, queries, head, y, rng)
        selected = attention_gradient(tokens, queries, head, y, coef)[1].argmax(axis=1)
        solution = attention_svm(tokens, selected, queries, norm=norm)
        alignments.append(alignment(coef, solution.coef))
        wrong = attention_svm(tokens, selected, queries, norm=other)
        crossed.append(alignment(coef, wrong.coef))
        n_optimal += is_locally_optimal(tokens, y, head, selected, queries, norm=norm)
    assert np.mean(alignments) >= least
    assert np.mean(crossed) < 0.91
    assert n_optimal >= 7


def test_selected_positions_count_absent_tokens():
    padded = np.full((2, 4, 2), np.nan)
    padded[0, 1:] = KEYS[0]
    padded[1, [0, 2]] = [[1.0, 1.0], [0.0, 0.0]]
    solution = attention_svm(padded, [1, 2])
    plain = attention_svm([KEYS[0], [[1.0, 1.0], [0.0, 0.0]]], [0, 1])
    assert solution.status == plain.status
    np.testing.assert_array_equal(solution.dual_coef, plain.dual_coef)
    assert solution.dual_coef.shape == (5,)
    with pytest.raises(ValueError, match="sample 1 has no token at that posi"):
        attention_svm(padded, [1, 1])
    with pytest.raises(ValueError, match="sample 0 has no token at that posi"):
        attention_svm(padded, [4, 0])


def test_input_forms_and_carried_queries_agree():
    tokens, queries, _, _, rng = instance(0)
    selected = rng.integers(0, 8, 6)
    expected = attention_svm(tokens, selected, queries)
    assert expected.coef.shape == (10, 10)
    carried = Tokens.from_padded(tokens).with_query(queries)
    for X, query in [(list(tokens), queries), (carried, None)]:
        solution = attention_svm(X, selected, query)
        np.testing.assert_array_equal(solution.coef, expected.coef)
    overridden = attention_svm(carried, selected, queries[::-1])
    np.testing.assert_array_equal(
        overridden.coef, attention_svm(tokens, selected, queries[::-1]).coef
    )


def test_table_is_read_as_tokens():
    # Token t is [e_t, x_t e_t]; one row, two columns, dx = (1, -1, 2, -3).
    solution = attention_svm(np.array([[2.0, 3.0]]), [0])
    np.testing.assert_allclose(solution.coef, np.array([1, -1, 2, -3]) / 15)


def test_infeasible_margins_raise_nothing():
    solution = attention_svm([[[-1.0], [0.0], [1.0]]], [1])
    assert solution.status == "infeasible"
    np.testing.assert_allclose(solution.ray, [0.5, 0, 0.5])


def test_unreached_gap_warns():
    tokens, queries, _, _, rng = instance(1)
    selected = rng.integers(0, 8, 6)
    with pytest.warns(ConvergenceWarning, match="relative duality gap of .*, above"):
        attention_svm(tokens, selected, queries, norm="nuc", tol=1e-300, solver="cvxpy")


@pytest.mark.parametrize(
    ("selected", "error", "message"),
    [
        ([0, 1], ValueError, "selected must be an array of 1 integers"),
        ([0.5], ValueError, "selected must be an array of 1 integers"),
        ([3], ValueError, r"selected\[0\] is 3, but sample 0 has no token at that"),
    ],
)
def test_refused_selections(selected, error, message):
    with pytest.raises(error, match=message):
        attention_svm(KEYS, selected)


def test_alignment_is_the_cosine():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 4, 3))
    expected = np.trace(A.T @ B) / np.sqrt(np.trace(A.T @ A) * np.trace(B.T @ B))
    np.testing.assert_allclose(alignment(A, B), expected)
    np.testing.assert_allclose(alignment(1e-200 * A, -1e200 * A), -1)


@pytest.mark.parametrize(
    ("A", "B", "message"),
    [
        ([1.0], [1.0, 2.0], r"one shape, got \(1,\) and \(2,\)"),
        ([0.0, 0.0], [1.0, 2.0], "A is zero"),
        ([1.0, 0.0], [0.0, 0.0], "B is zero"),
        ([1.0, np.nan], [1.0, 2.0], "A contains NaN"),
    ],
)
def test_alignment_refuses(A, B, message):
    with pytest.raises(ValueError, match=message):
        alignment(A, B)


@pytest.mark.parametrize("labels", [("no", "yes"), (-1, 1), (0, 1)])
@pytest.mark.parametrize("gamma", [(0.0, 3.0, 1.0), (0.0, 1.0, 3.0)])
def test_local_optimality_of_the_second_key(labels, gamma):
    # Choosing (1, 0) is locally optimal when gamma_2 > gamma_3: its prompt (1, 0)
    # leaves the first key behind, at margin 1.1. gamma_3 is made free by a third axis.
    keys = np.array([[-0.1, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    shifted = keys + np.array([0.0, 0.0, 1.0])
    head = np.linalg.solve(shifted, gamma)
    X, y = [shifted, np.zeros((1, 3))], list(labels[::-1])
    assert is_locally_optimal(X, y, head, [1, 0]) == (gamma[1] > gamma[2])
    # As the negative class the order of the tokens is the other way round.
    assert is_locally_optimal(X, y[::-1], head, [1, 0]) == (gamma[1] < gamma[2])


def test_local_optimality_ignores_tokens_beyond_the_margin():
    # The first key, at margin 1.1, scores best; with tol .2 it counts.
    X, y = [*KEYS, [[0.0, 0.0]]], [1, 0]
    head = [1.0, 5.0]
    assert is_locally_optimal(X, y, head, [1, 0])
    assert not is_locally_optimal(X, y, head, [1, 0], tol=0.2)


def test_local_optimality_ignores_copies_of_the_selected_token():
    X = [[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]]
    assert is_locally_optimal(X, [1, 0], [1.0, 0.0], [0, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 0]}, "y must hold two labels"),
        ({"y": ["a", "a"]}, "y must hold two labels"),
        ({"y": [1]}, r"y must have shape \(2,\)"),
        ({"head": [1.0]}, r"head must have shape \(2,\)"),
        ({"head": [1.0, np.nan]}, "head contains NaN"),
        ({"tol": -1.0}, "tol must be at least 0"),
        (
            {"X": [[[-1.0, 0], [0, 0], [1.0, 0]], [[0.0, 0.0]]]},
            "The attention SVM of this selection is infeasible",
        ),
    ],
)
def test_local_optimality_refuses(arguments, message):
    valid = {
        "X": [*KEYS, [[0.0, 0.0]]],
        "y": [0, 1],
        "head": [1.0, 0.0],
        "selected": [1, 0],
    }
    with pytest.raises(ValueError, match=message):
        is_locally_optimal(**{**valid, **arguments})


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        # scikit-learn itself imports pandas where it is installed.
        ("skattn.theory", "{'torch', 'cvxpy', 'matplotlib'}"),
        ("skattn.margin", "{'torch', 'cvxpy', 'matplotlib', 'pandas', 'sklearn'}"),
    ],
)
def test_import_is_light(module, heavy):
    code = f"import sys, {module}; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
