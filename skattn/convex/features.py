"""The linear map from the matrices of a block to the pooled outputs of samples."""

from functools import cached_property

import numpy as np

from skattn.convex.gates import BATCH
from skattn.convex.memory import KEPT_BYTES


class ConvexFeatures:
    """Features of samples: a linear map and its adjoint.

    Features are kept while they fit into 2 GB, and computed in chunks whenever they
    are needed otherwise.

    Parameters
    ----------
    gates : Gates

    samples : Samples

    keep : bool, default=True
        Whether to keep them at all.

    Attributes
    ----------
    n_samples, n_gates : int
    """

    def __init__(self, gates, samples, keep=True):
        self.gates = gates
        self.samples = samples
        self.keep = keep

    @property
    def n_samples(self):
        """Number of samples."""
        return len(self.samples)

    @property
    def n_gates(self):
        """Number of gates."""
        return self.gates.n_gates

    @property
    def nbytes(self):
        """Bytes of all features if they are kept."""
        return 8 * self.n_samples * self.gates.n_numbers

    def coef_shape(self, n_outputs):
        """Return the shape of all matrices: (n_gates, p, q * n_outputs)."""
        return self.gates.coef_shape(n_outputs)

    def take(self, index):
        """Return the features of the samples at the positions `index`."""
        return type(self)(self.gates, self.samples.take(index), self.keep)

    def predict(self, coef):
        """Return the pooled outputs.

        Parameters
        ----------
        coef : ndarray of shape (n_gates, p, q * c)

        Returns
        -------
        outputs : ndarray of shape (n_samples, c)
        """
        weights = self.gates.pack(coef)
        outputs = np.empty((self.n_samples, weights.shape[1]))
        for index, features in self._chunks():
            outputs[index] = features @ weights
        return outputs

    def gradient(self, residuals):
        """Return the adjoint of :meth:`predict`.

        Parameters
        ----------
        residuals : ndarray of shape (n_samples, c)

        Returns
        -------
        gradient : ndarray of shape (n_gates, p, q * c)
        """
        return self.gates.unpack(
            sum(features.T @ residuals[index] for index, features in self._chunks())
        )

    def predict_factors(self, factors):
        """Return the pooled outputs of matrices given as products.

        Parameters
        ----------
        factors : list of (left, right)
            For each gate arrays of shape (p, r) and (q * c, r): Z is left right'.

        Returns
        -------
        outputs : ndarray of shape (n_samples, c)
        """
        return self.predict(np.stack([left @ right.T for left, right in factors]))

    def gradient_factors(self, residuals, factors):
        """Return the gradients in the factors.

        Parameters
        ----------
        residuals : ndarray of shape (n_samples, c)

        factors : list of (left, right)

        Returns
        -------
        gradients : list of (left, right)
            Of the shapes of the factors.
        """
        return [
            (matrix @ right, matrix.T @ left)
            for matrix, (left, right) in zip(
                self.gradient(residuals), factors, strict=True
            )
        ]

    def token_outputs(self, coef):
        """Return what each token adds to the pooled output of its sample.

        Parameters
        ----------
        coef : ndarray of shape (n_gates, p, q * c)

        Returns
        -------
        outputs : ndarray of shape (n_tokens, c)
            The output of the block at each token, divided by the tokens of its
            sample: sums to :meth:`predict` over a sample.
        """
        n_outputs = coef.size // int(np.prod(self.coef_shape(1)))
        outputs = np.empty((self.samples.offsets[-1], n_outputs))
        for index, batch in self._batches(n_outputs):
            rows = self.samples.offsets[index][:, None] + np.arange(batch.shape[1])
            outputs[rows] = self.gates.token_outputs(batch, coef)
        return outputs

    def matrix(self):
        """Return the map to one output, of shape (n_samples, n_gates * p * q)."""
        features = self._kept if self._are_kept else self._compute()
        # An output a sample: its columns are the slow ones, its own the fast.
        matrices = self.gates.unpack(features.T)
        return matrices.reshape(-1, self.n_samples).T

    @property
    def _are_kept(self):
        return self.keep and self.nbytes <= KEPT_BYTES

    @cached_property
    def _kept(self):
        return self._compute()

    def _compute(self):
        features = np.empty((self.n_samples, self.gates.n_numbers))
        for index, batch in self._batches():
            features[index] = self.gates.features(batch)
        return features

    def _chunks(self):
        if self._are_kept:
            yield slice(None), self._kept
            return
        for index, batch in self._batches():
            yield index, self.gates.features(batch)

    def _batches(self, n_outputs=1):
        return self.samples.batches(
            lambda length: n_outputs * self.gates.entries(length), BATCH
        )
