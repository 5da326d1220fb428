"""Encodings of where in its sample a token stands."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import all_or_nothing
from skattn._input import read_input
from skattn._output import TokenTransformerMixin, like_input
from skattn.preprocessing._cells import SameColumnsMixin, single_feature_tokens


class PositionalEncoding(SameColumnsMixin, TokenTransformerMixin, BaseEstimator):
    """Tell every token its position in its sample.

    Attention itself sees a sample as a set; with its position among the features of a
    token it can tell early from late. The position is that in the sample as given:
    absent tokens count, so that what stands after a gap knows of it. The columns of a
    table are tokens of one feature, their values.

    Parameters
    ----------
    encoding : {"sinusoidal", "linear"}, default="sinusoidal"
        "sinusoidal": components ``2 k`` and ``2 k + 1`` of position t are the sine and
        the cosine of ``t / max_period ** (2 k / n_components)`` (section 3.5 of [1]_).

        "linear": one component, the position as a share of that of the last real token
        of the sample, from 0 to 1. It is 0 in a sample of one position.

    n_components : int, default=None
        Number of components of a sinusoidal encoding; by default as many as a token has
        features. A linear encoding has one.

    max_period : float, default=10000.0
        Base of the sinusoidal frequencies, at least 1: the wavelengths rise from
        ``2 pi`` towards ``2 pi max_period`` positions.

    combine : {"add", "concat"}, default="add"
        Whether the components are added to the features, which must then be as many, or
        follow them as features of their own.

    Attributes
    ----------
    n_components_ : int
        Number of components of the encoding.

    n_features_in_ : int
        Number of features of a token, or of columns of a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has dataframes whose columns are strings.

    input_kind_ : {"sequences", "table"}
        What the encoder was fitted on.

    References
    ----------
    .. [1] Vaswani et al. (2017). "Attention is all you need". arXiv:1706.03762.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.preprocessing import PositionalEncoding
    >>> X = [np.array([[7.0], [8.0], [9.0]])]
    >>> PositionalEncoding("linear", combine="concat").fit_transform(X)
    [array([[7. , 0. ],
           [8. , 0.5],
           [9. , 1. ]])]
    """

    _parameter_constraints: ClassVar[dict] = {
        "encoding": [StrOptions({"sinusoidal", "linear"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "max_period": [Interval(Real, 1, None, closed="left")],
        "combine": [StrOptions({"add", "concat"})],
    }

    def __init__(
        self,
        encoding="sinusoidal",
        *,
        n_components=None,
        max_period=10000.0,
        combine="add",
    ):
        self.encoding = encoding
        self.n_components = n_components
        self.max_period = max_period
        self.combine = combine

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Settle the number of components.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The training samples. Later samples may be longer.

        y : None
            Ignored.

        Returns
        -------
        self : PositionalEncoding
            The fitted encoder.

        Raises
        ------
        ValueError
            If the components are to be added to a different number of features, or a
            linear encoding is to have several.
        """
        n_features = single_feature_tokens(read_input(self, X, reset=True)).n_features
        self.n_components_ = self._settle_n_components(n_features)
        return self

    def transform(self, X):
        """Encode the position of every token.

        Parameters
        ----------
        X : the kind of input that the encoder was fitted on
            The samples.

        Returns
        -------
        output : Tokens, list of ndarray or ndarray
            The samples in the container of X; absent tokens stay absent. A table stays
            one of shape (n_samples, n_columns) when the encoding is added, and becomes
            an array of shape (n_samples, n_columns, 1 + n_components_) otherwise.
        """
        check_is_fitted(self)
        read = read_input(self, X)
        tokens = single_feature_tokens(read)
        encoding = self._encode(tokens).astype(tokens.dtype)
        if self.combine == "concat":
            values = np.hstack([tokens.values, encoding])
        else:
            values = tokens.values + encoding
        if self._keeps_table():
            return values.reshape(len(tokens), -1)
        return like_input(tokens.with_values(values), read.form)

    def _keeps_table(self):
        return self.combine == "add" and super()._keeps_table()

    def _settle_n_components(self, n_features):
        if self.encoding == "linear":
            if self.n_components not in (None, 1):
                raise ValueError(
                    "A linear encoding has one component; got "
                    f"n_components={self.n_components}. Leave n_components out."
                )
            n_components = 1
        else:
            n_components = self.n_components or n_features
        if self.combine == "add" and n_components != n_features:
            raise ValueError(
                f"combine='add' needs as many components as a token has features: "
                f"{n_components} component(s) for {n_features} feature(s). Leave "
                "n_components out for a sinusoidal encoding, or use combine='concat'."
            )
        return n_components

    def _encode(self, tokens):
        positions = tokens.positions[:, None]
        if self.encoding == "linear":
            last = np.repeat(positions[tokens.offsets[1:] - 1], tokens.lengths, axis=0)
            return positions / np.maximum(last, 1)
        component = np.arange(self.n_components_)
        exponent = 2 * (component // 2) / self.n_components_
        angle = positions / self.max_period**exponent
        return np.where(component % 2 == 0, np.sin(angle), np.cos(angle))
