"""The multi-layer perceptron, token by token."""

import numpy as np

from skattn.convex.gates import Gates, read_samples


class MlpGates(Gates):
    """Gates ``1{X h >= 0}`` of ``sum of D_g X w_1 w_2'``."""

    block = "mlp"

    @property
    def vectors_shape(self):
        """Shape of h."""
        return (self.n_features,)

    @property
    def matrix_shape(self):
        """One row a feature."""
        return self.n_features, 1

    @property
    def first_shape(self):
        """Shape of w_1."""
        return (self.n_features,)

    def masks(self, batch, gate):
        """Return which tokens the gate is open for, of shape (m, T)."""
        if self.is_linear:
            return np.ones(batch.shape[:2], dtype=bool)
        return batch @ self.vectors[gate] >= 0

    def features(self, batch):
        """Return the mean of each gate's tokens, of shape (m, n_gates * d)."""
        opened = self._opened(batch) / batch.shape[1]
        return (opened @ batch).reshape(len(batch), -1)

    def token_outputs(self, batch, coef):
        """Return the output at each token, divided by the number of tokens."""
        opened = self._opened(batch) / batch.shape[1]
        return sum(
            opened[:, gate, :, None] * (batch @ coef[gate])
            for gate in range(self.n_gates)
        )

    def token_signs(self, tokens):
        """Return which gates are open for each token, as `Gates.token_signs`."""
        if self.is_linear:
            return super().token_signs(tokens)
        return signs_of(tokens, self, self.vectors)

    def _opened(self, batch):
        return np.stack(
            [self.masks(batch, gate) for gate in range(self.n_gates)], axis=1
        ).astype(np.float64)


def signs_of(tokens, gates, vectors):
    """Return on which side of each vector the tokens lie."""
    samples = read_samples(tokens)
    gates.check_samples(samples)
    return samples.values @ vectors.T >= 0
