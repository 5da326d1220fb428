"""The convex classifier and regressor against programs written out."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skattn import (
    ConvexAttentionClassifier,
    ConvexAttentionRegressor,
    FeatureTokenizer,
    Tokens,
    TokenScaler,
)

WIDTH = 3
KINDS = {
    "linear attention": {"activation": "linear"},
    "gated attention": {"n_gates": 3},
    "full gates": {"n_gates": 3, "gate_rank": "full"},
    "mlp": {"block": "mlp", "n_gates": 4},
    "mixer": {"block": "mixer", "n_gates": 3},
    "fno": {"block": "fno", "n_gates": 3},
}
every_kind = pytest.mark.parametrize("parameters", KINDS.values(), ids=KINDS)
ragged_kind = pytest.mark.parametrize(
    "parameters", list(KINDS.values())[:4], ids=list(KINDS)[:4]
)


@pytest.fixture(scope="module")
def data():
    """Sequences of one length, and two numbers that belong to each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4, WIDTH))
    votes = np.maximum(X @ rng.standard_normal((WIDTH, 2)), 0).mean(axis=1)
    return X, votes + 0.05 * rng.standard_normal(votes.shape)


@pytest.fixture(scope="module")
def ragged():
    rng = np.random.default_rng(1)
    X = [rng.standard_normal((length, WIDTH)) for length in rng.integers(1, 6, 40)]
    return X, np.array([np.abs(x[:, 0]).mean() + x[:, 1].mean() > 0.7 for x in X])


def optimum_of_mlp(X, y, gates, beta):
    """The convex program of the MLP block, from its formula, by cvxpy."""
    features = [
        np.stack([((x @ gate >= 0)[:, None] * x).mean(axis=0) for x in X])
        for gate in gates
    ]
    coefs = [cp.Variable((X.shape[2], y.shape[1])) for _ in gates]
    intercept = cp.Variable((1, y.shape[1]))
    outputs = sum(f @ coef for f, coef in zip(features, coefs, strict=True))
    residuals = outputs + np.ones((len(X), 1)) @ intercept - y
    loss = cp.sum_squares(residuals) / (2 * len(X))
    penalty = sum(cp.normNuc(coef) for coef in coefs)
    return cp.Problem(cp.Minimize(loss + beta * penalty)).solve(solver="CLARABEL")


def test_the_mlp_is_the_program_of_the_paper(data):
    X, y = data
    model = ConvexAttentionRegressor("mlp", tol=1e-7, random_state=0).fit(X, y)
    expected = optimum_of_mlp(X, y, model.gates_.vectors, model.beta)
    np.testing.assert_allclose(model.objective_, expected, rtol=1e-6)


def test_linear_attention_is_the_program_of_the_paper(data):
    X, y = data
    model = ConvexAttentionRegressor(activation="linear", tol=1e-7).fit(X, y)
    squares, means = X.transpose(0, 2, 1) @ X, X.mean(axis=1)
    Z = cp.Variable((WIDTH**2, WIDTH * 2))
    intercept = cp.Variable((1, 2))
    outputs = sum(
        cp.multiply(
            squares[:, k, m][:, None],
            means @ Z[k * WIDTH : (k + 1) * WIDTH, 2 * m : 2 * m + 2],
        )
        for k in range(WIDTH)
        for m in range(WIDTH)
    )
    residuals = outputs + np.ones((len(X), 1)) @ intercept - y
    objective = cp.sum_squares(residuals) / (2 * len(X)) + model.beta * cp.normNuc(Z)
    expected = cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL")
    np.testing.assert_allclose(model.objective_, expected, rtol=1e-6)


@every_kind
def test_solvers_agree_and_are_certified(data, parameters):
    X, y = data
    objectives = []
    for solver in ("fista", "burer_monteiro", "cvxpy"):
        model = ConvexAttentionRegressor(
            **parameters, solver=solver, beta=0.03, tol=1e-6, random_state=0
        ).fit(X, y[:, 0])
        assert model.duality_gap_ <= 1e-6
        assert model.solver_ == solver
        objectives.append(model.objective_)
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-5)


@every_kind
def test_from_beta_max_on_nothing_is_left(data, parameters):
    X, y = data
    y = y[:, 0] > y[:, 1]
    model = ConvexAttentionClassifier(**parameters, random_state=0).fit(X, y)
    largest = model.beta_max_
    above = clone(model).set_params(beta=1.001 * largest).fit(X, y)
    assert above.rank_ == 0
    assert not above.coef_.any()
    np.testing.assert_allclose(above.predict_proba(X)[:, 1], y.mean(), rtol=1e-6)
    assert above.transform(X).shape == (len(X), 0)
    below = clone(model).set_params(beta=0.9 * largest).fit(X, y)
    assert below.rank_ > 0


@every_kind
def test_contributions_and_transformed_samples_make_the_decision(data, parameters):
    X, y = data
    for targets in (y[:, 0] > y[:, 1], np.digitize(y[:, 0], [0.2, 0.5])):
        model = ConvexAttentionClassifier(**parameters, random_state=0)
        model.fit(X, targets)
        decision = model.decision_function(X)
        contributions = model.token_contributions(X)
        assert contributions.shape == (*X.shape[:2], *decision.shape[1:])
        intercept = model.intercept_ if decision.ndim == 2 else model.intercept_[0]
        np.testing.assert_allclose(
            contributions.sum(axis=1) + intercept, decision, rtol=1e-10, atol=1e-12
        )
        pooled = model.transform(X)
        assert pooled.shape == (len(X), len(model.get_feature_names_out()))
        second = np.concatenate(
            [h.second.reshape(-1, len(model.intercept_)) for h in model.heads_]
        )
        np.testing.assert_allclose(
            (pooled @ second + model.intercept_).reshape(decision.shape),
            decision,
            rtol=1e-10,
            atol=1e-12,
        )


@ragged_kind
def test_contributions_have_the_form_of_the_input(ragged, parameters):
    X, y = ragged
    model = ConvexAttentionClassifier(**parameters, random_state=0).fit(X, y)
    of_list = model.token_contributions(X)
    assert [len(own) for own in of_list] == [len(x) for x in X]
    padded = np.full((len(X), 7, WIDTH), np.nan)
    for row, x in zip(padded, X, strict=True):
        row[1 : 1 + len(x)] = x
    of_array = model.token_contributions(padded)
    assert of_array.shape == (len(X), 7)
    assert not of_array[:, 0].any()
    np.testing.assert_allclose(
        [own.sum() for own in of_list], of_array.sum(axis=1), rtol=1e-10
    )


@ragged_kind
def test_long_predictions_are_made_in_parts(ragged, parameters, monkeypatch):
    X, y = ragged
    model = ConvexAttentionClassifier(**parameters, random_state=0).fit(X, y)
    methods = ("decision_function", "transform", "token_contributions")
    whole = [np.concatenate(getattr(model, name)(X), axis=None) for name in methods]
    monkeypatch.setattr("skattn.estimators._convex_base._LARGEST_PART", 1)
    for name, expected in zip(methods, whole, strict=True):
        parts = np.concatenate(getattr(model, name)(X), axis=None)
        np.testing.assert_allclose(parts, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("block", ["self_attention", "mlp", "mixer", "fno"])
def test_a_table_is_its_columns_as_tokens(block):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.standard_normal((30, 3)), columns=["a", "b", "c"])
    y = table["a"] * table["b"] + 0.5 * table["c"]
    options = {"n_gates": 3, "random_state": 0}
    model = ConvexAttentionRegressor(block, **options).fit(table, y)
    assert model.n_features_in_ == 3
    assert model.n_token_features_ == 6
    np.testing.assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    tokens = FeatureTokenizer().fit_transform(table)
    as_tokens = ConvexAttentionRegressor(block, **options).fit(tokens, y)
    np.testing.assert_allclose(model.predict(table), as_tokens.predict(tokens))
    contributions = model.token_contributions(table)
    np.testing.assert_allclose(
        contributions.sum(axis=1) + model.intercept_, model.predict(table)
    )


def mask_between(model, x):
    """Which tokens of a sample see which through each gate, from the gates."""
    gates = model.gates_
    return np.array([(x @ u)[:, None] * (x @ v) >= 0 for u, v in gates.vectors])


def test_groups_of_self_attention_are_what_sees_the_same(ragged):
    X, y = ragged
    model = ConvexAttentionClassifier(n_gates=5, random_state=0).fit(X, y)
    groups = model.token_groups(X)
    n_gates = model.n_gates_
    for x, own in zip(X, groups, strict=True):
        assert own.shape == (len(x), 2 * n_gates)
        looking, looked_at = own[:, :n_gates].T, own[:, n_gates:].T
        is_open = looking[:, :, None] == looked_at[:, None, :]
        np.testing.assert_array_equal(is_open, mask_between(model, x))
    padded = np.full((1, 4, WIDTH), np.nan)
    padded[0, 1:3] = X[np.argmax([len(x) > 1 for x in X])][:2]
    of_array = model.token_groups(padded)[0]
    assert set(of_array[[0, 3]].ravel()) == {-1}
    assert set(of_array[1:3].ravel()) <= {0, 1}


def test_groups_of_the_mlp_are_its_open_gates(ragged):
    X, y = ragged
    model = ConvexAttentionClassifier("mlp", random_state=0).fit(X, y)
    for x, own in zip(X, model.token_groups(X), strict=True):
        np.testing.assert_array_equal(own, x @ model.gates_.vectors.T >= 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"activation": "linear"}, "activation='gated_relu'"),
        ({"block": "mixer"}, "block='self_attention' or 'mlp'"),
        ({"gate_rank": "full"}, "gate_rank='rank_one'"),
    ],
)
def test_groups_where_tokens_have_none(data, parameters, message):
    X, y = data
    model = ConvexAttentionClassifier(**parameters).fit(X, y[:, 0] > y[:, 1])
    assert not hasattr(model, "token_groups")
    with pytest.raises(AttributeError) as error:
        model.token_groups(X)
    assert message in f"{error.value} {error.value.__cause__}"


@pytest.mark.parametrize("block", ["mlp", "mixer", "fno"])
def test_what_collapses_is_refused_by_name(data, block):
    X, y = data
    message = f"block='{block}' with activation='linear' is not offered: .*linear model"
    with pytest.raises(ValueError, match=message):
        ConvexAttentionRegressor(block, activation="linear").fit(X, y)


@pytest.mark.parametrize("block", ["mixer", "fno"])
def test_blocks_that_mix_positions_need_one_length(data, ragged, block):
    X, y = ragged
    odd = next(i for i, x in enumerate(X) if len(x) != len(X[0]))
    message = f"samples of one length, {len(X[0])} tokens; sample {odd} has"
    with pytest.raises(ValueError, match=message):
        ConvexAttentionClassifier(block).fit(X, y)
    X, y = data
    model = ConvexAttentionRegressor(block).fit(X, y)
    with pytest.raises(ValueError, match="samples of one length, 4 tokens; sample 0"):
        model.predict(X[:, :3])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"block": "conv"}, "'block' parameter"),
        ({"activation": "relu"}, "'activation' parameter"),
        ({"n_gates": 0}, "'n_gates' parameter"),
        ({"beta": 0.0}, "'beta' parameter"),
        ({"beta": "large"}, "'beta' parameter"),
        ({"beta": np.inf}, "'beta' parameter"),
        ({"solver": "sgd"}, "'solver' parameter"),
        ({"tol": 0.0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"block": "mlp", "gate_rank": "full"}, "gate_rank='full' applies to"),
        ({"activation": "linear", "gate_rank": "full"}, "gate_rank='full' applies to"),
        ({"n_groups": 3}, "n_groups=3 applies to block='fno' only"),
        ({"block": "fno", "n_groups": 2}, "n_groups=2 must divide"),
    ],
)
@pytest.mark.parametrize("make", [ConvexAttentionClassifier, ConvexAttentionRegressor])
def test_parameters_that_make_no_sense(data, make, parameters, message):
    X, y = data
    model = make(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y[:, 0] > y[:, 1])
    assert vars(model).keys() == vars(make()).keys()


def test_wide_tokens_ask_for_fewer_features():
    rng = np.random.default_rng(0)
    y = np.arange(4.0)
    message = r"at most 64 features; got d=65, .* \d+\.\d MB .*PCA"
    with pytest.raises(ValueError, match=message):
        ConvexAttentionRegressor().fit(rng.standard_normal((4, 2, 65)), y)
    with pytest.raises(ValueError, match=r"Each of the 33 columns .* 66 features"):
        ConvexAttentionRegressor().fit(rng.standard_normal((4, 33)), y)
    wide = rng.standard_normal((4, 2, 200))
    assert ConvexAttentionRegressor("mlp").fit(wide, y).n_token_features_ == 200


def test_large_fits_say_so_before_they_start(data, monkeypatch):
    X, y = data
    monkeypatch.setattr("skattn.estimators._convex_base._LARGEST_SILENT", 1e3)
    monkeypatch.setattr("skattn.estimators._convex_base.make_gates", None)
    for samples in (X, X[:, 0]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(TypeError):  # from the gates that are not made
                ConvexAttentionRegressor().fit(samples, y)
        assert "is about to take 0.0 GB of memory" in str(caught[0].message)
        assert caught[0].filename == __file__


def test_too_few_iterations_warn_with_the_gap(data):
    X, y = data
    model = ConvexAttentionRegressor(max_iter=1, beta=1e-3, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of") as caught:
        model.fit(X, y)
    assert f"{model.duality_gap_:.1e}" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert model.duality_gap_ > model.tol


def test_gates_are_drawn_by_random_state(data):
    X, y = data
    models = [
        ConvexAttentionRegressor("mlp", random_state=seed).fit(X, y)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert not np.array_equal(models[0].gates_.vectors, models[2].gates_.vectors)
    linear = [
        ConvexAttentionRegressor(activation="linear", random_state=seed).fit(X, y)
        for seed in (0, 1)
    ]
    np.testing.assert_array_equal(linear[0].coef_, linear[1].coef_)


def test_more_gates_lower_the_optimum(data):
    X, y = data
    objectives = [
        ConvexAttentionRegressor("mlp", n_gates=n, random_state=0).fit(X, y).objective_
        for n in (1, 4, 16)
    ]
    assert objectives[0] > objectives[1] > objectives[2]


def test_gates_that_repeat_are_dropped():
    X = np.array([[[1.0]], [[2.0]], [[3.0]]])
    model = ConvexAttentionRegressor("mlp", n_gates=20, random_state=0)
    assert model.fit(X, [1.0, 2.0, 3.0]).n_gates_ == 1
    assert model.coef_.shape == (1, 1, 1)


def test_class_weights_are_sample_weights(ragged):
    X, y = ragged
    names = np.array(["low", "high"])[y.astype(int)]
    weighted = ConvexAttentionClassifier(
        "mlp", class_weight={"low": 3.0, "high": 0.5}, random_state=0
    ).fit(X, names)
    weights = np.where(names == "low", 3.0, 0.5)
    by_sample = ConvexAttentionClassifier("mlp", random_state=0)
    by_sample.fit(X, names, sample_weight=weights)
    np.testing.assert_array_equal(weighted.coef_, by_sample.coef_)
    balanced = ConvexAttentionClassifier("mlp", class_weight="balanced", beta=1e3)
    balanced.fit(X, names)
    np.testing.assert_allclose(balanced.predict_proba(X), 0.5, rtol=1e-6)


def test_inside_pipelines_and_searches(ragged):
    X, y = ragged
    pipeline = make_pipeline(TokenScaler(), ConvexAttentionClassifier("mlp"))
    search = GridSearchCV(
        pipeline, {"convexattentionclassifier__beta": [0.3, 0.01]}, cv=2
    )
    assert search.fit(X, y).best_params_["convexattentionclassifier__beta"] == 0.01
    stacked = make_pipeline(
        ConvexAttentionClassifier("mlp", random_state=0),
        StandardScaler(),
        LogisticRegression(),
    )
    assert stacked.fit(X, y).score(X, y) > 0.8


def test_a_monitor_scores_the_solution(ragged):
    X, y = ragged
    monitor = ScoringMonitor(scoring="accuracy")
    model = ConvexAttentionClassifier("mlp", random_state=0).set_callbacks(monitor)
    model.fit(X, y)
    rows = {row["task_name"]: row["accuracy"] for row in monitor.get_logs().data}
    assert rows["solve"] == model.score(X, y)


def test_columns_of_transformed_samples_have_names(ragged):
    X, y = ragged
    model = ConvexAttentionClassifier("mlp", random_state=0).fit(X, y)
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert frame.shape == (len(X), model.rank_)
    assert isinstance(model.decision_function(X), np.ndarray)


def test_numbers_in_one_column_and_in_several(data):
    X, y = data
    several = ConvexAttentionRegressor("mlp", random_state=0).fit(X, y)
    assert several.predict(X).shape == y.shape
    assert several.n_outputs_ == 2
    assert several.score(X, y) > 0.5
    one = ConvexAttentionRegressor("mlp", random_state=0).fit(X, y[:, 0])
    assert one.predict(X).shape == (len(X),)
    with pytest.warns(UserWarning, match="column-vector y"):
        column = clone(one).fit(X, y[:, :1])
    np.testing.assert_array_equal(column.predict(X), one.predict(X))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((0, 2, 3)), [], "0 sample"),
        ([], [], "0 sample|empty"),
        (np.full((2, 2, 3), np.nan), [0, 1], "no token"),
        (np.full((2, 2, 3), np.inf), [0, 1], "infinity"),
        (np.ones((2, 2, 3)), [0, 1, 2], "inconsistent numbers of samples"),
        (np.ones((2, 2, 3)), [0, np.nan], "NaN"),
        (np.ones((2, 2, 3)), None, "requires y to be passed"),
        (np.ones((2, 2, 0)), [0, 1], "0 feature"),
    ],
)
@pytest.mark.parametrize("make", [ConvexAttentionClassifier, ConvexAttentionRegressor])
def test_odd_input(make, X, y, message):
    with pytest.raises(ValueError, match=message):
        make().fit(X, y)


def test_huge_numbers_ask_for_scaling(data):
    X, y = data
    for block, factor in (("self_attention", 1e8), ("mlp", 1e22)):
        with pytest.raises(ValueError, match=r"features as large as .*TokenScaler"):
            ConvexAttentionRegressor(block).fit(X * factor, y)
        with pytest.raises(ValueError, match=r"features as large as .*TokenScaler"):
            ConvexAttentionRegressor(block).fit(X[:, 0] * factor, y)
    with pytest.raises(ValueError, match=r"y has values as large as"):
        ConvexAttentionRegressor().fit(X, y * 1e200)


def test_one_sample_and_equal_samples():
    one = ConvexAttentionRegressor().fit(np.ones((1, 2, 3)), [5.0])
    assert one.predict(np.zeros((1, 4, 3))) == pytest.approx([5.0])
    X = np.zeros((4, 2, 3))
    model = ConvexAttentionClassifier().fit(X, ["a", "b", "b", "b"])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 0.75, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, object])
def test_other_types_of_numbers(dtype):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (20, 3, 2)), rng.integers(0, 2, 20)
    expected = ConvexAttentionClassifier("mlp", random_state=0).fit(X.astype(float), y)
    model = ConvexAttentionClassifier("mlp", random_state=0).fit(X.astype(dtype), y)
    np.testing.assert_allclose(
        model.decision_function(X.astype(dtype)), expected.decision_function(X)
    )


def test_pickles_hold_no_samples(data):
    X, y = data
    many = np.tile(X, (20, 1, 1)) + np.random.default_rng(0).standard_normal(
        (600, 4, WIDTH)
    )
    model = ConvexAttentionRegressor(random_state=0, tol=1e-2)
    model.fit(many, np.tile(y, (20, 1)))
    pickled = pickle.dumps(model)
    assert len(pickled) < 20_000
    np.testing.assert_array_equal(pickle.loads(pickled).predict(X), model.predict(X))


def test_containers_of_tokens(ragged):
    X, y = ragged
    tokens = Tokens(np.concatenate(X), np.cumsum([0, *map(len, X)]))
    model = ConvexAttentionClassifier(random_state=0, n_gates=2).fit(tokens, y)
    as_list = ConvexAttentionClassifier(random_state=0, n_gates=2).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(tokens), as_list.predict_proba(X))
    np.testing.assert_allclose(
        np.exp(model.predict_log_proba(X)), as_list.predict_proba(X)
    )


def test_logarithms_of_vanishing_probabilities_are_finite(data):
    X, y = data
    for labels in (y[:, 0] > np.median(y[:, 0]), np.argsort(y[:, 0]) % 3):
        model = ConvexAttentionClassifier("mlp", random_state=0).fit(X, labels)
        far = 1e5 * X
        assert (model.predict_proba(far) == 0).any()
        logarithms = model.predict_log_proba(far)
        assert np.isfinite(logarithms).all()
        scores = model.decision_function(far)
        differences = np.diff(logarithms, axis=1)
        expected = scores[:, None] if scores.ndim == 1 else np.diff(scores, axis=1)
        np.testing.assert_allclose(differences, expected)
