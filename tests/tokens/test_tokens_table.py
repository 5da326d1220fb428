"""Tokens of a table that are never laid out, against those that are."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skattn.tokens._table import TableTokens

CELLS = np.array([[5.0, 0.0, -1.0], [2.0, 7.0, 4.0]])


def test_sparse_values_are_the_dense_ones():
    table = TableTokens(CELLS, query=np.eye(2))
    dense = table.to_tokens()
    assert table.values.nnz == 2 * CELLS.size
    assert_array_equal(table.values.toarray(), dense.values)
    expected = [
        np.concatenate([np.eye(3)[t], CELLS[i, t] * np.eye(3)[t]])
        for i in range(2)
        for t in range(3)
    ]
    assert_array_equal(dense.values, expected)


def test_offers_what_the_container_offers():
    table = TableTokens(CELLS, query=np.eye(2))
    dense = table.to_tokens()
    for name in ("offsets", "positions", "n_positions", "query", "lengths"):
        assert_array_equal(getattr(table, name), getattr(dense, name))
    assert len(table) == len(dense) == 2
    assert table.n_features == dense.n_features == 6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keeps_the_precision(dtype):
    table = TableTokens(CELLS.astype(dtype))
    assert table.dtype == dtype
    assert table.to_tokens().dtype == dtype
