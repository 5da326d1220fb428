"""First values of the parameters of an attention model, in plain NumPy."""

import numpy as np

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
):
    """Draw the parameters from which training starts.

    They depend on the widths alone, never on the number of samples. The head starts
    at zero, and so does a single prompt or W: that model is mean pooling with equal
    odds, and the first directions it takes come from the data. Several heads would
    stay equal to each other if they started equal, and K = Q = 0 never moves, so
    these are uniform in ±1/sqrt(width), as in the code published with
    arXiv:2308.16898. The hidden layer is Glorot-uniform.

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

    Returns
    -------
    parameters : dict of str to numpy.ndarray
        With d the width that attention sees and d_q the width of queries:
        "hidden_coef" (n_features, hidden_size) and "hidden_intercept" (hidden_size,)
        if there is a hidden layer; "attention_coef", (n_heads, d) for a prompt and
        (n_heads, d, d_q) for W, or "key_coef" (n_heads, d, rank) and "query_coef"
        (n_heads, d_q, rank); "coef" (n_outputs, n_heads * d) and "intercept"
        (n_outputs,). All float64.

    Raises
    ------
    ValueError
        If `query_kind` or `parameterization` is unknown, K and Q are asked of a
        prompt, or `rank` is given without K and Q.

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
    _check_choices(query_kind, parameterization, rank, n_query_features)
    parameters = {}
    width = n_features
    if hidden_size:
        fan_in = n_features if n_active_features is None else n_active_features
        bound = np.sqrt(6.0 / (fan_in + hidden_size))
        shape = (n_features, hidden_size)
        parameters["hidden_coef"] = rng.uniform(-bound, bound, size=shape)
        parameters["hidden_intercept"] = np.zeros(hidden_size)
        width = hidden_size
    query_width = n_query_features if query_kind == "given" else width

    if parameterization == "KQ":
        rank = min(width, query_width) if rank is None else rank
        parameters["key_coef"] = _uniform(rng, n_heads, width, rank)
        parameters["query_coef"] = _uniform(rng, n_heads, query_width, rank)
    else:
        shape = (width,) if query_kind == "prompt" else (width, query_width)
        if n_heads == 1:
            parameters["attention_coef"] = np.zeros((1, *shape))
        else:
            parameters["attention_coef"] = _uniform(rng, n_heads, *shape)

    parameters["coef"] = np.zeros((n_outputs, n_heads * width))
    parameters["intercept"] = np.zeros(n_outputs)
    return parameters


def _uniform(rng, n_heads, width, *rest):
    bound = 1.0 / np.sqrt(width)
    return rng.uniform(-bound, bound, size=(n_heads, width, *rest))


def _check_choices(query_kind, parameterization, rank, n_query_features):
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
