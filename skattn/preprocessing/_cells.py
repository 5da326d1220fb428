"""The cells of a table, as tokens of one feature each and as a table again."""

from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.metaestimators import available_if

from skattn.tokens import Tokens


def single_feature_tokens(read):
    """Return the tokens of an input; those of a table are its bare cells.

    Parameters
    ----------
    read : TokenInput
        Any input.

    Returns
    -------
    tokens : Tokens
        The tokens of sequences as they are. For a table of shape (n_samples, n_columns)
        samples of `n_columns` tokens, each the value of one cell.
    """
    if read.form.kind == "sequences":
        return read.tokens
    table = read.tokens
    return Tokens._from_parts(
        table.cells.reshape(-1, 1),
        table.offsets,
        table.positions,
        table.query,
        table.n_positions,
    )


class SameColumnsMixin(OneToOneFeatureMixin):
    """Mixin of transformers that give a table back with the columns it came with."""

    @available_if(lambda transformer: transformer._keeps_table())
    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns, which stay the same.

        Only where a table gives a table: tokens have no columns to name.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; by default those of the training table.

        Returns
        -------
        names : ndarray of shape (n_features_in_,), dtype object
            The names.
        """
        return super().get_feature_names_out(input_features)

    def _keeps_table(self):
        """Whether the output is a table, or could still be one before `fit`."""
        return getattr(self, "input_kind_", "table") == "table"
