"""From duals that diverge to a proof that hard margins cannot be met."""

from functools import cached_property

import numpy as np
from scipy import linalg

from skattn.margin._constraints import Constraints
from skattn.margin._factored_rows import FactoredRows
from skattn.margin._infeasibility import RAY_TOLERANCE, find_ray, ray_residual
from skattn.margin._newton import weighted_gram
from skattn.margin._reduction import LARGEST_EXPLICIT
from skattn.margin._scaling import FrobeniusScaling

#: Relative size of ``A*(a)`` at which a proof is first looked for.
LOOKS_INFEASIBLE = 0.03

#: Products up to which non-negative least squares is the faster.
SMALL = 2**18

#: Most coordinates of a solution for which a matrix over them is factored.
MOST_ENTRIES = 4096

#: Projections after which a combination that has not vanished will not.
MAX_PROJECTIONS = 5

#: What a projection must make of the residual to be followed by another.
LEAST_PROGRESS = 0.5


def prove_infeasible(constraints, rows, dual):
    """Look for weights on the hard rows whose combination vanishes, near given ones.

    The weights are projected on ``A*(a) = 0``, by least squares relative to their own
    sizes, which changes the small ones least and so keeps signs. Non-negative least
    squares, which needs no good start, is for small problems and where that fails.

    Parameters
    ----------
    constraints : Constraints
        The merged constraints of the problem, at least one of them hard.

    rows : FactoredRows
        The same rows by their factors.

    dual : ndarray of shape (m,)
        Dual variables of a solver that diverged.

    Returns
    -------
    proof : tuple of ndarray of shape (m,) and float, or None
        A ray of sum 1 and its residual, below `RAY_TOLERANCE`.
    """
    n_products = rows.size * rows.n_entries
    proof = _project(constraints, rows, dual) if n_products > SMALL else None
    if proof is None and n_products <= LARGEST_EXPLICIT:
        products = rows.differences[:, :, None] * rows.queries[rows.groups][:, None]
        products = products.reshape(rows.size, -1)
        ray, residual = find_ray(constraints, products, dual)
        proof = (ray, residual) if residual <= RAY_TOLERANCE else None
    return proof


class RaySearch:
    """Looks for a ray while a solver has no feasible point, seldom enough to be cheap.

    Parameters
    ----------
    constraints : Constraints
        The merged constraints of the problem.
    """

    def __init__(self, constraints):
        self._constraints = constraints
        self._threshold = LOOKS_INFEASIBLE

    @cached_property
    def _impossible(self):
        # Margins of a query of zeros are 0 whatever W is.
        return self._constraints.is_hard & (self._constraints.row_norms() == 0)

    def look(self, dual):
        """Look for a proof if the combination of duals has become much smaller.

        Parameters
        ----------
        dual : ndarray of shape (m,)

        Returns
        -------
        proof : tuple of ndarray of shape (m,) and float, or None
            As in `prove_infeasible`.
        """
        hard_dual = np.where(self._constraints.is_hard, np.maximum(dual, 0), 0)
        if self._impossible.any():
            return self._impossible / self._impossible.sum(), 0.0
        if not hard_dual.any():
            return None
        residual = ray_residual(self._constraints, hard_dual)
        if not residual < self._threshold:
            return None
        self._threshold = 0.1 * residual
        return prove_from_support(self._constraints, hard_dual)


def prove_from_support(constraints, dual):
    """Look for a ray among the few hard rows that have a dual.

    Parameters
    ----------
    constraints : Constraints
        The merged constraints of the problem.

    dual : ndarray of shape (m,)
        Dual variables of a solver that diverged, most of them 0.

    Returns
    -------
    proof : tuple of ndarray of shape (m,) and float, or None
        As in `prove_infeasible`.
    """
    support = np.flatnonzero(constraints.is_hard & (dual > 0))
    if support.size == 0:
        return None
    used = Constraints(
        constraints.differences[support],
        constraints.queries,
        constraints.query_index[support],
        constraints.C[support],
    )
    proof = prove_infeasible(used, FactoredRows(used), dual[support])
    if proof is None:
        return None
    ray = np.zeros(constraints.size)
    ray[support] = proof[0]
    return ray, proof[1]


def _project(constraints, rows, dual):
    ray = np.where(constraints.is_hard, np.maximum(dual, 0), 0)
    total = float(ray.sum())
    if rows.n_entries > MOST_ENTRIES or not 0 < total < np.inf:
        return None
    ray /= total
    smallest = np.inf
    for _ in range(MAX_PROJECTIONS):
        residual = ray_residual(constraints, ray)
        if residual <= RAY_TOLERANCE:
            return ray, residual
        if residual > LEAST_PROGRESS * smallest:
            break
        smallest = residual
        ray = _projected(rows, ray)
        total = float(ray.sum())
        if total == 0:
            break
        ray /= total
    return None


def _projected(rows, ray):
    weights = ray * (ray / ray.max())
    matrix = weighted_gram(rows, FrobeniusScaling(), weights)
    diagonal = np.diag_indices(matrix.shape[0])
    # The rows need not span all entries; what the shift leaves, the next round takes.
    matrix[diagonal] += 1e-12 * matrix[diagonal].max()
    factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    target = rows.adjoint(ray)
    solved = linalg.cho_solve(factor, target.ravel(), check_finite=False)
    change = weights * rows.margins(solved.reshape(target.shape))
    return np.maximum(ray - change, 0)
