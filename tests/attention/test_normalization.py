"""Attention-BN, against the formula of MATH.md written out for one sample at a time."""

import itertools

import numpy as np
import pytest
import torch

from skattn.attention import (
    BilinearScoring,
    GatedScoring,
    KeyQueryScoring,
    PromptScoring,
    RaggedTokens,
    TableTokens,
)
from skattn.attention.normalization import EPSILON

OFFSETS = [0, 4, 5, 11]
RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(OFFSETS[-1], 3))
QUERIES = RNG.normal(size=(3, 2))


def logits(keys, query, beta):
    """((q - beta mu) / s)'((k - mu) / s) / sqrt(D), for the keys of one sample."""
    mean, scale = keys.mean(axis=0), np.sqrt(keys.var(axis=0) + EPSILON)
    scale[keys.var(axis=0) == 0] = 1.0
    return (
        ((keys - mean) / scale)
        @ ((query - beta * mean) / scale)
        / np.sqrt(keys.shape[1])
    )


def window_means(keys, length):
    numbers = np.arange(len(keys)) // length
    return np.array([keys[numbers == k].mean(axis=0) for k in np.unique(numbers)])


def expected(keys_of, query_of, betas, lengths=(1, 1)):
    samples = []
    for i, (start, stop) in enumerate(itertools.pairwise(OFFSETS)):
        heads = []
        for head, length in enumerate(lengths):
            keys = window_means(keys_of(TOKENS[start:stop], head), length)
            by_window = logits(keys, query_of(i, head), betas[head])
            heads.append(by_window[np.arange(stop - start) // length])
        samples.append(np.transpose(heads))
    return np.concatenate(samples)


PROMPTS = RNG.normal(size=(2, 3))
MATRICES = RNG.normal(size=(2, 3, 2))
KEY, QUERY = RNG.normal(size=(2, 3, 2)), RNG.normal(size=(2, 2, 2))
TANH, SIGMOID, GATES = (RNG.normal(size=shape) for shape in [(3, 4), (3, 4), (2, 4)])


def gated(x):
    return np.tanh(x @ TANH) / (1 + np.exp(-(x @ SIGMOID)))


SCORINGS = {
    "prompt": (PromptScoring, [PROMPTS], lambda x, h: x, lambda i, h: PROMPTS[h]),
    "gated": (
        GatedScoring,
        [TANH, SIGMOID, GATES],
        lambda x, h: gated(x),
        lambda i, h: GATES[h],
    ),
    "W": (
        BilinearScoring,
        [MATRICES],
        lambda x, h: x,
        lambda i, h: MATRICES[h] @ QUERIES[i],
    ),
    "KQ": (
        KeyQueryScoring,
        [KEY, QUERY],
        lambda x, h: x @ KEY[h],
        lambda i, h: QUERY[h].T @ QUERIES[i],
    ),
}


@pytest.mark.parametrize("lengths", [None, (2, 3)])
@pytest.mark.parametrize("name", SCORINGS)
def test_scores_are_those_of_the_formula(name, lengths):
    kind, coefs, keys_of, query_of = SCORINGS[name]
    betas = np.array([0.3, -1.2])
    scoring = kind(
        *map(torch.tensor, coefs),
        attention_norm="batch",
        beta=torch.tensor(betas),
        head_scale=lengths,
    )
    tokens = RaggedTokens.from_arrays(TOKENS, OFFSETS)
    scores = scoring(tokens, torch.tensor(QUERIES)).detach()
    np.testing.assert_allclose(
        scores, expected(keys_of, query_of, betas, lengths or (1, 1)), atol=1e-10
    )


@pytest.mark.parametrize("lengths", [None, (2, 4), (1, 5)])
def test_a_table_is_normalised_without_writing_out_its_tokens(lengths):
    table = TableTokens.from_array(RNG.normal(size=(6, 5)))
    dense = RaggedTokens(table.rows(torch.arange(30)), table.segments)
    scoring = PromptScoring(
        torch.tensor(RNG.normal(size=(2, 10))),
        attention_norm="batch",
        beta=0.7,
        head_scale=lengths,
    )
    torch.testing.assert_close(scoring(table, None), scoring(dense, None))


def test_gradients_are_exact_and_a_fixed_beta_has_none():
    tokens = RaggedTokens.from_arrays(TOKENS, OFFSETS)

    def scores(key, query, beta):
        scoring = KeyQueryScoring(
            torch.tensor(KEY), torch.tensor(QUERY), attention_norm="batch", beta=0.0
        )
        del scoring.key_coef, scoring.query_coef
        scoring.key_coef, scoring.query_coef, scoring.fixed_beta = key, query, beta
        return scoring(tokens, torch.tensor(QUERIES))

    inputs = [torch.tensor(a, requires_grad=True) for a in (KEY, QUERY)]
    beta = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(scores, (*inputs, beta))
    fixed = PromptScoring(torch.tensor(PROMPTS), attention_norm="batch", beta=0.5)
    assert [name for name, _ in fixed.named_parameters()] == ["attention_coef"]


def test_a_sample_is_scored_alike_in_any_batch():
    scoring = PromptScoring(
        torch.tensor(PROMPTS), attention_norm="batch", beta=1.0, head_scale=(1, 2)
    )
    tokens = RaggedTokens.from_arrays(TOKENS, OFFSETS)
    alone = scoring(tokens.take(torch.tensor([2])), None)
    torch.testing.assert_close(alone, scoring(tokens, None)[5:], atol=1e-14, rtol=0)


def test_large_keys_with_small_differences_keep_their_digits():
    tokens = RaggedTokens.from_arrays(TOKENS + 1e6, OFFSETS)
    scoring = PromptScoring(torch.tensor(PROMPTS), attention_norm="batch", beta=0.0)
    plain = scoring(RaggedTokens.from_arrays(TOKENS, OFFSETS), None)
    torch.testing.assert_close(scoring(tokens, None), plain, atol=1e-7, rtol=0)


def test_features_without_variance_say_nothing():
    values = np.column_stack([TOKENS, np.full(len(TOKENS), 7.0)])
    prompts = np.column_stack([PROMPTS, [5.0, 5.0]])
    scoring = PromptScoring(torch.tensor(prompts), attention_norm="batch", beta=0.0)
    without = PromptScoring(torch.tensor(PROMPTS), attention_norm="batch", beta=0.0)
    scores = scoring(RaggedTokens.from_arrays(values, OFFSETS), None)
    others = without(RaggedTokens.from_arrays(TOKENS, OFFSETS), None)
    torch.testing.assert_close(scores * 2, others * np.sqrt(3))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"attention_norm": "layer", "beta": 0.0}, "attention_norm"),
        ({"beta": 0.0}, "beta"),
        ({"attention_norm": "batch"}, "beta"),
        ({"head_scale": (1, 2, 3)}, "head_scale"),
    ],
)
def test_contradictions_are_refused_by_name(options, name):
    with pytest.raises(ValueError, match=name):
        PromptScoring(torch.tensor(PROMPTS), **options)
