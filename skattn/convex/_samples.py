"""Samples of any number of tokens, in batches of one length."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skattn.margin._reading import read_tokens


@dataclass(frozen=True)
class Samples:
    """The tokens of all samples, laid end to end.

    Parameters
    ----------
    values : ndarray of shape (n_tokens, d)
        Double precision.

    offsets : int array of shape (n_samples + 1,)
        Where each sample starts.
    """

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def read(cls, tokens):
        """Read what the public functions accept as `tokens`."""
        if isinstance(tokens, cls):
            return tokens
        values, offsets = read_tokens(tokens)
        if sparse.issparse(values):
            raise TypeError(
                "tokens must be dense for convex heads, which multiply the features "
                "of tokens with each other; got sparse values. Reduce their dimension "
                "first."
            )
        return cls(values, offsets)

    @property
    def lengths(self):
        """Tokens of each sample."""
        return np.diff(self.offsets)

    @property
    def n_features(self):
        """Features of a token."""
        return self.values.shape[1]

    def __len__(self):
        return self.offsets.size - 1

    def take(self, index):
        """Return the samples at the positions `index`."""
        lengths = self.lengths[index]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(
            self.offsets[index] - offsets[:-1], lengths
        )
        return Samples(self.values[rows], offsets)

    def batches(self, entries: Callable[[int], int], limit):
        """Yield the samples in batches of one length.

        Parameters
        ----------
        entries : callable
            Takes a length, returns the numbers that one sample of it needs.

        limit : int
            Numbers that a batch may need; it has one sample at least.

        Yields
        ------
        index : int array of shape (m,)
            The samples of the batch.

        batch : ndarray of shape (m, T, d)
            Their tokens.
        """
        lengths = self.lengths
        order = np.argsort(lengths, kind="stable")
        distinct, starts = np.unique(lengths[order], return_index=True)
        for length, same in zip(distinct, np.split(order, starts[1:]), strict=True):
            step = max(limit // max(entries(int(length)), 1), 1)
            for first in range(0, same.size, step):
                index = same[first : first + step]
                rows = self.offsets[index][:, None] + np.arange(length)
                yield index, self.values[rows]

    def digests(self, extra):
        """Return a digest of each sample's tokens and its row of `extra`.

        Samples are the same to all that follows exactly if their digests are.

        Parameters
        ----------
        extra : ndarray of shape (n_samples, m)
            Numbers that belong to the sample too.

        Returns
        -------
        digests : list of bytes
        """
        # Adding 0 makes one number of the two zeros.
        values, extra = self.values + 0.0, np.ascontiguousarray(extra) + 0.0
        return [
            hashlib.blake2b(
                values[first:stop].tobytes() + own.tobytes(), digest_size=16
            ).digest()
            for first, stop, own in zip(
                self.offsets[:-1], self.offsets[1:], extra, strict=True
            )
        ]
