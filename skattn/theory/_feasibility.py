"""Whether attention weights can select given tokens, with a proof either way."""

from dataclasses import dataclass

import numpy as np

from skattn._input import TokenInput
from skattn.margin import farkas_residual, level_residual, selection_problem
from skattn.theory._attention_svm import attention_svm
from skattn.theory._batch import is_batch
from skattn.theory._reading import read_selection
from skattn.tokens import check_tokens
from skattn.tokens._reading import recognise


@dataclass(frozen=True)
class Feasibility:
    """Whether some W has the margins asked for, and what proves it.

    Attributes
    ----------
    is_feasible : bool or None
        None when neither was proved: the problem is on the brink.

    direction : ndarray of shape (d,) or (d, d_q), or None
        When feasible: a W with a smallest margin of exactly what is asked for, the
        attention SVM in the Frobenius norm.

    certificate : ndarray of shape (n, T), list of ndarray of shape (T_i,), or None
        When infeasible: a weight for each token's row ``dx z'`` whose combination
        vanishes, while that of the margins asked for is above 0. They are at least 0
        and of sum 1 for one selected token a sample (Gordan's theorem); with several
        they have any sign at selected tokens, and absolute values of sum 1 (Farkas'
        lemma).

    residual : float
        How far the proof is from exact, computed from the tokens themselves: of
        `direction` what selected tokens lack of being level, and what margins lack,
        relative to ``|W| |dx z'|``; of `certificate` the size of the combination,
        relative to the sum of the sizes of its terms. NaN without a proof.
    """

    is_feasible: bool | None
    direction: np.ndarray | None
    certificate: np.ndarray | list | None
    residual: float


def feasibility(X, selected, query=None, *, margin=1.0):
    """Tell whether some attention weights put the selected tokens ahead, and prove it.

    With queries of their own, random samples are feasible almost surely when tokens
    have at least T - 1 features and queries at least n (Theorem 2 of arXiv
    2308.16898). A prompt has to serve all samples: only n (T - 1) features make it
    sure.

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`; an ndarray of shape (B, n, T, d) is a
        batch.

    selected : array-like of int of shape (n,), list of n arrays of int, or boolean \
            array of the shape of the tokens
        As in `attention_svm`.

    query : array-like of shape (n, d_q), default=None
        As in `attention_svm`.

    margin : float or array-like of shape (n,), default=1.0
        As in `attention_svm`. The size of a common margin makes no difference.

    Returns
    -------
    feasibility : Feasibility or list of Feasibility
        With fields `is_feasible`, `direction`, `certificate` and `residual`. A batch
        gives a list of B.

    Raises
    ------
    ValueError
        As in `attention_svm`.

    Warns
    -----
    ConvergenceWarning
        If neither was proved.

    Examples
    --------
    The middle one of three tokens on a line cannot be ahead of both others:

    >>> from skattn.theory import feasibility
    >>> result = feasibility([[[-1.0], [0.0], [1.0]]], [1])
    >>> result.is_feasible, result.certificate
    (False, [array([0.5, 0. , 0.5])])
    >>> feasibility([[[-1.0], [0.0], [1.0]]], [2]).direction
    array([1.])
    """
    if is_batch(X):
        solutions = attention_svm(X, selected, query, margin=margin)
        margins = np.asarray(margin, dtype=np.float64)
        parts = (
            X,
            selected,
            [None] * len(X) if query is None else query,
            margins if margins.ndim == 2 else [margins] * len(X),
            solutions,
        )
        return [_proved(*own) for own in zip(*parts, strict=True)]
    solution = attention_svm(X, selected, query, margin=margin)
    return _proved(X, selected, query, margin, solution)


def _proved(X, selected, query, margin, solution):
    form, tokens = recognise(X), check_tokens(X, query=query)
    is_selected = read_selection(tokens, selected)
    problem = selection_problem(tokens, is_selected, query=tokens.query, margin=margin)
    if solution.status == "infeasible":
        residual = farkas_residual(problem, solution.ray[problem.rows])
        certificate = TokenInput(tokens, form).per_token(solution.ray, fill=0.0)
        return Feasibility(False, None, certificate, residual)
    if np.isfinite(solution.objective):
        residual = level_residual(problem, solution.coef)
        return Feasibility(True, solution.coef, None, residual)
    return Feasibility(None, None, None, np.nan)
