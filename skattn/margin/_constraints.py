"""Rows ``dx' W z >= 1`` and their operators."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

#: About how many numbers operators hold at once besides their arguments (512 kB, for
#: the cache).
CHUNK = 2**16

#: Up to this many numbers a product with one query a row costs less than a sparse one.
SMALL = 2**12


@dataclass(frozen=True)
class Constraints:
    """Rows ``dx' W z >= 1`` with what a unit of slack costs in each.

    Parameters
    ----------
    differences : ndarray or csr_array of shape (m, d)
        The rows dx.

    queries : ndarray of shape (n_queries, d_q) or None
        The distinct or per-sample z; None for a prompt, where z is 1.

    query_index : int array of shape (m,)
        The row of `queries` that belongs to each constraint, ascending.

    C : ndarray of shape (m,)
        Cost of slack, above 0; infinite where the constraint is hard.
    """

    differences: np.ndarray | sparse.csr_array
    queries: np.ndarray | None
    query_index: np.ndarray
    C: np.ndarray

    def with_C(self, C):
        """Return the same rows at another cost of slack.

        Parameters
        ----------
        C : ndarray of shape (m,)

        Returns
        -------
        constraints : Constraints
        """
        other = replace(self, C=C)
        if "query_starts" in vars(self):
            vars(other)["query_starts"] = self.query_starts
        return other

    @property
    def size(self):
        """Number of constraints."""
        return self.C.size

    @cached_property
    def is_hard(self):
        """Boolean array of shape (m,): which constraints allow no slack."""
        return np.isinf(self.C)

    @cached_property
    def is_any_hard(self):
        """Whether some constraint allows no slack."""
        return bool(self.is_hard.any())

    @cached_property
    def is_all_hard(self):
        """Whether no constraint allows slack; True without constraints."""
        return bool(self.is_hard.all())

    def margins(self, coef):
        """Left-hand sides ``dx' W z``, without forming any (m, d * d_q) matrix.

        Parameters
        ----------
        coef : ndarray of shape (d,) or (d, d_q)

        Returns
        -------
        margins : ndarray of shape (m,)
        """
        if self.queries is None:
            return self.differences @ coef
        result = np.empty(self.size)
        if sparse.issparse(self.differences):
            for rows in self._chunks(coef.shape[1]):
                projected = self.differences[rows] @ coef
                result[rows] = _row_products(
                    projected, self.queries[self.query_index[rows]]
                )
            return result
        projected = self.queries @ coef.T
        for rows in self._chunks(coef.shape[0]):
            result[rows] = _row_products(
                self.differences[rows], projected[self.query_index[rows]]
            )
        return result

    def adjoint(self, dual):
        """Sum of ``dual * dx z'`` over the constraints.

        Parameters
        ----------
        dual : ndarray of shape (m,)

        Returns
        -------
        gradient : ndarray of shape (d,) or (d, d_q)
        """
        if self.queries is None:
            return self.differences.T @ dual
        if self.size * self.queries.shape[1] <= SMALL:
            return self.differences.T @ (dual[:, None] * self.queries[self.query_index])
        # The rows of each query are added up first: one product with it instead of
        # one a row.
        placed = (dual, np.arange(self.size), self.query_starts)
        shape = self.queries.shape[0], self.size
        combined = sparse.csr_array(placed, shape=shape) @ self.differences
        return combined.T @ self.queries

    @cached_property
    def query_starts(self):
        """Int array of shape (n_queries + 1,): where the rows of each query start."""
        return np.searchsorted(self.query_index, np.arange(self.queries.shape[0] + 1))

    def row_norms(self):
        """Euclidean norms of ``dx z'``, an array of shape (m,)."""
        if sparse.issparse(self.differences):
            norms = np.sqrt(self.differences.multiply(self.differences).sum(axis=1))
        else:
            norms = np.sqrt(_row_products(self.differences, self.differences))
        if self.queries is None:
            return norms
        return norms * np.linalg.norm(self.queries, axis=1)[self.query_index]

    def gram(self, rows):
        """Inner products of the chosen rows ``dx z'`` with one another.

        Parameters
        ----------
        rows : int array of shape (k,)

        Returns
        -------
        gram : ndarray of shape (k, k)
        """
        differences = self.differences[rows]
        gram = differences @ differences.T
        if sparse.issparse(gram):
            gram = gram.toarray()
        if self.queries is None:
            return gram
        queries = self.queries[self.query_index[rows]]
        return gram * (queries @ queries.T)

    def _chunks(self, width):
        step = max(CHUNK // max(width, 1), 1)
        for first in range(0, self.size, step):
            yield slice(first, first + step)


def _row_products(left, right):
    return np.einsum("ij,ij->i", left, right)
