"""The alternation of :class:`skattn.TokenSVM`: choose tokens, separate them, refit."""

from typing import NamedTuple

import numpy as np

from skattn.margin import MarginProblem, MarginSolution


class Round(NamedTuple):
    """One choice of tokens and what was fitted to it."""

    rows: np.ndarray
    problem: MarginProblem
    solution: MarginSolution
    coef: np.ndarray
    intercept: np.ndarray
    loss: float


class Rounds(NamedTuple):
    """How an alternation ended.

    `outcome` is "converged", "cycle", "max_iter", "infeasible" (a later choice had no
    hard margin) or "stopped" (by a callback).
    """

    first: Round
    best: Round
    losses: list
    outcome: str


class InfeasibleMargin(Exception):
    """The first choice of tokens has no hard margin."""


def run_rounds(first_rows, separate, fit_head, choose, *, max_iter, on_round=None):
    """Alternate between the choice of tokens and the fit to it.

    Parameters
    ----------
    first_rows : ndarray of shape (n_samples,)
        Row of the token that each sample starts with.

    separate : callable
        ``separate(rows, previous)`` returns the `MarginProblem` of a choice and its
        `MarginSolution`; `previous` is the `Round` before, or None.

    fit_head : callable
        ``fit_head(solution)`` returns ``(coef, intercept, loss)``.

    choose : callable or None
        ``choose(coef)`` returns the rows that a head prefers; None keeps the first
        choice, which makes one round.

    max_iter : int
        Largest number of rounds.

    on_round : callable, default=None
        ``on_round(round)`` is called after each; True stops.

    Returns
    -------
    rounds : Rounds
        The round to keep, the training loss of each, and how it ended. A cycle, or too
        many rounds, keeps the round of the lowest loss.
    """
    rounds = []

    def ended(kept, outcome):
        return Rounds(rounds[0], kept, [each.loss for each in rounds], outcome)

    rows = first_rows
    for _ in range(max_iter):
        problem, solution = separate(rows, rounds[-1] if rounds else None)
        if solution.status == "infeasible":
            if not rounds:
                raise InfeasibleMargin
            return ended(rounds[-1], "infeasible")
        rounds.append(Round(rows, problem, solution, *fit_head(solution)))
        if on_round is not None and on_round(rounds[-1]):
            return ended(rounds[-1], "stopped")
        if choose is None:
            return ended(rounds[-1], "converged")
        rows = choose(rounds[-1].coef)
        if np.array_equal(rows, rounds[-1].rows):
            return ended(rounds[-1], "converged")
        if any(np.array_equal(rows, each.rows) for each in rounds):
            return ended(min(rounds, key=lambda each: each.loss), "cycle")
    return ended(min(rounds, key=lambda each: each.loss), "max_iter")
