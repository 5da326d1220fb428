"""The theory of attention as max-margin token selection, as functions.

The theorems are those of arXiv 2308.16898, "Transformers as Support Vector Machines",
and arXiv 2306.13596, "Max-Margin Token Selection in Attention Mechanism".
"""

from skattn.margin import attention_svm_path
from skattn.theory._alignment import alignment
from skattn.theory._attention_kernel import attention_kernel
from skattn.theory._attention_svm import attention_svm
from skattn.theory._checks import (
    effective_rank,
    global_optimality,
    margins,
    saturation,
    selected_set,
)
from skattn.theory._dynamics import AttentionTrajectory, train_attention
from skattn.theory._feasibility import Feasibility, feasibility
from skattn.theory._local_optimality import is_locally_optimal
from skattn.theory._monitor import ImplicitBiasMonitor
from skattn.theory._radius import RadiusFit, fit_radius
from skattn.theory._regularization_path import RegularizationPath, regularization_path
from skattn.theory._sparsity import AttentionSparsity, PowerLaw, attention_sparsity

__all__ = [
    "AttentionSparsity",
    "AttentionTrajectory",
    "Feasibility",
    "ImplicitBiasMonitor",
    "PowerLaw",
    "RadiusFit",
    "RegularizationPath",
    "alignment",
    "attention_kernel",
    "attention_sparsity",
    "attention_svm",
    "attention_svm_path",
    "effective_rank",
    "feasibility",
    "fit_radius",
    "global_optimality",
    "is_locally_optimal",
    "margins",
    "regularization_path",
    "saturation",
    "selected_set",
    "train_attention",
]
