"""Features of self-attention, with short cuts for heads and for no gates."""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from skattn.convex.features import ConvexFeatures
from skattn.convex.gates import BATCH


class AttentionFeatures(ConvexFeatures, ABC):
    """Features of self-attention, and the same of heads without any of its matrices.

    The pooled output of a head is ``sum over u of (p_u' W_1 x_u) x_u' W_2``, with p_u
    what sees the token u.
    """

    def predict_factors(self, factors):
        """Return the pooled outputs of heads, as `ConvexFeatures.predict_factors`."""
        d = self.gates.n_features
        outputs = np.zeros((self.n_samples, len(factors[0][1]) // d))
        for gate, (left, right) in enumerate(factors):
            if left.shape[1] == 0:
                continue
            values = self._values(gate, _first_layers(left, d))
            outputs += values.reshape(len(values), -1) @ _second(right, d)
        return outputs

    def gradient_factors(self, residuals, factors):
        """Return the gradients in the heads, as `ConvexFeatures.gradient_factors`."""
        d, n_outputs = self.gates.n_features, residuals.shape[1]
        gradients = []
        for gate, (left, right) in enumerate(factors):
            rank = left.shape[1]
            if rank == 0:
                gradients.append((left, right))
                continue
            values = self._values(gate, _first_layers(left, d))
            by_second = values.reshape(len(values), -1).T @ residuals
            # From rows (head, feature) to (feature, output) by head.
            by_second = by_second.reshape(rank, d, n_outputs).transpose(1, 2, 0)
            wanted = (residuals @ _second(right, d).T).reshape(-1, rank, d)
            by_first = self._by_first(gate, wanted).transpose(2, 1, 0)
            gradients.append(
                (by_first.reshape(d * d, rank), by_second.reshape(-1, rank))
            )
        return gradients

    @abstractmethod
    def _values(self, gate, first):
        """Return ``sum of (p' W_1 x) x``, of shape (n_samples, r, d), W_1 (r, d, d)."""

    @abstractmethod
    def _by_first(self, gate, wanted):
        """Return ``sum of (x' wanted) p x'`` of all samples, of shape (r, d, d)."""


class GatedAttentionFeatures(AttentionFeatures):
    """Features of self-attention with gates."""

    def _values(self, gate, first):
        n_heads, d = first.shape[:2]
        values = np.empty((self.n_samples, n_heads, d))
        by_head = first.transpose(1, 0, 2).reshape(d, -1)
        for rows, tokens, starts in self._runs(n_heads):
            x, seen_by = self.samples.values[tokens], self._seen_by[gate, tokens]
            scores = (seen_by @ by_head).reshape(len(x), n_heads, d) @ x[:, :, None]
            values[rows] = np.add.reduceat(scores * x[:, None], starts, axis=0)
        return values

    def _by_first(self, gate, wanted):
        n_heads, d = wanted.shape[1:]
        gradient = np.zeros((n_heads * d, d))
        lengths = self.samples.lengths
        for rows, tokens, _ in self._runs(n_heads):
            x, seen_by = self.samples.values[tokens], self._seen_by[gate, tokens]
            own = np.repeat(wanted[rows], lengths[rows], axis=0)
            weighted = (own @ x[:, :, None]) * seen_by[:, None]
            gradient += weighted.reshape(len(x), -1).T @ x
        return gradient.reshape(n_heads, d, d)

    def _runs(self, n_heads):
        """Yield samples in a row, their tokens, and where each sample starts."""
        offsets = self.samples.offsets
        limit = max(BATCH // max(n_heads * self.gates.n_features, 1), 1)
        first = 0
        while first < self.n_samples:
            fitting = np.searchsorted(offsets, offsets[first] + limit, side="right") - 1
            stop = max(int(fitting), first + 1)
            tokens = slice(offsets[first], offsets[stop])
            yield slice(first, stop), tokens, offsets[first:stop] - offsets[first]
            first = stop

    @cached_property
    def _seen_by(self):
        seen_by = np.empty((self.n_gates, *self.samples.values.shape))
        entries = self.gates.entries
        for index, batch in self.samples.batches(entries, BATCH):
            rows = self.samples.offsets[index][:, None] + np.arange(batch.shape[1])
            for gate in range(self.n_gates):
                seen_by[gate, rows] = self.gates.seen_by(batch, gate)
        return seen_by


class LinearAttentionFeatures(AttentionFeatures):
    """Features of self-attention without gates, as two factors.

    The output of a sample is ``m' W_1 G W_2``, with m the mean of its tokens and G the
    sum of their squares xx'.
    """

    @property
    def nbytes(self):
        """Bytes of both factors."""
        d = self.gates.n_features
        return 8 * self.n_samples * (d * d + d)

    def predict(self, coef):
        """Return the pooled outputs, as `ConvexFeatures.predict`."""
        means, squares = self._factors
        d = self.gates.n_features
        by_mean = coef.reshape(d, d, d, -1).transpose(1, 0, 2, 3).reshape(d, -1)
        outputs = np.empty((self.n_samples, by_mean.shape[1] // d**2))
        for rows in self._slices(by_mean.shape[1]):
            inner = (means[rows] @ by_mean).reshape(-1, d * d, outputs.shape[1])
            outputs[rows] = (squares[rows].reshape(-1, 1, d * d) @ inner)[:, 0]
        return outputs

    def gradient(self, residuals):
        """Return the adjoint of :meth:`predict`."""
        means, squares = self._factors
        d, n_outputs = self.gates.n_features, residuals.shape[1]
        gradient = 0.0
        for rows in self._slices(d * d * n_outputs):
            products = squares[rows, :, :, None] * residuals[rows, None, None]
            gradient = gradient + means[rows].T @ products.reshape(len(products), -1)
        by_square = gradient.reshape(d, d, d * n_outputs).transpose(1, 0, 2)
        return np.ascontiguousarray(by_square).reshape(self.coef_shape(n_outputs))

    def matrix(self):
        """Return the map to one output, as `ConvexFeatures.matrix`."""
        means, squares = self._factors
        cubes = squares[:, :, None] * means[:, None, :, None]
        return cubes.reshape(self.n_samples, -1)

    def _values(self, gate, first):
        means, squares = self._factors
        d = self.gates.n_features
        scores = means @ first.transpose(1, 0, 2).reshape(d, -1)
        return scores.reshape(self.n_samples, -1, d) @ squares

    def _by_first(self, gate, wanted):
        means, squares = self._factors
        n_heads, d = wanted.shape[1:]
        mixed = (wanted @ squares).reshape(self.n_samples, -1)
        return (means.T @ mixed).reshape(d, n_heads, d).transpose(1, 0, 2)

    def _slices(self, entries):
        step = max(BATCH // entries, 1)
        for first in range(0, self.n_samples, step):
            yield slice(first, first + step)

    @cached_property
    def _factors(self):
        d = self.gates.n_features
        means = np.empty((self.n_samples, d))
        squares = np.empty((self.n_samples, d, d))
        for index, batch in self.samples.batches(lambda length: length * d, BATCH):
            means[index] = batch.mean(axis=1)
            squares[index] = batch.transpose(0, 2, 1) @ batch
        return means, squares


def _first_layers(left, d):
    # Rows count the columns of W_1 slowly.
    return left.reshape(d, d, -1).transpose(2, 1, 0)


def _second(right, d):
    """Return second layers as a matrix from (head, feature) to outputs."""
    rank = right.shape[1]
    return right.reshape(d, -1, rank).transpose(2, 0, 1).reshape(rank * d, -1)
