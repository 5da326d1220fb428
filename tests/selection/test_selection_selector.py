"""`TokenSelector`: every rule and every output, on every container."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from token_cases import QUICK, make_samples, padded

from skattn import AttentionClassifier, Tokens, TokenSelector, TokenSVM, check_tokens

NAN = np.nan


class FirstFeature(BaseEstimator):
    """Attention that is written in the tokens: proportional to the first feature."""

    def fit(self, X, y=None):
        tokens = check_tokens(X)
        self.n_features_in_ = tokens.n_features
        self.input_kind_ = "sequences"
        return self

    def attention_weights(self, X):
        if isinstance(X, np.ndarray) and X.ndim == 3:
            weights = np.nan_to_num(X[:, :, 0])
            return weights / weights.sum(axis=1, keepdims=True)
        if isinstance(X, Tokens):
            return [
                np.nan_to_num(row[:n]) / np.nansum(row)
                for row, n in zip(X.to_padded()[:, :, 0], X.n_positions, strict=True)
            ]
        return [np.nan_to_num(x[:, 0]) / np.nansum(x[:, 0]) for x in X]


def token(weight):
    """A token whose features tell it from all others."""
    return [weight, 100 + weight] if weight == weight else [NAN, NAN]


# Weights .1 .6 .3, with a token absent; a single token; two equal ones and one more.
ARRAY = np.array(
    [
        [token(1), token(NAN), token(6), token(3)],
        [token(NAN), token(10), token(NAN), token(NAN)],
        [token(4), token(4), token(2), token(NAN)],
    ]
)
LIST = [ARRAY[0], ARRAY[1, :2], ARRAY[2, :3]]
CONTAINERS = {
    "array": ARRAY,
    "list": LIST,
    "tokens": check_tokens(LIST),
    "objects": np.array([*LIST, None], dtype=object)[:3],
}
on_every_container = pytest.mark.parametrize("container", CONTAINERS)


def selector(**options):
    return TokenSelector(FirstFeature().fit(ARRAY), prefit=True, **options)


RULES = [
    ({"n_tokens": 1}, [[2], [1], [0]]),
    ({"n_tokens": 2}, [[2, 3], [1], [0, 1]]),
    ({"n_tokens": 9}, [[0, 2, 3], [1], [0, 1, 2]]),
    ({"mass": 0.5}, [[2], [1], [0, 1]]),
    ({"mass": 0.9}, [[2, 3], [1], [0, 1, 2]]),
    ({"mass": 1.0}, [[0, 2, 3], [1], [0, 1, 2]]),
    ({}, [[0, 2, 3], [1], [0, 1, 2]]),
    ({"threshold": 0.3}, [[2, 3], [1], [0, 1]]),
    ({"threshold": 0.0}, [[0, 2, 3], [1], [0, 1, 2]]),
    ({"threshold": 1.0}, [[2], [1], [0]]),
]
on_every_rule = pytest.mark.parametrize(("rule", "kept"), RULES, ids=repr)


@on_every_rule
@on_every_container
class TestRules:
    def test_support(self, rule, kept, container):
        X = CONTAINERS[container]
        support = selector(**rule).get_support(X)
        if container == "array":
            assert support.shape == (3, 4)
        else:
            assert isinstance(support, list)
            assert [len(mask) for mask in support] == [4, 2, 3]
        assert [np.flatnonzero(mask).tolist() for mask in support] == kept
        assert all(mask.dtype == bool for mask in support)
        as_output = selector(output="mask", **rule).transform(X)
        assert type(as_output) is type(support)
        for one, other in zip(as_output, support, strict=True):
            assert_array_equal(one, other)

    def test_tokens(self, rule, kept, container):
        X = CONTAINERS[container]
        output = selector(**rule).transform(X)
        expected = [ARRAY[i, positions] for i, positions in enumerate(kept)]
        if container == "array":
            # The width follows the rule and the input, not what happens to be kept.
            assert output.shape == (3, rule.get("n_tokens", 4), 2)
            for row, tokens in zip(output, expected, strict=True):
                assert_array_equal(row[: len(tokens)], tokens)
                assert np.isnan(row[len(tokens) :]).all()
        elif container == "tokens":
            assert isinstance(output, Tokens)
            assert_array_equal(output.positions, np.concatenate(kept))
            assert_array_equal(output.n_positions, X.n_positions)
            assert_array_equal(output.values, np.concatenate(expected))
        else:
            assert isinstance(output, list)
            for sample, tokens in zip(output, expected, strict=True):
                assert_array_equal(sample, tokens)

    def test_indices(self, rule, kept, container):
        output = selector(output="indices", **rule).transform(CONTAINERS[container])
        if container == "array" or "n_tokens" in rule:
            assert output.shape == (3, rule.get("n_tokens", 4))
            assert output.dtype.kind == "i"
            for row, positions in zip(output, kept, strict=True):
                n_kept = len(positions)
                assert row.tolist() == positions + [-1] * (output.shape[1] - n_kept)
        else:
            assert [row.tolist() for row in output] == kept

    def test_concat(self, rule, kept, container):
        concat = selector(output="concat", **rule)
        if "n_tokens" not in rule:
            with pytest.raises(ValueError, match="output='concat' needs n_tokens"):
                concat.transform(CONTAINERS[container])
            return
        output = concat.transform(CONTAINERS[container])
        width = 2 * rule["n_tokens"]
        assert output.shape == (3, width)
        for index, positions in enumerate(kept):
            values = ARRAY[index, positions].ravel()
            assert_array_equal(output[index, : len(values)], values)
            assert (output[index, len(values) :] == 0).all()


@on_every_container
def test_queries_stay_with_the_tokens(container):
    if container != "tokens":
        X = check_tokens(CONTAINERS[container], query=np.arange(6.0).reshape(3, 2))
    else:
        X = CONTAINERS[container].with_query(np.arange(6.0).reshape(3, 2))
    output = selector(n_tokens=1).transform(X)
    assert_array_equal(output.query, X.query)


def test_samples_come_alone_as_together():
    for rule, _ in RULES:
        each = selector(**rule)
        together = each.get_support(LIST)
        for index, sample in enumerate(LIST):
            assert_array_equal(each.get_support([sample])[0], together[index])


class TestAroundEstimators:
    samples, y, query = make_samples()

    def test_weights_are_averaged_over_heads(self):
        model = AttentionClassifier(n_heads=2, random_state=0, **QUICK)
        for X in (self.samples, padded(self.samples, before=1)):
            each = TokenSelector(model, n_tokens=1, output="indices").fit(X, self.y)
            weights = each.estimator_.attention_weights(X)
            expected = [row.mean(axis=0).argmax() for row in weights]
            assert_array_equal(each.transform(X)[:, 0], expected)

    def test_pooled_is_what_the_estimator_pools(self):
        each = TokenSelector(TokenSVM(), output="pooled").fit(self.samples, self.y)
        assert_array_equal(
            each.transform(self.samples), each.estimator_.transform(self.samples)
        )
        assert list(each.get_feature_names_out()) == [
            "tokenselector0", "tokenselector1", "tokenselector2",
        ]  # fmt: skip

    def test_pooled_is_an_array_though_the_estimator_gives_dataframes(self):
        inner = TokenSVM().set_output(transform="pandas")
        each = TokenSelector(inner, output="pooled").fit(self.samples, self.y)
        assert isinstance(each.transform(self.samples), np.ndarray)

    def test_all_of_the_mass_is_the_support_of_sparsemax(self):
        each = TokenSelector(TokenSVM(C=0.05), mass=1.0).fit(self.samples, self.y)
        weights = each.estimator_.attention_weights(self.samples)
        for mask, row in zip(each.get_support(self.samples), weights, strict=True):
            assert (row[mask] > 0).all()
            # Where the margin is 1 to the last digit, so is the weight.
            assert (row[~mask] < 1e-12).all()

    def test_given_queries(self):
        model = TokenSVM(query="given")
        each = TokenSelector(model, n_tokens=1, output="indices")
        each.fit(self.samples, self.y, query=self.query)
        expected = each.estimator_.selected_tokens(self.samples, query=self.query)
        assert_array_equal(
            each.transform(self.samples, query=self.query)[:, 0], expected
        )
        assert_array_equal(
            each.fit_transform(self.samples, self.y, query=self.query)[:, 0], expected
        )
        inside = check_tokens(self.samples, query=self.query)
        assert_array_equal(each.transform(inside)[:, 0], expected)
        with pytest.raises(ValueError, match="there is no query"):
            each.transform(self.samples)

    def test_the_columns_of_a_table(self):
        table = pd.DataFrame(
            np.random.RandomState(0).randn(20, 3), columns=["a", "b", "c"]
        )
        y = (table["a"] > 0).astype(int)
        each = TokenSelector(TokenSVM(), n_tokens=2, output="concat").fit(table, y)
        assert each.input_kind_ == "table"
        names = each.get_feature_names_out()
        half = [f"is_{name}" for name in "abc"] + list("abc")
        assert list(names) == [f"token{k}_{name}" for k in (0, 1) for name in half]
        row = each.transform(table)[0]
        kept = np.flatnonzero(each.get_support(table)[0])
        for place, column in enumerate(kept):
            expected = np.zeros(6)
            expected[[column, 3 + column]] = 1, table.iloc[0, column]
            assert_allclose(row[6 * place :][:6], expected)
        each.set_params(output="tokens")
        assert each.transform(table).shape == (20, 2, 6)


class TestNames:
    samples, y, _ = make_samples()

    def test_exist_for_tables_only(self):
        for options, exists in (
            ({}, False),
            ({"output": "mask"}, False),
            ({"output": "indices"}, False),
            ({"output": "indices", "n_tokens": 2}, True),
            ({"output": "concat", "n_tokens": 2}, True),
            ({"output": "pooled"}, True),
        ):
            each = TokenSelector(TokenSVM(), **options)
            assert hasattr(each, "get_feature_names_out") is exists

    def test_of_indices(self):
        each = TokenSelector(TokenSVM(), n_tokens=2, output="indices")
        each.fit(self.samples, self.y)
        assert list(each.get_feature_names_out()) == ["position0", "position1"]

    @pytest.mark.parametrize("refit", [True, False])
    def test_come_from_a_prefit_estimator(self, refit):
        X = [pd.DataFrame(x, columns=["a", "b", "c"]) for x in self.samples]
        model = TokenSVM().fit(X, self.y)
        each = TokenSelector(model, n_tokens=1, output="concat", prefit=True)
        if refit:
            each.fit(X)
        assert_array_equal(each.feature_names_in_, ["a", "b", "c"])
        assert list(each.get_feature_names_out()) == [
            "token0_a", "token0_b", "token0_c",
        ]  # fmt: skip


class TestErrors:
    samples, y, _ = make_samples()

    @pytest.mark.parametrize(
        "options",
        [
            {"n_tokens": 0},
            {"n_tokens": 1.5},
            {"mass": 0.0},
            {"mass": 1.1},
            {"threshold": -0.1},
            {"threshold": 1.1},
            {"output": "list"},
            {"prefit": "yes"},
        ],
    )
    def test_an_invalid_value_is_named(self, options):
        (name,) = options
        message = f"The '{name}' parameter of TokenSelector must be"
        with pytest.raises(ValueError, match=message):
            TokenSelector(TokenSVM(), **options).fit(self.samples, self.y)

    def test_an_estimator_without_attention(self):
        with pytest.raises(ValueError, match="The 'estimator' parameter of TokenSelec"):
            TokenSelector(LogisticRegression()).fit(self.samples, self.y)

    @pytest.mark.parametrize(
        "options",
        [
            {"n_tokens": 1, "mass": 0.5},
            {"n_tokens": 1, "threshold": 0.5},
            {"mass": 0.5, "threshold": 0.5},
        ],
    )
    def test_two_rules(self, options):
        named = ", ".join(f"{name}={value}" for name, value in options.items())
        with pytest.raises(ValueError, match=f"At most one of .*; got {named}"):
            TokenSelector(TokenSVM(), **options).fit(self.samples, self.y)

    def test_not_fitted(self):
        for each in (
            TokenSelector(TokenSVM()),
            TokenSelector(TokenSVM(), output="pooled"),
        ):
            with pytest.raises(NotFittedError, match="instance is not fitted yet"):
                each.transform(self.samples)
            with pytest.raises(NotFittedError, match="instance is not fitted yet"):
                each.get_support(self.samples)

    def test_prefit_but_not_fitted(self):
        each = TokenSelector(TokenSVM(), prefit=True)
        with pytest.raises(NotFittedError, match="FrozenEstimator"):
            each.fit(self.samples, self.y)

    def test_prefit_needs_no_labels_and_leaves_its_estimator_alone(self):
        model = TokenSVM().fit(self.samples, self.y)
        each = TokenSelector(model, prefit=True).fit(self.samples)
        assert each.estimator is model
        assert each.estimator_ is not model
        assert_array_equal(each.estimator_.coef_, model.coef_)
        unfitted = TokenSelector(clone(model))
        with pytest.raises(ValueError, match="requires y to be passed"):
            unfitted.fit(self.samples)


def test_a_mass_of_negative_weights_is_refused():
    samples, y, _ = make_samples()
    attention = AttentionClassifier(mapping="linear", **QUICK)
    # It is the selection that needs a mass, whatever attention was learned.
    with pytest.raises(ValueError, match="mass is a share of weights"):
        TokenSelector(attention).fit(samples, y).transform(samples)
    chosen = TokenSelector(attention, n_tokens=1).fit(samples, y).transform(samples)
    assert {len(sample) for sample in chosen} == {1}
