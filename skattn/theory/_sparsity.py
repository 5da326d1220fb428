"""How few tokens attention needs."""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from skattn.mappings import count_of_power
from skattn.tokens._validation import as_float_array, holds_objects

# Weights that sum to 1 in half precision miss it by about this much.
_SUM_TOLERANCE = 5e-3
_ROUNDING = np.finfo(np.float64).eps


@dataclass(frozen=True)
class PowerLaw:
    """The law ``k = scale * n ** exponent``, fitted to logarithms by least squares.

    Attributes
    ----------
    scale : float
        The factor a.

    exponent : float
        The exponent C.

    exponent_std_error : float
        Standard error of the exponent; NaN for fewer than three rows.
    """

    scale: float
    exponent: float
    exponent_std_error: float


@dataclass(frozen=True)
class AttentionSparsity:
    """How the weight of each row of attention is spread.

    Arrays have one entry a row of attention: shape (n_samples,), or (n_samples,
    n_heads), as the weights without their last axis.

    Attributes
    ----------
    n_tokens : int ndarray
        Tokens of the row, n.

    n_small : int ndarray
        Weights of at most `eps`.

    n_needed : int ndarray
        Smallest k whose tail has at most the weight allowed.

    n_kept : int ndarray
        The k at which tails are measured: that of the power law, else `n_needed`.

    tail_mass : ndarray
        Weight left out by the `n_kept` largest weights. It is also the total variation
        between the row and its renormalised largest weights.

    value_distance : ndarray or None
        Distance between the mean value of the tail and that of the tokens kept, each
        under its weights; 0 for an empty tail. None without values.

    output_error : ndarray or None
        Distance between the output of the row and that of its renormalised largest
        weights: ``tail_mass * value_distance``, which is exact. None without values.

    power_law : PowerLaw
        Of `n_needed` over the rows. NaN where all rows have the same number of tokens.
    """

    n_tokens: np.ndarray
    n_small: np.ndarray
    n_needed: np.ndarray
    n_kept: np.ndarray
    tail_mass: np.ndarray
    value_distance: np.ndarray | None
    output_error: np.ndarray | None
    power_law: PowerLaw

    @property
    def total_variation(self):
        """Between each row and its renormalised largest weights: the tail mass."""
        return self.tail_mass

    def to_frame(self):
        """Return a pandas dataframe with one row a row of attention.

        The index counts samples, and heads where there are several.
        """
        import pandas as pd

        shape = self.n_tokens.shape
        names = ["sample", "head"]
        if len(shape) > 2:
            names = [f"axis_{axis}" for axis in range(len(shape))]
        columns = {
            name: getattr(self, name).ravel()
            for name in (
                "n_tokens",
                "n_small",
                "n_needed",
                "n_kept",
                "tail_mass",
                "value_distance",
                "output_error",
            )
            if getattr(self, name) is not None
        }
        if len(shape) == 1:
            index = pd.RangeIndex(shape[0], name="sample")
        else:
            index = pd.MultiIndex.from_product(map(range, shape), names=names)
        return pd.DataFrame(columns, index=index)


@dataclass(frozen=True)
class _Block:
    """Rows of attention with equally many tokens, and where they belong.

    `rows` numbers the rows in the output, `weights` is (n_rows, n), `values` (n_rows,
    n, d_v) or None.
    """

    rows: np.ndarray
    weights: np.ndarray
    values: np.ndarray | None


def attention_sparsity(
    weights, *, eps=0.01, mass=None, power=None, values=None, mask=None
):
    """Measure how few tokens attention needs.

    For a row p of weights over n tokens and its k largest entries, the *tail mass* is
    the weight left out. It is the total variation between p and its k largest weights
    renormalised, p_k, and the outputs differ by
    ``|p V - p_k V| = tail mass * |mean of the tail - mean of the kept|``, exactly.

    Two rules choose k. By mass, the default: the smallest k whose tail is at most
    `eps`. By a power law, ``k = ceil(a n ** C)``: arXiv 2404.02690 shows that few
    entries of attention are large, but under scores of fixed spread the tail of a power
    C < 1 does not vanish as n grows, so that it is an option here.

    Parameters
    ----------
    weights : array-like of shape (n_samples, n_tokens) or (n_samples, n_heads, \
            n_tokens), or list of (n_tokens_i,) or (n_heads, n_tokens_i) arrays
        Rows that sum to 1, for example ``estimator.attention_weights(X)``. The last
        axis is that of tokens; an array may have any number of axes before it. NaN
        marks an absent token.

    eps : float, default=0.01
        Weights up to `eps` count as small, and a tail up to `eps` may be left out.

    mass : float, default=None
        Least weight to keep, above 0 and at most 1: a tail up to ``1 - mass`` may be
        left out instead of `eps`.

    power : float or (float, float), default=None
        Measure tails at ``k = ceil(a n ** C)`` (at most n), given C or the pair (a, C);
        a is 1 in the first form.

    values : array-like of shape (n_samples, n_tokens, d_v), or list of \
            (n_tokens_i, d_v) arrays, default=None
        The vectors that attention averages, shared by the heads; adds the output error.
        An array of the shape of `weights` and one axis more gives each head its own.

    mask : array-like of bool of shape (n_samples, n_tokens), default=None
        True at tokens that are there, for a padded array: absent tokens have weight 0
        and would count as small. Not for lists, whose samples have a length.

    Returns
    -------
    sparsity : AttentionSparsity
        Counts, tails and errors of each row, and the power law of `n_needed`.

    Raises
    ------
    ValueError
        If a weight is negative or infinite, a row does not sum to 1, shapes do not
        agree, or a parameter is out of range.

    Notes
    -----
    Sums run from the smallest weight up, so that small tails keep their digits. Rows
    are divided by their sum, which half precision leaves a little off 1. Of equal
    weights the first are kept.

    References
    ----------
    Deng, Song and Yang, "Attention is Naturally Sparse with Gaussian Distributed
    Input", arXiv 2404.02690.

    Examples
    --------
    >>> from skattn.theory import attention_sparsity
    >>> sparsity = attention_sparsity([[0.7, 0.2, 0.06, 0.04]], eps=0.1)
    >>> sparsity.n_small, sparsity.n_needed, sparsity.tail_mass.round(2)
    (array([2]), array([2]), array([0.1]))
    >>> attention_sparsity([[0.7, 0.2, 0.06, 0.04]], power=0.5).n_kept
    array([2])
    """
    allowed = _read_allowed(eps, mass)
    power = _read_power(power)
    shape, blocks = _read_blocks(weights, values, mask)
    n_rows = int(np.prod(shape))
    counts = {
        name: np.zeros(n_rows, dtype=np.int64)
        for name in ("n_tokens", "n_small", "n_needed", "n_kept")
    }
    tail_mass, distance = np.zeros(n_rows), np.zeros(n_rows)
    for block in blocks:
        rows, p = block.rows, block.weights
        n = p.shape[1]
        order = np.argsort(-p, axis=1, kind="stable")
        # tails[:, k] is the weight that the k largest leave out.
        ascending = np.take_along_axis(p, order[:, ::-1], axis=1)
        tails = np.zeros((len(p), n + 1))
        tails[:, :-1] = np.cumsum(ascending, axis=1)[:, ::-1]
        # A tail of exactly the weight allowed must not be lost to the rounding of sums.
        limit = allowed * (1 + (n + 16) * _ROUNDING)
        needed = np.maximum(np.argmax(tails <= limit, axis=1), 1)
        kept = needed
        if power is not None:
            kept = np.full(len(p), min(int(count_of_power(n, *power, np)), n))
        counts["n_tokens"][rows] = n
        counts["n_small"][rows] = np.sum(p <= eps, axis=1)
        counts["n_needed"][rows] = needed
        counts["n_kept"][rows] = kept
        tail_mass[rows] = np.take_along_axis(tails, kept[:, None], axis=1)[:, 0]
        if block.values is not None:
            distance[rows] = _distance_of_means(p, order, kept, block.values)
    shaped = {name: array.reshape(shape) for name, array in counts.items()}
    tail_mass, distance = tail_mass.reshape(shape), distance.reshape(shape)
    return AttentionSparsity(
        **shaped,
        tail_mass=tail_mass,
        value_distance=None if values is None else distance,
        output_error=None if values is None else tail_mass * distance,
        power_law=_fit_power_law(counts["n_tokens"], counts["n_needed"]),
    )


def _distance_of_means(p, order, kept, values):
    """Distance between the mean values of the tail and of the tokens kept."""
    ranks = np.argsort(order, axis=1)
    is_kept = ranks < kept[:, None]
    means = []
    for part in (p * is_kept, p * ~is_kept):
        # Tails may be too small to divide by unless their largest weight is taken out.
        largest = part.max(axis=1, keepdims=True)
        shares = np.divide(part, largest, out=np.zeros_like(part), where=largest > 0)
        total = np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        means.append(np.einsum("rt,rtd->rd", shares / total, values))
    has_tail = (p * ~is_kept).any(axis=1)
    return np.where(has_tail, np.linalg.norm(means[1] - means[0], axis=1), 0.0)


def _fit_power_law(n_tokens, n_needed):
    if np.ptp(n_tokens) == 0:
        return PowerLaw(np.nan, np.nan, np.nan)
    # Slow to import, and scikit-learn may not have done it.
    from scipy.stats import linregress

    fit = linregress(np.log(n_tokens), np.log(n_needed))
    return PowerLaw(
        scale=float(np.exp(fit.intercept)),
        exponent=float(fit.slope),
        exponent_std_error=float(fit.stderr) if len(n_tokens) > 2 else np.nan,
    )


def _read_allowed(eps, mass):
    if not _is_number(eps) or not 0 <= eps < 1:
        raise ValueError(f"eps must be a number in [0, 1), got {eps!r}.")
    if mass is None:
        return eps
    if not _is_number(mass) or not 0 < mass <= 1:
        raise ValueError(f"mass must be a number in (0, 1] or None, got {mass!r}.")
    return 1 - mass + (_ROUNDING if mass < 1 else 0.0)


def _read_power(power):
    if power is None:
        return None
    pair = (1.0, power) if _is_number(power) else tuple(np.ravel(power))
    if len(pair) != 2 or not all(map(_is_number, pair)):
        raise ValueError(
            f"power must be the exponent C, or the pair (a, C), of k = a n ** C; got "
            f"{power!r}."
        )
    scale, exponent = map(float, pair)
    if not 0 < scale < np.inf or not 0 <= exponent <= 1:
        raise ValueError(
            f"power must have a > 0 and C in [0, 1], got a={scale:g}, C={exponent:g}."
        )
    return scale, exponent


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _read_blocks(weights, values, mask):
    """Return the shape of the output and its rows, as blocks of equal length."""
    if not _is_list(weights):
        weights = as_float_array(weights, "weights")
        if weights.ndim < 2 or not weights.size:
            raise ValueError(
                "weights must have shape (n_samples, n_tokens) or (n_samples, n_heads, "
                f"n_tokens) and hold at least one row; got shape {weights.shape}. For "
                "one row pass `[weights]`."
            )
        if values is not None:
            values = as_float_array(values, "values")
        samples = np.arange(len(weights))
        return weights.shape[:-1], _blocks_of_array(samples, weights, values, mask)
    if mask is not None:
        raise ValueError(
            "mask is for arrays: samples in a list have the length of their weights."
        )
    weights = [as_float_array(p, f"weights[{i}]") for i, p in enumerate(weights)]
    leads = {sample.shape[:-1] for sample in weights if sample.size and sample.ndim}
    if len(leads) != 1 or not all(sample.size and sample.ndim for sample in weights):
        raise ValueError(
            "weights must hold at least one sample, and each of them at least one "
            "token and equally many heads; got samples of shapes "
            f"{sorted({sample.shape for sample in weights})}. For one row pass "
            "`[weights]`."
        )
    if values is not None:
        n_values = len(values) if np.iterable(values) else "no"
        if n_values != len(weights):
            raise ValueError(
                f"values has {n_values} samples, but weights has {len(weights)}."
            )
        values = [as_float_array(v, f"values[{i}]") for i, v in enumerate(values)]
    lengths = np.array([sample.shape[-1] for sample in weights])
    blocks = []
    for length in np.unique(lengths):
        samples = np.flatnonzero(lengths == length)
        stacked = None
        if values is not None:
            stacked = _stack_values([values[sample] for sample in samples], samples)
        blocks += _blocks_of_array(
            samples, np.stack([weights[sample] for sample in samples]), stacked, None
        )
    return (len(weights), *leads.pop()), blocks


def _is_list(weights):
    return isinstance(weights, list | tuple) or (
        holds_objects(weights) and weights.ndim == 1
    )


def _stack_values(values, samples):
    shapes = [sample.shape for sample in values]
    if len(set(shapes)) > 1:
        raise ValueError(
            "values must give each token of a sample one vector, all of one length; "
            f"values[{samples[0]}] has shape {shapes[0]}, and another sample of as "
            f"many tokens {next(s for s in shapes if s != shapes[0])}."
        )
    return np.stack(values)


def _blocks_of_array(samples, weights, values, mask):
    """Split padded rows, (n_samples, ..., n_tokens), by their number of tokens."""
    n_samples, *heads, n_tokens = weights.shape
    n_heads = int(np.prod(heads))
    weights = weights.reshape(-1, n_tokens).astype(np.float64)
    sample_of_row = np.repeat(np.arange(n_samples), n_heads)
    names = samples[sample_of_row]
    rows = np.repeat(samples * n_heads, n_heads) + np.tile(
        np.arange(n_heads), n_samples
    )
    present = ~np.isnan(weights)
    if mask is not None:
        present &= _read_mask(mask, (n_samples, *heads, n_tokens))
    weights = _check_rows(np.where(np.isnan(weights), 0.0, weights), present, names)
    if values is not None:
        values = _rows_of_values(values, (n_samples, *heads, n_tokens), sample_of_row)
    blocks = []
    lengths = present.sum(axis=1)
    for length in np.unique(lengths):
        some = np.flatnonzero(lengths == length)
        tokens = np.nonzero(present[some])[1].reshape(-1, length)
        own_values = None
        if values is not None:
            array, row_of_array = values
            own_values = array[row_of_array[some][:, None], tokens]
            if not np.isfinite(own_values).all():
                raise ValueError("values contains NaN or infinity at a token.")
        own_weights = np.take_along_axis(weights[some], tokens, axis=1)
        blocks.append(_Block(rows[some], own_weights, own_values))
    return blocks


def _read_mask(mask, shape):
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape not in (shape, (shape[0], shape[-1])):
        raise ValueError(
            f"mask must be a boolean array of shape {(shape[0], shape[-1])}, or of the "
            f"shape of weights {shape}; got {mask.dtype} of shape {mask.shape}."
        )
    if mask.shape != shape:
        mask = mask.reshape(shape[0], *[1] * (len(shape) - 2), shape[-1])
    return np.broadcast_to(mask, shape).reshape(-1, shape[-1])


def _check_rows(weights, present, names):
    """Return rows that sum to exactly 1 up to rounding."""
    wrong = ~((weights >= 0) & np.isfinite(weights)).all(axis=1)
    if wrong.any():
        raise ValueError(
            "weights must be finite and not negative, but those of sample "
            f"{names[wrong][0]} are not."
        )
    if (weights[~present] > 0).any():
        row = np.flatnonzero(((weights > 0) & ~present).any(axis=1))[0]
        raise ValueError(
            f"mask marks a token of sample {names[row]} as absent that has weight."
        )
    totals = weights.sum(axis=1)
    off = np.abs(totals - 1) > _SUM_TOLERANCE
    if off.any():
        raise ValueError(
            f"weights must sum to 1 over the tokens of each row, but a row of sample "
            f"{names[off][0]} sums to {totals[off][0]:g}."
        )
    return weights / totals[:, None]


def _rows_of_values(values, shape, sample_of_row):
    """Return values as (n_arrays, n_tokens, d_v), and the array of each row."""
    shared = (shape[0], shape[-1])
    if values.ndim == 3 and values.shape[:-1] == shared:
        return values, sample_of_row
    if values.shape[:-1] == shape:
        return values.reshape(-1, *values.shape[-2:]), np.arange(len(sample_of_row))
    raise ValueError(
        f"values must have shape ({', '.join(map(str, shared))}, d_v), one vector a "
        f"token, or the shape of weights {shape} and one axis more; got shape "
        f"{values.shape}."
    )
