"""Optimiser race: steps that grow as the gradient vanishes get to the SVM.

After the experiments of arXiv 2306.13596, "Max-Margin Token Selection in Attention
Mechanism", and arXiv 2308.16898. W is trained from zero under a fixed head. Where
attention saturates its gradient vanishes exponentially: gradient descent slows down to
a crawl, normalised gradient descent goes on at a constant pace, and steps of Polyak's
length, (L - L*) / |grad|^2, grow exponentially. Alignment is with the attention SVM of
the tokens that training has selected.

    python examples/theory/optimizer_race.py --plot optimizer_race.svg

The 30 instances of the references are the default. The references for normalised
gradient descent are of the gradient as it is usually computed.
"""

from _instances import directions_of
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import attention_svm, train_attention

N_SAMPLES, N_TOKENS, N_FEATURES = 5, 5, 20
ITERATIONS = [1, 2, 5, 10, 20, 36, 50, 100, 200, 300, 500, 1000, 2000]
#: What runs, and its alignment after some iterations.
RACE = {
    "GD, learning rate 1": (
        {"solver": "gd", "learning_rate_init": 1.0},
        {100: 0.75, 500: 0.91, 2000: 0.96},
    ),
    "GD, learning rate 10": (
        {"solver": "gd", "learning_rate_init": 10.0},
        {100: 0.94, 500: 0.97, 2000: 0.98},
    ),
    "normalised GD, 0.1": (
        {"solver": "ngd", "learning_rate_init": 0.1},
        {100: 0.947, 500: 0.996, 2000: 0.9985},
    ),
    "Polyak": (
        {"solver": "polyak"},
        {36: 0.998, 100: 0.9997, 300: 0.99996},
    ),
}


def measure(trials, seed):
    data = make_attention_instances(
        trials, N_SAMPLES, N_TOKENS, N_FEATURES, gap=0.1, random_state=seed
    )
    rows, alignments = [], {}
    for name, (parameters, references) in RACE.items():
        trajectory = train_attention(
            data.X,
            data.y,
            data.head,
            data.query,
            attention_init="zero",
            max_iter=ITERATIONS[-1],
            record=ITERATIONS,
            **parameters,
        )
        svms = attention_svm(data.X, trajectory.selected, data.query, tol=1e-9)
        alignments[name] = trajectory.alignment_to(directions_of(svms))
        rows += [
            Row(
                f"{name}, {iteration} iterations",
                alignments[name][ITERATIONS.index(iteration)].mean(),
                reference,
                "re-run",
            )
            for iteration, reference in references.items()
        ]
    return [Table("Alignment with the attention SVM, mean", rows, ".5f")], alignments


def draw(figure, alignments):
    from skattn.inspection import MarginPathDisplay

    figure.set_size_inches(7, 4.5)
    axes = figure.subplots()
    MarginPathDisplay.from_arrays(ITERATIONS, alignments, ax=axes, yscale="log")


def main(arguments=None):
    run(__doc__, measure, draw, trials=30, arguments=arguments)


if __name__ == "__main__":
    main()
