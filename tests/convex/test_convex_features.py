"""The features against the blocks as the paper writes them."""

import numpy as np
import pytest
from convex_cases import (
    KINDS,
    gates_of,
    head_output,
    matrix_of_head,
    ragged_of,
    tokens_of,
)

import skattn.convex.features as features_module
from skattn import Tokens
from skattn.convex import make_features, recover_heads

RAGGED_KINDS = [kind for kind in KINDS if kind[0] in ("self_attention", "mlp")]
N_OUTPUTS = 3


def random_heads(gates, rng, n_heads=2):
    n_columns = gates.matrix_shape[1]
    second = (n_columns, N_OUTPUTS) if n_columns > 1 else (N_OUTPUTS,)
    return [
        (
            rng.standard_normal((n_heads, *gates.first_shape)),
            rng.standard_normal((n_heads, *second)),
        )
        for _ in range(gates.n_gates)
    ]


def outputs_of_heads(gates, heads, sample):
    """Outputs at the tokens of a sample, one head after the other."""
    return sum(
        head_output(gates, gate, sample, first, second)
        for gate, pair in enumerate(heads)
        for first, second in zip(*pair, strict=True)
    )


def coef_of_heads(gates, heads):
    return np.stack(
        [
            sum(
                matrix_of_head(gates.block, first, second)
                for first, second in zip(*pair, strict=True)
            )
            for pair in heads
        ]
    )


def check_against_block(gates, tokens):
    heads = random_heads(gates, np.random.default_rng(1))
    coef = coef_of_heads(gates, heads)
    features = make_features(gates, tokens)
    by_token = [outputs_of_heads(gates, heads, sample) for sample in tokens]
    pooled = np.stack([outputs.mean(axis=0) for outputs in by_token])
    np.testing.assert_allclose(features.predict(coef), pooled, rtol=0, atol=1e-12)
    shares = np.concatenate([outputs / len(outputs) for outputs in by_token])
    np.testing.assert_allclose(features.token_outputs(coef), shares, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_outputs_are_those_of_the_block(block, activation):
    tokens = tokens_of(0, 5, 4, 3)
    check_against_block(gates_of(block, activation, tokens), tokens)


@pytest.mark.parametrize(("block", "activation"), RAGGED_KINDS)
def test_outputs_of_samples_of_different_length(block, activation):
    tokens = ragged_of(0)
    check_against_block(gates_of(block, activation, tokens), tokens)


def test_outputs_with_full_gates():
    tokens = ragged_of(0)
    gates = gates_of("self_attention", "gated", tokens, gate_rank="full")
    assert gates.vectors.shape[1:] == (3, 3)
    check_against_block(gates, tokens)


@pytest.mark.parametrize("activation", ["linear", "gated"])
def test_outputs_of_groups_add_up(activation):
    tokens = tokens_of(0, 5, 3, 4)
    gates = gates_of("fno", activation, tokens, n_groups=2)
    assert set(gates.group) == {0, 1}
    assert gates.coef_shape(1)[1] == 3 * 2
    check_against_block(gates, tokens)


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_gradient_is_the_adjoint(block, activation, in_chunks, monkeypatch):
    tokens = tokens_of(0, 7, 3, 3)
    gates = gates_of(block, activation, tokens)
    features = make_features(gates, tokens)
    rng = np.random.default_rng(0)
    coef = rng.standard_normal(features.coef_shape(N_OUTPUTS))
    residuals = rng.standard_normal((7, N_OUTPUTS))
    kept = features.predict(coef)
    if in_chunks:
        monkeypatch.setattr(features_module, "KEPT_BYTES", 0)
        monkeypatch.setattr(features_module, "BATCH", 1)
        monkeypatch.setattr("skattn.convex._attention_features.BATCH", 1)
        features = make_features(gates, tokens)
    outputs, gradient = features.predict(coef), features.gradient(residuals)
    np.testing.assert_allclose(outputs, kept, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        np.vdot(outputs, residuals), np.vdot(coef, gradient), rtol=1e-11
    )
    matrix = features.matrix()
    np.testing.assert_allclose(
        matrix @ coef.reshape(-1, N_OUTPUTS), outputs, rtol=0, atol=1e-12
    )


def test_features_for_one_prediction_are_not_kept():
    tokens = tokens_of(0, 7, 3, 3)
    gates = gates_of("self_attention", "gated", tokens)
    coef = np.random.default_rng(0).standard_normal(gates.coef_shape(2))
    features = make_features(gates, tokens, keep=False)
    kept = make_features(gates, tokens)
    np.testing.assert_allclose(
        features.predict(coef), kept.predict(coef), rtol=0, atol=1e-12
    )
    assert "_kept" in vars(kept)
    assert "_kept" not in vars(features)
    assert not features.take([0]).keep


@pytest.mark.parametrize("ranks", [(2, 1, 3), (0, 2, 0), (0, 0, 0)])
@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_factors_stand_for_their_product(block, activation, ranks, monkeypatch):
    monkeypatch.setattr("skattn.convex._attention_features.BATCH", 20)
    tokens = tokens_of(0, 6, 3, 2)
    if block in ("self_attention", "mlp"):
        tokens = ragged_of(0, n_features=2)
    gates = gates_of(block, activation, tokens)
    features = make_features(gates, tokens)
    rng = np.random.default_rng(0)
    n_gates, n_rows, n_columns = features.coef_shape(N_OUTPUTS)
    factors = [
        (rng.standard_normal((n_rows, rank)), rng.standard_normal((n_columns, rank)))
        for rank in ranks[:n_gates]
    ]
    coef = np.stack([left @ right.T for left, right in factors])
    np.testing.assert_allclose(
        features.predict_factors(factors), features.predict(coef), rtol=0, atol=1e-11
    )
    residuals = rng.standard_normal((features.n_samples, N_OUTPUTS))
    gradients = features.gradient_factors(residuals, factors)
    matrices = features.gradient(residuals)
    for matrix, (left, right), own in zip(matrices, factors, gradients, strict=True):
        np.testing.assert_allclose(own[0], matrix @ right, rtol=0, atol=1e-11)
        np.testing.assert_allclose(own[1], matrix.T @ left, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_recovered_heads_are_the_solution(block, activation):
    tokens = tokens_of(0, 5, 4, 3)
    gates = gates_of(block, activation, tokens)
    features = make_features(gates, tokens)
    coef = coef_of_heads(gates, random_heads(gates, np.random.default_rng(2)))
    heads = recover_heads(coef, gates)
    assert [len(own.first) for own in heads] == [2] * gates.n_gates
    by_heads = [
        outputs_of_heads(gates, heads, sample).mean(axis=0) for sample in tokens
    ]
    np.testing.assert_allclose(features.predict(coef), by_heads, rtol=0, atol=1e-12)
    half_squares = sum((part**2).sum() / 2 for own in heads for part in own)
    nuclear_norm = np.linalg.svd(coef, compute_uv=False).sum()
    np.testing.assert_allclose(half_squares, nuclear_norm, rtol=1e-12)


def test_no_heads_where_nothing_is_left():
    tokens = tokens_of(0)
    gates = gates_of("self_attention", "gated", tokens)
    heads = recover_heads(np.zeros(gates.coef_shape(2)), gates)
    assert {own.first.shape for own in heads} == {(0, 2, 2)}
    assert {own.second.shape for own in heads} == {(0, 2, 2)}


def test_heads_of_a_coef_of_another_shape_are_refused():
    gates = gates_of("mlp", "gated", tokens_of(0))
    with pytest.raises(ValueError, match="coef must have shape"):
        recover_heads(np.zeros((1, 2, 3)), gates, n_outputs=2)
    with pytest.raises(ValueError, match="coef must have shape"):
        recover_heads(np.zeros((gates.n_gates, 2)), gates)


@pytest.mark.parametrize(("block", "activation"), KINDS)
def test_a_sample_alone_has_the_same_outputs(block, activation):
    tokens = tokens_of(0, 6, 4, 3)
    gates = gates_of(block, activation, tokens)
    features = make_features(gates, tokens)
    coef = np.random.default_rng(0).standard_normal(features.coef_shape(2))
    together = features.predict(coef)
    alone = [make_features(gates, tokens[i : i + 1]).predict(coef)[0] for i in range(6)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(
        features.take([4, 1]).predict(coef),
        make_features(gates, tokens[[4, 1]]).predict(coef),
    )


def test_every_form_of_tokens_is_read():
    tokens = ragged_of(0)
    gates = gates_of("self_attention", "gated", tokens)
    coef = np.random.default_rng(0).standard_normal(gates.coef_shape(1))
    expected = make_features(gates, tokens).predict(coef)
    container = Tokens(np.concatenate(tokens), np.cumsum([0, 1, 4, 2, 4, 7]))
    np.testing.assert_array_equal(
        make_features(gates, container).predict(coef), expected
    )
    single = [sample.astype(np.float32) for sample in tokens]
    np.testing.assert_allclose(
        make_features(gates, single).predict(coef), expected, rtol=0, atol=1e-4
    )


def test_integers_are_numbers():
    tokens = np.arange(12).reshape(2, 3, 2)
    gates = gates_of("fno", "gated", tokens)
    coef = np.ones(gates.coef_shape(1))
    np.testing.assert_array_equal(
        make_features(gates, tokens).predict(coef),
        make_features(gates, tokens.astype(float)).predict(coef),
    )


def test_tokens_that_do_not_fit_are_refused():
    tokens = tokens_of(0)
    with pytest.raises(ValueError, match="3 features, but the gates were made for 2"):
        make_features(gates_of("mlp", "gated", tokens), tokens_of(0, 2, 3, 3))
    with pytest.raises(
        ValueError, match="needs samples of one length, 3 tokens; sample 1 has 4"
    ):
        make_features(gates_of("mixer", "gated", tokens), [tokens[0], np.ones((4, 2))])
    with pytest.raises(ValueError, match="finite"):
        make_features(gates_of("mlp", "gated", tokens), tokens * np.nan)


def test_sparse_tokens_are_refused():
    from scipy import sparse

    tokens = tokens_of(0)
    gates = gates_of("mlp", "gated", tokens)

    class Container:
        values = sparse.csr_array(tokens[0])
        offsets = np.array([0, 3])

    with pytest.raises(TypeError, match="must be dense"):
        make_features(gates, Container())
