"""Training with regularisers: what they do to the loss, and their seeds."""

import numpy as np
import pytest
import torch

from skattn.attention import (
    AttentionModel,
    RaggedTokens,
    TokenBatch,
    initial_parameters,
)
from skattn.optim import train

N_SAMPLES = 30


def problem(n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 6, size=N_SAMPLES)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = RaggedTokens.from_arrays(rng.normal(size=(offsets[-1], 3)), offsets)
    targets = torch.tensor(rng.integers(max(2, n_outputs), size=N_SAMPLES))
    return TokenBatch(tokens), targets


def model(n_outputs=1, dropout=0.0):
    parameters = initial_parameters(
        np.random.RandomState(0),
        n_features=3,
        query_kind="prompt",
        n_outputs=n_outputs,
        hidden_size=4,
    )
    parameters["coef"] += 0.3
    return AttentionModel.from_parameters(parameters, dropout=dropout)


def trained(dropout=0.0, **options):
    own = model(dropout=dropout)
    batch, targets = problem()
    rng = np.random.RandomState(options.pop("seed", 0))
    result = train(own, batch, targets, rng=rng, max_iter=5, tol=0, **options)
    with torch.no_grad():
        return own(batch), result


NOISE = [
    {"token_dropout": 0.4},
    {"mixup": 0.5},
    {"dropout": 0.4},
    {"token_dropout": 0.2, "mixup": 1.0, "dropout": 0.2, "batch_size": 7},
]


@pytest.mark.parametrize("noise", NOISE)
def test_seed_alone_decides(noise):
    state = torch.get_rng_state()
    first, _ = trained(**noise)
    again, _ = trained(**noise)
    other, _ = trained(**noise, seed=1)
    plain, _ = trained()
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, plain)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_trained_model_drops_nothing():
    own = model(dropout=0.5)
    batch, targets = problem()
    seen = []
    train(
        own,
        batch,
        targets,
        rng=np.random.RandomState(0),
        max_iter=2,
        on_epoch=lambda epoch: seen.append(epoch.model.training),
    )
    assert seen == [False, False]
    assert not own.training
    with torch.no_grad():
        assert torch.equal(own(batch), own(batch))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_smoothed_labels_keep_probabilities_away_from_0_and_1(n_outputs):
    own = model(n_outputs)
    batch, targets = problem(n_outputs)
    train(
        own,
        batch,
        targets,
        learning_rate=0.1,
        max_iter=2000,
        tol=0,
        label_smoothing=0.3,
        rng=np.random.RandomState(0),
    )
    with torch.no_grad():
        logits = own(batch)
    both = (
        torch.cat([torch.zeros_like(logits), logits], 1) if n_outputs == 1 else logits
    )
    largest = both.softmax(dim=1).max(dim=1).values
    # The optimum of a loss that can be fitted perfectly is (1 - s) + s / n_classes.
    n_classes = max(2, n_outputs)
    assert largest.median() < 0.7 + 0.3 / n_classes + 0.05


def test_the_average_of_weights_is_what_predicts():
    followed = []

    def keep(epoch):
        followed.append(epoch.model.state_dict()["head.coef"].clone())

    averaged, _ = trained(average=0.5, on_epoch=keep)
    last = []
    plain, _ = trained(
        on_epoch=lambda e: last.append(e.model.state_dict()["head.coef"].clone())
    )
    powers = 0.5 ** np.arange(4, -1, -1)
    expected = sum(p * c for p, c in zip(powers, last, strict=True)) / powers.sum()
    torch.testing.assert_close(followed[-1], expected)
    assert not torch.allclose(averaged, plain)


def test_average_goes_on_with_the_state_of_the_optimizer():
    batch, targets = problem()
    options = {"tol": 0, "average": 0.7}
    whole = model()
    train(whole, batch, targets, max_iter=6, **options)
    parts = model()
    result = train(parts, batch, targets, max_iter=2, **options)
    train(
        parts,
        batch,
        targets,
        max_iter=4,
        optimizer_state=result.optimizer_state,
        **options,
    )
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert "average" in result.optimizer_state


def test_validation_sees_and_restores_averaged_weights():
    batch, targets = problem()
    own = model()
    seen = []

    def validation(model):
        seen.append(model.state_dict()["head.coef"].clone())
        return -len(seen)

    train(own, batch, targets, max_iter=4, average=0.5, validation=validation)
    torch.testing.assert_close(own.state_dict()["head.coef"], seen[0])


def test_squared_error_trains_to_least_squares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3
    parameters = initial_parameters(
        np.random.RandomState(0), n_features=3, query_kind="prompt", n_outputs=1
    )
    own = AttentionModel.from_parameters(parameters)
    batch = TokenBatch(RaggedTokens.from_arrays(X, np.arange(41)))
    train(
        own,
        batch,
        torch.tensor(y),
        loss="squared_error",
        solver="lbfgs",
        tol=1e-10,
        max_iter=500,
    )
    np.testing.assert_allclose(own.head.coef.detach()[0], [1, -2, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token_dropout": 1.0}, "token_dropout must be in"),
        ({"mixup": -1.0}, "mixup must be at least 0"),
        ({"average": 1.0}, "average must be in"),
        ({"mixup": 1.0, "loss": "squared_error"}, "mixup=1.0 mixes"),
        ({"token_dropout": 0.1, "solver": "lbfgs"}, "token_dropout=0.1 makes"),
        ({"mixup": 0.1, "solver": "polyak"}, "mixup=0.1 makes"),
        ({"dropout": 0.1, "solver": "lbfgs"}, "dropout=0.1 makes"),
        ({"average": 0.9, "solver": "lbfgs"}, "average=0.9 smooths"),
    ],
)
def test_contradictions_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        trained(**options)


def test_noise_needs_a_generator():
    batch, targets = problem()
    with pytest.raises(ValueError, match="rng must be given"):
        train(model(), batch, targets, token_dropout=0.1)
