"""Curves of deletion, against deletion by hand, and their display."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skattn import (
    AttentionClassifier,
    FeatureTokenizer,
    Tokens,
    TokenScaler,
    TokenSVM,
)
from skattn.datasets import make_token_selection
from skattn.inspection import FaithfulnessCurve, FaithfulnessDisplay, faithfulness

X, Y, PLANTED = make_token_selection(
    n_samples=160, n_tokens=(2, 9), signal=3.0, random_state=0
)
TRAIN, TEST = slice(0, 80), slice(80, None)
X_TEST, Y_TEST = X[TEST], Y[TEST]
QUICK = {"max_iter": 60, "tol": 0, "learning_rate_init": 0.1, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return AttentionClassifier(**QUICK).fit(X[TRAIN], Y[TRAIN])


def without_top(samples, numbers, n_deleted):
    """Delete the tokens with the largest numbers one by one; one stays."""
    left = []
    for sample, of_sample in zip(samples, numbers, strict=True):
        rows, of_rows = list(sample), list(of_sample)
        for _ in range(n_deleted):
            if len(rows) > 1:
                top = int(np.argmax(of_rows))
                del rows[top], of_rows[top]
        left.append(np.array(rows))
    return left


class TestDeletion:
    COUNTS = (0, 1, 3, 20)

    def test_by_weights(self, model):
        curve = faithfulness(model, X_TEST, Y_TEST, n_deleted=self.COUNTS, n_repeats=1)
        weights = model.attention_weights(X_TEST)
        expected = [
            model.score(without_top(X_TEST, weights, k), Y_TEST) for k in self.COUNTS
        ]
        assert_allclose(curve.scores, expected)
        assert curve.unit == "count"
        assert curve.score_name == "accuracy"

    def test_by_contributions_to_the_class_predicted(self, model):
        curve = faithfulness(
            model, X_TEST, Y_TEST, n_deleted=self.COUNTS, order="contributions"
        )
        sign = 2 * model.predict(X_TEST) - 1
        numbers = [
            s * row
            for s, row in zip(sign, model.token_contributions(X_TEST), strict=True)
        ]
        expected = [
            model.score(without_top(X_TEST, numbers, k), Y_TEST) for k in self.COUNTS
        ]
        assert_allclose(curve.scores, expected)

    def test_by_contributions_of_three_classes(self):
        y = (Y + (np.arange(len(Y)) % 3 == 0)).astype(int)
        model = AttentionClassifier(**QUICK).fit(X[TRAIN], y[TRAIN])
        curve = faithfulness(
            model,
            X_TEST,
            y[TEST],
            n_deleted=self.COUNTS,
            order="contributions",
            scoring="neg_log_loss",
        )
        numbers = [
            row[:, label] - np.delete(row, label, axis=1).mean(axis=1)
            for row, label in zip(
                model.token_contributions(X_TEST), model.predict(X_TEST), strict=True
            )
        ]
        expected = [
            -log_loss(y[TEST], model.predict_proba(without_top(X_TEST, numbers, k)))
            for k in self.COUNTS
        ]
        assert_allclose(curve.scores, expected)

    def test_by_numbers_of_the_caller(self, model):
        weights = model.attention_weights(X_TEST)
        given = faithfulness(model, X_TEST, Y_TEST, order=weights, random_state=0)
        named = faithfulness(model, X_TEST, Y_TEST, order="weights", random_state=0)
        assert_array_equal(given.scores, named.scores)
        assert_array_equal(given.random_scores, named.random_scores)
        least_first = faithfulness(
            model, X_TEST, Y_TEST, order=[-row for row in weights], random_state=0
        )
        assert least_first.area < 0 < named.area

    def test_shares_are_rounded_to_whole_tokens(self, model):
        samples = [np.resize(X[0], (10, 10)) + np.eye(10)] * 2
        shares = [0, 0.04, 0.05, 0.3, 0.96, 1]
        by_share = faithfulness(model, samples, shares=shares, scoring="probability")
        by_count = faithfulness(
            model, samples, n_deleted=[0, 1, 3, 9], scoring="probability"
        )
        assert_array_equal(by_share.scores, by_count.scores[[0, 0, 1, 2, 3, 3]])

    def test_one_token_stays(self, model):
        one_each = [sample[:1] for sample in X_TEST]
        curve = faithfulness(model, one_each, Y_TEST)
        assert_array_equal(curve.scores, [model.score(one_each, Y_TEST)] * 11)
        assert curve.area == 0

    @pytest.mark.parametrize("query", ["first", "last", 1])
    def test_the_token_that_asks_is_spared(self, query):
        model = AttentionClassifier(query=query, **QUICK).fit(X[TRAIN], Y[TRAIN])
        curve = faithfulness(model, X_TEST, Y_TEST, shares=[1.0], n_repeats=2)
        asking = {"first": 0, "last": -1, 1: 1}[query]
        # Alone, it has all of the attention.
        left = np.vstack([sample[asking] for sample in X_TEST])
        predicted = (left @ model.coef_.T + model.intercept_)[:, 0] > 0
        assert_allclose(curve.scores, (predicted == Y_TEST).mean())
        assert_allclose(curve.random_scores, (predicted == Y_TEST).mean())


class TestRandomDeletion:
    def test_it_is_the_mean_over_all_choices(self, model):
        samples = [sample for sample in X_TEST if len(sample) == 4][:8]
        labels = model.predict(samples)
        curve = faithfulness(
            model,
            samples,
            labels,
            n_deleted=[1],
            n_repeats=400,
            random_state=0,
            scoring="probability",
        )
        predicted = np.arange(len(samples)), labels
        expected = np.mean(
            [
                model.predict_proba(
                    [np.delete(sample, token, axis=0) for sample in samples]
                )[predicted]
                for token in range(4)
            ]
        )
        standard_error = curve.random_std / np.sqrt(400)
        assert abs(curve.random_mean - expected) < 4 * standard_error

    def test_seed(self, model):
        first, again, other = (
            faithfulness(model, X_TEST, Y_TEST, random_state=seed).random_scores
            for seed in (0, 0, 1)
        )
        assert first.shape == (10, 11)
        assert_array_equal(first, again)
        assert (first != other).any()


class TestWhatItTells:
    def test_the_planted_token_decides(self):
        svm = TokenSVM().fit(X[TRAIN], Y[TRAIN])
        curve = faithfulness(
            svm, X_TEST, Y_TEST, n_deleted=[0, 1], n_repeats=20, random_state=0
        )
        lengths = np.array([len(sample) for sample in X_TEST])
        assert curve.scores[0] > 0.9
        # What is left tells nothing.
        assert curve.scores[1] == pytest.approx(0.5, abs=0.15)
        # Random deletion hits the planted token once in the length, and half of the
        # guesses that are left are right.
        loss = (1 / lengths / 2).mean()
        assert curve.random_mean[1] == pytest.approx(curve.scores[0] - loss, abs=0.05)

    def test_contributions_know_more_than_weights(self):
        """The last token gets weight and says nothing."""
        rng = np.random.default_rng(0)
        samples, labels, _ = make_token_selection(n_samples=200, random_state=0)
        weights = rng.uniform(size=(200, 10))
        svm = TokenSVM().fit(samples, labels)
        by_contribution, by_chance = (
            faithfulness(svm, samples, labels, order=order, random_state=0).area
            for order in ("contributions", weights)
        )
        assert by_contribution > 0.1
        assert abs(by_chance) < 0.05


class TestScores:
    def test_without_labels_it_is_agreement(self, model):
        curve = faithfulness(model, X_TEST, random_state=0)
        assert curve.scores[0] == 1
        named = faithfulness(model, X_TEST, model.predict(X_TEST), random_state=0)
        assert_array_equal(curve.scores, named.scores)

    def test_probability_of_the_class_predicted(self, model):
        curve = faithfulness(model, X_TEST, scoring="probability", n_repeats=1)
        assert curve.scores[0] == pytest.approx(
            model.predict_proba(X_TEST).max(axis=1).mean()
        )
        assert curve.score_name == "probability of the predicted class"

    @pytest.mark.parametrize("scoring", [None, "probability", "roc_auc"])
    def test_a_weight_is_a_number_of_samples(self, model, scoring):
        weight = np.arange(len(Y_TEST)) % 3
        weighted = faithfulness(
            model, X_TEST, Y_TEST, sample_weight=weight, scoring=scoring
        )
        samples = [X_TEST[i] for i in np.repeat(np.arange(len(Y_TEST)), weight)]
        repeated = faithfulness(
            model, samples, np.repeat(Y_TEST, weight), scoring=scoring
        )
        assert_allclose(weighted.scores, repeated.scores)

    def test_area(self):
        curve = FaithfulnessCurve(
            deleted=np.array([0, 1, 3]),
            unit="count",
            scores=np.array([1.0, 0.5, 0.5]),
            random_scores=np.array([[1.0, 1.0, 1.0], [1.0, 0.5, 1.0]]),
            score_name="accuracy",
        )
        # Triangle and rectangle; nothing and a triangle; over a width of 3.
        assert_allclose(curve.areas, [(0.25 + 1) / 3, 0.5 / 3])
        assert curve.area == pytest.approx(1.75 / 6)
        frame = curve.to_frame()
        assert frame.index.name == "count"
        assert_allclose(frame["random_mean"], [1, 0.75, 1])


@pytest.fixture(scope="module")
def expected(model):
    return faithfulness(model, X_TEST, Y_TEST, n_repeats=2, random_state=0)


class TestForms:
    @pytest.mark.parametrize(
        "form", ["array", "tokens", "dataframes", "absent", "objects"]
    )
    def test_the_form_does_not_matter(self, model, expected, form, recwarn):
        tokens = _tokens(X_TEST)
        samples = {
            "array": tokens.to_padded,
            "tokens": lambda: tokens,
            "dataframes": lambda: [pd.DataFrame(sample) for sample in X_TEST],
            "absent": lambda: np.pad(
                tokens.to_padded(), [(0, 0), (2, 1), (0, 0)], constant_values=np.nan
            ),
            "objects": lambda: np.array([*X_TEST, None], dtype=object)[:-1],
        }[form]()
        curve = faithfulness(model, samples, Y_TEST, n_repeats=2, random_state=0)
        assert_array_equal(curve.scores, expected.scores)
        assert_array_equal(curve.random_scores, expected.random_scores)
        assert not recwarn.list

    def test_pipelines_and_searches(self):
        pipeline = make_pipeline(TokenScaler(), AttentionClassifier(**QUICK))
        search = GridSearchCV(
            pipeline, {"attentionclassifier__alpha": [1e-4, 1e-2]}, cv=2
        ).fit(X[TRAIN], Y[TRAIN])
        best = search.best_estimator_
        of_search = faithfulness(search, X_TEST, Y_TEST, random_state=0)
        of_last = faithfulness(
            best[-1], best[0].transform(X_TEST), Y_TEST, random_state=0
        )
        assert_array_equal(of_search.scores, of_last.scores)
        assert of_search.scores[0] == search.score(X_TEST, Y_TEST)

    def test_columns_of_a_table_are_tokens_behind_a_tokenizer(self):
        table = np.random.default_rng(0).normal(size=(100, 6))
        y = table[:, 2] > 0
        model = make_pipeline(FeatureTokenizer(), TokenSVM()).fit(table, y)
        assert faithfulness(model, table, y, random_state=0).area > 0.05
        with pytest.raises(ValueError, match=r"make_pipeline\(FeatureTokenizer"):
            faithfulness(TokenSVM().fit(table, y), table, y)

    def test_given_queries(self):
        query = np.random.default_rng(0).normal(size=(len(X), 2))
        model = AttentionClassifier(query="given", **QUICK)
        model.fit(X[TRAIN], Y[TRAIN], query=query[TRAIN])
        passed = faithfulness(model, X_TEST, Y_TEST, query=query[TEST], random_state=0)
        carried = faithfulness(
            model,
            _tokens(X_TEST).with_query(query[TEST]),
            Y_TEST,
            random_state=0,
        )
        assert_array_equal(passed.scores, carried.scores)
        assert passed.scores[0] == model.score(X_TEST, Y_TEST, query=query[TEST])

    def test_heads(self):
        model = AttentionClassifier(n_heads=2, **QUICK).fit(X[TRAIN], Y[TRAIN])
        weights = model.attention_weights(X_TEST)
        for head, numbers in (
            (1, [row[1] for row in weights]),
            (None, [row.mean(axis=0) for row in weights]),
        ):
            named = faithfulness(model, X_TEST, Y_TEST, head=head, random_state=0)
            given = faithfulness(model, X_TEST, Y_TEST, order=numbers, random_state=0)
            assert_array_equal(named.scores, given.scores)


def _tokens(samples):
    lengths = [len(sample) for sample in samples]
    return Tokens(np.vstack(samples), np.concatenate([[0], np.cumsum(lengths)]))


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"shares": [0, 1], "n_deleted": [0, 1]}, "At most one of shares and"),
            ({"shares": [0, 1.5]}, "shares must be at least 0 and at most 1"),
            ({"shares": [0.5, 0.5]}, "shares must be a list of rising numbers"),
            ({"shares": []}, "minimum of 1 is required"),
            ({"n_deleted": [0.5]}, "n_deleted must hold integers"),
            ({"n_deleted": [-1, 2]}, "n_deleted must be at least 0"),
            ({"order": "score"}, "order must be 'weights'"),
            ({"order": 3}, "order must be 'weights'"),
            ({"order": [[1.0]]}, "order has 1 samples"),
            ({"order": [np.ones(30)] * 80}, r"order\[0\] has shape \(30,\)"),
            (
                {"order": [x[:, 0] * np.nan for x in X_TEST]},
                "order is NaN or infinite at token 0",
            ),
            ({"order": "contributions", "head": 0}, "head chooses among weights"),
            ({"head": 1}, "head must be at least 0 and below n_heads=1"),
            ({"n_repeats": 0}, "The 'n_repeats' parameter of faithfulness"),
            ({"query": np.ones((80, 2))}, "query was passed, but"),
            ({"sample_weight": [1.0]}, "inconsistent numbers of samples"),
        ],
    )
    def test_bad_options(self, model, options, message):
        with pytest.raises(ValueError, match=message):
            faithfulness(model, X_TEST, Y_TEST, **options)

    def test_bad_types(self, model):
        with pytest.raises(TypeError, match="a curve is of one score"):
            faithfulness(model, X_TEST, Y_TEST, scoring=["accuracy"])
        with pytest.raises(TypeError, match="head must be an integer or None"):
            faithfulness(model, X_TEST, Y_TEST, head="all")

    def test_no_attention(self):
        model = LogisticRegression().fit(np.eye(2), [0, 1])
        with pytest.raises(
            TypeError, match=r"LogisticRegression.* no attention_weights"
        ):
            faithfulness(model, np.eye(2))

    def test_no_probabilities(self):
        model = TokenSVM().fit(X[TRAIN], Y[TRAIN])
        with pytest.raises(ValueError, match="needs predict_proba"):
            faithfulness(model, X_TEST, scoring="probability")

    def test_unfitted(self):
        with pytest.raises(NotFittedError):
            faithfulness(TokenSVM(), X_TEST)

    def test_a_table_for_sequences(self, model):
        with pytest.raises(ValueError, match="for one sequence pass"):
            faithfulness(model, X_TEST[0])


@pytest.mark.usefixtures("pyplot")
class TestDisplay:
    def test_curves(self, model):
        display = FaithfulnessDisplay.from_estimator(
            model, X_TEST, Y_TEST, random_state=0
        )
        curve = faithfulness(model, X_TEST, Y_TEST, random_state=0)
        assert_array_equal(display.line_.get_xydata()[:, 0], curve.deleted)
        assert_array_equal(display.line_.get_ydata(), curve.scores)
        assert_array_equal(display.random_line_.get_ydata(), curve.random_mean)
        assert display.line_.get_label() == f"by weights: area {curve.area:.3f}"
        assert display.ax_.get_ylabel() == "accuracy"
        band = display.random_band_.get_paths()[0].vertices[:, 1]
        assert band.max() == pytest.approx((curve.random_mean + curve.random_std).max())

    def test_several_orders_share_random_deletion(self, model):
        curves = {
            order: faithfulness(model, X_TEST, Y_TEST, order=order, random_state=0)
            for order in ("weights", "contributions")
        }
        display = FaithfulnessDisplay.from_curves(curves)
        assert len(display.line_) == 2
        assert display.random_line_.get_label() == "at random"

    def test_several_models_have_their_own(self, model):
        curves = {
            str(seed): faithfulness(
                model, X_TEST, Y_TEST, n_deleted=[0, 2], random_state=seed
            )
            for seed in range(2)
        }
        display = FaithfulnessDisplay.from_curves(curves)
        assert [line.get_label() for line in display.random_line_] == [
            "0: at random",
            "1: at random",
        ]
        colors = [line.get_color() for line in display.line_]
        assert colors == [line.get_color() for line in display.random_line_]
        assert display.ax_.get_xlabel() == "tokens deleted"

    def test_curves_that_do_not_compare(self, model):
        shares = faithfulness(model, X_TEST, Y_TEST)
        counts = faithfulness(model, X_TEST, Y_TEST, n_deleted=[0, 1])
        with pytest.raises(ValueError, match="curves must agree in unit"):
            FaithfulnessDisplay.from_curves({"a": shares, "b": counts})
        with pytest.raises(ValueError, match="minimum of 1 is required"):
            FaithfulnessDisplay.from_curves({})
