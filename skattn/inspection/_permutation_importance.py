"""Importance of tokens and features, by permutation."""

from numbers import Integral

import numpy as np
from sklearn.inspection import permutation_importance
from sklearn.metrics import check_scoring
from sklearn.utils import (
    Bunch,
    _safe_indexing,
    check_consistent_length,
    check_random_state,
)
from sklearn.utils._param_validation import (
    Interval,
    RealNotInt,
    StrOptions,
    validate_params,
)
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import _num_samples

from skattn._fitting import local_generator
from skattn.inspection._samples import Samples, is_table


@validate_params(
    {
        "by": [StrOptions({"position", "feature", "feature_within_position"})],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "sample_weight": ["array-like", None],
        "max_samples": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
        ],
    },
    prefer_skip_nested_validation=True,
)
def token_permutation_importance(
    estimator,
    X,
    y,
    *,
    by="position",
    scoring=None,
    n_repeats=5,
    sample_weight=None,
    n_jobs=None,
    random_state=None,
    max_samples=1.0,
):
    """Measure how much a score falls when tokens or features are permuted.

    The :func:`sklearn.inspection.permutation_importance` of sequences, which that
    function refuses. A baseline score is taken on `X`. Then what is tested is exchanged
    at random, which keeps its distribution and undoes its relation to the labels; the
    fall of the score is the importance.

    - ``"position"``: whole tokens at one position, among the samples that have a token
      there;
    - ``"feature"``: values of one feature, among all tokens of all samples;
    - ``"feature_within_position"``: values of one feature, among the tokens at the same
      position of all samples.

    Lengths, positions, absent tokens and queries stay as they are. Where only one
    sample has a token at a position there is nothing to exchange it with: it stays, and
    the importance of the position is 0. `n_exchanged` in the result tells such
    positions from those that do not matter.

    In a table each column is a token with one feature: every `by` permutes columns, and
    the result is that of scikit-learn.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator, pipeline or search that reads `X` and that `scoring` can score.

    X : any form that :func:`skattn.check_tokens` reads, or any table
        The samples, seen in training or held out. Given queries travel inside, as
        :meth:`skattn.Tokens.with_query`: scorers have no other way to pass them on.

    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or None
        Targets.

    by : {"position", "feature", "feature_within_position"}, default="position"
        What is exchanged. Permuting a feature among all tokens also undoes its relation
        to the position, which matters where features say where a token stands;
        ``"feature_within_position"`` keeps it.

    scoring : str, callable, list, tuple or dict, default=None
        What to score, as in :func:`sklearn.inspection.permutation_importance`; None
        takes ``estimator.score``. Several scores share their predictions.

    n_repeats : int, default=5
        How often each is permuted.

    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights for scoring.

    n_jobs : int, default=None
        Number of jobs over positions or features, as everywhere in scikit-learn.

    random_state : int, RandomState instance or None, default=None
        Source of the permutations.

    max_samples : int or float, default=1.0
        Samples to draw, without replacement, for the permuted scores: a number, or a
        share. The baseline is always that of all samples.

    Returns
    -------
    result : :class:`~sklearn.utils.Bunch` or dict of such instances
        With an entry a position, from 0 to that of the longest sample, or a feature:

        importances_mean : ndarray of shape (n_entries,)
            Mean over repeats.
        importances_std : ndarray of shape (n_entries,)
            Standard deviation over repeats.
        importances : ndarray of shape (n_entries, n_repeats)
            Baseline minus permuted score.
        n_exchanged : ndarray of shape (n_entries,)
            How many tokens were exchanged.

        For several scores a dict of these, by name of the score.

    Raises
    ------
    ValueError
        If lengths disagree, or `max_samples` is more than there are.

    See Also
    --------
    faithfulness : Deletes tokens of each sample, by their attention.

    Notes
    -----
    An importance is that of a position or a feature over all samples, not of a token in
    a sample. On bags, whose instances come in no order, positions mean nothing: use
    features. Of features that tell the same, none may seem to matter, since each makes
    up for the other.

    References
    ----------
    L. Breiman, "Random Forests", Machine Learning, 45(1), 5-32, 2001.

    Examples
    --------
    >>> from skattn import TokenSVM
    >>> from skattn.datasets import make_token_selection
    >>> from skattn.inspection import token_permutation_importance
    >>> X, y, _ = make_token_selection(n_tokens=4, n_features=3, random_state=0)
    >>> model = TokenSVM().fit(X, y)
    >>> by_position = token_permutation_importance(model, X, y, random_state=0)
    >>> by_position.importances_mean.shape, by_position.n_exchanged
    ((4,), array([100, 100, 100, 100]))
    >>> by_feature = token_permutation_importance(
    ...     model, X, y, by="feature", random_state=0
    ... )
    >>> bool(by_feature.importances_mean.max() > 0.2)
    True
    """
    # None has no length, and counts as consistent.
    check_consistent_length(X, y, sample_weight)
    n_drawn = _number_drawn(max_samples, _num_samples(X))
    # A generator, so that scikit-learn does not turn to the global one for None.
    rng = local_generator(random_state)
    if is_table(X):
        result = permutation_importance(
            estimator,
            X,
            y,
            scoring=scoring,
            n_repeats=n_repeats,
            n_jobs=n_jobs,
            random_state=rng,
            sample_weight=sample_weight,
            max_samples=n_drawn,
        )
        for bunch in result.values() if type(result) is dict else [result]:
            bunch.n_exchanged = np.full(len(bunch.importances), n_drawn)
        return result

    scorer = check_scoring(estimator, scoring=scoring)
    baseline = _score(scorer, estimator, X, y, sample_weight)
    samples = Samples.read(X)
    # Every entry starts from the same seed, whichever job it falls to.
    seed = rng.randint(np.iinfo(np.int32).max + 1)
    results = Parallel(n_jobs=n_jobs)(
        delayed(_permuted_scores)(
            scorer,
            estimator,
            samples,
            y,
            sample_weight,
            by,
            entry,
            n_repeats,
            n_drawn,
            seed,
        )
        for entry in range(_number_of_entries(samples.tokens, by))
    )
    n_exchanged, scores = zip(*results, strict=True)
    if not isinstance(baseline, dict):
        return _as_bunch(baseline, scores, n_exchanged)
    return {
        name: _as_bunch(
            baseline[name],
            [[score[name] for score in repeats] for repeats in scores],
            n_exchanged,
        )
        for name in baseline
    }


def _number_drawn(max_samples, n_samples):
    if not isinstance(max_samples, Integral):
        return max(1, int(max_samples * n_samples))
    if max_samples > n_samples:
        raise ValueError(
            f"max_samples must be at most the number of samples, {n_samples}; got "
            f"{max_samples}."
        )
    return max_samples


def _number_of_entries(tokens, by):
    return int(tokens.n_positions.max()) if by == "position" else tokens.n_features


def _score(scorer, estimator, X, y, sample_weight):
    # Not every scorer takes sample_weight.
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    return scorer(estimator, X, y, **weights)


def _permuted_scores(
    scorer,
    estimator,
    samples,
    y,
    sample_weight,
    by,
    entry,
    n_repeats,
    n_drawn,
    seed,
):
    """Return how many tokens are exchanged, and the score of each repeat.

    Draws in the order of scikit-learn, so that sequences which amount to a table have
    the importances of the table.
    """
    rng = check_random_state(seed)
    if n_drawn < len(samples.tokens):
        drawn = sample_without_replacement(
            len(samples.tokens), n_drawn, random_state=rng
        )
        samples = samples.take(drawn)
        y, sample_weight = (
            None if part is None else _safe_indexing(part, drawn)
            for part in (y, sample_weight)
        )
    groups = _exchangeable_rows(samples.tokens, by, entry)
    groups = [rows for rows in groups if len(rows) > 1]
    columns = slice(None) if by == "position" else entry
    values = samples.tokens.values.copy()
    orders = [np.arange(len(rows)) for rows in groups]
    scores = []
    # Without an exchange, all repeats are the same.
    for _ in range(n_repeats if groups else 1):
        for rows, order in zip(groups, orders, strict=True):
            rng.shuffle(order)
            values[rows, columns] = values[rows[order], columns]
        X = samples.with_values(values)
        scores.append(_score(scorer, estimator, X, y, sample_weight))
    return sum(map(len, groups)), scores * (n_repeats // len(scores))


def _exchangeable_rows(tokens, by, entry):
    """Return rows of the tokens that are exchanged, one array for each group."""
    if by == "position":
        return [np.flatnonzero(tokens.positions == entry)]
    if by == "feature":
        return [np.arange(tokens.n_tokens)]
    by_position = np.argsort(tokens.positions, kind="stable")
    starts = np.flatnonzero(np.diff(tokens.positions[by_position])) + 1
    return np.split(by_position, starts)


def _as_bunch(baseline, scores, n_exchanged):
    importances = baseline - np.array(scores, dtype=np.float64)
    return Bunch(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
        n_exchanged=np.array(n_exchanged),
    )
