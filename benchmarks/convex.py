"""How fast the solvers of convex heads are, and how near to the optimum they come.

    python benchmarks/convex.py [--quick] [--case speed] ...

Times are of the processor, of one run, and include the features. The objective and the
gap of every solution are recomputed from its matrices. cvxpy runs twice where Clarabel
is not hopeless: with it, and with SCS.
"""

import argparse
import os
import platform
import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import skattn.convex._cvxpy as referee
from skattn.convex import ConvexProblem, certify, make_features, make_gates, solve
from skattn.datasets import load_japanese_vowels, load_musk1

TOL = 1e-4

#: Penalties as shares of the one from which on nothing is left.
SHARES = (0.1, 0.01)

#: Entries of a cone beyond which Clarabel takes minutes.
HOPELESS = 10_000


def made(gates, tokens, targets, loss, share):
    problem = ConvexProblem(make_features(gates, tokens), targets, loss, beta=1.0)
    return problem.with_beta(share * problem.beta_max)


def timed(solver, *data):
    """Solve from the tokens, and return what an independent look says."""
    start = time.process_time()
    problem = made(*data)
    solution = solve(problem, solver, tol=TOL)
    seconds = time.process_time() - start
    certificate, _ = certify(problem, solution.coef)
    return certificate, solution, seconds


def show(name, outcome):
    certificate, solution, seconds = outcome
    print(
        f"  {name:<16}{seconds:>9.2f} s   objective {certificate.objective:.6f}   "
        f"gap {certificate.duality_gap:.1e}   rank {solution.rank:>3}   "
        f"{solution.n_iter} iterations",
        flush=True,
    )
    return seconds


def speed(quick):
    """Against cvxpy, at n=100, T=10, d=8, c=3; 20 times as fast is the aim."""
    import cvxpy  # noqa: F401, so that no time includes the import

    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((100, 10, 8))
    targets = rng.integers(0, 3, 100)
    for activation, n_gates in (("linear", 1), ("gated_relu", 8)):
        gates = make_gates("self_attention", activation, tokens, n_gates, rng=0)
        data = (gates, tokens, targets, "multinomial", 0.1)
        print(f"\nn=100, T=10, d=8, c=3, {activation}, {gates.n_gates} gate(s)")
        ours = show("fista", timed("fista", *data))
        show("burer_monteiro", timed("burer_monteiro", *data))
        _, n_rows, n_columns = gates.coef_shape(3)
        size = gates.n_gates * (n_rows + n_columns) ** 2
        limits = {"cvxpy SCS": 0}
        if size <= HOPELESS and not quick:
            limits["cvxpy Clarabel"] = size
        for name, limit in limits.items():
            referee.LARGEST_FOR_CLARABEL = limit
            theirs = show(name, timed("cvxpy", *data))
            print(f"  fista is {theirs / ours:,.0f} times as fast as {name}")


def standardised(samples, n_components=None):
    values = StandardScaler().fit_transform(np.concatenate(samples))
    if n_components is not None:
        values = PCA(n_components, random_state=0).fit_transform(values)
        values /= values.std()
    return np.split(values, np.cumsum([len(sample) for sample in samples])[:-1])


def real(quick):
    """Data sets, gated self-attention with 8 gates: a gap of 1e-4 within 60 s."""
    samples, targets = load_musk1(return_X_y=True)
    cases = {"MUSK1, 16 components": (standardised(samples, 16), targets, "logistic")}
    samples, labels = load_japanese_vowels(split="train", return_X_y=True)
    targets = np.unique(labels, return_inverse=True)[1]
    cases["Japanese vowels"] = (standardised(samples), targets, "multinomial")
    for name, (tokens, targets, loss) in cases.items():
        gates = make_gates("self_attention", "gated_relu", tokens, 8, rng=0)
        for share in SHARES[:1] if quick else SHARES:
            print(f"\n{name}, {gates.n_gates} gates, beta_max * {share}")
            for solver in ("fista", "burer_monteiro"):
                show(solver, timed(solver, gates, tokens, targets, loss, share))


def width(quick):
    """What the width of tokens costs: gated self-attention, n=200, T=10, 8 gates."""
    rng = np.random.default_rng(0)
    for d in (8, 16, 32) if quick else (8, 16, 32, 48, 64):
        tokens = rng.standard_normal((200, 10, d)) / np.sqrt(d)
        targets = (tokens[:, :, 0] * tokens[:, :, 1]).mean(axis=1) > 0
        gates = make_gates("self_attention", "gated_relu", tokens, 8, rng=0)
        n_bytes = make_features(gates, tokens).nbytes
        print(f"\nd={d}: features of {n_bytes / 1e6:,.0f} MB")
        data = (gates, tokens, targets.astype(int), "logistic", 0.1)
        for solver in ("fista", "burer_monteiro"):
            if solver == "fista" and d > 48:
                continue
            show(solver, timed(solver, *data))


CASES = {"speed": speed, "real": real, "width": width}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out what is slow")
    parser.add_argument("--case", action="append", choices=list(CASES))
    arguments = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, NumPy "
        f"{np.__version__}, tolerance {TOL:g}"
    )
    for name in arguments.case or CASES:
        CASES[name](arguments.quick)


if __name__ == "__main__":
    main()
