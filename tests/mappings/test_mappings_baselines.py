"""The mappings of linear attention against their definitions."""

import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.mappings import elu, linear

OFFSETS = np.array([0, 1, 4, 9, 20])
both = pytest.mark.parametrize("mapping", [elu, linear])


def random_scores(*shape, seed=0):
    return 3 * np.random.RandomState(seed).randn(*shape)


def by_definition(mapping, scores):
    """Weights of one sample without absent tokens."""
    if mapping is linear:
        return scores / len(scores)
    values = torch.nn.functional.elu(torch.tensor(scores)).numpy() + 1
    return values / values.sum()


@both
def test_definition(mapping):
    scores = random_scores(20, 2)
    weights = mapping(scores, OFFSETS)
    for start, stop in itertools.pairwise(OFFSETS):
        for head in range(2):
            expected = by_definition(mapping, scores[start:stop, head])
            assert_allclose(weights[start:stop, head], expected, atol=1e-15)


@both
def test_forms_and_libraries_agree(mapping):
    rows = random_scores(4, 3, 5)
    rows[1, 2, 3] = -np.inf
    weights = mapping(rows)
    ends = 5 * np.arange(13)
    assert_allclose(mapping(rows.ravel(), ends), weights.ravel(), atol=1e-15)
    assert_allclose(mapping(torch.tensor(rows)), weights, atol=1e-15)
    tensor = mapping(torch.tensor(rows.ravel()), torch.tensor(ends))
    assert_allclose(tensor, weights.ravel(), atol=1e-15)


@both
def test_absent_tokens_do_not_count(mapping):
    scores = np.array([-np.inf, 0.5, -1.0, -np.inf, 2.0])
    weights = mapping(scores)
    assert_array_equal(weights[[0, 3]], 0)
    assert_array_equal(weights[[1, 2, 4]], mapping(scores[[1, 2, 4]]))


def test_elu_of_scores_of_any_size():
    assert_allclose(elu([-1000.0, -1000.0, -1e5]), [0.5, 0.5, 0.0], atol=1e-15)
    assert_allclose(elu([1e300, 1e300, -1e300]), [0.5, 0.5, 0.0], atol=1e-13)
    assert_allclose(linear([1e300, -1e300]), [5e299, -5e299])


@both
def test_gradient(mapping):
    # 0 is where the branches of elu meet, and where training starts.
    scores = random_scores(20, 2)
    scores[5:8] = 0.0
    scores = torch.tensor(scores, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scores: mapping(scores, OFFSETS), scores)
    rows = torch.tensor(random_scores(3, 4), requires_grad=True)
    assert torch.autograd.gradcheck(mapping, rows)


@both
def test_gradient_with_absent_tokens(mapping):
    scores = torch.tensor([0.1, -torch.inf, 0.3, -0.2], requires_grad=True)
    upstream = torch.tensor([1.0, 5.0, -1.0, 2.0])
    mapping(scores).backward(upstream)
    present = scores.detach()[[0, 2, 3]].requires_grad_()
    mapping(present).backward(upstream[[0, 2, 3]])
    assert_allclose(scores.grad[[0, 2, 3]], present.grad, atol=1e-7)
    assert scores.grad[1] == 0


@both
def test_dtypes(mapping):
    scores = np.array([1, -2, 3])
    assert mapping(scores).dtype == np.float64
    single = mapping(scores.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, mapping(scores), atol=1e-6)
    assert mapping(torch.tensor(scores)).dtype == torch.get_default_dtype()


@both
@pytest.mark.parametrize(
    ("scores", "offsets", "message"),
    [
        ([[0.0, 1.0], [-np.inf, -np.inf]], None, "sample 1 has no valid token"),
        ([0.0, 1.0], [0, 2, 2], "sample 1 has no token"),
        ([0.0, np.nan], None, "NaN"),
        ([0.0, np.inf], None, "infinity"),
    ],
)
def test_errors(mapping, scores, offsets, message):
    for kind in (np.array, torch.tensor):
        with pytest.raises(ValueError, match=message):
            mapping(kind(scores), offsets)
