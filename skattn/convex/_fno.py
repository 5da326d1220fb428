"""The Fourier neural operator: a perceptron on all cyclic shifts of the tokens."""

import numpy as np
from scipy import fft

from skattn.convex.gates import Gates

#: Scores of a gate below this share of their largest possible value are 0, where the
#: Fourier transform leaves rounding and tokens of zeros must be on the open side.
ROUNDING = 1e-13


class FnoGates(Gates):
    """Gates ``1{circ(X) h >= 0}`` of ``sum of D_g circ(X) w_1 w_2'``.

    Row t of circ(X) holds the tokens t, t - 1, ... of a group's features. Products
    with it are convolutions along the sample, done by Fourier transforms.
    """

    block = "fno"

    @property
    def width(self):
        """Features in a group."""
        return self.n_features // self.n_groups

    @property
    def vectors_shape(self):
        """Shape of h."""
        return (self.n_positions * self.width,)

    @property
    def matrix_shape(self):
        """One row for each shift and feature of a group."""
        return self.n_positions * self.width, 1

    @property
    def first_shape(self):
        """Shape of w_1."""
        return (self.n_positions * self.width,)

    def masks(self, batch, gate):
        """Return which positions the gate is open for, of shape (m, s)."""
        if self.is_linear:
            return np.ones(batch.shape[:2], dtype=bool)
        own = self._own(batch, gate)
        scores = self._convolve(own, self.vectors[gate][:, None])[..., 0]
        largest = np.linalg.norm(own, axis=(1, 2)) * np.linalg.norm(self.vectors[gate])
        return scores >= -ROUNDING * largest[:, None]

    def features(self, batch):
        """Return the features, of shape (m, n_gates * s * d / B)."""
        n_samples, length, _ = batch.shape
        features = np.empty((n_samples, self.n_gates, length, self.width))
        spectrum = fft.rfft(batch, axis=1)
        for gate in range(self.n_gates):
            masks = fft.rfft(self.masks(batch, gate) / length, axis=1)
            products = masks[..., None] * self._own(spectrum, gate).conj()
            features[:, gate] = fft.irfft(products, n=length, axis=1)
        return features.reshape(n_samples, -1)

    def token_outputs(self, batch, coef):
        """Return the output at each position, divided by their number."""
        outputs = 0.0
        for gate in range(self.n_gates):
            masks = self.masks(batch, gate)[..., None] / batch.shape[1]
            mixed = self._convolve(self._own(batch, gate), coef[gate])
            outputs = outputs + masks * mixed
        return outputs

    def _own(self, values, gate):
        first = self.group[gate] * self.width
        return values[..., first : first + self.width]

    def _convolve(self, batch, weights):
        """Multiply circ of each sample by weights of shape (s * d / B, c)."""
        length = batch.shape[1]
        kernel = fft.rfft(weights.reshape(length, self.width, -1), axis=0)
        spectrum = fft.rfft(batch, axis=1)
        products = np.einsum("ifb,fbq->ifq", spectrum, kernel)
        return fft.irfft(products, n=length, axis=1)
