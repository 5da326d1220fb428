"""The mappings by name, and the parameters that each of them takes."""

from numbers import Integral, Real

import numpy as np

MAPPING_NAMES = ("softmax", "sparsemax", "entmax15", "entmax", "topk", "linear", "elu")

_DEFAULT_MASS = 0.95
_TAKEN = {"entmax": ("alpha",), "topk": ("k", "mass", "power")}


def check_mapping(name, params=None):
    """Check the name of a mapping and its parameters.

    Parameters
    ----------
    name : str
        One of the seven names.
    params : dict, default=None
        For "entmax" ``alpha``, "learned" (the default: one number a head) or a number
        above 1; for "topk" at most one of ``k``, ``mass`` and ``power``, as for
        :func:`skattn.mappings.topk`. The others take none.

    Returns
    -------
    params : dict
        With the defaults filled in; a new dictionary.

    Raises
    ------
    TypeError
        If `params` is no dictionary, or a value is of the wrong type.
    ValueError
        If the name is unknown, or a parameter is unknown, out of range, belongs to
        another mapping, or contradicts another parameter.

    Examples
    --------
    >>> from skattn.mappings import check_mapping
    >>> check_mapping("topk")
    {'mass': 0.95}
    >>> check_mapping("topk", {"power": 0.5})
    {'power': (1.0, 0.5)}
    """
    if not isinstance(name, str) or name not in MAPPING_NAMES:
        raise ValueError(
            f"mapping must be one of {', '.join(map(repr, MAPPING_NAMES))}, got "
            f"{name!r}."
        )
    if params is not None and not isinstance(params, dict):
        raise TypeError(
            "mapping_params must be an instance of dict or None, not "
            f"{type(params).__qualname__}."
        )
    params = params or {}
    for key in params:
        _check_key(key, name, params)
    if name == "topk":
        if len(params) > 1:
            raise ValueError(
                f"mapping_params={params!r} must hold only one of 'k', 'mass' and "
                "'power'."
            )
        return check_policy(params, label="mapping_params[{!r}]")
    if name == "entmax":
        return {"alpha": _check_fixed_alpha(params.get("alpha", "learned"))}
    return {}


def check_policy(params, label="{}"):
    """Check the number of tokens, mass or power law of top-k; at most one is given.

    `label` is how errors name a parameter. Returns a new dictionary.
    """
    if not params:
        return {"mass": _DEFAULT_MASS}
    (key, value), *_ = params.items()
    name = label.format(key)
    if key == "k":
        k = int(_number(value, name, Integral, "int"))
        if k < 1:
            raise ValueError(f"{name} == {k}, must be >= 1.")
        return {"k": k}
    if key == "mass":
        mass = float(_number(value, name))
        if not 0.0 < mass <= 1.0:
            raise ValueError(f"{name} == {mass:g}, must be in (0, 1].")
        return {"mass": mass}
    return {"power": _check_power(value, name)}


def learned_alpha(raw):
    """Return the orders alpha that the learned numbers stand for: ``1 + sigmoid(raw)``.

    Between softmax and sparsemax, and 1.5 at 0.

    Parameters
    ----------
    raw : array of shape (n_heads,)

    Returns
    -------
    alpha : array of shape (n_heads,)

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.mappings import learned_alpha
    >>> learned_alpha(np.array([0.0, 40.0]))
    array([1.5, 2. ])
    """
    return 1.5 + 0.5 * np.tanh(0.5 * np.asarray(raw))


def _check_key(key, name, params):
    taken = _TAKEN.get(name, ())
    if key in taken:
        return
    owner = next((other for other, keys in _TAKEN.items() if key in keys), None)
    if owner is not None:
        raise ValueError(
            f"mapping_params={params!r} needs mapping={owner!r}, got mapping={name!r}."
        )
    offer = " or ".join(map(repr, taken)) if taken else "no parameters"
    raise ValueError(
        f"mapping_params={params!r} holds the unknown name {key!r}: "
        f"mapping={name!r} takes {offer}."
    )


def _check_fixed_alpha(alpha):
    if isinstance(alpha, str):
        if alpha != "learned":
            raise ValueError(
                "mapping_params['alpha'] must be 'learned' or a number above 1, got "
                f"{alpha!r}."
            )
        return alpha
    alpha = float(_number(alpha, "mapping_params['alpha']"))
    if not 1.0 < alpha < np.inf:
        raise ValueError(
            f"mapping_params['alpha'] == {alpha:g}, must be > 1 and finite; 1 is "
            "mapping='softmax'."
        )
    return alpha


def _check_power(power, name):
    pair = (1.0, power) if _is(power, Real) else power
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(
            f"{name} must be the exponent C, or the pair (a, C), of k = a n ** C; got "
            f"{power!r}."
        )
    scale, exponent = (_number(value, name) for value in pair)
    if not 0.0 < scale < np.inf or not 0.0 <= exponent <= 1.0:
        raise ValueError(
            f"{name} must have a > 0 and C in [0, 1], got a={scale:g}, C={exponent:g}."
        )
    return float(scale), float(exponent)


def _number(value, name, kind=Real, kind_name="float"):
    if not _is(value, kind):
        raise TypeError(
            f"{name} must be an instance of {kind_name}, not "
            f"{type(value).__qualname__}."
        )
    return value


def _is(value, kind):
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)
