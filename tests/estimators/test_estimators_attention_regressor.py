"""Regression by attention, against closed forms and scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skattn import AttentionPooling, AttentionRegressor, Tokens, TokenScaler

RNG = np.random.default_rng(0)
N_SAMPLES = 90


def samples(seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 7), 4)) for _ in range(N_SAMPLES)]
    y = np.empty(N_SAMPLES)
    for i, x in enumerate(X):
        t = rng.integers(len(x))
        x[t, 0] = 4.0
        y[i] = 50 + 10 * x[t, 1]
    return X, y


X, Y = samples()
BOTH = np.column_stack([Y, 3 - 0.01 * Y])


@pytest.mark.parametrize("weights", [None, RNG.integers(1, 4, size=N_SAMPLES)])
def test_one_token_a_sample_is_ridge_regression(weights):
    X = RNG.normal(size=(N_SAMPLES, 1, 3))
    y = 7 + 100 * X[:, 0, 0] + RNG.normal(size=N_SAMPLES)
    alpha = 0.3
    model = AttentionRegressor(solver="lbfgs", alpha=alpha, tol=1e-12, max_iter=500)
    model.fit(X, y, sample_weight=weights)
    # Training divides targets by their deviation, and the loss by all weights.
    own = np.ones(N_SAMPLES) if weights is None else weights
    ridge = Ridge(alpha=alpha * own.sum()).fit(X[:, 0], y, sample_weight=own)
    assert_allclose(model.coef_[0], ridge.coef_, rtol=1e-5)
    assert_allclose(model.intercept_[0], ridge.intercept_, rtol=1e-5)


def test_the_telling_token_is_found():
    model = AttentionRegressor(learning_rate_init=0.05, alpha=1e-4, random_state=0)
    model.fit(X, Y)
    fresh, y = samples(seed=1)
    assert model.score(fresh, y) > 0.9
    assert model.score(fresh, y) == r2_score(y, model.predict(fresh))
    loud = [x[:, 0].argmax() for x in fresh]
    assert np.mean(model.selected_tokens(fresh) == loud) > 0.95


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("y", [Y, BOTH], ids=["one output", "two outputs"])
def test_contributions_are_in_the_units_of_the_targets(y, head):
    model = AttentionRegressor(head=head, max_iter=40, tol=0, random_state=0).fit(X, y)
    total = np.array([c.sum(axis=0) for c in model.token_contributions(X)])
    intercept = model.intercept_ if y.ndim > 1 else model.intercept_[0]
    assert_allclose(total + intercept, model.predict(X), rtol=1e-9)
    assert model.predict(X).shape == y.shape
    if head == "linear":
        assert_allclose(
            model.transform(X) @ model.coef_.T + model.intercept_,
            model.predict(X).reshape(N_SAMPLES, -1),
        )


@pytest.mark.parametrize("scale", [1e-250, 1e-6, 1e6])
def test_units_of_the_targets_do_not_matter(scale):
    options = {"max_iter": 60, "tol": 0, "random_state": 0}
    model = AttentionRegressor(**options).fit(X, Y)
    scaled = AttentionRegressor(**options).fit(X, scale * Y - 3 * scale)
    assert_allclose(scaled.predict(X), scale * (model.predict(X) - 3), rtol=1e-6)


def test_outputs_share_attention_and_are_trained_together():
    model = AttentionRegressor(max_iter=100, tol=0, random_state=0).fit(X, BOTH)
    assert (model.n_outputs_, model.coef_.shape) == (2, (2, 4))
    assert model.score(X, BOTH) > 0.5
    # The second is a multiple of the first.
    predicted = model.predict(X)
    assert_allclose(predicted[:, 1], 3 - 0.01 * predicted[:, 0], rtol=1e-6)


def test_constant_targets_are_predicted():
    model = AttentionRegressor(max_iter=5, tol=0).fit(X, np.full(N_SAMPLES, 1e8))
    assert_allclose(model.predict(X), 1e8)


def test_weights_are_repetitions():
    weights = RNG.integers(0, 3, size=N_SAMPLES)
    rows = np.repeat(np.arange(N_SAMPLES), weights)
    model = AttentionRegressor(max_iter=40, tol=0, random_state=0)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    repeated = clone(model).fit([X[i] for i in rows], Y[rows])
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7)


def test_warm_start_goes_on_in_the_units_of_training():
    options = {"solver": "gd", "learning_rate_init": 0.1, "tol": 0, "random_state": 0}
    whole = AttentionRegressor(max_iter=30, **options).fit(X, Y)
    parts = AttentionRegressor(max_iter=15, warm_start=True, **options).fit(X, Y)
    parts.fit(X, Y)
    assert_allclose(parts.predict(X), whole.predict(X))
    with pytest.raises(ValueError, match="had 1 outputs, and y has 2"):
        parts.fit(X, BOTH)
    assert_allclose(parts.predict(X), whole.predict(X))


def test_partial_fit_is_fit_one_epoch_at_a_time():
    options = {"learning_rate_init": 0.05, "random_state": 0}
    model = AttentionRegressor(**options)
    for _ in range(30):
        model.partial_fit(X, Y)
    whole = AttentionRegressor(max_iter=30, tol=0, **options).fit(X, Y)
    assert_allclose(model.predict(X), whole.predict(X))
    assert_allclose(model.loss_curve_, whole.loss_curve_)
    # Later targets are measured by the moments of the first call.
    before = model.predict(X)
    model.partial_fit(X, Y + 10)
    assert (model.predict(X) > before).mean() > 0.9


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
@pytest.mark.parametrize(
    "first",
    [
        lambda model, y: model.partial_fit(X[:1], y[:1]),
        lambda model, y: [model.partial_fit(X, np.full(N_SAMPLES, 9.0)) for _ in "123"],
    ],
    ids=["one sample", "constant targets"],
)
def test_a_first_call_that_cannot_tell_the_scale_does_no_harm(first, scale):
    y = scale * (Y - Y.mean()) / Y.std()
    model = AttentionRegressor(learning_rate_init=0.05, alpha=1e-4, random_state=0)
    first(model, y)
    for _ in range(200):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.9


def test_each_output_has_the_scale_of_the_first_targets_that_differ():
    model = AttentionRegressor(learning_rate_init=0.05, alpha=1e-4, random_state=0)
    model.partial_fit(X, np.column_stack([Y, np.full(N_SAMPLES, 3.0)]))
    both = np.column_stack([Y, -1e4 * Y])
    for _ in range(200):
        model.partial_fit(X, both)
    assert r2_score(both, model.predict(X), multioutput="raw_values").min() > 0.9


def test_early_stopping_is_by_the_score_of_held_out_samples():
    model = AttentionRegressor(
        early_stopping=True, max_iter=300, learning_rate_init=0.05, random_state=0
    ).fit(X, Y)
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert 0.5 < model.best_validation_score_ <= 1.0
    assert model.n_iter_ < 300


def test_a_frozen_head_stays_in_its_units():
    coef, intercept = np.array([[0.0, 10.0, 0.0, 0.0]]), 50.0
    model = AttentionRegressor(
        freeze_head=True, max_iter=200, learning_rate_init=0.1, alpha=0
    )
    model.fit(X, Y, coef_init=coef, intercept_init=intercept)
    assert_allclose(model.coef_, coef, atol=1e-12)
    assert_allclose(model.intercept_, intercept)
    assert model.score(X, Y) > 0.9


def test_pipelines_searches_and_containers():
    tokens = Tokens.from_bags(
        np.concatenate(X), np.repeat(np.arange(N_SAMPLES), list(map(len, X)))
    )
    model = make_pipeline(
        TokenScaler(), AttentionRegressor(learning_rate_init=0.05, random_state=0)
    )
    assert cross_val_score(model, tokens, Y, cv=3).mean() > 0.8
    search = GridSearchCV(
        AttentionRegressor(max_iter=80, tol=0), {"alpha": [1e-3, 100.0]}, cv=2
    ).fit(tokens, Y)
    assert search.best_params_["alpha"] == 1e-3
    pooled = AttentionPooling(AttentionRegressor(max_iter=40, tol=0)).fit(X, Y)
    assert pooled.transform(X).shape == (N_SAMPLES, 4)


@pytest.mark.parametrize("name", ["class_weight", "label_smoothing", "mixup"])
def test_what_is_about_labels_is_no_parameter(name):
    assert name not in AttentionRegressor().get_params()
