"""Tokens that all samples have in common."""

from skattn.attention.layouts._even import EvenTokens


class SharedTokens(EvenTokens):
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
        super().__init__()
        self.shared = shared
        self.n_samples = n_samples

    @property
    def device(self):
        """Where the tokens are."""
        return self.shared.device

    @property
    def n_tokens_each(self):
        """Number of tokens."""
        return len(self.shared)

    @property
    def n_features(self):
        """Number of features of a token."""
        return self.shared.shape[1]

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
