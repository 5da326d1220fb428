"""The container by itself: layout, indexing, immutability, copies."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skattn import Tokens

VALUES = np.arange(12.0).reshape(6, 2)
OFFSETS = [0, 1, 4, 6]
POSITIONS = [2, 0, 1, 5, 0, 1]
QUERY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def make_tokens():
    """Samples of 1, 3 and 2 tokens, of which the first two have absent ones."""
    return Tokens(VALUES, OFFSETS, POSITIONS, QUERY, n_positions=[4, 6, 2])


def assert_same_tokens(actual, expected):
    for name in Tokens.__slots__:
        assert_array_equal(getattr(actual, name), getattr(expected, name), strict=True)


def test_describes_itself():
    tokens = make_tokens()
    assert len(tokens) == 3
    assert tokens.shape == (3,)
    assert tokens.ndim == 1
    assert tokens.n_tokens == 6
    assert tokens.n_features == 2
    assert tokens.dtype == np.float64
    assert_array_equal(tokens.lengths, [1, 3, 2])
    expected = "Tokens(n_samples=3, n_features=2, n_query_features=3, lengths=1..3)"
    assert repr(tokens) == expected
    assert repr(tokens[:0]) == "Tokens(n_samples=0, n_features=2)"


def test_no_padding_is_stored():
    lengths = [12] * 99 + [1044]
    samples = [np.zeros((length, 5)) for length in lengths]
    assert Tokens.from_bags(
        np.concatenate(samples), np.repeat(np.arange(100), lengths)
    ).values.nbytes == sum(sample.nbytes for sample in samples)


@pytest.mark.parametrize("index", [1, -2, np.int64(1), np.uint8(1), np.array(1)])
def test_an_integer_gives_one_sample_as_an_array(index):
    if isinstance(index, np.ndarray):
        index = index[()]
    assert_array_equal(make_tokens()[index], VALUES[1:4], strict=True)


@pytest.mark.parametrize(
    ("key", "samples"),
    [
        (slice(1, None), [1, 2]),
        (slice(None, None, -2), [2, 0]),
        ([2, 0, 2], [2, 0, 2]),
        (np.array([-1, 1]), [2, 1]),
        (np.array([True, False, True]), [0, 2]),
        ([False, True, False], [1]),
        ([], []),
    ],
)
@pytest.mark.parametrize("with_ellipsis", [False, True])
def test_other_keys_give_tokens(key, samples, with_ellipsis):
    tokens = make_tokens()
    taken = tokens[(key, Ellipsis) if with_ellipsis else key]
    assert isinstance(taken, Tokens)
    assert len(taken) == len(samples)
    assert_array_equal(taken.query, tokens.query[samples])
    assert_array_equal(taken.n_positions, tokens.n_positions[samples])
    assert taken.n_features == 2
    for row, sample in enumerate(samples):
        start, stop = OFFSETS[sample : sample + 2]
        assert_array_equal(taken[row], VALUES[start:stop])
        own = slice(*taken.offsets[row : row + 2])
        assert_array_equal(taken.positions[own], POSITIONS[start:stop])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "sample 3 is out of range for 3 samples"),
        (-4, "sample -4 is out of range"),
        ((0, 1), "index a sample first"),
        ((0, Ellipsis, 0), "index a sample first"),
        ([[0, 1]], "one-dimensional array"),
        (np.array(1), "one-dimensional array"),
        (None, "one-dimensional array"),
        (np.array([True, False]), "boolean"),
        ("a", "indices"),
    ],
)
def test_wrong_keys_are_refused(key, message):
    with pytest.raises(IndexError, match=message):
        make_tokens()[key]


def test_iterates_over_samples():
    samples = list(make_tokens())
    assert [sample.shape for sample in samples] == [(1, 2), (3, 2), (2, 2)]
    assert_array_equal(np.concatenate(samples), VALUES)
    assert_array_equal(np.concatenate(make_tokens().to_list()), VALUES)


def test_becomes_an_object_array_even_if_lengths_are_equal():
    array = np.asarray(Tokens(VALUES, [0, 3, 6]))
    assert array.shape == (2,)
    assert array.dtype == object
    assert_array_equal(array[1], VALUES[3:])
    with pytest.raises(ValueError, match="no array to share"):
        np.asarray(make_tokens(), copy=False)


@pytest.mark.parametrize("name", Tokens.__slots__)
def test_is_immutable(name):
    tokens = make_tokens()
    with pytest.raises(AttributeError, match="immutable"):
        setattr(tokens, name, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(tokens, name)
    with pytest.raises(ValueError, match="read-only"):
        getattr(tokens, name)[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        getattr(tokens[[0, 1]], name)[...] = 0
    with pytest.raises(AttributeError):
        tokens.new_attribute = 1


def test_samples_cannot_be_written_through_an_index():
    with pytest.raises(ValueError, match="read-only"):
        make_tokens()[0][0, 0] = 9.0


def test_does_not_share_memory_with_what_it_was_built_from():
    given = {
        "values": VALUES.copy(),
        "offsets": np.array(OFFSETS),
        "positions": np.array(POSITIONS),
        "query": np.array(QUERY),
        "n_positions": np.array([4, 6, 2]),
    }
    tokens = Tokens(**given)
    for array in given.values():
        assert array.flags.writeable
        array[...] = 7
    assert_same_tokens(tokens, make_tokens())


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        lambda tokens: pickle.loads(pickle.dumps(tokens)),
        lambda tokens: pickle.loads(pickle.dumps(tokens, protocol=0)),
    ],
    ids=["copy", "deepcopy", "pickle", "pickle0"],
)
def test_duplicates_are_equal_and_immutable(duplicate):
    tokens = make_tokens()
    twin = duplicate(tokens)
    assert_same_tokens(twin, tokens)
    with pytest.raises(ValueError, match="read-only"):
        twin.values[0, 0] = 9.0


def test_joblib_hashes_the_content():
    assert joblib.hash(make_tokens()) == joblib.hash(make_tokens())
    assert joblib.hash(make_tokens()) != joblib.hash(make_tokens()[[0, 2, 1]])


def test_to_padded_puts_tokens_at_their_positions():
    padded = make_tokens().to_padded()
    expected = np.full((3, 6, 2), np.nan)
    expected[0, 2] = VALUES[0]
    expected[1, [0, 1, 5]] = VALUES[1:4]
    expected[2, :2] = VALUES[4:]
    assert_array_equal(padded, expected, strict=True)


def test_to_padded_keeps_float32():
    tokens = Tokens(VALUES.astype(np.float32), OFFSETS)
    assert tokens.dtype == np.float32
    assert tokens.to_padded().dtype == np.float32
    assert tokens[1:].dtype == np.float32


@pytest.mark.parametrize("dtype", [int, np.uint8, bool, np.float16])
def test_other_numbers_become_float64(dtype):
    tokens = Tokens(np.array([[0, 1], [1, 1]], dtype=dtype), [0, 2])
    assert_array_equal(tokens.values, [[0.0, 1.0], [1.0, 1.0]], strict=True)


def test_with_query_shares_the_tokens():
    tokens = make_tokens()
    other = tokens.with_query([[1], [2], [3]])
    assert_array_equal(other.query, [[1.0], [2.0], [3.0]], strict=True)
    assert np.shares_memory(other.values, tokens.values)
    assert tokens.query.shape == (3, 3)
    assert other.with_query(None).query is None


def test_with_values_keeps_the_layout():
    tokens = make_tokens()
    other = tokens.with_values(np.ones((6, 4)))
    assert_array_equal(other.values, np.ones((6, 4)))
    for name in ("offsets", "positions", "query", "n_positions"):
        assert_array_equal(getattr(other, name), getattr(tokens, name))


def test_defaults_number_tokens_from_zero():
    tokens = Tokens(VALUES, OFFSETS)
    assert_array_equal(tokens.positions, [0, 0, 1, 2, 0, 1])
    assert_array_equal(tokens.n_positions, [1, 3, 2])
    assert tokens.query is None


def test_n_positions_default_to_one_beyond_the_last_token():
    assert_array_equal(Tokens(VALUES, OFFSETS, POSITIONS).n_positions, [3, 6, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.zeros(6)}, r"shape \(n_tokens, n_features\)"),
        ({"values": np.zeros((6, 0))}, r"0 feature\(s\)"),
        ({"values": [["a", "b"]] * 6}, "not numbers"),
        ({"values": np.zeros((6, 2), dtype=complex)}, "Complex data not supported"),
        ({"offsets": [1, 4, 6]}, "run from 0 to the number of tokens, 6"),
        ({"offsets": [0, 1, 4, 5]}, "run from 0 to the number of tokens, 6"),
        ({"offsets": []}, "run from 0"),
        ({"offsets": [0, 1, 1, 6]}, "sample 1 has no token.*Leave"),
        ({"offsets": [0.0, 1.0, 4.0, 6.0]}, "offsets must be .* integers"),
        ({"positions": [0, 1, 2]}, "positions has 3 entries for 6 tokens"),
        ({"positions": [2, 0, 5, 1, 0, 1]}, "increase.*sample 1"),
        ({"positions": [2, 0, 1, 1, 0, 1]}, "increase.*sample 1"),
        ({"positions": [2, 0, 1, 5, -1, 1]}, "at least 0.*sample 2"),
        ({"n_positions": [4, 5, 2]}, "beyond the position of its last token"),
        ({"n_positions": [4, 6]}, "every sample"),
        ({"query": [1.0, 2.0, 3.0]}, r"shape \(n_samples, n_query_features\)"),
        ({"query": np.zeros((2, 3))}, "2 rows for 3 samples"),
        ({"query": np.zeros((3, 0))}, "0 features"),
        ({"query": [[0.0], [np.nan], [0.0]]}, "NaN or infinity in sample 1"),
        ({"query": [["a"], ["b"], ["c"]]}, "query has values .* not numbers"),
    ],
)
def test_inconsistent_parts_are_refused(change, message):
    parts = {"values": VALUES, "offsets": OFFSETS, "positions": POSITIONS, **change}
    with pytest.raises(ValueError, match=message):
        Tokens(**parts)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_name_sample_and_token(value):
    values = VALUES.copy()
    values[3, 1] = value
    with pytest.raises(ValueError, match=r"token 2 of sample 1.*from_padded"):
        Tokens(values, OFFSETS)
