"""What cannot be read is refused with the sample, the token and the remedy named."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skattn import check_tokens

GOOD = np.ones((3, 2))


def changed(token, feature, value):
    sample = GOOD.copy()
    sample[token, feature] = value
    return sample


@pytest.mark.parametrize(
    "X",
    [
        [],
        (),
        np.empty((0, 3, 2)),
        np.empty((0, 3)),
        np.empty(0, dtype=object),
        check_tokens([GOOD])[:0],
    ],
    ids=["list", "tuple", "array", "table", "objects", "tokens"],
)
def test_no_sample(X):
    with pytest.raises(ValueError, match=r"0 sample\(s\).* while a minimum of 1"):
        check_tokens(X)


@pytest.mark.parametrize(
    "X",
    [
        [GOOD, np.empty((0, 2))],
        [GOOD, []],
        [GOOD, np.full((3, 2), np.nan)],
        np.stack([GOOD, np.full((3, 2), np.nan)]),
    ],
    ids=["empty", "empty list", "list of absent", "array of absent"],
)
def test_a_sample_without_any_token(X):
    message = r"X\[1\] has no token: .* at least one .*Remove the sample"
    with pytest.raises(ValueError, match=message):
        check_tokens(X)


def test_an_array_without_positions():
    with pytest.raises(ValueError, match=r"X\[0\] has no token"):
        check_tokens(np.empty((2, 0, 3)))


@pytest.mark.parametrize("as_array", [False, True])
def test_a_partly_missing_token(as_array):
    X = [GOOD, changed(2, 1, np.nan)]
    message = r"X\[1\] has a partly missing token: token 2 .*Impute.*all its features"
    with pytest.raises(ValueError, match=message):
        check_tokens(np.stack(X) if as_array else X)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("as_array", [False, True])
def test_infinite_values(value, as_array):
    X = [GOOD, changed(1, 0, value)]
    message = r"X\[1\] contains infinity in token 1.*Clip or remove"
    with pytest.raises(ValueError, match=message):
        check_tokens(np.stack(X) if as_array else X)


def test_infinity_beside_nan_is_a_partly_missing_token():
    X = [changed(1, 0, np.nan)]
    X[0][1, 1] = np.inf
    with pytest.raises(ValueError, match=r"X\[0\].*token 1"):
        check_tokens(X)


def test_differing_numbers_of_features():
    message = r"X\[2\] has 3 features, but X\[0\] has 2.*same number of features"
    with pytest.raises(ValueError, match=message):
        check_tokens([GOOD, GOOD, np.ones((3, 3))])


def test_no_features():
    message = r"Found array with 0 feature\(s\) \(shape=\(2, 3, 0\)\)"
    with pytest.raises(ValueError, match=message):
        check_tokens(np.empty((2, 3, 0)))
    with pytest.raises(ValueError, match=r"0 feature\(s\).*tokens of X\[0\]"):
        check_tokens([np.empty((3, 0))])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        check_tokens(np.empty((3, 0)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([GOOD, np.array([["a", "b"]])], r"X\[1\] has values .* not numbers.*Encode"),
        ([[["a", "b"]]], r"X\[0\] has values .* not numbers.*Encode"),
        (np.array([[["a", "b"]]]), "X has values .* not numbers.*Encode"),
        (np.array([[["a", 1.0]]], dtype=object), "X has values that are not numbers"),
        ([np.array([[1.0, "a"]], dtype=object)], r"X\[0\] has values .* not numbers"),
        ([np.array([["2020-01-01"]], dtype="M8[D]")], "not numbers"),
        ([np.array([[{}]], dtype=object)], r"X\[0\] has values .* not numbers"),
    ],
)
def test_strings_and_other_things_that_are_not_numbers(X, message):
    with pytest.raises(ValueError, match=message):
        check_tokens(X)


def test_columns_of_frames_that_are_not_numbers_are_named():
    frame = pd.DataFrame({"x": [1.0, 2.0], "colour": ["red", "blue"]})
    for X in (frame, [frame]):
        with pytest.raises(ValueError, match=r"not numbers: \['colour'\].*OneHotEncod"):
            check_tokens(X)


def test_columns_of_frames_must_agree():
    frames = [pd.DataFrame(GOOD, columns=names) for names in (["x", "y"], ["y", "x"])]
    message = r"X\[1\] has the columns \['y', 'x'\], but X\[0\].*same order"
    with pytest.raises(ValueError, match=message):
        check_tokens(frames)


def test_missing_values_of_nullable_frames_are_refused():
    frame = pd.DataFrame({"x": [1, None], "y": [2, 3]}, dtype="Int64")
    with pytest.raises(ValueError, match=r"X\[0\]"):
        check_tokens([frame])


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_input(make):
    with pytest.raises(TypeError, match=r"Sparse data was passed.* dense data is requ"):
        check_tokens(make(GOOD))
    with pytest.raises(
        TypeError, match=r"Sparse data was passed for X\[1\], but dense"
    ):
        check_tokens([GOOD, make(GOOD)])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "Expected 2D array, got 1D array instead"),
        (np.float64(3.0), "Expected 2D array, got scalar array instead"),
        ([1.0, 2.0], "Expected 2D array, got 1D array instead"),
        (np.ones((2, 2, 2, 2)), "Found array with dim 4.*n_samples, n_tokens"),
        ([GOOD, np.ones((2, 2, 2))], r"X\[1\] has 3 dimensions.*n_tokens, n_features"),
        ([[[[1.0]]]], r"X\[0\] has 3 dimensions"),
        ([GOOD, np.ones(2)], r"X\[1\] has 1 dimension\(s\).*n_tokens, n_features"),
        (None, "Expected 2D array"),
    ],
)
def test_wrong_dimension(X, message):
    with pytest.raises(ValueError, match=message):
        check_tokens(X)


def test_missing_cells_of_a_table():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        check_tokens(changed(0, 0, np.nan))


@pytest.mark.parametrize("X", [[np.ones((1, 1)) * 1j], np.ones((1, 1, 1)) * 1j])
def test_complex_values(X):
    with pytest.raises(ValueError, match="Complex data not supported"):
        check_tokens(X)


def test_queries_must_fit_the_samples():
    with pytest.raises(ValueError, match="query has 1 rows for 2 samples"):
        check_tokens([GOOD, GOOD], query=[[1.0]])
    with pytest.raises(ValueError, match="query has 1 rows for 3 samples"):
        check_tokens(GOOD, query=[[1.0]])


@pytest.mark.parametrize(
    ("X", "place"),
    [
        (
            [GOOD, np.array([[1.0, 2.0], [3.0, "a"]], dtype=object)],
            r"X\[1\].*token 1\.",
        ),
        (
            np.array([[[1.0], [2.0]], [[3.0], ["a"]]], dtype=object),
            r"X .*sample 1, token 1\.",
        ),
        ([GOOD, np.array([["1", "2"], ["3", "a"]])], r"X\[1\].*token 1\."),
    ],
    ids=["list", "array", "strings"],
)
def test_what_is_no_number_is_named_by_sample_and_token(X, place):
    with pytest.raises(ValueError, match=f"{place} Encode"):
        check_tokens(X)


def test_nested_lists_of_unequal_rows():
    with pytest.raises(ValueError, match=r"X\[1\] is a nested list .*every token"):
        check_tokens([GOOD, [[1.0, 2.0], [3.0]]])


def test_sequences_of_numbers_without_an_axis_of_features():
    with pytest.raises(ValueError, match=r"X\[2\] differs .*\(n_tokens, 1\)"):
        check_tokens([np.ones(3), np.ones(3), np.ones(2)])


def test_missing_values_of_pandas_are_missing():
    column = pd.array([1, None, 3], dtype="Int64")
    tokens = check_tokens([pd.DataFrame({"a": column, "b": column})])
    np.testing.assert_array_equal(tokens.positions, [0, 2])
    np.testing.assert_array_equal(tokens.values, [[1, 1], [3, 3]])
