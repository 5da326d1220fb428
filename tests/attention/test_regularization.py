"""Noise of training: its shares, what it must leave alone, and its seeds."""

import numpy as np
import pytest
import torch

from skattn.attention import (
    Dropout,
    RaggedTokens,
    TableTokens,
    TokenBatch,
    drop_tokens,
    mix_within_class,
)

N_SAMPLES = 400


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, size=N_SAMPLES)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # A token holds its sample and its place, so that it can be told anywhere.
    owner = np.repeat(np.arange(N_SAMPLES), lengths)
    places = np.arange(offsets[-1]) - offsets[owner]
    tokens = RaggedTokens.from_arrays(np.column_stack([owner, places]), offsets)
    rows = torch.tensor(offsets[1:] - 1)
    return TokenBatch(tokens, query_rows=rows)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_tokens_go_with_the_given_probability(batch, rate):
    plain = TokenBatch(batch.tokens)
    left = drop_tokens(plain, rate, np.random.RandomState(0)).tokens
    # Where all tokens would go, one stays: that happens with rate^T.
    lengths = batch.tokens.segments.lengths.double()
    expected = (lengths * (1 - rate) + rate**lengths).sum()
    spread = np.sqrt(rate * (1 - rate) * len(batch.tokens.values))
    assert abs(len(left.values) - expected) < 4 * spread
    assert left.n_samples == N_SAMPLES


def test_what_is_left_keeps_sample_place_and_query(batch):
    left = drop_tokens(batch, 0.6, np.random.RandomState(1))
    owner, places = left.tokens.values.long().T
    assert torch.equal(owner, left.tokens.segments.owner)
    assert torch.equal(places, left.tokens.positions)
    asked = left.tokens.rows(left.query_rows)
    assert torch.equal(asked, batch.tokens.rows(batch.query_rows))


def test_nothing_is_dropped_at_rate_zero(batch):
    left = drop_tokens(batch, 0.0, np.random.RandomState(1))
    assert torch.equal(left.tokens.values, batch.tokens.values)


def test_tokens_of_a_table_cannot_be_dropped():
    table = TokenBatch(TableTokens.from_array(np.ones((2, 3))))
    with pytest.raises(ValueError, match="token_dropout needs sequences"):
        drop_tokens(table, 0.5, np.random.RandomState(0))


def test_partners_are_of_the_same_class(batch):
    targets = torch.arange(N_SAMPLES) % 3
    # Each class has tokens of its own, so that a mixture of two would show.
    marked = batch.tokens.with_values(
        torch.nn.functional.one_hot(batch.tokens.segments.repeat(targets)).double()
    )
    mixed = mix_within_class(
        TokenBatch(marked), targets, 1.0, np.random.RandomState(0)
    ).tokens
    torch.testing.assert_close(mixed.values, marked.values)


def test_mixture_is_of_two_samples_and_led_by_its_own(batch):
    targets = torch.arange(N_SAMPLES) % 2
    rng = np.random.RandomState(0)
    mixed = mix_within_class(batch, targets, 1.0, rng).tokens
    values, segments = mixed.values, mixed.segments
    # u ~ uniform, so the share of the own sample has mean 3/4; sample numbers tell it.
    starts = segments.offsets[:-1]
    shift = values[starts, 0] - torch.arange(N_SAMPLES)
    changed = (shift != 0).double().mean()
    assert changed == 1.0
    # All tokens of a sample have the same partner and share.
    spread = segments.max(values[:, :1]) - segments.min(values[:, :1])
    assert spread.abs().max() < 1e-9


def test_shares_of_the_own_sample_are_those_of_a_folded_beta():
    cells = np.eye(2000)
    table = TokenBatch(TableTokens.from_array(cells))
    mixed = mix_within_class(
        table, torch.zeros(2000, dtype=torch.int64), 1.0, np.random.RandomState(0)
    )
    own = mixed.tokens.cells.diagonal()
    assert own.min() >= 0.5
    assert abs(float(own.mean()) - 0.75) < 0.02
    torch.testing.assert_close(mixed.tokens.cells.sum(1), torch.ones(2000).double())


def test_a_sample_alone_in_its_class_stays_as_it_is(batch):
    targets = torch.arange(N_SAMPLES)
    mixed = mix_within_class(batch, targets, 0.5, np.random.RandomState(0))
    torch.testing.assert_close(mixed.tokens.values, batch.tokens.values)


def test_given_queries_are_mixed_by_the_same_shares():
    cells = torch.eye(5).double()
    batch = TokenBatch(TableTokens(cells), query=cells)
    targets = torch.zeros(5, dtype=torch.int64)
    mixed = mix_within_class(batch, targets, 2.0, np.random.RandomState(3))
    torch.testing.assert_close(mixed.query, mixed.tokens.cells)


def test_dropout_keeps_the_mean_and_its_seed_alone_decides():
    dropout = Dropout(0.3)
    values = torch.ones(20_000, dtype=torch.float64)
    state = torch.get_rng_state()
    dropout.generator = torch.Generator().manual_seed(5)
    first = dropout(values)
    assert abs(float(first.mean()) - 1.0) < 0.02
    assert abs(float((first == 0).double().mean()) - 0.3) < 0.02
    dropout.generator = torch.Generator().manual_seed(5)
    assert torch.equal(dropout(values), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(dropout.eval()(values), values)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_other_rates_are_refused(rate):
    with pytest.raises(ValueError, match="dropout must be in"):
        Dropout(rate)
