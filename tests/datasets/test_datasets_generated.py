"""The generator of planted tokens, against its definition."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from skattn.datasets import make_token_selection


def planted_tokens(X, planted):
    return np.array([x[t] for x, t in zip(X, planted, strict=True)])


def found(scores, planted):
    """Share of the samples whose planted token has the top score."""
    return np.mean(scores.argmax(axis=1) == planted)


@pytest.mark.parametrize("shared_direction", [True, False])
@pytest.mark.parametrize("n_tokens", [7, (3, 9)])
def test_without_noise_the_planted_token_is_the_formula(n_tokens, shared_direction):
    X, y, planted, (k, v) = make_token_selection(
        50,
        n_tokens,
        4,
        signal=3.0,
        noise=0.0,
        shared_direction=shared_direction,
        return_directions=True,
        random_state=0,
    )
    for x, label, position in zip(X, y, planted, strict=True):
        expected = np.zeros_like(x)
        expected[position] = 3.0 * (k[label] + (1 if label else -1) * v)
        np.testing.assert_allclose(x, expected, atol=1e-14)


@pytest.mark.parametrize("shared_direction", [True, False])
def test_directions_are_orthonormal(shared_direction):
    *_, (k, v) = make_token_selection(
        n_features=3,
        shared_direction=shared_direction,
        return_directions=True,
        random_state=1,
    )
    np.testing.assert_allclose(np.linalg.norm(k, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(v), 1)
    np.testing.assert_allclose(k @ v, 0, atol=1e-14)
    assert np.array_equal(k[0], k[1]) == shared_direction


def test_noise_is_standard_normal_times_its_size():
    X, y, planted, (k, v) = make_token_selection(
        2000, 6, 5, noise=2.0, return_directions=True, random_state=2
    )
    samples = np.arange(len(X))
    X[samples, planted] -= 5.0 * (k[y] + np.outer(2 * y - 1, v))
    n_values = X.size
    assert abs(X.mean()) < 4 * 2.0 / np.sqrt(n_values)
    assert abs(X.std() / 2.0 - 1) < 4 / np.sqrt(2 * n_values)
    assert abs(X[samples, planted].std() / 2.0 - 1) < 4 / np.sqrt(2 * n_values / 6)


def test_a_number_of_tokens_gives_an_array():
    X, y, planted = make_token_selection(30, 4, 3, random_state=0)
    assert X.shape == (30, 4, 3)
    assert set(planted) == set(range(4))
    np.testing.assert_array_equal(np.bincount(y), [15, 15])


def test_a_range_of_tokens_gives_a_list_with_both_ends():
    X, _, planted = make_token_selection(200, (2, 5), 3, random_state=0)
    lengths = np.array([len(x) for x in X])
    assert isinstance(X, list)
    assert set(lengths) == {2, 3, 4, 5}
    assert (planted < lengths).all()
    assert (planted == lengths - 1).any()


def test_shared_direction_finds_the_token_of_both_classes():
    X, _, planted, (k, _) = make_token_selection(
        1000, return_directions=True, random_state=3
    )
    assert found(X @ k[0], planted) > 0.97


def test_no_prompt_finds_opposite_directions_but_two_heads_do():
    X, y, planted, (k, v) = make_token_selection(
        1000, shared_direction=False, return_directions=True, random_state=3
    )
    # The planted tokens are +-signal * (k + v), so the best prompts lie along k + v.
    for prompt in (k[0], k[1], v, -v, k[0] - v, k[1] + v):
        per_class = [found(X[y == c] @ prompt, planted[y == c]) for c in (0, 1)]
        assert min(per_class) < 0.1
    two_heads = np.maximum(X @ (k[0] - v), X @ (k[1] + v))
    assert found(two_heads, planted) > 0.97


def test_random_state_decides_everything_and_leaves_the_global_one_alone():
    global_state = check_random_state(None).get_state(legacy=False)
    first = make_token_selection(random_state=5)
    second = make_token_selection(random_state=5)
    other = make_token_selection(random_state=6)
    np.testing.assert_equal(
        check_random_state(None).get_state(legacy=False), global_state
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_samples": 0}, ValueError, "n_samples == 0, must be >= 1"),
        ({"n_samples": 2.5}, TypeError, "n_samples must be an instance of"),
        ({"n_tokens": 0}, ValueError, "n_tokens == 0, must be >= 1"),
        ({"n_tokens": (5, 3)}, ValueError, r"n_tokens\[1\] == 3, must be >= 5"),
        ({"n_tokens": (0, 3)}, ValueError, r"n_tokens\[0\] == 0, must be >= 1"),
        ({"n_tokens": (1, 2, 3)}, TypeError, r"an integer or a pair \(min, max\)"),
        ({"n_tokens": "many"}, TypeError, r"an integer or a pair \(min, max\)"),
        ({"n_features": 1}, ValueError, "n_features == 1, must be >= 2"),
        ({"signal": "strong"}, TypeError, "signal must be an instance of"),
        ({"noise": -1.0}, ValueError, "noise == -1.0, must be >= 0"),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        make_token_selection(**parameters)
