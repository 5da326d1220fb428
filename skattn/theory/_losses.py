"""Losses of a margin ``m = y f(x)``, their slopes and their excess, in logarithms.

Slopes vanish exponentially as margins grow, and so does what a saturated attention is
above its optimum. Their logarithms do not.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

# Below it, the first terms of series are exact to rounding.
_TINY = 1e-8


def _log_expm1(size, log_size):
    """Logarithm of exp(size) - 1, and its derivative by log_size."""
    is_tiny = size < _TINY
    safe = np.where(is_tiny, 1.0, size)
    decay = -np.expm1(-safe)
    return (
        np.where(is_tiny, log_size + 0.5 * size, safe + np.log(decay)),
        np.where(is_tiny, 1.0 + 0.5 * size, safe / decay),
    )


def _log_excess_logistic(best, size, log_size):
    # loss(best - size) - loss(best) = log1p(sigma(-best) expm1(size)).
    log_growth, slope = _log_expm1(size, log_size)
    log_growth = log_growth + log_expit(-best)
    is_tiny = log_growth < np.log(_TINY)
    growth = np.exp(np.where(is_tiny, log_growth, 0.0))
    safe = np.where(is_tiny, 0.0, log_growth)
    value = np.logaddexp(0.0, safe)
    return (
        np.where(is_tiny, log_growth - 0.5 * growth, np.log(value)),
        slope * np.where(is_tiny, 1.0 - 0.5 * growth, expit(safe) / value),
    )


def _log_excess_exponential(best, size, log_size):
    log_growth, slope = _log_expm1(size, log_size)
    return log_growth - best, slope


def _log_excess_correlation(best, size, log_size):
    return log_size, np.ones_like(log_size)


class Loss(NamedTuple):
    """A decreasing loss.

    `value` and `log_slope` (logarithm of minus the derivative) take margins.
    `log_excess` takes the best margin, what is missing to it, and the logarithm of
    that, which may be there where the number itself is 0. It returns the logarithm of
    the loss above that of the best, without subtracting the two, and its derivative by
    the logarithm of what is missing.
    """

    value: callable
    log_slope: callable
    log_excess: callable


LOSSES = {
    "logistic": Loss(
        value=lambda margin: np.logaddexp(0.0, -margin),
        log_slope=lambda margin: log_expit(-margin),
        log_excess=_log_excess_logistic,
    ),
    "exponential": Loss(
        value=lambda margin: np.exp(-margin),
        log_slope=lambda margin: -margin,
        log_excess=_log_excess_exponential,
    ),
    "correlation": Loss(
        value=lambda margin: -margin,
        log_slope=np.zeros_like,
        log_excess=_log_excess_correlation,
    ),
}
