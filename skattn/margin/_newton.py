"""Linear systems of the interior point, assembled from the factors of the rows.

With M the scaling of the norm, A the margins, A* their adjoint and D > 0 the weights
of the rows, both classes solve for a step (dW, da)::

    dW - M(A*(da)) = u,    D A(dW) + da = h

`EntrySystem` eliminates da, `RowSystem` dW: the smaller one is the cheaper.
"""

import numpy as np
from scipy import linalg

#: Entries of a block of packed products, so that all groups need not be held at once.
BLOCK_ENTRIES = 2**22


class EntrySystem:
    """One equation an entry of the solution: ``(M^-1 + A* D A) dW = M^-1 u + A* h``.

    Parameters
    ----------
    rows : FactoredRows

    scaling : FrobeniusScaling or NuclearScaling
        The operator M, with the basis in which its inverse is sparse.

    weights : ndarray of shape (m,)
        The diagonal of D.

    Raises
    ------
    scipy.linalg.LinAlgError
        If rounding has made the matrix indefinite.
    """

    def __init__(self, rows, scaling, weights):
        self._rows, self._scaling, self._weights = rows, scaling, weights
        scaling.find_basis()
        matrix = weighted_gram(rows, scaling, weights)
        scaling.add_inverse(matrix)
        self._factor = linalg.cho_factor(
            matrix, lower=True, overwrite_a=True, check_finite=False
        )

    def solve(self, u, h):
        """Return the pair (dW, da)."""
        scaling = self._scaling
        target = scaling.inverse(u) + scaling.to_basis(self._rows.adjoint(h))
        solved = linalg.cho_solve(self._factor, target.ravel(), check_finite=False)
        point = scaling.from_basis(solved.reshape(self._rows.shape))
        return point, h - self._weights * self._rows.margins(point)


class RowSystem:
    """One equation a row: ``(D^-1 + A M A*) da = D^-1 h - A u``.

    Parameters
    ----------
    rows : FactoredRows

    scaling : FrobeniusScaling or NuclearScaling

    weights : ndarray of shape (m,)

    Raises
    ------
    scipy.linalg.LinAlgError
        If rounding has made the matrix indefinite.
    """

    def __init__(self, rows, scaling, weights):
        self._rows, self._scaling = rows, scaling
        self._roots = np.sqrt(weights)
        matrix = scaling.row_gram(rows)
        matrix *= self._roots[:, None]
        matrix *= self._roots
        matrix[np.diag_indices(rows.size)] += 1
        self._factor = linalg.cho_factor(
            matrix, lower=True, overwrite_a=True, check_finite=False
        )

    def solve(self, u, h):
        """Return the pair (dW, da)."""
        target = h / self._roots - self._roots * self._rows.margins(u)
        solved = linalg.cho_solve(self._factor, target, check_finite=False)
        dual = self._roots * solved
        return u + self._scaling.apply(self._rows.adjoint(dual)), dual


def weighted_gram(rows, scaling, weights):
    """Form the matrix of A* D A in the basis of a scaling.

    It is the sum over groups of ``B x zz'`` (Kronecker products), where B is the sum
    of ``D dx dx'``. Both factors are symmetric: their upper triangles are packed, and
    one matrix product sums over the groups.

    Parameters
    ----------
    rows : FactoredRows

    scaling : FrobeniusScaling or NuclearScaling

    weights : ndarray of shape (m,)

    Returns
    -------
    matrix : ndarray of shape (r * s, r * s)
    """
    differences = scaling.left_to_basis(rows.differences)
    queries = scaling.right_to_basis(rows.queries)
    n_left, n_right = rows.shape
    left_upper, left_position = _packing(n_left)
    right_upper, right_position = _packing(n_right)
    n_groups, n_packed = queries.shape[0], left_upper[0].size
    packed = np.zeros((n_packed, right_upper[0].size))
    block = max(1, BLOCK_ENTRIES // n_packed)
    for first in range(0, n_groups, block):
        last = min(first + block, n_groups)
        left = np.empty((last - first, n_packed))
        for group in range(first, last):
            own = slice(rows.starts[group], rows.starts[group + 1])
            weighted = weights[own, None] * differences[own]
            left[group - first] = (weighted.T @ differences[own])[left_upper]
        z = queries[first:last]
        packed += left.T @ (z[:, right_upper[0]] * z[:, right_upper[1]])

    matrix = np.empty((n_left, n_right, n_left, n_right))
    for entry in range(n_left):
        unpacked = packed[left_position[entry]][:, right_position]
        matrix[entry] = unpacked.transpose(1, 0, 2)
    return matrix.reshape(n_left * n_right, n_left * n_right)


def _packing(size):
    # Where the upper triangle of a symmetric matrix is, and where each entry went.
    upper = np.triu_indices(size)
    position = np.zeros((size, size), dtype=np.intp)
    position[upper] = np.arange(upper[0].size)
    return upper, np.maximum(position, position.T)
