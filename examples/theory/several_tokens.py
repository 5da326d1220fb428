"""Several tokens: where attention keeps more than one, a finite component decides.

Figure 8 of arXiv 2308.16898, "Transformers as Support Vector Machines". With a
nonlinear head, the sum of relu(x'V), a mixture of tokens can be better than any of
them, and trained attention keeps several. Its weights are then about W_fin + R W_dir:
the SVM of the selected sets gives the direction W_dir, the ratios of the weights that
the selected tokens keep give W_fin. The script prints 1 - alignment of the trained W
with that sum, with W_dir alone, and with the SVM of the top tokens as if they were the
only ones.

    python examples/theory/several_tokens.py --trials 2500 --plot several_tokens.svg

As in the paper, runs are kept that have a negative label (with positive ones alone the
head is best on single tokens) and whose attention tells selected tokens from others: no
weight within (1e-6, 1e-3], and some weight below. At d=10 these are few, 1 in 60, so
that the default number of trials leaves hardly any. A few runs that have not come to
rest make up most of the means.

In the published code training comes to rest where the gradient falls below the 2.2e-16
that are added to its norm. `train_attention` keeps the digits of smaller gradients and
would go on, to other selected sets. The weight decay here brings it to rest at the same
place: times weights of norm 55 it is 2.2e-16.
"""

import numpy as np
from _instances import directions_of
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import (
    alignment,
    attention_svm,
    fit_radius,
    selected_set,
    train_attention,
)

N_SAMPLES, N_TOKENS = 3, 4
N_FEATURES = [4, 6, 8, 10]
WEIGHT_DECAY = 2.2e-16 / 55
#: Weights above the first are selected, up to the second they are zero.
SELECTED, ZERO = 1e-3, 1e-6
#: 1 - alignment, for each N_FEATURES.
REFERENCES = {
    "paper": {
        "W_fin and direction": [0.030, 0.017, 0.007, 0.006],
        "direction only": [0.058, 0.035, 0.020, 0.016],
        "one token": [0.16, 0.17, 0.14, 0.12],
    },
    "re-run": {
        "W_fin and direction": [0.023, 0.016, 0.008, 0.005],
        "direction only": [0.051, 0.022, 0.018, 0.006],
    },
}


def train(trials, seed, n_features):
    """Train W under random ReLU heads; return the instances and the trajectory."""
    rng = np.random.RandomState([seed, n_features])
    data = make_attention_instances(
        trials, N_SAMPLES, N_TOKENS, n_features, random_state=rng
    )
    V = rng.standard_normal((trials, n_features, n_features))
    V /= np.linalg.norm(V, axis=(1, 2), keepdims=True)
    trajectory = train_attention(
        data.X,
        data.y,
        V,
        data.query,
        head_activation="relu",
        learning_rate_init=0.1,
        weight_decay=WEIGHT_DECAY,
        max_iter=2000,
        record=[2000],
        random_state=rng,
    )
    return data, trajectory


def runs_to_keep(y, attention):
    is_between = (attention > ZERO) & (attention <= SELECTED)
    return (
        (y == -1).any(axis=1)
        & ~is_between.any(axis=(1, 2))
        & (attention <= ZERO).any(axis=(1, 2))
    )


def distances(trials, seed, n_features):
    """Return 1 - alignment of each run that is kept, by what W is compared with."""
    data, trajectory = train(trials, seed, n_features)
    kept = runs_to_keep(data.y, trajectory.attention_weights)
    X, query = data.X[kept], data.query[kept]
    W, attention = trajectory.attention_coef[kept], trajectory.attention_weights[kept]
    if not kept.any():
        return {name: np.array([]) for name in REFERENCES["paper"]}
    svms = attention_svm(
        X, selected_set(attention, SELECTED), query, attention_weights=attention
    )
    svms_of_top = attention_svm(X, trajectory.selected[kept], query)
    fits = [fit_radius(*pair).alignment for pair in zip(W, svms, strict=True)]
    return {
        "W_fin and direction": 1 - np.array(fits),
        "direction only": 1 - alignments(W, directions_of(svms)),
        "one token": 1 - alignments(W, directions_of(svms_of_top)),
    }


def alignments(coefs, directions):
    return np.array([alignment(*pair) for pair in zip(coefs, directions, strict=True)])


def measure(trials, seed):
    results = {d: distances(trials, seed, d) for d in N_FEATURES}
    kept = {d: len(results[d]["one token"]) for d in N_FEATURES}
    tables = [
        Table(
            "Runs that are kept",
            [Row(f"d={d}", count) for d, count in kept.items()],
            "d",
        )
    ]
    for source, references in REFERENCES.items():
        rows = [
            Row(f"{name}, d={d}", results[d][name].mean(), reference, source)
            for name, of_source in references.items()
            for d, reference in zip(N_FEATURES, of_source, strict=True)
            if kept[d]
        ]
        if rows:
            title = f"1 - alignment after 2,000 iterations, mean, beside the {source}"
            tables.append(Table(title, rows))
    return tables, results


def draw(figure, results):
    figure.set_size_inches(7, 4.5)
    axes = figure.subplots()
    for name, references in REFERENCES["paper"].items():
        shown = [d for d in N_FEATURES if len(results[d][name])]
        values = [results[d][name] for d in shown]
        (line,) = axes.plot(shown, [v.mean() for v in values], ".-", label=name)
        color = line.get_color()
        axes.plot(shown, [np.median(v) for v in values], ":", color=color)
        axes.plot(N_FEATURES, references, "o", color=color, fillstyle="none")
    axes.plot([], [], ":", color="0.4", label="median")
    axes.plot([], [], "o", color="0.4", fillstyle="none", label="paper, mean")
    axes.set(
        xlabel="features of a token",
        ylabel="1 - alignment",
        yscale="log",
        xticks=N_FEATURES,
    )
    axes.legend()


def main(arguments=None):
    run(__doc__, measure, draw, trials=200, arguments=arguments)


if __name__ == "__main__":
    main()
