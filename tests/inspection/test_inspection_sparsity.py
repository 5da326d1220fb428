"""The display of the weight left out, against its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skattn import AttentionClassifier, TokenSVM
from skattn.datasets import make_token_selection
from skattn.inspection import SparsityDisplay
from skattn.theory import attention_sparsity

pytestmark = pytest.mark.usefixtures("pyplot")

WEIGHTS = np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=(9, 2))


def left_out(weights, k):
    """Weight outside of the k largest, by taking these away one by one."""
    rest = sorted(weights)
    return sum(rest[: len(rest) - k])


def test_curves_are_the_weight_left_out():
    display = SparsityDisplay.from_weights(WEIGHTS[:, 0])
    (curves,) = display.tail_mass.values()
    for weights, curve in zip(WEIGHTS[:, 0], curves, strict=True):
        assert_allclose(curve, [left_out(weights, k) for k in range(13)], atol=1e-15)
    assert_array_equal(display.line_.get_xdata(), np.arange(13))
    assert_allclose(display.line_.get_ydata(), np.median(curves, axis=0))
    faint = [line for line in display.ax_.lines if line.get_alpha() is not None]
    assert len(faint) == 9


@pytest.mark.parametrize("eps", [0.01, 0.05, 0.3])
def test_the_legend_says_what_the_median_sample_needs(eps):
    display = SparsityDisplay.from_weights(WEIGHTS[:, 0], eps=eps)
    needed = attention_sparsity(WEIGHTS[:, 0], eps=eps).n_needed
    tokens = "token" if np.median(needed) == 1 else "tokens"
    assert display.line_.get_label() == (
        f"all samples: the median needs {np.median(needed):g} {tokens}"
    )
    assert_allclose(display.level_.get_ydata(), eps)


def test_heads_have_curves_of_their_own():
    display = SparsityDisplay.from_weights(WEIGHTS)
    assert list(display.tail_mass) == ["head 0", "head 1"]
    alone = SparsityDisplay.from_weights(WEIGHTS[:, 1])
    assert_array_equal(display.line_[1].get_ydata(), alone.line_.get_ydata())
    assert display.line_[0].get_color() != display.line_[1].get_color()


def test_samples_of_different_lengths():
    weights = [np.full(n, 1 / n) for n in (2, 4, 10)]
    counted = SparsityDisplay.from_weights(weights).line_
    assert_allclose(
        counted.get_ydata()[:5],
        [np.median([max(1 - k / n, 0) for n in (2, 4, 10)]) for k in range(5)],
    )
    shared = SparsityDisplay.from_weights(weights, x="share").line_
    assert_allclose(shared.get_ydata(), 1 - shared.get_xdata(), atol=1e-12)


def test_a_logarithmic_scale_ends_where_nothing_is_left_out():
    display = SparsityDisplay.from_weights([[0.5, 0.5, 0.0]], yscale="log")
    assert display.ax_.get_yscale() == "log"
    assert_allclose(display.line_.get_ydata(), [1, 0.5, np.nan, np.nan])


@pytest.mark.parametrize("eps", [0, 0.05])
def test_one_sample_of_one_token(eps):
    for yscale in ("linear", "log"):
        display = SparsityDisplay.from_weights([[1.0]], eps=eps, yscale=yscale)
        assert "needs 1 token" in display.line_.get_label()
        display.figure_.canvas.draw()


def test_a_dataframe_is_an_array():
    pandas = pytest.importorskip("pandas")
    display = SparsityDisplay.from_weights(pandas.DataFrame(WEIGHTS[:, 0]))
    expected = SparsityDisplay.from_weights(WEIGHTS[:, 0])
    assert_array_equal(display.line_.get_ydata(), expected.line_.get_ydata())


class TestFromEstimator:
    @pytest.mark.parametrize("n_heads", [1, 2])
    def test_is_the_attention_of_the_estimator(self, n_heads):
        X, y, _ = make_token_selection(20, (3, 6), 4, random_state=0)
        model = AttentionClassifier(n_heads=n_heads, max_iter=20, tol=0, random_state=0)
        model.fit(X, y)
        display = SparsityDisplay.from_estimator(model, X)
        expected = SparsityDisplay.from_weights(model.attention_weights(X))
        for name, curves in expected.tail_mass.items():
            for curve, other in zip(curves, display.tail_mass[name], strict=True):
                assert_allclose(curve, other)

    def test_absent_tokens_do_not_count(self):
        X, y, _ = make_token_selection(20, 4, 3, random_state=0)
        padded = np.concatenate([X, np.full((20, 3, 3), np.nan)], axis=1)
        model = TokenSVM(mapping="softmax").fit(X, y)
        display = SparsityDisplay.from_estimator(model, padded, x="share")
        plain = SparsityDisplay.from_estimator(model, X, x="share")
        assert len(display.tail_mass["all samples"][0]) == 5
        assert_allclose(display.line_.get_ydata(), plain.line_.get_ydata())

    def test_given_queries(self):
        X, y, _ = make_token_selection(20, 4, 3, random_state=0)
        query = np.random.default_rng(0).normal(size=(20, 2))
        model = TokenSVM(query="given").fit(X, y, query=query)
        display = SparsityDisplay.from_estimator(model, X, query=query)
        assert len(display.tail_mass["all samples"]) == 20


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ([[0.5, 0.6]], {}, "must sum to 1"),
        ([[1.5, -0.5]], {}, "not negative"),
        ([], {}, "at least one"),
        ([[0.5, 0.5]], {"eps": 1.5}, "eps must be a number"),
        ([[0.5, 0.5]], {"x": "rank"}, "x must be one of .*'rank'"),
        ([[0.5, 0.5]], {"yscale": "cubic"}, "yscale must be one of .*'cubic'"),
    ],
)
def test_bad_input_is_named(weights, options, message):
    with pytest.raises(ValueError, match=message):
        SparsityDisplay.from_weights(weights, **options)
