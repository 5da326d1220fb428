"""The generator of Boolean functions, against its definition."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.utils import check_random_state

from skattn.datasets import make_boolean_tokens


def make(**parameters):
    defaults = {"n_samples": 500, "n_bits": 7, "n_relevant": 4, "random_state": 0}
    return make_boolean_tokens(**(defaults | parameters), return_X_y=False)


def test_tokens_are_positions_and_values():
    data = make()
    for sample, bits in zip(data.X, data.bits, strict=True):
        np.testing.assert_array_equal(sample[:, :-1], np.eye(7))
        np.testing.assert_array_equal(sample[:, -1], bits)


@pytest.mark.parametrize(("function", "combine"), [("and", np.all), ("or", np.any)])
def test_labels_and_hints_are_the_function(function, combine):
    data = make(function=function)
    assert data.pairs.shape == (2, 2)
    np.testing.assert_array_equal(data.support, np.unique(data.pairs))
    for bits, hints, label in zip(data.bits, data.hints, data.y, strict=True):
        assert hints.tolist() == [int(combine(bits[pair])) for pair in data.pairs]
        assert label == combine(bits[data.support])
    assert set(data.y) == {0, 1}


@pytest.mark.parametrize("function", ["and", "or"])
@pytest.mark.parametrize("noise", [None, 0.0, 0.3])
def test_noise_flips_labels_and_hints_each_by_itself(function, noise):
    parameters = {"n_samples": 4000, "random_state": 1}
    clean = make(function=function, **parameters)
    noisy = make(function=f"noisy_{function}", noise=noise, **parameters)
    np.testing.assert_array_equal(noisy.bits, clean.bits)
    flips = np.column_stack([noisy.y != clean.y, noisy.hints != clean.hints])
    expected = 0.1 if noise is None else noise
    tolerance = 4 * np.sqrt(expected * (1 - expected) / 4000)
    np.testing.assert_allclose(flips.mean(axis=0), expected, atol=tolerance)
    for one, other in combinations(flips.T, 2):
        assert abs(np.mean(one & other) - expected**2) <= tolerance


def test_bits_are_fair_and_independent():
    bits = make(n_samples=10_000).bits
    covariance = np.cov(bits, rowvar=False)
    np.testing.assert_allclose(bits.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(covariance, np.eye(7) / 4, atol=0.015)


def test_hidden_positions_are_drawn_anew():
    places = np.concatenate([make(random_state=seed).support for seed in range(300)])
    np.testing.assert_allclose(np.bincount(places) / 300, 4 / 7, atol=0.12)
    assert not np.array_equal(make().pairs, np.sort(make().pairs, axis=None))


def test_probability_of_equal_labels():
    n_samples, n_relevant = 40, 4
    constant = [
        np.ptp(make(n_samples=n_samples, random_state=seed).y) == 0
        for seed in range(1000)
    ]
    expected = (1 - 2.0**-n_relevant) ** n_samples
    deviation = np.sqrt(expected * (1 - expected) / 1000)
    assert abs(np.mean(constant) - expected) < 4 * deviation


def test_all_bits_may_be_relevant():
    data = make(n_bits=4)
    np.testing.assert_array_equal(data.support, range(4))


def test_x_and_y_alone():
    X, y = make_boolean_tokens(20, random_state=3)
    data = make_boolean_tokens(20, random_state=3, return_X_y=False)
    np.testing.assert_array_equal(X, data.X)
    np.testing.assert_array_equal(y, data.y)
    assert X.shape == (20, 16, 17)
    assert X.dtype == np.float64
    assert y.dtype == data.hints.dtype == np.int64


def test_random_state_decides_everything_and_leaves_the_global_one_alone():
    global_state = check_random_state(None).get_state(legacy=False)
    first, second = make(function="noisy_or"), make(function="noisy_or")
    np.testing.assert_equal(
        check_random_state(None).get_state(legacy=False), global_state
    )
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.array_equal(first.X, make(random_state=1).X)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_samples": 0}, ValueError, "n_samples == 0, must be >= 1"),
        ({"n_bits": 1}, ValueError, "n_bits == 1, must be >= 2"),
        ({"n_bits": 4.0}, TypeError, "n_bits must be an instance of"),
        ({"n_relevant": 3}, ValueError, "n_relevant must be even"),
        ({"n_relevant": 0}, ValueError, "n_relevant == 0, must be >= 2"),
        ({"n_relevant": 8}, ValueError, "n_relevant == 8, must be <= 7"),
        ({"function": "xor"}, ValueError, "function must be one of .*'xor'"),
        ({"function": ["and"]}, ValueError, "function must be one of"),
        ({"noise": 0.1}, ValueError, "function='and' has none.*'noisy_and'"),
        (
            {"function": "noisy_and", "noise": 0.5},
            ValueError,
            "noise == 0.5, must be < 0.5",
        ),
        (
            {"function": "noisy_or", "noise": "some"},
            TypeError,
            "noise must be an instance of",
        ),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        make(**parameters)
