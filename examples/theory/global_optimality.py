"""Global optimality: with more features, training selects the best token everywhere.

Figure 6 of arXiv 2308.16898, "Transformers as Support Vector Machines". P(global) is
the share of random instances in which attention, trained by normalised gradient
descent, selects in all samples the token with the highest score. The more features
tokens have, the more often it does; the more samples or tokens, the less. In each
sample the best score is ahead of the others by 0.1 at least.

    python examples/theory/global_optimality.py --trials 500 --plot global.svg

The paper has 500 trials a setting. With t trials a share p is uncertain by
sqrt(p (1 - p) / t): by .11 at worst with the 20 of the default.
"""

import numpy as np
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import global_optimality, train_attention

N_FEATURES = [5, 10, 15, 20, 25, 30]
#: By what is trained, and by samples and tokens; one share for each N_FEATURES.
PAPER = {
    "W": {
        (5, 5): [0.784, 0.966, 1, 0.998, 1, 1],
        (10, 5): [0.287, 0.80, 0.958, 0.994, 1, 1],
        (20, 5): [0.004, 0.253, 0.68, 0.936, 0.984, 0.996],
        (5, 10): [0.595, 0.836, 0.938, 0.982, 0.986, 0.998],
        (5, 20): [0.606, 0.719, 0.854, 0.898, 0.948, 0.976],
    },
    "KQ": {
        (20, 5): [0.008, 0.19, 0.574, 0.794, 0.908, 0.962],
        (5, 20): [0.794, 0.902, 0.944, 0.952, 0.98, 0.984],
    },
}


def share_of_global(trials, seed, parameterization, n_samples, n_tokens, n_features):
    """Return the share of instances in which training selects the best tokens."""
    # Each setting has instances of its own, whatever the others are.
    rng = np.random.RandomState([seed, n_samples, n_tokens, n_features])
    data = make_attention_instances(
        trials, n_samples, n_tokens, n_features, gap=0.1, random_state=rng
    )
    trajectory = train_attention(
        data.X,
        data.y,
        data.head,
        data.query,
        parameterization=parameterization,
        learning_rate_init=0.1,
        max_iter=1000,
        record=[1000],
        record_coef=False,
        random_state=rng,
    )
    is_best = global_optimality(data.X, data.y, data.head, trajectory.selected)
    return is_best.all(axis=1).mean()


def measure(trials, seed):
    tables, shares = [], {}
    for trained, settings in PAPER.items():
        rows = []
        for (n_samples, n_tokens), references in settings.items():
            for n_features, reference in zip(N_FEATURES, references, strict=True):
                share = share_of_global(
                    trials, seed, trained, n_samples, n_tokens, n_features
                )
                setting = f"{n_samples:2} samples, {n_tokens:2} tokens, d={n_features}"
                rows.append(Row(setting, share, reference, "paper"))
                shares.setdefault((trained, n_samples, n_tokens), []).append(share)
        tables.append(Table(f"P(global), training {trained}", rows, ".3f"))
    return tables, shares


def draw(figure, shares):
    figure.set_size_inches(7, 4.5)
    axes = figure.subplots()
    for (trained, n_samples, n_tokens), measured in shares.items():
        style = "-" if trained == "W" else "--"
        (line,) = axes.plot(
            N_FEATURES,
            measured,
            style,
            label=f"{trained}, {n_samples} samples, {n_tokens} tokens",
        )
        axes.plot(
            N_FEATURES,
            PAPER[trained][n_samples, n_tokens],
            "o",
            color=line.get_color(),
            fillstyle="none",
        )
    axes.plot([], [], "o", color="0.4", fillstyle="none", label="paper")
    axes.set(xlabel="features of a token", ylabel="P(global)", ylim=(-0.03, 1.03))
    axes.legend()


def main(arguments=None):
    run(__doc__, measure, draw, trials=20, arguments=arguments)


if __name__ == "__main__":
    main()
