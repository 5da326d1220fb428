"""The columns of a table as tokens."""

import torch

from skattn.attention.layouts._arrays import float_matrix
from skattn.attention.layouts._even import EvenTokens


class TableTokens(EvenTokens):
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
        super().__init__()
        self.cells = cells

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
        return cls(float_matrix(cells, "cells", dtype, device))

    @property
    def n_samples(self):
        """Number of samples."""
        return len(self.cells)

    @property
    def device(self):
        """Where the cells are."""
        return self.cells.device

    @property
    def n_columns(self):
        """Number of columns, which is the number of tokens of a sample."""
        return self.cells.shape[1]

    @property
    def n_tokens_each(self):
        """Number of tokens of a sample."""
        return self.n_columns

    @property
    def n_features(self):
        """Number of features of a token."""
        return 2 * self.n_columns

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
