"""Training of many instances: its gradients, steps, inputs and records."""

import itertools

import mpmath
import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from skattn import Tokens
from skattn.datasets import make_attention_instances
from skattn.theory import alignment, attention_svm, train_attention

TORCH_LOSSES = {
    "logistic": lambda margin: torch.nn.functional.softplus(-margin),
    "exponential": lambda margin: torch.exp(-margin),
    "correlation": lambda margin: -margin,
}
SOLVERS = ["gd", "ngd", "polyak", "mirror"]


@pytest.fixture(scope="module")
def data():
    data = make_attention_instances(4, 3, 5, 6, random_state=0)
    data.relu_head = np.random.default_rng(0).standard_normal((4, 6, 3))
    # Not all lengths are equal: a middle token and a last one are absent.
    data.X[0, 1, 2] = data.X[3, 0, 4] = np.nan
    return data


def some_weights(parameterization, is_prompt, rng):
    if is_prompt:
        return {"W": rng.standard_normal((4, 6))}
    if parameterization == "W":
        return {"W": rng.standard_normal((4, 6, 6))}
    return {"K": rng.standard_normal((4, 6, 2)), "Q": rng.standard_normal((4, 6, 2))}


def torch_loss(data, weights, head, loss, activation, is_prompt):
    """Sum over instances of the mean loss, by the definition of the model."""
    present = torch.tensor(~np.isnan(data.X[..., 0]))
    tokens = torch.tensor(np.nan_to_num(data.X))
    coef = weights["W"] if "W" in weights else weights["K"] @ weights["Q"].mT
    if is_prompt:
        scores = torch.einsum("bntd,bd->bnt", tokens, coef)
    else:
        query = torch.tensor(data.query)
        scores = torch.einsum("bntd,bdq,bnq->bnt", tokens, coef, query)
    scores = scores.masked_fill(~present, -torch.inf)
    pooled = torch.einsum("bnt,bntd->bnd", torch.softmax(scores, -1), tokens)
    if activation == "relu":
        output = torch.relu(pooled @ head).sum(-1)
    else:
        output = torch.einsum("bnd,bd->bn", pooled, head)
    losses = TORCH_LOSSES[loss](torch.tensor(data.y) * output)
    return losses.mean(dim=1).sum()


def torch_descent(data, weights, head, rates, n_steps, train_head, normalised, **model):
    """Train by automatic differentiation; return the weights and the head."""
    parameters = {
        name: torch.tensor(array, requires_grad=True)
        for name, array in {**weights, "head": head}.items()
    }
    head = parameters["head"] if train_head else parameters.pop("head").detach()
    for _ in range(n_steps):
        loss = torch_loss(data, parameters, head, **model)
        names = list(parameters)
        gradients = torch.autograd.grad(loss, [parameters[name] for name in names])
        with torch.no_grad():
            for name, gradient in zip(names, gradients, strict=True):
                if normalised:
                    axes = tuple(range(1, gradient.ndim))
                    gradient /= gradient.square().sum(axes, keepdim=True).sqrt()
                parameters[name] -= rates[name] * gradient
    return {name: array.detach().numpy() for name, array in parameters.items()}


@pytest.mark.parametrize("solver", ["gd", "ngd"])
@pytest.mark.parametrize("activation", ["identity", "relu"])
@pytest.mark.parametrize("train_head", [False, True])
@pytest.mark.parametrize(
    ("parameterization", "is_prompt"), [("W", False), ("KQ", False), ("W", True)]
)
@pytest.mark.parametrize("loss", TORCH_LOSSES)
def test_steps_are_those_of_automatic_differentiation(
    data, solver, activation, train_head, parameterization, is_prompt, loss
):
    weights = some_weights(parameterization, is_prompt, np.random.default_rng(1))
    head = data.head if activation == "identity" else data.relu_head
    trajectory = train_attention(
        data.X,
        data.y,
        head,
        None if is_prompt else data.query,
        parameterization=parameterization,
        head_activation=activation,
        train_head=train_head,
        loss=loss,
        solver=solver,
        learning_rate_init=0.5,
        head_learning_rate_init=0.2 if train_head else None,
        weight_decay=0.0,
        max_iter=8,
        attention_init=weights.get("W", tuple(weights.values())),
        record=[8],
    )
    expected = torch_descent(
        data,
        weights,
        head,
        {"W": 0.5, "K": 0.5, "Q": 0.5, "head": 0.2},
        n_steps=8,
        train_head=train_head,
        normalised=solver == "ngd",
        loss=loss,
        activation=activation,
        is_prompt=is_prompt,
    )
    found = {
        "W": trajectory.attention_coef,
        "K": trajectory.key_coef,
        "Q": trajectory.query_coef,
        "head": trajectory.head,
    }
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-12)
    with torch.no_grad():
        final = {name: torch.tensor(array) for name, array in expected.items()}
        last_head = final.get("head", torch.tensor(head))
        total = torch_loss(data, final, last_head, loss, activation, is_prompt)
    np.testing.assert_allclose(trajectory.loss[-1].sum(), total.item(), rtol=1e-12)


def exact_gradient(tokens, head, signs, prompt):
    """Gradient of the logistic loss in a prompt, with a thousand digits."""
    with mpmath.workdps(1000):
        total = [mpmath.mpf(0)] * len(prompt)
        for sample, sign in zip(tokens, signs, strict=True):
            exact = [[mpmath.mpf(float(x)) for x in token] for token in sample]
            scores = [mpmath.fdot(x, map(float, prompt)) for x in exact]
            weights = [mpmath.exp(score) for score in scores]
            normalizer = mpmath.fsum(weights)
            weights = [weight / normalizer for weight in weights]
            values = [mpmath.fdot(x, map(float, head)) for x in exact]
            output = mpmath.fdot(weights, values)
            slope = -sign / (1 + mpmath.exp(sign * output))
            for weight, value, x in zip(weights, values, exact, strict=True):
                pull = slope * weight * (value - output)
                total = [
                    t + pull * feature for t, feature in zip(total, x, strict=True)
                ]
        norm = mpmath.sqrt(mpmath.fsum(t * t for t in total))
        return np.array([float(t / norm) for t in total])


@pytest.mark.parametrize("size", [1.0, 30.0, 500.0])
def test_direction_keeps_its_digits_near_saturation(size):
    # At 30 the usual form has lost all digits, at 500 the gradient underflows.
    rng = np.random.default_rng(2)
    tokens, head = rng.standard_normal((3, 4, 3)), rng.standard_normal(3)
    prompt = size * rng.standard_normal(3)
    y = [1, -1, 1]
    trajectory = train_attention(
        tokens, y, head, attention_init=prompt, learning_rate_init=size, max_iter=1
    )
    step = (prompt - trajectory.attention_coef) / size
    expected = exact_gradient(tokens, head, y, prompt)
    np.testing.assert_allclose(step, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", TORCH_LOSSES)
@pytest.mark.parametrize("parameterization", ["W", "KQ"])
def test_polyak_step_is_its_definition(data, loss, parameterization):
    weights = some_weights(parameterization, False, np.random.default_rng(3))
    trajectory = train_attention(
        data.X,
        data.y,
        data.head,
        data.query,
        parameterization=parameterization,
        loss=loss,
        solver="polyak",
        learning_rate_init=0.7,
        max_iter=1,
        attention_init=weights.get("W", tuple(weights.values())),
        record=[0],
    )
    best = np.nanmax(
        data.y[:, :, None] * np.einsum("bntd,bd->bnt", data.X, data.head), axis=2
    )
    least_loss = TORCH_LOSSES[loss](torch.tensor(best)).mean(dim=1).numpy()
    excess = trajectory.loss[0] - least_loss
    gradient_step = torch_descent(
        data,
        weights,
        data.head,
        dict.fromkeys(weights, 1.0),
        n_steps=1,
        train_head=False,
        normalised=False,
        loss=loss,
        activation="identity",
        is_prompt=False,
    )
    gradients = {name: weights[name] - gradient_step[name] for name in weights}
    square = sum(np.square(g).sum(axis=(1, 2)) for g in gradients.values())
    found = (
        {"W": trajectory.attention_coef}
        if parameterization == "W"
        else {"K": trajectory.key_coef, "Q": trajectory.query_coef}
    )
    for name, gradient in gradients.items():
        rate = 0.7 * (excess / square)[:, None, None]
        np.testing.assert_allclose(
            found[name], weights[name] - rate * gradient, rtol=0, atol=1e-11
        )


@pytest.mark.parametrize("loss", TORCH_LOSSES)
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_polyak_goes_on_where_the_excess_is_below_the_smallest_number(loss, scale):
    # One sample, two tokens: a prompt p gives the excess c exp(-p) and the gradient
    # -c exp(-p) with all digits, so that every step is one of length 1.
    start = np.array([800.0]) / scale
    trajectory = train_attention(
        [[[scale], [0.0]], [[0.0], [0.0]]],
        [1, -1],
        [1.0 / scale],
        loss=loss,
        solver="polyak",
        max_iter=5,
        attention_init=start,
        record=1,
    )
    steps = np.diff(trajectory.coefs[:, 0]) * scale
    np.testing.assert_allclose(steps, 1.0, rtol=1e-12)


def test_mirror_descent_is_its_definition(data):
    # In the primal: sign(W)|W|^(p-1) moves by the gradient over its l_q norm.
    p, q, rate = 3.0, 1.5, 0.2
    start = some_weights("W", False, np.random.default_rng(4))
    options = {"head": data.head, "query": data.query, "attention_init": start["W"]}
    mirror = train_attention(
        data.X,
        data.y,
        **options,
        solver="mirror",
        mirror_p=p,
        learning_rate_init=rate,
        max_iter=1,
    )
    plain = train_attention(
        data.X, data.y, **options, solver="gd", learning_rate_init=1.0, max_iter=1
    )
    gradient = start["W"] - plain.attention_coef
    norm = (np.abs(gradient) ** q).sum(axis=(1, 2), keepdims=True) ** (1 / q)
    dual = np.sign(start["W"]) * start["W"] ** 2 - rate * gradient / norm
    expected = np.sign(dual) * np.sqrt(np.abs(dual))
    np.testing.assert_allclose(mirror.attention_coef, expected, atol=1e-12)


@pytest.mark.parametrize("parameterization", ["W", "KQ"])
def test_mirror_descent_with_two_is_normalised_descent(data, parameterization):
    options = {"parameterization": parameterization, "weight_decay": 1e-3}
    mirror, ngd = (
        train_attention(
            data.X,
            data.y,
            data.head,
            data.query,
            solver=solver,
            max_iter=30,
            random_state=0,
            **options,
        )
        for solver in ("mirror", "ngd")
    )
    np.testing.assert_allclose(mirror.coefs, ngd.coefs, atol=1e-11)


@pytest.mark.parametrize("p", [1.004, 1.1, 1.5])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_mirror_descent_neither_overflows_nor_freezes(p):
    # The prompt needs its first feature and, for the second sample, the second.
    X = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, -0.01], [0.0, 0.0]]]
    trajectory = train_attention(
        X,
        [1, -1],
        [1.0, 1.0],
        solver="mirror",
        mirror_p=p,
        attention_init="zero",
        max_iter=3000,
    )
    assert np.isfinite(trajectory.coefs).all()
    np.testing.assert_array_equal(trajectory.selected, [0, 0])
    assert trajectory.min_top_weight[-1] > 0.9


# Few prompts choose the best tokens everywhere: Polyak's steps run away from others.
@pytest.mark.filterwarnings("ignore:.*asked for steps longer")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("is_prompt", [False, True])
def test_each_instance_is_trained_by_itself(data, solver, is_prompt):
    start = some_weights("W", is_prompt, np.random.default_rng(5))["W"]
    query = None if is_prompt else data.query
    options = {"solver": solver, "max_iter": 20}
    batch = train_attention(
        data.X, data.y, data.head, query, attention_init=start, **options
    )
    for index in range(4):
        single = train_attention(
            data.X[index],
            # Two labels in any form, where an instance has both.
            data.y[index],
            data.head[index],
            None if is_prompt else query[index],
            attention_init=start[index],
            directions={"start": start[index]},
            **options,
        )
        for name in ("norm", "loss", "top_weight", "min_top_weight", "coefs"):
            np.testing.assert_allclose(
                getattr(single, name), getattr(batch, name)[:, index], rtol=1e-9
            )
        for name in ("attention_coef", "head", "selected", "attention_weights"):
            np.testing.assert_allclose(
                getattr(single, name), getattr(batch, name)[index], rtol=1e-9
            )
        np.testing.assert_allclose(
            single.alignment["start"], batch.alignment_to(start)[:, index], rtol=1e-9
        )


def test_input_forms_of_one_instance_agree(data):
    X, y, head, query = data.X[1], [3, 7, 3], data.head[1], data.query[1]
    options = {"solver": "ngd", "max_iter": 10, "random_state": 0}
    expected = train_attention(X, y, head, query, **options)
    texts = np.array(["a", "b", "a"])
    for other in (
        train_attention(list(X), texts, head, query, **options),
        train_attention(Tokens.from_padded(X).with_query(query), y, head, **options),
        train_attention(X[None], np.array([y]), head[None], query[None], **options),
    ):
        np.testing.assert_array_equal(
            other.attention_coef.reshape(6, 6), expected.attention_coef
        )
    half = train_attention(X.astype(np.float32), y, head, query, **options)
    assert half.attention_coef.dtype == np.float64
    np.testing.assert_allclose(half.coefs, expected.coefs, atol=1e-5)


def test_absent_tokens_are_as_if_they_were_not_there(data):
    X, y, head, query = data.X[0].copy(), [1, -1, 1], data.head[0], data.query[0]
    X[0, 0] = np.nan
    shorter = [x[~np.isnan(x[:, 0])] for x in X]
    options = {"solver": "polyak", "max_iter": 15, "attention_init": "zero"}
    padded = train_attention(X, y, head, query, **options)
    ragged = train_attention(shorter, y, head, query, **options)
    np.testing.assert_allclose(padded.attention_coef, ragged.attention_coef, rtol=1e-9)
    assert padded.attention_weights[0, 0] == 0
    assert padded.selected[0] == ragged.selected[0] + 1


def test_copies_of_tokens_do_not_hold_training_up():
    # Copies of the best token stay at a gap of zero: this must not hide the others.
    data = make_attention_instances(1, 4, 4, 8, gap=0.1, random_state=3)
    X, y, head, query = data.X[0], data.y[0], data.head[0], data.query[0]
    best = (y[:, None] * (X @ head)).argmax(axis=1)
    copied = np.concatenate([X, X[np.arange(4), best][:, None]], axis=1)
    trajectory = train_attention(
        copied, y, head, query, max_iter=4000, attention_init="zero"
    )
    svm = attention_svm(X, best, query, tol=1e-9)
    assert 1 - trajectory.alignment_to(svm.coef)[-1] < 1e-3
    np.testing.assert_allclose(trajectory.attention_weights[:, 4], 0.5)


def test_nothing_to_attend_to_leaves_the_weights_alone():
    start = np.array([1.0, 2.0])
    for solver in SOLVERS:
        trajectory = train_attention(
            [[[1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],
            [0, 1],
            [1.0, 1.0],
            solver=solver,
            max_iter=3,
            attention_init=start,
        )
        np.testing.assert_array_equal(trajectory.attention_coef, start)


def test_prompt_and_head_trained_together_find_both_margins():
    # The joint case of MATH.md: p = (4/3, 1/3), v = (0, 1).
    X = np.zeros((3, 2, 2))
    X[:, 0] = [[1, 1], [1, -1], [0.5, 1]]
    trajectory = train_attention(
        X, [1, -1, 1], train_head=True, attention_init="zero", max_iter=2000
    )
    np.testing.assert_array_equal(trajectory.selected, 0)
    assert trajectory.alignment_to([4 / 3, 1 / 3])[-1] > 0.9999
    assert trajectory.alignment_to([0, 1], of="head")[-1] > 0.9999
    np.testing.assert_array_equal(trajectory.heads[0], 0)
    np.testing.assert_array_equal(trajectory.heads[-1], trajectory.head)


def test_records_are_what_they_say(data):
    rng = np.random.default_rng(6)
    shared, own = rng.standard_normal((6, 6)), rng.standard_normal((4, 6, 6))
    own[2] = np.nan
    arguments = data.X, data.y, data.head, data.query
    options = {"parameterization": "KQ", "rank": 3, "random_state": 0}
    trajectory = train_attention(
        *arguments,
        **options,
        max_iter=7,
        record=[0, 7, 3],
        directions={"shared": shared, "own": own},
    )
    np.testing.assert_array_equal(trajectory.iterations, [0, 3, 7])
    assert trajectory.key_coef.shape == trajectory.query_coef.shape == (4, 6, 3)
    product = trajectory.key_coef @ trajectory.query_coef.transpose(0, 2, 1)
    np.testing.assert_array_equal(trajectory.attention_coef, product)
    np.testing.assert_array_equal(trajectory.coefs[-1], product)
    until_3 = train_attention(*arguments, **options, max_iter=3, record=3)
    np.testing.assert_array_equal(trajectory.coefs[1], until_3.attention_coef)
    np.testing.assert_allclose(
        trajectory.norm, np.linalg.norm(trajectory.coefs, axis=(2, 3))
    )
    weights = trajectory.attention_weights
    np.testing.assert_allclose(weights.sum(axis=2), 1)
    assert (weights[np.isnan(data.X[..., 0])] == 0).all()
    np.testing.assert_array_equal(weights.argmax(axis=2), trajectory.selected)
    top = weights.max(axis=2)
    np.testing.assert_array_equal(trajectory.top_weight[-1], top.mean(axis=1))
    np.testing.assert_array_equal(trajectory.min_top_weight[-1], top.min(axis=1))
    for record, index in itertools.product(range(3), (0, 1, 3)):
        coef = trajectory.coefs[record, index]
        expected = alignment(coef, shared), alignment(coef, own[index])
        found = (
            trajectory.alignment["shared"][record, index],
            trajectory.alignment["own"][record, index],
        )
        np.testing.assert_allclose(found, expected, atol=1e-15)
    assert np.isnan(trajectory.alignment["own"][:, 2]).all()


@pytest.mark.parametrize(
    ("record", "max_iter", "expected"),
    [
        ("log", 1, [0, 1]),
        ("log", 100, [0, 1, 2, 5, 10, 20, 50, 100]),
        ("log", 30, [0, 1, 2, 5, 10, 20, 30]),
        (10, 25, [0, 10, 20, 25]),
        (np.int64(7), 7, [0, 7]),
        ([5, 0, 5], 9, [0, 5]),
    ],
)
def test_when_to_record(data, record, max_iter, expected):
    trajectory = train_attention(
        data.X,
        data.y,
        data.head,
        data.query,
        max_iter=max_iter,
        record=record,
        record_coef=False,
        random_state=0,
    )
    np.testing.assert_array_equal(trajectory.iterations, expected)
    assert trajectory.loss.shape == (len(expected), 4)
    assert trajectory.coefs is None
    with pytest.raises(ValueError, match="not recorded: train with record_coef=True"):
        trajectory.alignment_to(trajectory.attention_coef)


def test_uniform_starts_are_those_of_the_published_code():
    data = make_attention_instances(200, 2, 2, 4, random_state=0)
    arguments = data.X, data.y, data.head, data.query
    options = {"record": [0], "max_iter": 1}
    first = train_attention(*arguments, **options, random_state=1).coefs[0]
    np.testing.assert_array_equal(
        first, train_attention(*arguments, **options, random_state=1).coefs[0]
    )
    assert not np.isin(
        first, train_attention(*arguments, **options, random_state=2).coefs[0]
    ).any()
    # Uniform in (-1/2, 1/2).
    assert 0.49 < np.abs(first).max() <= 0.5
    np.testing.assert_allclose(first.var(), 1 / 12, rtol=0.05)


def test_arguments_are_left_alone(data):
    start = some_weights("KQ", False, np.random.default_rng(7))
    arrays = [data.X, data.y, data.head, data.query, *start.values()]
    before = [array.copy() for array in arrays]
    for solver in SOLVERS[:2] + SOLVERS[3:]:
        train_attention(
            *arrays[:4],
            parameterization="KQ",
            attention_init=tuple(arrays[4:]),
            train_head=True,
            solver=solver,
            max_iter=3,
        )
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_instances_that_run_away_are_stopped_and_named():
    # Attention is saturated on the worse token: Polyak's step is exp(2000).
    X = np.array([[[[1.0], [0.0]]], [[[1.0], [0.0]]]])
    with pytest.warns(ConvergenceWarning, match="1 of 2 instances asked for steps"):
        trajectory = train_attention(
            X,
            [[1], [1]],
            [1.0],
            solver="polyak",
            attention_init=[[-2000.0], [0.0]],
            max_iter=10,
        )
    np.testing.assert_array_equal(trajectory.has_run_away, [True, False])
    np.testing.assert_array_equal(trajectory.coefs[:, 0], -2000.0)
    assert trajectory.attention_coef[1] > 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_weights_that_overflow_are_an_error():
    with pytest.raises(FloatingPointError, match="The weights became infinite or NaN"):
        train_attention(
            [[[1e300], [0.0]], [[-1e300], [0.0]]],
            [0, 1],
            [1e-300],
            attention_init=[1e10],
            max_iter=2,
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros((0, 3, 5, 6))}, "at least one problem"),
        (
            {"X": np.zeros((4, 3, 5, 6)) * np.nan},
            "In problem 0 of the batch: X.0. has no tok",
        ),
        ({"X": np.full((4, 3, 5, 6), np.inf)}, "In problem 0 of the batch: .*infinit"),
        ({"y": [1, -1, 1]}, r"y must have shape \(4, 3\), one label a sample of each"),
        ({"y": np.full((4, 3), 2)}, "y must hold two labels"),
        ({"y": np.arange(12).reshape(4, 3)}, "y must hold two labels"),
        ({"head": None}, "head must be given with train_head=False"),
        ({"head": np.zeros((6, 2))}, r"head must have shape \(6,\) or \(4, 6\), got"),
        ({"head": np.full(6, np.nan)}, "head contains NaN or infinity"),
        (
            {"head_activation": "relu"},
            r"head must have shape \(6, m\) or \(4, 6, m\), got \(4, 6\)",
        ),
        (
            {"head": None, "head_activation": "relu", "train_head": True},
            "from zero it never moves",
        ),
        ({"query": np.zeros((4, 2, 6))}, "In problem 0 of the batch: query"),
        ({"query": np.zeros((3, 3, 6))}, "query must hold one entry for each of the 4"),
        ({"query": np.full((4, 3, 6), np.nan)}, "In problem 0 of the batch: "),
        ({"query": None, "parameterization": "KQ"}, 'parameterization="KQ" needs quer'),
        ({"rank": 2}, "rank=2 has no meaning"),
        (
            {"parameterization": "KQ", "attention_init": "zero"},
            "K = Q = 0 never moves",
        ),
        (
            {"parameterization": "KQ", "attention_init": np.zeros((6, 6))},
            r"or a pair \(K, Q\) with",
        ),
        (
            {
                "parameterization": "KQ",
                "attention_init": (np.ones((6, 2)), np.ones((6, 3))),
            },
            "one number of columns, the rank; got 2 and 3",
        ),
        (
            {
                "parameterization": "KQ",
                "rank": 2,
                "attention_init": (np.ones((6, 3)), np.ones((6, 3))),
            },
            r"attention_init\[0\] must have shape \(6, 2\) or",
        ),
        ({"attention_init": np.zeros(6)}, r"attention_init must have shape \(6, 6\)"),
        ({"attention_init": "ones"}, "The 'attention_init' parameter"),
        ({"mirror_p": 3.0}, "mirror_p=3.0 has no meaning with solver"),
        ({"solver": "mirror", "mirror_p": 1.0}, "The 'mirror_p' parameter"),
        ({"solver": "adam"}, "The 'solver' parameter"),
        ({"loss": "hinge"}, "The 'loss' parameter"),
        ({"learning_rate_init": 0.0}, "The 'learning_rate_init' parameter"),
        ({"max_iter": 0}, "The 'max_iter' parameter"),
        ({"head_learning_rate_init": 0.1}, "no meaning with train_head=False"),
        ({"solver": "polyak", "train_head": True}, "needs a fixed linear head"),
        ({"solver": "polyak", "weight_decay": 0.1}, "weight_decay=0.1 has no meaning"),
        ({"record": [0, 2000]}, "iterations from 0 to max_iter=1000, got 0 to 2000"),
        ({"record": 0}, "an interval of at least 1"),
        ({"record": []}, 'record must be "log", an interval or'),
        ({"record": "all"}, 'record must be "log", an interval or'),
        ({"record": 0.5}, 'record must be "log", an interval or'),
        ({"directions": {"svm": np.ones(6)}}, r"directions\['svm'\] must have shape"),
    ],
)
def test_what_is_refused(data, arguments, message):
    valid = {"X": data.X, "y": data.y, "head": data.head, "query": data.query}
    with pytest.raises(ValueError, match=message):
        train_attention(**{**valid, **arguments})


def test_directions_must_be_named(data):
    with pytest.raises(TypeError, match="directions must be a dict of names and arr"):
        train_attention(
            data.X, data.y, data.head, data.query, directions=np.ones((6, 6))
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"direction": np.ones((4, 6))}, r"direction must have shape \(4, 6, 6\), got"),
        ({"direction": np.ones((4, 6)), "of": "head"}, "and train_head=True"),
        ({"direction": np.ones((4, 6)), "of": "tail"}, "'attention' or 'head'"),
    ],
)
def test_what_alignment_refuses(data, arguments, message):
    trajectory = train_attention(data.X, data.y, data.head, data.query, max_iter=1)
    with pytest.raises(ValueError, match=message):
        trajectory.alignment_to(**arguments)
