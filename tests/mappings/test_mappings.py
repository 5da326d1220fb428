"""The mappings, against definitions, sorting and scipy."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose, assert_array_equal

from skattn.mappings import MAPPINGS, entmax15, softmax, sparsemax


def sparsemax_by_sorting(scores):
    """Algorithm 1 of arXiv:1602.02068."""
    ranked = np.sort(scores)[::-1]
    sums = np.cumsum(ranked)
    k = np.arange(1, len(scores) + 1)
    size = k[1 + k * ranked > sums][-1]
    return np.maximum(scores - (sums[size - 1] - 1) / size, 0)


def entmax15_by_sorting(scores):
    """Algorithm 2 of arXiv:1905.05702."""
    scores = (scores - scores.max()) / 2
    ranked = np.sort(scores)[::-1]
    k = np.arange(1, len(scores) + 1)
    mean = np.cumsum(ranked) / k
    spread = np.cumsum(ranked**2) - k * mean**2
    thresholds = mean - np.sqrt(np.maximum((1 - spread) / k, 0))
    size = np.sum(thresholds <= ranked)
    return np.maximum(scores - thresholds[size - 1], 0) ** 2


REFERENCES = {
    "softmax": scipy.special.softmax,
    "sparsemax": sparsemax_by_sorting,
    "entmax15": entmax15_by_sorting,
}
all_mappings = pytest.mark.parametrize("name", MAPPINGS)


def ragged_scores(seed, spread):
    rng = np.random.RandomState(seed)
    lengths = np.r_[rng.randint(1, 15, size=30), 1044, 1]
    offsets = np.r_[0, np.cumsum(lengths)]
    return spread * rng.randn(offsets[-1]), offsets


def test_known_values():
    scores = [-2, 0, 0.5]
    assert_allclose(sparsemax(scores), [0, 0.25, 0.75], atol=1e-15)
    assert_allclose(entmax15(scores), [0, 0.3260, 0.6740], atol=5e-5)
    assert sparsemax(scores)[0] == 0 == entmax15(scores)[0]


@all_mappings
@pytest.mark.parametrize("spread", [1e-6, 0.1, 1.0, 10.0, 1e6])
def test_ragged_equals_sorting(name, spread):
    scores, offsets = ragged_scores(0, spread)
    weights = MAPPINGS[name](scores, offsets)
    for start, stop in itertools.pairwise(offsets):
        expected = REFERENCES[name](scores[start:stop])
        # The references lose digits in differences of sums; ours do not.
        assert_allclose(weights[start:stop], expected, atol=2e-15 * max(1, spread))
        assert_allclose(weights[start:stop].sum(), 1, atol=1e-14)
        assert_allclose(
            MAPPINGS[name](scores[start:stop]), weights[start:stop], atol=1e-15
        )


@all_mappings
def test_rows_and_heads(name):
    rng = np.random.RandomState(1)
    rows = rng.randn(4, 3, 6)
    weights = MAPPINGS[name](rows)
    assert weights.shape == rows.shape
    for index in np.ndindex(4, 3):
        assert_allclose(weights[index], REFERENCES[name](rows[index]), atol=1e-15)

    heads = rng.randn(9, 2)
    offsets = [0, 4, 9]
    together = MAPPINGS[name](heads, offsets)
    apart = [MAPPINGS[name](heads[:, h], offsets) for h in range(2)]
    assert_array_equal(together, np.column_stack(apart))


@all_mappings
def test_absent_tokens_have_no_say(name):
    scores = np.array([0.3, -np.inf, 0.1, -np.inf])
    weights = MAPPINGS[name](scores)
    assert_array_equal(weights[[1, 3]], 0)
    assert_array_equal(weights[[0, 2]], MAPPINGS[name](scores[[0, 2]]))
    assert_array_equal(MAPPINGS[name](scores, [0, 4]), weights)


@all_mappings
@pytest.mark.parametrize("n_tokens", [1, 2, 7, 1000])
def test_ties_share_equally(name, n_tokens):
    weights = MAPPINGS[name](np.full(n_tokens, 1e6))
    assert_allclose(weights, 1 / n_tokens, rtol=1e-14)


@pytest.mark.parametrize(("name", "gap"), [("sparsemax", 1.0), ("entmax15", 2.0)])
def test_one_hot_exactly_from_the_margin_on(name, gap):
    others = -np.random.RandomState(0).uniform(0, 3, size=8)

    def one_hot(gap):
        return np.count_nonzero(MAPPINGS[name](np.r_[gap, 0.0, others])) == 1

    assert one_hot(gap)
    assert one_hot(gap * (1 + 1e-8))
    assert not one_hot(gap * (1 - 1e-6))


@all_mappings
def test_dtypes(name):
    scores = np.array([1, 2, 3])
    assert MAPPINGS[name](scores).dtype == np.float64
    weights = MAPPINGS[name](scores.astype(np.float32))
    assert weights.dtype == np.float32
    assert_allclose(weights, MAPPINGS[name](scores), atol=1e-6)


@all_mappings
def test_float32_ends(name):
    scores, offsets = ragged_scores(3, 5.0)
    weights = MAPPINGS[name](scores.astype(np.float32), offsets)
    assert_allclose(weights, MAPPINGS[name](scores, offsets), atol=2e-6)


@pytest.mark.parametrize(
    ("scores", "offsets", "message"),
    [
        ([[0.0, 1.0], [-np.inf, -np.inf]], None, "sample 1 has no valid token"),
        ([0.0, -np.inf], [0, 1, 2], "sample 1 has no valid token"),
        ([0.0, 1.0], [0, 2, 2], "sample 1 has no token"),
        ([0.0, 1.0], [0, 1], "end at the number of tokens, 2"),
        ([0.0, 1.0], [1, 2], "start at 0"),
        ([0.0, 1.0], [0.0, 2.0], "integer array"),
        ([0.0, np.nan], None, "NaN"),
        ([0.0, np.inf], None, "infinity"),
        (np.empty((2, 0)), None, "at least one token"),
        (1.0, None, "at least one token"),
        (1.0, [0, 1], "first axis"),
    ],
)
def test_errors(scores, offsets, message):
    for mapping in (softmax, sparsemax, entmax15):
        with pytest.raises(ValueError, match=message):
            mapping(scores, offsets)


def test_torch_is_not_imported():
    program = (
        "import sys; from skattn.mappings import MAPPINGS\n"
        "for mapping in MAPPINGS.values(): mapping([1., 2.], [0, 1, 2])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
