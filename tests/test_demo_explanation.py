"""Decisions taken apart, against the decision function."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skattn import AttentionClassifier, Tokens, TokenScaler, check_tokens
from skattn._demo.explanation import attention_panel, explain
from skattn.datasets import make_token_selection


def fitted(y, X):
    model = make_pipeline(TokenScaler(), AttentionClassifier(random_state=0))
    return model.fit(X, y)


@pytest.fixture(scope="module")
def data():
    X, y, planted = make_token_selection(
        n_samples=60, n_tokens=(2, 6), n_features=4, random_state=0
    )
    return check_tokens(X), y, planted


def test_contributions_of_two_classes_add_up_to_the_margin_of_the_predicted(data):
    X, y, _ = data
    model = fitted(np.array(["no", "yes"])[y], X)
    decisions = model.decision_function(X)
    for row in (int(decisions.argmin()), int(decisions.argmax())):
        explanation = explain(model, X[[row]])
        assert explanation.predicted == model.predict(X[[row]])[0]
        assert explanation.score == pytest.approx(abs(decisions[row]))


def test_contributions_of_many_classes_add_up_to_the_score_of_the_predicted(data):
    X, y, _ = data
    y = y + (X.lengths > 4)
    model = fitted(y, X)
    for row in range(5):
        explanation = explain(model, X[[row]])
        assert explanation.score == pytest.approx(model.decision_function(X)[row].max())


def test_the_planted_token_is_the_strongest(data):
    X, y, planted = data
    model = fitted(y, X)
    strongest = [explain(model, X[[row]]).strongest(1)[0] for row in range(len(X))]
    assert np.mean(strongest == planted) > 0.95


def test_absent_tokens_are_left_out(data):
    X, y, _ = data
    model = fitted(y, X)
    values = X[[0]].values
    with_gap = Tokens(values, [0, len(values)], positions=2 * np.arange(len(values)))
    gapped, plain = explain(model, with_gap), explain(model, X[[0]])
    np.testing.assert_array_equal(gapped.positions, 2 * plain.positions)
    np.testing.assert_allclose(gapped.contributions, plain.contributions)
    np.testing.assert_allclose(gapped.weights, plain.weights)


def test_panel_shows_the_weights_of_samples_spread_over_all(data):
    X, y, _ = data
    model = fitted(y, X)
    panel = attention_panel("title", model, X, y, n_samples=4)
    shown = X[[0, 19, 39, 59]]
    np.testing.assert_array_equal((~np.isnan(panel.weights)).sum(axis=1), shown.lengths)
    np.testing.assert_allclose(np.nansum(panel.weights, axis=1), 1.0)
    first = model[-1].attention_weights(model[0].transform(shown))[0]
    np.testing.assert_allclose(panel.weights[0, : len(first)], first)


def test_panel_names_what_a_sample_was_taken_for(data):
    X, y, _ = data
    model = fitted(y, X)
    wrong = 1 - model.predict(X)
    panel = attention_panel("title", model, X[:2], wrong[:2])
    assert panel.row_labels == [f"{k}, taken for {1 - k}" for k in wrong[:2]]
