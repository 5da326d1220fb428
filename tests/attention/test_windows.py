"""Attention-SH, against sums written out sample by sample."""

import itertools

import numpy as np
import pytest
import torch

from skattn.attention import PromptScoring, RaggedTokens, TableTokens
from skattn.attention.mapping import Mapping
from skattn.attention.segments import Segments
from skattn.attention.windows import Windows, check_head_scale, window_weights

OFFSETS = [0, 5, 6, 9]
POSITIONS = [0, 1, 2, 6, 9, 3, 0, 4, 5]


def ragged(rng, n_features=3):
    values = rng.normal(size=(OFFSETS[-1], n_features))
    return RaggedTokens.from_arrays(values, OFFSETS, POSITIONS)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 20])
def test_windows_are_cut_by_position(length):
    values = np.random.default_rng(0).normal(size=(OFFSETS[-1], 2))
    segments = Segments(torch.tensor(OFFSETS))
    windows = Windows(segments, torch.tensor(POSITIONS), length)
    expected, n_windows = [], []
    for start, stop in itertools.pairwise(OFFSETS):
        numbers = np.array(POSITIONS[start:stop]) // length
        found = np.unique(numbers)
        n_windows.append(len(found))
        expected += [values[start:stop][numbers == k].mean(axis=0) for k in found]
    means = windows.mean(torch.tensor(values))
    np.testing.assert_allclose(means, expected)
    assert windows.samples.lengths.tolist() == n_windows
    spread = windows.spread(means)
    np.testing.assert_allclose(windows.mean(spread), expected)


def test_pooling_tokens_is_pooling_the_means_of_windows():
    rng = np.random.default_rng(1)
    tokens = ragged(rng)
    scores = PromptScoring(torch.tensor(rng.normal(size=(2, 3))), head_scale=(2, 3))(
        tokens, None
    )
    weights = window_weights(
        scores, tokens, (2, 3), lambda s, g, heads: Mapping("softmax")(s, g)
    )
    pooled = tokens.pool(weights)
    for head, length in enumerate((2, 3)):
        windows = tokens.windows(length)
        means = windows.mean(tokens.values)
        by_window = windows.first(scores[:, head : head + 1])
        own = torch.softmax(by_window[: windows.samples.lengths[0], 0], 0)
        expected = own @ means[: len(own)]
        torch.testing.assert_close(pooled[0, head], expected)


def test_a_table_has_windows_of_columns():
    rng = np.random.default_rng(2)
    table = TableTokens.from_array(rng.normal(size=(4, 5)))
    prompt = torch.tensor(rng.normal(size=(1, 10)))
    dense = RaggedTokens(table.rows(torch.arange(20)), table.segments)
    scoring = PromptScoring(prompt, head_scale=2)
    torch.testing.assert_close(scoring(table, None), scoring(dense, None))


def test_learned_alpha_follows_its_head_into_its_windows():
    rng = np.random.default_rng(3)
    tokens = ragged(rng)
    mapping = Mapping("entmax", alpha_raw=torch.tensor([-30.0, 30.0]).double())
    scores = torch.tensor(rng.normal(size=(OFFSETS[-1], 2)))
    by_head = window_weights(
        scores, tokens, (1, 1), lambda s, g, heads: mapping(s, g, heads=heads)
    )
    torch.testing.assert_close(by_head, mapping(scores, tokens.segments))
    swapped = window_weights(
        scores[:, [0, 0]],
        tokens,
        (20, 1),
        lambda s, g, heads: mapping(s, g, False, heads),
    )
    sparsemax = Mapping("sparsemax")(scores[:, :1], tokens.segments)
    torch.testing.assert_close(swapped[:, 1:], sparsemax, atol=1e-9, rtol=0)


def test_one_length_stands_for_all_heads():
    assert check_head_scale(4, 3) == (4, 4, 4)
    assert check_head_scale(None, 3) is None


@pytest.mark.parametrize("value", [[1], [1, 0], [1, 1.5], [1, True], 0, [[1], [2]]])
def test_other_lengths_are_refused_by_name(value):
    with pytest.raises(ValueError, match="head_scale"):
        check_head_scale(value, 2)
