"""Maximum-margin token selection: the problem, its solvers and their certificate.

This package knows neither scikit-learn nor torch, and loads numba and cvxpy only when
a solver needs them.
"""

from skattn.margin._general_certificate import farkas_residual, level_residual
from skattn.margin._general_problem import (
    GeneralProblem,
    finite_problem,
    selection_problem,
)
from skattn.margin._general_solve import solve_general
from skattn.margin._together import attention_svm_path, solve_many
from skattn.margin.certificate import (
    Certificate,
    dual_bound,
    duality_gap,
    primal_bound,
)
from skattn.margin.problem import Constraints, MarginProblem
from skattn.margin.progress import Progress
from skattn.margin.solution import MarginSolution
from skattn.margin.solvers import SOLVERS, solve, supports

__all__ = [
    "SOLVERS",
    "Certificate",
    "Constraints",
    "GeneralProblem",
    "MarginProblem",
    "MarginSolution",
    "Progress",
    "attention_svm_path",
    "dual_bound",
    "duality_gap",
    "farkas_residual",
    "finite_problem",
    "level_residual",
    "primal_bound",
    "selection_problem",
    "solve",
    "solve_general",
    "solve_many",
    "supports",
]
