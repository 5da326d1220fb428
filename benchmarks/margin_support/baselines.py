"""What one would write without skattn."""

import warnings

import cvxpy as cp
import numpy as np

#: Options that ask each solver of cvxpy for about the accuracy of the comparison.
CVXPY_SOLVERS = {
    "CLARABEL": {"tol_gap_rel": 1e-4, "tol_gap_abs": 1e-4, "tol_feas": 1e-6},
    "OSQP": {"eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 20_000},
    "SCS": {"eps": 1e-5, "max_iters": 5_000},
}


def python_loop(tokens, selected, queries, norm):
    """Hard margins as the published experiments have them.

    A variable W, one cvxpy constraint for each sample and each of its other tokens,
    added in two loops, the norm as objective, the default solver.
    """
    W = cp.Variable((tokens[0].shape[1], queries.shape[1]))
    constraints = []
    for sample, chosen in enumerate(selected):
        for other in range(len(tokens[sample])):
            if other != chosen:
                difference = tokens[sample][chosen] - tokens[sample][other]
                constraints.append(difference @ W @ queries[sample] >= 1)
    objective = cp.norm(W, "fro") if norm == "fro" else cp.normNuc(W)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve()
    return W.value


def vectorised(tokens, selected, queries, norm, solver):
    """The same in one matrix of constraints, by a solver of cvxpy.

    Returns None where the solver does not apply or fails.
    """
    n_features, n_query_features = tokens[0].shape[1], queries.shape[1]
    rows = np.concatenate(
        [
            (np.delete(x[chosen] - x, chosen, axis=0)[:, :, None] * z).reshape(
                len(x) - 1, -1
            )
            for x, chosen, z in zip(tokens, selected, queries, strict=True)
        ]
    )
    W = cp.Variable((n_features, n_query_features))
    objective = cp.sum_squares(W) if norm == "fro" else cp.normNuc(W)
    problem = cp.Problem(cp.Minimize(objective), [rows @ cp.vec(W, order="C") >= 1])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=solver, **CVXPY_SOLVERS[solver])
    except (cp.SolverError, ValueError):
        return None
    return W.value
