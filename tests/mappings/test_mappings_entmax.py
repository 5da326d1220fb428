"""Entmax of any order, against its definition, closed forms and its limits."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from skattn.mappings import entmax, entmax15, softmax, sparsemax

ORDERS = (1.0, 1.0 + 1e-14, 1.0 + 1e-8, 1.01, 1.25, 1.5, 1.9, 2.0, 2.5, 3.0, 10.0, 50.0)
on_every_order = pytest.mark.parametrize("alpha", ORDERS)
OFFSETS = np.array([0, 1, 4, 9, 20])


def random_scores(*shape, seed=0, spread=1.0):
    return spread * np.random.RandomState(seed).randn(*shape)


def assert_is_optimal(weights, scores, alpha, atol):
    """Check the conditions of optimality, which have one solution.

    ``p ** (alpha - 1) - (alpha - 1) z`` is the same for all tokens of positive weight,
    and not smaller for the others.
    """
    rate = alpha - 1
    assert_allclose(weights.sum(), 1, atol=1e-14)
    assert (weights >= 0).all()
    # From the best score, so that large scores lose no digits.
    level = weights**rate - rate * (scores - scores.max())
    top = level[np.argmax(scores)]
    assert_allclose(level[weights > 0], top, atol=atol)
    assert (level[weights == 0] >= top - atol).all()


@pytest.mark.parametrize("alpha", ORDERS[3:])
@pytest.mark.parametrize("spread", [1e-8, 0.01, 1.0, 100.0, 1e8])
def test_meets_the_conditions_of_optimality(alpha, spread):
    for n_tokens in (1, 2, 5, 40):
        scores = random_scores(n_tokens, seed=n_tokens, spread=spread)
        assert_is_optimal(entmax(scores, alpha=alpha), scores, alpha, atol=2e-14)


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0, 3.0])
def test_maximises_its_definition(alpha):
    scores = np.array([0.3, -0.2, 0.9, 0.5, -2.0])
    p = cp.Variable(len(scores), nonneg=True)
    powers = cp.sum(cp.power(p, alpha, approx=False))
    value = p @ scores + (cp.sum(p) - powers) / (alpha * (alpha - 1))
    problem = cp.Problem(cp.Maximize(value), [cp.sum(p) == 1])
    problem.solve(solver="CLARABEL")
    # The objective is flat at its top: its value says more than the weights.
    weights = entmax(scores, alpha=alpha)
    assert_allclose(weights, p.value, atol=1e-4)
    p.value = weights
    assert value.value >= problem.value - 1e-9


@pytest.mark.parametrize("gap", [0.0, 1e-9, 0.1, 0.3, 0.5 - 1e-9, 0.5, 2.0])
def test_closed_form_of_two_tokens(gap):
    # Order 3: p1 ** 2 - p2 ** 2 = 2 gap and p1 + p2 = 1 give p1 - p2 = 2 gap.
    second = max(0.5 - gap, 0.0)
    assert_allclose(entmax([gap, 0.0], alpha=3), [1 - second, second], atol=2e-16)


@pytest.mark.parametrize("alpha", [5.0, 50.0, 500.0])
@pytest.mark.parametrize("weight", [0.0, 1e-12, 0.01, 0.2, 0.5])
def test_small_weights_of_high_orders_keep_their_digits(alpha, weight):
    rate = alpha - 1
    gap = ((1 - weight) ** rate - weight**rate) / rate
    assert_allclose(entmax([gap, 0.0], alpha=alpha)[1], weight, rtol=1e-12, atol=2e-16)


@pytest.mark.parametrize(
    ("alpha", "mapping"), [(1, softmax), (1.5, entmax15), (2, sparsemax)]
)
def test_usual_orders(alpha, mapping):
    scores = random_scores(20, 2)
    assert_array_equal(entmax(scores, OFFSETS, alpha=alpha), mapping(scores, OFFSETS))
    # An array of orders takes the general solver.
    general = entmax(scores, OFFSETS, alpha=np.full(2, alpha))
    assert_allclose(general, mapping(scores, OFFSETS), atol=1e-15)


@pytest.mark.parametrize(("alpha", "mapping"), [(1, softmax), (2, sparsemax)])
def test_limits(alpha, mapping):
    scores = random_scores(20)
    limit = mapping(scores, OFFSETS)
    for distance in (1e-3, 1e-6, 1e-9):
        for order in {alpha + distance, max(alpha - distance, 1)}:
            near = entmax(scores, OFFSETS, alpha=order)
            assert_allclose(near, limit, atol=distance)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 1.8, 2.0, 2.5, 3.0, 10.0])
def test_one_hot_exactly_from_the_margin_on(alpha):
    others = -np.random.RandomState(0).uniform(0, 3, size=8)

    def one_hot(gap):
        return np.count_nonzero(entmax(np.r_[gap, 0.0, others], alpha=alpha)) == 1

    assert one_hot((1 + 1e-8) / (alpha - 1))
    assert not one_hot((1 - 1e-6) / (alpha - 1))


@on_every_order
@pytest.mark.parametrize("n_tokens", [1, 2, 7, 1000])
def test_ties_share_equally(alpha, n_tokens):
    weights = entmax(np.full(n_tokens, 1e6), alpha=alpha)
    assert_allclose(weights, 1 / n_tokens, rtol=1e-13)
    behind = entmax(np.r_[np.full(n_tokens, 3.0), -1e300, -np.inf], alpha=alpha)
    assert_allclose(behind, np.r_[weights, 0, 0], rtol=1e-13)


@on_every_order
def test_ties_at_the_edge_of_the_support(alpha):
    scores = np.array([0.2, 0.0, 0.0, 0.2, 0.0, -0.1])
    weights = entmax(scores, alpha=alpha)
    assert weights[0] == weights[3]
    assert weights[1] == weights[2] == weights[4]


@on_every_order
def test_shifts_and_absent_tokens_have_no_say(alpha):
    scores = np.array([0.25, -np.inf, 0.125, -np.inf, 0.0])
    weights = entmax(scores, alpha=alpha)
    assert_array_equal(weights[[1, 3]], 0)
    assert_array_equal(weights[[0, 2, 4]], entmax(scores[[0, 2, 4]], alpha=alpha))
    assert_array_equal(entmax(scores + 1024.0, alpha=alpha), weights)


@on_every_order
def test_rows_equal_segments_equal_tensors(alpha):
    rows = random_scores(4, 3, 6)
    rows[1, 2, 3] = -np.inf
    weights = entmax(rows, alpha=alpha)
    assert weights.shape == rows.shape
    ends = 6 * np.arange(13)
    assert_array_equal(entmax(rows.ravel(), ends, alpha=alpha), weights.ravel())
    assert_allclose(entmax(torch.tensor(rows), alpha=alpha), weights, atol=2e-15)
    for index in np.ndindex(4, 3):
        assert_allclose(weights[index], entmax(rows[index], alpha=alpha), atol=1e-15)


def test_an_order_a_head():
    scores = random_scores(20, 4)
    orders = [1.0, 1.3, 2.0, 4.0]
    together = entmax(scores, OFFSETS, alpha=orders)
    for head, alpha in enumerate(orders):
        alone = entmax(scores[:, head], OFFSETS, alpha=alpha)
        assert_allclose(together[:, head], alone, atol=1e-15)
    tensors = torch.tensor(scores)
    for alpha in (orders, torch.tensor(orders)):
        assert_allclose(entmax(tensors, OFFSETS, alpha=alpha), together, atol=1e-7)


@on_every_order
def test_a_sample_has_the_same_weights_in_every_batch(alpha):
    scores = random_scores(20, 2)
    together = entmax(scores, OFFSETS, alpha=alpha)
    for start, stop in itertools.pairwise(OFFSETS):
        alone = entmax(scores[start:stop], [0, stop - start], alpha=alpha)
        assert_allclose(together[start:stop], alone, atol=1e-15)


@on_every_order
def test_float32(alpha):
    scores = random_scores(20, spread=0.3)
    single = entmax(scores.astype(np.float32), OFFSETS, alpha=alpha)
    assert single.dtype == np.float32
    # Of high orders, small weights tell less about the scores than scores of weights.
    atol = 3e-6 if alpha <= 3 else 1e-3
    assert_allclose(single, entmax(scores, OFFSETS, alpha=alpha), atol=atol)
    assert entmax([1, 2], alpha=alpha).dtype == np.float64


@pytest.mark.parametrize("alpha", [1.3, 3.0, 50.0])
def test_many_tokens(alpha):
    scores = random_scores(20000, spread=3.0)
    assert_is_optimal(entmax(scores, alpha=alpha), scores, alpha, atol=1e-13)
    assert_allclose(entmax(scores, alpha=alpha).sum(), 1, atol=1e-13)


@pytest.mark.parametrize("alpha", [1.0, 1.2, 1.7, 2.0, 2.3])
def test_gradients(alpha):
    scores = torch.tensor(random_scores(20, 3), requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda scores: entmax(scores, OFFSETS, alpha=alpha), scores
    )
    if alpha == 1.0:
        return
    order = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda scores, order: entmax(scores, OFFSETS, alpha=order), (scores, order)
    )
    orders = torch.tensor([alpha, 1.5, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda scores, orders: entmax(scores, OFFSETS, alpha=orders), (scores, orders)
    )


def slope_in_alpha(scores, upstream, alpha):
    order = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    weights = entmax(torch.tensor(scores), OFFSETS, alpha=order)
    (weights * torch.tensor(upstream)).sum().backward()
    return order.grad.item()


@pytest.mark.parametrize("alpha", [1.0, 1 + 1e-12, 1 + 1e-6, 1.001, 1.1])
def test_slope_in_alpha_near_softmax(alpha):
    scores, upstream = random_scores(20), random_scores(20, seed=1)
    # The case alpha = 1 of Proposition 2, by softmax itself.
    weights = softmax(scores, OFFSETS)
    logarithms = np.log(weights)
    expected = 0.0
    for start, stop in itertools.pairwise(OFFSETS):
        p, log_p = weights[start:stop], logarithms[start:stop]
        slopes = (p * (p @ log_p**2) - p * log_p**2) / 2
        expected += slopes @ upstream[start:stop]
    at_one = slope_in_alpha(scores, upstream, 1.0)
    assert_allclose(at_one, expected, rtol=1e-12)
    slope = slope_in_alpha(scores, upstream, alpha)
    assert_allclose(slope, expected, atol=10 * (alpha - 1) + 1e-12)
    h = 1e-4

    def value(order):
        return entmax(scores, OFFSETS, alpha=order) @ upstream

    one_sided = (4 * value(alpha + h) - value(alpha + 2 * h) - 3 * value(alpha)) / 2 / h
    assert_allclose(slope, one_sided, atol=1e-7)


def test_gradients_with_absent_tokens():
    present = torch.tensor(random_scores(3), requires_grad=True)
    padded = torch.full((5,), -torch.inf, dtype=torch.float64)
    padded[[0, 2, 3]] = present.detach()
    padded.requires_grad_()
    upstream = torch.tensor([1.0, 5.0, -1.0, 2.0, 7.0])
    for alpha in (1.2, 3.0):
        order = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
        slopes = torch.autograd.grad(
            entmax(padded, alpha=order), (padded, order), upstream.double()
        )
        expected = torch.autograd.grad(
            entmax(present, alpha=order),
            (present, order),
            upstream[[0, 2, 3]].double(),
        )
        assert_allclose(slopes[0][[0, 2, 3]], expected[0], atol=1e-15)
        assert_allclose(slopes[1], expected[1], atol=1e-15)
        assert_array_equal(slopes[0][[1, 4]], 0)


@pytest.mark.parametrize("weight", [1e-3, 1e-9, 1e-13])
def test_gradients_are_finite_where_small_weights_are_steep(weight):
    alpha = 50.0
    gap = ((1 - weight) ** 49 - weight**49) / 49
    scores = torch.tensor([gap, 0.0], dtype=torch.float64, requires_grad=True)
    order = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    second = entmax(scores, alpha=order)[1]
    slopes, slope = torch.autograd.grad(second, (scores, order))
    # From (1 - p) ** 49 - p ** 49 = 49 gap.
    rise = 1 / ((1 - weight) ** 48 + weight**48)
    assert_allclose(slopes, [-rise, rise], rtol=1e-6)
    by_order = (1 - weight) ** 49 * np.log1p(-weight) - gap
    assert_allclose(slope, by_order * rise / 49, rtol=1e-6)


@pytest.mark.parametrize(
    ("alpha", "error", "message"),
    [
        (0.5, ValueError, "alpha == 0.5, must be >= 1"),
        (np.inf, ValueError, "must be >= 1 and finite"),
        (np.nan, ValueError, "must be >= 1 and finite"),
        ([1.5, 0.0], ValueError, r"alpha == 0.0, must be >= 1"),
        ([1.5, 1.2, 2.0], ValueError, r"shape \(3,\), scores of shape \(20, 2\)"),
        ("learned", TypeError, "made of numbers"),
        (None, TypeError, "made of numbers"),
        (True, TypeError, "made of numbers"),
        (torch.tensor(1.5), TypeError, "must not be a tensor"),
    ],
)
def test_bad_orders(alpha, error, message):
    with pytest.raises(error, match=message):
        entmax(np.zeros((20, 2)), OFFSETS, alpha=alpha)


def test_an_order_a_head_needs_heads():
    with pytest.raises(ValueError, match="no offsets"):
        entmax(np.zeros((20, 2)), alpha=[1.5, 2.0])
    with pytest.raises(ValueError, match=r"scores of shape \(20,\)"):
        entmax(np.zeros(20), OFFSETS, alpha=[1.5])


@pytest.mark.parametrize("alpha", [1.0, 1.3, 3.0])
@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_bad_scores(alpha, kind):
    for scores, message in (
        ([[0.0, 1.0], [-np.inf, -np.inf]], "sample 1 has no valid token"),
        ([0.0, np.nan], "NaN"),
        ([0.0, np.inf], "infinity"),
        (np.empty((2, 0)).tolist(), "at least one token"),
        (1.0, "at least one token"),
    ):
        with pytest.raises(ValueError, match=message):
            entmax(kind(scores), alpha=alpha)
    assert entmax(kind(np.empty((0, 3))), alpha=alpha).shape == (0, 3)
