"""The convolutional layer, against torch's convolution of padded samples."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from skattn.attention import ConvolutionLayer, HiddenLayer, RaggedTokens, TableTokens

OFFSETS = [0, 5, 6, 9]


def layer(kernel_size, n_features, seed=0):
    rng = np.random.default_rng(seed)
    coef = torch.tensor(rng.normal(size=(kernel_size, n_features, 4)))
    return ConvolutionLayer(coef, torch.tensor(rng.normal(size=4)))


def reference(convolution, sample):
    """Return gelu of the "same" convolution of one (n_positions, n_features) sample."""
    weight = convolution.hidden_coef.permute(2, 1, 0)
    total = functional.conv1d(
        sample.T[None], weight, convolution.hidden_intercept, padding="same"
    )
    return functional.gelu(total[0].T)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 7, 30])
def test_ragged_samples_are_convolved_each_for_itself(kernel_size):
    values = np.random.default_rng(1).normal(size=(9, 3))
    convolution = layer(kernel_size, 3)
    out = convolution(RaggedTokens.from_arrays(values, OFFSETS)).values
    for start, stop in itertools.pairwise(OFFSETS):
        expected = reference(convolution, torch.tensor(values[start:stop]))
        torch.testing.assert_close(out[start:stop], expected)


@pytest.mark.parametrize("kernel_size", [3, 4])
def test_absent_tokens_are_zeros_to_their_neighbours(kernel_size):
    rng = np.random.default_rng(2)
    values, positions = rng.normal(size=(4, 2)), [1, 2, 5, 6]
    convolution = layer(kernel_size, 2)
    out = convolution(RaggedTokens.from_arrays(values, [0, 4], positions)).values
    padded = torch.zeros(8, 2, dtype=torch.float64)
    padded[positions] = torch.tensor(values)
    torch.testing.assert_close(out, reference(convolution, padded)[positions])


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 5, 12])
def test_the_neighbours_in_a_table_are_columns(kernel_size):
    table = TableTokens.from_array(np.random.default_rng(3).normal(size=(6, 4)))
    dense = RaggedTokens(table.rows(torch.arange(24)), table.segments)
    convolution = layer(kernel_size, 8)
    torch.testing.assert_close(convolution(table).values, convolution(dense).values)


def test_one_neighbour_is_the_layer_on_each_token():
    tokens = RaggedTokens.from_arrays(np.arange(18.0).reshape(9, 2), OFFSETS)
    convolution = layer(1, 2)
    plain = HiddenLayer(
        convolution.hidden_coef[0].detach(), convolution.hidden_intercept
    )
    torch.testing.assert_close(convolution(tokens).values, plain(tokens).values)


def test_gradients_are_exact():
    values = torch.tensor(np.random.default_rng(4).normal(size=(9, 2)))
    segments = RaggedTokens.from_arrays(values, OFFSETS).segments

    def convolve(values, coef):
        convolution = layer(3, 2)
        del convolution.hidden_coef
        convolution.hidden_coef = coef
        return convolution(RaggedTokens(values, segments)).values

    coef = layer(3, 2).hidden_coef
    assert torch.autograd.gradcheck(convolve, (values.requires_grad_(), coef))
