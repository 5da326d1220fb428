"""A moving average of the weights, which predicts in their place."""

from contextlib import contextmanager

import torch

__all__ = ["WeightAverage"]


class WeightAverage:
    """Exponential moving average of parameters over training steps.

    After n steps it is ``sum_i decay^(n-i) theta_i (1 - decay) / (1 - decay^n)``: the
    weights of the first steps count no more than their share.

    Parameters
    ----------
    parameters : list of torch.nn.Parameter
        What is averaged; the average follows their values.
    decay : float in [0, 1)
        How much of the average each step keeps.
    state : dict, default=None
        :meth:`state_dict` of an earlier average of the same parameters, whose values it
        takes too.

    References
    ----------
    Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992;
    the decay is that of arXiv:1412.6980, section 7.2.

    Examples
    --------
    >>> import torch
    >>> from skattn.optim.averaging import WeightAverage
    >>> weight = torch.nn.Parameter(torch.tensor([0.0]))
    >>> average = WeightAverage([weight], decay=0.5)
    >>> for value in (3.0, 6.0):
    ...     with torch.no_grad():
    ...         _ = weight.fill_(value)
    ...     average.update()
    >>> with average.in_place():
    ...     print(weight.item())
    5.0
    >>> weight.item()
    6.0
    """

    def __init__(self, parameters, decay, state=None):
        self.parameters = list(parameters)
        self.decay = decay
        self.sums = [torch.zeros_like(p) for p in self.parameters]
        self.n_steps = 0
        if state is not None:
            self.n_steps = state["n_steps"]
            with torch.no_grad():
                for own, value in zip(self.sums, state["sums"], strict=True):
                    own.copy_(value)
                for own, value in zip(self.parameters, state["last"], strict=True):
                    own.copy_(value)

    def update(self):
        """Take note of the parameters after a step."""
        self.n_steps += 1
        with torch.no_grad():
            torch._foreach_lerp_(self.sums, self.parameters, 1.0 - self.decay)

    @contextmanager
    def in_place(self):
        """Put the average in the place of the parameters for a while."""
        last = [p.detach().clone() for p in self.parameters]
        self.apply()
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, last)

    def apply(self):
        """Put the average in the place of the parameters."""
        if self.n_steps == 0:
            return
        total = 1.0 - self.decay**self.n_steps
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, torch._foreach_div(self.sums, total))

    def state_dict(self):
        """Return what another average needs to go on."""
        return {
            "n_steps": self.n_steps,
            "sums": [value.clone() for value in self.sums],
            "last": [p.detach().clone() for p in self.parameters],
        }
