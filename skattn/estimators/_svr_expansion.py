"""A support-vector regression, written as attention over its training samples."""

import warnings
from functools import partial
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.svm import SVR, NuSVR
from sklearn.utils import check_array, check_scalar
from sklearn.utils.validation import check_is_fitted

from skattn.theory._attention_kernel import (
    attention_kernel,
    log_kernel,
    normalized_by_keys,
)


class SupportVectorExpansion(NamedTuple):
    """Attention whose output is the prediction of a support-vector regression.

    `keys` (n_keys, D), `values` (n_keys,), the `intercept`, and the parameters of the
    estimator that has them.
    """

    keys: np.ndarray
    values: np.ndarray
    intercept: float
    parameters: dict


def expansion_of_svr(svr, keys, kernel_scale, attention_norm, head_scale):
    """Return the `SupportVectorExpansion` of a fitted regression.

    Parameters are those of :meth:`skattn.AttentionRegressor.from_svr`.
    """
    if not isinstance(svr, SVR | NuSVR):
        raise TypeError(
            "svr must be scikit-learn's SVR or NuSVR, fitted on the keys; got "
            f"{type(svr).__name__}."
        )
    check_is_fitted(svr)
    check_scalar(
        kernel_scale,
        "kernel_scale",
        Real,
        min_val=0,
        max_val=np.finfo(np.float64).max,
        include_boundaries="right",
    )
    if head_scale is not None:
        check_scalar(head_scale, "head_scale", Integral, min_val=1)
    keys = check_array(keys, dtype=np.float64, order="C", copy=True, input_name="keys")
    kernel_scale, attention_norm = _options_of_kernel(
        svr.kernel, kernel_scale, attention_norm
    )
    seen, owner = _window_means(keys, head_scale)
    _check_keys(svr, keys, seen, head_scale)
    dual_coef = np.zeros(len(seen))
    dual_coef[svr.support_] = svr.dual_coef_[0]
    intercept = float(svr.intercept_[0])
    parameters = {"attention_norm": attention_norm, "head_scale": head_scale}
    if svr.kernel == "linear":
        if attention_norm is not None:
            raise ValueError(
                "attention_norm='batch' needs the kernel attention_kernel; got "
                "SVR(kernel='linear')."
            )
        # The mean of scores times values, in place of their sum.
        values = kernel_scale * len(seen) * dual_coef
        parameters["mapping"] = "linear"
    else:
        seen, _ = normalized_by_keys(seen, seen, attention_norm)
        values = (
            kernel_scale * dual_coef * np.exp(-logsumexp(log_kernel(seen, seen), 1))
        )
    if attention_norm is not None:
        parameters["beta"] = 1.0
    return SupportVectorExpansion(keys, values[owner], intercept, parameters)


def _options_of_kernel(kernel, kernel_scale, attention_norm):
    """Return the factor of the kernel and its normalisation."""
    if kernel == "linear" and kernel_scale != 1.0:
        raise ValueError(
            f"kernel_scale={kernel_scale} is a factor of precomputed kernels, and svr "
            "has kernel='linear'. Leave it out."
        )
    if isinstance(kernel, str) and kernel in ("precomputed", "linear"):
        return kernel_scale, attention_norm
    options = {}
    if isinstance(kernel, partial):
        kernel, options = kernel.func, kernel.keywords
    if kernel is not attention_kernel:
        raise ValueError(
            f"kernel={kernel!r} of the regression is no attention. Fit it with "
            "kernel=skattn.theory.attention_kernel, with kernel='precomputed' on what "
            "that returns, or with kernel='linear' for linear attention."
        )
    if kernel_scale != 1.0 or attention_norm is not None:
        raise ValueError(
            "kernel_scale and attention_norm are those of attention_kernel, as it was "
            "given to the regression. Leave them out, or use kernel='precomputed'."
        )
    return options.get("scale", 1.0), options.get("attention_norm")


def _window_means(keys, head_scale):
    """Return what the regression was fitted on, and in which of it each key is."""
    if head_scale is None:
        return keys, np.arange(len(keys))
    owner = np.arange(len(keys)) // head_scale
    sizes = np.bincount(owner)
    sums = np.zeros((len(sizes), keys.shape[1]))
    np.add.at(sums, owner, keys)
    return sums / sizes[:, None], owner


def check_predictions(svr, regressor):
    """Refuse keys that are as many as the samples of `svr`, but others.

    A regression on a precomputed kernel cannot be asked.
    """
    if svr.kernel == "precomputed":
        return
    queries, _ = _window_means(regressor.keys_, regressor.head_scale)
    with warnings.catch_warnings():
        # The queries are arrays, whatever the regression was fitted on.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        expected = svr.predict(queries)
    predicted = regressor.predict(queries)
    size = np.abs(expected).max() + np.abs(expected - svr.intercept_[0]).max()
    if not np.allclose(predicted, expected, rtol=0, atol=1e-6 * size):
        raise ValueError(
            "keys must be the samples that svr was fitted on, in their order: with "
            "these, attention does not predict what svr does."
        )


def _check_keys(svr, keys, seen, head_scale):
    n_fitted = svr.shape_fit_[0]
    if len(seen) != n_fitted:
        windows = "" if head_scale is None else f", which make {len(seen)} windows"
        raise ValueError(
            f"keys must be the samples that svr was fitted on, which are {n_fitted}; "
            f"got {len(keys)}{windows}."
        )
    if svr.kernel != "precomputed" and keys.shape[1] != svr.shape_fit_[1]:
        raise ValueError(
            f"keys have {keys.shape[1]} features, but svr was fitted on "
            f"{svr.shape_fit_[1]}."
        )
