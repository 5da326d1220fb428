"""Convex heads: blocks at their certified global optimum, beside what people train.

The same tokens go into a linear model of their mean, into four convex heads and into
attention that is trained by gradient descent: the frames of the Japanese vowels, the
same frames as the hidden layer of a fitted `AttentionClassifier` sees them, and the
shapes of the molecules of MUSK1. Nothing is tuned on what is reported: each head
chooses its parameters, and whether principal components are whitened, by
cross-validation within the training part; the constants below were fixed in advance.

    python examples/convex_heads.py [vowels] [hidden] [musk1]
"""

import sys
import time
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skattn import (
    AttentionClassifier,
    ConvexAttentionClassifier,
    ConvexAttentionClassifierCV,
    TokenScaler,
)
from skattn.datasets import load_japanese_vowels, load_musk1

N_COMPONENTS = 16
N_HIDDEN = 8
N_FOLDS = 10
N_INNER_FOLDS = 3

# Two betas a decade, over the range that the estimator searches if it is not told.
# Scores of folds do not need the last digits of the optimum; the model does.
SEARCH = {"betas": 7, "eps": 1e-3, "cv": N_INNER_FOLDS, "tol": 1e-2}

# What each convex head chooses from, besides beta.
CONVEX_HEADS = {
    "gated MLP": [{"block": "mlp", "n_gates": 8}, {"block": "mlp", "n_gates": 16}],
    "linear self-attention": [{"activation": "linear"}],
    "gated self-attention": [{"n_gates": 8}],
}


class Part(NamedTuple):
    """A training and a test part, in the representations that heads choose from."""

    representations: list
    y: np.ndarray
    y_test: np.ndarray


def mean_tokens(X):
    return np.array([tokens.mean(axis=0) for tokens in X])


def linear_head():
    pooling = make_pipeline(
        FunctionTransformer(mean_tokens),
        StandardScaler(),
        LogisticRegression(max_iter=5_000),
    )
    grid = {"logisticregression__C": np.logspace(-3, 3, 7)}
    return GridSearchCV(pooling, grid, cv=N_INNER_FOLDS)


def trained_attention():
    grid = [{}, {"n_heads": [2], "solver": ["lbfgs"]}, {"hidden_size": [64]}]
    return GridSearchCV(AttentionClassifier(random_state=0), grid, cv=N_INNER_FOLDS)


def grid_search(search):
    """Return a head: from X and y to its score in the inner folds and how to fit."""

    def choose(X, y):
        found = clone(search).fit(X, y)
        return found.best_score_, lambda: found

    return choose


def convex_head(candidates):
    """Choose beta by cross-validation, roughly, and solve at that beta tightly."""

    def choose(X, y):
        searches = [
            ConvexAttentionClassifierCV(**SEARCH, **options, random_state=0).fit(X, y)
            for options in candidates
        ]
        scores = [search.scores_.mean(axis=0).max() for search in searches]
        best = np.argmax(scores)
        model = ConvexAttentionClassifier(
            beta=searches[best].beta_, **candidates[best], random_state=0
        )
        return scores[best], lambda: model.fit(X, y)

    return choose


HEADS = {
    "linear": grid_search(linear_head()),
    **{name: convex_head(candidates) for name, candidates in CONVEX_HEADS.items()},
    "trained attention": grid_search(trained_attention()),
}


def fit_head(choose, part):
    """Return a model on the best of all representations, and its test samples."""
    found = [choose(X, part.y) for X, _ in part.representations]
    best = np.argmax([score for score, _ in found])
    _, fit = found[best]
    return fit(), part.representations[best][1]


def compare(title, parts):
    """Print a row a head: means over the parts."""
    print(f"\n{title}")
    print(f"{'head':22} accuracy  rank  largest gap  fit time")
    for name, choose in HEADS.items():
        accuracies, ranks, gaps, seconds = [], [], [], []
        for part in parts:
            start = time.process_time()
            model, X_test = fit_head(choose, part)
            seconds.append(time.process_time() - start)
            accuracies.append(model.score(X_test, part.y_test))
            ranks.append(getattr(model, "rank_", np.nan))
            gaps.append(getattr(model, "duality_gap_", np.nan))
        row = f"{name:22}   {np.mean(accuracies):.3f}"
        if np.isfinite(gaps).all():
            row += f"  {np.mean(ranks):5.1f}      {max(gaps):.1e}"
        else:
            row += f"  {'':5}      {'':7}"
        print(f"{row}  {np.median(seconds):6.2f} s", flush=True)


def scaled(X, X_test):
    scaler = TokenScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test)


def vowels():
    X, y = load_japanese_vowels(split="train", return_X_y=True)
    X_test, y_test = load_japanese_vowels(split="test", return_X_y=True)
    return Part([scaled(X, X_test)], y, y_test)


def hidden_tokens(model, X):
    """Return the tokens behind the hidden layer of a fitted `AttentionClassifier`."""
    hidden = [x @ model.hidden_coef_ + model.hidden_intercept_ for x in X]
    return [h * ndtr(h) for h in hidden]


def hidden_vowels():
    [(X, X_test)], y, y_test = vowels()
    encoder = AttentionClassifier(hidden_size=N_HIDDEN, random_state=0).fit(X, y)
    hidden = [hidden_tokens(encoder, tokens) for tokens in (X, X_test)]
    return Part([scaled(*hidden)], y, y_test)


def principal_components(X, X_test, whiten):
    X, X_test = scaled(X, X_test)
    components = PCA(N_COMPONENTS, whiten=whiten, random_state=0)
    components.fit(np.concatenate(X))
    return tuple([components.transform(x) for x in samples] for samples in (X, X_test))


def musk1_folds():
    X, y = load_musk1(return_X_y=True)
    cv = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    for train, test in cv.split(np.zeros(len(y)), y):
        samples = [X[i] for i in train], [X[i] for i in test]
        representations = [
            principal_components(*samples, whiten) for whiten in (False, True)
        ]
        yield Part(representations, y[train], y[test])


SETTINGS = {
    "vowels": lambda: compare("Japanese vowels, given split", [vowels()]),
    "hidden": lambda: compare(
        f"The same behind a frozen hidden layer of {N_HIDDEN}", [hidden_vowels()]
    ),
    "musk1": lambda: compare(
        f"MUSK1, {N_COMPONENTS} principal components, {N_FOLDS}-fold cross-validation",
        list(musk1_folds()),
    ),
}


def main():
    for name in sys.argv[1:] or SETTINGS:
        SETTINGS[name]()


if __name__ == "__main__":
    main()
