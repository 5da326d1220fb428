"""Heads, pooled statistics, gates and the overlap of heads, against loops in NumPy."""

import numpy as np
import pytest
import scipy.special
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad_vec

from skattn.attention import (
    AttentionModel,
    GatedScoring,
    LinearHead,
    MLPHead,
    RaggedTokens,
    TableTokens,
    TokenBatch,
    initial_parameters,
)
from skattn.attention.diversity import head_overlap
from skattn.attention.heads import _mean_slope
from skattn.attention.pooling import check_pooling, pool, pooled_width
from skattn.attention.segments import Segments
from skattn.optim.excess import excess_loss, has_excess_loss

OFFSETS = np.array([0, 3, 4, 9, 11])
ALL = ("attention", "mean", "min", "max")
POOLINGS = [("attention",), ALL, ("max", "attention"), ("min", "attention", "mean")]


def ragged():
    values = np.random.RandomState(0).randn(11, 6)
    return RaggedTokens.from_arrays(values, OFFSETS), np.split(values, OFFSETS[1:-1])


def table(n_columns=3):
    cells = np.random.RandomState(1).randn(4, n_columns)
    cells[0, 0] = 0.0
    dense = [np.column_stack([np.eye(n_columns), np.diag(row)]) for row in cells]
    return TableTokens.from_array(cells), dense


LAYOUTS = {"ragged": ragged, "table": table, "one column": lambda: table(1)}


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return LAYOUTS[request.param]()


def gelu(x):
    return x * scipy.special.ndtr(x)


def pooled_by_hand(samples, weights, pooling):
    rows = []
    for X, w in zip(samples, weights, strict=True):
        of = {
            "attention": np.ravel(w.T @ X),
            "mean": X.mean(axis=0),
            "min": X.min(axis=0),
            "max": X.max(axis=0),
        }
        rows.append(np.concatenate([of[name] for name in pooling]))
    return np.array(rows)


def some_weights(samples, n_heads=2):
    rng = np.random.RandomState(3)
    weights = [rng.rand(len(X), n_heads) for X in samples]
    return [w / w.sum(axis=0) for w in weights]


def some_head(kind, pooling, n_features, n_heads=2, n_outputs=3):
    rng = np.random.RandomState(4)
    width = pooled_width(pooling, n_heads, n_features)
    if kind == "linear":
        shapes = [(n_outputs, width), (n_outputs,)]
        return LinearHead(*(torch.tensor(rng.randn(*s)) for s in shapes), pooling)
    shapes = [(width, 5), (5,), (n_outputs, 5), (n_outputs,)]
    return MLPHead(*(torch.tensor(rng.randn(*s)) for s in shapes), pooling)


class TestPooling:
    @pytest.mark.parametrize("pooling", POOLINGS, ids=str)
    def test_is_side_by_side(self, layout, pooling):
        tokens, samples = layout
        weights = some_weights(samples)
        pooled = pool(tokens, torch.tensor(np.concatenate(weights)), pooling)
        assert pooled.shape[1] == pooled_width(pooling, 2, tokens.n_features)
        assert_allclose(pooled, pooled_by_hand(samples, weights, pooling), atol=1e-14)

    @pytest.mark.parametrize("name", ["mean", "min", "max"])
    def test_shares_add_up_to_the_statistic(self, layout, name):
        tokens, _ = layout
        shares = tokens.matmul_shares(name, torch.eye(tokens.n_features).double())
        assert_allclose(tokens.segments.sum(shares), tokens.statistic(name), atol=1e-14)

    @pytest.mark.parametrize("name", ["min", "max"])
    def test_an_extreme_belongs_to_the_tokens_that_attain_it(self, layout, name):
        tokens, samples = layout
        shares = tokens.matmul_shares(name, torch.eye(tokens.n_features).double())
        start = 0
        for X in samples:
            attains = getattr(X, name)(axis=0) == X
            expected = np.where(attains, X / attains.sum(axis=0), 0.0)
            assert_allclose(shares[start : start + len(X)], expected, atol=1e-14)
            start += len(X)

    def test_ties_share(self):
        tokens = RaggedTokens.from_arrays([[2.0], [2.0], [1.0], [5.0]], [0, 3, 4])
        one = torch.ones(1, 1).double()
        assert_array_equal(tokens.matmul_shares("max", one)[:, 0], [1.0, 1.0, 0.0, 5.0])

    def test_gradient_of_extremes(self):
        values = torch.tensor(np.random.RandomState(2).randn(11, 3))
        segments = ragged()[0].segments
        for name in ("mean", "min", "max"):

            def statistic(values, name=name):
                return RaggedTokens(values, segments).statistic(name)

            assert torch.autograd.gradcheck(statistic, values.requires_grad_())

    @pytest.mark.parametrize(
        ("pooling", "message"),
        [
            ("mean", "must contain 'attention'"),
            (["mean", "max"], "must contain 'attention'"),
            ([], "must contain 'attention'"),
            (["attention", "median"], "'median', which is none of 'attention', 'mean'"),
            (["attention", None], "None, which is none of"),
            (["attention", "max", "max"], "has a name twice"),
        ],
    )
    def test_errors(self, pooling, message):
        with pytest.raises(ValueError, match=message):
            check_pooling(pooling)


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
class TestHeads:
    def test_linear(self, layout, pooling):
        tokens, samples = layout
        weights = some_weights(samples)
        head = some_head("linear", pooling, tokens.n_features)
        outputs = head(tokens, torch.tensor(np.concatenate(weights))).detach()
        pooled = pooled_by_hand(samples, weights, pooling)
        expected = pooled @ head.coef.detach().numpy().T
        assert_allclose(outputs, expected + head.intercept.detach().numpy(), atol=1e-13)

    def test_mlp(self, layout, pooling):
        tokens, samples = layout
        weights = some_weights(samples)
        head = some_head("mlp", pooling, tokens.n_features)
        outputs = head(tokens, torch.tensor(np.concatenate(weights))).detach()
        M, b, coef, intercept = (p.detach().numpy() for p in head.parameters())
        units = gelu(pooled_by_hand(samples, weights, pooling) @ M + b) - gelu(b)
        assert_allclose(outputs, units @ coef.T + intercept, atol=1e-13)

    @pytest.mark.parametrize("kind", ["linear", "mlp"])
    def test_contributions_add_up(self, layout, pooling, kind):
        tokens, samples = layout
        weights = torch.tensor(np.concatenate(some_weights(samples)))
        head = some_head(kind, pooling, tokens.n_features)
        sums = tokens.segments.sum(head.contributions(tokens, weights))
        expected = head(tokens, weights) - head.intercept
        assert_allclose(sums.detach(), expected.detach(), atol=1e-12)

    def test_contributions_are_integrated_gradients(self, layout, pooling):
        """Of the pooled vector, from zero, told token by token, by quadrature."""
        tokens, samples = layout
        weights = some_weights(samples)
        all_weights = torch.tensor(np.concatenate(weights))
        head = some_head("mlp", pooling, tokens.n_features)
        pooled = pool(tokens, all_weights, pooling)
        M, b, coef, _ = (p.detach() for p in head.parameters())

        def slopes(share):
            at = (share * pooled @ M + b).requires_grad_()
            torch.nn.functional.gelu(at).sum().backward()
            return np.einsum("nk,pk,ok->nop", at.grad, M, coef)

        gradients, _ = quad_vec(slopes, 0, 1, epsabs=0, epsrel=1e-13)
        linear = [
            LinearHead(torch.tensor(gradient), torch.zeros(3).double(), pooling)
            for gradient in gradients
        ]
        contributions = head.contributions(tokens, all_weights).detach()
        for index, of_sample in enumerate(linear):
            own = slice(*tokens.offsets[index : index + 2])
            expected = of_sample.contributions(tokens, all_weights).detach()
            assert_allclose(contributions[own], expected[own], atol=1e-10)


def gelu_slope(x):
    return scipy.special.ndtr(x) + x * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("put_in", [0.0, 1e-12, 1e-6, 0.0999, -0.1001, 2.0, -30.0])
def test_mean_slope_has_all_digits(put_in):
    start = np.array([-1.3, 0.0, 0.7, 4.0])
    got = _mean_slope(
        torch.full((4,), put_in, dtype=torch.float64), torch.tensor(start)
    )
    expected, _ = quad_vec(
        lambda share: gelu_slope(start + share * put_in), 0, 1, epsabs=0, epsrel=1e-14
    )
    assert_allclose(got, expected, rtol=1e-13, atol=1e-17)


class TestGates:
    def test_equation_9(self, layout):
        tokens, samples = layout
        rng = np.random.RandomState(5)
        V, U = rng.randn(2, tokens.n_features, 4)
        w = rng.randn(2, 4)
        scores = GatedScoring(*map(torch.tensor, (V, U, w)))(tokens, None).detach()
        X = np.concatenate(samples)
        expected = (np.tanh(X @ V) * scipy.special.expit(X @ U)) @ w.T
        assert_allclose(scores, expected, atol=1e-13)

    def test_gradient_of_everything(self, layout):
        tokens, _ = layout
        parameters = initial_parameters(
            np.random.RandomState(0),
            n_features=tokens.n_features,
            query_kind="prompt",
            n_outputs=2,
            n_heads=2,
            hidden_size=3,
            gate_size=2,
            pooling=ALL,
            head_hidden_size=4,
        )
        rng = np.random.RandomState(1)
        moved = {name: v + 0.3 * rng.randn(*v.shape) for name, v in parameters.items()}
        model = AttentionModel.from_parameters(moved, pooling=ALL)
        names = [name for name, _ in model.named_parameters()]
        values = tuple(p.detach().requires_grad_() for p in model.parameters())

        def outputs(*values):
            named = dict(zip(names, values, strict=True))
            return torch.func.functional_call(model, named, (TokenBatch(tokens),))

        assert torch.autograd.gradcheck(outputs, values)
        returned = model.parameters_as_arrays()
        assert returned.keys() == moved.keys()
        for name, value in moved.items():
            assert_array_equal(returned[name], value)
        assert set(model.parameter_groups()) == {
            "hidden", "tanh", "sigmoid", "attention", "head",
        }  # fmt: skip

    def test_only_a_prompt_has_gates(self):
        with pytest.raises(ValueError, match="gate_size is for query_kind='prompt'"):
            initial_parameters(
                np.random.RandomState(0),
                n_features=2,
                query_kind="mean",
                n_outputs=1,
                gate_size=3,
            )


class TestOverlap:
    def test_is_the_mean_cosine(self):
        tokens, samples = ragged()
        weights = some_weights(samples, n_heads=3)
        overlap = head_overlap(torch.tensor(np.concatenate(weights)), tokens.segments)
        for got, w in zip(overlap, weights, strict=True):
            unit = w / np.linalg.norm(w, axis=0)
            cosines = (unit.T @ unit)[np.triu_indices(3, k=1)]
            assert got == pytest.approx(cosines.mean(), abs=1e-14)

    def test_gradient(self):
        segments = Segments(torch.tensor(OFFSETS))
        weights = torch.tensor(np.random.RandomState(0).rand(11, 3) + 0.1)
        assert torch.autograd.gradcheck(
            lambda values: head_overlap(values, segments), weights.requires_grad_()
        )


def test_the_infimum_is_known_of_attention_pooling_only():
    zeros = torch.zeros(1, 4).double(), torch.zeros(1).double()
    assert has_excess_loss(_with_head(LinearHead(*zeros)))
    others = [
        LinearHead(*zeros, ["attention", "max"]),
        MLPHead(torch.zeros(4, 4), torch.zeros(4), *zeros),
    ]
    for head in others:
        model = _with_head(head)
        assert not has_excess_loss(model)
        with pytest.raises(ValueError, match="pools by attention alone"):
            excess_loss(model, None, None)


def _with_head(head):
    parameters = {
        "attention_coef": np.zeros((1, 4)), "coef": np.zeros((1, 4)),
        "intercept": np.zeros(1),
    }  # fmt: skip
    model = AttentionModel.from_parameters(parameters)
    model.head = head
    return model
