"""What layouts share whose samples all have the same number of tokens."""

from functools import cached_property

import torch

from skattn.attention.layouts._positions import Positions
from skattn.attention.layouts._ragged import RaggedTokens
from skattn.attention.segments import Segments


class EvenTokens(Positions):
    """Samples that all have the same number of tokens.

    A layout has `n_samples` and `n_tokens_each`.
    """

    def __init__(self):
        self._by_position = {}

    @cached_property
    def segments(self):
        """Where each sample starts and ends."""
        steps = torch.arange(self.n_samples + 1, device=self.device)
        return Segments(steps * self.n_tokens_each)

    @property
    def positions(self):
        """Position of each token in its sample, (n_tokens,)."""
        return self.segments.places

    def with_values(self, values):
        """Return tokens of the same samples and positions, with values of their own."""
        others = RaggedTokens(values, self.segments, self.positions)
        others._by_position = self._by_position
        return others
