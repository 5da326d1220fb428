"""From estimators, which hold numpy arrays, to torch and back.

The only module of the estimators that imports torch, and the estimators import it only
when they fit or predict.
"""

from contextlib import nullcontext

import numpy as np
import torch

from skattn._threads import SingleThread
from skattn.attention import AttentionModel, RaggedTokens, TokenBatch
from skattn.attention import SharedTokens as SharedTokensLayout
from skattn.attention import TableTokens as TableTokensLayout
from skattn.estimators._base import Attended
from skattn.estimators._queries import query_rows
from skattn.tokens._shared import SharedTokens
from skattn.tokens._table import TableTokens

# Entries of the tokens up to which one thread is faster than two.
_LARGEST_FOR_ONE_THREAD = 2**20
_SINGLE_THREAD = SingleThread(user_api=None)


def threads_for(tokens):
    """Return a context in which torch uses as many threads as pay for these tokens.

    The setting is left as it was at the end.

    Parameters
    ----------
    tokens : Tokens or TableTokens
        The samples to be computed with.
    """
    if tokens.offsets[-1] * tokens.n_features > _LARGEST_FOR_ONE_THREAD:
        return nullcontext()
    return _SINGLE_THREAD


def resolve_device(device, dtype):
    """Return the torch device that the parameter `device` means on this machine.

    Parameters
    ----------
    device : str
        "auto", or a name that torch understands.

    dtype : {"float64", "float32"}
        Some devices have no float64.
    """
    if device != "auto":
        try:
            # Allocating is the one honest test of whether a device can be used.
            torch.zeros(1, dtype=getattr(torch, dtype), device=device)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise ValueError(
                f"device={device!r} cannot be used with dtype={dtype!r} on this "
                f"machine ({str(error).splitlines()[0]}). Use device='auto' or 'cpu'."
            ) from error
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def query_kind(query):
    """Return what `AttentionModel` calls the parameter `query` of an estimator."""
    return query if query in ("prompt", "mean", "given") else "rows"


def make_batch(tokens, query, *, dtype, device):
    """Return tokens, and what asks in each sample, as tensors."""
    options = {"dtype": getattr(torch, dtype), "device": device}
    if isinstance(tokens, TableTokens):
        layout = TableTokensLayout.from_array(tokens.cells, **options)
    elif isinstance(tokens, SharedTokens):
        shared = torch.tensor(tokens.shared, **options)
        layout = SharedTokensLayout(shared, len(tokens))
    else:
        layout = RaggedTokens.from_arrays(
            tokens.values, tokens.offsets, tokens.positions, **options
        )
    given = rows = None
    if query == "given":
        given = torch.tensor(np.ascontiguousarray(tokens.query), **options)
    else:
        rows = query_rows(query, tokens)
    if rows is not None:
        rows = torch.tensor(rows, device=device)
    return TokenBatch(layout, query=given, query_rows=rows)


def padded_share(batch):
    """Return how much of the work of an encoder on a batch is on padding."""
    return batch.tokens.buckets().padded_share


def make_model(parameters, *, query, dtype, device, **options):
    """Return the torch model that has these parameters, ready to predict."""
    return AttentionModel.from_parameters(
        parameters,
        query_kind=query_kind(query),
        dtype=getattr(torch, dtype),
        device=device,
        **options,
    )


def attend(model, batch):
    """Run the attention of a model and return arrays."""
    with torch.no_grad():
        attended = model.attend(batch)
        return Attended(
            attended.scores.cpu().numpy(),
            attended.weights.cpu().numpy(),
            attended.pooled.cpu().numpy(),
        )


def scored_values(model, batch):
    """Return the tokens that attention weights multiply, (n_tokens, n_scored)."""
    with torch.no_grad():
        return model.scored_tokens(batch).values.cpu().numpy()


def logits(model, batch):
    """Return the output of a model, of shape (n_samples, n_outputs)."""
    with torch.no_grad():
        return model(batch).cpu().numpy()


def token_votes(model, batch):
    """Return what each token adds to each output, of shape (n_tokens, n_outputs)."""
    with torch.no_grad():
        attended = model.attend(batch)
        votes = model.head.contributions(attended.features, attended.weights)
        return votes.cpu().numpy()


def predicted_index(model, batch):
    """Return the index of the predicted class of each sample."""
    outputs = logits(model, batch)
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0).astype(np.int64)
    return outputs.argmax(axis=1)


def as_arrays(state):
    """Return an optimiser's state with numpy arrays in place of tensors."""
    return _replace(
        state, torch.Tensor, lambda tensor: tensor.detach().cpu().numpy().copy()
    )


def as_tensors(state):
    """Return the inverse of :func:`as_arrays`."""
    return _replace(state, np.ndarray, torch.tensor)


def _replace(state, kind, convert):
    if isinstance(state, kind):
        return convert(state)
    if isinstance(state, dict):
        return {key: _replace(value, kind, convert) for key, value in state.items()}
    if isinstance(state, list):
        return [_replace(value, kind, convert) for value in state]
    return state
