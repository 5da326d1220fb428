"""The support vector machine that attention converges to."""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skattn.margin import (
    GeneralProblem,
    MarginProblem,
    finite_problem,
    selection_problem,
    solve,
    solve_general,
    solve_many,
)
from skattn.theory._batch import check_batch, has_length, is_batch, naming_problem
from skattn.theory._reading import (
    index_of_position,
    read_per_token,
    read_selection,
    selects_one_each,
)
from skattn.tokens import check_tokens


def attention_svm(
    X,
    selected,
    query=None,
    *,
    norm="fro",
    C=np.inf,
    solver="auto",
    tol=1e-6,
    margin=1.0,
    attention_weights=None,
):
    """Solve the support vector machine that attention converges to.

    For a selected token in each sample it is the smallest W with
    ``(x_selected - x_t)' W z >= 1`` for all other tokens t of all samples: the
    direction of gradient descent on attention weights that select these tokens
    (Att-SVM of arXiv 2308.16898). Training W has the Frobenius norm as its bias,
    training keys and queries (W = K Q') the nuclear norm, l_p mirror descent the
    entrywise l_p norm (arXiv 2410.14581). A prompt is a single vector in place of W z
    (arXiv 2306.13596).

    Where attention keeps several tokens of a sample, all of them are selected: they are
    to be level, ``(x_u - x_v)' W z = 0``, and each ahead of the rest. Trained weights
    are then about ``W_fin + R W``, with a finite component that decides how the
    selected tokens share their weight (section 5 of arXiv 2308.16898); `fit_radius`
    finds R.

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`. An ndarray of shape (B, n, T, d) is a
        batch: B problems of n samples each, solved in one call.

    selected : array-like of int of shape (n,), list of n arrays of int, or boolean \
            array of the shape of the tokens
        Position of the selected token in each sample as given, absent tokens counted;
        or the positions of several in each; or a mask, (n, T) or a list of (T_i,), as
        `selected_set` returns it. With one more axis, or a list of B such, for a batch.

    query : array-like of shape (n, d_q), default=None
        The query z of each sample. None: the queries that `X` carries, or else a
        prompt. Of shape (B, n, d_q) for a batch.

    norm : {"fro", "nuc"} or float, default="fro"
        Frobenius, nuclear, or a number p > 1 for the l_p norm of the entries.

    C : float or array-like of shape (n,), default=inf
        Cost of a unit of slack in a constraint; one number or one a sample. Infinity
        is the hard margin. The soft objective is ``1/2 |W|^2 + sum of C * slack``.
        Slack is for margins only: selected tokens stay level. A batch shares it, or has
        one a problem and sample: shape (B, n).

    solver : {"auto"} or a key of `skattn.margin.SOLVERS`, default="auto"
        As in `skattn.margin.solve`; for a batch as in `skattn.margin.solve_many`. With
        several selected tokens or margins other than 1 as in
        `skattn.margin.solve_general`.

    tol : float, default=1e-6
        Relative duality gap to reach.

    margin : float or array-like of shape (n,), default=1.0
        The margin to ask for, one number or one a sample; at least 0, and above 0 in
        some sample. Where prompt and head are trained together, a sample that is not
        a support vector of the head asks for 0 (arXiv 2306.13596). A batch shares it,
        or has one a problem and sample: shape (B, n).

    attention_weights : array-like of shape (n, T) or list of (T_i,), default=None
        Weights of a trained attention, above 0 at the selected tokens: the solution
        then has the finite component, the smallest W with
        ``(x_t - x_u)' W z = log(weight_t / weight_u)`` among the selected tokens of
        each sample. Of shape (B, n, T) for a batch.

    Returns
    -------
    solution : MarginSolution or list of MarginSolution
        With `coef` of shape (d,) for a prompt and (d, d_q) with queries, `dual_coef`
        and `slack` per real token, and the certificate. Infeasible hard margins raise
        nothing: `status` is "infeasible", and `ray` proves it. `finite_coef` is the
        finite component, NaN where no W has these weights, and `finite` the solution
        that it is from. Where no margin above 0 is left, since all tokens of the
        samples that ask for one are selected, the solution is 0. A batch gives a list
        of B solutions.

    Raises
    ------
    ValueError
        If shapes do not agree, a selected token is absent, or a parameter is invalid.
        Of a batch it names the problem.

    Warns
    -----
    ConvergenceWarning
        If the gap was not reached.

    See Also
    --------
    fit_radius : How far along the solution trained weights have come.
    feasibility : Whether hard margins can be met, with a proof either way.
    skattn.margin.MarginProblem : The problem by itself, and its solvers.

    Examples
    --------
    >>> from skattn.theory import attention_svm
    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    >>> solution = attention_svm(X, selected=[0])
    >>> solution.coef.round(4), round(solution.objective**2, 4)
    (array([-0.099 ,  0.9901]), 0.9901)
    >>> attention_svm([[[-1.0], [0.0], [1.0]]], selected=[1]).status
    'infeasible'

    A hundred random problems, of 6 samples with 8 tokens each:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, query = rng.normal(size=(100, 6, 8, 10)), rng.normal(size=(100, 6, 10))
    >>> batch = attention_svm(X, rng.integers(8, size=(100, 6)), query)
    >>> np.stack([solution.coef for solution in batch]).shape
    (100, 10, 10)

    Two selected tokens are level, and both ahead of the third; how they share their
    weight is a matter of the finite component:

    >>> X = [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
    >>> solution = attention_svm(X, [[0, 1]], attention_weights=[[0.8, 0.2, 0.0]])
    >>> solution.coef.round(4), solution.finite_coef.round(4)
    (array([1., 1.]), array([ 0.6931, -0.6931]))

    A sample that asks for no margin only must not be behind:

    >>> X = [[[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]]]
    >>> attention_svm(X, [0, 0], margin=[1, 0]).coef.round(4)
    array([0.6667, 0.3333])
    """
    if is_batch(X):
        instances = _read_batch(X, selected, query, C, norm, margin, attention_weights)
        solutions = _solve_many(instances, solver, tol)
        return _finished(solutions, instances, tol)
    instance = _read(X, selected, query, C, norm, margin, attention_weights)
    is_general = isinstance(instance.problem, GeneralProblem)
    solution = (solve_general if is_general else solve)(
        instance.problem, tol=tol, solver=solver
    )
    return _finished([solution], [instance], tol)[0]


class _Instance(NamedTuple):
    """The two problems of one call."""

    problem: MarginProblem | GeneralProblem
    finite: GeneralProblem | None


def _read(X, selected, query, C, norm, margin, attention_weights):
    tokens = check_tokens(X, query=query)
    finite = None
    if attention_weights is not None:
        finite = _finite_problem(tokens, selected, attention_weights, norm)
    asks_for_one = np.shape(margin) in ((), (len(tokens),)) and np.all(
        np.asarray(margin) == 1
    )
    if asks_for_one and selects_one_each(selected):
        problem = MarginProblem(
            tokens,
            index_of_position(tokens, selected),
            query=tokens.query,
            C=C,
            norm=norm,
        )
    else:
        problem = selection_problem(
            tokens,
            read_selection(tokens, selected),
            query=tokens.query,
            margin=margin,
            C=C,
            norm=norm,
        )
    return _Instance(problem, finite)


def _finite_problem(tokens, selected, attention_weights, norm):
    is_selected = read_selection(tokens, selected)
    weights = read_per_token(tokens, attention_weights, "attention_weights")
    weightless = np.flatnonzero(is_selected & ~((weights > 0) & (weights < np.inf)))
    if weightless.size:
        row = weightless[0]
        sample = int(np.searchsorted(tokens.offsets, row, side="right")) - 1
        raise ValueError(
            "attention_weights must be above 0 and finite at selected tokens, got "
            f"{weights[row]} at position {tokens.positions[row]} of sample {sample}; "
            "leave that token out of the selection."
        )
    logarithms = np.zeros(weights.size)
    logarithms[is_selected] = np.log(weights[is_selected])
    return finite_problem(
        tokens, is_selected, logarithms, query=tokens.query, norm=norm
    )


def _read_batch(X, selected, query, C, norm, margin, attention_weights):
    n_problems, n_samples = X.shape[:2]
    check_batch(X, attention_weights=attention_weights)
    if selects_one_each(selected) or not has_length(selected, n_problems):
        raise ValueError(
            f"selected must have shape ({n_problems}, {n_samples}), one index a sample "
            "of each problem in the batch, or hold a selection for each problem; got "
            f"{_described(selected)}."
        )
    queries = [None] * n_problems if query is None else np.asarray(query)
    if len(queries) != n_problems:
        raise ValueError(
            f"query must have shape ({n_problems}, {n_samples}, n_query_features), one "
            f"row a sample of each problem in the batch; got shape {queries.shape}."
        )
    parts = zip(
        X,
        selected,
        queries,
        _one_a_problem(C, "C", n_problems, n_samples),
        [norm] * n_problems,
        _one_a_problem(margin, "margin", n_problems, n_samples),
        [None] * n_problems if attention_weights is None else attention_weights,
        strict=True,
    )
    instances = []
    for index, own in enumerate(parts):
        with naming_problem(index):
            instances.append(_read(*own))
    return instances


def _one_a_problem(values, name, n_problems, n_samples):
    values = np.asarray(values, dtype=np.float64)
    if values.shape not in ((), (n_samples,), (n_problems, n_samples)):
        raise ValueError(
            f"{name} must be a number or have shape ({n_samples},) or "
            f"({n_problems}, {n_samples}), one a sample; got shape {values.shape}."
        )
    if values.ndim == 2:
        return values
    return [values if values.ndim else float(values)] * n_problems


def _described(selected):
    try:
        return f"shape {np.asarray(selected).shape}"
    except ValueError:
        return f"{len(selected)} selections"


def _solve_many(instances, solver, tol):
    problems = [instance.problem for instance in instances]
    plain = [problem for problem in problems if isinstance(problem, MarginProblem)]
    solved = iter(solve_many(plain, tol=tol, solver=solver))
    return [
        next(solved)
        if isinstance(problem, MarginProblem)
        else solve_general(problem, tol=tol, solver=solver)
        for problem in problems
    ]


def _finished(solutions, instances, tol):
    """Add the finite components, and warn of the largest gap above the tolerance."""
    finished = []
    for solution, instance in zip(solutions, instances, strict=True):
        if instance.finite is not None:
            finite = solve_general(instance.finite, tol=tol)
            solution = replace(solution, finite=finite)
        finished.append(solution)
    gaps = [
        part.duality_gap
        for solution in finished
        for part in (solution, solution.finite)
        if part is not None and part.status == "max_iter"
    ]
    if gaps:
        warnings.warn(
            f"The solver stopped at a relative duality gap of {max(gaps):.1e}, above "
            f"tol={tol:g}.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return finished
