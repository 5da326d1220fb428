"""How the functions of the theory read selections, labels and heads."""

import numpy as np

from skattn.theory._batch import has_length
from skattn.tokens._selection import rows_at_positions


def index_of_position(tokens, selected):
    """Return where the selected token of each sample is among its real tokens."""
    if not selects_one_each(selected):
        raise ValueError(
            f"selected must be an array of {len(tokens)} integers, the position of one "
            "token a sample."
        )
    return rows_at_positions(tokens, selected, name="selected") - tokens.offsets[:-1]


def selects_one_each(selected):
    """Whether a selection is one position a sample, rather than a set of them."""
    try:
        selected = np.asarray(selected)
    except ValueError:
        # Sets of different sizes make no array.
        return False
    return selected.ndim == 1 and selected.dtype not in (bool, object)


def read_selection(tokens, selected):
    """Read which tokens are selected.

    Parameters
    ----------
    tokens : Tokens

    selected : array-like of int of shape (n,), sequence of n array-likes of int, or \
            boolean array-like of the shape of the tokens
        One position a sample, several, or a mask over all positions.

    Returns
    -------
    is_selected : boolean array of shape (n_tokens,)
        One entry a real token.

    Raises
    ------
    ValueError
        If a sample has no token at a position, or none is selected; it names the
        sample.
    """
    is_selected = np.zeros(tokens.n_tokens, dtype=bool)
    if selects_one_each(selected):
        is_selected[rows_at_positions(tokens, selected, name="selected")] = True
        return is_selected
    if not has_length(selected, len(tokens)):
        raise ValueError(
            f"selected must hold one position, or one set of positions, for each of "
            f"the {len(tokens)} samples; got {_amount(selected)}."
        )
    for sample, own in enumerate(selected):
        start, stop = tokens.offsets[sample : sample + 2]
        present = tokens.positions[start:stop]
        wanted = _positions(own, sample, tokens.n_positions[sample])
        absent = np.setdiff1d(wanted, present)
        if absent.size:
            raise ValueError(
                f"selected[{sample}] holds {absent[0]}, but sample {sample} has no "
                f"token at that position; it has {present.size} tokens."
            )
        is_selected[start:stop] = np.isin(present, wanted)
    return is_selected


def _amount(parts):
    return str(len(parts)) if has_length(parts) else repr(parts)


def _positions(own, sample, n_positions):
    own = np.asarray(own)
    if own.dtype == bool:
        if own.shape != (n_positions,):
            raise ValueError(
                f"selected[{sample}] must be positions, or a mask over the "
                f"{n_positions} positions of sample {sample}; got a mask of shape "
                f"{own.shape}."
            )
        own = np.flatnonzero(own)
    if own.size == 0:
        raise ValueError(
            f"selected[{sample}] is empty; every sample must select at least one token."
        )
    if own.ndim > 1 or own.dtype.kind not in "iu":
        raise ValueError(
            f"selected[{sample}] must be integers, the positions of tokens, or a "
            f"boolean mask; got {own.dtype} of shape {own.shape}."
        )
    return np.atleast_1d(own)


def read_per_token(tokens, values, name):
    """Read one number a position into one a real token.

    Parameters
    ----------
    tokens : Tokens

    values : array-like of shape (n, T), or sequence of n array-likes
        One number a position of each sample as given; what absent tokens have is
        ignored.

    name : str
        How an error calls them.

    Returns
    -------
    values : ndarray of shape (n_tokens,)
    """
    if not has_length(values, len(tokens)):
        raise ValueError(
            f"{name} must hold one row for each of the {len(tokens)} samples; got "
            f"{_amount(values)}."
        )
    real = []
    for sample, own in enumerate(values):
        own = np.asarray(own, dtype=np.float64)
        start, stop = tokens.offsets[sample : sample + 2]
        if own.shape != (tokens.n_positions[sample],):
            raise ValueError(
                f"{name}[{sample}] must have shape ({tokens.n_positions[sample]},), "
                f"one number a position of sample {sample}; got {own.shape}."
            )
        real.append(own[tokens.positions[start:stop]])
    return np.concatenate(real)


def read_coef(coef, tokens):
    """Check attention weights against tokens and queries; return them in float64."""
    coef = np.asarray(coef, dtype=np.float64)
    shape = (tokens.n_features,)
    meaning = "one weight a feature of a token"
    if tokens.query is not None:
        shape += (tokens.query.shape[1],)
        meaning = "a row a feature of a token and a column a feature of a query"
    if coef.shape != shape:
        raise ValueError(f"coef must have shape {shape}, {meaning}; got {coef.shape}.")
    if not np.isfinite(coef).all():
        raise ValueError(
            "coef contains NaN or infinity, as the coef of an infeasible problem does."
        )
    return coef


def read_head(head, tokens):
    """Check a linear head against tokens; return it in float64."""
    head = np.asarray(head, dtype=np.float64)
    if head.shape != (tokens.n_features,):
        raise ValueError(
            f"head must have shape ({tokens.n_features},), one weight a feature of a "
            f"token; got shape {head.shape}."
        )
    if not np.isfinite(head).all():
        raise ValueError("head contains NaN or infinity.")
    return head


def signs_of(y, n_samples):
    """Read labels as -1 and 1.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Two labels, the second in sorted order the positive one. Of the labels -1 and 1
        one is enough: random labels of few samples can all be equal.

    n_samples : int or tuple of int
        How many labels there must be; a shape for a batch.

    Returns
    -------
    signs : ndarray of the shape of y
    """
    y = np.asarray(y)
    shape = (n_samples,) if np.ndim(n_samples) == 0 else tuple(n_samples)
    if y.shape != shape:
        raise ValueError(
            f"y must have shape {shape}, one label a sample; got shape {y.shape}."
        )
    labels, codes = np.unique(y, return_inverse=True)
    if y.dtype.kind in "if" and np.isin(labels, (-1, 1)).all():
        return y.astype(np.float64)
    if labels.size != 2:
        raise ValueError(
            f"y must hold two labels, the second in sorted order the positive one; got "
            f"{labels.size}: {labels[:5].tolist()}."
        )
    return 2.0 * codes.reshape(shape) - 1.0
