"""First values of the parameters of an attention model, in plain NumPy."""

import numpy as np

from skattn.attention.encoder import initial_encoder_parameters
from skattn.attention.initial import glorot, uniform
from skattn.attention.mapping import initial_mapping_parameters
from skattn.attention.pooling import check_pooling, pooled_width

__all__ = ["initial_parameters"]

QUERY_KINDS = ("prompt", "rows", "mean", "given")


def initial_parameters(
    rng,
    *,
    n_features,
    query_kind,
    n_outputs,
    n_query_features=None,
    parameterization="W",
    rank=None,
    n_heads=1,
    hidden_size=0,
    n_active_features=None,
    gate_size=None,
    pooling="attention",
    head_hidden_size=None,
    mapping="softmax",
    mapping_params=None,
    kernel_size=1,
    learned_beta=False,
    n_layers=0,
    position=None,
    n_positions=None,
):
    """Draw the parameters from which training starts.

    They depend on the widths alone, never on the number of samples. The head starts
    at zero, and so does a single prompt or W: that model is mean pooling with equal
    odds, and the first directions it takes come from the data. Several heads would
    stay equal to each other if they started equal, K = Q = 0 never moves, nor does a
    zero that weights are proportional to, so these are uniform in ±1/sqrt(width), as in
    the code published with arXiv:2308.16898. Hidden layers and gates are
    Glorot-uniform.

    Parameters
    ----------
    rng : numpy.random.RandomState
        The only source of randomness.
    n_features : int
        Width of a token as given to the model.
    query_kind : {"prompt", "rows", "mean", "given"}
        Where queries come from: one learned vector, a token of the sample, the mean
        of its tokens, or the caller.
    n_outputs : int
        1 for two classes, else the number of classes.
    n_query_features : int, default=None
        Width of given queries; the other kinds have the width of a token.
    parameterization : {"W", "KQ"}, default="W"
        One matrix, or the product of two.
    rank : int, default=None
        Number of columns of K and Q; None means the smaller of the widths of tokens
        and queries, which leaves W = KQ' unrestricted.
    n_heads : int, default=1
    hidden_size : int, default=0
        Width of the hidden layer; 0 means that attention sees the tokens as given.
    n_active_features : int, default=None
        How many features of a token are not zero, for the scale of the hidden layer;
        None means all. It is 2 for the tokens of a table.
    gate_size : int, default=None
        Width of the gates that a prompt scores by; None means that it scores the tokens
        themselves.
    pooling : "attention" or sequence of str, default="attention"
        What is pooled, see :func:`skattn.attention.pooling.check_pooling`.
    head_hidden_size : int, default=None
        Width of the layer of the head; None means a linear head.
    mapping : str, default="softmax"
    mapping_params : dict, default=None
        As for :class:`skattn.attention.Mapping`.
    kernel_size : int, default=1
        How many neighbouring tokens the hidden layer sees.
    learned_beta : bool, default=False
        Whether Attention-BN learns how far to centre queries. It starts at 0, where a
        prompt of zeros is mean pooling, as without Attention-BN.
    n_layers : int, default=0
        Layers of the encoder behind the hidden layer, which it needs.
    position, n_positions
        As for :func:`skattn.attention.encoder.initial_encoder_parameters`.

    Returns
    -------
    parameters : dict of str to numpy.ndarray
        With d the width that attention sees and d_q the width of queries:
        "hidden_coef" (n_features, hidden_size), with `kernel_size` as its first axis if
        that is above 1, and "hidden_intercept" (hidden_size,) if there is a hidden
        layer; "attention_coef", (n_heads, d) for a prompt and
        (n_heads, d, d_q) for W, or "key_coef" (n_heads, d, rank) and "query_coef"
        (n_heads, d_q, rank), or with gates "tanh_coef" and "sigmoid_coef"
        (d, gate_size) and "attention_coef" (n_heads, gate_size);
        those of the encoder, with "encoder." before their names;
        "mapping_alpha_raw" (n_heads,) if the mapping learns its alpha;
        "attention_beta" (n_heads,) if that is learned;
        "head_hidden_coef" (n_pooled, head_hidden_size) and "head_hidden_intercept"
        (head_hidden_size,) if the head has a layer; "coef" (n_outputs, n_pooled), or
        (n_outputs, head_hidden_size), and "intercept" (n_outputs,). Attention pools
        n_heads * d numbers. All float64.

    Raises
    ------
    ValueError
        If `query_kind`, `parameterization` or `pooling` is unknown, K and Q are asked
        of a prompt, `rank` is given without K and Q, or gates without a prompt.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.attention import initial_parameters
    >>> parameters = initial_parameters(
    ...     np.random.RandomState(0), n_features=4, query_kind="mean", n_outputs=3,
    ...     n_heads=2)
    >>> {name: value.shape for name, value in parameters.items()}
    {'attention_coef': (2, 4, 4), 'coef': (3, 8), 'intercept': (3,)}
    """
    _check_choices(query_kind, parameterization, rank, n_query_features, gate_size)
    parameters = {}
    width = n_features
    fan_in = n_features if n_active_features is None else n_active_features
    if hidden_size:
        shape = (n_features, hidden_size)
        if kernel_size > 1:
            shape = (kernel_size, *shape)
        parameters["hidden_coef"] = glorot(rng, shape, kernel_size * fan_in)
        parameters["hidden_intercept"] = np.zeros(hidden_size)
        width = fan_in = hidden_size
    if n_layers:
        encoder = initial_encoder_parameters(
            rng,
            width=width,
            n_layers=n_layers,
            position=position,
            n_positions=n_positions,
            n_learned_betas=n_heads if learned_beta else 0,
        )
        parameters |= {f"encoder.{name}": value for name, value in encoder.items()}
    query_width = n_query_features if query_kind == "given" else width

    if parameterization == "KQ":
        rank = min(width, query_width) if rank is None else rank
        parameters["key_coef"] = uniform(rng, (n_heads, width, rank), width)
        parameters["query_coef"] = uniform(
            rng, (n_heads, query_width, rank), query_width
        )
    else:
        shape = (width,) if query_kind == "prompt" else (width, query_width)
        if gate_size is not None:
            for name in ("tanh_coef", "sigmoid_coef"):
                parameters[name] = glorot(rng, (width, gate_size), fan_in)
            shape = (gate_size,)
        # Weights that are scores would leave the head nothing to see.
        if n_heads == 1 and mapping != "linear":
            parameters["attention_coef"] = np.zeros((1, *shape))
        else:
            parameters["attention_coef"] = uniform(rng, (n_heads, *shape), shape[0])

    parameters.update(initial_mapping_parameters(mapping, mapping_params, n_heads))
    if learned_beta:
        parameters["attention_beta"] = np.zeros(n_heads)
    n_inputs = pooled_width(check_pooling(pooling), n_heads, width)
    if head_hidden_size is not None:
        shape = (n_inputs, head_hidden_size)
        parameters["head_hidden_coef"] = glorot(rng, shape, n_inputs)
        parameters["head_hidden_intercept"] = np.zeros(head_hidden_size)
        n_inputs = head_hidden_size
    parameters["coef"] = np.zeros((n_outputs, n_inputs))
    parameters["intercept"] = np.zeros(n_outputs)
    return parameters


def _check_choices(query_kind, parameterization, rank, n_query_features, gate_size):
    if query_kind not in QUERY_KINDS:
        raise ValueError(
            f"query_kind must be one of {', '.join(map(repr, QUERY_KINDS))}, got "
            f"{query_kind!r}."
        )
    if parameterization not in ("W", "KQ"):
        raise ValueError(
            f"parameterization must be 'W' or 'KQ', got {parameterization!r}."
        )
    if parameterization == "KQ" and query_kind == "prompt":
        raise ValueError(
            "parameterization='KQ' needs queries: a prompt is one vector, not a "
            "product. Use parameterization='W' or another kind of query."
        )
    if rank is not None and parameterization != "KQ":
        raise ValueError("rank is for parameterization='KQ' only.")
    if (n_query_features is None) == (query_kind == "given"):
        raise ValueError(
            "n_query_features must be given for query_kind='given', and for no other."
        )
    if gate_size is not None and query_kind != "prompt":
        raise ValueError(
            f"gate_size is for query_kind='prompt' only, got {query_kind!r}."
        )
