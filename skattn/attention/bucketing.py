"""Groups of samples of similar length, so that padding wastes little work."""

from typing import NamedTuple

import torch

__all__ = ["Buckets", "PaddedRows"]

#: How much of the work on a group may be on padding.
LARGEST_PADDED_SHARE = 0.15


class PaddedRows(NamedTuple):
    """Where the tokens of a group of samples are, in a table with padding.

    `rows` (n_samples, longest) are their indices along all tokens, and the number of
    all tokens for padding; `present` (n_samples, longest) is True for tokens, or None
    if nothing is padded.
    """

    rows: torch.Tensor
    present: torch.Tensor | None


class Buckets:
    """Samples in groups of similar length.

    Self-attention on a sample of T tokens is work of the order of T^2. Samples are
    taken from the longest to the shortest, and a group ends where the next sample would
    make more than `largest_share` of its work padding.

    Parameters
    ----------
    segments : Segments
        Where the samples are.
    largest_share : float in [0, 1), default=0.15

    Attributes
    ----------
    groups : list of torch.Tensor of dtype int64
        The samples of each group.
    padded_share : float
        Share of the work on padding, over all groups.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.bucketing import Buckets
    >>> from skattn.attention.segments import Segments
    >>> buckets = Buckets(Segments(torch.tensor([0, 10, 12, 21, 23])))
    >>> [group.tolist() for group in buckets.groups]
    [[0, 2], [1, 3]]
    >>> round(buckets.padded_share, 3)
    0.091
    """

    def __init__(self, segments, largest_share=LARGEST_PADDED_SHARE):
        order = torch.sort(segments.lengths, descending=True, stable=True)
        work = order.values.cpu().double().square()
        bounds = _bounds(work.tolist(), largest_share)
        sizes = torch.tensor(bounds).diff().tolist()
        self.groups = list(order.indices.split(sizes))
        longest = work[torch.tensor(bounds[:-1])]
        padded = float((longest * torch.tensor(sizes)).sum())
        self.padded_share = 1.0 - float(work.sum()) / padded

    def rows(self, segments):
        """Return the `PaddedRows` of each group.

        Parameters
        ----------
        segments : Segments
            Of the same samples: their tokens, or their windows.
        """
        return [_padded_rows(segments, group) for group in self.groups]

    def places(self, segments):
        """Return where each token is when groups follow each other without padding.

        Parameters
        ----------
        segments : Segments
            Of the tokens.
        """
        _, rows = segments.take(torch.cat(self.groups))
        places = torch.empty_like(rows)
        places[rows] = torch.arange(len(rows), device=rows.device)
        return places


def _bounds(work, largest_share):
    """Cut falling numbers where padding to the first would be too much of a group."""
    bounds = [0]
    total = 0.0
    for i, own in enumerate(work):
        n_members = i - bounds[-1] + 1
        if total + own < (1.0 - largest_share) * n_members * work[bounds[-1]]:
            bounds.append(i)
            total = 0.0
        total += own
    return [*bounds, len(work)]


def _padded_rows(segments, group):
    lengths = segments.lengths[group]
    places = torch.arange(int(lengths.max()), device=lengths.device)
    present = places < lengths.unsqueeze(1)
    rows = segments.offsets[:-1][group].unsqueeze(1) + places
    if bool(present.all()):
        return PaddedRows(rows, None)
    return PaddedRows(torch.where(present, rows, segments.n_tokens), present)
