"""How far attention weights have come on their way to infinity."""

from typing import NamedTuple

import numpy as np

from skattn.theory._alignment import alignment


class RadiusFit(NamedTuple):
    """Attention weights as a finite component and a multiple of a direction.

    Attributes
    ----------
    radius : float
        The multiple R.

    coef : ndarray
        ``W_fin + R * W_dir``.

    alignment : float
        Its alignment with the weights.
    """

    radius: float
    coef: np.ndarray
    alignment: float


def fit_radius(coef, solution):
    """Fit trained attention weights by ``W_fin + R * W_dir``.

    Weights that keep several tokens of a sample grow in the direction of the attention
    SVM, while a finite component decides how these tokens share their weight
    (section 5 of arXiv 2308.16898).

    Parameters
    ----------
    coef : array-like of shape (d,) or (d, d_q)
        Trained attention weights; with keys and queries their product.

    solution : MarginSolution
        From `attention_svm`: W_dir is its `coef`, W_fin its `finite_coef`, or 0 where
        no attention weights were given.

    Returns
    -------
    fit : RadiusFit
        With fields `radius` (R by least squares), `coef` (the fitted weights) and
        `alignment` (of these with `coef`).

    Raises
    ------
    ValueError
        If the shapes differ, `coef` is zero or not finite, or the solution has no
        direction: it is infeasible or 0, or no W has its attention weights.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.theory import attention_svm, fit_radius
    >>> X = [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
    >>> coef = np.array([8.0, 7.0])
    >>> weights = np.exp(X @ coef) / np.exp(X @ coef).sum()
    >>> solution = attention_svm(X, [[0, 1]], attention_weights=weights)
    >>> fit = fit_radius(coef, solution)
    >>> round(fit.radius, 6), round(fit.alignment, 6)
    (7.5, 1.0)
    """
    coef = np.asarray(coef, dtype=np.float64)
    direction, finite = solution.coef, solution.finite_coef
    if finite is None:
        finite = np.zeros_like(direction)
    for name, array in (("coef", direction), ("finite_coef", finite)):
        if not np.isfinite(array).all():
            raise ValueError(
                f"solution.{name} is not finite: its problem is infeasible, and there "
                "is nothing to fit."
            )
    if coef.shape != direction.shape:
        raise ValueError(
            f"coef must have shape {direction.shape}, that of the solution; got "
            f"{coef.shape}."
        )
    if not np.isfinite(coef).all() or not coef.any():
        raise ValueError("coef must be finite and not zero: it has no direction.")
    size = float(np.sum(direction**2))
    if size == 0:
        raise ValueError("solution.coef is zero: it has no direction.")
    radius = float(np.sum((coef - finite) * direction)) / size
    fitted = finite + radius * direction
    return RadiusFit(radius, fitted, alignment(coef, fitted))
