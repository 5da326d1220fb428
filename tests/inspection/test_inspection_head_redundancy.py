"""Distances of heads, against loops and cases that can be told."""

import itertools

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skattn import AttentionClassifier, TokenScaler, TokenSVM
from skattn.datasets import make_token_selection
from skattn.inspection import head_redundancy
from skattn.inspection._head_redundancy import mean_distance

X, Y, _ = make_token_selection(n_samples=60, n_tokens=(2, 6), random_state=0)
QUICK = {"n_heads": 3, "max_iter": 20, "tol": 0, "random_state": 0}


def test_distance_is_that_of_a_loop():
    outputs = np.random.default_rng(0).normal(size=(5, 4, 3))
    distances = [
        np.linalg.norm(a - b) / (np.linalg.norm(a) + np.linalg.norm(b))
        for sample in outputs
        for a, b in itertools.combinations(sample, 2)
    ]
    assert np.isclose(mean_distance(outputs), np.mean(distances))


def test_extremes():
    one = np.random.default_rng(0).normal(size=(5, 1, 3))
    assert mean_distance(np.concatenate([one, one], axis=1)) == 0.0
    assert np.isclose(mean_distance(np.concatenate([one, -one], axis=1)), 1.0)
    assert mean_distance(np.zeros((2, 2, 3))) == 0.0


@pytest.mark.parametrize(
    "pooling", ["attention", ("max", "attention", "min"), ["attention", "mean"]]
)
def test_only_the_columns_of_attention_count(pooling):
    model = AttentionClassifier(pooling=pooling, **QUICK).fit(X, Y)
    weights = model.attention_weights(X)
    outputs = np.array([w @ x for w, x in zip(weights, X, strict=True)])
    assert np.isclose(head_redundancy(model, X), mean_distance(outputs))


def test_pipelines_and_dataframes():
    model = make_pipeline(TokenScaler(), AttentionClassifier(**QUICK)).fit(X, Y)
    plain = head_redundancy(model, X)
    model[-1].set_output(transform="pandas")
    assert head_redundancy(model, X) == plain


@pytest.mark.parametrize(
    "model", [TokenSVM(), AttentionClassifier(max_iter=2, tol=0)], ids=lambda m: repr(m)
)
def test_one_head_has_nothing_to_be_compared_with(model):
    with pytest.raises(ValueError, match="n_heads=1"):
        head_redundancy(model.fit(X, Y), X)
