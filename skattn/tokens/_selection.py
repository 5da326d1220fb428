"""Between samples, positions as users name tokens, and rows of the container."""

import numpy as np


def owners(tokens):
    """Return the sample of each token, of shape (n_tokens,)."""
    return np.repeat(np.arange(len(tokens)), tokens.lengths)


def rows_at_positions(tokens, positions, name="positions"):
    """Return the row of the token at a given position of each sample.

    Parameters
    ----------
    tokens : Tokens or TableTokens
        The samples.

    positions : array-like of shape (n_samples,)
        One position a sample, counted in the sample as given.

    name : str, default="positions"
        How an error calls them.

    Returns
    -------
    rows : ndarray of shape (n_samples,)
        Rows of ``tokens.values``.

    Raises
    ------
    ValueError
        If a sample has no token at its position; the message names it.
    """
    positions = np.asarray(positions)
    if positions.shape != (len(tokens),) or positions.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be an array of {len(tokens)} integers, the position of one "
            f"token a sample; got {positions.dtype} of shape {positions.shape}."
        )
    sample_of_token = owners(tokens)
    rows = np.flatnonzero(tokens.positions == positions[sample_of_token])
    if len(rows) < len(tokens):
        sample = np.setdiff1d(np.arange(len(tokens)), sample_of_token[rows])[0]
        raise ValueError(
            f"{name}[{sample}] is {positions[sample]}, but sample {sample} has no "
            f"token at that position; it has {tokens.lengths[sample]} tokens."
        )
    return rows
