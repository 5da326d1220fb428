"""Softmax regression as an estimator: scikit-learn's checks, and sequences."""

import copy
import pickle
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from instances import SOFTMAX_REGRESSIONS
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import (
    ConvergenceWarning,
    DataConversionWarning,
    NotFittedError,
)
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    estimator_checks_generator,
    parametrize_with_checks,
)
from token_cases import FORMS, padded

from skattn import SoftmaxRegression, Tokens
from skattn.mappings import softmax

N_SAMPLES, N_FEATURES = 12, 3


@parametrize_with_checks(SOFTMAX_REGRESSIONS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_check(estimator, check):
    try:
        check(estimator)
    except SkipTest as skipped:
        pytest.fail(f"skipped: {skipped}")


@pytest.mark.parametrize("estimator", SOFTMAX_REGRESSIONS, ids=repr)
def test_no_check_is_out_of_reach_and_tags_are_honest(estimator):
    # As many as scikit-learn 1.9 has for regressors.
    assert len(list(estimator_checks_generator(estimator, mark=None))) >= 59
    tags = get_tags(estimator)
    assert is_regressor(estimator)
    assert tags.input_tags.two_d_array
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.allow_nan
    assert not tags.input_tags.sparse
    assert not tags.non_deterministic
    assert not tags._skip_test
    assert tags.target_tags.required
    # Its predictions sum to 1, and arbitrary targets do not.
    assert tags.regressor_tags.poor_score


def make_ragged(seed=0, n_samples=N_SAMPLES, n_features=N_FEATURES):
    """Samples of small integers, noisy attention of a prompt, and the prompt."""
    rng = np.random.RandomState(seed)
    lengths = rng.randint(2, 6, size=n_samples)
    prompt = rng.normal(size=n_features)
    X = [rng.randint(-3, 4, (n, n_features)).astype(float) for n in lengths]
    return X, [softmax(x @ prompt + 0.3 * rng.normal(size=len(x))) for x in X], prompt


def flat(values, X):
    """Predictions or targets at real tokens, end to end."""
    if isinstance(X, np.ndarray):
        return values[~np.isnan(X).all(axis=2)]
    if isinstance(X, Tokens):
        parts = np.split(X.positions, X.offsets[1:-1])
        return np.concatenate([v[at] for v, at in zip(values, parts, strict=True)])
    return np.concatenate(values)


def in_form(form, X, y):
    """Give samples a form of `token_cases`, and targets the form of predictions."""
    formed, targets = FORMS[form](X), FORMS[form]([row[:, None] for row in y])
    if form == "tokens":
        padded_y = [
            row[:n, 0]
            for row, n in zip(targets.to_padded(), formed.n_positions, strict=True)
        ]
        return formed, padded_y
    return formed, targets[:, :, 0] if form == "array" else y


def fit(X, y, **options):
    return SoftmaxRegression(alpha=1e-3).fit(X, y, **options)


on_every_form = pytest.mark.parametrize("form", FORMS)


@on_every_form
def test_every_form_is_one_model(form):
    X, y, _ = make_ragged()
    expected = fit(X, y)
    formed, targets = in_form(form, X, y)
    model = fit(formed, targets)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    weights = model.predict(formed)
    assert isinstance(weights, np.ndarray if form == "array" else list)
    assert_allclose(flat(weights, formed), np.concatenate(expected.predict(X)))
    if form == "array":
        assert weights.shape == formed.shape[:2]
        assert_array_equal(weights[np.isnan(formed).all(axis=2)], 0)
        assert_allclose(weights.sum(axis=1), 1)
    assert model.input_kind_ == "sequences"
    assert model.n_features_in_ == N_FEATURES
    assert not hasattr(model, "log_normalizer_")
    score = r2_score(np.concatenate(y), flat(weights, formed))
    assert model.score(formed, targets) == pytest.approx(score)
    assert score > 0.8


def test_predictions_are_the_softmax_of_each_sample():
    X, y, prompt = make_ragged()
    model = fit(X, y)
    for x, weights in zip(X, model.predict(X), strict=True):
        assert_allclose(weights, softmax(x @ model.coef_))
        assert_allclose(model.predict([x])[0], weights)
    exact = [softmax(x @ prompt) for x in X]
    found = SoftmaxRegression(alpha=0).fit(X, exact)
    assert_allclose(found.coef_, prompt, rtol=1e-8)
    assert found.loss_ == pytest.approx(0, abs=1e-20)
    assert found.score(X, exact) == pytest.approx(1)


def test_one_sequence_keeps_its_normaliser():
    rng = np.random.default_rng(0)
    X, prompt = rng.normal(size=(20, 4)), rng.normal(size=4)
    y = softmax(X @ prompt)
    model = SoftmaxRegression(alpha=1e-5).fit(X, y)
    assert_allclose(model.predict(X), softmax(X @ model.coef_), rtol=1e-13)
    assert_allclose(model.predict(X).sum(), 1)
    assert_allclose(model.predict(X[3:5]), model.predict(X)[3:5])
    assert model.log_normalizer_ == pytest.approx(np.log(np.exp(X @ model.coef_).sum()))
    as_sample = SoftmaxRegression(alpha=1e-5).fit([X], [y])
    assert_allclose(as_sample.coef_, model.coef_, rtol=1e-9)
    assert as_sample.loss_ == pytest.approx(model.loss_)


def test_the_objective_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), rng.dirichlet(np.ones(20))
    model = SoftmaxRegression(alpha=0.01).fit(X, y)
    residual, scores = model.predict(X) - y, X @ model.coef_
    expected = 0.5 * residual @ residual + 0.5 * 0.01 * scores @ scores
    assert model.loss_ == pytest.approx(expected)
    assert model.gradient_norm_ < 1e-6
    assert model.n_iter_ > 0


def test_strong_penalties_give_uniform_weights():
    X, y, _ = make_ragged()
    for weights in SoftmaxRegression(alpha=100).fit(X, y).predict(X):
        assert_allclose(weights, 1 / len(weights), atol=0.01)
    losses = [SoftmaxRegression(alpha=alpha).fit(X, y).loss_ for alpha in (0, 1e-3, 1)]
    assert losses[0] < losses[1] < losses[2]


def test_alpha_may_be_one_a_token():
    X, y, _ = make_ragged()
    expected = SoftmaxRegression(alpha=0.01).fit(X, y)
    per_token = [np.full(len(x), 0.01) for x in X]
    same = SoftmaxRegression(alpha=per_token).fit(X, y)
    assert_allclose(same.coef_, expected.coef_)
    per_token[0][:] = 1000.0
    other = clone(same).set_params(alpha=per_token).fit(X, y)
    assert_allclose(other.predict(X)[0], 1 / len(X[0]), atol=0.05)
    one = SoftmaxRegression(alpha=np.full(len(X[0]), 0.01)).fit(X[0], y[0])
    assert_allclose(
        one.coef_, SoftmaxRegression(alpha=0.01).fit(X[0], y[0]).coef_, rtol=1e-9
    )


@on_every_form
def test_weights_equal_repeats_and_zero_removes(form):
    X, y, _ = make_ragged()
    counts = np.random.RandomState(0).randint(0, 3, N_SAMPLES)
    rows = np.repeat(np.arange(N_SAMPLES), counts)
    misled = [t if n else t[::-1] for t, n in zip(y, counts, strict=True)]
    formed, targets = in_form(form, X, misled)
    weighted = fit(formed, targets, sample_weight=counts)
    repeated = fit([X[row] for row in rows], [y[row] for row in rows])
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)
    assert weighted.loss_ == pytest.approx(repeated.loss_)
    assert weighted.score(formed, targets, sample_weight=counts) == pytest.approx(
        weighted.score([X[row] for row in rows], [y[row] for row in rows])
    )


def test_weights_of_one_sequence_count_in_its_normaliser():
    rng = np.random.default_rng(0)
    X, y, counts = (
        rng.normal(size=(6, 2)),
        rng.dirichlet(np.ones(6)),
        [1, 2, 0, 3, 1, 1],
    )
    weighted = fit(X, y, sample_weight=counts)
    rows = np.repeat(np.arange(6), counts)
    repeated = fit(X[rows], y[rows])
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)
    assert weighted.log_normalizer_ == pytest.approx(repeated.log_normalizer_)
    assert repeated.predict(X[rows]).sum() == pytest.approx(1)


@on_every_form
def test_pickle_clone_and_refit(form):
    X, y = in_form(form, *make_ragged()[:2])
    model = fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    for one, other in zip(again.predict(X), model.predict(X), strict=True):
        assert_array_equal(one, other)
    assert vars(clone(model)) == vars(SoftmaxRegression(alpha=1e-3))
    before = copy.deepcopy(vars(model))
    model.predict(X)
    model.score(X, y)
    assert vars(model).keys() == before.keys()
    other = in_form(form, *make_ragged(seed=1, n_features=5)[:2])
    assert_array_equal(clone(model).fit(*other).coef_, model.fit(*other).coef_)


def test_a_refit_of_the_other_kind_forgets_the_first():
    X, y, _ = make_ragged()
    model = fit(X[0], y[0])
    assert hasattr(model, "log_normalizer_")
    model.fit(X, y)
    assert not hasattr(model, "log_normalizer_")
    assert model.input_kind_ == "sequences"
    with pytest.raises(ValueError, match=r"for one sequence pass `\[X\]`"):
        model.predict(X[0])
    model.fit(X[0], y[0])
    with pytest.raises(ValueError, match="X holds sequences"):
        model.predict(X)
    assert model.predict(X[0]).shape == y[0].shape


@on_every_form
def test_numbers_of_features_are_checked(form):
    model = fit(*in_form(form, *make_ragged()[:2]))
    wider = FORMS[form](make_ragged(n_features=4)[0])
    message = "X has 4 features, but SoftmaxRegression is expecting 3 features"
    with pytest.raises(ValueError, match=message):
        model.predict(wider)


def test_names_of_features():
    X, y, _ = make_ragged()
    names = ["a", "b", "c"]
    frames = [pd.DataFrame(x, columns=names) for x in X]
    model = fit(frames, y)
    assert_array_equal(model.feature_names_in_, names)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict([frame.rename(columns={"a": "d"}) for frame in frames])
    one = fit(frames[0], pd.Series(y[0]))
    assert_array_equal(one.feature_names_in_, names)
    assert_allclose(one.coef_, fit(X[0], y[0]).coef_)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_dtypes(dtype):
    X, y, _ = make_ragged()
    assert_allclose(
        fit([x.astype(dtype) for x in X], y).coef_, fit(X, y).coef_, rtol=1e-6
    )


def test_targets_of_absent_tokens():
    X, y, _ = make_ragged()
    expected = fit(X, y).coef_
    wide = padded([row[:, None] for row in y], before=1, between=1)[:, :, 0]
    for fill in (np.nan, 0.0):
        targets = np.where(np.isnan(wide), fill, wide)
        formed = padded(X, before=1, between=1)
        assert_allclose(fit(formed, targets).coef_, expected, rtol=1e-9)
        assert_allclose(fit(formed, list(targets)).coef_, expected, rtol=1e-9)
        assert_allclose(fit(formed, pd.DataFrame(targets)).coef_, expected, rtol=1e-9)


def test_cross_validation_of_sequences():
    X, y, _ = make_ragged(n_samples=30)
    formed, targets = in_form("array", X, y)
    targets = np.nan_to_num(targets)
    scores = cross_val_score(SoftmaxRegression(alpha=1e-3), formed, targets, cv=3)
    assert (scores > 0.6).all()
    grid = GridSearchCV(SoftmaxRegression(), {"alpha": [1e-3, 10.0]}, cv=3)
    assert grid.fit(formed, targets).best_params_ == {"alpha": 1e-3}


def test_no_convergence_is_a_warning_with_the_gradient():
    X, y, _ = make_ragged()
    message = r"after 2 iterations at a relative gradient norm of \d.*above tol=1e-12"
    for solver in ("newton", "lbfgs"):
        model = SoftmaxRegression(solver=solver, max_iter=2, tol=1e-12)
        with pytest.warns(ConvergenceWarning, match=message) as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__
        assert model.n_iter_ == 2
        assert model.gradient_norm_ > 1e-12


def test_coef_init_is_where_it_starts():
    X, y, _ = make_ragged()
    model = fit(X, y)
    again = fit(X, y, coef_init=model.coef_)
    assert again.n_iter_ < model.n_iter_
    assert_allclose(again.coef_, model.coef_, rtol=1e-6)


class Recorder:
    """A callback that predicts after each iteration, and may stop."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.scores = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(
        self, estimator, context, *, X, y, metadata, fitted_estimator, **kwargs
    ):
        self.scores.append(fitted_estimator.score(X, y))
        return len(self.scores) == self.stop_after


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_callbacks_hear_of_each_iteration(solver):
    X, y, _ = make_ragged()
    for data in ((X, y), (X[0], y[0])):
        recorder = Recorder()
        model = SoftmaxRegression(solver=solver).set_callbacks(recorder).fit(*data)
        assert len(recorder.scores) == model.n_iter_ + 1
        assert recorder.scores[-1] == pytest.approx(model.score(*data))
        stopped = SoftmaxRegression(solver=solver).set_callbacks(Recorder(2)).fit(*data)
        assert stopped.n_iter_ == 2


X, Y, _ = make_ragged()
NEGATIVE = [-np.ones(len(x)) for x in X]


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (X, None, {}, "the target y is None"),
        (X, Y[:-1], {}, "y must have one row a sample"),
        (X, np.ones(N_SAMPLES), {}, r"y\[0\] must have one entry for each token"),
        (X, 1.0, {}, "y must have one row a sample"),
        (X, [], {}, "y must have one row a sample"),
        (X, [t[:-1] for t in Y], {}, r"y\[0\] must have one entry for each token"),
        (X, [t * np.nan for t in Y], {}, r"y\[0\] contains NaN or infinity at token 0"),
        (X, [["a"] * len(t) for t in Y], {}, r"y\[0\] has values"),
        (X, [np.append(t, 0.5) for t in Y], {}, r"y\[0\] has a number at token"),
        (X[0], Y[0][:-1], {}, "inconsistent numbers of samples"),
        (X[0], Y[0] * np.inf, {}, "infinity"),
        (X[0] * np.nan, Y[0], {}, "contains NaN"),
        (X, Y, {"sample_weight": np.ones(3)}, "sample_weight"),
        (X, Y, {"sample_weight": -np.ones(N_SAMPLES)}, "Negative values"),
        (X, Y, {"sample_weight": np.zeros(N_SAMPLES)}, "at least one non-zero"),
        (X, Y, {"coef_init": [1.0]}, r"coef_init must have shape \(3,\)"),
        (X, Y, {"coef_init": [np.nan] * 3}, "coef_init contains NaN"),
        (X, Y, {"alpha": -1.0}, "alpha"),
        (X, Y, {"alpha": NEGATIVE}, "alpha must not be negative"),
        (X, Y, {"alpha": [1.0, 2.0]}, "alpha must have one row a sample"),
        (X[0], Y[0], {"alpha": np.ones(99)}, "alpha must be a number or have shape"),
        (X[0], Y[0], {"alpha": -np.ones(len(Y[0]))}, "alpha must not be negative"),
        (X, Y, {"solver": "sgd"}, "solver"),
        (X, Y, {"max_iter": 0}, "max_iter"),
        (X, Y, {"tol": 0}, "tol"),
    ],
)
def test_what_is_refused_leaves_the_estimator_as_it_was(X, y, options, message):
    parameters = {
        k: v for k, v in options.items() if k in ("alpha", "solver", "max_iter", "tol")
    }
    passed = {k: v for k, v in options.items() if k not in parameters}
    model = fit(*make_ragged(n_features=5)[:2]).set_params(**parameters)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **passed)
    assert vars(model).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(model).items())


def test_a_column_of_targets_is_read_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = fit(X[0], Y[0][:, None])
    assert_array_equal(model.coef_, fit(X[0], Y[0]).coef_)


def test_not_fitted():
    for method, arguments in (("predict", (X,)), ("score", (X, Y))):
        with pytest.raises(NotFittedError):
            getattr(SoftmaxRegression(), method)(*arguments)
