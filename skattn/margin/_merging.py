"""Identical rows found by hashing, in an order that the order of rows cannot change."""

from functools import cache

import numpy as np
from scipy import sparse


def group_identical_rows(rows):
    """Group the rows of an array that are identical.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Finite rows.

    Returns
    -------
    representatives, groups : int arrays of shape (n_groups,) and (m,)
        As `group_by_hash` returns them.
    """
    return group_by_hash(
        hash_rows(rows), lambda left, right: rows_differ(rows[left], rows[right])
    )


def group_by_hash(hashes, differ, labels=None):
    """Group what has one hash and label and does not differ.

    Parameters
    ----------
    hashes : uint64 array of shape (m,)
        From `hash_rows`.

    differ : callable
        Takes two int arrays and tells which pairs of rows differ.

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
    if labels is None:
        order = np.argsort(hashes, kind="stable")
    else:
        order = np.lexsort((hashes, labels))
    sorted_hashes = hashes[order]
    looks_repeated = sorted_hashes[1:] == sorted_hashes[:-1]
    if labels is not None:
        sorted_labels = labels[order]
        looks_repeated &= sorted_labels[1:] == sorted_labels[:-1]
    groups = np.empty(order.size, dtype=np.intp)
    if not looks_repeated.any():
        groups[order] = np.arange(order.size)
        return order, groups
    is_first = np.ones(order.size, dtype=bool)
    candidates = np.flatnonzero(looks_repeated) + 1
    is_first[candidates] = differ(order[candidates], order[candidates - 1])
    groups[order] = np.cumsum(is_first) - 1
    return order[is_first], groups


def hash_rows(rows):
    """Hash each row to 64 bits.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (m, d)
        Finite rows; a sparse array must be canonical, without stored zeros.

    Returns
    -------
    hashes : uint64 array of shape (m,)
        Equal for equal rows, also between dense and sparse ones.
    """
    factors = _column_factors(rows.shape[1])
    if not sparse.issparse(rows):
        return _fold(rows) @ factors
    terms = _fold(rows.data) * factors[rows.indices]
    totals = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
    # Unsigned sums wrap around, so that their differences are exact.
    return totals[rows.indptr[1:]] - totals[rows.indptr[:-1]]


def rows_differ(left, right):
    """Tell which rows of two arrays differ, a boolean array of shape (m,)."""
    if sparse.issparse(left):
        difference = left - right
        difference.eliminate_zeros()
        return np.diff(difference.indptr) > 0
    return np.any(left != right, axis=1)


@cache
def _column_factors(n_columns):
    # Odd and random, one a column: sums of products with them collide by chance only.
    generator = np.random.Generator(np.random.PCG64(0))
    return generator.integers(2**64, size=n_columns, dtype=np.uint64) | np.uint64(1)


def _fold(values):
    # Short binary fractions have their low bits all 0, where products keep what tells
    # numbers apart; 0 stays 0, so that zeros stored, absent and dense hash alike.
    # Adding zero turns -0.0 into 0.0, which is the same number with other bits.
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return bits ^ (bits >> np.uint64(32))
