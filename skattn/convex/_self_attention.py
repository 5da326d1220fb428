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

    def features(self, batch):
        """Return the features, of shape (m, n_gates, d * d, d)."""
        n_samples, _, d = batch.shape
        squares = self._squares(batch)
        features = np.empty((n_samples, self.n_gates, d, d, d))
        for gate in range(self.n_gates):
            seen_by = self.seen_by(batch, gate)
            cubes = seen_by.transpose(0, 2, 1) @ squares
            features[:, gate] = cubes.reshape(n_samples, d, d, d).transpose(0, 2, 1, 3)
        return features.reshape(n_samples, self.n_gates, d * d, d)

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
            blocks = coef[gate].reshape(d, d, d, -1).transpose(0, 2, 1, 3)
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

    @staticmethod
    def _squares(batch):
        n_samples, length, d = batch.shape
        return (batch[..., :, None] * batch[..., None, :]).reshape(
            n_samples, length, d * d
        )
