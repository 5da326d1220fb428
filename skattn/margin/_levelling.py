"""What rounding has moved is put back: equalities, and margins of 0."""

import numpy as np

from skattn.margin._least_distance import RANK_TOLERANCE
from skattn.margin._reduction import _products

#: Margins of 0 that are missed by less than this, relative to the lengths of row and W,
#: are taken for equalities.
NEARLY_LEVEL = 1e-6


class Levelling:
    """Moves attention weights to the nearest ones that are level where they have to be.

    A larger W repairs margins, but neither equalities nor margins of 0.

    Parameters
    ----------
    problem : GeneralProblem
    """

    def __init__(self, problem):
        constraints = problem.constraints
        is_equality = problem.is_equality
        is_concerned = is_equality | (constraints.is_hard & (problem.required == 0))
        self._rows = None
        if is_concerned.any():
            self._rows = _products(
                constraints.differences[is_concerned],
                constraints.queries,
                constraints.query_index[is_concerned],
            )
            self._lengths = np.linalg.norm(self._rows, axis=1)
            self._required = problem.required[is_concerned]
            self._is_equality = is_equality[is_concerned]
            self._inverse = np.linalg.pinv(
                self._rows[self._is_equality], rcond=RANK_TOLERANCE
            )

    def __call__(self, coef):
        """Return the nearest weights to `coef`, an array of the same shape."""
        if self._rows is None or not np.isfinite(coef).all():
            return coef
        is_equality = self._is_equality
        point = coef.ravel()
        lacking = (self._required - self._rows @ point)[is_equality]
        point = point + self._inverse @ lacking
        margins = self._rows @ point
        allowance = NEARLY_LEVEL * np.linalg.norm(point) * self._lengths
        is_near = ~is_equality & (margins < 0) & (margins > -allowance)
        if is_near.any():
            is_level = is_equality | is_near
            lacking = (self._required - margins)[is_level]
            rows = self._rows[is_level]
            point = point + np.linalg.lstsq(rows, lacking, RANK_TOLERANCE)[0]
        return point.reshape(coef.shape)
