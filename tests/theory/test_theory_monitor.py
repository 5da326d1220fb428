"""The monitor, against what its measures mean, computed from the fitted estimators."""

import copy
import pickle
import time
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from token_cases import padded

import skattn.theory._monitor
from skattn import (
    AttentionClassifier,
    Tokens,
    TokenScaler,
    TokenSelector,
    TokenSVM,
    TokenSVMCV,
)
from skattn.estimators import _training
from skattn.mappings import MAPPINGS
from skattn.margin import SOLVERS
from skattn.theory import ImplicitBiasMonitor, alignment, attention_svm

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
N_SAMPLES, N_TOKENS, N_FEATURES = 8, 5, 9
X = RNG.normal(size=(N_SAMPLES, N_TOKENS, N_FEATURES))
QUERY = RNG.normal(size=(N_SAMPLES, N_FEATURES))
Y = np.arange(N_SAMPLES) % 2
HEAD = RNG.normal(size=N_FEATURES)
TOKENS = Tokens.from_padded(X, query=QUERY)


def gradient_descent(max_iter=60, **parameters):
    defaults = {
        "query": "given",
        "solver": "ngd",
        "learning_rate_init": 0.1,
        "alpha": 0,
        "tol": 0,
        "random_state": 0,
    }
    return AttentionClassifier(max_iter=max_iter, **(defaults | parameters))


def records_of(estimator, X=TOKENS, y=Y, fit_parameters=None, **options):
    """Fit a copy under a monitor; return it and the records, as a dataframe."""
    monitor = ImplicitBiasMonitor(**options)
    fitted = clone(estimator).set_callbacks(monitor)
    fitted.fit(X, y, **(fit_parameters or {}))
    return fitted, monitor.to_frame()


def assert_describes(row, fitted, X=TOKENS, head=0, norm="fro", **options):
    """Compare a record with measures of the fitted estimator by public functions."""
    selected, coef = fitted.selected_tokens(X), fitted.attention_coef_
    weights = fitted.attention_weights(X)
    if fitted.n_heads > 1:
        selected, coef = selected[:, head], coef[head]
        weights = [sample[head] for sample in weights]
    top = [np.max(sample) for sample in weights]
    svm = attention_svm(X, selected, norm=norm, **options)
    assert row["svm_norm"] == norm
    assert row["svm_status"] == svm.status == "optimal"
    assert row["svm_gap"] <= 1e-6
    assert row["alignment"] == pytest.approx(alignment(coef, svm.coef), abs=2e-3)
    assert row["norm"] == pytest.approx(np.linalg.norm(coef))
    assert row["top_weight"] == pytest.approx(np.mean(top))
    assert row["min_top_weight"] == pytest.approx(np.min(top))


class TestRecords:
    def test_are_of_the_first_epoch_and_every_kth(self):
        _, frame = records_of(gradient_descent(25), every=10)
        assert frame["iteration"].tolist() == [1, 10, 20, 25]
        assert frame["task_name"].tolist() == ["epoch"] * 3 + ["fit"]
        assert set(frame["fit"]) == {"0"}
        assert set(frame["estimator_name"]) == {"AttentionClassifier"}

    def test_the_end_is_not_recorded_twice(self):
        _, frame = records_of(gradient_descent(20), every=10)
        assert frame["iteration"].tolist() == [1, 10, 20]
        assert set(frame["task_name"]) == {"epoch"}

    @pytest.mark.parametrize(
        ("parameters", "norm"),
        [
            ({}, "fro"),
            ({"parameterization": "KQ"}, "nuc"),
            ({"parameterization": "KQ", "rank": 2}, "nuc"),
            ({"solver": "mirror", "mirror_p": 3.0}, 3.0),
            ({"solver": "mirror"}, "fro"),
            ({"n_heads": 2}, "fro"),
            ({"solver": "adam", "learning_rate_init": 0.02, "alpha": 1e-2}, "fro"),
            ({"dtype": "float32"}, "fro"),
        ],
        ids=str,
    )
    def test_measures_are_those_of_the_estimator_stopped_there(self, parameters, norm):
        estimator = gradient_descent(20, **parameters)
        fitted, frame = records_of(estimator, every=10)
        stopped = clone(estimator).set_params(max_iter=10).fit(TOKENS, Y)
        for iteration, model in ((10, stopped), (20, fitted)):
            rows = frame[frame["iteration"] == iteration]
            assert rows["head"].tolist() == list(range(model.n_heads))
            for head, (_, row) in enumerate(rows.iterrows()):
                assert_describes(row, model, head=head, norm=norm)
                assert row["loss"] == model.loss_curve_[-1]

    def test_changes_are_counted_between_records(self):
        estimator = gradient_descent(40)
        _, frame = records_of(estimator, every=20)
        choices = [
            clone(estimator)
            .set_params(max_iter=n)
            .fit(TOKENS, Y)
            .selected_tokens(TOKENS)
            for n in (1, 20, 40)
        ]
        changes = [np.sum(a != b) for a, b in pairwise(choices)]
        assert np.isnan(frame["n_changed"].iloc[0])
        assert frame["n_changed"].iloc[1:].tolist() == changes
        assert changes[0] > 0

    def test_training_approaches_the_svm(self):
        parameters = {"fit_parameters": {"coef_init": HEAD}, "every": 100}
        estimator = gradient_descent(500, freeze_head=True)
        _, frame = records_of(estimator, **parameters)
        assert frame["alignment"].iloc[-1] > 0.995
        assert frame["alignment"].iloc[-1] == frame["alignment"].max()
        assert (frame["norm"].diff().iloc[1:] > 0).all()
        assert frame["top_weight"].iloc[-1] > 0.999

    def test_weights_that_are_zero_have_no_alignment(self):
        _, frame = records_of(gradient_descent(5), every=5)
        first = frame.iloc[0]
        assert first["norm"] == 0
        assert np.isnan(first["alignment"])
        assert first["top_weight"] == pytest.approx(1 / N_TOKENS)

    def test_an_infeasible_choice_says_so_and_a_soft_margin_helps(self):
        estimator = gradient_descent(30, query="prompt")
        many = RNG.normal(size=(40, 6, 2))
        y = np.arange(40) % 2
        _, frame = records_of(estimator, many, y, every=10)
        late = frame[frame["iteration"] > 1]
        # A prompt that has its choice separates it; all at once it cannot be worse.
        assert set(late["svm_status"]) == {"optimal"}
        repeated = np.repeat(many[:, :3], 2, axis=1)
        # Equal weights choose the first token, which not all samples can have on top.
        _, frame = records_of(estimator, repeated, y, every=10)
        assert frame["svm_status"].iloc[0] == "infeasible"
        assert np.isnan(frame["alignment"].iloc[0])
        _, soft = records_of(estimator, repeated, y, every=10, C=1.0)
        assert soft["svm_status"].iloc[0] == "optimal"

    def test_norm_is_a_choice(self):
        fitted, frame = records_of(gradient_descent(10), every=10, norm="nuc")
        assert_describes(frame.iloc[-1], fitted, norm="nuc")
        fitted, frame = records_of(gradient_descent(10), every=10, norm=3)
        assert_describes(frame.iloc[-1], fitted, norm=3)

    def test_samples_without_weight_are_left_out(self):
        weight = np.array([1.0] * 6 + [0.0] * 2)
        _, frame = records_of(
            gradient_descent(10), every=10, fit_parameters={"sample_weight": weight}
        )
        fitted = gradient_descent(10).fit(TOKENS[:6], Y[:6])
        svm = attention_svm(TOKENS[:6], fitted.selected_tokens(TOKENS[:6]))
        assert frame["alignment"].iloc[-1] == pytest.approx(
            alignment(fitted.attention_coef_, svm.coef), abs=1e-4
        )

    def test_early_stopping_records_the_weights_that_are_kept(self):
        fitted, frame = records_of(
            gradient_descent(
                40,
                parameterization="KQ",
                early_stopping=True,
                validation_fraction=0.25,
            ),
            every=7,
        )
        kept = int(np.argmax(fitted.validation_scores_)) + 1
        row = frame[frame["iteration"] == kept].iloc[-1]
        assert row["loss"] == fitted.loss_curve_[kept - 1]
        assert_describes(row, fitted, norm="nuc")


FORMS = {
    "array": lambda: (padded(list(X), before=1, between=1), {"query": QUERY}),
    "list": lambda: (list(X), {"query": QUERY}),
    "tokens": lambda: (TOKENS, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_sequences_gives_the_same_records(form):
    samples, parameters = FORMS[form]()
    _, frame = records_of(
        gradient_descent(10), samples, fit_parameters=parameters, every=5
    )
    _, expected = records_of(gradient_descent(10), every=5)
    columns = ["alignment", "norm", "top_weight", "loss"]
    assert_allclose(frame[columns], expected[columns], atol=1e-5)


def test_tables_are_measured_in_the_space_of_their_tokens():
    table = X[:, 0]
    estimator = gradient_descent(20, query="prompt")
    fitted, frame = records_of(estimator, table, every=10, C=1.0)
    assert fitted.input_kind_ == "table"
    selected = fitted.selected_tokens(table)
    svm = attention_svm(table, selected, C=1.0)
    assert svm.coef.shape == (2 * N_FEATURES,)
    assert frame["alignment"].iloc[-1] == pytest.approx(
        alignment(fitted.attention_coef_, svm.coef), abs=1e-3
    )


@pytest.mark.parametrize("query", ["prompt", "first", "mean", 1, "given"])
def test_a_hidden_layer_is_looked_through(query):
    estimator = gradient_descent(20, query=query, hidden_size=12)
    fitted, frame = records_of(estimator, every=10)
    module = fitted.to_module()
    import torch

    from skattn.attention import RaggedTokens

    with torch.no_grad():
        tokens = RaggedTokens.from_arrays(TOKENS.values, TOKENS.offsets)
        hidden = module.hidden(tokens).values.numpy().reshape(N_SAMPLES, N_TOKENS, 12)
    queries = {
        "prompt": None,
        "first": hidden[:, 0],
        "mean": hidden.mean(axis=1),
        1: hidden[:, 1],
        "given": QUERY,
    }[query]
    svm = attention_svm(hidden, fitted.selected_tokens(TOKENS), queries)
    assert frame["svm_status"].iloc[-1] == svm.status == "optimal"
    assert frame["alignment"].iloc[-1] == pytest.approx(
        alignment(fitted.attention_coef_, svm.coef), abs=1e-3
    )


class TestSolves:
    @pytest.fixture
    def solved(self, monkeypatch):
        """Count the calls of the solver, and remember what they start from."""
        starts = []

        def counted(problem, *, warm_start, **parameters):
            starts.append(warm_start)
            return solve(problem, warm_start=warm_start, **parameters)

        solve = skattn.theory._monitor.solve
        monkeypatch.setattr(skattn.theory._monitor, "solve", counted)
        return starts

    def test_only_when_the_choice_has_changed(self, solved):
        _, frame = records_of(gradient_descent(300), every=10)
        changed = frame["n_changed"].iloc[1:] > 0
        assert len(solved) == 1 + changed.sum()
        assert len(solved) < len(frame) / 2
        assert frame["alignment"].iloc[-1] != frame["alignment"].iloc[-2]

    def test_start_from_the_solution_before(self, solved):
        records_of(gradient_descent(30), every=10)
        assert solved[0] is None
        assert all(start.status == "optimal" for start in solved[1:])
        assert len(solved) > 1

    def test_behind_a_hidden_layer_every_time(self, solved):
        _, frame = records_of(
            gradient_descent(20, query="prompt", hidden_size=12), every=5
        )
        assert len(solved) == len(frame) == 5

    def test_the_solver_is_the_one_asked_for(self, monkeypatch):
        used = []

        def solve_here(*args, **kwargs):
            used.append(True)
            return solve(*args, **kwargs)

        solve = SOLVERS["dual_cd"]
        monkeypatch.setitem(SOLVERS, "dual_cd", solve_here)
        records_of(gradient_descent(10), every=10, solver="dual_cd")
        assert used


class TestTokenSVM:
    def test_each_round_is_recorded(self):
        fitted, frame = records_of(TokenSVM(C=0.01, max_iter=3, tol=1e-8), X=X)
        rounds = frame[frame["task_name"] == "round"]
        assert rounds["iteration"].tolist() == list(range(1, fitted.n_iter_ + 1))
        assert rounds["loss"].tolist() == fitted.loss_curve_

    def test_a_hard_margin_is_its_own_svm(self):
        estimator = TokenSVM(C=np.inf, query="given", max_iter=3)
        fitted, frame = records_of(estimator)
        assert_allclose(frame["alignment"], 1.0, atol=1e-6)
        assert_describes(frame.iloc[-1], fitted)

    @pytest.mark.parametrize("norm", ["nuc", 1.5])
    def test_its_norm_is_that_of_the_svm(self, norm):
        _, frame = records_of(TokenSVM(C=np.inf, query="given", norm=norm, max_iter=1))
        assert set(frame["svm_norm"]) == {norm}
        assert_allclose(frame["alignment"], 1.0, atol=1e-4)

    def test_a_kept_round_that_is_not_the_last_is_recorded_again(self):
        rng = np.random.default_rng(4)
        many, y = rng.normal(size=(20, 4, 3)), np.arange(20) % 2
        fitted, frame = records_of(TokenSVM(C=0.5, max_iter=4), many, y, C=1.0)
        losses = fitted.loss_curve_
        kept = int(np.argmin(losses)) + 1
        assert kept < len(losses), "the case has changed: take another seed"
        last = frame[frame["task_name"] == "fit"].iloc[0]
        assert last["iteration"] == kept
        assert last["loss"] == min(losses)
        same = frame[(frame["iteration"] == kept) & (frame["task_name"] == "round")]
        assert last["norm"] == same["norm"].iloc[0]

    def test_folds_are_recorded_without_an_iteration(self):
        estimator = TokenSVMCV(Cs=2, cv=2, query="given", max_iter=2)
        fitted, frame = records_of(estimator)
        assert frame["iteration"].isna().tolist() == [True, True, False]
        assert frame["norm"].iloc[-1] == np.linalg.norm(fitted.attention_coef_)


GRID = {"learning_rate_init": [0.05, 0.1]}


class TestMetaEstimators:
    @pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("is_inside", [True, False])
    def test_grid_search_records_every_fit(self, n_jobs, is_inside):
        monitor = ImplicitBiasMonitor(every=10)
        estimator = gradient_descent(20)
        if is_inside:
            estimator.set_callbacks(monitor)
        search = GridSearchCV(estimator, GRID, cv=2, n_jobs=n_jobs)
        if not is_inside:
            search.set_callbacks(monitor)
        search.fit(TOKENS, Y)

        frame = monitor.to_frame()
        by_fit = frame.groupby("fit", sort=False)
        assert by_fit.ngroups == 5
        assert all(rows["iteration"].tolist() == [1, 10, 20] for _, rows in by_fit)
        evaluations = frame[frame["fit"].str.startswith("0/0/")]
        _, refit = list(by_fit)[-1]
        assert refit["norm"].iloc[-1] == pytest.approx(
            np.linalg.norm(search.best_estimator_.attention_coef_)
        )
        if is_inside:
            assert frame[["candidate", "fold"]].isna().all(axis=None)
            return
        places = evaluations[["candidate", "fold"]].drop_duplicates().to_numpy()
        assert_array_equal(places, [[0, 0], [0, 1], [1, 0], [1, 1]])
        assert refit[["candidate", "fold"]].isna().all(axis=None)
        # Steps of fixed length: twice the step is about twice the weights.
        sizes = evaluations.groupby("candidate")["norm"].max()
        assert sizes[1] > 1.3 * sizes[0]

    @pytest.mark.filterwarnings("ignore:.*TokenScaler does not support callbacks")
    @pytest.mark.parametrize("is_inside", [True, False])
    def test_pipeline_in_a_grid_search(self, is_inside):
        monitor = ImplicitBiasMonitor(every=10)
        estimator = gradient_descent(10)
        if is_inside:
            estimator.set_callbacks(monitor)
        pipeline = make_pipeline(TokenScaler(), estimator)
        grid = {f"attentionclassifier__{name}": values for name, values in GRID.items()}
        search = GridSearchCV(pipeline, grid, cv=2)
        if not is_inside:
            search.set_callbacks(monitor)
        search.fit(TOKENS, Y)
        frame = monitor.to_frame()
        assert frame["fit"].nunique() == 5
        # The samples are those that the scaler makes.
        scaled = search.best_estimator_[0].transform(TOKENS)
        last = frame[frame["fit"] == "0/1/1"].iloc[-1]
        assert_describes(last, search.best_estimator_[-1], scaled)

    def test_selector_passes_it_on(self):
        selector = TokenSelector(gradient_descent(10), n_tokens=1)
        _, frame = records_of(selector, every=10)
        assert frame["iteration"].tolist() == [1, 10]

    def test_it_can_be_set_elsewhere_afterwards(self):
        monitor = ImplicitBiasMonitor(every=10)
        estimator = gradient_descent(10)
        GridSearchCV(estimator, GRID, cv=2).set_callbacks(monitor).fit(TOKENS, Y)
        inside = clone(estimator).set_callbacks(monitor)
        GridSearchCV(inside, GRID, cv=2).fit(TOKENS, Y)
        assert monitor.to_frame("all").groupby("run_id").size().tolist() == [10, 10]


class TestLogs:
    @pytest.fixture
    def monitor(self):
        monitor = ImplicitBiasMonitor(every=10)
        estimator = gradient_descent(10).set_callbacks(monitor)
        estimator.fit(TOKENS, Y).fit(TOKENS, Y)
        return monitor

    def test_runs(self, monitor):
        log = monitor.get_logs()
        logs = monitor.get_logs("all")
        assert len(logs) == 2
        assert logs[-1].run_id == log.run_id != logs[0].run_id
        assert log.estimator_name == "AttentionClassifier"
        assert len(monitor.to_frame()) == len(log.data) == 2
        assert len(monitor.to_frame("all")) == 4
        assert log.data_as_pandas["iteration"].tolist() == [1, 10]

    def test_lineage(self, monitor):
        rows = monitor.get_logs(include_lineage=True).data
        assert [row["task_name"] for row in rows] == ["fit", "epoch", "epoch"]
        assert "alignment" not in rows[0]

    def test_columns_begin_like_those_of_scikit_learn(self):
        scores, monitor = ScoringMonitor(scoring="accuracy"), ImplicitBiasMonitor()
        gradient_descent(5).set_callbacks(scores, monitor).fit(TOKENS, Y)
        expected = list(scores.get_logs().data_as_pandas.columns)
        expected.remove("accuracy")
        columns = list(monitor.to_frame().columns)
        assert columns[: len(expected) + 1] == ["run_id", *expected]

    def test_nothing_recorded(self):
        with pytest.raises(ValueError, match="No logs to retrieve"):
            ImplicitBiasMonitor().to_frame()

    def test_unknown_selection(self, monitor):
        with pytest.raises(ValueError, match="select"):
            monitor.to_frame("last")

    @pytest.mark.parametrize(
        "duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
    )
    def test_copies_keep_the_records_and_go_on_by_themselves(self, monitor, duplicate):
        other = duplicate(monitor)
        assert len(other.to_frame("all")) == 4
        gradient_descent(10).set_callbacks(other).fit(TOKENS, Y)
        assert len(other.to_frame("all")) == 6
        assert len(monitor.to_frame("all")) == 4


class TestCost:
    def test_changes_nothing(self):
        fitted, _ = records_of(gradient_descent(20), every=1)
        plain = gradient_descent(20).fit(TOKENS, Y)
        assert_array_equal(fitted.attention_coef_, plain.attention_coef_)
        assert fitted.loss_curve_ == plain.loss_curve_

    def test_between_records_no_weights_are_copied(self, monkeypatch):
        copies = []

        def counted(parameters):
            copies.append(parameters)
            return to_attributes(parameters)

        to_attributes = _training.to_attributes
        monkeypatch.setattr(_training, "to_attributes", counted)
        records_of(gradient_descent(40), every=20)
        # Three records on the way, and the end of the fit.
        assert len(copies) == 4

    def test_nothing_of_a_fit_is_kept(self):
        monitor = ImplicitBiasMonitor(every=10)
        gradient_descent(10).set_callbacks(monitor).fit(TOKENS, Y)
        assert len(monitor._fits) == 0
        GridSearchCV(gradient_descent(10), GRID, cv=2).set_callbacks(monitor).fit(
            TOKENS, Y
        )
        assert len(monitor._fits) == 0

    def test_a_failed_fit_leaves_the_monitor_fit_for_another(self):
        monitor = ImplicitBiasMonitor(every=1)
        huge = gradient_descent(20, solver="gd", learning_rate_init=1e300)
        with pytest.raises(ValueError, match="loss became"):
            huge.set_callbacks(monitor).fit(TOKENS, Y)
        assert len(monitor._fits) == 0
        gradient_descent(5).set_callbacks(monitor).fit(TOKENS, Y)
        assert len(monitor.to_frame()) == 5

    @pytest.mark.slow
    def test_time_when_not_due(self):
        def seconds(callbacks):
            best = np.inf
            for _ in range(3):
                estimator = gradient_descent(1000).set_callbacks(*callbacks)
                start = time.process_time()
                estimator.fit(TOKENS, Y)
                best = min(best, time.process_time() - start)
            return best

        assert seconds([ImplicitBiasMonitor(every=1000)]) < 1.3 * seconds([])


def test_partial_fit_is_recorded_call_by_call():
    monitor = ImplicitBiasMonitor(every=10)
    model = gradient_descent(10).set_callbacks(monitor)
    for _ in range(3):
        model.partial_fit(TOKENS, Y, classes=[0, 1])
    frame = monitor.to_frame("all")
    assert frame["iteration"].tolist() == [1, 2, 3]
    assert frame["loss"].tolist() == model.loss_curve_


def test_samples_of_one_token_have_nothing_to_separate():
    _, frame = records_of(gradient_descent(5, query="prompt"), X[:, :1], every=5)
    assert frame["alignment"].isna().all()
    assert (frame["top_weight"] == 1).all()


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_mapping(mapping):
    fitted, frame = records_of(gradient_descent(10, mapping=mapping), every=10)
    assert_describes(frame.iloc[-1], fitted)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"every": 0}, ValueError, "every == 0, must be >= 1"),
        ({"every": 2.5}, TypeError, "every must be an instance of"),
        ({"norm": "l2"}, ValueError, "norm must be 'fro', 'nuc' or a number above 1"),
        ({"norm": None}, ValueError, "norm must be 'fro', 'nuc' or a number above 1"),
        ({"norm": 1}, ValueError, "norm must be above 1"),
        ({"C": 0}, ValueError, "C == 0, must be > 0"),
        ({"solver": "newton"}, ValueError, "solver must be 'auto' or one of"),
        ({"tol": 0}, ValueError, "tol == 0, must be > 0"),
        ({"tol": np.nan}, ValueError, "tol must be above 0"),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        ImplicitBiasMonitor(**parameters)
