"""What `MarginProblem` accepts, read and checked before any work."""

from numbers import Real

import numpy as np
from scipy import sparse

#: Decades either side of 1 within which squares neither overflow nor vanish.
_LARGEST_DECADE = 152


def read_tokens(tokens):
    """Lay the tokens of all samples end to end.

    Parameters
    ----------
    tokens : ndarray of shape (n, T, d), sequence of ndarray of shape (T_i, d), or \
            object with `values` and `offsets`
        As in `MarginProblem`.

    Returns
    -------
    values : ndarray or csr_array of shape (n_tokens, d)
        Double precision.

    offsets : int array of shape (n + 1,)
        Where each sample starts.
    """
    if hasattr(tokens, "values") and hasattr(tokens, "offsets"):
        values, offsets = tokens.values, np.asarray(tokens.offsets, dtype=np.intp)
    else:
        values, offsets = _lay_end_to_end(tokens)
    if sparse.issparse(values):
        values = sparse.csr_array(values, dtype=np.float64)
        stored = values.data
    else:
        values = stored = np.asarray(values, dtype=np.float64)
    if offsets.size < 2:
        raise ValueError("tokens must hold at least one sample, got none.")
    if values.ndim != 2 or values.shape[0] != offsets[-1] or offsets[0] != 0:
        raise ValueError(
            "tokens.values must be two-dimensional with one row a token, "
            f"{offsets[-1]} by its offsets; got shape {values.shape}."
        )
    lengths = np.diff(offsets)
    if lengths.min() < 1:
        raise ValueError(
            f"Sample {int(np.argmin(lengths))} has no token; remove the sample."
        )
    if not np.isfinite(stored).all():
        raise ValueError(
            "tokens must be finite, got NaN or infinity. Remove absent tokens first."
        )
    return values, offsets


def _lay_end_to_end(tokens):
    if isinstance(tokens, np.ndarray) and tokens.ndim == 3:
        n_samples, n_tokens, n_features = tokens.shape
        offsets = np.arange(n_samples + 1) * n_tokens
        return tokens.reshape(-1, n_features), offsets
    if isinstance(tokens, np.ndarray) and tokens.ndim != 1:
        raise ValueError(
            "tokens must be a 3-D array (samples, tokens, features) or a sequence of "
            f"2-D arrays, got an array with {tokens.ndim} dimensions."
        )
    samples = [np.asarray(sample, dtype=np.float64) for sample in tokens]
    for index, sample in enumerate(samples):
        if sample.ndim != 2:
            raise ValueError(
                f"Sample {index} must be a 2-D array (tokens, features), got "
                f"{sample.ndim} dimensions."
            )
        if sample.shape[1] != samples[0].shape[1]:
            raise ValueError(
                f"Sample {index} has {sample.shape[1]} features a token, but sample 0 "
                f"has {samples[0].shape[1]}."
            )
    if not samples:
        raise ValueError("tokens must hold at least one sample, got none.")
    offsets = np.concatenate([[0], np.cumsum([len(sample) for sample in samples])])
    return np.concatenate(samples), offsets


def read_selected(selected, lengths):
    """Check the index of the selected token of each sample."""
    selected = np.asarray(selected)
    if selected.shape != lengths.shape:
        raise ValueError(
            f"selected must have shape ({lengths.size},), one index a sample; got "
            f"shape {selected.shape}."
        )
    if selected.dtype.kind not in "iu":
        raise TypeError(
            f"selected must hold integers, got an array of dtype {selected.dtype}."
        )
    outside = (selected < 0) | (selected >= lengths)
    if outside.any():
        index = int(np.argmax(outside))
        raise ValueError(
            f"selected[{index}] is {selected[index]}, but sample {index} has "
            f"{lengths[index]} tokens (0 to {lengths[index] - 1})."
        )
    return selected.astype(np.intp)


def read_query(query, n_samples):
    """Check the queries; None stands for a prompt."""
    if query is None:
        return None
    query = np.asarray(query, dtype=np.float64)
    if query.ndim != 2 or query.shape[0] != n_samples or query.shape[1] < 1:
        raise ValueError(
            f"query must have shape ({n_samples}, n_query_features), one row a sample; "
            f"got shape {query.shape}."
        )
    missing = ~np.isfinite(query).all(axis=1)
    if missing.any():
        raise ValueError(
            f"query must be finite; the query of sample {int(np.argmax(missing))} "
            "holds NaN or infinity."
        )
    return query


def refuse_extreme_scale(values, query):
    """Refuse tokens and queries as checked whose products have no squares."""
    arrays = [values.data if sparse.issparse(values) else values]
    if query is not None:
        arrays.append(query)
    peaks = [float(np.abs(array).max(initial=0.0)) for array in arrays]
    if min(peaks) == 0:
        return
    decades = np.log10(peaks)
    if max(*abs(decades), abs(decades.sum())) > _LARGEST_DECADE:
        sizes = " and ".join(
            f"{name} of up to {peak:.0e}"
            for name, peak in zip(("tokens", "queries"), peaks, strict=False)
        )
        raise ValueError(
            f"Double precision cannot hold the squares of {sizes}, or of their "
            "products. Scale the features."
        )


def read_penalties(C, n_samples):
    """Check C and give one a sample; 0 marks a sample without constraints."""
    if isinstance(C, Real):
        if not C > 0:
            raise ValueError(f"C must be above 0 (infinity: hard margin), got {C!r}.")
        return np.full(n_samples, float(C))
    try:
        penalties = np.asarray(C, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"C must be a number, or one a sample; got {C!r}.") from None
    if penalties.shape != (n_samples,):
        raise ValueError(
            f"C must be a number or have shape ({n_samples},), one a sample; got shape "
            f"{penalties.shape}."
        )
    invalid = ~(penalties >= 0)
    if invalid.any():
        index = int(np.argmax(invalid))
        raise ValueError(
            f"C[{index}] must be 0 (no constraints from this sample) or above, got "
            f"{penalties[index]}."
        )
    return penalties
