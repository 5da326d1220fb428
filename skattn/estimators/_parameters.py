"""The weights of trained attention: as attributes, and as a model has them.

A model always has the axis of heads; attributes leave it out when there is one head.
"""

import numpy as np
from sklearn.utils import check_array

from skattn.mappings import learned_alpha

MODEL_NAMES = (
    "hidden_coef",
    "hidden_intercept",
    "tanh_coef",
    "sigmoid_coef",
    "attention_coef",
    "key_coef",
    "query_coef",
    "attention_beta",
    "mapping_alpha_raw",
    "head_hidden_coef",
    "head_hidden_intercept",
    "coef",
    "intercept",
)
_WITH_HEADS = ("attention_coef", "key_coef", "query_coef")

#: What the names of the weights of an encoder begin with in a model.
_ENCODER = "encoder."

#: Every attribute that fitting may set, or that an earlier fit may have left.
FITTED_WEIGHTS = (
    *(f"{name}_" for name in MODEL_NAMES),
    "encoder_",
    "entmax_alpha_",
    "keys_",
    "values_",
)


def to_attributes(parameters):
    """Return fitted attributes for the parameters of a model."""
    attributes = {
        f"{name}_": value
        for name, value in parameters.items()
        if not name.startswith(_ENCODER)
    }
    encoder = {
        name.removeprefix(_ENCODER): value
        for name, value in parameters.items()
        if name.startswith(_ENCODER)
    }
    if encoder:
        attributes["encoder_"] = encoder
    if "mapping_alpha_raw" in parameters:
        attributes["entmax_alpha_"] = learned_alpha(parameters["mapping_alpha_raw"])
    if "key_coef" in parameters:
        attributes["attention_coef_"] = np.einsum(
            "hdr,hqr->hdq", parameters["key_coef"], parameters["query_coef"]
        )
    for name in _WITH_HEADS:
        value = attributes.get(f"{name}_")
        if value is not None and len(value) == 1:
            attributes[f"{name}_"] = value[0]
    return attributes


def from_attributes(estimator):
    """Return the parameters of a model from the attributes of a fitted estimator."""
    names = [name for name in MODEL_NAMES if hasattr(estimator, f"{name}_")]
    if "key_coef" in names:
        names.remove("attention_coef")
    parameters = {name: getattr(estimator, f"{name}_") for name in names}
    for name, value in getattr(estimator, "encoder_", {}).items():
        parameters[_ENCODER + name] = value
    if estimator.n_heads == 1:
        for name in _WITH_HEADS:
            if name in parameters:
                parameters[name] = parameters[name][None]
    return parameters


def with_initial_values(parameters, coef_init, intercept_init, attention_coef_init):
    """Return parameters that start where the caller of `fit` says.

    Parameters
    ----------
    parameters : dict of str to ndarray
        The initial parameters of a model, which give the shapes.

    coef_init : array-like of shape (n_outputs, n_pooled) or None
        Head; for one output also one-dimensional.

    intercept_init : float or array-like of shape (n_outputs,)
        Offsets of the head; 0 without `coef_init` leaves them as they are.

    attention_coef_init : array-like, or pair of such, or None
        Of the shape of ``attention_coef_``, or a pair of keys and queries.

    Returns
    -------
    parameters : dict of str to ndarray
        A new dictionary.
    """
    parameters = dict(parameters)
    if coef_init is not None:
        coef = np.atleast_2d(_finite(coef_init, "coef_init"))
        parameters["coef"] = _of_shape(coef, parameters["coef"].shape, "coef_init")
    if coef_init is not None or np.any(np.asarray(intercept_init) != 0):
        intercept = _finite(np.atleast_1d(intercept_init), "intercept_init")
        shape = parameters["intercept"].shape
        if intercept.shape != shape and intercept.size == 1:
            intercept = np.full(shape, intercept.item())
        parameters["intercept"] = _of_shape(intercept, shape, "intercept_init")
    if attention_coef_init is None:
        return parameters
    if "key_coef" not in parameters:
        parameters["attention_coef"] = _attention_init(
            attention_coef_init, parameters["attention_coef"], "attention_coef_init"
        )
        return parameters
    if not isinstance(attention_coef_init, (tuple, list)) or (
        len(attention_coef_init) != 2
    ):
        raise ValueError(
            "attention_coef_init must be a pair (keys, queries) with "
            "parameterization='KQ'."
        )
    for name, value in zip(
        ("key_coef", "query_coef"), attention_coef_init, strict=True
    ):
        parameters[name] = _attention_init(
            value, parameters[name], f"attention_coef_init ({name.split('_')[0]})"
        )
    return parameters


def _attention_init(value, like, name):
    value = _finite(value, name)
    public_shape = like.shape[1:] if len(like) == 1 else like.shape
    return _of_shape(value, public_shape, name).reshape(like.shape)


def _finite(value, name):
    # A copy: training moves the parameters in place.
    return check_array(
        value,
        ensure_2d=False,
        allow_nd=True,
        dtype=np.float64,
        copy=True,
        input_name=name,
    )


def _of_shape(value, shape, name):
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {value.shape}.")
    return value
