"""The model, against loops in NumPy and the closed-form gradient."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.special
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.attention import (
    AttentionModel,
    BilinearScoring,
    ConvolutionLayer,
    LinearHead,
    PromptScoring,
    RaggedTokens,
    TableTokens,
    TokenBatch,
    initial_parameters,
)

LENGTHS = np.array([3, 1, 5, 2])
OFFSETS = np.r_[0, LENGTHS.cumsum()]
LAST = OFFSETS[1:] - 1


def random_parameters(seed=0, **options):
    """Initial parameters moved off their zeros."""
    rng = np.random.RandomState(seed)
    parameters = initial_parameters(rng, **options)
    return {name: value + rng.randn(*value.shape) for name, value in parameters.items()}


def sequences(width=4, seed=1):
    values = np.random.RandomState(seed).randn(OFFSETS[-1], width)
    return values, RaggedTokens.from_arrays(values, OFFSETS)


def expected_logits(parameters, samples, queries):
    """The model as its papers write it, one sample and head at a time."""
    outputs = []
    for X, query in zip(samples, queries, strict=True):
        if "hidden_coef" in parameters:
            X = X @ parameters["hidden_coef"] + parameters["hidden_intercept"]
            X = X * scipy.special.ndtr(X)
        if "key_coef" in parameters:
            keys_and_queries = zip(
                parameters["key_coef"], parameters["query_coef"], strict=True
            )
            heads = [K @ Q.T for K, Q in keys_and_queries]
        else:
            heads = parameters["attention_coef"]
        directions = [W if query is None else W @ query(X) for W in heads]
        pooled = [scipy.special.softmax(X @ p) @ X for p in directions]
        outputs.append(
            parameters["coef"] @ np.concatenate(pooled) + parameters["intercept"]
        )
    return np.array(outputs)


GIVEN = np.random.RandomState(7).randn(4, 3)
KINDS = {
    "prompt": [None] * 4,
    "rows": [lambda X: X[-1]] * 4,
    "mean": [lambda X: X.mean(axis=0)] * 4,
    "given": [lambda X, z=z: z for z in GIVEN],
}


@pytest.mark.parametrize("hidden_size", [0, 5])
@pytest.mark.parametrize("n_heads", [1, 3])
@pytest.mark.parametrize(
    ("kind", "parameterization"),
    [("prompt", "W"), *itertools.product(["rows", "mean", "given"], ["W", "KQ"])],
)
@pytest.mark.parametrize("layout", ["sequences", "table"])
def test_forward(layout, kind, parameterization, n_heads, hidden_size):
    if layout == "sequences":
        values, tokens = sequences()
        samples = np.split(values, OFFSETS[1:-1])
        last = LAST
    else:
        cells = np.random.RandomState(2).randn(4, 2)
        tokens = TableTokens.from_array(cells)
        samples = [np.column_stack([np.eye(2), np.diag(row)]) for row in cells]
        last = np.array([1, 3, 5, 7])
    parameters = random_parameters(
        n_features=4,
        query_kind=kind,
        n_query_features=3 if kind == "given" else None,
        parameterization=parameterization,
        rank=2 if parameterization == "KQ" else None,
        n_heads=n_heads,
        hidden_size=hidden_size,
        n_outputs=2,
    )
    model = AttentionModel.from_parameters(parameters, query_kind=kind)
    batch = TokenBatch(
        tokens,
        query=torch.tensor(GIVEN) if kind == "given" else None,
        query_rows=torch.tensor(last) if kind == "rows" else None,
    )
    logits = model(batch)
    assert_allclose(
        logits.detach(),
        expected_logits(parameters, samples, KINDS[kind]),
        atol=1e-12,
    )

    attended = model.attend(batch)
    pooled = attended.pooled.detach().numpy()
    assert pooled.shape == (4, n_heads * (hidden_size or 4))
    again = pooled @ parameters["coef"].T + parameters["intercept"]
    assert_allclose(logits.detach(), again, atol=1e-12)
    contributions = model.head.contributions(attended.features, attended.weights)
    by_sample = attended.features.segments.sum(contributions).detach()
    assert_allclose(
        by_sample, logits.detach().numpy() - parameters["intercept"], atol=1e-12
    )

    alone = model(batch.take(torch.tensor([2]))).detach()
    assert_allclose(alone[0], logits.detach()[2], atol=1e-12)


@pytest.mark.parametrize("mapping", ["softmax", "sparsemax", "entmax15"])
@pytest.mark.parametrize("layout", ["sequences", "table"])
def test_gradient_of_everything(mapping, layout):
    if layout == "sequences":
        tokens = sequences()[1]
    else:
        tokens = TableTokens.from_array(np.random.RandomState(2).randn(4, 2))
    parameters = random_parameters(
        n_features=4,
        query_kind="mean",
        parameterization="KQ",
        n_heads=2,
        hidden_size=3,
        n_outputs=2,
    )
    model = AttentionModel.from_parameters(
        parameters, mapping=mapping, query_kind="mean"
    )
    names = [name for name, _ in model.named_parameters()]
    values = tuple(p.detach().requires_grad_() for p in model.parameters())

    def outputs(*values):
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model, named, (TokenBatch(tokens),))

    assert torch.autograd.gradcheck(outputs, values)


def sphere(rng, *shape):
    points = rng.randn(*shape)
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_closed_form_gradient(scale):
    """grad W = sum_i c_i sum_t s_it (g_it - o_i) x_it z_i' of the logistic loss."""
    n, T, d = 6, 8, 10
    rng = np.random.RandomState(0)
    X, z, v = sphere(rng, n, T, d), sphere(rng, n, d), sphere(rng, d)
    y = rng.choice([-1, 1], size=n)
    W = scale * rng.uniform(-1, 1, size=(d, d))

    s = scipy.special.softmax(np.einsum("itd,de,ie->it", X, W, z), axis=1)
    g = X @ v
    o = (s * g).sum(1)
    c = -y * scipy.special.expit(-y * o) / n
    expected = np.einsum("i,it,itd,ie->de", c, s * (g - o[:, None]), X, z)

    model = AttentionModel.from_parameters(
        {"attention_coef": W[None], "coef": v[None], "intercept": np.zeros(1)},
        query_kind="given",
    )
    tokens = RaggedTokens.from_arrays(X.reshape(n * T, d), np.arange(n + 1) * T)
    logits = model(TokenBatch(tokens, query=torch.tensor(z)))[:, 0]
    loss = torch.nn.functional.softplus(-torch.tensor(y) * logits).mean()
    loss.backward()
    gradient = model.scoring.attention_coef.grad[0].numpy()
    assert_allclose(gradient, expected, atol=1e-12 * np.abs(expected).max())


def test_parameters_return_as_they_came():
    parameters = random_parameters(
        n_features=4,
        query_kind="rows",
        parameterization="KQ",
        n_heads=2,
        hidden_size=3,
        n_outputs=2,
    )
    kept = copy.deepcopy(parameters)
    model = AttentionModel.from_parameters(parameters, query_kind="rows")
    returned = model.parameters_as_arrays()
    assert returned.keys() == parameters.keys()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    for name, value in kept.items():
        assert_array_equal(returned[name], value)
        assert_array_equal(parameters[name], value)
    assert set(model.parameter_groups()) == {"hidden", "key", "query", "head"}
    single = AttentionModel.from_parameters(
        parameters, query_kind="rows", dtype=torch.float32
    )
    assert single.parameters_as_arrays()["coef"].dtype == np.float32


def test_pickle():
    parameters = random_parameters(n_features=4, query_kind="prompt", n_outputs=1)
    model = AttentionModel.from_parameters(parameters, mapping="sparsemax")
    batch = TokenBatch(sequences()[1])
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again(batch).detach(), model(batch).detach())


def test_initial_model_is_mean_pooling_at_equal_odds():
    values, tokens = sequences()
    parameters = initial_parameters(
        np.random.RandomState(0), n_features=4, query_kind="prompt", n_outputs=1
    )
    model = AttentionModel.from_parameters(parameters)
    attended = model.attend(TokenBatch(tokens))
    means = [part.mean(0) for part in np.split(values, OFFSETS[1:-1])]
    assert_allclose(attended.pooled.detach(), means, atol=1e-15)
    assert_array_equal(model(TokenBatch(tokens)).detach(), 0)


@pytest.mark.parametrize("parameterization", ["W", "KQ"])
def test_initial_heads_differ_within_bounds(parameterization):
    parameters = initial_parameters(
        np.random.RandomState(0),
        n_features=25,
        query_kind="mean",
        parameterization=parameterization,
        n_heads=2,
        n_outputs=1,
    )
    for name in parameters.keys() - {"coef", "intercept"}:
        first, second = parameters[name]
        assert not np.any(first == second)
        assert 0.15 < np.abs(parameters[name]).max() <= 0.2


def test_randomness_is_the_generators_alone():
    before_numpy = np.random.get_state()[1].copy()  # noqa: NPY002
    before_torch = torch.get_rng_state()
    options = {"n_features": 3, "query_kind": "mean", "n_heads": 2, "n_outputs": 1}
    first, second = (
        initial_parameters(np.random.RandomState(5), **options) for _ in range(2)
    )
    AttentionModel.from_parameters(first, query_kind="mean")
    assert_array_equal(first["attention_coef"], second["attention_coef"])
    assert_array_equal(np.random.get_state()[1], before_numpy)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before_torch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query_kind": "median"}, "query_kind must be one of"),
        ({"query_kind": "mean", "parameterization": "V"}, "'W' or 'KQ'"),
        ({"query_kind": "prompt", "parameterization": "KQ"}, "needs queries"),
        ({"query_kind": "mean", "rank": 2}, "rank is for"),
        ({"query_kind": "given"}, "n_query_features"),
        ({"query_kind": "mean", "n_query_features": 2}, "n_query_features"),
    ],
)
def test_initial_parameters_errors(options, message):
    with pytest.raises(ValueError, match=message):
        initial_parameters(
            np.random.RandomState(0), n_features=2, n_outputs=1, **options
        )


def test_model_errors():
    head = LinearHead(torch.zeros(1, 2), torch.zeros(1))
    prompt = PromptScoring(torch.zeros(1, 2))
    bilinear = BilinearScoring(torch.zeros(1, 2, 2))
    with pytest.raises(ValueError, match="mapping must be one of"):
        AttentionModel(prompt, head, mapping="hardmax")
    with pytest.raises(ValueError, match="query_kind must be one of"):
        AttentionModel(prompt, head, query_kind="median")
    with pytest.raises(ValueError, match="does not go with BilinearScoring"):
        AttentionModel(bilinear, head, query_kind="prompt")
    with pytest.raises(ValueError, match="does not go with PromptScoring"):
        AttentionModel(prompt, head, query_kind="mean")
    batch = TokenBatch(RaggedTokens.from_arrays(np.zeros((2, 2)), [0, 2]))
    with pytest.raises(ValueError, match=r"needs batch\.query_rows"):
        AttentionModel(bilinear, head, query_kind="rows")(batch)
    with pytest.raises(ValueError, match=r"needs batch\.query\."):
        AttentionModel(bilinear, head, query_kind="given")(batch)


def test_a_kernel_makes_the_hidden_layer_a_convolution():
    parameters = initial_parameters(
        np.random.RandomState(0),
        n_features=2,
        query_kind="prompt",
        n_outputs=1,
        hidden_size=3,
        kernel_size=5,
    )
    assert parameters["hidden_coef"].shape == (5, 2, 3)
    model = AttentionModel.from_parameters(parameters)
    assert isinstance(model.hidden, ConvolutionLayer)
    assert not model.training
