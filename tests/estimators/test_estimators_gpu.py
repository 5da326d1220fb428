"""The same results on a GPU, where there is one."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from skattn import AttentionClassifier
from skattn.datasets import make_token_selection

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("solver", ["adam", "lbfgs", "ngd", "polyak", "mirror"])
def test_gpu_agrees_with_cpu(solver):
    X, y, _ = make_token_selection(n_samples=60, n_tokens=(3, 9), random_state=0)
    options = {"solver": solver, "max_iter": 20, "tol": 0, "random_state": 0}
    on_cpu = AttentionClassifier(device="cpu", **options).fit(X, y)
    on_gpu = AttentionClassifier(device="cuda", **options).fit(X, y)
    assert_allclose(on_gpu.coef_, on_cpu.coef_, rtol=1e-6, atol=1e-9)
    assert isinstance(on_gpu.attention_coef_, np.ndarray)
    elsewhere = pickle.loads(pickle.dumps(on_gpu)).set_params(device="cpu")
    assert_allclose(elsewhere.decision_function(X), on_gpu.decision_function(X))


def test_auto_takes_the_gpu_if_there_is_one():
    X, y, _ = make_token_selection(n_samples=20, random_state=0)
    module = AttentionClassifier(max_iter=2, tol=0).fit(X, y).to_module()
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert next(module.parameters()).device.type == expected
