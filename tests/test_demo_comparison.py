"""The comparison of models, against a plain loop over splits."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skattn import AttentionClassifier, TokenScaler, TokenSelector, check_tokens
from skattn._demo.comparison import (
    Evaluation,
    evaluate,
    fit_model,
    over_runs,
    share_kept,
)
from skattn._demo.models import EXPLAINED, make_models
from skattn._demo.pooling import Pooling
from skattn._demo.problems import cross_validated, japanese_vowels, musk1
from skattn.datasets import make_token_selection


@pytest.fixture(scope="module")
def problem():
    X, y, _ = make_token_selection(
        n_samples=40, n_tokens=(2, 6), n_features=4, signal=2, random_state=0
    )
    return cross_validated("toy", check_tokens(X), y, np.arange(40), n_folds=3)


def pooling_model():
    return make_pipeline(TokenScaler(), Pooling(), LogisticRegression())


def attention_model(**options):
    options = {"random_state": 0, **options}
    return make_pipeline(TokenScaler(), AttentionClassifier(**options))


def share_by_hand(weights):
    """Share of the tokens with 95 % of the attention, one sample at a time."""
    kept = 0
    for sample in weights:
        left = np.sort(sample)[::-1].cumsum()
        kept += 1 + int((left < 0.95).sum())
    return kept / sum(len(sample) for sample in weights)


def test_evaluate_equals_a_plain_loop(problem):
    models = {"pooling": pooling_model(), "attention": attention_model()}
    evaluations = evaluate(models, problem)
    assert [evaluation.model for evaluation in evaluations] == list(models)
    for evaluation in evaluations:
        accuracies, shares = [], []
        for train, test in problem.splits:
            model = clone(models[evaluation.model])
            model.fit(problem.X[train], problem.y[train])
            accuracies.append(model.score(problem.X[test], problem.y[test]))
            if evaluation.model == "attention":
                scaled = model[0].transform(problem.X[test])
                shares.append(share_by_hand(model[-1].attention_weights(scaled)))
        np.testing.assert_allclose(evaluation.accuracies, accuracies)
        assert evaluation.share_kept == pytest.approx(np.mean(shares or [1.0]))
        assert evaluation.n_fits == 3
        assert evaluation.fit_time > 0


def test_share_kept_of_a_selector_is_what_it_keeps(problem):
    model = make_pipeline(
        TokenScaler(),
        TokenSelector(AttentionClassifier(random_state=0), n_tokens=1),
        Pooling(),
        LogisticRegression(),
    ).fit(problem.X, problem.y)
    assert share_kept(model, problem.X) == len(problem.X) / problem.X.n_tokens


def test_fits_that_end_at_their_limit_are_counted_and_do_not_warn(problem):
    models = {
        "stopped": attention_model(max_iter=2),
        "selector": make_pipeline(
            TokenScaler(),
            TokenSelector(AttentionClassifier(max_iter=2, random_state=0)),
            Pooling(),
            LogisticRegression(),
        ),
        "settled": attention_model(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        evaluations = evaluate(models, problem)
        fit_model(models["stopped"], problem.X, problem.y)
    assert [evaluation.n_at_limit for evaluation in evaluations] == [3, 3, 0]


def test_callbacks_hear_of_every_fit(problem):
    class Recorder:
        n_fits = 0

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.n_fits += context.max_subtasks == 0

        def teardown(self, estimator, context):
            pass

    recorder = Recorder()
    models = {"one": pooling_model(), "two": pooling_model()}
    evaluate(models, problem, callbacks=[recorder])
    assert recorder.n_fits == 2 * 3


def test_runs_are_merged_by_model():
    runs = [
        [
            Evaluation("a", np.array([0.5, 0.7]), 1.0, 0.2, 1, 2),
            Evaluation("b", np.array([1.0, 1.0]), 5.0, 1.0, 0, 2),
        ],
        [
            Evaluation("a", np.array([0.9, 0.9]), 3.0, 0.4, 2, 2),
            Evaluation("b", np.array([0.0, 1.0]), 5.0, 1.0, 0, 2),
        ],
    ]
    a, b = over_runs(runs)
    np.testing.assert_allclose(a.accuracies, [0.6, 0.9])
    np.testing.assert_allclose(b.accuracies, [1.0, 0.5])
    assert (a.model, a.fit_time, a.n_at_limit, a.n_fits) == ("a", 2.0, 3, 4)
    assert a.share_kept == pytest.approx(0.3)


def test_the_models_pass_their_seed_on_and_have_default_parameters():
    models = make_models(random_state=7)
    assert len(models) == 7
    assert models[EXPLAINED][-1].get_params() == (
        AttentionClassifier(random_state=7).get_params()
    )
    assert models["TokenSVM"][-1].random_state == 7


def test_musk1_comes_in_ten_folds_that_its_seed_shuffles():
    problem = musk1(seed=1)
    held_out = np.concatenate([test for _, test in problem.splits])
    assert len(problem.splits) == 10
    np.testing.assert_array_equal(np.sort(held_out), np.arange(92))
    assert set(problem.y) == {"musk", "non-musk"}
    other = musk1(seed=2)
    assert not np.array_equal(problem.splits[0][1], other.splits[0][1])


def test_japanese_vowels_keep_their_own_split():
    [(train, test)] = japanese_vowels().splits
    assert (len(train), len(test)) == (270, 370)
