"""The loss of attention with a fixed head, less its infimum."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from skattn.attention import AttentionModel, RaggedTokens, TableTokens, TokenBatch
from skattn.optim import excess_loss


def problem(seed=0, n_heads=1, mapping="softmax", scale=1.0, head_scale=1.0):
    rng = np.random.RandomState(seed)
    lengths = rng.randint(1, 6, size=12)
    values = rng.randn(lengths.sum(), 3)
    tokens = RaggedTokens.from_arrays(values, np.r_[0, lengths.cumsum()])
    parameters = {
        "attention_coef": scale * rng.randn(n_heads, 3),
        "coef": head_scale * rng.randn(1, 3 * n_heads),
        "intercept": rng.randn(1),
    }
    model = AttentionModel.from_parameters(parameters, mapping=mapping)
    return model, TokenBatch(tokens), torch.tensor(rng.randint(2, size=12))


def plain_loss(model, batch, targets, weight):
    signs = 2.0 * targets - 1.0
    losses = torch.nn.functional.softplus(-signs * model(batch)[:, 0])
    return (weight * losses).sum() / weight.sum()


@pytest.mark.parametrize("mapping", ["softmax", "sparsemax", "entmax15"])
@pytest.mark.parametrize("n_heads", [1, 3])
@pytest.mark.parametrize("head_scale", [1.0, 100.0])
def test_excess_and_infimum_add_up_to_the_loss(mapping, n_heads, head_scale):
    options = {"mapping": mapping, "n_heads": n_heads, "head_scale": head_scale}
    model, batch, targets = problem(**options)
    weight = torch.tensor(np.random.RandomState(1).rand(12))
    excess, infimum = excess_loss(model, batch, targets, weight)
    loss = plain_loss(model, batch, targets, weight)
    assert_allclose((excess + infimum).item(), loss.item(), rtol=1e-12)
    assert excess > 0
    assert not infimum.requires_grad
    model.scoring.attention_coef.grad = None
    excess.backward()
    gradient = model.scoring.attention_coef.grad.clone()
    model.scoring.attention_coef.grad = None
    loss.backward()
    assert_allclose(gradient, model.scoring.attention_coef.grad, rtol=1e-9, atol=1e-13)
    assert model.head.intercept.grad is not None


def test_no_weights_are_equal_weights():
    model, batch, targets = problem()
    for got, expected in zip(
        excess_loss(model, batch, targets),
        excess_loss(model, batch, targets, torch.full((12,), 3.0)),
        strict=True,
    ):
        assert_allclose(got.item(), expected.item(), rtol=1e-14)


def test_all_digits_where_the_loss_has_none():
    """Against rational arithmetic, 1e-40 above the infimum."""
    gap = 92.0
    parameters = {
        "attention_coef": np.array([[gap]]),
        "coef": np.array([[1.0]]),
        "intercept": np.zeros(1),
    }
    model = AttentionModel.from_parameters(parameters)
    batch = TokenBatch(RaggedTokens.from_arrays([[1.0], [0.0]], [0, 2]))
    excess, infimum = excess_loss(model, batch, torch.tensor([1]))
    # To first order in the weight s of the other token: sigma(-1) s.
    share = Fraction(np.exp(-gap)) / (1 + Fraction(np.exp(-gap)))
    expected = float(Fraction(1 / (1 + np.e)) * share)
    assert_allclose(excess.item(), expected, rtol=1e-13)
    loss = plain_loss(model, batch, torch.tensor([1]), torch.ones(1))
    assert loss.item() - infimum.item() == 0.0


def test_the_infimum_is_reached_by_the_best_tokens():
    rng = np.random.RandomState(0)
    cells = rng.randn(5, 4)
    parameters = {
        "attention_coef": np.zeros((1, 8)),
        "coef": rng.randn(1, 8),
        "intercept": np.array([0.3]),
    }
    model = AttentionModel.from_parameters(parameters)
    y = np.array([1, -1, 1, 1, -1])
    values = parameters["coef"][0, :4] + cells * parameters["coef"][0, 4:]
    best = (y[:, None] * values).max(axis=1) + 0.3 * y
    batch = TokenBatch(TableTokens.from_array(cells))
    _, infimum = excess_loss(model, batch, torch.tensor(y > 0).long())
    assert_allclose(infimum.item(), np.logaddexp(0, -best).mean(), rtol=1e-14)


@pytest.mark.parametrize("head_scale", [1e-3, 1e3, 1e6])
def test_heads_of_any_size(head_scale):
    model, batch, targets = problem(head_scale=head_scale, scale=3.0)
    excess, infimum = excess_loss(model, batch, targets)
    excess.backward()
    loss = plain_loss(model, batch, targets, torch.ones(12))
    assert_allclose((excess + infimum).item(), loss.item(), rtol=1e-12)
    assert torch.isfinite(model.scoring.attention_coef.grad).all()


def test_other_models_are_refused():
    parameters = {
        "attention_coef": np.ones((1, 2)),
        "coef": np.ones((3, 2)),
        "intercept": np.zeros(3),
    }
    model = AttentionModel.from_parameters(parameters)
    batch = TokenBatch(RaggedTokens.from_arrays(np.eye(2), [0, 2]))
    for refused in (model, torch.nn.Linear(2, 1)):
        with pytest.raises(ValueError, match="linear head of one output"):
            excess_loss(refused, batch, torch.tensor([0]))
