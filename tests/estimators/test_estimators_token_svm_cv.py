"""TokenSVMCV against TokenSVM, one candidate and one fold at a time."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks
from token_cases import StopAfter

from skattn import TokenSVM, TokenSVMCV
from skattn.datasets import make_token_selection
from skattn.tokens import check_tokens

CS = [1.0, 1e-2]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def sequences():
    X, y, planted = make_token_selection(
        n_samples=36, n_tokens=(3, 7), n_features=5, random_state=1
    )
    flipped = np.random.default_rng(0).random(len(y)) < 0.25
    return X, np.where(flipped, 1 - y, y), planted


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.standard_normal((30, 3)), columns=list("abc"))
    y = np.array(["no", "yes"])[(X["a"] + rng.standard_normal(30) > 0).astype(int)]
    return X, y


def indices(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else [X[row] for row in rows]


def scores_one_by_one(X, y, cv, Cs, **parameters):
    scores = np.empty((cv.get_n_splits(), len(Cs)))
    for fold, (train, test) in enumerate(cv.split(np.zeros(len(y)), y)):
        for candidate, C in enumerate(Cs):
            model = TokenSVM(C=C, **parameters).fit(indices(X, train), y[train])
            scores[fold, candidate] = model.score(indices(X, test), y[test])
    return scores


@pytest.mark.parametrize("data", ["sequences", "table"])
@pytest.mark.parametrize("parameters", [{}, {"query": "mean", "max_iter": 2}])
def test_scores_are_those_of_separate_fits(data, parameters, request):
    X, y, *_ = request.getfixturevalue(data)
    cv = StratifiedKFold(3)
    model = TokenSVMCV(Cs=CS, cv=3, **parameters).fit(X, y)
    expected = scores_one_by_one(X, y, cv, CS, **parameters)
    np.testing.assert_allclose(model.scores_, expected)
    assert CS[int(np.argmax(expected.mean(axis=0)))] == model.C_
    np.testing.assert_array_equal(model.Cs_, CS)


@pytest.mark.parametrize("data", ["sequences", "table"])
def test_refit_is_token_svm_with_the_best_C(data, request):
    X, y, *_ = request.getfixturevalue(data)
    model = TokenSVMCV(Cs=CS, cv=3).fit(X, y)
    expected = TokenSVM(C=model.C_).fit(X, y)
    assert {name for name in vars(expected) if name.endswith("_")} <= set(vars(model))
    for name in ("attention_coef_", "coef_", "intercept_", "selected_", "dual_coef_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.n_features_in_ == expected.n_features_in_
    assert model.input_kind_ == expected.input_kind_


def test_agrees_with_grid_search(table):
    X, y = table
    ours = TokenSVMCV(Cs=CS, cv=4, scoring="roc_auc").fit(X, y)
    theirs = GridSearchCV(TokenSVM(), {"C": CS}, cv=4, scoring="roc_auc").fit(X, y)
    np.testing.assert_allclose(
        ours.scores_.mean(axis=0), theirs.cv_results_["mean_test_score"]
    )
    assert theirs.best_params_["C"] == ours.C_


def test_given_tokens_are_split_with_the_samples(sequences):
    X, y, planted = sequences
    model = TokenSVMCV(Cs=CS, cv=KFold(2), tokens="given")
    model.fit(X, y, selected=planted)
    for fold, (train, test) in enumerate(KFold(2).split(y)):
        for candidate, C in enumerate(CS):
            single = TokenSVM(C=C, tokens="given")
            single.fit(indices(X, train), y[train], selected=planted[train])
            expected = single.score(indices(X, test), y[test])
            np.testing.assert_allclose(model.scores_[fold, candidate], expected)
    np.testing.assert_array_equal(model.selected_, planted)


@pytest.mark.parametrize("data", ["sequences", "table"])
@pytest.mark.parametrize("scoring", [None, "roc_auc"])
def test_given_queries_reach_the_scores_of_folds(data, scoring, request):
    X, y, *_ = request.getfixturevalue(data)
    query = np.random.default_rng(2).standard_normal((len(y), 3))
    cv = KFold(3)
    model = TokenSVMCV(Cs=CS, cv=cv, query="given", scoring=scoring)
    model.fit(X, y, query=query)
    for fold, (train, test) in enumerate(cv.split(y)):
        for candidate, C in enumerate(CS):
            single = TokenSVM(C=C, query="given")
            single.fit(indices(X, train), y[train], query=query[train])
            outside = indices(X, test)
            if scoring is None:
                expected = single.score(outside, y[test], query=query[test])
            else:
                decision = single.decision_function(outside, query=query[test])
                expected = roc_auc_score(y[test], decision)
            np.testing.assert_allclose(model.scores_[fold, candidate], expected)
    assert model.predict(X, query=query).shape == y.shape


def test_weights_count_in_fit_and_score(table):
    X, y = table
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    cv = KFold(3)
    model = TokenSVMCV(Cs=[1.0], cv=cv).fit(X, y, sample_weight=weights)
    for fold, (train, test) in enumerate(cv.split(y)):
        single = TokenSVM(C=1.0)
        single.fit(X.iloc[train], y[train], sample_weight=weights[train])
        expected = single.score(X.iloc[test], y[test], sample_weight=weights[test])
        np.testing.assert_allclose(model.scores_[fold, 0], expected)


def test_without_refit_folds_are_averaged(sequences):
    X, y, _ = sequences
    cv = KFold(3)
    model = TokenSVMCV(Cs=CS, cv=cv, refit=False).fit(X, y)
    coefs, best_Cs = [], []
    for fold, (train, _test) in enumerate(cv.split(y)):
        best_Cs.append(CS[int(np.argmax(model.scores_[fold]))])
        single = TokenSVM(C=best_Cs[-1]).fit(indices(X, train), y[train])
        coefs.append(single.attention_coef_)
    np.testing.assert_allclose(model.attention_coef_, np.mean(coefs, 0), rtol=1e-5)
    np.testing.assert_allclose(model.C_, np.mean(best_Cs))
    assert not hasattr(model, "selected_")
    assert model.transform(X).shape == (len(y), 5)


def test_a_number_of_candidates_is_a_logarithmic_scale(table):
    X, y = table
    model = TokenSVMCV(Cs=3, cv=2, max_iter=1).fit(X, y)
    np.testing.assert_allclose(model.Cs_, [1e-4, 1.0, 1e4])


def test_the_first_of_equal_candidates_wins(sequences):
    X, _, planted = sequences
    y = planted > np.median(planted)
    model = TokenSVMCV(Cs=[5.0, 1.0, 5.0], cv=2, scoring=lambda *_: 0.5).fit(X, y)
    assert model.C_ == 5.0


@pytest.mark.slow
def test_parallel_folds_change_nothing(table):
    X, y = table
    one = TokenSVMCV(Cs=CS, cv=2).fit(X, y)
    two = clone(one).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.scores_, two.scores_)


def test_containers_are_split_as_lists(sequences):
    X, y, _ = sequences
    as_list = TokenSVMCV(Cs=CS, cv=2).fit(X, y)
    as_tokens = TokenSVMCV(Cs=CS, cv=2).fit(check_tokens(X), y)
    np.testing.assert_array_equal(as_list.scores_, as_tokens.scores_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Cs": [1.0, np.inf]}, "Cs must be above 0 and finite, got inf"),
        ({"Cs": [0.0]}, "Cs must be above 0 and finite, got 0.0"),
        ({"Cs": []}, "Cs must be a number or a list"),
        ({"Cs": 0}, "'Cs' parameter"),
        ({"scoring": "unheard of"}, "'scoring' parameter"),
        ({"cv": 1}, "'cv' parameter"),
    ],
)
def test_parameters_that_make_no_sense(parameters, message, table):
    X, y = table
    model = TokenSVMCV(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_a_class_that_a_fold_lacks(table):
    X, _ = table
    y = np.array([0, 1] * 14 + [0, 2])
    cv = KFold(3)
    assert TokenSVMCV(Cs=[1.0], cv=cv, max_iter=1).fit(X, y).coef_.shape[0] == 3
    with pytest.raises(ValueError, match="a class is absent from a fold"):
        TokenSVMCV(Cs=[1.0], cv=cv, max_iter=1, refit=False).fit(X, y)


def test_folds_warn_once(table):
    X, y = table
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TokenSVMCV(Cs=CS, cv=3, max_iter=1, refit=False).fit(X, y)
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert len(messages) == 1
    assert "fits in the folds did not converge" in messages[0]
    assert caught[0].filename == __file__


def test_callbacks_see_folds_and_can_stop(sequences):
    X, y, _ = sequences
    callback = StopAfter(2)
    model = TokenSVMCV(Cs=CS, cv=4).set_callbacks(callback).fit(X, y)
    assert model.scores_.shape == (2, 2)
    assert len(callback.models) == 3
    assert callback.models[0].predict(X).shape == y.shape
    np.testing.assert_allclose(
        callback.models[-1].decision_function(X), model.decision_function(X)
    )


def test_an_interrupt_leaves_the_estimator_unfitted(sequences, monkeypatch):
    X, y, _ = sequences

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("skattn.estimators._token_svm.solve", interrupt)
    model = TokenSVMCV(Cs=CS, cv=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model).keys() == vars(TokenSVMCV()).keys()


@pytest.mark.slow
@parametrize_with_checks(
    [TokenSVMCV(Cs=2, cv=2), TokenSVMCV(Cs=1, cv=2, head="logistic")]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
