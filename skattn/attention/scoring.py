"""How attention scores tokens: by a prompt, by gates, by W, or by keys and queries.

The parameters always carry the axis of heads, also when there is one head.
"""

import torch
from torch import nn

from skattn.attention.layouts import RaggedTokens

__all__ = ["BilinearScoring", "GatedScoring", "KeyQueryScoring", "PromptScoring"]


class PromptScoring(nn.Module):
    """Score a token by its product with one learned vector: ``x'p``.

    Parameters
    ----------
    attention_coef : torch.Tensor of shape (n_heads, n_features)

    References
    ----------
    Tarzanagh, Li, Zhang and Oymak, "Max-Margin Token Selection in Attention
    Mechanism", arXiv:2306.13596.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import PromptScoring, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0, 2.0], [3.0, 4.0]], [0, 2])
    >>> PromptScoring(torch.tensor([[1.0, 0.0]]).double())(tokens, None).detach()
    tensor([[1.],
            [3.]], dtype=torch.float64)
    """

    def __init__(self, attention_coef):
        super().__init__()
        self.attention_coef = nn.Parameter(attention_coef)

    @property
    def n_heads(self):
        """Number of heads."""
        return len(self.attention_coef)

    def forward(self, tokens, query):
        """Return scores of shape (n_tokens, n_heads); a prompt needs no `query`."""
        return tokens.matmul(self.attention_coef.T)


class GatedScoring(PromptScoring):
    """Score a token by a prompt on its gated features: ``p'(tanh(V'x) * sig(U'x))``.

    Parameters
    ----------
    tanh_coef, sigmoid_coef : torch.Tensor of shape (n_features, gate_size)
        V and U, which all heads share.
    attention_coef : torch.Tensor of shape (n_heads, gate_size)

    References
    ----------
    Ilse, Tomczak and Welling, "Attention-based Deep Multiple Instance Learning",
    arXiv:1802.04712, equation (9).

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import GatedScoring, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[0.0], [30.0], [-30.0]], [0, 3])
    >>> one = torch.ones(1, 1).double()
    >>> GatedScoring(one, one, 2 * one)(tokens, None).detach().round(decimals=6)
    tensor([[0.],
            [2.],
            [-0.]], dtype=torch.float64)
    """

    def __init__(self, tanh_coef, sigmoid_coef, attention_coef):
        super().__init__(attention_coef)
        self.tanh_coef = nn.Parameter(tanh_coef)
        self.sigmoid_coef = nn.Parameter(sigmoid_coef)

    def gated(self, tokens):
        """Return tokens of width gate_size, which the prompt is multiplied with."""
        size = self.tanh_coef.shape[1]
        both = tokens.matmul(torch.cat([self.tanh_coef, self.sigmoid_coef], dim=1))
        values = torch.tanh(both[:, :size]) * torch.sigmoid(both[:, size:])
        return RaggedTokens(values, tokens.segments, tokens.positions)

    def forward(self, tokens, query):
        """Return scores of shape (n_tokens, n_heads); a prompt needs no `query`."""
        return super().forward(self.gated(tokens), query)


class BilinearScoring(nn.Module):
    """Score a token against the query of its sample: ``x'Wz``.

    Parameters
    ----------
    attention_coef : torch.Tensor of shape (n_heads, n_features, n_query_features)

    References
    ----------
    Tarzanagh, Li, Thrampoulidis and Oymak, "Transformers as Support Vector
    Machines", arXiv:2308.16898.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import BilinearScoring, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0], [2.0]], [0, 2])
    >>> scoring = BilinearScoring(torch.ones(1, 1, 1).double())
    >>> scoring(tokens, torch.tensor([[10.0]]).double()).detach()
    tensor([[10.],
            [20.]], dtype=torch.float64)
    """

    def __init__(self, attention_coef):
        super().__init__()
        self.attention_coef = nn.Parameter(attention_coef)

    @property
    def n_heads(self):
        """Number of heads."""
        return len(self.attention_coef)

    def forward(self, tokens, query):
        """Return scores of shape (n_tokens, n_heads) for queries (n_samples, d_q)."""
        directions = torch.einsum("hdq,nq->nhd", self.attention_coef, query)
        return tokens.rowdot(directions)


class KeyQueryScoring(nn.Module):
    """Score a token by its key and the query of its sample: ``x'KQ'z``.

    There is no division by the square root of the rank: the scores are those of
    :class:`BilinearScoring` with ``W = KQ'``.

    Parameters
    ----------
    key_coef : torch.Tensor of shape (n_heads, n_features, rank)
    query_coef : torch.Tensor of shape (n_heads, n_query_features, rank)

    References
    ----------
    Tarzanagh, Li, Thrampoulidis and Oymak, "Transformers as Support Vector
    Machines", arXiv:2308.16898.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import KeyQueryScoring, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0], [2.0]], [0, 2])
    >>> key, query = torch.full((2, 1, 1, 1), 2.0).double()
    >>> scoring = KeyQueryScoring(key, query)
    >>> scoring(tokens, torch.tensor([[10.0]]).double()).detach()
    tensor([[40.],
            [80.]], dtype=torch.float64)
    """

    def __init__(self, key_coef, query_coef):
        super().__init__()
        self.key_coef = nn.Parameter(key_coef)
        self.query_coef = nn.Parameter(query_coef)

    @property
    def n_heads(self):
        """Number of heads."""
        return len(self.key_coef)

    def forward(self, tokens, query):
        """Return scores of shape (n_tokens, n_heads) for queries (n_samples, d_q)."""
        queries = torch.einsum("hqr,nq->nhr", self.query_coef, query)
        directions = torch.einsum("hdr,nhr->nhd", self.key_coef, queries)
        return tokens.rowdot(directions)
