"""Samples as rows of an array, or end to end along its first axis."""

from functools import cached_property

import numpy as np


class NumpyRows:
    """Each row, along the last axis, is one sample."""

    xp = np

    def sum(self, values):
        return values.sum(axis=-1, keepdims=True)

    def max(self, values):
        return values.max(axis=-1, keepdims=True)

    def repeat(self, values):
        return values


class NumpySegments:
    """Samples lie end to end along the first axis, cut at ``offsets``."""

    xp = np

    def __init__(self, offsets):
        self.starts = offsets[:-1]
        self.lengths = np.diff(offsets)

    def sum(self, values):
        return np.add.reduceat(values, self.starts, axis=0)

    def max(self, values):
        return np.maximum.reduceat(values, self.starts, axis=0)

    def repeat(self, values):
        return np.repeat(values, self.lengths, axis=0)

    @cached_property
    def places(self):
        """Place of each token in its sample, from 0."""
        return np.arange(self.lengths.sum()) - self.repeat(self.starts)

    def descending(self, scores):
        """Rows of the tokens of each sample from the best down, ties by place."""
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        owner = np.broadcast_to(
            owner.reshape(-1, *[1] * (scores.ndim - 1)), scores.shape
        )
        return np.lexsort((-scores, owner), axis=0)

    def gather(self, values, rows):
        return np.take_along_axis(values, rows, axis=0)

    def scatter(self, values, rows):
        """Undo `gather` by rows that hold every token once."""
        scattered = np.empty_like(values)
        np.put_along_axis(scattered, rows, values, axis=0)
        return scattered


def check_scores(largest):
    """Refuse samples that have no token to put weight on.

    ``largest`` is the largest score of each sample, a NumPy array.
    """
    if np.isnan(largest).any() or np.isposinf(largest).any():
        raise ValueError("scores contain NaN or +infinity.")
    absent = np.isneginf(largest)
    if absent.any():
        sample = int(np.argwhere(absent)[0][0])
        raise ValueError(
            f"sample {sample} has no valid token: all its scores are -inf. Remove "
            "the sample, or give it at least one token."
        )


def check_offsets(offsets, n_tokens):
    """Return offsets as an integer array after checking that they cut `n_tokens`."""
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be a 1-D integer array of n_samples + 1 entries, got an "
            f"array of shape {offsets.shape} and dtype {offsets.dtype}."
        )
    if offsets[0] != 0 or offsets[-1] != n_tokens:
        raise ValueError(
            f"offsets must start at 0 and end at the number of tokens, {n_tokens}; "
            f"got {offsets[0]} and {offsets[-1]}."
        )
    lengths = np.diff(offsets.astype(np.int64))
    if (lengths <= 0).any():
        sample = int(np.flatnonzero(lengths <= 0)[0])
        raise ValueError(
            f"sample {sample} has no token: offsets must increase strictly. Remove "
            "the sample, or give it at least one token."
        )
    return offsets.astype(np.int64)
