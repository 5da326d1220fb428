"""The iterate of the interior point, and how it moves."""

from typing import NamedTuple

import numpy as np

from skattn.margin._newton import EntrySystem, RowSystem
from skattn.margin._norm_parts import Direction, FrobeniusPart, NuclearPart
from skattn.margin._norms import NuclearNorm

#: Equations of the largest Newton system: 64 times 64 entries, or as many rows.
LARGEST_SYSTEM = 4096

#: What stands for an infinite weight in the rows of equalities. What they lack for it
#: in one step, which is a change of a dual divided by this, the next step sees.
EQUALITY_WEIGHT = 1e10


class _Move(NamedTuple):
    """A Newton direction, of the norm's part and of what is left of the rows."""

    direction: Direction
    distance: np.ndarray
    slack: np.ndarray


class InteriorPoint:
    """An iterate strictly inside all its inequalities.

    With ``margins(W) + slack - distance = required``, the pairs (dual, distance) and,
    where slack is allowed, (C - dual, slack) are positive, and complementary in the
    end.

    Parameters
    ----------
    problem : MarginProblem

    rows : FactoredRows
        The merged rows of the problem, in whose unit of scale everything is here.

    starts_slack : bool, default=True
        Whether to start with enough slack for every margin, or with little where C is
        large, for solutions that have little.

    required : float or ndarray of shape (m,), default=1.0
        The margins asked for.

    is_equality : boolean array of shape (m,), default=None
        Rows whose margin is to be what is required, no more. Their duals have any
        sign, and they have no distance.

    Attributes
    ----------
    dual : ndarray of shape (m,)
        Dual variables.

    barrier : float
        Mean product of the pairs before the last step.
    """

    def __init__(
        self, problem, rows, starts_slack=True, required=1.0, is_equality=None
    ):
        self._rows = rows
        self._required = required
        self._pairs, self._equalities = slice(None), slice(0)
        if is_equality is not None:
            self._pairs = np.flatnonzero(~is_equality)
            self._equalities = np.flatnonzero(is_equality)
        C = problem.merged.C * rows.scale**2
        self._soft = np.flatnonzero(~problem.merged.is_hard)
        # Equal duals at their best common factor.
        equal = np.ones(rows.size)
        equal[self._equalities] = 0
        n_pairs = equal[self._pairs].size
        size = problem.norm.dual_value(rows.adjoint(equal))
        start = np.sum(required * equal) / max(size, 1e-9 * rows.size) ** 2
        self.dual = np.minimum(start * equal, 0.5 * C)
        is_nuclear = isinstance(problem.norm, NuclearNorm)
        self._norm = (NuclearPart if is_nuclear else FrobeniusPart)(rows, self.dual)
        margins = rows.margins(self._norm.point)
        unit = float(np.max(np.abs(required)))
        self._distance = np.maximum(margins - required, unit)
        self._spare = (C - self.dual)[self._soft]
        self._slack = np.maximum(required - margins, 0)[self._soft] + unit
        if not starts_slack:
            # The pairs are to start about equal: a large C makes little slack.
            product = float(np.mean(self.dual * self._distance))
            self._slack = np.minimum(self._slack, product / self._spare)
        self._distance[self._soft] = np.maximum(
            (margins - required)[self._soft] + self._slack, unit
        )
        self._distance[self._equalities] = 0
        self._degree = n_pairs + self._soft.size + self._norm.degree
        self._uses_rows = rows.size <= rows.n_entries
        self.barrier = np.inf

    @property
    def coordinates(self):
        """W in the coordinates of the rows, an array of shape (r, s)."""
        return self._norm.point

    def use_rows_if_possible(self):
        """Change to systems of one equation a row, which keep more digits.

        Returns
        -------
        is_changed : bool
        """
        is_changed = not self._uses_rows and self._rows.size <= LARGEST_SYSTEM
        self._uses_rows |= is_changed
        return is_changed

    def step(self):
        """Move one predictor and corrector on.

        Raises
        ------
        numpy.linalg.LinAlgError
            If rounding has made a matrix indefinite.
        """
        rows, norm, soft = self._rows, self._norm, self._soft
        norm.rescale(rows.adjoint(self.dual))
        weights = np.full(rows.size, 1 / EQUALITY_WEIGHT)
        weights[self._pairs] = self._distance[self._pairs] / self.dual[self._pairs]
        weights[soft] += self._slack / self._spare
        weights = 1 / weights
        system = (RowSystem if self._uses_rows else EntrySystem)(
            rows, norm.scaling, weights
        )
        barrier = self.barrier = self._pairs_after(None, 0.0, 0.0) / self._degree
        affine = self._direction(system, weights, 0.0)
        lengths = self._longest_steps(affine)
        remaining = self._pairs_after(affine, *lengths) / (self._degree * barrier)
        exponent = max(1.0, 3 * min(lengths) ** 2)
        centring = min(max(remaining, 0.0), 1.0) ** exponent
        move = self._direction(system, weights, centring * barrier, affine)
        lengths = self._longest_steps(move)
        # The closer to a full step, the closer one may go to the boundary.
        fraction = 0.9 + 0.09 * min(lengths)
        self._follow(move, *(min(1.0, fraction * length) for length in lengths))

    def _direction(self, system, weights, centre, previous=None):
        rows, soft = self._rows, self._soft
        pairs = self._pairs
        lacking = rows.margins(self._norm.point) - self._required - self._distance
        lacking[soft] += self._slack
        dual_goal = centre - self.dual * self._distance
        spare_goal = centre - self._spare * self._slack
        if previous is not None:
            dual_goal -= previous.direction.dual * previous.distance
            spare_goal += previous.direction.dual[soft] * previous.slack
        h = -lacking
        h[pairs] += dual_goal[pairs] / self.dual[pairs]
        h[soft] -= spare_goal / self._spare
        direction = self._norm.direction(
            system,
            weights,
            weights * h,
            centre,
            None if previous is None else previous.direction,
        )
        slack = (spare_goal + self._slack * direction.dual[soft]) / self._spare
        distance = rows.margins(direction.point) + lacking
        distance[soft] += slack
        distance[self._equalities] = 0
        return _Move(direction, distance, slack)

    def _longest_steps(self, move):
        dual = move.direction.dual
        primal_step, dual_step = self._norm.longest_steps(move.direction)
        return (
            min(
                primal_step,
                _longest_step(self._distance, move.distance),
                _longest_step(self._slack, move.slack),
            ),
            min(
                dual_step,
                _longest_step(self.dual[self._pairs], dual[self._pairs]),
                _longest_step(self._spare, -dual[self._soft]),
            ),
        )

    def _pairs_after(self, move, primal_step, dual_step):
        if move is None:
            own = self.dual @ self._distance + self._spare @ self._slack
            return float(own) + self._norm.complementarity
        dual = move.direction.dual
        own = (self.dual + dual_step * dual) @ (
            self._distance + primal_step * move.distance
        ) + (self._spare - dual_step * dual[self._soft]) @ (
            self._slack + primal_step * move.slack
        )
        return float(own) + self._norm.complementarity_after(
            move.direction, primal_step, dual_step
        )

    def _follow(self, move, primal_step, dual_step):
        self._norm.move(move.direction, primal_step, dual_step)
        self._distance = self._distance + primal_step * move.distance
        self._slack = self._slack + primal_step * move.slack
        self.dual = self.dual + dual_step * move.direction.dual
        # C - dual, kept by itself: near C the difference would have no digits.
        self._spare = self._spare - dual_step * move.direction.dual[self._soft]


def _longest_step(values, changes):
    is_falling = changes < 0
    if not is_falling.any():
        return 1.0
    return min(1.0, float((-values[is_falling] / changes[is_falling]).min()))
