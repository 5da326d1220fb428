"""scikit-learn's callbacks on the estimators, and on the transformers around them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.pipeline import make_pipeline
from token_cases import QUICK, make_samples

from skattn import AttentionClassifier, TokenScaler, TokenSelector, TokenSVM

SAMPLES, Y, QUERY = make_samples()
WEIGHTS = np.linspace(0.5, 2.0, len(Y))


class Recorder:
    """Records every task, and asks to stop at the end of one of them."""

    max_propagation_depth = None

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.begun, self.ended, self.n_set_up, self.n_torn_down = [], [], 0, 0

    def setup(self, estimator, context):
        self.n_set_up += 1

    def teardown(self, estimator, context):
        self.n_torn_down += 1

    def on_fit_task_begin(self, estimator, context, **data):
        self.begun.append(context)

    def on_fit_task_end(
        self, estimator, context, *, X, y, metadata=None, fitted_estimator=None
    ):
        self.ended.append(
            {
                "estimator": estimator,
                "context": context,
                "X": X,
                "y": y,
                "metadata": metadata,
                "fitted": fitted_estimator,
            }
        )
        return self.stop_at is not None and context.task_id == self.stop_at

    @property
    def iterations(self):
        return [end for end in self.ended if end["context"].parent is not None]


ESTIMATORS = [
    AttentionClassifier(**QUICK),
    AttentionClassifier(solver="lbfgs", max_iter=15, tol=0, n_heads=2, random_state=0),
    TokenSVM(C=1.0, head_C=1.0, max_iter=3),
]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
class TestRecorded:
    def fit(self, estimator, recorder):
        fitted = clone(estimator).set_callbacks(recorder)
        return fitted.fit(SAMPLES, Y, sample_weight=WEIGHTS)

    def test_one_task_an_iteration(self, estimator):
        recorder = Recorder()
        fitted = self.fit(estimator, recorder)
        root = recorder.begun[0]
        assert root.max_subtasks == estimator.max_iter
        assert len(recorder.iterations) == fitted.n_iter_
        assert len(recorder.begun) == len(recorder.ended) == fitted.n_iter_ + 1
        assert recorder.n_set_up == recorder.n_torn_down == 1

    def test_data_are_those_of_the_caller(self, estimator):
        recorder = Recorder()
        self.fit(estimator, recorder)
        for end in recorder.ended:
            assert end["X"] is SAMPLES
            assert end["y"] is Y
            assert end["metadata"]["sample_weight"] is WEIGHTS

    def test_estimators_on_the_way_are_as_if_stopped_there(self, estimator):
        recorder = Recorder()
        fitted = self.fit(estimator, recorder)
        decisions = [end["fitted"].decision_function(SAMPLES) for end in recorder.ended]
        assert_allclose(decisions[-1], fitted.decision_function(SAMPLES))
        shorter = clone(estimator).set_params(max_iter=1)
        shorter.fit(SAMPLES, Y, sample_weight=WEIGHTS)
        assert_allclose(decisions[0], shorter.decision_function(SAMPLES))

    def test_true_stops(self, estimator):
        recorder = Recorder(stop_at=1)
        fitted = self.fit(estimator, recorder)
        assert fitted.n_iter_ == 2
        assert len(fitted.loss_curve_) == 2

    def test_callbacks_change_nothing(self, estimator):
        fitted = self.fit(estimator, Recorder())
        plain = clone(estimator).fit(SAMPLES, Y, sample_weight=WEIGHTS)
        assert_array_equal(fitted.coef_, plain.coef_)


def test_given_queries_reach_callbacks():
    recorder = Recorder()
    model = AttentionClassifier(query="given", **QUICK).set_callbacks(recorder)
    model.fit(SAMPLES, Y, query=QUERY)
    assert all(end["metadata"]["query"] is QUERY for end in recorder.ended)


def test_partial_fit_is_one_task():
    recorder = Recorder()
    model = AttentionClassifier(**QUICK).set_callbacks(recorder)
    for call in (1, 2):
        model.partial_fit(SAMPLES, Y, classes=[0, 1])
        assert len(recorder.iterations) == call
    assert recorder.begun[0].max_subtasks == 1


def test_they_reach_the_estimator_of_a_selector():
    recorder = Recorder()
    selector = TokenSelector(AttentionClassifier(**QUICK), n_tokens=1)
    selector.set_callbacks(recorder).fit(SAMPLES, Y)
    epochs = [end for end in recorder.ended if end["context"].task_name == "epoch"]
    assert len(epochs) == QUICK["max_iter"]
    assert all(isinstance(end["estimator"], AttentionClassifier) for end in epochs)


@pytest.mark.filterwarnings("ignore:.*TokenScaler does not support callbacks")
def test_they_reach_the_last_step_of_a_pipeline():
    recorder = Recorder()
    pipeline = make_pipeline(TokenScaler(), AttentionClassifier(**QUICK))
    pipeline.set_callbacks(recorder).fit(SAMPLES, Y)
    names = [end["context"].task_name for end in recorder.ended]
    assert names.count("epoch") == QUICK["max_iter"]


def test_progress_bar_runs(capsys):
    pytest.importorskip("rich")
    for estimator in (*ESTIMATORS, TokenSelector(ESTIMATORS[0])):
        clone(estimator).set_callbacks(ProgressBar()).fit(SAMPLES, Y)
    assert "AttentionClassifier" in capsys.readouterr().out


def test_scoring_monitor_follows_the_accuracy():
    monitor = ScoringMonitor(scoring="accuracy")
    model = AttentionClassifier(**QUICK).set_callbacks(monitor).fit(SAMPLES, Y)
    epochs = [
        row["accuracy"]
        for row in monitor.get_logs().data
        if row["task_name"] == "epoch"
    ]
    assert len(epochs) == QUICK["max_iter"]
    assert epochs[-1] == model.score(SAMPLES, Y)
