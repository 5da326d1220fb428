"""Groups of similar length: nothing is lost, and little is padding."""

import numpy as np
import pytest
import torch

from skattn import check_tokens
from skattn.attention.bucketing import Buckets
from skattn.attention.segments import Segments
from skattn.datasets import load_japanese_vowels, load_musk1


def segments_of(lengths):
    return Segments(torch.tensor(np.concatenate([[0], np.cumsum(lengths)])))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_every_token_is_in_one_place(share):
    lengths = np.random.default_rng(0).integers(1, 40, size=60)
    segments = segments_of(lengths)
    buckets = Buckets(segments, largest_share=share)
    assert sorted(torch.cat(buckets.groups).tolist()) == list(range(60))
    work = 0
    found = []
    for group, (rows, present) in zip(
        buckets.groups, buckets.rows(segments), strict=True
    ):
        work += rows.shape[0] * rows.shape[1] ** 2
        assert rows.shape == (len(group), lengths[group].max())
        found.append(rows.flatten() if present is None else rows[present])
        if present is not None:
            assert (rows[~present] == segments.n_tokens).all()
    found = torch.cat(found)
    places = buckets.places(segments)
    assert torch.equal(found[places], torch.arange(segments.n_tokens))
    assert np.isclose(buckets.padded_share, 1 - (lengths**2).sum() / work)
    assert buckets.padded_share <= share


def test_equal_lengths_need_no_mask():
    segments = segments_of([5] * 7)
    buckets = Buckets(segments)
    assert len(buckets.groups) == 1
    assert buckets.rows(segments)[0].present is None
    assert buckets.padded_share == 0.0


@pytest.mark.parametrize("load", [load_japanese_vowels, load_musk1])
def test_less_than_a_fifth_of_the_work_on_real_data_is_padding(load):
    tokens = check_tokens(load(return_X_y=True)[0])
    buckets = Buckets(segments_of(tokens.lengths))
    assert buckets.padded_share < 0.2
    assert len(buckets.groups) < 20
