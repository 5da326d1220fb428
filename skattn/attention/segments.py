"""Sums, maxima and attention weights of samples that lie end to end.

The loops over samples run inside torch, without padding. Sums and their gradients
always add in the order of the tokens, on the CPU and on CUDA, so that equal inputs
give equal bits.
"""

import math
from functools import cached_property

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from skattn.mappings import check_offsets, check_scores, map_scores

__all__ = ["Segments", "map_tensor", "segment_weights"]


class _TensorRows:
    """Each row, along the last axis, is one sample."""

    xp = torch

    def sum(self, values):
        return values.sum(dim=-1, keepdim=True)

    def max(self, values):
        return values.amax(dim=-1, keepdim=True)

    def repeat(self, values):
        return values


class Segments:
    """Where the samples start and end along the first axis.

    Parameters
    ----------
    offsets : torch.Tensor of shape (n_samples + 1,), dtype int64
        Where each sample starts, strictly increasing from 0; the last entry is the
        number of tokens.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.segments import Segments
    >>> Segments(torch.tensor([0, 2, 3])).sum(torch.tensor([1.0, 2.0, 5.0]))
    tensor([3., 5.])
    """

    xp = torch

    def __init__(self, offsets):
        self.offsets = offsets
        self.lengths = offsets.diff()
        samples = torch.arange(len(self.lengths), device=offsets.device)
        #: The sample that each token belongs to.
        self.owner = samples.repeat_interleave(self.lengths)

    @property
    def n_samples(self):
        """Number of samples."""
        return len(self.lengths)

    @property
    def n_tokens(self):
        """Number of tokens of all samples."""
        return len(self.owner)

    @property
    def starts(self):
        """Where each sample starts."""
        return self.offsets[:-1]

    @cached_property
    def places(self):
        """Place of each token among those of its sample, from 0."""
        steps = torch.arange(self.n_tokens, device=self.offsets.device)
        return steps - self.offsets[:-1].index_select(0, self.owner)

    def sum(self, values):
        """Sum over the tokens of each sample."""
        return self._reduce(values, "sum")

    def mean(self, values):
        """Mean over the tokens of each sample."""
        lengths = self.lengths.reshape(-1, *[1] * (values.ndim - 1))
        return self.sum(values) / lengths

    def max(self, values):
        """Maximum over the tokens of each sample."""
        return self._reduce(values, "max")

    def min(self, values):
        """Minimum over the tokens of each sample."""
        return self._reduce(values, "min")

    def repeat(self, values):
        """Give every token the value of its sample."""
        if values.requires_grad:
            return _Repeat.apply(values, self)
        return values.index_select(0, self.owner)

    def _reduce(self, values, how):
        # `unsafe` skips a check of the offsets that would be paid at every call.
        return torch.segment_reduce(
            values.contiguous(), how, offsets=self.offsets, unsafe=True
        )

    def descending(self, scores):
        """Rows of the tokens of each sample from the best down, ties by place."""
        by_score = scores.argsort(dim=0, descending=True, stable=True)
        return by_score.gather(0, self.owner[by_score].argsort(dim=0, stable=True))

    def gather(self, values, rows):
        """Reorder values of shape (n_tokens,) or (n_tokens, n_heads), heads apart."""
        return values.gather(0, rows)

    def scatter(self, values, rows):
        """Undo `gather` by rows that hold every token once."""
        return torch.empty_like(values).scatter_(0, rows, values)

    def take(self, index):
        """Restrict to the samples in `index`.

        Returns
        -------
        segments : Segments
            The chosen samples, end to end.
        rows : torch.Tensor of shape (n_chosen_tokens,), dtype int64
            Where their tokens were.
        """
        chosen = Segments(offsets_of(self.lengths[index]))
        shift = self.offsets[:-1][index] - chosen.offsets[:-1]
        positions = torch.arange(chosen.n_tokens, device=index.device)
        return chosen, positions + chosen.repeat(shift)


def offsets_of(lengths):
    """Offsets of samples of these lengths laid end to end."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


class _Repeat(Function):
    """Repeat with a gradient that adds in the order of the tokens.

    The gradient of plain indexing adds in any order on CUDA.
    """

    @staticmethod
    def forward(ctx, values, segments):
        ctx.segments = segments
        return values.index_select(0, segments.owner)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return ctx.segments.sum(gradient), None


class _Weights(Function):
    """Attention weights with the closed-form gradient of their mapping."""

    @staticmethod
    def forward(ctx, scores, order, segments, relative):
        weights = map_scores(scores, segments, order)
        is_fixed = _is_fixed(order)
        ctx.save_for_backward(scores, weights, None if is_fixed else order)
        ctx.fixed_order = order if is_fixed else None
        ctx.segments, ctx.relative = segments, relative
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        scores, weights, order = ctx.saved_tensors
        segments = ctx.segments
        if ctx.relative and ctx.fixed_order == 1.0:
            rescaled = _rescaled_softmax_gradient(gradient, scores, weights, segments)
            if rescaled is not None:
                return rescaled, None, None, None
        if order is None:
            order = ctx.fixed_order
        response = _response(weights, order)
        # Weights sum to one, so the gradient may be shifted within a sample.
        # Measured from the token of largest response, the terms that remain are those
        # of the other tokens, and no digits cancel when one response is nearly all.
        largest = segments.repeat(segments.max(response))
        at_top = torch.where(response == largest, gradient, -torch.inf)
        shifted = gradient - segments.repeat(segments.max(at_top))
        mean = segments.sum(response * shifted) / segments.sum(response)
        centred = shifted - segments.repeat(mean)
        order_gradient = None
        if ctx.needs_input_grad[1]:
            by_token = -_order_response(weights, response, order) * centred
            order_gradient = by_token.sum(0) if order.ndim else by_token.sum()
        return response * centred, order_gradient, None, None


def _rescaled_softmax_gradient(gradient, scores, weights, segments):
    """Return the gradient in the scores times exp(smallest gap to the top token).

    The weights of all other tokens, and with them the gradient, shrink like
    exp(-gap) until they are exactly 0; times the largest of these factors they keep
    all digits. None where top tokens tie: nothing is small then.
    """
    largest = segments.max(scores)
    behind = scores - segments.repeat(largest)
    is_top = behind == 0.0
    if (segments.sum(is_top.to(scores.dtype)) != 1.0).any():
        return None
    others = torch.where(is_top, -torch.inf, behind)
    gap = -others.max()
    if not torch.isfinite(gap):
        return None
    shifted = gradient - segments.repeat(
        segments.max(torch.where(is_top, gradient, -torch.inf))
    )
    top_weight = segments.repeat(segments.max(weights))
    response = torch.exp(others + gap) * top_weight
    mean = segments.repeat(segments.sum(response * shifted))
    return torch.where(
        is_top, -top_weight * mean, response * (shifted - mean * torch.exp(-gap))
    )


def _is_fixed(order):
    return isinstance(order, float)


def _response(weights, order):
    """Differentiate each weight in its own score, the threshold being fixed."""
    if _is_fixed(order) and order == 1.0:
        return weights
    response = torch.where(weights > 0.0, weights ** (2.0 - order), 0.0)
    if _is_fixed(order) and order <= 2.0:
        return response
    # Where the order is high, small weights respond beyond all numbers. That of the
    # largest response cancels, so long as it is finite.
    return response.clip(max=torch.finfo(response.dtype).max ** 0.5)


def _order_response(weights, response, order):
    """Differentiate each weight in minus the order, the threshold being fixed.

    By Proposition 2 of arXiv:1909.00015, ``(alpha - 1) ** 2`` times this is
    ``p ** (2 - alpha) - p + (alpha - 1) p log p``. Where ``y = (alpha - 1) log p`` is
    near 0 these cancel, and the series of ``(exp(-y) - 1 + y) / y ** 2``, which is the
    sum of ``(-y) ** (k - 2) / k!`` over k >= 2, keeps the digits.
    """
    rate = order - 1.0
    logarithm = torch.where(weights > 0.0, weights, 1.0).log()
    y = rate * logarithm
    is_near = y > -0.1
    y_near = torch.where(is_near, y, 0.0)
    series = torch.zeros_like(y)
    for k in range(12, 1, -1):
        coefficient = y.new_tensor(1.0 / math.factorial(k))
        series = torch.addcmul(coefficient, y_near, series, value=-1.0)
    near = weights * logarithm**2 * series
    far = (response - weights * (1.0 - y)) / torch.where(is_near, 1.0, rate**2)
    return torch.where(is_near, near, far)


def segment_weights(scores, segments, order, relative_gradient=False):
    """Turn the scores of each sample into weights by alpha-entmax of `order`.

    Parameters
    ----------
    scores : torch.Tensor of shape (n_tokens,) or (n_tokens, n_heads)
    segments : Segments
    order : float, or torch.Tensor of shape () or (n_heads,)
        1 is softmax, 1.5 entmax-1.5, 2 sparsemax: as floats they have the fastest
        solvers. Any other order of at least 1 is allowed. Weights are differentiable in
        a tensor.
    relative_gradient : bool, default=False
        Whether the gradient of softmax may be off by a positive factor, the same for
        all scores, that keeps it from underflowing when all samples are saturated:
        for optimisers that look at its direction only. The gradients of the other
        mappings are exactly zero there.

    Returns
    -------
    weights : torch.Tensor of the shape of `scores`
        Differentiable once, by the closed form ``r (g - sum(r g) / sum(r))`` with
        ``r = weights ** (2 - order)`` on the tokens of positive weight, and in the
        order by Proposition 2 of arXiv:1909.00015.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.segments import Segments, segment_weights
    >>> segments = Segments(torch.tensor([0, 2, 3]))
    >>> segment_weights(torch.tensor([[0.0], [0.5], [9.0]]), segments, order=2.0)
    tensor([[0.2500],
            [0.7500],
            [1.0000]])
    """
    if not _is_fixed(order):
        order = order.to(scores)
    return _Weights.apply(scores, order, segments, relative_gradient)


def map_tensor(scores, offsets, mapping):
    """Check tensors as the functions of :mod:`skattn.mappings` do, and map them.

    `mapping` is called with the scores, the samples and `segment_weights`.
    """
    if not scores.is_floating_point():
        scores = scores.to(torch.get_default_dtype())
    if scores.ndim == 0 or (offsets is None and scores.shape[-1] == 0):
        raise ValueError(
            "scores must have at least one token, got a tensor of shape "
            f"{tuple(scores.shape)}."
        )
    if offsets is None:
        segments = _TensorRows()
    else:
        offsets = torch.as_tensor(offsets).cpu().numpy()
        checked = torch.from_numpy(check_offsets(offsets, len(scores)))
        segments = Segments(checked.to(scores.device))
    check_scores(segments.max(scores.detach()).cpu().numpy())
    return mapping(scores, segments, segment_weights)
