"""Identical rows found by hashing, in an order that the order of rows cannot change."""

import numpy as np
from scipy import sparse


def group_identical_rows(rows, labels=None):
    """Group the rows that are identical and carry one label.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (m, d)
        Finite rows; a sparse array must be canonical, without stored zeros.

    labels : int array of shape (m,), default=None
        Rows of different labels are never grouped, and groups are sorted by label.

    Returns
    -------
    representatives : int array of shape (n_groups,)
        One row of each group, the groups in canonical order.

    groups : int array of shape (m,)
        The group of each row.

    Notes
    -----
    The canonical order is that of 64-bit hashes. Should two different rows ever share
    a hash, they are told apart all the same: at worst some identical rows stay
    ungrouped, which is harmless.
    """
    hashes = _hash_rows(rows)
    order = np.lexsort((hashes,) if labels is None else (hashes, labels))
    is_first = np.ones(order.size, dtype=bool)
    looks_repeated = hashes[order[1:]] == hashes[order[:-1]]
    if labels is not None:
        looks_repeated &= labels[order[1:]] == labels[order[:-1]]
    candidates = np.flatnonzero(looks_repeated) + 1
    is_first[candidates] = _rows_differ(rows, order[candidates], order[candidates - 1])
    groups = np.empty(order.size, dtype=np.intp)
    groups[order] = np.cumsum(is_first) - 1
    return order[is_first], groups


def _hash_rows(rows):
    n_rows, n_columns = rows.shape
    column_factors = _scramble(np.arange(1, n_columns + 1, dtype=np.uint64)) | 1
    if sparse.issparse(rows):
        terms = _scramble(_bits(rows.data)) * column_factors[rows.indices]
        totals = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
        # Unsigned sums wrap around, so that their differences are exact.
        return totals[rows.indptr[1:]] - totals[rows.indptr[:-1]]
    hashes = np.zeros(n_rows, dtype=np.uint64)
    for column, factor in enumerate(column_factors):
        hashes += _scramble(_bits(rows[:, column])) * factor
    return hashes


def _bits(values):
    # Adding zero turns -0.0 into 0.0, which is the same number with other bits.
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _scramble(words):
    # The finaliser of MurmurHash3: a bijection that leaves 0 at 0, so that a stored
    # zero, an absent one and a dense one hash alike.
    words = words ^ (words >> np.uint64(33))
    words = words * np.uint64(0xFF51AFD7ED558CCD)
    words = words ^ (words >> np.uint64(33))
    words = words * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))


def _rows_differ(rows, left, right):
    if sparse.issparse(rows):
        difference = rows[left] - rows[right]
        difference.eliminate_zeros()
        return np.diff(difference.indptr) > 0
    return np.any(rows[left] != rows[right], axis=1)
