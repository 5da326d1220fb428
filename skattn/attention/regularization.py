"""What is made noisy while a model trains, and left alone when it predicts."""

import numpy as np
import torch
from torch import nn

from skattn.attention.layouts import RaggedTokens, TableTokens, TokenBatch
from skattn.attention.segments import Segments, offsets_of

__all__ = ["Dropout", "drop_tokens", "mix_within_class"]


class Dropout(nn.Module):
    """Set a share of numbers to 0 while training, and scale up the others.

    Unlike torch's it draws from a generator of its own, so that training neither sees
    nor changes the global one.

    Parameters
    ----------
    rate : float in [0, 1)

    References
    ----------
    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from
    Overfitting", 2014.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import Dropout
    >>> dropout = Dropout(0.5)
    >>> dropout.generator = torch.Generator().manual_seed(0)
    >>> sorted(set(dropout(torch.ones(100)).tolist()))
    [0.0, 2.0]
    >>> dropout.eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, rate):
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {rate}.")
        self.rate = rate
        self.generator = None

    def forward(self, values):
        """Return values of the same shape."""
        if not self.training or self.rate == 0.0:
            return values
        kept = torch.empty_like(values).bernoulli_(
            1.0 - self.rate, generator=self.generator
        )
        return values * kept / (1.0 - self.rate)

    def extra_repr(self):
        """Return the rate, as torch prints it."""
        return f"{self.rate}"


def drop_tokens(batch, rate, rng):
    """Leave out a share of the tokens of each sample.

    Each token goes with probability `rate`. The query of a sample stays, and where all
    would go a random one does.

    Parameters
    ----------
    batch : TokenBatch
        Of RaggedTokens.
    rate : float in [0, 1)
    rng : numpy.random.RandomState

    Returns
    -------
    batch : TokenBatch
        The tokens that are left keep their positions.

    Raises
    ------
    ValueError
        For the tokens of a table, which has a column for each.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.attention import RaggedTokens, TokenBatch, drop_tokens
    >>> tokens = RaggedTokens.from_arrays(np.ones((100, 1)), [0, 99, 100])
    >>> left = drop_tokens(TokenBatch(tokens), 0.5, np.random.RandomState(0)).tokens
    >>> left.segments.lengths
    tensor([49,  1])
    """
    tokens = batch.tokens
    if isinstance(tokens, TableTokens):
        raise ValueError(
            "token_dropout needs sequences: a table has a column for each token. Use "
            "token_dropout=0, or FeatureTokenizer before the estimator."
        )
    segments = tokens.segments
    device = segments.offsets.device
    draws = torch.from_numpy(rng.uniform(size=segments.n_tokens)).to(device)
    # The largest draw of a sample stays, which picks a random token where all would go.
    stays = (draws >= rate) | (draws == segments.repeat(segments.max(draws)))
    if batch.query_rows is not None:
        stays[batch.query_rows] = True
    rows = stays.nonzero().squeeze(1)
    left = Segments(offsets_of(segments.sum(stays.double()).long()))
    query_rows = batch.query_rows
    if query_rows is not None:
        query_rows = (stays.cumsum(0) - 1)[query_rows]
    kept = RaggedTokens(tokens.values[rows], left, tokens.positions[rows])
    return TokenBatch(kept, batch.query, query_rows)


def mix_within_class(batch, targets, concentration, rng):
    """Mix the tokens of each sample with those of another sample of its class.

    ``x_it <- m x_it + (1 - m) x_jt'``, the partner j drawn from the class of i, t' the
    token at the same relative place in it, and m the larger of u and 1 - u with
    u ~ Beta(concentration, concentration), one a sample: the structure of i leads, and
    its label stays true. Given queries are mixed alike.

    Parameters
    ----------
    batch : TokenBatch
    targets : torch.Tensor of shape (n_samples,)
        Class of each sample.
    concentration : float > 0
        Larger mixes more evenly.
    rng : numpy.random.RandomState

    Returns
    -------
    batch : TokenBatch

    References
    ----------
    After Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: Beyond Empirical Risk
    Minimization", arXiv:1710.09412, which also mixes labels.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skattn.attention import RaggedTokens, TokenBatch, mix_within_class
    >>> tokens = RaggedTokens.from_arrays([[0.0], [1.0], [9.0]], [0, 1, 2, 3])
    >>> targets = torch.tensor([0, 0, 1])
    >>> rng = np.random.RandomState(1)
    >>> mixed = mix_within_class(TokenBatch(tokens), targets, 1.0, rng)
    >>> mixed.tokens.values.squeeze().round(decimals=2)
    tensor([0.0000, 0.6100, 9.0000], dtype=torch.float64)
    """
    tokens = batch.tokens
    device = targets.device
    partner = torch.from_numpy(_partners(targets.cpu().numpy(), rng)).to(device)
    draws = rng.beta(concentration, concentration, size=len(targets))
    own = torch.from_numpy(np.maximum(draws, 1.0 - draws)).to(device)
    own = own.to(_values(tokens).dtype).unsqueeze(1)
    query = batch.query
    if query is not None:
        query = torch.lerp(query[partner], query, own)
    if isinstance(tokens, TableTokens):
        mixed = TableTokens(torch.lerp(tokens.cells[partner], tokens.cells, own))
    else:
        segments = tokens.segments
        share = (segments.places + 0.5) / segments.repeat(segments.lengths)
        places = (share * segments.repeat(segments.lengths[partner])).long()
        rows = segments.repeat(segments.offsets[:-1][partner]) + places
        values = tokens.values
        mixed = tokens.with_values(
            torch.lerp(values[rows], values, segments.repeat(own))
        )
    return TokenBatch(mixed, query, batch.query_rows)


def _values(tokens):
    return tokens.cells if isinstance(tokens, TableTokens) else tokens.values


def _partners(classes, rng):
    """Draw for each sample another of its class, or itself where it is alone."""
    partner = np.arange(len(classes))
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        n_members = len(members)
        if n_members > 1:
            # A step from 1 to n - 1 around the circle never comes back to the start.
            steps = rng.randint(1, n_members, size=n_members)
            partner[members] = members[(np.arange(n_members) + steps) % n_members]
    return partner
