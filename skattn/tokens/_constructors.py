"""The named constructors of the container."""

import numpy as np

from skattn.tokens._forms import (
    SAMPLE_AND_TOKEN,
    parts_of_groups,
    parts_of_list,
    parts_of_padded,
)
from skattn.tokens._validation import (
    as_float_array,
    check_query,
    holds_objects,
    refuse_missing,
)


class TokensConstructors:
    """Class methods that build :class:`skattn.Tokens` from common layouts."""

    __slots__ = ()

    @classmethod
    def _from_forms(cls, parts, query=None):
        values, offsets, positions, n_positions = parts
        if query is not None:
            query = check_query(query, len(offsets) - 1)
        return cls._from_parts(values, offsets, positions, query, n_positions)

    @classmethod
    def from_padded(cls, X, lengths=None, mask=None, *, query=None):
        """Build from an array in which short samples are padded.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_positions, n_features)
            The padded samples. A token whose features are all NaN is absent.

        lengths : array-like of shape (n_samples,), default=None
            The first ``lengths[i]`` tokens of sample ``i`` are real and what follows is
            padding, whatever its values.

        mask : array-like of bool of shape (n_samples, n_positions), default=None
            True where a token is real. At most one of `lengths` and `mask`.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample.

        Returns
        -------
        tokens : Tokens
            The real tokens, each with its position.

        Raises
        ------
        ValueError
            If a sample has no real token, or a real token is partly missing or
            infinite.

        Examples
        --------
        >>> import numpy as np
        >>> from skattn import Tokens
        >>> X = np.arange(12.0).reshape(2, 3, 2)
        >>> Tokens.from_padded(X, lengths=[1, 3]).to_list()[0]
        array([[0., 1.]])
        """
        if lengths is not None and mask is not None:
            raise ValueError("Give at most one of lengths and mask.")
        X = as_float_array(X, "X", axes=SAMPLE_AND_TOKEN)
        if X.ndim != 3:
            raise ValueError(
                "X must have shape (n_samples, n_positions, n_features); "
                f"got an array of {X.ndim} dimension(s)."
            )
        if lengths is not None:
            lengths = _check_lengths(lengths, X.shape)
            mask = np.arange(X.shape[1]) < lengths[:, None]
        elif mask is not None:
            mask = np.asarray(mask)
            if mask.shape != X.shape[:2] or mask.dtype != bool:
                raise ValueError(
                    "mask must be an array of bool of shape (n_samples, n_positions) = "
                    f"{X.shape[:2]}; got {mask.dtype} of shape {mask.shape}."
                )
        values, offsets, positions, n_positions = parts_of_padded(X, mask)
        if lengths is not None:
            n_positions = lengths
        return cls._from_forms((values, offsets, positions, n_positions), query)

    @classmethod
    def from_long(cls, df, *, sample, order=None, query=None):
        """Build from a long table: one row a token, one column that names the sample.

        Parameters
        ----------
        df : dataframe of shape (n_tokens, n_columns)
            A pandas dataframe, or any with ``columns`` and ``df[name]``. All columns
            but `sample` and `order` are features: leave out a column of labels.

        sample : str
            Column that names the sample of each row.

        order : str, default=None
            Column by which the tokens of a sample are sorted; by default they keep the
            order of the rows.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample.

        Returns
        -------
        tokens : Tokens
            The samples in the order in which they first appear in `df`; their names
            are ``df[sample].unique()``.

        Raises
        ------
        ValueError
            If a column is missing, or a feature is not numeric.

        Examples
        --------
        >>> import pandas as pd
        >>> from skattn import Tokens
        >>> df = pd.DataFrame({"id": ["b", "a", "b"], "t": [2, 1, 1], "x": [5, 6, 7]})
        >>> Tokens.from_long(df, sample="id", order="t").to_list()
        [array([[7.],
               [5.]]), array([[6.]])]
        """
        columns = list(df.columns)
        for parameter, column in (("sample", sample), ("order", order)):
            if column is not None and column not in columns:
                raise ValueError(
                    f"{parameter}={column!r} is not a column of df; "
                    f"its columns are {columns}."
                )
        features = [column for column in columns if column not in (sample, order)]
        if not features:
            raise ValueError("df has no feature: only the sample and order columns.")
        values = np.column_stack(
            [as_float_array(df[column], f"column {column!r}") for column in features]
        )
        keys = None
        if order is not None:
            keys = np.asarray(df[order])
            refuse_missing(keys, f"the order column {order!r}")
        groups = np.asarray(df[sample])
        parts = parts_of_groups(values, groups, f"the sample column {sample!r}", keys)
        return cls._from_forms(parts, query)

    @classmethod
    def from_bags(cls, instances, bag_ids, *, query=None):
        """Build from instances and the bag that each belongs to.

        Parameters
        ----------
        instances : array-like of shape (n_instances, n_features)
            The instances of all bags, in any order.

        bag_ids : array-like of shape (n_instances,)
            The bag of each instance.

        query : array-like of shape (n_bags, n_query_features), default=None
            One query a bag.

        Returns
        -------
        tokens : Tokens
            The bags in the order in which they first appear in `bag_ids`.

        Examples
        --------
        >>> from skattn import Tokens
        >>> Tokens.from_bags([[1.0], [2.0], [3.0]], ["b", "a", "b"]).lengths
        array([2, 1])
        """
        instances = as_float_array(instances, "instances")
        if instances.ndim != 2:
            raise ValueError(
                "instances must have shape (n_instances, n_features); got an array of "
                f"{instances.ndim} dimension(s)."
            )
        return cls._from_forms(parts_of_groups(instances, bag_ids, "bag_ids"), query)

    @classmethod
    def from_channels_first(cls, X, *, query=None):
        """Build from series with channels first and time second.

        This is the layout of time-series packages.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels, n_times), or list of \
                (n_channels, n_times_i) arrays
            The series; a time at which all channels are NaN is absent.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample.

        Returns
        -------
        tokens : Tokens
            One token a time, one feature a channel.

        Examples
        --------
        >>> import numpy as np
        >>> from skattn import Tokens
        >>> Tokens.from_channels_first(np.zeros((5, 3, 20)))
        Tokens(n_samples=5, n_features=3, lengths=20..20)
        """
        if isinstance(X, (list, tuple)) or holds_objects(X):
            samples = [np.asarray(sample) for sample in X]
            if not samples:
                raise ValueError(
                    "Found array with 0 sample(s) while a minimum of 1 is required: X "
                    "is empty."
                )
            return cls._from_forms(parts_of_list([s.T for s in samples]), query)
        X = as_float_array(X, "X")
        if X.ndim != 3:
            raise ValueError(
                "X must have shape (n_samples, n_channels, n_times); got an array of "
                f"{X.ndim} dimension(s)."
            )
        return cls._from_forms(parts_of_padded(X.transpose(0, 2, 1)), query)


def _check_lengths(lengths, shape):
    lengths = np.asarray(lengths)
    if lengths.shape != shape[:1] or lengths.dtype.kind not in "iu":
        raise ValueError(
            f"lengths must be an array of {shape[0]} integers, one a sample; got "
            f"{lengths.dtype} of shape {lengths.shape}."
        )
    wrong = np.flatnonzero((lengths < 1) | (lengths > shape[1]))
    if len(wrong):
        raise ValueError(
            f"lengths[{wrong[0]}] is {lengths[wrong[0]]}; it must be between 1 and the "
            f"{shape[1]} positions of X."
        )
    return lengths.astype(np.int64)
