"""Data sets of sequences and bags, bundled or generated."""

from skattn.datasets._bundled import load_japanese_vowels, load_musk1
from skattn.datasets._generated import make_token_selection

__all__ = ["load_japanese_vowels", "load_musk1", "make_token_selection"]
