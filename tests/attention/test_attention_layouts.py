"""Layouts: each operation against the dense tokens it stands for."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.attention import RaggedTokens, TableTokens, TokenBatch

OFFSETS = np.array([0, 2, 3, 7, 9])


def ragged():
    values = np.random.RandomState(0).randn(9, 6)
    return RaggedTokens.from_arrays(values, OFFSETS), values, OFFSETS


def table():
    cells = np.random.RandomState(1).randn(4, 3)
    dense = np.zeros((4, 3, 6))
    for t in range(3):
        dense[:, t, t] = 1
        dense[:, t, 3 + t] = cells[:, t]
    return TableTokens.from_array(cells), dense.reshape(12, 6), np.arange(5) * 3


@pytest.fixture(params=[ragged, table])
def layout(request):
    return request.param()


def test_shape(layout):
    tokens, _, offsets = layout
    assert tokens.n_samples == 4
    assert tokens.n_features == 6
    assert_array_equal(tokens.offsets, offsets)


def test_matmul(layout):
    tokens, dense, _ = layout
    matrix = np.random.RandomState(2).randn(6, 5)
    assert_allclose(tokens.matmul(torch.tensor(matrix)), dense @ matrix, atol=1e-14)
    transposed = torch.tensor(matrix.T.copy()).T
    assert_allclose(tokens.matmul(transposed), dense @ matrix, atol=1e-14)


def test_rowdot(layout):
    tokens, dense, offsets = layout
    vectors = np.random.RandomState(3).randn(4, 2, 6)
    own = np.repeat(vectors, np.diff(offsets), axis=0)
    expected = np.einsum("nd,nhd->nh", dense, own)
    assert_allclose(tokens.rowdot(torch.tensor(vectors)), expected, atol=1e-14)


def test_pool_and_mean(layout):
    tokens, dense, offsets = layout
    weights = np.random.RandomState(4).rand(len(dense), 2)
    pieces = zip(
        np.split(weights, offsets[1:-1]), np.split(dense, offsets[1:-1]), strict=True
    )
    expected = [w.T @ x for w, x in pieces]
    assert_allclose(tokens.pool(torch.tensor(weights)), expected, atol=1e-14)
    means = [x.mean(0) for x in np.split(dense, offsets[1:-1])]
    assert_allclose(tokens.mean(), means, atol=1e-15)


def test_rows(layout):
    tokens, dense, _ = layout
    index = np.array([8, 0, 4, 4])
    assert_array_equal(tokens.rows(torch.tensor(index)), dense[index])


def test_take(layout):
    tokens, dense, offsets = layout
    index = [2, 0, 2]
    taken = tokens.take(torch.tensor(index))
    expected = np.concatenate([dense[offsets[i] : offsets[i + 1]] for i in index])
    assert_array_equal(taken.matmul(torch.eye(6).double()), expected)
    assert_array_equal(np.diff(taken.offsets), np.diff(offsets)[index])


def test_gradients(layout):
    tokens, dense, _ = layout
    rng = np.random.RandomState(5)
    for operation, shape in (
        (tokens.matmul, (6, 2)),
        (tokens.rowdot, (4, 2, 6)),
        (tokens.pool, (len(dense), 2)),
    ):
        argument = torch.tensor(rng.randn(*shape), requires_grad=True)
        assert torch.autograd.gradcheck(operation, argument)


def test_batch_take_moves_queries_along(layout):
    tokens, dense, offsets = layout
    query = torch.arange(8.0).reshape(4, 2)
    last = torch.tensor(offsets[1:] - 1)
    batch = TokenBatch(tokens, query=query, query_rows=last)
    index = torch.tensor([3, 1])
    taken = batch.take(index)
    assert taken.n_samples == 2
    assert_array_equal(taken.query, query[index])
    assert_array_equal(
        taken.tokens.rows(taken.query_rows), dense[offsets[1:][[3, 1]] - 1]
    )


@pytest.mark.filterwarnings("error")
def test_arrays_are_copied_whatever_their_memory():
    values = np.arange(6.0).reshape(3, 2)
    values.flags.writeable = False
    tokens = RaggedTokens.from_arrays(values, [0, 3])
    tokens.values[0, 0] = 7.0
    assert values[0, 0] == 0.0
    strided = RaggedTokens.from_arrays(np.arange(12)[::2].reshape(3, 2)[::-1], [0, 3])
    assert_array_equal(strided.values, [[8, 10], [4, 6], [0, 2]])
    assert TableTokens.from_array(values, dtype=torch.float32).cells.dtype == (
        torch.float32
    )


def test_errors():
    with pytest.raises(ValueError, match="values must be a 2-D array"):
        RaggedTokens.from_arrays(np.zeros(3), [0, 3])
    with pytest.raises(ValueError, match="sample 1 has no token"):
        RaggedTokens.from_arrays(np.zeros((3, 1)), [0, 3, 3])
    with pytest.raises(ValueError, match="cells must be a 2-D array"):
        TableTokens.from_array(np.zeros((3, 0)))
    tokens = RaggedTokens.from_arrays(np.zeros((3, 1)), [0, 1, 3])
    with pytest.raises(ValueError, match=r"query must have shape \(2, n_query"):
        TokenBatch(tokens, query=torch.zeros(3, 1))
    with pytest.raises(ValueError, match=r"query_rows must have shape \(2,\)"):
        TokenBatch(tokens, query_rows=torch.zeros(3, dtype=torch.int64))
