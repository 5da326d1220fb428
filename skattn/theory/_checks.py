"""What selections and attention weights are like, as numbers to look at."""

from numbers import Real

import numpy as np

from skattn._input import TokenInput
from skattn.margin import selection_problem
from skattn.margin.solution import RANK_TOLERANCE, rank_of
from skattn.theory._batch import check_batch, is_batch, naming_problem
from skattn.theory._reading import (
    index_of_position,
    read_coef,
    read_head,
    read_selection,
    signs_of,
)
from skattn.tokens import check_tokens
from skattn.tokens._reading import recognise
from skattn.tokens._selection import owners


def margins(X, selected, coef, query=None):
    """Return how far attention weights put the selected tokens ahead of the others.

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`; an ndarray of shape (B, n, T, d) is a
        batch.

    selected : array-like of int of shape (n,), list of n arrays of int, or boolean \
            array of the shape of the tokens
        As in `attention_svm`.

    coef : array-like of shape (d,) or (d, d_q)
        The attention weights W. Of shape (B, d) or (B, d, d_q) for a batch.

    query : array-like of shape (n, d_q), default=None
        As in `attention_svm`.

    Returns
    -------
    margins : ndarray of shape (n, T), or list of ndarray of shape (T_i,)
        ``(x_selected - x_t)' W z`` for each token t; from several selected tokens the
        smallest. Infinite where the attention SVM asks for no margin: at selected
        tokens, at tokens equal to a selected one, and at absent ones. Thus
        ``margins.min()`` is the smallest margin. A list for lists and `Tokens`; of
        shape (B, n, T) for a batch.

    Raises
    ------
    ValueError
        If shapes do not agree, a selected token is absent, or `coef` is not finite.

    Examples
    --------
    >>> from skattn.theory import margins
    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [1.0, 0.0]]]
    >>> margins(X, [1, 0], coef=[1.0, 0.0])
    [array([1.1, inf, 1. ]), array([inf,  1.])]
    """
    if is_batch(X):
        check_batch(X, selected=selected, coef=coef, query=query)
        queries = [None] * len(X) if query is None else query
        results = []
        for index, parts in enumerate(zip(X, selected, coef, queries, strict=True)):
            with naming_problem(index):
                results.append(margins(*parts))
        return np.stack(results)
    form, tokens = recognise(X), check_tokens(X, query=query)
    problem = selection_problem(
        tokens, read_selection(tokens, selected), query=tokens.query
    )
    coef = read_coef(coef, tokens)
    ahead = problem.constraints.margins(coef)
    is_level, samples = problem.is_equality, owners(tokens)[problem.rows]
    # All rows compare with the first selected token; the lowest one counts.
    lead_of_first = np.zeros(len(tokens))
    np.maximum.at(lead_of_first, samples[is_level], ahead[is_level])
    values = np.full(tokens.n_tokens, np.inf)
    values[problem.rows[~is_level]] = (ahead - lead_of_first[samples])[~is_level]
    return TokenInput(tokens, form).per_token(values, fill=np.inf)


def selected_set(attention_weights, threshold=1e-3):
    """Tell which tokens attention keeps.

    Parameters
    ----------
    attention_weights : array-like of shape (..., T), or list of arrays (..., T_i)
        Attention weights of any number of samples and heads; absent tokens have 0.

    threshold : float, default=1e-3
        Weights above it count; the papers' 1e-3 is the default.

    Returns
    -------
    is_selected : boolean array of the shape of `attention_weights`, or list of such
        A form of `selected` that `attention_svm` reads.

    Raises
    ------
    ValueError
        If weights are not finite, or `threshold` is not within [0, 1).

    Examples
    --------
    >>> from skattn.theory import selected_set
    >>> selected_set([[0.7, 0.2999, 0.0001], [0.0, 1.0, 0.0]])
    array([[ True,  True, False],
           [False,  True, False]])
    """
    if not (isinstance(threshold, Real) and 0 <= threshold < 1):
        raise ValueError(f"threshold must be within [0, 1), got {threshold!r}.")
    return _for_rows(attention_weights, lambda weights: weights > threshold)


def saturation(attention_weights, *, complement=False):
    """Return the top weight of each sample: 1 when attention has saturated.

    Parameters
    ----------
    attention_weights : array-like of shape (..., T), or list of n arrays (..., T_i)
        Attention weights of any number of samples and heads; absent tokens have 0.

    complement : bool, default=False
        Whether to return what the other tokens have instead, ``1 - saturation``. It
        is their sum, which keeps its digits when the top weight has rounded to 1.

    Returns
    -------
    saturation : ndarray of shape (...), or (n, ...) for a list
        `saturation.min()` and `saturation.mean()` sum it up.

    Raises
    ------
    ValueError
        If weights are not finite.

    Examples
    --------
    >>> from skattn.theory import saturation
    >>> saturation([[0.75, 0.25], [1.0, 1e-30]])
    array([0.75, 1.  ])
    >>> saturation([[0.75, 0.25], [1.0, 1e-30]], complement=True)
    array([2.5e-01, 1.0e-30])
    """

    def of_row(weights):
        if weights.shape[-1] == 0:
            raise ValueError("attention_weights must hold at least one token a sample.")
        ordered = np.sort(weights, axis=-1)
        return ordered[..., :-1].sum(axis=-1) if complement else ordered[..., -1]

    return np.asarray(_for_rows(attention_weights, of_row))


def effective_rank(coef, tol=RANK_TOLERANCE):
    """Count the singular values above a share of the largest.

    Parameters
    ----------
    coef : array-like of shape (d,), (d, d_q) or (..., d, d_q)
        Attention weights; with more than two axes a stack of them.

    tol : float, default=1e-3
        The share, within [0, 1).

    Returns
    -------
    rank : int, or int array of shape (...)
        0 for weights of zero.

    Raises
    ------
    ValueError
        If `coef` has no axis or is not finite, or `tol` is not within [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.theory import effective_rank
    >>> effective_rank(np.diag([1.0, 0.5, 1e-6]))
    2
    """
    if not (isinstance(tol, Real) and 0 <= tol < 1):
        raise ValueError(f"tol must be within [0, 1), got {tol!r}.")
    coef = np.asarray(coef, dtype=np.float64)
    if coef.ndim == 0:
        raise ValueError("coef must be an array of at least one axis, got a scalar.")
    if not np.isfinite(coef).all():
        raise ValueError("coef contains NaN or infinity.")
    return rank_of(coef, tol)


def global_optimality(X, y, head, selected):
    """Tell in which samples the selected token is the best one.

    The best token of a sample has the highest score ``y head'x_t``. With the loss
    decreasing in the score, a selection of the best tokens everywhere is the global
    optimum of attention (section 3 of arXiv 2308.16898); others can be local optima,
    see `is_locally_optimal`.

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

    Returns
    -------
    is_best : boolean array of shape (n,)
        Whether no token scores higher than the selected one. ``is_best.all()`` is
        global optimality. Of shape (B, n) for a batch.

    Raises
    ------
    ValueError
        If shapes do not agree, `y` does not hold two labels, `head` is not finite, or
        a selected token is absent.

    Examples
    --------
    >>> from skattn.theory import global_optimality
    >>> X = [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]
    >>> global_optimality(X, ["no", "yes"], head=[1.0, 0.0], selected=[1, 1])
    array([False,  True])
    """
    if is_batch(X):
        check_batch(X, selected=selected)
        signs = signs_of(y, X.shape[:2])
        results = []
        for index, parts in enumerate(
            zip(X, signs, heads_of(head, len(X)), selected, strict=True)
        ):
            with naming_problem(index):
                results.append(global_optimality(*parts))
        return np.stack(results)
    tokens = check_tokens(X)
    signs, head = signs_of(y, len(tokens)), read_head(head, tokens)
    rows = tokens.offsets[:-1] + index_of_position(tokens, selected)
    samples = owners(tokens)
    # Of the difference, not of the scores: equal tokens are level to the last digit.
    leads = signs[samples] * ((tokens.values[rows][samples] - tokens.values) @ head)
    return np.minimum.reduceat(leads, tokens.offsets[:-1]) >= 0


def heads_of(head, n_problems):
    """Return one head a problem of a batch, which may share one."""
    head = np.asarray(head, dtype=np.float64)
    if head.ndim == 2 and len(head) != n_problems:
        raise ValueError(
            f"head must have shape (d,) or ({n_problems}, d), one head a problem of "
            f"the batch; got {head.shape}."
        )
    return head if head.ndim == 2 else [head] * n_problems


def _for_rows(attention_weights, function):
    try:
        array = np.asarray(attention_weights, dtype=np.float64)
    except ValueError:
        # Samples of different lengths make no array.
        parts = [_check_weights(weights) for weights in attention_weights]
        return [function(weights) for weights in parts]
    array = _check_weights(array)
    is_list = isinstance(attention_weights, (list, tuple)) and all(
        isinstance(weights, np.ndarray) for weights in attention_weights
    )
    # A list of arrays stays one, whatever their lengths.
    return [function(weights) for weights in array] if is_list else function(array)


def _check_weights(weights):
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim == 0:
        raise ValueError("attention_weights must be an array, got a scalar.")
    if not np.isfinite(weights).all():
        raise ValueError("attention_weights contains NaN or infinity.")
    return weights
