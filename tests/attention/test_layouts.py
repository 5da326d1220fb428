"""What the layouts of tokens keep when samples are chosen."""

import numpy as np
import pytest
import torch

from skattn.attention import RaggedTokens
from skattn.attention.layouts import TableTokens


def test_positions_follow_the_tokens():
    tokens = RaggedTokens.from_arrays(np.eye(4), [0, 3, 4], [0, 2, 5, 1])
    other = tokens.with_values(tokens.values * 2).take(torch.tensor([1, 0]))
    assert other.positions.tolist() == [1, 0, 2, 5]
    assert other.values[0].tolist() == [0.0, 0.0, 0.0, 2.0]
    without = RaggedTokens.from_arrays(np.eye(4), [0, 3, 4])
    assert without.positions.tolist() == [0, 1, 2, 0]
    table = TableTokens.from_array(np.ones((2, 3)))
    assert table.positions.tolist() == [0, 1, 2, 0, 1, 2]


def test_positions_that_are_not_one_a_token_are_refused():
    with pytest.raises(ValueError, match="positions must have shape"):
        RaggedTokens.from_arrays(np.eye(2), [0, 2], [0])
