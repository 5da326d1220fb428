"""Normalised gradient descent."""

import torch
from torch.optim import Optimizer

__all__ = ["NormalizedGD"]


class NormalizedGD(Optimizer):
    """Gradient descent with steps of fixed length: ``W -= lr * grad / |grad|``.

    The optimiser of arXiv:2308.16898. Attention trained on its way to the SVM has
    gradients that vanish exponentially; normalised, they keep it going. Every
    parameter group is normalised by the norm of all its gradients together, so a
    group per matrix (K, Q, ...) normalises each by itself.

    A gradient of any size gives a step of length `lr`: there is no constant in the
    denominator, and the largest entry is divided out before squaring, so that nothing
    underflows. A group whose gradient is exactly zero stays where it is.

    Parameters
    ----------
    params : iterable of torch.Tensor, of (name, tensor) pairs or of dict
        Parameters, or parameter groups.
    lr : float, default=0.1
        Length of the step of each group.
    weight_decay : float, default=0
        What is added to the gradient, before it is normalised, for each unit of weight.
        Even the smallest decay is a brake once the gradient has vanished.

    Raises
    ------
    ValueError
        If `lr` is not positive or `weight_decay` is negative.

    Examples
    --------
    >>> import torch
    >>> from skattn.optim import NormalizedGD
    >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> optimizer = NormalizedGD([weight], lr=5.0)
    >>> (0.5e-30 * weight @ weight).backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0., 0.])
    """

    def __init__(self, params, lr=0.1, weight_decay=0.0):
        if not lr > 0.0:
            raise ValueError(f"lr must be positive, got {lr}.")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay must be at least 0, got {weight_decay}.")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        """Take one step.

        Parameters
        ----------
        closure : callable, default=None
            Reevaluates the model and returns the loss.

        Returns
        -------
        loss : torch.Tensor or None
            What `closure` returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            if moving:
                _take_step(moving, group["lr"], group["weight_decay"])
        return loss


def _take_step(parameters, lr, weight_decay):
    gradients = [p.grad for p in parameters]
    if weight_decay > 0.0:
        gradients = [p.grad + weight_decay * p for p in parameters]
    peak = torch.stack([gradient.abs().amax() for gradient in gradients]).amax()
    if peak == 0.0:
        return
    directions = [gradient / peak for gradient in gradients]
    norm = torch.stack([direction.norm() for direction in directions]).norm()
    for parameter, direction in zip(parameters, directions, strict=True):
        parameter.sub_(lr * (direction / norm))
