"""Attention-BN: keys and queries normalised by the keys of their own sample."""

import numpy as np
import torch

from skattn._attention_norm import EPSILON
from skattn.attention.layouts import RaggedTokens, TableTokens

__all__ = [
    "center_and_scale",
    "check_attention_norm",
    "normalized_queries",
    "normalized_scores",
]


def check_attention_norm(attention_norm, has_beta):
    """Refuse unknown norms, and a beta where there is none or the other way round."""
    if attention_norm not in (None, "batch"):
        raise ValueError(
            f"attention_norm must be None or 'batch', got {attention_norm!r}."
        )
    if has_beta != (attention_norm is not None):
        raise ValueError("beta is for attention_norm='batch', which needs it.")


def center_and_scale(keys, segments, eps=EPSILON):
    """Return the keys less their mean, the mean, and what to divide products by.

    Parameters
    ----------
    keys : torch.Tensor of shape (n_keys, n_features)
    segments : Segments
        Where the keys of each sample are.
    eps : float, default=1e-5

    Returns
    -------
    centred : torch.Tensor of shape (n_keys, n_features)
    mean : torch.Tensor of shape (n_samples, n_features)
    square : torch.Tensor of shape (n_samples, n_features)
        s^2, the biased variance + eps; 1 for a feature without variance.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.normalization import center_and_scale
    >>> from skattn.attention.segments import Segments
    >>> keys = torch.tensor([[1.0, 7.0], [5.0, 7.0]]).double()
    >>> center_and_scale(keys, Segments(torch.tensor([0, 2])))[2].round(decimals=3)
    tensor([[4., 1.]], dtype=torch.float64)
    """
    mean = segments.mean(keys)
    centred = keys - segments.repeat(mean)
    variance = segments.mean(centred.square())
    return centred, mean, _scale(variance, eps)


def normalized_queries(queries, mean, square, beta):
    """Return queries whose product with centred keys is the logit of Attention-BN.

    ``((q - beta mu) / s)'((k - mu) / s) / sqrt(D)`` is the product of ``k - mu`` with
    ``(q - beta mu) / s^2 / sqrt(D)``.

    Parameters
    ----------
    queries, mean, square : torch.Tensor of the same or of fitting shapes
        With the features, of which there are D, along the last axis.
    beta : float or torch.Tensor
    """
    return (queries - beta * mean) / square / np.sqrt(queries.shape[-1])


def normalized_scores(keys, queries, beta, match, length=1, eps=EPSILON):
    """Score tokens by their normalised keys, for heads that share these.

    Parameters
    ----------
    keys : RaggedTokens or TableTokens
    queries : torch.Tensor of shape (n_samples, n_heads, n_features)
    beta : float or torch.Tensor of shape (n_heads,)
        How far the queries are centred by the mean key.
    match : callable
        ``match(keys, queries)`` returns the products of RaggedTokens and queries.
    length : int, default=1
        Length of the windows whose mean keys are scored; these are pooled first and
        then normalised.

    Returns
    -------
    scores : torch.Tensor of shape (n_tokens, n_heads)
        Equal within a window.

    References
    ----------
    Nguyen et al., "A Primal-Dual Framework for Transformers and Neural Networks",
    arXiv:2406.13781; the equation is that of :func:`normalized_queries`.
    """
    if isinstance(keys, TableTokens):
        return _scores_of_table(keys, queries, beta, length, eps)
    windows = keys.windows(length) if length > 1 else None
    values, segments = keys.values, keys.segments
    if windows is not None:
        values, segments = windows.mean(values), windows.samples
    # ((q - beta mu) / s)'((k - mu) / s) is q'c - beta mu'c with c = (k - mu) / s^2,
    # which all heads share.
    centred, mean, square = center_and_scale(values, segments, eps)
    scaled = centred / segments.repeat(square)
    along_mean = (scaled * segments.repeat(mean)).sum(1, keepdim=True)
    scores = match(RaggedTokens(scaled, segments), queries) - along_mean * beta
    scores = scores / np.sqrt(values.shape[1])
    return scores if windows is None else windows.spread(scores)


def _scores_of_table(table, queries, beta, length, eps):
    """Score the tokens of a table by products with cells, which need no keys."""
    if isinstance(beta, torch.Tensor):
        beta = beta.unsqueeze(1)
    mean, variance = _moments_of_columns(table, length)
    mean, square = mean.unsqueeze(1), _scale(variance, eps).unsqueeze(1)
    queries = normalized_queries(queries, mean, square, beta)
    scores = table.rowdot(queries)
    if length > 1:
        windows = table.windows(length)
        scores = windows.spread(windows.mean(scores))
    return scores - table.segments.repeat((mean * queries).sum(2))


def _scale(variance, eps):
    # A feature without variance says nothing; dividing by eps would only make its
    # gradient large.
    return torch.where(variance > 0.0, variance + eps, 1.0)


def _moments_of_columns(table, length):
    """Mean and variance of the features of a table's windows of columns.

    The features of column t, 1 and x_t, are not zero in one window alone, whose mean
    has them divided by the number of its columns.
    """
    n_columns = table.n_columns
    columns = torch.arange(n_columns, device=table.cells.device)
    sizes = torch.bincount(columns // length)
    n_windows = len(sizes)
    share = 1.0 / sizes[columns // length].to(table.cells.dtype)
    means = torch.cat([share.expand_as(table.cells), share * table.cells], dim=1)
    spread = (1.0 - 1.0 / n_windows) / n_windows
    return means / n_windows, means.square() * spread
