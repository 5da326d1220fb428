"""`TokenSVM`: the convex problem it solves, its rounds and its heads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from token_cases import make_samples, padded

from skattn import TokenSVM
from skattn.datasets import make_token_selection
from skattn.theory import alignment, attention_svm

SAMPLES, Y, QUERY = make_samples()
LENGTHS = np.array([len(sample) for sample in SAMPLES])
GAPS = padded(SAMPLES, before=1, between=2)
# The token with the largest first feature is the planted one.
PLANTED = np.array([sample[:, 0].argmax() for sample in SAMPLES])
SEPARABLE, SEPARABLE_Y, SEPARABLE_PLANTED = make_token_selection(
    n_samples=40, n_tokens=4, n_features=6, noise=0.5, random_state=0
)


def given(**options):
    return TokenSVM(tokens="given", **options)


def differences(samples, selected):
    """Selected token minus every other, end to end, and the sample of each."""
    rows = [
        np.delete(sample[chosen] - sample, chosen, axis=0)
        for sample, chosen in zip(samples, selected, strict=True)
    ]
    return np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(r) for r in rows])


class TestParameters:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("C", 0.0),
            ("norm", 1.0),
            ("norm", "spectral"),
            ("query", "middle"),
            ("mapping", "relu"),
            ("head", "tree"),
            ("head_C", 0.0),
            ("tokens", "all"),
            ("max_iter", 0),
            ("solver", "simplex"),
            ("tol", 0.0),
            ("class_weight", "even"),
            ("random_state", "seed"),
        ],
    )
    def test_an_invalid_value_is_named(self, name, value):
        message = f"The '{name}' parameter of TokenSVM must be"
        with pytest.raises(ValueError, match=message):
            TokenSVM(**{name: value}).fit(SAMPLES, Y)

    def test_every_parameter_has_a_constraint(self):
        names = TokenSVM().get_params()
        assert names.keys() == TokenSVM._parameter_constraints.keys()

    def test_given_tokens_must_be_given(self):
        with pytest.raises(ValueError, match="tokens='given' and selected missing"):
            given().fit(SAMPLES, Y)
        with pytest.raises(ValueError, match="tokens='score' and selected passed"):
            TokenSVM().fit(SAMPLES, Y, selected=PLANTED)

    def test_given_tokens_must_exist(self):
        wrong = PLANTED.copy()
        wrong[3] = 17
        with pytest.raises(ValueError, match=r"selected\[3\] is 17, but sample 3"):
            given().fit(SAMPLES, Y, selected=wrong)
        with pytest.raises(ValueError, match="array of 24 integers"):
            given().fit(SAMPLES, Y, selected=PLANTED[:-1])

    def test_probabilities_need_the_logistic_head(self):
        svm = TokenSVM().fit(SEPARABLE, SEPARABLE_Y)
        assert not hasattr(svm, "predict_proba")
        assert not hasattr(svm, "predict_log_proba")
        logistic = TokenSVM(head="logistic").fit(SEPARABLE, SEPARABLE_Y)
        decision = logistic.decision_function(SEPARABLE)
        probabilities = logistic.predict_proba(SEPARABLE)
        assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-decision)))
        assert_allclose(np.exp(logistic.predict_log_proba(SEPARABLE)), probabilities)

    def test_a_class_without_weight_is_refused(self):
        y = np.arange(24) % 3
        for head in ("svm", "logistic"):
            with pytest.raises(ValueError, match=r"of class .*1.* have weight zero"):
                TokenSVM(head=head).fit(SAMPLES, y, sample_weight=(y != 1) * 1.0)
        with pytest.raises(ValueError, match="only one class"):
            TokenSVM().fit(SAMPLES, Y, sample_weight=Y * 1.0)


class TestConvexProblem:
    """With the tokens given, what is left is convex and has other solvers."""

    def test_soft_margin_equals_a_linear_svm_on_differences(self):
        """Hinge loss without intercept, each difference once with either sign."""
        C = 0.7
        model = given(C=C).fit(SAMPLES, Y, selected=PLANTED)
        rows, owners = differences(SAMPLES, PLANTED)
        svm = LinearSVC(
            loss="hinge", fit_intercept=False, C=1, tol=1e-10, max_iter=1_000_000
        )
        svm.fit(
            np.concatenate([rows, -rows]),
            np.repeat([1, -1], len(rows)),
            sample_weight=np.tile(C / (LENGTHS - 1)[owners] / 2, 2),
        )
        assert_allclose(model.attention_coef_, svm.coef_[0], atol=1e-5)

    def test_optimality_conditions(self):
        C = 0.05
        model = given(C=C).fit(SAMPLES, Y, selected=PLANTED)
        assert model.duality_gap_ <= 1e-8
        assert model.dual_coef_.shape == model.slack_.shape == (LENGTHS.sum(),)
        tokens = np.concatenate(SAMPLES)
        owners = np.repeat(np.arange(24), LENGTHS)
        chosen = np.cumsum(LENGTHS) - LENGTHS + PLANTED
        rows = tokens[chosen][owners] - tokens
        margins = rows @ model.attention_coef_
        others = np.setdiff1d(np.arange(len(tokens)), chosen)
        bounds = C / (LENGTHS - 1)[owners]

        assert (model.dual_coef_[chosen] == 0).all()
        assert (model.slack_[chosen] == 0).all()
        assert (model.dual_coef_ >= 0).all()
        assert (model.dual_coef_ <= bounds + 1e-12).all()
        assert_allclose(model.dual_coef_ @ rows, model.attention_coef_, atol=1e-7)
        assert_allclose(
            model.slack_[others], np.maximum(0, 1 - margins[others]), atol=1e-9
        )
        assert model.slack_.max() > 0.1
        primal = (
            0.5 * model.attention_coef_ @ model.attention_coef_ + bounds @ model.slack_
        )
        assert model.objective_ == pytest.approx(primal)

        in_sample = np.arange(len(tokens)) - (np.cumsum(LENGTHS) - LENGTHS)[owners]
        at_margin = others[margins[others] <= 1 + 1e-4]
        assert_array_equal(
            model.support_tokens_,
            np.column_stack([owners[at_margin], in_sample[at_margin]]),
        )
        # What is beyond the margin supports nothing.
        beyond = others[margins[others] > 1 + 1e-3]
        assert_allclose(model.dual_coef_[beyond], 0, atol=1e-8)

    def test_hard_margin(self):
        model = given(C=np.inf).fit(SEPARABLE, SEPARABLE_Y, selected=SEPARABLE_PLANTED)
        rows, _ = differences(SEPARABLE, SEPARABLE_PLANTED)
        assert (rows @ model.attention_coef_).min() == pytest.approx(1)
        assert model.objective_ == pytest.approx(np.linalg.norm(model.attention_coef_))
        assert (model.slack_ == 0).all()
        soft = given(C=1e5).fit(SEPARABLE, SEPARABLE_Y, selected=SEPARABLE_PLANTED)
        assert_allclose(soft.attention_coef_, model.attention_coef_, atol=1e-5)

    def test_no_hard_margin(self):
        contradiction = np.array([[[1.0], [-1.0]], [[1.0], [-1.0]]])
        for norm in ("fro", 1.5):
            with pytest.raises(ValueError, match=r"No hard margin exists .*finite C"):
                given(C=np.inf, norm=norm).fit(contradiction, [0, 1], selected=[0, 1])

    def test_no_hard_margin_for_what_the_rounds_select(self):
        middle = [[[-1.0], [0.0], [1.0]], [[-1.0], [3.0], [1.0]]]
        with pytest.raises(ValueError, match="No hard margin exists"):
            TokenSVM(C=np.inf).fit([*middle, [[0.0], [9.0]]], [0, 1, 0])

    @pytest.mark.parametrize("norm", ["fro", "nuc", 1.5, 3.0])
    def test_every_norm_is_smallest_in_itself(self, norm):
        """Each solution, measured in each norm: its own must win."""

        def size(W, norm):
            if norm == "nuc":
                return np.linalg.norm(W, "nuc")
            return np.sum(np.abs(W) ** (2.0 if norm == "fro" else norm)) ** (
                1 / (2.0 if norm == "fro" else norm)
            )

        rng = np.random.RandomState(0)
        X, query, y = rng.randn(6, 4, 5), rng.randn(6, 6), np.arange(6) % 2
        chosen = rng.randint(4, size=6)
        solutions = {
            other: given(C=np.inf, norm=other, query="given")
            .fit(X, y, query=query, selected=chosen)
            .attention_coef_
            for other in ("fro", "nuc", 1.5, 3.0)
        }
        sizes = {other: size(W, norm) for other, W in solutions.items()}
        assert solutions[norm].shape == (5, 6)
        assert min(sizes, key=sizes.get) == norm
        assert sizes[norm] < 0.999 * sorted(sizes.values())[1]

    def test_nuclear_norm_of_a_prompt_is_its_length(self):
        fro, nuc = (
            given(norm=norm).fit(SAMPLES, Y, selected=PLANTED)
            for norm in ("fro", "nuc")
        )
        assert_allclose(fro.attention_coef_, nuc.attention_coef_, atol=1e-6)

    def test_is_the_theory_s_attention_svm(self):
        model = given(query="given", C=0.3).fit(
            SAMPLES, Y, query=QUERY, selected=PLANTED
        )
        solution = attention_svm(
            SAMPLES, PLANTED, QUERY, C=0.3 / (LENGTHS - 1), tol=1e-9
        )
        assert_allclose(model.attention_coef_, solution.coef, atol=1e-6)

    def test_a_vanishing_C_is_mean_pooling(self):
        model = TokenSVM(C=1e-9).fit(SAMPLES, Y)
        for weights in model.attention_weights(SAMPLES):
            assert_allclose(weights, 1 / len(weights), atol=1e-4)

    def test_a_gap_out_of_reach_is_told(self):
        with pytest.warns(
            ConvergenceWarning, match="relative duality gap of"
        ) as record:
            given(C=1.0, norm=3.0, tol=1e-300).fit(SAMPLES, Y, selected=PLANTED)
        assert record[0].filename == __file__


class TestBridge:
    """Sparsemax is one-hot where the margin is met."""

    def test_hard_margin(self):
        model = TokenSVM(C=np.inf).fit(SEPARABLE, SEPARABLE_Y)
        weights = model.attention_weights(SEPARABLE)
        one_hot = np.arange(4) == model.selected_[:, None]
        assert_allclose(weights, one_hot, atol=1e-6)

    def test_soft_margin(self):
        model = TokenSVM(C=0.02).fit(SEPARABLE, SEPARABLE_Y)
        missed = model.slack_.reshape(40, 4).max(axis=1)
        met = missed < 1e-9
        assert 0 < met.sum() < 40
        weights = model.attention_weights(SEPARABLE)
        one_hot = np.arange(4) == model.selected_[:, None]
        assert_allclose(weights[met], one_hot[met], atol=1e-6)
        assert (weights[missed > 1e-3].max(axis=1) < 1 - 1e-4).all()

    def test_twice_the_weights_do_for_entmax15(self):
        """alpha-entmax needs a gap of 1 / (alpha - 1)."""
        model = given(C=np.inf, mapping="entmax15").fit(
            SEPARABLE, SEPARABLE_Y, selected=SEPARABLE_PLANTED
        )
        assert model.attention_weights(SEPARABLE).max(axis=1).min() < 1 - 1e-3
        model.attention_coef_ = 2 * model.attention_coef_
        assert_allclose(model.attention_weights(SEPARABLE).max(axis=1), 1, atol=1e-6)


class TestRounds:
    @pytest.mark.parametrize("seed", range(5))
    def test_find_planted_tokens_without_being_told(self, seed):
        X, y, planted = make_token_selection(n_samples=400, random_state=seed)
        model = TokenSVM().fit(X[:200], y[:200])
        assert (model.selected_tokens(X[200:]) == planted[200:]).mean() >= 0.97
        assert model.score(X[200:], y[200:]) >= 0.97

    @pytest.mark.parametrize("options", [{}, {"head": "logistic"}], ids=repr)
    def test_repeated_distractors_change_nothing(self, options):
        repeated = [
            np.concatenate([sample[[chosen]], np.repeat(rest, 10, axis=0)])
            for sample, chosen, rest in (
                (sample, chosen, np.delete(sample, chosen, axis=0))
                for sample, chosen in zip(SEPARABLE, SEPARABLE_PLANTED, strict=True)
            )
        ]
        once = TokenSVM(**options).fit(SEPARABLE, SEPARABLE_Y)
        tenfold = TokenSVM(**options).fit(repeated, SEPARABLE_Y)
        assert_array_equal(once.selected_, SEPARABLE_PLANTED)
        assert (tenfold.selected_ == 0).all()
        assert_allclose(tenfold.attention_coef_, once.attention_coef_, atol=1e-6)
        assert alignment(tenfold.attention_coef_, once.attention_coef_) > 1 - 1e-10

    def test_a_settled_selection_is_a_fixed_point(self):
        model = TokenSVM().fit(SEPARABLE, SEPARABLE_Y)
        assert model.n_iter_ == len(model.loss_curve_) < 20
        signs = 2 * SEPARABLE_Y - 1
        votes = signs[:, None] * (SEPARABLE @ model.coef_[0])
        assert_array_equal(model.selected_, votes.argmax(axis=1))

    def test_a_settled_selection_of_several_classes(self):
        """Speaks for its class against the strongest of the others."""
        y = np.arange(40) % 3
        X = SEPARABLE.copy()
        X[np.arange(40), SEPARABLE_PLANTED] = 4 * np.eye(6)[y] + 2 * np.eye(6)[5]
        model = TokenSVM().fit(X, y)
        votes = X @ model.coef_.T
        own = votes[np.arange(40), :, y]
        others = np.where(np.eye(3, dtype=bool)[y][:, None], -np.inf, votes).max(axis=2)
        assert_array_equal(model.selected_, (own - others).argmax(axis=1))
        assert_array_equal(model.selected_, SEPARABLE_PLANTED)
        assert model.coef_.shape == (3, 6)

    def test_unsettled_rounds_warn_and_keep_the_lowest_loss(self):
        with pytest.warns(ConvergenceWarning, match="lowest training loss") as record:
            model = TokenSVM(C=1.0, head_C=1.0, query="first").fit(SAMPLES, Y)
        assert record[0].filename == __file__
        assert model.n_iter_ > 1
        margins = (2 * Y - 1) * model.decision_function(SAMPLES)
        loss = np.mean(np.maximum(0, 1 - margins) ** 2)
        assert loss == pytest.approx(min(model.loss_curve_))

    def test_too_few_rounds_warn(self):
        with pytest.warns(ConvergenceWarning, match="did not settle in max_iter=1"):
            TokenSVM(C=1.0, head_C=1.0, max_iter=1).fit(SAMPLES, Y)

    def test_given_tokens_need_one_round(self, recwarn):
        model = given().fit(SAMPLES, Y, selected=PLANTED)
        assert_array_equal(model.selected_, PLANTED)
        assert model.n_iter_ == 1
        assert not recwarn

    def test_positions_count_absent_tokens(self):
        at = np.where(PLANTED == 0, 1, PLANTED + 3)
        model = given().fit(GAPS, Y, selected=at)
        assert_array_equal(model.selected_, at)
        plain = given().fit(SAMPLES, Y, selected=PLANTED)
        assert_allclose(model.attention_coef_, plain.attention_coef_)
        sample, position = model.support_tokens_.T
        assert np.isfinite(GAPS[sample, position]).all()
        assert_array_equal(sample, plain.support_tokens_[:, 0])
        with pytest.raises(ValueError, match="no token at that position"):
            given().fit(GAPS, Y, selected=np.zeros(24, dtype=int))


class TestSingleTokens:
    X = np.random.RandomState(0).randn(20, 1, 3)
    y = (X[:, 0, 0] > 0).astype(int)

    @pytest.mark.parametrize("C", [1.0, np.inf])
    @pytest.mark.parametrize("query", ["prompt", "mean"])
    def test_leave_nothing_to_select(self, C, query):
        model = TokenSVM(C=C, head_C=1.0, query=query).fit(self.X, self.y)
        assert (model.attention_coef_ == 0).all()
        assert (model.attention_weights(self.X) == 1).all()
        assert len(model.support_tokens_) == 0
        reference = LinearSVC(dual=False, tol=1e-10).fit(self.X[:, 0], self.y)
        assert_allclose(model.coef_, reference.coef_, rtol=1e-5)

    def test_beside_others(self):
        X = [*SAMPLES, *self.X]
        y = np.append(Y, self.y)
        selected = np.append(PLANTED, np.zeros(20, dtype=int))
        model = given().fit(X, y, selected=selected)
        alone = given().fit(SAMPLES, Y, selected=PLANTED)
        assert_allclose(model.attention_coef_, alone.attention_coef_, atol=1e-7)


class TestWeights:
    @pytest.mark.parametrize("C", [0.1, np.inf])
    def test_of_classes_are_weights_of_samples(self, C):
        by_class = TokenSVM(C=C, class_weight={0: 3.0, 1: 0.5})
        by_class.fit(SEPARABLE, SEPARABLE_Y)
        by_sample = TokenSVM(C=C).fit(
            SEPARABLE, SEPARABLE_Y, sample_weight=np.where(SEPARABLE_Y, 0.5, 3.0)
        )
        assert_allclose(by_class.attention_coef_, by_sample.attention_coef_)
        assert_allclose(by_class.coef_, by_sample.coef_)

    def test_scale_C(self):
        weighted = given(C=0.1).fit(
            SAMPLES, Y, selected=PLANTED, sample_weight=np.full(24, 2.0)
        )
        scaled = given(C=0.2).fit(SAMPLES, Y, selected=PLANTED)
        assert_allclose(weighted.attention_coef_, scaled.attention_coef_, atol=1e-7)

    def test_zero_frees_a_hard_margin(self):
        X = np.array([[[1.0], [-1.0]], [[2.0], [-1.0]], [[1.0], [-1.0]]])
        model = given(C=np.inf).fit(
            X, [0, 1, 1], selected=[0, 0, 1], sample_weight=[1, 1, 0]
        )
        assert_allclose(model.attention_coef_, [0.5])


class TestHeads:
    @pytest.mark.parametrize("y", [SEPARABLE_Y, np.arange(40) % 3], ids=["2", "3"])
    @pytest.mark.parametrize(
        ("head", "reference"),
        [
            ("svm", LinearSVC(C=0.3, dual=False, tol=1e-10)),
            ("logistic", LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000)),
        ],
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_are_fitted_on_what_prediction_sees(self, head, reference, y):
        model = TokenSVM(head=head, head_C=0.3).fit(SEPARABLE, y)
        pooled = model.transform(SEPARABLE)
        reference.fit(pooled, y)
        assert_allclose(model.coef_, reference.coef_, atol=1e-5)
        assert_array_equal(model.predict(SEPARABLE), reference.predict(pooled))


@pytest.mark.filterwarnings("error")
def test_features_too_large_for_newton_leave_the_head_of_liblinear():
    X, y = 1e9 * np.asarray(SEPARABLE), SEPARABLE_Y
    assert TokenSVM().fit(X, y).score(X, y) > 0.9
