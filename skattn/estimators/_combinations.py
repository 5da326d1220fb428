"""Parameters of attention trained by gradients that contradict each other.

Each refusal names both parameters and a remedy, before any work is done.
"""

from skattn._noise import refuse_noise
from skattn.mappings import check_mapping
from skattn.tokens._table import TableTokens

# What hidden_size=0 means with an encoder.
_ENCODER_WIDTH = 64


def check_combinations(estimator):
    """Refuse parameters that contradict each other, by name."""
    check_mapping(estimator.mapping, estimator.mapping_params)
    _check_attention(estimator)
    _check_normalisation(estimator)
    _check_tokens(estimator)
    _check_head(estimator)
    _check_solver(estimator)


def _check_attention(estimator):
    if estimator.scoring == "gated" and estimator.parameterization == "KQ":
        raise ValueError(
            "scoring='gated' scores by a prompt, and parameterization='KQ' by keys and "
            "queries. Use scoring='linear', or parameterization='W'."
        )
    if estimator.scoring == "gated" and estimator.query != "prompt":
        raise ValueError(
            f"scoring='gated' scores by a prompt; got query={estimator.query!r}. Use "
            "query='prompt', or scoring='linear'."
        )
    if estimator.gate_size is not None and estimator.scoring != "gated":
        raise ValueError(
            f"gate_size={estimator.gate_size} needs scoring='gated'; got "
            f"scoring={estimator.scoring!r}."
        )
    if estimator.parameterization == "KQ" and estimator.query == "prompt":
        raise ValueError(
            "parameterization='KQ' needs queries, and query='prompt' has none. Use "
            "parameterization='W', or another query."
        )
    if estimator.rank is not None and estimator.parameterization != "KQ":
        raise ValueError(
            f"rank={estimator.rank} needs parameterization='KQ'; got "
            f"parameterization={estimator.parameterization!r}."
        )
    if estimator.diversity > 0 and estimator.n_heads == 1:
        raise ValueError(
            f"diversity={estimator.diversity} needs heads that can differ; got "
            "n_heads=1."
        )
    if estimator.diversity > 0 and estimator.mapping == "linear":
        raise ValueError(
            f"diversity={estimator.diversity} compares weights that add up to 1, and "
            "mapping='linear' has others. Use diversity=0, or another mapping."
        )


def _check_normalisation(estimator):
    from skattn.attention.windows import check_head_scale

    if estimator.beta != "learned" and estimator.attention_norm is None:
        raise ValueError(
            f"beta={estimator.beta} needs attention_norm='batch'; got "
            "attention_norm=None."
        )
    check_head_scale(estimator.head_scale, estimator.n_heads)


def _check_tokens(estimator):
    if estimator.kernel_size > 1 and not (estimator.hidden_size or estimator.n_layers):
        raise ValueError(
            f"kernel_size={estimator.kernel_size} is of the hidden layer; got "
            "hidden_size=0. Set hidden_size, for example to 64."
        )
    if estimator.position is not None and not estimator.n_layers:
        raise ValueError(
            f"position={estimator.position!r} is of the encoder; got n_layers=0. Set "
            "n_layers, or use PositionalEncoding before the estimator."
        )
    width = encoder_width(estimator)
    if estimator.n_layers and width % estimator.n_heads:
        raise ValueError(
            f"n_heads={estimator.n_heads} must divide the width of the encoder, "
            f"hidden_size={width}."
        )
    size = width // estimator.n_heads
    if estimator.n_layers and estimator.position == "rotary" and size % 2:
        raise ValueError(
            f"position='rotary' turns pairs of features, and heads have {size}: "
            f"hidden_size={width} over n_heads={estimator.n_heads}. Choose a "
            "hidden_size that is an even multiple of n_heads."
        )


def encoder_width(estimator):
    """Return the width of tokens after the hidden layer, 0 without one."""
    if estimator.n_layers and not estimator.hidden_size:
        return _ENCODER_WIDTH
    return estimator.hidden_size


def check_token_dropout(estimator, tokens):
    """Refuse to leave out tokens where each has a column of its own."""
    if estimator.token_dropout > 0 and isinstance(tokens, TableTokens):
        raise ValueError(
            f"token_dropout={estimator.token_dropout} needs sequences: a table has a "
            "column for each token. Use token_dropout=0, or FeatureTokenizer before "
            "the estimator."
        )


def _check_head(estimator):
    from skattn.attention.pooling import check_pooling

    check_pooling(estimator.pooling)
    if estimator.head_hidden_size is not None and estimator.head != "mlp":
        raise ValueError(
            f"head_hidden_size={estimator.head_hidden_size} needs head='mlp'; got "
            f"head={estimator.head!r}."
        )


def _check_solver(estimator):
    if estimator.solver != "mirror" and estimator.mirror_p != 2.0:
        raise ValueError(
            f"mirror_p={estimator.mirror_p} needs solver='mirror'; got "
            f"solver={estimator.solver!r}."
        )
    if estimator.solver == "lbfgs" and estimator.batch_size not in ("auto", None):
        raise ValueError(
            f"solver='lbfgs' takes all samples at every step, which "
            f"batch_size={estimator.batch_size} contradicts. Use batch_size='auto', or "
            "solver='adam'."
        )
    refuse_noise(
        estimator.solver,
        average=estimator.average,
        dropout=estimator.dropout,
        token_dropout=estimator.token_dropout,
        # Regressors have none.
        mixup=getattr(estimator, "mixup", 0.0),
    )


def check_given_head(estimator, coef_init, goes_on):
    """Refuse a head of which a part would be missing.

    Parameters
    ----------
    estimator : AttentionClassifier or AttentionRegressor
        Not yet fitted.

    coef_init : array-like or None
        What the caller of `fit` gives of the head.

    goes_on : bool
        Whether there is the head of an earlier fit.
    """
    if estimator.head == "mlp" and coef_init is not None:
        raise ValueError(
            "coef_init gives a linear head, and head='mlp' has a layer before it. Use "
            "warm_start=True to start from an earlier fit, or head='linear'."
        )
    if not estimator.freeze_head or goes_on or coef_init is not None:
        return
    if estimator.head == "mlp":
        raise ValueError(
            "freeze_head=True with head='mlp' needs the head of an earlier fit: fit "
            "once with warm_start=True and freeze_head=False."
        )
    raise ValueError(
        "freeze_head=True needs coef_init: the head must be given, since it is not "
        "trained."
    )
