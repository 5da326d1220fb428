"""The random instances of the theory, against their definition."""

import numpy as np
import pytest

from skattn.datasets import make_attention_instances


def test_tokens_queries_and_heads_are_uniform_on_the_sphere():
    data = make_attention_instances(400, 4, 3, 5, random_state=0)
    assert data.X.shape == (400, 4, 3, 5)
    assert data.query.shape == (400, 4, 5)
    assert data.head.shape == (400, 5)
    assert data.y.shape == (400, 4)
    for array in (data.X, data.query, data.head):
        np.testing.assert_allclose(np.linalg.norm(array, axis=-1), 1)
        rows = array.reshape(-1, 5)
        # A uniform direction has mean 0 and covariance 1/5.
        spread = 4 / np.sqrt(len(rows))
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=spread)
        np.testing.assert_allclose(
            rows.T @ rows / len(rows), np.eye(5) / 5, atol=spread
        )
    np.testing.assert_array_equal(np.unique(data.y), [-1, 1])
    assert abs(data.y.mean()) < 4 / np.sqrt(data.y.size)


@pytest.mark.parametrize("gap", [0.1, 0.5])
def test_gap_holds_in_every_sample(gap):
    data = make_attention_instances(50, 6, 4, 5, gap=gap, random_state=1)
    values = data.y[:, :, None] * np.einsum("bntd,bd->bnt", data.X, data.head)
    values.sort(axis=2)
    assert (values[:, :, -1] - values[:, :, -2]).min() >= gap
    np.testing.assert_allclose(np.linalg.norm(data.X, axis=-1), 1)


def test_only_samples_short_of_the_gap_are_drawn_anew():
    plain = make_attention_instances(50, 6, 4, 5, random_state=2)
    wide = make_attention_instances(50, 6, 4, 5, gap=0.2, random_state=2)
    values = plain.y[:, :, None] * np.einsum("bntd,bd->bnt", plain.X, plain.head)
    values.sort(axis=2)
    is_wide = values[:, :, -1] - values[:, :, -2] >= 0.2
    assert 0.1 < is_wide.mean() < 0.9
    unchanged = (plain.X == wide.X).all(axis=(2, 3))
    np.testing.assert_array_equal(unchanged, is_wide)
    for name in ("query", "head", "y"):
        np.testing.assert_array_equal(plain[name], wide[name])


def test_one_token_has_no_second():
    data = make_attention_instances(2, 3, 1, 2, gap=0.5, random_state=0)
    assert data.X.shape == (2, 3, 1, 2)


def test_states_repeat_themselves():
    first, again, other = (
        make_attention_instances(3, gap=0.1, random_state=state) for state in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.X, again.X)
    assert not (first.X == other.X).any()


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_instances": 0}, ValueError, "n_instances == 0, must be >= 1"),
        ({"n_samples": 2.0}, TypeError, "n_samples must be an instance of"),
        ({"n_tokens": 0}, ValueError, "n_tokens == 0, must be >= 1"),
        ({"n_features": -1}, ValueError, "n_features == -1, must be >= 1"),
        ({"gap": -0.1}, ValueError, "gap == -0.1, must be >= 0"),
        ({"gap": 2.0}, ValueError, "gap == 2.0, must be < 2"),
        (
            {"n_instances": 1, "n_samples": 1, "n_features": 30, "gap": 1.9},
            ValueError,
            "gap=1.9 was not reached by 1 sample.s. in 10000 draws; lower it",
        ),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        make_attention_instances(**parameters)
