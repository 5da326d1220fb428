"""Arrays whose size no floating-point number holds."""

from typing import NamedTuple

import numpy as np


class Scaled(NamedTuple):
    """One matrix an instance: ``values * exp(log_scale)``.

    `values` has shape (B, rows, columns), `log_scale` shape (B,). Gradients of
    saturated attention are below 1e-308 after some thousand steps, their direction is
    as clear as ever.
    """

    values: np.ndarray
    log_scale: np.ndarray

    def plus(self, factor, matrices):
        """Add ``factor * matrices``, for a positive factor."""
        log_scale = np.maximum(self.log_scale, np.log(factor))
        values = per_matrix(np.exp(self.log_scale - log_scale)) * self.values
        values += per_matrix(np.exp(np.log(factor) - log_scale)) * matrices
        return Scaled(values, log_scale)

    def value_norms(self, power=2.0):
        """Return the entrywise norms of `values`, of this power: shape (B,)."""
        if power == 2.0:
            squares = np.einsum("bij,bij->b", self.values, self.values)
            if np.all((squares > 1e-250) & (squares < 1e250)):
                return np.sqrt(squares)
        # Powers of small numbers underflow, those of numbers up to 1 do not overflow.
        sizes = np.abs(self.values)
        peak = sizes.max(axis=(1, 2))
        sizes /= per_matrix(np.where(peak > 0, peak, 1.0))
        return peak * (sizes**power).sum(axis=(1, 2)) ** (1 / power)


def per_matrix(numbers):
    """Shape one number an instance so that it multiplies that instance's matrix."""
    return numbers[:, None, None]


def strongest(log_sizes):
    """Return the largest logarithm of each row, and all sizes relative to it.

    A row of sizes that are all zero keeps them so.
    """
    log_scale = log_sizes.max(axis=1)
    finite = np.where(np.isfinite(log_scale), log_scale, 0.0)
    return log_scale, np.exp(log_sizes - finite[:, None])
