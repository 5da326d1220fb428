"""Tokens of many samples, laid out so that attention needs no dense table.

Three layouts offer the same operations. :class:`RaggedTokens` holds every token;
:class:`TableTokens` holds the cells of a table and stands for the tokens
``[e_t, x_t e_t]`` of its columns, which it never writes out; :class:`SharedTokens`
holds tokens that are the same in every sample, for attention that pools nothing else.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from skattn.attention.bucketing import Buckets
from skattn.attention.segments import Segments
from skattn.attention.windows import Windows
from skattn.mappings import check_offsets

__all__ = ["RaggedTokens", "SharedTokens", "TableTokens", "TokenBatch"]


class _Positions:
    """What depends on where the tokens are, and not on what they are.

    A layout has `segments`, `positions` and the dictionary `_by_position`, which
    layouts of the same tokens share.
    """

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


class RaggedTokens(_Positions):
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
        values = _float_matrix(values, "values", dtype, device)
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

    @property
    def offsets(self):
        """Where each sample starts, and the number of tokens."""
        return self.segments.offsets

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
        lengths = self.segments.lengths.unsqueeze(1)
        return self.segments.sum(self.values) / lengths

    def statistic(self, name):
        """Return the "mean", "min" or "max" of each feature over each sample.

        (n_samples, n_features). Computed once: tokens as given stay the same from one
        epoch to the next.
        """
        if name not in self._statistics:
            self._statistics[name] = (
                self.mean()
                if name == "mean"
                else getattr(self.segments, name)(self.values)
            )
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


class TableTokens(_Positions):
    """The columns of a table as tokens: column t of a row is ``[e_t, x_t e_t]``.

    A token has ``2 * n_columns`` features, of which two are not zero. Matrices that
    multiply tokens have an upper half, the rows of the intercepts of the columns, and
    a lower half, the rows of their slopes.

    Parameters
    ----------
    cells : torch.Tensor of shape (n_samples, n_columns)

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import TableTokens
    >>> table = TableTokens.from_array([[3.0, 5.0]])
    >>> table.rows(torch.tensor([1]))
    tensor([[0., 1., 0., 5.]], dtype=torch.float64)
    """

    def __init__(self, cells):
        self.cells = cells
        self._by_position = {}

    @classmethod
    def from_array(cls, cells, *, dtype=torch.float64, device="cpu"):
        """Copy a NumPy array into a tensor.

        Parameters
        ----------
        cells : array of shape (n_samples, n_columns)
        dtype : torch.dtype, default=torch.float64
        device : str or torch.device, default="cpu"

        Raises
        ------
        ValueError
            If `cells` is not 2-D or has no row or column.
        """
        return cls(_float_matrix(cells, "cells", dtype, device))

    @cached_property
    def segments(self):
        """Where each sample starts and ends."""
        steps = torch.arange(self.n_samples + 1, device=self.cells.device)
        return Segments(steps * self.n_columns)

    @property
    def n_samples(self):
        """Number of samples."""
        return len(self.cells)

    @property
    def n_columns(self):
        """Number of columns, which is the number of tokens of a sample."""
        return self.cells.shape[1]

    @property
    def n_features(self):
        """Number of features of a token."""
        return 2 * self.n_columns

    @property
    def offsets(self):
        """Where each sample starts, and the number of tokens."""
        return self.segments.offsets

    @property
    def positions(self):
        """Column of each token, (n_tokens,)."""
        return self.segments.places

    def with_values(self, values):
        """Return tokens of the same samples and columns, with values of their own."""
        others = RaggedTokens(values, self.segments, self.positions)
        others._by_position = self._by_position
        return others

    def matmul(self, matrix):
        """Multiply every token by a (n_features, k) matrix: (n_tokens, k)."""
        intercepts, slopes = matrix.reshape(2, self.n_columns, -1)
        products = intercepts + self.cells.unsqueeze(2) * slopes
        return products.flatten(0, 1)

    def rowdot(self, vectors):
        """Product of every token with the vectors of its sample.

        (n_samples, n_heads, n_features) gives (n_tokens, n_heads).
        """
        intercepts, slopes = vectors.split(self.n_columns, dim=2)
        products = intercepts + self.cells.unsqueeze(1) * slopes
        return products.transpose(1, 2).flatten(0, 1)

    def pool(self, weights):
        """Weighted sums of the tokens of each sample.

        (n_tokens, n_heads) gives (n_samples, n_heads, n_features).
        """
        n_heads = weights.shape[1]
        by_column = weights.reshape(self.n_samples, self.n_columns, n_heads)
        by_column = by_column.transpose(1, 2)
        return torch.cat([by_column, by_column * self.cells.unsqueeze(1)], dim=2)

    def mean(self):
        """Mean token of each sample, (n_samples, n_features)."""
        return torch.cat([torch.ones_like(self.cells), self.cells], 1) / self.n_columns

    def statistic(self, name):
        """Return the "mean", "min" or "max" of each feature over each sample.

        (n_samples, n_features). A feature is zero in all tokens but that of its column.
        """
        if name == "mean":
            return self.mean()
        return torch.cat(self._own_extremes(name), dim=1)

    def matmul_shares(self, name, matrix):
        """Multiply the share that every token has in a statistic by a matrix.

        The shares of the tokens of a sample add up to its statistic. A minimum or a
        maximum is either that of the one token whose feature is not zero everywhere,
        or zero, of which no token needs a share.

        Returns
        -------
        products : torch.Tensor of shape (n_tokens, k)
            For a (n_features, k) matrix.
        """
        if name == "mean":
            return self.matmul(matrix) / self.n_columns
        indicators, cells = self._own_extremes(name)
        intercepts, slopes = matrix.reshape(2, self.n_columns, -1)
        products = indicators.unsqueeze(2) * intercepts + cells.unsqueeze(2) * slopes
        return products.flatten(0, 1)

    def _own_extremes(self, name):
        """Minima or maxima of the features e_t, and of the features x_t e_t."""
        indicators = torch.ones_like(self.cells)
        if self.n_columns == 1:
            return indicators, self.cells
        # Each feature is zero in the tokens of the other columns.
        if name == "min":
            return torch.zeros_like(indicators), self.cells.clamp(max=0.0)
        return indicators, self.cells.clamp(min=0.0)

    def rows(self, index):
        """Select tokens by their index along all tokens, (len(index), n_features)."""
        sample, column = index // self.n_columns, index % self.n_columns
        each = torch.arange(len(index), device=index.device)
        dense = self.cells.new_zeros(len(index), self.n_features)
        dense[each, column] = 1.0
        dense[each, self.n_columns + column] = self.cells[sample, column]
        return dense

    def take(self, index):
        """Restrict to the samples in `index`, in that order."""
        return TableTokens(self.cells[index])


class SharedTokens(_Positions):
    """The same tokens for every sample, held once.

    Parameters
    ----------
    shared : torch.Tensor of shape (n_tokens, n_features)
    n_samples : int

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import SharedTokens
    >>> SharedTokens(torch.tensor([[1.0], [3.0]]), n_samples=2).mean()
    tensor([[2.],
            [2.]])
    """

    def __init__(self, shared, n_samples):
        self.shared = shared
        self.n_samples = n_samples
        self._by_position = {}

    @cached_property
    def segments(self):
        """Where each sample starts and ends."""
        steps = torch.arange(self.n_samples + 1, device=self.shared.device)
        return Segments(steps * len(self.shared))

    @property
    def n_features(self):
        """Number of features of a token."""
        return self.shared.shape[1]

    @property
    def offsets(self):
        """Where each sample starts, and the number of tokens."""
        return self.segments.offsets

    @property
    def positions(self):
        """Position of each token, (n_samples * n_tokens,)."""
        return self.segments.places

    def with_values(self, values):
        """Return tokens of the same samples, with values of their own."""
        others = RaggedTokens(values, self.segments, self.positions)
        others._by_position = self._by_position
        return others

    def matmul(self, matrix):
        """Multiply every token by a (n_features, k) matrix."""
        return (self.shared @ matrix).repeat(self.n_samples, 1)

    def rowdot(self, vectors):
        """Product of every token with the vectors of its sample.

        (n_samples, n_heads, n_features) gives (n_samples * n_tokens, n_heads).
        """
        return (vectors @ self.shared.T).transpose(1, 2).flatten(0, 1)

    def pool(self, weights):
        """Weighted sums of the tokens of each sample.

        (n_samples * n_tokens, n_heads) gives (n_samples, n_heads, n_features).
        """
        by_sample = weights.unflatten(0, (self.n_samples, -1))
        return by_sample.transpose(1, 2) @ self.shared

    def mean(self):
        """Mean token, (n_samples, n_features)."""
        return self.shared.mean(0).expand(self.n_samples, -1)

    def rows(self, index):
        """Select tokens by their index along all tokens, (len(index), n_features)."""
        return self.shared[index % len(self.shared)]

    def take(self, index):
        """Restrict to the samples in `index`: fewer of the same."""
        return SharedTokens(self.shared, len(index))


@dataclass(frozen=True)
class TokenBatch:
    """What a model attends to: tokens, and where queries come from.

    Parameters
    ----------
    tokens : RaggedTokens, TableTokens or SharedTokens
    query : torch.Tensor of shape (n_samples, n_query_features), default=None
        Given queries.
    query_rows : torch.Tensor of shape (n_samples,), dtype int64, default=None
        For each sample, the token that serves as its query, as an index along all
        tokens.

    Raises
    ------
    ValueError
        If there is not one query, or query token, a sample.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import RaggedTokens, TokenBatch
    >>> tokens = RaggedTokens.from_arrays([[1.0], [2.0], [3.0]], [0, 2, 3])
    >>> batch = TokenBatch(tokens, query_rows=torch.tensor([1, 2]))
    >>> batch.take(torch.tensor([1])).query_rows
    tensor([0])
    """

    tokens: RaggedTokens | TableTokens | SharedTokens
    query: torch.Tensor | None = None
    query_rows: torch.Tensor | None = None

    def __post_init__(self):
        n_samples = self.tokens.n_samples
        if self.query is not None and (
            self.query.ndim != 2 or len(self.query) != n_samples
        ):
            raise ValueError(
                f"query must have shape ({n_samples}, n_query_features), one row a "
                f"sample, got {tuple(self.query.shape)}."
            )
        if self.query_rows is not None and self.query_rows.shape != (n_samples,):
            raise ValueError(
                f"query_rows must have shape ({n_samples},), one token a sample, got "
                f"{tuple(self.query_rows.shape)}."
            )

    @property
    def n_samples(self):
        """Number of samples."""
        return self.tokens.n_samples

    def take(self, index):
        """Restrict to the samples in `index`, in that order."""
        tokens = self.tokens.take(index)
        query = None if self.query is None else self.query[index]
        query_rows = None
        if self.query_rows is not None:
            positions = self.query_rows - self.tokens.offsets[:-1]
            query_rows = tokens.offsets[:-1] + positions[index]
        return TokenBatch(tokens, query, query_rows)


def _float_matrix(array, name, dtype, device):
    array = np.asarray(array)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be a 2-D array with at least one row and one column, got "
            f"an array of shape {array.shape}."
        )
    return torch.tensor(np.ascontiguousarray(array), dtype=dtype, device=device)
