"""How the functions of the theory read selections, labels and heads."""

import numpy as np

from skattn.tokens._selection import rows_at_positions


def index_of_position(tokens, selected):
    return rows_at_positions(tokens, selected, name="selected") - tokens.offsets[:-1]


def signs_of(y, n_samples):
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
