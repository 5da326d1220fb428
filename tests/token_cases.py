"""Small data in every form of sequences, and every estimator that reads them."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing

from skattn import (
    AttentionClassifier,
    AttentionPooling,
    AttentionRegressor,
    ConvexAttentionClassifier,
    ConvexAttentionRegressor,
    PositionalEncoding,
    Tokens,
    TokenScaler,
    TokenSelector,
    TokenSVM,
    WindowTokenizer,
)

N_SAMPLES, N_FEATURES, N_QUERY_FEATURES = 24, 3, 2

# tol=0 trains for max_iter epochs, however little the loss improves, and never warns.
QUICK = {"max_iter": 15, "tol": 0, "learning_rate_init": 0.1}


def make_samples(seed=0, n_samples=N_SAMPLES, n_features=N_FEATURES):
    """Ragged samples whose entries are small integers, labels 0 and 1, queries.

    Integers are the same in every dtype. One token of each sample carries the label.
    """
    rng = np.random.RandomState(seed)
    y = np.arange(n_samples) % 2
    lengths = rng.randint(2, 6, size=n_samples)
    samples = [rng.randint(-3, 4, (n, n_features)).astype(float) for n in lengths]
    for index, (sample, planted) in enumerate(
        zip(samples, rng.randint(lengths), strict=True)
    ):
        sample[planted, 0] = 6.0
        sample[planted, 1] = 6.0 * (2 * y[index] - 1)
    return samples, y, rng.randint(-2, 3, (n_samples, N_QUERY_FEATURES)).astype(float)


def padded(samples, before=0, between=0, after=0):
    """One array with NaN before, after and between the tokens of each sample.

    `between` absent tokens follow the first one. Shorter samples get more at the end.
    """
    longest = max(map(len, samples))
    shape = (len(samples), before + between + longest + after, samples[0].shape[1])
    X = np.full(shape, np.nan)
    for row, sample in zip(X, samples, strict=True):
        row[before] = sample[0]
        start = before + 1 + between
        row[start : start + len(sample) - 1] = sample[1:]
    return X


FORMS = {
    "array": lambda samples: padded(samples, before=1, between=1),
    "list": list,
    "tokens": lambda samples: Tokens.from_padded(padded(samples, between=1)),
}


@dataclass(frozen=True, eq=False)
class Case:
    """An estimator and samples in one form, with or without given queries."""

    estimator: BaseEstimator
    form: str
    is_given: bool
    X: object
    y: np.ndarray
    query: np.ndarray | None

    @classmethod
    def make(cls, estimator, form, is_given, **options):
        samples, y, query = make_samples(**options)
        X = FORMS[form](samples)
        if is_given and form == "tokens":
            X, query = X.with_query(query), None
        return cls(estimator, form, is_given, X, y, query if is_given else None)

    def __str__(self):
        query = "-given" if self.is_given else ""
        return f"{self.estimator!r}-{self.form}{query}".replace("\n", "")

    @property
    def queries(self):
        """What every method of the estimator needs beside X."""
        return {} if self.query is None else {"query": self.query}

    def take(self, index):
        """Return the same case with the samples of an array of integers only."""
        query = None if self.query is None else self.query[index]
        X = _safe_indexing(self.X, np.asarray(index))
        return replace(self, X=X, y=self.y[index], query=query)

    def fit(self, **options):
        """Fit a clone of the estimator."""
        return clone(self.estimator).fit(self.X, self.y, **self.queries, **options)


METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "predict_log_proba",
    "transform",
    "attention_weights",
    "token_scores",
    "selected_tokens",
    "token_contributions",
    "get_support",
)


def outputs(estimator, case, methods=METHODS):
    """Every method that the estimator has on every sample, as lists of arrays."""
    return {
        name: [
            np.asarray(row) for row in getattr(estimator, name)(case.X, **case.queries)
        ]
        for name in methods
        if hasattr(estimator, name)
    }


def assert_same_outputs(got, expected, rtol=1e-9, atol=1e-10):
    """Compare what :func:`outputs` gives, sample by sample."""
    assert got.keys() == expected.keys()
    assert expected
    for name in expected:
        assert len(got[name]) == len(expected[name])
        for one, other in zip(got[name], expected[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=name)


WITHOUT_QUERIES = [
    AttentionClassifier(**QUICK),
    AttentionClassifier(
        query="mean", n_heads=2, hidden_size=3, random_state=0, **QUICK
    ),
    AttentionClassifier(
        scoring="gated",
        gate_size=2,
        pooling=["min", "attention", "mean"],
        head="mlp",
        head_hidden_size=3,
        n_heads=2,
        diversity=0.1,
        random_state=0,
        **QUICK,
    ),
    AttentionClassifier(
        pooling=("attention", "max"), hidden_size=3, random_state=0, **QUICK
    ),
    AttentionClassifier(mapping="topk", random_state=0, **QUICK),
    AttentionClassifier(
        mapping="entmax",
        attention_norm="batch",
        head_scale=(1, 2),
        n_heads=2,
        hidden_size=3,
        kernel_size=3,
        random_state=0,
        **QUICK,
    ),
    AttentionClassifier(
        n_layers=2,
        hidden_size=4,
        n_heads=2,
        position="rotary",
        head_scale=(1, 2),
        random_state=0,
        solver="lbfgs",
        max_iter=20,
        tol=0,
    ),
    AttentionClassifier(
        n_layers=1,
        hidden_size=4,
        position="learned",
        query="first",
        random_state=0,
        solver="lbfgs",
        max_iter=20,
        tol=0,
    ),
    AttentionRegressor(**QUICK),
    AttentionRegressor(
        n_layers=1,
        hidden_size=4,
        pooling=("attention", "mean"),
        random_state=0,
        solver="lbfgs",
        max_iter=10,
        tol=0,
    ),
    TokenSVM(),
    TokenSVM(query="last", head="logistic", mapping="softmax"),
    ConvexAttentionClassifier("mlp", n_gates=3, random_state=0),
    ConvexAttentionClassifier(n_gates=2, tol=1e-3, random_state=0),
    ConvexAttentionRegressor(activation="linear", random_state=0),
    TokenSelector(TokenSVM()),
    TokenSelector(AttentionClassifier(**QUICK), n_tokens=2, output="concat"),
    TokenSelector(TokenSVM(), n_tokens=2, output="indices"),
    AttentionPooling(TokenSVM()),
    TokenScaler(),
    PositionalEncoding(),
    WindowTokenizer(1, summary=["mean"]),
]

WITH_QUERIES = [
    AttentionClassifier(query="given", **QUICK),
    AttentionClassifier(
        query="given",
        parameterization="KQ",
        rank=1,
        n_heads=2,
        mapping="entmax15",
        random_state=0,
        **QUICK,
    ),
    AttentionClassifier(
        query="given", pooling=("attention", "max"), head="mlp", random_state=0, **QUICK
    ),
    AttentionRegressor(
        query="given", attention_norm="batch", head_scale=2, random_state=0, **QUICK
    ),
    TokenSVM(query="given"),
    TokenSelector(TokenSVM(query="given"), n_tokens=1, output="concat"),
    AttentionPooling(AttentionClassifier(query="given", **QUICK)),
]

CASES = [
    Case.make(estimator, form, is_given)
    for estimators, is_given in ((WITHOUT_QUERIES, False), (WITH_QUERIES, True))
    for estimator in estimators
    for form in FORMS
]


class StopAfter:
    """A callback that asks to stop after some subtasks, and keeps what it saw."""

    max_propagation_depth = None

    def __init__(self, n_subtasks):
        self.n_subtasks, self.models = n_subtasks, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **data):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **data):
        if context.parent is not None:
            self.models.append(fitted_estimator)
        return len(self.models) == self.n_subtasks
