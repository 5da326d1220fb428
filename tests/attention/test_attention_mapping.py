"""The mapping of a model: the functions of arrays, and an alpha that learns."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn import mappings
from skattn.attention.mapping import Mapping, initial_mapping_parameters
from skattn.attention.segments import Segments, segment_weights
from skattn.mappings import MAPPING_NAMES, learned_alpha

OFFSETS = np.array([0, 1, 4, 9, 20])
SEGMENTS = Segments(torch.tensor(OFFSETS))
CHOICES = (
    *((name, None) for name in MAPPING_NAMES if name != "entmax"),
    ("entmax", {"alpha": 1.3}),
    ("entmax", {"alpha": 3}),
    ("topk", {"k": 2}),
    ("topk", {"power": (1.0, 0.5)}),
)
on_every_choice = pytest.mark.parametrize(("name", "params"), CHOICES, ids=str)


def random_scores(n_heads=3, seed=0):
    return torch.tensor(np.random.RandomState(seed).randn(20, n_heads))


def learned(n_heads=3, raw=None):
    start = initial_mapping_parameters("entmax", n_heads=n_heads)["mapping_alpha_raw"]
    return Mapping("entmax", alpha_raw=torch.tensor(start if raw is None else raw))


@on_every_choice
def test_equals_the_function(name, params):
    scores = random_scores()
    expected = getattr(mappings, name)(scores.numpy(), OFFSETS, **(params or {}))
    module = Mapping(name, params)
    assert_allclose(module(scores, SEGMENTS), expected, atol=1e-15)
    assert module.alpha is None
    assert not list(module.parameters())
    assert initial_mapping_parameters(name, params, n_heads=3) == {}


@on_every_choice
def test_gradient(name, params):
    module = Mapping(name, params)
    scores = random_scores().requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: module(scores, SEGMENTS), scores)


def test_learned_alpha_starts_as_entmax15():
    module = learned()
    scores = random_scores()
    assert_array_equal(module.alpha.detach(), [1.5, 1.5, 1.5])
    expected = mappings.entmax15(scores.numpy(), OFFSETS)
    assert_allclose(module(scores, SEGMENTS).detach(), expected, atol=1e-15)


def test_learned_alpha_is_one_a_head():
    raw = np.array([-2.0, 0.5, 3.0])
    module = learned(raw=raw)
    assert_allclose(module.alpha.detach(), learned_alpha(raw), atol=1e-15)
    scores = random_scores()
    expected = mappings.entmax(scores.numpy(), OFFSETS, alpha=learned_alpha(raw))
    assert_allclose(module(scores, SEGMENTS).detach(), expected, atol=1e-15)
    assert [name for name, _ in module.named_parameters()] == ["mapping_alpha_raw"]


def test_gradient_of_a_learned_alpha():
    scores = random_scores().requires_grad_()
    module = learned(raw=np.array([-2.0, 0.5, 3.0]))
    assert torch.autograd.gradcheck(
        lambda scores, _: module(scores, SEGMENTS), (scores, module.mapping_alpha_raw)
    )


@pytest.mark.parametrize("target", [1.2, 1.8])
def test_alpha_learns_the_order_that_made_the_weights(target):
    scores = random_scores(1)
    made = torch.tensor(mappings.entmax(scores.numpy(), OFFSETS, alpha=target))
    module = learned(1)
    optimizer = torch.optim.LBFGS(module.parameters(), line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((module(scores, SEGMENTS) - made) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    assert_allclose(module.alpha.detach(), [target], atol=1e-4)


@pytest.mark.parametrize("raw", [-1e4, -40.0, 40.0, 1e4])
def test_an_alpha_at_either_end(raw):
    module = learned(1, raw=np.array([raw]))
    scores = random_scores(1).requires_grad_()
    weights = module(scores, SEGMENTS)
    end = mappings.softmax if raw < 0 else mappings.sparsemax
    assert_allclose(weights.detach(), end(scores.detach().numpy(), OFFSETS), atol=1e-15)
    (weights * random_scores(1, seed=1)).sum().backward()
    assert scores.grad.isfinite().all()
    assert module.mapping_alpha_raw.grad.isfinite().all()


@on_every_choice
def test_relative_gradient_is_for_softmax_only(name, params):
    scores = (random_scores() * 1e5).requires_grad_()
    module = Mapping(name, params)
    upstream = random_scores(seed=1)
    exact, relative = (
        torch.autograd.grad((module(scores, SEGMENTS, flag) * upstream).sum(), scores)[
            0
        ]
        for flag in (False, True)
    )
    if name == "softmax":
        assert (exact == 0).all()
        assert (relative != 0).any()
    else:
        assert_array_equal(relative, exact)


@on_every_choice
def test_not_a_number_shows_in_the_weights(name, params):
    module = Mapping(name, params)
    scores = random_scores(1)
    scores[6] = torch.nan
    weights = module(scores, SEGMENTS)
    assert weights[4:9].isnan().any()
    others = torch.cat([weights[:4], weights[9:]])
    assert others.isfinite().all()


@pytest.mark.parametrize("order", [1.3, 3.0])
def test_not_a_number_ends(order):
    scores = torch.full((20, 1), torch.nan)
    assert segment_weights(scores, SEGMENTS, order).isnan().all()


@on_every_choice
def test_float32(name, params):
    module = Mapping(name, params)
    weights = module(random_scores().float(), SEGMENTS)
    assert weights.dtype == torch.float32
    assert_allclose(weights, module(random_scores(), SEGMENTS), atol=1e-5)


def test_float32_of_a_learned_alpha():
    module = learned().float()
    weights = module(random_scores().float(), SEGMENTS)
    assert weights.dtype == torch.float32
    weights.sum().backward()
    assert module.mapping_alpha_raw.grad.dtype == torch.float32


def test_travels_as_a_state():
    module = learned(raw=np.array([-2.0, 0.5, 3.0]))
    other = learned()
    other.load_state_dict(module.state_dict())
    assert_array_equal(other.alpha.detach(), module.alpha.detach())
    assert "'entmax', {'alpha': 'learned'}" in repr(module)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("entmax",), "alpha_raw must be given .* no alpha_raw"),
        (("softmax", None, torch.zeros(1)), "alpha_raw must be given .* and alpha_raw"),
        (("entmax", {"alpha": 1.5}, torch.zeros(1)), "and for no other"),
        (("entmax", None, torch.tensor(0.0)), r"shape \(n_heads,\), got shape \(\)"),
        (("hardmax",), "mapping must be one of"),
        (("softmax", {"k": 3}), "needs mapping='topk'"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        Mapping(*arguments)
    if len(arguments) < 3 and arguments != ("entmax",):
        with pytest.raises(ValueError, match=message):
            initial_mapping_parameters(*arguments)
