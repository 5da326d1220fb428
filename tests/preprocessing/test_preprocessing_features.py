"""`FeatureTokenizer`: a table as tokens, one a column."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from skattn import Tokens, check_tokens
from skattn.preprocessing import FeatureTokenizer

NAN = np.nan
CELLS = np.array([[5.0, 0.0, -1.0], [2.0, 7.0, 4.0]])


def test_a_token_is_its_column_and_its_value():
    tokens = FeatureTokenizer().fit_transform(CELLS)
    assert tokens.shape == (2, 3, 6)
    for row in range(2):
        for column in range(3):
            name = np.eye(3)[column]
            expected = np.concatenate([name, CELLS[row, column] * name])
            assert_array_equal(tokens[row, column], expected)


def test_is_the_explicit_form_of_what_estimators_read():
    explicit = check_tokens(FeatureTokenizer().fit_transform(CELLS))
    inside = check_tokens(CELLS)
    assert_array_equal(explicit.values, inside.values)
    assert_array_equal(explicit.offsets, inside.offsets)


def test_missing_cells_become_absent_tokens():
    X = CELLS.copy()
    X[0, 1] = X[1, 2] = NAN
    tokenizer = FeatureTokenizer(missing="absent").fit(CELLS)
    tokens = tokenizer.transform(X)
    present = ~np.isnan(X)
    assert np.isnan(tokens[~present]).all()
    assert_array_equal(tokens[present], tokenizer.transform(CELLS)[present])
    assert_array_equal(check_tokens(tokens).positions, [0, 2, 0, 1])
    assert_array_equal(FeatureTokenizer(missing="absent").fit_transform(X), tokens)


def test_positions_are_columns_of_a_frame():
    frame = pd.DataFrame(CELLS, columns=["x", "y", "z"])
    frame.iloc[0, 0] = None
    tokenizer = FeatureTokenizer(missing="absent").fit(frame)
    tokens = check_tokens(tokenizer.transform(frame))
    names = tokenizer.feature_names_in_[tokens.positions]
    assert names.tolist() == ["y", "z", "x", "y", "z"]


@pytest.mark.parametrize("missing", [{}, {"missing": "error"}])
def test_missing_cells_are_an_error_by_default(missing):
    X = CELLS.copy()
    X[0, 1] = NAN
    message = r"(?s)contains NaN.*FeatureTokenizer\(missing='absent'\)"
    with pytest.raises(ValueError, match=message):
        FeatureTokenizer(**missing).fit(X)
    with pytest.raises(ValueError, match=message):
        FeatureTokenizer(**missing).fit(CELLS).transform(X)


def test_a_row_of_missing_cells_is_an_error():
    X = np.array([[1.0, NAN], [NAN, NAN]])
    tokenizer = FeatureTokenizer(missing="absent")
    with pytest.raises(ValueError, match=r"X\[1\] has no token.*Remove the sample"):
        tokenizer.fit(X)
    with pytest.raises(ValueError, match=r"X\[1\] has no token.*Remove the sample"):
        tokenizer.fit(X[:1]).transform(X)


def test_infinite_cells_are_an_error_even_where_missing_ones_are_not():
    with pytest.raises(ValueError, match="infinity"):
        FeatureTokenizer(missing="absent").fit(np.array([[1.0, np.inf]]))


@pytest.mark.parametrize(
    "X",
    [[CELLS, CELLS], np.stack([CELLS, CELLS]), Tokens(CELLS, [0, 2])],
    ids=["list", "array", "tokens"],
)
def test_sequences_are_refused(X):
    message = "X holds sequences, but FeatureTokenizer .*Leave it out"
    with pytest.raises(ValueError, match=message):
        FeatureTokenizer().fit(X)
    with pytest.raises(ValueError, match=message):
        FeatureTokenizer().fit(CELLS).transform(X)


def test_columns_that_are_not_numbers_are_named():
    frame = pd.DataFrame({"x": [1.0], "colour": ["red"]})
    with pytest.raises(ValueError, match=r"\['colour'\].*ColumnTransformer"):
        FeatureTokenizer().fit(frame)


def test_wrong_parameter():
    with pytest.raises(ValueError, match="The 'missing' parameter"):
        FeatureTokenizer(missing="drop").fit(CELLS)


def test_must_be_fitted():
    with pytest.raises(NotFittedError):
        FeatureTokenizer().transform(CELLS)
