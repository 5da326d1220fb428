"""Regularisation path: the best weights of a large norm point along the SVM.

From arXiv 2308.16898, "Transformers as Support Vector Machines": as R grows, the W that
minimises the risk among all of norm at most R, divided by R, tends to the direction of
the attention SVM of the best tokens. No gradient descent is involved, which could end
in other tokens.

    python examples/theory/regularization_path.py --plot regularization_path.svg

The references are means too, of other instances of these sizes.
"""

import numpy as np
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import regularization_path

N_SAMPLES, N_TOKENS, N_FEATURES = 5, 5, 20
RADII = [1, 2, 5, 10, 20, 50, 100, 200, 600]
#: 1 - alignment at some radii.
REFERENCES = {20: 1.1e-2, 200: 1.7e-4, 600: 1.8e-5}


def measure(trials, seed):
    data = make_attention_instances(
        trials, N_SAMPLES, N_TOKENS, N_FEATURES, gap=0.1, random_state=seed
    )
    paths = [
        regularization_path(*instance, radii=RADII)
        for instance in zip(data.X, data.y, data.head, data.query, strict=True)
    ]
    alignments = np.stack([path.alignments for path in paths], axis=1)
    rows = [
        Row(
            f"R={radius}",
            1 - alignments[RADII.index(radius)].mean(),
            reference,
            "re-run",
        )
        for radius, reference in REFERENCES.items()
    ]
    tables = [Table("1 - alignment with the attention SVM, mean", rows, ".1e")]
    return tables, alignments


def draw(figure, alignments):
    figure.set_size_inches(7, 4.5)
    axes = figure.subplots()
    axes.loglog(RADII, 1 - alignments, color="C0", alpha=0.25)
    axes.loglog(RADII, 1 - alignments.mean(axis=1), ".-", color="C0", label="mean")
    axes.loglog(*zip(*REFERENCES.items(), strict=True), "o", color="C1", label="re-run")
    axes.set(xlabel="radius R", ylabel="1 - alignment")
    axes.legend()


def main(arguments=None):
    run(__doc__, measure, draw, trials=30, arguments=arguments)


if __name__ == "__main__":
    main()
