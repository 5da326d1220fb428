"""Conversions that the container and its readers share."""

import numpy as np
from sklearn.utils._missing import is_pandas_na


def as_float_array(array, name, copy=False, axes=("row",)):
    """Return `array` as float32 or float64, or say why it cannot be.

    Parameters
    ----------
    array : array-like
        Anything numpy understands.

    name : str
        How an error calls the array.

    copy : bool, default=False
        Whether the result must own its memory.

    axes : tuple of str, default=("row",)
        What the leading axes of the array are: an error counts along them to say
        where it found what is not a number.
    """
    try:
        array = np.asarray(array)
    except ValueError as error:
        raise ValueError(
            f"{name} is a nested list whose rows differ in length. Give every "
            f"{axes[-1]} the same number of features."
        ) from error
    if array.dtype.kind == "c" or (
        array.dtype == object and any(isinstance(x, complex) for x in array.flat)
    ):
        raise ValueError(f"Complex data not supported: {name} has complex values.")
    if array.dtype.kind in "USmMV":
        raise ValueError(
            f"{name} has values of type {array.dtype}, which are not numbers"
            f"{_first_place(array, axes)}. Encode text and categories as numbers first."
        )
    if array.dtype == object:
        array = _with_nan_for_pandas_na(array)
    dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    try:
        return np.array(array, dtype=dtype, copy=True if copy else None)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} has values that are not numbers ({error})"
            f"{_first_place(array, axes)}. Encode text and categories as numbers first."
        ) from error


def _with_nan_for_pandas_na(array):
    is_missing = np.asarray(np.frompyfunc(is_pandas_na, 1, 1)(array), dtype=bool)
    return np.where(is_missing, np.nan, array) if is_missing.any() else array


def _first_place(array, axes):
    """Say where the first value is that is not a number."""
    for index in np.ndindex(array.shape) if array.ndim >= len(axes) else ():
        if not _is_number(array[index]):
            places = zip(axes, index, strict=False)
            return ", first in " + ", ".join(f"{axis} {at}" for axis, at in places)
    return ""


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def check_query(query, n_samples, name="query"):
    """Return queries as a finite array of shape (n_samples, n_query_features)."""
    query = as_float_array(query, name=name, copy=True)
    if query.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_query_features); got an array of "
            f"{query.ndim} dimension(s)."
        )
    if len(query) != n_samples:
        raise ValueError(
            f"{name} has {len(query)} rows for {n_samples} samples; "
            "it must have one row a sample."
        )
    if query.shape[1] == 0:
        raise ValueError(f"{name} has 0 features while a minimum of 1 is required.")
    if not np.isfinite(query).all():
        sample = int(np.flatnonzero(~np.isfinite(query).all(axis=1))[0])
        raise ValueError(f"{name} contains NaN or infinity in sample {sample}.")
    return query


def refuse_missing(array, name):
    """Raise and tell the row of the first missing entry of a one-dimensional array."""
    for row, value in enumerate(array):
        # NaN and NaT differ from themselves; pandas.NA does not say whether it does.
        same = value == value
        if value is None or not isinstance(same, bool | np.bool_) or not same:
            raise ValueError(
                f"{name} has a missing value in row {row}; fill or drop such rows."
            )


def holds_objects(X):
    """Whether X is an array of Python objects."""
    return getattr(getattr(X, "dtype", None), "kind", None) == "O"
