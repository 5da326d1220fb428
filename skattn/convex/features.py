"""The linear map from the matrices of a block to the pooled outputs of samples."""

from functools import cached_property

import numpy as np

from skattn.convex._samples import Samples
from skattn.convex.gates import BATCH
from skattn.convex.memory import KEPT_BYTES


def make_features(gates, tokens):
    """Return the features that a block with its gates makes of tokens.

    Parameters
    ----------
    gates : Gates
        As returned by :func:`make_gates`, perhaps for other samples.

    tokens : ndarray of shape (n, T, d), sequence of ndarray of shape (T_i, d), or \
            object with `values` and `offsets`
        The samples.

    Returns
    -------
    features : ConvexFeatures
        Nothing is computed yet.

    Raises
    ------
    ValueError
        If the tokens do not fit the gates.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import make_features, make_gates
    >>> tokens = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    >>> gates = make_gates("self_attention", "linear", tokens)
    >>> features = make_features(gates, tokens)
    >>> features.coef_shape(n_outputs=1)
    (1, 4, 2)
    >>> features.predict(np.ones((1, 4, 2)))
    array([[290.]])
    """
    samples = Samples.read(tokens)
    gates.check_samples(samples)
    if gates.block == "self_attention" and gates.is_linear:
        return LinearAttentionFeatures(gates, samples)
    return ConvexFeatures(gates, samples)


class ConvexFeatures:
    """Features of samples: a linear map and its adjoint.

    Features are kept while they fit into 2 GB, and computed in chunks whenever they
    are needed otherwise.

    Parameters
    ----------
    gates : Gates

    samples : Samples

    Attributes
    ----------
    n_samples, n_gates : int
    """

    def __init__(self, gates, samples):
        self.gates = gates
        self.samples = samples

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
        return 8 * self.n_samples * int(np.prod(self.coef_shape(1)))

    def coef_shape(self, n_outputs):
        """Return the shape of all matrices: (n_gates, p, q * n_outputs)."""
        return self.gates.coef_shape(n_outputs)

    def take(self, index):
        """Return the features of the samples at the positions `index`."""
        return type(self)(self.gates, self.samples.take(index))

    def predict(self, coef):
        """Return the pooled outputs.

        Parameters
        ----------
        coef : ndarray of shape (n_gates, p, q * c)

        Returns
        -------
        outputs : ndarray of shape (n_samples, c)
        """
        weights = coef.reshape(int(np.prod(self.coef_shape(1))), -1)
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
        gradient = sum(
            features.T @ residuals[index] for index, features in self._chunks()
        )
        return gradient.reshape(self.coef_shape(residuals.shape[1]))

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
        """Return the features of all samples, of shape (n_samples, n_gates * p * q)."""
        return self._kept if self._are_kept else self._compute()

    @property
    def _are_kept(self):
        return self.nbytes <= KEPT_BYTES

    @cached_property
    def _kept(self):
        return self._compute()

    def _compute(self):
        features = np.empty((self.n_samples, int(np.prod(self.coef_shape(1)))))
        for index, batch in self._batches():
            features[index] = self.gates.features(batch).reshape(index.size, -1)
        return features

    def _chunks(self):
        if self._are_kept:
            yield slice(None), self._kept
            return
        for index, batch in self._batches():
            yield index, self.gates.features(batch).reshape(index.size, -1)

    def _batches(self, n_outputs=1):
        return self.samples.batches(
            lambda length: n_outputs * self.gates.entries(length), BATCH
        )


class LinearAttentionFeatures(ConvexFeatures):
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
            outputs[rows] = (squares[rows, None] @ inner)[:, 0]
        return outputs

    def gradient(self, residuals):
        """Return the adjoint of :meth:`predict`."""
        means, squares = self._factors
        d, n_outputs = self.gates.n_features, residuals.shape[1]
        gradient = 0.0
        for rows in self._slices(d * d * n_outputs):
            products = squares[rows, :, None] * residuals[rows, None]
            gradient = gradient + means[rows].T @ products.reshape(len(products), -1)
        by_square = gradient.reshape(d, d, d * n_outputs).transpose(1, 0, 2)
        return np.ascontiguousarray(by_square).reshape(self.coef_shape(n_outputs))

    def _compute(self):
        means, squares = self._factors
        d = self.gates.n_features
        cubes = squares.reshape(-1, d, 1, d) * means[:, None, :, None]
        return cubes.reshape(self.n_samples, -1)

    @property
    def _are_kept(self):
        return False

    def _slices(self, entries):
        step = max(BATCH // entries, 1)
        for first in range(0, self.n_samples, step):
            yield slice(first, first + step)

    @cached_property
    def _factors(self):
        d = self.gates.n_features
        means = np.empty((self.n_samples, d))
        squares = np.empty((self.n_samples, d * d))
        for index, batch in self.samples.batches(lambda length: length * d, BATCH):
            means[index] = batch.mean(axis=1)
            squares[index] = (batch.transpose(0, 2, 1) @ batch).reshape(-1, d * d)
        return means, squares
