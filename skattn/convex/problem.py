"""The convex problem: a loss of pooled outputs and a sum of nuclear norms."""

import copy
from functools import cached_property
from numbers import Real

import numpy as np

from skattn.convex._spectra import nuclear_norms, spectral_norms
from skattn.convex.features import ConvexFeatures
from skattn.convex.gates import read_weight
from skattn.convex.losses import LOSSES, read_targets

#: Largest number in tokens and targets: features have its third power, and their Gram
#: matrices the square of that.
LARGEST = 1e40


class ConvexProblem:
    """Minimise ``F(sum over gates of features * Z_g + intercept) + beta sum |Z_g|_*``.

    F is the loss averaged with the weights of the samples, and the intercept has no
    penalty. The optimum is that of the block itself with enough heads and weight decay,
    the loss plus ``beta / 2`` times the squares of all weights, which is not convex.

    Samples of weight 0 are left out. Samples with the same tokens and target are
    merged, and their order does not matter: a sample given twice, or with weight 2, and
    permuted samples are one problem to a solver, number for number.

    Parameters
    ----------
    features : ConvexFeatures

    targets : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        0 or 1 for "logistic", integers from 0 for "multinomial", numbers for
        "squared", there with one column an output.

    loss : {"logistic", "multinomial", "squared"}
        ``log(1 + exp(-f))`` of one output, the cross-entropy of one output a class, or
        half the squared distance.

    beta : float
        Strength of the penalty, above 0.

    sample_weight : ndarray of shape (n_samples,), default=None
        Not below 0.

    n_outputs : int, default=None
        Number of classes for "multinomial", where the last have no sample.

    Attributes
    ----------
    features : ConvexFeatures
        Of the merged samples.

    loss : Loss
        With targets and weights of the merged samples.

    beta : float

    n_outputs : int

    coef_shape : tuple of int
        (n_gates, p, q * n_outputs).

    beta_max : float
        From here on all matrices of the solution are 0.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or numbers are so large that products of
        them overflow.

    References
    ----------
    Sahiner et al., ICML 2022 (arXiv 2205.08078).

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import ConvexProblem, make_features, make_gates
    >>> tokens = np.array([[[1.0, 0.0]], [[0.0, 2.0]], [[1.0, 1.0]]])
    >>> gates = make_gates("self_attention", "linear", tokens)
    >>> features = make_features(gates, tokens)
    >>> problem = ConvexProblem(features, [0.0, 3.0, 0.0], "squared", beta=0.1)
    >>> problem.beta_max
    5.039...
    """

    def __init__(
        self, features, targets, loss, beta, sample_weight=None, *, n_outputs=None
    ):
        if not isinstance(features, ConvexFeatures):
            raise TypeError(
                f"features must be ConvexFeatures, got {type(features).__name__}."
            )
        targets = read_targets(targets, loss, features.n_samples, n_outputs)
        weight = read_weight(sample_weight, features.n_samples)
        self.beta = _read_beta(beta)
        _refuse_overflow(features.samples.values, "Tokens")
        _refuse_overflow(targets, "Targets")

        kept = np.flatnonzero(weight > 0)
        index, group = _distinct(features.samples.take(kept), targets[kept])
        merged = np.bincount(group, weights=weight[kept])
        # Large or tiny weights must neither overflow nor vanish in their sum.
        merged /= merged.max()
        index = kept[index]
        self.features = features.take(index)
        self.loss = LOSSES[loss](targets[index], merged / merged.sum())

    @property
    def n_outputs(self):
        """Number of outputs."""
        return self.loss.n_outputs

    @property
    def coef_shape(self):
        """Shape of all matrices: (n_gates, p, q * n_outputs)."""
        return self.features.coef_shape(self.n_outputs)

    @cached_property
    def intercept_only(self):
        """The best intercept when all matrices are 0, of shape (n_outputs,)."""
        outputs = np.zeros((self.features.n_samples, self.n_outputs))
        return self.loss.best_intercept(outputs, np.zeros(self.n_outputs))

    @cached_property
    def beta_max(self):
        """Smallest beta at which all matrices of the solution are 0."""
        outputs = np.tile(self.intercept_only, (self.features.n_samples, 1))
        gradient = self.features.gradient(self.loss.residuals(outputs))
        return float(spectral_norms(gradient).max())

    def with_beta(self, beta):
        """Return the same problem with another strength of the penalty.

        Parameters
        ----------
        beta : float

        Returns
        -------
        problem : ConvexProblem
            Shares features and loss.
        """
        other = copy.copy(self)
        other.beta = _read_beta(beta)
        return other

    def objective(self, coef, intercept):
        """Return the value of matrices and an intercept.

        Parameters
        ----------
        coef : ndarray of shape coef_shape

        intercept : ndarray of shape (n_outputs,)

        Returns
        -------
        objective : float
        """
        loss = self.loss.value(self.features.predict(coef) + intercept)
        return loss + self.beta * float(nuclear_norms(coef).sum())


def beta_max(problem):
    """Return the smallest beta at which all matrices of the solution are 0.

    Parameters
    ----------
    problem : ConvexProblem
        At any beta.

    Returns
    -------
    beta_max : float
        Largest spectral norm of the gradients at the best intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import ConvexProblem, beta_max, make_features, make_gates
    >>> tokens = np.array([[[1.0]], [[2.0]]])
    >>> features = make_features(make_gates("mlp", "gated_relu", tokens, 1), tokens)
    >>> beta_max(ConvexProblem(features, [0.0, 1.0], "squared", beta=1.0))
    0.25
    """
    return problem.beta_max


def _read_beta(beta):
    if not (isinstance(beta, Real) and 0 < beta < np.inf):
        raise ValueError(f"beta must be a number above 0, got {beta!r}.")
    return float(beta)


def _refuse_overflow(values, name):
    largest = float(np.abs(values).max(initial=0.0))
    if largest > LARGEST:
        raise ValueError(
            f"{name} have values up to {largest:.1e}, whose products would overflow. "
            "Scale them first."
        )


def _distinct(samples, targets):
    """Return one sample of each kind, ordered by kind, and the kind of all."""
    digests = np.array(samples.digests(targets), dtype="V16")
    # NumPy sorts no raw bytes, but two integers as good as them.
    keys = np.ascontiguousarray(digests).view("u8").reshape(-1, 2)
    _, index, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return index, group.ravel()
