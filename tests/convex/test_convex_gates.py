"""Gates: how they are drawn, which are kept, and what is refused."""

import pickle
import tracemalloc

import numpy as np
import pytest
from convex_cases import BLOCKS, gates_of, mask_of, ragged_of, tokens_of

from skattn.convex import ConvexProblem, estimate_memory, make_features, make_gates

GATED = [(block, None) for block in BLOCKS] + [("self_attention", "full")]


def patterns(gates, tokens):
    return [
        np.concatenate([mask_of(gates, gate, sample).ravel() for sample in tokens])
        for gate in range(gates.n_gates)
    ]


@pytest.mark.parametrize(("block", "gate_rank"), GATED)
def test_masks_are_those_of_the_definition(block, gate_rank):
    tokens = tokens_of(0, 5, 4, 3)
    gates = gates_of(block, "gated", tokens, gate_rank=gate_rank)
    expected = patterns(gates, tokens)
    for gate in range(gates.n_gates):
        np.testing.assert_array_equal(gates.masks(tokens, gate).ravel(), expected[gate])


@pytest.mark.parametrize(("block", "gate_rank"), GATED)
def test_each_pattern_once_and_none_shut(block, gate_rank):
    tokens = tokens_of(0, 2, 2, 1)
    gates = gates_of(block, "gated", tokens, 100, gate_rank=gate_rank)
    kept = [tuple(pattern) for pattern in patterns(gates, tokens)]
    assert 1 < len(kept) < 20
    assert len(set(kept)) == len(kept)
    assert all(any(pattern) for pattern in kept)


@pytest.mark.parametrize(("block", "gate_rank"), GATED)
def test_where_all_gates_are_shut_one_is_turned(block, gate_rank):
    tokens = np.ones((3, 2, 1))
    turned = 0
    for seed in range(20):
        drawn = np.random.default_rng(seed)
        gates = make_gates(
            block, "gated_relu", tokens, 1, gate_rank=gate_rank, rng=drawn
        )
        vectors = np.random.default_rng(seed).standard_normal(gates.vectors.shape)
        turned += not np.array_equal(gates.vectors, vectors)
        assert gates.n_gates == 1
        assert all(pattern.any() for pattern in patterns(gates, tokens))
    assert turned > 0


@pytest.mark.parametrize("block", BLOCKS)
def test_more_gates_are_the_same_and_more(block):
    tokens = tokens_of(0, 6, 3, 4)
    options = {"n_groups": 2} if block == "fno" else {}
    few = gates_of(block, "gated", tokens, 3, **options)
    many = gates_of(block, "gated", tokens, 9, **options)
    for group in set(few.group):
        own, all_own = (g.vectors[g.group == group] for g in (few, many))
        np.testing.assert_array_equal(own, all_own[: len(own)])


@pytest.mark.parametrize("block", BLOCKS)
def test_gates_do_not_depend_on_repeats_order_or_weights(block):
    tokens = tokens_of(0, 6, 3, 2)
    gates = gates_of(block, "gated", tokens, 40)
    repeated = gates_of(block, "gated", tokens[[5, 1, 0, 2, 3, 4, 4, 0]], 40)
    np.testing.assert_array_equal(gates.vectors, repeated.vectors)
    # Samples of weight 0 are not compared on.
    few = gates_of(block, "gated", tokens[:1], 40)
    weighted = gates_of(
        block, "gated", tokens, 40, sample_weight=np.array([0.5, 0, 0, 0, 0, 0])
    )
    np.testing.assert_array_equal(few.vectors, weighted.vectors)
    assert few.n_gates < gates.n_gates


def test_generators_of_both_kinds():
    tokens = tokens_of(0)
    for make in (np.random.RandomState, np.random.default_rng):
        one, two = (
            make_gates("mlp", "gated_relu", tokens, 4, rng=make(3)) for _ in range(2)
        )
        np.testing.assert_array_equal(one.vectors, two.vectors)


def test_a_linear_block_has_one_gate_that_is_open():
    gates = make_gates("self_attention", "linear", tokens_of(0), 8)
    assert (gates.n_gates, gates.vectors, gates.gate_rank) == (1, None, None)


def test_signs_of_tokens():
    tokens = ragged_of(0)
    values = np.concatenate(tokens)
    gates = gates_of("self_attention", "gated", tokens)
    signs = gates.token_signs(tokens)
    left, right = np.split(signs, 2, axis=1)
    np.testing.assert_array_equal(left, values @ gates.left.T >= 0)
    # A token sees another exactly where the signs agree.
    mask = mask_of(gates, 1, tokens[4])
    np.testing.assert_array_equal(mask, left[-7:, 1][:, None] == right[-7:, 1])
    gates = gates_of("mlp", "gated", tokens)
    np.testing.assert_array_equal(
        gates.token_signs(tokens), values @ gates.vectors.T >= 0
    )


@pytest.mark.parametrize(
    ("block", "activation", "options"),
    [
        ("mixer", "gated", {}),
        ("fno", "gated", {}),
        ("self_attention", "linear", {}),
        ("mlp", "linear", {}),
        ("self_attention", "gated", {"gate_rank": "full"}),
    ],
)
def test_signs_are_refused_where_tokens_have_none(block, activation, options):
    tokens = tokens_of(0)
    gates = gates_of(block, activation, tokens, **options)
    with pytest.raises(ValueError, match="no property of a single token"):
        gates.token_signs(tokens)


def test_gates_are_small_when_pickled():
    tokens = tokens_of(0, 500, 3, 4)
    gates = gates_of("self_attention", "gated", tokens)
    stored = pickle.dumps(gates)
    assert len(stored) < 2000
    again = pickle.loads(stored)
    coef = np.ones(gates.coef_shape(1))
    np.testing.assert_array_equal(
        make_features(again, tokens).predict(coef),
        make_features(gates, tokens).predict(coef),
    )


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("mlp", "linear model of the mean token"),
        ("mixer", "linear model of the flattened sample"),
        ("fno", "linear model of the mean token"),
    ],
)
def test_plain_linear_models_are_refused_by_name(block, reason):
    with pytest.raises(ValueError, match=reason) as raised:
        make_gates(block, "linear", tokens_of(0))
    assert f"block={block!r} with activation='linear'" in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("conv", "linear"), {}, "block must be one of"),
        (("mlp", "relu"), {}, "activation must be one of"),
        (("mlp", "gated_relu"), {"n_gates": 0}, "n_gates must be a positive integer"),
        (("mlp", "gated_relu"), {"n_gates": 2.0}, "n_gates must be a positive"),
        (("mlp", "gated_relu"), {"gate_rank": "full"}, "gated self-attention only"),
        (("self_attention", "linear"), {"gate_rank": "full"}, "gated self-attention"),
        (("self_attention", "gated_relu"), {"gate_rank": 1}, "gate_rank must be one"),
        (("mlp", "gated_relu"), {"n_groups": 2}, "applies to block='fno' only"),
        (("fno", "gated_relu"), {"n_groups": 3}, "must divide the number of features"),
        (("fno", "gated_relu"), {"n_groups": 0}, "n_groups must be a positive"),
        (("mlp", "gated_relu"), {"sample_weight": [1.0]}, "sample_weight must have"),
        (("mlp", "gated_relu"), {"sample_weight": [0.0] * 8}, "a weight above 0"),
        (("mlp", "gated_relu"), {"sample_weight": [-1.0] * 8}, r"sample_weight\[0\]"),
    ],
)
def test_bad_requests_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        make_gates(*arguments, tokens_of(0), **options)


@pytest.mark.parametrize("block", ["mixer", "fno"])
def test_blocks_that_mix_positions_need_one_length(block):
    with pytest.raises(ValueError, match="sample 1 has 4"):
        make_gates(block, "gated_relu", ragged_of(0))


def test_wide_tokens_are_refused_with_what_they_would_need():
    tokens = np.zeros((92, 5, 166))
    # 8 gates of 166^2 * 167 / 2 numbers for each sample.
    with pytest.raises(ValueError, match=r"d=166, .*needed 13\.5 GB for the features"):
        make_gates("self_attention", "gated_relu", tokens)
    assert make_gates("mlp", "gated_relu", tokens, rng=0).n_features == 166


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="at least one sample"):
        make_gates("mlp", "gated_relu", [])


@pytest.mark.parametrize("activation", ["linear", "gated"])
@pytest.mark.parametrize("block", BLOCKS)
def test_estimated_features_are_those_kept(block, activation):
    tokens = tokens_of(0, 5, 4, 6)
    gates = gates_of(block, activation, tokens)
    features = make_features(gates, tokens)
    name = gates.activation
    estimate = estimate_memory(block, name, tokens, 1, n_gates=gates.n_gates)
    coef_bytes = 8 * np.prod(gates.coef_shape(1))
    copies_of_tokens = 2 * features.samples.values.nbytes
    assert estimate - copies_of_tokens - 8 * coef_bytes == features.nbytes
    is_factored = (block, activation) == ("self_attention", "linear")
    kept = features._factors if is_factored else (features._kept,)
    assert sum(part.nbytes for part in kept) == features.nbytes
    more = estimate_memory(block, name, tokens, 3, n_gates=gates.n_gates)
    assert more - estimate == 2 * 8 * coef_bytes


def test_memory_of_features_that_are_not_kept_is_bounded():
    tokens = np.zeros((100_000, 2, 32))
    assert estimate_memory("self_attention", "gated_relu", tokens, 1) < 2.3e9


def test_memory_of_names_that_do_not_exist():
    with pytest.raises(ValueError, match="block must be one of"):
        estimate_memory("conv", "linear", tokens_of(0), 1)
    with pytest.raises(ValueError, match="activation must be one of"):
        estimate_memory("mlp", "relu", tokens_of(0), 1)


def test_the_estimate_counts_copies_of_long_samples():
    tokens = np.random.default_rng(0).standard_normal((20, 2000, 16))
    gates = make_gates("mlp", "gated_relu", tokens, 2, rng=0)
    estimate = estimate_memory("mlp", "gated_relu", tokens, 1, 2)
    tracemalloc.start()
    ConvexProblem(make_features(gates, tokens), np.arange(20) % 2, "logistic", 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.9 * peak < estimate < 1.2 * peak
