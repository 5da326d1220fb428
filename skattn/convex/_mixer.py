"""The mixer: positions are mixed feature by feature."""

import numpy as np

from skattn.convex.gates import Gates


class MixerGates(Gates):
    """Gates ``1{H X >= 0}`` of ``sum of (M_g * (W_1 X)) W_2``."""

    block = "mixer"

    @property
    def vectors_shape(self):
        """Shape of H."""
        return self.n_positions, self.n_positions

    @property
    def matrix_shape(self):
        """One row for each pair of positions, one column for each feature."""
        return self.n_positions**2, self.n_features

    @property
    def first_shape(self):
        """Shape of W_1."""
        return self.n_positions, self.n_positions

    def masks(self, batch, gate):
        """Return the entries of the mixed tokens that count, of shape (m, s, d)."""
        if self.is_linear:
            return np.ones(batch.shape, dtype=bool)
        return self.vectors[gate] @ batch >= 0

    def features(self, batch):
        """Return the features, of shape (m, n_gates * s * s * d)."""
        n_samples, length, d = batch.shape
        features = np.empty((n_samples, self.n_gates, length, length, d))
        for gate in range(self.n_gates):
            # Rows are (position read, position written).
            np.multiply(
                batch[:, :, None],
                self.masks(batch, gate)[:, None] / length,
                out=features[:, gate],
            )
        return features.reshape(n_samples, -1)

    def token_outputs(self, batch, coef):
        """Return the output at each position, divided by their number."""
        _, length, d = batch.shape
        outputs = 0.0
        for gate in range(self.n_gates):
            weights = coef[gate].reshape(length, length, d, -1)
            mixed = np.einsum("irb,rtbq->itbq", batch, weights, optimize=True)
            masks = self.masks(batch, gate) / length
            outputs = outputs + np.einsum("itb,itbq->itq", masks, mixed)
        return outputs
