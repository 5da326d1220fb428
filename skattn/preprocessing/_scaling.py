"""Standardisation of token features."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from skattn._fitting import all_or_nothing
from skattn._input import read_input
from skattn._output import TokenTransformerMixin, like_input
from skattn.preprocessing._cells import SameColumnsMixin


class TokenScaler(SameColumnsMixin, TokenTransformerMixin, BaseEstimator):
    """Standardise features over the tokens of all samples.

    The mean and the standard deviation of a feature are those over all real tokens of
    the training samples: a long sample counts more than a short one, and absent tokens
    do not count. On a table this is :class:`sklearn.preprocessing.StandardScaler`.

    Parameters
    ----------
    with_mean : bool, default=True
        Whether to subtract the mean.

    with_std : bool, default=True
        Whether to divide by the standard deviation. A constant feature is not divided.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features_in_,) or None
        Mean of each feature. None when neither `with_mean` nor `with_std` is set.

    var_ : ndarray of shape (n_features_in_,) or None
        Variance of each feature. None when `with_std` is not set.

    scale_ : ndarray of shape (n_features_in_,) or None
        What each feature is divided by. None when `with_std` is not set.

    n_features_in_ : int
        Number of features of a token, or of columns of a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has dataframes whose columns are strings.

    input_kind_ : {"sequences", "table"}
        What the scaler was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.preprocessing import TokenScaler
    >>> X = [np.array([[1.0], [2.0]]), np.array([[6.0]])]
    >>> scaler = TokenScaler(with_std=False).fit(X)
    >>> scaler.mean_
    array([3.])
    >>> scaler.transform(X)
    [array([[-2.],
           [-1.]]), array([[3.]])]
    """

    _parameter_constraints: ClassVar[dict] = {
        "with_mean": ["boolean"],
        "with_std": ["boolean"],
    }

    def __init__(self, *, with_mean=True, with_std=True):
        self.with_mean = with_mean
        self.with_std = with_std

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sample_weight=None):
        """Compute the mean and the standard deviation of each feature.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The training samples.

        y : None
            Ignored.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample, which every one of its tokens gets.

        Returns
        -------
        self : TokenScaler
            The fitted scaler.
        """
        tokens = read_input(self, X, reset=True).tokens
        row_weight = None
        if sample_weight is not None:
            row_weight = _check_sample_weight(
                sample_weight, tokens.lengths, ensure_non_negative=True
            )
            if self.input_kind_ == "sequences":
                row_weight = np.repeat(row_weight, tokens.lengths)
        # What leaves `transform` is configured there; in here it is always an array.
        self._scaler = StandardScaler(
            with_mean=self.with_mean, with_std=self.with_std
        ).set_output(transform="default")
        self._scaler.fit(self._rows(tokens), sample_weight=row_weight)
        self.mean_ = self._scaler.mean_
        self.var_ = self._scaler.var_
        self.scale_ = self._scaler.scale_
        return self

    def transform(self, X):
        """Standardise.

        Parameters
        ----------
        X : the kind of input that the scaler was fitted on
            The samples.

        Returns
        -------
        output : Tokens, list of ndarray or ndarray
            The standardised samples in the container of X; absent tokens stay absent.
        """
        return self._apply(StandardScaler.transform, X)

    def inverse_transform(self, X):
        """Undo the standardisation.

        Parameters
        ----------
        X : the kind of input that the scaler was fitted on
            Standardised samples.

        Returns
        -------
        output : Tokens, list of ndarray or ndarray
            The samples in their original units, in the container of X.
        """
        return self._apply(StandardScaler.inverse_transform, X)

    def _apply(self, operation, X):
        check_is_fitted(self)
        tokens, form = read_input(self, X)
        rows = operation(self._scaler, self._rows(tokens))
        if form.kind == "table":
            return rows
        return like_input(tokens.with_values(rows), form)

    def _rows(self, tokens):
        return tokens.cells if self.input_kind_ == "table" else tokens.values
