"""The few linear operations on tokens that estimators need, in numpy.

Each works on :class:`skattn.Tokens` and on a table, whose tokens stay factored: the
token ``[e_t, x e_t]`` of a cell has two non-zeros and is never laid out.
"""

import numpy as np
from scipy import sparse

from skattn.tokens._selection import owners
from skattn.tokens._table import TableTokens


def project(tokens, matrix):
    """Return ``x' matrix`` for every token x, of shape (n_tokens, n_columns)."""
    if isinstance(tokens, TableTokens):
        which, times_cell = np.split(matrix, 2)
        projected = which + tokens.cells[:, :, None] * times_cell
        return projected.reshape(-1, matrix.shape[1])
    return tokens.values @ matrix


def project_by_sample(tokens, vectors):
    """Return ``x_it' vectors[i]`` for every token, of shape (n_tokens,)."""
    if isinstance(tokens, TableTokens):
        which, times_cell = np.split(vectors, 2, axis=1)
        return (which + tokens.cells * times_cell).ravel()
    return np.einsum("td,td->t", tokens.values, vectors[owners(tokens)])


def pool(tokens, weights):
    """Return ``sum_t weights_it x_it``, of shape (n_samples, n_features)."""
    if isinstance(tokens, TableTokens):
        weights = weights.reshape(tokens.cells.shape)
        return np.hstack([weights, weights * tokens.cells])
    n_tokens = len(weights)
    selection = sparse.csr_array(
        (weights, np.arange(n_tokens), tokens.offsets), shape=(len(tokens), n_tokens)
    )
    return selection @ tokens.values


def mean(tokens):
    """Return the mean token of each sample, of shape (n_samples, n_features)."""
    return pool(tokens, np.repeat(1.0 / tokens.lengths, tokens.lengths))


def token_rows(tokens, rows):
    """Return the tokens in `rows` as an array of shape (len(rows), n_features)."""
    if isinstance(tokens, TableTokens):
        samples, columns = np.divmod(rows, tokens.cells.shape[1])
        dense = np.zeros((len(rows), tokens.n_features))
        dense[np.arange(len(rows)), columns] = 1.0
        n_columns = tokens.cells.shape[1]
        dense[np.arange(len(rows)), n_columns + columns] = tokens.cells[
            samples, columns
        ]
        return dense
    return tokens.values[rows]


def first_best_rows(scores, offsets, rtol=1e-9):
    """Return the row of the highest score of each sample, the first among equals.

    Scores closer than `rtol` times the largest magnitude in their sample count as
    equal, so that a choice hangs neither on rounding nor on other samples.

    Parameters
    ----------
    scores : ndarray of shape (n_tokens,)
        One score a token.

    offsets : ndarray of shape (n_samples + 1,)
        Where samples start.

    rtol : float, default=1e-9
        Relative tolerance.
    """
    best = np.maximum.reduceat(scores, offsets[:-1])
    slack = rtol * np.maximum.reduceat(np.abs(scores), offsets[:-1])
    near = np.flatnonzero(scores >= np.repeat(best - slack, np.diff(offsets)))
    return near[np.searchsorted(near, offsets[:-1])]
