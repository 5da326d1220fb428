"""Which tokens top-k keeps: a number, a share of the weight, or a power law."""

from skattn.mappings._orders import column, map_scores


def best_tokens(scores, segments, *, k=None, mass=None, power=None):
    """Mark the best tokens of each sample, of equal ones the first.

    Parameters
    ----------
    scores : array or tensor of shape (n_tokens,) or (n_tokens, n_heads)
    segments : layout of samples end to end
    k, mass, power
        As for :func:`skattn.mappings.topk`; exactly one of them.

    Returns
    -------
    is_kept : boolean array or tensor of the shape of `scores`
    """
    order = segments.descending(scores)
    ranked = segments.gather(scores, order)
    if k is not None:
        count = min(k, len(scores))
    elif mass is not None:
        count = segments.repeat(_count_of_mass(ranked, segments, mass))
    else:
        n_present = count_present(ranked, segments, segments.xp.float64)
        count = segments.repeat(count_of_power(n_present, *power, segments.xp))
    is_kept = (column(segments.places, ranked) < count) & (ranked != -float("inf"))
    return segments.scatter(is_kept, order)


def count_present(scores, segments, dtype):
    """Return the number of tokens of each sample that are not absent."""
    xp = segments.xp
    ones = xp.ones_like(scores, dtype=dtype)
    return segments.sum(xp.where(scores != -float("inf"), ones, 0.0))


def count_of_power(n_tokens, scale, exponent, xp):
    """Return ``ceil(scale n ** exponent)``, at least 1, of n tokens as float64."""
    # 1000 ** (1 / 3) is above 10 by rounding only.
    rounding = 16.0 * xp.finfo(xp.float64).eps
    return xp.ceil(scale * n_tokens**exponent * (1.0 - rounding)).clip(min=1.0)


def _count_of_mass(ranked, segments, mass):
    """Return the smallest count that leaves out a weight of at most ``1 - mass``."""
    xp = segments.xp
    weights = map_scores(ranked, segments, 1.0)
    rounding = xp.finfo(weights.dtype).eps
    allowed = 1.0 - mass + (rounding if mass < 1.0 else 0.0)
    # A tail of exactly the weight allowed must not be lost to the rounding of sums.
    lengths = xp.asarray(column(segments.lengths, ranked), dtype=weights.dtype)
    is_over = _tails(weights, segments) > segments.repeat(
        allowed * (1.0 + (lengths + 16.0) * rounding)
    )
    ones = xp.ones_like(weights)
    return segments.sum(xp.where(is_over, ones, 0.0)).clip(min=1.0)


def _tails(weights, segments):
    """Sum each weight and those after it in its sample.

    By doubling strides: no sum mixes samples, so that small tails keep their digits
    and a sample has the same tails in every batch.
    """
    xp = segments.xp
    left = column(segments.repeat(segments.lengths) - segments.places, weights)
    longest = int(segments.lengths.max())
    stride = 1
    while stride < longest:
        ahead = xp.zeros_like(weights)
        ahead[:-stride] = weights[stride:]
        weights = weights + xp.where(left > stride, ahead, 0.0)
        stride *= 2
    return weights
