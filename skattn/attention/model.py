"""The attention model: score the tokens, pool them, read the answer."""

from dataclasses import dataclass

import torch
from torch import nn

from skattn.attention.diversity import head_overlap
from skattn.attention.encoder import Encoder
from skattn.attention.heads import LinearHead, MLPHead
from skattn.attention.hidden import ConvolutionLayer, HiddenLayer
from skattn.attention.layouts import RaggedTokens, TableTokens
from skattn.attention.mapping import Mapping
from skattn.attention.parameters import QUERY_KINDS
from skattn.attention.pooling import pool
from skattn.attention.regularization import Dropout
from skattn.attention.scoring import (
    BilinearScoring,
    GatedScoring,
    KeyQueryScoring,
    PromptScoring,
)
from skattn.attention.windows import window_weights

__all__ = ["Attended", "AttentionModel"]

# What the names of the parameters of an encoder begin with.
_ENCODER = "encoder."


@dataclass(frozen=True)
class Attended:
    """What attention made of a batch.

    Parameters
    ----------
    features : RaggedTokens or TableTokens
        Tokens as attention sees them, after the hidden layer if there is one.
    scores, weights : torch.Tensor of shape (n_tokens, n_heads)
        Before and after the mapping; the weights of a sample sum to one.
    pooling : tuple of str, default=("attention",)
        What `pooled` is made of.

    Examples
    --------
    >>> import torch
    >>> from skattn.attention import Attended, RaggedTokens
    >>> tokens = RaggedTokens.from_arrays([[1.0], [5.0]], [0, 2])
    >>> half = torch.full((2, 1), 0.5).double()
    >>> Attended(tokens, scores=half, weights=half).pooled
    tensor([[3.]], dtype=torch.float64)
    """

    features: RaggedTokens | TableTokens
    scores: torch.Tensor
    weights: torch.Tensor
    pooling: tuple = ("attention",)

    @property
    def pooled(self):
        """What the tokens of each sample are pooled into, (n_samples, n_pooled)."""
        return pool(self.features, self.weights, self.pooling)


class AttentionModel(nn.Module):
    """Attention over the tokens of each sample, then a head.

    ``f(X, z) = v'X'S(XWz)`` of arXiv:2308.16898, or ``v'X'S(Xp)`` of
    arXiv:2306.13596, with any number of heads and outputs, and an optional hidden
    layer in front.

    Parameters
    ----------
    scoring : PromptScoring, GatedScoring, BilinearScoring or KeyQueryScoring
    head : LinearHead or MLPHead
    hidden : HiddenLayer or ConvolutionLayer, default=None
    encoder : Encoder, default=None
        Self-attention among the tokens of a sample, after the hidden layer.
    mapping : Mapping or str, default="softmax"
        From scores to weights; a name stands for the mapping with its own defaults.
    query_kind : {"prompt", "rows", "mean", "given"}, default="prompt"
        Where queries come from: the prompt of the scoring, a token of the sample or
        the mean of its tokens, both as attention sees them, or the batch.
    dropout : float in [0, 1), default=0
        Share of the features of tokens, as attention sees them, that training drops;
        an encoder has dropout of its own instead.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.attention import (
    ...     AttentionModel, RaggedTokens, TokenBatch, initial_parameters)
    >>> parameters = initial_parameters(
    ...     np.random.RandomState(0), n_features=2, query_kind="prompt", n_outputs=1)
    >>> parameters["coef"] += 1.0
    >>> model = AttentionModel.from_parameters(parameters)
    >>> tokens = RaggedTokens.from_arrays([[1.0, 2.0], [3.0, 4.0]], [0, 2])
    >>> model(TokenBatch(tokens)).detach()
    tensor([[5.]], dtype=torch.float64)
    """

    def __init__(
        self,
        scoring,
        head,
        *,
        hidden=None,
        encoder=None,
        mapping="softmax",
        query_kind="prompt",
        dropout=0.0,
    ):
        super().__init__()
        if query_kind not in QUERY_KINDS:
            raise ValueError(
                f"query_kind must be one of {', '.join(map(repr, QUERY_KINDS))}, got "
                f"{query_kind!r}."
            )
        if (query_kind == "prompt") != isinstance(scoring, PromptScoring):
            raise ValueError(
                f"query_kind={query_kind!r} does not go with "
                f"{type(scoring).__name__}: PromptScoring goes with 'prompt', and "
                "the other scorings with every other kind."
            )
        self.hidden = hidden
        self.encoder = encoder
        self.scoring = scoring
        self.head = head
        self.mapping = mapping if isinstance(mapping, Mapping) else Mapping(mapping)
        self.query_kind = query_kind
        self.dropout = Dropout(dropout)
        #: Whether the gradients of the scoring may be off by a common positive factor
        #: that keeps them from underflowing; see `segment_weights`.
        self.relative_gradients = False

    @classmethod
    def from_parameters(
        cls,
        parameters,
        *,
        mapping="softmax",
        mapping_params=None,
        query_kind="prompt",
        pooling="attention",
        attention_norm=None,
        beta=None,
        head_scale=None,
        n_heads=None,
        position=None,
        dropout=0.0,
        dtype=torch.float64,
        device="cpu",
    ):
        """Build the model that has these parameters.

        Parameters
        ----------
        parameters : dict of str to array
            As :func:`initial_parameters` returns them; they are copied.
        mapping : str, default="softmax"
        mapping_params : dict, default=None
            As for :class:`Mapping`.
        query_kind
            As for the class.
        pooling : "attention" or sequence of str, default="attention"
            As for the head.
        attention_norm : {"batch"} or None, default=None
        beta : float, default=None
        head_scale : int or sequence of n_heads ints, default=None
            As for :class:`skattn.attention.scoring.Scoring`; `beta` is for one that is
            not learned, and then not among the parameters.
        n_heads : int, default=None
        position : {"learned", "sinusoidal", "rotary"} or None, default=None
            As for :class:`Encoder`; None heads means as many as pool.
        dropout : float in [0, 1), default=0
            As for the class, and for :class:`Encoder`.
        dtype : torch.dtype, default=torch.float64
        device : str or torch.device, default="cpu"
        """
        values = {
            name: torch.tensor(value, dtype=dtype, device=device)
            for name, value in parameters.items()
        }
        options = {
            "attention_norm": attention_norm,
            "beta": values.get("attention_beta", beta),
            "head_scale": head_scale,
        }
        if "key_coef" in values:
            scoring = KeyQueryScoring(
                values["key_coef"], values["query_coef"], **options
            )
        elif "tanh_coef" in values:
            scoring = GatedScoring(
                values["tanh_coef"],
                values["sigmoid_coef"],
                values["attention_coef"],
                **options,
            )
        elif query_kind == "prompt":
            scoring = PromptScoring(values["attention_coef"], **options)
        else:
            scoring = BilinearScoring(values["attention_coef"], **options)
        outputs = values["coef"], values["intercept"]
        if "head_hidden_coef" in values:
            units = values["head_hidden_coef"], values["head_hidden_intercept"]
            head = MLPHead(*units, *outputs, pooling)
        else:
            head = LinearHead(*outputs, pooling)
        alpha_raw = values.get("mapping_alpha_raw")
        return cls(
            scoring,
            head,
            hidden=_hidden_layer(values),
            encoder=_encoder(
                values,
                scoring.n_heads if n_heads is None else n_heads,
                position=position,
                attention_norm=attention_norm,
                beta=beta,
                head_scale=head_scale,
                dropout=dropout,
            ),
            mapping=Mapping(mapping, mapping_params, alpha_raw),
            query_kind=query_kind,
            dropout=dropout,
        ).eval()

    @property
    def head_scale(self):
        """Length of the windows that each head attends to; None for single tokens."""
        return self.scoring.head_scale

    @property
    def dropout_rate(self):
        """Share of the features that training drops."""
        return self.dropout.rate

    def seed_dropout(self, seed):
        """Make what training drops from now on depend on a seed alone."""
        device = next(self.parameters()).device
        generator = torch.Generator(device).manual_seed(seed)
        for module in self.modules():
            if isinstance(module, Dropout):
                module.generator = generator

    def parameters_as_arrays(self):
        """Copy the parameters into NumPy arrays, by the names they came with."""
        return {
            _own_name(name): parameter.detach().cpu().numpy().copy()
            for name, parameter in self.named_parameters()
        }

    def parameter_groups(self):
        """Parameters that belong together, for optimisers that treat them apart.

        Returns
        -------
        groups : dict of str to list of torch.nn.Parameter
            "hidden" and "encoder" if there are these, "attention" or "key" and "query",
            "tanh" and "sigmoid" if there are gates, "mapping" if that learns its alpha,
            and "head".
        """
        groups = {}
        if self.hidden is not None:
            groups["hidden"] = list(self.hidden.parameters())
        if self.encoder is not None:
            groups["encoder"] = list(self.encoder.parameters())
        for name, parameter in self.scoring.named_parameters():
            groups[name.removesuffix("_coef")] = [parameter]
        if self.mapping.is_learned:
            groups["mapping"] = list(self.mapping.parameters())
        groups["head"] = list(self.head.parameters())
        return groups

    def attend(self, batch):
        """Score and weigh the tokens of a batch.

        Parameters
        ----------
        batch : TokenBatch

        Returns
        -------
        attended : Attended

        Raises
        ------
        ValueError
            If the batch lacks the queries that this model needs.
        """
        features = self._features(batch)
        scores = self.scoring(features, self._query(features, batch))
        weights = self._weigh(scores, features)
        return Attended(features, scores, weights, self.head.pooling)

    def forward(self, batch):
        """Return logits of shape (n_samples, n_outputs) for a TokenBatch."""
        attended = self.attend(batch)
        return self.head(attended.features, attended.weights)

    def forward_with_overlap(self, batch):
        """Return logits, and how much the heads of attention look at the same tokens.

        Returns
        -------
        logits : torch.Tensor of shape (n_samples, n_outputs)
        overlap : torch.Tensor of shape (n_samples,)
            See :func:`skattn.attention.diversity.head_overlap`.
        """
        attended = self.attend(batch)
        logits = self.head(attended.features, attended.weights)
        return logits, head_overlap(attended.weights, attended.features.segments)

    def scored_tokens(self, batch):
        """Return the tokens that the weights of attention are multiplied with.

        Those of the batch, or what a hidden layer, and then gates, make of them.
        """
        features = self._features(batch)
        if isinstance(self.scoring, GatedScoring):
            return self.scoring.gated(features)
        return features

    def _features(self, batch):
        features = batch.tokens if self.hidden is None else self.hidden(batch.tokens)
        if self.encoder is not None:
            # The encoder has dropout of its own.
            return self.encoder(features)
        return self._with_dropout(features)

    def _with_dropout(self, features):
        if not self.training or self.dropout_rate == 0.0:
            return features
        if isinstance(features, TableTokens):
            return TableTokens(self.dropout(features.cells))
        return features.with_values(self.dropout(features.values))

    def _weigh(self, scores, features):
        if self.head_scale is None:
            return self.mapping(scores, features.segments, self.relative_gradients)
        return window_weights(
            scores,
            features,
            self.head_scale,
            lambda scores, segments, heads: self.mapping(
                scores, segments, self.relative_gradients, heads
            ),
        )

    def _query(self, features, batch):
        if self.query_kind == "mean":
            return features.mean()
        if self.query_kind == "rows":
            if batch.query_rows is None:
                raise ValueError("query_kind='rows' needs batch.query_rows.")
            return features.rows(batch.query_rows)
        if self.query_kind == "given":
            if batch.query is None:
                raise ValueError("query_kind='given' needs batch.query.")
            return batch.query
        return None


def _hidden_layer(values):
    """Return the layer that these parameters are of, if any."""
    if "hidden_coef" not in values:
        return None
    coef = values["hidden_coef"]
    layer = HiddenLayer if coef.ndim == 2 else ConvolutionLayer
    return layer(coef, values["hidden_intercept"])


def _encoder(values, n_heads, **options):
    """Return the encoder that these parameters are of, if any."""
    own = {
        name.removeprefix(_ENCODER): value
        for name, value in values.items()
        if name.startswith(_ENCODER)
    }
    return Encoder(own, n_heads, **options) if own else None


def _own_name(name):
    """Return the name that a parameter came with."""
    return name if name.startswith(_ENCODER) else name.rpartition(".")[2]
