"""Bounds on the optimum of a general problem, and proofs that there is none."""

import numpy as np

from skattn.margin.certificate import Certificate

#: Relative error of a sum of rows.
ROUNDING = 4 * np.finfo(float).eps

#: What a row may lack for rounding, relative to its length times that of W: equalities,
#: and margins of 0, cannot be repaired by a larger W.
FEASIBILITY_TOLERANCE = 1e-9


class GeneralCertificate(Certificate):
    """The best bounds among the candidates shown so far.

    As in `Certificate`, with b for what is required: a hard lower bound is
    ``b'a / |A(a)|_dual``, with a >= 0 on margins and of any sign on equalities. W is
    scaled to the required margins where equalities are homogeneous; it must meet
    equalities, and margins of 0, up to `FEASIBILITY_TOLERANCE`. Lower bounds leave room
    for what rounding does to ``A(a)``.

    Parameters
    ----------
    problem : GeneralProblem
        The problem that candidates are judged by.
    """

    def _primal_bound(self, coef):
        problem = self._problem
        constraints, required = problem.constraints, problem.required
        is_firm = problem.is_equality | (constraints.is_hard & (required == 0))
        margins = constraints.margins(coef)
        if (_lacking(problem, coef, margins)[is_firm] > FEASIBILITY_TOLERANCE).any():
            return np.inf, coef, margins
        is_scaled = (required > 0) & ~problem.is_equality
        is_hard = is_scaled & constraints.is_hard
        factor = 1.0
        if is_hard.any():
            smallest = np.min(margins[is_hard] / required[is_hard])
            if smallest <= 0:
                return np.inf, coef, margins
            factor = 1 / smallest if problem.is_hard else max(1 / smallest, 1.0)
            coef, margins = factor * coef, factor * margins
        if problem.is_hard:
            return problem.norm.value(coef), coef, margins
        return self._soft_value(coef, margins, is_scaled)

    def _soft_value(self, coef, margins, is_scaled):
        problem = self._problem
        required, is_soft = problem.required, problem.is_soft
        cost = problem.constraints.C[is_soft]
        norm = problem.norm.value(coef)
        factors = [1.0]
        if is_scaled.any():
            smallest = np.min(margins[is_scaled] / required[is_scaled])
            # With a large C the slack that rounding leaves can cost more than the norm.
            if 0 < smallest < 1:
                factors.append(1 / smallest)
        values = []
        for factor in factors:
            slack = np.maximum(required - factor * margins, 0)[is_soft]
            values.append(0.5 * (factor * norm) ** 2 + float(cost @ slack))
        best = int(np.argmin(values))
        return values[best], factors[best] * coef, factors[best] * margins

    def _dual_bound(self, dual):
        problem = self._problem
        C = problem.constraints.C
        dual = np.where(problem.is_equality, dual, np.clip(dual, 0, C))
        total = float(problem.required @ dual)
        if total <= 0:
            return 0.0, dual
        norm = problem.norm.dual_value(problem.constraints.adjoint(dual))
        # Large duals of opposite rows cancel, and leave an error of this size.
        norm += ROUNDING * float(np.abs(dual) @ problem.constraints.row_norms())
        with np.errstate(divide="ignore", over="ignore"):
            factor = np.divide(total, norm**2)
            is_bounded = problem.is_soft & (dual > 0)
            room = C[is_bounded] / dual[is_bounded]
            factor = min(factor, np.min(room, initial=np.inf))
            bound = float(np.divide(total, norm))
            if not problem.is_hard:
                bound = factor * total - 0.5 * (factor * norm) ** 2
            scaled = factor * dual
        if not np.isfinite(factor):
            return np.inf, dual
        return bound, scaled if np.isfinite(scaled).all() else dual


def farkas_residual(problem, dual):
    """Tell how nearly a dual proves that hard margins cannot be met.

    Every W has ``sum of dual * dx' W z = <A(dual), W>``. Where A(dual) vanishes and
    ``sum of dual * required`` is above 0, no W meets the hard rows (Farkas' lemma).

    Parameters
    ----------
    problem : GeneralProblem

    dual : ndarray of shape (m,)
        At least 0 on hard margins, 0 on soft ones, of any sign on equalities.

    Returns
    -------
    residual : float
        Frobenius norm of A(dual), relative to the sum of ``|dual| * |dx z'|`` and to
        the share of the largest requirement that the dual reaches; infinite if it
        reaches nothing. With one requirement for all it is that of `MarginSolution`.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import farkas_residual, selection_problem
    >>> tokens = [[[1.0], [0.0]], [[-1.0], [0.0]]]
    >>> problem = selection_problem(tokens, np.array([True, False, True, False]))
    >>> farkas_residual(problem, np.array([0.5, 0.5]))
    0.0
    """
    size = np.abs(dual).sum()
    total = float(problem.required @ dual)
    if not total > 0 or not np.isfinite(size):
        return np.inf
    share = total / (size * np.abs(problem.required).max())
    terms = float(np.abs(dual) @ problem.constraints.row_norms())
    if terms == 0:
        return 0.0
    combination = np.linalg.norm(problem.constraints.adjoint(dual))
    return float(combination / (terms * share))


def level_residual(problem, coef):
    """Tell how nearly attention weights meet hard margins and equalities.

    Parameters
    ----------
    problem : GeneralProblem

    coef : ndarray of shape problem.coef_shape

    Returns
    -------
    residual : float
        The most that a row lacks, relative to ``|W| |dx z'|`` and what is required; 0
        if none lacks anything.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import level_residual, selection_problem
    >>> tokens = [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
    >>> problem = selection_problem(tokens, np.array([True, True, False]))
    >>> level_residual(problem, np.array([1.0, 1.0]))
    0.0
    """
    is_hard = problem.constraints.is_hard
    lacking = _lacking(problem, coef, problem.constraints.margins(coef))
    return float(np.max(lacking[is_hard], initial=0.0))


def _lacking(problem, coef, margins):
    """Return what rows lack, relative to the size of the terms they are made of."""
    lacking = problem.required - margins
    lacking[problem.is_equality] = np.abs(lacking[problem.is_equality])
    terms = np.linalg.norm(coef) * problem.constraints.row_norms()
    terms += np.abs(problem.required)
    return lacking / np.where(terms > 0, terms, 1.0)
