"""What all four transformers share: scikit-learn's checks, containers, `set_output`."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator

from skattn import Tokens
from skattn.preprocessing import (
    FeatureTokenizer,
    PositionalEncoding,
    TokenScaler,
    WindowTokenizer,
)

NAN = np.nan

# Each with the number of checks that scikit-learn 1.9 yields for it.
CHECKED = [
    (FeatureTokenizer(), 47),
    (FeatureTokenizer(missing="absent"), 46),
    (WindowTokenizer(), 47),
    (WindowTokenizer(1, summary=["mean", "std", "min", "max", "slope"]), 47),
    (WindowTokenizer(0.5, step=0.5, summary=["max"], keep_values=False), 47),
    (TokenScaler(), 54),
    (TokenScaler(with_mean=False), 54),
    (TokenScaler(with_std=False), 54),
    (PositionalEncoding(), 47),
    (PositionalEncoding(combine="concat"), 47),
    (PositionalEncoding("linear"), 47),
]
TABLE_TO_TABLE = [TokenScaler(), PositionalEncoding(), PositionalEncoding("linear")]
OF_SEQUENCES = [
    TokenScaler(),
    WindowTokenizer(2, step=1, summary=["mean", "slope"]),
    PositionalEncoding(),
    PositionalEncoding("linear", combine="concat"),
]


@pytest.mark.parametrize(("transformer", "n_checks"), CHECKED, ids=str)
def test_all_of_scikit_learns_checks_pass(transformer, n_checks, monkeypatch):
    # Without it the check of array-API input is skipped.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    results = check_estimator(transformer, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] != "passed"] == []
    assert len(results) >= n_checks


# The checks mix frames and arrays on purpose.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("transformer", TABLE_TO_TABLE, ids=str)
@pytest.mark.parametrize(
    "check",
    [
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_global_output_transform_pandas",
        "check_get_feature_names_out_error",
    ],
)
def test_checks_of_tables_with_names_pass(transformer, check):
    getattr(estimator_checks, check)(type(transformer).__name__, transformer)


@pytest.mark.parametrize(("transformer", "n_checks"), CHECKED, ids=str)
def test_tags(transformer, n_checks):
    tags = get_tags(transformer)
    assert tags.input_tags.two_d_array
    assert tags.input_tags.three_d_array
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    allows_missing = getattr(transformer, "missing", "error") == "absent"
    assert tags.input_tags.allow_nan == allows_missing


@pytest.fixture
def tokens():
    """Samples of 3, 5 and 6 positions, with absent tokens and with queries."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(length, 2)) for length in (3, 5, 6)]
    samples[1][0] = NAN
    samples[2][[2, 5]] = NAN
    positions = [np.flatnonzero(~np.isnan(s[:, 0])) for s in samples]
    return Tokens(
        np.concatenate([s[p] for s, p in zip(samples, positions, strict=True)]),
        np.cumsum([0, *(len(p) for p in positions)]),
        np.concatenate(positions),
        query=rng.normal(size=(3, 4)),
        n_positions=[3, 5, 6],
    )


def as_list(tokens):
    padded = tokens.to_padded()
    return [row[:n] for row, n in zip(padded, tokens.n_positions, strict=True)]


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_the_container_is_kept_and_decides_nothing_else(transformer, tokens):
    fitted = clone(transformer).fit(tokens)
    expected = fitted.transform(tokens)
    assert isinstance(expected, Tokens)
    assert_array_equal(expected.query, tokens.query)

    as_lists = fitted.transform(as_list(tokens))
    assert isinstance(as_lists, list)
    for actual, sample in zip(as_lists, as_list(expected), strict=True):
        assert_array_equal(actual, sample, strict=True)

    padded = fitted.transform(tokens.to_padded())
    assert isinstance(padded, np.ndarray)
    assert_array_equal(padded, expected.to_padded(), strict=True)

    equal = fitted.transform([np.ones((4, 2))] * 2)
    assert isinstance(equal, list)

    for X in (as_list(tokens), tokens.to_padded()):
        refitted = clone(transformer).fit(X).transform(tokens)
        assert_allclose(refitted.values, expected.values, rtol=1e-14)
        assert_array_equal(refitted.positions, expected.positions)


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_samples_do_not_see_each_other_and_may_be_longer_later(transformer, tokens):
    fitted = clone(transformer).fit(tokens)
    alone = fitted.transform(tokens[[1]])
    assert_array_equal(alone[0], fitted.transform(tokens)[1])
    longer = np.random.default_rng(1).normal(size=(40, 2))
    head = fitted.transform([longer])[0]
    assert len(head) >= 39
    assert np.isfinite(head).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_precision_is_kept(transformer, dtype, tokens):
    tokens = tokens.with_values(tokens.values.astype(dtype))
    for X in (tokens, tokens.to_padded()):
        assert clone(transformer).fit_transform(X).dtype == dtype
    assert clone(transformer).fit_transform(as_list(tokens))[0].dtype == dtype


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_integers_become_float64(transformer):
    output = clone(transformer).fit_transform(np.arange(24).reshape(2, 6, 2))
    assert output.dtype == np.float64


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_input_is_not_written(transformer, tokens):
    X = tokens.to_padded()
    before = X.copy()
    X.flags.writeable = False
    clone(transformer).fit_transform(X)
    assert_array_equal(X, before)


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_sequences_and_tables_do_not_mix(transformer, tokens):
    fitted = clone(transformer).fit(tokens)
    with pytest.raises(ValueError, match=r"for one sequence pass `\[X\]`"):
        fitted.transform(tokens[0])
    with pytest.raises(ValueError, match="X has 3 features, but"):
        fitted.transform(np.ones((1, 4, 3)))
    table = clone(transformer).set_params(**table_settings(transformer))
    with pytest.raises(ValueError, match="fitted on a table"):
        table.fit(np.ones((4, 6))).transform(tokens)


def table_settings(transformer):
    return {"encoding": "linear"} if hasattr(transformer, "encoding") else {}


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_names_of_features_exist_for_tables_only(transformer, tokens):
    assert not hasattr(clone(transformer).fit(tokens), "get_feature_names_out")
    frames = [pd.DataFrame(sample, columns=["a", "b"]) for sample in as_list(tokens)]
    fitted = clone(transformer).fit(frames)
    assert_array_equal(fitted.feature_names_in_, ["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(frames)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform([frame.rename(columns={"a": "c"}) for frame in frames])


@pytest.mark.parametrize(
    "transformer",
    [
        *OF_SEQUENCES,
        TokenScaler(),
        FeatureTokenizer(),
        WindowTokenizer(),
        PositionalEncoding(combine="concat"),
    ],
    ids=str,
)
def test_set_output_leaves_tokens_as_they_are(transformer, tokens):
    transformer = clone(transformer)
    assert transformer.set_output(transform="pandas") is transformer
    X = np.ones((4, 6)) if isinstance(transformer, FeatureTokenizer) else tokens
    output = transformer.fit_transform(X)
    plain = clone(transformer).set_output(transform="default").fit_transform(X)
    assert type(output) is type(plain)
    assert not isinstance(output, pd.DataFrame)


@pytest.mark.parametrize("transformer", OF_SEQUENCES, ids=str)
def test_global_output_leaves_tokens_as_they_are(transformer, tokens):
    plain = clone(transformer).fit_transform(tokens)
    with config_context(transform_output="pandas"):
        output = clone(transformer).fit_transform(tokens)
    assert_array_equal(output.values, plain.values, strict=True)


def test_set_output_none_changes_nothing():
    scaler = TokenScaler().set_output(transform="pandas").set_output()
    assert isinstance(scaler.fit_transform(np.eye(3)), pd.DataFrame)


def test_set_output_of_a_pipeline_with_tables_and_tokens():
    frame = pd.DataFrame(np.eye(4) * 3.0, columns=list("abcd"), index=list("wxyz"))
    pipeline = make_pipeline(TokenScaler(), PositionalEncoding(), FeatureTokenizer())
    pipeline.set_output(transform="pandas")
    tokens = pipeline.fit_transform(frame)
    assert tokens.shape == (4, 4, 8)
    table = pipeline[:-1].transform(frame)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == list("abcd")
    assert list(table.index) == list("wxyz")
    assert_array_equal(pipeline[-1].feature_names_in_, list("abcd"))
    assert_array_equal(pipeline[:-1].get_feature_names_out(), list("abcd"))


def test_tables_that_are_scaled_in_a_column_transformer():
    frame = pd.DataFrame({"x": [0.0, 2.0], "y": [1.0, 5.0], "colour": ["red", "blue"]})
    columns = make_column_transformer(
        (TokenScaler(), ["x", "y"]),
        (OneHotEncoder(sparse_output=False), ["colour"]),
        verbose_feature_names_out=False,
    )
    pipeline = make_pipeline(columns, FeatureTokenizer())
    pipeline.set_output(transform="pandas")
    tokens = pipeline.fit_transform(frame)
    names = ["x", "y", "colour_blue", "colour_red"]
    assert_array_equal(pipeline[-1].feature_names_in_, names)
    cells = np.array([[-1.0, -1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    assert_array_equal(tokens[:, range(4), range(4, 8)], cells)


def test_sequences_through_a_pipeline(tokens):
    pipeline = make_pipeline(
        TokenScaler(),
        WindowTokenizer(2, step=1, summary=["std"]),
        PositionalEncoding("linear", combine="concat"),
        FunctionTransformer(lambda X: np.array([sample.sum() for sample in X])),
    )
    sums = pipeline.fit_transform(tokens)
    assert sums.shape == (3,)
    as_lists = clone(pipeline[:-1]).fit_transform(as_list(tokens))
    assert_allclose([np.nansum(sample) for sample in as_lists], sums, rtol=1e-12)
