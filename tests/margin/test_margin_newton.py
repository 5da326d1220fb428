"""The pieces of the interior point against matrices formed in full."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem
from skattn.margin._factored_rows import FactoredRows
from skattn.margin._newton import EntrySystem, RowSystem, weighted_gram
from skattn.margin._scaling import FrobeniusScaling, NuclearScaling


def ragged_rows(seed, n_samples=6, n_features=4, n_query_features=3, **kwargs):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, n_samples)
    tokens = [rng.standard_normal((length, n_features)) for length in lengths]
    selected = [int(rng.integers(length)) for length in lengths]
    queries = rng.standard_normal((n_samples, n_query_features))
    problem = MarginProblem(tokens, selected, queries)
    return problem, FactoredRows(problem.merged, **kwargs)


def explicit(rows):
    products = rows.differences[:, :, None] * rows.queries[rows.groups][:, None, :]
    return products.reshape(rows.size, -1)


def positive_definite(rng, size):
    root = rng.standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size)


def scaling_of(name, rows, seed=1):
    if name == "fro":
        return FrobeniusScaling()
    rng = np.random.default_rng(seed)
    size = sum(rows.shape)
    return NuclearScaling(
        positive_definite(rng, size), positive_definite(rng, size), rows.shape[0]
    )


def matrix_of(operator, shape):
    columns = [
        operator(unit.reshape(shape)).ravel() for unit in np.eye(shape[0] * shape[1])
    ]
    return np.array(columns).T


@pytest.mark.parametrize("to_unit_scale", [True, False])
@pytest.mark.parametrize("shape", [(6, 4, 3), (2, 9, 8)])
def test_factored_rows_are_the_rows_of_the_problem(shape, to_unit_scale):
    n_samples, n_features, n_query_features = shape
    problem, rows = ragged_rows(
        0, n_samples, n_features, n_query_features, to_unit_scale=to_unit_scale
    )
    merged = problem.merged
    rng = np.random.default_rng(1)
    point, dual = rng.standard_normal(rows.shape), rng.random(rows.size)
    np.testing.assert_allclose(
        merged.margins(rows.lift(point)), rows.margins(point), atol=1e-12
    )
    np.testing.assert_allclose(
        rows.lift(rows.adjoint(dual)) * rows.scale**2, merged.adjoint(dual), atol=1e-12
    )
    np.testing.assert_allclose(rows.drop(rows.lift(point)), point, atol=1e-12)
    np.testing.assert_allclose(explicit(rows) @ point.ravel(), rows.margins(point))
    if to_unit_scale:
        np.testing.assert_allclose(
            [
                np.linalg.norm(rows.differences, axis=1).max(),
                np.linalg.norm(rows.queries, axis=1).max(),
            ],
            1,
        )


def test_factored_rows_of_a_prompt_and_of_sparse_tokens():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((5, 4, 3)) * (rng.random((5, 4, 3)) < 0.6)

    class Container:
        values = sparse.csr_array(tokens.reshape(-1, 3))
        offsets = np.arange(0, 21, 4)

    problem = MarginProblem(Container(), [0, 1, 2, 3, 0])
    rows = FactoredRows(problem.merged)
    assert rows.shape == (3, 1)
    coef = rows.lift(np.ones((3, 1)))
    assert coef.shape == (3,)
    np.testing.assert_allclose(
        problem.merged.margins(coef), rows.margins(np.ones((3, 1)))
    )


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_weighted_gram_is_the_product_in_full(norm, monkeypatch):
    # Blocks of one group at a time, to cross their borders.
    monkeypatch.setattr("skattn.margin._newton.BLOCK_ENTRIES", 1)
    _, rows = ragged_rows(0)
    scaling = scaling_of(norm, rows)
    scaling.find_basis()
    weights = np.random.default_rng(1).random(rows.size) + 0.1
    left = scaling.left_to_basis(np.eye(rows.shape[0]))
    right = scaling.right_to_basis(np.eye(rows.shape[1]))
    in_basis = explicit(rows) @ np.kron(left, right)
    np.testing.assert_allclose(
        weighted_gram(rows, scaling, weights),
        in_basis.T @ (weights[:, None] * in_basis),
        atol=1e-12,
    )


@pytest.mark.parametrize("shape", [(6, 4, 3), (6, 3, 5)])
def test_nesterov_todd_scaling_maps_the_dual_to_the_primal(shape):
    rng = np.random.default_rng(0)
    size = shape[1] + shape[2]
    X, Z = positive_definite(rng, size), positive_definite(rng, size)
    scaling = NuclearScaling(X, Z, shape[1])
    np.testing.assert_allclose(scaling.matrix @ Z @ scaling.matrix, X, atol=1e-9)
    diagonal = np.diag(scaling.spectrum)
    np.testing.assert_allclose(scaling.root.T @ Z @ scaling.root, diagonal, atol=1e-9)
    inverse = scaling.inverse_root
    np.testing.assert_allclose(inverse @ X @ inverse.T, diagonal, atol=1e-9)


@pytest.mark.parametrize("shape", [(6, 4, 3), (6, 3, 5), (6, 4, 4)])
def test_scaling_operators_agree_with_each_other(shape):
    _, rows = ragged_rows(0, *shape)
    scaling = scaling_of("nuc", rows)
    scaling.find_basis()
    G, n_left = scaling.matrix, rows.shape[0]
    gradient = np.random.default_rng(2).standard_normal(rows.shape)

    def expected(gradient):
        zeros = np.zeros((n_left, n_left)), np.zeros((rows.shape[1],) * 2)
        change = np.block([[zeros[0], gradient], [gradient.T, zeros[1]]])
        return 0.5 * (G @ change @ G)[:n_left, n_left:]

    np.testing.assert_allclose(scaling.apply(gradient), expected(gradient))
    np.testing.assert_allclose(
        scaling.inverse(scaling.apply(gradient)), scaling.to_basis(gradient), atol=1e-8
    )
    inverse = np.zeros((rows.n_entries, rows.n_entries))
    scaling.add_inverse(inverse)
    from_basis = matrix_of(scaling.from_basis, rows.shape)
    np.testing.assert_allclose(
        inverse,
        from_basis.T @ np.linalg.inv(matrix_of(expected, rows.shape)) @ from_basis,
        atol=1e-7,
    )
    rows_in_full = explicit(rows)
    np.testing.assert_allclose(
        scaling.row_gram(rows),
        rows_in_full @ matrix_of(expected, rows.shape) @ rows_in_full.T,
        atol=1e-10,
    )


@pytest.mark.parametrize("system_class", [EntrySystem, RowSystem])
@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_systems_solve_both_equations(norm, system_class):
    _, rows = ragged_rows(3)
    scaling = scaling_of(norm, rows)
    rng = np.random.default_rng(4)
    weights = rng.random(rows.size) + 0.1
    u, h = rng.standard_normal(rows.shape), rng.standard_normal(rows.size)
    point, dual = system_class(rows, scaling, weights).solve(u, h)
    np.testing.assert_allclose(point - scaling.apply(rows.adjoint(dual)), u, atol=1e-8)
    np.testing.assert_allclose(weights * rows.margins(point) + dual, h, atol=1e-8)
