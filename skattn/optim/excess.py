"""How far the loss of attention with a fixed head is above its infimum."""

import torch
from torch.nn import functional

from skattn.attention import LinearHead

__all__ = ["excess_loss", "has_excess_loss"]

# From here on there is nothing to cancel in the difference of two losses.
_LARGE = 1.0


def excess_loss(model, batch, targets, sample_weight=None):
    """Logistic loss less the infimum that a fixed linear head allows, and that infimum.

    With margins ``gamma_t = y v'x_t`` of the tokens of a sample, the loss is at its
    infimum when attention puts all weight on the token of largest margin, which softmax
    does in the limit [1]_. The difference is, with ``sigma(u) = 1 / (1 + exp(-u))``,

        log1p(sigma(-max gamma) expm1(sum_t s_t (max gamma - gamma_t)))

    for each sample: nothing cancels, and it has all its digits however small it is,
    which the loss minus its infimum has not. Several heads each have their best token.

    Parameters
    ----------
    model : skattn.attention.AttentionModel
        With a linear head of one output that pools by attention alone. The head counts
        as fixed: the result has no gradients in it.
    batch : TokenBatch
    targets : torch.Tensor of shape (n_samples,)
        0 and 1.
    sample_weight : torch.Tensor of shape (n_samples,), default=None
        Non-negative; None means equal weights.

    Returns
    -------
    excess : torch.Tensor
        Weighted mean of the difference, differentiable in the attention weights, with
        the gradient of the loss.
    optimum : torch.Tensor
        Weighted mean of the infima; excess + optimum is the loss.

    Raises
    ------
    ValueError
        If the model does not have such a head.

    References
    ----------
    .. [1] Tarzanagh et al., "Max-Margin Token Selection in Attention Mechanism",
       arXiv 2306.13596, section 2, where gamma is the score of a token.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skattn.attention import AttentionModel, RaggedTokens, TokenBatch
    >>> from skattn.optim import excess_loss
    >>> parameters = {"attention_coef": np.array([[40.0]]),
    ...               "coef": np.array([[1.0]]), "intercept": np.zeros(1)}
    >>> model = AttentionModel.from_parameters(parameters)
    >>> batch = TokenBatch(RaggedTokens.from_arrays([[1.0], [0.0]], [0, 2]))
    >>> excess, optimum = excess_loss(model, batch, torch.tensor([1]))
    >>> print(f"{excess.item():.4e}, {optimum.item():.4f}")
    1.1426e-18, 0.3133
    """
    if not has_excess_loss(model):
        raise ValueError(
            "excess_loss needs a model with a linear head of one output that pools by "
            "attention alone."
        )
    attended = model.attend(batch)
    features, weights = attended.features, attended.weights
    signs = 2.0 * targets.to(weights.dtype) - 1.0
    segments = features.segments
    with torch.no_grad():
        values = model.head.token_values(features, weights.shape[1]).squeeze(1)
        margins = segments.repeat(signs).unsqueeze(1) * values
        best = segments.max(margins)
        behind = segments.repeat(best) - margins
        best_margin = best.sum(1) + signs * model.head.intercept
    lag = segments.sum(weights * behind).sum(1)
    excess = _difference(best_margin, lag)
    infimum = functional.softplus(-best_margin)
    if sample_weight is None:
        return excess.mean(), infimum.mean()
    shares = sample_weight.to(weights.dtype) / sample_weight.sum()
    return shares.dot(excess), shares.dot(infimum)


def has_excess_loss(model):
    """Whether :func:`excess_loss` can be computed for a model."""
    head = getattr(model, "head", None)
    return (
        isinstance(head, LinearHead)
        and len(head.intercept) == 1
        and head.pooling == ("attention",)
        # The best token must be within reach of the weights, and the best that is.
        and model.mapping.name != "linear"
        and model.head_scale is None
    )


def _difference(best_margin, lag):
    """Logistic loss at the margin ``best_margin - lag``, less that at `best_margin`."""
    small = lag.clamp(max=_LARGE)
    exact = torch.log1p(torch.sigmoid(-best_margin) * torch.expm1(small))
    if not (lag > _LARGE).any():
        return exact
    plain = functional.softplus(lag - best_margin) - functional.softplus(-best_margin)
    return torch.where(lag > _LARGE, plain, exact)
