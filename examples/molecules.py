"""Bags: which shapes of a molecule make it smell of musk.

A molecule of MUSK1 is a bag of shapes, and its label belongs to the bag. The script
cross-validates attention beside the plain mean of the shapes, and shows for held-out
molecules how much each shape weighed and in favour of which class it spoke.

    python examples/molecules.py
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skattn import AttentionClassifier, TokenScaler
from skattn.datasets import load_musk1

N_SHAPES_SHOWN = 4


def mean_of_shapes(molecules):
    return np.array([shapes.mean(axis=0) for shapes in molecules])


def main():
    musk = load_musk1()
    molecules, is_musk = musk.data, musk.target
    attention = make_pipeline(TokenScaler(), AttentionClassifier(random_state=0))
    pooling = make_pipeline(
        FunctionTransformer(mean_of_shapes),
        StandardScaler(),
        LogisticRegression(max_iter=1000),
    )

    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
    print(f"{len(molecules)} molecules, accuracy in 5 folds:")
    for name, model in [("mean of shapes", pooling), ("attention", attention)]:
        accuracies = cross_val_score(model, molecules, is_musk, cv=folds)
        print(f"  {name:14}  {accuracies.mean():.3f} (std {accuracies.std():.3f})")

    train, held_out = next(folds.split(molecules, is_musk))
    attention.fit([molecules[i] for i in train], is_musk[train])
    for label, smell in enumerate(musk.target_names):
        of_class = held_out[is_musk[held_out] == label]
        richest = max(of_class, key=lambda i: len(molecules[i]))
        print(f"\nMolecule {richest}, not seen in training, {smell}:")
        explain(attention, molecules[richest], musk.target_names)


def explain(model, shapes, names):
    """Print what decided about one molecule."""
    classifier = model[-1]
    scaled = model[:-1].transform([shapes])
    weights = classifier.attention_weights(scaled)[0]
    contributions = classifier.token_contributions(scaled)[0]
    intercept = classifier.intercept_[0]
    score = classifier.decision_function(scaled)[0]

    print(f"  shape  weight  speaks for {names[1]} with")
    for shape in np.argsort(-np.abs(contributions))[:N_SHAPES_SHOWN]:
        print(f"  {shape:5}  {weights[shape]:6.3f}  {contributions[shape]:+.3f}")
    print(
        f"  All {len(shapes)} shapes {contributions.sum():+.3f} and the intercept "
        f"{intercept:+.3f} make {score:+.3f}: {names[int(score > 0)]}."
    )


if __name__ == "__main__":
    main()
