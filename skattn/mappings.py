"""From scores to weights: softmax, sparsemax and entmax-1.5.

All three are members of one family, alpha-entmax, with ``alpha`` 1, 2 and 1.5:
``p = max((alpha - 1) z - tau, 0) ** (1 / (alpha - 1))``, where ``tau`` makes the
weights of a sample sum to one (softmax is the limit ``alpha -> 1``). They take
NumPy arrays and torch tensors; on tensors they are differentiable. Torch is not
needed, nor imported, for arrays.
"""

import sys

import numpy as np

__all__ = ["MAPPINGS", "entmax15", "softmax", "sparsemax"]

# The order alpha of every mapping. The gradient of each follows from it.
ORDERS = {"softmax": 1.0, "sparsemax": 2.0, "entmax15": 1.5}


class _NumpyRows:
    """Each row, along the last axis, is one sample."""

    xp = np

    def sum(self, values):
        return values.sum(axis=-1, keepdims=True)

    def max(self, values):
        return values.max(axis=-1, keepdims=True)

    def repeat(self, values):
        return values


class _NumpySegments:
    """Samples lie end to end along the first axis, cut at ``offsets``."""

    xp = np

    def __init__(self, offsets):
        self.starts = offsets[:-1]
        self.lengths = np.diff(offsets)

    def sum(self, values):
        return np.add.reduceat(values, self.starts, axis=0)

    def max(self, values):
        return np.maximum.reduceat(values, self.starts, axis=0)

    def repeat(self, values):
        return np.repeat(values, self.lengths, axis=0)


def map_scores(scores, segments, order):
    """Compute weights by the mapping of this order, whatever the array library.

    ``segments`` offers ``xp`` (the library), ``sum`` and ``max`` over each sample,
    and ``repeat``, which gives every token the value of its sample.
    """
    # Only differences of scores matter: subtracting the largest makes every order
    # safe for scores of any size, and puts tau between -1 and 0.
    shifted = scores - segments.repeat(segments.max(scores))
    if order == 1.0:
        weights = segments.xp.exp(shifted)
    else:
        weights = _unnormalised_entmax(shifted, segments, order)
    return weights / segments.repeat(segments.sum(weights))


def _unnormalised_entmax(shifted, segments, order):
    """Solve for the threshold by Newton's method, which needs no sorting.

    The root of h(tau) = |max(z - tau, 0)|_k - 1, k = 1/(order - 1), is sought from
    tau = -1, where h >= 0 since the largest z is 0. For k >= 1, h is convex and
    decreasing, so that the steps rise to the root and never pass it; for sparsemax
    (k = 1) they are finitely many.
    """
    xp = segments.xp
    power = 1.0 / (order - 1.0)
    scaled = (order - 1.0) * shifted
    rounding = 4.0 * xp.finfo(scaled.dtype).eps
    tau = segments.max(scaled) - 1.0
    while True:
        excess = (scaled - segments.repeat(tau)).clip(min=0.0)
        total = segments.sum(excess**power)
        # Tokens at or below the threshold have no slope, even where 0 ** 0 is 1.
        slope = segments.sum(xp.where(excess > 0.0, excess ** (power - 1.0), 0.0))
        norm = total ** (1.0 / power)
        step = (norm - 1.0) * norm ** (power - 1.0) / slope
        rising = step > rounding
        if not rising.any():
            return excess**power
        tau = xp.where(rising, tau + step, tau)


def check_scores(largest):
    """Refuse samples that have no token to put weight on.

    ``largest`` is the largest score of each sample, a NumPy array.
    """
    if np.isnan(largest).any() or np.isposinf(largest).any():
        raise ValueError("scores contain NaN or +infinity.")
    absent = np.isneginf(largest)
    if absent.any():
        sample = int(np.argwhere(absent)[0][0])
        raise ValueError(
            f"sample {sample} has no valid token: all its scores are -inf. Remove "
            "the sample, or give it at least one token."
        )


def check_offsets(offsets, n_tokens):
    """Return offsets as an integer array after checking that they cut `n_tokens`."""
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be a 1-D integer array of n_samples + 1 entries, got an "
            f"array of shape {offsets.shape} and dtype {offsets.dtype}."
        )
    if offsets[0] != 0 or offsets[-1] != n_tokens:
        raise ValueError(
            f"offsets must start at 0 and end at the number of tokens, {n_tokens}; "
            f"got {offsets[0]} and {offsets[-1]}."
        )
    lengths = np.diff(offsets.astype(np.int64))
    if (lengths <= 0).any():
        sample = int(np.flatnonzero(lengths <= 0)[0])
        raise ValueError(
            f"sample {sample} has no token: offsets must increase strictly. Remove "
            "the sample, or give it at least one token."
        )
    return offsets.astype(np.int64)


def _map_array(name, scores, offsets):
    scores = np.asarray(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if offsets is None:
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError(
                "scores must have at least one token along the last axis, got an "
                f"array of shape {scores.shape}."
            )
        segments = _NumpyRows()
    else:
        if scores.ndim == 0:
            raise ValueError("scores must have the tokens along the first axis.")
        segments = _NumpySegments(check_offsets(offsets, len(scores)))
    check_scores(segments.max(scores))
    return map_scores(scores, segments, ORDERS[name])


def _map(name, scores, offsets):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(scores, torch.Tensor):
        from skattn.attention.segments import map_tensor

        return map_tensor(scores, offsets, ORDERS[name])
    return _map_array(name, scores, offsets)


def softmax(scores, offsets=None):
    """Exponential weights: every token keeps some.

    Parameters
    ----------
    scores : array or torch.Tensor
        One score a token; ``-inf`` marks an absent token. Without `offsets`,
        any shape with the tokens along the last axis. With them, shape
        (n_tokens,) or (n_tokens, n_heads), the samples end to end.
    offsets : integer array of shape (n_samples + 1,), default=None
        Where each sample starts; the last entry is the number of tokens.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        Non-negative, summing to one over each sample; 0 for absent tokens.

    Raises
    ------
    ValueError
        If a sample has no valid token, a score is NaN or +inf, or `offsets` do
        not cut the tokens into non-empty samples.

    Examples
    --------
    >>> from skattn.mappings import softmax
    >>> softmax([0.0, 0.0, float("-inf")])
    array([0.5, 0.5, 0. ])
    >>> softmax([0.0, 0.0, 3.0], offsets=[0, 2, 3])
    array([0.5, 0.5, 1. ])
    """
    return _map("softmax", scores, offsets)


def sparsemax(scores, offsets=None):
    """Project the scores on the simplex: ``max(z - tau, 0)``, with true zeros.

    The weights are one-hot exactly when the best score is ahead of the second by
    at least 1, which is the margin of the attention SVM.

    Parameters
    ----------
    scores : array or torch.Tensor
        One score a token, laid out as for :func:`softmax`.
    offsets : integer array of shape (n_samples + 1,), default=None
        Where each sample starts; the last entry is the number of tokens.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        Non-negative, summing to one over each sample; 0 for absent tokens.

    Raises
    ------
    ValueError
        As for :func:`softmax`.

    References
    ----------
    Martins and Astudillo, "From Softmax to Sparsemax", arXiv:1602.02068.

    Examples
    --------
    >>> from skattn.mappings import sparsemax
    >>> sparsemax([-2.0, 0.0, 0.5])
    array([0.  , 0.25, 0.75])
    """
    return _map("sparsemax", scores, offsets)


def entmax15(scores, offsets=None):
    """Entmax of order 1.5: ``max(z / 2 - tau, 0) ** 2``, between the other two.

    The weights are one-hot exactly when the best score is ahead of the second by
    at least 2.

    Parameters
    ----------
    scores : array or torch.Tensor
        One score a token, laid out as for :func:`softmax`.
    offsets : integer array of shape (n_samples + 1,), default=None
        Where each sample starts; the last entry is the number of tokens.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        Non-negative, summing to one over each sample; 0 for absent tokens.

    Raises
    ------
    ValueError
        As for :func:`softmax`.

    References
    ----------
    Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models",
    arXiv:1905.05702.

    Examples
    --------
    >>> from skattn.mappings import entmax15
    >>> entmax15([-2.0, 0.0, 0.5]).round(4)
    array([0.   , 0.326, 0.674])
    """
    return _map("entmax15", scores, offsets)


#: The mappings by the names that estimators accept.
MAPPINGS = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}
