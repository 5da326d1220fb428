"""`AttentionClassifier`: its parameters, how it is fitted, and what it then offers."""

import logging

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skattn import AttentionClassifier, FeatureTokenizer
from skattn.attention import RaggedTokens, TokenBatch
from skattn.datasets import make_token_selection
from skattn.mappings import softmax

RNG = np.random.RandomState(0)
X = RNG.randn(30, 4, 3)
Y = (X[:, :, 0].max(axis=1) > np.median(X[:, :, 0].max(axis=1))).astype(int)
Y3 = np.arange(30) % 3
QUERY = RNG.randn(30, 2)

QUICK = {"max_iter": 20, "tol": 0, "learning_rate_init": 0.1}


def quick(**options):
    return AttentionClassifier(**{**QUICK, **options})


def log_loss(decision, y):
    return np.logaddexp(0, -(2 * y - 1) * decision).mean()


class TestParameters:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("query", "middle"),
            ("query", -1),
            ("parameterization", "V"),
            ("rank", 0),
            ("mapping", "relu"),
            ("n_heads", 0),
            ("hidden_size", -1),
            ("solver", "sgd"),
            ("learning_rate_init", 0.0),
            ("alpha", -1.0),
            ("max_iter", 0),
            ("batch_size", "all"),
            ("tol", -1.0),
            ("n_iter_no_change", 0),
            ("early_stopping", "yes"),
            ("validation_fraction", 1.0),
            ("class_weight", "even"),
            ("warm_start", "yes"),
            ("freeze_head", "yes"),
            ("device", None),
            ("dtype", "float16"),
            ("random_state", "seed"),
            ("verbose", "loud"),
        ],
    )
    def test_an_invalid_value_is_named(self, name, value):
        message = f"The '{name}' parameter of AttentionClassifier must be"
        with pytest.raises(ValueError, match=message):
            quick(**{name: value}).fit(X, Y)

    def test_every_parameter_has_a_constraint(self):
        names = AttentionClassifier().get_params()
        assert names.keys() == AttentionClassifier._parameter_constraints.keys()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"parameterization": "KQ"}, r"parameterization='KQ' needs queries"),
            ({"rank": 2}, r"rank=2 needs parameterization='KQ'"),
            ({"solver": "lbfgs", "batch_size": 5}, r"batch_size=5 contradicts"),
            ({"freeze_head": True}, r"freeze_head=True needs coef_init"),
            ({"query": "given"}, r"query='given', but there is no query"),
            (
                {"query": 9},
                r"query=9 is the position of a token that sample 0 does not",
            ),
            (
                {"early_stopping": True, "validation_fraction": 0.01},
                r"test_size = 1 should be greater or equal to the number of classes",
            ),
        ],
    )
    def test_a_contradiction_is_named(self, options, message):
        with pytest.raises(ValueError, match=message):
            quick(**options).fit(X, Y)

    def test_a_query_that_would_not_be_looked_at(self):
        with pytest.raises(ValueError, match="query='prompt' and would not look at it"):
            quick().fit(X, Y, query=QUERY)
        model = quick().fit(X, Y)
        with pytest.raises(ValueError, match="would not look at it"):
            model.predict(X, query=QUERY)

    def test_queries_of_another_width(self):
        model = quick(query="given").fit(X, Y, query=QUERY)
        assert model.n_query_features_in_ == 2
        with pytest.raises(ValueError, match=r"3 features, but .* expecting 2"):
            model.predict(X, query=np.ones((30, 3)))

    @pytest.mark.parametrize(
        ("device", "dtype"),
        [("nowhere", "float64"), ("cuda:99", "float32"), ("meta:x", "float64")],
    )
    def test_an_unusable_device_is_named(self, device, dtype):
        message = f"device='{device}' cannot be used with dtype='{dtype}'"
        with pytest.raises(ValueError, match=message):
            quick(device=device, dtype=dtype).fit(X, Y)

    def test_cpu_is_a_device(self):
        assert_allclose(
            quick(device="cpu").fit(X, Y).coef_, quick().fit(X, Y).coef_, rtol=1e-12
        )

    def test_a_loss_that_explodes(self):
        model = quick(solver="gd", learning_rate_init=1e200, alpha=1e100)
        with pytest.raises(ValueError, match="learning_rate_init"):
            model.fit(X, Y)

    def test_missing_labels(self):
        with pytest.raises(ValueError, match="requires y to be passed"):
            quick().fit(X, None)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            quick().fit(X, Y[:-1])


class TestObjective:
    def test_starts_at_even_odds(self):
        assert quick().fit(X, Y).loss_curve_[0] == pytest.approx(np.log(2))
        assert quick().fit(X, Y3).loss_curve_[0] == pytest.approx(np.log(3))

    @pytest.mark.parametrize("mapping", ["softmax", "sparsemax", "entmax15"])
    def test_full_batch_is_the_stated_objective(self, mapping):
        """Mean pooling is what a prompt of zeros gives, by any mapping."""
        coef, weights = np.array([1.0, -2.0, 0.5]), RNG.uniform(0.1, 2, 30)
        model = quick(alpha=0.3, mapping=mapping)
        model.fit(X, Y, coef_init=coef, intercept_init=0.7, sample_weight=weights)
        losses = np.logaddexp(0, -(2 * Y - 1) * (X.mean(axis=1) @ coef + 0.7))
        expected = np.average(losses, weights=weights) + 0.15 * coef @ coef
        assert model.loss_curve_[0] == pytest.approx(expected)

    def test_the_penalty_of_attention_and_several_classes(self):
        coef, prompt = RNG.randn(3, 3), RNG.randn(3)
        model = quick(alpha=0.3)
        model.fit(X, Y3, coef_init=coef, attention_coef_init=prompt)
        pooled = np.einsum("nt,ntd->nd", softmax(X @ prompt), X)
        losses = -log_softmax(pooled @ coef.T, axis=1)[np.arange(30), Y3]
        expected = losses.mean() + 0.15 * (np.sum(coef**2) + np.sum(prompt**2))
        assert model.loss_curve_[0] == pytest.approx(expected)

    def test_equal_tokens_leave_logistic_regression(self):
        """No attention can tell them apart: it stays at zero, the head is convex."""
        equal = np.repeat(X[:, :1], 3, axis=1)
        alpha = 0.01
        for y in (Y, Y3):
            model = quick(solver="lbfgs", alpha=alpha, max_iter=500, tol=1e-9)
            model.fit(equal, y)
            reference = LogisticRegression(C=1 / (alpha * 30), tol=1e-10, max_iter=999)
            reference.fit(equal[:, 0], y)
            assert_allclose(model.attention_coef_, 0, atol=1e-12)
            assert_allclose(model.coef_, reference.coef_, atol=1e-5)
            assert_allclose(
                model.predict_proba(equal),
                reference.predict_proba(equal[:, 0]),
                atol=1e-5,
            )

    def test_gradient_descent_follows_the_closed_form_gradient(self):
        """One step from mean pooling, computed by hand."""
        coef, rate = np.array([1.0, -2.0, 0.5]), 0.1
        model = quick(solver="gd", alpha=0, max_iter=1, learning_rate_init=rate)
        model.fit(X, Y, coef_init=coef)
        signs, mean = 2 * Y - 1, X.mean(axis=1)
        slopes = -signs / (1 + np.exp(signs * (mean @ coef))) / 30
        assert_allclose(model.coef_[0], coef - rate * slopes @ mean)
        assert_allclose(model.intercept_, -rate * slopes.sum(), atol=1e-15)
        votes = X @ coef
        spread = (votes - votes.mean(axis=1, keepdims=True)) / 4
        gradient = np.einsum("n,nt,ntd->d", slopes, spread, X)
        assert_allclose(model.attention_coef_, -rate * gradient)

    def test_normalised_steps_have_a_fixed_length(self):
        model = quick(solver="ngd", alpha=0, max_iter=1, learning_rate_init=0.3)
        start = RNG.randn(3)
        coef = RNG.randn(3)
        model.fit(X, Y, coef_init=coef, attention_coef_init=start)
        assert np.linalg.norm(model.attention_coef_ - start) == pytest.approx(0.3)
        step = np.append(model.coef_[0] - coef, model.intercept_)
        assert np.linalg.norm(step) == pytest.approx(0.3)

    def test_a_weight_on_classes_is_a_weight_on_samples(self):
        by_class = quick(class_weight={0: 3.0, 1: 0.5}).fit(X, Y)
        by_sample = quick().fit(X, Y, sample_weight=np.where(Y, 0.5, 3.0))
        assert_allclose(by_class.coef_, by_sample.coef_)

    def test_balanced_classes_outvote_nobody(self):
        few = np.arange(30) < 4
        balanced = quick(class_weight="balanced").fit(X, few)
        by_sample = quick().fit(X, few, sample_weight=np.where(few, 30 / 8, 30 / 52))
        assert_allclose(balanced.coef_, by_sample.coef_)

    def test_a_class_without_weight_counts_as_absent_when_balancing(self):
        weights = (Y3 != 1).astype(float)
        balanced = quick(class_weight="balanced")
        balanced.fit(X, Y3, sample_weight=weights)
        plain = quick().fit(X, Y3, sample_weight=weights)
        assert_allclose(balanced.coef_, plain.coef_)
        assert 1 not in balanced.predict(X)

    def test_no_weight_at_all(self):
        with pytest.raises(ValueError, match="at least one non-zero"):
            quick(class_weight="balanced").fit(X, Y, sample_weight=np.zeros(30))


class TestStopping:
    def test_warns_when_max_iter_comes_first(self):
        with pytest.warns(ConvergenceWarning, match="max_iter=3 before") as record:
            AttentionClassifier(max_iter=3).fit(X, Y)
        assert record[0].filename == __file__

    def test_tol_stops_and_zero_never_does(self, recwarn):
        model = AttentionClassifier(tol=0.5, n_iter_no_change=4, max_iter=500).fit(X, Y)
        # The first epoch is an improvement, the next four and one are not.
        assert model.n_iter_ == 6
        assert quick(tol=0, max_iter=40).fit(X, Y).n_iter_ == 40
        assert not recwarn

    @pytest.mark.parametrize("solver", ["adam", "lbfgs", "gd", "ngd"])
    def test_every_solver_learns(self, solver):
        rates = {"adam": 0.05, "gd": 1.0, "ngd": 0.05, "lbfgs": 1.0}
        model = quick(solver=solver, learning_rate_init=rates[solver], max_iter=100)
        model.fit(X, Y)
        assert model.loss_curve_[-1] < 0.6 < model.loss_curve_[0]
        assert model.best_loss_ == min(model.loss_curve_)

    def test_early_stopping_restores_the_best(self):
        model = quick(
            early_stopping=True,
            validation_fraction=0.4,
            solver="ngd",
            learning_rate_init=1.0,
            max_iter=30,
            random_state=7,
        )
        model.fit(X, Y)
        assert len(model.validation_scores_) == 30
        assert model.best_validation_score_ == max(model.validation_scores_)
        # Otherwise nothing would have to be restored.
        assert model.validation_scores_[-1] < model.best_validation_score_
        _, held_out = train_test_split(
            np.arange(30), test_size=0.4, stratify=Y, random_state=7
        )
        assert model.score(X[held_out], Y[held_out]) == model.best_validation_score_

    def test_early_stopping_scores_with_weights(self):
        weights = RNG.uniform(0.1, 3, 30)
        model = quick(early_stopping=True, validation_fraction=0.4, random_state=7)
        model.fit(X, Y, sample_weight=weights)
        _, held_out = train_test_split(
            np.arange(30), test_size=0.4, stratify=Y, random_state=7
        )
        assert model.best_validation_score_ == pytest.approx(
            model.score(X[held_out], Y[held_out], sample_weight=weights[held_out])
        )

    def test_early_stopping_stops(self):
        model = AttentionClassifier(early_stopping=True, n_iter_no_change=3)
        assert model.fit(X, Y).n_iter_ < 100
        assert quick().fit(X, Y).validation_scores_ is None

    def test_mini_batches_learn(self):
        model = quick(batch_size=7, random_state=0, max_iter=100).fit(X, Y)
        assert model.score(X, Y) > 0.8
        assert model.n_iter_ == 100


class TestPartialFit:
    def test_calls_in_a_row_equal_one_fit(self):
        for solver in ("adam", "gd", "ngd"):
            fitted = quick(solver=solver, max_iter=5).fit(X, Y)
            model = quick(solver=solver)
            for _ in range(5):
                model.partial_fit(X, Y, classes=[0, 1])
            assert_allclose(model.coef_, fitted.coef_)
            assert_allclose(model.attention_coef_, fitted.attention_coef_)
            assert_allclose(model.loss_curve_, fitted.loss_curve_)
            assert model.n_iter_ == 5

    def test_classes_come_first(self):
        with pytest.raises(
            ValueError, match="classes must be passed on the first call"
        ):
            quick().partial_fit(X, Y)
        model = quick().partial_fit(X[Y == 1], Y[Y == 1], classes=[0, 1, 2])
        assert_array_equal(model.classes_, [0, 1, 2])
        model.partial_fit(X, Y)
        with pytest.raises(ValueError, match=r"classes that are not in classes_.*3"):
            model.partial_fit(X, Y + 2)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"early_stopping": True}, "does not support early_stopping=True"),
            ({"class_weight": "balanced"}, "class_weight='balanced' is not supported"),
            ({"freeze_head": True}, "freeze_head=True needs a head"),
        ],
    )
    def test_what_it_refuses(self, options, message):
        with pytest.raises(ValueError, match=message):
            quick(**options).partial_fit(X, Y, classes=[0, 1])

    def test_is_absent_for_lbfgs(self):
        assert not hasattr(quick(solver="lbfgs"), "partial_fit")
        with pytest.raises(AttributeError, match="has no attribute 'partial_fit'"):
            quick(solver="lbfgs").partial_fit  # noqa: B018

    def test_mini_batches_are_shuffled_anew_in_each_call(self):
        models = [quick(batch_size=7, random_state=0) for _ in range(2)]
        for model in models:
            for _ in range(3):
                model.partial_fit(X, Y, classes=[0, 1])
        assert_array_equal(models[0].coef_, models[1].coef_)
        fitted = quick(batch_size=7, random_state=0, max_iter=3).fit(X, Y)
        assert_allclose(models[0].coef_, fitted.coef_)


class TestWhereItStarts:
    def test_warm_start_goes_on(self):
        model = quick(solver="gd", warm_start=True, max_iter=10)
        model.fit(X, Y).fit(X, Y)
        at_once = quick(solver="gd", max_iter=20).fit(X, Y)
        assert_allclose(model.coef_, at_once.coef_)
        assert model.loss_curve_ == pytest.approx(at_once.loss_curve_[10:])

    def test_warm_start_refuses_other_data(self):
        model = quick(warm_start=True).fit(X, Y)
        with pytest.raises(ValueError, match="goes on with the classes"):
            model.fit(X, Y + 1)
        with pytest.raises(ValueError, match="do not have the shapes"):
            model.fit(X[:, :, :2], Y)

    def test_a_frozen_head_stays(self):
        coef = np.array([[1.0, -2.0, 0.5]])
        model = quick(freeze_head=True).fit(X, Y, coef_init=coef, intercept_init=0.3)
        assert_array_equal(model.coef_, coef)
        assert_array_equal(model.intercept_, [0.3])
        assert model.loss_curve_[-1] < model.loss_curve_[0]
        # A fixed head is not penalised.
        start = log_loss(X.mean(axis=1) @ coef[0] + 0.3, Y)
        assert model.loss_curve_[0] == pytest.approx(start)

    def test_a_frozen_head_may_come_from_an_earlier_fit(self):
        model = quick(warm_start=True).fit(X, Y)
        coef = model.coef_.copy()
        model.set_params(freeze_head=True).fit(X, Y)
        assert_array_equal(model.coef_, coef)

    def test_initial_weights_are_copied(self):
        coef, prompt = np.ones((1, 3)), np.ones(3)
        quick().fit(X, Y, coef_init=coef, attention_coef_init=prompt)
        assert_array_equal(coef, np.ones((1, 3)))
        assert_array_equal(prompt, np.ones(3))

    def test_keys_and_queries_start_as_a_pair(self):
        keys, queries = RNG.randn(3, 1), RNG.randn(2, 1)
        model = quick(query="given", parameterization="KQ", rank=1, max_iter=1)
        model.fit(X, Y, query=QUERY, attention_coef_init=(keys, queries))
        assert_allclose(model.key_coef_, keys, atol=0.2)
        assert_allclose(model.attention_coef_, model.key_coef_ @ model.query_coef_.T)
        with pytest.raises(ValueError, match=r"pair \(keys, queries\)"):
            model.fit(X, Y, query=QUERY, attention_coef_init=keys @ queries.T)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"coef_init": np.ones(4)}, r"coef_init must have shape \(1, 3\)"),
            (
                {"coef_init": np.ones(3), "intercept_init": [1, 2]},
                r"intercept_init must have shape \(1,\)",
            ),
            (
                {"attention_coef_init": np.ones((3, 3))},
                r"attention_coef_init must have shape \(3,\)",
            ),
            ({"coef_init": [1, np.nan, 1]}, r"coef_init contains NaN"),
        ],
    )
    def test_wrong_initial_weights_are_named(self, options, message):
        with pytest.raises(ValueError, match=message):
            quick().fit(X, Y, **options)

    def test_initial_weights_depend_on_the_seed_only(self):
        models = [
            AttentionClassifier(
                query="mean", n_heads=2, hidden_size=3, max_iter=1, random_state=0,
                solver="gd", learning_rate_init=1e-12, tol=0,
            ).fit(X[:n], Y[:n])
            for n in (10, 30)
        ]  # fmt: skip
        assert_allclose(
            models[0].attention_coef_, models[1].attention_coef_, rtol=0, atol=1e-9
        )


class TestShapes:
    @pytest.mark.parametrize(
        ("options", "shape"),
        [
            ({}, (3,)),
            ({"query": "mean"}, (3, 3)),
            ({"query": "given"}, (3, 2)),
            ({"n_heads": 2}, (2, 3)),
            ({"n_heads": 2, "query": "given"}, (2, 3, 2)),
            ({"n_heads": 2, "query": "first", "hidden_size": 5}, (2, 5, 5)),
            ({"query": "given", "parameterization": "KQ"}, (3, 2)),
            ({"query": "given", "parameterization": "KQ", "n_heads": 2}, (2, 3, 2)),
        ],
    )
    @pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "multiclass"])
    def test_of_fitted_weights(self, options, shape, y):
        given = {"query": QUERY} if options.get("query") == "given" else {}
        model = quick(random_state=0, **options).fit(X, y, **given)
        n_outputs = 1 if y is Y else 3
        width, n_heads = options.get("hidden_size", 3), options.get("n_heads", 1)
        assert model.attention_coef_.shape == shape
        assert model.coef_.shape == (n_outputs, n_heads * width)
        assert model.intercept_.shape == (n_outputs,)
        assert model.n_token_features_ == width
        assert model.transform(X, **given).shape == (30, n_heads * width)
        assert model.n_iter_ == len(model.loss_curve_) == 20

    def test_probabilities(self):
        for y, n_classes in ((Y, 2), (Y3, 3)):
            model = quick().fit(X, y)
            probabilities = model.predict_proba(X)
            assert probabilities.shape == (30, n_classes)
            assert_allclose(probabilities.sum(axis=1), 1)
            assert_allclose(np.exp(model.predict_log_proba(X)), probabilities)
            assert_array_equal(
                model.predict(X), model.classes_[probabilities.argmax(axis=1)]
            )
        decision = quick().fit(X, Y).decision_function(X)
        assert_allclose(
            quick().fit(X, Y).predict_proba(X)[:, 1], 1 / (1 + np.exp(-decision))
        )

    def test_float32_is_the_precision_of_all_weights(self):
        model = quick(dtype="float32", n_heads=2, hidden_size=3, random_state=0)
        model.fit(X, Y)
        for name in ("attention_coef_", "coef_", "intercept_", "hidden_coef_"):
            assert getattr(model, name).dtype == np.float32
        double = clone(model).set_params(dtype="float64").fit(X, Y)
        assert_allclose(
            model.decision_function(X), double.decision_function(X), atol=1e-4
        )


class TestModule:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"query": "mean", "n_heads": 2, "hidden_size": 4, "mapping": "entmax15"},
            {"query": "given", "parameterization": "KQ", "rank": 1},
        ],
    )
    @pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "multiclass"])
    def test_gives_the_decision_function(self, options, y):
        given = {"query": QUERY} if options.get("query") == "given" else {}
        model = quick(random_state=0, **options).fit(X, y, **given)
        module = model.to_module()
        tokens = RaggedTokens.from_arrays(X.reshape(-1, 3), np.arange(0, 121, 4))
        query = torch.tensor(QUERY) if given else None
        with torch.no_grad():
            logits = module(TokenBatch(tokens, query=query)).numpy()
        decision = model.decision_function(X, **given)
        assert_allclose(logits.squeeze(), decision, atol=1e-12)

    def test_shares_no_memory(self):
        model = quick().fit(X, Y)
        before = model.decision_function(X)
        with torch.no_grad():
            for parameter in model.to_module().parameters():
                parameter.add_(1.0)
        assert_array_equal(model.decision_function(X), before)


class TestTables:
    @pytest.mark.parametrize("query", ["prompt", "mean", "first", "last", 1])
    @pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "multiclass"])
    def test_equal_explicit_tokens(self, query, y):
        """The tokens of a table, never laid out, against `FeatureTokenizer`'s.

        By gradient descent, since the first step of Adam blows rounding up where the
        gradient is zero.
        """
        table = X[:, 0]
        model = quick(query=query, solver="gd").fit(table, y)
        tokenizer = FeatureTokenizer()
        tokens = tokenizer.fit_transform(table)
        explicit = quick(query=query, solver="gd").fit(tokens, y)
        assert model.n_features_in_ == 3
        assert model.n_token_features_ == explicit.n_features_in_ == 6
        for name in ("attention_coef_", "coef_", "intercept_", "loss_curve_"):
            assert_allclose(
                getattr(model, name), getattr(explicit, name), rtol=1e-9, atol=1e-12
            )
        for name in (
            "decision_function",
            "transform",
            "attention_weights",
            "token_scores",
            "selected_tokens",
            "token_contributions",
        ):
            assert_allclose(
                getattr(model, name)(table), getattr(explicit, name)(tokens), atol=1e-12
            )

    def test_hidden_layer_learns_an_embedding_of_each_cell(self):
        """The hidden token of cell x in column t is gelu(x w_t + b_t)."""
        table = X[:, 0]
        model = quick(hidden_size=4, random_state=0).fit(table, Y)
        which, times_cell = np.split(model.hidden_coef_, 2)
        hidden = table[:, :, None] * times_cell + which + model.hidden_intercept_
        hidden = hidden * ndtr(hidden)
        weights = softmax(hidden @ model.attention_coef_)
        pooled = np.einsum("nt,ntd->nd", weights, hidden)
        assert_allclose(model.attention_weights(table), weights, atol=1e-12)
        assert_allclose(
            model.decision_function(table),
            pooled @ model.coef_[0] + model.intercept_,
            atol=1e-12,
        )


class TestVerbose:
    def test_logs_every_epoch(self, caplog):
        with caplog.at_level(logging.INFO, logger="skattn"):
            model = quick(verbose=True, max_iter=3).fit(X, Y)
        messages = [record.getMessage() for record in caplog.records]
        assert messages == [
            f"Epoch {number}, loss = {loss:.8f}"
            for number, loss in enumerate(model.loss_curve_, start=1)
        ]

    def test_is_silent_otherwise(self, caplog, capsys):
        with caplog.at_level(logging.INFO, logger="skattn"):
            quick().fit(X, Y)
        assert not caplog.records
        assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("seed", range(5))
def test_finds_planted_tokens(seed):
    samples, y, planted = make_token_selection(n_samples=400, random_state=seed)
    model = AttentionClassifier(random_state=0).fit(samples[:200], y[:200])
    found = model.selected_tokens(samples[200:]) == planted[200:]
    assert found.mean() >= 0.97


def test_a_class_dependent_direction_needs_two_heads_or_a_hidden_layer():
    """The documented case that no single linear prompt can solve."""
    samples, y, planted = make_token_selection(
        n_samples=400, shared_direction=False, random_state=0
    )

    def fresh(**options):
        """Return the share of planted tokens that a head selects, and the accuracy."""
        model = AttentionClassifier(random_state=0, **options)
        model.fit(samples[:200], y[:200])
        selected = model.selected_tokens(samples[200:]).reshape(200, -1)
        found = (selected == planted[200:, None]).any(axis=1).mean()
        return found, model.score(samples[200:], y[200:])

    found_by_prompt, accuracy_of_prompt = fresh()
    assert found_by_prompt < 0.6
    found_by_heads, accuracy_of_heads = fresh(n_heads=2)
    assert found_by_heads > 0.97
    assert accuracy_of_heads >= accuracy_of_prompt
    assert fresh(hidden_size=8)[1] >= accuracy_of_prompt
