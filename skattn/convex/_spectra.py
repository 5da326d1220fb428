"""Singular values of stacks of matrices."""

import numpy as np

#: Ratio of the largest singular value to the threshold up to which the smaller Gram
#: matrix is as good as the matrix: it loses the digits of the square of this ratio.
LARGEST_RATIO = 1e4


def spectral_norms(stack):
    """Return the largest singular value of each matrix.

    Parameters
    ----------
    stack : ndarray of shape (n, p, q)

    Returns
    -------
    norms : ndarray of shape (n,)
    """
    return np.sqrt(np.maximum(np.linalg.eigvalsh(_gram(stack))[:, -1], 0))


def nuclear_norms(stack):
    """Return the sum of the singular values of each matrix, of shape (n,)."""
    return np.linalg.svd(stack, compute_uv=False).sum(axis=1)


def shrink(stack, threshold):
    """Lower all singular values by a threshold, those below it to 0.

    This is the proximal operator of the threshold times the nuclear norm.

    Parameters
    ----------
    stack : ndarray of shape (n, p, q)

    threshold : float
        Above 0.

    Returns
    -------
    shrunk : ndarray of shape (n, p, q)

    nuclear_norm : float
        Of the result, all matrices together.
    """
    squares, vectors = np.linalg.eigh(_gram(stack))
    singular = np.sqrt(np.maximum(squares, 0))
    if singular.max(initial=0.0) > LARGEST_RATIO * threshold:
        left, singular, right = np.linalg.svd(stack, full_matrices=False)
        lowered = np.maximum(singular - threshold, 0)
        return (left * lowered[:, None]) @ right, float(lowered.sum())
    is_kept = singular > threshold
    factors = np.where(is_kept, 1 - threshold / np.where(is_kept, singular, 1), 0)
    nuclear_norm = float(np.maximum(singular - threshold, 0).sum())
    projection = (vectors * factors[:, None]) @ vectors.transpose(0, 2, 1)
    if stack.shape[1] >= stack.shape[2]:
        return stack @ projection, nuclear_norm
    return projection @ stack, nuclear_norm


def thin_factors(stack, tolerance):
    """Write each matrix as a product of balanced factors of its rank.

    Parameters
    ----------
    stack : ndarray of shape (n, p, q)

    tolerance : float
        Singular values below this share of the largest of all matrices are left out.

    Returns
    -------
    factors : list of (left, right)
        For each matrix arrays of shape (p, r) and (q, r) of equal column norms, the
        largest first: ``left @ right.T`` is the matrix, and half the sum of all
        squares its nuclear norm.
    """
    left, singular, right = np.linalg.svd(stack, full_matrices=False)
    smallest = tolerance * singular.max(initial=0.0)
    factors = []
    for u, s, v in zip(left, singular, right, strict=True):
        rank = int(np.sum(s > smallest))
        root = np.sqrt(s[:rank])
        factors.append((u[:, :rank] * root, v[:rank].T * root))
    return factors


def balance(factors, tolerance):
    """Return factors of the same products, as :func:`thin_factors` returns them.

    Parameters
    ----------
    factors : list of (left, right)
        Of any ranks, above those of the products or not.

    tolerance : float
        As in :func:`thin_factors`.

    Returns
    -------
    factors : list of (left, right)
    """
    parts = []
    for left, right in factors:
        left_basis, left_core = np.linalg.qr(left)
        right_basis, right_core = np.linalg.qr(right)
        u, s, v = np.linalg.svd(left_core @ right_core.T, full_matrices=False)
        parts.append((left_basis @ u, s, right_basis @ v.T))
    smallest = tolerance * max(s.max(initial=0.0) for _, s, _ in parts)
    balanced = []
    for u, s, v in parts:
        rank = int(np.sum(s > smallest))
        root = np.sqrt(s[:rank])
        balanced.append((u[:, :rank] * root, v[:, :rank] * root))
    return balanced


def leading_pairs(stack, count):
    """Return the largest singular values of each matrix with their vectors.

    Parameters
    ----------
    stack : ndarray of shape (n, p, q)

    count : int

    Returns
    -------
    left : ndarray of shape (n, p, count)

    singular : ndarray of shape (n, count)
        The largest first; fewer than `count` where the matrices are smaller.

    right : ndarray of shape (n, q, count)
    """
    if stack.shape[1] < stack.shape[2]:
        right, singular, left = leading_pairs(stack.transpose(0, 2, 1), count)
        return left, singular, right
    squares, vectors = np.linalg.eigh(_gram(stack))
    singular = np.sqrt(np.maximum(squares[:, : -count - 1 : -1], 0))
    right = vectors[:, :, : -count - 1 : -1]
    scale = np.maximum(singular, np.finfo(float).tiny)
    return stack @ right / scale[:, None], singular, right


def _gram(stack):
    transposed = stack.transpose(0, 2, 1)
    if stack.shape[1] >= stack.shape[2]:
        return transposed @ stack
    return stack @ transposed
