"""Samples that ask for margins of their own, or for none."""

import cvxpy as cp
import numpy as np
import pytest

from skattn.theory import attention_svm

#: The joint case: chosen tokens and the signs of their labels, others at the origin.
CHOSEN = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 1.0]])
SIGNS = np.array([1.0, -1.0, 1.0])


def random_instance(seed, n=5, T=4, d=5, has_query=True):
    rng = np.random.default_rng(seed)
    width = d if has_query else n * (T - 1) + 1
    X = rng.standard_normal((n, T, width))
    query = rng.standard_normal((n, d)) if has_query else None
    return X, rng.integers(T, size=n), query, rng.permutation([0, 0, 1, 1, 2.5])


def full_program(X, selected, query, margin, norm):
    z = np.ones((len(X), 1)) if query is None else query
    W = cp.Variable((X.shape[2], z.shape[1]))
    constraints = [
        (X[i, selected[i]] - X[i, t]) @ W @ z[i] >= margin[i]
        for i in range(len(X))
        for t in range(X.shape[1])
        if t != selected[i]
    ]
    size = cp.normNuc(W)
    if norm != "nuc":
        size = cp.pnorm(cp.vec(W, order="C"), 2 if norm == "fro" else norm)
    program = cp.Problem(cp.Minimize(size), constraints)
    program.solve(solver=cp.CLARABEL)
    return program.value


def test_the_joint_case():
    # Prompt and head each of their own max-margin problem: the head separates the
    # chosen tokens, which is a margin of y x over the origin.
    origin = np.zeros((3, 1, 2))
    X = np.concatenate([CHOSEN[:, None], origin], axis=1)
    head = attention_svm(
        np.concatenate([(SIGNS[:, None] * CHOSEN)[:, None], origin], axis=1), [0, 0, 0]
    )
    np.testing.assert_allclose(head.coef, [0, 1], atol=1e-9)
    for margin in (1.0, [1.0, 1.0, 1.0]):
        prompt = attention_svm(X, [0, 0, 0], margin=margin)
        np.testing.assert_allclose(prompt.coef, [4 / 3, 1 / 3], atol=1e-9)
    # The third is on the margin of the head without supporting it: relaxed, the prompt
    # has only the first two to serve.
    relaxed = attention_svm(X, [0, 0, 0], margin=[1, 1, 0])
    np.testing.assert_allclose(relaxed.coef, [1, 0], atol=1e-12)
    assert relaxed.objective < prompt.objective


@pytest.mark.parametrize("norm", ["fro", "nuc", 1.5, 3.0])
@pytest.mark.parametrize("has_query", [True, False])
def test_full_formulation_has_the_same_value(norm, has_query):
    for seed in (0, 1):
        X, selected, query, margin = random_instance(seed, has_query=has_query)
        solution = attention_svm(X, selected, query, norm=norm, margin=margin, tol=1e-7)
        assert solution.status == "optimal"
        expected = full_program(X, selected, query, margin, norm)
        np.testing.assert_allclose(solution.objective, expected, rtol=1e-6)
        np.testing.assert_allclose(solution.lower_bound, expected, rtol=1e-6)


def test_relaxed_samples_are_not_behind():
    n_binding = 0
    for seed in range(5):
        X, selected, query, margin = random_instance(seed)
        solution = attention_svm(X, selected, query, margin=margin)
        scores = np.einsum("ntd,nd->nt", X, query @ solution.coef.T)
        lead = scores[np.arange(5), selected][:, None] - scores
        lead[np.arange(5), selected] = np.inf
        assert (lead.min(axis=1) >= margin - 1e-12).all()
        n_binding += np.sum(lead.min(axis=1) < 1e-12)
        ratios = (lead.min(axis=1) / np.where(margin > 0, margin, np.nan))[margin > 0]
        np.testing.assert_allclose(ratios.min(), 1)
        np.testing.assert_allclose(solution.min_margin, 1)
    # Leaving such samples out would be another problem.
    assert n_binding >= 2


def test_common_margin_scales_the_solution():
    X, selected, query, _ = random_instance(2)
    for norm in ("fro", "nuc", 3.0):
        plain = attention_svm(X, selected, query, norm=norm, tol=1e-9)
        scaled = attention_svm(X, selected, query, norm=norm, margin=4.0, tol=1e-8)
        np.testing.assert_allclose(scaled.objective, 4 * plain.objective, rtol=1e-7)


def test_soft_margins_lack_what_is_asked_for():
    # One feature: minimise w^2 / 2 + C max(2 - w, 0).
    for C, expected in ((0.5, 0.5), (5.0, 2.0)):
        solution = attention_svm([[[1.0], [0.0]]], [0], margin=2.0, C=C)
        np.testing.assert_allclose(solution.coef, [expected], atol=1e-6)
        np.testing.assert_allclose(solution.slack, [0, 2 - expected], atol=1e-6)


@pytest.mark.parametrize("norm", ["fro", 1.5, 3.0])
def test_opposed_relaxed_samples_fix_a_direction(norm):
    # Margins of 0 for and against the second feature leave no interior.
    X = [
        [[1.0, 1.0], [0.0, 0.0]],
        [[0.0, 1.0], [0.0, 0.0]],
        [[0.0, -1.0], [0.0, 0.0]],
    ]
    solution = attention_svm(X, [0, 0, 0], norm=norm, margin=[1, 0, 0])
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.coef, [1, 0], atol=1e-9)


def test_relaxed_samples_can_make_it_infeasible():
    X = [[[1.0], [0.0]], [[-1.0], [0.0]]]
    solution = attention_svm(X, [0, 0], margin=[1, 0])
    assert solution.status == "infeasible"
    np.testing.assert_allclose(solution.ray, [0, 0.5, 0, 0.5])
    assert solution.ray_residual < 1e-12
    assert attention_svm(X, [0, 0], margin=[1, 0], C=1.0).status == "optimal"


def test_no_margin_left_to_meet_gives_zero():
    # The sample that asks for a margin has one token.
    solution = attention_svm([[[1.0]], [[1.0], [0.0]]], [0, 0], margin=[1, 0])
    assert solution.status == "optimal"
    np.testing.assert_array_equal(solution.coef, 0)
    assert solution.objective == 0


@pytest.mark.parametrize(
    ("margin", "message"),
    [
        (-1.0, "margin must be at least 0 and finite, got -1.0 for sample 0"),
        ([1, np.nan, 0, 1, 1], "got nan for sample 1"),
        ([1, np.inf, 0, 1, 1], "got inf for sample 1"),
        (0.0, "margin is 0 for every sample"),
        ([1, 1], r"margin must be a number or have shape \(5,\)"),
        ("a", "margin must be a number, or one a sample"),
    ],
)
def test_refused_margins(margin, message):
    X, selected, query, _ = random_instance(3)
    with pytest.raises(ValueError, match=message):
        attention_svm(X, selected, query, margin=margin)
