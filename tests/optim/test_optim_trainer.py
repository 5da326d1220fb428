"""The trainer: objective, solvers, stopping."""

import pickle

import numpy as np
import pytest
import scipy.special
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from skattn.attention import (
    AttentionModel,
    RaggedTokens,
    TableTokens,
    TokenBatch,
    initial_parameters,
)
from skattn.optim import train

SOLVERS = ["adam", "lbfgs", "gd", "ngd", "polyak", "mirror"]
all_solvers = pytest.mark.parametrize("solver", SOLVERS)


def problem(n_samples=15, n_classes=2, n_features=4, seed=0):
    rng = np.random.RandomState(seed)
    lengths = rng.randint(1, 6, size=n_samples)
    values = rng.randn(lengths.sum(), n_features)
    tokens = RaggedTokens.from_arrays(values, np.r_[0, lengths.cumsum()])
    targets = rng.randint(n_classes, size=n_samples)
    return TokenBatch(tokens), torch.tensor(targets)


def make_model(n_features=4, query_kind="prompt", seed=0, mapping="softmax", **options):
    options = {"n_outputs": 1, **options}
    parameters = initial_parameters(
        np.random.RandomState(seed),
        n_features=n_features,
        query_kind=query_kind,
        **options,
    )
    return AttentionModel.from_parameters(
        parameters, mapping=mapping, query_kind=query_kind
    )


def distance(first, second):
    first, second = first.parameters_as_arrays(), second.parameters_as_arrays()
    return max(np.abs(first[name] - second[name]).max() for name in first)


@all_solvers
@pytest.mark.parametrize(
    ("options", "n_classes"),
    [
        ({}, 2),
        ({"query_kind": "mean", "parameterization": "KQ", "n_heads": 2}, 2),
        ({"hidden_size": 6, "n_outputs": 3}, 3),
        ({"query_kind": "mean", "mapping": "sparsemax"}, 2),
    ],
)
def test_integer_weights_equal_repetitions(solver, options, n_classes):
    batch, targets = problem(n_classes=n_classes)
    weight = np.random.RandomState(1).randint(0, 4, size=15)
    index = torch.tensor(np.random.RandomState(2).permutation(np.arange(15)))
    index = index.repeat_interleave(torch.tensor(weight)[index])
    weighted, repeated = make_model(**options), make_model(**options)
    settings = {
        "solver": solver,
        "learning_rate": 0.01,
        "alpha": 1e-2,
        # At its optimum lbfgs goes on moving within the rounding of the loss; with a
        # hidden layer it passes flat stretches on the way, which enlarge rounding. So
        # do the choices that polyak makes between longer and shorter steps.
        "tol": 1e-6 if solver == "lbfgs" else 0.0,
        "max_iter": {"lbfgs": 80, "polyak": 30}.get(solver, 200),
    }
    train(weighted, batch, targets, torch.tensor(weight), **settings)
    train(repeated, batch.take(index), targets[index], **settings)
    assert distance(weighted, make_model(**options)) > 0.1
    assert distance(weighted, repeated) < 1e-7


@pytest.mark.parametrize("n_classes", [2, 3])
def test_lbfgs_on_single_tokens_is_logistic_regression(n_classes):
    """One token a sample leaves attention nothing to choose."""
    rng = np.random.RandomState(0)
    X, y = rng.randn(60, 4), rng.randint(n_classes, size=60)
    weight = rng.rand(60)
    tokens = RaggedTokens.from_arrays(X, np.arange(61))
    model = make_model(n_outputs=1 if n_classes == 2 else n_classes)
    result = train(
        model,
        TokenBatch(tokens),
        torch.tensor(y),
        torch.tensor(weight),
        solver="lbfgs",
        alpha=0.1,
        tol=1e-9,
        max_iter=500,
    )
    assert result.converged
    reference = LogisticRegression(C=1 / (0.1 * weight.sum()), tol=1e-10, max_iter=1000)
    reference.fit(X, y, sample_weight=weight)
    learned = model.parameters_as_arrays()
    assert_allclose(learned["coef"], reference.coef_, atol=1e-6)
    odds = reference.decision_function(X)
    logits = model(TokenBatch(tokens)).detach().numpy()
    if n_classes == 2:
        assert_allclose(logits[:, 0], odds, atol=1e-6)
    else:
        assert_allclose(
            scipy.special.softmax(logits, axis=1),
            scipy.special.softmax(odds, axis=1),
            atol=1e-6,
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_is_as_documented(n_classes):
    batch, targets = problem(n_classes=n_classes)
    n_outputs = 1 if n_classes == 2 else n_classes
    model = make_model(n_outputs=n_outputs, hidden_size=3, n_heads=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3)
    weight = np.random.RandomState(3).rand(15)
    parameters = model.parameters_as_arrays()
    logits = model(batch).detach().numpy()
    if n_classes == 2:
        logits = np.column_stack([np.zeros(15), logits])
    losses = -scipy.special.log_softmax(logits, axis=1)[np.arange(15), targets]
    squares = sum(
        (value**2).sum()
        for name, value in parameters.items()
        if not name.endswith("intercept")
    )
    expected = np.average(losses, weights=weight) + 0.5 * 0.2 * squares
    options = {"alpha": 0.2, "max_iter": 1, "solver": "gd"}
    result = train(model, batch, targets, torch.tensor(weight), **options)
    assert_allclose(result.loss_curve, [expected], rtol=1e-12)


def test_gd_is_gradient_descent():
    batch, targets = problem()
    model, twin = make_model(n_heads=2), make_model(n_heads=2)
    train(model, batch, targets, solver="gd", learning_rate=0.3, max_iter=5, tol=0.0)
    signs = 2 * targets - 1
    for _ in range(5):
        twin.zero_grad()
        torch.nn.functional.softplus(-signs * twin(batch)[:, 0]).mean().backward()
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter -= 0.3 * parameter.grad
    assert distance(model, twin) < 1e-13


@pytest.mark.parametrize("layout", ["sequences", "table"])
@all_solvers
def test_every_solver_learns(solver, layout):
    rng = np.random.RandomState(0)
    targets = torch.tensor(np.repeat([0, 1], 20))
    if layout == "sequences":
        values = rng.randn(40, 5, 3)
        planted = np.column_stack([8 * targets - 4, np.full(40, 4), np.zeros(40)])
        values[np.arange(40), rng.randint(5, size=40)] += planted
        tokens = RaggedTokens.from_arrays(values.reshape(200, 3), np.arange(41) * 5)
    else:
        cells = rng.randn(40, 5)
        cells[:, 2] += 4 * targets.numpy() - 2
        tokens = TableTokens.from_array(cells)
    model = make_model(n_features=tokens.n_features)
    rate = {"adam": 0.05, "gd": 1.0, "ngd": 0.1, "mirror": 0.1}.get(solver, 1.0)
    batch = TokenBatch(tokens)
    result = train(
        model, batch, targets, solver=solver, learning_rate=rate, max_iter=300
    )
    correct = (model(batch)[:, 0] > 0) == (targets == 1)
    assert correct.float().mean() >= 0.97
    assert result.best_loss < 0.2
    assert len(result.loss_curve) == result.n_iter <= 300


def test_frozen_head_follows_the_closed_form():
    """Published update on the published gradient, until both have moved far."""
    n, T, d = 6, 8, 10
    rng = np.random.RandomState(0)

    def sphere(*shape):
        points = rng.randn(*shape)
        return points / np.linalg.norm(points, axis=-1, keepdims=True)

    X, z, v = sphere(n, T, d), sphere(n, d), sphere(d)
    y = np.array([1, -1, 1, 1, -1, -1])
    W = rng.uniform(-1, 1, size=(d, d)) / np.sqrt(d)
    model = AttentionModel.from_parameters(
        {"attention_coef": W[None], "coef": v[None], "intercept": np.zeros(1)},
        query_kind="given",
    )
    tokens = RaggedTokens.from_arrays(X.reshape(n * T, d), np.arange(n + 1) * T)
    result = train(
        model,
        TokenBatch(tokens, query=torch.tensor(z)),
        torch.tensor(y > 0).long(),
        solver="ngd",
        learning_rate=0.1,
        max_iter=300,
        tol=0.0,
        freeze_head=True,
    )
    g = X @ v
    for _ in range(300):
        s = scipy.special.softmax(np.einsum("itd,de,ie->it", X, W, z), axis=1)
        o = (s * g).sum(1)
        c = -y * scipy.special.expit(-y * o) / n
        gradient = np.einsum("i,it,itd,ie->de", c, s * (g - o[:, None]), X, z)
        W = W - 0.1 * gradient / np.linalg.norm(gradient)
    learned = model.parameters_as_arrays()
    assert_allclose(learned["attention_coef"][0], W, atol=1e-10)
    assert_array_equal(learned["coef"][0], v)
    assert result.loss_curve[-1] < result.loss_curve[0]


def test_frozen_head_is_left_out_of_the_penalty_and_released():
    batch, targets = problem()
    model = make_model()
    with torch.no_grad():
        model.head.coef.fill_(5.0)
    options = {"solver": "gd", "max_iter": 1, "freeze_head": True}
    losses = [
        train(model, batch, targets, learning_rate=1e-12, alpha=alpha, **options)
        for alpha in (0.0, 1.0)
    ]
    assert_allclose(losses[0].loss_curve, losses[1].loss_curve, atol=1e-9)
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_mini_batches():
    batch, targets = problem(n_samples=23)
    rng = np.random.RandomState(0)
    options = {"learning_rate": 0.02, "tol": 0.0, "max_iter": 60, "alpha": 0.01}
    models = [make_model() for _ in range(3)]
    results = [
        train(model, batch, targets, batch_size=5, rng=rng, **options)
        for model, rng in zip(
            models, map(np.random.RandomState, (0, 0, 1)), strict=True
        )
    ]
    assert results[0].loss_curve == results[1].loss_curve
    assert results[0].loss_curve != results[2].loss_curve
    assert distance(models[0], models[1]) == 0
    assert results[0].loss_curve[-1] < 0.8 * results[0].loss_curve[0]

    whole, full = make_model(), make_model()
    train(whole, batch, targets, batch_size=100, rng=rng, **options)
    train(full, batch, targets, **options)
    assert distance(whole, full) == 0


def test_mini_batch_loss_is_the_weighted_mean():
    batch, targets = problem(n_samples=10)
    weight = torch.rand(10, generator=torch.Generator().manual_seed(0)) + 0.1
    options = {"solver": "gd", "learning_rate": 1e-12, "max_iter": 1}
    curves = []
    for batch_size in (None, 3):
        model = make_model()
        with torch.no_grad():
            model.head.coef.fill_(1.0)
        rng = np.random.RandomState(0)
        result = train(
            model, batch, targets, weight, batch_size=batch_size, rng=rng, **options
        )
        curves.append(result.loss_curve)
    assert_allclose(curves[0], curves[1], rtol=1e-9)


def test_samples_of_weight_zero_are_left_out():
    batch, targets = problem()
    weight = torch.ones(15)
    weight[[3, 9]] = 0
    kept = weight.nonzero()[:, 0]
    models = make_model(), make_model()
    options = {"batch_size": 4, "max_iter": 20, "learning_rate": 0.1}
    for model, data in zip(
        models,
        [(batch, targets, weight), (batch.take(kept), targets[kept])],
        strict=True,
    ):
        train(model, *data, rng=np.random.RandomState(0), **options)
    assert distance(*models) == 0


@all_solvers
def test_stopping(solver):
    batch, targets = problem()
    options = {"solver": solver, "learning_rate": 0.05, "alpha": 0.1}
    result = train(make_model(), batch, targets, max_iter=2000, **options)
    assert result.converged
    assert result.n_iter < 2000
    result = train(make_model(), batch, targets, max_iter=3, **options)
    assert not result.converged
    result = train(make_model(), batch, targets, max_iter=150, tol=0.0, **options)
    assert result.converged
    assert result.n_iter == 150


def test_no_improvement_is_counted_as_in_mlpclassifier():
    batch, targets = problem()
    # No step of this length improves the loss by tol: the first epoch sets the best
    # loss, and the 4th in a row without improvement exceeds n_iter_no_change=3.
    result = train(make_model(), batch, targets, learning_rate=1e-9, n_iter_no_change=3)
    assert result.n_iter == 5
    assert result.converged


@all_solvers
def test_best_weights_by_validation_are_restored(solver):
    batch, targets = problem()
    scores = iter([0.1, 0.5, 0.9, 0.2, 0.3, 0.1, 0.1, 0.1])
    seen = []

    def validation(model):
        seen.append(model.parameters_as_arrays())
        return next(scores)

    model = make_model()
    result = train(
        model,
        batch,
        targets,
        solver=solver,
        learning_rate=0.1,
        validation=validation,
        n_iter_no_change=4,
    )
    assert result.validation_scores == [0.1, 0.5, 0.9, 0.2, 0.3, 0.1, 0.1, 0.1]
    assert result.converged
    for name, value in model.parameters_as_arrays().items():
        assert_array_equal(value, seen[2][name])
    assert np.any(seen[2]["coef"] != seen[7]["coef"])


def test_on_epoch():
    batch, targets = problem()
    model = make_model()
    epochs, begun = [], []

    def on_epoch_begin():
        begun.append(len(epochs))

    def on_epoch(epoch):
        epochs.append(epoch)
        return epoch.number == 4

    result = train(
        model,
        batch,
        targets,
        on_epoch_begin=on_epoch_begin,
        on_epoch=on_epoch,
        validation=lambda model: 0.0,
    )
    assert begun == list(range(5))
    assert [epoch.number for epoch in epochs] == list(range(5))
    assert [epoch.loss for epoch in epochs] == result.loss_curve
    assert epochs[0].model is model
    assert epochs[0].validation_score == 0.0
    assert result.stopped_by_callback
    assert not result.converged


@all_solvers
def test_going_on_equals_going_through(solver):
    batch, targets = problem()
    options = {"solver": solver, "learning_rate": 0.05, "tol": 0.0}
    through, on = make_model(), make_model()
    train(through, batch, targets, max_iter=20, **options)
    first = train(on, batch, targets, max_iter=8, **options)
    state = pickle.loads(pickle.dumps(first.optimizer_state))
    train(on, batch, targets, max_iter=12, optimizer_state=state, **options)
    assert distance(through, on) < 1e-12


def test_a_new_learning_rate_wins_over_the_state():
    batch, targets = problem()
    model = make_model()
    state = train(model, batch, targets, max_iter=3).optimizer_state
    before = model.parameters_as_arrays()
    train(
        model,
        batch,
        targets,
        max_iter=1,
        learning_rate=1e-15,
        optimizer_state=state,
    )
    assert_allclose(model.parameters_as_arrays()["coef"], before["coef"], atol=1e-14)


def test_float32():
    batch, targets = problem()
    values = batch.tokens.values.float()
    batch32 = TokenBatch(RaggedTokens(values, batch.tokens.segments))
    model = make_model()
    model32 = make_model().float()
    options = {"learning_rate": 0.05, "max_iter": 50}
    train(model, batch, targets, torch.ones(15).double(), **options)
    train(model32, batch32, targets, torch.ones(15).double(), **options)
    assert 0 < distance(model, model32) < 1e-4


def test_a_diverging_loss_is_an_error():
    batch, targets = problem()
    with pytest.raises(FloatingPointError, match="Lower the learning rate"):
        train(make_model(), batch, targets, solver="gd", learning_rate=1e200, alpha=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "sgd"}, "solver must be one of"),
        ({"solver": "lbfgs", "batch_size": 2}, "batch_size at None"),
        ({"batch_size": 2}, "rng must be given"),
        ({"batch_size": 0, "rng": np.random.RandomState(0)}, "batch_size must be"),
        ({"alpha": -1.0}, "alpha must be at least 0"),
        ({"tol": -1.0}, "tol must be at least 0"),
        ({"diversity": -1.0}, "diversity must be at least 0"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"mirror_p": 1.0}, "mirror_p must be above 1"),
        ({"sample_weight": torch.zeros(15)}, "zero for every sample"),
        ({"sample_weight": -torch.ones(15)}, "finite and non-negative"),
        ({"sample_weight": torch.ones(3)}, r"shape \(15,\)"),
    ],
)
def test_errors(options, message):
    batch, targets = problem()
    with pytest.raises(ValueError, match=message):
        train(make_model(), batch, targets, **options)
