"""Fixed gates: which products of a block count, whatever the weights are."""

import hashlib
from abc import ABC, abstractmethod

import numpy as np

from skattn.convex._samples import Samples

#: Numbers that a batch of samples may need while features or gates are computed.
BATCH = 2**22


class Gates(ABC):
    """The gates of one block, with all that makes features of tokens.

    :func:`make_gates` draws them. A block with a linear activation has one gate, open
    everywhere, or one a group.

    Attributes
    ----------
    block : {"self_attention", "mlp", "mixer", "fno"}
        Name of the block.

    activation : {"linear", "gated_relu"}
        What stands between its two layers.

    n_gates : int
        Gates in use, of all groups.

    n_features : int
        Features of a token.

    n_positions : int or None
        Tokens that each sample must have; None where any number will do.

    n_groups : int
        Groups of features that are mixed by themselves.

    group : int array of shape (n_gates,)
        The group of each gate.

    gate_rank : {"rank_one", "full"} or None
        Form of the gates of self-attention.

    vectors : ndarray of shape (n_gates, ...) or None
        What the gates were drawn as: h of shape (d,) for "mlp" and (s * d / B,) for
        "fno", H of shape (s, s) for "mixer", U of shape (d, d) for full gates of
        self-attention and the pair (u, v) of shape (2, d) for ``U = u v'``. None for
        a linear activation.
    """

    block = None

    def __init__(
        self,
        activation,
        n_features,
        *,
        n_positions=None,
        n_groups=1,
        gate_rank=None,
        vectors=None,
        group=None,
    ):
        self.activation = activation
        self.n_features = n_features
        self.n_positions = n_positions
        self.n_groups = n_groups
        self.gate_rank = gate_rank
        self.vectors = vectors
        self.group = np.arange(n_groups) if group is None else group

    def __repr__(self):
        return (
            f"{type(self).__name__}(activation={self.activation!r}, "
            f"n_gates={self.n_gates}, n_features={self.n_features})"
        )

    @property
    def n_gates(self):
        """Gates in use, of all groups."""
        return self.group.size

    @property
    def is_linear(self):
        """Whether there are no gates to speak of."""
        return self.activation == "linear"

    @property
    @abstractmethod
    def vectors_shape(self):
        """Shape of what is drawn for one gate."""

    @property
    @abstractmethod
    def matrix_shape(self):
        """Rows p and columns q for each output of the matrix of one gate."""

    @property
    @abstractmethod
    def first_shape(self):
        """Shape of the first layer of one head."""

    def coef_shape(self, n_outputs):
        """Return the shape of all matrices: (n_gates, p, q * n_outputs)."""
        n_rows, n_columns = self.matrix_shape
        return self.n_gates, n_rows, n_columns * n_outputs

    @abstractmethod
    def masks(self, batch, gate):
        """Return where one gate is open.

        Parameters
        ----------
        batch : ndarray of shape (m, T, d)
            Samples of one length.

        gate : int

        Returns
        -------
        masks : bool array of shape (m, ...)
            For tokens (m, T), pairs of tokens (m, T, T) or entries (m, T, d).
        """

    @abstractmethod
    def features(self, batch):
        """Return the features of the pooled output.

        Parameters
        ----------
        batch : ndarray of shape (m, T, d)
            Samples of one length.

        Returns
        -------
        features : ndarray of shape (m, n_numbers)
            Their products with :meth:`pack` of the coef are the outputs.
        """

    def pack(self, coef):
        """Return the weights of the features in the outputs.

        Parameters
        ----------
        coef : ndarray of shape (n_gates, p, q * c)

        Returns
        -------
        weights : ndarray of shape (n_numbers, c)
        """
        return coef.reshape(int(np.prod(self.coef_shape(1))), -1)

    def unpack(self, weights):
        """Return the adjoint of :meth:`pack`.

        Parameters
        ----------
        weights : ndarray of shape (n_numbers, c)

        Returns
        -------
        coef : ndarray of shape (n_gates, p, q * c)
        """
        return weights.reshape(self.coef_shape(weights.shape[1]))

    @abstractmethod
    def token_outputs(self, batch, coef):
        """Return the output at each token, divided by the number of tokens.

        Parameters
        ----------
        batch : ndarray of shape (m, T, d)
            Samples of one length.

        coef : ndarray of shape (n_gates, p, q * c)

        Returns
        -------
        outputs : ndarray of shape (m, T, c)
        """

    @property
    def n_numbers(self):
        """Numbers that the features of one sample are."""
        return int(np.prod(self.coef_shape(1)))

    def entries(self, length):
        """Return the numbers that it takes to compute the features of one sample."""
        return self.n_numbers + length * self.n_features

    def token_signs(self, tokens):
        """Return which gates are open for each token.

        Parameters
        ----------
        tokens : object
            As in :func:`make_features`.

        Returns
        -------
        signs : bool array of shape (n_tokens, n_gates) or (n_tokens, 2 * n_gates)
            For "mlp", ``x'h_g >= 0``. For self-attention with rank-one gates, first
            ``x'u_g >= 0`` of all gates, then ``x'v_g >= 0``: a token sees another
            through the gate where the first of the one equals the second of the other.

        Raises
        ------
        ValueError
            For gates that are no property of a single token.
        """
        raise ValueError(
            f"The gates of block={self.block!r} with activation={self.activation!r}"
            + (f" and gate_rank={self.gate_rank!r}" if self.gate_rank else "")
            + " are no property of a single token. Tokens have signs for "
            "activation='gated_relu' with block='mlp', and with "
            "block='self_attention' and gate_rank='rank_one'."
        )

    def check_samples(self, samples):
        """Refuse samples that do not fit the block.

        Raises
        ------
        ValueError
            If the width differs, or the length where it must not.
        """
        if samples.n_features != self.n_features:
            raise ValueError(
                f"Tokens have {samples.n_features} features, but the gates were made "
                f"for {self.n_features}."
            )
        if self.n_positions is not None:
            check_lengths(samples.lengths, self.n_positions, self.block)

    def kept_on(self, samples):
        """Return the gates that are open somewhere, each pattern once.

        Parameters
        ----------
        samples : Samples
            What patterns are compared on.

        Returns
        -------
        gates : Gates
            At least one a group: where all are shut, the first is turned round, which
            opens it everywhere.
        """
        kept, vectors = [], self.vectors.copy()
        for group in range(self.n_groups):
            seen, own = set(), np.flatnonzero(self.group == group)
            for gate in own:
                pattern, is_open = self._pattern(samples, gate)
                if is_open and pattern not in seen:
                    seen.add(pattern)
                    kept.append(gate)
            if not seen:
                kept.append(own[0])
                vectors[own[0]] = self._turned(vectors[own[0]])
        return type(self)(
            self.activation,
            self.n_features,
            n_positions=self.n_positions,
            n_groups=self.n_groups,
            gate_rank=self.gate_rank,
            vectors=vectors[kept],
            group=self.group[kept],
        )

    def _pattern(self, samples, gate):
        digest, is_open = hashlib.blake2b(digest_size=16), False
        for _, batch in samples.batches(lambda length: length**2, BATCH):
            masks = self.masks(batch, gate)
            digest.update(np.packbits(masks).tobytes())
            is_open = is_open or bool(masks.any())
        return digest.digest(), is_open

    def _turned(self, vectors):
        return -vectors


def check_lengths(lengths, n_positions, block):
    """Refuse samples of another length than the block is made for."""
    differ = np.flatnonzero(lengths != n_positions)
    if differ.size:
        raise ValueError(
            f"block={block!r} mixes positions and needs samples of one length, "
            f"{n_positions} tokens; sample {differ[0]} has {lengths[differ[0]]}. Pad "
            "or cut the samples, or take block='self_attention' or 'mlp'."
        )


def read_samples(tokens, sample_weight=None):
    """Read tokens, leaving out samples of weight 0.

    Parameters
    ----------
    tokens : object
        As in :func:`make_features`.

    sample_weight : ndarray of shape (n_samples,), default=None

    Returns
    -------
    samples : Samples
    """
    samples = Samples.read(tokens)
    if sample_weight is None:
        return samples
    weight = read_weight(sample_weight, len(samples))
    return samples.take(np.flatnonzero(weight > 0))


def read_weight(sample_weight, n_samples):
    """Check weights, one a sample."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one a sample; got shape "
            f"{weight.shape}."
        )
    invalid = ~(np.isfinite(weight) & (weight >= 0))
    if invalid.any():
        index = int(np.argmax(invalid))
        raise ValueError(
            f"sample_weight[{index}] must be 0 or above and finite, got "
            f"{weight[index]}."
        )
    if not weight.any():
        raise ValueError("sample_weight must hold a weight above 0, got none.")
    return weight
