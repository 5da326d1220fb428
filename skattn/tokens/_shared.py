"""Tokens that all samples share, each with a query of its own."""

import numpy as np


class SharedTokens:
    """The same tokens for every sample, held once.

    It offers what :class:`skattn.Tokens` does, but for `values`, which would repeat
    them: `shared` has them once.

    Parameters
    ----------
    shared : ndarray of shape (n_tokens, n_features)
        The tokens.

    query : ndarray of shape (n_samples, n_query_features)
        One query a sample.
    """

    def __init__(self, shared, query):
        self.shared = shared
        self.query = query
        n_samples, n_tokens = len(query), len(shared)
        self.n_features = shared.shape[1]
        self.offsets = np.arange(n_samples + 1) * n_tokens
        self.positions = np.tile(np.arange(n_tokens), n_samples)
        self.n_positions = np.full(n_samples, n_tokens)

    def __len__(self):
        return len(self.query)

    @property
    def lengths(self):
        """Number of tokens of each sample."""
        return self.n_positions
