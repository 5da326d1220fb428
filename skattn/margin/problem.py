"""The problem: for each sample, one selected token and its margins over the others."""

import copy
from functools import cached_property

import numpy as np
from scipy import sparse

from skattn.margin._constraints import CHUNK, Constraints
from skattn.margin._merging import (
    group_by_hash,
    group_identical_rows,
    hash_rows,
    rows_differ,
)
from skattn.margin._norms import resolve_norm
from skattn.margin._reading import (
    read_penalties,
    read_query,
    read_selected,
    read_tokens,
    refuse_extreme_scale,
)


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
        If shapes do not agree, a value is not finite, tokens are so large or small
        that squares overflow or vanish, `selected` is out of range, C is not above 0
        or the norm is unknown.

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
        self._selected_rows = offsets[:-1] + read_selected(selected, lengths)
        query = read_query(query, n_samples)
        refuse_extreme_scale(values, query)
        penalties = read_penalties(C, n_samples)

        self.n_samples = n_samples
        self.n_tokens = values.shape[0]
        n_features = values.shape[1]
        self.coef_shape = (
            (n_features,) if query is None else (n_features, query.shape[1])
        )
        self.norm = resolve_norm(norm, self.coef_shape)

        self._values = values
        self._offsets = offsets
        self._query = query
        self._penalties = penalties
        self._sample_of_row = np.repeat(np.arange(n_samples), lengths)
        self._keep_rows()

    @cached_property
    def constraints(self):
        """One row for each real token that is not selected."""
        return Constraints(
            self._form_differences(self.rows), self._query, self.samples, self._costs
        )

    @property
    def differences(self):
        """Rows dx of the constraints."""
        return self.constraints.differences

    @property
    def is_hard(self):
        """Whether no constraint allows slack."""
        return bool(np.isinf(self._costs).all())

    def margins(self, coef):
        """Margins ``dx' W z`` of `coef`, an array of shape (m,)."""
        return self.constraints.margins(coef)

    def adjoint(self, dual):
        """Sum of ``dual * dx z'`` for `dual` of shape (m,), of shape `coef_shape`."""
        return self.constraints.adjoint(dual)

    def with_C(self, C):
        """Return the same problem at another cost of slack.

        What was computed about tokens and queries is shared, unless C changes which
        samples it leaves out.

        Parameters
        ----------
        C : float or ndarray of shape (n,)
            As in the constructor.

        Returns
        -------
        problem : MarginProblem

        Examples
        --------
        >>> from skattn.margin import MarginProblem
        >>> problem = MarginProblem([[[2.0], [0.0]]], [0])
        >>> problem.with_C(0.5).constraints.C
        array([0.5])
        """
        other = copy.copy(self)
        other._penalties = read_penalties(C, self.n_samples)
        other.__dict__.pop("constraints", None)
        merging = other.__dict__.pop("_merging", None)
        if not np.array_equal(other._penalties > 0, self._penalties > 0):
            other.__dict__.pop("_hashes", None)
            other._keep_rows()
        elif merging is not None:
            merged, groups = merging
            costs = np.bincount(groups, weights=other._costs, minlength=merged.size)
            other._merging = merged.with_C(costs), groups
        return other

    def with_selected(self, selected):
        """Return the same problem with other tokens selected.

        Number for number the problem that the constructor would make. What was
        computed about the samples whose token stays the same is taken over.

        Parameters
        ----------
        selected : int array of shape (n,)
            As in the constructor.

        Returns
        -------
        problem : MarginProblem

        Raises
        ------
        ValueError, TypeError
            As in the constructor.

        Examples
        --------
        >>> from skattn.margin import MarginProblem
        >>> problem = MarginProblem([[[2.0], [0.0]], [[1.0], [0.0]]], [0, 0])
        >>> problem.with_selected([0, 1]).differences
        array([[ 2.],
               [-1.]])
        """
        lengths = np.diff(self._offsets)
        selected_rows = self._offsets[:-1] + read_selected(selected, lengths)
        other = copy.copy(self)
        for name in ("constraints", "_merging"):
            other.__dict__.pop(name, None)
        is_changed = selected_rows != self._selected_rows
        other._selected_rows = selected_rows
        hashes = other.__dict__.pop("_hashes", None)
        is_same = ~is_changed[self.samples]
        other._keep_rows(self.rows[is_same], is_changed[self._sample_of_row])
        if hashes is not None:
            other._hashes = np.empty(other.rows.size, dtype=np.uint64)
            is_new = is_changed[other.samples]
            other._hashes[~is_new] = hashes[is_same]
            other._hashes[is_new] = other._hash(other.rows[is_new])
        return other

    def _keep_rows(self, kept=None, is_candidate=None):
        # Of the candidates those that are constraints join what is kept in any case.
        is_constraint = (self._penalties > 0)[self._sample_of_row]
        is_constraint[self._selected_rows] = False
        if is_candidate is not None:
            is_constraint &= is_candidate
        rows = np.flatnonzero(is_constraint)
        rows = rows[self._differ_from_selected(rows)]
        self.rows = rows if kept is None else np.sort(np.concatenate([kept, rows]))
        self.samples = self._sample_of_row[self.rows]

    def _selected_of(self, rows):
        return self._selected_rows[self._sample_of_row[rows]]

    def _differ_from_selected(self, rows):
        differ = np.ones(rows.size, dtype=bool)
        candidates = np.arange(rows.size)
        if not sparse.issparse(self._values):
            # Few tokens agree with the selected one in their first feature.
            first = self._values[:, 0]
            candidates = np.flatnonzero(first[rows] == first[self._selected_of(rows)])
        for chunk in self._chunks(candidates.size):
            some = rows[candidates[chunk]]
            differ[candidates[chunk]] = rows_differ(
                self._values[some], self._values[self._selected_of(some)]
            )
        return differ

    @property
    def _costs(self):
        return self._penalties[self.samples]

    def _form_differences(self, rows):
        if sparse.issparse(self._values):
            differences = self._values[self._selected_of(rows)] - self._values[rows]
            differences = sparse.csr_array(differences)
            differences.eliminate_zeros()
            differences.sort_indices()
            return differences
        differences = self._values[self._selected_of(rows)]
        for chunk in self._chunks(rows.size):
            differences[chunk] -= self._values[rows[chunk]]
        return differences

    def _chunks(self, size):
        step = max(CHUNK // max(self._values.shape[1], 1), 1)
        for first in range(0, size, step):
            yield slice(first, first + step)

    @cached_property
    def _hashes(self):
        return self._hash(self.rows)

    def _hash(self, rows):
        hashes = np.empty(rows.size, dtype=np.uint64)
        for chunk in self._chunks(rows.size):
            hashes[chunk] = hash_rows(self._form_differences(rows[chunk]))
        return hashes

    @cached_property
    def _distinct_queries(self):
        distinct, group_of_sample = group_identical_rows(self._query)
        return self._query[distinct], group_of_sample

    @cached_property
    def _merging(self):
        queries, query_index = None, np.zeros(self.rows.size, dtype=np.intp)
        if self._query is not None:
            queries, group_of_sample = self._distinct_queries
            query_index = group_of_sample[self.samples]
        representatives, groups = group_by_hash(self._hashes, self._differ, query_index)
        merged = Constraints(
            self._form_differences(self.rows[representatives]),
            queries,
            query_index[representatives],
            np.bincount(groups, weights=self._costs, minlength=representatives.size),
        )
        return merged, groups

    def _differ(self, left, right):
        left, right = self.rows[left], self.rows[right]
        return rows_differ(self._form_differences(left), self._form_differences(right))

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
        dual = merged_dual[groups]
        if merged.size < groups.size:
            is_hard_group = merged.is_hard[groups]
            weight = np.where(is_hard_group, np.isinf(self._costs), self._costs)
            total = np.bincount(groups, weights=weight, minlength=merged.size)
            # The share of a row that stands for itself is 1 exactly.
            dual *= weight / total[groups]
        dual_coef = np.zeros(self.n_tokens)
        dual_coef[self.rows] = dual
        return dual_coef

    def spread(self, merged_values):
        """Repeat a value of each row of `merged` for the constraints it stands for.

        Parameters
        ----------
        merged_values : ndarray of shape (merged.size,)

        Returns
        -------
        values : ndarray of shape (m,)
        """
        return merged_values[self._merging[1]]

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
