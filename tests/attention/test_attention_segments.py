"""Mappings of tensors: same values as arrays, exact gradients."""

import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.attention.segments import Segments, segment_weights
from skattn.mappings import MAPPINGS, ORDERS

OFFSETS = np.array([0, 1, 4, 9, 20])
all_mappings = pytest.mark.parametrize("name", MAPPINGS)


def random_scores(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape)


@all_mappings
@pytest.mark.parametrize("shape", [(20,), (20, 3)])
def test_equals_arrays(name, shape):
    scores = random_scores(*shape)
    scores[2] = -np.inf
    for offsets in (OFFSETS, torch.tensor(OFFSETS)):
        weights = MAPPINGS[name](torch.tensor(scores), offsets)
        assert_allclose(weights, MAPPINGS[name](scores, OFFSETS), atol=1e-15)


@all_mappings
def test_rows_equal_arrays(name):
    scores = random_scores(3, 2, 5)
    scores[0, 0, 1] = -np.inf
    weights = MAPPINGS[name](torch.tensor(scores))
    assert_allclose(weights, MAPPINGS[name](scores), atol=1e-15)


@all_mappings
def test_dtypes(name):
    assert MAPPINGS[name](torch.tensor([1, 2])).dtype == torch.get_default_dtype()
    assert MAPPINGS[name](torch.tensor([1.0, 2.0]).double()).dtype == torch.float64


@all_mappings
def test_gradient(name):
    scores = torch.tensor(random_scores(20, 2), requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda scores: MAPPINGS[name](scores, OFFSETS), scores
    )
    rows = torch.tensor(random_scores(4, 5), requires_grad=True)
    assert torch.autograd.gradcheck(MAPPINGS[name], rows)


@all_mappings
def test_gradient_with_absent_tokens(name):
    scores = torch.tensor([0.1, -torch.inf, 0.3, 0.2], requires_grad=True)
    upstream = torch.tensor([1.0, 5.0, -1.0, 2.0])
    MAPPINGS[name](scores).backward(upstream)
    present = scores.detach()[[0, 2, 3]].requires_grad_()
    MAPPINGS[name](present).backward(upstream[[0, 2, 3]])
    assert_allclose(scores.grad[[0, 2, 3]], present.grad, atol=1e-7)
    assert scores.grad[1] == 0


def test_softmax_gradient_keeps_its_digits_at_saturation():
    # With scores 200 apart the usual form, s (g - sum(s g)), gives 0 for the top
    # token. Exactly: s_top sum_u s_u (g_top - g_u), with s_u = exp(-gap).
    gap = 200.0
    upstream = torch.tensor([0.1, 0.7, -0.4], dtype=torch.float64)
    scores = torch.tensor([gap, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    MAPPINGS["softmax"](scores, [0, 3]).backward(upstream)
    small = np.exp(-gap) * np.array([1.0, np.e])
    others = small * (upstream[1:].numpy() - 0.1)
    assert_allclose(scores.grad.numpy(), [-others.sum(), *others], rtol=1e-13)


@pytest.mark.parametrize("shape", [(20,), (20, 3), (20, 2, 3)])
def test_segment_operations(shape):
    values = random_scores(*shape)
    segments = Segments(torch.tensor(OFFSETS))
    parts = np.split(values, OFFSETS[1:-1])
    assert_allclose(
        segments.sum(torch.tensor(values)), [p.sum(0) for p in parts], atol=1e-14
    )
    assert_array_equal(segments.max(torch.tensor(values)), [p.max(0) for p in parts])
    each = torch.tensor(values[:4])
    repeated = np.repeat(values[:4], np.diff(OFFSETS), axis=0)
    assert_array_equal(segments.repeat(each), repeated)
    assert torch.autograd.gradcheck(
        segments.sum, torch.tensor(values, requires_grad=True)
    )
    assert torch.autograd.gradcheck(segments.repeat, each.requires_grad_())


@pytest.mark.parametrize("shape", [(20,), (20, 3)])
def test_order_of_the_tokens(shape):
    # Few different scores, so that many tie.
    scores = torch.tensor(np.random.RandomState(0).randint(-2, 2, size=shape)).double()
    scores[6] = -torch.inf
    segments = Segments(torch.tensor(OFFSETS))
    rows = segments.descending(scores)
    for start, stop in itertools.pairwise(OFFSETS):
        own = scores[start:stop].reshape(stop - start, -1).numpy()
        expected = start + np.argsort(-own, axis=0, kind="stable")
        assert_array_equal(rows[start:stop].reshape(own.shape), expected)
    assert_array_equal(segments.scatter(segments.gather(scores, rows), rows), scores)


def test_take():
    segments = Segments(torch.tensor(OFFSETS))
    chosen, rows = segments.take(torch.tensor([2, 0, 2]))
    assert chosen.offsets.tolist() == [0, 5, 6, 11]
    assert rows.tolist() == [4, 5, 6, 7, 8, 0, 4, 5, 6, 7, 8]


@all_mappings
def test_not_a_number_is_an_error_and_ends(name):
    scores = torch.full((20, 1), torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        MAPPINGS[name](scores, OFFSETS)
    # Inside a training the check is left out: the loss tells.
    weights = segment_weights(scores, Segments(torch.tensor(OFFSETS)), ORDERS[name])
    assert weights.isnan().all()


@pytest.mark.parametrize(
    ("scores", "offsets", "message"),
    [
        (torch.tensor([0.0, -torch.inf]), [0, 1, 2], "sample 1 has no valid token"),
        (torch.zeros(2), [0, 2, 2], "sample 1 has no token"),
        (torch.zeros(2, 0), None, "at least one token"),
        (torch.tensor(1.0), [0, 1], "at least one token"),
    ],
)
def test_errors(scores, offsets, message):
    with pytest.raises(ValueError, match=message):
        MAPPINGS["sparsemax"](scores, offsets)


def gradients_of_scores(scores, relative_gradient):
    scores = scores.clone().requires_grad_()
    segments = Segments(torch.tensor([0, 3, 7, 8]))
    weights = segment_weights(scores, segments, 1.0, relative_gradient)
    values = torch.linspace(-1.0, 2.0, 8, dtype=torch.float64)[:, None] ** 2
    (weights * values).sum().backward()
    return scores.grad


def test_relative_gradient_is_the_gradient_times_a_factor():
    rng = np.random.RandomState(0)
    scores = torch.tensor(rng.randn(8, 2) * 5)
    exact = gradients_of_scores(scores, relative_gradient=False)
    relative = gradients_of_scores(scores, relative_gradient=True)
    used = exact != 0
    factors = (relative[used] / exact[used]).numpy()
    assert_allclose(factors, factors[0], rtol=1e-9)
    assert factors[0] >= 1


def test_relative_gradient_outlives_saturation():
    scores = torch.tensor(np.random.RandomState(0).randn(8, 1) * 1e5)
    assert (gradients_of_scores(scores, relative_gradient=False) == 0).all()
    relative = gradients_of_scores(scores, relative_gradient=True)
    assert relative.abs().max() > 1e-3


def test_relative_gradient_is_exact_where_top_tokens_tie():
    scores = torch.zeros(8, 1, dtype=torch.float64)
    exact = gradients_of_scores(scores, relative_gradient=False)
    assert_allclose(gradients_of_scores(scores, relative_gradient=True), exact)
