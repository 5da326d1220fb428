"""What layouts of tokens know of positions, whatever the tokens are."""

from skattn.attention.bucketing import Buckets
from skattn.attention.windows import Windows


class Positions:
    """What depends on where the tokens are, and not on what they are.

    A layout has `segments`, `positions` and the dictionary `_by_position`, which
    layouts of the same tokens share.
    """

    @property
    def offsets(self):
        """Where each sample starts, and the number of tokens."""
        return self.segments.offsets

    def windows(self, length):
        """Return the :class:`Windows` of this many positions of each sample."""
        return self._once(
            ("windows", length), lambda: Windows(self.segments, self.positions, length)
        )

    def buckets(self):
        """Return the :class:`Buckets` of the samples."""
        return self._once("buckets", lambda: Buckets(self.segments))

    def padded_rows(self, length):
        """Return where the windows of each bucket are, a list of `PaddedRows`.

        Windows of one position are the tokens.
        """
        segments = self.segments if length == 1 else self.windows(length).samples
        return self._once(
            ("padded_rows", length), lambda: self.buckets().rows(segments)
        )

    def bucket_places(self):
        """Return where each token is among those of all buckets, (n_tokens,)."""
        return self._once("bucket_places", lambda: self.buckets().places(self.segments))

    def _once(self, key, compute):
        if key not in self._by_position:
            self._by_position[key] = compute()
        return self._by_position[key]
