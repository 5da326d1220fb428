"""A lower bound that any candidate gives, so that no solver has to be believed.

At any Z, with the intercept at its optimum there and gradients grad_g of the loss,
no solution is below ``(F - sum <grad_g, Z_g>) / max(1, max_g |grad_g|_2 / beta)``: the
duals of the loss at Z, scaled down until they are feasible, and F is not below 0.
"""

from typing import NamedTuple

import numpy as np

from skattn.convex._spectra import nuclear_norms, spectral_norms


class Certificate(NamedTuple):
    """What a candidate proves.

    Attributes
    ----------
    objective : float
        Value of the candidate.

    loss : float
        Its loss, without the penalty.

    lower_bound : float
        No candidate has a smaller objective.

    gradient_norms : ndarray of shape (n_gates,)
        Spectral norms of the gradients of the loss.
    """

    objective: float
    loss: float
    lower_bound: float
    gradient_norms: np.ndarray

    @property
    def duality_gap(self):
        """``(objective - lower_bound) / lower_bound``."""
        return relative_gap(self.objective, self.lower_bound)


def relative_gap(objective, lower_bound):
    """Return the distance of an objective from its bound, relative to the bound.

    Parameters
    ----------
    objective, lower_bound : float

    Returns
    -------
    gap : float
        Not below 0; infinite where the bound is not above 0 and the objective is.

    Examples
    --------
    >>> from skattn.convex import relative_gap
    >>> relative_gap(1.5, 1.0)
    0.5
    """
    if objective <= lower_bound:
        return 0.0
    if lower_bound <= 0:
        return np.inf
    return (objective - lower_bound) / lower_bound


def certify(problem, coef, intercept=None):
    """Evaluate a candidate and what it proves about the optimum.

    Parameters
    ----------
    problem : ConvexProblem

    coef : ndarray of shape problem.coef_shape
        Any matrices.

    intercept : ndarray of shape (n_outputs,), default=None
        Where the search for the best intercept starts: the bound needs it at the
        optimum.

    Returns
    -------
    certificate : Certificate

    intercept : ndarray of shape (n_outputs,)
        The best for `coef`.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import ConvexProblem, certify, make_features, make_gates
    >>> tokens = np.array([[[1.0]], [[2.0]]])
    >>> features = make_features(make_gates("mlp", "gated_relu", tokens, 1), tokens)
    >>> problem = ConvexProblem(features, [0.0, 1.0], "squared", beta=0.125)
    >>> certificate, intercept = certify(problem, np.array([[[0.5]]]))
    >>> certificate.objective, certificate.lower_bound, intercept
    (0.09375, 0.09375, array([-0.25]))
    """
    coef = np.asarray(coef, dtype=np.float64)
    if coef.shape != problem.coef_shape:
        raise ValueError(
            f"coef must have shape {problem.coef_shape}, got {coef.shape}."
        )
    outputs = problem.features.predict(coef)
    start = np.zeros(problem.n_outputs) if intercept is None else intercept
    intercept = problem.loss.best_intercept(outputs, start)
    penalty = problem.beta * float(nuclear_norms(coef).sum())
    return certify_outputs(problem, coef, outputs + intercept, penalty), intercept


def certify_outputs(problem, coef, outputs, penalty):
    """Evaluate a candidate whose outputs and penalty are known.

    Parameters
    ----------
    problem : ConvexProblem

    coef : ndarray of shape problem.coef_shape

    outputs : ndarray of shape (n_samples, n_outputs)
        Of `coef` and the best intercept.

    penalty : float
        beta times the nuclear norms of `coef`.

    Returns
    -------
    certificate : Certificate
    """
    gradient = problem.features.gradient(problem.loss.residuals(outputs))
    return certificate_of(problem, coef, outputs, penalty, gradient)


def certificate_of(problem, coef, outputs, penalty, gradient):
    """Put a certificate together from all that is known about a candidate."""
    loss = problem.loss.value(outputs)
    norms = spectral_norms(gradient)
    scale = max(1.0, float(norms.max()) / problem.beta)
    lower_bound = (loss - float(np.vdot(gradient, coef))) / scale
    return Certificate(loss + penalty, loss, lower_bound, norms)
