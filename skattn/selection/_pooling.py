"""Sequences in, one row of pooled features a sample out."""

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from skattn.selection._base import BaseAttentionTransformer


class AttentionPooling(ClassNamePrefixFeaturesOutMixin, BaseAttentionTransformer):
    """Pool the tokens of each sample by the attention of an estimator.

    What comes out is two-dimensional: any estimator of scikit-learn can follow.

    Parameters
    ----------
    estimator : AttentionClassifier or TokenSVM
        The estimator whose attention pools.

    prefit : bool, default=False
        Whether the estimator is fitted already and used as it is.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    input_kind_ : {"sequences", "table"}
        What the estimator was fitted on.

    See Also
    --------
    TokenSelector : Keep the tokens that get most attention.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from skattn import AttentionPooling, TokenSVM
    >>> from skattn.datasets import make_token_selection
    >>> X, y, _ = make_token_selection(n_samples=60, random_state=0)
    >>> model = make_pipeline(AttentionPooling(TokenSVM()), SVC()).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(self, estimator, *, prefit=False):
        self.estimator = estimator
        self.prefit = prefit

    def transform(self, X, query=None):
        """Pool the tokens of each sample.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for an estimator with ``query="given"``.

        Returns
        -------
        pooled : ndarray of shape (n_samples, n_heads * n_token_features)
            The heads side by side; a dataframe after ``set_output``.
        """
        check_is_fitted(self)
        return pooled(self._attention(), X, query)

    @property
    def _n_features_out(self):
        return n_pooled_features(self._attention())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def pooled(estimator, X, query):
    """Return what `estimator` pools, as an array whatever its `set_output`."""
    return np.asarray(estimator.transform(X, **given(query)))


def n_pooled_features(estimator):
    """Return the width of what `estimator` pools."""
    return len(estimator.get_feature_names_out())


def given(query):
    """Return `query` as keyword arguments: none, if there is none."""
    return {} if query is None else {"query": query}
