"""One step of training: the objective, its gradient, the optimiser."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from skattn.attention.regularization import drop_tokens, mix_within_class
from skattn.optim.averaging import WeightAverage
from skattn.optim.excess import excess_loss
from skattn.optim.losses import log_loss
from skattn.optim.mirror import MirrorDescent
from skattn.optim.normalized import NormalizedGD
from skattn.optim.polyak import PolyakGD

__all__ = ["SOLVERS", "Noise", "Steps", "make_optimizer"]

SOLVERS = ("adam", "lbfgs", "gd", "ngd", "polyak", "mirror")

# The product of K and Q grows with the square of the number of normalised steps, and
# its gradient is gone before its direction is final. The decay of the code published
# with arXiv:2308.16898 holds it where the gradient is about as large, and there the
# direction keeps improving. Mirror descent has the same steps, with another length.
KEY_QUERY_DECAY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Noise:
    """What makes the samples of a step differ from those given.

    Parameters
    ----------
    rng : numpy.random.RandomState or None
        The source of randomness.
    token_dropout : float, default=0
        See :func:`skattn.attention.drop_tokens`.
    mixup : float, default=0
        See :func:`skattn.attention.mix_within_class`.
    """

    rng: np.random.RandomState | None = None
    token_dropout: float = 0.0
    mixup: float = 0.0

    def __call__(self, batch, targets):
        """Return a batch of the same samples, with their tokens changed."""
        if self.mixup > 0.0:
            batch = mix_within_class(batch, targets, self.mixup, self.rng)
        if self.token_dropout > 0.0:
            batch = drop_tokens(batch, self.token_dropout, self.rng)
        return batch


class Steps:
    """The steps of the optimiser, on all samples or on mini-batches.

    With `by_excess` the optimiser sees the loss less the infimum that the fixed head
    allows, which has all its digits where the loss has none left. `average` is the
    decay of the average of the weights, 0 for none, and `average_state` what it goes on
    from.
    """

    def __init__(
        self,
        model,
        optimizer,
        alpha,
        by_excess=False,
        diversity=0.0,
        loss=log_loss,
        noise=None,
        average=0.0,
        average_state=None,
    ):
        self.model = model
        self.optimizer = optimizer
        self.parameters = [p for g in optimizer.param_groups for p in g["params"]]
        self.penalised = [p for p in self.parameters if p.ndim > 1]
        self.alpha = alpha
        self.by_excess = by_excess
        self.diversity = diversity
        self.loss = loss
        self.noise = Noise() if noise is None else noise
        self.average = None
        if average > 0.0:
            self.average = WeightAverage(self.parameters, average, average_state)
        self.needs_slope = isinstance(optimizer, torch.optim.LBFGS)
        #: Largest entry of the gradient where the last step of lbfgs began.
        self.largest_slope = np.inf

    def step(self, batch, targets, sample_weight):
        """Take one step; returns the loss before it."""
        batch = self.noise(batch, targets)
        shares = sample_weight / sample_weight.sum()
        loss_before = None

        def closure():
            nonlocal loss_before
            for parameter in self.parameters:
                parameter.grad = None
            infimum = 0.0
            if self.by_excess:
                loss, infimum = excess_loss(self.model, batch, targets, shares)
            else:
                loss = self.objective(batch, targets, shares)
            loss.backward()
            if loss_before is None:
                loss_before = float(loss.detach()) + float(infimum)
                if self.needs_slope:
                    self.largest_slope = max(
                        float(p.grad.abs().max()) for p in self.parameters
                    )
            return loss

        self.optimizer.step(closure)
        if self.average is not None:
            self.average.update()
        return loss_before

    def averaged(self):
        """Return a context in which the model has its averaged weights, if any."""
        return nullcontext() if self.average is None else self.average.in_place()

    def pass_over(self, batch, targets, sample_weight, batch_size, rng):
        """Take a step on each mini-batch; returns their weighted mean loss."""
        order = torch.from_numpy(rng.permutation(batch.n_samples)).to(targets.device)
        losses, totals = [], []
        for index in order.split(batch_size):
            own_weight = sample_weight[index]
            losses.append(self.step(batch.take(index), targets[index], own_weight))
            totals.append(float(own_weight.sum()))
        return float(np.average(losses, weights=totals))

    def objective(self, batch, targets, shares):
        """Loss of samples of these shares, with the penalties."""
        if self.diversity > 0.0:
            logits, overlap = self.model.forward_with_overlap(batch)
            losses = self.loss(logits, targets) + self.diversity * overlap
        else:
            losses = self.loss(self.model(batch), targets)
        loss = shares.dot(losses)
        if self.alpha > 0.0:
            for weight in self.penalised:
                entries = weight.flatten()
                loss = loss + 0.5 * self.alpha * entries.dot(entries)
        return loss


def make_optimizer(
    solver, groups, learning_rate, state, *, mirror_p=2.0, optimum=None, max_lr=None
):
    """Build the torch optimiser of a solver, going on from `state` if there is one.

    `mirror_p` is for "mirror"; `optimum`, of the loss, and `max_lr` for "polyak".
    """
    parameters = [parameter for group in groups.values() for parameter in group]
    if solver == "lbfgs":
        optimizer = torch.optim.LBFGS(
            parameters,
            max_iter=1,
            max_eval=25,
            # Training decides when to stop; left to itself, torch would halt early.
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )
    elif solver == "adam":
        optimizer = torch.optim.Adam(parameters, lr=learning_rate, fused=True)
    elif solver == "gd":
        optimizer = torch.optim.SGD(parameters, lr=learning_rate)
    elif solver == "polyak":
        optimizer = _polyak(groups, optimum, max_lr)
    elif solver == "ngd":
        optimizer = NormalizedGD(_apart(groups, weight_decay=True), lr=learning_rate)
    else:
        optimizer = _mirror_descent(groups, learning_rate, mirror_p)
    if state:
        # The state carries its own options, which must not win over new ones.
        options = [_options(group) for group in optimizer.param_groups]
        optimizer.load_state_dict(state)
        for group, own_options in zip(optimizer.param_groups, options, strict=True):
            group.update(own_options)
    return optimizer


def _apart(groups, weight_decay=False):
    """Return a parameter group for each part of the model."""
    apart = [{"params": group} for group in groups.values()]
    if weight_decay:
        for name, group in zip(groups, apart, strict=True):
            group["weight_decay"] = KEY_QUERY_DECAY if name in ("key", "query") else 0.0
    return apart


def _polyak(groups, optimum, max_lr):
    # A group whose gradient is small, as that of attention is while the head is near 0,
    # cannot bring its share of the decrease. The gradients of K and Q are alike.
    norm = "group" if groups.keys() <= {"key", "query"} else "global"
    return PolyakGD(_apart(groups), optimum=optimum, max_lr=max_lr, norm=norm)


def _mirror_descent(groups, learning_rate, p):
    apart = _apart(groups, weight_decay=True)
    for name, group in zip(groups, apart, strict=True):
        # The potential is that of the attention SVM; the rest of the model has none.
        group["p"] = p if name in ("attention", "key", "query") else 2.0
    with warnings.catch_warnings():
        # Normalised steps leave zero after at most about 1 / lr of them.
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ weights start at 0")
        return MirrorDescent(apart, p=p, lr=learning_rate, normalized=True)


def _options(group):
    return {name: value for name, value in group.items() if name != "params"}
