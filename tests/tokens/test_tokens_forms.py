"""Every form of input is read into the same tokens."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skattn import Tokens, check_tokens

SAMPLES = [
    np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
    np.array([[6.0, 7.0]]),
    np.array([[8.0, 9.0], [10.0, 11.0]]),
]
VALUES = np.concatenate(SAMPLES)
EQUAL = [np.arange(6.0).reshape(3, 2), -np.arange(6.0).reshape(3, 2)]


def object_array(samples):
    array = np.empty(len(samples), dtype=object)
    for index, sample in enumerate(samples):
        array[index] = sample
    return array


def padded(samples):
    longest = max(len(sample) for sample in samples)
    array = np.full((len(samples), longest, samples[0].shape[1]), np.nan)
    for row, sample in zip(array, samples, strict=True):
        row[: len(sample)] = sample
    return array


def frames(samples):
    return [pd.DataFrame(sample, columns=["a", "b"]) for sample in samples]


RAGGED_FORMS = {
    "list": list,
    "tuple": tuple,
    "object array": object_array,
    "object array of frames": lambda samples: object_array(frames(samples)),
    "nested lists": lambda samples: [sample.tolist() for sample in samples],
    "frames": frames,
    "nullable frames": lambda samples: [
        frame.astype("Float64") for frame in frames(samples)
    ],
    "padded": padded,
    "padded objects": lambda samples: padded(samples).astype(object),
    "long": lambda samples: Tokens.from_bags(
        np.concatenate(samples),
        np.repeat(np.arange(len(samples)), [len(sample) for sample in samples]),
    ),
}


@pytest.mark.parametrize("form", RAGGED_FORMS)
def test_forms_of_ragged_samples_agree(form):
    tokens = check_tokens(RAGGED_FORMS[form](SAMPLES))
    assert_array_equal(tokens.values, VALUES, strict=True)
    assert_array_equal(tokens.offsets, [0, 3, 4, 6])
    assert_array_equal(tokens.positions, [0, 1, 2, 0, 0, 1])
    assert tokens.query is None


@pytest.mark.parametrize("form", RAGGED_FORMS)
def test_forms_of_samples_of_equal_length_agree(form):
    tokens = check_tokens(RAGGED_FORMS[form](EQUAL))
    assert_array_equal(tokens.to_padded(), np.stack(EQUAL), strict=True)


@pytest.mark.parametrize("form", RAGGED_FORMS)
def test_single_sample(form):
    tokens = check_tokens(RAGGED_FORMS[form](SAMPLES[:1]))
    assert tokens.shape == (1,)
    assert_array_equal(tokens[0], SAMPLES[0])


def test_single_token_with_a_single_feature():
    tokens = check_tokens([[[3.0]]])
    assert_array_equal(tokens.values, [[3.0]])


def test_tokens_are_returned_as_they_are():
    tokens = check_tokens(SAMPLES)
    assert check_tokens(tokens) is tokens


def test_given_queries_replace_those_of_the_container():
    tokens = check_tokens(SAMPLES, query=[[1.0], [2.0], [3.0]])
    assert_array_equal(tokens.query, [[1.0], [2.0], [3.0]])
    again = check_tokens(tokens, query=[[4.0], [5.0], [6.0]])
    assert_array_equal(again.query, [[4.0], [5.0], [6.0]])
    assert_array_equal(check_tokens(tokens).query, tokens.query)
    table = check_tokens(np.zeros((2, 3)), query=[[1.0], [2.0]])
    assert_array_equal(table.query, [[1.0], [2.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["list", "padded", "table"])
def test_floats_keep_their_precision(dtype, form):
    samples = [sample.astype(dtype) for sample in EQUAL]
    X = {"list": samples, "padded": np.stack(samples), "table": samples[0]}[form]
    assert check_tokens(X).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool])
def test_integers_become_float64(dtype):
    samples = [(sample % 2).astype(dtype) for sample in SAMPLES]
    tokens = check_tokens(samples)
    assert_array_equal(tokens.values, VALUES % 2, strict=True)
    tokens = check_tokens(np.stack([(sample % 2).astype(dtype) for sample in EQUAL]))
    assert_array_equal(tokens.to_padded(), np.stack(EQUAL) % 2, strict=True)


def test_a_mixture_of_precisions_becomes_float64():
    tokens = check_tokens([SAMPLES[0].astype(np.float32), SAMPLES[1]])
    assert tokens.dtype == np.float64


@pytest.mark.parametrize(
    "layout",
    [
        lambda sample: np.asfortranarray(sample),
        lambda sample: np.repeat(sample, 2, axis=0)[::2],
        lambda sample: sample[:, ::-1][:, ::-1],
    ],
    ids=["fortran", "strided", "reversed"],
)
def test_memory_layout_does_not_matter(layout):
    tokens = check_tokens([layout(sample) for sample in SAMPLES])
    assert_array_equal(tokens.values, VALUES)
    tokens = check_tokens(np.asfortranarray(np.stack(EQUAL)))
    assert_array_equal(tokens.to_padded(), np.stack(EQUAL))


def test_input_is_neither_written_nor_shared():
    for X in (SAMPLES[0][None], SAMPLES[:1], SAMPLES[0]):
        arrays = [np.array(sample) for sample in X]
        for array in arrays:
            array.flags.writeable = False
        before = np.stack(arrays)
        tokens = check_tokens(arrays if isinstance(X, list) else before)
        assert not any(np.shares_memory(tokens.values, array) for array in arrays)
        assert not np.shares_memory(tokens.values, before)
        assert_array_equal(np.stack(arrays), before)


def test_absent_tokens_before_between_and_after_real_ones():
    nothing = [np.nan, np.nan]
    X = [
        np.array([nothing, [1.0, 2.0], nothing, nothing, [3.0, 4.0], nothing]),
        np.array([[5.0, 6.0], nothing]),
    ]
    tokens = check_tokens(X)
    assert_array_equal(tokens.values, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert_array_equal(tokens.positions, [1, 4, 0])
    assert_array_equal(tokens.lengths, [2, 1])
    assert_array_equal(tokens.n_positions, [6, 2])
    as_array = check_tokens(tokens.to_padded())
    assert_array_equal(as_array.positions, tokens.positions)
    assert_array_equal(as_array.values, tokens.values)
    assert_array_equal(as_array.n_positions, [6, 6])


def test_none_marks_absent_tokens_in_object_arrays():
    X = np.array([[[1.0, 2.0], [None, None]]], dtype=object)
    assert_array_equal(check_tokens(X).to_list()[0], [[1.0, 2.0]])


@pytest.mark.parametrize(
    "make",
    [
        np.asarray,
        np.ndarray.tolist,
        list,
        lambda cells: cells.astype(object),
        lambda cells: pd.DataFrame(cells, columns=list("abc")),
        lambda cells: pd.DataFrame(cells, columns=list("abc")).astype("Float64"),
    ],
    ids=["array", "lists", "list of rows", "objects", "frame", "nullable frame"],
)
def test_the_columns_of_a_table_are_tokens(make):
    cells = np.array([[5.0, 0.0, -1.0], [2.0, 7.0, 4.0]])
    tokens = check_tokens(make(cells))
    assert_array_equal(tokens.lengths, [3, 3])
    for row, sample in zip(cells, tokens, strict=True):
        for column, token in enumerate(sample):
            name = np.eye(3)[column]
            assert_array_equal(token, np.concatenate([name, row[column] * name]))


@st.composite
def ragged_samples(draw):
    """Lists of samples, each with at least one real token among absent ones."""
    n_features = draw(st.integers(1, 3))
    seed = draw(st.integers(0, 2**32 - 1))
    present = draw(
        st.lists(
            st.lists(st.booleans(), min_size=1, max_size=6).filter(any),
            min_size=1,
            max_size=5,
        )
    )
    rng = np.random.default_rng(seed)
    samples = [rng.normal(size=(len(mask), n_features)) for mask in present]
    for sample, mask in zip(samples, present, strict=True):
        sample[~np.array(mask)] = np.nan
    return samples


@given(ragged_samples())
@settings(max_examples=60, deadline=None)
def test_ragged_and_padded_samples_hold_the_same_tokens(samples):
    ragged = check_tokens(samples)
    array = check_tokens(padded(samples))
    for name in ("values", "offsets", "positions"):
        assert_array_equal(getattr(ragged, name), getattr(array, name))
    assert_array_equal(ragged.n_positions, [len(sample) for sample in samples])
    assert_array_equal(ragged.to_padded(), padded(samples))
    for index, sample in enumerate(samples):
        alone = check_tokens([sample])
        assert_array_equal(alone[0], ragged[index])
        assert_array_equal(alone.positions, ragged[[index]].positions)
