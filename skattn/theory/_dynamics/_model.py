"""The attention model with its closed-form gradients, over a batch of instances."""

from typing import NamedTuple

import numpy as np

from skattn.theory._dynamics._heads import HEADS
from skattn.theory._dynamics._scaled import Scaled, strongest
from skattn.theory._losses import LOSSES

#: Values of tokens that differ by less, relative to the largest, are equal but for
#: rounding. Their order says nothing, and must not outlive that of the others.
_ROUNDING = 8 * np.finfo(np.float64).eps


class Look(NamedTuple):
    """The model at its current weights: (B, n, T), or (B, n) where one a sample.

    `relative` are scores minus the top score, and `total` is the sum of their
    exponentials.
    """

    top: np.ndarray
    relative: np.ndarray
    total: np.ndarray
    attention: np.ndarray
    output: np.ndarray
    values: np.ndarray


class AttentionModel:
    """``f(X, z) = head(X' softmax(X W z))``, with W itself or W = K Q' as weights.

    Weights are a dictionary of arrays (B, rows, columns): "W", or "K" and "Q", and
    "head" if that is trained; otherwise the head is given here.
    """

    def __init__(self, instances, loss, activation, head=None):
        self._tokens = instances.tokens
        self._present = instances.present
        self._query = instances.query
        self._signs = instances.signs
        self._loss = LOSSES[loss]
        self._head = HEADS[activation](instances.tokens, head)

    def look(self, weights):
        scores = np.einsum("bntd,bnd->bnt", self._tokens, self._projected(weights))
        if self._present is not None:
            scores[~self._present] = -np.inf
        top = scores.argmax(axis=2)
        relative = scores - _at(scores, top)
        attention = np.exp(relative)
        total = attention.sum(axis=2)
        attention /= total[:, :, None]
        reading = self._head.read(attention, weights.get("head"))
        return Look(top, relative, total, attention, *reading)

    def mean_loss(self, look):
        return self._loss.value(self._signs * look.output).mean(axis=1)

    def gradients(self, weights, look):
        """Return the gradient of the mean loss in each of the weights, as `Scaled`.

        The gradient in the score of token t is that in the output times
        ``s_t (g_t - o)``, with o the mean of the token values g under the attention s.
        Near saturation g_t - o is a difference of nearly equal numbers. With e_t =
        g_t - g_top and m = sum of s_u e_u it equals e_t - m, and m has no large part.
        All is kept times exp(gap of the sample), so that nothing underflows.
        """
        lead = self._without_rounding(look.values - _at(look.values, look.top), look)
        parts, log_factor = _weighted(lead, look)
        mean = parts.sum(axis=2)
        log_slope = self._loss.log_slope(self._signs * look.output)
        log_slope -= np.log(log_slope.shape[1])
        log_scale, size = strongest(log_slope + log_factor)
        by_score = parts - look.attention * mean[:, :, None]
        by_score *= (-self._signs * size)[:, :, None]
        pulls = np.einsum("bnt,bntd->bnd", by_score, self._tokens)
        gradients = {
            name: Scaled(values, log_scale)
            for name, values in self._by_weights(weights, pulls).items()
        }
        if "head" in weights:
            log_scale, size = strongest(log_slope)
            values = self._head.gradient(
                look.attention, weights["head"], -self._signs * size
            )
            gradients["head"] = Scaled(values, log_scale)
        return gradients

    def log_excess(self, look):
        """Return the logarithm of the mean loss above that of the best tokens.

        For a fixed linear head. What is missing to the best margin is the mean of
        what each token misses, which no subtraction of losses would find.
        """
        gains = self._signs[:, :, None] * look.values
        if self._present is not None:
            gains = np.where(self._present, gains, -np.inf)
        best = gains.max(axis=2)
        missing = self._without_rounding(best[:, :, None] - gains, look)
        parts, log_factor = _weighted(missing, look)
        with np.errstate(divide="ignore"):
            log_missing = np.log(parts.sum(axis=2)) + log_factor
        excess, _ = self._loss.log_excess(best, np.exp(log_missing), log_missing)
        log_scale, size = strongest(excess)
        with np.errstate(divide="ignore"):
            return log_scale + np.log(size.mean(axis=1))

    def _projected(self, weights):
        """Return ``W z`` of every sample: (B, n, d)."""
        if "W" in weights:
            return self._query @ weights["W"].transpose(0, 2, 1)
        return self._query @ weights["Q"] @ weights["K"].transpose(0, 2, 1)

    def _by_weights(self, weights, pulls):
        """Carry gradients in W z, of shape (B, n, d), to the weights."""
        if "W" in weights:
            return {"W": pulls.transpose(0, 2, 1) @ self._query}
        return {
            "K": pulls.transpose(0, 2, 1) @ (self._query @ weights["Q"]),
            "Q": self._query.transpose(0, 2, 1) @ (pulls @ weights["K"]),
        }

    def _without_rounding(self, differences, look):
        noise = _ROUNDING * np.abs(look.values).max(axis=2, keepdims=True)
        counts = np.abs(differences) > noise
        if self._present is not None:
            counts &= self._present
        return np.where(counts, differences, 0.0)


def attention_matrix(weights):
    """Return W, or the W that keys and queries make up."""
    if "W" in weights:
        return weights["W"]
    return weights["K"] @ weights["Q"].transpose(0, 2, 1)


def _at(array, top):
    return np.take_along_axis(array, top[:, :, None], axis=2)


def _weighted(differences, look):
    """Return attention times differences over a factor, and that factor's logarithm.

    The factor, one a sample, is the largest weight (to the top one) of a token whose
    difference is not zero: the parts are of the size of the differences.
    """
    log_factor = np.where(differences != 0, look.relative, -np.inf).max(axis=2)
    shift = np.where(np.isfinite(log_factor), log_factor, 0.0)[:, :, None]
    parts = np.exp(np.minimum(look.relative - shift, 0.0)) * differences
    return parts / look.total[:, :, None], log_factor
