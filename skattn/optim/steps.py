"""One step of training: the objective, its gradient, the optimiser."""

import numpy as np
import torch
from torch.nn import functional

from skattn.optim.normalized import NormalizedGD

__all__ = ["SOLVERS", "Steps", "make_optimizer"]

SOLVERS = ("adam", "lbfgs", "gd", "ngd")

# The product of K and Q grows with the square of the number of normalised steps, and
# its gradient is gone before its direction is final. The decay of the code published
# with arXiv:2308.16898 holds it where the gradient is about as large, and there the
# direction keeps improving.
KEY_QUERY_DECAY = float(np.finfo(np.float64).eps)


class Steps:
    """The steps of the optimiser, on all samples or on mini-batches."""

    def __init__(self, model, optimizer, alpha):
        self.model = model
        self.optimizer = optimizer
        self.parameters = [p for g in optimizer.param_groups for p in g["params"]]
        self.penalised = [p for p in self.parameters if p.ndim > 1]
        self.alpha = alpha
        self.needs_slope = isinstance(optimizer, torch.optim.LBFGS)
        #: Largest entry of the gradient where the last step of lbfgs began.
        self.largest_slope = np.inf

    def step(self, batch, targets, sample_weight):
        """Take one step; returns the loss before it."""
        shares = sample_weight / sample_weight.sum()
        loss_before = None

        def closure():
            nonlocal loss_before
            for parameter in self.parameters:
                parameter.grad = None
            loss = self.objective(batch, targets, shares)
            loss.backward()
            if loss_before is None:
                loss_before = float(loss.detach())
                if self.needs_slope:
                    self.largest_slope = max(
                        float(p.grad.abs().max()) for p in self.parameters
                    )
            return loss

        self.optimizer.step(closure)
        return loss_before

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
        """Loss of samples of these shares, with the penalty."""
        loss = shares.dot(_sample_losses(self.model(batch), targets))
        if self.alpha > 0.0:
            for weight in self.penalised:
                entries = weight.flatten()
                loss = loss + 0.5 * self.alpha * entries.dot(entries)
        return loss


def _sample_losses(logits, targets):
    """Logistic loss for one output, cross-entropy for several, (n_samples,)."""
    if logits.shape[1] == 1:
        signs = 2.0 * targets.to(logits.dtype) - 1.0
        # Unlike sigmoid(logit) - target, its gradient has all digits when small.
        return -functional.logsigmoid(signs * logits.squeeze(1))
    return functional.cross_entropy(logits, targets, reduction="none")


def make_optimizer(solver, groups, learning_rate, state):
    """Build the torch optimiser of a solver, going on from `state` if there is one."""
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
    else:
        optimizer = NormalizedGD(
            [
                {
                    "params": group,
                    "weight_decay": KEY_QUERY_DECAY
                    if name in ("key", "query")
                    else 0.0,
                }
                for name, group in groups.items()
            ],
            lr=learning_rate,
        )
    if state:
        # The state carries its own learning rates, which must not win over a new one.
        rates = [group["lr"] for group in optimizer.param_groups]
        optimizer.load_state_dict(state)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
    return optimizer
