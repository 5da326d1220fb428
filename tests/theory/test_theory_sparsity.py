"""Sparsity of attention: MATH.md's numbers, and every report from its definition."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skattn.mappings import softmax, sparsemax
from skattn.theory import attention_sparsity


def gaussian_rows(sigma, n_rows, n_tokens, seed=0):
    rng = np.random.default_rng(seed)
    return softmax(sigma * rng.normal(size=(n_rows, n_tokens)))


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [(1, (0.58, 0.81, 0.95)), (2, (0.26, 0.46, 0.75)), (3, (0.10, 0.18, 0.38))],
)
def test_the_square_root_of_n_is_not_enough(sigma, expected):
    # MATH.md, section 4: tails at k = sqrt(n) for n = 64, 1024, 65536.
    for n_tokens, n_rows, tail in zip(
        (64, 1024, 65536), (2000, 300, 10), expected, strict=True
    ):
        p = gaussian_rows(sigma, n_rows, n_tokens)
        sparsity = attention_sparsity(p, power=0.5)
        assert (sparsity.n_kept == round(n_tokens**0.5)).all()
        assert sparsity.tail_mass.mean() == pytest.approx(tail, abs=0.02)


@pytest.mark.parametrize(("sigma", "share"), [(1, 0.610), (2, 0.238), (3, 0.045)])
def test_the_share_that_is_needed(sigma, share):
    sparsity = attention_sparsity(gaussian_rows(sigma, 30, 16384), eps=0.1)
    assert sparsity.n_needed.mean() / 16384 == pytest.approx(share, abs=0.005)


def test_all_reports_of_a_row_by_hand():
    sparsity = attention_sparsity([[0.04, 0.7, 0.06, 0.2]], eps=0.1)
    assert sparsity.n_tokens == 4
    assert sparsity.n_small == 2
    assert sparsity.n_needed == sparsity.n_kept == 2
    assert_allclose(sparsity.tail_mass, 0.1)
    assert_allclose(sparsity.total_variation, 0.1)
    assert sparsity.output_error is None
    assert np.isnan(sparsity.power_law.exponent)


@pytest.mark.parametrize("options", [{"eps": 0.2}, {"power": (1.5, 0.4)}])
def test_reports_equal_their_definitions(options):
    rng = np.random.default_rng(0)
    p, values = gaussian_rows(1, 50, 30), rng.normal(size=(50, 30, 4))
    sparsity = attention_sparsity(p, values=values, **options)
    for row, (weights, vectors) in enumerate(zip(p, values, strict=True)):
        largest = np.argsort(weights)[::-1][: sparsity.n_kept[row]]
        kept = np.zeros(30)
        kept[largest] = weights[largest] / weights[largest].sum()
        assert_allclose(sparsity.tail_mass[row], 1 - weights[largest].sum())
        assert_allclose(sparsity.total_variation[row], np.abs(weights - kept).sum() / 2)
        assert_allclose(
            sparsity.output_error[row], np.linalg.norm((weights - kept) @ vectors)
        )
        assert_allclose(
            sparsity.value_distance[row] * sparsity.tail_mass[row],
            sparsity.output_error[row],
        )
        if "eps" in options:
            tail = np.sort(weights)[: 30 - sparsity.n_needed[row] + 1].sum()
            assert sparsity.tail_mass[row] <= 0.2 < tail
            assert sparsity.n_small[row] == np.sum(weights <= 0.2)
        else:
            assert sparsity.n_kept[row] == np.ceil(1.5 * 30**0.4)


def test_small_tails_keep_their_digits():
    p = softmax([[0.0, -50.0, -60.0], [0.0, -700.0, -720.0]])
    values = np.array([[[0.0], [1.0], [2.0]]] * 2)
    sparsity = attention_sparsity(p, power=0.0, values=values)
    assert_allclose(sparsity.tail_mass[0], np.exp(-50) + np.exp(-60), rtol=1e-14)
    assert_allclose(sparsity.output_error[0], np.exp(-50) + 2 * np.exp(-60), rtol=1e-14)
    assert_allclose(sparsity.value_distance[1], 1 + np.exp(-20.0), rtol=1e-12)


def test_an_empty_tail_has_no_error():
    p = sparsemax([[3.0, 0.0, 0.0], [0.5, 0.0, -5.0]])
    values = np.random.default_rng(0).normal(size=(2, 3, 2))
    sparsity = attention_sparsity(p, eps=0.0, values=values)
    assert_array_equal(sparsity.n_needed, [1, 2])
    assert_array_equal(sparsity.n_small, [2, 1])
    assert_array_equal(sparsity.tail_mass, [0, 0])
    assert_array_equal(sparsity.output_error, [0, 0])


@pytest.mark.parametrize("n", [3, 7, 10, 49])
def test_a_tail_of_exactly_the_weight_allowed_is_left_out(n):
    uniform = np.full((1, n), 1 / n)
    for k in range(1, n):
        assert attention_sparsity(uniform, eps=k / n).n_needed == n - k
        assert attention_sparsity(uniform, mass=1 - k / n).n_needed == n - k
    assert attention_sparsity(uniform, mass=1.0).n_needed == n
    assert attention_sparsity(uniform, power=1.0).n_kept == n


def test_the_power_law_is_found():
    # Rows of equal weights need a share of n tokens: C = 1, a = 1 - eps.
    rows = [np.full(n, 1 / n) for n in (10, 100, 1000, 10_000)]
    law = attention_sparsity(rows, eps=0.1).power_law
    assert law.exponent == pytest.approx(1.0)
    assert law.scale == pytest.approx(0.9)
    assert law.exponent_std_error == pytest.approx(0, abs=1e-6)
    # Rows whose weight lies on sqrt(n) tokens: C = 1/2.
    rows = [np.repeat([1 / m, 0.0], [m, m * m - m]) for m in (2, 5, 20, 90)]
    law = attention_sparsity(rows, eps=1e-6).power_law
    assert law.exponent == pytest.approx(0.5)
    assert law.scale == pytest.approx(1.0)


def test_the_standard_error_is_that_of_a_regression():
    rng = np.random.default_rng(0)
    rows = [softmax(2 * rng.normal(size=n)) for n in rng.integers(5, 300, size=60)]
    sparsity = attention_sparsity(rows, eps=0.1)
    x, y = np.log(sparsity.n_tokens), np.log(sparsity.n_needed)
    (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
    law = sparsity.power_law
    assert law.exponent == pytest.approx(slope)
    assert law.scale == pytest.approx(np.exp(intercept))
    assert law.exponent_std_error == pytest.approx(np.sqrt(covariance[0, 0]))
    assert np.isnan(attention_sparsity(rows[:2]).power_law.exponent_std_error)


def same(left, right, rows=slice(None)):
    for name in ("n_tokens", "n_small", "n_needed", "n_kept"):
        assert_array_equal(getattr(left, name), getattr(right, name)[rows])
    assert_allclose(left.tail_mass, right.tail_mass[rows], rtol=1e-12)
    if left.output_error is not None:
        assert_allclose(left.output_error, right.output_error[rows], rtol=1e-12)


def test_all_forms_of_ragged_rows_agree():
    rng = np.random.default_rng(0)
    lengths = [4, 9, 6, 9, 1]
    ragged = [softmax(rng.normal(size=(2, n))) for n in lengths]
    vectors = [rng.normal(size=(n, 3)) for n in lengths]
    expected = attention_sparsity(ragged, eps=0.2, values=vectors)
    assert expected.n_tokens.shape == expected.output_error.shape == (5, 2)
    padded, V = np.zeros((5, 2, 12)), np.full((5, 12, 3), np.nan)
    mask = np.zeros((5, 12), dtype=bool)
    for sample, (p, v) in enumerate(zip(ragged, vectors, strict=True)):
        places = np.sort(rng.choice(12, size=len(v), replace=False))
        padded[sample][:, places], V[sample, places] = p, v
        mask[sample, places] = True
    same(attention_sparsity(padded, eps=0.2, values=V, mask=mask), expected)
    both = np.broadcast_to(mask[:, None], padded.shape)
    same(attention_sparsity(padded, eps=0.2, values=V, mask=both), expected)
    with_nan = np.where(both, padded, np.nan)
    same(attention_sparsity(with_nan, eps=0.2, values=V), expected)
    own = np.stack([V, V], axis=1)
    same(attention_sparsity(with_nan, eps=0.2, values=own), expected)
    objects = np.array([*ragged, None], dtype=object)[:-1]
    same(attention_sparsity(objects, eps=0.2, values=vectors), expected)
    first = attention_sparsity([p[0] for p in ragged], eps=0.2, values=vectors)
    same(first, expected, (slice(None), 0))
    for sample, p in enumerate(ragged):
        alone = attention_sparsity([p], eps=0.2, values=[vectors[sample]])
        same(alone, expected, slice(sample, sample + 1))


def test_what_an_estimator_gives_can_be_measured():
    from skattn import TokenSVM
    from skattn.datasets import make_token_selection

    X, y, _ = make_token_selection(n_samples=30, random_state=0)
    model = TokenSVM(mapping="softmax").fit(X, y)
    from_array = attention_sparsity(model.attention_weights(X), values=X)
    from_list = attention_sparsity(model.attention_weights(list(X)), values=list(X))
    same(from_array, from_list)
    assert from_array.n_tokens.shape == (30,)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision(dtype):
    p = gaussian_rows(1, 20, 500)
    low = attention_sparsity(p.astype(dtype), eps=0.1)
    assert_allclose(low.n_needed, attention_sparsity(p, eps=0.1).n_needed, atol=1)


def test_frames():
    p = gaussian_rows(1, 12, 5).reshape(4, 3, 5)
    sparsity = attention_sparsity(p, values=np.ones((4, 5, 2)))
    frame = sparsity.to_frame()
    assert list(frame.index.names) == ["sample", "head"]
    assert frame.loc[(2, 1), "tail_mass"] == sparsity.tail_mass[2, 1]
    assert_array_equal(frame["output_error"].unstack(), sparsity.output_error)
    plain = attention_sparsity(p[:, 0]).to_frame()
    assert isinstance(plain, pd.DataFrame)
    assert "output_error" not in plain
    assert plain.index.name == "sample"
    deep = attention_sparsity(p[None]).to_frame()
    assert deep.index.names == ["axis_0", "axis_1", "axis_2"]
    assert len(deep) == 12


P = [[0.5, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [0.5, 0.5]}, "weights"),
        ({"weights": np.array([0.5, 0.5])}, r"For one row pass `\[weights\]`"),
        ({"weights": []}, "at least one sample"),
        ({"weights": np.zeros((0, 3))}, "at least one row"),
        ({"weights": np.zeros((3, 0))}, "at least one row"),
        ({"weights": [[]]}, "at least one"),
        ({"weights": [[0.5, 0.4]]}, "a row of sample 0 sums to 0.9"),
        ({"weights": [[1.0], [0.5, 0.2]]}, "a row of sample 1 sums to 0.7"),
        ({"weights": np.full((2, 2), np.nan)}, "sample 0 sums to 0"),
        ({"weights": [[1.5, -0.5]]}, "not negative, but those of sample 0"),
        ({"weights": [[np.inf, 0.0]]}, "must be finite"),
        ({"weights": [np.ones((2, 1)), np.ones((1, 1))]}, "equally many heads"),
        ({"weights": [["a", "b"]]}, "not numbers"),
        ({"eps": -0.1}, "eps must be"),
        ({"eps": 1}, "eps must be"),
        ({"eps": None}, "eps must be"),
        ({"eps": np.nan}, "eps must be"),
        ({"mass": 0}, "mass must be"),
        ({"mass": 1.1}, "mass must be"),
        ({"power": -1}, "power must have"),
        ({"power": 2}, "power must have"),
        ({"power": (0, 0.5)}, "power must have"),
        ({"power": (1, 0.5, 2)}, "power must be"),
        ({"power": "half"}, "power must be"),
        ({"mask": [[True, True], [True, True]]}, "mask is for arrays"),
        ({"weights": np.array(P), "mask": np.ones((2, 2))}, "boolean array of shape"),
        ({"weights": np.array(P), "mask": np.ones(2, bool)}, "boolean array of shape"),
        (
            {"weights": np.array(P), "mask": np.array([[True, False]] * 2)},
            "sample 0 as absent that has weight",
        ),
        ({"values": 3}, "values has no samples"),
        ({"values": [np.ones((2, 3))]}, "values has 1 samples"),
        ({"values": [np.ones((2, 3)), np.ones((2, 4))]}, "values must give"),
        ({"values": [np.ones((3, 3)), np.ones((3, 3))]}, "values must have shape"),
        ({"values": [np.ones(2), np.ones(2)]}, "values must have shape"),
        ({"values": [np.full((2, 2), np.nan)] * 2}, "values contains NaN"),
        ({"weights": np.array(P), "values": np.ones((2, 3, 1))}, "values must have"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_sparsity(**({"weights": P} | arguments))
