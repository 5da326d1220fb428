"""Self-attention without softmax: products of three tokens."""

import numpy as np

from skattn.convex._mlp import signs_of
from skattn.convex.gates import Gates


class SelfAttentionGates(Gates):
    """Gates ``1{X U X' >= 0}`` of ``sum of (M_g * (X W_1 X')) X W_2``."""

    block = "self_attention"

    @property
    def left(self):
        """Left vectors u of rank-one gates, of shape (n_gates, d); otherwise None."""
        return self.vectors[:, 0] if self.gate_rank == "rank_one" else None

    @property
    def right(self):
        """Right vectors v of rank-one gates, of shape (n_gates, d); otherwise None."""
        return self.vectors[:, 1] if self.gate_rank == "rank_one" else None

    @property
    def vectors_shape(self):
        """Shape of U, or of u and v."""
        return (2 if self.gate_rank == "rank_one" else self.n_features, self.n_features)

    @property
    def matrix_shape(self):
        """One row for each pair of features, one column for each feature."""
        return self.n_features**2, self.n_features

    @property
    def first_shape(self):
        """Shape of W_1."""
        return self.n_features, self.n_features

    def masks(self, batch, gate):
        """Return which tokens see which, of shape (m, T, T)."""
        n_samples, length, _ = batch.shape
        if self.is_linear:
            return np.ones((n_samples, length, length), dtype=bool)
        if self.gate_rank == "rank_one":
            left, right = self.vectors[gate]
            scores = (batch @ left)[:, :, None] * (batch @ right)[:, None, :]
        else:
            scores = batch @ self.vectors[gate] @ batch.transpose(0, 2, 1)
        return scores >= 0

    @property
    def n_numbers(self):
        """Numbers that the features of one sample are: no pair of features twice."""
        return self.n_gates * self.n_features * len(self._pairs[0])

    def features(self, batch):
        """Return the features: of each gate, feature of the first token and pair."""
        n_samples, _, d = batch.shape
        first, second = self._pairs
        squares = batch[..., first] * batch[..., second]
        features = np.empty((n_samples, self.n_gates, d, len(first)))
        for gate in range(self.n_gates):
            np.matmul(
                self.seen_by(batch, gate).transpose(0, 2, 1),
                squares,
                out=features[:, gate],
            )
        return features.reshape(n_samples, -1)

    def pack(self, coef):
        """Return the weights of the features, those of a pair added up."""
        cubes = self._cubes(coef)
        first, second = self._pairs
        weights = cubes[:, first, :, second] + cubes[:, second, :, first]
        weights[first == second] /= 2
        # Pairs come first.
        return weights.transpose(1, 2, 0, 3).reshape(self.n_numbers, -1)

    def unpack(self, weights):
        """Return the adjoint of :meth:`pack`."""
        d, n_outputs = self.n_features, weights.shape[1]
        first, second = self._pairs
        place = np.empty((d, d), dtype=np.intp)
        place[first, second] = place[second, first] = np.arange(len(first))
        by_pair = weights.reshape(self.n_gates, d, len(first), n_outputs)
        cubes = by_pair[:, np.arange(d)[:, None], place[:, None, :]]
        return cubes.reshape(self.coef_shape(n_outputs))

    def seen_by(self, batch, gate):
        """Return for each token the sum of those that see it, divided by T."""
        masks = self.masks(batch, gate).astype(np.float64)
        return masks.transpose(0, 2, 1) @ batch / batch.shape[1]

    def token_outputs(self, batch, coef):
        """Return the output at each token, divided by the number of tokens."""
        n_samples, length, d = batch.shape
        squares, outputs = self._squares(batch), 0.0
        for gate in range(self.n_gates):
            masks = self.masks(batch, gate).astype(np.float64)
            seen = (masks @ squares).reshape(-1, d * d)
            # From rows (k, a) and columns (l, output) to rows (k, l).
            blocks = self._cubes(coef)[gate].transpose(0, 2, 1, 3)
            products = (seen @ blocks.reshape(d * d, -1)).reshape(
                -1, d, blocks.shape[3]
            )
            outputs = outputs + np.einsum(
                "ta,taq->tq", batch.reshape(-1, d), products, optimize=True
            )
        return outputs.reshape(n_samples, length, -1) / length

    def token_signs(self, tokens):
        """Return the signs of both vectors of each gate, as `Gates.token_signs`."""
        if self.gate_rank != "rank_one":
            return super().token_signs(tokens)
        return signs_of(tokens, self, np.concatenate([self.left, self.right]))

    def entries(self, length):
        """Return the numbers that the features of one sample of a length need."""
        return super().entries(length) + length * self.n_features**2 + 2 * length**2

    def _turned(self, vectors):
        if self.gate_rank == "full":
            return -vectors
        left, right = vectors
        return np.stack([-left, right])

    @property
    def _pairs(self):
        return np.triu_indices(self.n_features)

    def _cubes(self, coef):
        d = self.n_features
        return coef.reshape(self.n_gates, d, d, d, -1)

    @staticmethod
    def _squares(batch):
        n_samples, length, d = batch.shape
        return (batch[..., :, None] * batch[..., None, :]).reshape(
            n_samples, length, d * d
        )
