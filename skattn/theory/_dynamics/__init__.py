"""Training of attention on many instances at once, with its trajectory."""

from skattn.theory._dynamics._train import train_attention
from skattn.theory._dynamics._trajectory import AttentionTrajectory

__all__ = ["AttentionTrajectory", "train_attention"]
