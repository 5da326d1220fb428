"""The named constructors, each against the samples that it describes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skattn import Tokens

NAN = np.nan


def as_lists(tokens):
    return [sample.tolist() for sample in tokens]


class TestFromPadded:
    X = np.arange(12.0).reshape(2, 3, 2)

    def test_nan_marks_absent_tokens(self):
        X = self.X.copy()
        X[0, 1] = NAN
        tokens = Tokens.from_padded(X)
        assert as_lists(tokens) == [[[0, 1], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
        assert_array_equal(tokens.positions, [0, 2, 0, 1, 2])
        assert_array_equal(tokens.n_positions, [3, 3])

    def test_lengths_cut_whatever_the_padding_is(self):
        X = self.X.copy()
        X[0, 1:] = [[NAN, 1.0], [np.inf, 0.0]]
        tokens = Tokens.from_padded(X, lengths=[1, 3])
        assert as_lists(tokens) == [[[0, 1]], [[6, 7], [8, 9], [10, 11]]]
        assert_array_equal(tokens.n_positions, [1, 3])

    def test_mask_chooses_tokens_whatever_the_others_are(self):
        X = self.X.copy()
        X[1, 1, 0] = np.inf
        mask = np.array([[False, True, True], [True, False, True]])
        tokens = Tokens.from_padded(X, mask=mask, query=[[1.0], [2.0]])
        assert as_lists(tokens) == [[[2, 3], [4, 5]], [[6, 7], [10, 11]]]
        assert_array_equal(tokens.positions, [1, 2, 0, 2])
        assert_array_equal(tokens.query, [[1.0], [2.0]])

    def test_tokens_within_lengths_may_be_absent(self):
        X = self.X.copy()
        X[0, 0] = NAN
        tokens = Tokens.from_padded(X, lengths=[2, 1])
        assert_array_equal(tokens.positions, [1, 0])

    def test_undoes_to_padded(self):
        X = self.X.copy()
        X[0, 1] = NAN
        assert_array_equal(Tokens.from_padded(X).to_padded(), X, strict=True)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"lengths": [1, 3], "mask": np.ones((2, 3), bool)}, "at most one"),
            ({"lengths": [1]}, "array of 2 integers"),
            ({"lengths": [1.0, 2.0]}, "array of 2 integers"),
            ({"lengths": [1, 4]}, r"lengths\[1\] is 4.*between 1 and the 3"),
            ({"lengths": [0, 3]}, r"lengths\[0\] is 0.*between 1"),
            ({"mask": np.ones((2, 2), bool)}, r"mask must .* = \(2, 3\)"),
            ({"mask": np.ones((2, 3), int)}, "mask must be an array of bool"),
            ({"mask": np.eye(2, 3) > 1}, r"X\[0\] has no token"),
            ({"query": [[1.0]]}, "query has 1 rows for 2 samples"),
        ],
    )
    def test_refuses(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            Tokens.from_padded(self.X, **arguments)

    def test_refuses_other_dimensions(self):
        with pytest.raises(ValueError, match="n_samples, n_positions, n_features"):
            Tokens.from_padded(np.ones((2, 3)))

    def test_refuses_a_partly_missing_token(self):
        X = self.X.copy()
        X[1, 2, 0] = NAN
        with pytest.raises(ValueError, match=r"X\[1\].*token 2"):
            Tokens.from_padded(X)


class TestFromLong:
    frame = pd.DataFrame(
        {
            "x": [1, 2, 3, 4, 5],
            "who": ["b", "a", "b", "c", "a"],
            "when": [9.0, 2.0, 1.0, 0.0, 1.0],
            "y": [0.5, 1.5, 2.5, 3.5, 4.5],
        }
    )

    def test_samples_come_in_order_of_appearance(self):
        tokens = Tokens.from_long(self.frame.drop(columns="when"), sample="who")
        assert as_lists(tokens) == [
            [[1, 0.5], [3, 2.5]],
            [[2, 1.5], [5, 4.5]],
            [[4, 3.5]],
        ]

    def test_tokens_are_sorted_within_their_sample(self):
        tokens = Tokens.from_long(self.frame, sample="who", order="when")
        assert as_lists(tokens) == [
            [[3, 2.5], [1, 0.5]],
            [[5, 4.5], [2, 1.5]],
            [[4, 3.5]],
        ]
        assert_array_equal(tokens.positions, [0, 1, 0, 1, 0])

    def test_ties_in_order_keep_the_order_of_rows(self):
        frame = pd.DataFrame({"who": [1, 1, 1], "when": [1, 0, 1], "x": [5, 6, 7]})
        tokens = Tokens.from_long(frame, sample="who", order="when")
        assert as_lists(tokens) == [[[6], [5], [7]]]

    def test_order_may_be_a_time(self):
        frame = self.frame.assign(when=pd.to_datetime(self.frame["when"], unit="D"))
        tokens = Tokens.from_long(frame, sample="who", order="when")
        assert tokens[0].tolist() == [[3, 2.5], [1, 0.5]]

    def test_agrees_with_grouping_by_pandas(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"])
        frame["who"] = rng.integers(9, size=60)
        frame["when"] = rng.permutation(60)
        tokens = Tokens.from_long(frame, sample="who", order="when")
        groups = frame.sort_values("when").groupby("who")
        for name, sample in zip(frame["who"].unique(), tokens, strict=True):
            assert_array_equal(sample, groups.get_group(name)[["x", "y"]])

    def test_rows_of_nan_are_absent_tokens(self):
        frame = pd.DataFrame({"who": [1, 1, 2], "x": [NAN, 1.0, 2.0]})
        tokens = Tokens.from_long(frame, sample="who")
        assert_array_equal(tokens.positions, [1, 0])

    def test_takes_queries(self):
        tokens = Tokens.from_long(
            self.frame, sample="who", order="when", query=np.eye(3)
        )
        assert_array_equal(tokens.query, np.eye(3))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"sample": "id"}, r"sample='id' is not a column.*\['x', 'who'"),
            ({"order": "time"}, r"order='time' is not a column"),
            ({"df": frame[["who", "when"]]}, "no feature"),
            ({"df": frame[:0]}, r"0 sample\(s\)"),
            ({"df": frame.assign(y="red")}, "column 'y' has values .* not numbers"),
        ],
    )
    def test_refuses(self, change, message):
        arguments = {"df": self.frame, "sample": "who", "order": "when", **change}
        with pytest.raises(ValueError, match=message):
            Tokens.from_long(**arguments)

    @pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT])
    @pytest.mark.parametrize("column", ["who", "when"])
    def test_refuses_missing_samples_and_orders(self, column, missing):
        frame = self.frame.astype({column: object})
        frame.loc[3, column] = missing
        message = f"column '{column}' has a missing value in row 3; fill or drop"
        with pytest.raises(ValueError, match=message):
            Tokens.from_long(frame, sample="who", order="when")

    def test_partly_missing_tokens_name_sample_and_token(self):
        frame = self.frame.assign(y=[0.0, 0.0, 0.0, 0.0, NAN])
        with pytest.raises(ValueError, match=r"samples\[1\].*token 1"):
            Tokens.from_long(frame.drop(columns="when"), sample="who")


class TestFromBags:
    def test_gathers_scattered_instances(self):
        tokens = Tokens.from_bags(
            [[1.0], [2.0], [3.0], [4.0]], ["b", "a", "b", "c"], query=np.eye(3)
        )
        assert as_lists(tokens) == [[[1], [3]], [[2]], [[4]]]
        assert_array_equal(tokens.query, np.eye(3))

    @pytest.mark.parametrize(
        ("instances", "bag_ids", "message"),
        [
            ([1.0, 2.0], [0, 1], r"shape \(n_instances, n_features\)"),
            (np.empty((0, 2)), [], r"0 sample\(s\)"),
            (np.empty((2, 0)), [0, 1], r"0 feature\(s\)"),
            ([[1.0], [2.0]], [0], "bag_ids must name the sample of each of the 2"),
            ([[1.0], [2.0]], [[0, 1]], "bag_ids must name the sample"),
            ([[1.0], [2.0]], [0.0, NAN], "bag_ids has a missing value in row 1"),
            ([[1.0], [np.inf]], [0, 0], r"samples\[0\] contains infinity in token 1"),
            ([["a"], ["b"]], [0, 1], "instances has values .* not numbers"),
        ],
    )
    def test_refuses(self, instances, bag_ids, message):
        with pytest.raises(ValueError, match=message):
            Tokens.from_bags(instances, bag_ids)


class TestFromChannelsFirst:
    def test_transposes_an_array(self):
        X = np.random.default_rng(0).normal(size=(4, 2, 5))
        X[1, :, 3:] = NAN
        tokens = Tokens.from_channels_first(X, query=np.eye(4))
        assert_array_equal(tokens.to_padded(), X.transpose(0, 2, 1))
        assert_array_equal(tokens.lengths, [5, 3, 5, 5])
        assert_array_equal(tokens.query, np.eye(4))

    @pytest.mark.parametrize("as_objects", [False, True])
    def test_transposes_ragged_series(self, as_objects):
        X = [np.arange(6.0).reshape(2, 3), np.arange(2.0).reshape(2, 1)]
        if as_objects:
            X = np.array([*X, None], dtype=object)[:2]
        tokens = Tokens.from_channels_first(X)
        assert as_lists(tokens) == [[[0, 3], [1, 4], [2, 5]], [[0, 1]]]

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([], r"0 sample\(s\)"),
            (np.ones((2, 3)), "n_samples, n_channels, n_times"),
            ([np.ones((2, 3)), np.ones((3, 3))], r"X\[1\] has 3 features"),
            ([np.ones(3)], r"X\[0\] has 1 dimension"),
        ],
    )
    def test_refuses(self, X, message):
        with pytest.raises(ValueError, match=message):
            Tokens.from_channels_first(X)
