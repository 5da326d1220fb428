"""Transformers of tokens: from tables and series to tokens, and from tokens to tokens.

Each gives back the container that it was given: an array for an array, a list for a
list, :class:`skattn.Tokens`, with their positions and queries, for `Tokens`.
"""

from skattn.preprocessing._features import FeatureTokenizer
from skattn.preprocessing._positions import PositionalEncoding
from skattn.preprocessing._scaling import TokenScaler
from skattn.preprocessing._windows import WindowTokenizer

__all__ = ["FeatureTokenizer", "PositionalEncoding", "TokenScaler", "WindowTokenizer"]
