"""Gradient descent with Polyak's step size."""

import math
import sys
from dataclasses import dataclass

import torch

from skattn.optim._groups import (
    GroupOptimizer,
    blocks,
    check_above,
    check_norm,
    evaluate,
    moving_parameters,
    scaled_norm,
)

__all__ = ["PolyakGD"]


class PolyakGD(GroupOptimizer):
    """Gradient descent with Polyak's step size: ``W -= (L - L*) / |grad|^2 * grad``.

    L is the loss and L* its optimum: where the loss is convex, no other step size
    promises to come nearer to the optimum [1]_. On attention with a fixed head the
    steps grow as the gradient vanishes, and the direction converges to the attention
    SVM in tens of steps.

    With a known optimum there is one evaluation a step. If L - L* can be had without
    subtracting, let the closure return it and set ``optimum=0``: the digits of L are
    used up long before the direction is final. :func:`skattn.optim.excess_loss` does so
    for attention with a fixed head.

    With ``optimum=None`` a target takes the place of L*: the lowest loss so far less a
    level, as in the target-level methods [2]_. The level grows by half after a step
    that brings at least half of the decrease it promises. A step that brings less
    halves it, and one after which the loss is not lower is undone and tried again. So
    the loss never rises, and neither flat regions nor an optimum that is out of reach
    make steps diverge. This takes at least two evaluations a step, of a closure that
    gives the same loss when it is called again.

    Parameters
    ----------
    params : iterable of torch.Tensor, of (name, tensor) pairs or of dict
        Parameters, or parameter groups, which may have options of their own but for
        `optimum`.
    lr : float, default=1
        Share of Polyak's step to take; below 2 for convergence.
    optimum : float or None, default=0
        L*, or a lower bound of the loss; None estimates it on the way.
    max_lr : float or None, default=None
        Largest step size, the factor of the gradient; None means no limit. With a limit
        the method is the SPS_max of [3]_, which mini-batches need unless each can reach
        the optimum.
    norm : {"global", "group"}, default="global"
        Whether one step size serves all parameters, or each group has one of its own,
        ``(L - L*) / (m |grad of the group|^2)``, with m the number of groups whose
        gradient is not zero; then a group per matrix (K, Q, ...) normalises each by
        itself. Both promise the same decrease.

    Raises
    ------
    ValueError
        If an option is out of its range, in any group.

    References
    ----------
    .. [1] Polyak, "Introduction to Optimization", Optimization Software, 1987.
    .. [2] Nedic and Bertsekas, "Incremental Subgradient Methods for Nondifferentiable
       Optimization", SIAM Journal on Optimization 12, 2001, the dynamic step size.
    .. [3] Loizou et al., "Stochastic Polyak Step-size for SGD", arXiv 2002.10542.

    Examples
    --------
    >>> import torch
    >>> from skattn.optim import PolyakGD
    >>> weight = torch.nn.Parameter(torch.tensor([3.0, -4.0]))
    >>> optimizer = PolyakGD([weight], optimum=1.0)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = weight.abs().sum() + 1.0
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(8., grad_fn=<AddBackward0>)
    >>> weight.detach()
    tensor([-0.5000, -0.5000])
    """

    def __init__(self, params, lr=1.0, *, optimum=0.0, max_lr=None, norm="global"):
        options = {"lr": lr, "optimum": optimum, "max_lr": max_lr, "norm": norm}
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure=None):
        """Take one step.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss and its gradients, and returns the
            loss. It cannot be left out: the step size needs the loss.

        Returns
        -------
        loss : torch.Tensor or float
            What `closure` returned before the step.

        Raises
        ------
        TypeError
            If there is no closure.
        ValueError
            If the loss is below the known optimum by more than rounding.
        FloatingPointError
            If the loss is not finite; or, with a known optimum and without `max_lr`, if
            the step has no finite length: the gradient has vanished, but the loss is
            above the optimum. Weights stay as they were.
        """
        loss = evaluate(closure)
        if loss is None:
            raise TypeError(
                "PolyakGD.step needs a closure that returns the loss, from which the "
                "step size is computed."
            )
        value = _as_number(loss)
        if not math.isfinite(value):
            raise FloatingPointError(f"The loss is {value}: there is no step to take.")
        parts, n_blocks = self._parts()
        optimum = self.param_groups[0]["optimum"]
        if optimum is None:
            self._step_to_level(closure, value, parts, n_blocks)
        else:
            excess = self._excess(value, optimum)
            lengths = [part.length(excess / n_blocks) for part in parts]
            self._refuse_endless(lengths, excess)
            _move(parts, lengths)
        return loss

    def _parts(self):
        """Return the parameters that move, and the number of norms they share."""
        parts, n_blocks = [], 0
        for block in blocks(self.param_groups):
            moving = [(group, *moving_parameters(group)) for group in block]
            every = [gradient for _, _, gradients in moving for gradient in gradients]
            peak, norm = scaled_norm(every)
            if not torch.isfinite(peak):
                raise FloatingPointError(
                    "The gradient is not finite: there is no step to take."
                )
            if peak == 0.0:
                continue
            n_blocks += 1
            size = float(peak) * float(norm)
            parts += [
                _Part(group, parameter, gradient / peak / norm, size)
                for group, parameters, gradients in moving
                for parameter, gradient in zip(parameters, gradients, strict=True)
            ]
        return parts, max(n_blocks, 1)

    def _excess(self, value, optimum):
        excess = value - optimum
        if excess < -math.sqrt(self._rounding()) * max(1.0, abs(optimum)):
            raise ValueError(
                f"The loss, {value}, is below optimum={optimum}. Lower optimum, or "
                "set optimum=None to estimate it."
            )
        return max(excess, 0.0)

    def _refuse_endless(self, lengths, excess):
        vanished = not lengths and excess > self._rounding()
        if vanished and all(g["max_lr"] is None for g in self.param_groups):
            lengths = [math.inf]
        longest = torch.finfo(self._dtype).max
        if not all(length < longest for length in lengths):
            raise FloatingPointError(
                f"The gradient has vanished while the loss is {excess:.3g} above the "
                "optimum, so that Polyak's step has no finite length: the weights are "
                "at a stationary point from which the optimum is out of reach. Set "
                "max_lr, or optimum=None (in the estimators, use solver='ngd', or "
                "start elsewhere)."
            )

    def _step_to_level(self, closure, value, parts, n_blocks):
        """Take the step to a target below the loss, shortened until the loss falls."""
        if not parts:
            return
        state = self.state[self.param_groups[0]["params"][0]]
        level = state.get("level", 0.5 * abs(value) or parts[0].size)
        before = [part.parameter.clone() for part in parts]
        # A decrease below the rounding of the loss could not be seen.
        smallest = max(self._rounding() * abs(value), sys.float_info.min)
        while True:
            lengths = [part.length(level / n_blocks) for part in parts]
            promised = sum(map(_Part.decrease, parts, lengths))
            _move(parts, lengths)
            decrease = value - _as_number(evaluate(closure))
            if decrease >= 0.5 * promised:
                # A level that max_lr keeps from having an effect need not grow.
                if not any(map(_Part.is_limit, parts, lengths)):
                    level *= 1.5
                break
            level *= 0.5
            if decrease > 0.0:
                break
            for part, old in zip(parts, before, strict=True):
                part.parameter.copy_(old)
            if level < smallest:
                break
        state["level"] = max(level, smallest)

    def _check_group(self, group):
        check_above(group, "lr", 0.0, "positive")
        if group["optimum"] is not None and not math.isfinite(group["optimum"]):
            raise ValueError(
                f"optimum must be a finite number or None, got {group['optimum']!r}."
            )
        if group["max_lr"] is not None:
            check_above(group, "max_lr", 0.0, "positive or None")
        check_norm(group)
        if group["optimum"] != self.defaults["optimum"]:
            raise ValueError(
                "optimum is that of the whole loss: give it to the optimiser, not to a "
                "parameter group."
            )

    def _rounding(self):
        """Return the unit of rounding of the weights, and so of the loss."""
        return torch.finfo(self._dtype).eps

    @property
    def _dtype(self):
        return self.param_groups[0]["params"][0].dtype


@dataclass(frozen=True)
class _Part:
    """A parameter that moves.

    `unit` is its part of the gradient of its block, divided by the length of that
    gradient, `size`.
    """

    group: dict
    parameter: torch.Tensor
    unit: torch.Tensor
    size: float

    def length(self, excess):
        """Length of the step of the block that is to bring this decrease."""
        length = self.group["lr"] * (excess / self.size)
        if self.group["max_lr"] is None:
            return length
        return min(length, self._limit)

    def is_limit(self, length):
        """Whether a length is the largest that `max_lr` allows."""
        return self.group["max_lr"] is not None and length == self._limit

    @property
    def _limit(self):
        return self.group["max_lr"] * self.size

    def decrease(self, length):
        """Decrease that a step of this length promises to first order."""
        return length * self.size * float(self.unit.square().sum())


def _move(parts, lengths):
    for part, length in zip(parts, lengths, strict=True):
        part.parameter.sub_(length * part.unit)


def _as_number(loss):
    return float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)
