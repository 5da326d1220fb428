"""`read_input`: what an estimator records at fit, refuses later, and gives back."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

from skattn import Tokens
from skattn._input import read_input

NAN = np.nan
SAMPLES = [np.arange(6.0).reshape(3, 2), np.arange(2.0).reshape(1, 2)]


class Reader(BaseEstimator):
    """Reads its input and does nothing else."""

    def fit(self, X):
        self.read_ = read_input(self, X, reset=True)
        return self

    def read(self, X, **options):
        return read_input(self, X, **options)


class TestWhatIsRecorded:
    @pytest.mark.parametrize("X", [SAMPLES, np.ones((4, 3, 2))], ids=["list", "array"])
    def test_sequences(self, X):
        reader = Reader().fit(X)
        assert reader.input_kind_ == "sequences"
        assert reader.n_features_in_ == 2
        assert not hasattr(reader, "feature_names_in_")

    def test_table(self):
        reader = Reader().fit(np.ones((4, 3)))
        assert reader.input_kind_ == "table"
        assert reader.n_features_in_ == 3

    def test_names_of_columns(self):
        frame = pd.DataFrame(SAMPLES[0], columns=["a", "b"])
        for X in (frame, [frame, frame[:1]]):
            assert_array_equal(Reader().fit(X).feature_names_in_, ["a", "b"])

    def test_given_queries_travel(self):
        read = Reader().fit(SAMPLES).read(SAMPLES, query=[[1.0], [2.0]])
        assert_array_equal(read.tokens.query, [[1.0], [2.0]])
        read = Reader().fit(np.ones((2, 3))).read(np.ones((1, 3)), query=[[1.0]])
        assert_array_equal(read.tokens.query, [[1.0]])


class TestWhatIsRefused:
    def test_one_bare_sequence_after_sequences(self):
        with pytest.raises(ValueError, match=r"for one sequence pass `\[X\]`"):
            Reader().fit(SAMPLES).read(SAMPLES[0])

    def test_a_bare_token_after_sequences(self):
        message = r"(?s)for one sequence pass `\[X\]`.*Reshape your data"
        with pytest.raises(ValueError, match=message):
            Reader().fit(SAMPLES).read(SAMPLES[0][0])

    def test_sequences_after_a_table(self):
        with pytest.raises(ValueError, match=r"fitted on a table .*n_samples, 3"):
            Reader().fit(np.ones((4, 3))).read(np.ones((4, 3, 2)))

    def test_another_number_of_features(self):
        message = "X has 3 features, but Reader is expecting 2 features as input"
        with pytest.raises(ValueError, match=message):
            Reader().fit(SAMPLES).read([np.ones((5, 3))])
        with pytest.raises(ValueError, match=message):
            Reader().fit(np.ones((4, 2))).read(np.ones((4, 3)))

    def test_channels_first(self):
        reader = Reader().fit(np.ones((4, 9, 2)))
        with pytest.raises(ValueError, match=r"transpose it or use .*channels_first"):
            reader.read(np.ones((4, 2, 9)))

    def test_other_names_of_columns(self):
        frame = pd.DataFrame(SAMPLES[0], columns=["a", "b"])
        other = frame.rename(columns={"b": "c"})
        for fitted, given in ((frame, other), ([frame], [other])):
            with pytest.raises(ValueError, match="feature names should match"):
                Reader().fit(fitted).read(given)

    def test_missing_cells_name_the_remedy(self):
        X = np.array([[1.0, NAN], [2.0, 3.0]])
        with pytest.raises(ValueError, match=r"(?s)contains NaN.*missing='absent'"):
            Reader().fit(X)
        read = Reader().fit(X[1:]).read(X, allow_missing=True)
        assert_array_equal(read.tokens.cells, X)

    def test_text_in_a_table_names_the_remedy(self):
        X = np.array([["red", 1.0]], dtype=object)
        with pytest.raises(ValueError, match=r"(?s)convert string.*ColumnTransformer"):
            Reader().fit(X)
        with pytest.raises(ValueError, match=r"\['colour'\].*ColumnTransformer"):
            Reader().fit(pd.DataFrame(X, columns=["colour", "x"]))


def test_samples_may_be_longer_than_any_at_fit():
    read = Reader().fit(SAMPLES).read([np.ones((50, 2))])
    assert_array_equal(read.tokens.lengths, [50])
    reader = Reader().fit(np.ones((2, 3, 2)))
    assert_array_equal(reader.read(np.ones((1, 50, 2))).tokens.lengths, [50])


class TestOneValueAToken:
    """Outputs take the form of the input, with a fill at absent tokens."""

    padded = np.array([[[NAN], [1.0], [2.0]], [[3.0], [NAN], [NAN]]])

    def per_token(self, X, values):
        return Reader().fit(X).read_.per_token(values, fill=0.0)

    def test_array(self):
        output = self.per_token(self.padded, np.array([10.0, 20.0, 30.0]))
        assert_array_equal(output, [[0.0, 10.0, 20.0], [30.0, 0.0, 0.0]], strict=True)

    def test_list_of_equal_lengths_is_still_a_list(self):
        output = self.per_token(list(self.padded), np.array([10.0, 20.0, 30.0]))
        assert isinstance(output, list)
        assert_array_equal(output, [[0.0, 10.0, 20.0], [30.0, 0.0, 0.0]])

    def test_tokens(self):
        tokens = Tokens.from_padded(self.padded)[[1, 0]]
        output = self.per_token(tokens, np.array([30.0, 10.0, 20.0]))
        assert isinstance(output, list)
        assert_array_equal(output, [[30.0, 0.0, 0.0], [0.0, 10.0, 20.0]])

    def test_ragged_list(self):
        output = self.per_token(SAMPLES, np.array([1.0, 2.0, 3.0, 4.0]))
        assert [sample.tolist() for sample in output] == [[1.0, 2.0, 3.0], [4.0]]

    def test_table(self):
        output = self.per_token(np.ones((2, 3)), np.arange(6.0))
        assert_array_equal(output, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])

    def test_rows_of_values_and_their_precision(self):
        values = np.arange(6, dtype=np.float32).reshape(3, 2)
        output = self.per_token(self.padded, values)
        assert output.shape == (2, 3, 2)
        assert output.dtype == np.float32
        assert_array_equal(output[0, 2], values[1])
