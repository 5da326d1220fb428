"""Which tokens decided."""

from typing import NamedTuple

import numpy as np


class Explanation(NamedTuple):
    """The decision about one sample, taken apart by tokens."""

    #: The predicted label.
    predicted: object
    #: Position of each real token, and its weight, of shape (n_tokens,).
    positions: np.ndarray
    weights: np.ndarray
    #: What each token adds to the score of the predicted class, of shape (n_tokens,).
    contributions: np.ndarray
    #: What the classifier adds whatever the tokens are.
    intercept: float

    @property
    def score(self):
        """Score of the predicted class."""
        return self.contributions.sum() + self.intercept

    def strongest(self, n_tokens):
        """Return rows of the tokens with the largest contributions by magnitude."""
        order = np.argsort(-np.abs(self.contributions), kind="stable")
        return order[:n_tokens]


def explain(pipeline, sample):
    """Take a decision apart.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted, with an attention estimator of one head at the end.

    sample : Tokens of one sample
        What to classify.

    Returns
    -------
    explanation : Explanation
        In favour of the predicted class.
    """
    tokens = pipeline[:-1].transform(sample)
    attention = pipeline[-1]
    classes = attention.classes_
    predicted = attention.predict(tokens)[0]
    contributions = attention.token_contributions(tokens)[0]
    intercept = attention.intercept_
    if len(classes) == 2:
        # They speak for the second class; against it is for the first.
        sign = 1.0 if predicted == classes[1] else -1.0
        contributions, intercept = sign * contributions, sign * intercept[0]
    else:
        column = int(np.flatnonzero(classes == predicted)[0])
        contributions, intercept = contributions[:, column], intercept[column]
    return Explanation(
        predicted,
        tokens.positions,
        attention.attention_weights(tokens)[0][tokens.positions],
        contributions[tokens.positions],
        float(intercept),
    )


class Panel(NamedTuple):
    """The attention over several samples, to be drawn."""

    #: What is shown.
    title: str
    #: Weights of shape (n_samples, n_positions), NaN where there is no token.
    weights: np.ndarray
    #: One label a sample.
    row_labels: list


def attention_panel(title, pipeline, X, y, n_samples=12):
    """Collect the attention over samples spread evenly over X.

    Parameters
    ----------
    title : str
        What is shown.

    pipeline : Pipeline
        Fitted, with an attention estimator of one head at the end.

    X : Tokens
        The samples.

    y : ndarray of shape (n_samples,)
        Their labels.

    n_samples : int, default=12
        How many to show, at most.

    Returns
    -------
    panel : Panel
        Rows in the order of X.
    """
    rows = np.linspace(0, len(X) - 1, min(n_samples, len(X))).astype(int)
    shown = X[rows]
    scaled = pipeline[:-1].transform(shown)
    weights = np.full((len(shown), shown.n_positions.max()), np.nan)
    positions = np.split(shown.positions, shown.offsets[1:-1])
    attention = pipeline[-1].attention_weights(scaled)
    for row, (given, real) in enumerate(zip(attention, positions, strict=True)):
        weights[row, real] = given[real]
    labels = [
        f"{label}" if label == said else f"{label}, taken for {said}"
        for label, said in zip(y[rows], pipeline.predict(shown), strict=True)
    ]
    return Panel(title, weights, labels)
