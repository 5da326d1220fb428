"""Generated Boolean functions of a few hidden bits, with hints."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import Bunch, check_random_state, check_scalar

#: Whether a function asks for all of its bits or for any, and whether it is noisy.
_FUNCTIONS = {
    "and": (np.all, False),
    "or": (np.any, False),
    "noisy_and": (np.all, True),
    "noisy_or": (np.any, True),
}
_DEFAULT_NOISE = 0.1


def make_boolean_tokens(
    n_samples=100,
    n_bits=16,
    *,
    n_relevant=8,
    function="and",
    noise=None,
    return_X_y=True,
    random_state=None,
):
    """Generate bits as tokens, with a Boolean function of a few of them as the label.

    A sample has `n_bits` fair, independent bits. The token of bit j is ``[e_j, x_j]``:
    a one-hot code of its position, by which attention can find it, and its value. The
    label is the AND, or the OR, of `n_relevant` bits at hidden positions [1]_.

    With many hidden bits nearly all labels of an AND are 0, and of an OR 1: all of n
    are with probability ``(1 - 2 ** -n_relevant) ** n``, and then nothing can be
    learned from them. The hidden bits come in pairs, and the AND, or OR, of each pair
    is a hint, which a learner may be shown in training: what teacher forcing needs.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples.

    n_bits : int, default=16
        Number of bits, and so of tokens, at least 2.

    n_relevant : int, default=8
        Number of hidden bits, even, and at most `n_bits`.

    function : {"and", "or", "noisy_and", "noisy_or"}, default="and"
        Boolean function of the hidden bits. In the noisy variants every label and every
        hint is flipped by itself with probability `noise`, the label after it was
        computed from the true bits. (The body of the paper could not be read: its
        noisy variants may differ.)

    noise : float, default=None
        Probability of a flip in a noisy variant, at least 0 and below 0.5. None stands
        for 0.1.

    return_X_y : bool, default=True
        Whether to return ``(X, y)`` alone.

    random_state : int, RandomState instance or None, default=None
        Source of hidden positions, bits and flips. Two calls with different states
        differ in their hidden positions: for fresh samples of the same function,
        generate more samples at once and split them.

    Returns
    -------
    X : ndarray of shape (n_samples, n_bits, n_bits + 1)
        The tokens.
    y : ndarray of shape (n_samples,)
        The labels, 0 or 1.
    data : :class:`~sklearn.utils.Bunch`
        Instead of them with ``return_X_y=False``, with the attributes

        - `X`, `y`;
        - `bits` : ndarray of shape (n_samples, n_bits), the values 0 and 1;
        - `hints` : ndarray of shape (n_samples, n_relevant / 2), for each pair the
          function of its two bits, 0 or 1;
        - `pairs` : ndarray of shape (n_relevant / 2, 2), positions of each pair;
        - `support` : ndarray of shape (n_relevant,), all hidden positions, sorted.

    Raises
    ------
    ValueError, TypeError
        If a parameter has the wrong type or is out of range, or `noise` is given for a
        function without noise.

    References
    ----------
    .. [1] Hu et al., "Minimalist Softmax Attention Provably Learns Constrained Boolean
       Functions", arXiv 2505.19531.

    Examples
    --------
    >>> from skattn.datasets import make_boolean_tokens
    >>> X, y = make_boolean_tokens(n_samples=6, n_bits=5, n_relevant=2, random_state=0)
    >>> X.shape, y.shape
    ((6, 5, 6), (6,))
    >>> data = make_boolean_tokens(n_relevant=4, return_X_y=False, random_state=0)
    >>> data.pairs.shape, data.hints.shape
    ((2, 2), (100, 2))
    >>> bool((data.hints.all(axis=1) == data.y).all())
    True
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(n_bits, "n_bits", Integral, min_val=2)
    check_scalar(n_relevant, "n_relevant", Integral, min_val=2, max_val=n_bits)
    if n_relevant % 2:
        raise ValueError(
            f"n_relevant must be even, since hidden bits come in pairs; got "
            f"{n_relevant}."
        )
    if not isinstance(function, str) or function not in _FUNCTIONS:
        raise ValueError(
            f"function must be one of {list(_FUNCTIONS)}, got {function!r}."
        )
    combine, is_noisy = _FUNCTIONS[function]
    noise = _check_noise(noise, function, is_noisy)
    rng = check_random_state(random_state)

    pairs = rng.permutation(n_bits)[:n_relevant].reshape(-1, 2)
    bits = rng.randint(2, size=(n_samples, n_bits))
    hints = combine(bits[:, pairs], axis=2)
    y = combine(hints, axis=1)
    if is_noisy:
        hints = hints ^ (rng.uniform(size=hints.shape) < noise)
        y = y ^ (rng.uniform(size=y.shape) < noise)

    X = np.zeros((n_samples, n_bits, n_bits + 1))
    X[:, :, :-1] = np.eye(n_bits)
    X[:, :, -1] = bits
    y = y.astype(np.int64)
    if return_X_y:
        return X, y
    return Bunch(
        X=X,
        y=y,
        bits=bits,
        hints=hints.astype(np.int64),
        pairs=pairs,
        support=np.sort(pairs, axis=None),
    )


def _check_noise(noise, function, is_noisy):
    if not is_noisy:
        if noise is not None:
            raise ValueError(
                f"noise={noise!r} was passed, but function={function!r} has none. Use "
                f"function='noisy_{function}'."
            )
        return 0.0
    if noise is None:
        return _DEFAULT_NOISE
    return check_scalar(
        noise, "noise", Real, min_val=0, max_val=0.5, include_boundaries="left"
    )
