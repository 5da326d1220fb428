"""The display of tokens in the plane, against the geometry it shows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skattn import AttentionClassifier, Tokens, TokenSVM
from skattn.datasets import make_token_selection
from skattn.inspection import TokenMarginDisplay
from skattn.theory import alignment, attention_svm

pytestmark = pytest.mark.usefixtures("pyplot")

RNG = np.random.default_rng(0)
SAMPLES = [RNG.normal(size=(n, 2)) for n in (3, 4, 5)]
SELECTED = [int(np.argmax(sample @ [1.0, 0.6])) for sample in SAMPLES]


def distances(line, points):
    """Signed distance of points from a drawn line, in the direction of its normal."""
    start, end = (np.array(point) for point in (line.get_xy1(), line.get_xy2()))
    along = (end - start) / np.linalg.norm(end - start)
    return (points - start) @ np.array([along[1], -along[0]])


class TestFromTokens:
    def test_the_direction_is_that_of_the_svm(self):
        display = TokenMarginDisplay.from_tokens(SAMPLES, SELECTED)
        assert_allclose(display.coef, attention_svm(SAMPLES, SELECTED).coef)
        (start, end) = display.line_.get_xydata()
        assert_array_equal(start, 0)
        assert alignment(end, display.coef) == pytest.approx(1)

    def test_no_token_lies_between_the_selected_one_and_its_margin(self):
        display = TokenMarginDisplay.from_tokens(SAMPLES, SELECTED)
        width = 1 / np.linalg.norm(display.coef)
        closest = []
        for line, sample, chosen in zip(
            display.margin_lines_, SAMPLES, SELECTED, strict=True
        ):
            beyond = distances(line, sample)
            assert beyond[chosen] == pytest.approx(width)
            others = np.delete(beyond, chosen)
            assert (others <= 1e-5).all()
            closest.append(others.max())
        # Some token lies on its line: that is what makes the margin as wide as it is.
        assert max(closest) == pytest.approx(0, abs=1e-5)

    def test_all_tokens_are_in_the_picture(self):
        display = TokenMarginDisplay.from_tokens(SAMPLES, SELECTED)
        shown = np.vstack([c.get_offsets() for c in display.ax_.collections])
        assert_array_equal(np.sort(shown, axis=0), np.sort(np.vstack(SAMPLES), axis=0))
        for values, limits in zip(
            shown.T, (display.ax_.get_xlim(), display.ax_.get_ylim()), strict=True
        ):
            assert limits[0] < values.min() < values.max() < limits[1]
        assert display.ax_.get_aspect() == 1

    def test_a_prompt_of_ones_own(self):
        display = TokenMarginDisplay.from_tokens(SAMPLES, SELECTED, coef=[0.0, 2.0])
        assert_array_equal(display.coef, [0, 2])
        beyond = distances(display.margin_lines_[0], SAMPLES[0])
        assert beyond[SELECTED[0]] == pytest.approx(0.5)

    def test_positions_count_absent_tokens(self):
        padded = np.full((1, 4, 2), np.nan)
        padded[0, 1:3] = [[1.0, 0.0], [0.0, 0.0]]
        display = TokenMarginDisplay.from_tokens(padded, [1])
        assert display.selected.tolist() == [0]
        assert_allclose(display.coef, [1, 0], atol=1e-6)

    def test_queries_are_no_matter(self):
        tokens = Tokens.from_padded(np.eye(2)[None], query=[[1.0]])
        assert TokenMarginDisplay.from_tokens(tokens, [0]).coef.shape == (2,)

    @pytest.mark.parametrize("form", ["array", "one", "list"])
    def test_paths_keep_their_directions(self, form):
        paths = np.array([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [-300.0, 400.0]]])
        given = {"array": paths, "one": paths[1], "list": list(paths)}[form]
        display = TokenMarginDisplay.from_tokens(SAMPLES, SELECTED, paths=given)
        assert len(display.path_lines_) == (1 if form == "one" else 2)
        last = display.path_lines_[-1].get_xydata()
        assert alignment(last[1], paths[1, 1]) == pytest.approx(1)
        low, high = display.ax_.get_xlim()
        assert low < last[:, 0].min() <= last[:, 0].max() < high
        if form != "one":
            ratio = np.linalg.norm(display.path_lines_[0].get_xydata()[1])
            ratio /= np.linalg.norm(last[1])
            assert ratio == pytest.approx(np.sqrt(2) / 500)

    def test_many_samples_share_an_entry_of_the_legend(self):
        samples = RNG.normal(size=(9, 3, 2))
        chosen = (samples @ [1.0, 0.0]).argmax(axis=1)
        display = TokenMarginDisplay.from_tokens(samples, chosen, coef=[1.0, 0.0])
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert texts == ["direction p", "a sample each", "margin"]

    @pytest.mark.parametrize(
        ("samples", "parameters", "message"),
        [
            (np.ones((1, 2, 3)), {"selected": [0]}, "2 features.* have 3.*PCA"),
            (np.ones((1, 2, 1)), {"selected": [0]}, "2 features.* have 1"),
            (SAMPLES, {"selected": [0, 0, 9]}, r"selected\[2\] is 9"),
            (SAMPLES, {"selected": [0]}, "selected must be an array of 3"),
            (
                [[[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]],
                {"selected": [1]},
                "No prompt separates",
            ),
            ([np.ones((1, 2))], {"selected": [0]}, "nothing to separate"),
            (SAMPLES, {"selected": SELECTED, "coef": [1.0]}, "coef must be"),
            (SAMPLES, {"selected": SELECTED, "coef": [0.0, 0.0]}, "coef must be"),
            (SAMPLES, {"selected": SELECTED, "coef": [np.nan, 0.0]}, "coef contains"),
            (SAMPLES, {"selected": SELECTED, "paths": [[1.0, 2.0, 3.0]]}, "paths"),
        ],
    )
    def test_bad_input_is_named(self, samples, parameters, message):
        with pytest.raises(ValueError, match=message):
            TokenMarginDisplay.from_tokens(samples, **parameters)


class TestFromEstimator:
    X, y, _ = make_token_selection(40, 6, 2, random_state=0)

    def test_shows_the_choice_and_the_prompt(self):
        model = AttentionClassifier(random_state=0).fit(self.X, self.y)
        display = TokenMarginDisplay.from_estimator(model, self.X[:4])
        assert_array_equal(display.selected, model.selected_tokens(self.X[:4]))
        assert alignment(display.coef, model.attention_coef_) == pytest.approx(1)
        margins = [
            np.delete((sample[chosen] - sample) @ display.coef, chosen).min()
            for sample, chosen in zip(self.X[:4], display.selected, strict=True)
        ]
        assert min(margins) == pytest.approx(1)

    def test_heads(self):
        model = AttentionClassifier(n_heads=2, max_iter=20, tol=0, random_state=0)
        model.fit(self.X, self.y)
        display = TokenMarginDisplay.from_estimator(model, self.X[:4], head=1)
        assert alignment(display.coef, model.attention_coef_[1]) == pytest.approx(1)
        with pytest.raises(ValueError, match="head must be at least 0 and below"):
            TokenMarginDisplay.from_estimator(model, self.X[:4], head=2)

    def test_behind_a_hidden_layer(self):
        X, y, _ = make_token_selection(40, 6, 5, random_state=0)
        model = AttentionClassifier(hidden_size=2, max_iter=20, tol=0, random_state=0)
        model.fit(X, y)
        display = TokenMarginDisplay.from_estimator(model, X[:4])
        hidden = X[0] @ model.hidden_coef_ + model.hidden_intercept_
        order = np.argsort(hidden[:, 0])
        # GELU is increasing where it is positive, and small where it is not.
        assert display.tokens[0].shape == (6, 2)
        assert np.argmax(display.tokens[0][:, 0]) == order[-1]

    def test_token_svm(self):
        model = TokenSVM().fit(self.X, self.y)
        display = TokenMarginDisplay.from_estimator(
            model, self.X[:3], paths=[[0.0, 0.0], [1.0, 0.0]]
        )
        assert alignment(display.coef, model.attention_coef_) == pytest.approx(1)
        assert len(display.path_lines_) == 1

    def test_a_table_of_one_column(self):
        table = self.X[:, 0, :1]
        model = TokenSVM().fit(table, self.y)
        model.attention_coef_ = np.array([1.0, 1.0])
        display = TokenMarginDisplay.from_estimator(model, table[:3])
        assert_array_equal(display.tokens[0], [[1.0, table[0, 0]]])

    def test_refusals(self):
        wide, y, _ = make_token_selection(20, 4, 3, random_state=0)
        model = TokenSVM().fit(wide, y)
        with pytest.raises(ValueError, match=r"have 3.*PCA"):
            TokenMarginDisplay.from_estimator(model, wide)
        model = TokenSVM(query="mean").fit(self.X, self.y)
        with pytest.raises(ValueError, match=r"shows a prompt.*query='mean'"):
            TokenMarginDisplay.from_estimator(model, self.X)
        with pytest.raises(ValueError, match="not fitted"):
            TokenMarginDisplay.from_estimator(TokenSVM(), self.X)
