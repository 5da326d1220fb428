"""ConvexHeads against formulas written out, and the heads of estimators in it."""

import numpy as np
import pytest
import torch

from skattn import ConvexAttentionClassifier, ConvexAttentionRegressor
from skattn.attention import ConvexHeads, RaggedTokens

N_HEADS, N_GATES, WIDTH, N_OUTPUTS, LENGTH = 5, 3, 4, 2, 3


def circulant(X):
    """Row t: token t, the one before it, and so on, cyclically, side by side."""
    return np.array(
        [np.concatenate([X[t - k] for k in range(len(X))]) for t in range(len(X))]
    )


def self_attention(X, first, second, gate):
    left, right = gate if isinstance(gate, tuple) else (gate, None)
    scores = X @ left @ X.T if right is None else np.outer(X @ left, X @ right)
    return ((scores >= 0) * (X @ first @ X.T)) @ X @ second


def mlp(X, first, second, gate):
    return np.outer((X @ gate >= 0) * (X @ first), second)


def mixer(X, first, second, gate):
    return ((gate @ X >= 0) * (first @ X)) @ second


def fno(X, first, second, gate):
    return mlp(circulant(X), first, second, gate)


SHAPES = {
    "self_attention": (self_attention, (WIDTH, WIDTH), (WIDTH, N_OUTPUTS)),
    "mlp": (mlp, (WIDTH,), (N_OUTPUTS,)),
    "mixer": (mixer, (LENGTH, LENGTH), (WIDTH, N_OUTPUTS)),
    "fno": (fno, (LENGTH * WIDTH,), (N_OUTPUTS,)),
}


def make_samples(block, rng):
    ragged = block in ("self_attention", "mlp")
    lengths = rng.integers(1, 6, 7) if ragged else np.full(7, LENGTH)
    return [rng.standard_normal((length, WIDTH)) for length in lengths]


def as_batch(samples):
    offsets = np.cumsum([0, *map(len, samples)])
    return RaggedTokens.from_arrays(np.concatenate(samples), offsets)


@pytest.mark.parametrize(
    ("block", "is_rank_one"),
    [*((block, False) for block in SHAPES), ("self_attention", True)],
)
def test_outputs_are_those_of_the_formulas(block, is_rank_one):
    rng = np.random.default_rng(0)
    formula, first_shape, second_shape = SHAPES[block]
    first = rng.standard_normal((N_HEADS, *first_shape))
    second = rng.standard_normal((N_HEADS, *second_shape))
    intercept = rng.standard_normal(N_OUTPUTS)
    gate_of_head = rng.integers(N_GATES, size=N_HEADS)
    if is_rank_one:
        gates = tuple(rng.standard_normal((2, N_GATES, WIDTH)))
        gate_list = list(zip(*gates, strict=True))
    else:
        gates = gate_list = rng.standard_normal((N_GATES, *first_shape))
    samples = make_samples(block, rng)
    heads = ConvexHeads(
        block, first, second, intercept, gates=gates, gate_of_head=gate_of_head
    )
    expected = [
        sum(
            formula(X, W1, W2, gate_list[gate]).mean(axis=0)
            for W1, W2, gate in zip(first, second, gate_of_head, strict=True)
        )
        + intercept
        for X in samples
    ]
    with torch.no_grad():
        outputs = heads(as_batch(samples)).numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-13)
    assert heads.n_heads == N_HEADS
    np.testing.assert_allclose(
        heads.penalty().item(), ((first**2).sum() + (second**2).sum()) / 2
    )


def test_fourier_groups_see_their_own_features():
    rng = np.random.default_rng(1)
    first = rng.standard_normal((4, LENGTH * WIDTH // 2))
    second = rng.standard_normal((4, N_OUTPUTS))
    group = np.array([0, 1, 1, 0])
    X = rng.standard_normal((LENGTH, WIDTH))
    heads = ConvexHeads(
        "fno", first, second, np.zeros(2), group_of_head=group, n_groups=2
    )
    parts = np.split(X, 2, axis=1)
    expected = sum(
        np.outer(circulant(parts[g]) @ w1, w2).mean(axis=0)
        for w1, w2, g in zip(first, second, group, strict=True)
    )
    outputs = heads(as_batch([X])).detach().numpy()[0]
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)


def test_long_samples_are_taken_in_parts(monkeypatch):
    rng = np.random.default_rng(2)
    heads = ConvexHeads(
        "self_attention",
        rng.standard_normal((2, WIDTH, WIDTH)),
        rng.standard_normal((2, WIDTH, 1)),
        np.zeros(1),
    )
    tokens = as_batch([rng.standard_normal((length, WIDTH)) for length in (4, 2, 4, 4)])
    whole = heads(tokens)
    monkeypatch.setattr("skattn.attention.convex_heads._LARGEST", 40)
    torch.testing.assert_close(heads(tokens), whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("softmax", [[1.0]], [[1.0]], [0.0]), {}, "block must be one of"),
        (("mlp", [[1.0]], [[1.0]], [0.0]), {"gates": [[1.0]]}, "passed together"),
        (("mlp", [[1.0], [2.0]], [[1.0]], [0.0]), {}, "first has 2 heads"),
    ],
)
def test_parameters_that_do_not_fit(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ConvexHeads(*arguments, **options)


FITTED = {
    "linear attention": {"activation": "linear"},
    "gated attention": {"n_gates": 3},
    "full gates": {"n_gates": 3, "gate_rank": "full"},
    "mlp": {"block": "mlp"},
    "mixer": {"block": "mixer", "n_gates": 3},
    "fno": {"block": "fno", "n_gates": 3},
    "fno in groups": {"block": "fno", "n_gates": 3, "n_groups": 2},
}


def make_data(n_classes):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, LENGTH, WIDTH))
    votes = np.maximum(X @ rng.standard_normal((WIDTH, n_classes)), 0).mean(axis=1)
    return X, votes


def losses(model, outputs, y):
    if isinstance(model, ConvexAttentionRegressor):
        return 0.5 * ((outputs - torch.tensor(y)) ** 2).sum(dim=1).mean()
    targets = torch.tensor(np.searchsorted(model.classes_, y))
    if outputs.shape[1] == 1:
        return torch.nn.functional.binary_cross_entropy_with_logits(
            outputs[:, 0], targets.double()
        )
    return torch.nn.functional.cross_entropy(outputs, targets)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("parameters", FITTED.values(), ids=FITTED)
def test_fitted_heads_are_a_stationary_point_of_weight_decay(parameters, task):
    """The module gives the decision, the optimum, and no gradient (by autograd)."""
    X, votes = make_data(3)
    options = {"beta": 0.02, "tol": 1e-7, "random_state": 0, **parameters}
    if task == "regression":
        y = votes[:, :2]
        model = ConvexAttentionRegressor(**options).fit(X, y)
        expected = model.predict(X)
    else:
        y = votes.argmax(axis=1) if task == "multiclass" else votes[:, 0] > votes[:, 1]
        model = ConvexAttentionClassifier(**options).fit(X, y)
        expected = model.decision_function(X).reshape(len(y), -1)
    assert model.rank_ > 0
    module = model.to_module()
    assert module.n_heads == model.rank_ == sum(len(h.first) for h in model.heads_)
    outputs = module(as_batch(list(X)))
    np.testing.assert_allclose(outputs.detach(), expected, rtol=1e-10, atol=1e-12)
    objective = losses(model, outputs, y) + model.beta * module.penalty()
    np.testing.assert_allclose(objective.item(), model.objective_, rtol=1e-9)
    objective.backward()
    for weights in module.parameters():
        assert weights.grad.abs().max() < 1e-4


def test_the_module_shares_no_memory_with_the_estimator():
    X, votes = make_data(2)
    model = ConvexAttentionClassifier("mlp", random_state=0).fit(X, votes.argmax(1))
    before = model.decision_function(X)
    with torch.no_grad():
        for weights in model.to_module().parameters():
            weights.zero_()
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_a_model_without_heads():
    X, votes = make_data(2)
    y = votes.argmax(1)
    model = ConvexAttentionClassifier(beta=1e3, random_state=0).fit(X, y)
    assert model.rank_ == 0
    outputs = model.to_module()(as_batch(list(X))).detach().numpy()
    np.testing.assert_allclose(outputs[:, 0], model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), rtol=1e-6)
