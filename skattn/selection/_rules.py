"""Which tokens to keep, given the attention that each gets.

Each rule takes weights (n_tokens,) of samples laid end to end and their offsets, and
returns a mask (n_tokens,) that keeps at least the top token of every sample. Among
equals the earlier token comes first.
"""

from itertools import pairwise

import numpy as np

# Weights of a sample add up to 1 to so many times the precision of their type.
_ROUNDING = 100


def keep_top(weights, offsets, n_tokens):
    """Keep the `n_tokens` with the highest weights; all, where there are fewer."""
    return _ranks(weights, offsets) < n_tokens


def keep_mass(weights, offsets, mass):
    """Keep the smallest set whose weights add up to `mass`."""
    order = _descending(weights, offsets)
    before = np.zeros(len(weights))
    # Sample by sample: one running sum over all would round each by those before it.
    for start, stop in pairwise(offsets):
        before[start + 1 : stop] = np.cumsum(
            weights[order[start : stop - 1]], dtype=np.float64
        )
    keep = np.empty(len(weights), dtype=bool)
    # Rounding must not add a token to a set that has the mass already.
    keep[order] = before < mass - _ROUNDING * np.finfo(weights.dtype).eps
    keep[order[offsets[:-1]]] = True
    return keep


def keep_above(weights, offsets, threshold):
    """Keep the tokens whose weight reaches `threshold`, and the top one in any case."""
    return (weights >= threshold) | keep_top(weights, offsets, 1)


def _ranks(weights, offsets):
    """Return the rank of each token in its sample, 0 for the highest weight."""
    ranks = np.empty(len(weights), dtype=np.int64)
    in_sample = np.arange(len(weights)) - np.repeat(offsets[:-1], np.diff(offsets))
    ranks[_descending(weights, offsets)] = in_sample
    return ranks


def _descending(weights, offsets):
    """Return rows sorted by falling weight within each sample."""
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((-weights, owners))
