"""Positions, as users name tokens, against rows of the container."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skattn import Tokens
from skattn.tokens._selection import rows_at_positions
from skattn.tokens._table import TableTokens

TOKENS = Tokens(np.zeros((6, 1)), [0, 1, 4, 6], positions=[2, 0, 1, 5, 0, 1])


def test_finds_the_token_at_a_position():
    assert_array_equal(rows_at_positions(TOKENS, [2, 5, 0]), [0, 3, 4])
    assert_array_equal(rows_at_positions(TableTokens(np.ones((2, 3))), [2, 0]), [2, 3])


@pytest.mark.parametrize("position", [2, 3, 6, -1])
def test_names_the_sample_without_a_token_there(position):
    message = rf"selected\[1\] is {position}, but sample 1 has no token at that"
    with pytest.raises(ValueError, match=message):
        rows_at_positions(TOKENS, [2, position, 0], name="selected")


@pytest.mark.parametrize("positions", [[2, 5], [2.0, 5.0, 0.0], [[2], [5], [0]], 2])
def test_refuses_other_than_one_integer_a_sample(positions):
    with pytest.raises(ValueError, match="array of 3 integers"):
        rows_at_positions(TOKENS, positions)
