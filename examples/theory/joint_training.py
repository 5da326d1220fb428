"""Joint training: prompt and head go each to an SVM of their own.

Theorems and figure on joint optimisation of arXiv 2306.13596, "Max-Margin Token
Selection in Attention Mechanism". A prompt p and a linear head v are trained together
by normalised gradient descent, each by itself. The head tends to the max-margin
classifier of the selected tokens, and the prompt to the attention SVM that asks for
margin 1 in the samples that are support vectors of the head, and only for margin 0 in
the others: the relaxed SVM.

First come the paper's example and its data, three samples in the plane. In the tight
case all are support vectors and p tends to (4/3, 1/3); in the loose one the third is
not, and p tends to (1, 0) instead of (5/4, 1/4).

Then random instances. There what the samples that are no support vectors ask for
depends on how fast the head grows beside the prompt: the theorem is on heads that grow
first. With equal steps p stays near the SVM that asks for margin 1 everywhere, with
steps of the head 30 times as long it is at the relaxed one.

    python examples/theory/joint_training.py --plot joint_training.svg

The 30 random instances of the default take seconds. The theorems are about limits, and
1 is the limit that the table compares with.
"""

import numpy as np
from _instances import directions_of
from _report import Row, Table, run

from skattn.datasets import make_attention_instances
from skattn.theory import alignment, attention_svm, margins, train_attention

#: Labels of the example; its selected tokens, others being at the origin.
LABELS = [1, -1, 1]
EXAMPLE = {
    "tight": [[1.0, 1.0], [1.0, -1.0], [0.5, 1.0]],
    "loose": [[1.0, 1.0], [1.0, -1.0], [0.5, 1.5]],
}
#: What p tends to by the theorem; v tends to (0, 1).
LIMITS = {"tight": [4 / 3, 1 / 3], "loose": [1.0, 0.0]}
#: Where the paper's figure starts, on the wrong side.
START = {"head": [-1.0, 0.0], "attention_init": [0.0, -1.0]}

N_SAMPLES, N_TOKENS, N_FEATURES = 8, 3, 20
ITERATIONS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 3000]
PROMPT_STEP = 0.1
HEAD_STEPS = [0.1, 1.0, 3.0]


def max_margin_heads(X, y, selected):
    """Return the max-margin classifiers of selected tokens, and their support vectors.

    The classifier through the origin is an attention SVM itself: that of ``y x`` beside
    a token at the origin.
    """
    tokens = np.take_along_axis(X, selected[..., None, None], axis=-2)
    signed = y[..., None, None] * tokens
    pairs = np.concatenate([signed, np.zeros_like(signed)], axis=-2)
    first = np.zeros_like(selected)
    heads = directions_of(attention_svm(pairs, first, tol=1e-9))
    smallest = margins(pairs, first, heads).min(axis=-1)
    return heads, smallest <= 1 + 1e-4


def train_example(tokens):
    """Train on the paper's example; return its solved SVMs and the trajectory."""
    X = np.stack([np.zeros((3, 2)), tokens], axis=1)
    selected = np.ones(3, dtype=int)
    heads, is_support = max_margin_heads(X[None], np.array([LABELS]), selected[None])
    relaxed = attention_svm(X, selected, margin=is_support[0])
    trajectory = train_attention(
        X,
        LABELS,
        train_head=True,
        learning_rate_init=PROMPT_STEP,
        max_iter=1000,
        record=50,
        directions={"relaxed SVM": relaxed.coef},
        **START,
    )
    return relaxed.coef, heads[0], trajectory


def train_random(data, head_step):
    """Return alignments of prompt and head at the records, by what with."""
    trajectory = train_attention(
        data.X,
        data.y,
        train_head=True,
        learning_rate_init=PROMPT_STEP,
        head_learning_rate_init=head_step,
        attention_init="zero",
        max_iter=ITERATIONS[-1],
        record=ITERATIONS,
    )
    selected = trajectory.selected
    heads, is_support = max_margin_heads(data.X, data.y, selected)
    relaxed = attention_svm(data.X, selected, margin=is_support)
    plain = attention_svm(data.X, selected)
    return {
        "p to relaxed SVM": trajectory.alignment_to(directions_of(relaxed)),
        "p to plain SVM": trajectory.alignment_to(directions_of(plain)),
        "v to max margin": trajectory.alignment_to(heads, of="head"),
    }


def measure(trials, seed):
    tables, results = [], {}
    for case, tokens in EXAMPLE.items():
        p, v, trajectory = train_example(tokens)
        limit = LIMITS[case]
        rows = [Row(f"relaxed SVM, p[{i}]", p[i], limit[i], "theory") for i in range(2)]
        rows += [Row(f"max margin, v[{i}]", v[i], i, "theory") for i in range(2)]
        reached = {
            "p to relaxed SVM": alignment(trajectory.attention_coef, p),
            "v to max margin": alignment(trajectory.head, v),
        }
        rows += [Row(name, value, 1, "theory") for name, value in reached.items()]
        tables.append(Table(f"Example, {case}: solutions, and alignment", rows, ".5f"))
        results[case] = trajectory

    data = make_attention_instances(
        trials, N_SAMPLES, N_TOKENS, N_FEATURES, random_state=seed
    )
    rows = []
    for head_step in HEAD_STEPS:
        results[head_step] = train_random(data, head_step)
        limits = {"v to max margin": 1.0}
        if head_step == HEAD_STEPS[-1]:
            # The theorem is on heads that grow faster than the prompt.
            limits["p to relaxed SVM"] = 1.0
        rows += [
            Row(
                f"steps of the head {head_step}, {name}",
                alignments[-1].mean(),
                limits.get(name),
                "theory",
            )
            for name, alignments in results[head_step].items()
        ]
    tables.append(
        Table(f"Random instances, steps of the prompt {PROMPT_STEP}, mean", rows)
    )
    return tables, results


def draw(figure, results):
    from skattn.inspection import MarginPathDisplay, TokenMarginDisplay

    figure.set_size_inches(13, 9)
    panels = figure.subplots(2, 2)
    for axes, (case, tokens) in zip(panels[0], EXAMPLE.items(), strict=True):
        TokenMarginDisplay.from_tokens(
            [np.array([[0.0, 0.0], token]) for token in tokens],
            [1, 1, 1],
            coef=LIMITS[case],
            paths=results[case].coefs,
            ax=axes,
        )
        axes.set_title(f"{case}: prompt and relaxed SVM")
    for axes, head_step in zip(panels[1], HEAD_STEPS[::2], strict=True):
        MarginPathDisplay.from_arrays(
            ITERATIONS, results[head_step], ax=axes, yscale="log"
        )
        axes.set_title(f"random instances, steps of the head {head_step}")


def main(arguments=None):
    run(__doc__, measure, draw, trials=30, arguments=arguments)


if __name__ == "__main__":
    main()
