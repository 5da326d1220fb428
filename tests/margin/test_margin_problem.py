"""The layout of constraints, their operators, merging, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

from skattn.margin import MarginProblem, solve
from skattn.margin._merging import group_by_hash, hash_rows


class Container:
    def __init__(self, values, offsets):
        self.values = values
        self.offsets = offsets


def ragged_samples(rng, lengths, n_features):
    return [rng.standard_normal((length, n_features)) for length in lengths]


def test_layout_of_ragged_samples():
    rng = np.random.default_rng(0)
    samples = ragged_samples(rng, [3, 1, 2], 4)
    problem = MarginProblem(samples, [1, 0, 1])
    assert problem.n_tokens == 6
    np.testing.assert_array_equal(problem.samples, [0, 0, 2])
    np.testing.assert_array_equal(problem.rows, [0, 2, 4])
    expected = [
        samples[0][1] - samples[0][0],
        samples[0][1] - samples[0][2],
        samples[2][1] - samples[2][0],
    ]
    np.testing.assert_array_equal(problem.differences, expected)


def test_input_forms_agree():
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((5, 3, 4))
    selected = rng.integers(0, 3, 5)
    objects = np.empty(5, dtype=object)
    objects[:] = list(tokens)
    forms = [
        tokens,
        list(tokens),
        objects,
        Container(tokens.reshape(-1, 4), np.arange(6) * 3),
        Container(sparse.csr_array(tokens.reshape(-1, 4)), np.arange(6) * 3),
    ]
    dense = MarginProblem(forms[0], selected).differences
    for form in forms[1:]:
        differences = MarginProblem(form, selected).differences
        if sparse.issparse(differences):
            differences = differences.toarray()
        np.testing.assert_array_equal(differences, dense)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_operators_match_the_full_matrix(is_sparse):
    rng = np.random.default_rng(2)
    values = rng.standard_normal((12, 5)) * (rng.random((12, 5)) < 0.5)
    queries = rng.standard_normal((4, 3))
    selected = np.array([0, 2, 1, 1])
    tokens = Container(
        sparse.csr_array(values) if is_sparse else values, np.arange(5) * 3
    )
    problem = MarginProblem(tokens, selected, queries)
    matrix = []
    for sample in range(4):
        own = values[3 * sample : 3 * sample + 3]
        for token in range(3):
            if token != selected[sample]:
                dx = own[selected[sample]] - own[token]
                matrix.append(np.outer(dx, queries[sample]).ravel())
    matrix = np.array(matrix)
    coef, dual = rng.standard_normal((5, 3)), rng.random(8)
    np.testing.assert_allclose(problem.margins(coef), matrix @ coef.ravel())
    np.testing.assert_allclose(problem.adjoint(dual).ravel(), matrix.T @ dual)
    np.testing.assert_allclose(
        problem.constraints.row_norms(), np.linalg.norm(matrix, axis=1)
    )


def test_tokens_equal_to_the_selected_one_are_dropped():
    samples = [[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [[2.0, 2.0], [2.0, 2.0]]]
    problem = MarginProblem(samples, [0, 0])
    np.testing.assert_array_equal(problem.rows, [2])


def test_samples_of_zero_cost_are_left_out():
    samples = [[[1.0], [0.0]], [[0.0], [1.0]]]
    problem = MarginProblem(samples, [0, 0], C=[1.0, 0.0])
    np.testing.assert_array_equal(problem.samples, [0])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_merging_adds_the_cost_of_identical_rows(is_sparse):
    rng = np.random.default_rng(3)
    distinct = rng.standard_normal((4, 3, 5)).round(1)
    distinct[0, 0, 0], distinct[0, 1, 0] = 0.0, -0.0
    chosen = np.array([0, 1, 2, 3, 0, 0, 2])
    tokens, queries = distinct[chosen], rng.standard_normal((4, 2))[chosen]
    values = tokens.reshape(-1, 5)
    container = Container(
        sparse.csr_array(values) if is_sparse else values, np.arange(8) * 3
    )
    C = rng.random(7) + 0.5
    problem = MarginProblem(container, np.zeros(7, dtype=int), queries, C)
    merged = problem.merged
    assert merged.size == 8
    np.testing.assert_allclose(merged.C.sum(), problem.constraints.C.sum())
    groups = np.bincount(chosen, weights=C)
    np.testing.assert_allclose(np.sort(merged.C), np.sort(np.repeat(groups, 2)))

    coef = rng.standard_normal((5, 2))
    full = np.maximum(1 - problem.margins(coef), 0) @ problem.constraints.C
    np.testing.assert_allclose(np.maximum(1 - merged.margins(coef), 0) @ merged.C, full)

    dual = rng.random(8) * merged.C
    split = problem.split_dual(dual)
    np.testing.assert_allclose(problem.merge_dual(split), dual)
    assert np.all(split[problem.rows] <= problem.constraints.C + 1e-15)
    np.testing.assert_allclose(
        problem.adjoint(split[problem.rows]), merged.adjoint(dual), atol=1e-14
    )


def test_merged_hard_rows_take_the_dual_of_soft_ones():
    sample = [[1.0], [0.0]]
    problem = MarginProblem([sample] * 3, [0, 0, 0], C=[np.inf, 2.0, np.inf])
    assert np.isinf(problem.merged.C).all()
    np.testing.assert_allclose(
        problem.split_dual(np.array([3.0])), [0, 1.5, 0, 0, 0, 1.5]
    )


def test_merged_problem_ignores_the_order_of_samples_and_tokens():
    rng = np.random.default_rng(4)
    tokens, queries = rng.standard_normal((6, 4, 3)), rng.standard_normal((6, 2))
    samples = rng.permutation(6)
    shuffled = tokens[samples][:, [2, 0, 3, 1]]
    one = MarginProblem(tokens, np.zeros(6, dtype=int), queries).merged
    other = MarginProblem(shuffled, np.ones(6, dtype=int), queries[samples]).merged
    np.testing.assert_array_equal(one.differences, other.differences)
    np.testing.assert_array_equal(
        one.queries[one.query_index], other.queries[other.query_index]
    )


@pytest.mark.parametrize("norm", ["fro", "nuc", 1.5])
def test_weights_and_repetitions_are_one_problem(norm):
    rng = np.random.default_rng(5)
    tokens, queries = rng.standard_normal((8, 4, 3)), rng.standard_normal((8, 2))
    selected, counts = rng.integers(0, 4, 8), rng.integers(0, 4, 8)
    weighted = MarginProblem(tokens, selected, queries, 0.3 * counts, norm)
    index = np.repeat(np.arange(8), counts)[::-1]
    repeated = MarginProblem(tokens[index], selected[index], queries[index], 0.3, norm)
    one, other = solve(weighted, tol=1e-9), solve(repeated, tol=1e-9)
    np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.objective, other.objective, rtol=1e-12)


def test_ten_copies_of_each_distractor_change_nothing():
    rng = np.random.default_rng(6)
    tokens = rng.standard_normal((10, 3, 4))
    copies = np.concatenate([tokens[:, :1], np.repeat(tokens[:, 1:], 10, axis=1)], 1)
    selected = np.zeros(10, dtype=int)
    one = solve(MarginProblem(tokens, selected, C=0.5))
    other = solve(MarginProblem(copies, selected, C=0.05))
    np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-10)


@pytest.mark.parametrize("is_merged_before", [True, False])
@pytest.mark.parametrize("C", [0.5, np.inf, "weights", "with zeros"])
def test_another_cost_is_the_same_as_a_new_problem(C, is_merged_before):
    rng = np.random.default_rng(7)
    tokens = rng.standard_normal((8, 4, 3)).round(1)[[0, 1, 2, 3, 4, 5, 0, 1]]
    queries = rng.standard_normal((8, 2))[[0, 1, 2, 3, 4, 5, 0, 1]]
    selected = np.zeros(8, dtype=int)
    if C == "weights":
        C = rng.random(8) + 0.1
    elif C == "with zeros":
        C = np.arange(8) % 3.0
    problem = MarginProblem(tokens, selected, queries, 1.0)
    if is_merged_before:
        assert problem.merged.size == 18
        assert problem.constraints.size == 24
    changed, fresh = problem.with_C(C), MarginProblem(tokens, selected, queries, C)
    for one, other in (
        (changed.merged, fresh.merged),
        (changed.constraints, fresh.constraints),
    ):
        np.testing.assert_array_equal(one.differences, other.differences)
        np.testing.assert_array_equal(one.C, other.C)
    np.testing.assert_array_equal(changed.rows, fresh.rows)
    np.testing.assert_array_equal(problem.constraints.C, 1.0)
    dual = rng.random(changed.merged.size)
    np.testing.assert_allclose(changed.split_dual(dual), fresh.split_dual(dual))
    with pytest.raises(ValueError, match="C must be above 0"):
        problem.with_C(0.0)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("has_query", [False, True])
@pytest.mark.parametrize("is_merged_before", [True, False])
def test_another_selection_is_the_same_as_a_new_problem(
    is_sparse, has_query, is_merged_before
):
    rng = np.random.default_rng(10)
    chosen = np.array([0, 1, 2, 3, 4, 5, 0, 1])
    lengths = np.array([4, 3, 5, 1, 4, 4, 4, 3])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # Short numbers: some tokens of a sample are equal, and some rows agree.
    samples = [rng.integers(-1, 2, (length, 3)).astype(float) for length in lengths[:6]]
    values = np.concatenate([samples[index] for index in chosen])
    if is_sparse:
        values = sparse.csr_array(values)
    tokens = Container(values, offsets)
    queries = rng.standard_normal((6, 2))[chosen] if has_query else None
    C = np.array([0.5, 1.0, 2.0, 1.0, 0.0, 1.0, 0.25, 3.0])
    selected = rng.integers(0, lengths)
    problem = MarginProblem(tokens, selected, queries, C)
    if is_merged_before:
        assert problem.merged.size < problem.constraints.size
    for seed in range(5):
        rng = np.random.default_rng(seed)
        selected = np.where(rng.random(8) < 0.5, rng.integers(0, lengths), selected)
        problem = problem.with_selected(selected)
        fresh = MarginProblem(tokens, selected, queries, C)
        np.testing.assert_array_equal(problem.rows, fresh.rows)
        np.testing.assert_array_equal(problem.samples, fresh.samples)
        for one, other in (
            (problem.merged, fresh.merged),
            (problem.constraints, fresh.constraints),
        ):
            left, right = one.differences, other.differences
            if is_sparse:
                left, right = left.toarray(), right.toarray()
            np.testing.assert_array_equal(left, right)
            np.testing.assert_array_equal(one.query_index, other.query_index)
            np.testing.assert_array_equal(one.C, other.C)
        dual = rng.random(fresh.merged.size)
        np.testing.assert_array_equal(problem.split_dual(dual), fresh.split_dual(dual))
        # Another cost leaves other samples out, of which nothing is known yet.
        costs = rng.integers(0, 2, 8) + 1.0 * (seed == 0)
        changed = problem.with_C(costs).with_selected(selected).merged
        expected = MarginProblem(tokens, selected, queries, costs).merged
        np.testing.assert_array_equal(changed.C, expected.C)
        np.testing.assert_array_equal(changed.query_index, expected.query_index)


def test_another_selection_hashes_what_has_changed_only(monkeypatch):
    from skattn.margin import problem as problem_module

    rng = np.random.default_rng(11)
    problem = MarginProblem(
        rng.standard_normal((9, 4, 3)), np.zeros(9, int), rng.standard_normal((9, 2))
    )
    assert problem.merged.size == 27
    hashed = []

    def hash_rows_and_count(rows):
        hashed.append(rows.shape[0])
        return hash_rows(rows)

    monkeypatch.setattr(problem_module, "hash_rows", hash_rows_and_count)
    other = problem.with_selected([0, 0, 1, 0, 0, 2, 0, 0, 0])
    assert other.merged.size == 27
    assert sum(hashed) == 6
    with pytest.raises(ValueError, match=r"selected\[1\] is 4, but sample 1 has 4"):
        problem.with_selected([0, 4, 0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("values", [[0.0, 1.0], [-1.0, 1.0, 0.5], [0.0, 2.0**40]])
def test_hashes_tell_short_numbers_apart(values):
    # Small integers have most of their bits 0, where a poor hash finds nothing.
    rng = np.random.default_rng(8)
    rows = np.unique(rng.choice(values, (3000, 30)), axis=0)
    assert np.unique(hash_rows(rows)).size == len(rows)
    np.testing.assert_array_equal(hash_rows(sparse.csr_array(rows)), hash_rows(rows))


def test_rows_that_share_a_hash_are_told_apart():
    rows = np.array([[1.0], [2.0], [1.0], [1.0]])
    representatives, groups = group_by_hash(
        np.zeros(4, dtype=np.uint64),
        lambda left, right: rows[left, 0] != rows[right, 0],
    )
    for row, group in enumerate(groups):
        assert rows[representatives[group]] == rows[row]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_operators_of_large_problems_work_in_chunks(monkeypatch, is_sparse):
    from skattn.margin import _constraints
    from skattn.margin import problem as problem_module

    rng = np.random.default_rng(9)
    values = rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.7)
    tokens = Container(
        sparse.csr_array(values) if is_sparse else values, np.arange(13) * 5
    )
    selected, queries = rng.integers(0, 5, 12), rng.standard_normal((12, 3))
    whole = MarginProblem(tokens, selected, queries)
    coef, dual = rng.standard_normal((5, 3)), rng.random(whole.merged.size)
    expected = whole.merged.margins(coef), whole.merged.adjoint(dual)
    monkeypatch.setattr(_constraints, "CHUNK", 16)
    monkeypatch.setattr(_constraints, "SMALL", 0)
    monkeypatch.setattr(problem_module, "CHUNK", 16)
    chunked = MarginProblem(tokens, selected, queries).merged
    np.testing.assert_allclose(chunked.margins(coef), expected[0], atol=1e-14)
    np.testing.assert_allclose(chunked.adjoint(dual), expected[1], atol=1e-13)
    matrix = np.einsum(
        "md,mq->mdq",
        chunked.differences.toarray() if is_sparse else chunked.differences,
        chunked.queries[chunked.query_index],
    ).reshape(chunked.size, -1)
    some = rng.permutation(chunked.size)[:7]
    np.testing.assert_allclose(
        chunked.gram(some), matrix[some] @ matrix[some].T, atol=1e-13
    )


TOKENS = np.arange(12.0).reshape(2, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"selected": [0, 3]}, ValueError, r"selected\[1\] is 3, but sample 1 has 3"),
        ({"selected": [-1, 0]}, ValueError, r"selected\[0\] is -1"),
        ({"selected": [0]}, ValueError, r"selected must have shape \(2,\)"),
        ({"selected": [0.0, 1.0]}, TypeError, "selected must hold integers"),
        ({"query": np.ones((3, 2))}, ValueError, r"query must have shape \(2, "),
        ({"query": [[1.0], [np.nan]]}, ValueError, "query of sample 1 holds NaN"),
        ({"C": 0}, ValueError, "C must be above 0"),
        ({"C": -1.0}, ValueError, "C must be above 0"),
        ({"C": np.nan}, ValueError, "C must be above 0"),
        ({"C": [1.0, -2.0]}, ValueError, r"C\[1\] must be 0 .* or above, got -2"),
        ({"C": [1.0, np.nan]}, ValueError, r"C\[1\]"),
        ({"C": [1.0]}, ValueError, r"C must be a number or have shape \(2,\)"),
        ({"norm": "l1"}, ValueError, "norm must be 'fro', 'nuc' or a number above 1"),
        ({"norm": None}, ValueError, "norm must be 'fro'"),
        ({"norm": 1.0}, ValueError, "norm must be above 1 and finite"),
        ({"norm": np.inf}, ValueError, "norm must be above 1 and finite"),
        ({"tokens": TOKENS[0]}, ValueError, "tokens must be a 3-D array"),
        ({"tokens": []}, ValueError, "at least one sample"),
        ({"tokens": [TOKENS[0], [1.0]]}, ValueError, "Sample 1 must be a 2-D array"),
        (
            {"tokens": [TOKENS[0], np.ones((2, 3))]},
            ValueError,
            "Sample 1 has 3 features a token, but sample 0 has 2",
        ),
        (
            {"tokens": [TOKENS[0], np.ones((0, 2))]},
            ValueError,
            "Sample 1 has no token",
        ),
        (
            {"tokens": [TOKENS[0], [[np.nan, 1.0]]]},
            ValueError,
            "tokens must be finite",
        ),
        (
            {"tokens": Container(np.ones((5, 2)), [0, 3, 6])},
            ValueError,
            "one row a token, 6 by its offsets",
        ),
    ],
)
def test_refused_input(arguments, error, message):
    arguments = {"tokens": TOKENS, "selected": [0, 1], **arguments}
    with pytest.raises(error, match=message):
        MarginProblem(**arguments)
