"""Explanations, and displays in the manner of scikit-learn's; these need matplotlib."""

from skattn.inspection._attention_map import AttentionMapDisplay
from skattn.inspection._faithfulness import FaithfulnessCurve, faithfulness
from skattn.inspection._faithfulness_display import FaithfulnessDisplay
from skattn.inspection._head_redundancy import head_redundancy
from skattn.inspection._margin_path import MarginPathDisplay
from skattn.inspection._permutation_importance import token_permutation_importance
from skattn.inspection._sparsity import SparsityDisplay
from skattn.inspection._token_margin import TokenMarginDisplay

__all__ = [
    "AttentionMapDisplay",
    "FaithfulnessCurve",
    "FaithfulnessDisplay",
    "MarginPathDisplay",
    "SparsityDisplay",
    "TokenMarginDisplay",
    "faithfulness",
    "head_redundancy",
    "token_permutation_importance",
]
