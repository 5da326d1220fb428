"""From scores to weights: softmax and sparse mappings, and two baselines.

:func:`softmax`, :func:`entmax15` and :func:`sparsemax` are members of one family,
:func:`entmax`, with ``alpha`` 1, 1.5 and 2:
``p = max((alpha - 1) z - tau, 0) ** (1 / (alpha - 1))``, where ``tau`` makes the
weights of a sample sum to one (softmax is the limit ``alpha -> 1``). :func:`topk` is
the softmax of the best tokens of each sample; :func:`linear` and :func:`elu` are what
attention without exponentials does. All take NumPy arrays and torch tensors; on
tensors they are differentiable. Torch is not needed, nor imported, for arrays.
"""

# An alias marks what is not public but shared with the rest of the package.
from skattn.mappings._choice import MAPPING_NAMES, check_mapping, learned_alpha
from skattn.mappings._family import ORDERS as ORDERS
from skattn.mappings._family import by_order as by_order
from skattn.mappings._family import mapping_function as mapping_function
from skattn.mappings._functions import (
    MAPPINGS,
    elu,
    entmax,
    entmax15,
    linear,
    softmax,
    sparsemax,
    topk,
)
from skattn.mappings._layouts import check_offsets as check_offsets
from skattn.mappings._layouts import check_scores as check_scores
from skattn.mappings._orders import map_scores as map_scores
from skattn.mappings._selection import count_of_power as count_of_power

__all__ = [
    "MAPPINGS",
    "MAPPING_NAMES",
    "check_mapping",
    "elu",
    "entmax",
    "entmax15",
    "learned_alpha",
    "linear",
    "softmax",
    "sparsemax",
    "topk",
]
