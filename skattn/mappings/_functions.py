"""The mappings as functions of arrays and tensors."""

import math
import sys
from functools import partial

import numpy as np

from skattn.mappings._choice import check_policy
from skattn.mappings._family import ORDERS, by_elu, by_linear, by_order, by_topk
from skattn.mappings._layouts import (
    NumpyRows,
    NumpySegments,
    check_offsets,
    check_scores,
)
from skattn.mappings._orders import map_scores


def _is_tensor(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _map(mapping, scores, offsets, *, flat=False):
    """Check scores and map them; `flat` lays rows end to end first."""
    map_scores_of_kind = _map_array
    if _is_tensor(scores):
        from skattn.attention.segments import map_tensor as map_scores_of_kind
    else:
        scores = np.asarray(scores)
        if scores.dtype.kind != "f":
            scores = scores.astype(np.float64)
    if not flat or offsets is not None:
        return map_scores_of_kind(scores, offsets, mapping)
    size = math.prod(scores.shape)
    if size == 0 or scores.ndim == 0:
        # Nothing to weigh, or an error, as for every other mapping.
        return map_scores_of_kind(scores, offsets, by_linear)
    ends = np.arange(0, size + 1, scores.shape[-1])
    weights = map_scores_of_kind(scores.reshape(-1), ends, mapping)
    return weights.reshape(scores.shape)


def _map_array(scores, offsets, mapping):
    if offsets is None:
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError(
                "scores must have at least one token along the last axis, got an "
                f"array of shape {scores.shape}."
            )
        segments = NumpyRows()
    else:
        if scores.ndim == 0:
            raise ValueError("scores must have the tokens along the first axis.")
        segments = NumpySegments(check_offsets(offsets, len(scores)))
    check_scores(segments.max(scores))
    return mapping(scores, segments, map_scores)


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
    return _map(partial(by_order, alpha=ORDERS["softmax"]), scores, offsets)


def sparsemax(scores, offsets=None):
    """Project the scores on the simplex: ``max(z - tau, 0)``, with true zeros.

    The weights are one-hot exactly when the best score is ahead of the second by
    at least 1, which is the margin of the attention SVM.

    Parameters
    ----------
    scores, offsets
        As for :func:`softmax`.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        As for :func:`softmax`, and the same errors.

    References
    ----------
    Martins and Astudillo, "From Softmax to Sparsemax", arXiv:1602.02068.

    Examples
    --------
    >>> from skattn.mappings import sparsemax
    >>> sparsemax([-2.0, 0.0, 0.5])
    array([0.  , 0.25, 0.75])
    """
    return _map(partial(by_order, alpha=ORDERS["sparsemax"]), scores, offsets)


def entmax15(scores, offsets=None):
    """Entmax of order 1.5: ``max(z / 2 - tau, 0) ** 2``, between the other two.

    The weights are one-hot exactly when the best score is ahead of the second by
    at least 2.

    Parameters
    ----------
    scores, offsets
        As for :func:`softmax`.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        As for :func:`softmax`, and the same errors.

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
    return _map(partial(by_order, alpha=ORDERS["entmax15"]), scores, offsets)


def entmax(scores, offsets=None, *, alpha=1.5):
    """Entmax of any order: softmax at 1, sparsemax at 2, ever sparser beyond.

    The weights ``max((alpha - 1) z - tau, 0) ** (1 / (alpha - 1))`` maximise
    ``p'z + sum(p - p ** alpha) / (alpha (alpha - 1))`` over the simplex. They are
    one-hot exactly when the best score is ahead of the second by at least
    ``1 / (alpha - 1)``.

    Parameters
    ----------
    scores, offsets
        As for :func:`softmax`.
    alpha : float, or array or torch.Tensor of shape () or (n_heads,), default=1.5
        The order, at least 1. One number a head needs `offsets` and scores of shape
        (n_tokens, n_heads). The weights are differentiable in a tensor.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        Non-negative, summing to one over each sample; 0 for absent tokens, and for
        all that are too far behind.

    Raises
    ------
    TypeError
        If `alpha` is not made of numbers, or is a tensor where scores are not.
    ValueError
        As for :func:`softmax`, or if an order is below 1 or not finite, or there is
        not one a head.

    Notes
    -----
    The slope of weights p in scores is at most 1 up to the order 2. For higher orders
    it has no bound: where several weights are small it grows like ``p ** (2 - alpha)``.

    References
    ----------
    Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models",
    arXiv:1905.05702. Correia, Niculae and Martins, "Adaptively Sparse
    Transformers", arXiv:1909.00015, Proposition 2 for the gradient in `alpha`.

    Examples
    --------
    >>> from skattn.mappings import entmax
    >>> for alpha in (1.0, 1.5, 2.0, 3.0):
    ...     print(entmax([-2.0, 0.0, 0.4], alpha=alpha).round(3))
    [0.052 0.381 0.568]
    [0.   0.36 0.64]
    [0.  0.3 0.7]
    [0.  0.1 0.9]
    """
    alpha = _check_alpha(alpha, scores, offsets)
    return _map(partial(by_order, alpha=alpha), scores, offsets, flat=True)


def topk(scores, offsets=None, *, k=None, mass=None, power=None):
    """Softmax of the best tokens of each sample, and true zeros elsewhere.

    Parameters
    ----------
    scores, offsets
        As for :func:`softmax`.
    k : int, default=None
        Keep so many tokens, or all of a shorter sample.
    mass : float, default=None
        Keep the fewest tokens that hold this share of the weight of softmax, above 0
        and at most 1. 0.95 if no policy is given.
    power : float or (float, float), default=None
        Keep ``ceil(a n ** C)`` of the n present tokens of a sample, at least one and
        at most all, given C in [0, 1], or the pair (a, C); a is 1 in the first form.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        Non-negative, summing to one over each sample; 0 for all tokens but the best.
        Of equal scores the first are kept. Gradients hold the kept tokens fixed.

    Raises
    ------
    TypeError
        If `k`, `mass` or `power` is not a number.
    ValueError
        As for :func:`softmax`, or if more than one policy is given, or one is out of
        range.

    See Also
    --------
    skattn.theory.attention_sparsity : How many tokens attention needs.

    Notes
    -----
    Softmax and its best tokens differ in total variation by the weight left out,
    which `mass` bounds for every sample. Under scores of fixed spread no power C < 1
    does so as samples grow (arXiv:2404.02690).

    References
    ----------
    Deng, Song and Yang, "Attention is Naturally Sparse with Gaussian Distributed
    Input", arXiv:2404.02690.

    Examples
    --------
    >>> from skattn.mappings import topk
    >>> topk([2.0, 0.0, 2.0, 1.0], k=2)
    array([0.5, 0. , 0.5, 0. ])
    >>> topk([2.0, -3.0, 2.0, -4.0], mass=0.9)
    array([0.5, 0. , 0.5, 0. ])
    """
    given = {"k": k, "mass": mass, "power": power}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        raise ValueError(
            f"At most one of k, mass and power can be given, got {given!r}."
        )
    policy = check_policy(given)
    return _map(partial(by_topk, **policy), scores, offsets, flat=True)


def linear(scores, offsets=None):
    """Scores divided by the number of tokens: linear attention, a baseline.

    Parameters
    ----------
    scores, offsets
        As for :func:`softmax`.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        Of any sign and any sum; 0 for absent tokens, which do not count. The errors
        are those of :func:`softmax`.

    Examples
    --------
    >>> from skattn.mappings import linear
    >>> linear([3.0, -1.5, float("-inf")])
    array([ 1.5 , -0.75,  0.  ])
    """
    return _map(by_linear, scores, offsets)


def elu(scores, offsets=None):
    """Weights in proportion to ``elu(score) + 1``: linear attention that averages.

    ``elu(z) + 1`` is ``z + 1`` above 0 and ``exp(z)`` below.

    Parameters
    ----------
    scores, offsets
        As for :func:`softmax`.

    Returns
    -------
    weights : array or torch.Tensor of the shape of `scores`
        As for :func:`softmax`, and the same errors.

    Notes
    -----
    The map of arXiv:2006.16236, applied to scores instead of to queries and keys.

    References
    ----------
    Katharopoulos, Vyas, Pappas and Fleuret, "Transformers are RNNs: Fast
    Autoregressive Transformers with Linear Attention", arXiv:2006.16236.

    Examples
    --------
    >>> from skattn.mappings import elu
    >>> elu([2.0, 0.0, 0.0]).round(3)
    array([0.6, 0.2, 0.2])
    """
    return _map(by_elu, scores, offsets)


def _check_alpha(alpha, scores, offsets):
    """Return one order as a float, or orders as an array or tensor."""
    if _is_tensor(alpha):
        if not _is_tensor(scores):
            raise TypeError("alpha must not be a tensor where scores are not.")
        orders = alpha.detach().cpu().numpy()
    else:
        orders = np.asarray(alpha)
    if orders.dtype.kind not in "iuf":
        raise TypeError(f"alpha must be made of numbers, got {alpha!r}.")
    wrong = ~((orders >= 1) & np.isfinite(orders))
    if wrong.any():
        raise ValueError(f"alpha == {orders[wrong].flat[0]}, must be >= 1 and finite.")
    if orders.ndim == 0:
        return alpha if _is_tensor(alpha) else float(alpha)
    shape = tuple(np.shape(scores))
    if offsets is None or len(shape) != 2 or orders.shape != shape[1:]:
        raise ValueError(
            "alpha must be one number, or of shape (n_heads,) with offsets and scores "
            f"of shape (n_tokens, n_heads); got alpha of shape {orders.shape}, scores "
            f"of shape {shape} and {'no ' if offsets is None else ''}offsets."
        )
    if _is_tensor(scores) and not _is_tensor(alpha):
        import torch

        return torch.from_numpy(orders.astype(np.float64)).to(scores.device)
    return alpha if _is_tensor(alpha) else orders.astype(np.float64)


#: The mappings of a fixed order, by the names that estimators accept.
MAPPINGS = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}
