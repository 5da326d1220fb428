"""Pooling without attention: what attention has to beat."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from skattn._input import read_input
from skattn.tokens._table import TableTokens


class Pooling(TransformerMixin, BaseEstimator):
    """Summarise each feature over the tokens of a sample.

    Parameters
    ----------
    statistic : {"mean", "min-max"}, default="mean"
        The mean of each feature, or its minimum and its maximum.

    Attributes
    ----------
    n_features_in_ : int
        Features of a token; columns, for a table.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    Examples
    --------
    >>> from skattn._demo.pooling import Pooling
    >>> X = [[[1.0, 5.0], [3.0, 4.0]], [[2.0, 0.0]]]
    >>> Pooling("min-max").fit_transform(X)
    array([[1., 4., 3., 5.],
           [2., 0., 2., 0.]])
    """

    _parameter_constraints: ClassVar[dict] = {
        "statistic": [StrOptions({"mean", "min-max"})],
    }

    def __init__(self, statistic="mean"):
        self.statistic = statistic

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Read what a sample looks like; there is nothing to learn.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : None
            Ignored.

        Returns
        -------
        self : Pooling
            The transformer.
        """
        read_input(self, X, reset=True)
        return self

    def transform(self, X):
        """Summarise the tokens of each sample.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        pooled : ndarray of shape (n_samples, n_token_features) or \
                (n_samples, 2 * n_token_features)
            The means; or all minima, then all maxima.
        """
        check_is_fitted(self)
        tokens = read_input(self, X).tokens
        if isinstance(tokens, TableTokens):
            tokens = tokens.to_tokens()
        starts = tokens.offsets[:-1]
        if self.statistic == "mean":
            return np.add.reduceat(tokens.values, starts) / tokens.lengths[:, None]
        minima = np.minimum.reduceat(tokens.values, starts)
        return np.hstack([minima, np.maximum.reduceat(tokens.values, starts)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
