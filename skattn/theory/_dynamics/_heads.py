"""Heads that read the pooled token, one an instance.

A head has weights of shape (B, d, m): it returns the sum of ``activation(x'weights)``
over the m columns. A linear head has one column and no activation.
"""

from typing import NamedTuple

import numpy as np


class Reading(NamedTuple):
    """What a head makes of the pooled tokens.

    `output` has shape (B, n). `values`, of shape (B, n, T), is ``x_t' grad f`` at the
    pooled token: the change of the output with a token's weight.
    """

    output: np.ndarray
    values: np.ndarray


class LinearHead:
    """``f(x) = x'v``."""

    def __init__(self, tokens, weights=None):
        self._tokens = tokens
        self._fixed_values = None if weights is None else self.values(weights)

    def values(self, weights):
        return np.einsum("bntd,bd->bnt", self._tokens, weights[:, :, 0])

    def read(self, attention, weights):
        values = self._fixed_values
        if values is None:
            values = self.values(weights)
        return Reading(np.einsum("bnt,bnt->bn", attention, values), values)

    def gradient(self, attention, weights, pulls):
        """Return the sum over samples of ``pulls`` times the output's gradient."""
        pooled = _pool(attention, self._tokens)
        return np.einsum("bn,bnd->bd", pulls, pooled)[:, :, None]


class ReLUHead:
    """``f(x) = sum over k of relu(x'V)_k``."""

    def __init__(self, tokens, weights=None):
        self._tokens = tokens
        self._fixed = weights

    def read(self, attention, weights):
        weights = weights if self._fixed is None else self._fixed
        hidden = _pool(attention, self._tokens) @ weights
        slope = (hidden > 0) @ weights.transpose(0, 2, 1)
        values = np.einsum("bntd,bnd->bnt", self._tokens, slope)
        return Reading(np.maximum(hidden, 0).sum(axis=2), values)

    def gradient(self, attention, weights, pulls):
        """Return the sum over samples of ``pulls`` times the output's gradient."""
        pooled = _pool(attention, self._tokens)
        is_active = pooled @ weights > 0
        return pooled.transpose(0, 2, 1) @ (pulls[:, :, None] * is_active)


HEADS = {"identity": LinearHead, "relu": ReLUHead}


def _pool(attention, tokens):
    return np.einsum("bnt,bntd->bnd", attention, tokens)
