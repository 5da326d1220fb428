"""What the optimisers of the theory have in common: parameter groups and norms."""

import torch
from torch.optim import Optimizer

NORMS = ("group", "global")


class GroupOptimizer(Optimizer):
    """Checks the options of every parameter group, whenever it comes.

    Subclasses have ``_check_group(options)``, which raises, and ``_move()``, which
    takes a step along the gradients.
    """

    def add_param_group(self, param_group):
        """Add a parameter group, with the options that it does not have itself.

        Parameters
        ----------
        param_group : dict
            "params", and any of the options of the class.
        """
        self._check_group({**self.defaults, **param_group})
        super().add_param_group(param_group)

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
        loss = evaluate(closure)
        self._move()
        return loss


def check_above(group, name, bound, what):
    """Refuse an option of a parameter group that does not exceed a bound."""
    if not group[name] > bound:
        raise ValueError(f"{name} must be {what}, got {group[name]!r}.")


def check_weight_decay(group):
    """Refuse a negative weight decay of a parameter group."""
    if not group["weight_decay"] >= 0.0:
        raise ValueError(
            f"weight_decay must be at least 0, got {group['weight_decay']!r}."
        )


def check_norm(group):
    """Refuse a parameter group whose norm is not one of `NORMS`."""
    if group["norm"] not in NORMS:
        raise ValueError(
            f"norm must be one of {', '.join(map(repr, NORMS))}, got {group['norm']!r}."
        )


def evaluate(closure):
    """Return the loss of a closure, which may need gradients; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def moving_parameters(group):
    """Return the parameters of a group that have a gradient, and their gradients."""
    parameters, gradients = [], []
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        if group.get("weight_decay", 0.0) > 0.0:
            gradient = gradient + group["weight_decay"] * parameter
        parameters.append(parameter)
        gradients.append(gradient)
    return parameters, gradients


def blocks(param_groups):
    """Return the lists of groups that share a norm.

    Groups of ``norm="global"`` share one, and each of the others has its own.
    """
    apart = [[group] for group in param_groups if group["norm"] == "group"]
    together = [group for group in param_groups if group["norm"] == "global"]
    return [*apart, together] if together else apart


def largest_entry(tensors):
    """Return the largest absolute entry of some tensors, as a tensor."""
    peaks = [tensor.abs().amax() for tensor in tensors if tensor.numel()]
    if not peaks:
        return torch.zeros(())
    return torch.stack(peaks).amax()


def scaled_norm(tensors, order=2.0):
    """Return the largest entry of some tensors, and their joint norm divided by it.

    So taken apart, nothing underflows. Without tensors, or when all are zero, 0 and 1.
    """
    peak = largest_entry(tensors)
    if peak == 0.0:
        return peak, torch.ones_like(peak)
    norms = [torch.linalg.vector_norm(tensor / peak, ord=order) for tensor in tensors]
    return peak, torch.linalg.vector_norm(torch.stack(norms), ord=order)


def unit_length(gradients, order=2.0):
    """Divide gradients by their joint l_order norm; zeros stay as they are."""
    peak, norm = scaled_norm(gradients, order)
    if peak == 0.0:
        return gradients
    return [gradient / peak / norm for gradient in gradients]
