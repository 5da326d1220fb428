"""Constraint rows kept as their two factors, in the span that a solution lives in."""

import numpy as np
from scipy import sparse

from skattn.margin._blocks import LARGEST_DENSE


class FactoredRows:
    """The rows ``dx z'`` of a problem, grouped by query and dense.

    Solutions of unitarily invariant norms live in span(dx) x span(z). Either side is
    written in an orthonormal basis of its span when it has fewer vectors than
    features.

    Parameters
    ----------
    constraints : Constraints
        With rows of one query contiguous, as in ``problem.merged``; at least one row.

    to_unit_scale : bool, default=True
        Whether to divide dx and z by the length of the longest, which copies them.

    Attributes
    ----------
    differences : ndarray of shape (m, r)
        The dx.

    queries : ndarray of shape (n_groups, s)
        The z that own rows; a single 1 for a prompt.

    starts : int array of shape (n_groups + 1,)
        Group g owns the rows from ``starts[g]`` to ``starts[g + 1]``.

    groups : int array of shape (m,)
        The group of each row.

    shape : tuple of int
        Shape (r, s) of the coordinates.

    scale : float
        What the original rows ``dx z'`` were divided by.

    Raises
    ------
    ValueError
        If sparse rows are too many to be stored densely.
    """

    def __init__(self, constraints, to_unit_scale=True):
        differences, queries = constraints.differences, constraints.queries
        if sparse.issparse(differences):
            if np.prod(differences.shape) > LARGEST_DENSE:
                raise ValueError(
                    f"Sparse differences of shape {differences.shape} are too large "
                    "for the solvers that need dense ones; pass solver='cvxpy'."
                )
            differences = differences.toarray()
        self._coef_shape = (differences.shape[1],)
        if queries is None:
            queries = np.ones((1, 1))
            self.starts = np.array([0, constraints.size])
        else:
            starts = constraints.query_starts
            is_used = starts[1:] > starts[:-1]
            queries = queries[is_used]
            self.starts = np.append(starts[:-1][is_used], constraints.size)
            self._coef_shape = (differences.shape[1], queries.shape[1])
        self.groups = np.repeat(np.arange(len(queries)), np.diff(self.starts))
        self.scale = 1.0
        if to_unit_scale:
            difference_scale, query_scale = _longest(differences), _longest(queries)
            self.scale = difference_scale * query_scale
            differences, queries = differences / difference_scale, queries / query_scale
        self._left, self.differences = _in_span(differences)
        self._right, self.queries = _in_span(queries)
        self.shape = (self.differences.shape[1], self.queries.shape[1])

    @property
    def size(self):
        """Number of rows."""
        return self.differences.shape[0]

    @property
    def n_entries(self):
        """Number of coordinates of a solution."""
        return self.shape[0] * self.shape[1]

    def margins(self, point):
        """Products of every row with `point` of shape (r, s)."""
        projected = self.queries @ point.T
        return np.einsum("ij,ij->i", self.differences, projected[self.groups])

    def adjoint(self, dual):
        """Sum of ``dual * dx z'`` for `dual` of shape (m,), of shape (r, s)."""
        weighted = dual[:, None] * self.differences
        return np.add.reduceat(weighted, self.starts[:-1]).T @ self.queries

    def lift(self, point):
        """Turn coordinates into a coef of the original problem."""
        coef = point if self._left is None else self._left @ point
        coef = coef if self._right is None else coef @ self._right.T
        return coef.reshape(self._coef_shape) / self.scale

    def drop(self, coef):
        """Turn a coef of the original problem into coordinates of its projection."""
        point = coef.reshape(coef.shape[0], -1) * self.scale
        point = point if self._left is None else self._left.T @ point
        return point if self._right is None else point @ self._right


def _longest(vectors):
    longest = float(np.linalg.norm(vectors, axis=1).max())
    return longest if longest > 0 else 1.0


def _in_span(vectors):
    if vectors.shape[0] >= vectors.shape[1]:
        return None, np.ascontiguousarray(vectors)
    basis, triangle = np.linalg.qr(vectors.T)
    return basis, np.ascontiguousarray(triangle.T)
