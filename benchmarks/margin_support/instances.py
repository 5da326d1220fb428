"""Random margin problems as plain arrays."""

import numpy as np


def unit_rows(rng, *shape):
    # In place: at the scale of these benchmarks temporaries would count as memory.
    rows = rng.standard_normal(shape)
    rows /= np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None]
    return rows


def separable(n_samples, n_tokens, n_features, seed=0, shift=1.0):
    """Tokens and queries on the sphere, the best token of a random rotation ahead.

    Returns ``(tokens, selected, queries)``. The selected tokens are moved by `shift`
    along the rotated query, so that the problem is far from the limit of separability.
    """
    rng = np.random.default_rng(seed)
    tokens = unit_rows(rng, n_samples, n_tokens, n_features)
    queries = unit_rows(rng, n_samples, n_features)
    rotation = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    directions = queries @ rotation.T
    scores = np.einsum("ntd,nd->nt", tokens, directions)
    selected = scores.argmax(axis=1)
    samples = np.arange(n_samples)
    moved = tokens[samples, selected] + shift * directions
    tokens[samples, selected] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return tokens, selected, queries


def random_labels(n_samples, n_tokens, n_features, seed=0):
    """Tokens and queries on the sphere, the selected tokens drawn at random."""
    rng = np.random.default_rng(seed)
    tokens = unit_rows(rng, n_samples, n_tokens, n_features)
    queries = unit_rows(rng, n_samples, n_features)
    return tokens, rng.integers(0, n_tokens, n_samples), queries


def prompt(n_samples, n_tokens, n_features, seed=0, shift=1.0):
    """Tokens on the sphere, the best token of a random vector ahead; no queries."""
    rng = np.random.default_rng(seed)
    tokens = unit_rows(rng, n_samples, n_tokens, n_features)
    direction = unit_rows(rng, n_features)
    selected = (tokens @ direction).argmax(axis=1)
    samples = np.arange(n_samples)
    moved = tokens[samples, selected] + shift * direction
    tokens[samples, selected] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return tokens, selected, None


def ragged(lengths, n_features, seed=0, shift=1.0):
    """`separable` with samples of the given lengths, as a list of arrays."""
    rng = np.random.default_rng(seed)
    queries = unit_rows(rng, len(lengths), n_features)
    rotation = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    samples, selected = [], []
    for length, direction in zip(lengths, queries @ rotation.T, strict=True):
        tokens = unit_rows(rng, length, n_features)
        best = int((tokens @ direction).argmax())
        moved = tokens[best] + shift * direction
        tokens[best] = moved / np.linalg.norm(moved)
        samples.append(tokens)
        selected.append(best)
    return samples, np.array(selected), queries
