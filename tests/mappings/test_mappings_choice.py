"""Names and parameters of mappings, checked before any work."""

import numpy as np
import pytest

from skattn.mappings import MAPPING_NAMES, MAPPINGS, check_mapping, learned_alpha


@pytest.mark.parametrize("name", MAPPING_NAMES)
def test_defaults(name):
    defaults = {"entmax": {"alpha": "learned"}, "topk": {"mass": 0.95}}
    for params in (None, {}):
        assert check_mapping(name, params) == defaults.get(name, {})


def test_the_mappings_of_a_fixed_order_are_among_the_names():
    assert set(MAPPINGS) < set(MAPPING_NAMES)


@pytest.mark.parametrize(
    ("name", "params", "checked"),
    [
        ("entmax", {"alpha": "learned"}, {"alpha": "learned"}),
        ("entmax", {"alpha": 2}, {"alpha": 2.0}),
        ("entmax", {"alpha": np.float32(1.25)}, {"alpha": 1.25}),
        ("topk", {"k": np.int64(3)}, {"k": 3}),
        ("topk", {"mass": 1}, {"mass": 1.0}),
        ("topk", {"power": (2, 0.5)}, {"power": (2.0, 0.5)}),
        ("topk", {"power": [2, 0.5]}, {"power": (2.0, 0.5)}),
        ("topk", {"power": 0.5}, {"power": (1.0, 0.5)}),
    ],
)
def test_parameters(name, params, checked):
    before = dict(params)
    result = check_mapping(name, params)
    assert result == checked
    assert [type(value) for value in result.values()] == [
        type(value) for value in checked.values()
    ]
    assert params == before
    assert result is not params


@pytest.mark.parametrize(
    ("name", "params", "error", "message"),
    [
        ("hardmax", None, ValueError, "mapping must be one of 'softmax', .* 'hardmax'"),
        (None, None, ValueError, "mapping must be one of"),
        (["topk"], None, ValueError, "mapping must be one of"),
        ("topk", 3, TypeError, "mapping_params must be an instance of dict or None"),
        (
            "topk",
            [("k", 3)],
            TypeError,
            "must be an instance of dict or None, not list",
        ),
        (
            "softmax",
            {"k": 3},
            ValueError,
            r"mapping_params=\{'k': 3\} needs mapping='topk', got mapping='softmax'",
        ),
        ("topk", {"alpha": 1.5}, ValueError, "needs mapping='entmax'"),
        ("entmax", {"mass": 0.5}, ValueError, "needs mapping='topk'"),
        ("elu", {"scale": 1}, ValueError, "unknown name 'scale': .* no parameters"),
        ("topk", {"n": 1}, ValueError, "unknown name 'n': .* 'k' or 'mass' or 'power'"),
        ("topk", {3: 1}, ValueError, "unknown name 3"),
        ("topk", {"k": 1, "mass": 0.5}, ValueError, "only one of 'k', 'mass' and"),
        (
            "topk",
            {"k": None},
            TypeError,
            r"\['k'\] must be an instance of int, not None",
        ),
        ("entmax", {"alpha": 1}, ValueError, r"\['alpha'\] == 1, must be > 1.*softmax"),
        ("entmax", {"alpha": np.inf}, ValueError, "must be > 1 and finite"),
        ("entmax", {"alpha": np.nan}, ValueError, "must be > 1 and finite"),
        (
            "entmax",
            {"alpha": "free"},
            ValueError,
            "must be 'learned' or a number above",
        ),
        ("entmax", {"alpha": None}, TypeError, "instance of float, not NoneType"),
        ("entmax", {"alpha": True}, TypeError, "instance of float, not bool"),
        ("entmax", {"alpha": [1.5]}, TypeError, "instance of float, not list"),
    ],
)
def test_errors(name, params, error, message):
    with pytest.raises(error, match=message):
        check_mapping(name, params)


def test_learned_alpha():
    alpha = learned_alpha([-1000.0, -1.0, 0.0, 1.0, 1000.0])
    np.testing.assert_allclose(alpha, 1 + 1 / (1 + np.exp([700, 1, 0, -1, -700])))
    assert alpha[0] == 1
    assert alpha[2] == 1.5
    assert alpha[-1] == 2
