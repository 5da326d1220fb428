"""The step of an estimator that attends, and what it says about each token."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted


class AttentionStep(NamedTuple):
    """A fitted estimator of attention, and the samples as they reach it."""

    estimator: object
    X: object
    query: np.ndarray | None

    @classmethod
    def of(cls, estimator, X, query=None):
        """Find the estimator of attention inside of searches and pipelines.

        Parameters
        ----------
        estimator : estimator instance
            An estimator of attention, a pipeline that ends with one, or a search with
            one of these as its best estimator; fitted.

        X : any form that the estimator reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample.

        Returns
        -------
        step : AttentionStep
            With `X` transformed by the steps before.

        Raises
        ------
        TypeError
            If the last step has no attention.
        """
        check_is_fitted(estimator)
        while not hasattr(estimator, "attention_weights"):
            if hasattr(estimator, "best_estimator_"):
                estimator = estimator.best_estimator_
            elif hasattr(estimator, "steps"):
                if len(estimator.steps) > 1:
                    X = estimator[:-1].transform(X)
                estimator = estimator[-1]
            else:
                raise TypeError(
                    "estimator must be an estimator of attention, such as "
                    "AttentionClassifier, or a pipeline or a search that ends with "
                    f"one; {estimator!r} has no attention_weights."
                )
        return cls(estimator, X, query)

    def call(self, method):
        """Call a method of the estimator on the samples."""
        queries = {} if self.query is None else {"query": self.query}
        return getattr(self.estimator, method)(self.X, **queries)

    def predicted(self):
        """Return the index in ``classes_`` of the prediction for each sample."""
        return np.searchsorted(self.estimator.classes_, self.call("predict"))

    def weights(self, head=None):
        """Return the attention weight of each token.

        Parameters
        ----------
        head : int, default=None
            Which attention of several; None takes the mean of all.

        Returns
        -------
        weights : list of ndarray of shape (n_positions_i,)
            NaN at absent tokens.
        """
        return self._blank_absent(rows_of_head(self.call("attention_weights"), head))

    def contributions(self):
        """Return what each token contributes to each class.

        Returns
        -------
        contributions : list of ndarray of shape (n_positions_i, n_classes)
            NaN at absent tokens. Of two classes, the first gets the negative of what
            the second gets.
        """
        if not hasattr(self.estimator, "classes_"):
            raise TypeError(
                "Contributions are to classes, which this "
                f"{type(self.estimator).__name__} does not have."
            )
        contributions = list(self.call("token_contributions"))
        if len(self.estimator.classes_) == 2:
            contributions = [np.stack([-row, row], axis=1) for row in contributions]
        return self._blank_absent(contributions)

    def _blank_absent(self, rows):
        scores = self.call("token_scores")
        blank = []
        for row, score in zip(rows, scores, strict=True):
            present = np.isfinite(np.atleast_2d(score)[0])
            row = np.array(row, dtype=np.float64)
            row[~present] = np.nan
            blank.append(row)
        return blank


def rows_of_head(weights, head=None):
    """Return one row of weights a sample.

    Parameters
    ----------
    weights : sequence of array-like of shape (n_positions_i,) or (n_heads, \
            n_positions_i)
        One entry a sample.

    head : int, default=None
        Which attention of several; None takes the mean of all.

    Returns
    -------
    rows : list of ndarray of shape (n_positions_i,)
        One entry a sample.
    """
    if not isinstance(weights, list | tuple):
        weights = np.asarray(weights)
    samples = [np.asarray(sample, dtype=np.float64) for sample in weights]
    shapes = {sample.shape[:-1] for sample in samples}
    if len(shapes) != 1 or samples[0].ndim not in (1, 2):
        raise ValueError(
            "weights must have one row of weights a sample, or one a sample and head, "
            "with the tokens last and equally many heads in all samples."
        )
    samples = [np.atleast_2d(sample) for sample in samples]
    n_heads = len(samples[0])
    if head is None:
        return [sample.mean(axis=0) for sample in samples]
    if not isinstance(head, Integral):
        raise TypeError(f"head must be an integer or None, got {head!r}.")
    if not 0 <= head < n_heads:
        raise ValueError(
            f"head must be at least 0 and below n_heads={n_heads}, got {head}."
        )
    return [sample[head] for sample in samples]
