"""Optimisers of the theory of attention, and the trainer of attention models."""

from skattn.optim.excess import excess_loss
from skattn.optim.mirror import MirrorDescent
from skattn.optim.normalized import NormalizedGD
from skattn.optim.polyak import PolyakGD
from skattn.optim.results import Epoch, TrainingResult
from skattn.optim.trainer import train

__all__ = [
    "Epoch",
    "MirrorDescent",
    "NormalizedGD",
    "PolyakGD",
    "TrainingResult",
    "excess_loss",
    "train",
]
