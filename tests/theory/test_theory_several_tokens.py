"""Several selected tokens a sample, and the finite component of attention weights."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skattn import Tokens
from skattn.datasets import make_attention_instances
from skattn.theory import (
    alignment,
    attention_svm,
    fit_radius,
    selected_set,
    train_attention,
)

NORMS = ["fro", "nuc", 1.5, 3.0]


def random_instance(seed, n=4, T=5, d=6, has_query=True):
    rng = np.random.default_rng(seed)
    # A prompt serves all samples: it takes n (T - 1) features to be sure.
    width = d if has_query else n * (T - 1) + 1
    X = rng.standard_normal((n, T, width))
    query = rng.standard_normal((n, d)) if has_query else None
    is_selected = np.zeros((n, T), dtype=bool)
    for sample, n_selected in zip(is_selected, rng.permutation(n), strict=True):
        sample[rng.permutation(T)[: 1 + n_selected % 3]] = True
    return X, query, is_selected, rng


def product(X, query, sample, left, right):
    z = np.ones(1) if query is None else query[sample]
    return np.outer(X[sample, left] - X[sample, right], z).ravel()


def cvxpy_norm(W, norm):
    if norm == "nuc":
        return cp.normNuc(W)
    return cp.pnorm(cp.vec(W, order="C"), 2 if norm == "fro" else norm)


def solve_with_cvxpy(objective, constraints):
    program = cp.Problem(cp.Minimize(objective), constraints)
    program.solve(solver=cp.CLARABEL)
    return program.value


def full_program(X, query, is_selected, norm, C):
    """Every pair of a selected and another token, with nothing reduced or merged."""
    W = cp.Variable((X.shape[2], 1 if query is None else query.shape[1]))
    w = cp.vec(W, order="C")
    constraints, cost = [], 0
    for sample, mask in enumerate(is_selected):
        inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
        constraints += [
            product(X, query, sample, u, v) @ w == 0 for u in inside for v in inside
        ]
        for t in outside:
            slack = cp.Variable(nonneg=True)
            cost = cost + (0 if np.isinf(C) else C * slack)
            slack = 0 if np.isinf(C) else slack
            constraints += [
                product(X, query, sample, u, t) @ w >= 1 - slack for u in inside
            ]
    size = cvxpy_norm(W, norm)
    objective = size if np.isinf(C) else 0.5 * cp.square(size) + cost
    return solve_with_cvxpy(objective, constraints)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("has_query", [True, False])
@pytest.mark.parametrize("C", [np.inf, 0.3])
def test_full_formulation_has_the_same_value(norm, has_query, C):
    X, query, is_selected, _ = random_instance(1, has_query=has_query)
    solution = attention_svm(X, is_selected, query, norm=norm, C=C, tol=1e-7)
    assert solution.status == "optimal"
    expected = full_program(X, query, is_selected, norm, C)
    np.testing.assert_allclose(solution.objective, expected, rtol=1e-6)
    np.testing.assert_allclose(solution.lower_bound, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_selected_tokens_are_level_and_ahead(norm):
    X, query, is_selected, _ = random_instance(2)
    solution = attention_svm(X, is_selected, query, norm=norm)
    scores = np.einsum("ntd,nd->nt", X, query @ solution.coef.T)
    smallest = np.inf
    for own, mask in zip(scores, is_selected, strict=True):
        np.testing.assert_allclose(own[mask], own[mask][0], atol=1e-12)
        smallest = min(smallest, own[mask].min() - own[~mask].max())
    np.testing.assert_allclose(smallest, 1, rtol=1e-12)
    np.testing.assert_allclose(solution.min_margin, 1, rtol=1e-12)


def test_frobenius_solution_is_the_sum_of_its_duals():
    X, query, is_selected, _ = random_instance(3)
    solution = attention_svm(X, is_selected, query)
    dual_coef = solution.dual_coef.reshape(is_selected.shape)
    total = np.zeros_like(solution.coef)
    for sample, mask in enumerate(is_selected):
        first = np.flatnonzero(mask)[0]
        assert dual_coef[sample, first] == 0
        for t, dual in enumerate(dual_coef[sample]):
            row = product(X, query, sample, first, t)
            total += dual * row.reshape(total.shape)
    np.testing.assert_allclose(total, solution.coef, atol=1e-12)
    assert (dual_coef[~is_selected] >= 0).all()
    assert (dual_coef[is_selected] < 0).any()


def test_slack_is_what_margins_lack():
    X, query, is_selected, _ = random_instance(4)
    solution = attention_svm(X, is_selected, query, C=0.05)
    scores = np.einsum("ntd,nd->nt", X, query @ solution.coef.T)
    lead = np.array([own[m][0] for own, m in zip(scores, is_selected, strict=True)])
    expected = np.maximum(1 - (lead[:, None] - scores), 0)
    expected[is_selected] = 0
    assert expected.any()
    slack = solution.slack.reshape(expected.shape)
    np.testing.assert_allclose(slack, expected, atol=1e-12)
    value = 0.5 * np.sum(solution.coef**2) + 0.05 * expected.sum()
    np.testing.assert_allclose(solution.objective, value)


def test_forms_of_a_selection_agree():
    X, query, is_selected, _ = random_instance(5)
    expected = attention_svm(X, is_selected, query).coef
    positions = [np.flatnonzero(mask) for mask in is_selected]
    masks = list(is_selected)
    for selected in (positions, [own.tolist() for own in positions], masks):
        np.testing.assert_array_equal(attention_svm(X, selected, query).coef, expected)
    carried = Tokens.from_padded(X).with_query(query)
    np.testing.assert_array_equal(attention_svm(carried, masks).coef, expected)
    padded = np.full((4, 7, 6), np.nan)
    padded[:, 2:] = X
    shifted = [own + 2 for own in positions]
    np.testing.assert_array_equal(attention_svm(padded, shifted, query).coef, expected)


@pytest.mark.parametrize("norm", ["fro", "nuc"])
def test_sets_of_one_are_the_plain_problem(norm):
    X, query, _, rng = random_instance(6)
    selected = rng.integers(5, size=4)
    plain = attention_svm(X, selected, query, norm=norm, tol=1e-9)
    sets = attention_svm(X, selected[:, None], query, norm=norm, tol=1e-8)
    np.testing.assert_allclose(sets.objective, plain.objective, rtol=1e-8)
    np.testing.assert_allclose(sets.coef, plain.coef, atol=1e-3)


def test_samples_that_select_all_their_tokens_only_level():
    X = np.array([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [0.0, 0.0]]])
    solution = attention_svm(X, [[0, 1], [0]])
    np.testing.assert_allclose(solution.coef, [1 / 3, 1 / 3])
    nothing_to_do = attention_svm(X, [[0, 1], [0, 1]])
    assert nothing_to_do.status == "optimal"
    np.testing.assert_array_equal(nothing_to_do.coef, 0)
    assert nothing_to_do.min_margin == np.inf


def test_samples_of_no_cost_have_no_constraint_at_all():
    X, query, is_selected, _ = random_instance(7)
    solution = attention_svm(X, is_selected, query, C=[1.0, 0.0, 1.0, 1.0])
    kept = [0, 2, 3]
    expected = attention_svm(X[kept], is_selected[kept], query[kept], C=1.0)
    np.testing.assert_allclose(solution.coef, expected.coef, atol=1e-12)


def test_copies_of_selected_tokens_are_left_out():
    X = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]])
    solution = attention_svm(X, [[0, 1]])
    np.testing.assert_allclose(solution.coef, [1, 1])
    assert solution.dual_coef[2] == 0


def test_a_token_between_selected_ones_cannot_be_left_behind():
    X = np.array([[[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]])
    solution = attention_svm(X, [[0, 1]])
    assert solution.status == "infeasible"
    assert np.isnan(solution.coef).all()
    assert solution.ray_residual < 1e-12
    np.testing.assert_allclose(np.abs(solution.ray).sum(), 1)
    # Signed at the second selected token, against the first; the last has no part.
    np.testing.assert_allclose(solution.ray, [0, -1 / 3, 2 / 3, 0], atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("has_query", [True, False])
def test_finite_component_is_the_smallest_with_these_ratios(norm, has_query):
    X, query, is_selected, rng = random_instance(8, has_query=has_query)
    weights = softmax(rng.standard_normal(is_selected.shape), axis=1)
    solution = attention_svm(
        X, is_selected, query, norm=norm, attention_weights=weights, tol=1e-7
    )
    finite = solution.finite
    assert finite.status == "optimal"
    z = np.ones((4, 1)) if query is None else query
    scores = np.einsum("ntd,nd->nt", X, z @ finite.coef.reshape(X.shape[2], -1).T)
    for own, wanted, mask in zip(scores, weights, is_selected, strict=True):
        expected = wanted[mask] / wanted[mask].sum()
        np.testing.assert_allclose(softmax(own[mask]), expected, rtol=1e-10)
    W = cp.Variable((X.shape[2], z.shape[1]))
    w = cp.vec(W, order="C")
    logs = np.log(weights)
    value = solve_with_cvxpy(
        cvxpy_norm(W, norm),
        [
            product(X, query, sample, t, u) @ w == logs[sample, t] - logs[sample, u]
            for sample, mask in enumerate(is_selected)
            for t in np.flatnonzero(mask)
            for u in np.flatnonzero(mask)[:1]
        ],
    )
    np.testing.assert_allclose(finite.objective, value, rtol=1e-6)


def test_finite_frobenius_component_is_the_pseudo_inverse():
    X, query, is_selected, rng = random_instance(9)
    weights = softmax(rng.standard_normal(is_selected.shape), axis=1)
    solution = attention_svm(X, is_selected, query, attention_weights=weights)
    rows, targets = [], []
    for sample, mask in enumerate(is_selected):
        t, u = np.meshgrid(np.flatnonzero(mask), np.flatnonzero(mask))
        for left, right in zip(t.ravel(), u.ravel(), strict=True):
            rows.append(product(X, query, sample, left, right))
            targets.append(np.log(weights[sample, left] / weights[sample, right]))
    expected = np.linalg.pinv(np.array(rows)) @ targets
    np.testing.assert_allclose(solution.finite_coef.ravel(), expected, atol=1e-12)


def test_one_selected_token_has_no_finite_component():
    X, query, _, _ = random_instance(10)
    weights = np.full((4, 5), 0.2)
    solution = attention_svm(X, [0, 1, 2, 3], query, attention_weights=weights)
    np.testing.assert_array_equal(solution.finite_coef, 0)
    assert attention_svm(X, [0, 1, 2, 3], query).finite_coef is None


@pytest.mark.parametrize("norm", ["fro", 3.0])
def test_contradictory_weights_have_no_finite_component(norm):
    X = [[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]]
    level, tilted = [[0.2, 0.4, 0.8, 0.1]], [[0.2, 0.3, 0.4, 0.1]]
    # Scores of tokens on a line are a straight line as well.
    fitting = attention_svm(X, [[0, 1, 2]], norm=norm, attention_weights=level)
    np.testing.assert_allclose(fitting.finite_coef, [np.log(2), 0], atol=1e-9)
    solution = attention_svm(X, [[0, 1, 2]], norm=norm, attention_weights=tilted)
    assert solution.finite.status == "infeasible"
    assert np.isnan(solution.finite_coef).all()
    with pytest.raises(ValueError, match="finite_coef is not finite"):
        fit_radius([1.0, 0.0], solution)


def test_fitted_radius_is_least_squares():
    X, query, is_selected, rng = random_instance(11)
    solution = attention_svm(
        X,
        is_selected,
        query,
        attention_weights=softmax(rng.standard_normal(is_selected.shape), axis=1),
    )
    coef = solution.finite_coef + 40 * solution.coef + rng.standard_normal((6, 6))
    fit = fit_radius(coef, solution)
    design = solution.coef.reshape(-1, 1)
    target = (coef - solution.finite_coef).ravel()
    np.testing.assert_allclose(fit.radius, np.linalg.lstsq(design, target)[0][0])
    fitted = solution.finite_coef + fit.radius * solution.coef
    np.testing.assert_allclose(fit.coef, fitted)
    assert fit.alignment == alignment(coef, fitted)
    # Without weights the direction alone is fitted.
    direction = attention_svm(X, is_selected, query)
    only = fit_radius(coef, direction)
    assert only.alignment == pytest.approx(alignment(coef, direction.coef))
    # What the two make up together is fitted without a rest.
    exact = fit_radius(solution.finite_coef + 3 * solution.coef, solution)
    np.testing.assert_allclose([exact.radius, exact.alignment], [3, 1])


@pytest.mark.parametrize(
    ("coef", "message"),
    [
        (np.ones(2), r"coef must have shape \(6, 6\)"),
        (np.zeros((6, 6)), "coef must be finite and not zero"),
        (np.full((6, 6), np.nan), "coef must be finite and not zero"),
    ],
)
def test_refused_weights_to_fit(coef, message):
    X, query, is_selected, _ = random_instance(12)
    with pytest.raises(ValueError, match=message):
        fit_radius(coef, attention_svm(X, is_selected, query))
    with pytest.raises(ValueError, match="is zero: it has no direction"):
        fit_radius(np.ones((6, 6)), attention_svm(X, np.ones((4, 5), bool), query))


@pytest.mark.slow
def test_training_goes_to_the_finite_component_and_the_direction():
    # A head that is not linear makes attention keep several tokens. The runs are
    # those that the paper keeps for figure 8: no weight is on its way.
    instances = make_attention_instances(500, 3, 4, 4, random_state=0)
    head = np.random.default_rng(0).standard_normal((500, 4, 20))
    head /= np.linalg.norm(head, axis=(1, 2), keepdims=True)
    trained = train_attention(
        instances.X,
        instances.y,
        head,
        instances.query,
        head_activation="relu",
        max_iter=2000,
        record=2000,
        random_state=0,
    )
    weights = trained.attention_weights
    is_kept = ((instances.y == -1).any(axis=1)) & (weights <= 1e-6).any(axis=(1, 2))
    is_kept &= ~((weights > 1e-6) & (weights <= 1e-3)).any(axis=(1, 2))
    kept = np.flatnonzero(is_kept)
    assert kept.size >= 4
    selected = selected_set(weights[kept])
    solutions = attention_svm(
        instances.X[kept],
        selected,
        instances.query[kept],
        attention_weights=weights[kept],
    )
    with_finite, alone = [], []
    for coef, own, solution in zip(
        trained.attention_coef[kept], selected, solutions, strict=True
    ):
        if (own.sum(axis=1) > 1).any() and solution.coef.any():
            with_finite.append(1 - fit_radius(coef, solution).alignment)
            alone.append(1 - alignment(coef, solution.coef))
    assert np.mean(with_finite) < 5e-3
    assert np.mean(alone) > 10 * np.mean(with_finite)


def test_batches_are_their_problems_one_by_one():
    rng = np.random.default_rng(13)
    X, query = rng.standard_normal((5, 3, 4, 6)), rng.standard_normal((5, 3, 6))
    weights = rng.dirichlet(np.full(4, 0.5), size=(5, 3))
    selected = selected_set(weights, 0.1)
    C, margin = np.array([1.0, np.inf, 2.0]), rng.integers(1, 3, (5, 3))
    batch = attention_svm(
        X, selected, query, C=C, margin=margin, attention_weights=weights + 1e-9
    )
    for index, solution in enumerate(batch):
        alone = attention_svm(
            X[index],
            selected[index],
            query[index],
            C=C,
            margin=margin[index],
            attention_weights=weights[index] + 1e-9,
        )
        np.testing.assert_array_equal(solution.coef, alone.coef)
        np.testing.assert_array_equal(solution.finite_coef, alone.finite_coef)


def test_batches_may_mix_sets_and_single_tokens():
    rng = np.random.default_rng(14)
    X, query = rng.standard_normal((3, 2, 4, 6)), rng.standard_normal((3, 2, 6))
    selections = [[0, 1], [[0, 2], [1]], [3, 3]]
    for own, selected, z, solution in zip(
        X, selections, query, attention_svm(X, selections, query), strict=True
    ):
        alone = attention_svm(own, selected, z)
        np.testing.assert_allclose(solution.coef, alone.coef, atol=1e-4)


def test_unreached_gap_warns_once_with_the_largest():
    X, query, is_selected, _ = random_instance(15)
    with pytest.warns(ConvergenceWarning, match="relative duality gap of") as caught:
        attention_svm(X, is_selected, query, norm="nuc", tol=1e-300)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ([[0], [1]], "for each of the 4 samples; got 2"),
        (None, "for each of the 4 samples; got None"),
        ([[0], [], [1], [2]], r"selected\[1\] is empty"),
        ([[0], [1.5], [1], [2]], r"selected\[1\] must be integers"),
        ([[0], [[1]], [1], [2]], r"selected\[1\] must be integers"),
        ([[0], [-1], [1], [2]], r"selected\[1\] holds -1, but sample 1 has no"),
        ([[0], [0, 5], [1], [2]], r"selected\[1\] holds 5, but sample 1 has no"),
        (np.ones((4, 6), bool), r"selected\[0\] must be positions, or a mask over"),
        (np.ones(4, bool), r"selected\[0\] must be positions, or a mask over the 5"),
        (np.zeros((4, 5), bool), r"selected\[0\] is empty"),
    ],
)
def test_refused_selections(selected, message):
    X, query, _, _ = random_instance(16)
    with pytest.raises(ValueError, match=message):
        attention_svm(X, selected, query)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full((3, 5), 0.2), "one row for each of the 4 samples; got 3"),
        (1.0, "one row for each of the 4 samples; got 1.0"),
        (np.full((4, 6), 0.2), r"attention_weights\[0\] must have shape \(5,\)"),
        (np.zeros((4, 5)), "got 0.0 at position 0 of sample 0; leave that token"),
        (np.full((4, 5), np.nan), "got nan at position 0 of sample 0"),
    ],
)
def test_refused_weights(weights, message):
    X, query, _, _ = random_instance(17)
    with pytest.raises(ValueError, match=message):
        attention_svm(X, [[0, 1]] * 4, query, attention_weights=weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"selected": [[[0]] * 3, [[0], [9], [1]]]}, "In problem 1 of the batch: sel"),
        ({"selected": [[[0]] * 3]}, r"selected must have shape \(2, 3\)"),
        ({"selected": 0}, r"selected must have shape \(2, 3\), .*; got shape \(\)"),
        ({"margin": [[1, 1, 1], [1, -1, 1]]}, "In problem 1 of the batch: margin"),
        ({"margin": [1, 1]}, r"margin must be a number or have shape \(3,\)"),
        ({"attention_weights": [[[0.5, 0.5]] * 3]}, "each of the 2 problems in the b"),
        (
            {"attention_weights": [[[0.5, 0.5]] * 3, [[0.5, 0.5]] * 2]},
            "In problem 1 of the batch: attention_weights",
        ),
    ],
)
def test_errors_in_a_batch_name_the_problem(arguments, message):
    X = np.random.default_rng(18).standard_normal((2, 3, 2, 4))
    valid = {"selected": [[[0]] * 3] * 2}
    with pytest.raises(ValueError, match=message):
        attention_svm(X, **{**valid, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"solver": "dual_cd"}, "several selected tokens or margins other than 1"),
        ({"solver": "least_distance", "C": 1.0}, "hard margins in the Frobenius norm"),
        ({"solver": "least_distance", "norm": 3.0}, "hard margins in the Frobenius"),
        ({"solver": "interior_point", "norm": 3.0}, "solves norms 'fro' and 'nuc'"),
        ({"norm": "l1"}, "norm must be 'fro', 'nuc' or a number"),
        ({"tol": 0}, "tol must be above 0"),
        ({"C": -1.0}, "C must be above 0"),
    ],
)
def test_refused_parameters(arguments, message):
    X, query, is_selected, _ = random_instance(19)
    with pytest.raises(ValueError, match=message):
        attention_svm(X, is_selected, query, **arguments)
