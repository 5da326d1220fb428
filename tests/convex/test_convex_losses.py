"""Losses against torch and scipy."""

import numpy as np
import pytest
import torch
from convex_cases import LOSSES, targets_of
from scipy.optimize import minimize

from skattn.convex.losses import LOSSES as LOSSES_BY_NAME
from skattn.convex.losses import read_targets

N_SAMPLES = 9


def loss_of(name, n_outputs=3, seed=0):
    targets = targets_of(seed, name, N_SAMPLES, n_outputs)
    weight = np.random.default_rng(seed).random(N_SAMPLES)
    weight /= weight.sum()
    loss = LOSSES_BY_NAME[name](read_targets(targets, name, N_SAMPLES), weight)
    return loss, targets


def by_torch(name, targets, outputs, weight):
    targets = torch.as_tensor(targets)
    if name == "logistic":
        values = torch.nn.functional.binary_cross_entropy_with_logits(
            outputs[:, 0], targets.double(), reduction="none"
        )
    elif name == "multinomial":
        values = torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
    else:
        values = 0.5 * ((outputs - targets) ** 2).sum(axis=1)
    return (torch.as_tensor(weight) * values).sum()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name, scale):
    loss, targets = loss_of(name)
    outputs = scale * np.random.default_rng(1).standard_normal(
        (N_SAMPLES, loss.n_outputs)
    )
    tensor = torch.tensor(outputs, requires_grad=True)
    value = by_torch(name, targets, tensor, loss.weight)
    value.backward()
    np.testing.assert_allclose(loss.value(outputs), value.item(), rtol=1e-12)
    np.testing.assert_allclose(
        loss.residuals(outputs), tensor.grad.numpy(), rtol=0, atol=1e-14
    )
    hessian = torch.autograd.functional.hessian(
        lambda shift: by_torch(
            name, targets, torch.as_tensor(outputs) + shift, loss.weight
        ),
        torch.zeros(loss.n_outputs, dtype=torch.float64),
    )
    slope, own_hessian = loss.intercept_derivatives(outputs)
    np.testing.assert_allclose(own_hessian, hessian.numpy(), rtol=0, atol=1e-14)
    np.testing.assert_allclose(slope, tensor.grad.sum(0).numpy(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-1, 1.0, 30.0])
@pytest.mark.parametrize("name", LOSSES)
def test_divergence_is_the_rise_above_the_tangent(name, scale):
    loss, _ = loss_of(name)
    rng = np.random.default_rng(1)
    outputs = rng.standard_normal((N_SAMPLES, loss.n_outputs))
    moved = scale * rng.standard_normal(outputs.shape)
    slope = np.vdot(loss.residuals(outputs), moved)
    rise = loss.value(outputs + moved) - loss.value(outputs) - slope
    np.testing.assert_allclose(loss.divergence(outputs, moved), rise, rtol=1e-9)
    bound = loss.curvature / 2 * (loss.weight @ (moved**2).sum(axis=1))
    assert loss.divergence(outputs, moved) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_divergence_keeps_its_digits_where_values_have_none(name):
    loss, _ = loss_of(name)
    rng = np.random.default_rng(1)
    outputs, moved = rng.standard_normal((2, N_SAMPLES, loss.n_outputs))
    # Of second order: the ratio settles while values differ by rounding alone.
    small, smaller = (loss.divergence(outputs, t * moved) / t**2 for t in (1e-7, 1e-9))
    np.testing.assert_allclose(small, smaller, rtol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_divergence_of_moves_without_an_exponential(name):
    loss, _ = loss_of(name)
    outputs = np.zeros((N_SAMPLES, loss.n_outputs))
    moved = outputs.copy()
    moved[0, 0] = 1e4
    with np.errstate(all="raise"):
        assert loss.divergence(outputs, moved) == np.inf


@pytest.mark.parametrize("start", [0.0, 3.0, -300.0])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_best_intercept(name, scale, start):
    loss, _ = loss_of(name)
    outputs = scale * np.random.default_rng(1).standard_normal(
        (N_SAMPLES, loss.n_outputs)
    )
    intercept = loss.best_intercept(outputs, start * np.arange(1.0, loss.n_outputs + 1))
    slope = loss.residuals(outputs + intercept).sum(axis=0)
    np.testing.assert_allclose(slope, 0, atol=1e-14)
    reference = minimize(
        lambda shift: loss.value(outputs + shift), np.zeros(loss.n_outputs)
    )
    assert loss.value(outputs + intercept) <= reference.fun + 1e-12
    if name == "multinomial":
        np.testing.assert_allclose(intercept.sum(), 0, atol=1e-10)


def test_a_class_without_samples_is_ruled_out():
    targets = read_targets(np.array([0, 1, 1]), "multinomial", 3, n_outputs=3)
    loss = LOSSES_BY_NAME["multinomial"](targets, np.full(3, 1 / 3))
    intercept = loss.best_intercept(np.zeros((3, 3)), np.zeros(3))
    assert intercept[2] < intercept[:2].min() - 25
    np.testing.assert_allclose(intercept[1] - intercept[0], np.log(2), rtol=1e-9)


@pytest.mark.parametrize(
    ("targets", "loss", "options", "message"),
    [
        ([0, 1], "hinge", {}, "loss must be one of"),
        ([0, 1, 0], "logistic", {}, r"must have shape \(2,\)"),
        ([[0], [1]], "logistic", {}, r"must have shape \(2,\)"),
        ([1, 2], "logistic", {}, "must be 0 or 1"),
        ([0.0, 1.0], "multinomial", {}, "must be integers"),
        ([-1, 1], "multinomial", {}, "must be integers"),
        ([0, 2], "multinomial", {"n_outputs": 2}, "below n_outputs=2"),
        ([0.0, 1.0], "squared", {"n_outputs": 2}, "n_outputs is for"),
        ([0.0, np.nan], "squared", {}, "must be finite"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, loss, options, message):
    with pytest.raises(ValueError, match=message):
        read_targets(targets, loss, 2, **options)
