"""From what users have to the parts of the container.

Each function returns ``(values, offsets, positions, n_positions)``: the real tokens
laid end to end, where samples start, the position of each token in its sample as given,
and the length of each sample as given. A token whose features are all NaN is absent.
"""

import numpy as np
from scipy import sparse

from skattn.tokens._validation import as_float_array, refuse_missing

#: What the first two axes of a padded array are.
SAMPLE_AND_TOKEN = ("sample", "token")


def parts_of_padded(X, present=None, name="X"):
    """Read a (n_samples, n_tokens, n_features) array.

    `present` (n_samples, n_tokens) marks the tokens to read; what the others hold is
    never looked at.
    """
    X = as_float_array(X, name, axes=SAMPLE_AND_TOKEN)
    if X.ndim != 3:
        raise ValueError(
            f"{name} must have shape (n_samples, n_tokens, n_features); "
            f"got an array of {X.ndim} dimension(s)."
        )
    n_samples, n_columns, n_features = X.shape
    refuse_no_features(n_features, X.shape, name)
    missing = np.isnan(X)
    absent = missing.all(axis=2)
    partly = missing.any(axis=2) & ~absent
    infinite = np.isinf(X).any(axis=2)
    if present is not None:
        absent |= ~present
        partly &= present
        infinite &= present
    _refuse_partly_missing(partly, name)
    if infinite.any():
        sample, token = np.argwhere(infinite)[0]
        raise ValueError(_infinity_message(name, sample, token))
    empty = np.flatnonzero(absent.all(axis=1))
    if len(empty):
        raise ValueError(no_token_message(name, empty[0]))
    samples, positions = np.nonzero(~absent)
    offsets = np.concatenate(
        [[0], np.cumsum(np.bincount(samples, minlength=n_samples))]
    )
    n_positions = np.full(n_samples, n_columns)
    return X[samples, positions], offsets.astype(np.int64), positions, n_positions


def parts_of_list(samples, name="X"):
    """Read a list of (n_tokens_i, n_features) arrays, absent tokens as rows of NaN."""
    arrays = [_read_sample(sample, index, name) for index, sample in enumerate(samples)]
    n_features = arrays[0].shape[1]
    refuse_no_features(n_features, arrays[0].shape, f"{name}[0]")
    for index, array in enumerate(arrays):
        if array.shape[1] != n_features:
            raise ValueError(
                f"{name}[{index}] has {array.shape[1]} features, but {name}[0] has "
                f"{n_features}. Every sample must be an array of shape (n_tokens, "
                "n_features) with the same number of features."
                + _channels_first_hint(arrays)
            )
    n_positions = np.array([len(array) for array in arrays], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(n_positions)])
    owners = np.repeat(np.arange(len(arrays)), n_positions)
    values = np.concatenate(arrays)
    positions = np.arange(len(values)) - starts[owners]

    finite = np.isfinite(values).all(axis=1)
    absent = np.zeros(len(values), dtype=bool)
    if not finite.all():
        missing = np.isnan(values)
        absent = missing.all(axis=1)
        for row in np.flatnonzero(~finite & ~absent)[:1]:
            if missing[row].any():
                raise ValueError(
                    partly_missing_message(name, owners[row], positions[row])
                )
            raise ValueError(_infinity_message(name, owners[row], positions[row]))
    lengths = np.bincount(owners[~absent], minlength=len(arrays))
    if (lengths == 0).any():
        raise ValueError(no_token_message(name, int(np.argmin(lengths))))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if absent.any():
        values, positions = values[~absent], positions[~absent]
    return values, offsets, positions, n_positions


def _channels_first_hint(arrays):
    if len({len(array) for array in arrays}) > 1:
        return ""
    return (
        f" All have {len(arrays[0])} rows: if these are channels, use "
        "Tokens.from_channels_first."
    )


def parts_of_groups(values, groups, name, keys=None):
    """Read one table of tokens whose rows name the sample that owns them.

    Samples come in the order in which they first appear, their tokens sorted by `keys`
    or in the order of the rows.
    """
    groups = np.asarray(groups)
    if groups.ndim != 1 or len(groups) != len(values):
        raise ValueError(
            f"{name} must name the sample of each of the {len(values)} tokens; "
            f"got shape {groups.shape}."
        )
    if len(values) == 0:
        raise ValueError(
            "Found array with 0 sample(s) while a minimum of 1 is required: there "
            "is no token."
        )
    refuse_missing(groups, name)
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), dtype=np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    owners = ranks[inverse]
    by_key = np.arange(len(owners)) if keys is None else np.argsort(keys, kind="stable")
    order = by_key[np.argsort(owners[by_key], kind="stable")]
    bounds = np.cumsum(np.bincount(owners, minlength=len(first)))[:-1]
    return parts_of_list(np.split(values[order], bounds), name="samples")


def refuse_no_features(n_features, shape, name):
    """Refuse tokens without features in scikit-learn's words."""
    if n_features == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is "
            f"required: the tokens of {name} have no features."
        )


def no_token_message(name, sample):
    return (
        f"{name}[{sample}] has no token: a sample needs at least one token that is not "
        "missing. Remove the sample."
    )


def partly_missing_message(name, sample, token):
    return (
        f"{name}[{sample}] has a partly missing token: token {token} has some features "
        "that are NaN. Impute them, or set all its features to NaN to leave the token "
        "out."
    )


def _infinity_message(name, sample, token):
    return (
        f"{name}[{sample}] contains infinity in token {token}. Clip or remove such "
        "values."
    )


def _refuse_partly_missing(partly, name):
    if partly.any():
        sample, token = np.argwhere(partly)[0]
        raise ValueError(partly_missing_message(name, sample, token))


def _read_sample(sample, index, name):
    if sparse.issparse(sample):
        raise TypeError(
            f"Sparse data was passed for {name}[{index}], but dense data is required. "
            "Use '.toarray()' to convert to a dense numpy array."
        )
    array = as_float_array(sample, f"{name}[{index}]", axes=("token",))
    if array.shape == (0,):
        raise ValueError(no_token_message(name, index))
    if array.ndim != 2:
        raise ValueError(
            f"{name}[{index}] has {array.ndim} dimension(s); every sample must be an "
            "array of shape (n_tokens, n_features)."
        )
    return array
