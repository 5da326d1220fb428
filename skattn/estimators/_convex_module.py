"""From the heads of a convex estimator to torch; imported only when asked for."""

import numpy as np
import torch

from skattn.attention import ConvexHeads, RaggedTokens


def make_module(gates, heads, intercept):
    """Return the `ConvexHeads` of a fitted estimator.

    Parameters
    ----------
    gates : skattn.convex.Gates
        The gates of the heads.

    heads : list of skattn.convex.Heads
        Those of each gate.

    intercept : ndarray of shape (n_outputs,)
        Offsets.
    """
    gate_of_head = np.repeat(
        np.arange(gates.n_gates), [len(of_gate.first) for of_gate in heads]
    )
    vectors = gates.vectors
    if vectors is not None and gates.gate_rank == "rank_one":
        vectors = (gates.left, gates.right)
    return ConvexHeads(
        gates.block,
        np.concatenate([of_gate.first for of_gate in heads]),
        np.concatenate([of_gate.second for of_gate in heads]),
        intercept,
        gates=vectors,
        gate_of_head=None if vectors is None else gate_of_head,
        group_of_head=gates.group[gate_of_head],
        n_groups=gates.n_groups,
    )


def pool(module, tokens):
    """Return what each head of a `ConvexHeads` makes of samples, side by side.

    Parameters
    ----------
    module : ConvexHeads
        The heads.

    tokens : Tokens
        The samples.

    Returns
    -------
    pooled : ndarray of shape (n_samples, n_heads * q)
    """
    with torch.no_grad():
        pooled = module.pooled(RaggedTokens.from_arrays(tokens.values, tokens.offsets))
    n_samples, n_heads, width = pooled.shape
    return pooled.reshape(n_samples, n_heads * width).numpy()
