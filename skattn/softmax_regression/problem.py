"""The loss of softmax regression, its gradient and its Hessian in closed form."""

import copy

import numpy as np

from skattn.mappings import check_offsets


class SoftmaxProblem:
    """Fit the softmax of linear scores to target weights.

    With A the tokens of a sequence, b their targets and f = softmax(A x), minimise::

        L(x) = 1/2 |f - b|^2 + 1/2 |diag(w) A x|^2

    which is the softmax regression of arXiv 2304.10411 with its regularisation w; here
    ``alpha`` is w squared. The losses of several sequences are added.

    Parameters
    ----------
    values : ndarray of shape (n_tokens, d)
        The tokens A of all sequences, laid end to end.

    targets : ndarray of shape (n_tokens,)
        Target b of each token.

    offsets : int array of shape (n_sequences + 1,), default=None
        Sequence i owns the rows from ``offsets[i]`` to ``offsets[i + 1]``, at least
        one. None: there is one sequence.

    alpha : float or ndarray of shape (n_tokens,), default=0.0
        Penalty of each squared score.

    multiplicity : ndarray of shape (n_tokens,), default=None
        How many times each token counts, above 0: 2 is the same as giving it twice.
        None: once.

    weights : ndarray of shape (n_sequences,), default=None
        Weight of the loss of each sequence, above 0. None: 1.

    Raises
    ------
    ValueError
        If shapes do not agree, or a number is not finite or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.softmax_regression import SoftmaxProblem
    >>> problem = SoftmaxProblem(np.eye(2), np.array([0.75, 0.25]))
    >>> x = np.array([np.log(3.0), 0.0])
    >>> problem.predict(x)
    array([0.75, 0.25])
    >>> float(np.abs(problem.gradient(x)).max()) < 1e-15
    True
    """

    def __init__(
        self,
        values,
        targets,
        offsets=None,
        alpha=0.0,
        multiplicity=None,
        weights=None,
    ):
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or not values.size:
            raise ValueError(
                "values must have shape (n_tokens, d) and hold at least one token with "
                f"at least one feature; got shape {values.shape}."
            )
        n_tokens = len(values)
        offsets = check_offsets([0, n_tokens] if offsets is None else offsets, n_tokens)
        self.values = values
        self.targets = _vector("targets", targets, n_tokens)
        self.starts = offsets[:-1]
        self.lengths = np.diff(offsets)
        self.alpha = _vector("alpha", alpha, n_tokens)
        if self.alpha.min() < 0:
            raise ValueError(f"alpha must be at least 0, got {self.alpha.min():g}.")
        self.multiplicity = _counts("multiplicity", multiplicity, n_tokens)
        self.weights = _counts("weights", weights, len(self.starts))
        #: What the squared residual of each token counts in the loss.
        self.token_weights = self.multiplicity * self._repeat(self.weights)

    def with_values(self, values):
        """Return the same problem with other features for each token."""
        other = copy.copy(self)
        other.values = values
        return other

    def predict(self, coef):
        """Softmax weights f of the tokens, of shape (n_tokens,)."""
        return self._softmax(self.values @ coef)[0]

    def log_normalizers(self, coef):
        """Logarithm of the sum of exp(scores) of each sequence."""
        return self._softmax(self.values @ coef)[1]

    def loss(self, coef):
        """Value of L, summed over sequences."""
        scores = self.values @ coef
        return self._loss(scores, self._softmax(scores)[0])

    def gradient(self, coef):
        """Gradient of L: ``A' (J c + alpha A x)``, c = f - b, J = diag(f) - f f'."""
        scores = self.values @ coef
        return self._gradient(scores, self._softmax(scores)[0])

    def loss_and_gradient(self, coef):
        """Both, from one evaluation of the scores."""
        scores = self.values @ coef
        weights = self._softmax(scores)[0]
        return self._loss(scores, weights), self._gradient(scores, weights)

    def hessian(self, coef):
        """Hessian of L, of shape (d, d).

        The Hessian with respect to the scores is ``B + diag(alpha)`` with
        ``B = diag(c - <f, c>) J + diag(f) J - f (J (c + f))'``, which is a diagonal
        plus terms of rank one: no matrix of the size of a sequence is formed.
        """
        f = self.predict(coef)
        inner = f * (self._centred_residual(f) + f)
        g = self._sum(f[:, None] * self.values)
        h = self._sum(inner[:, None] * self.values)
        size = self._sum(f * f)
        diagonal = self.token_weights * (inner + self.alpha)
        hessian = (diagonal[:, None] * self.values).T @ self.values
        # The terms of rank one are -h g' - g h' + |f|^2 g g' = -(k g' + g k').
        k = self.weights[:, None] * (h - 0.5 * size[:, None] * g)
        low_rank = k.T @ g
        return hessian - low_rank - low_rank.T

    def gradient_scale(self):
        """Norm of the gradient with respect to the scores, at zero weights.

        It depends on targets, not on features. Where it is 0, because all tokens of
        each sequence have one target, it is the size of the softmax instead.
        """
        f = self._softmax(np.zeros(len(self.values)))[0]
        by_score = f * self._centred_residual(f)
        rounding = 1e-13 * f * np.maximum(f, np.abs(self.targets))
        by_score[np.abs(by_score) <= rounding] = 0.0
        if not by_score.any():
            by_score = f
        return float(np.sqrt(self.token_weights @ by_score**2))

    def _loss(self, scores, f):
        terms = (f - self.targets) ** 2 + self.alpha * scores**2
        return 0.5 * float(self.token_weights @ terms)

    def _gradient(self, scores, f):
        by_score = f * self._centred_residual(f) + self.alpha * scores
        return self.values.T @ (self.token_weights * by_score)

    def _centred_residual(self, f):
        """``c - <f, c>``, so that J c is f times it."""
        residual = f - self.targets
        inner = self._sum(f * residual)
        return residual - self._repeat(inner)

    def _softmax(self, scores):
        largest = np.maximum.reduceat(scores, self.starts)
        exponentials = np.exp(scores - self._repeat(largest))
        totals = self._sum(exponentials)
        return exponentials / self._repeat(totals), largest + np.log(totals)

    def _sum(self, per_token):
        """Sum over each sequence, a token as often as it counts."""
        counted = (self.multiplicity * per_token.T).T
        return np.add.reduceat(counted, self.starts, axis=0)

    def _repeat(self, per_sequence):
        return np.repeat(per_sequence, self.lengths)


def _vector(name, given, size):
    """Return one number an entry, given one for all or one each."""
    given = np.asarray(given, dtype=np.float64)
    if given.shape not in ((), (size,)):
        raise ValueError(f"{name} must have shape ({size},); got shape {given.shape}.")
    if not np.isfinite(given).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return np.broadcast_to(given, size)


def _counts(name, given, size):
    counts = _vector(name, 1.0 if given is None else given, size)
    if counts.min() <= 0:
        raise ValueError(
            f"{name} must be above 0, got {counts.min():g}; leave out what does not "
            "count."
        )
    return counts
