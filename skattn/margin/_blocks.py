"""Constraints in the layout of the compiled kernels."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

#: Rows a block when all constraints share the query of a prompt.
PROMPT_BLOCK = 32

#: Most entries that sparse rows may have when stored densely (512 MB).
LARGEST_DENSE = 2**26


@dataclass(frozen=True)
class Blocks:
    """Constraints in blocks of one query, as `skattn.margin._kernels` wants them.

    Parameters
    ----------
    differences : ndarray of shape (m, d)
        The rows dx, C-contiguous; block i owns those from ``offsets[i]`` to
        ``offsets[i + 1]``.

    offsets : int array of shape (n_blocks + 1,)
        Where each block starts.

    queries : ndarray of shape (n_blocks, d_q)
        The z of each block; ones of shape (n_blocks, 1) for a prompt.

    C : ndarray of shape (m,)
        Cost of slack, infinite where hard.

    difference_norms, query_norms : ndarray of shape (m,) and (n_blocks,)
        Squared norms of the rows of `differences` and `queries`.
    """

    differences: np.ndarray
    offsets: np.ndarray
    queries: np.ndarray
    C: np.ndarray
    difference_norms: np.ndarray
    query_norms: np.ndarray

    @property
    def layout(self):
        """The arrays `margins` and `adjoint` of the kernels take first."""
        return self.differences, self.offsets, self.queries

    @property
    def arrays(self):
        """The arrays `descend_epoch` takes first."""
        return (*self.layout, self.difference_norms, self.query_norms, self.C)


def make_blocks(constraints):
    """Lay merged constraints out in blocks.

    Parameters
    ----------
    constraints : Constraints
        `merged` of a problem: the rows of one query are contiguous, and their order is
        canonical.

    Returns
    -------
    blocks : Blocks
        Duals keep the order of `constraints`. Sparse rows are stored densely.

    Raises
    ------
    ValueError
        If sparse rows are too many to be stored densely.
    """
    from skattn.margin._kernels import squared_norms

    differences = constraints.differences
    if sparse.issparse(differences):
        if differences.shape[0] * differences.shape[1] > LARGEST_DENSE:
            raise ValueError(
                f"Sparse differences of shape {differences.shape} are too large for "
                "the solvers that need dense ones; pass solver='cvxpy'."
            )
        differences = differences.toarray()
    if constraints.queries is None:
        offsets = np.arange(0, constraints.size + PROMPT_BLOCK, PROMPT_BLOCK)
        offsets[-1] = constraints.size
        queries = np.ones((offsets.size - 1, 1))
    else:
        offsets, queries = constraints.query_starts, constraints.queries
        is_filled = offsets[1:] > offsets[:-1]
        if not is_filled.all():
            offsets = np.append(offsets[:-1][is_filled], constraints.size)
            queries = queries[is_filled]
    return Blocks(
        differences,
        offsets,
        queries,
        constraints.C,
        squared_norms(differences),
        squared_norms(queries),
    )
