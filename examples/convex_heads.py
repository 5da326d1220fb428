"""Convex heads: blocks at their certified global optimum, beside what people train.

The same tokens go into a linear model of their mean, into four convex heads and into
attention that is trained by gradient descent: the frames of the Japanese vowels, the
same frames as the hidden layer of a fitted `AttentionClassifier` sees them, and the
shapes of the molecules of MUSK1. Nothing is tuned on what is reported: every beta is
chosen within the training part.

    python examples/convex_heads.py [vowels] [hidden] [musk1]
"""

import sys
import time

import numpy as np
from scipy.special import ndtr
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

# Scores of folds do not need the last digits of the optimum; the model does.
SEARCH = {"betas": 6, "eps": 1e-2, "cv": 3, "tol": 1e-2}

CONVEX_HEADS = {
    "gated MLP": {"block": "mlp", "n_gates": 16},
    "linear self-attention": {"activation": "linear"},
    "gated self-attention": {"n_gates": 8},
}


def mean_tokens(X):
    return np.array([tokens.mean(axis=0) for tokens in X])


def linear_head():
    pooling = make_pipeline(
        FunctionTransformer(mean_tokens),
        StandardScaler(),
        LogisticRegression(max_iter=5_000),
    )
    grid = {"logisticregression__C": np.logspace(-3, 3, 7)}
    return GridSearchCV(pooling, grid, cv=SEARCH["cv"])


def convex_head(X, y, options):
    """Choose beta by cross-validation, roughly, and solve at that beta tightly."""
    search = ConvexAttentionClassifierCV(**SEARCH, **options, random_state=0)
    beta = search.fit(X, y).beta_
    return ConvexAttentionClassifier(beta=beta, **options, random_state=0).fit(X, y)


def trained_attention():
    grid = [{}, {"n_heads": [2], "solver": ["lbfgs"]}, {"hidden_size": [64]}]
    return GridSearchCV(AttentionClassifier(random_state=0), grid, cv=SEARCH["cv"])


HEADS = {
    "linear": lambda X, y: linear_head().fit(X, y),
    **{
        name: lambda X, y, options=options: convex_head(X, y, options)
        for name, options in CONVEX_HEADS.items()
    },
    "trained attention": lambda X, y: trained_attention().fit(X, y),
}


def compare(title, parts):
    """Print a row a head: means over the pairs of a training and a test part."""
    print(f"\n{title}")
    print(f"{'head':22} accuracy  rank  largest gap  fit time")
    for name, fit in HEADS.items():
        accuracies, ranks, gaps, seconds = [], [], [], []
        for (X, y), (X_test, y_test) in parts:
            start = time.perf_counter()
            model = fit(X, y)
            seconds.append(time.perf_counter() - start)
            accuracies.append(model.score(X_test, y_test))
            ranks.append(getattr(model, "rank_", np.nan))
            gaps.append(getattr(model, "duality_gap_", np.nan))
        row = f"{name:22}   {np.mean(accuracies):.3f}"
        if np.isfinite(gaps).all():
            row += f"  {np.mean(ranks):5.1f}      {max(gaps):.1e}"
        else:
            row += f"  {'':5}      {'':7}"
        print(f"{row}  {np.median(seconds):6.2f} s", flush=True)


def vowels():
    train = load_japanese_vowels(split="train", return_X_y=True)
    test = load_japanese_vowels(split="test", return_X_y=True)
    scaler = TokenScaler().fit(train[0])
    return [(scaler.transform(X), y) for X, y in (train, test)]


def hidden_tokens(model, X):
    """Return the tokens behind the hidden layer of a fitted `AttentionClassifier`."""
    hidden = [x @ model.hidden_coef_ + model.hidden_intercept_ for x in X]
    return [h * ndtr(h) for h in hidden]


def hidden_vowels():
    train, test = vowels()
    encoder = AttentionClassifier(hidden_size=N_HIDDEN, random_state=0).fit(*train)
    parts = [(hidden_tokens(encoder, X), y) for X, y in (train, test)]
    scaler = TokenScaler().fit(parts[0][0])
    return [(scaler.transform(X), y) for X, y in parts]


def principal_components(X, X_test):
    scaler = TokenScaler().fit(X)
    parts = [scaler.transform(part) for part in (X, X_test)]
    components = PCA(N_COMPONENTS, random_state=0).fit(np.concatenate(parts[0]))
    return [[components.transform(tokens) for tokens in part] for part in parts]


def musk1_folds():
    X, y = load_musk1(return_X_y=True)
    cv = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    for train, test in cv.split(np.zeros(len(y)), y):
        reduced = principal_components([X[i] for i in train], [X[i] for i in test])
        yield (reduced[0], y[train]), (reduced[1], y[test])


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
