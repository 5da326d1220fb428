"""Losses of a sample, from the outputs of a model."""

from functools import partial

from torch.nn import functional

__all__ = ["LOSSES", "log_loss", "make_loss", "squared_error"]


def log_loss(outputs, targets, label_smoothing=0.0):
    """Logistic loss for one output, cross-entropy for several.

    Parameters
    ----------
    outputs : torch.Tensor of shape (n_samples, n_outputs)
        Logits.
    targets : torch.Tensor of shape (n_samples,)
        0 and 1 for one output, else the class of each sample, int64.
    label_smoothing : float in [0, 1), default=0
        Share of each label that is spread evenly over all classes.

    Returns
    -------
    losses : torch.Tensor of shape (n_samples,)

    References
    ----------
    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision",
    arXiv:1512.00567, section 7.

    Examples
    --------
    >>> import torch
    >>> from skattn.optim.losses import log_loss
    >>> log_loss(torch.tensor([[0.0], [2.0]]), torch.tensor([1, 0]))
    tensor([0.6931, 2.1269])
    """
    if outputs.shape[1] > 1:
        return functional.cross_entropy(
            outputs, targets, reduction="none", label_smoothing=label_smoothing
        )
    signs = 2.0 * targets.to(outputs.dtype) - 1.0
    margins = signs * outputs.squeeze(1)
    # Unlike sigmoid(logit) - target, its gradient has all digits when small.
    losses = -functional.logsigmoid(margins)
    if label_smoothing == 0.0:
        return losses
    return losses + 0.5 * label_smoothing * margins


def squared_error(outputs, targets):
    """Half the squared error, averaged over outputs as by `MLPRegressor`.

    Parameters
    ----------
    outputs : torch.Tensor of shape (n_samples, n_outputs)
    targets : torch.Tensor of shape (n_samples, n_outputs), or (n_samples,) for one

    Returns
    -------
    losses : torch.Tensor of shape (n_samples,)

    Raises
    ------
    ValueError
        If there is not one target an output.

    Examples
    --------
    >>> import torch
    >>> from skattn.optim.losses import squared_error
    >>> squared_error(torch.tensor([[1.0], [4.0]]), torch.tensor([1.0, 2.0]))
    tensor([0., 2.])
    """
    wanted = targets.unsqueeze(1) if targets.ndim == 1 else targets
    if wanted.shape != outputs.shape:
        raise ValueError(
            f"targets must have shape {tuple(outputs.shape)}, one a sample and output, "
            f"got {tuple(targets.shape)}."
        )
    return 0.5 * (outputs - wanted.to(outputs.dtype)).square().mean(dim=1)


LOSSES = ("log_loss", "squared_error")


def make_loss(name, label_smoothing=0.0):
    """Return the function of outputs and targets that a loss is.

    Raises
    ------
    ValueError
        If the name is unknown, or labels are to be smoothed where there are none.
    """
    if name not in LOSSES:
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, LOSSES))}, got {name!r}."
        )
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing must be in [0, 1), got {label_smoothing}.")
    if name == "log_loss":
        return partial(log_loss, label_smoothing=label_smoothing)
    if label_smoothing > 0.0:
        raise ValueError(
            f"label_smoothing={label_smoothing} needs labels, and loss={name!r} has "
            "none."
        )
    return squared_error
