"""Accuracy of the estimators beside pooling.

MUSK1 in stratified 10-fold cross-validation, repeated with different folds, and the
Japanese vowels' own split, repeated with different seeds of the models. All models have
default parameters, but for two: the setting that the user guide recommends for bags,
and one whose parameters are chosen by cross-validation within the training part.

    python benchmarks/accuracy.py [--runs 5] [--jobs 2]
"""

import argparse

from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skattn import AttentionClassifier, TokenScaler
from skattn._demo import report
from skattn._demo.commands import progress_callbacks
from skattn._demo.comparison import evaluate, over_runs
from skattn._demo.models import make_models
from skattn._demo.problems import japanese_vowels, musk1

#: What the user guide recommends for bags; `defaults.py` says how it was chosen.
FOR_BAGS = {"pooling": ("attention", "max"), "hidden_size": 64, "alpha": 0.003}

#: What a user might try first: a second head, and a hidden layer.
GRID = [{}, {"n_heads": [2], "solver": ["lbfgs"]}, {"hidden_size": [64]}]


def tuned(seed):
    """Return attention whose parameters are chosen on the training part alone."""
    search = GridSearchCV(AttentionClassifier(random_state=seed), GRID, cv=3)
    return make_pipeline(TokenScaler(), search)


def added_models(seed):
    """Return the models of this benchmark that the demo does not have."""
    for_bags = AttentionClassifier(**FOR_BAGS, random_state=seed)
    return {
        "AttentionClassifier, for bags": make_pipeline(TokenScaler(), for_bags),
        "AttentionClassifier, tuned": tuned(seed),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="repetitions")
    parser.add_argument("--jobs", type=int, default=2, help="fits at a time")
    options = parser.parse_args()
    callbacks = progress_callbacks()
    settings = [
        (musk1, "repetitions of the cross-validation, with their seeds"),
        (lambda seed: japanese_vowels(), "seeds of the models"),
    ]
    for make_problem, repeated in settings:
        report.problem(make_problem(0))
        runs = [
            evaluate(
                make_models(seed) | added_models(seed),
                make_problem(seed),
                n_jobs=options.jobs,
                callbacks=callbacks,
            )
            for seed in range(options.runs)
        ]
        report.table(over_runs(runs), repeated=f"{options.runs} {repeated}")


if __name__ == "__main__":
    main()
