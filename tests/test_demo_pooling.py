"""Pooling without attention, against plain numpy."""

import numpy as np
import pytest

from skattn import FeatureTokenizer, check_tokens
from skattn._demo.pooling import Pooling

SAMPLES = [
    np.array([[1.0, -2.0], [3.0, 4.0], [-5.0, 0.0]]),
    np.array([[2.0, 7.0]]),
    np.array([[0.0, 1.0], [-1.0, 9.0]]),
]


def padded(samples):
    """The samples in one array, with an absent token before each."""
    array = np.full((len(samples), 4, 2), np.nan)
    for row, sample in enumerate(samples):
        array[row, 1 : 1 + len(sample)] = sample
    return array


@pytest.mark.parametrize("form", [list, check_tokens, padded])
def test_pools_every_form_of_sequences(form):
    X = form(SAMPLES)
    means = [sample.mean(axis=0) for sample in SAMPLES]
    extremes = [np.r_[sample.min(axis=0), sample.max(axis=0)] for sample in SAMPLES]
    np.testing.assert_allclose(Pooling("mean").fit_transform(X), means)
    np.testing.assert_array_equal(Pooling("min-max").fit_transform(X), extremes)


@pytest.mark.parametrize("statistic", ["mean", "min-max"])
def test_pools_a_table_as_its_tokens(statistic):
    table = np.random.default_rng(0).normal(size=(5, 3))
    explicit = FeatureTokenizer().fit_transform(table)
    np.testing.assert_allclose(
        Pooling(statistic).fit_transform(table),
        Pooling(statistic).fit_transform(explicit),
    )


def test_refuses_other_features_than_at_fit():
    pooling = Pooling().fit(SAMPLES)
    with pytest.raises(ValueError, match="expecting 2 features"):
        pooling.transform([np.ones((2, 3))])


def test_refuses_an_unknown_statistic():
    with pytest.raises(ValueError, match="'statistic' parameter of Pooling"):
        Pooling("median").fit(SAMPLES)
