"""Bounds that any candidate gives, so that no solver has to be believed.

Upper bounds come from primal candidates W, lower bounds from dual candidates a >= 0.
With A(a) the sum of ``a * dx z'``:

* hard margin: ``|W| / min margin`` and ``sum(a) / |A(a)|_dual``;
* otherwise: the primal value of W, and ``sum(a) - 1/2 |A(a)|_dual^2`` for a within
  [0, C], scaled by its best factor.

Where hard and soft samples are mixed, the second pair holds, once W is scaled up so
that its hard margins reach 1.
"""

import numpy as np

#: Bounds this close are taken as equal, and the later candidate wins: bounds are of
#: second order in what candidates lack, so that the more refined one may not show.
ROUNDING = 16 * np.finfo(float).eps


class Certificate:
    """The best bounds among the candidates shown so far.

    Parameters
    ----------
    problem : MarginProblem
        The problem that candidates are judged by.

    Attributes
    ----------
    coef, upper_bound : ndarray of shape problem.coef_shape or None, float
        Best primal candidate, rescaled where the margin is hard, and its value.

    dual, lower_bound : ndarray of shape (problem.merged.size,) or None, float
        Best dual candidate, at its best factor, and its value.

    margins : ndarray of shape (problem.merged.size,) or None
        Margins of `coef`.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import Certificate, MarginProblem
    >>> problem = MarginProblem([[[1.0, 0.0], [0.0, 0.0]]], [0])
    >>> certificate = Certificate(problem)
    >>> certificate.offer(coef=np.array([2.0, 0.0]), dual=np.array([0.3]))
    >>> certificate.lower_bound, certificate.upper_bound, certificate.gap
    (1.0, 1.0, 0.0)
    """

    def __init__(self, problem):
        self._problem = problem
        self.coef = None
        self.margins = None
        self.dual = None
        self.upper_bound = np.inf
        self.lower_bound = -np.inf

    def offer(self, coef=None, dual=None):
        """Keep what improves a bound, or equals it within rounding.

        Parameters
        ----------
        coef : ndarray of shape problem.coef_shape, default=None
            Primal candidate; anything finite.

        dual : ndarray of shape (problem.merged.size,), default=None
            Dual candidate, one value a row of ``problem.merged``; negative values
            count as 0.
        """
        if coef is not None and np.isfinite(coef).all():
            value, scaled, margins = self._primal_bound(coef)
            if self.coef is None or value <= self.upper_bound * (1 + ROUNDING):
                self.upper_bound, self.coef, self.margins = value, scaled, margins
        if dual is not None and np.isfinite(dual).all():
            value, scaled = self._dual_bound(dual)
            if self.dual is None or value >= self.lower_bound * (1 - ROUNDING):
                self.lower_bound, self.dual = value, scaled

    def _primal_bound(self, coef):
        return _primal_bound(self._problem, coef)

    def _dual_bound(self, dual):
        return _dual_bound(self._problem, dual)

    @property
    def gap(self):
        """Relative duality gap of the best bounds."""
        return duality_gap(self.upper_bound, self.lower_bound)


def duality_gap(upper_bound, lower_bound):
    """Relative distance of two bounds.

    Parameters
    ----------
    upper_bound : float
        Value of a primal candidate; infinite when none is feasible.

    lower_bound : float
        Value of a dual candidate.

    Returns
    -------
    gap : float
        ``(upper - lower) / upper``, not below 0; infinite without an upper bound.

    Examples
    --------
    >>> from skattn.margin import duality_gap
    >>> duality_gap(2.0, 1.5)
    0.25
    """
    if not np.isfinite(upper_bound):
        return np.inf
    if upper_bound <= 0:
        return 0.0
    # At the optimum rounding can put the lower bound a hair above the upper one.
    return max((upper_bound - lower_bound) / upper_bound, 0.0)


def primal_bound(problem, coef):
    """Upper bound on the optimum from any `coef`.

    Parameters
    ----------
    problem : MarginProblem

    coef : ndarray of shape problem.coef_shape

    Returns
    -------
    upper_bound : float
        Infinite when a hard margin is not positive.

    scaled : ndarray of shape problem.coef_shape
        The candidate whose value that is: rescaled to a minimum margin of 1 when all
        margins are hard; otherwise scaled up to hard margins of 1, and to soft ones of
        1 where that is better.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem, primal_bound
    >>> problem = MarginProblem([[[2.0], [0.0]]], [0])
    >>> primal_bound(problem, np.array([1.0]))
    (0.5, array([0.5]))
    """
    coef = np.asarray(coef, dtype=np.float64)
    if coef.shape != problem.coef_shape:
        raise ValueError(
            f"coef must have shape {problem.coef_shape}, got {coef.shape}."
        )
    return _primal_bound(problem, coef)[:2]


def dual_bound(problem, dual_coef):
    """Lower bound on the optimum from any `dual_coef`.

    Parameters
    ----------
    problem : MarginProblem

    dual_coef : ndarray of shape (problem.n_tokens,)
        One value a real token, as in `MarginSolution`. Negative values count as 0,
        values above C as C; tokens without a constraint are ignored.

    Returns
    -------
    lower_bound : float
        Infinite when it proves that no W meets the hard margins.

    scaled : ndarray of shape (problem.n_tokens,)
        The dual at its best factor.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem, dual_bound
    >>> problem = MarginProblem([[[2.0], [0.0]]], [0])
    >>> dual_bound(problem, np.array([0.0, 3.0]))
    (0.5, array([0.  , 0.25]))
    """
    dual_coef = np.asarray(dual_coef, dtype=np.float64)
    if dual_coef.shape != (problem.n_tokens,):
        raise ValueError(
            f"dual_coef must have shape ({problem.n_tokens},), one value a real token; "
            f"got {dual_coef.shape}."
        )
    lower_bound, scaled = _dual_bound(problem, problem.merge_dual(dual_coef))
    return lower_bound, problem.split_dual(scaled)


def _primal_bound(problem, coef):
    constraints = problem.merged
    if constraints.size == 0:
        return 0.0, np.zeros_like(coef), np.zeros(0)
    if not constraints.is_any_hard and not coef.any():
        return float(constraints.C.sum()), coef, np.zeros(constraints.size)
    margins = constraints.margins(coef)
    is_hard = constraints.is_hard
    if constraints.is_any_hard:
        is_all_hard = constraints.is_all_hard
        smallest = float((margins if is_all_hard else margins[is_hard]).min())
        if smallest <= 0:
            return np.inf, coef, margins
        factor = 1 / smallest if is_all_hard else max(1 / smallest, 1.0)
        coef, margins = coef * factor, margins * factor
        if is_all_hard:
            return problem.norm.value(coef), coef, margins
    # With a large C the slack that rounding leaves can cost more than the norm.
    smallest = margins.min()
    factors = (1.0, 1 / smallest) if 0 < smallest < 1 else (1.0,)
    norm = problem.norm.value(coef)
    cost = constraints.C[~is_hard]
    values = [
        0.5 * (factor * norm) ** 2
        + float(cost @ np.maximum(1 - factor * margins[~is_hard], 0))
        for factor in factors
    ]
    best = int(np.argmin(values))
    return values[best], factors[best] * coef, factors[best] * margins


def _dual_bound(problem, dual):
    constraints = problem.merged
    dual = np.minimum(np.maximum(dual, 0), constraints.C)
    total = float(dual.sum())
    if total == 0:
        return 0.0, dual
    norm = problem.norm.dual_value(constraints.adjoint(dual))
    # Not the square of the norm, which can vanish where the norm does not.
    factor = _quotient(_quotient(total, norm), norm)
    if constraints.is_all_hard:
        bound = _quotient(total, norm)
    else:
        is_positive = dual > 0
        with np.errstate(divide="ignore", over="ignore"):
            room = constraints.C[is_positive] / dual[is_positive]
        factor = min(factor, float(room.min()))
        bound = factor * total - 0.5 * (factor * norm) * (factor * norm)
    if factor == np.inf:
        return np.inf, dual
    largest = factor * float(dual.max())
    return bound, factor * dual if largest < np.inf else dual


def _quotient(numerator, denominator):
    return np.inf if denominator == 0 else numerator / denominator
