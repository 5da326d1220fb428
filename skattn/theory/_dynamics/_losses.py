"""Losses of a margin ``m = y f(x)``, their slopes and their excess, in logarithms.

Slopes vanish exponentially as margins grow, and so does what a saturated attention is
above its optimum. Their logarithms do not.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit


class Loss(NamedTuple):
    """A decreasing loss.

    `value` and `log_slope` (logarithm of minus the derivative) take margins;
    `excess` takes the best margin and what is missing to it, and returns the loss
    above that of the best without subtracting the two.
    """

    value: callable
    log_slope: callable
    excess: callable


LOSSES = {
    "logistic": Loss(
        value=lambda margin: np.logaddexp(0.0, -margin),
        log_slope=lambda margin: log_expit(-margin),
        excess=lambda best, missing: np.log1p(expit(-best) * np.expm1(missing)),
    ),
    "exponential": Loss(
        value=lambda margin: np.exp(-margin),
        log_slope=lambda margin: -margin,
        excess=lambda best, missing: np.exp(-best) * np.expm1(missing),
    ),
    "correlation": Loss(
        value=lambda margin: -margin,
        log_slope=np.zeros_like,
        excess=lambda best, missing: missing,
    ),
}

#: Below this a loss is linear in what is missing to the best margin, to all digits.
_LINEAR_BELOW = 1e-30


def log_excess(loss, best, log_missing):
    """Return the logarithm of the loss above that of the best margin.

    The excess itself may be too small for a number.
    """
    missing = np.maximum(np.exp(log_missing), _LINEAR_BELOW)
    # The stable form overflows where plain subtraction loses nothing.
    excess = np.where(
        missing > 1.0,
        loss.value(best - missing) - loss.value(best),
        loss.excess(best, np.minimum(missing, 1.0)),
    )
    with np.errstate(divide="ignore"):
        return log_missing + np.log(excess / missing)
