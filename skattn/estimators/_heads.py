"""Linear classifiers on pooled features, solved tightly by scikit-learn."""

import warnings

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, solve
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

# Weighting a sample by two and repeating it must lead to the same head, to the seven
# digits that scikit-learn checks.
_HEAD_TOL = 1e-10

# Newton's method inverts a matrix of this many rows at the most; beyond, L-BFGS.
_LARGEST_NEWTON = 2_000
_MOST_NEWTON_STEPS = 10

# Beyond, the line search of liblinear runs without end.
_LARGEST_FEATURE = 1e12


def fit_svm_head(features, y, weights, *, C, random_state):
    """Fit a linear SVM with squared hinge loss, one class against the rest.

    Returns
    -------
    coef : ndarray of shape (n_outputs, n_features)
        One row for two classes, else one a class.

    intercept : ndarray of shape (n_outputs,)
        Offsets.
    """
    _refuse_huge(features)
    # The primal solver draws nothing, but LinearSVC asks for a seed: with None it
    # would take one from the global generator of numpy.
    head = LinearSVC(
        C=C,
        dual=False,
        tol=_HEAD_TOL,
        max_iter=10_000,
        random_state=0 if random_state is None else random_state,
    )
    head.fit(features, y, sample_weight=weights)
    coef, intercept = head.coef_, head.intercept_
    if features.shape[1] <= _LARGEST_NEWTON:
        signs = _signs(y, len(coef))
        for output in range(len(coef)):
            coef[output], intercept[output] = _newton_steps(
                coef[output], intercept[output], features, signs[:, output], C * weights
            )
    return coef, intercept


def _newton_steps(coef, intercept, features, signs, penalties):
    """Take a nearly optimal SVM to the precision of floats.

    The line search of liblinear cannot see changes below the rounding of the loss,
    which leaves eight digits. With the samples inside the margin fixed the loss is
    quadratic, and Newton's method is exact once they no longer change. As in liblinear,
    the offset is penalised like the weight of a constant feature.
    """
    features = np.column_stack([features, np.ones(len(features))])
    solution = np.append(coef, intercept)
    is_inside = signs * (features @ solution) < 1
    for _ in range(_MOST_NEWTON_STEPS):
        inside = features[is_inside]
        scaled = 2.0 * penalties[is_inside, None] * inside
        hessian = scaled.T @ inside
        hessian[np.diag_indices_from(hessian)] += 1.0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)
                candidate = solve(hessian, scaled.T @ signs[is_inside], assume_a="pos")
        except (LinAlgError, LinAlgWarning):
            # The unit of the penalty is below the rounding of features this large.
            return coef, intercept
        still_inside = signs * (features @ candidate) < 1
        if np.array_equal(still_inside, is_inside):
            return candidate[:-1], candidate[-1]
        is_inside = still_inside
    return coef, intercept


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


def _refuse_huge(features):
    largest = np.abs(features).max()
    if largest > _LARGEST_FEATURE:
        raise ValueError(
            f"X has features as large as {largest:.1e}, which a linear SVM cannot be "
            "fitted to. Scale them first, for example with TokenScaler."
        )


def svm_loss(scores, y, weights):
    """Mean squared hinge loss of (n_samples, n_outputs) scores."""
    signs = _signs(y, scores.shape[1])
    losses = np.maximum(0.0, 1.0 - signs * scores) ** 2
    return float(np.average(losses.sum(axis=1), weights=weights))


def logistic_loss(scores, y, weights):
    """Mean cross-entropy of (n_samples, n_outputs) scores."""
    if scores.shape[1] == 1:
        losses = np.logaddexp(0.0, -_signs(y, 1)[:, 0] * scores[:, 0])
    else:
        losses = -log_softmax(scores, axis=1)[np.arange(len(y)), y]
    return float(np.average(losses, weights=weights))


def likeliest(scores, classes):
    """Return the label of each sample from the output of a `decision_function`.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        For two classes one number, positive for the second; else one a class.

    classes : ndarray of shape (n_classes,)
        Labels.

    Returns
    -------
    y : ndarray of shape (n_samples,)
    """
    best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
    return classes[np.asarray(best, dtype=int)]


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


def log_probabilities(scores):
    """Return the logarithms of :func:`probabilities`, finite where those are 0."""
    if scores.ndim == 1:
        return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
    return log_softmax(scores, axis=1)


def _signs(y, n_outputs):
    """Return 1 for the class of each output and -1 for others."""
    if n_outputs == 1:
        return np.where(y == 1, 1.0, -1.0)[:, None]
    return np.where(y[:, None] == np.arange(n_outputs), 1.0, -1.0)


#: By the name of the parameter `head`: how to fit it, and the loss it minimises.
HEADS = {
    "svm": (fit_svm_head, svm_loss),
    "logistic": (fit_logistic_head, logistic_loss),
}
