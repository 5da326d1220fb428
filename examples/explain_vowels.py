"""Explanations put to the test: which frames and coefficients tell a speaker.

A classifier of the Japanese vowels says how much attention each frame gets, and what
each contributes to the speaker that is predicted. The script deletes the frames that
are named first and sees whether predictions suffer more than from deletion at random;
then it exchanges coefficients, and frames at one position, between utterances.

    python examples/explain_vowels.py --plot vowels.png
"""

import argparse

import numpy as np
from sklearn.pipeline import make_pipeline

from skattn import AttentionClassifier, TokenScaler
from skattn.datasets import load_japanese_vowels
from skattn.inspection import (
    AttentionMapDisplay,
    FaithfulnessDisplay,
    faithfulness,
    token_permutation_importance,
)

N_SHOWN = 3
ORDERS = ("weights", "contributions")


def main(path=None):
    X_train, y_train = load_japanese_vowels(split="train", return_X_y=True)
    X_test, y_test = load_japanese_vowels(split="test", return_X_y=True)
    model = make_pipeline(TokenScaler(), AttentionClassifier(random_state=0))
    model.fit(X_train, y_train)
    print(f"Accuracy {model.score(X_test, y_test):.3f} on the test series.")

    curves = {
        order: faithfulness(model, X_test, y_test, order=order, random_state=0)
        for order in ORDERS
    }
    print("Accuracy with a share of the frames deleted:")
    print("  share  at random" + "".join(f"  by {order}" for order in ORDERS))
    by_weights = curves["weights"]
    for point, share in enumerate(by_weights.deleted):
        scores = "".join(
            f"  {curves[order].scores[point]:{len(order) + 3}.3f}" for order in ORDERS
        )
        print(f"  {share:5.1f}  {by_weights.random_mean[point]:9.3f}{scores}")
    for order in ORDERS:
        print(f"Area between the curves, by {order}: {curves[order].area:.3f}.")

    for by, name in (("feature", "coefficient"), ("position", "frame")):
        result = token_permutation_importance(
            model, X_test, y_test, by=by, random_state=0
        )
        print(f"Loss of accuracy when one {name} is exchanged between series:")
        for entry in np.argsort(-result.importances_mean)[:N_SHOWN]:
            mean, std = result.importances_mean[entry], result.importances_std[entry]
            print(f"  {name} {entry:2}: {mean:.3f} +- {std:.3f}")

    if path is not None:
        plot(model, X_test, y_test, curves, path)
        print(f"Wrote {path}.")


def plot(model, X, y, curves, path):
    """Draw the curves, a map of a series of each speaker, and one series."""
    from matplotlib.figure import Figure

    first = np.unique(y, return_index=True)[1]
    series = [X[index] for index in first]
    figure = Figure(figsize=(16, 5), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    FaithfulnessDisplay.from_curves(curves, ax=left)
    AttentionMapDisplay.from_estimator(
        model, series, values="contributions", sample_labels=y[first], ax=middle
    )
    AttentionMapDisplay.from_estimator(
        model, series[:1], values="contributions", kind="series", ax=right
    )
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", metavar="PATH", help="write a picture there")
    main(parser.parse_args().plot)
