"""Choosing beta: ConvexAttentionClassifierCV and beta="auto" against single fits."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks
from token_cases import StopAfter

from skattn import (
    ConvexAttentionClassifier,
    ConvexAttentionClassifierCV,
    ConvexAttentionRegressor,
    Tokens,
)

BETAS = [2e-2, 1e-2, 0.1]
EXACT = {"block": "mlp", "n_gates": 3, "tol": 1e-6, "random_state": 0}


@pytest.fixture(scope="module")
def ragged():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((length, 4)) for length in rng.integers(2, 6, 45)]
    votes = np.array([np.abs(x[:, 0]).mean() + 0.4 * x[:, 1].mean() for x in X])
    y = np.array(["no", "yes"])[(votes > np.median(votes)).astype(int)]
    return X, y


def take(X, index):
    return [X[i] for i in index]


def score_of_single_fit(X, y, train, test, beta, weights=None, scoring="accuracy"):
    def weight(index):
        return {} if weights is None else {"sample_weight": weights[index]}

    model = ConvexAttentionClassifier(beta=beta, **EXACT)
    model.fit(take(X, train), y[train], **weight(train))
    return get_scorer(scoring)(model, take(X, test), y[test], **weight(test))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_scores_are_those_of_separate_fits(ragged, scoring, weighted):
    X, y = ragged
    weights = np.random.default_rng(1).uniform(0.2, 3, len(y)) if weighted else None
    model = ConvexAttentionClassifierCV(betas=BETAS, cv=3, scoring=scoring, **EXACT)
    model.fit(X, y, sample_weight=weights)
    expected = [
        [
            score_of_single_fit(X, y, train, test, beta, weights, scoring)
            for beta in sorted(BETAS, reverse=True)
        ]
        for train, test in StratifiedKFold(3).split(np.zeros(len(y)), y)
    ]
    np.testing.assert_allclose(model.scores_, expected, rtol=1e-4)
    np.testing.assert_array_equal(model.beta_path_, sorted(BETAS, reverse=True))
    assert model.beta_ == model.beta_path_[np.mean(expected, axis=0).argmax()]


def test_the_refitted_model_is_the_one_of_the_best_beta(ragged):
    X, y = ragged
    model = ConvexAttentionClassifierCV(betas=BETAS, cv=3, **EXACT).fit(X, y)
    single = ConvexAttentionClassifier(beta=model.beta_, **EXACT).fit(X, y)
    assert vars(single).keys() - {"beta"} <= vars(model).keys()
    np.testing.assert_allclose(model.objective_, single.objective_, rtol=2e-6)
    np.testing.assert_allclose(
        model.decision_function(X), single.decision_function(X), rtol=1e-2, atol=1e-3
    )
    assert model.beta_max_ == single.beta_max_
    ranks = [
        ConvexAttentionClassifier(beta=beta, **EXACT).fit(X, y).rank_
        for beta in model.beta_path_
    ]
    np.testing.assert_array_equal(model.rank_path_, ranks)


def test_agrees_with_grid_search(ragged):
    X, y = ragged
    ours = ConvexAttentionClassifierCV(betas=BETAS, cv=4, scoring="roc_auc", **EXACT)
    ours.fit(X, y)
    theirs = GridSearchCV(
        ConvexAttentionClassifier(**EXACT),
        {"beta": sorted(BETAS, reverse=True)},
        cv=4,
        scoring="roc_auc",
    ).fit(X, y)
    np.testing.assert_allclose(
        ours.scores_.mean(axis=0), theirs.cv_results_["mean_test_score"]
    )
    assert theirs.best_params_["beta"] == ours.beta_


def test_auto_is_the_same_choice(ragged):
    X, y = ragged
    options = {**EXACT, "tol": 1e-3}
    auto = ConvexAttentionClassifier(beta="auto", **options).fit(X, y)
    chosen = ConvexAttentionClassifierCV(**options).fit(X, y)
    assert auto.beta == "auto"
    assert vars(auto).keys() - {"beta"} <= vars(chosen).keys()
    for name in ("beta_", "beta_path_", "rank_path_", "scores_", "coef_"):
        np.testing.assert_array_equal(getattr(auto, name), getattr(chosen, name))


def test_the_path_runs_from_beta_max_down(ragged):
    X, y = ragged
    model = ConvexAttentionClassifierCV(betas=5, eps=0.02, cv=2, **EXACT).fit(X, y)
    np.testing.assert_allclose(
        model.beta_path_, model.beta_max_ * np.geomspace(1, 0.02, 5)
    )
    assert model.rank_path_[0] == 0
    assert model.rank_path_[-1] > 0
    one = ConvexAttentionClassifierCV(betas=1, cv=2, **EXACT).fit(X, y)
    np.testing.assert_allclose(one.beta_path_, [one.beta_max_])


def test_the_path_of_tiny_features_is_as_tiny(ragged):
    X, y = ragged
    tiny = [1e-20 * x for x in X]
    options = {**EXACT, "betas": 3, "eps": 0.1, "cv": 2}
    usual = ConvexAttentionClassifierCV(**options).fit(X, y)
    model = ConvexAttentionClassifierCV(**options).fit(tiny, y)
    np.testing.assert_allclose(model.beta_path_, 1e-20 * usual.beta_path_, rtol=1e-6)
    np.testing.assert_array_equal(model.rank_path_, usual.rank_path_)


def test_the_largest_of_equal_betas_wins(ragged):
    X, y = ragged
    model = ConvexAttentionClassifierCV(
        betas=[0.01, 0.1], cv=2, scoring=lambda *_: 0.5, **EXACT
    )
    assert model.fit(X, y).beta_ == 0.1


@pytest.mark.parametrize(
    "parameters",
    [
        {"block": "mlp", "n_gates": 4},
        {"activation": "linear"},
        {"n_gates": 4},
        {"n_gates": 4, "gate_rank": "full"},
    ],
    ids=repr,
)
def test_without_refit_folds_are_averaged(ragged, parameters):
    X, y = ragged
    options = {"tol": 1e-7, "random_state": 0, **parameters}
    cv = KFold(3)
    model = ConvexAttentionClassifierCV(betas=BETAS, cv=cv, refit=False, **options)
    model.fit(X, y)
    decisions, betas = [], []
    for scores, (train, _) in zip(model.scores_, cv.split(y), strict=True):
        betas.append(model.beta_path_[scores.argmax()])
        single = ConvexAttentionClassifier(beta=betas[-1], **options)
        single.fit(take(X, train), y[train])
        decisions.append(single.decision_function(X))
    np.testing.assert_allclose(
        model.decision_function(X), np.mean(decisions, axis=0), rtol=1e-2, atol=1e-3
    )
    np.testing.assert_allclose(model.beta_, np.mean(betas))
    assert model.n_gates_ <= options.get("n_gates", 1)
    assert model.rank_ == sum(len(heads.first) for heads in model.heads_)
    assert not hasattr(model, "objective_")
    assert not hasattr(model, "rank_path_")


def test_a_class_that_a_fold_lacks(ragged):
    X, _ = ragged
    y = np.array([0, 1] * 21 + [0, 1, 2])
    model = ConvexAttentionClassifierCV(betas=[0.01], cv=KFold(3), **EXACT)
    assert model.fit(X, y).intercept_.shape == (3,)
    with pytest.raises(ValueError, match="a class is absent from a fold"):
        clone(model).set_params(refit=False).fit(X, y)


def test_containers_are_split_as_lists(ragged):
    X, y = ragged
    model = ConvexAttentionClassifierCV(betas=BETAS, cv=2, **EXACT)
    as_list = clone(model).fit(X, y)
    offsets = np.cumsum([0, *map(len, X)])
    as_tokens = clone(model).fit(Tokens(np.concatenate(X), offsets), y)
    np.testing.assert_array_equal(as_list.scores_, as_tokens.scores_)


@pytest.mark.slow
def test_parallel_folds_change_nothing(ragged):
    X, y = ragged
    one = ConvexAttentionClassifierCV(betas=BETAS, cv=2, **EXACT).fit(X, y)
    two = clone(one).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.scores_, two.scores_)


def test_one_random_state_gives_one_result(ragged):
    X, y = ragged
    model = ConvexAttentionClassifierCV(betas=BETAS, cv=2, block="mlp")
    model.set_params(random_state=np.random.RandomState(4))
    first = clone(model).fit(X, y)
    second = clone(model).fit(X, y)
    np.testing.assert_array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"betas": [1.0, np.inf]}, "betas must be above 0 and finite, got inf"),
        ({"betas": [0.0]}, "betas must be above 0 and finite, got 0.0"),
        ({"betas": []}, "betas must be a number or a list"),
        ({"betas": [[1.0]]}, "betas must be a number or a list"),
        ({"betas": 0}, "'betas' parameter"),
        ({"eps": 1.0}, "'eps' parameter"),
        ({"scoring": "unheard of"}, "'scoring' parameter"),
        ({"cv": 1}, "'cv' parameter"),
    ],
)
def test_parameters_that_make_no_sense(ragged, parameters, message):
    model = ConvexAttentionClassifierCV(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(*ragged)
    assert vars(model).keys() == vars(clone(model)).keys()


def test_folds_warn_once_and_so_does_the_refit(ragged):
    X, y = ragged
    model = ConvexAttentionClassifierCV(
        betas=BETAS, cv=3, solver="fista", max_iter=2, random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert len(messages) == 2
    assert "of 9 fits in the folds did not reach tol" in messages[0]
    assert "relative duality gap of" in messages[1]
    assert {w.filename for w in caught} == {__file__}


def test_callbacks_see_folds_and_can_stop(ragged):
    X, y = ragged
    callback = StopAfter(2)
    model = ConvexAttentionClassifierCV(betas=BETAS, cv=4, **EXACT)
    model.set_callbacks(callback).fit(X, y)
    assert model.scores_.shape == (2, 3)
    assert len(callback.models) == 3
    assert callback.models[0].predict(X).shape == y.shape
    np.testing.assert_array_equal(
        callback.models[-1].decision_function(X), model.decision_function(X)
    )


def test_numbers_choose_their_beta_too(ragged):
    X, _ = ragged
    y = np.array([np.abs(x[:, 0]).mean() for x in X])
    options = {**EXACT, "n_gates": 20, "tol": 1e-3}
    model = ConvexAttentionRegressor(beta="auto", **options).fit(X, y)
    assert model.scores_.shape == (5, 10)
    assert model.beta_ == model.beta_path_[model.scores_.mean(axis=0).argmax()]
    train, test = next(KFold(5).split(y))
    single = ConvexAttentionRegressor(beta=model.beta_, **options)
    single.fit(take(X, train), y[train])
    column = np.flatnonzero(model.beta_path_ == model.beta_)[0]
    np.testing.assert_allclose(
        model.scores_[0, column], single.score(take(X, test), y[test]), rtol=1e-2
    )
    constant = clone(model).fit(X, np.ones(len(X)))
    np.testing.assert_allclose(constant.predict(X), 1.0)


@pytest.mark.slow
@parametrize_with_checks(
    [
        ConvexAttentionClassifierCV("mlp", betas=3, cv=2),
        ConvexAttentionClassifierCV("mlp", betas=[0.01], cv=2, refit=False),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seed", [9, 15, 18, 25, 30])
def test_rows_that_repeat_are_fitted_with_any_gates(seed):
    # Some of these gates are open to the same of every training sample of a fold.
    X = np.repeat([[1, 3], [2, 1], [3, 3], [4, 1]], 4, axis=0)
    y = np.repeat([1, 2, 1, 2], 4)
    model = ConvexAttentionClassifierCV("mlp", betas=[0.01], cv=2, random_state=seed)
    assert model.fit(X, y).score(X, y) == 1.0
