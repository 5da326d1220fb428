"""How `train_attention` reads instances, heads and starting points."""

from typing import NamedTuple

import numpy as np

from skattn.theory._batch import check_batch, is_batch, naming_problem
from skattn.theory._reading import signs_of
from skattn.tokens import check_tokens


class Instances(NamedTuple):
    """B instances of n samples with T tokens of d features each.

    `tokens` (B, n, T, d) are zero where absent; `present` (B, n, T) is None if all are
    there. A prompt has the `query` 1 in all samples. `is_batch` tells whether the
    caller gave the first axis.
    """

    tokens: np.ndarray
    present: np.ndarray
    query: np.ndarray
    signs: np.ndarray
    is_prompt: bool
    is_batch: bool

    @property
    def coef_shape(self):
        """Shape of the attention weights of an instance, as users see them."""
        n_features = self.tokens.shape[3]
        return (n_features,) if self.is_prompt else (n_features, self.query.shape[2])


def read_instances(X, y, query):
    is_a_batch = is_batch(X)
    read = _read_batch(X, query) if is_a_batch else [check_tokens(X, query=query)]
    padded = np.stack([tokens.to_padded() for tokens in read]).astype(np.float64)
    absent = np.isnan(padded[..., 0])
    padded[absent] = 0.0
    is_prompt = read[0].query is None
    if is_prompt:
        queries = np.ones((*padded.shape[:2], 1))
    else:
        queries = np.stack([tokens.query for tokens in read]).astype(np.float64)
    return Instances(
        tokens=padded,
        present=~absent if absent.any() else None,
        query=queries,
        signs=_read_signs(y, padded.shape[:2], is_a_batch),
        is_prompt=is_prompt,
        is_batch=is_a_batch,
    )


def _read_batch(X, query):
    check_batch(X, query=query)
    queries = [None] * len(X) if query is None else query
    read = []
    for index, (tokens, own_query) in enumerate(zip(X, queries, strict=True)):
        with naming_problem(index):
            read.append(check_tokens(tokens, query=own_query))
    return read


def _read_signs(y, shape, is_batch):
    y = np.asarray(y)
    expected = shape if is_batch else shape[1:]
    if y.shape != expected:
        raise ValueError(
            f"y must have shape {expected}, one label a sample"
            f"{' of each problem in the batch' if is_batch else ''}; got shape "
            f"{y.shape}."
        )
    # Few random signs are often equal; they are no less signs for that.
    if y.dtype.kind in "iuf" and np.isin(y, (-1, 1)).all():
        return y.reshape(shape).astype(np.float64)
    return signs_of(y.ravel(), y.size).reshape(shape)


def read_head(head, activation, instances):
    """Return the weights of the head, of shape (B, d, m)."""
    n_instances, _, _, n_features = instances.tokens.shape
    if head is None:
        return np.zeros((n_instances, n_features, 1))
    own_shape = (n_features,) if activation == "identity" else (n_features, "m")
    weights = _read_weights("head", head, own_shape, instances)
    return weights.reshape(n_instances, n_features, -1)


def read_directions(directions, instances):
    """Return the given directions, each of shape (B, rows, columns)."""
    directions = {} if directions is None else directions
    if not isinstance(directions, dict):
        raise TypeError(
            "directions must be a dict of names and arrays, got "
            f"{type(directions).__name__}."
        )
    return {
        name: _as_matrices(
            _read_weights(
                f"directions[{name!r}]",
                direction,
                instances.coef_shape,
                instances,
                may_be_missing=True,
            ),
            instances,
        )
        for name, direction in directions.items()
    }


def initial_weights(attention_init, parameterization, rank, instances, rng):
    """Return the attention weights to start from, by name, each (B, rows, columns)."""
    n_instances, _, _, n_features = instances.tokens.shape
    n_query_features = instances.query.shape[2]
    if isinstance(attention_init, str):
        if parameterization == "W":
            shapes = {"W": (n_features, n_query_features)}
        else:
            rank = min(n_features, n_query_features) if rank is None else rank
            shapes = {"K": (n_features, rank), "Q": (n_query_features, rank)}
        if attention_init == "zero":
            return {name: np.zeros((n_instances, *shapes[name])) for name in shapes}
        # As published: entries within the inverse root of the width they multiply.
        return {
            name: rng.uniform(-1, 1, (n_instances, *shape)) / np.sqrt(shape[0])
            for name, shape in shapes.items()
        }
    if parameterization == "W":
        weights = _read_weights(
            "attention_init", attention_init, instances.coef_shape, instances
        )
        return {"W": _as_matrices(weights, instances)}
    if not isinstance(attention_init, tuple | list) or len(attention_init) != 2:
        raise ValueError(
            'attention_init must be "uniform" or a pair (K, Q) with '
            f'parameterization="KQ", got {type(attention_init).__name__}.'
        )
    rank = "rank" if rank is None else rank
    K, Q = (
        _read_weights(f"attention_init[{index}]", factor, (width, rank), instances)
        for index, (factor, width) in enumerate(
            zip(attention_init, (n_features, n_query_features), strict=True)
        )
    )
    if K.shape[2] != Q.shape[2]:
        raise ValueError(
            "K and Q of attention_init must have one number of columns, the rank; got "
            f"{K.shape[2]} and {Q.shape[2]}."
        )
    return {"K": K, "Q": Q}


def _read_weights(name, weights, own_shape, instances, may_be_missing=False):
    """Read an array of `own_shape`, or one of them for each instance of a batch.

    Words in `own_shape` stand for lengths that are free.
    """
    weights = np.array(weights, dtype=np.float64)
    n_instances = len(instances.tokens)
    is_shared = _fits(weights.shape, own_shape)
    is_each = instances.is_batch and _fits(weights.shape, (n_instances, *own_shape))
    if not is_shared and not is_each:
        shapes = _as_text(own_shape)
        if instances.is_batch:
            shapes += f" or {_as_text((n_instances, *own_shape))}"
        raise ValueError(f"{name} must have shape {shapes}, got {weights.shape}.")
    if not may_be_missing and not np.isfinite(weights).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    if is_shared:
        weights = np.broadcast_to(weights, (n_instances, *weights.shape)).copy()
    return weights


def _fits(shape, expected):
    return len(shape) == len(expected) and all(
        length > 0 if isinstance(wanted, str) else length == wanted
        for length, wanted in zip(shape, expected, strict=True)
    )


def _as_text(shape):
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _as_matrices(weights, instances):
    return weights[:, :, None] if instances.is_prompt else weights
