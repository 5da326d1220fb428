"""Random instances on which the theory of attention is tested."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import Bunch, check_random_state, check_scalar

#: A gap that so many draws of a sample do not reach is out of reach.
_MAX_DRAWS = 10_000


def make_attention_instances(
    n_instances=100,
    n_samples=6,
    n_tokens=8,
    n_features=10,
    *,
    gap=0.0,
    random_state=None,
):
    """Generate the random instances of the figures on attention and its SVM.

    Each instance is a data set of its own. Its tokens, queries and head are uniform on
    the unit sphere, its labels are random signs (experiments of arXiv 2308.16898).

    Parameters
    ----------
    n_instances : int, default=100
        Number of instances B.
    n_samples : int, default=6
        Number of samples n in an instance.
    n_tokens : int, default=8
        Number of tokens T of a sample.
    n_features : int, default=10
        Number of features d of a token, and of a query.
    gap : float, default=0.0
        The tokens of each sample are drawn anew until its best score, ``y x'head``,
        exceeds its second best by this much; below 2.
    random_state : int, RandomState instance or None, default=None
        Source of all draws.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With these attributes.

        X : ndarray of shape (n_instances, n_samples, n_tokens, n_features)
            The tokens.
        query : ndarray of shape (n_instances, n_samples, n_features)
            The queries.
        head : ndarray of shape (n_instances, n_features)
            The linear heads.
        y : ndarray of shape (n_instances, n_samples)
            The labels, -1 or 1. In a small instance they may all be equal.

    Raises
    ------
    TypeError, ValueError
        If a parameter has the wrong type or is out of range, or the gap was not
        reached in 10,000 draws of a sample.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.datasets import make_attention_instances
    >>> data = make_attention_instances(50, 5, 5, 10, gap=0.1, random_state=0)
    >>> data.X.shape, data.query.shape, data.head.shape, data.y.shape
    ((50, 5, 5, 10), (50, 5, 10), (50, 10), (50, 5))
    >>> values = np.einsum("bntd,bd->bnt", data.X, data.head)
    >>> scores = np.sort(data.y[:, :, None] * values)
    >>> bool((scores[:, :, -1] - scores[:, :, -2]).min() >= 0.1)
    True
    """
    for name, value in (
        ("n_instances", n_instances),
        ("n_samples", n_samples),
        ("n_tokens", n_tokens),
        ("n_features", n_features),
    ):
        check_scalar(value, name, Integral, min_val=1)
    check_scalar(gap, "gap", Real, min_val=0, max_val=2, include_boundaries="left")
    rng = check_random_state(random_state)

    head = _on_sphere(rng, n_instances, n_features)
    query = _on_sphere(rng, n_instances, n_samples, n_features)
    y = rng.choice([-1, 1], size=(n_instances, n_samples))
    X = _on_sphere(rng, n_instances, n_samples, n_tokens, n_features)
    # One row a sample, so that only those short of the gap are drawn anew.
    samples = X.reshape(-1, n_tokens, n_features)
    score_direction = (y[:, :, None] * head[:, None, :]).reshape(-1, n_features)
    short = _short_of_gap(samples, score_direction, gap, np.arange(len(samples)))
    for _ in range(_MAX_DRAWS):
        if len(short) == 0:
            return Bunch(X=X, query=query, head=head, y=y)
        samples[short] = _on_sphere(rng, len(short), n_tokens, n_features)
        short = _short_of_gap(samples, score_direction, gap, short)
    raise ValueError(
        f"gap={gap} was not reached by {len(short)} sample(s) in {_MAX_DRAWS} draws; "
        "lower it, or n_tokens or n_features."
    )


def _on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def _short_of_gap(samples, score_direction, gap, among):
    """Return which of the samples `among` miss the gap between their best scores."""
    if gap == 0 or samples.shape[1] == 1:
        return among[:0]
    scores = np.einsum("std,sd->st", samples[among], score_direction[among])
    scores.sort(axis=1)
    return among[scores[:, -1] - scores[:, -2] < gap]
