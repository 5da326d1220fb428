"""What several scripts ask of random instances and of their solutions."""

import numpy as np


def best_tokens(data):
    """Return the token of the highest score ``y x'head`` in each sample: (B, n)."""
    values = np.einsum("bntd,bd->bnt", data.X, data.head)
    return (data.y[:, :, None] * values).argmax(axis=2)


def directions_of(solutions):
    """Return the weights of a batch of SVMs as one array; NaN where infeasible."""
    return np.stack([solution.coef for solution in solutions])
