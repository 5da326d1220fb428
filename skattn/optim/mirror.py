"""Mirror descent with the l_p potential."""

import warnings

import torch

from skattn.optim._groups import (
    GroupOptimizer,
    check_above,
    check_weight_decay,
    largest_entry,
    moving_parameters,
    unit_length,
)

__all__ = ["MirrorDescent"]


class MirrorDescent(GroupOptimizer):
    """Mirror descent with the potential ``|W|_p^p / p``.

    The steps are those of gradient descent, on dual weights U [1]_:

        U -= lr * grad,   W = sign(U) |U|^(1 / (p - 1)),   entry by entry.

    On attention weights its direction converges to the attention SVM in the l_p norm
    [1]_, as that of gradient descent, which is p = 2, does in the Frobenius norm.
    Between 1 and 2 it prefers sparse weights, above 2 weights of equal size.

    The plain form slows down as the gradient vanishes on its way to the SVM. With
    ``normalized=True`` the gradient of each parameter group is divided by its l_q norm,
    ``1/p + 1/q = 1``, whatever its size: a group per matrix (K, Q, ...) normalises each
    by itself, and a group whose gradient is exactly zero stays where it is.

    The dual weights are the state. They grow no faster than by `lr` a step, while for p
    near 1 their images W leave the range of floats: too small ones are 0 until their
    dual weights have grown, and where entries would exceed the square root of the
    largest float the weights of their group are scaled down together. Weights that
    somebody else changed between two steps are taken as they are, and get new dual
    weights.

    Parameters
    ----------
    params : iterable of torch.Tensor, of (name, tensor) pairs or of dict
        Parameters, or parameter groups, which may have options of their own.
    p : float
        Exponent of the potential, above 1.
    lr : float, default=0.1
        Step size, of the dual weights.
    normalized : bool, default=False
        Whether to divide the gradient of each group by its l_q norm.
    weight_decay : float, default=0
        What is added to the gradient, before it is normalised, for each unit of weight.

    Raises
    ------
    ValueError
        If `p` is not above 1, where the potential has no mirror map, or another option
        is out of its range, in any group.

    Warns
    -----
    UserWarning
        If p < 2 and weights start at exactly 0. The map from U to W is flat there: a
        first step g of the dual weights moves them by ``g^(1 / (p - 1))`` only, and for
        small gradients and p near 1 that looks as if they were frozen. They are not: U
        goes on growing. For p >= 2 a start at 0 is left at once.

    References
    ----------
    .. [1] Julistiono, Tarzanagh and Azizan, "Optimizing Attention with Mirror Descent:
       Generalized Max-Margin Token Selection", arXiv 2410.14581.

    Examples
    --------
    >>> import torch
    >>> from skattn.optim import MirrorDescent
    >>> weight = torch.nn.Parameter(torch.tensor([4.0, 1.0]))
    >>> optimizer = MirrorDescent([weight], p=1.5, lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([2.2500, 0.2500])
    """

    def __init__(self, params, p, lr=0.1, *, normalized=False, weight_decay=0.0):
        options = {
            "p": p,
            "lr": lr,
            "normalized": normalized,
            "weight_decay": weight_decay,
        }
        super().__init__(params, options)

    def add_param_group(self, param_group):  # noqa: D102
        super().add_param_group(param_group)
        _warn_of_zeros(self.param_groups[-1])

    def _move(self):
        for group in self.param_groups:
            parameters, gradients = moving_parameters(group)
            if group["normalized"]:
                gradients = unit_length(gradients, group["p"] / (group["p"] - 1.0))
            if gradients:
                self._move_group(group, parameters, gradients)

    def _move_group(self, group, parameters, gradients):
        duals = self._dual_weights(parameters, group["p"])
        for parameter, dual, gradient in zip(parameters, duals, gradients, strict=True):
            dual.sub_(group["lr"] * gradient)
            self.state[parameter]["dual"] = dual
        images = _images(duals, group["p"])
        for parameter, image in zip(parameters, images, strict=True):
            parameter.copy_(image)

    def _dual_weights(self, parameters, p):
        own = [weight.sign() * weight.abs().pow(p - 1.0) for weight in parameters]
        kept = [
            self.state[parameter].get("dual", dual)
            for parameter, dual in zip(parameters, own, strict=True)
        ]
        return [
            kept_dual if torch.equal(weight, image) else own_dual
            for weight, image, kept_dual, own_dual in zip(
                parameters, _images(kept, p), kept, own, strict=True
            )
        ]

    @staticmethod
    def _check_group(group):
        if not 1.0 < group["p"] < float("inf"):
            raise ValueError(
                f"p must be above 1 and finite, got {group['p']!r}: at p = 1 the "
                "potential has no mirror map. For sparse weights take p a little above."
            )
        check_above(group, "lr", 0.0, "positive")
        check_weight_decay(group)


def _images(duals, p):
    """Return the weights of some dual weights, scaled down together if too large."""
    exponent = 1.0 / (p - 1.0)
    if exponent > 1.0:
        limit = torch.finfo(duals[0].dtype).max ** (0.5 / exponent)
        # Dividing by a peak of 0 gives infinity, which the clamp takes to 1.
        scale = (limit / largest_entry(duals)).clamp(max=1.0)
        duals = [dual * scale for dual in duals]
    return [dual.sign() * dual.abs().pow(exponent) for dual in duals]


def _warn_of_zeros(group):
    p = group["p"]
    if p >= 2.0:
        return
    n_zeros = sum(int((weight == 0.0).sum()) for weight in group["params"])
    if n_zeros:
        n_weights = sum(weight.numel() for weight in group["params"])
        warnings.warn(
            f"{n_zeros} of {n_weights} weights start at 0, which mirror descent with "
            f"p={p} < 2 leaves slowly: a dual step g moves them by g^{1 / (p - 1):.3g}."
            " Start from small random weights, or raise lr.",
            UserWarning,
            # The caller of the constructor.
            stacklevel=5,
        )
