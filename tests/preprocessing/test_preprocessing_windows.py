"""`WindowTokenizer` against numpy's sliding windows and plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from skattn import Tokens, check_tokens
from skattn.preprocessing import WindowTokenizer

NAN = np.nan


@pytest.mark.parametrize(
    ("length", "step"), [(1, 1), (3, 1), (3, 2), (3, 3), (2, 5), (10, 1)]
)
def test_rows_of_a_table_are_series(length, step):
    X = np.random.default_rng(0).normal(size=(4, 10))
    windows = WindowTokenizer(length, step=step).fit_transform(X)
    expected = sliding_window_view(X, length, axis=1)[:, ::step]
    assert_array_equal(windows, expected, strict=True)


def test_windows_touch_by_default_and_leave_the_rest_out():
    windows = WindowTokenizer(3).fit_transform(np.arange(8.0)[None])
    assert_array_equal(windows, [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]])


def test_features_of_sequences_run_time_by_time():
    sample = np.arange(12.0).reshape(6, 2)
    windows = WindowTokenizer(3).fit_transform([sample, sample[:4]])
    assert_array_equal(windows[0], [np.arange(6.0), np.arange(6.0, 12.0)])
    assert_array_equal(windows[1], [np.arange(6.0)])


@pytest.mark.parametrize(
    ("length", "n_columns", "expected"),
    [(0.25, 20, 5), (0.25, 1, 1), (0.5, 9, 4), (1.0, 7, 7), (0.29, 100, 29)],
)
def test_length_as_a_share_of_a_series(length, n_columns, expected):
    tokenizer = WindowTokenizer(length).fit(np.zeros((2, n_columns)))
    assert tokenizer.length_ == tokenizer.step_ == expected


def test_length_as_a_share_of_the_shortest_series_whatever_its_padding():
    samples = [np.zeros((20, 1)), np.zeros((8, 1))]
    padded = np.full((2, 20, 1), NAN)
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    for X in (samples, padded, check_tokens(padded)):
        assert WindowTokenizer(0.5).fit(X).length_ == 4


@pytest.mark.parametrize(
    ("step", "expected"), [(None, 8), (0.5, 4), (0.01, 1), (1.0, 8), (3, 3), (20, 20)]
)
def test_step_as_a_share_of_the_length(step, expected):
    assert WindowTokenizer(8, step=step).fit(np.zeros((1, 30))).step_ == expected


def test_summaries_agree_with_numpy_and_with_a_fitted_line():
    sample = np.random.default_rng(0).normal(size=(12, 3))
    tokenizer = WindowTokenizer(
        5,
        step=2,
        summary=["slope", "min", "max", "std", "mean"],
        keep_values=False,
    )
    output = tokenizer.fit_transform([sample])[0]
    assert output.shape == (4, 15)
    for window, features in enumerate(output):
        values = sample[2 * window : 2 * window + 5]
        slope = np.polyfit(np.arange(5), values, deg=1)[0]
        expected = [
            slope,
            values.min(axis=0),
            values.max(axis=0),
            values.std(axis=0),
            values.mean(axis=0),
        ]
        assert_allclose(features, np.concatenate(expected), rtol=1e-12, atol=1e-14)


def test_summaries_follow_the_values():
    X = np.array([[1.0, 3.0, 8.0, 6.0]])
    windows = WindowTokenizer(2, summary=("max", "slope")).fit_transform(X)
    assert_array_equal(windows, [[[1.0, 3.0, 3.0, 2.0], [8.0, 6.0, 8.0, -2.0]]])


def test_the_slope_of_a_single_time_is_zero():
    windows = WindowTokenizer(1, summary=["slope"]).fit_transform([[5.0, 7.0]])
    assert_array_equal(windows, [[[5.0, 0.0], [7.0, 0.0]]])


def test_a_window_with_an_absent_token_is_absent():
    sample = np.arange(9.0)[:, None]
    sample[4] = NAN
    windows = WindowTokenizer(3).fit_transform([sample])[0]
    assert_array_equal(windows, [[0, 1, 2], [NAN, NAN, NAN], [6, 7, 8]])


def test_a_window_never_reaches_into_the_next_sample():
    first = np.arange(5.0)[:, None]
    second = np.arange(9.0)[:, None]
    # The rows of the two then count on from 0 to 8 without a gap.
    second[:5] = NAN
    windows = WindowTokenizer(3).fit_transform([first, second])
    assert_array_equal(windows[0], [[0, 1, 2]])
    assert_array_equal(windows[1], [[NAN] * 3, [NAN] * 3, [6, 7, 8]])


def test_tokens_keep_positions_and_queries():
    sample = np.arange(9.0)[:, None]
    sample[1] = NAN
    tokens = check_tokens([sample, sample[3:]], query=np.eye(2))
    windows = WindowTokenizer(3).fit_transform(tokens)
    assert_array_equal(windows.positions, [1, 2, 0, 1])
    assert_array_equal(windows.n_positions, [3, 2])
    assert_array_equal(windows.lengths, [2, 2])
    assert_array_equal(windows.query, np.eye(2))


def windows_by_loops(sample, length, step):
    """All windows of a sample; those with an absent token as NaN."""
    windows = []
    for start in range(0, len(sample) - length + 1, step):
        window = sample[start : start + length].ravel()
        windows.append(np.full_like(window, NAN) if np.isnan(window).any() else window)
    return np.array(windows)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_samples=st.integers(1, 5),
    n_features=st.integers(1, 3),
    length=st.integers(1, 4),
    step=st.integers(1, 6),
)
@settings(max_examples=80, deadline=None)
def test_agrees_with_plain_loops(seed, n_samples, n_features, length, step):
    rng = np.random.default_rng(seed)
    samples = []
    for n_tokens in rng.integers(length, 15, size=n_samples):
        sample = rng.normal(size=(n_tokens, n_features))
        sample[rng.random(n_tokens) < 0.15] = NAN
        # One complete window, as every sample must have.
        sample[:length] = rng.normal(size=(length, n_features))
        samples.append(sample)
    output = WindowTokenizer(length, step=step).fit_transform(samples)
    for sample, windows in zip(samples, output, strict=True):
        assert_array_equal(windows, windows_by_loops(sample, length, step))


def test_a_series_that_is_too_short_is_named():
    X = [np.zeros((8, 2)), np.zeros((4, 2))]
    message = r"X\[1\] has no window of 5 consecutive tokens: it has 4 .*smaller length"
    with pytest.raises(ValueError, match=message):
        WindowTokenizer(5).fit(X)
    with pytest.raises(ValueError, match=message):
        WindowTokenizer(5).fit(X[:1]).transform(X)
    with pytest.raises(ValueError, match=r"X\[0\] has no window of 5 .* it has 4"):
        WindowTokenizer(5).fit(np.zeros((3, 4)))


def test_a_series_whose_windows_are_all_absent_is_named():
    X = np.zeros((2, 4, 1))
    X[1, [1, 2]] = NAN
    with pytest.raises(ValueError, match=r"X\[1\] has no window of 2 .*it has 2 token"):
        WindowTokenizer(2).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"length": 0}, "The 'length' parameter"),
        ({"length": 1.5}, "The 'length' parameter"),
        ({"length": 0.0}, "The 'length' parameter"),
        ({"step": 0}, "The 'step' parameter"),
        ({"step": 2.5}, "The 'step' parameter"),
        ({"summary": "mean"}, "The 'summary' parameter"),
        (
            {"summary": ["mean", "mode"]},
            r"unknown names \['mode'\]; choose from .*slope",
        ),
        ({"keep_values": False}, "keep_values=False leaves a token without features"),
        ({"keep_values": False, "summary": []}, "name some in `summary`"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        WindowTokenizer(**parameters).fit(np.zeros((3, 8)))


def test_must_be_fitted():
    with pytest.raises(NotFittedError):
        WindowTokenizer().transform(np.zeros((3, 8)))


def test_windows_can_be_cut_again():
    tokens = Tokens(np.arange(12.0)[:, None], [0, 12])
    once = WindowTokenizer(2).fit_transform(tokens)
    twice = WindowTokenizer(2).fit_transform(once)
    assert_array_equal(twice.values, np.arange(12.0).reshape(3, 4))
