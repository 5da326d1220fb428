"""What torch expects of an optimiser, of each of ours."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.optim import MirrorDescent, NormalizedGD, PolyakGD

OPTIMIZERS = {
    "ngd": lambda params: NormalizedGD(params, lr=0.1),
    "ngd, momentum, global": lambda params: NormalizedGD(
        params, lr=0.1, momentum=0.7, norm="global", weight_decay=0.01
    ),
    "polyak": lambda params: PolyakGD(params, lr=0.5),
    "polyak, cap, group": lambda params: PolyakGD(params, max_lr=0.3, norm="group"),
    "polyak, estimated": lambda params: PolyakGD(params, optimum=None),
    "mirror": lambda params: MirrorDescent(params, p=1.5, lr=0.05),
    "mirror, normalised": lambda params: MirrorDescent(
        params, p=3.0, lr=0.05, normalized=True, weight_decay=0.01
    ),
}
all_optimizers = pytest.mark.parametrize("name", OPTIMIZERS)


class Problem:
    """Logistic regression behind a layer, with an intercept that gets no gradient."""

    def __init__(self, dtype=torch.float64):
        rng = np.random.RandomState(0)
        self.inputs = torch.tensor(rng.randn(20, 3), dtype=dtype)
        self.signs = torch.tensor(rng.choice([-1.0, 1.0], size=20), dtype=dtype)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1, bias=False)
        )
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.copy_(torch.tensor(rng.randn(*parameter.shape)))
        self.model.to(dtype)
        self.unused = torch.nn.Parameter(torch.ones(2, dtype=dtype))

    @property
    def parameters(self):
        return [*self.model.parameters(), self.unused]

    @property
    def groups(self):
        weight, bias, head = self.model.parameters()
        return [{"params": [weight, bias]}, {"params": [head, self.unused]}]

    def closure(self):
        for parameter in self.parameters:
            parameter.grad = None
        logits = self.model(self.inputs).squeeze(1)
        loss = torch.nn.functional.softplus(-self.signs * logits).mean()
        loss.backward()
        return loss

    def weights(self):
        return torch.cat([p.detach().flatten() for p in self.parameters]).numpy()


def run(problem, optimizer, n_steps):
    return [optimizer.step(problem.closure).item() for _ in range(n_steps)]


@all_optimizers
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_lowers_the_loss_in_both_precisions(name, dtype):
    problem = Problem(dtype)
    optimizer = OPTIMIZERS[name](problem.groups)
    losses = run(problem, optimizer, 60)
    assert losses[-1] < 0.85 * losses[0]
    assert all(p.dtype == dtype for p in problem.parameters)
    assert np.isfinite(problem.weights()).all()
    assert_array_equal(problem.unused.detach(), [1.0, 1.0])


@all_optimizers
def test_single_precision_follows_double_precision(name):
    double, single = Problem(), Problem(torch.float32)
    for problem in (double, single):
        run(problem, OPTIMIZERS[name](problem.groups), 5)
    assert_allclose(single.weights(), double.weights(), rtol=1e-3, atol=1e-4)


@all_optimizers
@pytest.mark.parametrize("by_torch", [False, True])
def test_a_saved_state_goes_on_bit_for_bit(name, by_torch):
    problem = Problem()
    optimizer = OPTIMIZERS[name](problem.groups)
    run(problem, optimizer, 7)
    other = copy.deepcopy(problem)
    if by_torch:
        buffer = io.BytesIO()
        torch.save(optimizer.state_dict(), buffer)
        buffer.seek(0)
        state = torch.load(buffer, weights_only=True)
    else:
        state = pickle.loads(pickle.dumps(optimizer.state_dict()))
    resumed = OPTIMIZERS[name](other.groups)
    resumed.load_state_dict(state)
    assert run(problem, optimizer, 7) == run(other, resumed, 7)
    assert_array_equal(problem.weights(), other.weights())


@all_optimizers
def test_schedulers_of_the_learning_rate(name):
    scheduled, by_hand = Problem(), Problem()
    optimizer = OPTIMIZERS[name](scheduled.groups)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    reference = OPTIMIZERS[name](by_hand.groups)
    start = scheduled.weights()
    for _ in range(4):
        run(scheduled, optimizer, 1)
        scheduler.step()
        run(by_hand, reference, 1)
        for group in reference.param_groups:
            group["lr"] *= 0.5
    assert_array_equal(scheduled.weights(), by_hand.weights())
    assert np.abs(scheduled.weights() - start).max() > 1e-3

    warm_up = Problem()
    optimizer = OPTIMIZERS[name](warm_up.groups)
    torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-9)
    run(warm_up, optimizer, 1)
    assert_allclose(warm_up.weights(), start, atol=1e-6)


@all_optimizers
def test_a_group_that_is_added_later_moves(name):
    problem = Problem()
    first, second = problem.groups
    optimizer = OPTIMIZERS[name]([first])
    run(problem, optimizer, 2)
    head = second["params"][0].detach().clone()
    optimizer.add_param_group({**second, "lr": 1e-3})
    assert optimizer.param_groups[1]["lr"] == 1e-3
    run(problem, optimizer, 2)
    assert not torch.equal(head, second["params"][0])


@all_optimizers
def test_named_parameters_are_taken(name):
    problem = Problem()
    optimizer = OPTIMIZERS[name](problem.model.named_parameters())
    losses = run(problem, optimizer, 3)
    assert losses[-1] < losses[0]
    assert optimizer.param_groups[0]["param_names"][0] == "0.weight"


@all_optimizers
def test_sparse_gradients_count_as_dense_ones(name):
    weights = []
    for sparse in (False, True):
        table = torch.nn.Embedding(5, 2, sparse=sparse).double()
        with torch.no_grad():
            table.weight.copy_(torch.arange(1.0, 11.0).reshape(5, 2))
        optimizer = OPTIMIZERS[name](table.parameters())

        def closure(table=table, optimizer=optimizer):
            optimizer.zero_grad()
            loss = table(torch.tensor([1, 3, 1])).square().sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        assert table.weight.grad.is_sparse == sparse
        weights.append(table.weight.detach().numpy())
    assert_array_equal(weights[0], weights[1])
    assert np.any(weights[0][1] != [3.0, 4.0])


@all_optimizers
def test_without_any_gradient_nothing_moves(name):
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = OPTIMIZERS[name]([weight])
    optimizer.step(lambda: torch.tensor(0.0))
    assert_array_equal(weight.detach(), np.ones(3))


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (NormalizedGD, {"lr": float("nan")}, "lr must be positive"),
        (NormalizedGD, {"weight_decay": -1.0}, "weight_decay must be at least 0"),
        (NormalizedGD, {"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        (NormalizedGD, {"momentum": -0.1}, "momentum must be at least 0 and below 1"),
        (NormalizedGD, {"norm": "all"}, "norm must be one of 'group', 'global'"),
        (PolyakGD, {"lr": 0.0}, "lr must be positive"),
        (PolyakGD, {"max_lr": 0.0}, "max_lr must be positive or None"),
        (PolyakGD, {"norm": None}, "norm must be one of"),
        (MirrorDescent, {"p": 1.0}, "p must be above 1 and finite"),
        (MirrorDescent, {"p": 0.5}, "p must be above 1 and finite"),
        (MirrorDescent, {"p": float("inf")}, "p must be above 1 and finite"),
        (MirrorDescent, {"p": float("nan")}, "p must be above 1 and finite"),
        (MirrorDescent, {"p": 2.0, "lr": -1.0}, "lr must be positive"),
        (MirrorDescent, {"p": 2.0, "weight_decay": -1.0}, "weight_decay must be"),
    ],
)
def test_options_are_checked_in_every_group(make, options, message):
    weight = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=message):
        make([weight], **options)
    required = {"p": 2.0} if make is MirrorDescent else {}
    with pytest.raises(ValueError, match=message):
        make([{"params": [weight], **options}], **required)
    optimizer = make([torch.nn.Parameter(torch.ones(2))], **required)
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": [weight], **options})
    assert len(optimizer.param_groups) == 1
