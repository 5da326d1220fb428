"""scikit-learn's splitters and indexers keep the container, its gaps and queries."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_validate,
    train_test_split,
)
from sklearn.utils import (
    _safe_indexing,
    check_consistent_length,
    indexable,
    resample,
    shuffle,
)

from skattn import Tokens


@pytest.fixture
def tokens():
    """Twelve samples of 1 to 4 tokens at even positions; sample i holds the value i."""
    lengths = np.arange(12) % 4 + 1
    owners = np.repeat(np.arange(12.0), lengths)
    positions = np.concatenate([2 * np.arange(length) for length in lengths])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Tokens(owners[:, None], offsets, positions, query=np.arange(12.0)[:, None])


def assert_holds(taken, samples):
    assert isinstance(taken, Tokens)
    assert_array_equal(taken.lengths, np.asarray(samples) % 4 + 1)
    for sample, tokens in zip(samples, taken, strict=True):
        assert (tokens == sample).all()
    assert_array_equal(taken.query[:, 0], samples)
    expected = [2 * np.arange(length) for length in taken.lengths]
    assert_array_equal(taken.positions, np.concatenate(expected))


@pytest.mark.parametrize(
    ("indices", "samples"),
    [
        ([3, 0], [3, 0]),
        ((3, 0), [3, 0]),
        (np.array([11, 11]), [11, 11]),
        (np.arange(12) % 5 == 0, [0, 5, 10]),
        ([True] + [False] * 11, [0]),
        (slice(9, None), [9, 10, 11]),
    ],
)
def test_safe_indexing(tokens, indices, samples):
    assert_holds(_safe_indexing(tokens, indices), samples)


def test_safe_indexing_of_one_sample(tokens):
    assert_array_equal(_safe_indexing(tokens, 2), np.full((3, 1), 2.0))


@pytest.mark.parametrize(
    "splitter",
    [KFold(3), StratifiedKFold(3), GroupKFold(3), ShuffleSplit(3, random_state=0)],
)
def test_splitters(tokens, splitter):
    y = np.arange(12) % 3
    groups = {"groups": y} if isinstance(splitter, GroupKFold) else {}
    for train, test in splitter.split(tokens, y, **groups):
        assert_holds(_safe_indexing(tokens, train), train)
        assert_holds(_safe_indexing(tokens, test), test)


def test_train_test_split(tokens):
    train, test, y_train, y_test = train_test_split(tokens, np.arange(12))
    assert_holds(train, y_train)
    assert_holds(test, y_test)


def test_other_utilities(tokens):
    check_consistent_length(tokens, np.arange(12))
    assert indexable(tokens)[0] is tokens
    assert_holds(*shuffle(tokens, np.arange(12), random_state=0))
    assert_holds(*resample(tokens, np.arange(12), random_state=0))


class FirstValue(ClassifierMixin, BaseEstimator):
    """Predicts the value that the tokens of a sample share; insists on `Tokens`."""

    def fit(self, X, y):
        assert_holds(X, y)
        self.classes_ = np.arange(12)
        return self

    def predict(self, X):
        assert isinstance(X, Tokens)
        return np.array([int(sample[0, 0]) for sample in X])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cross_validation_hands_out_tokens(tokens, n_jobs):
    y = np.arange(12)
    scores = cross_validate(FirstValue(), tokens, y, cv=KFold(3), n_jobs=n_jobs)
    assert_array_equal(scores["test_score"], [1.0, 1.0, 1.0])
    predicted = cross_val_predict(FirstValue(), tokens, y, cv=KFold(4))
    assert_array_equal(predicted, y)
