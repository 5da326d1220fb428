"""What training was like on the way, and where it ended."""

from dataclasses import dataclass, field

import numpy as np

from skattn.theory._dynamics._model import attention_matrix


@dataclass(frozen=True)
class AttentionTrajectory:
    """Result of `train_attention`.

    R is the number of records, B that of instances. The axis of instances is absent
    where one instance was given without it.

    Attributes
    ----------
    iterations : ndarray of shape (R,)
        When records were taken: the number of steps before.

    norm : ndarray of shape (R, B)
        Frobenius norm of the attention weights; for keys and queries of W = K Q'.

    loss : ndarray of shape (R, B)
        Mean loss over the samples.

    top_weight : ndarray of shape (R, B)
        Largest attention weight of a sample, averaged over the samples.

    min_top_weight : ndarray of shape (R, B)
        The same in the sample where it is smallest: 1 means that all are saturated.

    alignment : dict of ndarray of shape (R, B)
        For each name in `directions`, the cosine between the attention weights and
        that direction. NaN where one of them is zero or the direction is not finite.

    attention_coef : ndarray of shape (B, d, d_q), or (B, d) for a prompt
        The weights at the end.

    key_coef, query_coef : ndarray of shape (B, d, rank) and (B, d_q, rank), or None
        K and Q at the end.

    head : ndarray of shape (B, d), or (B, d, m)
        The head at the end.

    selected : ndarray of shape (B, n)
        Position of the top token of each sample at the end.

    attention_weights : ndarray of shape (B, n, T)
        Attention at the end, zero at absent tokens.

    has_run_away : ndarray of shape (B,)
        Which instances were stopped where they asked for a step longer than 1e100.

    coefs : ndarray of shape (R, B, d, d_q), (R, B, d), or None
        Attention weights at the records; None with ``record_coef=False``.

    heads : ndarray of shape (R, B, d), (R, B, d, m), or None
        Heads at the records; None with ``record_coef=False``, or if the head was not
        trained.

    See Also
    --------
    train_attention : What returns it.

    Examples
    --------
    >>> from skattn.theory import train_attention
    >>> trajectory = train_attention(
    ...     [[[2.0], [0.0]], [[1.0], [-1.0]]], [1, 1], head=[1.0], solver="gd",
    ...     learning_rate_init=1.0, attention_init="zero", record=[0, 10, 100],
    ... )
    >>> trajectory.iterations, trajectory.min_top_weight.round(2)
    (array([  0,  10, 100]), array([0.5 , 0.94, 0.99]))
    """

    iterations: np.ndarray
    norm: np.ndarray
    loss: np.ndarray
    top_weight: np.ndarray
    min_top_weight: np.ndarray
    alignment: dict = field(repr=False)
    attention_coef: np.ndarray = field(repr=False)
    key_coef: np.ndarray | None = field(repr=False)
    query_coef: np.ndarray | None = field(repr=False)
    head: np.ndarray = field(repr=False)
    selected: np.ndarray
    attention_weights: np.ndarray = field(repr=False)
    has_run_away: np.ndarray
    coefs: np.ndarray | None = field(repr=False)
    heads: np.ndarray | None = field(repr=False)

    def alignment_to(self, direction, of="attention"):
        """Cosine between the recorded weights and a direction known only afterwards.

        Parameters
        ----------
        direction : array-like of the shape of `attention_coef` or of `head`
            For instance the `coef` of `attention_svm` for the tokens that training
            has selected, stacked over the instances.

        of : {"attention", "head"}, default="attention"
            Which weights.

        Returns
        -------
        cosine : ndarray of shape (R, B)
            NaN where the weights or the direction are zero, or it is not finite.

        Raises
        ------
        ValueError
            If these weights were not recorded, or shapes do not agree.

        Examples
        --------
        >>> from skattn.theory import attention_svm, train_attention
        >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]]
        >>> trajectory = train_attention(
        ...     X, [1, 0], [1.0, 2.0], attention_init="zero", record=[10, 1000]
        ... )
        >>> svm = attention_svm(X, trajectory.selected)
        >>> trajectory.alignment_to(svm.coef).round(3)
        array([0.997, 1.   ])
        """
        if of not in ("attention", "head"):
            raise ValueError(f"of must be 'attention' or 'head', got {of!r}.")
        recorded = self.coefs if of == "attention" else self.heads
        if recorded is None:
            raise ValueError(
                f"The {of} weights were not recorded: train with record_coef=True"
                f"{'' if of == 'attention' else ' and train_head=True'}."
            )
        direction = np.asarray(direction, dtype=np.float64)
        if direction.shape != recorded.shape[1:]:
            raise ValueError(
                f"direction must have shape {recorded.shape[1:]}, got "
                f"{direction.shape}."
            )
        n_instance_axes = self.norm.ndim - 1
        return cosines(recorded, direction, recorded.ndim - 1 - n_instance_axes)


def cosines(A, B, n_axes):
    """Cosine over the last `n_axes` axes, NaN where an array has no direction."""
    axes = tuple(range(-n_axes, 0))
    with np.errstate(invalid="ignore"):
        units = [_unit(array, axes) for array in (A, B)]
        return np.clip((units[0] * units[1]).sum(axis=axes), -1.0, 1.0)


def _unit(array, axes):
    peak = np.abs(array).max(axis=axes, keepdims=True)
    scaled = array / np.where(peak > 0, peak, np.nan)
    return scaled / np.sqrt(np.square(scaled).sum(axis=axes, keepdims=True))


def record_iterations(record, max_iter):
    """Return the iterations at which to record, ascending and without repetition."""
    if isinstance(record, str) and record == "log":
        decades = 10 ** np.arange(1 + int(np.log10(max_iter)))
        wanted = np.outer(decades, [1, 2, 5]).ravel()
        return np.unique([0, *wanted[wanted < max_iter], max_iter])
    wanted = np.asarray(record)
    if wanted.dtype.kind not in "iu" or wanted.ndim > 1 or wanted.size == 0:
        raise ValueError(
            'record must be "log", an interval or the iterations to record, as '
            f"integers; got {record!r}."
        )
    if wanted.ndim == 0:
        if wanted < 1:
            raise ValueError(f"record must be an interval of at least 1, got {record}.")
        return np.unique([*range(0, max_iter, int(wanted)), max_iter])
    if wanted.min() < 0 or wanted.max() > max_iter:
        raise ValueError(
            f"record must hold iterations from 0 to max_iter={max_iter}, got "
            f"{wanted.min()} to {wanted.max()}."
        )
    return np.unique(wanted)


class Recorder:
    """Arrays over records and instances, filled as training comes by.

    The axis of instances is always there, and attention weights are matrices.
    """

    def __init__(self, iterations, directions, keeps_coefs):
        self.iterations = iterations
        self.arrays = {}
        self.alignment = {}
        self._directions = directions
        self._keeps_coefs = keeps_coefs
        self._rows = {int(iteration): row for row, iteration in enumerate(iterations)}

    def record(self, iteration, model, weights, look):
        """Take note of the model, if this iteration is to be recorded."""
        row = self._rows.get(iteration)
        if row is None:
            return
        coef = attention_matrix(weights)
        top_weight = look.attention.max(axis=2)
        seen = {
            "norm": _frobenius(coef),
            "loss": model.mean_loss(look),
            "top_weight": top_weight.mean(axis=1),
            "min_top_weight": top_weight.min(axis=1),
        }
        if self._keeps_coefs:
            seen["coefs"] = coef
            if "head" in weights:
                seen["heads"] = weights["head"]
        self._fill(self.arrays, row, seen)
        cosine = {
            name: cosines(coef, direction, 2)
            for name, direction in self._directions.items()
        }
        self._fill(self.alignment, row, cosine)

    def _fill(self, arrays, row, seen):
        for name, values in seen.items():
            if name not in arrays:
                arrays[name] = np.empty((len(self.iterations), *values.shape))
            arrays[name][row] = values


def _frobenius(matrices):
    peak = np.abs(matrices).max(axis=(1, 2))
    scaled = matrices / np.where(peak > 0, peak, 1.0)[:, None, None]
    return peak * np.sqrt(np.square(scaled).sum(axis=(1, 2)))
