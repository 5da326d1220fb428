"""The encoder, against dense attention written out one sample at a time."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from skattn.attention import Encoder, RaggedTokens
from skattn.attention.encoder import initial_encoder_parameters
from skattn.attention.normalization import EPSILON
from skattn.attention.positions import rotate, sinusoids

OFFSETS = [0, 7, 8, 12, 14, 23]
POSITIONS = [0, 1, 3, 4, 5, 9, 10, 2, 0, 1, 2, 3, 0, 6, *range(9)]
WIDTH = 8
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(OFFSETS[-1], WIDTH))


def parameters(**options):
    drawn = initial_encoder_parameters(
        np.random.RandomState(0), width=WIDTH, n_layers=2, n_positions=6, **options
    )
    # Nothing at 0 or 1, where a mistake would not show.
    return {
        name: torch.tensor(value + 0.1 * RNG.normal(size=np.shape(value)))
        for name, value in drawn.items()
    }


def encode(
    own, n_heads=2, values=VALUES, offsets=OFFSETS, positions=POSITIONS, **options
):
    encoder = Encoder(own, n_heads, **options).eval()
    return encoder(RaggedTokens.from_arrays(values, offsets, positions)).values


def windows(x, positions, length):
    numbers = positions // length
    return torch.stack([x[numbers == k].mean(0) for k in torch.unique(numbers)])


def dense_sample(
    own, x, positions, n_heads, position, attention_norm=None, beta=None, lengths=None
):
    """Encode one sample with explicit T x T weights."""
    if position == "learned":
        x = x + own["position"][positions.clamp(max=5)]
    if position == "sinusoidal":
        x = x + sinusoids(positions, WIDTH, x.dtype)
    size = WIDTH // n_heads
    for number in range(2):
        p = {k[9:]: v for k, v in own.items() if k.startswith(f"layers.{number}.")}
        seen = functional.layer_norm(
            x, (WIDTH,), p["attention_scale"], p["attention_shift"]
        )
        queries, keys, values = (seen @ p["projection_coef"]).split(WIDTH, dim=1)
        queries = queries + p["query_intercept"]
        heads = []
        for head in range(n_heads):
            cut = slice(head * size, (head + 1) * size)
            q, k, v = queries[:, cut], keys[:, cut], values[:, cut]
            length = 1 if lengths is None else lengths[head]
            k, v = (windows(part, positions, length) for part in (k, v))
            of_keys = windows(positions.double()[:, None], positions, length)[:, 0]
            if attention_norm == "batch":
                own_beta = p["beta"][head] if beta is None else beta
                mean, variance = k.mean(0), k.var(0, unbiased=False)
                root = torch.where(variance > 0, variance + EPSILON, 1.0).sqrt()
                q, k = (q - own_beta * mean) / root, (k - mean) / root
            if position == "rotary":
                q = rotate(q[:, None], positions)[:, 0]
                k = rotate(k[:, None], of_keys)[:, 0]
            weights = torch.softmax(q @ k.T / np.sqrt(size), dim=1)
            heads.append(weights @ v)
        x = x + torch.cat(heads, 1) @ p["output_coef"] + p["output_intercept"]
        seen = functional.layer_norm(x, (WIDTH,), p["token_scale"], p["token_shift"])
        units = functional.gelu(seen @ p["inner_coef"] + p["inner_intercept"])
        x = x + units @ p["outer_coef"] + p["outer_intercept"]
    return functional.layer_norm(x, (WIDTH,), own["scale"], own["shift"])


@pytest.mark.parametrize("lengths", [None, (1, 3), (2, 2)])
@pytest.mark.parametrize("norm", [None, "learned", 0.7])
@pytest.mark.parametrize("position", [None, "learned", "sinusoidal", "rotary"])
def test_each_sample_is_encoded_as_if_alone(position, norm, lengths):
    own = parameters(position=position, n_learned_betas=2 if norm == "learned" else 0)
    options = {} if norm is None else {"attention_norm": "batch"}
    if isinstance(norm, float):
        options["beta"] = norm
    out = encode(own, position=position, head_scale=lengths, **options)
    for start, stop in itertools.pairwise(OFFSETS):
        expected = dense_sample(
            own,
            torch.tensor(VALUES[start:stop]),
            torch.tensor(POSITIONS[start:stop]),
            2,
            position,
            lengths=lengths,
            **options,
        )
        torch.testing.assert_close(out[start:stop], expected, atol=1e-10, rtol=0)


def test_without_positions_tokens_have_no_order():
    own = parameters()
    order = RNG.permutation(9)
    values = VALUES.copy()
    values[14:] = values[14:][order]
    out, permuted = encode(own), encode(own, values=values)
    torch.testing.assert_close(permuted[14:], out[14:][order])
    torch.testing.assert_close(permuted[:14], out[:14])


def test_rotary_attention_sees_distances_only():
    own = parameters(position="rotary")
    out = encode(own, position="rotary")
    shifted = encode(own, position="rotary", positions=np.array(POSITIONS) + 5)
    torch.testing.assert_close(out, shifted)
    apart = encode(own, position="rotary", positions=np.array(POSITIONS) * 2)
    assert not torch.allclose(out, apart)


def test_gradients_are_exact():
    own = parameters(position="learned", n_learned_betas=2)
    names = ["layers.0.projection_coef", "layers.1.beta", "position"]

    def run(values, *tensors):
        encoder = Encoder(
            own, 2, position="learned", attention_norm="batch", head_scale=(1, 2)
        )
        for name, tensor in zip(names, tensors, strict=True):
            owner = encoder.get_submodule(name.rpartition(".")[0])
            delattr(owner, name.rpartition(".")[2])
            setattr(owner, name.rpartition(".")[2], tensor)
        tokens = RaggedTokens.from_arrays(VALUES[:8], [0, 7, 8], POSITIONS[:8])
        return encoder(tokens.with_values(values)).values

    inputs = [torch.tensor(VALUES[:8]), *(own[name].clone() for name in names)]
    inputs = [value.requires_grad_() for value in inputs]
    assert torch.autograd.gradcheck(run, inputs, atol=1e-4)


def test_dropout_is_for_training_alone():
    own = parameters()
    encoder = Encoder(own, 2, dropout=0.4)
    tokens = RaggedTokens.from_arrays(VALUES, OFFSETS)
    outs = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(3)
        for module in encoder.modules():
            module.generator = generator
        outs.append(encoder(tokens).values)
    torch.testing.assert_close(*outs)
    plain = encoder.eval()(tokens).values
    assert not torch.allclose(outs[0], plain)
    torch.testing.assert_close(plain, encoder(tokens).values)


@pytest.mark.parametrize(
    ("n_heads", "options", "name"),
    [
        (3, {}, "n_heads=3"),
        (2, {"position": "relative"}, "position"),
        (8, {"position": "rotary"}, "position='rotary' turns pairs"),
        (2, {"attention_norm": "layer", "beta": 0.0}, "attention_norm must be"),
        (2, {"attention_norm": "batch"}, "beta"),
        (2, {"beta": 0.0}, "beta"),
    ],
)
def test_contradictions_are_refused_by_name(n_heads, options, name):
    with pytest.raises(ValueError, match=name):
        Encoder(parameters(), n_heads, **options)
