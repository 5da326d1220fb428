"""Heads: from what was pooled to the outputs, and back to the tokens."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from skattn.attention.pooling import check_pooling, pool, split_by_pooling

__all__ = ["LinearHead", "MLPHead"]

# Below this the difference of two values of gelu loses digits, and the quadrature of
# its slope, exact for polynomials of degree 9, has them all.
_SMALL = 0.1
_NODES = np.polynomial.legendre.leggauss(5)


class LinearHead(nn.Module):
    """A linear function of the pooled tokens, told token by token.

    Parameters
    ----------
    coef : torch.Tensor of shape (n_outputs, n_pooled)
        The blocks of `pooling` one after another; in that of attention, its heads.
    intercept : torch.Tensor of shape (n_outputs,)
    pooling : "attention" or sequence of str, default="attention"
        What is pooled, see :func:`skattn.attention.pooling.check_pooling`.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import LinearHead, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0], [5.0]], [0, 2])
    >>> head = LinearHead(torch.full((1, 1), 2.0).double(), torch.zeros(1).double())
    >>> head.contributions(tokens, torch.full((2, 1), 0.5).double()).detach()
    tensor([[1.],
            [5.]], dtype=torch.float64)
    """

    def __init__(self, coef, intercept, pooling="attention"):
        super().__init__()
        self.coef = nn.Parameter(coef)
        self.intercept = nn.Parameter(intercept)
        self.pooling = check_pooling(pooling)

    def contributions(self, tokens, weights):
        """Tell what each token adds to the outputs.

        With attention ``s_it v'x_it``; of a mean its part, and of an extreme all that
        the features do in which it is the token's own.

        Parameters
        ----------
        tokens : RaggedTokens or TableTokens
        weights : torch.Tensor of shape (n_tokens, n_heads)

        Returns
        -------
        contributions : torch.Tensor of shape (n_tokens, n_outputs)
            Their sum over a sample is its output less the intercept.
        """
        return _token_products(tokens, weights, self.coef, self.pooling)

    def token_values(self, tokens, n_heads):
        """Tell what each token would add if a head gave it all its weight.

        Returns
        -------
        values : torch.Tensor of shape (n_tokens, n_outputs, n_heads)
            ``v'x_it``, by attention alone.
        """
        blocks = split_by_pooling(self.coef, self.pooling, n_heads, tokens.n_features)
        return _values_by_head(tokens, dict(blocks)["attention"], n_heads)

    def forward(self, tokens, weights):
        """Return outputs of shape (n_samples, n_outputs)."""
        outputs = self.intercept
        n_heads = weights.shape[1]
        for name, coef in split_by_pooling(
            self.coef, self.pooling, n_heads, tokens.n_features
        ):
            if name == "attention":
                by_token = _attention_products(tokens, weights, coef)
                outputs = tokens.segments.sum(by_token) + outputs
            else:
                outputs = tokens.statistic(name) @ coef.T + outputs
        return outputs


class MLPHead(nn.Module):
    """A layer of gelu units on the pooled tokens, told token by token.

    ``coef (gelu(M'x + b) - gelu(b)) + intercept`` for the pooled x. Measured from where
    the units are without tokens, the intercept is the output there, and what the tokens
    contribute makes up the rest.

    Parameters
    ----------
    hidden_coef : torch.Tensor of shape (n_pooled, head_hidden_size)
    hidden_intercept : torch.Tensor of shape (head_hidden_size,)
    coef : torch.Tensor of shape (n_outputs, head_hidden_size)
    intercept : torch.Tensor of shape (n_outputs,)
    pooling : "attention" or sequence of str, default="attention"
        What is pooled, see :func:`skattn.attention.pooling.check_pooling`.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import MLPHead, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0], [-5.0]], [0, 2])
    >>> one, none = torch.ones(1, 1).double(), torch.zeros(1).double()
    >>> head = MLPHead(one, none, one, none)
    >>> weights = torch.full((2, 1), 0.5).double()
    >>> head(tokens, weights).detach().round(decimals=4)
    tensor([[-0.0455]], dtype=torch.float64)
    >>> head.contributions(tokens, weights).sum().detach().round(decimals=4)
    tensor(-0.0455, dtype=torch.float64)
    """

    def __init__(
        self, hidden_coef, hidden_intercept, coef, intercept, pooling="attention"
    ):
        super().__init__()
        self.head_hidden_coef = nn.Parameter(hidden_coef)
        self.head_hidden_intercept = nn.Parameter(hidden_intercept)
        self.coef = nn.Parameter(coef)
        self.intercept = nn.Parameter(intercept)
        self.pooling = check_pooling(pooling)

    def contributions(self, tokens, weights):
        """Tell what each token adds to the outputs.

        What a token puts into a unit, times the mean slope of that unit on the straight
        way from no tokens to all of them: the integrated gradients of [1]_ from zero,
        which one layer has in closed form.

        Parameters
        ----------
        tokens : RaggedTokens or TableTokens
        weights : torch.Tensor of shape (n_tokens, n_heads)

        Returns
        -------
        contributions : torch.Tensor of shape (n_tokens, n_outputs)
            Their sum over a sample is its output less the intercept.

        References
        ----------
        .. [1] Sundararajan, Taly and Yan, "Axiomatic Attribution for Deep Networks",
           arXiv:1703.01365, equation (1).
        """
        parts = _token_products(tokens, weights, self.head_hidden_coef.T, self.pooling)
        segments = tokens.segments
        slopes = _mean_slope(segments.sum(parts), self.head_hidden_intercept)
        return (parts * segments.repeat(slopes)) @ self.coef.T

    def forward(self, tokens, weights):
        """Return outputs of shape (n_samples, n_outputs)."""
        put_in = pool(tokens, weights, self.pooling) @ self.head_hidden_coef
        units = _gelu_gain(put_in, self.head_hidden_intercept)
        return units @ self.coef.T + self.intercept


def _token_products(tokens, weights, matrix, pooling):
    """Products of a matrix with the share of every token in what is pooled.

    (n_outputs, n_pooled) gives (n_tokens, n_outputs); over a sample they add up to the
    product with what is pooled.
    """
    blocks = split_by_pooling(matrix, pooling, weights.shape[1], tokens.n_features)
    return sum(
        _attention_products(tokens, weights, block)
        if name == "attention"
        else tokens.matmul_shares(name, block.T)
        for name, block in blocks
    )


def _attention_products(tokens, weights, matrix):
    values = _values_by_head(tokens, matrix, weights.shape[1])
    return (values * weights.unsqueeze(1)).sum(-1)


def _values_by_head(tokens, matrix, n_heads):
    by_head = matrix.reshape(-1, tokens.n_features)
    return tokens.matmul(by_head.T).unflatten(1, (-1, n_heads))


def _gelu_gain(put_in, start):
    return functional.gelu(put_in + start) - functional.gelu(start)


def _mean_slope(put_in, start):
    """Mean slope of gelu between `start` and ``start + put_in``."""
    nodes, node_weights = _NODES
    near = sum(
        0.5 * weight * _gelu_slope(start + 0.5 * (node + 1.0) * put_in)
        for node, weight in zip(nodes, node_weights, strict=True)
    )
    is_small = put_in.abs() < _SMALL
    far = _gelu_gain(put_in, start) / torch.where(is_small, 1.0, put_in)
    return torch.where(is_small, near, far)


def _gelu_slope(x):
    density = torch.exp(-0.5 * x.square()) / np.sqrt(2.0 * np.pi)
    return torch.special.ndtr(x) + x * density
