"""Softmax regression: the problem in closed form, and its solvers.

This package knows only arrays: neither scikit-learn nor torch.
"""

from skattn.softmax_regression.problem import SoftmaxProblem
from skattn.softmax_regression.solvers import SOLVERS, SoftmaxSolution, solve

__all__ = ["SOLVERS", "SoftmaxProblem", "SoftmaxSolution", "solve"]
