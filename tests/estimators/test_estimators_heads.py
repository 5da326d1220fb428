"""`AttentionClassifier`: its heads, gates, pooled statistics and diversity."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, ndtr
from sklearn.linear_model import LogisticRegression

from skattn import AttentionClassifier, FeatureTokenizer
from skattn.attention import RaggedTokens, TokenBatch
from skattn.mappings import softmax
from skattn.theory import ImplicitBiasMonitor, alignment, attention_svm

RNG = np.random.RandomState(0)
X = RNG.randn(30, 4, 3)
Y = (X[:, :, 0].max(axis=1) > np.median(X[:, :, 0].max(axis=1))).astype(int)
Y3 = np.arange(30) % 3

QUICK = {"max_iter": 20, "tol": 0, "learning_rate_init": 0.1, "random_state": 0}
OPTIONS = {
    "mlp": {"head": "mlp", "head_hidden_size": 4},
    "gated": {"scoring": "gated", "gate_size": 2},
    "pooling": {"pooling": ("attention", "mean", "min", "max")},
    "diversity": {"n_heads": 3, "diversity": 0.5},
    "all": {
        "head": "mlp",
        "scoring": "gated",
        "pooling": ["max", "attention"],
        "n_heads": 2,
        "diversity": 0.5,
        "hidden_size": 5,
    },
}
on_every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def quick(**options):
    return AttentionClassifier(**{**QUICK, **options})


def gelu(x):
    return x * ndtr(x)


def by_hand(model, X):
    """Weights of attention, pooled features and outputs, from the attributes alone."""
    if model.hidden_size:
        X = gelu(X @ model.hidden_coef_ + model.hidden_intercept_)
    scored = X
    if model.scoring == "gated":
        scored = np.tanh(X @ model.tanh_coef_) * expit(X @ model.sigmoid_coef_)
    prompts = np.atleast_2d(model.attention_coef_)
    weights = softmax(np.einsum("ntd,hd->nht", scored, prompts))
    of = {
        "attention": np.einsum("nht,ntd->nhd", weights, X).reshape(len(X), -1),
        "mean": X.mean(axis=1),
        "min": X.min(axis=1),
        "max": X.max(axis=1),
    }
    names = [model.pooling] if isinstance(model.pooling, str) else model.pooling
    pooled = np.hstack([of[name] for name in names])
    units = pooled
    if model.head == "mlp":
        start = model.head_hidden_intercept_
        units = gelu(pooled @ model.head_hidden_coef_ + start) - gelu(start)
    return weights, pooled, units @ model.coef_.T + model.intercept_


class TestParameters:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("head", "svm"),
            ("head_hidden_size", 0),
            ("scoring", "tanh"),
            ("gate_size", 0),
            ("pooling", "mean"),
            ("pooling", None),
            ("diversity", -0.1),
        ],
    )
    def test_an_invalid_value_is_named(self, name, value):
        message = f"The '{name}' parameter of AttentionClassifier must be"
        with pytest.raises(ValueError, match=message):
            quick(**{name: value}).fit(X, Y)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"scoring": "gated", "query": "mean", "parameterization": "KQ"},
                r"scoring='gated' scores by a prompt, and parameterization='KQ' by",
            ),
            ({"scoring": "gated", "query": "mean"}, r"by a prompt; got query='mean'"),
            ({"gate_size": 3}, r"gate_size=3 needs scoring='gated'"),
            ({"head_hidden_size": 3}, r"head_hidden_size=3 needs head='mlp'"),
            ({"diversity": 0.1}, r"diversity=0.1 needs heads that can differ"),
            ({"pooling": ["max"]}, r"pooling=\['max'\] must contain 'attention'"),
            ({"pooling": []}, r"must contain 'attention'"),
            ({"pooling": ("attention", "sum")}, r"'sum', which is none of"),
            ({"pooling": ("attention", 3)}, r"has 3, which is none of"),
            ({"pooling": ["attention"] * 2}, r"has a name twice"),
            (
                {"head": "mlp", "freeze_head": True},
                r"freeze_head=True with head='mlp' needs the head of an earlier fit",
            ),
        ],
    )
    def test_a_contradiction_is_named(self, options, message):
        model = quick(**options)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y)
        assert not hasattr(model, "coef_")

    def test_one_array_cannot_give_a_head_with_a_layer(self):
        with pytest.raises(ValueError, match="coef_init gives a linear head"):
            quick(head="mlp").fit(X, Y, coef_init=np.ones((1, 32)))

    def test_none_is_a_width(self):
        model = quick(head="mlp", scoring="gated", max_iter=1).fit(X, Y)
        assert model.tanh_coef_.shape == model.sigmoid_coef_.shape == (3, 64)
        assert model.attention_coef_.shape == (64,)
        assert model.head_hidden_coef_.shape == (3, 32)
        assert model.coef_.shape == (1, 32)


class TestModel:
    @on_every_option
    @pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "multiclass"])
    def test_is_what_the_attributes_say(self, options, y):
        model = quick(**options).fit(X, y)
        weights, pooled, outputs = by_hand(model, X)
        got = model.attention_weights(X).reshape(weights.shape)
        assert_allclose(got, weights, atol=1e-12)
        assert_allclose(model.transform(X), pooled, atol=1e-12)
        assert_allclose(model.decision_function(X), outputs.squeeze(), atol=1e-12)
        assert len(model.get_feature_names_out()) == pooled.shape[1]
        assert model.n_token_features_ == options.get("hidden_size", 3)
        assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert model.loss_curve_[-1] < model.loss_curve_[0]

    @on_every_option
    def test_contributions_add_up(self, options):
        for y in (Y, Y3):
            model = quick(**options).fit(X, y)
            sums = model.token_contributions(X).sum(axis=1)
            expected = model.decision_function(X) - model.intercept_
            assert_allclose(sums, expected, atol=1e-12)

    def test_a_maximum_speaks_for_the_token_that_has_it(self):
        model = quick(pooling=("attention", "max"), freeze_head=True)
        model.fit(X, Y, coef_init=[0.0, 0.0, 0.0, 1.0, 0.0, -2.0])
        contributions = model.token_contributions(X)
        expected = np.zeros((30, 4))
        rows = np.arange(30)
        expected[rows, X[:, :, 0].argmax(axis=1)] += X[:, :, 0].max(axis=1)
        expected[rows, X[:, :, 2].argmax(axis=1)] -= 2 * X[:, :, 2].max(axis=1)
        assert_allclose(contributions, expected, atol=1e-12)

    @on_every_option
    def test_module_and_pickle(self, options):
        model = quick(**options).fit(X, Y3)
        tokens = RaggedTokens.from_arrays(X.reshape(-1, 3), np.arange(0, 121, 4))
        with torch.no_grad():
            logits = model.to_module()(TokenBatch(tokens)).numpy()
        assert_allclose(logits, model.decision_function(X), atol=1e-12)
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.token_contributions(X), model.token_contributions(X))

    @on_every_option
    def test_float32(self, options):
        model = quick(dtype="float32", **options).fit(X, Y)
        double = quick(**options).fit(X, Y)
        assert model.coef_.dtype == np.float32
        assert_allclose(
            model.decision_function(X), double.decision_function(X), atol=1e-3
        )

    @on_every_option
    @pytest.mark.parametrize("n_columns", [1, 3])
    def test_of_a_table(self, options, n_columns):
        table = make_table(n_columns)
        model = quick(**options).fit(table, Y)
        _, pooled, outputs = by_hand(model, FeatureTokenizer().fit_transform(table))
        assert_allclose(model.transform(table), pooled, atol=1e-12)
        assert_allclose(model.decision_function(table), outputs[:, 0], atol=1e-12)

    @pytest.mark.parametrize("name", ["mlp", "pooling", "diversity"])
    @pytest.mark.parametrize("n_columns", [1, 3])
    def test_a_table_equals_explicit_tokens(self, name, n_columns):
        """Of the other options the first weights depend on the features not zero.

        By gradient descent, since the first step of Adam blows rounding up where the
        gradient is zero.
        """
        table = make_table(n_columns)
        tokens = FeatureTokenizer().fit_transform(table)
        model, explicit = (quick(solver="gd", **OPTIONS[name]) for _ in range(2))
        model.fit(table, Y3)
        explicit.fit(tokens, Y3)
        assert_allclose(model.loss_curve_, explicit.loss_curve_, rtol=1e-9)
        for method in ("decision_function", "transform", "token_contributions"):
            assert_allclose(
                getattr(model, method)(table),
                getattr(explicit, method)(tokens),
                atol=1e-10,
            )


def make_table(n_columns):
    table = X[:, 0, :n_columns].copy()
    table[::7, 0] = 0.0
    return table


class TestTraining:
    def test_diversity_is_part_of_the_objective(self):
        prompts, weights = RNG.randn(3, 3), RNG.uniform(0.1, 2, 30)
        model = quick(n_heads=3, diversity=0.7, alpha=0.3)
        model.fit(X, Y, attention_coef_init=prompts, sample_weight=weights)
        attention = softmax(np.einsum("ntd,hd->nht", X, prompts))
        unit = attention / np.linalg.norm(attention, axis=2, keepdims=True)
        cosines = np.einsum("nht,nkt->nhk", unit, unit)
        overlap = cosines[:, *np.triu_indices(3, k=1)].mean(axis=1)
        expected = np.log(2) + 0.7 * np.average(overlap, weights=weights)
        expected += 0.15 * np.sum(prompts**2)
        assert model.loss_curve_[0] == pytest.approx(expected)

    def test_diversity_keeps_heads_apart(self):
        def overlap(diversity):
            model = quick(n_heads=2, diversity=diversity, max_iter=100).fit(X, Y)
            one, other = model.attention_weights(X).transpose(1, 0, 2)
            lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
            return np.mean(np.sum(one * other, axis=1) / lengths)

        assert overlap(1.0) < 0.5 * overlap(0.0)

    def test_extremes_alone_are_logistic_regression(self):
        """Equal tokens but for their maxima: attention at zero, the head is convex."""
        alpha = 0.02
        model = quick(
            pooling=("attention", "max"), solver="lbfgs", alpha=alpha, max_iter=500,
            tol=1e-9, freeze_head=False,
        )  # fmt: skip
        equal = np.repeat(X[:, :1], 3, axis=1)
        model.fit(equal, Y)
        reference = LogisticRegression(C=1 / (alpha * 30), tol=1e-10, max_iter=999)
        reference.fit(np.hstack([X[:, 0], X[:, 0]]), Y)
        assert_allclose(model.coef_, reference.coef_, atol=1e-5)

    @on_every_option
    def test_partial_fits_in_a_row_equal_one_fit(self, options):
        fitted = quick(max_iter=4, **options).fit(X, Y)
        model = quick(**options)
        for _ in range(4):
            model.partial_fit(X, Y, classes=[0, 1])
        assert_allclose(model.coef_, fitted.coef_)
        assert_allclose(model.loss_curve_, fitted.loss_curve_)

    @on_every_option
    def test_warm_start_goes_on(self, options):
        model = quick(solver="gd", warm_start=True, max_iter=10, **options)
        model.fit(X, Y).fit(X, Y)
        at_once = quick(solver="gd", max_iter=20, **options).fit(X, Y)
        assert_allclose(model.coef_, at_once.coef_)
        assert_allclose(model.decision_function(X), at_once.decision_function(X))
        with pytest.raises(ValueError, match="do not have the shapes"):
            model.set_params(n_heads=5).fit(X, Y)

    def test_a_frozen_head_with_a_layer_comes_from_an_earlier_fit(self):
        model = quick(head="mlp", warm_start=True).fit(X, Y)
        head = ("head_hidden_coef_", "head_hidden_intercept_", "coef_", "intercept_")
        before = {name: getattr(model, name).copy() for name in head}
        attention = model.attention_coef_.copy()
        model.set_params(freeze_head=True).fit(X, Y)
        for name, value in before.items():
            assert_array_equal(getattr(model, name), value)
        assert np.abs(model.attention_coef_ - attention).max() > 0.01
        with pytest.raises(ValueError, match=r"needs a head: call fit first"):
            quick(head="mlp", freeze_head=True).partial_fit(X, Y, classes=[0, 1])

    def test_a_fit_forgets_parts_that_it_does_not_have(self):
        model = quick(**OPTIONS["all"]).fit(X, Y)
        plain = {
            "head": "linear", "scoring": "linear", "pooling": "attention",
            "n_heads": 1, "diversity": 0.0, "hidden_size": 0,
        }  # fmt: skip
        model.set_params(**plain).fit(X, Y)
        fresh = quick().fit(X, Y)
        assert vars(model).keys() == vars(fresh).keys()
        assert_array_equal(model.decision_function(X), fresh.decision_function(X))

    @on_every_option
    @pytest.mark.parametrize("solver", ["lbfgs", "gd", "ngd", "polyak", "mirror"])
    def test_every_solver_learns(self, options, solver):
        extra = {"mirror": {"mirror_p": 1.5}, "gd": {"learning_rate_init": 1.0}}
        options = {"max_iter": 30, **extra.get(solver, {}), **options}
        model = quick(solver=solver, **options).fit(X, Y)
        assert min(model.loss_curve_) < model.loss_curve_[0] - 0.02

    def test_normalised_steps_move_each_part_by_the_same_length(self):
        options = {"scoring": "gated", "gate_size": 2, "head": "mlp"}
        options |= {"solver": "ngd", "alpha": 0, "warm_start": True}
        model = quick(**options, max_iter=2).fit(X, Y)
        parts = {
            "tanh": ["tanh_coef_"],
            "sigmoid": ["sigmoid_coef_"],
            "attention": ["attention_coef_"],
            "head": [
                "head_hidden_coef_", "head_hidden_intercept_", "coef_", "intercept_",
            ],
        }  # fmt: skip
        before = {
            n: getattr(model, n).copy() for names in parts.values() for n in names
        }
        model.set_params(max_iter=1).fit(X, Y)
        for names in parts.values():
            moved = [np.ravel(getattr(model, name) - before[name]) for name in names]
            assert np.linalg.norm(np.concatenate(moved)) == pytest.approx(0.1)

    @pytest.mark.parametrize(
        "options",
        [{"pooling": ("attention", "max")}, {"scoring": "gated"}],
        ids=["pooling", "gated"],
    )
    def test_polyak_with_a_frozen_head_estimates_the_infimum(self, options):
        """The known infimum is that of attention alone; every step must still help."""
        width = 6 if "pooling" in options else 3
        model = quick(solver="polyak", freeze_head=True, alpha=0, **options)
        model.fit(X, Y, coef_init=RNG.randn(width))
        losses = np.array(model.loss_curve_)
        assert (np.diff(losses) <= 1e-12).all()
        assert losses[-1] < losses[0]


class TestTheory:
    def test_the_monitor_looks_at_gated_features(self):
        """With the gates seen as given, the prompt has an attention SVM of its own."""
        samples, y = X[:6], np.arange(6) % 2
        model = quick(
            scoring="gated", gate_size=30, solver="ngd", alpha=0, max_iter=300
        )
        monitor = ImplicitBiasMonitor(every=300)
        model.set_callbacks(monitor).fit(samples, y)
        last = monitor.to_frame().iloc[-1]
        gated = np.tanh(samples @ model.tanh_coef_)
        gated = gated * expit(samples @ model.sigmoid_coef_)
        svm = attention_svm(gated, model.selected_tokens(samples))
        assert svm.status == "optimal"
        assert last["alignment"] == pytest.approx(
            alignment(model.attention_coef_, svm.coef), abs=1e-4
        )

    def test_normalised_descent_reaches_the_svm_beside_fixed_extremes(self):
        """A maximum of raw tokens shifts the decision and leaves the implicit bias."""
        rng = np.random.RandomState(1)
        samples = rng.randn(6, 5, 10)
        samples /= np.linalg.norm(samples, axis=2, keepdims=True)
        y = np.arange(6) % 2
        model = quick(
            pooling=("attention", "max"), solver="ngd", alpha=0, freeze_head=True,
            max_iter=1000,
        )  # fmt: skip
        coef = np.concatenate([rng.randn(10), 0.1 * rng.randn(10)])
        model.fit(samples, y, coef_init=coef)
        svm = attention_svm(samples, model.selected_tokens(samples))
        assert svm.status == "optimal"
        assert alignment(model.attention_coef_, svm.coef) > 0.99
