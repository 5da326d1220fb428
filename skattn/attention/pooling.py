"""How the tokens of a sample become one vector: statistics pooled side by side.

A vector of statistics has a block for each name of `pooling`, in that order: for
"attention" the pooled tokens of all heads, one after another; for "mean", "min" and
"max" one vector of the width of a token, by features.
"""

import torch

__all__ = ["POOLINGS", "check_pooling", "pool", "pooled_width", "split_by_pooling"]

POOLINGS = ("attention", "mean", "min", "max")


def check_pooling(pooling):
    """Return what to pool by, as a tuple of names.

    Parameters
    ----------
    pooling : "attention", or sequence of {"attention", "mean", "min", "max"}
        Each name once, "attention" among them: a model that does not pool by its
        attention has nothing to train it with.

    Raises
    ------
    ValueError
        If it is anything else.

    Examples
    --------
    >>> from skattn.attention.pooling import check_pooling
    >>> check_pooling(["attention", "max"])
    ('attention', 'max')
    """
    names = (pooling,) if isinstance(pooling, str) else tuple(pooling)
    unknown = [name for name in names if name not in POOLINGS]
    if unknown:
        raise ValueError(
            f"pooling={pooling!r} has {unknown[0]!r}, which is none of "
            f"{', '.join(map(repr, POOLINGS))}."
        )
    if len(set(names)) < len(names):
        raise ValueError(f"pooling={pooling!r} has a name twice.")
    if "attention" not in names:
        raise ValueError(
            f"pooling={pooling!r} must contain 'attention'; without it attention would "
            "have no part in the decision."
        )
    return names


def pooled_width(pooling, n_heads, n_features):
    """Return how many numbers a sample is pooled into."""
    return sum(_block_width(name, n_heads, n_features) for name in pooling)


def split_by_pooling(matrix, pooling, n_heads, n_features):
    """Cut the columns of a matrix into the blocks of `pooling`.

    Returns
    -------
    blocks : list of (str, torch.Tensor)
        The name of each block, and its columns.
    """
    widths = [_block_width(name, n_heads, n_features) for name in pooling]
    return list(zip(pooling, matrix.split(widths, dim=1), strict=True))


def pool(tokens, weights, pooling):
    """Pool the tokens of each sample.

    Parameters
    ----------
    tokens : RaggedTokens or TableTokens
    weights : torch.Tensor of shape (n_tokens, n_heads)
        Of the attention.
    pooling : tuple of str

    Returns
    -------
    pooled : torch.Tensor of shape (n_samples, n_pooled)

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import RaggedTokens
    >>> from skattn.attention.pooling import pool
    >>> tokens = RaggedTokens.from_arrays([[1.0], [5.0]], [0, 2])
    >>> pool(tokens, torch.tensor([[0.75], [0.25]]).double(), ("attention", "max"))
    tensor([[2., 5.]], dtype=torch.float64)
    """
    blocks = [
        tokens.pool(weights).flatten(1)
        if name == "attention"
        else tokens.statistic(name)
        for name in pooling
    ]
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)


def _block_width(name, n_heads, n_features):
    return n_features * (n_heads if name == "attention" else 1)
