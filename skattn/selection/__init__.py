"""Transformers that put the tokens an estimator attends to into a pipeline."""

from skattn.selection._pooling import AttentionPooling
from skattn.selection._selector import TokenSelector

__all__ = ["AttentionPooling", "TokenSelector"]
