"""Numbers that users give one a token, in the form of the samples."""

import numpy as np

from skattn.tokens._validation import as_float_array


def per_real_token(tokens, given, name):
    """Lay values that are given sample by sample out over the real tokens.

    Parameters
    ----------
    tokens : Tokens
        The samples.

    given : array-like of shape (n_samples, n_positions), or list of arrays
        One row a sample, one entry a position as given; what follows the last token
        may be left out. Absent tokens have 0 or NaN.

    name : str
        How an error calls them.

    Returns
    -------
    values : ndarray of shape (n_tokens,)
        Finite, float64.

    Raises
    ------
    ValueError
        If rows and samples do not agree, a real token has no finite number, or an
        absent one has a number. The message names the sample and the token.
    """
    if hasattr(given, "__array__"):
        given = np.asarray(given)
    n_rows = len(given) if np.iterable(given) else None
    if n_rows != len(tokens):
        raise ValueError(
            f"{name} must have one row a sample and one entry a token: shape "
            f"({len(tokens)}, n_positions), or a list of {len(tokens)} arrays; got "
            f"{'a number' if n_rows is None else f'{n_rows} rows'}."
        )
    positions = np.split(tokens.positions, tokens.offsets[1:-1])
    return np.concatenate(
        [
            _of_sample(row, positions[index], index, name)
            for index, row in enumerate(given)
        ]
    )


def _of_sample(row, positions, index, name):
    row = as_float_array(row, f"{name}[{index}]").astype(np.float64)
    if row.ndim != 1 or len(row) <= positions[-1]:
        raise ValueError(
            f"{name}[{index}] must have one entry for each token of sample {index}, "
            f"the last of which has position {positions[-1]}; got shape {row.shape}."
        )
    values = row[positions]
    if not np.isfinite(values).all():
        at = positions[~np.isfinite(values)][0]
        raise ValueError(
            f"{name}[{index}] contains NaN or infinity at token {at}, which is present."
        )
    is_absent = np.ones(len(row), dtype=bool)
    is_absent[positions] = False
    wrong = is_absent & ~np.isnan(row) & (row != 0)
    if wrong.any():
        raise ValueError(
            f"{name}[{index}] has a number at token {np.flatnonzero(wrong)[0]}, which "
            f"sample {index} does not have; give 0 or NaN there."
        )
    return values
