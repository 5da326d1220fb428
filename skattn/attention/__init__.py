"""Attention over samples of any number of tokens, as torch modules."""

from skattn.attention.convex_heads import ConvexHeads
from skattn.attention.layouts import RaggedTokens, TableTokens, TokenBatch
from skattn.attention.model import (
    Attended,
    AttentionModel,
    HiddenLayer,
    LinearHead,
)
from skattn.attention.parameters import initial_parameters
from skattn.attention.scoring import (
    BilinearScoring,
    KeyQueryScoring,
    PromptScoring,
)

__all__ = [
    "Attended",
    "AttentionModel",
    "BilinearScoring",
    "ConvexHeads",
    "HiddenLayer",
    "KeyQueryScoring",
    "LinearHead",
    "PromptScoring",
    "RaggedTokens",
    "TableTokens",
    "TokenBatch",
    "initial_parameters",
]
