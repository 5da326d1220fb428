"""Generated data whose deciding tokens are known."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state, check_scalar


def _token_range(n_tokens):
    """Smallest and largest number of tokens of a sample."""
    if isinstance(n_tokens, Integral):
        return (check_scalar(n_tokens, "n_tokens", Integral, min_val=1),) * 2
    if not isinstance(n_tokens, tuple | list) or len(n_tokens) != 2:
        raise TypeError(
            f"n_tokens must be an integer or a pair (min, max), got {n_tokens!r}."
        )
    low, high = n_tokens
    check_scalar(low, "n_tokens[0]", Integral, min_val=1)
    check_scalar(high, "n_tokens[1]", Integral, min_val=low)
    return low, high


def _orthonormal_pair(n_features, rng):
    """Two random directions, of length 1 and at a right angle."""
    first, second = rng.standard_normal((2, n_features))
    first /= np.linalg.norm(first)
    second -= (second @ first) * first
    return first, second / np.linalg.norm(second)


def make_token_selection(
    n_samples=100,
    n_tokens=10,
    n_features=10,
    *,
    signal=5.0,
    noise=1.0,
    shared_direction=True,
    return_directions=False,
    random_state=None,
):
    """Generate sequences in which one token carries the label.

    Every token is noise. One token of each sample, at a random position, is noise
    + ``signal * (k + y v)``, where y is -1 for class 0 and 1 for class 1, v is a
    random direction that tells the classes apart and k, orthogonal to v, is a
    direction by which the token can be found whatever its class.

    With ``shared_direction=False`` the direction k of class 0 is the negative of
    that of class 1, so that no linear score finds the token: a prompt p gives the
    planted token an expected score of ``signal * (k + v)'p`` in class 1 and of
    ``-signal * (k + v)'p`` in class 0, and noise tokens one of 0. Two heads can, each
    in one class, and so can one head behind a hidden layer.

    Parameters
    ----------
    n_samples : int, default=100
        Number of samples, half of them of each class (an odd one is of class 0).
    n_tokens : int or (int, int), default=10
        Number of tokens of every sample, or the least and the greatest number (both
        included), between which each sample's is drawn.
    n_features : int, default=10
        Number of features of a token, at least 2.
    signal : float, default=5.0
        Size of the planted token's shift along k and along v.
    noise : float, default=1.0
        Standard deviation of the noise in each feature.
    shared_direction : bool, default=True
        Whether both classes have the same k.
    return_directions : bool, default=False
        Whether to return k and v too.
    random_state : int, RandomState instance or None, default=None
        Source of directions, labels, positions and noise. Two calls with different
        states differ in their directions: for fresh samples of the same kind,
        generate more samples at once and split them.

    Returns
    -------
    X : ndarray of shape (n_samples, n_tokens, n_features) or list of ndarray
        The samples: a list of arrays of shape (n_tokens_i, n_features) if
        ``n_tokens`` is a range.
    y : ndarray of shape (n_samples,)
        The classes, 0 or 1.
    planted : ndarray of shape (n_samples,)
        Position of the planted token in each sample.
    directions : tuple (k, v)
        Only if ``return_directions``: k of shape (2, n_features), a row for each
        class, and v of shape (n_features,), all of length 1.

    Raises
    ------
    TypeError, ValueError
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> from skattn.datasets import make_token_selection
    >>> X, y, planted = make_token_selection(n_samples=6, random_state=0)
    >>> X.shape, y.shape, planted.shape
    ((6, 10, 10), (6,), (6,))
    >>> X, y, planted = make_token_selection(n_tokens=(2, 9), random_state=0)
    >>> type(X), min(len(x) for x in X), max(len(x) for x in X)
    (<class 'list'>, 2, 9)
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    min_tokens, max_tokens = _token_range(n_tokens)
    check_scalar(n_features, "n_features", Integral, min_val=2)
    check_scalar(signal, "signal", Real)
    check_scalar(noise, "noise", Real, min_val=0)
    rng = check_random_state(random_state)

    v, k_of_class_1 = _orthonormal_pair(n_features, rng)
    k = np.stack([k_of_class_1 if shared_direction else -k_of_class_1, k_of_class_1])
    y = rng.permutation(np.arange(n_samples) % 2)
    lengths = rng.randint(min_tokens, max_tokens + 1, size=n_samples)
    planted = rng.randint(lengths)

    values = noise * rng.standard_normal((lengths.sum(), n_features))
    starts = np.cumsum(lengths) - lengths
    values[starts + planted] += signal * (k[y] + np.outer(2 * y - 1, v))

    if isinstance(n_tokens, Integral):
        X = values.reshape(n_samples, n_tokens, n_features)
    else:
        X = np.split(values, starts[1:])
    return (X, y, planted, (k, v)) if return_directions else (X, y, planted)
