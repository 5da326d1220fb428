"""What convex heads need in memory, known before any work."""

import numpy as np

from skattn.convex._samples import Samples

#: Widest tokens that self-attention accepts: its matrices have their third power.
WIDEST_ATTENTION = 64

#: Bytes of features up to which they are kept; beyond, they are computed in chunks
#: whenever they are needed.
KEPT_BYTES = 2**31

#: Arrays of the size of the solution that a solver holds at the same time.
COPIES = 8

#: Arrays of the size of the tokens that a problem makes while it merges equal samples.
TOKEN_COPIES = 2

#: Numbers that the matrix of one gate holds for one output, by width and number of
#: tokens and the number of groups.
NUMBERS = {
    "self_attention": lambda d, s, n_groups: d**3,
    "mlp": lambda d, s, n_groups: d,
    "mixer": lambda d, s, n_groups: s * s * d,
    "fno": lambda d, s, n_groups: s * d // n_groups,
}

ACTIVATIONS = ("linear", "gated_relu")

_BYTES = 8


def estimate_memory(block, activation, tokens, n_outputs, n_gates=8, *, n_groups=1):
    """Estimate the memory of features, solver and copies of the tokens.

    Parameters
    ----------
    block, activation, tokens, n_gates, n_groups : object
        As in :func:`make_gates`. Gates that will turn out to repeat are counted.

    n_outputs : int
        Outputs of the head: 1 for two classes.

    Returns
    -------
    n_bytes : int
        At the peak, beside the tokens that are given.

    Raises
    ------
    ValueError
        If a name is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.convex import estimate_memory
    >>> tokens = np.zeros((1000, 10, 32))
    >>> estimate_memory("self_attention", "gated_relu", tokens, 1) / 1e9
    1.103...
    """
    check_names(block, activation)
    samples = Samples.read(tokens)
    numbers = numbers_of_coef(block, activation, samples, n_gates, n_groups)
    features = features_bytes(block, activation, samples, n_gates, n_groups)
    solver = COPIES * _BYTES * numbers * n_outputs
    return min(features, KEPT_BYTES) + solver + TOKEN_COPIES * samples.values.nbytes


def check_names(block, activation):
    """Refuse blocks and activations that do not exist."""
    if block not in NUMBERS:
        raise ValueError(f"block must be one of {list(NUMBERS)}, got {block!r}.")
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation must be one of {list(ACTIVATIONS)}, got {activation!r}."
        )


def numbers_of_coef(block, activation, samples, n_gates, n_groups=1):
    """Return the numbers that all matrices hold for one output."""
    d, s = samples.n_features, int(samples.lengths.max())
    gates = (1 if activation == "linear" else n_gates) * n_groups
    return gates * NUMBERS[block](d, s, n_groups)


def features_bytes(block, activation, samples, n_gates, n_groups=1):
    """Return what the features of all samples need if they are kept."""
    if block == "self_attention" and activation == "linear":
        # Kept as two factors.
        d = samples.n_features
        return _BYTES * len(samples) * (d * d + d)
    if block == "self_attention":
        # No pair of features twice.
        d = samples.n_features
        return _BYTES * len(samples) * n_gates * d * d * (d + 1) // 2
    numbers = numbers_of_coef(block, activation, samples, n_gates, n_groups)
    return _BYTES * len(samples) * numbers


def check_width(block, activation, samples, n_gates):
    """Refuse self-attention on tokens that are too wide for it.

    Raises
    ------
    ValueError
        With what it would have needed.
    """
    d = samples.n_features
    if block != "self_attention" or d <= WIDEST_ATTENTION:
        return
    coef = _BYTES * numbers_of_coef(block, activation, samples, n_gates)
    features = features_bytes(block, activation, samples, n_gates)
    raise ValueError(
        f"block='self_attention' has d^3 weights for each gate and output, and accepts "
        f"tokens of at most {WIDEST_ATTENTION} features; got d={d}, which would have "
        f"needed {show_bytes(features)} for the features of {len(samples)} samples and "
        f"{show_bytes(COPIES * coef)} for each output. Reduce the dimension of the "
        "tokens first, for example with sklearn.decomposition.PCA."
    )


def show_bytes(n_bytes):
    """Write a number of bytes for people.

    Examples
    --------
    >>> from skattn.convex.memory import show_bytes
    >>> show_bytes(2_164_000_000)
    '2.2 GB'
    """
    power = min(int(np.log(max(n_bytes, 1)) / np.log(1000)), 4)
    return f"{n_bytes / 1000**power:.1f} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"
