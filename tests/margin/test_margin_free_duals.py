"""Newton steps on free duals against the optimum of the same quadratic program."""

import numpy as np
import pytest
from scipy.optimize import minimize

from skattn.margin import MarginProblem
from skattn.margin._free_duals import improve_free_duals


def random_problem(seed, C, n=8, T=4, d=6, d_q=3):
    rng = np.random.default_rng(seed)
    tokens, queries = rng.standard_normal((n, T, d)), rng.standard_normal((n, d_q))
    return MarginProblem(tokens, rng.integers(0, T, n), queries, C), rng


def value(constraints, dual):
    return dual.sum() - 0.5 * np.sum(constraints.adjoint(dual) ** 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_reaches_the_optimum_over_the_free_duals(seed, C):
    problem, rng = random_problem(seed, C)
    constraints = problem.merged
    dual = C * rng.random(constraints.size)
    dual[::3], dual[1::3] = 0.0, C
    free = (dual > 0) & (dual < C)
    start = dual.copy()
    improve_free_duals(constraints, dual)
    np.testing.assert_array_equal(dual[~free], start[~free])
    assert np.all((dual >= 0) & (dual <= C))

    def negative_value(values):
        candidate = start.copy()
        candidate[free] = values
        slope = 1 - constraints.margins(constraints.adjoint(candidate))
        return -value(constraints, candidate), -slope[free]

    reference = minimize(
        negative_value,
        start[free],
        jac=True,
        bounds=[(0, C)] * int(free.sum()),
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(value(constraints, dual), -reference.fun, rtol=1e-9)


def test_margins_of_what_stays_free_become_one():
    problem, rng = random_problem(5, np.inf, n=3, d=20)
    constraints = problem.merged
    dual = 1e-3 * (1 + rng.random(constraints.size))
    improve_free_duals(constraints, dual)
    stays_free = dual > 0
    assert stays_free.any()
    margins = constraints.margins(constraints.adjoint(dual))
    np.testing.assert_allclose(margins[stays_free], 1, rtol=1e-9)


def test_more_free_duals_than_dimensions_still_improve():
    problem, _ = random_problem(6, 1.0, n=50, d=2, d_q=2)
    constraints = problem.merged
    dual = np.full(constraints.size, 0.5)
    before = value(constraints, dual)
    improve_free_duals(constraints, dual)
    assert value(constraints, dual) > before


def test_nothing_free_is_left_alone():
    problem, _ = random_problem(7, 1.0)
    for level in (0.0, 1.0):
        dual = np.full(problem.merged.size, level)
        improve_free_duals(problem.merged, dual)
        np.testing.assert_array_equal(dual, level)
