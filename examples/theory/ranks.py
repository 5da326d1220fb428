"""Ranks: keys and queries find solutions of low rank.

From the experiments of arXiv 2308.16898, "Transformers as Support Vector Machines".
The bias of training W is the Frobenius norm, and the solution of its SVM has as high a
rank as there are samples. The bias of training keys and queries is the nuclear norm,
and that solution has a far lower rank. The SVMs are those of the tokens with the
highest scores.

    python examples/theory/ranks.py --trials 500 --plot ranks.svg

Ranks count the singular values above 1e-3 of the largest, of solutions with a relative
duality gap of 1e-9: solvers that stop early leave singular values that are only noise.
"""

import numpy as np
from _instances import best_tokens, directions_of
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import attention_svm, effective_rank

N_TOKENS = 5
NORMS = {"fro": "Frobenius", "nuc": "nuclear"}
#: By samples and features.
REFERENCES = {
    "fro": {(5, 10): 5, (10, 10): 10, (15, 20): 15},
    "nuc": {(5, 10): 2.8, (10, 10): 3.7, (15, 20): 4.6},
}


def ranks_of_svms(trials, seed, norm, n_samples, n_features):
    """Return the rank of the attention SVM of the best tokens in each instance."""
    data = make_attention_instances(
        trials, n_samples, N_TOKENS, n_features, random_state=seed
    )
    svms = attention_svm(data.X, best_tokens(data), data.query, norm=norm, tol=1e-9)
    return effective_rank(directions_of(svms))


def measure(trials, seed):
    ranks = {
        (norm, *setting): ranks_of_svms(trials, seed, norm, *setting)
        for norm, references in REFERENCES.items()
        for setting in references
    }
    rows = [
        Row(
            f"{NORMS[norm]:9} {n_samples:2} samples, d={n_features}",
            ranks[norm, n_samples, n_features].mean(),
            reference,
            "re-run",
        )
        for norm, references in REFERENCES.items()
        for (n_samples, n_features), reference in references.items()
    ]
    return [Table("Rank of the solution, mean", rows, ".2f")], ranks


def draw(figure, ranks):
    figure.set_size_inches(7, 4)
    panels = figure.subplots(1, len(REFERENCES), sharey=True, sharex=True)
    for axes, norm in zip(panels, REFERENCES, strict=True):
        for n_samples, n_features in REFERENCES[norm]:
            own = ranks[norm, n_samples, n_features]
            shares = np.bincount(own) / own.size
            axes.plot(shares, ".-", label=f"{n_samples} samples, d={n_features}")
        axes.set(title=f"{NORMS[norm]} norm", xlabel="rank", ylabel="share")
        axes.set_xticks(range(0, 16, 5))
        axes.label_outer()
    panels[1].legend()


def main(arguments=None):
    run(__doc__, measure, draw, trials=100, arguments=arguments)


if __name__ == "__main__":
    main()
