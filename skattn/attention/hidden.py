"""The layer that every token goes through before attention sees it."""

from torch import nn
from torch.nn import functional

from skattn.attention.layouts import TableTokens

__all__ = ["ConvolutionLayer", "HiddenLayer"]


class HiddenLayer(nn.Module):
    """One layer on every token: ``gelu(x'M + b)``.

    The Gaussian error linear unit, arXiv:1606.08415: smooth, unlike max(., 0), so that
    line searches and comparisons of two trainings meet no kinks, where rounding
    decides; and not bounded, unlike tanh.

    Parameters
    ----------
    coef : torch.Tensor of shape (n_features, hidden_size)
    intercept : torch.Tensor of shape (hidden_size,)

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import HiddenLayer, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0, 2.0], [3.0, 4.0]], [0, 2])
    >>> layer = HiddenLayer(torch.zeros(2, 3).double(), torch.zeros(3).double())
    >>> layer(tokens).n_features
    3
    """

    def __init__(self, coef, intercept):
        super().__init__()
        self.hidden_coef = nn.Parameter(coef)
        self.hidden_intercept = nn.Parameter(intercept)

    def forward(self, tokens):
        """Tokens of width hidden_size."""
        return tokens.with_values(functional.gelu(self.linear(tokens)))

    def linear(self, tokens):
        """Return what gelu is applied to, (n_tokens, hidden_size)."""
        return tokens.matmul(self.hidden_coef) + self.hidden_intercept


class ConvolutionLayer(HiddenLayer):
    """One layer on every token and its neighbours: ``gelu(sum_o x_(t+o)'M_o + b)``.

    Neighbours are tokens at the next positions of the same sample; where there is none,
    zeros stand in. The result is that of a "same" convolution.

    Parameters
    ----------
    coef : torch.Tensor of shape (kernel_size, n_features, hidden_size)
    intercept : torch.Tensor of shape (hidden_size,)

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import ConvolutionLayer, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[10.0], [20.0], [30.0]], [0, 2, 3])
    >>> layer = ConvolutionLayer(torch.ones(3, 1, 1).double(), torch.zeros(1).double())
    >>> layer(tokens).values.detach().squeeze()
    tensor([30., 30., 30.], dtype=torch.float64)
    """

    def linear(self, tokens):
        """Return what gelu is applied to, (n_tokens, hidden_size)."""
        if isinstance(tokens, TableTokens):
            return self._of_columns(tokens) + self.hidden_intercept
        kernel_size = len(self.hidden_coef)
        # A row of zeros for the neighbours that there are not.
        rows = functional.pad(tokens.values, (0, 0, 0, 1))
        neighbourhoods = rows[tokens.neighbours(kernel_size)].flatten(1)
        return neighbourhoods @ self.hidden_coef.flatten(0, 1) + self.hidden_intercept

    def _of_columns(self, table):
        kernel_size, _, size = self.hidden_coef.shape
        before = (kernel_size - 1) // 2
        n_columns = table.n_columns
        total = table.cells.new_zeros(table.n_samples, n_columns, size)
        for step, coef in enumerate(self.hidden_coef):
            offset = step - before
            first, last = max(0, offset), min(n_columns, n_columns + offset)
            if first >= last:
                continue
            products = table.matmul(coef).unflatten(0, (-1, n_columns))[:, first:last]
            total = total + functional.pad(
                products, (0, 0, first - offset, n_columns - last + offset)
            )
        return total.flatten(0, 1)
