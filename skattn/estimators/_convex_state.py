"""Fitted attributes of the convex estimators, and back to what solvers work on."""

import numpy as np

from skattn.convex import recover_heads


def state_of(gates, problem, solution):
    """Return the fitted attributes that a solution defines."""
    return {
        **_model(gates, recover_heads(solution, gates), solution.intercept),
        "objective_": solution.objective,
        "duality_gap_": solution.duality_gap,
        "beta_": solution.beta,
        "beta_max_": problem.beta_max,
        "n_iter_": solution.n_iter,
        "solver_": solution.solver,
    }


def _model(gates, heads, intercept):
    return {
        "gates_": gates,
        "heads_": heads,
        "intercept_": intercept,
        "n_gates_": gates.n_gates,
        "n_token_features_": gates.n_features,
        "rank_": sum(len(of_gate.first) for of_gate in heads),
    }


def coef_of(gates, heads, n_outputs):
    """Return the matrices of the convex program that heads came from.

    Parameters
    ----------
    gates : skattn.convex.Gates
        What heads belong to.

    heads : list of skattn.convex.Heads
        Those of each gate.

    n_outputs : int
        Outputs of a sample.

    Returns
    -------
    coef : ndarray of shape (n_gates, p, q * n_outputs)
        Sums of outer products, of W1 column by column and W2 row by row.
    """
    coef = np.zeros(gates.coef_shape(n_outputs))
    for matrix, of_gate in zip(coef, heads, strict=True):
        n_heads, (n_rows, n_columns) = len(of_gate.first), matrix.shape
        first = np.swapaxes(of_gate.first, 1, -1).reshape(n_heads, n_rows)
        matrix[:] = first.T @ of_gate.second.reshape(n_heads, n_columns)
    return coef


def average(states):
    """Return the fitted attributes of the mean of some models.

    Parameters
    ----------
    states : list of dict
        What :func:`state_of` returns for models with gates of the same seed: those of
        equal vectors are the same gate.

    Returns
    -------
    state : dict
        The gates of all models, and the means of the matrices that belong to them.
    """
    n_outputs = len(states[0]["intercept_"])
    intercept = np.mean([state["intercept_"] for state in states], axis=0)
    all_gates = [state["gates_"] for state in states]
    coefs = [coef_of(state["gates_"], state["heads_"], n_outputs) for state in states]
    gates, places = _union(all_gates)
    mean = np.zeros(gates.coef_shape(n_outputs))
    for coef, place in zip(coefs, places, strict=True):
        mean[place] += coef / len(states)
    heads = recover_heads(mean, gates, n_outputs)
    return {
        **_model(gates, heads, intercept),
        "beta_": float(np.mean([state["beta_"] for state in states])),
        "n_iter_": max(state["n_iter_"] for state in states),
    }


def _union(all_gates):
    """Return the gates that occur, and where those of each model are among them."""
    first = all_gates[0]
    if first.vectors is None:
        return first, [np.arange(first.n_gates) for _ in all_gates]
    vectors = np.concatenate([gates.vectors for gates in all_gates])
    group = np.concatenate([gates.group for gates in all_gates])
    keys = np.column_stack([group, vectors.reshape(len(vectors), -1)])
    _, index, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    gates = type(first)(
        first.activation,
        first.n_features,
        n_positions=first.n_positions,
        n_groups=first.n_groups,
        gate_rank=first.gate_rank,
        vectors=vectors[index],
        group=group[index],
    )
    ends = np.cumsum([gates.n_gates for gates in all_gates])[:-1]
    return gates, np.split(places, ends)
