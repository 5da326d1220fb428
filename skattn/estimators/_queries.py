"""Which vector asks: the query of each sample."""

from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skattn.estimators import _token_algebra as algebra
from skattn.tokens._selection import owners

#: Constraint of the parameter `query` of every estimator of attention.
QUERY_CONSTRAINT = [
    StrOptions({"prompt", "first", "last", "mean", "given"}),
    Interval(Integral, 0, None, closed="left"),
]


def check_given_query(estimator, tokens, passed, reset):
    """Check queries against the estimator's parameter `query`.

    Parameters
    ----------
    estimator : estimator instance
        Has `query`; ``n_query_features_in_`` is set at fit and checked later.

    tokens : Tokens or TableTokens
        What was read, with the queries in force.

    passed : bool
        Whether the caller gave ``query=``.

    reset : bool
        True in `fit`.
    """
    name = type(estimator).__name__
    if estimator.query != "given":
        if passed:
            raise ValueError(
                f"query was passed, but this {name} has query={estimator.query!r} and "
                "would not look at it. Set query='given'."
            )
        return
    if tokens.query is None:
        raise ValueError(
            f"This {name} has query='given', but there is no query. Pass query=, of "
            "shape (n_samples, n_query_features), or X as Tokens.with_query(query)."
        )
    n_query_features = tokens.query.shape[1]
    if reset:
        estimator.n_query_features_in_ = n_query_features
    elif n_query_features != estimator.n_query_features_in_:
        raise ValueError(
            f"query has {n_query_features} features, but {name} is expecting "
            f"{estimator.n_query_features_in_} features as query."
        )


def query_rows(query, tokens):
    """Return the row of the token that asks, or None if the query is no token.

    Parameters
    ----------
    query : {"prompt", "first", "last", "mean", "given"} or int
        The parameter of the estimator.

    tokens : Tokens or TableTokens
        The samples.

    Returns
    -------
    rows : ndarray of shape (n_samples,) or None
        Rows of ``tokens.values``.
    """
    if query == "first":
        return tokens.offsets[:-1]
    if query == "last":
        return tokens.offsets[1:] - 1
    if isinstance(query, str):
        return None
    rows = np.flatnonzero(tokens.positions == query)
    present = owners(tokens)[rows]
    if len(rows) < len(tokens):
        sample = np.setdiff1d(np.arange(len(tokens)), present)[0]
        raise ValueError(
            f"query={query} is the position of a token that sample {sample} does not "
            "have. Choose a position that every sample has, or query='first', 'last' "
            "or 'mean'."
        )
    return rows


def query_vectors(query, tokens):
    """Return the queries as (n_samples, n_query_features), or None for a prompt."""
    if query == "prompt":
        return None
    if query == "given":
        return tokens.query
    if query == "mean":
        return algebra.mean(tokens)
    return algebra.token_rows(tokens, query_rows(query, tokens))
