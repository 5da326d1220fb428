"""`TokenScaler` against `StandardScaler` and against numpy."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skattn import Tokens
from skattn.preprocessing import TokenScaler

SETTINGS = [
    {},
    {"with_mean": False},
    {"with_std": False},
    {"with_mean": False, "with_std": False},
]


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    return [rng.normal(3.0, [1.0, 20.0], size=(n, 2)) for n in (1, 4, 9)]


def assert_same_statistics(scaler, expected):
    for name in ("mean_", "var_", "scale_"):
        actual, reference = getattr(scaler, name), getattr(expected, name)
        if reference is None:
            assert actual is None
        else:
            assert_array_equal(actual, reference, strict=True)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_standard_scaler_on_a_table(settings, weighted, dtype):
    X = load_iris().data.astype(dtype)
    X[:, 2] = 4.0
    weight = np.arange(150.0) % 4 if weighted else None
    expected = StandardScaler(**settings).fit(X, sample_weight=weight)
    scaler = TokenScaler(**settings).fit(X, sample_weight=weight)
    assert_same_statistics(scaler, expected)
    scaled = scaler.transform(X)
    assert_array_equal(scaled, expected.transform(X), strict=True)
    restored = scaler.inverse_transform(scaled)
    assert_array_equal(restored, expected.inverse_transform(scaled), strict=True)
    assert_array_equal(scaler.get_feature_names_out(), expected.get_feature_names_out())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_equals_the_standard_scaler_over_all_tokens(settings, samples):
    rows = np.concatenate(samples)
    expected = StandardScaler(**settings).fit(rows)
    scaler = TokenScaler(**settings).fit(samples)
    assert_same_statistics(scaler, expected)
    scaled = scaler.transform(samples)
    assert [len(sample) for sample in scaled] == [1, 4, 9]
    assert_array_equal(np.concatenate(scaled), expected.transform(rows))


def test_scaled_tokens_have_mean_zero_and_deviation_one(samples):
    rows = np.concatenate(TokenScaler().fit_transform(samples))
    assert_allclose(rows.mean(axis=0), 0.0, atol=1e-14)
    assert_allclose(rows.std(axis=0), 1.0, rtol=1e-14)


def test_absent_tokens_do_not_count(samples):
    padded = np.full((3, 12, 2), np.nan)
    for row, sample in zip(padded, samples, strict=True):
        row[3 : 3 + len(sample)] = sample
    scaler = TokenScaler().fit(padded)
    assert_allclose(scaler.mean_, np.concatenate(samples).mean(axis=0), rtol=1e-14)
    scaled = scaler.transform(padded)
    assert_array_equal(np.isnan(scaled), np.isnan(padded))


def test_constant_features_are_not_divided():
    scaler = TokenScaler().fit([np.full((3, 1), 7.0)])
    assert_array_equal(scaler.scale_, [1.0])
    assert_array_equal(scaler.transform([np.full((1, 1), 9.0)])[0], [[2.0]])


def test_inverse_transform_restores_every_form(samples):
    tokens = Tokens.from_bags(np.concatenate(samples), np.repeat([0, 1, 2], [1, 4, 9]))
    tokens = tokens.with_query(np.eye(3))
    scaler = TokenScaler().fit(samples)
    restored = scaler.inverse_transform(scaler.transform(tokens))
    assert_allclose(restored.values, tokens.values, rtol=1e-14)
    assert_array_equal(restored.query, np.eye(3))
    restored = scaler.inverse_transform(scaler.transform(samples))
    assert_allclose(np.concatenate(restored), tokens.values, rtol=1e-14)
    padded = tokens.to_padded()
    restored = scaler.inverse_transform(scaler.transform(padded))
    assert_allclose(restored, padded, rtol=1e-14)


def test_weighting_a_sample_is_repeating_it(samples):
    weight = [3, 0, 2]
    repeated = [s for s, n in zip(samples, weight, strict=True) for _ in range(n)]
    expected = TokenScaler().fit(repeated)
    scaler = TokenScaler().fit(samples, sample_weight=weight)
    assert_allclose(scaler.mean_, expected.mean_, rtol=1e-13)
    assert_allclose(scaler.scale_, expected.scale_, rtol=1e-13)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, 2.0], r"sample_weight.shape == \(2,\), expected \(3,\)"),
        ([1.0, -2.0, 1.0], "Negative values in data passed to `sample_weight`"),
        ([0.0, 0.0, 0.0], "at least one non-zero number"),
        ([1.0, np.nan, 1.0], "sample_weight contains NaN"),
    ],
)
def test_wrong_weights(weight, message, samples):
    with pytest.raises(ValueError, match=message):
        TokenScaler().fit(samples, sample_weight=weight)


def test_weights_are_routed_through_a_pipeline(samples):
    weight = [3.0, 1.0, 2.0]
    direct = TokenScaler().fit(samples, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        step = TokenScaler().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(step).fit(samples, sample_weight=weight)
    assert_array_equal(pipeline[0].mean_, direct.mean_)


def test_a_frame_stays_a_frame_where_asked():
    frame = load_iris(as_frame=True).data
    scaler = TokenScaler().set_output(transform="pandas")
    scaled = scaler.fit_transform(frame)
    assert isinstance(scaled, pd.DataFrame)
    assert list(scaled.columns) == list(frame.columns)
    assert_allclose(scaler.inverse_transform(scaled), frame, rtol=1e-13)


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_must_be_fitted(method, samples):
    with pytest.raises(NotFittedError):
        getattr(TokenScaler(), method)(samples)


def test_wrong_parameter(samples):
    with pytest.raises(ValueError, match="The 'with_std' parameter"):
        TokenScaler(with_std="yes").fit(samples)
