"""The relative duality gap of a solution, computed from the tokens alone.

Nothing of skattn is used here, so that no solver vouches for itself.
"""

import numpy as np


def gap_of(coef, dual_coef, tokens, selected, queries, C, norm):
    """Relative gap between the bounds that `coef` and `dual_coef` prove.

    Parameters
    ----------
    coef : ndarray of shape (d,) or (d, d_q)

    dual_coef : ndarray of shape (n_tokens,) or None
        One value a token, samples end to end. None: only the value is of interest.

    tokens : sequence of (T_i, d) arrays

    selected : int array of shape (n,)

    queries : ndarray of shape (n, d_q) or None

    C : float
        Infinity for the hard margin.

    norm : "fro", "nuc" or float

    Returns
    -------
    gap : float
        Infinite without a feasible `coef`; NaN without duals.

    value : float
        The upper bound.
    """
    size, dual_size = _norms(norm)
    smallest, slack, total = np.inf, 0.0, 0.0
    adjoint = np.zeros_like(coef)
    first = 0
    for sample, chosen in enumerate(selected):
        x = tokens[sample]
        direction = coef if queries is None else coef @ queries[sample]
        scores = x @ direction
        margins = np.delete(scores[chosen] - scores, chosen)
        smallest = min(smallest, margins.min(initial=np.inf))
        slack += np.maximum(1 - margins, 0).sum()
        if dual_coef is not None:
            own = np.clip(dual_coef[first : first + len(x)], 0, C)
            own[chosen] = 0
            total += own.sum()
            part = own.sum() * x[chosen] - own @ x
            adjoint += part if queries is None else np.outer(part, queries[sample])
        first += len(x)
    if np.isinf(C):
        upper = size(coef) / smallest if smallest > 0 else np.inf
        lower = total / dual_size(adjoint) if total > 0 else 0.0
    else:
        upper = 0.5 * size(coef) ** 2 + C * slack
        lower = total - 0.5 * dual_size(adjoint) ** 2
    if np.isinf(upper):
        return np.inf, upper
    return (np.nan if dual_coef is None else (upper - lower) / upper), upper


def rank_of(coef, tolerance=1e-3):
    singular = np.linalg.svd(np.atleast_2d(coef), compute_uv=False)
    return int(np.sum(singular > tolerance * singular[0]))


def _norms(norm):
    if norm == "fro":
        return np.linalg.norm, np.linalg.norm
    if norm == "nuc":
        return (lambda w: np.linalg.norm(w, "nuc")), (lambda a: np.linalg.norm(a, 2))
    q = norm / (norm - 1)
    return (
        lambda w: np.linalg.norm(w.ravel(), norm),
        lambda a: np.linalg.norm(a.ravel(), q),
    )
