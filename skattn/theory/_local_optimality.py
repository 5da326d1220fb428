"""Local optimality of a selection of tokens."""

from typing import NamedTuple

import numpy as np

from skattn.margin import MarginProblem
from skattn.theory._attention_svm import attention_svm
from skattn.theory._batch import check_batch, is_batch, naming_problem
from skattn.theory._checks import heads_of
from skattn.theory._reading import index_of_position, read_head, signs_of
from skattn.tokens import Tokens, check_tokens

#: Looser gaps leave margins too uncertain to tell which tokens are at the margin.
_LOCAL_OPTIMALITY_GAP = 1e-9


def is_locally_optimal(
    X,
    y,
    head,
    selected,
    query=None,
    *,
    norm="fro",
    tol=1e-3,
    return_violations=False,
):
    """Tell whether a selection of tokens is a local optimum of attention.

    A selection is locally optimal when in each sample it scores above every token at
    its margin: ``y head'x_selected > y head'x_t`` for all t whose margin in the
    attention SVM of that selection is at most 1 + `tol` (Definition 2 of
    arXiv 2308.16898). To such selections gradient descent converges from nearby.

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`; an ndarray of shape (B, n, T, d) is a
        batch.

    y : array-like of shape (n,)
        Two labels; the second in sorted order is the positive one. Labels of -1 and 1
        can all be equal. Of shape (B, n) for a batch.

    head : array-like of shape (d,)
        The linear head v that scores tokens. For a batch shared, or of shape (B, d).

    selected : array-like of int of shape (n,)
        Position of the selected token in each sample as given. Of shape (B, n) for a
        batch.

    query : array-like of shape (n, d_q), default=None
        As in `attention_svm`.

    norm : {"fro", "nuc"} or float, default="fro"
        The norm that belongs to the parametrisation: "fro" for W or a prompt, "nuc"
        for keys and queries.

    tol : float, default=1e-3
        Margins up to ``1 + tol`` count as active.

    return_violations : bool, default=False
        Whether to return also the tokens that stand in the way.

    Returns
    -------
    is_optimal : bool
        Tokens equal to the selected one are ignored: no attention tells them apart. A
        boolean array of shape (B,) for a batch.

    violations : int array of shape (n_violations, 2)
        Sample and position of each token at the margin that does not score below the
        selected one; none where the selection is locally optimal. A list of B such
        arrays for a batch. Only returned if `return_violations`.

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
    >>> is_locally_optimal(
    ...     X, y, head=[-1.0, 2.0], selected=[1, 0], return_violations=True
    ... )
    (False, array([[0, 2]]))
    """
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, got {tol!r}.")
    if is_batch(X):
        violations = _violations_of_batch(X, y, head, selected, query, norm, tol)
        is_optimal = np.array([len(own) == 0 for own in violations])
    else:
        tokens = check_tokens(X, query=query)
        instance = _read(tokens, signs_of(y, len(tokens)), head, selected)
        solution = attention_svm(tokens, selected, norm=norm, tol=_LOCAL_OPTIMALITY_GAP)
        violations = _violations(instance, solution, tol)
        is_optimal = len(violations) == 0
    return (is_optimal, violations) if return_violations else is_optimal


class _Instance(NamedTuple):
    tokens: Tokens
    index: np.ndarray
    signs: np.ndarray
    head: np.ndarray


def _read(tokens, signs, head, selected):
    index = index_of_position(tokens, selected)
    return _Instance(tokens, index, signs, read_head(head, tokens))


def _violations_of_batch(X, y, head, selected, query, norm, tol):
    check_batch(X, selected=selected, query=query)
    signs, heads = signs_of(y, X.shape[:2]), heads_of(head, len(X))
    queries = [None] * len(X) if query is None else query
    instances = []
    for index, own in enumerate(zip(X, queries, signs, heads, selected, strict=True)):
        with naming_problem(index):
            tokens = check_tokens(own[0], query=own[1])
            instances.append(_read(tokens, *own[2:]))
    solutions = attention_svm(X, selected, query, norm=norm, tol=_LOCAL_OPTIMALITY_GAP)
    violations = []
    for index, own in enumerate(zip(instances, solutions, strict=True)):
        with naming_problem(index):
            violations.append(_violations(*own, tol))
    return violations


def _violations(instance, solution, tol):
    """Return sample and position of active tokens that score no less."""
    if not np.isfinite(solution.objective):
        raise ValueError(
            "The attention SVM of this selection is infeasible: no attention weights "
            "were found that put the selected tokens ahead in all samples (solver "
            f"status {solution.status!r}), so that local optimality is not defined."
        )
    tokens = instance.tokens
    problem = MarginProblem(tokens, instance.index, query=tokens.query)
    is_active = problem.margins(solution.coef) <= 1 + tol
    leads = instance.signs[problem.samples] * (problem.differences @ instance.head)
    is_violated = is_active & ~(leads > 0)
    positions = tokens.positions[problem.rows]
    return np.column_stack([problem.samples, positions])[is_violated]
