"""The problem: for each sample, one selected token and its margins over the others."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from skattn.margin._merging import group_identical_rows
from skattn.margin._norms import resolve_norm
from skattn.margin._reading import (
    read_penalties,
    read_query,
    read_selected,
    read_tokens,
)


@dataclass(frozen=True)
class Constraints:
    """Rows ``dx' W z >= 1`` with what a unit of slack costs in each.

    Parameters
    ----------
    differences : ndarray or csr_array of shape (m, d)
        The rows dx.

    queries : ndarray of shape (n_queries, d_q) or None
        The distinct or per-sample z; None for a prompt, where z is 1.

    query_index : int array of shape (m,)
        The row of `queries` that belongs to each constraint.

    C : ndarray of shape (m,)
        Cost of slack, above 0; infinite where the constraint is hard.
    """

    differences: np.ndarray | sparse.csr_array
    queries: np.ndarray | None
    query_index: np.ndarray
    C: np.ndarray

    @property
    def size(self):
        """Number of constraints."""
        return self.C.size

    @cached_property
    def is_hard(self):
        """Boolean array of shape (m,): which constraints allow no slack."""
        return np.isinf(self.C)

    def margins(self, coef):
        """Left-hand sides ``dx' W z``, without forming any (m, d * d_q) matrix.

        Parameters
        ----------
        coef : ndarray of shape (d,) or (d, d_q)

        Returns
        -------
        margins : ndarray of shape (m,)
        """
        projected = self.differences @ coef
        if self.queries is None:
            return projected
        return np.einsum("ij,ij->i", projected, self.queries[self.query_index])

    def adjoint(self, dual):
        """Sum of ``dual * dx z'`` over the constraints.

        Parameters
        ----------
        dual : ndarray of shape (m,)

        Returns
        -------
        gradient : ndarray of shape (d,) or (d, d_q)
        """
        if self.queries is None:
            return self.differences.T @ dual
        return self.differences.T @ (dual[:, None] * self.queries[self.query_index])

    def row_norms(self):
        """Euclidean norms of ``dx z'``, an array of shape (m,)."""
        if sparse.issparse(self.differences):
            norms = np.sqrt(self.differences.multiply(self.differences).sum(axis=1))
        else:
            norms = np.linalg.norm(self.differences, axis=1)
        if self.queries is None:
            return norms
        return norms * np.linalg.norm(self.queries, axis=1)[self.query_index]


class MarginProblem:
    """Find the smallest W that puts the selected tokens ahead of all others.

    With dx the selected token of a sample minus another of its tokens, z its query::

        minimise  1/2 |W|^2 + sum of C * slack   subject to   dx' W z >= 1 - slack

    one slack for each other token. This is the attention SVM of arXiv 2308.16898
    (Att-SVM; 2306.13596 for a prompt; 2410.14581 for the entrywise norms). The half
    square makes C comparable across norms.

    Parameters
    ----------
    tokens : ndarray of shape (n, T, d), sequence of ndarray of shape (T_i, d), or \
            object with attributes `values` and `offsets`
        The tokens. In the last form `values` is an ndarray or a sparse array of shape
        (n_tokens, d), all tokens end to end, and sample i owns the rows from
        ``offsets[i]`` to ``offsets[i + 1]``.

    selected : int array of shape (n,)
        Index of the selected token within each sample.

    query : ndarray of shape (n, d_q), default=None
        The queries z. None: a prompt, z is 1 and the solution a vector.

    C : float or ndarray of shape (n,), default=inf
        Cost of a unit of slack in each constraint of a sample; infinity is the hard
        margin. Hard and soft samples may be mixed. In an array, 0 leaves the sample
        out.

    norm : {"fro", "nuc"} or float, default="fro"
        Frobenius, nuclear, or a number p > 1 for the l_p norm of the entries. For a
        vector, "nuc" is the Euclidean norm.

    Attributes
    ----------
    constraints : Constraints
        One row for each real token that is not selected. Tokens equal to the selected
        one are left out: no W can tell them apart.

    differences : ndarray or csr_array of shape (m, d)
        The rows dx of `constraints`; sparse tokens give sparse rows.

    samples : int array of shape (m,)
        The sample of each constraint.

    rows : int array of shape (m,)
        The row of ``tokens.values`` of each constraint.

    n_tokens : int
        Number of real tokens.

    n_samples : int
        Number of samples.

    coef_shape : tuple of int
        (d,) or (d, d_q).

    norm : object
        The norm as resolved, with the methods `value` and `dual_value`.

    Raises
    ------
    ValueError
        If shapes do not agree, a value is not finite, `selected` is out of range, C
        is not above 0 or the norm is unknown.

    TypeError
        If `selected` does not hold integers.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import MarginProblem
    >>> tokens = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = MarginProblem(tokens, [0])
    >>> problem.differences
    array([[-1.1,  1. ],
           [-0.1,  1. ]])
    >>> problem.margins(np.array([0.0, 2.0]))
    array([2., 2.])
    """

    def __init__(self, tokens, selected, query=None, C=np.inf, norm="fro"):
        values, offsets = read_tokens(tokens)
        lengths = np.diff(offsets)
        n_samples = lengths.size
        selected_rows = offsets[:-1] + read_selected(selected, lengths)
        query = read_query(query, n_samples)
        penalties = read_penalties(C, n_samples)

        self.n_samples = n_samples
        self.n_tokens = values.shape[0]
        n_features = values.shape[1]
        self.coef_shape = (
            (n_features,) if query is None else (n_features, query.shape[1])
        )
        self.norm = resolve_norm(norm, self.coef_shape)

        samples = np.repeat(np.arange(n_samples), lengths)
        rows = np.arange(self.n_tokens)
        is_kept = (rows != selected_rows[samples]) & (penalties[samples] > 0)
        rows = rows[is_kept]
        differences = values[selected_rows[samples[rows]]] - values[rows]
        if sparse.issparse(differences):
            differences = sparse.csr_array(differences)
            differences.eliminate_zeros()
            differences.sort_indices()
            is_nonzero = np.diff(differences.indptr) > 0
        else:
            is_nonzero = differences.any(axis=1)
        if not is_nonzero.all():
            rows, differences = rows[is_nonzero], differences[is_nonzero]
        self.rows = rows
        self.samples = samples[rows]
        self.constraints = Constraints(
            differences, query, self.samples, penalties[self.samples]
        )

    @property
    def differences(self):
        """Rows dx of the constraints."""
        return self.constraints.differences

    @property
    def is_hard(self):
        """Whether no constraint allows slack."""
        return bool(self.constraints.is_hard.all())

    def margins(self, coef):
        """Margins ``dx' W z`` of `coef`, an array of shape (m,)."""
        return self.constraints.margins(coef)

    def adjoint(self, dual):
        """Sum of ``dual * dx z'`` for `dual` of shape (m,), of shape `coef_shape`."""
        return self.constraints.adjoint(dual)

    @cached_property
    def _merging(self):
        full = self.constraints
        queries, query_index = None, np.zeros(full.size, dtype=np.intp)
        if full.queries is not None:
            distinct, group_of_sample = group_identical_rows(full.queries)
            queries = full.queries[distinct]
            query_index = group_of_sample[full.query_index]
        representatives, groups = group_identical_rows(full.differences, query_index)
        merged = Constraints(
            full.differences[representatives],
            queries,
            query_index[representatives],
            np.bincount(groups, weights=full.C, minlength=representatives.size),
        )
        return merged, groups

    @property
    def merged(self):
        """The same convex problem with identical rows merged and their C added.

        Rows come in an order that does not depend on the order of samples or tokens,
        so that a sample given twice, a sample of weight 2, and permuted samples are
        one problem to a solver, number for number. Rows of one query are contiguous.
        """
        return self._merging[0]

    def split_dual(self, merged_dual):
        """Lay a dual of `merged` out over the real tokens.

        Rows that were merged share in proportion to their C, equally when hard.

        Parameters
        ----------
        merged_dual : ndarray of shape (merged.size,)

        Returns
        -------
        dual_coef : ndarray of shape (n_tokens,)
            0 where a token has no constraint.
        """
        merged, groups = self._merging
        is_hard_group = merged.is_hard[groups]
        weight = np.where(is_hard_group, self.constraints.is_hard, self.constraints.C)
        total = np.bincount(groups, weights=weight, minlength=merged.size)
        dual_coef = np.zeros(self.n_tokens)
        dual_coef[self.rows] = merged_dual[groups] * weight / total[groups]
        return dual_coef

    def merge_dual(self, dual_coef):
        """Add a dual per real token up over the rows of `merged`.

        Parameters
        ----------
        dual_coef : ndarray of shape (n_tokens,)

        Returns
        -------
        merged_dual : ndarray of shape (merged.size,)
        """
        merged, groups = self._merging
        return np.bincount(groups, weights=dual_coef[self.rows], minlength=merged.size)
