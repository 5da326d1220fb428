"""Attention for scikit-learn.

A sample is a sequence or a bag of tokens; the estimators return its class and
the tokens that decided it.

Public names load their module when first used, so that ``import skattn`` costs
nothing and brings in neither torch nor cvxpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skattn import (
        attention,
        convex,
        datasets,
        estimators,
        inspection,
        mappings,
        margin,
        optim,
        preprocessing,
        selection,
        softmax_regression,
        theory,
        tokens,
    )
    from skattn.estimators import (
        AttentionClassifier,
        AttentionRegressor,
        ConvexAttentionClassifier,
        ConvexAttentionClassifierCV,
        ConvexAttentionRegressor,
        SoftmaxRegression,
        TokenSVM,
        TokenSVMCV,
    )
    from skattn.preprocessing import (
        FeatureTokenizer,
        PositionalEncoding,
        TokenScaler,
        WindowTokenizer,
    )
    from skattn.selection import AttentionPooling, TokenSelector
    from skattn.tokens import Tokens, check_tokens

__version__ = "0.1.0"

__all__ = [
    "AttentionClassifier",
    "AttentionPooling",
    "AttentionRegressor",
    "ConvexAttentionClassifier",
    "ConvexAttentionClassifierCV",
    "ConvexAttentionRegressor",
    "FeatureTokenizer",
    "PositionalEncoding",
    "SoftmaxRegression",
    "TokenSVM",
    "TokenSVMCV",
    "TokenScaler",
    "TokenSelector",
    "Tokens",
    "WindowTokenizer",
    "__version__",
    "attention",
    "check_tokens",
    "convex",
    "datasets",
    "estimators",
    "inspection",
    "mappings",
    "margin",
    "optim",
    "preprocessing",
    "selection",
    "softmax_regression",
    "theory",
    "tokens",
]

_HOME_OF_NAME = {
    "AttentionClassifier": "estimators",
    "AttentionPooling": "selection",
    "AttentionRegressor": "estimators",
    "ConvexAttentionClassifier": "estimators",
    "ConvexAttentionClassifierCV": "estimators",
    "ConvexAttentionRegressor": "estimators",
    "FeatureTokenizer": "preprocessing",
    "PositionalEncoding": "preprocessing",
    "SoftmaxRegression": "estimators",
    "TokenSVM": "estimators",
    "TokenSVMCV": "estimators",
    "TokenScaler": "preprocessing",
    "TokenSelector": "selection",
    "Tokens": "tokens",
    "WindowTokenizer": "preprocessing",
    "check_tokens": "tokens",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOME_OF_NAME.get(name, name)}")
    value = getattr(home, name) if name in _HOME_OF_NAME else home
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
