"""How fast the margin solvers are, and what they need.

    python benchmarks/margin.py [--quick] [--clock cpu] [--case speed] ...

Times include the construction of the problem. They are medians of five runs, or one
run where it takes longer than ten seconds; all sides run in this process. Every gap is
recomputed from the tokens by a function that uses nothing of skattn. Compilation is
left out of the times, and printed.
"""

import argparse
import os
import platform
import time

import numpy as np
from margin_support import baselines, instances
from margin_support.checking import gap_of, rank_of
from margin_support.large import Large, run_large, solvers_of_ours, warm_up
from margin_support.measuring import (
    CLOCKS,
    clock_in_use,
    in_new_process,
    median_time,
    use_clock,
)

from skattn.margin import MarginProblem, attention_svm_path, solve, solve_many

TOL = 1e-4

#: n, T, d, and how many times faster than the loop we mean to be (Frobenius, nuclear).
SPEED = [
    (6, 8, 10, 100, 40),
    (20, 10, 20, 500, 60),
    (50, 20, 20, 1_000, 150),
    (100, 20, 32, 10_000, 1_500),
]

SCALE = [
    Large("separable", 2_000, 50, 64, repeats=5, target=2),
    Large("random_labels", 2_000, 50, 64, C=1.0, repeats=5, target=2),
    Large("separable", 2_000, 50, 64, norm="nuc", repeats=3),
    Large("separable", 2_000, 50, 64, norm=1.5),
    Large("separable", 2_000, 50, 64, norm=3.0),
    Large("separable", 10_000, 50, 64, repeats=5, target=10),
    Large("random_labels", 10_000, 50, 64, C=1.0, repeats=3, target=10),
    Large("separable", 10_000, 50, 64, norm="nuc", repeats=3, target=60),
    Large("separable", 50_000, 50, 64, target=30),
]

PROMPT = [
    Large("prompt", 2_000, 50, 64, repeats=5),
    Large("prompt", 10_000, 50, 64, repeats=5, target=3),
    Large("prompt", 10_000, 50, 64, C=1.0, repeats=3, target=3),
]

#: What varies in the table of growth, from n=1,000, T=20, d=32.
GROWTH = {
    "n": [500, 1_000, 2_000, 4_000],
    "T": [10, 20, 40, 80],
    "d": [16, 32, 64, 128],
}


def solved(tokens, selected, queries, norm, solver, C=np.inf, tol=TOL):
    problem = MarginProblem(tokens, selected, queries, C=C, norm=norm)
    return solve(problem, tol=tol, solver=solver)


def checked(solution, tokens, selected, queries, norm, C=np.inf):
    return gap_of(solution.coef, solution.dual_coef, tokens, selected, queries, C, norm)


def speed(quick):
    """Small problems against the published loop and cvxpy."""
    for n, T, d, *targets in SPEED[:2] if quick else SPEED:
        tokens, selected, queries = instances.separable(n, T, d)
        for norm, target in zip(("fro", "nuc"), targets, strict=True):
            print(f"\nn={n}, T={T}, d={d}, {norm}: {n * (T - 1)} constraints")
            data = (tokens, selected, queries, norm)
            solver = solvers_of_ours(norm)[0]
            ours, seconds = median_time(lambda d=data, s=solver: solved(*d, s))
            gap, value = checked(ours, *data)
            lower = value * (1 - gap)
            _line(f"skattn {solver}", seconds, gap=gap, rank=rank_of(ours.coef))
            auto, auto_seconds = median_time(lambda d=data: solved(*d, "auto"))
            gap, _ = checked(auto, *data)
            _line(f"skattn auto ({auto.solver})", auto_seconds, gap=gap)
            best = np.inf
            for name in baselines.CVXPY_SOLVERS:
                coef, theirs = median_time(
                    lambda d=data, s=name: baselines.vectorised(*d, s)
                )
                if coef is None:
                    continue
                excess = _excess(coef, data, lower)
                _line(f"cvxpy {name}", theirs, seconds, excess, rank_of(coef))
                if excess < 1e-2:
                    best = min(best, theirs)
            coef, theirs = median_time(lambda d=data: baselines.python_loop(*d))
            excess = _excess(coef, data, lower)
            _line("loop of constraints", theirs, seconds, excess, rank_of(coef))
            print(
                f"  {theirs / seconds:,.0f} times the loop (target {target:,}), "
                f"{best / seconds:,.0f} times the best of cvxpy"
            )


def _excess(coef, data, lower):
    _, value = gap_of(coef, None, *data[:3], np.inf, data[3])
    return value / lower - 1


def _line(name, seconds, ours=None, excess=None, rank=None, gap=None):
    parts = [f"  {name:<28}{1e3 * seconds:>12.2f} ms"]
    if gap is not None:
        parts.append(f"gap {gap:.1e}")
    if excess is not None:
        parts.append(f"{excess:.1e} above the bound")
    if rank is not None:
        parts.append(f"rank {rank}")
    if ours is not None:
        parts.append(f"{seconds / ours:,.0f} x")
    print("   ".join(parts))


def scale(quick):
    """Up to 2.45 million constraints: time, gap and peak memory."""
    _print_large(SCALE[:3] if quick else SCALE)
    if not quick:
        _half_met()


def prompt(quick):
    """One learned vector instead of queries."""
    _print_large(PROMPT[:1] if quick else PROMPT)


def _print_large(larges):
    print(
        "\nkind            norm      C  constraints  solver   seconds (target)"
        "      gap  peak/tokens  margins met"
    )
    for large in larges:
        outcome = in_new_process(run_large, large, clock_in_use())
        target = "" if large.target is None else f"({large.target})"
        print(
            f"{large.kind:<14}{large.norm!s:>6}{large.C:>7.3g}"
            f"{outcome.n_constraints:>13,}  {outcome.solver:<8}"
            f"{outcome.seconds:>8.2f} {target:<8}{outcome.gap:>9.1e}"
            f"{outcome.memory:>13.2f}{outcome.share_met:>13.0%}"
            + ("" if outcome.status == "optimal" else f"  {outcome.status}"),
            flush=True,
        )


def _half_met(n_samples=10_000):
    """Soft nuclear norm at the C where half of the samples meet their margins."""
    low, high = 1e-2, 1e2
    for _ in range(8):
        C = float(np.sqrt(low * high))
        outcome = in_new_process(
            run_large,
            Large("separable", n_samples, 50, 64, norm="nuc", C=C, tol=1e-2),
            clock_in_use(),
        )
        if 0.45 <= outcome.share_met <= 0.55:
            break
        low, high = (C, high) if outcome.share_met < 0.5 else (low, C)
    _print_large([Large("separable", n_samples, 50, 64, norm="nuc", C=C)])


def growth(quick):
    """Exponents of the time in n, T and d, Frobenius and nuclear."""
    base = {"n": 1_000, "T": 20, "d": 32}
    for norm in ("fro", "nuc"):
        solver = solvers_of_ours(norm)[0]
        for name, sizes in GROWTH.items():
            times = []
            for size in sizes[:3] if quick else sizes:
                shape = {**base, name: size}
                data = (*instances.separable(*shape.values()), norm)
                _, seconds = median_time(lambda d=data, s=solver: solved(*d, s))
                times.append(seconds)
            exponent = np.polyfit(np.log(sizes[: len(times)]), np.log(times), 1)[0]
            listed = ", ".join(
                f"{size}: {seconds:.3f} s"
                for size, seconds in zip(sizes, times, strict=False)
            )
            print(f"{norm} in {name}: exponent {exponent:.2f}   ({listed})")


def ragged(quick):
    """One sample of 1,044 tokens among a hundred of 12."""
    del quick
    uneven = np.array([12] * 50 + [1_044] + [12] * 50)
    even = np.full(uneven.sum() // 12, 12)
    for norm in ("fro", "nuc", 1.5):
        solver = solvers_of_ours(norm)[0]
        seconds = {}
        for name, lengths in (("uneven", uneven), ("even", even)):
            data = (*instances.ragged(lengths, 32), norm)
            solution, seconds[name] = median_time(
                lambda d=data, s=solver: solved(*d, s)
            )
            gap, _ = checked(solution, *data)
            _line(f"{norm} {name}, {lengths.sum()} tokens", seconds[name], gap=gap)
        print(f"  uneven / even: {seconds['uneven'] / seconds['even']:.2f}")


def path(quick):
    """Twenty values of C, each from the solution before, against cold solves."""
    n = 200 if quick else 1_000
    tokens, selected, queries = instances.random_labels(n, 20, 32)
    Cs = np.logspace(-3, 1, 20)
    for norm in ("fro", "nuc", 1.5):
        solver = solvers_of_ours(norm)[0]
        data = (tokens, selected, queries, norm)

        def warm(data=data, solver=solver):
            problem = MarginProblem(*data[:3], norm=data[3])
            return attention_svm_path(problem, Cs, tol=TOL, solver=solver)

        def cold(data=data, solver=solver):
            return [solved(*data, solver, C=float(C)) for C in Cs]

        along, together = median_time(warm, repeats=3)
        _, separately = median_time(cold, repeats=3)
        worst = max(
            checked(solution, *data, C=C)[0]
            for C, solution in zip(Cs, along, strict=True)
        )
        print(
            f"{norm}, {n * 19} constraints: path {together:.2f} s, cold "
            f"{separately:.2f} s, ratio {together / separately:.2f} (target 0.5), "
            f"largest gap {worst:.1e}"
        )


def batch(quick):
    """Many small problems in one call, against one call each."""
    n_problems = 50 if quick else 500
    many = [instances.separable(6, 8, 10, seed) for seed in range(n_problems)]

    def together():
        return solve_many([MarginProblem(*one) for one in many], tol=TOL)

    def separately():
        return [solved(*one, "fro", "dual_cd") for one in many]

    solutions, at_once = median_time(together)
    _, in_turn = median_time(separately)
    worst = max(
        checked(solution, *one, "fro")[0]
        for one, solution in zip(many, solutions, strict=True)
    )
    print(
        f"{n_problems} problems of n=6, T=8, d=10: {1e3 * at_once / n_problems:.3f} ms "
        f"each at once, {1e3 * in_turn / n_problems:.3f} ms in turn, largest gap "
        f"{worst:.1e}"
    )


def entrywise(quick):
    """The l_p norms against cvxpy with Clarabel."""
    for n, T, d, *_ in SPEED[:2] if quick else SPEED[:3]:
        tokens, selected, queries = instances.separable(n, T, d)
        for p in (1.2, 1.5, 3.0, 6.0):
            data = (tokens, selected, queries, p)
            ours, seconds = median_time(lambda d=data: solved(*d, "sqp"))
            theirs, cone = median_time(lambda d=data: solved(*d, "cvxpy"))
            gap, value = checked(ours, *data)
            print(
                f"n={n}, T={T}, d={d}, p={p}: {1e3 * seconds:.1f} ms, gap {gap:.1e}; "
                f"cvxpy {1e3 * cone:.0f} ms, {cone / seconds:,.0f} x; values differ by "
                f"{abs(value / theirs.objective - 1):.1e}"
            )


CASES = {
    case.__name__: case
    for case in (speed, scale, prompt, growth, ragged, path, batch, entrywise)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="only this; repeatable"
    )
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: on a busy machine"
    )
    options = parser.parse_args()
    use_clock(options.clock)
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"{options.clock} time"
    )
    start = time.perf_counter()
    warm_up()
    print(f"compilation, or loading it: {time.perf_counter() - start:.1f} s")
    for name in options.case or CASES:
        print(f"\n== {name}: {CASES[name].__doc__}", flush=True)
        CASES[name](options.quick)


if __name__ == "__main__":
    main()
