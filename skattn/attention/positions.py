"""How an encoder knows the order of tokens."""

import torch

__all__ = ["POSITIONS", "rotate", "sinusoids"]

POSITIONS = (None, "learned", "sinusoidal", "rotary")

# The wavelengths grow from 2 pi to 10,000 times as much, as in arXiv:1706.03762.
_LONGEST = 10_000.0


def sinusoids(positions, width, dtype):
    """Return sines and cosines of positions, (n_tokens, width).

    Parameters
    ----------
    positions : torch.Tensor of shape (n_tokens,)
    width : int
        The first half, rounded up, are sines.
    dtype : torch.dtype

    References
    ----------
    Vaswani et al., "Attention Is All You Need", arXiv:1706.03762, section 3.5.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.positions import sinusoids
    >>> sinusoids(torch.tensor([0, 1]), 2, torch.float64).round(decimals=4)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]], dtype=torch.float64)
    """
    angles = _angles(positions, (width + 1) // 2, dtype)
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


def rotate(values, positions):
    """Turn pairs of features by angles that grow with the position.

    The product of two vectors turned so depends on the distance of their positions
    alone.

    Parameters
    ----------
    values : torch.Tensor of shape (n_tokens, n_heads, n_features)
        An even number of features.
    positions : torch.Tensor of shape (n_tokens,)

    Returns
    -------
    turned : torch.Tensor of shape (n_tokens, n_heads, n_features)

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
    arXiv:2104.09864, equation (34).

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.positions import rotate
    >>> rotate(torch.ones(2, 1, 2).double(), torch.tensor([0, 1])).round(decimals=4)
    tensor([[[ 1.0000,  1.0000]],
    <BLANKLINE>
            [[-0.3012,  1.3818]]], dtype=torch.float64)
    """
    half = values.shape[2] // 2
    angles = _angles(positions, half, values.dtype).unsqueeze(1)
    cosines, sines = angles.cos(), angles.sin()
    first, second = values[..., :half], values[..., half:]
    return torch.cat(
        [first * cosines - second * sines, second * cosines + first * sines], dim=2
    )


def _angles(positions, n_angles, dtype):
    steps = torch.arange(n_angles, dtype=dtype, device=positions.device)
    frequencies = _LONGEST ** (-steps / n_angles)
    return positions.to(dtype).unsqueeze(1) * frequencies
