"""Token groups: which frames of an utterance a gated self-attention holds together.

Gated self-attention divides the space of tokens by hyperplanes: frames on the same side
of all of them see, and are seen by, the same frames. The script fits it to the Japanese
vowels, in which a speaker goes from one vowel to another, and says which frames of the
test series share their side: those close in time, and those of the same part of the
utterance, although the model is told nothing about time.

    python examples/token_groups.py
"""

import numpy as np

from skattn import ConvexAttentionClassifier, TokenScaler
from skattn.datasets import load_japanese_vowels

N_GATES = 4
N_PARTS = 4
N_GROUPS_SHOWN = 6
LAGS = (1, 2, 4, 8)


def main():
    X_train, y_train = load_japanese_vowels(split="train", return_X_y=True)
    X_test, y_test = load_japanese_vowels(split="test", return_X_y=True)
    scaler = TokenScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

    model = ConvexAttentionClassifier(n_gates=N_GATES, beta=1.0, random_state=0)
    model.fit(X_train, y_train)
    print(
        f"{model.rank_} heads behind {model.n_gates_} gates, accuracy "
        f"{model.score(X_test, y_test):.3f}, duality gap {model.duality_gap_:.1e}."
    )

    # Gates whose matrix is zero take no part in the decision.
    used = np.flatnonzero([len(heads.first) for heads in model.heads_])
    signs = np.concatenate([used, used + model.n_gates_])
    groups = [groups[:, signs] for groups in model.token_groups(X_test)]
    print(f"{len(used)} gates are in use: {len(signs)} signs a frame.")

    print("\nSigns that two frames of a series share:")
    for lag in LAGS:
        print(f"  {lag} apart: {share_at_lag(groups, lag):.2f}")
    everything = np.concatenate(groups)
    print(f"  of any two series: {chance(everything):.2f}")

    parts = [np.arange(len(own)) * N_PARTS // len(own) for own in groups]
    print(f"\nSigns that frames of one series share, by {N_PARTS} parts of it:")
    for row in share_by_parts(groups, parts):
        print("  " + "  ".join(f"{share:.2f}" for share in row))

    patterns, which, sizes = np.unique(
        everything, axis=0, return_inverse=True, return_counts=True
    )
    part = np.concatenate(parts)
    print(
        f"\n{len(patterns)} of {2 ** len(signs)} patterns occur among "
        f"{len(everything)} frames; the largest groups:"
    )
    print("  pattern    frames   share in parts 1 to 4 of the series")
    for group in np.argsort(-sizes)[:N_GROUPS_SHOWN]:
        inside = np.bincount(part[which == group], minlength=N_PARTS) / sizes[group]
        pattern = "".join(map(str, patterns[group]))
        shares = "  ".join(f"{share:.2f}" for share in inside)
        print(f"  {pattern:10} {sizes[group]:6}   {shares}")


def share_at_lag(groups, lag):
    return np.mean(
        np.concatenate([(own[lag:] == own[:-lag]).ravel() for own in groups])
    )


def chance(signs):
    """Return the share of equal signs of two frames drawn from all."""
    positive = signs.mean(axis=0)
    return np.mean(positive**2 + (1 - positive) ** 2)


def share_by_parts(groups, parts):
    """Return the shares of equal signs between frames of two parts of a series."""
    equal, pairs = np.zeros((2, N_PARTS, N_PARTS))
    for own, part in zip(groups, parts, strict=True):
        same = (own[:, None] == own[None, :]).mean(axis=2)
        belongs = np.eye(N_PARTS)[part]
        different = 1 - np.eye(len(own))
        equal += belongs.T @ (same * different) @ belongs
        pairs += belongs.T @ different @ belongs
    return equal / pairs


if __name__ == "__main__":
    main()
