"""`PositionalEncoding` against the formula, written out element by element."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from skattn import Tokens
from skattn.preprocessing import PositionalEncoding

NAN = np.nan


def sinusoid(position, n_components, max_period=10000.0):
    """Section 3.5 of Vaswani et al., one component at a time."""
    encoding = []
    for component in range(n_components):
        pair = component // 2
        angle = position / max_period ** (2 * pair / n_components)
        encoding.append(math.sin(angle) if component % 2 == 0 else math.cos(angle))
    return encoding


@pytest.mark.parametrize("n_features", [1, 2, 5, 8])
def test_sinusoidal_components_follow_the_paper(n_features):
    X = np.random.default_rng(0).normal(size=(2, 7, n_features))
    added = PositionalEncoding().fit_transform(X)
    expected = [sinusoid(position, n_features) for position in range(7)]
    assert_allclose(added - X, [expected, expected], atol=1e-14)


@pytest.mark.parametrize("n_components", [1, 4, 7])
def test_components_can_follow_the_features(n_components):
    X = [np.zeros((3, 2)), np.ones((5, 2))]
    encoder = PositionalEncoding(
        n_components=n_components, max_period=50.0, combine="concat"
    )
    output = encoder.fit_transform(X)
    assert encoder.n_components_ == n_components
    for sample, encoded in zip(X, output, strict=True):
        assert_array_equal(encoded[:, :2], sample)
        expected = [sinusoid(t, n_components, 50.0) for t in range(len(sample))]
        assert_allclose(encoded[:, 2:], expected, atol=1e-14)


def test_concatenation_adds_as_many_components_as_features_by_default():
    encoder = PositionalEncoding(combine="concat")
    assert encoder.fit_transform([np.zeros((3, 4))])[0].shape == (3, 8)


def test_a_shift_is_a_rotation_of_each_pair():
    """The property for which the paper chose these functions."""
    code = PositionalEncoding().fit_transform(np.zeros((1, 30, 6)))[0]
    inner = code @ code.T
    for shift in (1, 7, 20):
        assert_allclose(np.diag(inner, shift), inner[0, shift], atol=1e-13)


def test_linear_component_runs_from_zero_to_one():
    X = [np.zeros((5, 1)), np.zeros((1, 1)), np.zeros((2, 1))]
    output = PositionalEncoding("linear").fit_transform(X)
    assert [sample.ravel().tolist() for sample in output] == [
        [0.0, 0.25, 0.5, 0.75, 1.0],
        [0.0],
        [0.0, 1.0],
    ]


@pytest.mark.parametrize("encoding", ["sinusoidal", "linear"])
def test_positions_are_those_of_the_sample_as_given(encoding):
    dense = np.zeros((1, 6, 1))
    gaps = dense.copy()
    gaps[0, [0, 3]] = NAN
    encoder = PositionalEncoding(encoding).fit(dense)
    full, partial = encoder.transform(dense), encoder.transform(gaps)
    assert_array_equal(np.isnan(partial), np.isnan(gaps))
    present = [1, 2, 4, 5]
    assert_array_equal(partial[0, present], full[0, present])


@pytest.mark.parametrize("encoding", ["sinusoidal", "linear"])
def test_padding_does_not_change_an_encoding(encoding):
    sample = np.zeros((4, 1))
    padded = np.concatenate([sample, np.full((3, 1), NAN)])
    encoder = PositionalEncoding(encoding).fit([sample])
    expected = encoder.transform([sample])[0]
    assert_array_equal(encoder.transform(padded[None])[0, :4], expected)
    assert_array_equal(encoder.transform(Tokens(sample, [0, 4]))[0], expected)


@pytest.mark.parametrize("encoding", ["sinusoidal", "linear"])
def test_the_columns_of_a_table_are_tokens_of_one_feature(encoding):
    X = np.random.default_rng(0).normal(size=(3, 5))
    added = PositionalEncoding(encoding).fit(X)
    as_sequences = PositionalEncoding(encoding).fit_transform(X[:, :, None])
    assert_array_equal(added.transform(X), as_sequences[:, :, 0], strict=True)
    assert_array_equal(added.get_feature_names_out(), [f"x{t}" for t in range(5)])


def test_concatenation_makes_tokens_of_a_table():
    X = np.random.default_rng(0).normal(size=(3, 5))
    encoder = PositionalEncoding(n_components=4, combine="concat").fit(X)
    output = encoder.transform(X)
    assert output.shape == (3, 5, 5)
    assert_array_equal(output[:, :, 0], X)
    assert_allclose(output[2, 3, 1:], sinusoid(3, 4), atol=1e-14)
    assert not hasattr(encoder, "get_feature_names_out")


def test_later_samples_may_be_longer():
    encoder = PositionalEncoding().fit([np.zeros((2, 4))])
    code = encoder.transform([np.zeros((300, 4))])[0]
    assert_allclose(code[299], sinusoid(299, 4), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 3}, r"3 component\(s\) for 2 feature\(s\).*combine='concat'"),
        ({"encoding": "linear"}, r"1 component\(s\) for 2 feature\(s\)"),
        (
            {"encoding": "linear", "n_components": 2, "combine": "concat"},
            "linear encoding has one component; got n_components=2",
        ),
        ({"encoding": "learned"}, "The 'encoding' parameter"),
        ({"n_components": 0}, "The 'n_components' parameter"),
        ({"max_period": 0.5}, "The 'max_period' parameter"),
        ({"combine": "multiply"}, "The 'combine' parameter"),
    ],
)
def test_wrong_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        PositionalEncoding(**settings).fit(np.ones((2, 3, 2)))


def test_must_be_fitted():
    with pytest.raises(NotFittedError):
        PositionalEncoding().transform([np.zeros((2, 4))])
