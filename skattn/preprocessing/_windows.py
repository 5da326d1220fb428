"""Windows of a series as tokens."""

from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, RealNotInt
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import all_or_nothing
from skattn._input import read_input
from skattn._output import TokenTransformerMixin, like_input
from skattn.preprocessing._cells import single_feature_tokens
from skattn.tokens import Tokens
from skattn.tokens._selection import owners


def _slope(windows):
    """Least-squares slope per time step, along axis 1; 0 for a single time."""
    n_times = windows.shape[1]
    time = np.arange(n_times, dtype=windows.dtype) - (n_times - 1) / 2
    return np.einsum("wtc,t->wc", windows, time / (time @ time or 1))


_SUMMARIES = {
    "mean": lambda windows: windows.mean(axis=1),
    "std": lambda windows: windows.std(axis=1),
    "min": lambda windows: windows.min(axis=1),
    "max": lambda windows: windows.max(axis=1),
    "slope": _slope,
}


class WindowTokenizer(TokenTransformerMixin, BaseEstimator):
    """Cut series into windows, which become the tokens.

    A row of a table is one series of one channel. Of sequences, the tokens are the
    times and their features the channels. Window ``w`` of a sample covers its positions
    ``w * step_`` to ``w * step_ + length_ - 1``; times after the last window that fits
    are left out. A window with an absent token is absent itself.

    Parameters
    ----------
    length : int or float, default=0.25
        Number of times of a window, or, as a float in (0, 1], its share of the shortest
        training series (rounded, at least one time; a series ends with its last real
        token).

    step : int or float, default=None
        Number of times from the start of a window to that of the next, or, as a float
        in (0, 1], its share of `length` (rounded, at least one time). By default
        `length`: windows that touch and do not overlap.

    summary : list of {"mean", "std", "min", "max", "slope"}, default=None
        Features that describe each channel of a window: the last is the least-squares
        slope per time step, and "std" divides by the number of times.

    keep_values : bool, default=True
        Whether the values in a window are features of its token. False leaves the
        `summary` alone.

    Attributes
    ----------
    length_ : int
        Number of times of a window.

    step_ : int
        Number of times between the starts of windows.

    n_features_in_ : int
        Number of channels of sequences, or of columns of a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has dataframes whose columns are strings.

    input_kind_ : {"sequences", "table"}
        What the tokenizer was fitted on.

    See Also
    --------
    FeatureTokenizer : Reads each column of a table as a token of its own.

    Notes
    -----
    The features of a token are, first, the values in the window, time by time: channel
    ``c`` of time ``t`` is feature ``t * n_channels + c``. Then follow the summaries in
    the order of `summary`, each with one feature a channel.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.preprocessing import WindowTokenizer
    >>> series = np.array([[0.0, 1.0, 2.0, 3.0, 9.0, 6.0, 5.0]])
    >>> WindowTokenizer(3, summary=["mean", "slope"]).fit_transform(series)
    array([[[0. , 1. , 2. , 1. , 1. ],
            [3. , 9. , 6. , 6. , 1.5]]])
    """

    _parameter_constraints: ClassVar[dict] = {
        "length": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
        ],
        "step": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
            None,
        ],
        "summary": [list, tuple, None],
        "keep_values": ["boolean"],
    }

    def __init__(self, length=0.25, *, step=None, summary=None, keep_values=True):
        self.length = length
        self.step = step
        self.summary = summary
        self.keep_values = keep_values

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Settle the length and the step of the windows.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The training series. Later series may be longer.

        y : None
            Ignored.

        Returns
        -------
        self : WindowTokenizer
            The fitted tokenizer.

        Raises
        ------
        ValueError
            If a series has no complete window, `summary` has an unknown name, or a
            token would have no feature.
        """
        self._check_summary()
        tokens = single_feature_tokens(read_input(self, X, reset=True))
        last_positions = tokens.positions[tokens.offsets[1:] - 1]
        self.length_ = _resolve(self.length, last_positions.min() + 1)
        step = 1.0 if self.step is None else self.step
        self.step_ = _resolve(step, self.length_)
        _first_rows(tokens, self.length_, self.step_)
        return self

    def transform(self, X):
        """Cut series into windows.

        Parameters
        ----------
        X : the kind of input that the tokenizer was fitted on
            The series.

        Returns
        -------
        windows : Tokens, list of ndarray or ndarray
            The windows in the container of X. A table gives an array of shape
            (n_samples, n_windows, n_window_features).

        Raises
        ------
        ValueError
            If a series has no complete window.
        """
        check_is_fitted(self)
        read = read_input(self, X)
        tokens = single_feature_tokens(read)
        first_rows, n_windows = _first_rows(tokens, self.length_, self.step_)
        windows = tokens.values[first_rows[:, None] + np.arange(self.length_)]
        n_positions = (tokens.n_positions - self.length_) // self.step_ + 1
        return like_input(
            Tokens(
                self._describe(windows),
                np.concatenate([[0], np.cumsum(n_windows)]),
                tokens.positions[first_rows] // self.step_,
                tokens.query,
                n_positions=n_positions,
            ),
            read.form,
        )

    def _describe(self, windows):
        features = [_SUMMARIES[name](windows) for name in self.summary or ()]
        if self.keep_values:
            features.insert(0, windows.reshape(len(windows), -1))
        return np.hstack(features)

    def _check_summary(self):
        unknown = [name for name in self.summary or () if name not in _SUMMARIES]
        if unknown:
            raise ValueError(
                f"summary has unknown names {unknown}; choose from {list(_SUMMARIES)}."
            )
        if not self.keep_values and not self.summary:
            raise ValueError(
                "keep_values=False leaves a token without features: name some in "
                "`summary`."
            )


def _resolve(size, whole):
    """Return a number of times, given as one or as a share of `whole`."""
    if isinstance(size, Integral):
        return int(size)
    return max(1, round(size * int(whole)))


def _first_rows(tokens, length, step):
    """Find the complete windows.

    Returns the row in ``tokens.values`` at which each starts, and the number of windows
    of each sample.
    """
    sample = owners(tokens)
    starts = np.flatnonzero(tokens.positions % step == 0)
    starts = starts[starts + length <= tokens.n_tokens]
    ends = starts + length - 1
    # Positions increase, so that a window has all its tokens exactly when its last row
    # belongs to the same sample and stands as far away as it would without gaps.
    complete = (sample[starts] == sample[ends]) & (
        tokens.positions[ends] - tokens.positions[starts] == length - 1
    )
    starts = starts[complete]
    n_windows = np.bincount(sample[starts], minlength=len(tokens))
    empty = np.flatnonzero(n_windows == 0)
    if len(empty):
        sample = empty[0]
        raise ValueError(
            f"X[{sample}] has no window of {length} consecutive tokens: it has "
            f"{tokens.lengths[sample]} token(s), and windows start at every "
            f"{step} position(s). Choose a smaller length, or remove the sample."
        )
    return starts, n_windows
