"""`AttentionPooling`: what comes out is what its estimator pools."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from token_cases import FORMS, QUICK, make_samples

from skattn import AttentionClassifier, AttentionPooling, TokenSVM

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SAMPLES, Y, QUERY = make_samples()
TABLE = np.random.RandomState(0).randn(24, 4)

ESTIMATORS = [
    TokenSVM(),
    AttentionClassifier(**QUICK),
    AttentionClassifier(n_heads=2, hidden_size=5, random_state=0, **QUICK),
]
on_every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


@on_every_estimator
@pytest.mark.parametrize("form", [*FORMS, "table"])
def test_pools_as_the_estimator_fitted_alone(estimator, form):
    X = TABLE if form == "table" else FORMS[form](SAMPLES)
    pooling = AttentionPooling(estimator).fit(X, Y)
    alone = clone(estimator).fit(X, Y)
    output = pooling.transform(X)
    assert_allclose(output, alone.transform(X), atol=1e-12)
    assert output.shape == (24, alone.n_heads * alone.n_token_features_)
    assert pooling.n_features_in_ == alone.n_features_in_
    names = [f"attentionpooling{index}" for index in range(output.shape[1])]
    assert list(pooling.get_feature_names_out()) == names


@on_every_estimator
def test_is_the_weighted_mean_of_tokens(estimator):
    pooling = AttentionPooling(estimator).fit(SAMPLES, Y)
    fitted = pooling.estimator_
    for sample, weights, row in zip(
        SAMPLES,
        fitted.attention_weights(SAMPLES),
        pooling.transform(SAMPLES),
        strict=True,
    ):
        if getattr(fitted, "hidden_size", 0):
            sample = sample @ fitted.hidden_coef_ + fitted.hidden_intercept_
            sample = sample * ndtr(sample)
        assert_allclose(row, np.ravel(weights @ sample), atol=1e-12)


def test_passes_weights_and_queries_on():
    weights = np.linspace(0.1, 2, 24)
    model = TokenSVM(query="given")
    pooling = AttentionPooling(model)
    output = pooling.fit_transform(SAMPLES, Y, query=QUERY, sample_weight=weights)
    alone = clone(model).fit(SAMPLES, Y, query=QUERY, sample_weight=weights)
    assert_allclose(output, alone.transform(SAMPLES, query=QUERY))
    assert_array_equal(output, pooling.transform(SAMPLES, query=QUERY))


def test_prefit():
    model = TokenSVM().fit(SAMPLES, Y)
    for pooling in (
        AttentionPooling(model, prefit=True),
        AttentionPooling(model, prefit=True).fit(SAMPLES),
    ):
        assert_array_equal(pooling.transform(SAMPLES), model.transform(SAMPLES))
    with pytest.raises(NotFittedError, match="FrozenEstimator"):
        AttentionPooling(clone(model), prefit=True).fit(SAMPLES)


def test_errors():
    with pytest.raises(NotFittedError, match="AttentionPooling instance is not fitted"):
        AttentionPooling(TokenSVM()).transform(SAMPLES)
    with pytest.raises(ValueError, match="The 'estimator' parameter of Attention"):
        AttentionPooling(LogisticRegression()).fit(SAMPLES, Y)
    fitted = AttentionPooling(TokenSVM()).fit(SAMPLES, Y)
    with pytest.raises(ValueError, match=r"for one sequence pass `\[X\]`"):
        fitted.transform(SAMPLES[0])
