"""Losses against torch's and scikit-learn's own."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss as sklearn_log_loss
from torch import nn

from skattn.optim.losses import log_loss, make_loss, squared_error

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_cross_entropy_is_that_of_torch(smoothing):
    logits = torch.tensor(RNG.normal(size=(20, 4)))
    targets = torch.tensor(RNG.integers(4, size=20))
    own = log_loss(logits, targets, smoothing).mean()
    other = nn.CrossEntropyLoss(label_smoothing=smoothing)(logits, targets)
    torch.testing.assert_close(own, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_one_output_is_two_classes(smoothing):
    logits = torch.tensor(RNG.normal(size=(20, 1)))
    targets = torch.tensor(RNG.integers(2, size=20))
    both = torch.cat([torch.zeros_like(logits), logits], dim=1)
    torch.testing.assert_close(
        log_loss(logits, targets, smoothing), log_loss(both, targets, smoothing)
    )
    if smoothing == 0.0:
        expected = sklearn_log_loss(targets, torch.sigmoid(logits[:, 0]))
        assert np.isclose(log_loss(logits, targets).mean(), expected)


def test_squared_error_is_half_the_mean_over_outputs():
    outputs, targets = torch.tensor(RNG.normal(size=(2, 7, 3)))
    expected = 0.5 * ((outputs - targets) ** 2).numpy().mean(axis=1)
    np.testing.assert_allclose(squared_error(outputs, targets), expected)
    one = squared_error(outputs[:, :1], targets[:, 0])
    torch.testing.assert_close(one, squared_error(outputs[:, :1], targets[:, :1]))


def test_targets_must_fit_the_outputs():
    with pytest.raises(ValueError, match=r"targets must have shape \(4, 2\)"):
        squared_error(torch.zeros(4, 2), torch.zeros(4))


@pytest.mark.parametrize(
    ("name", "smoothing", "message"),
    [
        ("hinge", 0.0, "loss must be one of"),
        ("log_loss", 1.0, "label_smoothing must be in"),
        ("squared_error", 0.1, "label_smoothing=0.1 needs labels"),
    ],
)
def test_unknown_losses_are_refused(name, smoothing, message):
    with pytest.raises(ValueError, match=message):
        make_loss(name, smoothing)
