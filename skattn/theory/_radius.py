"""How far attention weights have come on their way to infinity."""

from typing import NamedTuple

import numpy as np

from skattn.margin import MarginSolution
from skattn.theory._alignment import alignment
from skattn.theory._batch import has_length, naming_problem
from skattn.theory._reading import read_floats


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
        Trained attention weights; with keys and queries their product. Of shape (B, d)
        or (B, d, d_q) for a batch.

    solution : MarginSolution or list of MarginSolution
        From `attention_svm`: W_dir is its `coef`, W_fin its `finite_coef`, or 0 where
        no attention weights were given. A list of B for a batch.

    Returns
    -------
    fit : RadiusFit or list of RadiusFit
        With fields `radius` (R by least squares), `coef` (the fitted weights) and
        `alignment` (of these with `coef`). A batch gives a list of B.

    Raises
    ------
    TypeError
        If `solution` is not from `attention_svm`.
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
    if isinstance(solution, list | tuple):
        if not has_length(coef, len(solution)):
            raise ValueError(
                f"coef must hold one array for each of the {len(solution)} solutions."
            )
        fits = []
        for index, own in enumerate(zip(coef, solution, strict=True)):
            with naming_problem(index):
                fits.append(fit_radius(*own))
        return fits
    if not isinstance(solution, MarginSolution):
        raise TypeError(
            "solution must be what attention_svm returns, a MarginSolution or a list "
            f"of them; got {type(solution).__name__}."
        )
    coef = read_floats(coef, "coef")
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
    if not direction.any():
        raise ValueError("solution.coef is zero: it has no direction.")
    # Squares of very small or large weights are no numbers any more.
    peak = np.abs(direction).max()
    unit = direction / peak
    radius = float(np.sum((coef - finite) / peak * unit) / np.sum(unit**2))
    fitted = finite + radius * direction
    return RadiusFit(radius, fitted, alignment(coef, fitted))
