"""The heads of a convex program as a torch module, which can be trained further."""

import torch
from torch import nn

__all__ = ["BLOCKS", "ConvexHeads"]

# Entries of the largest array that a forward pass makes at once.
_LARGEST = 2**24


class ConvexHeads(nn.Module):
    """One block of heads without a softmax, averaged over the tokens of a sample.

    With the tokens of a sample in the rows of X, head j adds the mean over tokens of

    - ``(M (X W1 X')) X W2`` in ``block="self_attention"``,
    - ``M (X w1) w2'`` in ``block="mlp"``,
    - ``(M (W1 X)) W2`` in ``block="mixer"``,
    - ``M (circ(X) w1) w2'`` in ``block="fno"``, with the cyclic shifts of the tokens,
      newest first, side by side in the rows of circ(X),

    where M is the mask of the gate of the head, multiplied entry by entry: 1 where
    ``X U X'``, ``X h``, ``H X`` or ``circ(X) h`` is not negative, or everywhere without
    gates [1]_. At the heads that a convex program recovers, the loss plus `beta` times
    :meth:`penalty` equals the optimum of the program.

    Parameters
    ----------
    block : {"self_attention", "mlp", "mixer", "fno"}
        What the heads compute.
    first : array of shape (n_heads, ...)
        W1 of each head: (d, d), (d,), (s, s) or (s * d / n_groups,) for the blocks in
        this order, of d features and s tokens.
    second : array of shape (n_heads, q, n_outputs) or (n_heads, n_outputs)
        W2 of each head; q is d for self-attention and mixer, and absent for the others.
    intercept : array of shape (n_outputs,)
        Added to every output.
    gates : array of shape (n_gates, ...), or pair of such, default=None
        U, h, H or h of each gate, of the shape of W1; a pair of (n_gates, d) arrays
        stands for the products ``U = left right'``. None for no gates.
    gate_of_head : int array of shape (n_heads,), default=None
        The gate of each head. Needed with gates.
    group_of_head : int array of shape (n_heads,), default=None
        The block of features that each head of ``block="fno"`` looks at, of `n_groups`
        blocks of equal width.
    n_groups : int, default=1
        Number of such blocks.

    References
    ----------
    .. [1] Sahiner et al., "Unraveling Attention via Convex Duality: Analysis and
       Interpretations of Vision Transformers", ICML 2022, arXiv 2205.08078.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.attention import ConvexHeads, RaggedTokens
    >>> heads = ConvexHeads("mlp", [[2.0, 0.0]], [[1.0]], [0.5])
    >>> tokens = RaggedTokens.from_arrays(np.eye(2), [0, 1, 2])
    >>> heads(tokens).detach()
    tensor([[2.5000],
            [0.5000]], dtype=torch.float64)
    >>> heads.penalty().item()
    2.5
    """

    def __init__(
        self,
        block,
        first,
        second,
        intercept,
        *,
        gates=None,
        gate_of_head=None,
        group_of_head=None,
        n_groups=1,
    ):
        super().__init__()
        if block not in BLOCKS:
            raise ValueError(f"block must be one of {sorted(BLOCKS)}; got {block!r}.")
        if (gates is None) != (gate_of_head is None):
            raise ValueError("gates and gate_of_head must be passed together.")
        self.block, self.n_groups = block, n_groups
        self.first = nn.Parameter(_tensor(first))
        second = _tensor(second)
        self.second = nn.Parameter(second)
        self.intercept = nn.Parameter(_tensor(intercept))
        n_heads = len(self.first)
        if len(second) != n_heads:
            raise ValueError(
                f"first has {n_heads} heads, but second has {len(second)}."
            )
        pair = gates if isinstance(gates, tuple) else (gates, None)
        self.register_buffer("gates", _tensor(pair[0]))
        self.register_buffer("gates_right", _tensor(pair[1]))
        self.register_buffer("gate_of_head", _indices(gate_of_head))
        if group_of_head is None:
            group_of_head = torch.zeros(n_heads, dtype=torch.int64)
        self.register_buffer("group_of_head", _indices(group_of_head))

    @property
    def n_heads(self):
        """Number of heads."""
        return len(self.first)

    def pooled(self, tokens):
        """Return what each head sees of a sample, before its W2.

        Parameters
        ----------
        tokens : RaggedTokens
            Samples; all of one length for the blocks "mixer" and "fno".

        Returns
        -------
        pooled : torch.Tensor of shape (n_samples, n_heads, q)
            Means over the tokens; q is 1 for the blocks "mlp" and "fno".
        """
        lengths = tokens.segments.lengths
        pooled = self.first.new_zeros(len(lengths), self.n_heads, self._width(tokens))
        for length in lengths.unique().tolist():
            of_length = (lengths == length).nonzero()[:, 0]
            n_at_once = max(1, _LARGEST // self._n_entries(length, tokens.n_features))
            for samples in of_length.split(n_at_once):
                chosen, rows = tokens.segments.take(samples)
                X = tokens.values[rows].reshape(chosen.n_samples, length, -1)
                # Samples of equal lengths need no padding.
                pooled = pooled.index_copy(0, samples, BLOCKS[self.block](self, X))
        return pooled

    def forward(self, tokens):
        """Return outputs of shape (n_samples, n_outputs)."""
        second = self.second if self.second.ndim == 3 else self.second[:, None, :]
        return torch.einsum("nhq,hqc->nc", self.pooled(tokens), second) + self.intercept

    def penalty(self):
        """Return half the sum of all squared weights but the intercept."""
        return 0.5 * ((self.first**2).sum() + (self.second**2).sum())

    def _width(self, tokens):
        return tokens.n_features if self.second.ndim == 3 else 1

    def _n_entries(self, length, n_features):
        """Return the size of the largest array that a sample needs."""
        per_head = {
            "self_attention": length**2,
            "mlp": length,
            "mixer": length * n_features,
            "fno": length**2 * n_features,
        }
        return max(1, self.n_heads * per_head[self.block])

    def _self_attention(self, X):
        scores = torch.einsum("nta,hab,nub->nhtu", X, self.first, X)
        if self.gate_of_head is not None:
            if self.gates_right is None:
                gates = torch.einsum("nta,gab,nub->ngtu", X, self.gates, X)
            else:
                left = torch.einsum("nta,ga->ngt", X, self.gates)
                right = torch.einsum("nua,ga->ngu", X, self.gates_right)
                gates = left[..., :, None] * right[..., None, :]
            scores = self._open(scores, gates)
        return torch.einsum("nhu,nud->nhd", scores.mean(dim=2), X)

    def _mlp(self, X):
        scores = torch.einsum("nta,ha->nht", X, self.first)
        if self.gate_of_head is not None:
            scores = self._open(scores, torch.einsum("nta,ga->ngt", X, self.gates))
        return scores.mean(dim=2, keepdim=True)

    def _mixer(self, X):
        mixed = torch.einsum("htu,nud->nhtd", self.first, X)
        if self.gate_of_head is not None:
            mixed = self._open(mixed, torch.einsum("gtu,nud->ngtd", self.gates, X))
        return mixed.mean(dim=2)

    def _fno(self, X):
        n, length, _ = X.shape
        times = torch.arange(length, device=X.device)
        shifted = X[:, (times[:, None] - times) % length]
        by_group = shifted.unflatten(3, (self.n_groups, -1)).movedim(3, 1)
        circulant = by_group.reshape(n, self.n_groups, length, -1)
        of_head = circulant[:, self.group_of_head]
        scores = torch.einsum("nhtk,hk->nht", of_head, self.first)
        if self.gate_of_head is not None:
            # A gate and its heads look at the same features.
            vectors = self.gates[self.gate_of_head]
            gates = torch.einsum("nhtk,hk->nht", of_head, vectors)
            scores = scores * (gates >= 0)
        return scores.mean(dim=2, keepdim=True)

    def _open(self, scores, gates):
        """Keep the scores of each head where its gate is open."""
        return scores * (gates >= 0)[:, self.gate_of_head]


def _tensor(values):
    return None if values is None else torch.tensor(values, dtype=torch.float64)


def _indices(values):
    return None if values is None else torch.as_tensor(values, dtype=torch.int64)


#: By name: how the heads of a block pool samples of equal lengths.
BLOCKS = {
    "self_attention": ConvexHeads._self_attention,
    "mlp": ConvexHeads._mlp,
    "mixer": ConvexHeads._mixer,
    "fno": ConvexHeads._fno,
}
