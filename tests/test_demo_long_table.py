"""Reading a user's long table: what is understood, and what is refused how."""

import gzip
import re
from textwrap import dedent

import numpy as np
import pytest

from skattn._demo.errors import UserError
from skattn._demo.long_table import feasible_folds, read_long_table

GOOD = """
    id,t,x,label,y
    007,2,1.5,None,1
    7,1,3,b,2
    007,1,4.5,None,3
"""


@pytest.fixture
def read(tmp_path):
    def read(text, **columns):
        path = tmp_path / "table.csv"
        path.write_text(dedent(text).lstrip(), encoding="utf-8")
        return read_long_table(path, **{"sample": "id", "target": "label", **columns})

    return read


def test_samples_come_in_order_of_appearance_with_their_labels(read):
    X, y, names = read(GOOD, order="t")
    first, second = X.to_list()
    np.testing.assert_array_equal(first, [[4.5, 3], [1.5, 1]])
    np.testing.assert_array_equal(second, [[3, 2]])
    assert y.tolist() == ["None", "b"]
    assert names.tolist() == ["007", "7"]


def test_without_an_order_the_rows_keep_theirs_and_its_column_is_a_feature(read):
    X, _, _ = read(GOOD)
    np.testing.assert_array_equal(X[0], [[2, 1.5, 1], [1, 4.5, 3]])


def test_truth_values_are_numbers(read):
    X, _, _ = read("id,x,label\na,True,1\nb,False,2\n")
    np.testing.assert_array_equal(X.values, [[1.0], [0.0]])


def test_reads_compressed_files(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(dedent(GOOD).lstrip().encode()))
    X, _, _ = read_long_table(path, sample="id", target="label")
    assert len(X) == 2


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (GOOD, {"sample": "ID"}, "--sample: there is no column 'ID'; the columns are"),
        (GOOD, {"target": "z"}, "--target: there is no column 'z'"),
        (GOOD, {"order": "z"}, "--order: there is no column 'z'"),
        (GOOD, {"order": "id"}, "must name different columns"),
        ("id,x,label\n", {}, "has no rows below its header"),
        ("", {}, "cannot be read as csv"),
        ("id,x,label\na,1,1,1\n", {}, "cannot be read as csv"),
        ('id,x,label\n"a,1,1\n', {}, "cannot be read as csv"),
        (
            "id,x,label\na,1,1\na,2,\n",
            {},
            "'label' has 1 empty cell(s), the first in row 2 below the header",
        ),
        (
            "id,x,label\n ,1,1\na,2,1\n",
            {},
            "'id' has 1 empty cell(s), the first in row 1 below the header",
        ),
        (
            "id,x,label\na,1,1\nb,2,1\nb,3,2\n",
            {},
            "1 sample(s) have labels that differ between their rows, for example "
            "sample 'b': '1', '2'",
        ),
        (
            "id,x,label,name\na,1,1,u\nb,2,2,v\n",
            {},
            "Features must be numbers, but these columns are not: 'name'. Remove them",
        ),
        ("id,label\na,1\nb,2\n", {}, "The table has no feature"),
        (
            "id,x,label\na,1,1\nb,,2\n",
            {},
            "1 cell(s) of the features are missing or infinite, the first in row 2 "
            "below the header, column 'x' (sample 'b')",
        ),
        ("id,x,label\na,inf,1\nb,2,2\n", {}, "missing or infinite"),
        (
            "id,x,label,t\na,1,1,1\na,2,1,\n",
            {"order": "t"},
            "'t' has 1 empty cell(s), the first in row 2 below the header",
        ),
        (
            "id;x;label\na;1;1\nb;2;2\n",
            {},
            "the columns are 'id;x;label'. Columns must be separated by commas.",
        ),
    ],
)
def test_refuses(read, text, columns, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read(text, **columns)


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_refuses_what_is_not_a_file(tmp_path, name):
    with pytest.raises(UserError, match="There is no file"):
        read_long_table(tmp_path / name, sample="id", target="label")


def test_folds_are_at_most_the_samples_of_the_smallest_class():
    y = np.repeat(["a", "b"], [9, 3])
    assert feasible_folds(y, 5) == 3
    assert feasible_folds(y, 2) == 2


def test_refuses_labels_that_cannot_be_cross_validated():
    with pytest.raises(UserError, match="All samples have the label 'a'"):
        feasible_folds(np.array(["a", "a"]), 5)
    with pytest.raises(UserError, match=r"'0\.1', '0\.2'\. compare tells"):
        feasible_folds(np.array(["0.1", "0.2"]), 5)
    with pytest.raises(UserError, match="'c': only one sample has this label"):
        feasible_folds(np.array(["a", "a", "c", "b", "b"]), 5)
