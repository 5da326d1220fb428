"""How every transformer gives its output.

This is the counterpart of :mod:`skattn._input`: tokens leave a transformer in the form
in which they came, and `set_output` works whether tokens or a table leave it.
"""

import numpy as np
from sklearn.base import TransformerMixin

from skattn._input import TokenInput
from skattn._links import DocumentationLinkMixin


class TokenTransformerMixin(DocumentationLinkMixin, TransformerMixin):
    """Mixin of transformers that read tokens.

    A two-dimensional output, which is when `get_feature_names_out` exists, follows
    `set_output`; tokens have no dataframe to become and leave as they are.
    """

    def set_output(self, *, transform=None):
        """Set the container of two-dimensional outputs.

        Outputs that hold tokens have no feature names and never change their form, so
        that a pipeline with tokens at some steps can be configured as a whole.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            Container of the output of `transform` and `fit_transform`; None leaves the
            configuration unchanged.

        Returns
        -------
        self : object
            The transformer itself.
        """
        # scikit-learn's own method exists only beside `get_feature_names_out`, and
        # `Pipeline.set_output` refuses steps without it.
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def like_input(tokens, form):
    """Give tokens the form in which a transformer's input came.

    Parameters
    ----------
    tokens : Tokens
        What a transformer made of its input.

    form : Form
        The form of the input, as :func:`skattn._input.read_input` tells it.

    Returns
    -------
    output : Tokens, list of ndarray or ndarray
        For a `Tokens`, `tokens` itself, with its positions and queries. For a list, one
        array of shape (n_positions_i, n_features) a sample. For an array or a table, an
        array of shape (n_samples, n_positions, n_features). Absent tokens are rows of
        NaN.
    """
    if form.container == "tokens":
        return tokens
    return TokenInput(tokens, form).per_token(tokens.values, fill=np.nan)
