"""A table as tokens, one a column."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import all_or_nothing
from skattn._input import read_input
from skattn._output import TokenTransformerMixin
from skattn.tokens._forms import no_token_message
from skattn.tokens._reading import recognise


class FeatureTokenizer(TokenTransformerMixin, BaseEstimator):
    """Turn every row of a table into a sequence with one token a column.

    The token of column ``t`` with value ``x`` is ``[e_t, x e_t]``, where ``e_t`` has a
    1 at ``t`` and 0 elsewhere: the first half says which column it is, the second half
    carries the value. Token ``t`` is column ``t``, so that a position ``t`` that an
    estimator reports is the column ``feature_names_in_[t]``.

    Estimators do this by themselves when they are given a table, without laying the
    tokens out. Use this class to leave missing cells out, or to see or change the
    tokens. Its output takes ``2 * n_columns`` times the memory of the table.

    Parameters
    ----------
    missing : {"error", "absent"}, default="error"
        What to do with a cell that is NaN: refuse it, or leave its token out, which
        makes it a row of NaN in the output.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of the table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the table is a dataframe whose columns are strings.

    input_kind_ : str
        Always "table".

    See Also
    --------
    WindowTokenizer : Reads each row of a table as one series.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.preprocessing import FeatureTokenizer
    >>> X = np.array([[5.0, 7.0], [np.nan, 3.0]])
    >>> FeatureTokenizer(missing="absent").fit_transform(X)
    array([[[ 1.,  0.,  5.,  0.],
            [ 0.,  1.,  0.,  7.]],
    <BLANKLINE>
           [[nan, nan, nan, nan],
            [ 0.,  1.,  0.,  3.]]])
    """

    _parameter_constraints: ClassVar[dict] = {
        "missing": [StrOptions({"error", "absent"})]
    }

    def __init__(self, *, missing="error"):
        self.missing = missing

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check the table and remember its columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            The table.

        y : None
            Ignored.

        Returns
        -------
        self : FeatureTokenizer
            The fitted transformer.

        Raises
        ------
        ValueError
            If X holds sequences, has columns that are not numbers, has missing cells
            with ``missing="error"``, or has a row whose cells are all missing.
        """
        self._read(X, reset=True)
        return self

    def transform(self, X):
        """Lay the tokens of a table out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            The table.

        Returns
        -------
        tokens : ndarray of shape (n_samples, n_columns, 2 * n_columns)
            Entry ``[i, t]`` is the token of column ``t`` in row ``i``.

        Raises
        ------
        ValueError
            As in :meth:`fit`, and if the columns are not those of :meth:`fit`.
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        output = table.to_tokens().to_padded()
        output[np.isnan(table.cells)] = np.nan
        return output

    def _read(self, X, reset):
        if recognise(X).kind == "sequences":
            raise ValueError(
                "X holds sequences, but FeatureTokenizer makes tokens of the columns "
                "of a table of shape (n_samples, n_columns). Leave it out: sequences "
                "have their tokens already."
            )
        allow_missing = self.missing == "absent"
        table = read_input(self, X, reset=reset, allow_missing=allow_missing).tokens
        empty = np.flatnonzero(np.isnan(table.cells).all(axis=1))
        if len(empty):
            raise ValueError(no_token_message("X", empty[0]))
        return table

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "absent"
        return tags
