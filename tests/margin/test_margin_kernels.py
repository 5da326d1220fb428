"""The compiled loops against the operators of numpy and a step done by hand."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem
from skattn.margin._blocks import PROMPT_BLOCK, make_blocks

kernels = pytest.importorskip("skattn.margin._kernels")


def ragged_problem(seed, *, is_bilinear=True, C=np.inf, n_samples=9, d=5, d_q=3):
    rng = np.random.default_rng(seed)
    samples = [
        rng.standard_normal((length, d)) for length in rng.integers(1, 9, n_samples)
    ]
    query = rng.standard_normal((n_samples, d_q)) if is_bilinear else None
    selected = [int(rng.integers(len(sample))) for sample in samples]
    return MarginProblem(samples, selected, query, C)


@pytest.mark.parametrize("is_bilinear", [True, False])
def test_operators_agree_with_numpy(is_bilinear):
    problem = ragged_problem(0, is_bilinear=is_bilinear)
    merged, blocks = problem.merged, make_blocks(problem.merged)
    rng = np.random.default_rng(1)
    dual = rng.random(merged.size) * (rng.random(merged.size) < 0.5)
    coef = rng.standard_normal(problem.coef_shape)
    columns = coef.reshape(blocks.differences.shape[1], -1)
    np.testing.assert_allclose(
        kernels.margins(*blocks.layout, columns), merged.margins(coef)
    )
    np.testing.assert_allclose(
        kernels.adjoint(*blocks.layout, dual).reshape(coef.shape),
        merged.adjoint(dual),
        atol=1e-14,
    )
    products = blocks.difference_norms * np.repeat(
        blocks.query_norms, np.diff(blocks.offsets)
    )
    np.testing.assert_allclose(np.sqrt(products), merged.row_norms())


def test_prompts_are_cut_into_blocks():
    rng = np.random.default_rng(2)
    for n_tokens in (2, PROMPT_BLOCK + 1, PROMPT_BLOCK + 2, 3 * PROMPT_BLOCK):
        problem = MarginProblem(rng.standard_normal((1, n_tokens, 4)), [0])
        blocks = make_blocks(problem.merged)
        sizes = np.diff(blocks.offsets)
        assert sizes.sum() == n_tokens - 1
        assert sizes.min() > 0
        assert sizes.max() <= PROMPT_BLOCK


def test_sparse_rows_become_dense_or_are_refused(monkeypatch):
    from skattn.margin import _blocks

    rng = np.random.default_rng(3)
    values = rng.standard_normal((6, 4)) * (rng.random((6, 4)) < 0.5)

    class Container:
        offsets = np.array([0, 3, 6])

    Container.values = sparse.csr_array(values)
    problem = MarginProblem(Container, [0, 1])
    dense = make_blocks(MarginProblem(values.reshape(2, 3, 4), [0, 1]).merged)
    np.testing.assert_array_equal(
        make_blocks(problem.merged).differences, dense.differences
    )
    monkeypatch.setattr(_blocks, "LARGEST_DENSE", 3)
    with pytest.raises(ValueError, match="too large"):
        make_blocks(problem.merged)


def start(blocks, coef):
    state = {
        "coef": coef.copy(),
        "dual": np.zeros(blocks.C.size),
        "rows": np.arange(blocks.C.size),
        "n_active": np.diff(blocks.offsets),
    }
    return state, np.array([7], dtype=np.uint64)


@pytest.mark.parametrize("C", [np.inf, 0.3])
def test_one_constraint_is_solved_by_one_step(C):
    problem = MarginProblem([[[2.0, 0.0], [0.0, 0.0]]], [0], [[3.0]], C)
    blocks = make_blocks(problem.merged)
    state, random_state = start(blocks, np.zeros((2, 1)))
    violation = kernels.descend_epoch(
        *blocks.arrays, *state.values(), np.inf, random_state
    )
    assert violation == 1.0
    # curvature |dx|^2 |z|^2 = 36
    np.testing.assert_allclose(state["dual"], min(1 / 36, C))
    np.testing.assert_allclose(state["coef"], [[6 * min(1 / 36, C)], [0]])


@pytest.mark.parametrize("C", [np.inf, 0.2])
@pytest.mark.parametrize("is_bilinear", [True, False])
def test_epochs_lower_the_dual_and_keep_the_invariant(C, is_bilinear):
    problem = ragged_problem(4, is_bilinear=is_bilinear, C=C, d=30)
    blocks = make_blocks(problem.merged)
    rng = np.random.default_rng(5)
    shift = 0.1 * rng.standard_normal((30, blocks.queries.shape[1]))
    state, random_state = start(blocks, shift)
    threshold, value = np.inf, 0.5 * np.sum(shift**2)
    for epoch in range(200):
        if epoch % 10 == 0:
            kernels.activate_all(blocks.offsets, state["n_active"])
            threshold = np.inf
        threshold = kernels.descend_epoch(
            *blocks.arrays, *state.values(), threshold, random_state
        )
        dual, coef = state["dual"], state["coef"]
        assert np.all((dual >= 0) & (dual <= C))
        expected = shift + kernels.adjoint(*blocks.layout, dual)
        np.testing.assert_allclose(coef, expected, atol=1e-11)
        previous, value = value, 0.5 * np.sum(coef**2) - dual.sum()
        assert value <= previous + 1e-12
    # Optimality of: minimise 1/2 |W - shift|^2 + C * slack.
    excess = kernels.margins(*blocks.layout, state["coef"]) - 1
    assert np.all(excess[dual == 0] >= -1e-6)
    assert np.all(excess[dual == C] <= 1e-6)
    np.testing.assert_allclose(excess[(dual > 0) & (dual < C)], 0, atol=1e-6)
    np.testing.assert_array_equal(np.sort(state["rows"]), np.arange(blocks.C.size))


def test_satisfied_coordinates_are_set_aside_until_activated():
    tokens = np.array([[[1.0, 0.0], [0.0, 0.0], [-9.0, 0.0]]])
    blocks = make_blocks(MarginProblem(tokens, [0], [[1.0]]).merged)
    state, random_state = start(blocks, np.array([[1.5], [0.0]]))
    kernels.descend_epoch(*blocks.arrays, *state.values(), 1.0, random_state)
    np.testing.assert_array_equal(state["n_active"], [1])
    row = state["rows"][1]
    np.testing.assert_array_equal(blocks.differences[row], [10.0, 0.0])
    kernels.activate_all(blocks.offsets, state["n_active"])
    np.testing.assert_array_equal(state["n_active"], [2])


def test_a_query_of_zero_takes_the_whole_cost():
    for C, expected in ((2.0, 2.0), (np.inf, 0.0)):
        problem = MarginProblem([[[1.0], [0.0]]], [0], [[0.0]], C)
        blocks = make_blocks(problem.merged)
        state, random_state = start(blocks, np.zeros((1, 1)))
        kernels.descend_epoch(*blocks.arrays, *state.values(), np.inf, random_state)
        assert state["dual"] == [expected]
