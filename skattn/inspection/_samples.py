"""Samples whose tokens are changed, in the form in which they came.

An estimator takes the changed samples as it took those they were made of: with the
names of its features, and every token at its position.
"""

from typing import NamedTuple

import numpy as np
from sklearn.utils._set_output import ADAPTERS_MANAGER

from skattn._output import like_input
from skattn.tokens import Tokens
from skattn.tokens._reading import (
    SAMPLE_LIST,
    TABLE,
    Form,
    is_dataframe,
    recognise,
    sequence_tokens,
)
from skattn.tokens._selection import owners


class Samples(NamedTuple):
    """Sequences, and the form in which they came.

    `first` is the first sample as given, whose names of features others get.
    """

    tokens: Tokens
    form: Form
    first: object

    @classmethod
    def read(cls, X):
        """Read sequences in any form."""
        form = recognise(X)
        return cls(sequence_tokens(X, form), form, X[0])

    def take(self, samples):
        """Return some of the samples, by an array of integers."""
        return self._replace(tokens=self.tokens[samples])

    def with_values(self, values):
        """Return the samples with other features of each token."""
        return self._in_form(self.tokens.with_values(values))

    def without(self, deleted):
        """Return the samples without some tokens; the others keep their positions.

        Parameters
        ----------
        deleted : bool ndarray of shape (n_tokens,)
            Which tokens to leave out; one of each sample at least stays.
        """
        tokens = self.tokens
        lengths = np.bincount(owners(tokens)[~deleted], minlength=len(tokens))
        return self._in_form(
            Tokens(
                tokens.values[~deleted],
                np.concatenate([[0], np.cumsum(lengths)]),
                tokens.positions[~deleted],
                tokens.query,
                n_positions=tokens.n_positions,
            )
        )

    def _in_form(self, tokens):
        X = like_input(tokens, self.form)
        if self.form == SAMPLE_LIST and is_dataframe(self.first):
            return [_like_dataframe(sample, self.first) for sample in X]
        return X


def is_table(X):
    """Whether X is a table, in which each column is a token."""
    return recognise(X) == TABLE


def _like_dataframe(array, frame):
    library = type(frame).__module__.split(".")[0]
    adapter = ADAPTERS_MANAGER.adapters.get(library)
    if adapter is None:
        return array
    return adapter.create_container(array, array, columns=list(frame.columns))
