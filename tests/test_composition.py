"""Estimators of tokens inside scikit-learn's own tools."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from token_cases import FORMS, QUICK, Case, make_samples

from skattn import (
    AttentionClassifier,
    AttentionPooling,
    TokenScaler,
    TokenSelector,
    TokenSVM,
    WindowTokenizer,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_SAMPLES = 40

# Queries travel in the container: scorers and splitters know X alone.
CASES = [
    Case.make(estimator, form, is_given, n_samples=N_SAMPLES)
    for form, is_given in [(form, False) for form in FORMS] + [("tokens", True)]
    for query in ["given" if is_given else "prompt"]
    for estimator in (
        AttentionClassifier(query=query, **QUICK),
        TokenSVM(query=query, head="logistic"),
    )
]
on_every_case = pytest.mark.parametrize("case", CASES, ids=str)


def half(case):
    """Mask of every second sample of each class."""
    return np.arange(N_SAMPLES) % 4 < 2


def by_hand(case, cv):
    """Out-of-fold probabilities from a loop over the folds."""
    probabilities = np.empty((N_SAMPLES, 2))
    for train, test in cv.split(np.empty(N_SAMPLES), case.y):
        model = case.take(train).fit()
        probabilities[test] = model.predict_proba(case.take(test).X)
    return probabilities


@on_every_case
@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss"])
def test_grid_search(case, scoring):
    name = "C" if isinstance(case.estimator, TokenSVM) else "alpha"
    grid = {name: [1e-4, 1.0]}
    search = GridSearchCV(
        case.estimator, grid, scoring=scoring, cv=2, n_jobs=2, error_score="raise"
    )
    search.fit(case.X, case.y)
    expected = cross_val_score(
        search.best_estimator_, case.X, case.y, scoring=scoring, cv=2
    )
    assert search.best_score_ == pytest.approx(expected.mean())
    assert search.predict(case.X).shape == (N_SAMPLES,)


@on_every_case
def test_cross_val_predict_equals_a_loop(case):
    cv = StratifiedKFold(4)
    probabilities = cross_val_predict(
        case.estimator, case.X, case.y, cv=cv, method="predict_proba"
    )
    assert_allclose(probabilities, by_hand(case, cv), rtol=1e-9)


@on_every_case
def test_cross_validate_with_several_scorers(case):
    scores = cross_validate(
        case.estimator,
        case.X,
        case.y,
        cv=3,
        scoring=["accuracy", "average_precision", "neg_brier_score"],
        return_train_score=True,
        error_score="raise",
    )
    assert all(np.isfinite(values).all() for values in scores.values())
    assert (scores["train_accuracy"] > 0.8).all()


@on_every_case
def test_learning_curve(case):
    sizes, train, test = learning_curve(
        case.estimator,
        case.X,
        case.y,
        cv=2,
        train_sizes=[10, 20],
        error_score="raise",
    )
    assert_array_equal(sizes, [10, 20])
    assert np.isfinite(train).all()
    # 20 of 40 samples are all that two folds leave for training.
    assert_allclose(test[1], cross_val_score(case.estimator, case.X, case.y, cv=2))


@on_every_case
@pytest.mark.parametrize("ensemble", [True, False])
def test_calibration(case, ensemble):
    model = CalibratedClassifierCV(case.estimator, cv=2, ensemble=ensemble)
    model.fit(case.X, case.y)
    probabilities = model.predict_proba(case.X)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert accuracy_score(case.y, model.predict(case.X)) > 0.8


@on_every_case
def test_calibration_of_a_frozen_estimator(case):
    frozen = FrozenEstimator(case.take(np.flatnonzero(half(case))).fit())
    rest = case.take(np.flatnonzero(~half(case)))
    model = CalibratedClassifierCV(frozen).fit(rest.X, rest.y)
    by_decision = np.argsort(frozen.decision_function(rest.X), kind="stable")
    steps = np.diff(model.predict_proba(rest.X)[by_decision, 1])
    assert (steps >= 0).all() or (steps <= 0).all()
    assert steps.any()


@on_every_case
def test_voting(case):
    other = clone(case.estimator).set_params(mapping="entmax15")
    model = VotingClassifier([("a", case.estimator), ("b", other)], voting="soft")
    model.fit(case.X, case.y)
    mean = np.mean(
        [fitted.predict_proba(case.X) for fitted in model.estimators_], axis=0
    )
    assert_allclose(model.predict_proba(case.X), mean)


@on_every_case
def test_stacking(case):
    other = clone(case.estimator).set_params(mapping="entmax15")
    model = StackingClassifier([("a", case.estimator), ("b", other)], cv=2)
    model.fit(case.X, case.y)
    assert model.score(case.X, case.y) > 0.8
    assert_allclose(
        model.transform(case.X)[:, 0],
        model.named_estimators_["a"].predict_proba(case.X)[:, 1],
    )


@on_every_case
def test_one_versus_rest(case):
    three = np.arange(N_SAMPLES) % 3
    model = OneVsRestClassifier(case.estimator, n_jobs=2).fit(case.X, three)
    assert model.decision_function(case.X).shape == (N_SAMPLES, 3)
    alone = clone(case.estimator).fit(case.X, three == 1)
    assert_allclose(
        model.decision_function(case.X)[:, 1], alone.decision_function(case.X)
    )


@on_every_case
def test_tuned_threshold(case):
    model = TunedThresholdClassifierCV(
        case.estimator, scoring="balanced_accuracy", cv=2
    ).fit(case.X, case.y)
    positive = model.estimator_.predict_proba(case.X)[:, 1] >= model.best_threshold_
    assert_array_equal(model.predict(case.X), positive.astype(int))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("inner", [TokenSVM(), AttentionClassifier(**QUICK)], ids=repr)
def test_pipelines_tune_the_selector_and_its_estimator(inner, form):
    case = Case.make(inner, form, is_given=False, n_samples=N_SAMPLES)
    pipeline = make_pipeline(
        TokenScaler(),
        TokenSelector(inner, n_tokens=1, output="concat"),
        SVC(),
    )
    name = "C" if isinstance(inner, TokenSVM) else "alpha"
    search = GridSearchCV(
        pipeline,
        {
            "tokenselector__n_tokens": [1, 2],
            f"tokenselector__estimator__{name}": [0.01, 1.0],
        },
        scoring="accuracy",
        cv=2,
        n_jobs=2,
        error_score="raise",
    ).fit(case.X, case.y)
    assert len(search.cv_results_["params"]) == 4
    assert search.score(case.X, case.y) > 0.8
    n_tokens = search.best_params_["tokenselector__n_tokens"]
    assert search.best_estimator_[-1].n_features_in_ == n_tokens * 3


@pytest.mark.parametrize("form", FORMS)
def test_tokens_pass_from_step_to_step(form):
    case = Case.make(TokenSVM(), form, is_given=False, n_samples=N_SAMPLES)
    pipeline = make_pipeline(
        TokenScaler(),
        WindowTokenizer(1, summary=["mean"], keep_values=False),
        TokenSelector(TokenSVM(), n_tokens=2),
        AttentionClassifier(**QUICK),
    ).fit(case.X, case.y)
    assert pipeline.score(case.X, case.y) > 0.8
    kept = pipeline[:-1].transform(case.X)
    assert type(kept) is type(case.X)
    assert pipeline[-1].attention_weights(kept)[0].shape == (2,) or form == "tokens"


@pytest.mark.parametrize("form", FORMS)
def test_pooling_lets_any_classifier_follow(form):
    case = Case.make(TokenSVM(), form, is_given=False, n_samples=N_SAMPLES)
    pipeline = make_pipeline(AttentionPooling(TokenSVM()), LogisticRegression())
    scores = cross_val_score(pipeline, case.X, case.y, cv=3, scoring="roc_auc")
    assert scores.mean() > 0.8


@pytest.mark.parametrize("prefit", [True, False])
def test_a_frozen_estimator_survives_cross_validation(prefit):
    case = Case.make(TokenSVM(), "list", is_given=False, n_samples=N_SAMPLES)
    frozen = FrozenEstimator(case.fit())
    selector = TokenSelector(frozen, n_tokens=1, output="concat", prefit=prefit)
    pipeline = make_pipeline(selector, LogisticRegression())
    results = cross_validate(
        pipeline, case.X, case.y, cv=2, return_estimator=True, error_score="raise"
    )
    for fitted in results["estimator"]:
        assert_array_equal(fitted[0].estimator_.attention_coef_, frozen.attention_coef_)


def test_prefit_without_freezing_names_the_remedy():
    case = Case.make(TokenSVM(), "list", is_given=False)
    selector = TokenSelector(case.fit(), n_tokens=1, output="concat", prefit=True)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        clone(selector).fit(case.X, case.y)


class TestMetadataRouting:
    """With routing enabled, weights and queries reach estimators by request."""

    @pytest.fixture(autouse=True)
    def enabled(self):
        with config_context(enable_metadata_routing=True):
            yield

    @pytest.fixture(params=[AttentionClassifier, TokenSVM])
    def estimator(self, request):
        options = QUICK if request.param is AttentionClassifier else {}
        estimator = request.param(query="given", **options)
        for method in ("fit", "predict", "decision_function", "transform", "score"):
            request_of = getattr(estimator, f"set_{method}_request")
            estimator = request_of(query=True)
        estimator = estimator.set_score_request(sample_weight=True)
        return estimator.set_fit_request(sample_weight=True)

    @pytest.fixture
    def data(self):
        X, y, query = make_samples(n_samples=N_SAMPLES)
        return X, y, query, np.linspace(0.1, 2.0, N_SAMPLES)

    def test_pipeline_with_a_classifier(self, estimator, data):
        X, y, query, weights = data
        scaler = TokenScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, estimator)
        pipeline.fit(X, y, query=query, sample_weight=weights)
        scaled = pipeline[0].transform(X)
        direct = clone(estimator).fit(scaled, y, query=query, sample_weight=weights)
        assert_allclose(pipeline[-1].coef_, direct.coef_)
        assert_array_equal(
            pipeline.predict(X, query=query), direct.predict(scaled, query=query)
        )
        assert pipeline.score(X, y, query=query) == direct.score(scaled, y, query=query)

    def test_cross_validation(self, estimator, data):
        X, y, query, weights = data
        scores = cross_validate(
            estimator,
            X,
            y,
            cv=2,
            params={"query": query, "sample_weight": weights},
            error_score="raise",
        )["test_score"]
        expected = []
        for train, test in StratifiedKFold(2).split(np.empty(N_SAMPLES), y):
            model = clone(estimator).fit(
                [X[i] for i in train],
                y[train],
                query=query[train],
                sample_weight=weights[train],
            )
            held_out = {"query": query[test], "sample_weight": weights[test]}
            expected.append(model.score([X[i] for i in test], y[test], **held_out))
        assert_allclose(scores, expected)

    def test_a_scorer_takes_weights(self, data):
        X, y, _, weights = data
        search = GridSearchCV(
            TokenSVM().set_fit_request(sample_weight=True),
            {"C": [0.1, 1.0]},
            scoring=get_scorer("accuracy").set_score_request(sample_weight=True),
            cv=2,
            error_score="raise",
        ).fit(X, y, sample_weight=weights)
        assert search.score(X, y, sample_weight=weights) == accuracy_score(
            y, search.predict(X), sample_weight=weights
        )

    def test_selector_passes_weights_and_queries_to_its_estimator(
        self, estimator, data
    ):
        X, y, query, weights = data
        selector = TokenSelector(estimator, n_tokens=1, output="concat")
        selector.fit(X, y, query=query, sample_weight=weights)
        direct = clone(estimator).fit(X, y, query=query, sample_weight=weights)
        assert_allclose(selector.estimator_.coef_, direct.coef_)

    @pytest.mark.parametrize("meta", [TokenSelector, AttentionPooling])
    def test_pipeline_with_a_transformer(self, estimator, data, meta):
        X, y, query, weights = data
        options = {} if meta is AttentionPooling else {"n_tokens": 1}
        if meta is TokenSelector:
            options["output"] = "concat"
        transformer = meta(estimator, **options)
        pipeline = make_pipeline(
            transformer, LogisticRegression().set_fit_request(sample_weight=False)
        )
        pipeline.fit(X, y, query=query, sample_weight=weights)
        direct = clone(transformer).fit(X, y, query=query, sample_weight=weights)
        assert_allclose(pipeline[0].estimator_.coef_, direct.estimator_.coef_)
        features = direct.transform(X, query=query)
        assert_allclose(pipeline[:-1].transform(X, query=query), features)
        assert_array_equal(
            pipeline.predict(X, query=query), pipeline[-1].predict(features)
        )


class TestSetOutput:
    def test_of_a_pipeline_with_tokens_inside(self):
        X, y, _ = make_samples()
        pipeline = make_pipeline(
            TokenScaler(), TokenSelector(TokenSVM()), AttentionPooling(TokenSVM())
        ).set_output(transform="pandas")
        frame = pipeline.fit_transform(X, y)
        assert list(frame.columns) == [f"attentionpooling{i}" for i in range(3)]

    def test_does_not_disturb_what_comes_after(self):
        X, y, _ = make_samples()
        plain = make_pipeline(AttentionPooling(TokenSVM()), LogisticRegression())
        framed = clone(plain).set_output(transform="pandas")
        assert_allclose(
            framed.fit(X, y).decision_function(X),
            plain.fit(X, y).decision_function(X),
        )
        assert_array_equal(
            framed[-1].feature_names_in_, framed[0].get_feature_names_out()
        )
