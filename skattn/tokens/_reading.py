"""What form of input X has, and what tokens it holds."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from skattn.tokens._container import Tokens
from skattn.tokens._forms import SAMPLE_AND_TOKEN, parts_of_list, parts_of_padded
from skattn.tokens._table import TableTokens
from skattn.tokens._validation import as_float_array, check_query, holds_objects


class Form(NamedTuple):
    """What kind of input X is.

    `kind` is "sequences" or "table"; `container` ("array", "list" or "tokens") decides
    the form of outputs that have one value a token.
    """

    kind: str
    container: str


TOKENS = Form("sequences", "tokens")
SAMPLE_LIST = Form("sequences", "list")
PADDED = Form("sequences", "array")
TABLE = Form("table", "array")


def check_tokens(X, *, query=None):
    """Read any form of input into one container of tokens.

    ==================================================  ===============================
    form of X                                           meaning
    ==================================================  ===============================
    list, or 1-D object array, of (n_tokens_i,          ragged sequences
    n_features) arrays or dataframes
    array of shape (n_samples, n_tokens, n_features)    sequences; a token whose
                                                        features are all NaN is absent
    array, dataframe or list of rows, of shape          a table: each column is a token
    (n_samples, n_columns)                              ``[e_t, x_t e_t]``
    :class:`skattn.Tokens`                              itself
    ==================================================  ===============================

    Parameters
    ----------
    X : see the table
        The samples.

    query : array-like of shape (n_samples, n_query_features), default=None
        One query a sample; replaces those that a `Tokens` carries.

    Returns
    -------
    tokens : Tokens
        The real tokens. The tokens of a table are laid out densely here, with
        ``2 * n_columns`` features each; estimators never do that.

    Raises
    ------
    ValueError
        If there is no sample, a sample has no token, a token is partly missing or has
        infinite values, features are not numbers, or their number differs between
        samples. The message names the sample and the token.

    TypeError
        If X is sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn import check_tokens
    >>> check_tokens([np.zeros((3, 2)), np.ones((5, 2))])
    Tokens(n_samples=2, n_features=2, lengths=3..5)
    >>> check_tokens(np.zeros((4, 7)))
    Tokens(n_samples=4, n_features=14, lengths=7..7)
    """
    form = recognise(X)
    if form == TABLE:
        refuse_non_numeric_columns(X)
        cells = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        return table_tokens(cells, query).to_tokens()
    return sequence_tokens(X, form, query)


def recognise(X):
    """Return the :class:`Form` of X, or refuse what is none of them."""
    if isinstance(X, Tokens):
        return TOKENS
    if sparse.issparse(X) or is_dataframe(X):
        return TABLE
    n_dimensions = getattr(X, "ndim", None)
    if n_dimensions is None and not isinstance(X, (list, tuple)):
        n_dimensions = np.asarray(X).ndim
    if n_dimensions is None or (n_dimensions == 1 and holds_objects(X)):
        return _recognise_samples(X)
    if n_dimensions == 3:
        return PADDED
    if n_dimensions > 3:
        raise ValueError(
            f"Found array with dim {n_dimensions}. X must have shape (n_samples, "
            "n_tokens, n_features), or (n_samples, n_columns) for a table."
        )
    return TABLE


def sequence_tokens(X, form, query=None):
    """Read X, which has the form `form` of sequences, into `Tokens`."""
    if form == TOKENS:
        if len(X) == 0:
            raise ValueError(_NO_SAMPLE)
        return X if query is None else X.with_query(query)
    if form == PADDED:
        X = as_float_array(X, "X", axes=SAMPLE_AND_TOKEN)
        if len(X) == 0:
            raise ValueError(_NO_SAMPLE)
        parts = parts_of_padded(X)
    else:
        _check_same_columns(X)
        parts = parts_of_list(X)
    return Tokens._from_forms(parts, query)


def table_tokens(cells, query=None):
    """Return a finite two-dimensional array as one token a cell."""
    if query is not None:
        query = check_query(query, len(cells))
    return TableTokens(cells, query)


def is_dataframe(X):
    """Whether X is a dataframe of any library."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and hasattr(X, "shape")


def refuse_non_numeric_columns(X):
    """Raise and name the columns of a dataframe that are not numbers."""
    if not is_dataframe(X):
        return
    columns = [column for column in X.columns if not _is_numeric(X[column])]
    if columns:
        raise ValueError(
            f"X has columns that are not numbers: {columns}. Encode them first, for "
            "example with a ColumnTransformer that applies a OneHotEncoder to them."
        )


_NO_SAMPLE = (
    "Found array with 0 sample(s) while a minimum of 1 is required: X has no sample."
)


def _recognise_samples(X):
    """Tell a list of sequences from a list of a table's rows."""
    if len(X) == 0:
        raise ValueError(_NO_SAMPLE)
    depths = [_depth(sample) for sample in X]
    deepest = max(depths)
    if deepest > 2:
        raise ValueError(
            f"X[{depths.index(deepest)}] has {deepest} dimensions; every sample must "
            "be an array of shape (n_tokens, n_features)."
        )
    if deepest == 1:
        _refuse_rows_of_unequal_length(X)
    return SAMPLE_LIST if deepest == 2 else TABLE


def _refuse_rows_of_unequal_length(rows):
    """Raise for what is neither the rows of a table nor samples of tokens."""
    lengths = [len(row) if _depth(row) == 1 else None for row in rows]
    for index, length in enumerate(lengths):
        if length != lengths[0]:
            raise ValueError(
                f"X[{index}] differs in length from X[0], so that X is no table, and "
                "has one dimension, so that it is no sample of tokens. For sequences "
                "of numbers pass each as an array of shape (n_tokens, 1)."
            )


def _depth(sample):
    """Count the dimensions of a sample, also of nested lists of unequal length."""
    n_dimensions = getattr(sample, "ndim", None)
    if isinstance(n_dimensions, int):
        return n_dimensions
    if is_dataframe(sample):
        return 2
    if isinstance(sample, (list, tuple)):
        return 1 + (_depth(sample[0]) if sample else 0)
    return np.asarray(sample).ndim if hasattr(sample, "__array__") else 0


def _check_same_columns(samples):
    names = None
    for index, sample in enumerate(samples):
        if not is_dataframe(sample):
            continue
        refuse_non_numeric_columns(sample)
        if names is None:
            names, first = list(sample.columns), index
        elif list(sample.columns) != names:
            raise ValueError(
                f"X[{index}] has the columns {list(sample.columns)}, but X[{first}] "
                f"has {names}. Every sample must have the same columns in the same "
                "order."
            )


def _is_numeric(column):
    # Extension types of pandas name their kind; what has none is judged by its array.
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if kind is None or kind == "O":
        array = np.asarray(column)
        if array.dtype.kind != "O":
            return array.dtype.kind in "biufc"
        return not any(isinstance(value, (str, bytes)) for value in array)
    return kind in "biufc"
