"""The alternation of `TokenSVM`, on choices that are written down."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from skattn import TokenSVM
from skattn.datasets import make_token_selection
from skattn.estimators._rounds import InfeasibleMargin, run_rounds
from skattn.margin import MarginProblem

FEASIBLE = SimpleNamespace(status="optimal")
INFEASIBLE = SimpleNamespace(status="infeasible")


def run(choices, losses, *, solutions=None, max_iter=10, **options):
    """Alternate through rows [choice] with these losses."""
    solutions = iter(solutions or [FEASIBLE] * len(losses))
    following = iter(choices[1:])
    losses = iter(losses)
    previous = []

    def separate(rows, before):
        previous.append(None if before is None else before.solution)
        return rows, next(solutions)

    def fit_head(solution):
        return np.zeros(1), np.zeros(1), next(losses)

    def choose(coef):
        return np.array([next(following)])

    rounds = run_rounds(
        np.array([choices[0]]), separate, fit_head, choose, max_iter=max_iter, **options
    )
    return rounds, previous


def test_a_selection_that_repeats_itself_has_settled():
    rounds, previous = run([1, 2, 2], [0.3, 0.5])
    assert rounds.outcome == "converged"
    # The last one is kept although its loss is higher: it is the fixed point.
    assert rounds.best.rows == [2]
    assert rounds.losses == [0.3, 0.5]
    assert previous == [None, FEASIBLE]


def test_a_cycle_keeps_the_lowest_loss():
    rounds, _ = run([1, 2, 3, 1], [0.3, 0.2, 0.5])
    assert rounds.outcome == "cycle"
    assert rounds.best.rows == [2]


def test_too_many_rounds_keep_the_lowest_loss():
    rounds, _ = run([1, 2, 3, 4], [0.3, 0.1, 0.5], max_iter=3)
    assert rounds.outcome == "max_iter"
    assert rounds.best.rows == [2]
    assert len(rounds.losses) == 3


def test_a_later_choice_without_margin_keeps_the_one_before():
    rounds, _ = run([1, 2, 3], [0.3, 0.4], solutions=[FEASIBLE, FEASIBLE, INFEASIBLE])
    assert rounds.outcome == "infeasible"
    assert rounds.best.rows == [2]


def test_a_first_choice_without_margin_raises():
    with pytest.raises(InfeasibleMargin):
        run([1], [], solutions=[INFEASIBLE])


def test_a_callback_stops_at_the_round_it_saw():
    seen = []

    def stop(round_):
        seen.append(round_.loss)
        return len(seen) == 2

    rounds, _ = run([1, 2, 3], [0.3, 0.9, 0.1], on_round=stop)
    assert rounds.outcome == "stopped"
    assert rounds.best.rows == [2]
    assert seen == [0.3, 0.9]


def test_a_fixed_choice_makes_one_round():
    rounds = run_rounds(
        np.array([4]),
        lambda rows, previous: (rows, FEASIBLE),
        lambda solution: (np.zeros(1), np.zeros(1), 0.2),
        None,
        max_iter=10,
    )
    assert rounds.outcome == "converged"
    assert rounds.losses == [0.2]


@pytest.mark.parametrize("query", ["prompt", "mean"])
def test_rounds_on_a_rebuilt_problem_are_those_on_fresh_ones(monkeypatch, query):
    X, y, _ = make_token_selection(n_samples=60, random_state=0)
    model = TokenSVM(C=0.05, query=query, max_iter=4)
    rebuilt = clone(model).fit(X, y)
    built = []

    def build_anew(problem, selected):
        tokens = SimpleNamespace(values=problem._values, offsets=problem._offsets)
        built.append(selected)
        return MarginProblem(
            tokens, selected, problem._query, problem._penalties, model.norm
        )

    monkeypatch.setattr(MarginProblem, "with_selected", build_anew)
    fresh = clone(model).fit(X, y)
    assert len(built) == fresh.n_iter_ - 1 > 0
    np.testing.assert_array_equal(rebuilt.attention_coef_, fresh.attention_coef_)
    np.testing.assert_array_equal(rebuilt.dual_coef_, fresh.dual_coef_)
    np.testing.assert_array_equal(rebuilt.selected_, fresh.selected_)
