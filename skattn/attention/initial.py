"""The two laws that first weights are drawn by."""

import numpy as np


def glorot(rng, shape, fan_in):
    """Draw from ±sqrt(6 / (fan_in + fan_out)), the last axis being that of outputs."""
    bound = np.sqrt(6.0 / (fan_in + shape[-1]))
    return rng.uniform(-bound, bound, size=shape)


def uniform(rng, shape, width):
    """Draw from ±1/sqrt(width)."""
    bound = 1.0 / np.sqrt(width)
    return rng.uniform(-bound, bound, size=shape)
