"""What both estimators say about tokens: weights, scores, selections, contributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from token_cases import QUICK, make_samples, padded

from skattn import AttentionClassifier, Tokens, TokenSVM, check_tokens
from skattn.mappings import MAPPINGS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SAMPLES, Y, QUERY = make_samples()
Y3 = np.arange(len(Y)) % 3
GAPS = padded(SAMPLES, between=2, after=1)
GAPS[0, [0, -1]] = GAPS[0, [-1, 0]]  # absent before, in one sample
TABLE = np.random.RandomState(0).randn(24, 4)

ESTIMATORS = [
    AttentionClassifier(**QUICK),
    AttentionClassifier(query="last", mapping="sparsemax", **QUICK),
    AttentionClassifier(n_heads=2, random_state=0, **QUICK),
    AttentionClassifier(
        hidden_size=3, n_heads=2, query="first", random_state=0, **QUICK
    ),
    AttentionClassifier(parameterization="KQ", query="mean", random_state=0, **QUICK),
    AttentionClassifier(scoring="gated", gate_size=3, random_state=0, **QUICK),
    AttentionClassifier(pooling=["min", "attention", "mean", "max"], **QUICK),
    AttentionClassifier(
        pooling=("attention", "max"), head="mlp", n_heads=2, random_state=0, **QUICK
    ),
    AttentionClassifier(
        pooling=("attention", "max"), hidden_size=3, random_state=0, **QUICK
    ),
    TokenSVM(),
    TokenSVM(query="mean", head="logistic", mapping="softmax"),
]
on_every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


@on_every_estimator
@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "multiclass"])
@pytest.mark.parametrize("X", [SAMPLES, TABLE], ids=["sequences", "table"])
def test_contributions_add_up_to_the_decision(estimator, X, y):
    estimator.fit(X, y)
    sums = np.array([each.sum(axis=0) for each in estimator.token_contributions(X)])
    expected = estimator.decision_function(X) - estimator.intercept_
    assert_allclose(sums, expected, atol=1e-10)


@pytest.mark.parametrize("estimator", [ESTIMATORS[0], ESTIMATORS[-1]], ids=repr)
@pytest.mark.parametrize("y", [Y, Y3], ids=["binary", "multiclass"])
def test_a_contribution_is_weight_times_vote(estimator, y):
    estimator.fit(SAMPLES, y)
    weights = estimator.attention_weights(SAMPLES)
    contributions = estimator.token_contributions(SAMPLES)
    for sample, weight, contribution in zip(
        SAMPLES, weights, contributions, strict=True
    ):
        votes = sample @ estimator.coef_.T
        expected = weight[:, None] * votes
        if y is Y:
            expected = expected[:, 0]
        assert_allclose(contribution, expected, atol=1e-12)


@on_every_estimator
def test_weights_are_the_mapping_of_scores(estimator):
    estimator.fit(SAMPLES, Y)
    for scores, weights in zip(
        estimator.token_scores(SAMPLES),
        estimator.attention_weights(SAMPLES),
        strict=True,
    ):
        assert_allclose(weights, MAPPINGS[estimator.mapping](scores), atol=1e-12)
        assert_allclose(weights.sum(axis=-1), 1)


@pytest.mark.parametrize("estimator", [ESTIMATORS[0], ESTIMATORS[-2]], ids=repr)
def test_scores_of_a_prompt(estimator):
    estimator.fit(SAMPLES, Y)
    for sample, scores in zip(SAMPLES, estimator.token_scores(SAMPLES), strict=True):
        assert_allclose(scores, sample @ estimator.attention_coef_, atol=1e-12)


@pytest.mark.parametrize(
    ("query", "of_sample"),
    [
        ("first", lambda sample: sample[0]),
        ("last", lambda sample: sample[-1]),
        ("mean", lambda sample: sample.mean(axis=0)),
        (1, lambda sample: sample[1]),
    ],
)
@pytest.mark.parametrize(
    "estimator", [AttentionClassifier(**QUICK), TokenSVM()], ids=repr
)
def test_what_asks(estimator, query, of_sample):
    estimator.set_params(query=query).fit(SAMPLES, Y)
    scores = estimator.token_scores(SAMPLES)
    for sample, of_tokens in zip(SAMPLES, scores, strict=True):
        expected = sample @ estimator.attention_coef_ @ of_sample(sample)
        assert_allclose(of_tokens, expected, atol=1e-10)


@pytest.mark.parametrize(
    "estimator", [AttentionClassifier(**QUICK), TokenSVM()], ids=repr
)
def test_given_queries_override_those_that_travel(estimator):
    estimator.set_params(query="given")
    travelling = check_tokens(SAMPLES, query=-QUERY)
    estimator.fit(SAMPLES, Y, query=QUERY)
    scores = estimator.token_scores(travelling, query=QUERY)
    for sample, query, of_tokens in zip(SAMPLES, QUERY, scores, strict=True):
        expected = sample @ estimator.attention_coef_ @ query
        assert_allclose(of_tokens, expected, atol=1e-10)
    assert_allclose(
        np.concatenate(estimator.token_scores(travelling)), -np.concatenate(scores)
    )


@on_every_estimator
def test_the_form_of_outputs_follows_the_container(estimator):
    estimator.fit(GAPS, Y)
    n_samples, n_positions, _ = GAPS.shape
    heads = () if estimator.n_heads == 1 else (estimator.n_heads,)
    absent = np.isnan(GAPS).all(axis=2)
    scores = estimator.token_scores(GAPS)
    weights = estimator.attention_weights(GAPS)
    assert scores.shape == weights.shape == (n_samples, *heads, n_positions)
    for index, none in enumerate(absent):
        assert_array_equal(
            np.isneginf(scores[index]), np.broadcast_to(none, scores[index].shape)
        )
        assert (weights[index][..., none] == 0).all()
    contributions = estimator.token_contributions(GAPS)
    assert contributions.shape == (n_samples, n_positions)
    assert (contributions[absent] == 0).all()

    tokens = Tokens.from_padded(GAPS)
    for as_array, as_list in (
        (scores, estimator.token_scores(tokens)),
        (weights, estimator.attention_weights(tokens)),
        (weights, estimator.attention_weights(list(GAPS))),
        (contributions, estimator.token_contributions(tokens)),
    ):
        assert isinstance(as_list, list)
        assert_allclose(np.array(as_list), as_array)


@on_every_estimator
def test_the_selected_token_is_a_position_as_given(estimator):
    estimator.fit(GAPS, Y)
    selected = estimator.selected_tokens(GAPS)
    scores = estimator.token_scores(GAPS)
    assert_array_equal(selected, scores.argmax(axis=-1))
    assert_array_equal(estimator.selected_tokens(Tokens.from_padded(GAPS)), selected)


def test_near_ties_are_judged_in_each_sample_by_itself():
    """A sample with huge scores must not blur those of another."""
    estimator = TokenSVM().fit([[[1.0], [0.0]], [[2.0], [0.0]]], [0, 1])
    small = [[0.0], [1e-3]]
    huge = [[1e9], [0.0]]
    assert estimator.attention_coef_[0] > 0
    assert_array_equal(estimator.selected_tokens([small]), [1])
    assert_array_equal(estimator.selected_tokens([small, huge]), [1, 0])


def gelu(x):
    return x * ndtr(x)


@on_every_estimator
def test_transform_pools_by_the_weights(estimator):
    estimator.fit(SAMPLES, Y)
    pooled = estimator.transform(SAMPLES)
    if getattr(estimator, "hidden_size", 0):
        tokens = [
            gelu(x @ estimator.hidden_coef_ + estimator.hidden_intercept_)
            for x in SAMPLES
        ]
    else:
        tokens = SAMPLES
    pooling = getattr(estimator, "pooling", "attention")
    names = [pooling] if isinstance(pooling, str) else pooling
    expected = [
        np.concatenate(
            [
                np.ravel(weights @ sample)
                if name == "attention"
                else getattr(sample, name)(axis=0)
                for name in names
            ]
        )
        for weights, sample in zip(
            estimator.attention_weights(SAMPLES), tokens, strict=True
        )
    ]
    assert_allclose(pooled, expected, atol=1e-12)
    if getattr(estimator, "head", "") == "mlp":
        start = estimator.head_hidden_intercept_
        head_input = gelu(pooled @ estimator.head_hidden_coef_ + start) - gelu(start)
    else:
        head_input = pooled
    assert_allclose(
        estimator.decision_function(SAMPLES),
        head_input @ estimator.coef_[0] + estimator.intercept_,
        atol=1e-12,
    )
    assert len(estimator.get_feature_names_out()) == pooled.shape[1]


@on_every_estimator
def test_samples_may_be_longer_than_any_at_fit(estimator):
    estimator.fit(SAMPLES, Y)
    long = [np.concatenate(SAMPLES)]
    assert estimator.attention_weights(long)[0].shape[-1] == len(long[0])
    assert estimator.predict(long).shape == (1,)


@on_every_estimator
def test_one_bare_sequence_is_refused(estimator):
    estimator.fit(SAMPLES, Y)
    with pytest.raises(ValueError, match=r"for one sequence pass `\[X\]`"):
        estimator.predict(SAMPLES[0])
