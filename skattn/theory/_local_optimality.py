"""Local optimality of a selection of tokens."""

import numpy as np

from skattn.margin import MarginProblem
from skattn.theory._attention_svm import attention_svm
from skattn.theory._reading import index_of_position, signs_of
from skattn.tokens import check_tokens

#: Looser gaps leave margins too uncertain to tell which tokens are at the margin.
_LOCAL_OPTIMALITY_GAP = 1e-9


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
    signs = signs_of(y, len(tokens))
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
        tokens, index_of_position(tokens, selected), query=tokens.query
    )
    is_active = problem.margins(solution.coef) <= 1 + tol
    leads = signs[problem.samples] * (problem.differences @ head)
    return bool(np.all(leads[is_active] > 0))
