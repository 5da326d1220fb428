"""How much the heads of an attention say the same."""

import numpy as np

from skattn.inspection._attention_step import AttentionStep


def head_redundancy(estimator, X, query=None):
    """Measure how far apart the outputs of the heads of attention are.

    The mean, over samples and pairs of heads, of ``|o - o'| / (|o| + |o'|)``: o and o'
    are what two heads pool of the tokens of a sample. 0 where all heads say the same,
    which is full redundancy; up to 1, where they point in opposite directions.

    Parameters
    ----------
    estimator : estimator instance
        A fitted estimator of attention with ``n_heads > 1``, a pipeline that ends with
        one, or a search with one of these as its best estimator.

    X : any form that the estimator reads
        The samples.

    query : array-like of shape (n_samples, n_query_features), default=None
        One query a sample, for ``query="given"``.

    Returns
    -------
    distance : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If there is only one head.

    See Also
    --------
    skattn.AttentionClassifier : Has `diversity`, a penalty on heads that look at the
        same tokens, and `head_scale`, which gives heads different things to see.

    References
    ----------
    Nguyen et al., "A Primal-Dual Framework for Transformers and Neural Networks",
    arXiv 2406.13781, measures the redundancy of heads by the mean distance of their
    outputs; the normalisation is ours.

    Examples
    --------
    >>> from skattn import AttentionClassifier
    >>> from skattn.datasets import make_token_selection
    >>> from skattn.inspection import head_redundancy
    >>> X, y, _ = make_token_selection(n_samples=100, random_state=0)
    >>> alike = AttentionClassifier(n_heads=2, random_state=0).fit(X, y)
    >>> apart = AttentionClassifier(n_heads=2, diversity=1.0, random_state=0).fit(X, y)
    >>> head_redundancy(alike, X) < head_redundancy(apart, X)
    True
    """
    step = AttentionStep.of(estimator, X, query)
    n_heads = step.estimator.n_heads
    if n_heads == 1:
        raise ValueError(
            f"head_redundancy compares heads of attention, and this "
            f"{type(step.estimator).__name__} has n_heads=1."
        )
    pooled = np.asarray(step.call("transform"), dtype=np.float64)
    width = step.estimator.n_token_features_
    start = 0
    pooling = getattr(step.estimator, "pooling", "attention")
    if not isinstance(pooling, str):
        # Before attention's columns, one block of the width of a token for each name.
        start = list(pooling).index("attention") * width
    outputs = pooled[:, start : start + n_heads * width]
    return mean_distance(outputs.reshape(len(pooled), n_heads, width))


def mean_distance(outputs):
    """Return the mean normalised distance between the heads of (n, h, d) outputs."""
    norms = np.linalg.norm(outputs, axis=2)
    first, second = np.triu_indices(outputs.shape[1], k=1)
    # A pair at a time, so that outputs are never held n_heads times over.
    distances = [
        _ratio(np.linalg.norm(outputs[:, i] - outputs[:, j], axis=1), norms[:, [i, j]])
        for i, j in zip(first, second, strict=True)
    ]
    return float(np.mean(distances))


def _ratio(distance, norms):
    total = norms.sum(axis=1)
    return np.divide(distance, total, out=np.zeros_like(total), where=total > 0)
