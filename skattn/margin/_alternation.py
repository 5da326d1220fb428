"""The state of the alternating directions.

Importing this module loads numba: the solver does it when it runs.
"""

import numpy as np

from skattn.margin._admm_kernels import CHECK_EVERY, MAX_EPOCHS, alternate
from skattn.margin._factored_rows import FactoredRows
from skattn.margin._kernels import adjoint, descend_epoch, squared_norms

#: Epochs of the Frobenius problem that a cold start is taken from.
STARTING_EPOCHS = 5

#: Multiplications between two chances for an interrupt to be seen, about a second.
WORK_PER_CALL = 1e9

#: Seed of the order of coordinate descent.
SEED = 0


class Alternation:
    """The two copies of W, their accumulated difference and the duals.

    With w the weight of the distance between the copies, the margins' copy is
    ``point - shift + A*(a) / w``.

    Parameters
    ----------
    problem : MarginProblem

    warm_start : MarginSolution or None
    """

    def __init__(self, problem, warm_start):
        self._rows = rows = FactoredRows(problem.merged, to_unit_scale=False)
        self._C = problem.merged.C
        self._blocks = (
            rows.differences,
            rows.starts,
            rows.queries,
            squared_norms(rows.differences),
            squared_norms(rows.queries),
        )
        self._order = (
            np.arange(rows.size),
            np.diff(rows.starts),
            np.array([SEED], dtype=np.uint64),
        )
        is_usable = warm_start is not None and np.isfinite(warm_start.coef).all()
        if is_usable:
            self._point = rows.drop(warm_start.coef)
            dual = problem.merge_dual(warm_start.dual_coef)
        else:
            self._point, dual = self._frobenius_start()
        # At this weight the singular values of the shift, which the duals make, start
        # as large as those of the point.
        singular = np.linalg.svd(self._point, compute_uv=False)
        weight = singular.sum() / singular[0] if singular[0] > 0 else 1.0
        self._weight = np.array([weight])
        # A cold start's duals are those of the Frobenius norm, whose weight is 1.
        dual = dual / weight if is_usable else dual
        self._dual = np.clip(dual, 0, self._C / weight)
        self._shift = adjoint(*self._blocks[:3], self._dual)
        self._coef = self._point.copy()

    @property
    def coef(self):
        """The copy of the norm, in the coordinates of the problem."""
        return self._rows.lift(self._point)

    @property
    def dual(self):
        """The duals of the merged constraints."""
        return self._weight[0] * self._dual

    def alternations_per_call(self, has_callback):
        """How many alternations to do before Python has its turn again.

        Parameters
        ----------
        has_callback : bool
            Whether a callback wants to see every look at the bounds.

        Returns
        -------
        n_iter : int
        """
        if has_callback:
            return CHECK_EVERY
        work = MAX_EPOCHS * self._rows.differences.size + self._rows.n_entries**1.5
        return CHECK_EVERY * max(int(WORK_PER_CALL / (CHECK_EVERY * work)), 1)

    def advance(self, tol, n_before, max_iter):
        """Alternate until the gap is reached, or `max_iter` times.

        Parameters
        ----------
        tol : float

        n_before, max_iter : int
            Alternations done before, and to be done at most.

        Returns
        -------
        n_iter : int
            Alternations done now.
        """
        return alternate(
            self._blocks,
            self._C,
            self._coef,
            self._dual,
            self._point,
            self._shift,
            self._weight,
            self._order,
            tol,
            n_before,
            max_iter,
        )

    def _frobenius_start(self):
        coef, dual = np.zeros(self._rows.shape), np.zeros(self._rows.size)
        violation = np.inf
        for _ in range(STARTING_EPOCHS):
            violation = descend_epoch(
                *self._blocks,
                self._C,
                coef,
                dual,
                *self._order[:2],
                violation,
                self._order[2],
            )
        return coef, dual
