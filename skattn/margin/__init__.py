"""Maximum-margin token selection: the problem, its solvers and their certificate.

This package knows neither scikit-learn nor torch, and loads cvxpy only to solve.
"""

from skattn.margin.certificate import (
    Certificate,
    dual_bound,
    duality_gap,
    primal_bound,
)
from skattn.margin.problem import Constraints, MarginProblem
from skattn.margin.progress import Progress
from skattn.margin.solution import MarginSolution
from skattn.margin.solvers import SOLVERS, solve

__all__ = [
    "SOLVERS",
    "Certificate",
    "Constraints",
    "MarginProblem",
    "MarginSolution",
    "Progress",
    "dual_bound",
    "duality_gap",
    "primal_bound",
    "solve",
]
