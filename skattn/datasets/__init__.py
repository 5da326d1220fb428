"""Data sets of sequences and bags, bundled or generated."""

from skattn.datasets._boolean import make_boolean_tokens
from skattn.datasets._bundled import load_japanese_vowels, load_musk1
from skattn.datasets._generated import make_token_selection
from skattn.datasets._theory import make_attention_instances

__all__ = [
    "load_japanese_vowels",
    "load_musk1",
    "make_attention_instances",
    "make_boolean_tokens",
    "make_token_selection",
]
