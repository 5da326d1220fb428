"""One large problem: its time, its gap and its memory."""

from typing import NamedTuple

import numpy as np

from margin_support import instances
from margin_support.checking import gap_of
from margin_support.measuring import median_time, peak_memory, use_clock
from skattn.margin import MarginProblem, solve


class Large(NamedTuple):
    """A problem by name of its generator in `instances` and its sizes."""

    kind: str
    n_samples: int
    n_tokens: int
    n_features: int
    norm: object = "fro"
    C: float = np.inf
    tol: float = 1e-4
    repeats: int = 1
    target: float | None = None


class Outcome(NamedTuple):
    """What came of it; `memory` is the peak in units of the tokens themselves."""

    n_constraints: int
    solver: str
    status: str
    seconds: float
    gap: float
    memory: float
    share_met: float


def warm_up():
    """Compile, or load from the cache, what the solvers need."""
    for norm in ("fro", "nuc", 1.5):
        for kind in (instances.separable, instances.prompt):
            tokens, selected, queries = kind(3, 3, 3)
            problem = MarginProblem(tokens, selected, queries, norm=norm)
            for solver in solvers_of_ours(norm, queries is None):
                solve(problem, solver=solver)


def solvers_of_ours(norm, is_prompt=False):
    """The solvers that scale, by norm."""
    if norm == "fro" or (norm == "nuc" and is_prompt):
        return ["dual_cd"]
    return ["admm"] if norm == "nuc" else ["sqp"]


def run_large(large, clock="wall"):
    """Solve a `Large` with the solver that scales; to be called in a new process."""
    use_clock(clock)
    warm_up()
    before = peak_memory()
    make = getattr(instances, large.kind)
    tokens, selected, queries = make(large.n_samples, large.n_tokens, large.n_features)
    solver = solvers_of_ours(large.norm, queries is None)[0]

    def whole():
        problem = MarginProblem(tokens, selected, queries, C=large.C, norm=large.norm)
        return solve(problem, tol=large.tol, solver=solver)

    solution, seconds = median_time(whole, large.repeats)
    memory = (peak_memory() - before) / tokens.nbytes
    gap, _ = gap_of(
        solution.coef,
        solution.dual_coef,
        tokens,
        selected,
        queries,
        large.C,
        large.norm,
    )
    slack = solution.slack.reshape(large.n_samples, large.n_tokens)
    return Outcome(
        large.n_samples * (large.n_tokens - 1),
        solution.solver,
        solution.status,
        seconds,
        gap,
        memory,
        float(np.mean(slack.max(axis=1) < 1e-3)),
    )
