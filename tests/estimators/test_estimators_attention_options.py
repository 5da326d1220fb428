"""Encoder, normalised and scaled attention, mappings, regularisers: as parameters."""

import logging
import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from skattn import AttentionClassifier, AttentionRegressor, FeatureTokenizer, Tokens
from skattn.datasets import make_token_selection
from skattn.mappings import learned_alpha
from skattn.theory import ImplicitBiasMonitor

X, Y, PLANTED = make_token_selection(
    n_samples=80, n_tokens=(2, 8), signal=3.0, random_state=0
)
QUICK = {"max_iter": 30, "tol": 0, "learning_rate_init": 0.05, "random_state": 0}
TABLE = np.random.default_rng(0).normal(size=(40, 6))
LABELS = (TABLE[:, 0] > 0).astype(int)

SPARSE = [
    ("sparsemax", None),
    ("entmax15", None),
    ("entmax", None),
    ("entmax", {"alpha": 1.3}),
    ("entmax", {"alpha": 3.0}),
    ("topk", {"k": 2}),
    ("topk", {"mass": 0.6}),
    ("topk", {"power": (1.0, 0.5)}),
]


class TestMappings:
    @pytest.mark.parametrize(("mapping", "params"), SPARSE)
    def test_sparse_ones_find_the_token_and_give_true_zeros(self, mapping, params):
        model = AttentionClassifier(mapping=mapping, mapping_params=params, **QUICK)
        model.set_params(max_iter=150).fit(X, Y)
        weights = model.attention_weights(X)
        assert np.mean(np.concatenate(weights) == 0) > 0.1
        assert_allclose([w.sum() for w in weights], 1.0)
        assert model.score(X, Y) > 0.9
        assert np.mean(model.selected_tokens(X) == PLANTED) > 0.8

    @pytest.mark.parametrize(
        ("params", "count"),
        [
            ({"k": 3}, lambda n: min(3, n)),
            ({"power": (1.0, 0.5)}, lambda n: np.ceil(n**0.5)),
        ],
    )
    def test_topk_keeps_as_many_as_it_says(self, params, count):
        model = AttentionClassifier(mapping="topk", mapping_params=params, **QUICK)
        for weights in model.fit(X, Y).attention_weights(X):
            assert (weights > 0).sum() == count(len(weights))

    def test_learned_orders_are_reported(self):
        model = AttentionClassifier(mapping="entmax", n_heads=2, **QUICK).fit(X, Y)
        assert model.entmax_alpha_.shape == (2,)
        assert_allclose(model.entmax_alpha_, learned_alpha(model.mapping_alpha_raw_))
        assert (model.entmax_alpha_ != 1.5).all()
        model.set_params(mapping="softmax").fit(X, Y)
        assert not hasattr(model, "entmax_alpha_")

    @pytest.mark.parametrize("mapping", ["linear", "elu"])
    def test_baselines_learn(self, mapping):
        model = AttentionClassifier(mapping=mapping, **QUICK).fit(X, Y)
        assert model.score(X, Y) > 0.7
        contributions = model.token_contributions(X)
        assert_allclose(
            [c.sum() for c in contributions] + model.intercept_,
            model.decision_function(X),
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mapping_params": {"k": 3}}, "k"),
            ({"mapping": "topk", "mapping_params": {"k": 3, "mass": 0.5}}, "mass"),
            ({"mapping": "entmax", "mapping_params": {"alpha": 0.5}}, "alpha"),
            ({"mapping": "linear", "n_heads": 2, "diversity": 0.1}, "diversity"),
        ],
    )
    def test_contradictions(self, options, message):
        with pytest.raises(ValueError, match=message):
            AttentionClassifier(**options).fit(X, Y)


class TestNormalisation:
    def test_a_prediction_never_depends_on_its_batch(self):
        model = AttentionClassifier(
            attention_norm="batch",
            head_scale=(1, 2),
            n_heads=2,
            n_layers=1,
            hidden_size=8,
            position="rotary",
            **QUICK,
        ).fit(X, Y)
        together = model.decision_function(X)
        alone = [model.decision_function([sample])[0] for sample in X]
        assert_allclose(together, alone, atol=1e-10)
        assert_allclose(together[::-1], model.decision_function(X[::-1]), atol=1e-10)

    def test_scale_of_features_does_not_matter_to_normalised_scores(self):
        model = AttentionClassifier(attention_norm="batch", beta=1.0, **QUICK)
        model.fit(X, Y)
        prompt = model.attention_coef_.copy()
        plain = model.token_scores(X)
        scales = np.geomspace(0.1, 10, X[0].shape[1])
        model.attention_coef_ = prompt * scales
        # Only the constant in the variance is not scaled.
        scaled = model.token_scores([sample * scales for sample in X])
        long = [i for i, sample in enumerate(X) if len(sample) > 3]
        for i in long:
            assert_allclose(scaled[i], plain[i], rtol=2e-2, atol=2e-2)

    def test_beta_is_learned_or_fixed(self):
        learned = AttentionClassifier(attention_norm="batch", n_heads=2, **QUICK)
        learned.fit(X, Y)
        assert learned.attention_beta_.shape == (2,)
        assert (learned.attention_beta_ != 0).all()
        fixed = clone(learned).set_params(beta=0.3).fit(X, Y)
        assert not hasattr(fixed, "attention_beta_")
        assert not np.allclose(fixed.decision_function(X), learned.decision_function(X))

    def test_weights_are_even_within_a_window(self):
        model = AttentionClassifier(head_scale=3, **QUICK).fit(X, Y)
        for weights in model.attention_weights(X):
            for start in range(0, len(weights), 3):
                assert np.ptp(weights[start : start + 3]) < 1e-15
            assert np.isclose(weights.sum(), 1)

    def test_windows_are_those_of_positions_as_given(self):
        model = AttentionClassifier(head_scale=2, **QUICK).fit(X, Y)
        padded = np.full((len(X), 12, X[0].shape[1]), np.nan)
        for row, sample in zip(padded, X, strict=True):
            row[2 : 2 + len(sample)] = sample
        assert_allclose(model.predict_proba(padded), model.predict_proba(X))
        shifted = np.roll(padded, 1, axis=1)
        assert not np.allclose(model.predict_proba(shifted), model.predict_proba(X))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beta": 0.5}, "beta=0.5 needs attention_norm='batch'"),
            ({"head_scale": [1, 2]}, "head_scale"),
            ({"head_scale": [0], "n_heads": 1}, "head_scale"),
        ],
    )
    def test_contradictions(self, options, message):
        with pytest.raises(ValueError, match=message):
            AttentionClassifier(**options).fit(X, Y)

    @pytest.mark.parametrize(
        "options", [{"attention_norm": "batch"}, {"head_scale": 2}]
    )
    def test_margins_of_other_scores_are_refused(self, options):
        model = AttentionClassifier(**options, **QUICK)
        model.set_callbacks(ImplicitBiasMonitor())
        name = next(iter(options))
        with pytest.raises(ValueError, match=f"{name}=.* makes others"):
            model.fit(X, Y)


class TestEncoder:
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_tokens_that_only_matter_together_are_found(self):
        # The label is whether the loud token comes before the marked one.
        rng = np.random.default_rng(0)
        samples = 0.3 * rng.normal(size=(200, 6, 3))
        loud, marked = np.array([rng.permutation(6)[:2] for _ in range(200)]).T
        rows = np.arange(200)
        samples[rows, loud, 0] += 2.0
        samples[rows, marked, 1] += 2.0
        y = loud < marked
        scores = {
            name: cross_val_score(
                AttentionClassifier(
                    **{"learning_rate_init": 0.003} | options,
                    random_state=0,
                    max_iter=150,
                ),
                samples,
                y,
                cv=3,
            ).mean()
            for name, options in {
                "pooling": {"hidden_size": 32, "learning_rate_init": 0.02},
                "no positions": {"n_layers": 1, "hidden_size": 32},
                "rotary": {"n_layers": 2, "hidden_size": 32, "position": "rotary"},
                "learned": {"n_layers": 2, "hidden_size": 32, "position": "learned"},
            }.items()
        }
        assert max(scores["pooling"], scores["no positions"]) < 0.65
        assert min(scores["rotary"], scores["learned"]) > 0.85

    def test_longer_samples_than_any_at_fit(self):
        for position in ("learned", "sinusoidal", "rotary"):
            model = AttentionClassifier(
                n_layers=1, hidden_size=4, position=position, **QUICK
            ).fit(X, Y)
            long = np.random.default_rng(0).normal(size=(1, 40, X[0].shape[1]))
            assert np.isfinite(model.predict_proba(long)).all()

    def test_width_is_64_unless_given(self):
        model = AttentionClassifier(n_layers=1, max_iter=2, tol=0).fit(X, Y)
        assert model.hidden_coef_.shape[1] == model.n_token_features_ == 64
        assert model.transform(X).shape == (80, 64)

    def test_weights_are_arrays_and_pickles_predict_alike(self):
        model = AttentionClassifier(
            n_layers=2, hidden_size=4, position="learned", **QUICK
        ).fit(X, Y)
        assert all(isinstance(v, np.ndarray) for v in model.encoder_.values())
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        module = model.to_module()
        assert not module.training
        names = {name for name, _ in module.named_parameters()}
        assert {f"encoder.{name}" for name in model.encoder_} <= names

    def test_warm_start_goes_on(self):
        options = {"n_layers": 1, "hidden_size": 4, "solver": "gd", **QUICK}
        whole = AttentionClassifier(**options).fit(X, Y)
        parts = AttentionClassifier(**options | {"max_iter": 15}, warm_start=True)
        parts.fit(X, Y).fit(X, Y)
        assert_allclose(parts.decision_function(X), whole.decision_function(X))

    def test_work_on_padding_is_logged(self, caplog):
        with caplog.at_level(logging.INFO, logger="skattn"):
            AttentionClassifier(n_layers=1, max_iter=1, tol=0, verbose=True).fit(X, Y)
        assert "% of its work on padding" in caplog.text

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"position": "rotary"}, "position='rotary' is of the encoder"),
            ({"n_layers": 1, "n_heads": 3}, "n_heads=3 must divide"),
            (
                {"n_layers": 1, "n_heads": 2, "hidden_size": 6, "position": "rotary"},
                "position='rotary' turns pairs",
            ),
            ({"kernel_size": 3}, "kernel_size=3 is of the hidden layer"),
        ],
    )
    def test_contradictions(self, options, message):
        with pytest.raises(ValueError, match=message):
            AttentionClassifier(**options).fit(X, Y)


class TestRegularisers:
    @pytest.mark.parametrize(
        "options",
        [
            {"dropout": 0.3},
            {"token_dropout": 0.3},
            {"mixup": 0.5},
            {"label_smoothing": 0.2},
            {"average": 0.9},
            {"dropout": 0.2, "n_layers": 1, "hidden_size": 4},
            {"dropout": 0.2, "token_dropout": 0.2, "mixup": 1.0, "batch_size": 20},
        ],
    )
    def test_each_changes_training_and_its_seed_decides(self, options):
        model = AttentionClassifier(**options, **QUICK).fit(X, Y)
        again = clone(model).fit(X, Y)
        neutral = dict.fromkeys(
            ("dropout", "token_dropout", "mixup", "label_smoothing", "average"), 0.0
        )
        plain = clone(model).set_params(**neutral).fit(X, Y)
        scores = model.decision_function(X)
        assert_array_equal(scores, again.decision_function(X))
        assert_array_equal(scores, model.decision_function(X))
        assert not np.allclose(scores, plain.decision_function(X))
        assert model.score(X, Y) > 0.8

    def test_a_table_can_drop_features_but_no_tokens(self):
        model = AttentionClassifier(dropout=0.3, mixup=0.5, **QUICK).fit(TABLE, LABELS)
        assert model.score(TABLE, LABELS) > 0.8
        with pytest.raises(ValueError, match=r"token_dropout=0\.3 needs sequences"):
            AttentionClassifier(token_dropout=0.3).fit(TABLE, LABELS)
        tokens = FeatureTokenizer().fit_transform(TABLE)
        AttentionClassifier(token_dropout=0.3, **QUICK).fit(tokens, LABELS)

    @pytest.mark.parametrize("name", ["dropout", "token_dropout", "mixup"])
    @pytest.mark.parametrize("solver", ["lbfgs", "polyak"])
    def test_solvers_that_compare_losses_refuse_noise(self, name, solver):
        model = AttentionClassifier(solver=solver, **{name: 0.2})
        with pytest.raises(ValueError, match=f"{name}=0.2 makes the loss"):
            model.fit(X, Y)

    def test_partial_fit_goes_on_with_the_average(self):
        model = AttentionClassifier(
            average=0.9, random_state=0, learning_rate_init=0.05
        )
        for _ in range(40):
            model.partial_fit(X, Y, classes=[0, 1])
        # All samples at once in either case: the same steps as one fit.
        whole = AttentionClassifier(average=0.9, **QUICK | {"max_iter": 40}).fit(X, Y)
        assert_allclose(model.decision_function(X), whole.decision_function(X))


def test_grids_go_over_all_of_it():
    grid = [
        {"mapping": ["topk"], "mapping_params": [{"k": 1}, {"mass": 0.9}]},
        {"attention_norm": [None, "batch"], "head_scale": [None, 2]},
        {"n_layers": [1], "hidden_size": [4], "position": ["sinusoidal"]},
    ]
    search = GridSearchCV(AttentionClassifier(**QUICK), grid, cv=2).fit(
        Tokens.from_bags(
            np.concatenate(X), np.repeat(np.arange(80), list(map(len, X)))
        ),
        Y,
    )
    assert len(search.cv_results_["params"]) == 7
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_convolutions_see_the_order_of_tokens():
    rng = np.random.default_rng(0)
    samples = 0.3 * rng.normal(size=(200, 8, 2))
    places = rng.integers(7, size=200)
    y = np.arange(200) % 2
    for sample, place, label in zip(samples, places, y, strict=True):
        sample[place, label], sample[place + 1, 1 - label] = 3.0, 3.0
    options = {"hidden_size": 16, "random_state": 0, "max_iter": 150}
    scores = [
        cross_val_score(
            AttentionClassifier(kernel_size=size, **options), samples, y, cv=3
        ).mean()
        for size in (1, 2)
    ]
    assert scores[0] < 0.7 < 0.95 < scores[1]


@pytest.mark.parametrize("kind", [AttentionClassifier, AttentionRegressor])
def test_float32_is_trained_in_float32(kind):
    model = kind(n_layers=1, hidden_size=4, dtype="float32", max_iter=3, tol=0)
    model.fit(X, Y)
    assert model.hidden_coef_.dtype == np.float32
    assert all(v.dtype == np.float32 for v in model.encoder_.values())
    assert next(model.to_module().parameters()).dtype == torch.float32
