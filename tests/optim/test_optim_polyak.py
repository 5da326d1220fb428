"""Polyak's step size, with a known and with an estimated optimum."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.optim import PolyakGD


def parameter(*values, dtype=torch.float64):
    return torch.nn.Parameter(torch.tensor(values, dtype=dtype))


class Objective:
    """Counts its evaluations."""

    def __init__(self, function, *weights):
        self.function, self.weights = function, weights
        self.n_evaluations = 0

    def __call__(self):
        self.n_evaluations += 1
        for weight in self.weights:
            weight.grad = None
        loss = self.function(*self.weights)
        loss.backward()
        return loss


def set_gradients(loss, **gradients_of):
    """Return a closure with this loss and these gradients."""

    def closure():
        for weight, gradient in gradients_of["pairs"]:
            weight.grad = torch.tensor(gradient, dtype=weight.dtype)
        return torch.tensor(loss, dtype=torch.float64)

    return closure


def test_known_optimum_on_an_ill_conditioned_bowl():
    """Against the rule in NumPy; Polyak's bound on the distance holds at each step."""
    scales, center = np.array([1.0, 30.0]), np.array([2.0, -1.0])
    weight = parameter(0.0, 0.0)
    t_scales, t_center = torch.tensor(scales), torch.tensor(center)
    objective = Objective(
        lambda w: 0.5 * (t_scales * (w - t_center) ** 2).sum() + 3.0, weight
    )
    optimizer = PolyakGD([weight], optimum=3.0)
    for _ in range(40):
        before = weight.detach().numpy().copy()
        loss = optimizer.step(objective)
        gradient = scales * (before - center)
        excess = 0.5 * (scales * (before - center) ** 2).sum()
        assert_allclose(loss.item(), excess + 3.0, rtol=1e-12)
        after = weight.detach().numpy()
        expected = before - excess / (gradient @ gradient) * gradient
        assert_allclose(after, expected, rtol=1e-9)
        gain = np.linalg.norm(before - center) - np.linalg.norm(after - center)
        assert gain >= -1e-12
    assert objective.n_evaluations == 40


def test_a_kink_is_reached_exactly():
    weight = parameter(5.0, 0.0)
    PolyakGD([weight]).step(Objective(lambda w: w.abs().sum(), weight))
    assert_array_equal(weight.detach(), [0.0, 0.0])


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e200])
def test_nothing_underflows(size):
    """The step is the excess over the size of the gradient."""
    weight = parameter(0.0, 0.0)
    closure = set_gradients(size, pairs=[(weight, [3.0 * size, 4.0 * size])])
    PolyakGD([weight]).step(closure)
    assert_allclose(weight.detach(), [-0.12, -0.16], rtol=1e-12)


def test_global_and_group_norms_promise_the_same_decrease():
    for norm, step_sizes in (("global", [1 / 26, 1 / 26]), ("group", [1 / 50, 1 / 2])):
        first, second, still = parameter(0.0, 0.0), parameter(0.0), parameter(0.0)
        gradients = [[3.0, 4.0], [1.0], [0.0]]
        weights = [first, second, still]
        closure = set_gradients(1.0, pairs=list(zip(weights, gradients, strict=True)))
        groups = [{"params": [weight]} for weight in weights]
        PolyakGD(groups, norm=norm).step(closure)
        promised = 0.0
        for weight, gradient, step_size in zip(
            weights, gradients, [*step_sizes, 0.0], strict=True
        ):
            assert_allclose(weight.detach(), -step_size * np.array(gradient))
            promised -= float(weight.detach() @ torch.tensor(gradient).double())
        assert promised == pytest.approx(1.0)


def test_cap_and_share():
    for options, step_size in (
        ({"max_lr": 0.1}, 0.1),
        ({"max_lr": 10.0}, 0.5),
        ({"lr": 0.5}, 0.25),
        ({"lr": 0.5, "max_lr": 0.2}, 0.2),
    ):
        weight = parameter(0.0)
        PolyakGD([weight], **options).step(set_gradients(2.0, pairs=[(weight, [2.0])]))
        assert_allclose(weight.detach(), [-2.0 * step_size])
    free, capped = parameter(0.0), parameter(0.0)
    groups = [{"params": [free]}, {"params": [capped], "max_lr": 1e-3}]
    PolyakGD(groups, lr=2.0).step(
        set_gradients(1.0, pairs=[(free, [1.0]), (capped, [1.0])])
    )
    assert_allclose([free.item(), capped.item()], [-1.0, -1e-3])


class TestRefusals:
    def test_no_closure(self):
        with pytest.raises(TypeError, match="needs a closure"):
            PolyakGD([parameter(1.0)]).step()

    @pytest.mark.parametrize("optimum", [float("nan"), float("inf")])
    def test_an_optimum_that_is_no_number(self, optimum):
        with pytest.raises(ValueError, match="optimum must be a finite number or None"):
            PolyakGD([parameter(1.0)], optimum=optimum)

    def test_an_optimum_of_one_group(self):
        groups = [{"params": [parameter(1.0)], "optimum": 1.0}]
        with pytest.raises(ValueError, match="not to a parameter group"):
            PolyakGD(groups)

    def test_a_loss_below_the_optimum(self):
        weight = parameter(1.0)
        closure = set_gradients(1.0, pairs=[(weight, [1.0])])
        with pytest.raises(ValueError, match=r"below optimum=2.*optimum=None"):
            PolyakGD([weight], optimum=2.0).step(closure)
        assert_array_equal(weight.detach(), [1.0])
        PolyakGD([weight], optimum=1.0 + 1e-12).step(closure)
        assert_array_equal(weight.detach(), [1.0])

    @pytest.mark.parametrize("optimum", [0.0, None])
    @pytest.mark.parametrize("loss", [float("nan"), float("inf")])
    def test_a_loss_that_is_not_finite(self, optimum, loss):
        weight = parameter(1.0)
        closure = set_gradients(loss, pairs=[(weight, [1.0])])
        with pytest.raises(FloatingPointError, match=r"loss is (nan|inf)"):
            PolyakGD([weight], optimum=optimum).step(closure)
        assert_array_equal(weight.detach(), [1.0])

    @pytest.mark.parametrize("gradient", [float("nan"), float("inf")])
    def test_a_gradient_that_is_not_finite(self, gradient):
        weight = parameter(1.0)
        closure = set_gradients(1.0, pairs=[(weight, [gradient])])
        with pytest.raises(FloatingPointError, match="gradient is not finite"):
            PolyakGD([weight]).step(closure)
        assert_array_equal(weight.detach(), [1.0])

    @pytest.mark.parametrize("gradient", [0.0, 1e-320])
    def test_a_vanished_gradient_above_the_optimum(self, gradient):
        weight = parameter(1.0)
        closure = set_gradients(0.5, pairs=[(weight, [gradient])])
        with pytest.raises(FloatingPointError, match=r"0\.5 above the optimum"):
            PolyakGD([weight]).step(closure)
        assert_array_equal(weight.detach(), [1.0])
        # With a limit the step is defined, and of no length.
        PolyakGD([weight], max_lr=1.0).step(closure)
        assert_array_equal(weight.detach(), [1.0])

    def test_a_step_that_no_float32_can_hold(self):
        weight = parameter(1.0, dtype=torch.float32)
        closure = set_gradients(0.5, pairs=[(weight, [1e-40])])
        with pytest.raises(FloatingPointError, match=r"0\.5 above the optimum"):
            PolyakGD([weight]).step(closure)
        assert_array_equal(weight.detach(), [1.0])

    def test_at_the_optimum_a_vanished_gradient_is_no_error(self):
        weight = parameter(1.0)
        PolyakGD([weight]).step(set_gradients(1e-30, pairs=[(weight, [0.0])]))
        assert_array_equal(weight.detach(), [1.0])


class TestEstimatedOptimum:
    """The loss never rises, and the minimum is found without knowing its value."""

    def minimise(self, function, start, n_steps, **options):
        weight = parameter(*start)
        objective = Objective(function, weight)
        optimizer = PolyakGD([weight], optimum=None, **options)
        losses = [optimizer.step(objective).item() for _ in range(n_steps)]
        losses.append(objective().item())
        return weight.detach().numpy(), losses, objective.n_evaluations

    @pytest.mark.parametrize("offset", [0.0, 3.0, -50.0])
    def test_a_bowl(self, offset):
        scales = torch.tensor([1.0, 10.0], dtype=torch.float64)
        weight, losses, n_evaluations = self.minimise(
            lambda w: 0.5 * (scales * (w - 1.0) ** 2).sum() + offset, (9.0, -5.0), 200
        )
        assert np.all(np.diff(losses) <= 0.0)
        assert losses[-1] == pytest.approx(offset, abs=1e-8)
        assert_allclose(weight, [1.0, 1.0], atol=1e-4)
        assert n_evaluations < 3 * 200

    def test_a_curved_valley(self):
        def rosenbrock(w):
            return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2

        _, losses, _ = self.minimise(rosenbrock, (-1.2, 1.0), 500)
        assert np.all(np.diff(losses) <= 0.0)
        assert losses[-1] < 0.5 < 20.0 < losses[0]

    def test_flat_regions_do_not_make_it_diverge(self):
        """A tiny gradient puts the target out of reach; such steps are undone."""
        weight, losses, _ = self.minimise(
            lambda w: torch.tanh(w).sum() + 5.0, (-6.0, 2.0), 50
        )
        assert np.all(np.diff(losses) <= 0.0)
        assert np.isfinite(weight).all()
        assert losses[-1] == pytest.approx(3.0, abs=1e-3)

    def test_where_a_step_leaves_the_domain(self):
        _, losses, _ = self.minimise(lambda w: (w - torch.log(w)).sum(), (1e-3,), 60)
        assert np.all(np.diff(losses) <= 0.0)
        assert losses[-1] == pytest.approx(1.0, abs=1e-8)

    def test_at_the_minimum_it_stays(self):
        weight, _, n_evaluations = self.minimise(
            lambda w: (w**2).sum() + 1.0, (1e-9,), 5
        )
        assert abs(weight[0]) <= 1e-9
        assert n_evaluations < 5 * 60
        weight, _, _ = self.minimise(lambda w: (w**2).sum() + 1.0, (0.0,), 5)
        assert_array_equal(weight, [0.0])

    def test_a_loss_that_starts_at_zero(self):
        _, losses, _ = self.minimise(lambda w: (w**2 - w).sum(), (0.0,), 60)
        assert losses[-1] == pytest.approx(-0.25, abs=1e-8)

    def test_the_cap_holds(self):
        weight, losses, _ = self.minimise(
            lambda w: w.sum(), (0.0, 0.0), 2000, max_lr=0.25
        )
        assert_allclose(weight, [-500.0, -500.0])
        assert np.all(np.diff(losses) < 0.0)

    @pytest.mark.parametrize("lr", [0.1, 1.5])
    def test_shares_of_the_step(self, lr):
        _, losses, _ = self.minimise(
            lambda w: 0.5 * (w**2).sum() + 7.0, (3.0, -2.0), 60, lr=lr
        )
        assert losses[-1] == pytest.approx(7.0, abs=1e-8)
