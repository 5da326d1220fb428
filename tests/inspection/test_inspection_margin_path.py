"""The display of alignment over iterations, against the records it is made from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

from skattn import AttentionClassifier, Tokens, TokenSVMCV
from skattn.inspection import MarginPathDisplay
from skattn.theory import ImplicitBiasMonitor, attention_svm, train_attention

pytestmark = [
    pytest.mark.usefixtures("pyplot"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(0)
Y = np.arange(8) % 2
TOKENS = Tokens.from_padded(RNG.normal(size=(8, 4, 9)), query=RNG.normal(size=(8, 9)))


def gradient_descent(max_iter=20, **parameters):
    return AttentionClassifier(
        query="given",
        solver="ngd",
        learning_rate_init=0.1,
        alpha=0,
        tol=0,
        random_state=0,
        max_iter=max_iter,
        **parameters,
    )


def labels(lines):
    return [line.get_label() for line in lines]


class TestFromMonitor:
    def monitor(self, estimator, every=5):
        monitor = ImplicitBiasMonitor(every=every)
        estimator.set_callbacks(monitor).fit(TOKENS, Y)
        return monitor

    def test_one_fit(self):
        monitor = self.monitor(gradient_descent())
        frame = monitor.to_frame()
        display = MarginPathDisplay.from_monitor(monitor)
        assert_array_equal(display.line_.get_xdata(), frame["iteration"])
        assert_array_equal(display.line_.get_ydata(), frame["alignment"])
        top = display.top_weight_line_
        assert_array_equal(top.get_ydata(), frame["top_weight"])
        assert labels([display.line_, top]) == ["alignment", "largest weight"]
        assert display.line_.get_color() == top.get_color()
        assert display.line_.get_linestyle() != top.get_linestyle()

    def test_heads(self):
        display = MarginPathDisplay.from_monitor(
            self.monitor(gradient_descent(n_heads=2))
        )
        assert labels(display.line_) == ["alignment, head 0", "alignment, head 1"]
        colors = {line.get_color() for line in display.line_}
        assert len(colors) == 2

    def test_grid_search_shows_a_median_for_each_candidate(self):
        grid = {"learning_rate_init": [0.05, 0.1]}
        search = GridSearchCV(gradient_descent(), grid, cv=2)
        monitor = self.monitor(search)
        display = MarginPathDisplay.from_monitor(monitor)
        assert labels(display.line_) == [
            "alignment, candidate 0 (median of 2)",
            "alignment, candidate 1 (median of 2)",
            "alignment, refit",
        ]
        frame = monitor.to_frame()
        of_first = frame[frame["candidate"] == 0]
        assert_allclose(
            display.line_[0].get_ydata(),
            of_first.groupby("iteration")["alignment"].median(),
        )
        faint = [line for line in display.ax_.lines if line.get_alpha() is not None]
        assert len(faint) == 2 * 2 * 2
        assert all(line.get_alpha() < 0.5 for line in faint)

    def test_runs(self):
        monitor = ImplicitBiasMonitor(every=5)
        model = gradient_descent().set_callbacks(monitor)
        model.fit(TOKENS, Y).fit(TOKENS[:6], Y[:6])
        display = MarginPathDisplay.from_monitor(monitor, select="all")
        assert labels(display.line_) == ["alignment, run 0", "alignment, run 1"]
        latest = MarginPathDisplay.from_monitor(monitor).line_
        assert_array_equal(latest.get_ydata(), display.line_[1].get_ydata())

    def test_calls_of_partial_fit_are_one_curve(self):
        monitor = ImplicitBiasMonitor(every=5)
        model = gradient_descent().set_callbacks(monitor)
        for _ in range(4):
            model.partial_fit(TOKENS, Y, classes=[0, 1])
        display = MarginPathDisplay.from_monitor(monitor, select="all")
        assert display.line_.get_label() == "alignment"
        assert_array_equal(display.line_.get_xdata(), [1, 2, 3, 4])

    def test_without_iterations(self):
        model = TokenSVMCV(Cs=2, cv=2, query="given", refit=False)
        with pytest.raises(ValueError, match="recorded no iterations"):
            MarginPathDisplay.from_monitor(self.monitor(model))

    def test_without_records(self):
        with pytest.raises(ValueError, match="No logs to retrieve"):
            MarginPathDisplay.from_monitor(ImplicitBiasMonitor())


@pytest.fixture(scope="module")
def instances():
    X, query = RNG.normal(size=(5, 4, 3, 6)), RNG.normal(size=(5, 4, 6))
    y, head = np.tile([0, 1, 0, 1], (5, 1)), RNG.normal(size=(5, 6))
    selected = np.where(y, 1, -1)[..., None] * (X @ head[:, None, :, None])[..., 0]
    solutions = {
        norm: np.stack(
            [
                solution.coef
                for solution in attention_svm(
                    X, selected.argmax(axis=2), query, norm=norm
                )
            ]
        )
        for norm in ("fro", "nuc")
    }
    return X, y, head, query, solutions


class TestFromTrajectory:
    def test_instances_are_faint_and_their_median_strong(self, instances):
        X, y, head, query, solutions = instances
        trajectory = train_attention(
            X, y, head, query, solver="ngd", max_iter=50, directions=solutions
        )
        display = MarginPathDisplay.from_trajectory(trajectory)
        assert labels(display.line_) == [
            "alignment, fro (median of 5)",
            "alignment, nuc (median of 5)",
        ]
        for line, name in zip(display.line_, ("fro", "nuc"), strict=True):
            assert_array_equal(line.get_xdata(), trajectory.iterations)
            assert_allclose(
                line.get_ydata(), np.median(trajectory.alignment[name], axis=1)
            )
        top = display.top_weight_line_
        assert_allclose(top.get_ydata(), np.median(trajectory.top_weight, axis=1))
        assert top.get_color() not in {line.get_color() for line in display.line_}

    def test_one_instance(self, instances):
        X, y, head, query, solutions = instances
        trajectory = train_attention(
            X[0],
            y[0],
            head[0],
            query[0],
            max_iter=20,
            directions={"fro": solutions["fro"][0]},
        )
        display = MarginPathDisplay.from_trajectory(trajectory)
        assert display.line_.get_label() == "alignment, fro"
        assert_array_equal(display.line_.get_ydata(), trajectory.alignment["fro"])

    def test_without_directions(self, instances):
        X, y, head, query, _ = instances
        trajectory = train_attention(X, y, head, query, max_iter=2)
        with pytest.raises(ValueError, match="Train with directions="):
            MarginPathDisplay.from_trajectory(trajectory)


class TestScales:
    def test_log_shows_what_is_missing_to_one(self):
        display = MarginPathDisplay.from_arrays(
            [1, 2, 3], [0.9, 0.99, 1.0], top_weight=[0.5, 0.9, 0.99], yscale="log"
        )
        assert display.ax_.get_yscale() == "log"
        assert display.ax_.get_ylabel() == "1 - alignment, 1 - largest weight"
        assert_allclose(display.line_.get_ydata(), [0.1, 0.01, np.nan])

    @pytest.mark.parametrize(
        ("iterations", "scale"),
        [
            ([10, 20, 30], "linear"),
            ([1, 10, 100], "log"),
            ([0, 10, 20], "linear"),
            ([0, 1, 100], "symlog"),
            ([0], "linear"),
        ],
    )
    def test_iterations(self, iterations, scale):
        display = MarginPathDisplay.from_arrays(iterations, [0.5] * len(iterations))
        assert display.ax_.get_xscale() == scale

    def test_unknown(self):
        with pytest.raises(ValueError, match="yscale must be 'linear' or 'log'"):
            MarginPathDisplay.from_arrays([1], [1.0], yscale="symlog")


def test_gaps_stay_gaps():
    display = MarginPathDisplay.from_arrays([1, 2, 3], [0.5, np.nan, 0.7])
    assert np.isnan(display.line_.get_ydata()[1])
    assert display.top_weight_line_ is None
    assert display.ax_.get_ylabel() == "alignment"


def test_the_median_is_over_the_iterations_that_all_have():
    curves = [np.array([[1, 2, 4], [0.1, 0.2, 0.4]]), np.array([[1, 4], [0.3, 0.6]])]
    display = MarginPathDisplay(alignment={"": curves}).plot()
    assert_array_equal(display.line_.get_xdata(), [1, 4])
    assert_allclose(display.line_.get_ydata(), [0.2, 0.5])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alignment": [0.1, 0.2, 0.3]}, r"alignment must have shape \(2,\)"),
        ({"alignment": [[[0.1]], [[0.2]]]}, r"alignment must have shape \(2,\)"),
        ({"top_weight": [0.1]}, r"top_weight must have shape \(2,\)"),
        ({"iterations": [1, np.nan]}, "Input iterations contains NaN"),
        ({"iterations": []}, "minimum of 1 is required"),
        ({"alignment": ["high", "low"]}, "could not convert string"),
    ],
)
def test_bad_arrays_are_named(parameters, message):
    arrays = {"iterations": [1, 2], "alignment": [0.1, 0.2]} | parameters
    with pytest.raises(ValueError, match=message):
        MarginPathDisplay.from_arrays(**arrays)
