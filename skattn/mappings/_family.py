"""Every mapping as one function of scores, samples and a solver of alpha-entmax.

The solver is that of the array library: ``weigh(scores, segments, order)`` is
:func:`skattn.mappings._orders.map_scores` for arrays, and for tensors
:func:`skattn.attention.segments.segment_weights`, which is differentiable.
"""

from functools import partial

from skattn.mappings._selection import best_tokens, count_present

# The order alpha of the mappings that have one of their own.
ORDERS = {"softmax": 1.0, "sparsemax": 2.0, "entmax15": 1.5}


def by_order(scores, segments, weigh, *, alpha):
    """Weigh by alpha-entmax."""
    return weigh(scores, segments, alpha)


def by_topk(scores, segments, weigh, *, k=None, mass=None, power=None):
    """Weigh by the softmax of the best tokens of each sample."""
    values = scores.detach() if hasattr(scores, "detach") else scores
    is_kept = best_tokens(values, segments, k=k, mass=mass, power=power)
    kept = segments.xp.where(is_kept, scores, -float("inf"))
    return weigh(kept, segments, 1.0)


def by_linear(scores, segments, weigh=None):
    """Divide scores by the number of tokens; nothing has to be solved."""
    xp = segments.xp
    n_present = count_present(scores, segments, scores.dtype)
    is_present = scores != -float("inf")
    return xp.where(is_present, scores, 0.0) / segments.repeat(n_present)


def by_elu(scores, segments, weigh):
    """Weigh by ``elu(score) + 1``, as the softmax of its logarithm."""
    xp = segments.xp
    logarithms = xp.where(scores > 0.0, xp.log1p(scores.clip(min=0.0)), scores)
    return weigh(logarithms, segments, 1.0)


def mapping_function(name, params):
    """Return the function of a mapping by its name and its checked parameters."""
    if name in ORDERS:
        return partial(by_order, alpha=ORDERS[name])
    functions = {
        "entmax": by_order,
        "topk": by_topk,
        "linear": by_linear,
        "elu": by_elu,
    }
    return partial(functions[name], **params)
