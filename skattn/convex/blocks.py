"""The blocks by name: how their gates are drawn, and the features they make."""

from numbers import Integral

import numpy as np

from skattn.convex._attention_features import (
    GatedAttentionFeatures,
    LinearAttentionFeatures,
)
from skattn.convex._fno import FnoGates
from skattn.convex._mixer import MixerGates
from skattn.convex._mlp import MlpGates
from skattn.convex._samples import Samples
from skattn.convex._self_attention import SelfAttentionGates
from skattn.convex.features import ConvexFeatures
from skattn.convex.gates import check_lengths, read_samples
from skattn.convex.memory import check_names, check_width

#: The gates of each block, by its name.
BLOCKS = {
    "self_attention": SelfAttentionGates,
    "mlp": MlpGates,
    "mixer": MixerGates,
    "fno": FnoGates,
}

GATE_RANKS = ("rank_one", "full")

#: The features of each kind of gates that has its own.
FEATURES = {
    ("self_attention", "linear"): LinearAttentionFeatures,
    ("self_attention", "gated_relu"): GatedAttentionFeatures,
}

#: Why a block is not offered with a linear activation and mean pooling.
COLLAPSES = {
    "mlp": "it is a linear model of the mean token, with a nuclear-norm penalty",
    "mixer": "it is a linear model of the flattened sample (position by position), "
    "with a nuclear-norm penalty of beta / sqrt(number of positions)",
    "fno": "it is a linear model of the mean token, with a nuclear-norm penalty of "
    "beta / sqrt(number of positions), a group of features at a time",
}


def make_gates(
    block,
    activation,
    tokens,
    n_gates=8,
    *,
    gate_rank=None,
    n_groups=1,
    rng=None,
    sample_weight=None,
    allow_collapse=False,
):
    """Draw the gates of a block and keep those that differ on the tokens.

    Gates are normal vectors. What is drawn depends on the generator and on the shape
    of a sample alone; the patterns are compared over the samples of positive weight.

    Parameters
    ----------
    block : {"self_attention", "mlp", "mixer", "fno"}
        With X the tokens of a sample, and sums over heads:

        - "self_attention": ``(M_g * (X W_1 X')) X W_2``, ``M_g = 1{X U_g X' >= 0}``;
        - "mlp": ``D_g X w_1 w_2'``, ``D_g = diag(1{X h_g >= 0})``;
        - "mixer": ``(M_g * (W_1 X)) W_2``, ``M_g = 1{H_g X >= 0}``;
        - "fno": the same as "mlp" on ``circ(X)``, all cyclic shifts of the tokens.

    activation : {"linear", "gated_relu"}
        "linear" leaves the gates out.

    tokens : object
        As in :func:`make_features`.

    n_gates : int, default=8
        Gates to draw, for each group. Fewer remain where patterns repeat or are shut
        everywhere.

    gate_rank : {"rank_one", "full"}, default=None
        Form of U in gated self-attention: ``u v'``, or a matrix without structure.
        None stands for "rank_one" there, and is the only choice elsewhere.

    n_groups : int, default=1
        Blocks of features that "fno" treats by themselves and adds up; a divisor of
        the number of features. 1 for the other blocks.

    rng : Generator, RandomState or int, default=None
        Where gates are drawn from.

    sample_weight : ndarray of shape (n_samples,), default=None
        Samples of weight 0 are as if absent.

    allow_collapse : bool, default=False
        Whether to make a block that is a plain linear model after pooling.

    Returns
    -------
    gates : Gates

    Raises
    ------
    ValueError
        If a name is unknown, a parameter does not apply to the block, the combination
        is a plain linear model, samples differ in length where they must not, or
        self-attention would have more than 64 features.

    References
    ----------
    Sahiner, Ergen, Ozturkler, Pauly, Mardani, Pilanci, "Unraveling Attention via
    Convex Duality: Analysis and Interpretations of Vision Transformers", ICML 2022
    (arXiv 2205.08078).

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import make_gates
    >>> tokens = np.random.default_rng(0).standard_normal((5, 3, 2))
    >>> make_gates("mlp", "gated_relu", tokens, n_gates=4, rng=0)
    MlpGates(activation='gated_relu', n_gates=3, n_features=2)
    """
    samples = read_samples(tokens, sample_weight)
    check_names(block, activation)
    if activation == "linear" and block in COLLAPSES and not allow_collapse:
        raise ValueError(
            f"block={block!r} with activation='linear' is not offered: under mean "
            f"pooling {COLLAPSES[block]}. Use activation='gated_relu', "
            "block='self_attention', or a linear model."
        )
    if not (isinstance(n_gates, Integral) and n_gates > 0):
        raise ValueError(f"n_gates must be a positive integer, got {n_gates!r}.")
    gate_rank = _read_gate_rank(gate_rank, block, activation)
    n_groups = _read_groups(n_groups, block, samples.n_features)
    check_width(block, activation, samples, n_gates)

    shape = {"n_groups": n_groups, "gate_rank": gate_rank}
    if block in ("mixer", "fno"):
        shape["n_positions"] = int(samples.lengths[0])
        check_lengths(samples.lengths, shape["n_positions"], block)
    make = BLOCKS[block]
    gates = make(activation, samples.n_features, **shape)
    if activation == "linear":
        return gates
    generator = rng if hasattr(rng, "standard_normal") else np.random.default_rng(rng)
    # Groups inside: more gates are the same gates and more.
    vectors = generator.standard_normal((n_gates, n_groups, *gates.vectors_shape))
    drawn = make(
        activation,
        samples.n_features,
        vectors=vectors.reshape(-1, *gates.vectors_shape),
        group=np.tile(np.arange(n_groups), n_gates),
        **shape,
    )
    return drawn.kept_on(samples)


def make_features(gates, tokens, *, keep=True):
    """Return the features that a block with its gates makes of tokens.

    Parameters
    ----------
    gates : Gates
        As returned by :func:`make_gates`, perhaps for other samples.

    tokens : ndarray of shape (n, T, d), sequence of ndarray of shape (T_i, d), or \
            object with `values` and `offsets`
        The samples.

    keep : bool, default=True
        Whether to keep features of up to 2 GB in memory once they are needed, as a
        solver wants them. False computes them in chunks, for a single prediction.

    Returns
    -------
    features : ConvexFeatures
        Nothing is computed yet.

    Raises
    ------
    ValueError
        If the tokens do not fit the gates.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import make_features, make_gates
    >>> tokens = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    >>> gates = make_gates("self_attention", "linear", tokens)
    >>> features = make_features(gates, tokens)
    >>> features.coef_shape(n_outputs=1)
    (1, 4, 2)
    >>> features.predict(np.ones((1, 4, 2)))
    array([[290.]])
    """
    samples = Samples.read(tokens)
    gates.check_samples(samples)
    kind = FEATURES.get((gates.block, gates.activation), ConvexFeatures)
    return kind(gates, samples, keep)


def _read_gate_rank(gate_rank, block, activation):
    if block == "self_attention" and activation == "gated_relu":
        gate_rank = gate_rank or "rank_one"
        if gate_rank not in GATE_RANKS:
            raise ValueError(
                f"gate_rank must be one of {list(GATE_RANKS)}, got {gate_rank!r}."
            )
    elif gate_rank is not None:
        raise ValueError(
            f"gate_rank={gate_rank!r} applies to gated self-attention only; got "
            f"block={block!r} with activation={activation!r}."
        )
    return gate_rank


def _read_groups(n_groups, block, n_features):
    if not (isinstance(n_groups, Integral) and n_groups > 0):
        raise ValueError(f"n_groups must be a positive integer, got {n_groups!r}.")
    if block != "fno" and n_groups != 1:
        raise ValueError(
            f"n_groups={n_groups!r} applies to block='fno' only; got block={block!r}."
        )
    if n_features % n_groups:
        raise ValueError(
            f"n_groups={n_groups!r} must divide the number of features, {n_features}."
        )
    return int(n_groups)
