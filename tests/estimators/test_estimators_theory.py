"""Normalised gradient descent converges to the attention SVM of what it selects."""

from functools import cache

import numpy as np
import pytest

from skattn import AttentionClassifier
from skattn.theory import alignment, attention_svm, is_locally_optimal

N_SAMPLES, N_TOKENS, N_FEATURES = 6, 8, 10


def on_sphere(rng, *shape):
    vectors = rng.standard_normal((*shape, N_FEATURES))
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def uniform(rng):
    """Where the code published with arXiv 2308.16898 starts."""
    bound = 1 / np.sqrt(N_FEATURES)
    return rng.uniform(-bound, bound, (N_FEATURES, N_FEATURES))


@cache
def trained_instance(seed, parameterization):
    """Tokens, labels, head and queries of figure 7 of arXiv 2308.16898, and a model."""
    rng = np.random.default_rng(seed)
    X, query, head = (
        on_sphere(rng, N_SAMPLES, N_TOKENS),
        on_sphere(rng, N_SAMPLES),
        on_sphere(rng),
    )
    y = rng.integers(2, size=N_SAMPLES)
    while len(np.unique(y)) < 2:
        y = rng.integers(2, size=N_SAMPLES)
    start = uniform(rng)
    if parameterization == "KQ":
        start = (start, uniform(rng))
    model = AttentionClassifier(
        query="given",
        parameterization=parameterization,
        solver="ngd",
        learning_rate_init=0.1,
        max_iter=2_000,
        tol=0,
        alpha=0,
        freeze_head=True,
    )
    model.fit(X, y, query=query, coef_init=head, attention_coef_init=start)
    return X, y, head, query, model


@pytest.mark.slow
@pytest.mark.parametrize(("parameterization", "norm"), [("W", "fro"), ("KQ", "nuc")])
def test_training_aligns_with_the_attention_svm(parameterization, norm):
    alignments, n_optimal = [], 0
    for seed in range(30):
        X, y, head, query, model = trained_instance(seed, parameterization)
        selected = model.selected_tokens(X, query=query)
        svm = attention_svm(X, selected, query, norm=norm)
        alignments.append(alignment(model.attention_coef_, svm.coef))
        n_optimal += is_locally_optimal(X, y, head, selected, query, norm=norm)
    assert np.mean(alignments) >= 0.99
    assert n_optimal >= 28


@pytest.mark.slow
def test_each_parametrisation_has_its_own_norm():
    """Crossed, the alignment is about .87 (figure 7 of arXiv 2308.16898)."""
    for parameterization, own, other in (("W", "fro", "nuc"), ("KQ", "nuc", "fro")):
        gains = []
        for seed in range(6):
            X, _, _, query, model = trained_instance(seed, parameterization)
            selected = model.selected_tokens(X, query=query)
            own_svm, other_svm = (
                attention_svm(X, selected, query, norm=norm) for norm in (own, other)
            )
            gains.append(
                alignment(model.attention_coef_, own_svm.coef)
                - alignment(model.attention_coef_, other_svm.coef)
            )
        assert np.mean(gains) > 0.05
