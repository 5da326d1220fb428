"""What is shown beside attention: classes, curves, words and names, read and checked.

`rows` are the values of the tokens: a list of (n_positions_i,) arrays, with NaN at
absent tokens.
"""

import numpy as np

from skattn.inspection._samples import Samples, is_table
from skattn.tokens._reading import is_dataframe


def contributions_to(step, target):
    """Return the contributions to a class, and what to call them."""
    contributions = step.contributions()
    if target is None:
        label, classes = "the predicted class", step.predicted()
    else:
        known = list(step.estimator.classes_)
        if target not in known:
            raise ValueError(
                f"target must be one of the classes {known}; got {target!r}."
            )
        label = f"class {target}"
        classes = np.full(len(contributions), known.index(target))
    rows = [
        of_class[:, number]
        for of_class, number in zip(contributions, classes, strict=True)
    ]
    return rows, f"contribution to {label}"


def curves_of(X, rows):
    """Return the curves in samples as given; those of a table have one feature."""
    if is_table(X):
        curves = list(np.asarray(X, dtype=np.float64)[:, :, None])
    else:
        tokens = Samples.read(X).tokens
        starts = np.cumsum(tokens.n_positions) - tokens.n_positions
        values = np.full((tokens.n_positions.sum(), tokens.n_features), np.nan)
        values[np.repeat(starts, tokens.lengths) + tokens.positions] = tokens.values
        curves = np.split(values, starts[1:])
    if [len(sample) for sample in curves] != [len(row) for row in rows]:
        raise ValueError(
            "The samples have other positions than the tokens that attention sees, "
            "since a step before changes them: pass the curves of these as series=."
        )
    return curves


def column_names(X):
    """Return the names of columns, or None."""
    return [str(column) for column in X.columns] if is_dataframe(X) else None


def are_tokens(columns, rows):
    """Whether there are columns, and each is a token of every sample."""
    return columns is not None and all(len(row) == len(columns) for row in rows)


def read_names(name, names, number):
    """Return names as strings, of which there must be so many."""
    if names is None or number is None:
        return None
    _check_number(name, names, number)
    return [str(one) for one in names]


def read_series(series, rows):
    """Return the curves of each sample, with a value at each of its positions."""
    if series is None:
        return None
    series = [np.asarray(sample, dtype=np.float64) for sample in series]
    _check_number("series", series, len(rows))
    for sample, (curves, row) in enumerate(zip(series, rows, strict=True)):
        if curves.ndim != 2 or len(curves) != len(row):
            raise ValueError(
                f"series[{sample}] has shape {curves.shape}, but must have shape "
                f"({len(row)}, n_features): sample {sample} has {len(row)} positions."
            )
        if curves.shape[1] != series[0].shape[1]:
            raise ValueError(
                f"series[{sample}] has {curves.shape[1]} features, but series[0] has "
                f"{series[0].shape[1]}."
            )
    return series


def read_words(words, rows):
    """Return the words of each sample; those behind its last token may be missing."""
    if words is None:
        return None
    _check_number("words", words, len(rows))
    for sample, (of_sample, row) in enumerate(zip(words, rows, strict=True)):
        if isinstance(of_sample, str):
            raise TypeError(
                f"words[{sample}] is a string, but must be a list of strings, one for "
                f"each position. Split it as the tokens were."
            )
        needed = np.flatnonzero(~np.isnan(row)).max(initial=-1) + 1
        if not needed <= len(of_sample) <= len(row):
            raise ValueError(
                f"words[{sample}] has {len(of_sample)} words, but sample {sample} has "
                f"{len(row)} positions, the last token at {needed - 1}."
            )
    return [[str(word) for word in of_sample] for of_sample in words]


def _check_number(name, entries, number):
    if len(entries) != number:
        raise ValueError(f"{name} must have {number} entries; got {len(entries)}.")
