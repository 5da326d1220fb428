"""Twins of scikit-learn's checks, on sequences with and without given queries.

scikit-learn checks estimators on tables only. Here its main checks run on padded
arrays, ragged lists and `Tokens`.
"""

import copy
import pickle
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info
from token_cases import (
    CASES,
    N_FEATURES,
    N_SAMPLES,
    QUICK,
    Case,
    assert_same_outputs,
    make_samples,
    outputs,
    padded,
)

from skattn import (
    AttentionClassifier,
    AttentionPooling,
    ConvexAttentionClassifier,
    PositionalEncoding,
    Tokens,
    TokenScaler,
    TokenSelector,
    TokenSVM,
    WindowTokenizer,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def learns(case):
    return not isinstance(case.estimator, PositionalEncoding | WindowTokenizer)


def needs_targets(case):
    return learns(case) and not isinstance(case.estimator, TokenScaler)


def needs_labels(case):
    return needs_targets(case) and not is_regressor(case.estimator)


def on(condition):
    """Parametrise a test with the cases that meet a condition."""
    return pytest.mark.parametrize("case", list(filter(condition, CASES)), ids=str)


on_every_case = on(lambda case: True)


@cache
def _fit_once(case):
    return case.fit()


def fitted(case):
    """Return a fitted estimator that the caller may change."""
    return copy.deepcopy(_fit_once(case))


@on_every_case
def test_clone_has_the_parameters_and_nothing_else(case):
    estimator = fitted(case)
    cloned = clone(estimator)
    assert vars(cloned).keys() == vars(clone(case.estimator)).keys()
    assert repr(cloned) == repr(case.estimator)
    with pytest.raises(
        (NotFittedError, AttributeError), match=r"n_features_in_|fitted"
    ):
        cloned.n_features_in_  # noqa: B018
    method = "predict" if is_classifier(cloned) else "transform"
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(cloned, method)(case.X, **case.queries)


@on_every_case
def test_pickle_is_small_and_without_torch(case):
    estimator = fitted(case)
    pickled = pickle.dumps(estimator)
    assert len(pickled) < 10_000
    assert b"torch" not in pickled
    again = pickle.loads(pickled)
    assert_same_outputs(outputs(again, case), outputs(estimator, case), rtol=0, atol=0)


def test_unpickling_loads_no_torch(tmp_path):
    path = tmp_path / "estimators.pickle"
    estimators = [_fit_once(case) for case in CASES if case.form == "list"]
    path.write_bytes(pickle.dumps(estimators))
    code = (
        "import pickle, sys; "
        f"estimators = pickle.loads(open({str(path)!r}, 'rb').read()); "
        "print(len(estimators), 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert run.stdout.split() == [str(len(estimators)), "False"]


@on_every_case
def test_fit_is_idempotent(case):
    estimator = fitted(case)
    before = outputs(estimator, case)
    estimator.fit(case.X, case.y, **case.queries)
    assert_same_outputs(outputs(estimator, case), before)


@on_every_case
def test_methods_leave_the_dict_unchanged(case):
    estimator = fitted(case)
    before = {name: copy.deepcopy(value) for name, value in vars(estimator).items()}
    outputs(estimator, case)
    assert vars(estimator).keys() == before.keys()
    for name, value in vars(estimator).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(value, before[name])
        else:
            assert pickle.dumps(value) == pickle.dumps(before[name])


@on_every_case
def test_refit_on_other_data_equals_a_fresh_fit(case):
    other = Case.make(
        case.estimator, case.form, case.is_given, seed=1, n_samples=16, n_features=5
    )
    refitted = fitted(case).fit(other.X, other.y, **other.queries)
    fresh = other.fit()
    assert vars(refitted).keys() == vars(fresh).keys()
    assert_same_outputs(outputs(refitted, other), outputs(fresh, other))


@on_every_case
def test_n_features_in(case):
    estimator = fitted(case)
    assert estimator.n_features_in_ == N_FEATURES
    assert estimator.input_kind_ == "sequences"
    wider = Case.make(case.estimator, case.form, case.is_given, n_features=4)
    message = "X has 4 features, but .* is expecting 3 features as input"
    with pytest.raises(ValueError, match=message):
        estimator.transform(wider.X, **wider.queries)


@on_every_case
def test_the_order_of_samples_does_not_matter(case):
    estimator = fitted(case)
    order = np.random.RandomState(0).permutation(N_SAMPLES)
    expected = {
        name: [rows[index] for index in order]
        for name, rows in outputs(estimator, case).items()
    }
    assert_same_outputs(outputs(estimator, case.take(order)), expected)


@on_every_case
def test_samples_do_not_see_each_other(case):
    estimator = fitted(case)
    together = outputs(estimator, case)
    for index in range(0, N_SAMPLES, 5):
        expected = {name: [rows[index]] for name, rows in together.items()}
        assert_same_outputs(outputs(estimator, case.take([index])), expected)


@on(learns)
def test_weights_equal_repeats(case):
    weights = np.random.RandomState(0).randint(1, 4, N_SAMPLES)
    weighted = case.fit(sample_weight=weights)
    repeated = case.take(np.repeat(np.arange(N_SAMPLES), weights)).fit()
    assert_same_outputs(
        outputs(weighted, case), outputs(repeated, case), rtol=1e-5, atol=1e-6
    )


@on(learns)
def test_weight_zero_equals_removal(case):
    weights = np.ones(N_SAMPLES)
    weights[::3] = 0
    # Labels and features of the samples that do not count are misleading.
    y = np.where(weights > 0, case.y, 1 - case.y)
    weighted = replace(case, y=y).fit(sample_weight=weights)
    removed = case.take(np.flatnonzero(weights)).fit()
    assert_same_outputs(
        outputs(weighted, case), outputs(removed, case), rtol=1e-5, atol=1e-6
    )


@on(needs_labels)
def test_labels_may_be_strings(case):
    names = np.array(["yes", "no"])[case.y]
    named = replace(case, y=names).fit()
    # "no" sorts first, so that it takes the place of 0.
    numbered = replace(case, y=1 - case.y).fit()
    if is_classifier(named):
        assert_array_equal(named.classes_, ["no", "yes"])
        assert_array_equal(
            named.predict(case.X, **case.queries),
            named.classes_[numbered.predict(case.X, **case.queries)],
        )
        assert named.score(case.X, names, **case.queries) > 0.8
    methods = ("decision_function", "transform")
    assert_same_outputs(outputs(named, case, methods), outputs(numbered, case, methods))


@on(needs_labels)
def test_one_class_is_refused(case):
    with pytest.raises(ValueError, match=r"only one class: .*1"):
        replace(case, y=np.ones(N_SAMPLES, dtype=int)).fit()


@on(lambda case: case.form != "tokens")
def test_memory_may_be_read_only(case):
    X = copy.deepcopy(case.X)
    for array in X if isinstance(X, list) else [X]:
        array.flags.writeable = False
    y = case.y.copy()
    y.flags.writeable = False
    read_only = replace(case, X=X, y=y)
    assert_same_outputs(
        outputs(read_only.fit(), read_only), outputs(fitted(case), case)
    )


def _converted(form, samples, dtype):
    if form == "list":
        return [sample.astype(dtype) for sample in samples]
    X = np.stack([sample[:2] for sample in samples]).astype(dtype)
    if form == "array":
        return X
    return Tokens(X.reshape(-1, N_FEATURES), np.arange(0, 2 * len(X) + 1, 2))


@on_every_case
def test_dtypes(case):
    samples, _, query = make_samples()

    def outputs_of(dtype):
        given = query.astype(dtype) if case.is_given else None
        typed = replace(case, X=_converted(case.form, samples, dtype), query=given)
        return outputs(typed.fit(), typed)

    expected = outputs_of(np.float64)
    for dtype in (np.float32, np.int64, object):
        assert_same_outputs(outputs_of(dtype), expected, rtol=1e-4, atol=1e-5)


@on(lambda case: hasattr(_fit_once(case), "get_feature_names_out"))
def test_pandas_output(case):
    estimator = fitted(case)
    plain = estimator.transform(case.X, **case.queries)
    frame = estimator.set_output(transform="pandas").transform(case.X, **case.queries)
    assert isinstance(frame, pd.DataFrame)
    assert_array_equal(frame.columns, estimator.get_feature_names_out())
    assert_array_equal(frame.to_numpy(), plain)
    if hasattr(estimator, "decision_function"):
        # Predictions do not pass through the dataframe.
        assert isinstance(
            estimator.decision_function(case.X, **case.queries), np.ndarray
        )


@on(lambda case: case.form == "list")
def test_names_of_features_come_from_lists_of_dataframes(case):
    names = ["a", "b", "c"]
    framed = replace(case, X=[pd.DataFrame(x, columns=names) for x in case.X])
    estimator = framed.fit()
    assert_array_equal(estimator.feature_names_in_, names)
    assert_same_outputs(outputs(estimator, framed), outputs(fitted(case), case))
    other = [x.rename(columns={"a": "d"}) for x in framed.X]
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.transform(other, **case.queries)
    estimator.fit(case.X, case.y, **case.queries)
    assert not hasattr(estimator, "feature_names_in_")


def _same_state(estimator, before):
    assert vars(estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(estimator).items())


@on(needs_labels)
def test_a_failed_fit_leaves_the_estimator_as_it_was(case):
    # It fails after the features were counted.
    bad = Case.make(case.estimator, case.form, case.is_given, n_features=5)
    bad = replace(bad, y=np.zeros(N_SAMPLES))
    for estimator in (clone(case.estimator), fitted(case)):
        before = dict(vars(estimator))
        with pytest.raises(ValueError, match="only one class"):
            estimator.fit(bad.X, bad.y, **bad.queries)
        _same_state(estimator, before)


@on(lambda case: not needs_targets(case))
def test_a_failed_fit_of_a_preprocessor_leaves_it_as_it_was(case):
    bad = Case.make(case.estimator, case.form, case.is_given, n_features=5)
    estimator = fitted(case)
    wrong = {
        "TokenScaler": {"sample_weight": np.ones(3)},
        "PositionalEncoding": {},
        "WindowTokenizer": {},
    }[type(estimator).__name__]
    if isinstance(estimator, PositionalEncoding):
        estimator.set_params(n_components=2)
    elif isinstance(estimator, WindowTokenizer):
        estimator.set_params(length=99)
    before = dict(vars(estimator))
    with pytest.raises(ValueError, match=r"sample_weight|component|window"):
        estimator.fit(bad.X, bad.y, **wrong)
    _same_state(estimator, before)


class Interrupt:
    """A callback that interrupts the first iteration."""

    def setup(self, estimator, context):
        self.n_tasks = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        self.n_tasks += 1

    def on_fit_task_end(self, estimator, context, **kwargs):
        raise KeyboardInterrupt


@on(needs_targets)
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(case):
    other = Case.make(case.estimator, case.form, case.is_given, seed=1, n_features=5)
    for estimator in (clone(case.estimator), fitted(case)):
        callback = Interrupt()
        estimator.set_callbacks(callback)
        before = dict(vars(estimator))
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(other.X, other.y, **other.queries)
        assert callback.n_tasks == 2
        _same_state(estimator, before)


def ignores_positions(case):
    parameters = case.estimator.get_params()
    if parameters.get("position") or parameters.get("head_scale"):
        return False
    return parameters.get("kernel_size", 1) == 1 and (
        is_classifier(case.estimator)
        or is_regressor(case.estimator)
        or isinstance(case.estimator, AttentionPooling)
        or getattr(case.estimator, "output", None) == "concat"
    )


@on(lambda case: case.form == "list" and ignores_positions(case))
def test_the_form_of_a_sample_changes_nothing(case):
    """Ragged, padded with NaN before, between and after, or in a container."""
    samples = case.X
    methods = ("predict", "decision_function", "predict_proba", "transform")
    estimator = fitted(case)
    expected = outputs(estimator, case, methods)
    for X in (
        padded(samples),
        padded(samples, before=2),
        padded(samples, between=3),
        padded(samples, before=1, between=1, after=1),
        Tokens.from_padded(padded(samples, before=1, between=2)),
        np.array([*samples, None], dtype=object)[:-1],
    ):
        other = replace(case, X=X)
        assert_same_outputs(outputs(estimator, other, methods), expected)
        assert_same_outputs(outputs(other.fit(), other, methods), expected)


RANDOM = [
    AttentionClassifier(batch_size=5, random_state=3, **QUICK),
    AttentionClassifier(
        query="mean", n_heads=2, hidden_size=3, random_state=3, solver="gd", **QUICK
    ),
    AttentionClassifier(
        early_stopping=True, validation_fraction=0.3, random_state=3, **QUICK
    ),
    AttentionClassifier(solver="lbfgs", n_heads=2, random_state=3, max_iter=15, tol=0),
    AttentionClassifier(query="mean", parameterization="KQ", random_state=3, **QUICK),
    ConvexAttentionClassifier(n_gates=2, tol=1e-2, random_state=3),
    TokenSVM(random_state=3),
    TokenSVM(norm="nuc", query="mean", random_state=3),
    TokenSelector(AttentionClassifier(batch_size=5, random_state=3, **QUICK)),
]


@pytest.mark.parametrize("estimator", RANDOM, ids=repr)
def test_one_random_state_gives_one_result(estimator):
    case = Case.make(estimator, "array", is_given=False)
    first = outputs(case.fit(), case)
    np.random.seed(12)  # noqa: NPY002
    torch.manual_seed(12)
    assert_same_outputs(outputs(case.fit(), case), first, rtol=0, atol=0)


def test_another_random_state_gives_another_result():
    cases = [
        Case.make(clone(RANDOM[0]).set_params(random_state=seed), "list", False)
        for seed in (3, 4)
    ]
    first, second = (case.fit().coef_ for case in cases)
    assert not np.array_equal(first, second)


def _global_state():
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "numpy": (name, keys.tobytes(), rest),
        "python": random.getstate(),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "torch defaults": (torch.get_default_dtype(), torch.is_grad_enabled()),
        "threads": {
            pool["filepath"]: pool["num_threads"] for pool in threadpool_info()
        },
        "errors": np.geterr(),
    }


@pytest.mark.parametrize(
    "estimator", [*RANDOM, TokenSVM(), TokenSVM(head="logistic")], ids=repr
)
def test_global_state_is_left_alone(estimator):
    case = Case.make(estimator, "list", is_given=False)
    case.fit()  # loads what it needs
    before = _global_state()
    outputs(case.fit(), case)
    assert _global_state() == before
