"""Alignment: gradient descent goes the way of the attention SVM.

Figure 7 of arXiv 2308.16898, "Transformers as Support Vector Machines". On random
tokens, queries and labels, with a fixed random head, attention is trained by normalised
gradient descent. Its direction is compared with that of the SVM of the tokens that it
selects in the end: W approaches the solution in the Frobenius norm, W = K Q' that in
the nuclear norm, and neither approaches the other's.

    python examples/theory/alignment.py --plot alignment.svg

The 100 instances of the figure are the default. The references are of training with the
gradient as it is usually computed; ours keeps its digits when attention saturates, and
comes closer to the SVM.
"""

import numpy as np
from _instances import directions_of
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import attention_svm, is_locally_optimal, train_attention

N_SAMPLES, N_TOKENS, N_FEATURES = 6, 8, 10
ITERATIONS = [1, 2, 5, 10, 20, 50, 100, 200, 400, 600, 1000, 2000]
AT_600 = ITERATIONS.index(600)
NORMS = {"fro": "Frobenius", "nuc": "nuclear"}
# What is trained, and the norm that belongs to it.
NORM_OF = {"W": "fro", "KQ": "nuc"}
REFERENCES = {
    ("W", "fro"): 0.9965,
    ("W", "nuc"): 0.87,
    ("KQ", "nuc"): 0.997,
    ("KQ", "fro"): 0.86,
}


def measure(trials, seed):
    rng = np.random.RandomState(seed)
    data = make_attention_instances(
        trials, N_SAMPLES, N_TOKENS, N_FEATURES, random_state=rng
    )
    alignments, is_optimal = {}, {}
    for parameterization, own_norm in NORM_OF.items():
        trajectory = train_attention(
            data.X,
            data.y,
            data.head,
            data.query,
            parameterization=parameterization,
            learning_rate_init=0.1,
            max_iter=ITERATIONS[-1],
            record=ITERATIONS,
            random_state=rng,
        )
        for norm in NORMS:
            svms = attention_svm(data.X, trajectory.selected, data.query, norm=norm)
            alignments[parameterization, norm] = trajectory.alignment_to(
                directions_of(svms)
            )
        is_optimal[parameterization] = is_locally_optimal(
            data.X, data.y, data.head, trajectory.selected, data.query, norm=own_norm
        )

    at_end = [
        Row(
            f"{trained} to {NORMS[norm]}",
            alignments[trained, norm][-1].mean(),
            reference,
            "re-run",
        )
        for (trained, norm), reference in REFERENCES.items()
    ]
    of_w_at_600 = alignments["W", "fro"][AT_600]
    on_the_way = [
        Row("W to Frobenius, mean", of_w_at_600.mean(), 0.980, "re-run"),
        Row("W to Frobenius, median", np.median(of_w_at_600), 0.988, "re-run"),
        Row("W to Frobenius, median", np.median(of_w_at_600), 0.990, "paper"),
    ]
    locally_optimal = [
        Row("W", is_optimal["W"].mean(), 0.985, "re-run"),
        Row("KQ", is_optimal["KQ"].mean()),
    ]
    tables = [
        Table("Alignment after 2,000 iterations, mean", at_end),
        Table("Alignment after 600 iterations", on_the_way),
        Table("Share of locally optimal selections", locally_optimal),
    ]
    return tables, alignments


def draw(figure, alignments):
    from skattn.inspection import MarginPathDisplay

    figure.set_size_inches(7, 4.5)
    axes = figure.subplots()
    curves = {
        f"{trained} to {NORMS[norm]}": values
        for (trained, norm), values in alignments.items()
    }
    MarginPathDisplay.from_arrays(ITERATIONS, curves, ax=axes, yscale="log")


def main(arguments=None):
    run(__doc__, measure, draw, trials=100, arguments=arguments)


if __name__ == "__main__":
    main()
