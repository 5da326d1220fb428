"""The kernel by which support-vector regression is softmax attention."""

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_array

from skattn._attention_norm import EPSILON


def attention_kernel(X, Y=None, *, attention_norm=None, scale=1.0):
    """Exponential kernel between features whose size attention normalises.

    ``K(q, k) / (h(q) h(k))`` with ``K(q, k) = exp(q'k / sqrt(D))`` and
    ``h(x) = sum_j K(x, k_j)`` over all keys. A support-vector regression with this
    kernel predicts ``softmax(q K' / sqrt(D)) V + b`` with values
    ``V_j = dual_coef_j / h(k_j)``: it is an attention layer [1]_, which
    :meth:`skattn.AttentionRegressor.from_svr` writes out. Give it to scikit-learn as
    ``SVR(kernel=attention_kernel)``, or with options by `functools.partial`.

    Parameters
    ----------
    X : array-like of shape (n_queries, D)
        Queries.

    Y : array-like of shape (n_keys, D), default=None
        Keys; None means X.

    attention_norm : {"batch"} or None, default=None
        Attention-BN with ``beta=1``: queries and keys are centred by the mean of the
        keys and divided by their deviation first.

    scale : float, default=1.0
        A factor. Entries are of the order of ``1 / n_keys ** 2``, which leaves solvers
        few digits; a large factor with `C` divided by it is the same model.

    Returns
    -------
    kernel : ndarray of shape (n_queries, n_keys)

    References
    ----------
    .. [1] Nguyen et al., "A Primal-Dual Framework for Transformers and Neural
       Networks", arXiv 2406.13781.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVR
    >>> from skattn import AttentionRegressor
    >>> from skattn.theory import attention_kernel
    >>> rng = np.random.default_rng(0)
    >>> keys, queries = rng.standard_normal((2, 30, 4))
    >>> svr = SVR(kernel=attention_kernel, C=1e4, epsilon=0.01).fit(keys, keys[:, 0])
    >>> attention = AttentionRegressor.from_svr(svr, keys)
    >>> np.allclose(attention.predict(queries), svr.predict(queries), atol=1e-10)
    True
    """
    X = check_array(X, dtype=np.float64, input_name="X")
    Y = X if Y is None else check_array(Y, dtype=np.float64, input_name="Y")
    X, Y = normalized_by_keys(X, Y, attention_norm)
    logs = log_kernel(X, Y)
    of_keys = logsumexp(log_kernel(Y, Y), axis=1)
    of_queries = logsumexp(logs, axis=1)
    return scale * np.exp(logs - of_queries[:, None] - of_keys)


def normalized_by_keys(queries, keys, attention_norm):
    """Return queries and keys as Attention-BN with ``beta=1`` sees them."""
    if attention_norm is None:
        return queries, keys
    if attention_norm != "batch":
        raise ValueError(
            f"attention_norm must be None or 'batch', got {attention_norm!r}."
        )
    mean, variance = keys.mean(axis=0), keys.var(axis=0)
    root = np.sqrt(np.where(variance > 0, variance + EPSILON, 1.0))
    return (queries - mean) / root, (keys - mean) / root


def log_kernel(queries, keys):
    """Return ``q'k / sqrt(D)`` for all pairs."""
    return queries @ keys.T / np.sqrt(keys.shape[1])
