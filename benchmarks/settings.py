"""How the settings of `accuracy.py` were chosen: within training parts alone.

Each setting is varied, one parameter or two at a time, and scored on folds of the given
training split; or, where there is none, on folds of the training part of one fold that
`accuracy.py` does not use (of MUSK1 and the tables, which are small, of all).

    python benchmarks/settings.py [--data vowels,italy] [--jobs 2]
"""

import argparse

import numpy as np
from accuracy_support.measuring import fit_and_score
from accuracy_support.problems import PROBLEMS
from accuracy_support.settings import SETTINGS, attention_pipeline
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import RepeatedStratifiedKFold

_TABLE_VARIATIONS = [
    {"alpha": 0.0001}, {"alpha": 0.001}, {"label_smoothing": 0.0},
    {"label_smoothing": 0.2}, {"pooling": ("attention", "mean")}, {"mixup": 1.0},
    {"learning_rate_init": 0.005}, {"solver": "lbfgs"},
]  # fmt: skip

#: What is varied around the setting of each data set.
VARIATIONS = {
    "vowels": [
        {"kernel_size": 1}, {"kernel_size": 5}, {"pooling": "attention"},
        {"token_dropout": 0.0}, {"token_dropout": 0.5}, {"label_smoothing": 0.0},
        {"alpha": 0.001}, {"alpha": 0.01}, {"hidden_size": 128}, {"n_heads": 4},
        {"mixup": 0.5}, {"average": 0.95},
        {"n_layers": 1, "n_heads": 4, "position": "learned"},
    ],
    "motions": [
        {"kernel_size": 3}, {"kernel_size": 9}, {"kernel_size": 15},
        {"n_heads": 1}, {"n_heads": 1, "average": 0.95}, {"token_dropout": 0.1},
        {"n_heads": 1, "hidden_size": 256}, {"n_heads": 1, "mixup": 0.5},
        {"pooling": ("attention", "mean", "min", "max")},
    ],
    "musk1": [
        {"token_dropout": 0.2}, {"label_smoothing": 0.1}, {"label_smoothing": 0.2},
        {"mixup": 0.5}, {"average": 0.9}, {"average": 0.9, "label_smoothing": 0.2},
        {"n_heads": 4}, {"mapping": "sparsemax"}, {"alpha": 0.005},
    ],
    "gunpoint": [
        {"token_dropout": 0.0}, {"token_dropout": 0.2}, {"label_smoothing": 0.0},
        {"kernel_size": 3}, {"mixup": 0.5}, {"pooling": ("attention", "min", "max")},
        {"pooling": "attention", "n_heads": 4},
    ],
    "italy": [
        {"token_dropout": 0.0}, {"token_dropout": 0.3}, {"label_smoothing": 0.2},
        {"alpha": 0.01}, {"mixup": 0.5}, {"kernel_size": 3},
        {"pooling": "attention", "n_heads": 4},
    ],
    "trace": [
        {"kernel_size": 5}, {"kernel_size": 25}, {"token_dropout": 0.0},
        {"pooling": "attention", "n_heads": 4},
    ],
    "digits": [
        {"kernel_size": 3}, {"kernel_size": 8}, {"hidden_size": 64}, {"n_heads": 4},
        {"token_dropout": 0.1}, {"mixup": 1.0}, {"alpha": 0.001},
        {"label_smoothing": 0.0},
    ],
    "cancer": _TABLE_VARIATIONS,
    "wine": _TABLE_VARIATIONS,
    "sentences": [
        {"pooling": "attention"}, {"kernel_size": 1}, {"kernel_size": 5},
        {"token_dropout": 0.2}, {"label_smoothing": 0.0}, {"average": 0.0},
        {"alpha": 0.001}, {"hidden_size": 64},
    ],
}  # fmt: skip

#: Outer folds whose training parts are divided, and inner folds of each that are used.
_OUTER_FOLDS = {"musk1": 10, "cancer": 5, "wine": 5}
_INNER_FOLDS = {"sentences": 2, "digits": 3}

#: Parts that a given training split is divided into, where five are too easy to tell
#: candidates apart, and whether a model is fitted on one of them or on all but one.
_PARTS = {"motions": (4, "one"), "gunpoint": (2, "one"), "italy": (2, "one")}


def inner_splits(name):
    """Return pairs of rows that lie in training parts."""
    problem = PROBLEMS[name]()
    n_parts, fitted = _PARTS.get(name, (5, "all but one"))
    if problem.given_split is not None:
        training_parts = [problem.given_split[0]]
        repeats = {2: 10, 4: 4, 5: 2}[n_parts]
    else:
        outer = problem.splits(seed=123)[: _OUTER_FOLDS.get(name, 1)]
        training_parts = [train for train, _ in outer]
        repeats = 1
    for seed, rows in enumerate(training_parts):
        folds = RepeatedStratifiedKFold(
            n_splits=n_parts, n_repeats=repeats, random_state=seed
        )
        splits = list(folds.split(rows, problem.y[rows]))
        for split in splits[: _INNER_FOLDS.get(name)]:
            fit, held_out = split[::-1] if fitted == "one" else split
            yield rows[fit], rows[held_out]


def score(name, parameters, n_jobs):
    """Return the accuracy on inner folds, its standard error, and the fit time."""
    problem = PROBLEMS[name]()
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs)(
            delayed(fit_and_score)(
                attention_pipeline(name, parameters, seed), problem.X, problem.y, *split
            )
            for seed, split in enumerate(inner_splits(name))
        )
    accuracies, times = np.array(results).T
    error = accuracies.std() / np.sqrt(len(accuracies))
    return accuracies.mean(), error, np.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default=",".join(VARIATIONS))
    parser.add_argument("--jobs", type=int, default=2, help="fits at a time")
    options = parser.parse_args()
    for name in options.data.split(","):
        chosen = list(SETTINGS[name].values())[-1]
        print(f"\n{PROBLEMS[name]().title}: {in_words(chosen)}\n")
        print("| varied | accuracy | error | fit time |\n| --- | --- | --- | --- |")
        for variation in [{}, *VARIATIONS[name]]:
            accuracy, error, time = score(name, chosen | variation, options.jobs)
            print(
                f"| {in_words(variation)} | {accuracy:.3f} | {error:.3f} | "
                f"{time:.2f} s |",
                flush=True,
            )


def in_words(parameters):
    pairs = [f"{name}={value!r}" for name, value in parameters.items()]
    return f"`{', '.join(pairs)}`" if pairs else "nothing"


if __name__ == "__main__":
    main()
