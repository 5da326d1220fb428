"""Weights of alpha-entmax, for any order alpha >= 1 and either array library.

``segments`` offers ``xp`` (the library), ``sum`` and ``max`` over each sample, and
``repeat``, which gives every token the value of its sample. Any order that is not one
of the three usual ones also needs the ranking of tokens that samples end to end have.
"""

import numpy as np

# These have a solver of their own, the fastest.
_USUAL_ORDERS = (1.0, 1.5, 2.0)


def map_scores(scores, segments, order):
    """Compute weights by alpha-entmax.

    Parameters
    ----------
    scores : array or tensor
        One score a token, and a column a head where there are several.
    segments : layout of the samples
    order : float, or array or tensor of shape () or (n_heads,)
        The order alpha.
    """
    if not isinstance(order, float) or order not in _USUAL_ORDERS:
        return _map_by_any_order(scores, segments, order)
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


def _map_by_any_order(scores, segments, order):
    # Softmax, at rate 0, is the same to rounding as at this one.
    smallest = float(segments.xp.finfo(scores.dtype).tiny) ** 0.5
    rate = segments.xp.asarray(order - 1.0, dtype=scores.dtype).clip(min=smallest)
    is_low = rate <= 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gaps = segments.repeat(segments.max(scores)) - scores
        if is_low.all():
            weights = _weights_of_low_order(gaps, segments, rate)
        elif not is_low.any():
            weights = _weights_of_high_order(gaps, segments, rate)
        else:
            weights = segments.xp.where(
                is_low,
                _weights_of_low_order(gaps, segments, rate.clip(max=1.0)),
                _weights_of_high_order(gaps, segments, rate.clip(min=1.0)),
            )
        return weights / segments.repeat(segments.sum(weights))


def _weights_of_low_order(gaps, segments, rate):
    """Solve for the largest weight, P, of each sample, for orders of at most 2.

    With ``rate = alpha - 1``, a token that is ``gap`` behind the best has the share
    ``(1 - rate gap / P ** rate) ** (1 / rate)`` of its weight, which near the order 1
    is exp(-gap) without a loss of digits. Newton's method on the norm of
    `_unnormalised_entmax`, a convex function of ``P ** rate``, falls from P = 1 to the
    root; written for log P, it is one exact step in the limit of softmax.
    """
    xp = segments.xp
    rounding = 4.0 * xp.finfo(gaps.dtype).eps
    gaps = rate * gaps
    log_top = xp.zeros_like(segments.max(gaps))
    while True:
        behind = gaps * segments.repeat(xp.exp(-rate * log_top))
        # Written so that NaN counts as inside, and shows in the weights.
        inside = ~(behind >= 1.0)
        behind = xp.where(inside, behind, 0.0)
        share = xp.where(inside, xp.exp(xp.log1p(-behind) / rate), 0.0)
        total = segments.sum(share)
        slope = segments.sum(share / (1.0 - behind))
        excess = log_top + xp.log(total)
        step = -xp.log1p(xp.expm1(-rate * excess) * total / slope) / rate
        falling = step > rounding * abs(log_top).clip(min=1.0)
        if not falling.any():
            return share
        log_top = xp.where(falling, log_top - step, log_top)


def _weights_of_high_order(gaps, segments, rate):
    """Solve for the smallest positive weight, x, of each sample, for orders above 2.

    Weights rise so steeply from 0 there that the largest weight does not tell the
    small ones: with alpha = 50, a relative change of 1e-16 of ``P ** rate`` brings a
    weight of .3 from 0. But once the last token with weight is known, the others are
    ``p = (x ** rate + e ** rate) ** (1 / rate)``, ``e ** rate`` being rate times their
    lead over it: sums of positive terms, and convex in x, so that Newton's method falls
    from ``1 / n_tokens_with_weight`` to the root.
    """
    xp = segments.xp
    rounding = 4.0 * xp.finfo(gaps.dtype).eps
    order = segments.descending(-gaps)
    ranked = segments.gather(gaps, order)
    last, count = _last_with_weight(ranked, segments, rate)
    has_weight = column(segments.places, ranked) < segments.repeat(count)
    lead = _roots(segments.repeat(last) - ranked, has_weight, rate, xp)
    smallest = 1.0 / xp.asarray(count, dtype=gaps.dtype)
    while True:
        repeated = segments.repeat(smallest)
        weights = xp.where(has_weight, _norm_of_two(repeated, lead, rate, xp), 0.0)
        excess = segments.sum(weights) - 1.0
        falling = (excess > rounding) & (smallest > 0.0)
        if not falling.any():
            return segments.scatter(weights, order)
        slope = xp.where(has_weight, (repeated / weights) ** (rate - 1.0), 0.0)
        fallen = (smallest - excess / segments.sum(slope)).clip(min=0.0)
        smallest = xp.where(falling, fallen, smallest)


def _last_with_weight(ranked, segments, rate):
    """Find the last token with weight of each sample: its gap, and its place plus one.

    A token has weight when the tokens before it, if it had none, would not use up the
    whole weight; so have all before it, and the search may halve.
    """
    xp = segments.xp
    starts = column(segments.starts, ranked)
    places = column(segments.places, ranked)
    most = xp.broadcast_to(
        column(segments.lengths, ranked), (len(starts), *ranked.shape[1:])
    )
    least = xp.ones_like(most)
    while (least < most).any():
        middle = (least + most + 1) // 2
        gap = segments.gather(ranked, starts + middle - 1)
        is_before = places < segments.repeat(middle)
        used = segments.sum(_roots(segments.repeat(gap) - ranked, is_before, rate, xp))
        has_weight = used < 1.0
        least = xp.where(has_weight, middle, least)
        most = xp.where(has_weight, most, middle - 1)
    return segments.gather(ranked, starts + least - 1), least


def _roots(leads, chosen, rate, xp):
    """Return ``(rate * lead) ** (1 / rate)`` of the chosen tokens, 0 of the others."""
    return xp.where(chosen, (rate * leads).clip(min=0.0) ** (1.0 / rate), 0.0)


def _norm_of_two(first, second, power, xp):
    """Return ``(first ** power + second ** power) ** (1 / power)``, never over."""
    larger = xp.maximum(first, second)
    ratio = xp.minimum(first, second) / xp.where(larger > 0.0, larger, 1.0)
    return larger * xp.exp(xp.log1p(ratio**power) / power)


def column(values, like):
    """Give one number a token or sample the axis of heads that `like` may have."""
    return values.reshape(-1, *[1] * (like.ndim - 1))
