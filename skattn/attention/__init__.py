"""Attention over samples of any number of tokens, as torch modules."""

from skattn.attention.convex_heads import ConvexHeads
from skattn.attention.encoder import Encoder
from skattn.attention.heads import LinearHead, MLPHead
from skattn.attention.hidden import ConvolutionLayer, HiddenLayer
from skattn.attention.layouts import (
    RaggedTokens,
    SharedTokens,
    TableTokens,
    TokenBatch,
)
from skattn.attention.mapping import Mapping, initial_mapping_parameters
from skattn.attention.model import Attended, AttentionModel
from skattn.attention.parameters import initial_parameters
from skattn.attention.regularization import Dropout, drop_tokens, mix_within_class
from skattn.attention.scoring import (
    BilinearScoring,
    GatedScoring,
    KeyQueryScoring,
    PromptScoring,
)

__all__ = [
    "Attended",
    "AttentionModel",
    "BilinearScoring",
    "ConvexHeads",
    "ConvolutionLayer",
    "Dropout",
    "Encoder",
    "GatedScoring",
    "HiddenLayer",
    "KeyQueryScoring",
    "LinearHead",
    "MLPHead",
    "Mapping",
    "PromptScoring",
    "RaggedTokens",
    "SharedTokens",
    "TableTokens",
    "TokenBatch",
    "drop_tokens",
    "initial_mapping_parameters",
    "initial_parameters",
    "mix_within_class",
]
