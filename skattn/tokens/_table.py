"""A table as samples of tokens: one token a column."""

import numpy as np
from scipy import sparse

from skattn.tokens._container import Tokens


class TableTokens:
    """A table whose cells are tokens, never laid out densely.

    The token of column ``t`` in row ``i`` is ``[e_t, x_it e_t]`` of width
    ``2 * n_columns``: which column it is, and that column's value. It has two
    non-zeros, so that `values` is a sparse array and everything that is linear in a
    token costs two operations.

    It offers what solvers read of :class:`skattn.Tokens`: `values`, `offsets`,
    `positions`, `n_positions`, `query`, `lengths`, `n_features`.

    Parameters
    ----------
    cells : ndarray of shape (n_samples, n_columns)
        The table, finite.

    query : ndarray of shape (n_samples, n_query_features), default=None
        One query a row.
    """

    def __init__(self, cells, query=None):
        self.cells = cells
        self.query = query
        n_samples, n_columns = cells.shape
        self.n_features = 2 * n_columns
        self.offsets = np.arange(n_samples + 1) * n_columns
        self.positions = np.tile(np.arange(n_columns), n_samples)
        self.n_positions = np.full(n_samples, n_columns)

    def __len__(self):
        return len(self.cells)

    @property
    def lengths(self):
        """Number of tokens of each row: all have one a column."""
        return self.n_positions

    @property
    def dtype(self):
        """Type of the cells."""
        return self.cells.dtype

    @property
    def values(self):
        """Sparse array of shape (n_samples * n_columns, 2 * n_columns)."""
        n_columns = self.cells.shape[1]
        columns = self.positions
        indices = np.column_stack([columns, columns + n_columns]).ravel()
        ones = np.ones(len(columns), dtype=self.dtype)
        data = np.column_stack([ones, self.cells.ravel()]).ravel()
        indptr = 2 * np.arange(len(columns) + 1)
        return sparse.csr_array(
            (data, indices, indptr), shape=(len(columns), self.n_features)
        )

    def to_tokens(self):
        """Return the same tokens as a container with dense values."""
        values = self.values.toarray()
        return Tokens._from_parts(
            values, self.offsets, self.positions, self.query, self.n_positions
        )
