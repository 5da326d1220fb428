"""The estimators: they validate, call a solver or trainer, and store arrays."""

from skattn.estimators._attention_classifier import AttentionClassifier
from skattn.estimators._attention_regressor import AttentionRegressor
from skattn.estimators._convex_classifier import ConvexAttentionClassifier
from skattn.estimators._convex_classifier_cv import ConvexAttentionClassifierCV
from skattn.estimators._convex_regressor import ConvexAttentionRegressor
from skattn.estimators._softmax_regression import SoftmaxRegression
from skattn.estimators._token_svm import TokenSVM
from skattn.estimators._token_svm_cv import TokenSVMCV

__all__ = [
    "AttentionClassifier",
    "AttentionRegressor",
    "ConvexAttentionClassifier",
    "ConvexAttentionClassifierCV",
    "ConvexAttentionRegressor",
    "SoftmaxRegression",
    "TokenSVM",
    "TokenSVMCV",
]
