"""Self-attention among the tokens of each sample, before attention pools them.

All that is done to a token alone is done on tokens that lie end to end. Only attention
itself, by torch's fused kernel, needs padding, in groups of samples of similar length.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from skattn.attention.initial import glorot, uniform
from skattn.attention.normalization import center_and_scale, check_attention_norm
from skattn.attention.positions import POSITIONS, rotate, sinusoids
from skattn.attention.regularization import Dropout
from skattn.attention.windows import by_windows, check_head_scale

__all__ = ["Encoder", "EncoderLayer", "initial_encoder_parameters"]

# Units of the layer on every token, for each feature of a token.
_EXPANSION = 2


def initial_encoder_parameters(
    rng, *, width, n_layers, position=None, n_positions=None, n_learned_betas=0
):
    """Draw the parameters from which the training of an encoder starts.

    Glorot-uniform; what is added to the tokens is divided by the root of the number of
    additions, ``2 n_layers``, so that these keep the size of the tokens whatever the
    depth.

    Parameters
    ----------
    rng : numpy.random.RandomState
    width : int
        Features of a token.
    n_layers : int
    position : {"learned", "sinusoidal", "rotary"} or None, default=None
    n_positions : int, default=None
        For learned positions: how many there are.
    n_learned_betas : int, default=0
        Heads of Attention-BN that learn how far to centre queries, from 0.

    Returns
    -------
    parameters : dict of str to numpy.ndarray
        By the names that :class:`Encoder` has for them.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.attention.encoder import initial_encoder_parameters
    >>> parameters = initial_encoder_parameters(
    ...     np.random.RandomState(0), width=4, n_layers=1)
    >>> parameters["layers.0.projection_coef"].shape
    (4, 12)
    """
    inner = _EXPANSION * width
    damping = 1.0 / np.sqrt(2.0 * n_layers)
    parameters = {}
    if position == "learned":
        parameters["position"] = uniform(rng, (n_positions, width), width)

    def square():
        return glorot(rng, (width, width), width)

    for number in range(n_layers):
        layer = {
            "attention_scale": np.ones(width),
            "attention_shift": np.zeros(width),
            "projection_coef": np.hstack([square() for _ in "qkv"]),
            # Attention is blind to an offset of the keys, and one of the values is that
            # of the output.
            "query_intercept": np.zeros(width),
            "output_coef": damping * square(),
            "output_intercept": np.zeros(width),
            "token_scale": np.ones(width),
            "token_shift": np.zeros(width),
            "inner_coef": glorot(rng, (width, inner), width),
            "inner_intercept": np.zeros(inner),
            "outer_coef": damping * glorot(rng, (inner, width), inner),
            "outer_intercept": np.zeros(width),
        }
        if n_learned_betas:
            layer["beta"] = np.zeros(n_learned_betas)
        parameters |= {f"layers.{number}.{name}": v for name, v in layer.items()}
    parameters["scale"] = np.ones(width)
    parameters["shift"] = np.zeros(width)
    return parameters


class EncoderLayer(nn.Module):
    """One layer: tokens look at each other, then each goes through a layer of its own.

    ``x + attention(norm(x))``, then ``x + MLP(norm(x))``, with gelu units.

    Parameters
    ----------
    parameters : dict of str to torch.Tensor
        As :func:`initial_encoder_parameters` names them, without the layer.
    n_heads : int
    attention_norm : {"batch"} or None, default=None
        Attention-BN, as for :class:`skattn.attention.scoring.Scoring`: after windows
        are averaged, before positions turn keys.
    beta : float, default=None
        For Attention-BN without a learned beta among the parameters.
    head_scale : int or sequence of n_heads ints, default=None
        Attention-SH: keys and values are averaged over windows of so many positions.
    rotary : bool, default=False
        Whether positions turn keys and queries; a window has the mean of its positions.
    dropout : float, default=0
    """

    def __init__(
        self,
        parameters,
        n_heads,
        *,
        attention_norm=None,
        beta=None,
        head_scale=None,
        rotary=False,
        dropout=0.0,
    ):
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value))
        self.n_heads = n_heads
        self.attention_norm = attention_norm
        self.fixed_beta = beta
        self.head_scale = check_head_scale(head_scale, n_heads)
        self.rotary = rotary
        self.dropout = Dropout(dropout)

    def forward(self, tokens):
        """Return tokens of the same width."""
        values = tokens.values
        seen = _normalized(values, self.attention_scale, self.attention_shift)
        values = values + self.dropout(self._attend(seen, tokens))
        seen = _normalized(values, self.token_scale, self.token_shift)
        units = functional.gelu(seen @ self.inner_coef + self.inner_intercept)
        added = units @ self.outer_coef + self.outer_intercept
        return tokens.with_values(values + self.dropout(added))

    def _attend(self, seen, tokens):
        projected = seen @ self.projection_coef
        queries, keys, values = projected.unflatten(1, (3, self.n_heads, -1)).unbind(1)
        queries = queries + self.query_intercept.unflatten(0, (self.n_heads, -1))

        def of_heads(length, heads):
            parts = (part[:, heads] for part in (queries, keys, values))
            return self._attend_at(length, heads, *parts, tokens)

        attended = by_windows(self.head_scale, self.n_heads, of_heads)
        return attended.flatten(1) @ self.output_coef + self.output_intercept

    def _attend_at(self, length, heads, queries, keys, values, tokens):
        """Attend with heads that have windows of one length; all (n, n_heads, d)."""
        segments, positions = tokens.segments, tokens.positions
        of_keys = segments, positions
        if length > 1:
            windows = tokens.windows(length)
            keys, values = windows.mean(keys), windows.mean(values)
            of_keys = windows.samples, windows.mean(positions.to(keys.dtype))
        if self.attention_norm is not None:
            queries, keys = self._normalize(queries, keys, segments, of_keys[0], heads)
        if self.rotary:
            queries, keys = rotate(queries, positions), rotate(keys, of_keys[1])
        return _attention(queries, keys, values, tokens, length)

    def _normalize(self, queries, keys, of_queries, of_keys, heads):
        centred, mean, square = center_and_scale(keys.flatten(1), of_keys)
        mean, root = (
            part.reshape(-1, *keys.shape[1:]) for part in (mean, square.sqrt())
        )
        beta = self.fixed_beta
        if beta is None:
            beta = self.beta[heads].unsqueeze(1)
        keys = centred.reshape(keys.shape) / of_keys.repeat(root)
        queries = (queries - of_queries.repeat(beta * mean)) / of_queries.repeat(root)
        return queries, keys


def _attention(queries, keys, values, tokens, length):
    """Attention within each sample, by groups of similar length."""
    outputs = []
    padded = [_with_padding(part) for part in (queries, keys, values)]
    for own, others in zip(
        tokens.padded_rows(1), tokens.padded_rows(length), strict=True
    ):
        q, k, v = (
            part[group.rows].transpose(1, 2)
            for part, group in zip(padded, (own, others, others), strict=True)
        )
        mask = None
        if others.present is not None:
            mask = others.present[:, None, None, :]
        output = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        output = output.transpose(1, 2)
        outputs.append(
            output.flatten(0, 1) if own.present is None else output[own.present]
        )
    return torch.cat(outputs)[tokens.bucket_places()]


def _with_padding(values):
    return functional.pad(values, (0, 0, 0, 0, 0, 1))


def _normalized(values, scale, shift):
    return functional.layer_norm(values, scale.shape, scale, shift)


class Encoder(nn.Module):
    """Layers of self-attention over samples of any length.

    A sample never sees another, and without positions the order of its tokens does not
    matter.

    Parameters
    ----------
    parameters : dict of str to torch.Tensor
        As :func:`initial_encoder_parameters` names them.
    n_heads : int
        Of attention; divides the width.
    position : {"learned", "sinusoidal", "rotary"} or None, default=None
        How positions are told apart. Beyond the last that was learned, that one counts.
    attention_norm, beta, head_scale, dropout
        As for :class:`EncoderLayer`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", arXiv:1706.03762; normalised before
    each part as by Xiong et al., arXiv:2002.04745.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skattn.attention import Encoder, RaggedTokens
    >>> from skattn.attention.encoder import initial_encoder_parameters
    >>> parameters = initial_encoder_parameters(
    ...     np.random.RandomState(0), width=4, n_layers=2)
    >>> tensors = {name: torch.tensor(value) for name, value in parameters.items()}
    >>> encoder = Encoder(tensors, n_heads=2)
    >>> tokens = RaggedTokens.from_arrays(np.eye(4), [0, 3, 4])
    >>> encoder(tokens).values.shape
    torch.Size([4, 4])
    """

    def __init__(
        self,
        parameters,
        n_heads,
        *,
        position=None,
        attention_norm=None,
        beta=None,
        head_scale=None,
        dropout=0.0,
    ):
        super().__init__()
        if position not in POSITIONS:
            raise ValueError(
                f"position must be one of {', '.join(map(repr, POSITIONS))}, got "
                f"{position!r}."
            )
        width = len(parameters["scale"])
        if width % n_heads:
            raise ValueError(
                f"n_heads={n_heads} must divide the width of the encoder, {width}."
            )
        _check_options(parameters, width // n_heads, position, attention_norm, beta)
        self.position_kind = position
        self.dropout = Dropout(dropout)
        self.scale = nn.Parameter(parameters["scale"])
        self.shift = nn.Parameter(parameters["shift"])
        self.position = None
        if position == "learned":
            self.position = nn.Parameter(parameters["position"])
        self.layers = nn.ModuleList(
            EncoderLayer(
                layer,
                n_heads,
                attention_norm=attention_norm,
                beta=None if "beta" in layer else beta,
                head_scale=head_scale,
                rotary=position == "rotary",
                dropout=dropout,
            )
            for layer in _by_layer(parameters)
        )

    def forward(self, tokens):
        """Return tokens of the same width, at the same positions.

        Parameters
        ----------
        tokens : RaggedTokens
        """
        values = tokens.values
        if self.position_kind == "learned":
            known = tokens.positions.clamp(max=len(self.position) - 1)
            values = values + self.position[known]
        elif self.position_kind == "sinusoidal":
            width = values.shape[1]
            values = values + sinusoids(tokens.positions, width, values.dtype)
        tokens = tokens.with_values(self.dropout(values))
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens.with_values(_normalized(tokens.values, self.scale, self.shift))


def _check_options(parameters, size, position, attention_norm, beta):
    if position == "rotary" and size % 2:
        raise ValueError(
            f"position='rotary' turns pairs of features, and heads have {size}."
        )
    has_beta = beta is not None or "layers.0.beta" in parameters
    check_attention_norm(attention_norm, has_beta)


def _by_layer(parameters):
    """Return the parameters of each layer, by their names in it."""
    layers = {}
    for name, value in parameters.items():
        if name.startswith("layers."):
            _, number, own_name = name.split(".")
            layers.setdefault(int(number), {})[own_name] = value
    return [layers[number] for number in sorted(layers)]
