"""The immutable container of ragged samples."""

import operator

import numpy as np

from skattn.tokens._constructors import TokensConstructors
from skattn.tokens._forms import refuse_no_features
from skattn.tokens._validation import as_float_array, check_query


class Tokens(TokensConstructors):
    """Samples that are sets or sequences of tokens, laid end to end.

    No padding is stored: a sample of a thousand tokens beside samples of twelve costs
    its own tokens only. The container is immutable, can be pickled, and can be split
    by every cross-validation tool of scikit-learn.

    Parameters
    ----------
    values : array-like of shape (n_tokens, n_features)
        The real tokens of all samples, sample after sample. float32 and float64 are
        kept, other numeric types become float64.

    offsets : array-like of shape (n_samples + 1,)
        Sample ``i`` owns the rows ``offsets[i]:offsets[i + 1]`` of `values`. Every
        sample owns at least one.

    positions : array-like of shape (n_tokens,), default=None
        Position of each token in its sample as it was given, increasing within a
        sample. By default the tokens of a sample are numbered from 0. A gap means that
        the sample had an absent token there.

    query : array-like of shape (n_samples, n_query_features), default=None
        One query a sample, for the estimators with ``query="given"``.

    n_positions : array-like of shape (n_samples,), default=None
        How many positions each sample had as it was given, absent tokens included. By
        default one more than the position of its last token.

    Attributes
    ----------
    values : ndarray of shape (n_tokens, n_features)
        The real tokens.

    offsets : ndarray of shape (n_samples + 1,)
        Where each sample starts and ends.

    positions : ndarray of shape (n_tokens,)
        Position of each token in its sample as given.

    query : ndarray of shape (n_samples, n_query_features) or None
        The queries that travel with the samples.

    n_positions : ndarray of shape (n_samples,)
        Length of each sample as given.

    Raises
    ------
    ValueError
        If a sample owns no token, a value is NaN or infinite, or the shapes disagree.

    See Also
    --------
    check_tokens : Read any input form into this container.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn import Tokens
    >>> tokens = Tokens([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], offsets=[0, 1, 3])
    >>> tokens
    Tokens(n_samples=2, n_features=2, lengths=1..2)
    >>> tokens[1]
    array([[2., 3.],
           [4., 5.]])
    >>> tokens[[1, 0]].lengths
    array([2, 1])
    """

    __slots__ = ("n_positions", "offsets", "positions", "query", "values")

    def __init__(
        self, values, offsets, positions=None, query=None, *, n_positions=None
    ):
        values = as_float_array(values, name="values", copy=True)
        if values.ndim != 2:
            raise ValueError(
                "values must have shape (n_tokens, n_features); "
                f"got an array of {values.ndim} dimension(s)."
            )
        refuse_no_features(values.shape[1], values.shape, "values")
        offsets = _check_offsets(offsets, len(values))
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            sample = int(np.searchsorted(offsets, row, side="right")) - 1
            raise ValueError(
                f"values contains NaN or infinity in token {row - offsets[sample]} of "
                f"sample {sample}. Leave absent tokens out, or build the container "
                "with Tokens.from_padded."
            )
        positions = _check_positions(positions, offsets)
        n_positions = _check_n_positions(n_positions, positions, offsets)
        if query is not None:
            query = check_query(query, len(offsets) - 1)
        self._set(values, offsets, positions, query, n_positions)

    @classmethod
    def _from_parts(cls, values, offsets, positions, query, n_positions):
        """Build from arrays that are known to be valid and owned by the container."""
        tokens = cls.__new__(cls)
        tokens._set(values, offsets, positions, query, n_positions)
        return tokens

    def _set(self, values, offsets, positions, query, n_positions):
        for name, array in (
            ("values", values),
            ("offsets", offsets),
            ("positions", positions),
            ("query", query),
            ("n_positions", n_positions),
        ):
            if array is not None:
                array = array.view()
                array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __setattr__(self, name, value):
        raise AttributeError(f"Tokens is immutable; {name!r} cannot be set.")

    def __delattr__(self, name):
        raise AttributeError(f"Tokens is immutable; {name!r} cannot be deleted.")

    def __reduce__(self):
        return (
            type(self)._from_parts,
            (self.values, self.offsets, self.positions, self.query, self.n_positions),
        )

    def __len__(self):
        return len(self.offsets) - 1

    @property
    def shape(self):
        """``(n_samples,)``: scikit-learn's splitters index along this axis."""
        return (len(self),)

    @property
    def ndim(self):
        """Always 1: an array of samples."""
        return 1

    @property
    def dtype(self):
        """Type of `values`."""
        return self.values.dtype

    @property
    def n_features(self):
        """Number of features of a token."""
        return self.values.shape[1]

    @property
    def n_tokens(self):
        """Number of real tokens of all samples together."""
        return self.values.shape[0]

    @property
    def lengths(self):
        """Number of real tokens of each sample, of shape (n_samples,)."""
        return np.diff(self.offsets)

    def __iter__(self):
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.values[start:stop]

    def __getitem__(self, key):
        # scikit-learn indexes whatever has a `shape` with `(key, Ellipsis)`.
        if isinstance(key, tuple):
            if len(key) == 2 and key[1] is Ellipsis:
                return self[key[0]]
            raise IndexError(
                "Tokens has one axis, the samples; index a sample first and its "
                "(n_tokens, n_features) array second."
            )
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            index = operator.index(key)
            if not -len(self) <= index < len(self):
                raise IndexError(
                    f"sample {index} is out of range for {len(self)} samples."
                )
            index %= len(self)
            return self.values[self.offsets[index] : self.offsets[index + 1]]
        samples = np.arange(len(self))[key]
        if samples.ndim != 1:
            raise IndexError(
                "Tokens is indexed by an integer, a slice, a mask or a one-dimensional "
                f"array of integers; got {key!r}."
            )
        return self._take(samples)

    def _take(self, samples):
        rows, offsets = rows_of_samples(self.offsets, samples)
        return self._from_parts(
            self.values[rows],
            offsets,
            self.positions[rows],
            None if self.query is None else self.query[samples],
            self.n_positions[samples],
        )

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("Tokens has no array to share: its samples are ragged.")
        array = np.empty(len(self), dtype=object)
        for index, sample in enumerate(self):
            array[index] = sample
        return array if dtype is None else array.astype(dtype)

    def __repr__(self):
        if len(self) == 0:
            return f"Tokens(n_samples=0, n_features={self.n_features})"
        query = (
            "" if self.query is None else f", n_query_features={self.query.shape[1]}"
        )
        lengths = self.lengths
        return (
            f"Tokens(n_samples={len(self)}, n_features={self.n_features}{query}, "
            f"lengths={lengths.min()}..{lengths.max()})"
        )

    def with_query(self, query):
        """Return the same samples with one query each.

        This is the form for cross-validation: scorers cannot route a separate `query`
        array, and a query that travels inside the container is split with its sample.

        Parameters
        ----------
        query : array-like of shape (n_samples, n_query_features) or None
            The queries; None removes them.

        Returns
        -------
        tokens : Tokens
            A container that shares the tokens of this one.

        Examples
        --------
        >>> import numpy as np
        >>> from skattn import Tokens
        >>> tokens = Tokens([[0.0], [2.0], [4.0]], offsets=[0, 1, 3])
        >>> tokens.with_query([[1.0, 0.0], [0.0, 1.0]])[1:].query
        array([[0., 1.]])
        """
        if query is not None:
            query = check_query(query, len(self))
        return self._from_parts(
            self.values, self.offsets, self.positions, query, self.n_positions
        )

    def with_values(self, values):
        """Return the same layout of samples with other features for each token.

        Parameters
        ----------
        values : array-like of shape (n_tokens, n_new_features)
            One row a real token.

        Returns
        -------
        tokens : Tokens
            Same offsets, positions and queries.
        """
        return type(self)(
            values,
            self.offsets,
            self.positions,
            self.query,
            n_positions=self.n_positions,
        )

    def to_list(self):
        """Return the samples as a list of (n_tokens_i, n_features) arrays.

        Absent tokens are left out, so that positions are renumbered; use
        :meth:`to_padded` to keep them.
        """
        return list(self)

    def to_padded(self):
        """Return the samples as one array padded with NaN.

        Returns
        -------
        X : ndarray of shape (n_samples, max(n_positions), n_features)
            Each token at its position; NaN where a sample has no token.
        """
        n_columns = int(self.n_positions.max(initial=0))
        padded = np.full(
            (len(self), n_columns, self.n_features), np.nan, dtype=self.values.dtype
        )
        samples = np.repeat(np.arange(len(self)), self.lengths)
        padded[samples, self.positions] = self.values
        return padded


def rows_of_samples(offsets, samples):
    """Return the rows that `samples` own, in their order, and their new offsets."""
    starts = offsets[:-1][samples]
    lengths = np.diff(offsets)[samples]
    new_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shifts = np.repeat(starts - new_offsets[:-1], lengths)
    return np.arange(new_offsets[-1]) + shifts, new_offsets


def _check_offsets(offsets, n_tokens):
    offsets = _as_integers(offsets, "offsets")
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n_tokens:
        raise ValueError(
            f"offsets must run from 0 to the number of tokens, {n_tokens}; "
            f"got {offsets.tolist()[:1]} to {offsets.tolist()[-1:]}."
        )
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise ValueError(
            f"sample {empty[0]} has no token: offsets must increase. "
            "Leave samples without tokens out."
        )
    return offsets


def _check_positions(positions, offsets):
    lengths = np.diff(offsets)
    if positions is None:
        return np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    positions = _as_integers(positions, "positions")
    if len(positions) != offsets[-1]:
        raise ValueError(
            f"positions has {len(positions)} entries for {offsets[-1]} tokens."
        )
    increases = np.diff(positions, prepend=-1) > 0
    increases[offsets[:-1]] = positions[offsets[:-1]] >= 0
    if not increases.all():
        row = int(np.flatnonzero(~increases)[0])
        sample = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(
            "positions must be at least 0 and increase within a sample; they do not "
            f"in sample {sample}."
        )
    return positions


def _check_n_positions(n_positions, positions, offsets):
    least = positions[offsets[1:] - 1] + 1
    if n_positions is None:
        return least
    n_positions = _as_integers(n_positions, "n_positions")
    if n_positions.shape != least.shape or (n_positions < least).any():
        raise ValueError(
            "n_positions must give every sample a length beyond the position of its "
            "last token."
        )
    return n_positions


def _as_integers(array, name):
    array = np.array(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers.")
    return array.astype(np.int64)
