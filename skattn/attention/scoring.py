"""How attention scores tokens: by a prompt, by gates, by W, or by keys and queries.

The parameters always carry the axis of heads, also when there is one head.
"""

from abc import abstractmethod

import torch
from torch import nn

from skattn.attention.normalization import check_attention_norm, normalized_scores
from skattn.attention.windows import by_windows, check_head_scale

__all__ = ["BilinearScoring", "GatedScoring", "KeyQueryScoring", "PromptScoring"]


class Scoring(nn.Module):
    """What all ways of scoring share: normalised keys, and windows of tokens.

    A subclass says what its keys and queries are, and how their products are computed
    where nothing is normalised.

    Parameters
    ----------
    n_heads : int
    attention_norm : {"batch"} or None, default=None
        Attention-BN: keys and queries are normalised by the mean and the variance of
        the keys of their own sample, for each head and feature.
    beta : torch.Tensor of shape (n_heads,) or float, default=None
        How far Attention-BN centres queries: a tensor is learned, a float is fixed.
    head_scale : int or sequence of n_heads ints, default=None
        Attention-SH: the length of the windows of tokens that each head attends to, of
        which it sees the mean key.
    """

    #: Whether the keys are the same for all heads.
    shares_keys = True

    def __init__(self, n_heads, attention_norm=None, beta=None, head_scale=None):
        super().__init__()
        check_attention_norm(attention_norm, has_beta=beta is not None)
        self.n_heads = n_heads
        self.attention_norm = attention_norm
        self.head_scale = check_head_scale(head_scale, n_heads)
        is_learned = isinstance(beta, torch.Tensor)
        self.attention_beta = nn.Parameter(beta) if is_learned else None
        self.fixed_beta = None if is_learned else beta

    @abstractmethod
    def products(self, tokens, query):
        """Return the products of keys and queries, (n_tokens, n_heads)."""

    @abstractmethod
    def keys(self, tokens):
        """Return the keys of all heads, or with `shares_keys` False a list of each."""

    @abstractmethod
    def queries(self, query, n_samples):
        """Return the queries, (n_samples, n_heads, n_key_features)."""

    def forward(self, tokens, query):
        """Return the scores of tokens.

        Parameters
        ----------
        tokens : RaggedTokens or TableTokens
        query : torch.Tensor of shape (n_samples, n_query_features) or None
            None for a prompt.

        Returns
        -------
        scores : torch.Tensor of shape (n_tokens, n_heads)
            Equal within the window of a head.
        """
        if self.attention_norm is not None:
            return self._normalized(tokens, query)
        scores = self.products(tokens, query)
        return scores if self.head_scale is None else self._by_window(scores, tokens)

    def _match(self, keys, queries):
        return keys.rowdot(queries)

    def _by_window(self, scores, tokens):
        # The score of a mean key is the mean of the scores of the keys.
        def of_heads(length, heads):
            windows = tokens.windows(length)
            return windows.spread(windows.mean(scores[:, heads]))

        return by_windows(self.head_scale, self.n_heads, of_heads)

    def _normalized(self, tokens, query):
        keys = self.keys(tokens)
        queries = self.queries(query, tokens.n_samples)
        beta = self.fixed_beta

        def of_heads(length, heads, own_keys=keys):
            own_beta = self.attention_beta[heads] if beta is None else beta
            return normalized_scores(
                own_keys, queries[:, heads], own_beta, self._match, length
            )

        if self.shares_keys:
            return by_windows(self.head_scale, self.n_heads, of_heads)
        lengths = self.head_scale or (1,) * self.n_heads
        return torch.cat(
            [
                of_heads(length, [head], keys[head])
                for head, length in enumerate(lengths)
            ],
            dim=1,
        )


class PromptScoring(Scoring):
    """Score a token by its product with one learned vector: ``x'p``.

    Parameters
    ----------
    attention_coef : torch.Tensor of shape (n_heads, n_features)
    **options
        As for :class:`skattn.attention.scoring.Scoring`: `attention_norm`, `beta`,
        `head_scale`.

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

    def __init__(self, attention_coef, **options):
        super().__init__(len(attention_coef), **options)
        self.attention_coef = nn.Parameter(attention_coef)

    def products(self, tokens, query):
        """Return the products of tokens and prompts, (n_tokens, n_heads)."""
        return tokens.matmul(self.attention_coef.T)

    def keys(self, tokens):
        """Return the tokens, which all heads share."""
        return tokens

    def queries(self, query, n_samples):
        """Return the prompts, the same for all samples."""
        return self.attention_coef.expand(n_samples, -1, -1)

    def _match(self, keys, queries):
        return keys.matmul(queries[0].T)


class GatedScoring(PromptScoring):
    """Score a token by a prompt on its gated features: ``p'(tanh(V'x) * sig(U'x))``.

    Parameters
    ----------
    tanh_coef, sigmoid_coef : torch.Tensor of shape (n_features, gate_size)
        V and U, which all heads share.
    attention_coef : torch.Tensor of shape (n_heads, gate_size)
    **options
        As for :class:`skattn.attention.scoring.Scoring`: `attention_norm`, `beta`,
        `head_scale`.

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

    def __init__(self, tanh_coef, sigmoid_coef, attention_coef, **options):
        super().__init__(attention_coef, **options)
        self.tanh_coef = nn.Parameter(tanh_coef)
        self.sigmoid_coef = nn.Parameter(sigmoid_coef)

    def gated(self, tokens):
        """Return tokens of width gate_size, which the prompt is multiplied with."""
        size = self.tanh_coef.shape[1]
        both = tokens.matmul(torch.cat([self.tanh_coef, self.sigmoid_coef], dim=1))
        values = torch.tanh(both[:, :size]) * torch.sigmoid(both[:, size:])
        return tokens.with_values(values)

    def products(self, tokens, query):
        """Return the products of gated tokens and prompts, (n_tokens, n_heads)."""
        return super().products(self.gated(tokens), query)

    def keys(self, tokens):
        """Return the gated tokens, which all heads share."""
        return super().keys(self.gated(tokens))


class BilinearScoring(Scoring):
    """Score a token against the query of its sample: ``x'Wz``.

    Parameters
    ----------
    attention_coef : torch.Tensor of shape (n_heads, n_features, n_query_features)
    **options
        As for :class:`skattn.attention.scoring.Scoring`: `attention_norm`, `beta`,
        `head_scale`.

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

    def __init__(self, attention_coef, **options):
        super().__init__(len(attention_coef), **options)
        self.attention_coef = nn.Parameter(attention_coef)

    def products(self, tokens, query):
        """Return ``x'Wz``, (n_tokens, n_heads), for queries (n_samples, d_q)."""
        return tokens.rowdot(self.queries(query, len(query)))

    def keys(self, tokens):
        """Return the tokens, which all heads share."""
        return tokens

    def queries(self, query, n_samples):
        """Return ``Wz``, (n_samples, n_heads, n_features)."""
        return torch.einsum("hdq,nq->nhd", self.attention_coef, query)


class KeyQueryScoring(Scoring):
    """Score a token by its key and the query of its sample: ``x'KQ'z``.

    Unless keys are normalised there is no division by the square root of the rank: the
    scores are those of :class:`BilinearScoring` with ``W = KQ'``.

    Parameters
    ----------
    key_coef : torch.Tensor of shape (n_heads, n_features, rank)
    query_coef : torch.Tensor of shape (n_heads, n_query_features, rank)
    **options
        As for :class:`skattn.attention.scoring.Scoring`: `attention_norm`, `beta`,
        `head_scale`.

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

    shares_keys = False

    def __init__(self, key_coef, query_coef, **options):
        super().__init__(len(key_coef), **options)
        self.key_coef = nn.Parameter(key_coef)
        self.query_coef = nn.Parameter(query_coef)

    def products(self, tokens, query):
        """Return ``x'KQ'z``, (n_tokens, n_heads), for queries (n_samples, d_q)."""
        queries = self.queries(query, len(query))
        return tokens.rowdot(torch.einsum("hdr,nhr->nhd", self.key_coef, queries))

    def keys(self, tokens):
        """Return ``K'x`` for each head."""
        return [tokens.with_values(tokens.matmul(coef)) for coef in self.key_coef]

    def queries(self, query, n_samples):
        """Return ``Q'z``, (n_samples, n_heads, rank)."""
        return torch.einsum("hqr,nq->nhr", self.query_coef, query)
