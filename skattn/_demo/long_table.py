"""Reading of a user's long table."""

import warnings

import numpy as np

from skattn._demo.errors import UserError
from skattn.tokens import Tokens

# Cells of features that mean "missing".
_MISSING = ["", "NA", "N/A", "NaN", "nan", "None", "null"]
_NOT_SEPARATED = " Columns must be separated by commas."


def read_long_table(path, *, sample, target, order=None):
    """Read samples and labels from a csv file with one row a token.

    Parameters
    ----------
    path : Path
        The file; compressed, if its name says so.

    sample, target : str
        Columns that name the sample of a row, and its label. Both are read as text.

    order : str, default=None
        Column that orders the rows of a sample; by default they keep their order.

    Returns
    -------
    X : Tokens
        The samples in the order in which they first appear; all other columns are
        features.

    y : ndarray of shape (n_samples,)
        Their labels.

    sample_names : ndarray of shape (n_samples,)
        Their names.

    Raises
    ------
    UserError
        If pandas or the file is missing, or the table is not as described.
    """
    special = [column for column in (sample, target, order) if column is not None]
    if len(set(special)) < len(special):
        raise UserError("--sample, --target and --order must name different columns.")
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    header = _read(path, nrows=0)
    _refuse_missing_columns(header, sample=sample, target=target, order=order)
    # Sample and label are text as it stands: 007 is not 7, and "None" may be a class.
    may_be_missing = header.columns.difference([sample, target])
    table = _read(
        path,
        dtype={sample: str, target: str},
        keep_default_na=False,
        na_values=dict.fromkeys(may_be_missing, _MISSING),
    )
    for column in (sample, target):
        table[column] = table[column].str.strip()
    if table.empty:
        raise UserError(f"{path} has no rows below its header.")
    _refuse_empty_cells(table, sample, "name of a sample")
    _refuse_empty_cells(table, target, "label")
    if order is not None:
        _refuse_empty_cells(table, order, "place in its sample")
    y = _labels(table, sample, target)
    _refuse_bad_features(table, sample, special)
    try:
        X = Tokens.from_long(table.drop(columns=target), sample=sample, order=order)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return X, y.to_numpy(dtype=str), y.index.to_numpy(dtype=str)


def feasible_folds(y, n_folds):
    """Return how many stratified folds these labels allow, at most `n_folds`.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        The labels.

    n_folds : int
        How many are wanted.

    Returns
    -------
    n_folds : int
        At most the size of the smallest class.

    Raises
    ------
    UserError
        If there is only one class, or a class has one sample.
    """
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise UserError(
            f"All samples have the label {str(classes[0])!r}: there is nothing to tell "
            "apart. The target needs at least two classes."
        )
    single = classes[counts < 2]
    if len(single) == len(classes):
        raise UserError(
            "Every sample has a label of its own, such as "
            f"{_enumerate(single, n_shown=3)}. compare tells classes apart: if the "
            "target is a quantity, cut it into classes first, for example with "
            "pandas.cut."
        )
    if len(single):
        raise UserError(
            f"{_enumerate(single)}: only one sample has this label, and "
            "cross-validation needs two of each class. Remove such samples or merge "
            "classes."
        )
    return min(n_folds, int(counts.min()))


def _read(path, **options):
    try:
        import pandas as pd
    except ImportError:
        raise UserError(
            "compare reads the file with pandas, which is not installed: "
            'pip install "skattn[demo]".'
        ) from None
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would lose cells with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, index_col=False, low_memory=False, **options)
    except (ValueError, OSError, EOFError, pd.errors.ParserWarning) as error:
        raise UserError(f"{path} cannot be read as csv: {error}") from error


def _refuse_missing_columns(table, **roles):
    for role, column in roles.items():
        if column is not None and column not in table.columns:
            raise UserError(
                f"--{role}: there is no column {column!r}; the columns are "
                f"{_enumerate(table.columns)}."
                + (_NOT_SEPARATED if len(table.columns) == 1 else "")
            )


def _refuse_empty_cells(table, column, meaning):
    empty = np.flatnonzero(table[column].isna() | (table[column] == ""))
    if len(empty):
        raise UserError(
            f"The column {column!r} has {len(empty)} empty cell(s), the first in row "
            f"{empty[0] + 1} below the header: every row needs the {meaning}. Fill "
            "them in or remove these rows."
        )


def _labels(table, sample, target):
    """Return the label of each sample, in the order of first appearance."""
    labels = table.groupby(sample, sort=False)[target]
    several = labels.nunique()
    several = several[several > 1]
    if len(several):
        name = several.index[0]
        found = table.loc[table[sample] == name, target].unique()
        raise UserError(
            f"{len(several)} sample(s) have labels that differ between their rows, for "
            f"example sample {name!r}: {_enumerate(found)}. All rows of a sample must "
            f"have the same value in the column {target!r}."
        )
    return labels.first()


def _refuse_bad_features(table, sample, special):
    from pandas.api.types import is_numeric_dtype

    features = table.drop(columns=special)
    if features.columns.empty:
        raise UserError(
            "The table has no feature: there is no column beside "
            f"{_enumerate(special)}."
        )
    text = [name for name in features if not is_numeric_dtype(features[name])]
    if text:
        raise UserError(
            f"Features must be numbers, but these columns are not: {_enumerate(text)}. "
            "Remove them, or encode them as numbers first, for example with "
            "pandas.get_dummies."
        )
    wrong = ~np.isfinite(features.to_numpy(dtype=np.float64))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise UserError(
            f"{wrong.sum()} cell(s) of the features are missing or infinite, the first "
            f"in row {row + 1} below the header, column {features.columns[column]!r} "
            f"(sample {table[sample].iloc[row]!r}). Fill them in or remove these rows."
        )


def _enumerate(names, n_shown=8):
    """Return names in quotes, the first few of many."""
    shown = ", ".join(repr(str(name)) for name in names[:n_shown])
    rest = len(names) - n_shown
    return f"{shown} and {rest} more" if rest > 0 else shown
