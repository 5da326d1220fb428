"""Attention-SH: heads that attend to windows of tokens, each of a length of its own."""

from numbers import Integral

import torch

from skattn.attention.segments import Segments, offsets_of

__all__ = ["Windows", "by_windows", "check_head_scale", "window_weights"]


class Windows:
    """The windows that the positions of each sample are cut into, one after another.

    The first window of a sample has its first `length` positions, and so on. Windows
    without a token are absent.

    Parameters
    ----------
    segments : Segments
        Where the samples are.
    positions : torch.Tensor of shape (n_tokens,), dtype int64
        Position of each token in its sample, rising.
    length : int
        Positions in a window.

    Attributes
    ----------
    tokens : Segments
        Which tokens each window has.
    samples : Segments
        Which windows each sample has.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.segments import Segments
    >>> from skattn.attention.windows import Windows
    >>> positions = torch.tensor([0, 1, 4, 0, 1])
    >>> windows = Windows(Segments(torch.tensor([0, 3, 5])), positions, length=2)
    >>> windows.mean(torch.tensor([1.0, 3.0, 5.0, 7.0, 8.0]))
    tensor([2.0000, 5.0000, 7.5000])
    >>> windows.samples.lengths
    tensor([2, 1])
    """

    def __init__(self, segments, positions, length):
        numbers = positions // length
        apart = numbers.max() + 1
        places = segments.owner * apart + numbers
        found, sizes = torch.unique_consecutive(places, return_counts=True)
        self.tokens = Segments(offsets_of(sizes))
        n_windows = torch.bincount(found // apart, minlength=segments.n_samples)
        self.samples = Segments(offsets_of(n_windows))

    def mean(self, values):
        """Average over the tokens of each window."""
        return self.tokens.mean(values)

    def spread(self, values):
        """Give every token the value of its window."""
        return self.tokens.repeat(values)

    def first(self, values):
        """Return the value of the first token of each window."""
        return values[self.tokens.offsets[:-1]]


def check_head_scale(head_scale, n_heads):
    """Return the length of the windows of each head, or None if all have single tokens.

    Parameters
    ----------
    head_scale : int, sequence of n_heads ints, or None
        One length for all heads, or one each.
    n_heads : int

    Raises
    ------
    ValueError
        If a length is not an integer of at least 1, or there is not one a head.

    Examples
    --------
    >>> from skattn.attention.windows import check_head_scale
    >>> check_head_scale([1, 4], n_heads=2)
    (1, 4)
    """
    if head_scale is None:
        return None
    try:
        lengths = tuple(head_scale)
    except TypeError:
        lengths = (head_scale,) * n_heads
    if len(lengths) != n_heads:
        raise ValueError(
            f"head_scale={head_scale!r} must have one length a head, n_heads={n_heads}."
        )
    if not all(
        isinstance(length, Integral) and not isinstance(length, bool) and length >= 1
        for length in lengths
    ):
        raise ValueError(
            f"head_scale={head_scale!r} must have integers of at least 1, the lengths "
            "of the windows."
        )
    return tuple(int(length) for length in lengths)


def by_windows(head_scale, n_heads, of_heads):
    """Compute something for all heads, those with windows of one length together.

    Parameters
    ----------
    head_scale : tuple of int or None
        As :func:`check_head_scale` returns it.
    n_heads : int
    of_heads : callable
        ``of_heads(length, heads)`` returns a tensor (n, number of heads, ...) for the
        heads that an index, a list or a slice, picks.

    Returns
    -------
    joined : torch.Tensor of shape (n, n_heads, ...)
    """
    groups = {}
    for head, length in enumerate(head_scale or (1,) * n_heads):
        groups.setdefault(length, []).append(head)
    if len(groups) == 1:
        # A slice is a view, where a list would copy.
        return of_heads(*groups, slice(None))
    joined = [None] * n_heads
    for length, heads in groups.items():
        parts = of_heads(length, heads).unbind(1)
        for head, part in zip(heads, parts, strict=True):
            joined[head] = part
    return torch.stack(joined, dim=1)


def window_weights(scores, tokens, head_scale, mapping):
    """Weigh the windows of each head, and share a weight among the tokens of a window.

    Pooling tokens by these weights is pooling the means of windows by the weights of
    windows.

    Parameters
    ----------
    scores : torch.Tensor of shape (n_tokens, n_heads)
        Equal within a window.
    tokens : RaggedTokens or TableTokens
    head_scale : tuple of int
        As :func:`check_head_scale` returns it.
    mapping : callable
        ``mapping(scores, segments, heads)`` returns the weights of some heads.

    Returns
    -------
    weights : torch.Tensor of shape (n_tokens, n_heads)
    """

    def of_heads(length, heads):
        windows = tokens.windows(length)
        by_window = mapping(windows.first(scores[:, heads]), windows.samples, heads)
        return windows.spread(by_window / windows.tokens.lengths.unsqueeze(1))

    return by_windows(head_scale, scores.shape[1], of_heads)
