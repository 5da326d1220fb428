"""The theory of attention as max-margin token selection, as functions.

The theorems are those of arXiv 2308.16898, "Transformers as Support Vector Machines",
and arXiv 2306.13596, "Max-Margin Token Selection in Attention Mechanism".
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skattn.margin import MarginProblem, attention_svm_path, solve, solve_many
from skattn.tokens import check_tokens
from skattn.tokens._selection import rows_at_positions

__all__ = [
    "alignment",
    "attention_svm",
    "attention_svm_path",
    "is_locally_optimal",
]

#: Looser gaps leave margins too uncertain to tell which tokens are at the margin.
_LOCAL_OPTIMALITY_GAP = 1e-9


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


def alignment(A, B):
    """Cosine of the angle between two weight arrays.

    Parameters
    ----------
    A, B : array-like of equal shape
        For instance the weights of a trained attention and the `coef` of
        `attention_svm`.

    Returns
    -------
    cosine : float
        ``<A, B> / (|A| |B|)`` with Frobenius product and norms, in [-1, 1].

    Raises
    ------
    ValueError
        If the shapes differ, or an array is zero or not finite.

    Examples
    --------
    >>> from skattn.theory import alignment
    >>> alignment([[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 2.0]])
    0.8
    """
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    if A.shape != B.shape:
        raise ValueError(f"A and B must have one shape, got {A.shape} and {B.shape}.")
    directions = []
    for name, array in (("A", A), ("B", B)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} contains NaN or infinity.")
        size = np.abs(array).max(initial=0.0)
        if size == 0:
            raise ValueError(f"{name} is zero: it has no direction.")
        scaled = array / size
        directions.append(scaled / np.linalg.norm(scaled))
    return float(np.clip(np.sum(directions[0] * directions[1]), -1.0, 1.0))


def is_locally_optimal(X, y, head, selected, query=None, *, norm="fro", tol=1e-3):
    """Tell whether a selection of tokens is a local optimum of attention.

    A selection is locally optimal when in each sample it scores above every token at
    its margin: ``y head'x_selected > y head'x_t`` for all t whose margin in the
    attention SVM of that selection is at most 1 + `tol` (Definition 2 of
    arXiv 2308.16898). To such selections gradient descent converges from nearby.

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`.

    y : array-like of shape (n,)
        Two labels; the second in sorted order is the positive one.

    head : array-like of shape (d,)
        The linear head v that scores tokens.

    selected : array-like of int of shape (n,)
        Position of the selected token in each sample as given.

    query : array-like of shape (n, d_q), default=None
        As in `attention_svm`.

    norm : {"fro", "nuc"} or float, default="fro"
        The norm that belongs to the parametrisation: "fro" for W or a prompt, "nuc"
        for keys and queries.

    tol : float, default=1e-3
        Margins up to ``1 + tol`` count as active.

    Returns
    -------
    is_optimal : bool
        Tokens equal to the selected one are ignored: no attention tells them apart.

    Raises
    ------
    ValueError
        If the attention SVM of the selection is infeasible, `y` does not hold two
        labels, shapes do not agree, or `tol` is negative.

    Warns
    -----
    ConvergenceWarning
        If the SVM was not solved to a relative gap of 1e-9, which leaves the margins
        uncertain.

    Examples
    --------
    The head scores the second token of the first sample above the third:

    >>> from skattn.theory import is_locally_optimal
    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]]
    >>> y = ["yes", "no"]
    >>> is_locally_optimal(X, y, head=[1.0, 2.0], selected=[1, 0])
    True
    >>> is_locally_optimal(X, y, head=[-1.0, 2.0], selected=[1, 0])
    False
    """
    tokens = check_tokens(X, query=query)
    signs = _signs(y, len(tokens))
    head = np.asarray(head, dtype=np.float64)
    if head.shape != (tokens.n_features,):
        raise ValueError(
            f"head must have shape ({tokens.n_features},), one weight a feature of a "
            f"token; got shape {head.shape}."
        )
    if not np.isfinite(head).all():
        raise ValueError("head contains NaN or infinity.")
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, got {tol!r}.")
    solution = attention_svm(tokens, selected, norm=norm, tol=_LOCAL_OPTIMALITY_GAP)
    if not np.isfinite(solution.objective):
        raise ValueError(
            "The attention SVM of this selection is infeasible: no attention weights "
            "were found that put the selected tokens ahead in all samples (solver "
            f"status {solution.status!r}), so that local optimality is not defined."
        )
    problem = MarginProblem(
        tokens, _index_of_position(tokens, selected), query=tokens.query
    )
    is_active = problem.margins(solution.coef) <= 1 + tol
    leads = signs[problem.samples] * (problem.differences @ head)
    return bool(np.all(leads[is_active] > 0))


def _problem(X, selected, query, C, norm):
    tokens = check_tokens(X, query=query)
    return MarginProblem(
        tokens,
        _index_of_position(tokens, selected),
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


def _index_of_position(tokens, selected):
    return rows_at_positions(tokens, selected, name="selected") - tokens.offsets[:-1]


def _signs(y, n_samples):
    y = np.asarray(y)
    if y.shape != (n_samples,):
        raise ValueError(
            f"y must have shape ({n_samples},), one label a sample; got shape "
            f"{y.shape}."
        )
    labels, codes = np.unique(y, return_inverse=True)
    if labels.size != 2:
        raise ValueError(
            f"y must hold two labels, the second in sorted order the positive one; got "
            f"{labels.size}: {labels[:5].tolist()}."
        )
    return 2.0 * codes - 1.0
