"""Normalised gradient descent."""

import torch

from skattn.optim._groups import (
    GroupOptimizer,
    blocks,
    check_above,
    check_norm,
    check_weight_decay,
    moving_parameters,
    unit_length,
)

__all__ = ["NormalizedGD"]


class NormalizedGD(GroupOptimizer):
    """Gradient descent with steps of fixed length: ``W -= lr * grad / |grad|``.

    The optimiser of arXiv:2308.16898. Attention trained on its way to the SVM has
    gradients that vanish exponentially; normalised, they keep it going. Every
    parameter group is normalised by the norm of all its gradients together, so a
    group per matrix (K, Q, ...) normalises each by itself.

    A gradient of any size gives a step of length `lr`: there is no constant in the
    denominator, and the largest entry is divided out before squaring, so that nothing
    underflows. Without momentum, a group whose gradient is exactly zero stays where
    it is.

    Parameters
    ----------
    params : iterable of torch.Tensor, of (name, tensor) pairs or of dict
        Parameters, or parameter groups, which may have options of their own.
    lr : float, default=0.1
        Length of the step of each group.
    weight_decay : float, default=0
        What is added to the gradient, before it is normalised, for each unit of weight.
        Even the smallest decay is a brake once the gradient has vanished.
    momentum : float in [0, 1), default=0
        Heavy ball on the normalised direction: ``V = momentum * V + grad / |grad|``
        and ``W -= lr * V``, so that steps are at most ``lr / (1 - momentum)`` long. A
        zero gradient adds nothing to V, which goes on moving the weights.
    norm : {"group", "global"}, default="group"
        Whether a group is normalised by itself, or by one norm over the gradients of
        all groups with ``norm="global"``.

    Raises
    ------
    ValueError
        If an option is out of its range, in any group.

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

    def __init__(self, params, lr=0.1, weight_decay=0.0, *, momentum=0.0, norm="group"):
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "norm": norm,
        }
        super().__init__(params, options)

    def _move(self):
        for block in blocks(self.param_groups):
            self._move_block(block)

    def _move_block(self, block):
        groups, parameters, gradients = [], [], []
        for group in block:
            moving, own_gradients = moving_parameters(group)
            groups += [group] * len(moving)
            parameters += moving
            gradients += own_gradients
        directions = unit_length(gradients)
        for group, parameter, direction in zip(
            groups, parameters, directions, strict=True
        ):
            if group["momentum"] > 0.0:
                direction = self._with_momentum(parameter, direction, group["momentum"])
            parameter.sub_(group["lr"] * direction)

    def _with_momentum(self, parameter, direction, momentum):
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return state["momentum_buffer"].mul_(momentum).add_(direction)

    @staticmethod
    def _check_group(group):
        check_above(group, "lr", 0.0, "positive")
        check_weight_decay(group)
        if not 0.0 <= group["momentum"] < 1.0:
            raise ValueError(
                f"momentum must be at least 0 and below 1, got {group['momentum']!r}."
            )
        check_norm(group)
