"""Boolean functions: what labels alone do not tell, hints tell in one step.

The label of a sample is the AND of a few of its bits, which are hidden among others.

Without hints nearly all labels are equal: n of them are all 0 with probability
(1 - 2^-k)^n for k hidden bits. The script prints this probability beside the share that
it measures, and how many hidden bits attention finds when it is trained on labels.

With hints, the AND of each hidden pair of bits, a single gradient step from zero finds
all pairs, also where the labels are all equal, and also when one hint in ten is wrong.

    python examples/boolean_functions.py

The setting is that of arXiv 2505.19531.
"""

import numpy as np

from skattn import AttentionClassifier
from skattn.datasets import make_boolean_tokens

N_SAMPLES, N_BITS, N_RELEVANT = 1000, 20, 10
N_DRAWS = 10
LEARNING_RATE = 600.0


def main():
    show_constant_labels()
    train_on_labels()
    for function in ("and", "or", "noisy_and", "noisy_or"):
        train_on_hints(function)


def draw(seed, n_samples=N_SAMPLES, function="and", n_relevant=N_RELEVANT):
    return make_boolean_tokens(
        n_samples,
        N_BITS,
        n_relevant=n_relevant,
        function=function,
        return_X_y=False,
        random_state=seed,
    )


def is_constant(y):
    return y.min() == y.max()


def show_constant_labels(n_samples=200, n_draws=500):
    print(f"All of {n_samples} labels are equal:")
    print("  hidden bits  probability  measured")
    for n_relevant in (4, 6, 8, 10):
        probability = (1 - 2.0**-n_relevant) ** n_samples
        draws = (draw(seed, n_samples, "and", n_relevant) for seed in range(n_draws))
        measured = np.mean([is_constant(data.y) for data in draws])
        print(f"  {n_relevant:11}  {probability:11.3f}  {measured:8.3f}")


def train_on_labels():
    """Train attention as usual, and count the hidden bits among those it looks at."""
    n_found = []
    for seed in range(N_DRAWS):
        data = draw(seed)
        if is_constant(data.y):
            continue
        model = AttentionClassifier(class_weight="balanced", random_state=0)
        model.fit(data.X, data.y)
        weight_of_bit = model.attention_weights(data.X).mean(axis=0)
        looked_at = np.argsort(weight_of_bit)[-N_RELEVANT:]
        n_found.append(len(np.intersect1d(looked_at, data.support)))
    print(f"Training on {N_SAMPLES} labels, {N_RELEVANT} hidden bits of {N_BITS}:")
    print(f"  draws with both labels      {len(n_found)} of {N_DRAWS}")
    print(f"  hidden bits found, mean     {np.mean(n_found):.1f} of {N_RELEVANT}")
    print(f"  by chance                   {N_RELEVANT**2 / N_BITS:.1f}")
    print(
        f"  all found                   {np.sum(np.equal(n_found, N_RELEVANT))} draws"
    )


def train_on_hints(function):
    """Take one step of gradient descent on the hints, and read off the pairs."""
    has_all_pairs, hints_right = [], []
    for seed in range(N_DRAWS):
        data = draw(seed, 2 * N_SAMPLES, function)
        bits, new_bits = np.split(data.bits, 2)
        hints, new_hints = np.split(data.hints, 2)
        # The score of bit j in attention m; zero weights all bits alike.
        W = np.zeros((N_BITS, hints.shape[1]))
        W -= LEARNING_RATE * gradient(W, bits, hints)

        pairs = np.sort(np.argsort(W, axis=0)[-2:].T, axis=1)
        has_all_pairs.append(np.array_equal(pairs, np.sort(data.pairs, axis=1)))
        # The mean of two bits is 0, 1/2 or 1.
        threshold = 0.75 if function.endswith("and") else 0.25
        predicted = new_bits @ softmax(W) > threshold
        hints_right.append(np.mean(predicted == new_hints))
    print(f"One gradient step on {N_SAMPLES} samples with hints, {function}:")
    print(f"  all pairs found             {np.sum(has_all_pairs)} of {N_DRAWS} draws")
    print(f"  hints of new samples right  {np.mean(hints_right):.3f}")


def softmax(W):
    exponentials = np.exp(W - W.max(axis=0))
    return exponentials / exponentials.sum(axis=0)


def gradient(W, bits, hints):
    """Gradient of ``|bits softmax(W) - hints|^2 / (2 n_samples)``."""
    weights = softmax(W)
    output = bits @ weights
    error = (output - hints) / len(bits)
    return weights * (bits.T @ error - np.sum(output * error, axis=0))


if __name__ == "__main__":
    main()
