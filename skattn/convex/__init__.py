"""Convex attention heads: blocks, gates, the problem, its solvers and certificate.

This package knows neither scikit-learn nor torch, and loads cvxpy only when it is
asked for.
"""

from skattn.convex.blocks import BLOCKS, make_features, make_gates
from skattn.convex.certificate import Certificate, certify, relative_gap
from skattn.convex.features import ConvexFeatures
from skattn.convex.gates import Gates
from skattn.convex.memory import estimate_memory
from skattn.convex.path import beta_path, convex_path
from skattn.convex.problem import ConvexProblem, beta_max
from skattn.convex.recovery import Heads, recover_heads
from skattn.convex.solution import ConvexSolution, Progress
from skattn.convex.solvers import SOLVERS, solve

__all__ = [
    "BLOCKS",
    "SOLVERS",
    "Certificate",
    "ConvexFeatures",
    "ConvexProblem",
    "ConvexSolution",
    "Gates",
    "Heads",
    "Progress",
    "beta_max",
    "beta_path",
    "certify",
    "convex_path",
    "estimate_memory",
    "make_features",
    "make_gates",
    "recover_heads",
    "relative_gap",
    "solve",
]
