"""Balls of a norm as images of smooth maps, so that no constraint is left."""

import numpy as np


class EntrywiseBall:
    """The ball of the l_p norm of the entries, p > 1.

    It is the image of all parameters (V, s), s a number, under
    ``W = radius * V / (|V|_p^p + |s|^p)^(1/p)``; s = 0 is the sphere.
    """

    def __init__(self, shape, p):
        self._shape = shape
        self._p = p

    def parameters(self, coef, radius):
        """Return parameters whose image is `coef`, a point of the ball."""
        inner = (coef / radius).ravel()
        slack = max(1.0 - np.sum(np.abs(inner) ** self._p), 0.0) ** (1 / self._p)
        return np.append(inner, slack)

    def coef(self, parameters, radius):
        """Return the image W."""
        inner = parameters[:-1].reshape(self._shape)
        return radius / self._size(parameters) * inner

    def pull_back(self, parameters, radius, gradient):
        """Return the gradient by the parameters, given that by W."""
        size = self._size(parameters)
        padded = np.append(gradient.ravel(), 0.0)
        direction = parameters / size
        curve = np.sign(direction) * np.abs(direction) ** (self._p - 1)
        return radius / size * (padded - (padded @ direction) * curve)

    def lowest(self, gradient, radius):
        """Return the point of the ball where a linear function is lowest."""
        share = gradient / np.abs(gradient).max()
        power = np.sign(share) * np.abs(share) ** (1 / (self._p - 1))
        return -radius * power / np.sum(np.abs(power) ** self._p) ** (1 / self._p)

    def _size(self, parameters):
        return np.sum(np.abs(parameters) ** self._p) ** (1 / self._p)


class NuclearBall:
    """The ball of the nuclear norm.

    It is the image of all (K, Q, s) under
    ``W = radius * 2 K Q' / (|K|^2 + |Q|^2 + 2 s^2)``, with K and Q of full width.
    """

    def __init__(self, shape):
        self._shape = shape
        self._rank = min(shape)

    def parameters(self, coef, radius):
        """Return parameters whose image is `coef`, a point of the ball."""
        left, singular, right = np.linalg.svd(coef / radius, full_matrices=False)
        root = np.sqrt(singular)
        slack = np.sqrt(max(1.0 - singular.sum(), 0.0))
        return np.concatenate(
            [(left * root).ravel(), (right.T * root).ravel(), [slack]]
        )

    def coef(self, parameters, radius):
        """Return the image W."""
        keys, queries, _ = self._parts(parameters)
        return 2 * radius / self._size(parameters) * (keys @ queries.T)

    def pull_back(self, parameters, radius, gradient):
        """Return the gradient by the parameters, given that by W."""
        keys, queries, slack = self._parts(parameters)
        size = self._size(parameters)
        radial = 2 / size * np.sum(gradient * (keys @ queries.T))
        return (2 * radius / size) * np.concatenate(
            [
                (gradient @ queries - radial * keys).ravel(),
                (gradient.T @ keys - radial * queries).ravel(),
                [-2 * radial * slack],
            ]
        )

    def lowest(self, gradient, radius):
        """Return the point of the ball where a linear function is lowest."""
        left, _, right = np.linalg.svd(gradient, full_matrices=False)
        return -radius * np.outer(left[:, 0], right[0])

    def _parts(self, parameters):
        n_rows, n_columns = self._shape
        keys, queries = np.split(parameters[:-1], [n_rows * self._rank])
        return (
            keys.reshape(n_rows, self._rank),
            queries.reshape(n_columns, self._rank),
            parameters[-1],
        )

    def _size(self, parameters):
        return np.sum(parameters[:-1] ** 2) + 2 * parameters[-1] ** 2
