"""Attention layers that are support-vector regressions."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVR, NuSVR

from skattn import AttentionRegressor
from skattn.attention import TokenBatch
from skattn.attention.layouts import SharedTokens
from skattn.theory import attention_kernel

RNG = np.random.default_rng(0)
KEYS = RNG.normal(size=(40, 5))
QUERIES = RNG.normal(size=(17, 5))
TARGETS = np.sin(KEYS[:, 0]) + KEYS[:, 1] * KEYS[:, 2]


def fitted(kernel, scale=1.0, keys=KEYS, targets=TARGETS):
    return SVR(kernel=kernel, C=1e4 / scale, epsilon=0.01).fit(keys, targets)


def test_softmax_attention_is_the_regression_by_the_formula():
    svr = fitted(attention_kernel)
    attention = AttentionRegressor.from_svr(svr, KEYS)
    dual = np.zeros(40)
    dual[svr.support_] = svr.dual_coef_[0]
    scores = QUERIES @ KEYS.T / np.sqrt(5)
    values = dual / np.exp(KEYS @ KEYS.T / np.sqrt(5)).sum(axis=1)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert_allclose(attention.values_, values)
    assert_allclose(attention.attention_weights(QUERIES), weights)
    assert_allclose(attention.predict(QUERIES), weights @ values + svr.intercept_)
    assert_allclose(attention.predict(QUERIES), svr.predict(QUERIES), atol=1e-10)
    assert np.ptp(svr.predict(QUERIES)) > 0.1


@pytest.mark.parametrize("shape", [(3, 1), (30, 2), (150, 20)])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_any_size_and_scale(shape, scale):
    keys = np.random.default_rng(1).normal(size=shape)
    kernel = partial(attention_kernel, scale=scale)
    svr = fitted(kernel, scale, keys, keys[:, 0] ** 2)
    attention = AttentionRegressor.from_svr(svr, keys)
    assert_allclose(attention.predict(keys), svr.predict(keys), atol=1e-10)


def test_precomputed_kernels():
    scale = 1e4
    logs = KEYS @ KEYS.T / np.sqrt(5)
    h = np.exp(logs).sum(axis=1)
    gram = scale * np.exp(logs) / np.outer(h, h)
    svr = fitted("precomputed", scale, gram)
    attention = AttentionRegressor.from_svr(svr, KEYS, kernel_scale=scale)
    assert_allclose(attention.predict(KEYS), svr.predict(gram), atol=1e-10)
    between = attention_kernel(QUERIES, KEYS, scale=scale)
    assert_allclose(attention.predict(QUERIES), svr.predict(between), atol=1e-10)


def test_linear_attention_is_a_linear_regression():
    for svr in (fitted("linear", 1e4), NuSVR(kernel="linear").fit(KEYS, TARGETS)):
        attention = AttentionRegressor.from_svr(svr, KEYS)
        assert attention.mapping == "linear"
        assert_allclose(attention.predict(QUERIES), svr.predict(QUERIES), atol=1e-10)


def test_attention_bn_is_the_regression_on_normalised_keys():
    keys = KEYS * [1.0, 10.0, 0.1, 3.0, 1.0] + 2.0
    queries = QUERIES * [1.0, 10.0, 0.1, 3.0, 1.0] + 2.0
    kernel = partial(attention_kernel, attention_norm="batch", scale=1e4)
    svr = fitted(kernel, 1e4, keys)
    attention = AttentionRegressor.from_svr(svr, keys)
    assert attention.attention_norm == "batch"
    assert_allclose(attention.predict(queries), svr.predict(queries), atol=1e-10)
    root = np.sqrt(keys.var(axis=0) + 1e-5)
    own = (queries - keys.mean(axis=0)) / root
    normalised = (keys - keys.mean(axis=0)) / root
    plain = attention_kernel(own, normalised)
    assert_allclose(plain, attention_kernel(queries, keys, attention_norm="batch"))


@pytest.mark.parametrize("length", [2, 3, 7])
@pytest.mark.parametrize("norm", [None, "batch"])
def test_attention_sh_is_the_regression_on_means_of_windows(length, norm):
    owner = np.arange(40) // length
    means = np.array([KEYS[owner == w].mean(axis=0) for w in np.unique(owner)])
    kernel = partial(attention_kernel, attention_norm=norm, scale=1e3)
    svr = fitted(kernel, 1e3, means, means[:, 0])
    attention = AttentionRegressor.from_svr(svr, KEYS, head_scale=length)
    assert_allclose(attention.predict(QUERIES), svr.predict(QUERIES), atol=1e-10)
    assert attention.attention_weights(QUERIES).shape == (17, 40)


def test_large_products_do_not_overflow():
    keys = 40 * KEYS
    svr = fitted(partial(attention_kernel, scale=1.0), keys=keys)
    attention = AttentionRegressor.from_svr(svr, keys)
    assert_allclose(attention.predict(keys), svr.predict(keys), atol=1e-10)


def test_it_explains_itself_as_other_estimators_do():
    svr = fitted(attention_kernel)
    attention = AttentionRegressor.from_svr(svr, KEYS)
    weights = attention.attention_weights(QUERIES)
    assert_allclose(weights.sum(axis=1), 1.0)
    contributions = attention.token_contributions(QUERIES)
    assert contributions.shape == (17, 40)
    assert_allclose(
        contributions.sum(axis=1) + attention.intercept_, svr.predict(QUERIES)
    )
    assert_allclose(attention.selected_tokens(QUERIES), weights.argmax(axis=1))
    pooled = attention.transform(QUERIES)
    assert_allclose(pooled[:, :5], weights @ KEYS)
    assert_allclose(attention.score(KEYS, TARGETS), svr.score(KEYS, TARGETS))
    assert_allclose(attention.predict(QUERIES[::-1]), svr.predict(QUERIES)[::-1])
    again = pickle.loads(pickle.dumps(attention))
    assert_allclose(again.predict(QUERIES), attention.predict(QUERIES))


def test_module_attends_to_shared_tokens():
    attention = AttentionRegressor.from_svr(fitted(attention_kernel), KEYS)
    memory = torch.tensor(np.column_stack([attention.keys_, attention.values_]))
    queries = torch.tensor(QUERIES)
    batch = TokenBatch(SharedTokens(memory, len(queries)), query=queries)
    module = attention.to_module()
    with torch.no_grad():
        assert_allclose(module(batch)[:, 0], attention.predict(QUERIES))
        half = module(batch.take(torch.tensor([3, 5])))[:, 0]
    assert_allclose(half, attention.predict(QUERIES)[[3, 5]])


def test_clone_and_fit_have_no_keys():
    attention = AttentionRegressor.from_svr(fitted(attention_kernel), KEYS)
    with pytest.raises(NotFittedError):
        clone(attention).predict(QUERIES)
    X = RNG.normal(size=(30, 4, 3))
    attention.set_params(rank=2, max_iter=5, tol=0)
    attention.fit(X, X[:, 0, 0], query=QUERIES[np.arange(30) % 17])
    assert not hasattr(attention, "keys_")
    assert attention.input_kind_ == "sequences"


def test_what_makes_no_attention_is_refused_by_name():
    from_svr = AttentionRegressor.from_svr
    svr = fitted(attention_kernel)
    with pytest.raises(ValueError, match="kernel='rbf' of the regression is no"):
        from_svr(SVR().fit(KEYS, TARGETS), KEYS)
    with pytest.raises(TypeError, match="svr must be"):
        from_svr(AttentionRegressor(), KEYS)
    with pytest.raises(NotFittedError):
        from_svr(SVR(kernel="linear"), KEYS)
    with pytest.raises(ValueError, match="which are 40; got 39"):
        from_svr(svr, KEYS[:-1])
    with pytest.raises(ValueError, match="keys have 4 features"):
        from_svr(svr, KEYS[:, :4])
    with pytest.raises(ValueError, match="kernel_scale and attention_norm"):
        from_svr(svr, KEYS, kernel_scale=2.0)
    with pytest.raises(ValueError, match="needs the kernel attention_kernel"):
        from_svr(fitted("linear", 1e4), KEYS, attention_norm="batch")
    for other in (svr, fitted("linear", 1e4)):
        with pytest.raises(ValueError, match="in their order"):
            from_svr(other, KEYS[::-1])
    with pytest.raises(ValueError, match=r"kernel_scale=2\.0 is a factor"):
        from_svr(fitted("linear", 1e4), KEYS, kernel_scale=2.0)
    for scale in (0, -1.0, np.nan, np.inf, "a"):
        with pytest.raises((ValueError, TypeError), match="kernel_scale"):
            from_svr(svr, KEYS, kernel_scale=scale)
    for length in (0, 2.5, (2, 3), "a"):
        with pytest.raises((ValueError, TypeError), match="head_scale"):
            from_svr(svr, KEYS, head_scale=length)
    attention = from_svr(svr, KEYS)
    with pytest.raises(ValueError, match="rows of X are its queries"):
        attention.predict(QUERIES, query=QUERIES)
    with pytest.raises(ValueError, match="partial_fit cannot go on"):
        attention.partial_fit(QUERIES, QUERIES[:, 0])
    with pytest.raises(ValueError, match="warm_start cannot go on"):
        attention.set_params(warm_start=True).fit(
            KEYS, TARGETS, query=RNG.normal(size=(40, 5))
        )
    with pytest.raises(ValueError, match="5 features"):
        attention.predict(QUERIES[:, :4])
    with pytest.raises(ValueError, match="attention_norm must be"):
        attention_kernel(KEYS, attention_norm="layer")


def test_names_of_features_are_kept():
    frame = pd.DataFrame(KEYS, columns=list("abcde"))
    svr = fitted("linear", 1e4, frame)
    attention = AttentionRegressor.from_svr(svr, frame)
    assert list(attention.feature_names_in_) == list("abcde")
    assert_allclose(attention.predict(frame), svr.predict(frame), atol=1e-10)
