"""Whether the tokens that an explanation names are those that decide."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils._param_validation import Interval, validate_params

from skattn._fitting import local_generator
from skattn.estimators._queries import query_rows
from skattn.inspection._attention_step import AttentionStep
from skattn.inspection._samples import Samples, is_table
from skattn.selection._rules import keep_top
from skattn.tokens import check_tokens
from skattn.tokens._selection import owners

_SHARES = np.linspace(0, 1, 11)


@dataclass(frozen=True)
class FaithfulnessCurve:
    """Scores as tokens are deleted, those that are named first and random ones.

    Attributes
    ----------
    deleted : ndarray of shape (n_points,)
        How much of each sample is deleted, rising.

    unit : {"share", "count"}
        Whether `deleted` are shares of the tokens of a sample, or numbers of tokens.

    scores : ndarray of shape (n_points,)
        Scores when the tokens that are named first are deleted.

    random_scores : ndarray of shape (n_repeats, n_points)
        Scores when as many are deleted at random.

    score_name : str
        What the scores are.
    """

    deleted: np.ndarray
    unit: str
    scores: np.ndarray
    random_scores: np.ndarray
    score_name: str

    @property
    def random_mean(self):
        """Mean score over the random deletions, of shape (n_points,)."""
        return self.random_scores.mean(axis=0)

    @property
    def random_std(self):
        """Standard deviation over the random deletions, of shape (n_points,)."""
        return self.random_scores.std(axis=0)

    @property
    def areas(self):
        """Area between the curve and each random deletion, of shape (n_repeats,).

        Divided by the width of the curve: the mean lead of random deletion in score.
        """
        lead = self.random_scores - self.scores
        if len(self.deleted) == 1:
            return lead[:, 0]
        width = self.deleted[-1] - self.deleted[0]
        return np.trapezoid(lead, self.deleted, axis=1) / width

    @property
    def area(self):
        """Mean of `areas`: positive if the tokens that are named decide."""
        return float(self.areas.mean())

    def to_frame(self):
        """Return a pandas dataframe with one row a point."""
        import pandas as pd

        columns = {
            "score": self.scores,
            "random_mean": self.random_mean,
            "random_std": self.random_std,
        }
        return pd.DataFrame(columns, index=pd.Index(self.deleted, name=self.unit))


@validate_params(
    {"n_repeats": [Interval(Integral, 1, None, closed="left")]},
    prefer_skip_nested_validation=True,
)
def faithfulness(
    estimator,
    X,
    y=None,
    *,
    order="weights",
    shares=None,
    n_deleted=None,
    scoring=None,
    n_repeats=10,
    head=None,
    sample_weight=None,
    query=None,
    random_state=None,
):
    """Delete the tokens that decide, and see whether the decision falls.

    If attention says what decides, then the score falls faster when the tokens with
    most attention are deleted than when as many are deleted at random. Tokens are
    ranked once, on complete samples, and deleted in that order from every sample; at
    least one stays. The others keep their positions, and attention spreads over them.

    Parameters
    ----------
    estimator : fitted estimator
        An estimator of attention, or a pipeline or search that ends with one. Tokens
        are deleted from what reaches the last step: those that it attends to.

    X : any form that the estimator reads, other than a table of tokens
        The samples, best held out. Of a table, :class:`skattn.FeatureTokenizer` as a
        step of the pipeline makes tokens that can be deleted.

    y : array-like of shape (n_samples,), default=None
        Labels. None takes the labels that are predicted for complete samples: scores
        then say how far the predictions stay the same.

    order : {"weights", "contributions"} or array-like, default="weights"
        What ranks the tokens of a sample:

        - ``"weights"``: attention weights;
        - ``"contributions"``: what a token contributes to the class that is predicted
          for the complete sample, less its mean contribution to the other classes;
        - an array of shape (n_samples, n_positions), or a list of (n_positions_i,)
          arrays: any number a token, the largest deleted first. Positions are those of
          the samples that reach the last step; entries at absent tokens are ignored.

    shares : array-like of shape (n_points,), default=None
        Rising shares of the tokens of each sample to delete, between 0 and 1, rounded
        to whole tokens. By default 0, 0.1, ..., 1, unless `n_deleted` is given.

    n_deleted : array-like of int of shape (n_points,), default=None
        Rising numbers of tokens to delete of each sample, instead of shares. A sample
        with fewer keeps one.

    scoring : str or callable, default=None
        What to score: None takes ``estimator.score``, which is accuracy;
        ``"probability"`` the mean probability of the class that is predicted for the
        complete sample; others as everywhere in scikit-learn.

    n_repeats : int, default=10
        How often tokens are deleted at random.

    head : int, default=None
        Whose weights rank tokens, of several heads; None takes their mean.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights for scoring.

    query : array-like of shape (n_samples, n_query_features), default=None
        One query a sample, for ``query="given"``, instead of those that `X` carries.

    random_state : int, RandomState instance or None, default=None
        Source of the random deletions.

    Returns
    -------
    curve : FaithfulnessCurve
        Scores, and the area between them and those of random deletion.

    Raises
    ------
    TypeError
        If `estimator` has no attention.

    ValueError
        If samples reach the last step as a table, an option is out of range, or lengths
        disagree.

    See Also
    --------
    FaithfulnessDisplay : Draws the curves.
    token_permutation_importance : Exchanges tokens or features between samples.

    Notes
    -----
    With ``query="first"``, ``"last"`` or a position, the token that asks is never
    deleted: another one would ask another question. With ``query="mean"`` the mean is
    that of the tokens that are left.

    A model never saw such samples in training, and part of a fall may be due to that;
    random deletion is the yardstick since it makes samples as unusual.

    References
    ----------
    Samek et al., "Evaluating the Visualization of What a Deep Neural Network Has
    Learned", IEEE TNNLS 28(11), 2017, which deletes regions of images.

    Examples
    --------
    >>> from skattn import TokenSVM
    >>> from skattn.datasets import make_token_selection
    >>> from skattn.inspection import faithfulness
    >>> X, y, _ = make_token_selection(n_samples=200, random_state=0)
    >>> model = TokenSVM().fit(X, y)
    >>> curve = faithfulness(model, X, y, n_deleted=[0, 1, 2], random_state=0)
    >>> bool(curve.scores[0] > 0.9 and curve.scores[1] < 0.7)
    True
    >>> bool(curve.area > 0.2)
    True
    """
    step = AttentionStep.of(estimator, X, query)
    # The estimator itself says what it cannot read, and whether queries are any use.
    step.call("attention_weights")
    if is_table(step.X):
        raise ValueError(
            "The columns of a table cannot be deleted. Put FeatureTokenizer before the "
            "estimator, in make_pipeline(FeatureTokenizer(), ...), and fit again: then "
            "columns are tokens that can be absent."
        )
    if query is not None:
        step = AttentionStep(step.estimator, check_tokens(step.X, query=query), None)
    samples = Samples.read(step.X)
    tokens = samples.tokens
    check_consistent_length(tokens, y, sample_weight)
    unit, deleted = _read_deleted(shares, n_deleted)
    importance = _read_order(order, step, tokens, head)
    score_name, score = _read_scoring(scoring, step, y, sample_weight)
    rng = local_generator(random_state)

    spared = _tokens_that_ask(step.estimator, tokens)
    numbers = [_numbers_to_delete(amount, unit, tokens.lengths) for amount in deleted]
    of_complete = score(step.X)

    def scores_of_deletion(importance):
        importance = np.where(spared, -np.inf, importance)
        return [
            score(samples.without(_top_tokens(importance, tokens, number)))
            if number.any()
            else of_complete
            for number in numbers
        ]

    return FaithfulnessCurve(
        deleted=deleted,
        unit=unit,
        scores=np.array(scores_of_deletion(importance)),
        random_scores=np.array(
            [
                scores_of_deletion(rng.random_sample(tokens.n_tokens))
                for _ in range(n_repeats)
            ]
        ),
        score_name=score_name,
    )


def _read_deleted(shares, n_deleted):
    """Return the unit, and how much to delete at each point."""
    if shares is not None and n_deleted is not None:
        raise ValueError("At most one of shares and n_deleted can be given; got both.")
    if n_deleted is not None:
        name, unit, high = "n_deleted", "count", np.inf
        deleted = check_array(n_deleted, ensure_2d=False, dtype=None, input_name=name)
        if deleted.dtype.kind not in "iu":
            raise ValueError(f"n_deleted must hold integers; got {n_deleted!r}.")
    else:
        name, unit, high = "shares", "share", 1.0
        deleted = check_array(
            _SHARES if shares is None else shares,
            ensure_2d=False,
            dtype=np.float64,
            input_name=name,
        )
    if deleted.ndim != 1 or (np.diff(deleted) <= 0).any():
        raise ValueError(f"{name} must be a list of rising numbers; got {deleted}.")
    if deleted[0] < 0 or deleted[-1] > high:
        raise ValueError(
            f"{name} must be at least 0{' and at most 1' if high == 1 else ''}; got "
            f"{deleted}."
        )
    return unit, deleted


def _numbers_to_delete(amount, unit, lengths):
    """Return how many tokens to delete of each sample."""
    if unit == "share":
        # Halves go up, and so do those that rounding has made less.
        amount = np.floor(amount * lengths + 0.5 + 1e-9).astype(np.int64)
    return np.minimum(amount, lengths - 1)


def _top_tokens(importance, tokens, numbers):
    return keep_top(importance, tokens.offsets, numbers[owners(tokens)])


def _tokens_that_ask(estimator, tokens):
    """Return a mask of the tokens that are the query of their sample."""
    mask = np.zeros(tokens.n_tokens, dtype=bool)
    rows = query_rows(getattr(estimator, "query", "prompt"), tokens)
    if rows is not None:
        mask[rows] = True
    return mask


def _read_order(order, step, tokens, head):
    """Return a number a real token: those with the largest are deleted first."""
    by_weights = isinstance(order, str) and order == "weights"
    if head is not None and not by_weights:
        raise ValueError("head chooses among weights: it needs order='weights'.")
    if by_weights:
        rows = step.weights(head)
    elif isinstance(order, str) and order == "contributions":
        rows = _lead_of_predicted(step.contributions(), step.predicted())
    elif isinstance(order, str) or not hasattr(order, "__len__"):
        raise ValueError(
            "order must be 'weights', 'contributions' or one number a token, got "
            f"{order!r}."
        )
    else:
        rows = [np.asarray(row, dtype=np.float64) for row in order]
        _check_rows(rows, tokens)
    positions = np.split(tokens.positions, tokens.offsets[1:-1])
    importance = np.concatenate(
        [row[present] for row, present in zip(rows, positions, strict=True)]
    )
    finite = np.isfinite(importance)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"order is NaN or infinite at token {tokens.positions[row]} of sample "
            f"{owners(tokens)[row]}, which is not absent."
        )
    return importance


def _lead_of_predicted(contributions, predicted):
    """Return the contributions to one class less the mean of those to the others."""
    return [
        (of_class[:, label] - of_class.mean(axis=1))
        for of_class, label in zip(contributions, predicted, strict=True)
    ]


def _check_rows(rows, tokens):
    if len(rows) != len(tokens):
        raise ValueError(
            f"order has {len(rows)} samples, but X has {len(tokens)} samples."
        )
    for sample, (row, length) in enumerate(zip(rows, tokens.n_positions, strict=True)):
        if row.shape != (length,):
            raise ValueError(
                f"order[{sample}] has shape {row.shape}, but sample {sample} has "
                f"{length} positions where the estimator attends to it."
            )


def _read_scoring(scoring, step, y, sample_weight):
    """Return the name of the score, and a function of samples that scores them."""
    estimator = step.estimator
    if isinstance(scoring, str) and scoring == "probability":
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                "scoring='probability' needs predict_proba, which this "
                f"{type(estimator).__name__} does not have. Use a logistic head, or "
                "another scoring."
            )
        predicted = step.predicted()

        def probability(X):
            of_class = estimator.predict_proba(X)[np.arange(len(predicted)), predicted]
            return np.average(of_class, weights=sample_weight)

        return "probability of the predicted class", probability

    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            "scoring must be None, a str or a callable: a curve is of one score; got "
            f"{scoring!r}."
        )
    scorer = check_scoring(estimator, scoring=scoring)
    labels = step.call("predict") if y is None else y
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}

    def scored(X):
        return scorer(estimator, X, labels, **weights)

    if scoring is None:
        return ("accuracy" if is_classifier(estimator) else "score"), scored
    return (scoring if isinstance(scoring, str) else "score"), scored
