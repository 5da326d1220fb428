"""Blocks as their papers write them, in plain NumPy and torch, for comparison."""

import numpy as np
import torch
from scipy.optimize import minimize

from skattn.convex import ConvexProblem, make_features, make_gates

BLOCKS = ["self_attention", "mlp", "mixer", "fno"]

KINDS = [(block, activation) for block in BLOCKS for activation in ("linear", "gated")]

LOSSES = ["logistic", "multinomial", "squared"]


def tokens_of(seed, n_samples=8, n_tokens=3, n_features=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_samples, n_tokens, n_features))


def ragged_of(seed, lengths=(1, 4, 2, 4, 7), n_features=3):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((length, n_features)) for length in lengths]


def targets_of(seed, loss, n_samples=8, n_outputs=2):
    rng = np.random.default_rng(seed)
    if loss == "squared":
        return rng.standard_normal((n_samples, n_outputs))
    n_classes = 2 if loss == "logistic" else n_outputs
    return rng.permutation(np.arange(n_samples) % n_classes)


def gates_of(block, activation, tokens, n_gates=3, **options):
    activation = "gated_relu" if activation == "gated" else activation
    return make_gates(
        block, activation, tokens, n_gates, rng=0, allow_collapse=True, **options
    )


def problem_of(block, activation, loss, *, share=0.1, seed=0, options=None, **sizes):
    """A problem at a share of its beta_max, with its tokens, targets and gates."""
    tokens = tokens_of(seed, **sizes)
    targets = targets_of(seed, loss, len(tokens))
    gates = gates_of(block, activation, tokens, **(options or {}))
    problem = ConvexProblem(make_features(gates, tokens), targets, loss, beta=1.0)
    return problem.with_beta(share * problem.beta_max), tokens, targets, gates


def circ(sample):
    """All cyclic shifts: row t is the tokens t, t - 1, ... end to end."""
    shifted = [np.roll(sample, shift, axis=0) for shift in range(len(sample))]
    return np.concatenate(shifted, axis=1)


def own_columns(gates, gate):
    width = gates.n_features // gates.n_groups
    first = gates.group[gate] * width
    return slice(first, first + width)


def mask_of(gates, gate, sample):
    """The mask of a gate on one sample, from its definition."""
    block = gates.block
    if gates.activation == "linear":
        n_tokens = len(sample)
        shapes = {"self_attention": (n_tokens, n_tokens), "mixer": sample.shape}
        return np.ones(shapes.get(block, n_tokens))
    vectors = gates.vectors[gate]
    if block == "self_attention":
        if gates.gate_rank == "rank_one":
            vectors = np.outer(*vectors)
        scores = sample @ vectors @ sample.T
    elif block == "mlp":
        scores = sample @ vectors
    elif block == "mixer":
        scores = vectors @ sample
    else:
        scores = circ(sample[:, own_columns(gates, gate)]) @ vectors
    return (scores >= 0).astype(float)


def head_output(gates, gate, sample, first, second):
    """What one head of a gate makes of the tokens of one sample, before pooling."""
    mask = mask_of(gates, gate, sample)
    if gates.block == "self_attention":
        return (mask * (sample @ first @ sample.T)) @ sample @ second
    if gates.block == "mixer":
        return (mask * (first @ sample)) @ second
    if gates.block == "fno":
        sample = circ(sample[:, own_columns(gates, gate)])
    return np.outer(mask * (sample @ first), second)


def matrix_of_head(block, first, second):
    """Z of one head, entry by entry as the convex programs define it."""
    if block in ("mlp", "fno"):
        return np.outer(first, second)
    # Rows count the second index of the first layer slowly.
    n_inner, n_rows = first.shape[1], first.shape[0]
    n_features, n_outputs = second.shape
    matrix = np.empty((n_inner * n_rows, n_features * n_outputs))
    for k in range(n_inner):
        for l in range(n_features):  # noqa: E741
            block_of_matrix = np.outer(first[:, k], second[l, :])
            matrix[
                k * n_rows : (k + 1) * n_rows, l * n_outputs : (l + 1) * n_outputs
            ] = block_of_matrix
    return matrix


class NonConvex:
    """The block itself, with weight decay, by torch."""

    def __init__(self, gates, tokens, targets, loss, beta, n_heads):
        self.gates, self.loss, self.beta = gates, loss, beta
        self.tokens = torch.as_tensor(tokens)
        self.targets = torch.as_tensor(targets)
        self.n_outputs = {"logistic": 1}.get(loss, 2)
        self.masks = [
            torch.as_tensor(np.stack([mask_of(gates, g, x) for x in tokens]))
            for g in range(gates.n_gates)
        ]
        n_columns = gates.matrix_shape[1]
        self.shapes = []
        for _ in range(gates.n_gates):
            self.shapes.append((n_heads, *gates.first_shape))
            self.shapes.append((n_heads, n_columns, self.n_outputs))
        self.shapes.append((self.n_outputs,))
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]

    def objective(self, flat):
        *weights, intercept = [
            part.reshape(shape)
            for part, shape in zip(flat.split(self.sizes), self.shapes, strict=True)
        ]
        outputs = intercept + sum(
            self._pooled(gate, weights[2 * gate], weights[2 * gate + 1])
            for gate in range(self.gates.n_gates)
        )
        decay = sum((part**2).sum() for part in weights)
        return self._loss(outputs) + self.beta / 2 * decay

    def _pooled(self, gate, first, second):
        x, mask = self.tokens, self.masks[gate]
        if self.gates.block == "self_attention":
            scores = torch.einsum("nta,hab,nub->nhtu", x, first, x)
            return torch.einsum("nhtu,ntu,nub,hbq->ntq", scores, mask, x, second).mean(
                1
            )
        if self.gates.block == "mixer":
            mixed = torch.einsum("hts,nsb->nhtb", first, x)
            return torch.einsum("nhtb,ntb,hbq->ntq", mixed, mask, second).mean(1)
        if self.gates.block == "fno":
            columns = own_columns(self.gates, gate)
            x = torch.as_tensor(np.stack([circ(s[:, columns]) for s in x.numpy()]))
        hidden = torch.einsum("ntb,hb->nht", x, first)
        return torch.einsum("nht,nt,hq->ntq", hidden, mask, second[:, 0]).mean(1)

    def _loss(self, outputs):
        if self.loss == "logistic":
            signs = 2.0 * self.targets - 1.0
            return torch.nn.functional.softplus(-signs * outputs[:, 0]).mean()
        if self.loss == "multinomial":
            return torch.nn.functional.cross_entropy(outputs, self.targets)
        return 0.5 * ((outputs - self.targets) ** 2).sum(1).mean()

    def _value_and_gradient(self, flat):
        weights = torch.tensor(flat, requires_grad=True)
        value = self.objective(weights)
        value.backward()
        return value.item(), weights.grad.numpy()

    def best_of(self, n_starts, seed=0):
        """Smallest objective that L-BFGS finds from random weights."""
        rng = np.random.default_rng(seed)
        options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-10}
        return min(
            minimize(
                self._value_and_gradient,
                rng.standard_normal(sum(self.sizes)),
                jac=True,
                method="L-BFGS-B",
                options=options,
            ).fun
            for _ in range(n_starts)
        )
