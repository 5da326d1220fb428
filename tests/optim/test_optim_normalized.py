"""Normalised gradient descent."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.optim import NormalizedGD


def parameter(*values):
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1.0, 1e200])
def test_steps_have_the_length_lr_whatever_the_gradient(size):
    first, second = parameter(0.0, 0.0), parameter(0.0)
    first.grad = torch.tensor([3.0, 0.0], dtype=torch.float64) * size
    second.grad = torch.tensor([-4.0], dtype=torch.float64) * size
    NormalizedGD([first, second], lr=10.0).step()
    assert_allclose(first.detach(), [-6.0, 0.0], rtol=1e-12)
    assert_allclose(second.detach(), [8.0], rtol=1e-12)


def test_groups_are_normalised_apart():
    first, second = parameter(0.0), parameter(0.0, 0.0)
    first.grad = torch.tensor([1e-9], dtype=torch.float64)
    second.grad = torch.tensor([3e5, 4e5], dtype=torch.float64)
    NormalizedGD([{"params": [first], "lr": 2.0}, {"params": [second]}], lr=0.5).step()
    assert_allclose(first.detach(), [-2.0])
    assert_allclose(second.detach(), [-0.3, -0.4])


def test_zero_and_missing_gradients_leave_a_group_alone():
    still, unused, moving = parameter(1.0), parameter(2.0), parameter(3.0)
    still.grad = torch.zeros(1, dtype=torch.float64)
    moving.grad = torch.ones(1, dtype=torch.float64)
    groups = [{"params": [p]} for p in (still, unused, moving)]
    NormalizedGD(groups, lr=1.0).step()
    assert_array_equal(still.detach(), [1.0])
    assert_array_equal(unused.detach(), [2.0])
    assert_allclose(moving.detach(), [2.0])


def test_equals_the_published_update():
    """W -= lr * grad / (|grad|_F + 2.2e-16), on a bowl."""
    center = np.random.RandomState(0).randn(3, 4)
    expected = np.zeros((3, 4))
    weight = torch.nn.Parameter(torch.zeros(3, 4, dtype=torch.float64))
    optimizer = NormalizedGD([weight], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = 0.5 * (weight - torch.tensor(center)).square().sum()
        loss.backward()
        return loss

    for _ in range(20):
        loss = optimizer.step(closure)
        gradient = expected - center
        assert_allclose(loss.item(), 0.5 * (gradient**2).sum(), rtol=1e-12)
        expected -= 0.1 * gradient / (np.linalg.norm(gradient) + 2.2e-16)
    assert_allclose(weight.detach(), expected, rtol=1e-12)


def test_state_dict_round_trip():
    optimizer = NormalizedGD([parameter(0.0)], lr=0.3)
    other = NormalizedGD([parameter(0.0)])
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.3


@pytest.mark.parametrize("lr", [0.0, -1.0, float("nan")])
def test_errors(lr):
    with pytest.raises(ValueError, match="lr must be positive"):
        NormalizedGD([parameter(0.0)], lr=lr)


def test_weight_decay_is_added_before_normalising():
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    weight.grad = torch.tensor([1.0, 0.0], dtype=torch.float64)
    NormalizedGD([weight], lr=2.0, weight_decay=0.5).step()
    direction = torch.tensor([2.5, 2.0], dtype=torch.float64)
    expected = torch.tensor([3.0, 4.0]) - 2.0 * direction / direction.norm()
    torch.testing.assert_close(weight.detach(), expected)


def test_negative_weight_decay_is_refused():
    with pytest.raises(ValueError, match="weight_decay must be at least 0"):
        NormalizedGD([torch.nn.Parameter(torch.ones(1))], weight_decay=-1.0)


def test_momentum_is_a_heavy_ball_on_the_direction():
    weight = parameter(0.0, 0.0)
    optimizer = NormalizedGD([weight], lr=0.5, momentum=0.8)
    expected, velocity = np.zeros(2), np.zeros(2)
    for gradient in np.random.RandomState(0).randn(6, 2) * 1e-30:
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        velocity = 0.8 * velocity + gradient / np.linalg.norm(gradient)
        expected = expected - 0.5 * velocity
        assert_allclose(weight.detach(), expected, rtol=1e-12)
    # The ball rolls on where there is no gradient, and rests where there is none yet.
    weight.grad = torch.zeros(2, dtype=torch.float64)
    optimizer.step()
    assert_allclose(weight.detach(), expected - 0.4 * velocity, rtol=1e-12)
    weight.grad = None
    optimizer.step()
    assert_allclose(weight.detach(), expected - 0.4 * velocity, rtol=1e-12)


def test_momentum_of_a_constant_direction_has_its_largest_step():
    weight = parameter(0.0)
    optimizer = NormalizedGD([weight], lr=0.1, momentum=0.9)
    for _ in range(300):
        before = weight.item()
        weight.grad = torch.ones(1, dtype=torch.float64)
        optimizer.step()
    assert before - weight.item() == pytest.approx(0.1 / (1 - 0.9))


def test_a_global_norm_is_over_all_groups():
    first, second = parameter(0.0, 0.0), parameter(0.0)
    first.grad = torch.tensor([2e-200, 1e-200], dtype=torch.float64)
    second.grad = torch.tensor([-2e-200], dtype=torch.float64)
    groups = [{"params": [first]}, {"params": [second], "lr": 0.6}]
    NormalizedGD(groups, lr=3.0, norm="global").step()
    assert_allclose(first.detach(), [-2.0, -1.0])
    assert_allclose(second.detach(), [0.4])


def test_groups_may_leave_the_global_norm():
    weights = [parameter(0.0) for _ in range(3)]
    for weight, gradient in zip(weights, [3.0, 1e5, 4.0], strict=True):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
    norms = ["global", "group", "global"]
    groups = [
        {"params": [weight], "norm": norm}
        for weight, norm in zip(weights, norms, strict=True)
    ]
    NormalizedGD(groups, lr=1.0).step()
    assert_allclose([weight.item() for weight in weights], [-0.6, -1.0, -0.8])
