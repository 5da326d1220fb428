"""Theory: gradient descent on attention approaches a support-vector machine.

On random tokens and queries, and with the head fixed, the script trains attention by
normalised gradient descent. At some steps it solves the SVM of the tokens that the
attention selects just then, and prints how well the two directions agree: W approaches
the SVM in the Frobenius norm, keys and queries that in the nuclear norm. Then it goes
the other way: it starts the training at the solution of the SVM.

    python examples/from_gradient_descent_to_svm.py

The setting is that of figure 7 of arXiv 2308.16898.
"""

import numpy as np

from skattn import AttentionClassifier, Tokens, TokenSVM
from skattn.theory import alignment, attention_svm, is_locally_optimal

N_SAMPLES, N_TOKENS, N_FEATURES = 6, 8, 10
STEPS = [100, 300, 1000, 2000]
NORM_OF = {"W": "fro", "KQ": "nuc"}


def main():
    X, y, head = random_instance(np.random.default_rng(0))
    for parameterization in ("W", "KQ"):
        watch_training(X, y, head, parameterization)
    start_at_solution(X, y, head)


def random_instance(rng):
    """Return tokens with their queries, labels, and a head, all on the unit sphere."""
    tokens = on_sphere(rng, N_SAMPLES, N_TOKENS, N_FEATURES)
    query = on_sphere(rng, N_SAMPLES, N_FEATURES)
    y = rng.permutation(np.arange(N_SAMPLES) % 2)
    head = on_sphere(rng, N_FEATURES)
    return Tokens.from_padded(tokens, query=query), y, head


def on_sphere(rng, *shape):
    vectors = rng.standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def gradient_descent(parameterization="W", **parameters):
    """Return attention that trains as in the theory, without penalty or stopping."""
    return AttentionClassifier(
        query="given",
        parameterization=parameterization,
        solver="ngd",
        learning_rate_init=0.1,
        alpha=0,
        tol=0,
        freeze_head=True,
        random_state=0,
        **parameters,
    )


def watch_training(X, y, head, parameterization):
    norm = NORM_OF[parameterization]
    print(f"Training {parameterization}, beside the SVM in the norm {norm!r}:")
    print("  steps    loss  alignment  locally optimal  selected tokens")
    model = gradient_descent(parameterization, warm_start=True)
    steps_done = 0
    for steps in STEPS:
        model.set_params(max_iter=steps - steps_done)
        model.fit(X, y, coef_init=head)
        steps_done = steps
        selected = model.selected_tokens(X)
        svm = attention_svm(X, selected, norm=norm)
        print(
            f"  {steps:5}  {model.loss_curve_[-1]:.4f}"
            f"  {alignment(model.attention_coef_, svm.coef):9.4f}"
            f"  {is_locally_optimal(X, y, head, selected, norm=norm)!s:>15}"
            f"  {selected.tolist()}"
        )


def start_at_solution(X, y, head):
    trained = gradient_descent(max_iter=STEPS[-1]).fit(X, y, coef_init=head)
    selected = trained.selected_tokens(X)
    svm = TokenSVM(C=np.inf, query="given", tokens="given")
    svm.fit(X, y, selected=selected)

    continued = gradient_descent(max_iter=100)
    size = np.linalg.norm(trained.attention_coef_)
    direction = svm.attention_coef_ / np.linalg.norm(svm.attention_coef_)
    continued.fit(X, y, coef_init=head, attention_coef_init=size * direction)
    is_same = np.array_equal(continued.selected_tokens(X), selected)
    print("From the solution of the SVM, at the length that training had reached:")
    print(f"  loss of {STEPS[-1]} steps of training  {trained.loss_curve_[-1]:.10f}")
    print(f"  loss at the start              {continued.loss_curve_[0]:.10f}")
    print(f"  alignment after 100 steps      {alignment_of(continued, svm):.6f}")
    print(f"  selected tokens stay           {is_same}")


def alignment_of(one, other):
    return alignment(one.attention_coef_, other.attention_coef_)


if __name__ == "__main__":
    main()
