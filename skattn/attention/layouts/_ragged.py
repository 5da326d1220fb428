"""Tokens of samples of any length, end to end."""

import torch

from skattn.attention.layouts._arrays import float_matrix
from skattn.attention.layouts._positions import Positions
from skattn.attention.segments import Segments
from skattn.mappings import check_offsets


class RaggedTokens(Positions):
    """Tokens of samples of any length, end to end.

    Parameters
    ----------
    values : torch.Tensor of shape (n_tokens, n_features)
        The tokens of all samples.
    segments : Segments
        Where each sample starts and ends.
    positions : torch.Tensor of shape (n_tokens,), dtype int64, default=None
        Position of each token in its sample; None means that none is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.attention import RaggedTokens
    >>> tokens = RaggedTokens.from_arrays(np.eye(3), [0, 2, 3])
    >>> tokens.mean()
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """

    def __init__(self, values, segments, positions=None):
        self.values = values
        self.segments = segments
        self._positions = positions
        self._statistics = {}
        self._by_position = {}

    @classmethod
    def from_arrays(
        cls, values, offsets, positions=None, *, dtype=torch.float64, device="cpu"
    ):
        """Copy NumPy arrays into tensors.

        Parameters
        ----------
        values : array of shape (n_tokens, n_features)
        offsets : integer array of shape (n_samples + 1,)
            Where each sample starts; the last entry is the number of tokens.
        positions : integer array of shape (n_tokens,), default=None
            Position of each token in its sample; None means that none is missing.
        dtype : torch.dtype, default=torch.float64
        device : str or torch.device, default="cpu"

        Raises
        ------
        ValueError
            If `values` is not 2-D, `offsets` do not cut it into non-empty samples, or
            `positions` are not one a token.
        """
        values = float_matrix(values, "values", dtype, device)
        offsets = check_offsets(offsets, len(values))
        if positions is not None:
            positions = torch.tensor(positions, dtype=torch.int64, device=device)
            if positions.shape != (len(values),):
                raise ValueError(
                    f"positions must have shape ({len(values)},), one a token, got "
                    f"{tuple(positions.shape)}."
                )
        return cls(values, Segments(torch.tensor(offsets, device=device)), positions)

    def with_values(self, values):
        """Return the same samples, at the same positions, with other values."""
        others = RaggedTokens(values, self.segments, self._positions)
        # What depends on positions alone is found once for all layers of a model.
        others._by_position = self._by_position
        return others

    @property
    def positions(self):
        """Position of each token in its sample, (n_tokens,)."""
        if self._positions is None:
            self._positions = self.segments.places
        return self._positions

    @property
    def n_samples(self):
        """Number of samples."""
        return self.segments.n_samples

    @property
    def n_features(self):
        """Number of features of a token."""
        return self.values.shape[1]

    def matmul(self, matrix):
        """Multiply every token by a (n_features, k) matrix: (n_tokens, k)."""
        return self.values @ matrix

    def rowdot(self, vectors):
        """Product of every token with the vectors of its sample.

        (n_samples, n_heads, n_features) gives (n_tokens, n_heads).
        """
        own = self.segments.repeat(vectors)
        return (self.values.unsqueeze(1) * own).sum(-1)

    def pool(self, weights):
        """Weighted sums of the tokens of each sample.

        (n_tokens, n_heads) gives (n_samples, n_heads, n_features).
        """
        # One head at a time: all at once would hold n_heads copies of the tokens.
        pooled = [
            self.segments.sum(head.unsqueeze(1) * self.values)
            for head in weights.unbind(1)
        ]
        return torch.stack(pooled, dim=1)

    def mean(self):
        """Mean token of each sample, (n_samples, n_features)."""
        return self.segments.mean(self.values)

    def statistic(self, name):
        """Return the "mean", "min" or "max" of each feature over each sample.

        (n_samples, n_features). Computed once: tokens as given stay the same from one
        epoch to the next.
        """
        if name not in self._statistics:
            self._statistics[name] = getattr(self.segments, name)(self.values)
        return self._statistics[name]

    def matmul_shares(self, name, matrix):
        """Multiply the share that every token has in a statistic by a matrix.

        The shares of the tokens of a sample add up to its statistic. A minimum or a
        maximum belongs to the token that attains it, feature by feature; where several
        do, in equal parts.

        Returns
        -------
        products : torch.Tensor of shape (n_tokens, k)
            For a (n_features, k) matrix.
        """
        if name == "mean":
            lengths = self.segments.repeat(self.segments.lengths).unsqueeze(1)
            return self.matmul(matrix) / lengths
        attains = self.values == self.segments.repeat(self.statistic(name))
        attains = attains.to(self.values.dtype)
        n_attaining = self.segments.repeat(self.segments.sum(attains))
        return (self.values * attains / n_attaining) @ matrix

    def rows(self, index):
        """Select tokens by their index along all tokens, (len(index), n_features)."""
        return self.values[index]

    def neighbours(self, n_neighbours):
        """Find the tokens at the positions around each token, itself among them.

        Parameters
        ----------
        n_neighbours : int
            How many; if even, one more comes after the token than before it.

        Returns
        -------
        rows : torch.Tensor of shape (n_tokens, n_neighbours), dtype int64
            Their indices along all tokens; n_tokens where the sample has none there.
        """
        return self._once(
            ("neighbours", n_neighbours), lambda: self._find_neighbours(n_neighbours)
        )

    def _find_neighbours(self, n_neighbours):
        positions = self.positions
        n_tokens = len(positions)
        # Places on one line, where samples are too far apart to be neighbours.
        apart = positions.max() + n_neighbours
        places = self.segments.owner * apart + positions
        steps = torch.arange(n_neighbours, device=places.device)
        wanted = places.unsqueeze(1) + steps - (n_neighbours - 1) // 2
        rows = torch.searchsorted(places, wanted)
        found = places[rows.clamp(max=n_tokens - 1)] == wanted
        return torch.where(found, rows, n_tokens)

    def take(self, index):
        """Restrict to the samples in `index`, in that order."""
        segments, rows = self.segments.take(index)
        positions = None if self._positions is None else self._positions[rows]
        return RaggedTokens(self.values[rows], segments, positions)
