"""Tokens of many samples, laid out so that attention needs no dense table.

Three layouts offer the same operations. :class:`RaggedTokens` holds every token;
:class:`TableTokens` holds the cells of a table and stands for the tokens
``[e_t, x_t e_t]`` of its columns, which it never writes out; :class:`SharedTokens`
holds tokens that are the same in every sample, for attention that pools nothing else.
"""

from skattn.attention.layouts._batch import TokenBatch
from skattn.attention.layouts._ragged import RaggedTokens
from skattn.attention.layouts._shared import SharedTokens
from skattn.attention.layouts._table import TableTokens

__all__ = ["RaggedTokens", "SharedTokens", "TableTokens", "TokenBatch"]
