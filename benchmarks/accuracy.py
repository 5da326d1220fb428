"""Accuracy of attention on sequences, bags, series, texts, images and tables.

Each data set has the split that it comes with, or stratified folds that each seed
shuffles anew. The settings of attention are those of `accuracy_support/settings.py`,
which were chosen within training parts; `settings.py` shows how.

    python benchmarks/accuracy.py [--data vowels,musk1] [--seeds 5] [--jobs 2]
    python benchmarks/accuracy.py --variants [--data vowels,motions]

The series and the word vectors come from published packages, of which only data files
are read:

    pip download --no-deps -d benchmarks/accuracy_support/wheels \\
        aeon==1.6.0 tslearn==0.10.0
    pip install -c constraints.txt ".[bench]"
"""

import argparse
from functools import partial

from accuracy_support.measuring import measure
from accuracy_support.peers import (
    sequence_peers,
    table_peers,
    text_peers,
    vector_peers,
)
from accuracy_support.problems import PROBLEMS
from accuracy_support.settings import GOALS, attention_models
from accuracy_support.variants import VARIED, report_variants


def rows_of(name, problem):
    """Return (peers and models, what they see), by kind of data."""
    tokens = problem.X
    if problem.texts is not None:
        return [(text_peers, problem.texts), (vector_peers, tokens)]
    if isinstance(tokens, type(problem.y)):
        return [(table_peers, tokens)]
    return [(sequence_peers, tokens)]


def report(name, seeds, n_jobs, only=""):
    """Print the table of one data set, or those of its rows that contain a text."""
    problem = PROBLEMS[name]()
    print(f"\n{problem.title}: {problem.described(len(seeds))}\n")
    print("| model | accuracy | std | fit time |\n| --- | --- | --- | --- |")
    groups = [*rows_of(name, problem), (partial(attention_models, name), problem.X)]
    for make_models, samples in groups:
        for label in make_models(0):
            if only not in label:
                continue
            measured = measure(
                lambda seed, make=make_models, label=label: make(seed)[label],
                problem,
                samples,
                seeds=seeds,
                n_jobs=n_jobs,
            )
            accuracies = measured.accuracies
            print(
                f"| {label} | {accuracies.mean():.3f} | {accuracies.std():.3f} | "
                f"{measured.fit_time:.2f} s |",
                flush=True,
            )
    print(f"\nGoal: {GOALS[name]}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default=None, help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--seeds", type=int, default=5, help="repetitions")
    parser.add_argument("--only", default="", help="rows that contain this text")
    parser.add_argument("--jobs", type=int, default=2, help="fits at a time")
    parser.add_argument(
        "--variants", action="store_true", help="compare scorings and mappings instead"
    )
    options = parser.parse_args()
    seeds = range(options.seeds)
    names = options.data or ",".join(VARIED if options.variants else PROBLEMS)
    for name in names.split(","):
        if name not in PROBLEMS:
            parser.error(f"--data: {name!r} is none of {', '.join(PROBLEMS)}")
        if options.variants:
            report_variants(name, seeds, options.jobs)
        else:
            report(name, seeds, options.jobs, options.only)


if __name__ == "__main__":
    main()
