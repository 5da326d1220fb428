"""What a norm contributes to the Newton systems of the interior point."""

import numpy as np
from scipy import linalg


class FrobeniusScaling:
    """The identity: the Frobenius solution is ``A*(a)`` itself."""

    def apply(self, gradient):
        """Apply M to a gradient."""
        return gradient

    def row_gram(self, rows):
        """Return the matrix of A M A*, of shape (m, m)."""
        gram = rows.differences @ rows.differences.T
        gram *= (rows.queries @ rows.queries.T)[np.ix_(rows.groups, rows.groups)]
        return gram

    def find_basis(self):
        """Prepare what `EntrySystem` asks for: nothing."""

    def left_to_basis(self, differences):
        """Turn rows dx into the basis of `EntrySystem`."""
        return differences

    def right_to_basis(self, queries):
        """Turn queries into the basis of `EntrySystem`."""
        return queries

    def to_basis(self, gradient):
        """Turn a gradient into the basis of `EntrySystem`."""
        return gradient

    def from_basis(self, point):
        """Turn a step in the basis of `EntrySystem` into one of W."""
        return point

    def inverse(self, point):
        """Apply the inverse of M, into the basis of `EntrySystem`."""
        return point

    def add_inverse(self, matrix):
        """Add the matrix of the inverse of M, in place."""
        matrix[np.diag_indices(matrix.shape[0])] += 1


class NuclearScaling:
    """Nesterov and Todd's scaling of the pair ``X = [[P, W], [W', R]]`` and its dual Z.

    The scaling matrix G = [[a, b], [b', c]] maps one to the other, ``G Z G = X``. To
    second order a change of ``A*(a)`` by S moves W by ``M(S) = (a S c + b S' b) / 2``.
    In the basis where a and c are identities and b is diagonal (its canonical
    correlations), M couples no more than the entries (i, j) and (j, i).

    Parameters
    ----------
    X, Z : ndarray of shape (r + s, r + s)
        Positive definite.

    n_left : int
        The number r of rows of W.

    Attributes
    ----------
    spectrum : ndarray of shape (r + s,)
        Diagonal of X and of Z after scaling, which makes both the same.

    root, inverse_root : ndarray of shape (r + s, r + s)
        A square root of G, ``G = root @ root.T``, and its inverse.

    matrix : ndarray of shape (r + s, r + s)
        G.

    Raises
    ------
    numpy.linalg.LinAlgError
        If X or Z is not positive definite.
    """

    def __init__(self, X, Z, n_left):
        primal_root, dual_root = np.linalg.cholesky(X), np.linalg.cholesky(Z)
        left, self.spectrum, right = np.linalg.svd(dual_root.T @ primal_root)
        roots = np.sqrt(self.spectrum)
        self.root = primal_root @ (right.T / roots)
        self.inverse_root = (left / roots).T @ dual_root.T
        self.matrix = self.root @ self.root.T
        self._a = self.matrix[:n_left, :n_left]
        self._b = self.matrix[:n_left, n_left:]
        self._c = self.matrix[n_left:, n_left:]

    def apply(self, gradient):
        """Apply M to a gradient."""
        return 0.5 * (self._a @ gradient @ self._c + self._b @ gradient.T @ self._b)

    def row_gram(self, rows):
        """Return the matrix of A M A*, of shape (m, m)."""
        across = (rows.differences @ self._b @ rows.queries.T)[:, rows.groups]
        gram = rows.differences @ self._a @ rows.differences.T
        between = rows.queries @ self._c @ rows.queries.T
        gram *= between[np.ix_(rows.groups, rows.groups)]
        gram += across * across.T
        gram *= 0.5
        return gram

    def find_basis(self):
        """Prepare what `EntrySystem` asks for."""
        left_root, right_root = np.linalg.cholesky(self._a), np.linalg.cholesky(self._c)
        correlation = linalg.solve_triangular(left_root, self._b, lower=True)
        correlation = linalg.solve_triangular(right_root, correlation.T, lower=True).T
        left, cosines, right = np.linalg.svd(correlation)
        self._left, self._right = left_root @ left, right_root @ right.T
        # 1 - cosine^2 would lose all its digits as the solution drops in rank: it is
        # read off the inverse of G instead.
        inverse = self.inverse_root.T @ self.inverse_root
        n_left, n_pairs = self._a.shape[0], cosines.size
        if self._c.shape[0] <= n_left:
            side, block = self._right, inverse[n_left:, n_left:]
        else:
            side, block = self._left, inverse[:n_left, :n_left]
        sines2 = 1 / np.einsum("ij,ij->j", side, block @ side)[:n_pairs]
        cosines = np.sqrt(np.maximum(1 - sines2, 0))
        self._pairs = np.outer(cosines, cosines)
        self._diagonal = np.full(self._b.shape, 2.0)
        # 1 - cosine_i^2 cosine_j^2, from small terms only.
        complement = sines2[:, None] + (1 - sines2)[:, None] * sines2
        self._diagonal[:n_pairs, :n_pairs] = 2 / complement
        self._coupling = -2 * self._pairs / complement
        # At i = j the two couple into one: M is (1 + cosine^2) / 2.
        ends = np.diag_indices(n_pairs)
        self._diagonal[ends] = 2 / (1 + self._pairs[ends])
        self._coupling[ends] = 0

    def left_to_basis(self, differences):
        """Turn rows dx into the basis of `EntrySystem`."""
        return differences @ self._left

    def right_to_basis(self, queries):
        """Turn queries into the basis of `EntrySystem`."""
        return queries @ self._right

    def to_basis(self, gradient):
        """Turn a gradient into the basis of `EntrySystem`."""
        return self._left.T @ gradient @ self._right

    def from_basis(self, point):
        """Turn a step in the basis of `EntrySystem` into one of W."""
        return self._left @ point @ self._right.T

    def inverse(self, point):
        """Apply the inverse of M, into the basis of `EntrySystem`."""
        point = np.linalg.solve(self._left, point)
        point = np.linalg.solve(self._right, point.T).T
        n_pairs = self._coupling.shape[0]
        result = self._diagonal * point
        result[:n_pairs, :n_pairs] += self._coupling * point[:n_pairs, :n_pairs].T
        return result

    def add_inverse(self, matrix):
        """Add the matrix of the inverse of M, in place."""
        n_left, n_right = self._diagonal.shape
        n_pairs = self._coupling.shape[0]
        matrix[np.diag_indices(matrix.shape[0])] += self._diagonal.ravel()
        tensor = matrix.reshape(n_left, n_right, n_left, n_right)
        i, j = np.indices((n_pairs, n_pairs))
        tensor[i, j, j, i] += self._coupling
