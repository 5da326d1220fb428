"""Entrywise norms by quasi-Newton steps on the dual."""

import numpy as np
from scipy.optimize import Bounds, minimize

from skattn.margin._reduction import _products

#: Corrections that approximate the Hessian. More of them pay off: a step costs little.
N_CORRECTIONS = 30


def dual_lbfgs(problem, dual, max_iter):
    """Minimise half the squared dual norm less what the duals reach.

    The gradient of ``1/2 |A(a)|_q^2 - required'a`` is what margins exceed, at the W
    that belongs to a. Of bounds there are only those of single duals, for which scipy
    has L-BFGS-B. It gives five or six digits, which is a start for Newton's method.

    Parameters
    ----------
    problem : GeneralProblem
        Of an entrywise norm.

    dual : ndarray of shape (m,)
        Where to start, not all 0.

    max_iter : int
        Limit on the iterations.

    Returns
    -------
    coef : ndarray of shape problem.coef_shape
        The W that belongs to the duals.

    dual : ndarray of shape (m,)

    n_iter : int
    """
    constraints, norm = problem.constraints, problem.norm
    rows = _products(
        constraints.differences, constraints.queries, constraints.query_index
    )
    # Duals of about 1, whatever the unit of tokens: W is in the unit of their root.
    unit = float(np.abs(dual).max())

    def objective(scaled):
        gradient = (unit * scaled) @ rows
        value = 0.5 * norm.dual_value(gradient) ** 2 / unit - problem.required @ scaled
        return value, rows @ norm.primal_from_dual(gradient) - problem.required

    least = np.where(problem.is_equality, -np.inf, 0.0)
    result = minimize(
        objective,
        dual / unit,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(least, constraints.C / unit),
        options={
            "maxiter": max_iter,
            "maxcor": N_CORRECTIONS,
            "ftol": np.finfo(float).eps,
            "gtol": 1e-9 * float(np.abs(problem.required).max()),
        },
    )
    dual = unit * result.x
    coef = norm.primal_from_dual(dual @ rows)
    return coef.reshape(problem.coef_shape), dual, result.nit
