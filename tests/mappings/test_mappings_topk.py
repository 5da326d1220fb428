"""Top-k against softmax of the tokens that another rule of counting keeps."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.mappings import check_mapping, softmax, topk
from skattn.theory import attention_sparsity

POLICIES = (
    {"k": 1},
    {"k": 3},
    {"k": 10**30},
    {"mass": 0.3},
    {"mass": 0.8},
    {"mass": 1.0},
    {"power": 0.5},
    {"power": (2.0, 0.4)},
    {"power": (0.1, 0.0)},
    {"power": (50.0, 1.0)},
    {},
)
on_every_policy = pytest.mark.parametrize("policy", POLICIES, ids=str)
LENGTHS = np.array([1, 2, 3, 8, 8, 30, 200])
OFFSETS = np.r_[0, np.cumsum(LENGTHS)]


def random_scores(*shape, seed=0, spread=2.0):
    return spread * np.random.RandomState(seed).randn(*shape)


def softmax_of_the_best(scores, count):
    weights = np.zeros(len(scores))
    best = np.argsort(-scores, kind="stable")[:count]
    weights[best] = softmax(scores[best])
    return weights


def counts_of(scores, policy):
    """Tokens that a sample keeps, by the measure of `attention_sparsity`."""
    if "k" in policy:
        return min(policy["k"], len(scores))
    rows = softmax(scores)[None]
    if "power" in policy:
        return attention_sparsity(rows, power=policy["power"]).n_kept[0]
    return attention_sparsity(rows, mass=policy.get("mass", 0.95)).n_needed[0]


@on_every_policy
@pytest.mark.parametrize("spread", [0.0, 1e-3, 2.0, 50.0])
def test_is_the_softmax_of_the_best(policy, spread):
    scores = random_scores(OFFSETS[-1], 2, spread=spread)
    weights = topk(scores, OFFSETS, **policy)
    for head in range(2):
        parts = zip(
            np.split(scores[:, head], OFFSETS[1:-1]),
            np.split(weights[:, head], OFFSETS[1:-1]),
            strict=True,
        )
        for own, own_weights in parts:
            expected = softmax_of_the_best(own, counts_of(own, policy))
            assert_allclose(own_weights, expected, atol=1e-15)
            # True zeros, and no others.
            positive = np.count_nonzero(softmax(own))
            kept = min(counts_of(own, policy), positive)
            assert np.count_nonzero(own_weights) == kept


def test_known_values():
    e = np.exp([0.0, -1.0])
    expected = [0, e[1] / e.sum(), e[0] / e.sum()]
    assert_allclose(topk([-2.0, 0.0, 1.0], k=2), expected, atol=1e-16)
    # 0.5 and 0.25 of 1 hold a mass of 0.75 exactly; 0.76 needs one token more.
    scores = np.log([0.5, 0.125, 0.25, 0.125])
    assert_allclose(topk(scores, mass=0.75), [2 / 3, 0, 1 / 3, 0], atol=1e-15)
    assert_allclose(topk(scores, mass=0.76), np.array([4, 1, 2, 0]) / 7, atol=1e-15)


@on_every_policy
def test_of_ties_the_first_are_kept(policy):
    n_kept = counts_of(np.zeros(20), policy)
    expected = np.repeat([1 / n_kept, 0], [n_kept, 20 - n_kept])
    for kind in (np.array, torch.tensor):
        weights = topk(kind(np.full((3, 20), 7.0)), **policy)
        assert_allclose(weights, np.tile(expected, (3, 1)), atol=1e-15)


@on_every_policy
def test_absent_tokens_do_not_count(policy):
    scores = random_scores(12)
    padded = np.full(30, -np.inf)
    rows = np.sort(np.random.RandomState(1).permutation(30)[:12])
    padded[rows] = scores
    weights = topk(padded, **policy)
    assert_allclose(weights[rows], topk(scores, **policy), atol=1e-15)
    assert_array_equal(np.delete(weights, rows), 0)


@on_every_policy
def test_forms_and_libraries_agree(policy):
    rows = random_scores(4, 3, 16)
    rows[1, 2, 3] = -np.inf
    weights = topk(rows, **policy)
    ends = 16 * np.arange(13)
    assert_array_equal(topk(rows.ravel(), ends, **policy), weights.ravel())
    heads = np.moveaxis(rows, 1, -1).reshape(64, 3)
    together = topk(heads, 16 * np.arange(5), **policy)
    assert_allclose(together.reshape(4, 16, 3), np.moveaxis(weights, 1, -1), atol=1e-15)
    assert_allclose(topk(torch.tensor(rows), **policy), weights, atol=1e-15)
    tensor = topk(torch.tensor(heads), 16 * np.arange(5), **policy)
    assert_allclose(tensor, together, atol=1e-15)


@on_every_policy
def test_a_sample_keeps_the_same_tokens_in_every_batch(policy):
    scores = random_scores(OFFSETS[-1], spread=0.01)
    together = np.split(topk(scores, OFFSETS, **policy), OFFSETS[1:-1])
    alone = [topk(own, **policy) for own in np.split(scores, OFFSETS[1:-1])]
    for one, other in zip(together, alone, strict=True):
        assert_array_equal(one > 0, other > 0)


@on_every_policy
def test_gradient(policy):
    scores = torch.tensor(random_scores(OFFSETS[5], 2), requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda scores: topk(scores, OFFSETS[:6], **policy), scores
    )
    rows = torch.tensor(random_scores(3, 2, 5), requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: topk(rows, **policy), rows)


def test_tokens_left_out_have_no_gradient():
    scores = torch.tensor([1.0, -torch.inf, 3.0, 2.0], requires_grad=True)
    topk(scores, k=2).dot(torch.tensor([9.0, 9.0, 1.0, 2.0])).backward()
    slope = np.exp(-1) / (1 + np.exp(-1)) ** 2
    assert_allclose(scores.grad, [0, 0, -slope, slope], atol=1e-7)


@on_every_policy
def test_float32_and_integers(policy):
    scores = np.array([3, 1, 0, 2, -5, 4])
    single = topk(scores.astype(np.float32), **policy)
    assert single.dtype == np.float32
    assert_allclose(single, topk(scores, **policy), atol=1e-6)
    assert_allclose(topk(torch.tensor(scores), **policy), single, atol=1e-6)


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        ({"k": 0}, ValueError, "k == 0, must be >= 1"),
        ({"k": 2.0}, TypeError, "k must be an instance of int, not float"),
        ({"k": True}, TypeError, "k must be an instance of int, not bool"),
        ({"mass": 0}, ValueError, r"mass == 0, must be in \(0, 1\]"),
        ({"mass": 1.5}, ValueError, r"mass == 1.5, must be in \(0, 1\]"),
        ({"mass": np.nan}, ValueError, r"mass == nan, must be in \(0, 1\]"),
        ({"mass": "most"}, TypeError, "mass must be an instance of float, not str"),
        ({"power": 1.5}, ValueError, "power must have a > 0 and C in"),
        ({"power": (0, 0.5)}, ValueError, "power must have a > 0 and C in"),
        ({"power": (np.nan, 0.5)}, ValueError, "power must have a > 0 and C in"),
        ({"power": (1, 0.5, 2)}, TypeError, "power must be the exponent C, or the"),
        ({"power": ("a", 0.5)}, TypeError, "power must be an instance of float"),
        ({"power": "half"}, TypeError, "power must be the exponent C, or the"),
    ],
)
def test_bad_policies(policy, error, message):
    with pytest.raises(error, match=f"^{message}"):
        topk([0.0, 1.0], **policy)
    (name,) = policy
    with pytest.raises(
        error, match=message.replace(name, rf"mapping_params\['{name}'\]", 1)
    ):
        check_mapping("topk", policy)


def test_one_policy_at_most():
    with pytest.raises(ValueError, match="At most one of k, mass and power"):
        topk([0.0, 1.0], k=1, mass=0.5)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_bad_scores(kind):
    for scores, message in (
        ([[0.0, 1.0], [-np.inf, -np.inf]], "sample 1 has no valid token"),
        ([0.0, np.nan], "NaN"),
        (1.0, "at least one token"),
    ):
        with pytest.raises(ValueError, match=message):
            topk(kind(scores))
    assert topk(kind(np.empty((0, 3)))).shape == (0, 3)
