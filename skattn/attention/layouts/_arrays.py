"""NumPy arrays as tensors."""

import numpy as np
import torch


def float_matrix(array, name, dtype, device):
    """Return a 2-D array as a tensor."""
    array = np.asarray(array)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be a 2-D array with at least one row and one column, got "
            f"an array of shape {array.shape}."
        )
    return torch.tensor(np.ascontiguousarray(array), dtype=dtype, device=device)
