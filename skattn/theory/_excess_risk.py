"""The excess risk of attention under a fixed head, with all its digits."""

import numpy as np

from skattn.theory._losses import LOSSES


def _basis(rows):
    _, singular, directions = np.linalg.svd(rows, full_matrices=False)
    rounding = max(rows.shape) * np.finfo(np.float64).eps
    return directions[singular > rounding * singular[0]].T


class ExcessRisk:
    """How far the risk is above that of attending to the best tokens alone.

    With gamma the scores ``y head'x`` of tokens under the head and s the softmax of
    ``X W z``, the risk is the mean of ``loss(s'gamma)``, never below its value at
    ``max gamma``. The difference falls exponentially with the size of W, and its
    logarithm is computed here from logarithms, so that no digit is lost however close
    the softmax is to one token.

    Parameters
    ----------
    differences : ndarray of shape (n_tokens, d)
        Each token minus the best token of its sample.

    queries : ndarray of shape (n, d_q)
        The query of each sample.

    offsets : int array of shape (n + 1,)
        Where samples start.

    gammas : ndarray of shape (n_tokens,)
        Score of each token under the head, times its label.

    loss : {"logistic", "exponential", "correlation"}
        A key of `LOSSES`.
    """

    def __init__(self, differences, queries, offsets, gammas, loss):
        self._loss = LOSSES[loss]
        self.n_samples = len(offsets) - 1
        best = np.maximum.reduceat(gammas, offsets[:-1])
        #: Risk of attending to the best tokens alone.
        self.least = float(np.mean(self._loss.value(best)))
        lengths = np.diff(offsets)
        behind = np.repeat(best, lengths) - gammas
        # Where all tokens are equally good there is nothing to lose.
        counts = np.maximum.reduceat(behind, offsets[:-1]) > 0
        rows = np.repeat(counts, lengths)
        self._best = best[counts]
        self._lengths = lengths[counts]
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])
        self._differences = differences[rows]
        self._queries = np.repeat(queries[counts], self._lengths, axis=0)
        with np.errstate(divide="ignore"):
            self._log_behind = np.log(behind[rows])

    @property
    def is_constant(self):
        """Whether no weights are better than others."""
        return not self._queries.any()

    @property
    def shape(self):
        """Shape (d, d_q) of the weights."""
        return self._differences.shape[1], self._queries.shape[1]

    def spans(self):
        """Return orthonormal bases of the token differences and of the queries.

        Outside of these spans weights change nothing. Shapes (d, r) and (d_q, r_q).
        """
        return _basis(self._differences), _basis(self._queries)

    def in_coordinates(self, left, right):
        """Return the same risk as a function of M, with ``W = left M right'``."""
        other = object.__new__(ExcessRisk)
        vars(other).update(vars(self))
        other._differences = self._differences @ left
        other._queries = self._queries @ right
        return other

    def log_value(self, coef):
        """Return the logarithm of the excess risk, and its gradient.

        Parameters
        ----------
        coef : ndarray of shape (d, d_q)
            The weights W.

        Returns
        -------
        log_value : float

        gradient : ndarray of shape (d, d_q)
        """
        scores = np.sum((self._differences @ coef) * self._queries, axis=1)
        weights, log_total = self._softmax(scores)
        tilted, log_tilted = self._softmax(scores + self._log_behind)
        log_size = log_tilted - log_total
        log_excess, slope = self._loss.log_excess(
            self._best, np.exp(log_size), log_size
        )
        largest = log_excess.max()
        shares = np.exp(log_excess - largest)
        total = shares.sum()
        pull = np.repeat(shares * slope / total, self._lengths) * (tilted - weights)
        gradient = self._differences.T @ (pull[:, None] * self._queries)
        return float(largest + np.log(total / self.n_samples)), gradient

    def _softmax(self, scores):
        largest = np.maximum.reduceat(scores, self._starts)
        exponentials = np.exp(scores - np.repeat(largest, self._lengths))
        totals = np.add.reduceat(exponentials, self._starts)
        return (
            exponentials / np.repeat(totals, self._lengths),
            largest + np.log(totals),
        )
