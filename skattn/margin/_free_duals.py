"""Newton's method on the duals that coordinate descent leaves within their bounds."""

import numpy as np
from scipy import linalg

from skattn.margin._constraints import Constraints

#: Newton steps at most; each lets go of duals that reach a bound.
MAX_STEPS = 20

#: Halvings of a step before none is found to help.
MAX_HALVINGS = 40

#: Shift of the diagonal, relative to its largest entry, that makes every system
#: solvable. Later steps take what it leaves.
SHIFT = 1e-9


def improve_free_duals(constraints, dual):
    """Raise the value of a Frobenius dual over those of its entries within (0, C).

    Descent finds out early which duals end at a bound and takes long to balance the
    others. Here these move along projected Newton steps, each of which raises the dual
    value, until the margins of all that stay free are 1.

    Parameters
    ----------
    constraints : Constraints
        Merged constraints of a problem.

    dual : ndarray of shape (m,)
        Within [0, C]; the free entries are updated in place.
    """
    free = np.flatnonzero((dual > 0) & (dual < constraints.C))
    rows = Constraints(
        constraints.differences[free],
        constraints.queries,
        constraints.query_index[free],
        constraints.C[free],
    )
    gram = constraints.gram(free)
    slope = 1 - rows.margins(constraints.adjoint(dual))
    values, upper = dual[free], rows.C
    shift = SHIFT * gram.diagonal().max(initial=0)
    for _ in range(MAX_STEPS):
        is_moving = np.where(slope > 0, values < upper, values > 0)
        moving = np.flatnonzero(is_moving)
        if moving.size == 0:
            break
        system = gram[np.ix_(moving, moving)]
        system.flat[:: moving.size + 1] += shift
        try:
            factor = linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            break
        step = np.zeros(free.size)
        step[moving] = linalg.cho_solve(factor, slope[moving])
        change, gradient_change = _improving_change(values, step, upper, slope, gram)
        if change is None:
            break
        values = values + change
        slope = slope - gradient_change
        if np.array_equal(change, step) and np.abs(slope[moving]).max() < 1e-12:
            break
    dual[free] = values


def _improving_change(values, step, upper, slope, gram):
    for _ in range(MAX_HALVINGS):
        change = np.clip(values + step, 0, upper) - values
        gradient_change = gram @ change
        if change @ slope - 0.5 * change @ gradient_change > 0:
            return change, gradient_change
        step = step / 2
    return None, None
