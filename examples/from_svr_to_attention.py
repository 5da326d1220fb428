"""From support-vector regression to attention, one change at a time.

A regression with the kernel of attention is softmax attention over its training
samples. Changing the kernel changes the attention: a linear one gives linear attention,
normalised keys give Attention-BN, and means of keys give Attention-SH. Each step prints
how far the attention layer is from the regression it was made of, and the R^2 of both
on new queries. The last part trains the same attentions by gradients on a task where
one token of each sample decides.

    python examples/from_svr_to_attention.py
"""

from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.svm import SVR

from skattn import AttentionRegressor
from skattn.inspection import head_redundancy
from skattn.theory import attention_kernel

# Entries of the kernel are about 1 / n_keys^2; a factor keeps the solver's digits.
SCALE = 1e4


def smooth_function(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 3


def keys_and_queries(seed=2, n_settings=100, n_repeats=6, n_queries=500):
    """Settings that were each measured several times, one after another."""
    rng = np.random.default_rng(seed)
    # Features of different scales, as measured ones have.
    scales = np.array([1.0, 5.0, 0.2, 2.0])
    settings, queries = (
        rng.normal(size=(n_settings, 4)),
        rng.normal(size=(n_queries, 4)),
    )
    true = np.repeat(settings, n_repeats, axis=0)
    keys = true + 0.1 * rng.normal(size=true.shape)
    measured = smooth_function(true) + 0.2 * rng.normal(size=len(true))
    return keys * scales, queries * scales, measured, smooth_function(queries)


def compare(step, svr, attention, queries, targets):
    predicted, expected = attention.predict(queries), svr.predict(queries)
    difference = np.abs(predicted - expected).max()
    score = r2_score(targets, predicted)
    print(f"{step:<42} difference {difference:.0e}   R^2 {score:.3f}")


def window_means(keys, values, length):
    return (
        keys.reshape(-1, length, keys.shape[1]).mean(axis=1),
        values.reshape(-1, length).mean(axis=1),
    )


def attention_of_regressions():
    keys, queries, at_keys, at_queries = keys_and_queries()
    from_svr = AttentionRegressor.from_svr
    regression = SVR(C=1e4 / SCALE, epsilon=0.01)

    svr = clone(regression).set_params(kernel=partial(attention_kernel, scale=SCALE))
    svr.fit(keys, at_keys)
    softmax = from_svr(svr, keys)
    compare("SVR as softmax attention", svr, softmax, queries, at_queries)

    linear = SVR(kernel="linear").fit(keys, at_keys)
    compare(
        "linear kernel: linear attention",
        linear,
        from_svr(linear, keys),
        queries,
        at_queries,
    )

    kernel = partial(attention_kernel, scale=SCALE, attention_norm="batch")
    svr = clone(regression).set_params(kernel=kernel).fit(keys, at_keys)
    normalised = from_svr(svr, keys)
    compare("normalised keys: Attention-BN", svr, normalised, queries, at_queries)

    # Repeats of one setting follow each other: their means have less noise.
    for length in (2, 6):
        svr = clone(regression).set_params(kernel=kernel)
        svr.fit(*window_means(keys, at_keys, length))
        pooled = from_svr(svr, keys, head_scale=length)
        step = f"means of {length} keys: Attention-BN and -SH"
        compare(step, svr, pooled, queries, at_queries)


def trained_attention():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 12, 4)) * [1.0, 5.0, 0.2, 2.0]
    telling = X[..., 0].argmax(axis=1)
    y = X[np.arange(600), telling, 1] + 0.5 * X[..., 3].mean(axis=1)
    train, test = slice(0, 400), slice(400, None)
    steps = {
        "softmax": {},
        "linear attention": {"mapping": "linear"},
        "Attention-BN": {"attention_norm": "batch"},
        "Attention-SH": {"head_scale": (1, 12)},
        "Attention-BN and -SH": {"attention_norm": "batch", "head_scale": (1, 12)},
    }
    for name, change in steps.items():
        # The penalty would hold back the large weights that small features need.
        model = AttentionRegressor(
            n_heads=2, alpha=1e-4, learning_rate_init=0.05, random_state=0, **change
        )
        model.fit(X[train], y[train])
        print(
            f"{name:<42} R^2 {model.score(X[test], y[test]):.3f}   "
            f"distance of heads {head_redundancy(model, X[test]):.2f}"
        )


def main():
    print("Support-vector regressions, and the attention they are:")
    attention_of_regressions()
    print("\nThe same attentions, trained by gradients with two heads:")
    trained_attention()


if __name__ == "__main__":
    main()
