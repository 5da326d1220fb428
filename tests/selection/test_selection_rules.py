"""The rules that decide which tokens to keep, on weights that are written down."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skattn.selection._rules import keep_above, keep_mass, keep_top

OFFSETS = np.array([0, 4, 5, 8])
WEIGHTS = np.array([0.1, 0.4, 0.1, 0.4, 1.0, 0.0, 0.3, 0.7])


def kept(mask):
    """Positions of the kept tokens of each sample."""
    return [
        np.flatnonzero(mask[start:stop]).tolist() for start, stop in pairwise(OFFSETS)
    ]


@pytest.mark.parametrize(
    ("n_tokens", "expected"),
    [
        # The earlier of two equal tokens comes first.
        (1, [[1], [0], [2]]),
        (2, [[1, 3], [0], [1, 2]]),
        (3, [[0, 1, 3], [0], [0, 1, 2]]),
        (9, [[0, 1, 2, 3], [0], [0, 1, 2]]),
    ],
)
def test_top(n_tokens, expected):
    assert kept(keep_top(WEIGHTS, OFFSETS, n_tokens)) == expected


@pytest.mark.parametrize(
    ("mass", "expected"),
    [
        (1e-300, [[1], [0], [2]]),
        (0.4, [[1], [0], [2]]),
        (0.41, [[1, 3], [0], [2]]),
        (0.8, [[1, 3], [0], [1, 2]]),
        (0.81, [[0, 1, 3], [0], [1, 2]]),
        # A token without weight adds nothing, even to all of the mass.
        (1.0, [[0, 1, 2, 3], [0], [1, 2]]),
    ],
)
def test_mass(mass, expected):
    assert kept(keep_mass(WEIGHTS, OFFSETS, mass)) == expected


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, [[0, 1, 2, 3], [0], [0, 1, 2]]),
        (0.1, [[0, 1, 2, 3], [0], [1, 2]]),
        (0.4, [[1, 3], [0], [2]]),
        # The top token stays in any case.
        (1.0, [[1], [0], [2]]),
    ],
)
def test_threshold(threshold, expected):
    assert kept(keep_above(WEIGHTS, OFFSETS, threshold)) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mass", [0.3, 0.9, 1.0])
def test_the_mass_of_a_sample_is_its_own(dtype, mass):
    """Rounding in ten thousand samples must not add up."""
    rng = np.random.RandomState(0)
    weights = rng.dirichlet(np.full(5, 0.5), size=10_000).astype(dtype)
    together = keep_mass(weights.ravel(), np.arange(0, 50_001, 5), mass)
    tail = together.reshape(-1, 5)[-200:]
    for row, mask in zip(weights[-200:], tail, strict=True):
        assert_array_equal(mask, keep_mass(row, np.array([0, 5]), mass))


@pytest.mark.parametrize("mass", [0.25, 0.5, 0.9, 0.99])
def test_the_kept_set_is_the_smallest_with_the_mass(mass):
    rng = np.random.RandomState(1)
    weights = rng.dirichlet(np.full(8, 0.3), size=100)
    mask = keep_mass(weights.ravel(), np.arange(0, 801, 8), mass).reshape(100, 8)
    for row, keep in zip(weights, mask, strict=True):
        assert row[keep].sum() >= mass - 1e-12
        assert np.sort(row)[::-1][: keep.sum() - 1].sum() < mass
        assert row[keep].min() >= row[~keep].max(initial=0)
