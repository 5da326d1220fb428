"""Time series: who speaks, and which frames of the utterance give it away.

The Japanese vowels come with a division into training and test series. The script
classifies the test series by attention over frames, says where in the utterance the
attention is, and then lets an SVM see nothing but the few frames with most of it.

    python examples/vowels.py
"""

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from skattn import AttentionClassifier, TokenScaler, TokenSelector
from skattn.datasets import load_japanese_vowels

N_FRAMES_KEPT = 3
N_PARTS = 4


def main():
    X_train, y_train = load_japanese_vowels(split="train", return_X_y=True)
    X_test, y_test = load_japanese_vowels(split="test", return_X_y=True)

    model = make_pipeline(TokenScaler(), AttentionClassifier(random_state=0))
    model.fit(X_train, y_train)
    print(f"All frames: accuracy {model.score(X_test, y_test):.3f} on the test series.")

    weights = model[-1].attention_weights(model[:-1].transform(X_test))
    shares = share_by_part(weights)
    print(f"Share of the attention by {N_PARTS} equal parts of the utterance:")
    for part, share in enumerate(shares, start=1):
        print(f"  part {part}: {share:.2f}")

    few_frames = make_pipeline(
        TokenScaler(),
        TokenSelector(
            AttentionClassifier(random_state=0),
            n_tokens=N_FRAMES_KEPT,
            output="concat",
        ),
        SVC(),
    )
    few_frames.fit(X_train, y_train)
    print(
        f"An SVM on {N_FRAMES_KEPT} frames of each series: accuracy "
        f"{few_frames.score(X_test, y_test):.3f}."
    )
    kept = few_frames[1].get_support(few_frames[:1].transform(X_test[:1]))[0]
    print(f"Frames kept of the first, of {len(kept)}: {np.flatnonzero(kept).tolist()}.")


def share_by_part(weights):
    """Return the mean share of the attention in each part of the series."""
    shares = np.zeros((len(weights), N_PARTS))
    for series, given in zip(shares, weights, strict=True):
        part = np.arange(len(given)) * N_PARTS // len(given)
        np.add.at(series, part, given)
    return shares.mean(axis=0)


if __name__ == "__main__":
    main()
