"""Mirror descent with the l_p potential."""

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.optim import MirrorDescent, NormalizedGD


def parameter(*values, dtype=torch.float64):
    return torch.nn.Parameter(torch.tensor(values, dtype=dtype))


def step_with(optimizer, weight, gradient):
    weight.grad = torch.tensor(gradient, dtype=weight.dtype)
    optimizer.step()


@pytest.mark.parametrize("p", [1.2, 1.75, 2.0, 3.0, 10.0])
def test_every_step_solves_its_bregman_problem(p):
    """W+ minimises lr <grad, W> + D(W, W_old): the gradients of both sides agree."""
    rng = np.random.RandomState(0)
    weight = parameter(*rng.randn(6))
    optimizer = MirrorDescent([weight], p=p, lr=0.3)
    for _ in range(5):
        before, gradient = weight.detach().numpy().copy(), rng.randn(6)
        step_with(optimizer, weight, gradient)
        after = torch.tensor(weight.detach().numpy(), requires_grad=True)
        old = torch.tensor(before, requires_grad=True)
        ((old.abs() ** p).sum() / p).backward()
        potential = (after.abs() ** p).sum() / p
        bregman = potential - after @ old.grad
        (0.3 * after @ torch.tensor(gradient) + bregman).backward()
        assert_allclose(after.grad, 0.0, atol=1e-9)


def test_p_two_is_gradient_descent_and_normalised_descent():
    rng = np.random.RandomState(0)
    start = rng.randn(3, 2)
    for ours, normalized in (
        (torch.optim.SGD, False),
        (NormalizedGD, True),
    ):
        weights = [torch.nn.Parameter(torch.tensor(start)) for _ in range(2)]
        optimizers = [
            ours(weights[:1], lr=0.2, weight_decay=0.1),
            MirrorDescent(
                weights[1:], p=2.0, lr=0.2, normalized=normalized, weight_decay=0.1
            ),
        ]
        for _ in range(10):
            gradient = rng.randn(3, 2)
            for weight, optimizer in zip(weights, optimizers, strict=True):
                step_with(optimizer, weight, gradient)
        assert_allclose(weights[0].detach(), weights[1].detach(), rtol=1e-12)


@pytest.mark.parametrize("p", [1.01, 1.5, 3.0])
@pytest.mark.parametrize("size", [1e-310, 1e-100, 1.0, 1e200])
def test_normalised_dual_steps_have_the_lq_length_lr(p, size):
    first, second = parameter(1.0, 1.0), parameter(1.0)
    first.grad = torch.tensor([3.0, 0.5], dtype=torch.float64) * size
    second.grad = torch.tensor([-2.0], dtype=torch.float64) * size
    optimizer = MirrorDescent([first, second], p=p, lr=0.5, normalized=True)
    optimizer.step()
    duals = np.concatenate([optimizer.state[w]["dual"] for w in (first, second)])
    q = p / (p - 1)
    assert np.linalg.norm((duals - 1.0) / 0.5, ord=q) == pytest.approx(1.0, rel=1e-9)
    assert duals[0] < duals[1] <= 1.0 < duals[2]


def test_groups_have_their_own_p_and_norm():
    first, second = parameter(1.0), parameter(1.0)
    first.grad = torch.tensor([1e-9], dtype=torch.float64)
    second.grad = torch.tensor([1e9], dtype=torch.float64)
    groups = [{"params": [first], "p": 3.0}, {"params": [second], "lr": 0.19}]
    MirrorDescent(groups, p=1.5, lr=0.75, normalized=True).step()
    assert_allclose(first.detach(), [0.25**0.5])
    assert_allclose(second.detach(), [0.81**2])


def test_a_zero_gradient_leaves_a_group_alone():
    weight = parameter(0.3, -1.7)
    optimizer = MirrorDescent([weight], p=1.3, normalized=True)
    step_with(optimizer, weight, [0.0, 0.0])
    assert_allclose(weight.detach(), [0.3, -1.7], rtol=1e-14)


class TestStartsAtZero:
    @pytest.mark.parametrize("normalized", [False, True])
    def test_below_two_it_warns_and_says_what_to_do(self, normalized):
        with pytest.warns(UserWarning, match=r"2 of 3 .*small random") as caught:
            MirrorDescent([parameter(0.0, 1.0, 0.0)], p=1.5, normalized=normalized)
        assert len(caught) == 1
        assert caught[0].filename == __file__

    def test_groups_are_looked_at_by_themselves(self):
        optimizer = MirrorDescent([parameter(1.0)], p=1.5)
        with pytest.warns(UserWarning, match="1 of 1"):
            optimizer.add_param_group({"params": [parameter(0.0)]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.add_param_group({"params": [parameter(0.0)], "p": 2.0})
            MirrorDescent([parameter(0.0)], p=3.0)
            MirrorDescent([parameter(0.0)], p=2.0)

    @pytest.mark.filterwarnings("ignore:1 of 1 weights")
    def test_they_are_slow_but_not_frozen(self):
        """W = g^(1 / (p - 1)) underflows, while its dual weight goes on growing."""
        weight = parameter(0.0)
        optimizer = MirrorDescent([weight], p=1.01, lr=1.0)
        values = []
        for _ in range(2000):
            step_with(optimizer, weight, [-5e-4])
            values.append(weight.item())
        assert values[0] == 0.0
        assert values[999] == pytest.approx(0.5**100)
        assert values[-1] == pytest.approx(1.0)

    def test_above_two_they_are_left_at_once(self):
        weight = parameter(0.0)
        step_with(MirrorDescent([weight], p=3.0, lr=1.0), weight, [-1e-6])
        assert_allclose(weight.detach(), [1e-3])


class TestLargeWeights:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_a_group_that_would_overflow_is_scaled_down_together(self, dtype):
        weights = parameter(1.0, 1.0, dtype=dtype), parameter(1.0, dtype=dtype)
        optimizer = MirrorDescent(weights, p=1.002, lr=1.0)
        limit = torch.finfo(dtype).max ** 0.5
        for _ in range(30):
            weights[0].grad = torch.tensor([-1.0, -0.999], dtype=dtype)
            weights[1].grad = torch.tensor([1.0], dtype=dtype)
            optimizer.step()
        entries = torch.cat([weight.detach() for weight in weights]).double()
        assert torch.isfinite(entries).all()
        assert float(entries.abs().max()) == pytest.approx(limit, rel=0.05)
        # The dual weights, and so the ratios of the weights, are those of no overflow.
        ratio = ((1 + 30 * 0.999) / 31) ** 500
        tolerance = 1e-9 if dtype == torch.float64 else 0.1
        assert float(entries[1] / entries[0]) == pytest.approx(ratio, rel=tolerance)
        assert float(optimizer.state[weights[0]]["dual"][0]) == pytest.approx(31.0)

    def test_it_comes_back_from_there(self):
        weight = parameter(1.0)
        optimizer = MirrorDescent([weight], p=1.001, lr=1.0)
        for gradient in [-1.0] * 50 + [1.0] * 50:
            step_with(optimizer, weight, [gradient])
        assert_allclose(weight.detach(), [1.0], rtol=1e-6)


def test_weights_that_somebody_changed_are_taken_as_they_are():
    weight = parameter(1.0, -4.0)
    optimizer = MirrorDescent([weight], p=1.5, lr=0.5)
    step_with(optimizer, weight, [1.0, 1.0])
    assert_allclose(weight.detach(), [0.25, -6.25])
    with torch.no_grad():
        weight.copy_(torch.tensor([9.0, -6.25]))
    step_with(optimizer, weight, [1.0, 1.0])
    assert_allclose(weight.detach(), [2.5**2, -9.0])


def test_one_state_for_all_steps():
    """Dual weights too small for a float to hold their image are not lost."""
    weight = parameter(1e-300)
    optimizer = MirrorDescent([weight], p=1.05, lr=1.0)
    for _ in range(4):
        step_with(optimizer, weight, [-1e-20])
    assert weight.item() == pytest.approx((1e-300**0.05 + 4e-20) ** 20)
    for _ in range(3):
        step_with(optimizer, weight, [2.5e-16])
    expected = 1e-300**0.05 + 4e-20 - 7.5e-16
    assert optimizer.state[weight]["dual"].item() == pytest.approx(expected)
    assert_array_equal(weight.detach().sign(), [np.sign(expected)])
