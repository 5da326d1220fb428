"""The support vector machine that attention converges to."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skattn.margin import MarginProblem, solve, solve_many
from skattn.theory._reading import index_of_position
from skattn.tokens import check_tokens


def attention_svm(
    X, selected, query=None, *, norm="fro", C=np.inf, solver="auto", tol=1e-6
):
    """Solve the support vector machine that attention converges to.

    For a selected token in each sample it is the smallest W with
    ``(x_selected - x_t)' W z >= 1`` for all other tokens t of all samples: the
    direction of gradient descent on attention weights that select these tokens
    (Att-SVM of arXiv 2308.16898). Training W has the Frobenius norm as its bias,
    training keys and queries (W = K Q') the nuclear norm, l_p mirror descent the
    entrywise l_p norm (arXiv 2410.14581). A prompt is a single vector in place of W z
    (arXiv 2306.13596).

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`. An ndarray of shape (B, n, T, d) is a
        batch: B problems of n samples each, solved in one call.

    selected : array-like of int of shape (n,)
        Position of the selected token in each sample as given, absent tokens counted.
        Of shape (B, n) for a batch.

    query : array-like of shape (n, d_q), default=None
        The query z of each sample. None: the queries that `X` carries, or else a
        prompt. Of shape (B, n, d_q) for a batch.

    norm : {"fro", "nuc"} or float, default="fro"
        Frobenius, nuclear, or a number p > 1 for the l_p norm of the entries.

    C : float or array-like of shape (n,), default=inf
        Cost of a unit of slack in a constraint; one number or one a sample. Infinity
        is the hard margin. The soft objective is ``1/2 |W|^2 + sum of C * slack``. A
        batch shares it, or has one a problem and sample: shape (B, n).

    solver : {"auto"} or a key of `skattn.margin.SOLVERS`, default="auto"
        As in `skattn.margin.solve`; for a batch as in `skattn.margin.solve_many`.

    tol : float, default=1e-6
        Relative duality gap to reach.

    Returns
    -------
    solution : MarginSolution or list of MarginSolution
        With `coef` of shape (d,) for a prompt and (d, d_q) with queries, `dual_coef`
        and `slack` per real token, and the certificate. Infeasible hard margins raise
        nothing: `status` is "infeasible", and `ray` proves it. A batch gives a list of
        B solutions.

    Raises
    ------
    ValueError
        If shapes do not agree, a selected token is absent, or a parameter is invalid.

    Warns
    -----
    ConvergenceWarning
        If the gap was not reached.

    Examples
    --------
    >>> from skattn.theory import attention_svm
    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    >>> solution = attention_svm(X, selected=[0])
    >>> solution.coef.round(4), round(solution.objective**2, 4)
    (array([-0.099 ,  0.9901]), 0.9901)
    >>> attention_svm([[[-1.0], [0.0], [1.0]]], selected=[1]).status
    'infeasible'

    A hundred random problems, of 6 samples with 8 tokens each:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, query = rng.normal(size=(100, 6, 8, 10)), rng.normal(size=(100, 6, 10))
    >>> batch = attention_svm(X, rng.integers(8, size=(100, 6)), query)
    >>> np.stack([solution.coef for solution in batch]).shape
    (100, 10, 10)
    """
    if isinstance(X, np.ndarray) and X.ndim == 4:
        solutions = solve_many(
            _batch_of_problems(X, selected, query, C, norm), tol=tol, solver=solver
        )
        worst = max(solutions, key=_gap_above_tolerance)
    else:
        solutions = worst = solve(
            _problem(X, selected, query, C, norm), tol=tol, solver=solver
        )
    if worst.status == "max_iter":
        warnings.warn(
            f"The solver stopped at a relative duality gap of "
            f"{worst.duality_gap:.1e}, above tol={tol:g}.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return solutions


def _problem(X, selected, query, C, norm):
    tokens = check_tokens(X, query=query)
    return MarginProblem(
        tokens,
        index_of_position(tokens, selected),
        query=tokens.query,
        C=C,
        norm=norm,
    )


def _batch_of_problems(X, selected, query, C, norm):
    n_problems, n_samples = X.shape[:2]
    if n_problems == 0:
        raise ValueError("X must hold at least one problem, got a batch of none.")
    selected, C = np.asarray(selected), np.asarray(C, dtype=np.float64)
    queries = [None] * n_problems if query is None else np.asarray(query)
    if selected.shape != (n_problems, n_samples):
        raise ValueError(
            f"selected must have shape ({n_problems}, {n_samples}), one index a sample "
            f"of each problem in the batch; got shape {selected.shape}."
        )
    if len(queries) != n_problems:
        raise ValueError(
            f"query must have shape ({n_problems}, {n_samples}, n_query_features), one "
            f"row a sample of each problem in the batch; got shape {queries.shape}."
        )
    if C.shape not in ((), (n_samples,), (n_problems, n_samples)):
        raise ValueError(
            f"C must be a number or have shape ({n_samples},) or "
            f"({n_problems}, {n_samples}), one a sample; got shape {C.shape}."
        )
    costs = C if C.ndim == 2 else [C if C.ndim else float(C)] * n_problems
    return [
        _problem(*parts, norm)
        for parts in zip(X, selected, queries, costs, strict=True)
    ]


def _gap_above_tolerance(solution):
    return solution.duality_gap if solution.status == "max_iter" else -1.0
