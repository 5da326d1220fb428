"""The theory of attention as max-margin token selection, as functions.

The theorems are those of arXiv 2308.16898, "Transformers as Support Vector Machines",
and arXiv 2306.13596, "Max-Margin Token Selection in Attention Mechanism".
"""

from skattn.margin import attention_svm_path
from skattn.theory._alignment import alignment
from skattn.theory._attention_svm import attention_svm
from skattn.theory._local_optimality import is_locally_optimal

__all__ = [
    "alignment",
    "attention_svm",
    "attention_svm_path",
    "is_locally_optimal",
]
