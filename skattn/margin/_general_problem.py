"""The smallest W under linear constraints of any right-hand sides."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from skattn.margin._constraints import Constraints
from skattn.margin._norms import resolve_norm
from skattn.margin._reading import read_penalties, read_query, read_tokens


@dataclass(frozen=True)
class GeneralProblem:
    """Find the smallest W that meets margins of any size, and equalities.

    With dx a difference of two tokens of a sample and z its query::

        minimise  1/2 |W|^2 + sum of C * slack
        subject to  dx' W z >= required - slack   (margins)
                    dx' W z  = required           (equalities)

    `skattn.margin.MarginProblem` is the case of one selected token a sample and
    margins of 1, for which there are more and faster solvers. Made by
    `selection_problem` and `finite_problem`, solved by `solve_general`.

    Parameters
    ----------
    constraints : Constraints
        The rows dx, their queries and C, infinite on equalities; rows of one query
        contiguous.

    required : ndarray of shape (m,)
        What each row must reach; at least 0 in margins. Where there are margins, 0 in
        equalities.

    is_equality : boolean array of shape (m,)
        Which rows are equalities.

    rows : int array of shape (m,)
        The token, counted over all samples, that each row is about.

    n_tokens : int
        Number of real tokens.

    coef_shape : tuple of int
        (d,) or (d, d_q).

    norm : object
        The norm as resolved, with the methods `value` and `dual_value`.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import selection_problem
    >>> tokens = [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
    >>> problem = selection_problem(tokens, np.array([True, True, False]), margin=2.0)
    >>> problem.constraints.differences
    array([[ 1., -1.],
           [ 1.,  0.]])
    >>> problem.required, problem.is_equality
    (array([0., 2.]), array([ True, False]))
    """

    constraints: Constraints
    required: np.ndarray
    is_equality: np.ndarray
    rows: np.ndarray
    n_tokens: int
    coef_shape: tuple[int, ...]
    norm: object

    @property
    def merged(self):
        """The constraints, under the name by which solvers ask for them."""
        return self.constraints

    @property
    def is_soft(self):
        """Boolean array of shape (m,): which margins allow slack."""
        return ~self.constraints.is_hard

    @property
    def is_hard(self):
        """Whether no margin allows slack."""
        return not self.is_soft.any()

    def split_dual(self, dual):
        """Lay a value a row out over the real tokens, 0 where there is no row."""
        dual_coef = np.zeros(self.n_tokens)
        dual_coef[self.rows] = dual
        return dual_coef

    def spread(self, values):
        """Return values as they are: no rows of a general problem are merged."""
        return values

    def select(self, rows):
        """Return the problem of some of the rows, chosen by a boolean array."""
        return replace(
            self,
            constraints=_take(self.constraints, rows),
            required=self.required[rows],
            is_equality=self.is_equality[rows],
            rows=self.rows[rows],
        )

    def with_hard_margins(self):
        """Return the same problem without slack."""
        hard = self.constraints.with_C(np.full(self.constraints.size, np.inf))
        return replace(self, constraints=hard)


def selection_problem(
    tokens, is_selected, query=None, *, margin=1.0, C=np.inf, norm="fro"
):
    """Put sets of selected tokens ahead of all others, and level with each other.

    The direction that attention converges to when several tokens of a sample keep
    weight (section 5 of arXiv 2308.16898): ``(x_u - x_t)' W z >= margin`` for u within
    the selected set and t outside, and ``(x_u - x_v)' W z = 0`` for u and v within.

    Parameters
    ----------
    tokens, query, C, norm : object
        As in `MarginProblem`. Slack is for margins only. Where C is 0 a sample has no
        constraint at all.

    is_selected : boolean array of shape (n_tokens,)
        The selected tokens, all samples end to end; at least one a sample.

    margin : float or ndarray of shape (n,), default=1.0
        The margin that each sample asks for, at least 0 and above 0 in some.

    Returns
    -------
    problem : GeneralProblem
        Tokens outside the set that equal one inside are left out, as are equalities
        of equal tokens. The duals of equalities belong to all selected tokens of a
        sample but the first, which the others are compared with.

    Raises
    ------
    ValueError
        If shapes do not agree, a value is not finite, a sample has no selected token,
        or a parameter is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import selection_problem, solve_general
    >>> tokens = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    >>> problem = selection_problem(tokens, np.array([True, True, False]))
    >>> solve_general(problem).coef.round(6)
    array([1., 1.])
    """
    values, offsets = read_tokens(tokens)
    n_samples = offsets.size - 1
    is_selected = _read_sets(is_selected, offsets)
    query = read_query(query, n_samples)
    penalties = read_penalties(C, n_samples)
    margin = _read_margin(margin, n_samples)
    samples = np.repeat(np.arange(n_samples), np.diff(offsets))
    references = _first_selected(is_selected, offsets)
    is_kept = penalties[samples] > 0
    is_kept[references] = False
    differences = _differences(values, references[samples], slice(None))
    # Copies of the first are equalities 0 = 0; copies of the others are margins that
    # no W can meet.
    is_kept &= differences.any(axis=1)
    is_kept &= ~_equals_a_selected_one(values, is_selected, offsets)
    rows = np.flatnonzero(is_kept)
    is_equality = is_selected[rows]
    owners = samples[rows]
    return _problem(
        differences[rows],
        query,
        owners,
        np.where(is_equality, np.inf, penalties[owners]),
        np.where(is_equality, 0.0, margin[owners]),
        is_equality,
        rows,
        values.shape,
        norm,
    )


def finite_problem(tokens, is_selected, log_weights, query=None, *, norm="fro"):
    """Reproduce the ratios of attention weights within sets of selected tokens.

    The finite component of attention weights (section 5 of arXiv 2308.16898): the
    smallest W with ``(x_t - x_u)' W z = log(s_t / s_u)`` for all t and u within the
    selected set of a sample.

    Parameters
    ----------
    tokens, is_selected, query, norm : object
        As in `selection_problem`.

    log_weights : ndarray of shape (n_tokens,)
        Logarithms of the attention weights s, of the selected tokens at least.

    Returns
    -------
    problem : GeneralProblem
        Equalities only.

    Raises
    ------
    ValueError
        If shapes do not agree, a value is not finite, a sample has no selected token,
        or the norm is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn.margin import finite_problem, solve_general
    >>> tokens = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    >>> weights = np.array([0.8, 0.2, 1e-9])
    >>> problem = finite_problem(tokens, weights > 1e-3, np.log(weights))
    >>> solve_general(problem).coef.round(4)  # half of log 4, for and against
    array([ 0.6931, -0.6931])
    """
    values, offsets = read_tokens(tokens)
    n_samples = offsets.size - 1
    is_selected = _read_sets(is_selected, offsets)
    query = read_query(query, n_samples)
    log_weights = np.asarray(log_weights, dtype=np.float64)
    if log_weights.shape != (offsets[-1],):
        raise ValueError(
            f"log_weights must have shape ({offsets[-1]},), one entry a token; got "
            f"{log_weights.shape}."
        )
    samples = np.repeat(np.arange(n_samples), np.diff(offsets))
    references = _first_selected(is_selected, offsets)
    is_kept = is_selected.copy()
    is_kept[references] = False
    rows = np.flatnonzero(is_kept)
    owners = samples[rows]
    required = log_weights[references[owners]] - log_weights[rows]
    if not np.isfinite(required).all():
        raise ValueError("log_weights must be finite at selected tokens.")
    differences = _differences(values, references[owners], rows)
    # A copy that weighs the same asks for nothing; another weight is a contradiction,
    # and has to stay.
    asks = differences.any(axis=1) | (required != 0)
    return _problem(
        differences[asks],
        query,
        owners[asks],
        np.full(asks.sum(), np.inf),
        required[asks],
        np.ones(asks.sum(), dtype=bool),
        rows[asks],
        values.shape,
        norm,
    )


def _problem(differences, query, samples, C, required, is_equality, rows, shape, norm):
    coef_shape = (shape[1],) if query is None else (shape[1], query.shape[1])
    return GeneralProblem(
        Constraints(differences, query, samples, C),
        required,
        is_equality,
        rows,
        shape[0],
        coef_shape,
        resolve_norm(norm, coef_shape),
    )


def _take(constraints, rows):
    return replace(
        constraints,
        differences=constraints.differences[rows],
        query_index=constraints.query_index[rows],
        C=constraints.C[rows],
    )


def _read_sets(is_selected, offsets):
    is_selected = np.asarray(is_selected)
    if is_selected.shape != (offsets[-1],) or is_selected.dtype != bool:
        raise ValueError(
            f"is_selected must be a boolean array of shape ({offsets[-1]},), one entry "
            f"a token; got {is_selected.dtype} of shape {is_selected.shape}."
        )
    counts = np.add.reduceat(is_selected.astype(int), offsets[:-1])
    if counts.min() == 0:
        raise ValueError(
            f"Sample {int(np.argmin(counts))} has no selected token; select at least "
            "one, or leave the sample out."
        )
    return is_selected


def _read_margin(margin, n_samples):
    try:
        margins = np.asarray(margin, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"margin must be a number, or one a sample; got {margin!r}."
        ) from None
    if margins.shape not in ((), (n_samples,)):
        raise ValueError(
            f"margin must be a number or have shape ({n_samples},), one a sample; got "
            f"shape {margins.shape}."
        )
    margins = np.broadcast_to(margins, (n_samples,))
    invalid = ~((margins >= 0) & (margins < np.inf))
    if invalid.any():
        index = int(np.argmax(invalid))
        raise ValueError(
            f"margin must be at least 0 and finite, got {margins[index]} for sample "
            f"{index}."
        )
    if not margins.any():
        raise ValueError(
            "margin is 0 for every sample, which W = 0 meets; at least one sample must "
            "ask for a margin above 0."
        )
    return margins


def _first_selected(is_selected, offsets):
    selected = np.flatnonzero(is_selected)
    return selected[np.searchsorted(selected, offsets[:-1])]


def _differences(values, left, right):
    differences = values[left] - values[right]
    return differences.toarray() if sparse.issparse(differences) else differences


def _equals_a_selected_one(values, is_selected, offsets):
    is_copy = np.zeros(is_selected.size, dtype=bool)
    for start, stop in pairwise(offsets):
        inside = is_selected[start:stop]
        if inside.all() or inside.sum() == 1:
            # The comparison with the first one, which all samples have, is enough.
            continue
        sample = values[start:stop]
        sample = sample.toarray() if sparse.issparse(sample) else sample
        outside = np.flatnonzero(~inside)
        equal = (sample[outside, None] == sample[None, inside]).all(axis=2).any(axis=1)
        is_copy[start + outside[equal]] = True
    return is_copy
