"""How every estimator and transformer reads its input.

This is the seam between scikit-learn's conventions (``n_features_in_``,
``feature_names_in_``, its wording of errors) and the container of tokens, which knows
nothing of estimators.
"""

from typing import NamedTuple

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from skattn.tokens import Tokens
from skattn.tokens._reading import (
    SAMPLE_LIST,
    TABLE,
    Form,
    is_dataframe,
    recognise,
    refuse_non_numeric_columns,
    sequence_tokens,
    table_tokens,
)
from skattn.tokens._table import TableTokens

# Beyond, squares of targets are infinite.
_LARGEST_TARGET = 1e100


class TokenInput(NamedTuple):
    """Tokens, and the form in which they came."""

    tokens: Tokens | TableTokens
    form: Form

    def per_token(self, values, fill):
        """Give one value, or row of values, a token the form of the input.

        Parameters
        ----------
        values : ndarray of shape (n_tokens, ...)
            One entry a real token.

        fill : float
            What absent tokens get.

        Returns
        -------
        output : ndarray of shape (n_samples, n_positions, ...), or list of such
            An array for array input; for a list or `Tokens` a list of arrays of the
            length of each sample as given.
        """
        starts, rows = self._places()
        output = np.full((starts[-1], *values.shape[1:]), fill, dtype=values.dtype)
        output[rows] = values
        if self.form.container == "array":
            return output.reshape(len(self.tokens), -1, *values.shape[1:])
        return np.split(output, starts[1:-1])

    def of_real_tokens(self, output):
        """Undo :meth:`per_token`: return one entry a real token."""
        if self.form.container == "array":
            output = output.reshape(-1, *output.shape[2:])
        else:
            output = np.concatenate(output)
        return output[self._places()[1]]

    def _places(self):
        """Return where samples start, and where each real token is, with all positions.

        Laid end to end, absent tokens included.
        """
        tokens = self.tokens
        starts = np.concatenate([[0], np.cumsum(tokens.n_positions)])
        return starts, np.repeat(starts[:-1], tokens.lengths) + tokens.positions


def read_input(estimator, X, *, query=None, reset=False, allow_missing=False):
    """Read X for `estimator`.

    Parameters
    ----------
    estimator : estimator instance
        Records at fit, and checks later, ``n_features_in_``, ``feature_names_in_`` and
        ``input_kind_``.

    X : any form that :func:`skattn.check_tokens` reads
        The samples.

    query : array-like of shape (n_samples, n_query_features), default=None
        One query a sample, instead of those that X carries.

    reset : bool, default=False
        True in `fit`.

    allow_missing : bool, default=False
        Whether the cells of a table may be NaN.

    Returns
    -------
    read : TokenInput
        The tokens, and the form in which they came.
    """
    form = recognise(X)
    if not reset:
        _check_kind(estimator, form)
    if form == TABLE:
        cells = _read_table(estimator, X, reset, allow_missing)
        tokens = table_tokens(cells, query)
    else:
        tokens = sequence_tokens(X, form, query)
        _check_features(estimator, X, form, tokens, reset)
    if reset:
        estimator.input_kind_ = form.kind
    return TokenInput(tokens, form)


def read_labels(estimator, y, n_samples):
    """Return class labels as a one-dimensional array of `n_samples` entries."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but "
            "the target y is None."
        )
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    check_consistent_length(np.empty(n_samples), y)
    return y


def read_targets(estimator, y, n_samples):
    """Return numbers to predict, of shape (n_samples,) or (n_samples, n_outputs).

    A single column becomes one-dimensional.
    """
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but "
            "the target y is None."
        )
    y = check_array(
        y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=estimator
    )
    if y.ndim == 1 or y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    check_consistent_length(np.empty(n_samples), y)
    largest = float(np.abs(y).max())
    if largest > _LARGEST_TARGET:
        raise ValueError(
            f"y has values as large as {largest:.1e}, whose squares overflow. "
            "Scale them first, for example with a TransformedTargetRegressor."
        )
    return y


def _check_kind(estimator, form):
    fitted = estimator.input_kind_
    if form.kind == fitted:
        return
    name = type(estimator).__name__
    if fitted == "sequences":
        raise ValueError(
            f"X is two-dimensional, but this {name} was fitted on sequences; for one "
            "sequence pass `[X]`. Reshape your data to (n_samples, n_tokens, "
            "n_features) if X holds several."
        )
    raise ValueError(
        f"X holds sequences, but this {name} was fitted on a table of shape "
        f"(n_samples, {estimator.n_features_in_}). Pass a table, or fit on sequences."
    )


def _read_table(estimator, X, reset, allow_missing):
    refuse_non_numeric_columns(X)
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if allow_missing else True,
        )
    except ValueError as error:
        remedy = _REMEDIES.get(
            next((words for words in _REMEDIES if words in str(error)), None)
        )
        if remedy is None:
            raise
        raise ValueError(f"{error}\n{remedy}") from error


_REMEDIES = {
    "contains NaN": "FeatureTokenizer(missing='absent') leaves missing cells out.",
    "could not convert string": (
        "Encode columns that are not numbers first, for example with a "
        "ColumnTransformer that applies a OneHotEncoder to them."
    ),
}


def _check_features(estimator, X, form, tokens, reset):
    first = tokens[0]
    if form == SAMPLE_LIST and is_dataframe(X[0]):
        first = X[0]
    try:
        validate_data(estimator, first, reset=reset, skip_check_array=True)
    except ValueError as error:
        expected = getattr(estimator, "n_features_in_", None)
        if tokens.n_features != expected and (tokens.lengths == expected).all():
            raise ValueError(
                f"{error} Every sample has {expected} tokens: if X has channels first, "
                "transpose it or use Tokens.from_channels_first."
            ) from error
        raise
