"""What training reports, on the way and at the end."""

from dataclasses import dataclass, field

import torch

__all__ = ["Epoch", "TrainingResult"]


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch; `train` gives it to `on_epoch`.

    Parameters
    ----------
    number : int
        From 0.
    loss : float
        Regularised loss, before the step for full batches and on the way for
        mini-batches.
    validation_score : float or None
        Score of the current weights, if there is a validation.
    model : torch.nn.Module
        The model being trained, with its current weights.

    Examples
    --------
    >>> from skattn.optim import Epoch
    >>> Epoch(number=0, loss=0.69, validation_score=None, model=None).loss
    0.69
    """

    number: int
    loss: float
    validation_score: float | None
    model: torch.nn.Module


@dataclass
class TrainingResult:
    """What became of a training.

    Parameters
    ----------
    loss_curve : list of float
        Regularised loss of every epoch.
    validation_scores : list of float or None
        Score of every epoch, or None without validation.
    converged : bool
        Whether the rule that stops training held, or none was asked for
        (``tol=0``).
    stopped_by_callback : bool
        Whether `on_epoch` ended the training.
    optimizer_state : dict
        Of the torch optimiser, from which another training can go on.

    Examples
    --------
    >>> from skattn.optim import TrainingResult
    >>> TrainingResult(loss_curve=[0.7, 0.6]).n_iter
    2
    """

    loss_curve: list = field(default_factory=list)
    validation_scores: list | None = None
    converged: bool = False
    stopped_by_callback: bool = False
    optimizer_state: dict = field(default_factory=dict)

    @property
    def n_iter(self):
        """Number of epochs."""
        return len(self.loss_curve)

    @property
    def best_loss(self):
        """Lowest loss of any epoch."""
        return min(self.loss_curve)
