"""How the default parameters of the estimators were chosen.

Each candidate is scored on data that no reported figure comes from:

- MUSK1: inner folds of the training parts of an outer cross-validation;
- Japanese vowels: cross-validation within the training split;
- generated data with a planted token, of other seeds than the tests use.

The setting that the user guide recommends for bags is chosen in the same way.

    python benchmarks/defaults.py [--jobs 2] [--estimator attention|bags|svm]
"""

import argparse
import itertools
import os

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from skattn import AttentionClassifier, TokenScaler, TokenSVM, check_tokens
from skattn.datasets import (
    load_japanese_vowels,
    load_musk1,
    make_token_selection,
)

BAGS_PARAMETERS = (
    "pooling", "hidden_size", "alpha", "learning_rate_init", "scoring", "n_heads",
    "diversity", "head",
)  # fmt: skip


def attention_candidates():
    for alpha, rate in itertools.product((1e-3, 3e-3, 1e-2), (0.02, 0.05, 0.1)):
        yield AttentionClassifier(alpha=alpha, learning_rate_init=rate, random_state=0)


def bags_candidates():
    """Attention beside other statistics, of hidden tokens: one setting, varied."""
    setting = {"pooling": ("attention", "max"), "hidden_size": 64, "alpha": 0.005}
    variations = [
        {"pooling": "attention", "hidden_size": 0},
        {"pooling": ("attention", "max"), "hidden_size": 0},
        {"pooling": ("attention", "mean", "min", "max"), "hidden_size": 0},
        {"pooling": "attention"},
        {"pooling": ("attention", "min", "max")},
        {"pooling": ("attention", "mean", "min", "max")},
        *({"hidden_size": size} for size in (32, 64, 128)),
        *({"alpha": alpha} for alpha in (0.002, 0.003, 0.01)),
        {"learning_rate_init": 0.01},
        {"scoring": "gated"},
        {"n_heads": 4, "diversity": 0.1},
        {"head": "mlp"},
        {"head": "mlp", "hidden_size": 0},
    ]
    for variation in variations:
        yield AttentionClassifier(**setting | variation, random_state=0)


def svm_candidates():
    for C, head_C in itertools.product((0.003, 0.005, 0.01), (0.01, 0.03, 0.1, 1.0)):
        yield TokenSVM(C=C, head_C=head_C, max_iter=20)
    for max_iter in (1, 2, 3, 5, 10):
        yield TokenSVM(C=0.005, head_C=0.03, max_iter=max_iter)


def inner_musk1(estimator):
    """Accuracy, and share of tokens kept, on inner folds of outer training parts."""
    X, y = load_musk1(return_X_y=True)
    X = check_tokens(X)
    outer = StratifiedKFold(10, shuffle=True, random_state=123)
    scores = []
    for seed, (train, _) in enumerate(outer.split(X, y)):
        inner = StratifiedKFold(5, shuffle=True, random_state=seed)
        for fit, test in inner.split(train, y[train]):
            scores.append(fit_and_score(estimator, X, y, train[fit], train[test]))
    return np.mean(scores, axis=0)


def inner_vowels(estimator):
    """Accuracy, and share of tokens kept, within the training split."""
    X, y = load_japanese_vowels(split="train", return_X_y=True)
    X = check_tokens(X)
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    scores = [fit_and_score(estimator, X, y, *fold) for fold in folds.split(X, y)]
    return np.mean(scores, axis=0)


def fit_and_score(estimator, X, y, train, test):
    model = make_pipeline(TokenScaler(), estimator).fit(X[train], y[train])
    scaled = model[0].transform(X[test])
    weights = np.concatenate([np.ravel(w) for w in model[1].attention_weights(scaled)])
    return model.score(X[test], y[test]), np.mean(weights > 0)


def planted(estimator):
    """Share of fresh samples whose planted token a head finds, and accuracy."""
    scores = []
    for seed in range(100, 104):
        X, y, positions = make_token_selection(n_samples=400, random_state=seed)
        model = estimator.fit(X[:200], y[:200])
        selected = model.selected_tokens(X[200:]).reshape(200, -1)
        found = (selected == positions[200:, None]).any(axis=1)
        scores.append((found.mean(), model.score(X[200:], y[200:])))
    return np.mean(scores, axis=0)


def score_candidate(estimator):
    # Small problems: threads of the linear algebra would only get in each other's way.
    os.environ["OMP_NUM_THREADS"] = "1"
    return inner_musk1(estimator), inner_vowels(estimator), planted(estimator)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="candidates at a time")
    parser.add_argument(
        "--estimator", choices=("attention", "bags", "svm"), default=None
    )
    options = parser.parse_args()
    groups = {
        "attention": (attention_candidates, ("alpha", "learning_rate_init")),
        "bags": (bags_candidates, BAGS_PARAMETERS),
        "svm": (svm_candidates, ("C", "head_C", "max_iter")),
    }
    for name, (make_candidates, shown) in groups.items():
        if options.estimator not in (None, name):
            continue
        candidates = list(make_candidates())
        results = Parallel(options.jobs, return_as="generator")(
            delayed(score_candidate)(candidate) for candidate in candidates
        )
        print("MUSK1  kept  vowels  kept  planted  accuracy  candidate")
        for candidate, scores in zip(candidates, results, strict=True):
            (musk, musk_kept), (vowels, vowels_kept), (found, accuracy) = scores
            print(
                f" {musk:.3f}  {musk_kept:.2f}   {vowels:.3f}  {vowels_kept:.2f}   "
                f"{found:7.3f}  {accuracy:8.3f}  {describe(candidate, shown)}",
                flush=True,
            )


def describe(estimator, shown):
    values = estimator.get_params()
    return ", ".join(f"{name}={values[name]}" for name in shown)


if __name__ == "__main__":
    main()
