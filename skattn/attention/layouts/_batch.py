"""What a model attends to."""

from dataclasses import dataclass

import torch

from skattn.attention.layouts._ragged import RaggedTokens
from skattn.attention.layouts._shared import SharedTokens
from skattn.attention.layouts._table import TableTokens


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
