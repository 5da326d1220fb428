"""Linear classifiers on pooled features, solved tightly by scikit-learn."""

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

# Weighting a sample by two and repeating it must lead to the same head, to the seven
# digits that scikit-learn checks.
_HEAD_TOL = 1e-10

# Newton's method inverts a matrix of this many rows at the most; beyond, L-BFGS.
_LARGEST_NEWTON = 2_000


def fit_svm_head(features, y, weights, *, C, random_state):
    """Fit a linear SVM with squared hinge loss, one class against the rest.

    Returns
    -------
    coef : ndarray of shape (n_outputs, n_features)
        One row for two classes, else one a class.

    intercept : ndarray of shape (n_outputs,)
        Offsets.
    """
    head = LinearSVC(
        C=C, dual=False, tol=_HEAD_TOL, max_iter=10_000, random_state=random_state
    )
    head.fit(features, y, sample_weight=weights)
    return head.coef_, head.intercept_


def fit_logistic_head(features, y, weights, *, C, random_state):
    """Fit a (multinomial) logistic regression; returns as :func:`fit_svm_head`."""
    n_classes = len(np.unique(y))
    n_unknowns = (features.shape[1] + 1) * (n_classes if n_classes > 2 else 1)
    head = LogisticRegression(
        C=C,
        solver="newton-cholesky" if n_unknowns <= _LARGEST_NEWTON else "lbfgs",
        tol=_HEAD_TOL,
        max_iter=10_000,
        random_state=random_state,
    )
    head.fit(features, y, sample_weight=weights)
    return head.coef_, head.intercept_


def svm_loss(scores, y, weights):
    """Mean squared hinge loss of (n_samples, n_outputs) scores."""
    signs = _targets(scores, y)
    losses = np.maximum(0.0, 1.0 - signs * scores) ** 2
    return float(np.average(losses.sum(axis=1), weights=weights))


def logistic_loss(scores, y, weights):
    """Mean cross-entropy of (n_samples, n_outputs) scores."""
    if scores.shape[1] == 1:
        losses = np.logaddexp(0.0, -_targets(scores, y)[:, 0] * scores[:, 0])
    else:
        losses = -log_softmax(scores, axis=1)[np.arange(len(y)), y]
    return float(np.average(losses, weights=weights))


def probabilities(scores):
    """Return class probabilities from the output of a `decision_function`.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Log odds of the second class, or one logit a class.

    Returns
    -------
    probabilities : ndarray of shape (n_samples, n_classes)
        Rows add up to 1.
    """
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    return softmax(scores, axis=1)


def _targets(scores, y):
    if scores.shape[1] == 1:
        return np.where(y == 1, 1.0, -1.0)[:, None]
    return np.where(y[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)


#: By the name of the parameter `head`: how to fit it, and the loss it minimises.
HEADS = {
    "svm": (fit_svm_head, svm_loss),
    "logistic": (fit_logistic_head, logistic_loss),
}
