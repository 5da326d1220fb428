"""The moving average of weights against its closed form."""

import numpy as np
import torch

from skattn.optim.averaging import WeightAverage


def follow(values, decay, state=None):
    weight = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    average = WeightAverage([weight], decay, state)
    for value in values:
        with torch.no_grad():
            weight.copy_(value)
        average.update()
    return weight, average


def test_average_is_the_weighted_sum_of_all_steps():
    values = torch.tensor(np.random.default_rng(0).normal(size=(9, 2)))
    weight, average = follow(values, 0.8)
    powers = 0.8 ** np.arange(8, -1, -1)
    expected = powers @ values.numpy() / powers.sum()
    with average.in_place():
        np.testing.assert_allclose(weight.detach(), expected)
    np.testing.assert_array_equal(weight.detach(), values[-1])


def test_average_goes_on_from_its_state():
    values = torch.tensor(np.random.default_rng(1).normal(size=(6, 2)))
    _, first = follow(values[:3], 0.9)
    weight, second = follow(values[3:], 0.9, first.state_dict())
    whole_weight, whole = follow(values, 0.9)
    second.apply()
    whole.apply()
    torch.testing.assert_close(weight, whole_weight)


def test_state_restores_the_weights_of_the_last_step():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    _, first = follow(values, 0.9)
    weight, _ = follow([], 0.9, first.state_dict())
    assert weight.tolist() == [3.0, 4.0]


def test_no_step_leaves_the_weights_alone():
    weight, average = follow([], 0.9)
    with average.in_place():
        assert weight.tolist() == [0.0, 0.0]
