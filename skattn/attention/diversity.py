"""How much the heads of an attention look at the same tokens."""

__all__ = ["head_overlap"]


def head_overlap(weights, segments):
    """Return the mean cosine between the attention weights of two heads.

    1 where all heads are alike, 0 where no two look at a common token. Unlike the
    product of the weights it does not fall when attention spreads over more tokens.

    Parameters
    ----------
    weights : torch.Tensor of shape (n_tokens, n_heads)
        Non-negative, adding up to 1 over each sample; two heads or more.
    segments : Segments
        Where the samples are.

    Returns
    -------
    overlap : torch.Tensor of shape (n_samples,)
        Mean over all pairs of heads.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.diversity import head_overlap
    >>> from skattn.attention.segments import Segments
    >>> weights = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    >>> head_overlap(weights, Segments(torch.tensor([0, 2, 4]))).round(decimals=4)
    tensor([0., 1.])
    """
    n_heads = weights.shape[1]
    lengths = segments.sum(weights.square()).sqrt()
    directions = weights / segments.repeat(lengths)
    # |sum of unit vectors|^2 is n_heads plus the cosines of all ordered pairs.
    squares = segments.sum(directions.sum(dim=1).square())
    return (squares - n_heads) / (n_heads * (n_heads - 1))
