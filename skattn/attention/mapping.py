"""The mapping of an attention model, from scores to weights, as a torch module."""

from functools import partial

import numpy as np
import torch
from torch import nn

from skattn.attention.segments import segment_weights
from skattn.mappings import by_order, check_mapping, mapping_function

__all__ = ["Mapping", "check_mapping", "initial_mapping_parameters"]


def initial_mapping_parameters(name, params=None, n_heads=1):
    """Return the parameters from which the training of a mapping starts.

    Parameters
    ----------
    name : str
        As for :class:`Mapping`.
    params : dict, default=None
        As for :class:`Mapping`.
    n_heads : int, default=1

    Returns
    -------
    parameters : dict of str to numpy.ndarray
        "mapping_alpha_raw" (n_heads,), zeros, for entmax whose alpha is learned; empty
        for all other mappings.

    Examples
    --------
    >>> from skattn.attention.mapping import initial_mapping_parameters
    >>> initial_mapping_parameters("entmax", n_heads=2)
    {'mapping_alpha_raw': array([0., 0.])}
    >>> initial_mapping_parameters("softmax")
    {}
    """
    if _is_learned(name, check_mapping(name, params)):
        return {"mapping_alpha_raw": np.zeros(n_heads)}
    return {}


class Mapping(nn.Module):
    """Turn the scores of each sample into weights.

    A learned alpha is ``1 + sigmoid(raw)``, between softmax and sparsemax, as in the
    paper: up to 2 the slope of weights in scores is at most 1, beyond it has no bound;
    and no sparsity is lost, since scores may grow. It starts at 1.5, raw = 0, where the
    sigmoid is steepest.

    Parameters
    ----------
    name : {"softmax", "sparsemax", "entmax15", "entmax", "topk", "linear", "elu"}, \
            default="softmax"
    params : dict, default=None
        As for :func:`skattn.mappings.check_mapping`.
    alpha_raw : torch.Tensor of shape (n_heads,), default=None
        What a learned alpha starts from; for that, and for nothing else.

    Attributes
    ----------
    params : dict
        With the defaults filled in.
    mapping_alpha_raw : torch.nn.Parameter of shape (n_heads,) or None

    References
    ----------
    Correia, Niculae and Martins, "Adaptively Sparse Transformers", arXiv:1909.00015.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention.mapping import Mapping
    >>> from skattn.attention.segments import Segments
    >>> segments = Segments(torch.tensor([0, 2, 5]))
    >>> scores = torch.tensor([[0.0], [0.0], [3.0], [2.0], [1.0]])
    >>> Mapping("topk", {"k": 2})(scores, segments)
    tensor([[0.5000],
            [0.5000],
            [0.7311],
            [0.2689],
            [0.0000]])
    >>> Mapping("entmax", alpha_raw=torch.zeros(1)).alpha.detach()
    tensor([1.5000])
    """

    def __init__(self, name="softmax", params=None, alpha_raw=None):
        super().__init__()
        self.name = name
        self.params = check_mapping(name, params)
        self.is_learned = _is_learned(name, self.params)
        if self.is_learned != (alpha_raw is not None):
            raise ValueError(
                "alpha_raw must be given for mapping='entmax' with a learned alpha, "
                f"and for no other; got mapping={name!r}, mapping_params={params!r} "
                f"and {'no ' if alpha_raw is None else ''}alpha_raw."
            )
        if alpha_raw is not None and alpha_raw.ndim != 1:
            raise ValueError(
                "alpha_raw must have shape (n_heads,), got shape "
                f"{tuple(alpha_raw.shape)}."
            )
        self.mapping_alpha_raw = nn.Parameter(alpha_raw) if self.is_learned else None

    @property
    def alpha(self):
        """The order of every head as a tensor if it is learned, else None."""
        if not self.is_learned:
            return None
        return 1.0 + torch.sigmoid(self.mapping_alpha_raw)

    def forward(self, scores, segments, relative_gradient=False, heads=None):
        """Return the weights of tokens.

        Parameters
        ----------
        scores : torch.Tensor of shape (n_tokens, n_heads)
        segments : Segments
        relative_gradient : bool, default=False
            As for :func:`skattn.attention.segments.segment_weights`: for softmax only,
            all other mappings take no notice.
        heads : list of int or slice, default=None
            Which heads the scores are of; None means all.

        Returns
        -------
        weights : torch.Tensor of shape (n_tokens, n_heads)
        """
        if self.is_learned:
            alpha = self.alpha if heads is None else self.alpha[heads]
            function = partial(by_order, alpha=alpha)
        else:
            function = mapping_function(self.name, self.params)
        weigh = segment_weights
        if relative_gradient and self.name == "softmax":
            weigh = partial(segment_weights, relative_gradient=True)
        return function(scores, segments, weigh)

    def extra_repr(self):
        """Name and parameters, as torch prints them."""
        return f"{self.name!r}, {self.params!r}"


def _is_learned(name, params):
    return name == "entmax" and params["alpha"] == "learned"
