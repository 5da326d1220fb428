"""How well two directions agree."""

import numpy as np

from skattn.theory._reading import read_floats


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
    A, B = read_floats(A, "A"), read_floats(B, "B")
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
