"""The weights of the block that a solution of the convex problem stands for."""

from typing import NamedTuple

import numpy as np

from skattn.convex._spectra import thin_factors
from skattn.convex.solution import RANK_TOLERANCE, ConvexSolution


class Heads(NamedTuple):
    """Heads of one gate.

    Attributes
    ----------
    first : ndarray of shape (r, d, d), (r, d), (r, s, s) or (r, s * d / B)
        First layers, of "self_attention", "mlp", "mixer" and "fno".

    second : ndarray of shape (r, d, c) or (r, c)
        Second layers, of "self_attention" and "mixer", or "mlp" and "fno".
    """

    first: np.ndarray
    second: np.ndarray


def recover_heads(solution, gates, n_outputs=None):
    """Return the heads whose block with weight decay has the value of a solution.

    The singular vectors of each Z_g, times the root of the singular value: the left
    one read column by column is the first layer, the right one row by row the second.
    Half the sum of all squares is the sum of the nuclear norms.

    Parameters
    ----------
    solution : ConvexSolution or ndarray of shape (n_gates, p, q * n_outputs)
        The solution, or its `coef`.

    gates : Gates
        Those of the solution.

    n_outputs : int, default=None
        Number of outputs; None takes it from the shape.

    Returns
    -------
    heads : list of Heads
        One entry a gate, with as many heads as the rank of its matrix.

    Raises
    ------
    ValueError
        If the shapes do not fit the gates.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import make_gates, recover_heads
    >>> gates = make_gates("mlp", "gated_relu", np.ones((1, 1, 2)), 1, rng=0)
    >>> [heads] = recover_heads(np.array([[[0.0, 4.0], [0.0, 0.0]]]), gates)
    >>> abs(heads.first), abs(heads.second)
    (array([[2., 0.]]), array([[0., 2.]]))
    """
    coef = solution.coef if isinstance(solution, ConvexSolution) else solution
    coef = np.asarray(coef, dtype=np.float64)
    numbers = int(np.prod(gates.coef_shape(1)))
    if n_outputs is None:
        n_outputs = max(coef.size // numbers, 1)
    if coef.shape != gates.coef_shape(n_outputs):
        raise ValueError(
            f"coef must have shape {gates.coef_shape(n_outputs)} for these gates and "
            f"{n_outputs} output(s), got {coef.shape}."
        )
    n_columns = gates.matrix_shape[1]
    second_shape = (n_outputs,) if n_columns == 1 else (n_columns, n_outputs)
    heads = []
    for left, right in thin_factors(coef, RANK_TOLERANCE):
        first = left.T.reshape(-1, *gates.first_shape[::-1])
        # Rows of Z count the columns of the first layer slowly.
        if first.ndim == 3:
            first = first.transpose(0, 2, 1)
        heads.append(
            Heads(np.ascontiguousarray(first), right.T.reshape(-1, *second_shape))
        )
    return heads
