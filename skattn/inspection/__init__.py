"""Displays of attention, in the manner of scikit-learn's; they need matplotlib."""

from skattn.inspection._margin_path import MarginPathDisplay
from skattn.inspection._sparsity import SparsityDisplay
from skattn.inspection._token_margin import TokenMarginDisplay

__all__ = ["MarginPathDisplay", "SparsityDisplay", "TokenMarginDisplay"]
