"""The norms whose margins we maximise, each with its dual."""

import math

import numpy as np


class FrobeniusNorm:
    """The Euclidean norm of the entries; its own dual."""

    def value(self, coef):
        """Norm of a solution."""
        entries = coef.ravel()
        return math.sqrt(entries @ entries)

    def dual_value(self, gradient):
        """Dual norm of ``adjoint(dual)``."""
        return self.value(gradient)

    def primal_from_dual(self, gradient):
        """Solution that belongs to ``adjoint(dual)``: the same array."""
        return gradient


class NuclearNorm:
    """The sum of singular values; its dual is the largest of them."""

    def value(self, coef):
        """Norm of a solution."""
        return float(np.linalg.svd(coef, compute_uv=False).sum())

    def dual_value(self, gradient):
        """Dual norm of ``adjoint(dual)``."""
        return float(np.linalg.svd(gradient, compute_uv=False)[0])


class EntrywiseNorm:
    """The l_p norm of the entries, p > 1; its dual is l_q with 1/p + 1/q = 1.

    Parameters
    ----------
    p : float
        Exponent, above 1.
    """

    def __init__(self, p):
        self.p = p
        self.q = p / (p - 1)

    def value(self, coef):
        """Norm of a solution."""
        return _entrywise(coef, self.p)

    def dual_value(self, gradient):
        """Dual norm of ``adjoint(dual)``."""
        return _entrywise(gradient, self.q)

    def primal_from_dual(self, gradient):
        """Solution that belongs to ``adjoint(dual)``.

        It is ``|A|_q^(2 - q) sign(A) |A|^(q - 1)``, the gradient of half the squared
        dual norm.
        """
        size = self.dual_value(gradient)
        if size == 0:
            return np.zeros_like(gradient)
        share = np.abs(gradient) / size
        return size * np.sign(gradient) * share ** (self.q - 1)

    def dual_curvature(self, rows, gradient):
        """``rows H rows'``, H the Hessian of half the squared dual norm."""
        share = gradient.ravel() / self.dual_value(gradient)
        # For q < 2 the curvature is infinite at 0.
        magnitude = np.maximum(np.abs(share), np.finfo(float).eps)
        diagonal = (self.q - 1) * magnitude ** (self.q - 2)
        slope = rows @ (np.sign(share) * magnitude ** (self.q - 1))
        curved = rows * diagonal @ rows.T
        return curved + (2 - self.q) * np.outer(slope, slope)


def _entrywise(values, exponent):
    # Large exponents overflow unless the largest entry is taken out first.
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    return scale * float(np.sum((np.abs(values) / scale) ** exponent) ** (1 / exponent))


def resolve_norm(norm, coef_shape):
    """Turn the user's `norm` into an object with `value` and `dual_value`.

    Parameters
    ----------
    norm : {"fro", "nuc"} or float
        As in `MarginProblem`.

    coef_shape : tuple of int
        Shape of the solution. Where it is a single row or column, the nuclear norm is
        the Euclidean one.

    Returns
    -------
    norm : FrobeniusNorm, NuclearNorm or EntrywiseNorm

    Raises
    ------
    ValueError
        If the norm is unknown, or a number that is not above 1 and finite.
    """
    if isinstance(norm, str):
        if norm not in ("fro", "nuc"):
            raise ValueError(
                f"norm must be 'fro', 'nuc' or a number above 1, got {norm!r}."
            )
        is_vector = len(coef_shape) == 1 or min(coef_shape) == 1
        return FrobeniusNorm() if norm == "fro" or is_vector else NuclearNorm()
    try:
        exponent = float(norm)
    except (TypeError, ValueError):
        raise ValueError(
            f"norm must be 'fro', 'nuc' or a number above 1, got {norm!r}."
        ) from None
    if not 1 < exponent < np.inf:
        raise ValueError(
            "norm must be above 1 and finite when it is a number (the exponent of an "
            f"entrywise norm), got {norm!r}."
        )
    return FrobeniusNorm() if exponent == 2 else EntrywiseNorm(exponent)
