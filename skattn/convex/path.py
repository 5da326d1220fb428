"""Solutions for many strengths of the penalty, one from the other."""

from numbers import Integral, Real

import numpy as np

from skattn.convex.solvers import check_request, solve


def beta_path(problem, n_betas=20, ratio=1e-2):
    """Return strengths of the penalty from the least that leaves nothing, down.

    Parameters
    ----------
    problem : ConvexProblem or float
        A problem at any beta, or its `beta_max`.

    n_betas : int, default=20
        How many.

    ratio : float, default=1e-2
        The last as a share of the first, between 0 and 1.

    Returns
    -------
    betas : ndarray of shape (n_betas,)
        In geometric progression from `beta_max`.

    Examples
    --------
    >>> from skattn.convex import beta_path
    >>> beta_path(5.0, n_betas=3)
    array([5.  , 0.5 , 0.05])
    """
    if not (isinstance(n_betas, Integral) and n_betas > 0):
        raise ValueError(f"n_betas must be a positive integer, got {n_betas!r}.")
    if not (isinstance(ratio, Real) and 0 < ratio < 1):
        raise ValueError(f"ratio must be between 0 and 1, got {ratio!r}.")
    largest = problem if isinstance(problem, Real) else problem.beta_max
    # Without any signal in the features, beta_max is 0 and every beta will do.
    largest = max(float(largest), np.finfo(float).eps)
    return np.geomspace(largest, largest * ratio, n_betas)


def convex_path(
    problem,
    betas=None,
    *,
    n_betas=20,
    ratio=1e-2,
    solver="auto",
    tol=1e-4,
    max_iter=None,
    callback=None,
):
    """Solve for decreasing betas, each solution the start of the next.

    Parameters
    ----------
    problem : ConvexProblem
        At any beta.

    betas : array-like of shape (n,), default=None
        Strengths of the penalty, in any order; None for
        :func:`beta_path` of `n_betas` and `ratio`.

    n_betas, ratio : int and float
        As in :func:`beta_path`.

    solver, tol, max_iter, callback : object
        As in :func:`solve`, for each beta. A callback that returns True ends the path
        with that solution.

    Returns
    -------
    solutions : list of ConvexSolution
        By decreasing beta.

    Raises
    ------
    TypeError, ValueError
        As in :func:`solve`, and if a beta is not above 0 or there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import ConvexProblem, convex_path, make_features, make_gates
    >>> tokens = np.random.default_rng(0).standard_normal((20, 3, 2))
    >>> gates = make_gates("mlp", "gated_relu", tokens, rng=0)
    >>> features = make_features(gates, tokens)
    >>> problem = ConvexProblem(features, np.arange(20) % 2, "logistic", beta=1.0)
    >>> [solution.rank for solution in convex_path(problem, n_betas=4)]
    [0, 3, 7, 7]
    """
    check_request(problem, solver, tol, max_iter, None)
    if betas is None:
        betas = beta_path(problem, n_betas, ratio)
    betas = np.sort(np.asarray(betas, dtype=np.float64).ravel())[::-1]
    if not betas.size:
        raise ValueError("betas must hold at least one number, got none.")
    has_stopped = False

    def watched(progress):
        nonlocal has_stopped
        has_stopped = callback(progress) is True
        return has_stopped

    solutions, last = [], None
    for beta in betas:
        last = solve(
            problem.with_beta(float(beta)),
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            start=last,
            callback=None if callback is None else watched,
        )
        solutions.append(last)
        if has_stopped:
            break
    return solutions
