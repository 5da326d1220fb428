"""The problem in few, well-scaled coordinates, and the way back."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from skattn.margin._norms import EntrywiseNorm, NuclearNorm

#: Most entries of a dense matrix that is formed only to be factored.
LARGEST_EXPLICIT = 2**22

#: Eigenvalues of a Gram matrix below this share of the largest are rounding.
GRAM_TOLERANCE = 1e-14


@dataclass(frozen=True)
class ReducedProblem:
    """Rows whose products with a coordinate vector are the margins.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (m, r)
        One constraint each, of norm at most 1.

    shape : tuple of int
        Shape of the coordinates: (r,), or (r_1, r_2) with r_1 * r_2 = r for the
        nuclear norm. The norm of the coordinates is the norm of the scaled coef.

    scale : float
        What the original rows ``dx z'`` were divided by.

    lift : callable
        Turns coordinates into a coef of the original problem.

    drop : callable or None
        Turns a coef within the span of the rows into its coordinates; only for the
        nuclear norm.
    """

    rows: np.ndarray | sparse.csr_array
    shape: tuple[int, ...]
    scale: float
    lift: Callable[[np.ndarray], np.ndarray]
    drop: Callable[[np.ndarray], np.ndarray] | None = None


def reduce_problem(problem):
    """Choose coordinates for the merged constraints of a problem.

    By the representer theorem the Frobenius solution lies in the span of the rows
    ``dx z'``, and the nuclear one in span(dx) x span(z). No such thing holds for
    entrywise norms, which are never reduced.

    Parameters
    ----------
    problem : MarginProblem
        With at least one constraint.

    Returns
    -------
    reduced : ReducedProblem
    """
    constraints = problem.merged
    differences, difference_scale = _unit_scale(constraints.differences)
    queries, query_scale = None, 1.0
    if constraints.queries is not None:
        queries, query_scale = _unit_scale(constraints.queries)
    scale = difference_scale * query_scale
    if isinstance(problem.norm, NuclearNorm):
        return _span_of_sides(differences, queries, constraints.query_index, scale)

    n_rows, n_coordinates = constraints.size, int(np.prod(problem.coef_shape))
    is_tall = n_rows >= n_coordinates
    if is_tall or isinstance(problem.norm, EntrywiseNorm):
        rows = _products(differences, queries, constraints.query_index)
        return ReducedProblem(
            rows,
            (n_coordinates,),
            scale,
            lambda point: point.reshape(problem.coef_shape) / scale,
        )
    is_small = n_rows * n_coordinates <= LARGEST_EXPLICIT
    if is_small and not sparse.issparse(differences):
        rows = _products(differences, queries, constraints.query_index)
        basis, triangle = linalg.qr(rows.T, mode="economic")
        return ReducedProblem(
            triangle.T,
            (n_rows,),
            scale,
            lambda point: (basis @ point).reshape(problem.coef_shape) / scale,
        )
    return _span_by_gram(constraints, scale)


def _unit_scale(rows):
    if sparse.issparse(rows):
        scale = float(np.sqrt(rows.multiply(rows).sum(axis=1).max()))
    else:
        scale = float(np.linalg.norm(rows, axis=1).max())
    return (rows / scale, scale) if scale > 0 else (rows, 1.0)


def _products(differences, queries, query_index):
    # The rows dx z', flattened. A solver of cones needs them one way or another.
    if queries is None:
        return differences
    n_rows, n_query_features = differences.shape[0], queries.shape[1]
    if not sparse.issparse(differences):
        products = differences[:, :, None] * queries[query_index][:, None, :]
        return products.reshape(n_rows, -1)
    owners = np.repeat(np.arange(n_rows), np.diff(differences.indptr))
    data = differences.data[:, None] * queries[query_index[owners]]
    columns = differences.indices[:, None] * n_query_features + np.arange(
        n_query_features
    )
    return sparse.csr_array(
        (data.ravel(), columns.ravel(), differences.indptr * n_query_features),
        shape=(n_rows, differences.shape[1] * n_query_features),
    )


def _span_of_sides(differences, queries, query_index, scale):
    left = right = None
    if differences.shape[0] < differences.shape[1] and not sparse.issparse(differences):
        left, triangle = linalg.qr(differences.T, mode="economic")
        differences = triangle.T
    if queries.shape[0] < queries.shape[1]:
        right, triangle = linalg.qr(queries.T, mode="economic")
        queries = triangle.T

    def lift(point):
        coef = point if left is None else left @ point
        return (coef if right is None else coef @ right.T) / scale

    def drop(coef):
        point = coef if left is None else left.T @ coef
        return (point if right is None else point @ right) * scale

    return ReducedProblem(
        _products(differences, queries, query_index),
        (differences.shape[1], queries.shape[1]),
        scale,
        lift,
        drop,
    )


def _span_by_gram(constraints, scale):
    gram = constraints.differences @ constraints.differences.T
    if sparse.issparse(gram):
        gram = gram.toarray()
    if constraints.queries is not None:
        queries = constraints.queries[constraints.query_index]
        gram = gram * (queries @ queries.T)
    eigenvalues, vectors = np.linalg.eigh(gram / scale**2)
    is_kept = eigenvalues > GRAM_TOLERANCE * max(eigenvalues[-1], 0.0)
    roots, vectors = np.sqrt(eigenvalues[is_kept]), vectors[:, is_kept]
    return ReducedProblem(
        vectors * roots,
        (roots.size,),
        scale,
        lambda point: constraints.adjoint(vectors @ (point / roots)) / scale**2,
    )
