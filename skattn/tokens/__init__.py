"""Tokens, the one container of ragged sequences, and the reader of every input form.

Nothing here knows an estimator: :mod:`skattn.estimators` reads its input through
:func:`check_tokens` and hands the arrays of the container to solvers and trainers.
"""

from skattn.tokens._container import Tokens
from skattn.tokens._reading import check_tokens

__all__ = ["Tokens", "check_tokens"]
