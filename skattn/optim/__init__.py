"""Optimisers of the theory of attention, and the trainer of attention models."""

from skattn.optim.normalized import NormalizedGD
from skattn.optim.results import Epoch, TrainingResult
from skattn.optim.trainer import train

__all__ = ["Epoch", "NormalizedGD", "TrainingResult", "train"]
