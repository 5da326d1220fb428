"""The display of attention as a map, coloured words and shaded series."""

import subprocess
import sys
from html.parser import HTMLParser
from itertools import chain, pairwise
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skattn import AttentionClassifier, TokenScaler, TokenSVM, WindowTokenizer
from skattn.datasets import make_token_selection
from skattn.inspection import AttentionMapDisplay

pytestmark = pytest.mark.usefixtures("pyplot")

QUICK = {"max_iter": 20, "tol": 0, "learning_rate_init": 0.1, "random_state": 0}
X, Y, _ = make_token_selection(n_samples=24, n_tokens=(2, 6), random_state=0)
WORDS = [[f"w{i}.{t}" for t in range(len(x))] for i, x in enumerate(X)]


@pytest.fixture(scope="module")
def model():
    return AttentionClassifier(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def three_classes():
    y = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    return AttentionClassifier(n_heads=2, **QUICK).fit(X, y)


def assert_rows_equal(got, expected):
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one, other)


class TestValues:
    def test_weights(self, model):
        display = AttentionMapDisplay.from_estimator(model, X)
        assert_rows_equal(display.values, model.attention_weights(X))
        assert (display.label, display.signed) == ("attention weight", False)

    def test_heads(self, three_classes):
        weights = three_classes.attention_weights(X)
        mean = AttentionMapDisplay.from_estimator(three_classes, X)
        assert_rows_equal(mean.values, [row.mean(axis=0) for row in weights])
        second = AttentionMapDisplay.from_estimator(three_classes, X, head=1)
        assert_rows_equal(second.values, [row[1] for row in weights])
        assert second.label == "attention weight of head 1"
        given = AttentionMapDisplay.from_weights(weights, head=1)
        assert_rows_equal(given.values, second.values)

    @pytest.mark.parametrize("target", ["a", "b", "c"])
    def test_contributions_to_a_class(self, three_classes, target):
        display = AttentionMapDisplay.from_estimator(
            three_classes, X, values="contributions", target=target
        )
        column = "abc".index(target)
        sums = np.array([row.sum() for row in display.values])
        assert_allclose(
            sums + three_classes.intercept_[column],
            three_classes.decision_function(X)[:, column],
        )
        assert display.signed
        assert display.label == f"contribution to class {target}"

    def test_contributions_to_the_class_predicted(self, three_classes, model):
        of_three = AttentionMapDisplay.from_estimator(
            three_classes, X, values="contributions"
        )
        sums = np.array([row.sum() for row in of_three.values])
        decisions = three_classes.decision_function(X)
        best = decisions.argmax(axis=1)
        assert_allclose(sums + three_classes.intercept_[best], decisions.max(axis=1))

        of_two = AttentionMapDisplay.from_estimator(model, X, values="contributions")
        sums = np.array([row.sum() for row in of_two.values])
        sign = 2 * model.predict(X) - 1
        assert_allclose(
            sums + sign * model.intercept_, np.abs(model.decision_function(X))
        )

    def test_absent_tokens_are_blank(self, model):
        padded = np.full((2, 7, 10), np.nan)
        for row, sample in zip(padded, X, strict=False):
            row[1 : len(sample) + 1] = sample
        for values in ("weights", "contributions"):
            display = AttentionMapDisplay.from_estimator(model, padded, values=values)
            given = AttentionMapDisplay.from_estimator(model, X[:2], values=values)
            for row, sample, expected in zip(
                display.values, X, given.values, strict=False
            ):
                absent = np.ones(7, dtype=bool)
                absent[1 : len(sample) + 1] = False
                assert_array_equal(np.isnan(row), absent)
                assert_allclose(row[~absent], expected)

    def test_pipelines_and_searches(self):
        pipeline = make_pipeline(TokenScaler(), TokenSVM())
        search = GridSearchCV(pipeline, {"tokensvm__C": [1.0]}, cv=2).fit(X, Y)
        display = AttentionMapDisplay.from_estimator(search, X)
        best = search.best_estimator_
        expected = best[-1].attention_weights(best[0].transform(X))
        assert_rows_equal(display.values, expected)
        alone = make_pipeline(TokenSVM()).fit(X, Y)
        AttentionMapDisplay.from_estimator(alone, X)

    def test_what_is_no_token_yet(self):
        """The first step reads sentences, which nothing else can."""
        sentences = ["good good film", "bad film"] * 6
        vectors = {"good": [1.0, 0.0], "bad": [-1.0, 0.0], "film": [0.0, 1.0]}

        def embed(texts):
            return [np.array([vectors[w] for w in text.split()]) for text in texts]

        pipeline = make_pipeline(
            FunctionTransformer(embed), AttentionClassifier(**QUICK)
        ).fit(sentences, [1, 0] * 6)
        display = AttentionMapDisplay.from_estimator(
            pipeline,
            sentences[:2],
            values="contributions",
            kind="text",
            words=[text.split() for text in sentences[:2]],
        )
        assert [len(row) for row in display.texts_] == [3, 2]
        assert min(row[0] for row in display.values) > 0

    def test_given_queries(self):
        query = np.random.default_rng(0).normal(size=(len(X), 2))
        model = AttentionClassifier(query="given", **QUICK).fit(X, Y, query=query)
        display = AttentionMapDisplay.from_estimator(model, X, query=query)
        assert_rows_equal(display.values, model.attention_weights(X, query=query))


class TestMap:
    def test_tokens_by_samples(self, model):
        display = AttentionMapDisplay.from_estimator(model, X, sample_labels=Y)
        image = display.image_.get_array()
        assert image.shape == (len(X), max(map(len, X)))
        for row, weights in zip(image, display.values, strict=True):
            assert_allclose(row[: len(weights)], weights)
            assert row.mask[len(weights) :].all()
        ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
        assert ticks == [str(label) for label in Y]
        assert display.ax_.get_xlabel() == "position of the token (grey: no token)"
        assert display.ax_.get_ylabel() == "sample"
        assert display.colorbar_.ax.get_ylabel() == "attention weight"
        assert display.image_.get_clim() == (0, max(row.max() for row in image))

    def test_contributions_are_centred(self, model):
        display = AttentionMapDisplay.from_estimator(model, X, values="contributions")
        low, high = display.image_.get_clim()
        assert low == -high
        red, _, blue, _ = display.image_.to_rgba(np.array([high, low])).T
        assert red[0] > blue[0]
        assert red[1] < blue[1]

    def test_scale_of_each_sample(self, model):
        display = AttentionMapDisplay.from_estimator(
            model, X, values="contributions", scale="sample"
        )
        assert_allclose(np.abs(display.image_.get_array()).max(axis=1), 1)

    def test_nothing_but_zeros(self):
        display = AttentionMapDisplay.from_weights(np.zeros((2, 3)))
        assert display.image_.get_clim() == (0, 1)

    def test_many_samples_have_fewer_labels(self):
        display = AttentionMapDisplay.from_weights(np.full((200, 2), 0.5))
        ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
        assert ticks == [str(sample) for sample in range(0, 200, 5)]

    def test_columns_of_a_dataframe_have_their_names(self):
        table = pd.DataFrame(np.eye(6), columns=list("uvwxyz"))
        svm = TokenSVM().fit(table, [0, 1] * 3)
        display = AttentionMapDisplay.from_estimator(svm, table)
        ticks = [tick.get_text() for tick in display.ax_.get_xticklabels()]
        assert ticks == list("uvwxyz")

    def test_without_colorbar(self, model):
        display = AttentionMapDisplay.from_estimator(model, X)
        display.plot(colorbar=False, image_kw={"cmap": "gray"})
        assert display.colorbar_ is None
        assert display.image_.get_cmap().name == "gray"
        assert display.figure_.axes == [display.ax_]


def boxes(display):
    """Where each word is, in pixels, sample by sample."""
    display.figure_.draw_without_rendering()
    return [[text.get_window_extent() for text in row] for row in display.texts_]


class TestText:
    LONG = (
        "a very long sentence which goes on for more than the width of any page and "
        "costs $ 5 or $ 6"
    )
    SENTENCES = (LONG.split(), ("short", "one"))

    @pytest.fixture
    def weights(self):
        rng = np.random.default_rng(0)
        return [rng.uniform(0.1, 1, size=len(words)) for words in self.SENTENCES]

    def display(self, weights, **options):
        return AttentionMapDisplay.from_weights(
            weights, words=self.SENTENCES, kind="text", **options
        )

    def test_words_follow_each_other(self, weights):
        display = self.display(weights)
        texts = [[text.get_text() for text in row] for row in display.texts_]
        assert texts == list(map(list, self.SENTENCES))
        ax, of_all = display.ax_.bbox, []
        for row in boxes(display):
            for before, after in pairwise(row):
                beside = after.x0 > before.x1 and after.y1 == before.y1
                below = after.x0 == row[0].x0 and after.y1 < before.y0
                assert beside or below
            of_all += row
        assert len({box.y1 for box in of_all}) >= 3
        assert max(box.x1 for box in of_all) <= ax.x1
        assert min(box.x0 for box in of_all) >= ax.x0
        assert min(box.y0 for box in of_all) >= ax.y0 - 1
        assert max(box.y1 for box in of_all) <= ax.y1

    def test_ground_is_darker_for_more_weight(self, weights):
        row = self.display(weights).texts_[0]
        brightness = [sum(text.get_bbox_patch().get_facecolor()[:3]) for text in row]
        assert_array_equal(np.argsort(brightness), np.argsort(-weights[0]))
        # All can be read.
        dark = np.array(brightness) < 1.5
        assert [text.get_color() == "white" for text in row] == dark.tolist()

    def test_signs_have_their_colours(self):
        display = AttentionMapDisplay.from_weights(
            [[1.0, -1.0, 0.0]],
            values="contributions",
            words=[["for", "against", "neither"]],
            kind="text",
        )
        red, _, blue = np.transpose(
            [text.get_bbox_patch().get_facecolor()[:3] for text in display.texts_[0]]
        )
        assert_array_equal(np.sign(red - blue), [1, -1, 0])

    def test_a_word_that_is_no_token_has_no_ground(self, weights):
        weights[1][0] = np.nan
        first, second = self.display(weights).texts_[1]
        assert first.get_bbox_patch() is None
        assert second.get_bbox_patch() is not None

    def test_words_shrink_in_given_axes(self, pyplot, weights):
        _, (left, right) = pyplot.subplots(1, 2, figsize=(6, 2.2), layout="constrained")
        display = self.display(weights, ax=left)
        assert display.ax_ is left
        sizes = {text.get_fontsize() for row in display.texts_ for text in row}
        (size,) = sizes
        assert 5 <= size < 10
        of_all = list(chain(*boxes(display)))
        assert max(box.x1 for box in of_all) <= left.bbox.x1 + 2
        assert min(box.y0 for box in of_all) >= left.bbox.y0 - 2
        assert not right.texts

    def test_size_of_the_font(self, weights):
        display = self.display(weights).plot(kind="text", text_kw={"fontsize": 14})
        assert display.texts_[0][0].get_fontsize() == 14


class Spans(HTMLParser):
    def __init__(self):
        super().__init__()
        self.words, self.titles, self.styles, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if "title" in dict(attrs):
            self.titles.append(dict(attrs)["title"])
            self.styles.append(dict(attrs)["style"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.words.append(data)


class TestHTML:
    def test_words_weights_and_colours(self):
        words = [["<b>", "naïve", '"&"'], ["ok"]]
        display = AttentionMapDisplay.from_weights(
            [[0.5, np.nan, 0.25], [1.0]], words=words, sample_labels=["x<y", "z"]
        )
        html = display.to_html()
        assert html.isascii()
        spans = Spans()
        spans.feed(html)
        assert spans.open == []
        assert spans.words == ["x<y", "<b>", "naïve", '"&"', "z", "ok"]
        assert spans.titles == [
            "attention weight 0.5",
            "no token",
            "attention weight 0.25",
            "attention weight 1",
        ]
        assert "background" not in spans.styles[1]
        assert "rgb(0,114,178)" in spans.styles[3]
        assert "rgb(0,114,178)" not in spans.styles[0]
        of_sample = Spans()
        of_sample.feed(display.to_html(scale="sample"))
        assert "rgb(0,114,178)" in of_sample.styles[0]

    def test_it_needs_no_matplotlib(self):
        code = """
            import sys
            sys.modules["matplotlib"] = None
            import numpy as np
            from skattn.inspection import AttentionMapDisplay
            display = AttentionMapDisplay(values=[np.array([1.0])], words=[["word"]])
            print(display.to_html())
            try:
                display.plot()
            except ImportError as error:
                print(error)
        """
        output = subprocess.run(
            [sys.executable, "-c", dedent(code)],
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert "word</span>" in output
        assert "AttentionMapDisplay.plot requires matplotlib" in output


class TestSeries:
    def test_curves_and_shades(self, model):
        samples = [sample.copy() for sample in X[:3]]
        display = AttentionMapDisplay.from_estimator(model, samples, kind="series")
        assert display.ax_.shape == (3,)
        for ax, lines, shade, sample, weights in zip(
            display.ax_,
            display.lines_,
            display.shades_,
            samples,
            model.attention_weights(samples),
            strict=True,
        ):
            assert_array_equal([line.get_ydata() for line in lines], sample.T)
            assert_allclose(shade.get_array().ravel(), weights)
            assert ax.get_xlim() == (-0.5, len(sample) - 0.5)
            # From the bottom to the top of the axes, whatever the curves.
            left, right = shade.get_window_extent().intervalx
            assert_allclose([left, right], ax.bbox.intervalx, atol=1)
            assert shade.axes is ax
        assert len({tuple(line.get_color()) for line in display.lines_[0]}) == 10

    def test_gaps(self, model):
        sample = np.vstack([X[0], np.full((1, 10), np.nan), X[1]])
        display = AttentionMapDisplay.from_estimator(model, [sample], kind="series")
        gap = len(X[0])
        assert np.isnan(display.lines_[0][0].get_ydata()[gap])
        mask = np.ma.getmaskarray(display.shades_[0].get_array()).ravel()
        assert_array_equal(np.flatnonzero(mask), [gap])
        assert display.ax_.get_ylabel() == "sample 0"

    def test_features_of_dataframes_have_their_names(self, model):
        frames = [pd.DataFrame(x[:, :2], columns=["north", "east"]) for x in X]
        svm = TokenSVM().fit(frames, Y)
        display = AttentionMapDisplay.from_estimator(svm, frames[:2], kind="series")
        legend = display.ax_[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == ["north", "east"]

    def test_rows_of_a_table_are_curves(self):
        table = np.random.default_rng(0).normal(size=(10, 8))
        svm = TokenSVM().fit(table, [0, 1] * 5)
        display = AttentionMapDisplay.from_estimator(svm, table[:2], kind="series")
        assert_array_equal(display.lines_[1][0].get_ydata(), table[1])

    def test_steps_that_change_positions(self):
        table = np.random.default_rng(0).normal(size=(10, 12))
        model = make_pipeline(WindowTokenizer(4), TokenSVM()).fit(table, [0, 1] * 5)
        with pytest.raises(ValueError, match="pass the curves of these as series="):
            AttentionMapDisplay.from_estimator(model, table[:2], kind="series")
        windows = model[0].transform(table[:2])
        display = AttentionMapDisplay.from_estimator(
            model, table[:2], kind="series", series=windows
        )
        assert len(display.lines_[0][0].get_ydata()) == windows.shape[1]

    def test_axes_are_given(self, pyplot, model):
        _, axes = pyplot.subplots(2)
        display = AttentionMapDisplay.from_estimator(
            model, X[:2], kind="series", ax=axes
        )
        assert display.ax_.tolist() == axes.tolist()
        _, ax = pyplot.subplots()
        one = AttentionMapDisplay.from_estimator(model, X[:1], kind="series", ax=ax)
        assert one.ax_ is ax
        with pytest.raises(ValueError, match="The series of 3 samples need as many"):
            AttentionMapDisplay.from_estimator(model, X[:3], kind="series", ax=axes)

    def test_keywords_win(self, model):
        display = AttentionMapDisplay.from_estimator(model, X[:1], kind="series")
        display.plot(kind="series", line_kw={"color": "red"}, image_kw={"alpha": 0.1})
        assert {line.get_color() for line in display.lines_[0]} == {"red"}
        assert display.shades_[0].get_alpha() == 0.1


def test_one_display_can_be_drawn_in_every_kind(model):
    display = AttentionMapDisplay.from_weights(
        model.attention_weights(X[:2]), words=WORDS[:2], series=X[:2]
    )
    assert display.image_ is not None
    display.plot(kind="text")
    assert display.image_ is None
    assert display.texts_ is not None
    display.plot(kind="series")
    assert display.texts_ is None
    assert len(display.lines_) == 2


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"values": "scores"}, "values must be one of"),
            ({"kind": "bars"}, "kind must be one of"),
            ({"scale": "log"}, "scale must be one of"),
            ({"head": 1}, "head must be at least 0 and below n_heads=1, got 1"),
            ({"target": 1}, "target is a class"),
            ({"values": "contributions", "head": 0}, "head chooses among weights"),
            ({"values": "contributions", "target": "x"}, "target must be one of the"),
            ({"kind": "text"}, "The display has no words"),
            ({"words": WORDS[1:]}, "words must have 24 entries; got 23"),
            ({"words": [w[1:] for w in WORDS]}, r"words\[0\] has \d words, but sample"),
            ({"series": X[1:], "kind": "series"}, "series must have 24 entries"),
            ({"series": [x[1:] for x in X]}, r"series\[0\] has shape"),
            ({"series": [*X[:-1], X[-1][:, 1:]]}, r"series\[23\] has 9 features"),
            ({"series": X, "feature_names": ["a"]}, "feature_names must have 10"),
            ({"sample_labels": [0]}, "sample_labels must have 24 entries"),
            ({"position_labels": "ab"}, "position_labels must have"),
        ],
    )
    def test_of_estimators(self, model, options, message):
        with pytest.raises(ValueError, match=message):
            AttentionMapDisplay.from_estimator(model, X, **options)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([], "weights has no sample"),
            ([[0.5, -0.5]], r"weights\[0\] is negative at token 1"),
            ([[np.inf]], r"weights\[0\] contains infinity"),
            ([0.5, 0.5], "weights must have one row of weights a sample"),
            ([[[[0.5]]]], "weights must have one row of weights a sample"),
            ([np.ones((2, 3)), np.ones((1, 3))], "equally many heads"),
        ],
    )
    def test_of_weights(self, weights, message):
        with pytest.raises(ValueError, match=message):
            AttentionMapDisplay.from_weights(weights)

    def test_a_string_is_no_list_of_words(self):
        with pytest.raises(TypeError, match=r"words\[0\] is a string"):
            AttentionMapDisplay.from_weights([[0.5, 0.5]], words=["ab"], kind="text")

    @pytest.mark.parametrize(
        ("kind", "keywords"),
        [("map", "text_kw"), ("text", "image_kw"), ("series", "text_kw")],
    )
    def test_keywords_of_another_kind(self, model, kind, keywords):
        display = AttentionMapDisplay.from_estimator(model, X, words=WORDS, series=X)
        with pytest.raises(ValueError, match=f"{keywords} has no meaning for kind="):
            display.plot(kind=kind, **{keywords: {}})

    def test_no_series(self):
        with pytest.raises(ValueError, match="pass series="):
            AttentionMapDisplay.from_weights([[1.0]], kind="series")

    def test_no_attention(self):
        logistic = LogisticRegression().fit(np.eye(2), [0, 1])
        for estimator in (logistic, make_pipeline(logistic)):
            with pytest.raises(TypeError, match="LogisticRegression"):
                AttentionMapDisplay.from_estimator(estimator, np.eye(2))
