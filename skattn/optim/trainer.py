"""Training of attention models: epochs, and when they end."""

import numpy as np
import torch

from skattn._noise import refuse_noise
from skattn.optim.excess import has_excess_loss
from skattn.optim.losses import make_loss
from skattn.optim.results import Epoch, TrainingResult
from skattn.optim.steps import SOLVERS, Noise, Steps, make_optimizer

__all__ = ["train"]


def train(
    model,
    batch,
    targets,
    sample_weight=None,
    *,
    solver="adam",
    learning_rate=1e-3,
    alpha=0.0,
    max_iter=200,
    batch_size=None,
    tol=1e-4,
    n_iter_no_change=10,
    rng=None,
    validation=None,
    freeze_head=False,
    mirror_p=2.0,
    max_learning_rate=None,
    on_epoch_begin=None,
    on_epoch=None,
    optimizer_state=None,
    diversity=0.0,
    loss="log_loss",
    label_smoothing=0.0,
    token_dropout=0.0,
    mixup=0.0,
    average=0.0,
):
    """Train a model in place.

    The objective is ``sum(w l) / sum(w) + alpha / 2 |theta|^2``: `l` is the logistic
    loss, cross-entropy for several classes, or half the squared error, and theta holds
    all trained weights but no intercepts (parameters with one axis). A mini-batch takes
    the weighted mean over its own samples, and the same penalty.

    Parameters
    ----------
    model : torch.nn.Module
        Maps a batch to logits (n_samples, n_outputs) and offers
        ``parameter_groups()``, as :class:`skattn.attention.AttentionModel` does.
    batch : TokenBatch
        The training samples; anything with ``n_samples`` and ``take(index)``.
    targets : torch.Tensor of shape (n_samples,) or (n_samples, n_outputs)
        0 and 1 if the model has one output, else the class of each sample, int64; or
        the numbers that "squared_error" is measured from.
    sample_weight : torch.Tensor of shape (n_samples,), default=None
        Non-negative; samples of weight zero take no part. None means equal weights.
    solver : {"adam", "lbfgs", "gd", "ngd", "polyak", "mirror"}, default="adam"
        "gd" is gradient descent, "ngd" :class:`NormalizedGD` and "mirror" the
        normalised form of :class:`MirrorDescent`, both with one group each for the
        hidden layer, the prompt or W, K, Q, and the head. "polyak" is
        :class:`PolyakGD`, with a step size each for K and Q where these alone are
        trained, and else one for all.
    learning_rate : float, default=1e-3
        Step size; "lbfgs" and "polyak" have no use for it, their steps come from a line
        search and from the loss.
    alpha : float, default=0
        Strength of the penalty.
    max_iter : int, default=200
        Number of epochs at most; an iteration of "lbfgs" is an epoch.
    batch_size : int, default=None
        Samples in a mini-batch; None means all of them at every step.
    tol : float, default=1e-4
        Training stops when the loss (or the validation score) has not improved by
        more than `tol` for more than `n_iter_no_change` epochs in a row. "lbfgs"
        without validation stops when no entry of the gradient exceeds `tol`, or when
        the loss has not fallen at all for that many. 0 disables stopping.
    n_iter_no_change : int, default=10
    rng : numpy.random.RandomState, default=None
        Shuffles mini-batches and draws what is dropped and mixed; needed for these
        only.
    validation : callable, default=None
        Scores the current model: ``validation(model)`` returns a float, higher is
        better. The best weights are restored at the end.
    freeze_head : bool, default=False
        Leave the "head" group as it is, and out of the penalty.
    mirror_p : float, default=2
        Exponent above 1 of the potential of "mirror" on the prompt or W, K, Q; the
        hidden layer and the head have exponent 2.
    max_learning_rate : float, default=None
        Largest step size of "polyak"; None means no limit. Steps without one suit each
        mini-batch too well to suit them all.
    on_epoch_begin : callable, default=None
        Called without arguments before each epoch.
    on_epoch : callable, default=None
        Called with an :class:`Epoch` after each; training ends if it returns True.
    optimizer_state : dict, default=None
        ``TrainingResult.optimizer_state`` of an earlier training of the same model
        with the same solver, to go on from there.
    diversity : float, default=0
        Adds to the loss of each sample so many times the overlap of its heads of
        attention, as :meth:`skattn.attention.AttentionModel.forward_with_overlap`
        tells it.
    loss : {"log_loss", "squared_error"}, default="log_loss"
        See :mod:`skattn.optim.losses`.
    label_smoothing : float in [0, 1), default=0
        Share of each label that is spread evenly over all classes.
    token_dropout : float in [0, 1), default=0
        Share of the tokens that each step leaves out, see
        :func:`skattn.attention.drop_tokens`.
    mixup : float, default=0
        If positive, each step mixes samples within their classes, see
        :func:`skattn.attention.mix_within_class`.
    average : float in [0, 1), default=0
        Decay of a moving average of the weights over steps. If positive, `validation`,
        `on_epoch` and the caller get the average, and only the steps go on from the
        weights themselves. See :class:`skattn.optim.averaging.WeightAverage`.

    Returns
    -------
    result : TrainingResult

    Raises
    ------
    ValueError
        If options contradict each other, or no sample has a positive weight.
    FloatingPointError
        If the loss becomes infinite or NaN; or if "polyak" with a known optimum comes
        to rest above it.

    Notes
    -----
    "ngd" and "mirror" give K and Q the weight decay of the code published with
    arXiv:2308.16898, 2.2e-16 for each unit of weight, whatever `alpha` is.

    "polyak" knows the optimum where attention alone is trained, with all samples at
    every step, one output and ``alpha=0``: the infimum that the head allows, from which
    :func:`excess_loss` measures. Else it estimates it, as with ``optimum=None``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skattn.attention import (
    ...     AttentionModel, RaggedTokens, TokenBatch, initial_parameters)
    >>> from skattn.optim import train
    >>> tokens = RaggedTokens.from_arrays([[2.0], [0.0], [-2.0]], [0, 2, 3])
    >>> parameters = initial_parameters(
    ...     np.random.RandomState(0), n_features=1, query_kind="prompt", n_outputs=1)
    >>> model = AttentionModel.from_parameters(parameters)
    >>> result = train(model, TokenBatch(tokens), torch.tensor([1, 0]), solver="lbfgs",
    ...                alpha=0.01)
    >>> result.converged, bool(result.loss_curve[-1] < 0.2)
    (True, True)
    """
    _check_options(
        solver, learning_rate, alpha, max_iter, batch_size, tol, rng, mirror_p
    )
    _check_at_least("diversity", diversity, 0.0)
    sample_loss = make_loss(loss, label_smoothing)
    noise = Noise(rng, token_dropout, mixup)
    dropout = getattr(model, "dropout_rate", 0.0)
    _check_noise(solver, loss, noise, average, dropout)
    batch, targets, sample_weight = _weighted_samples(
        model, batch, targets, sample_weight
    )
    if batch_size is not None and batch_size >= batch.n_samples:
        batch_size = None
    groups = dict(model.parameter_groups())
    frozen = groups.pop("head") if freeze_head else []
    by_excess = (
        solver == "polyak"
        and freeze_head
        and alpha == diversity == label_smoothing == 0.0
        and loss == "log_loss"
        and groups.keys() <= {"attention", "key", "query"}
        and has_excess_loss(model)
    )
    # A copy: what is taken out must stay in what the caller has.
    optimizer_state = dict(optimizer_state or {})
    average_state = optimizer_state.pop("average", None)
    optimizer = make_optimizer(
        solver,
        groups,
        learning_rate,
        optimizer_state,
        mirror_p=mirror_p,
        # A mini-batch may be unable to reach its own optimum, which makes steps towards
        # it endless.
        optimum=0.0 if by_excess and batch_size is None else None,
        max_lr=max_learning_rate,
    )
    steps = Steps(
        model,
        optimizer,
        alpha,
        by_excess,
        diversity,
        loss=sample_loss,
        noise=noise,
        average=average,
        average_state=average_state,
    )
    if dropout > 0.0:
        model.seed_dropout(int(rng.randint(np.iinfo(np.int32).max)))
    # The line search of lbfgs never lets the loss rise: there, a slow descent is
    # still one, and only a loss that stands still has come to its end.
    by_slope = solver == "lbfgs" and validation is None
    progress = _Progress(0.0 if by_slope else tol, n_iter_no_change)
    result = TrainingResult(
        validation_scores=None if validation is None else [],
        # Where nothing was to be reached, nothing was missed.
        converged=tol == 0.0,
    )
    best_weights = None
    try:
        _set_requires_grad(frozen, False)
        # Normalised steps follow a direction, which outlives the gradient's size. A
        # penalty, a decay or a hidden layer would mix it with gradients of another.
        model.relative_gradients = (
            solver in ("ngd", "mirror")
            and alpha == 0.0
            and groups.keys() <= {"attention", "head"}
        )
        for number in range(max_iter):
            if on_epoch_begin is not None:
                on_epoch_begin()
            model.train()
            if batch_size is None:
                value = steps.step(batch, targets, sample_weight)
            else:
                value = steps.pass_over(batch, targets, sample_weight, batch_size, rng)
            model.eval()
            _check_finite(value, number)
            result.loss_curve.append(value)
            score = None
            with steps.averaged():
                if validation is not None:
                    score = float(validation(model))
                    result.validation_scores.append(score)
                is_best = progress.update(value if score is None else -score)
                if is_best and validation is not None:
                    best_weights = _copy_weights(model)
                epoch = Epoch(number, value, score, model)
                if on_epoch is not None and on_epoch(epoch):
                    result.stopped_by_callback = True
                    break
            flat = by_slope and steps.largest_slope <= tol
            if tol > 0.0 and (flat or progress.has_stalled):
                result.converged = True
                break
    finally:
        _set_requires_grad(frozen, True)
        model.relative_gradients = False
        model.eval()
        optimizer.zero_grad()
    result.optimizer_state = optimizer.state_dict()
    if steps.average is not None:
        result.optimizer_state["average"] = steps.average.state_dict()
        steps.average.apply()
    if best_weights is not None:
        model.load_state_dict(best_weights)
    return result


class _Progress:
    """Counts the epochs since the last improvement, as `MLPClassifier` does."""

    def __init__(self, tol, n_iter_no_change):
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.best = np.inf
        self.n_stalled = 0

    def update(self, value):
        """Take note of a value, lower being better; returns whether it is the best."""
        self.n_stalled = 0 if value < self.best - self.tol else self.n_stalled + 1
        is_best = value < self.best
        self.best = min(value, self.best)
        return is_best

    @property
    def has_stalled(self):
        return self.n_stalled > self.n_iter_no_change


def _weighted_samples(model, batch, targets, sample_weight):
    """Give every sample a weight, and leave out those whose weight is zero."""
    dtype = next(model.parameters()).dtype
    if sample_weight is None:
        weight = torch.ones(batch.n_samples, dtype=dtype, device=targets.device)
        return batch, targets, weight
    weight = sample_weight.to(dtype)
    if weight.shape != (batch.n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({batch.n_samples},), got "
            f"{tuple(weight.shape)}."
        )
    if not (torch.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError("sample_weight must be finite and non-negative.")
    taking_part = weight.nonzero().squeeze(1)
    if len(taking_part) == 0:
        raise ValueError("sample_weight is zero for every sample.")
    if len(taking_part) == batch.n_samples:
        return batch, targets, weight
    return batch.take(taking_part), targets[taking_part], weight[taking_part]


def _copy_weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def _set_requires_grad(parameters, value):
    for parameter in parameters:
        parameter.requires_grad_(value)


def _check_finite(loss, number):
    if not np.isfinite(loss):
        raise FloatingPointError(
            f"The loss became {loss} in epoch {number}. Lower the learning rate "
            "(learning_rate_init of the estimators), or scale the features."
        )


def _check_options(
    solver, learning_rate, alpha, max_iter, batch_size, tol, rng, mirror_p
):
    if solver not in SOLVERS:
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}."
        )
    if solver == "lbfgs" and batch_size is not None:
        raise ValueError(
            "solver='lbfgs' works on all samples at once: leave batch_size at None, "
            "or use another solver."
        )
    if batch_size is not None and rng is None:
        raise ValueError("mini-batches are shuffled: rng must be given.")
    for name, value, smallest in (
        ("alpha", alpha, 0.0),
        ("tol", tol, 0.0),
        ("max_iter", max_iter, 1),
        ("batch_size", 1 if batch_size is None else batch_size, 1),
    ):
        _check_at_least(name, value, smallest)
    if not learning_rate > 0.0:
        raise ValueError(f"learning_rate must be positive, got {learning_rate}.")
    if not 1.0 < mirror_p < np.inf:
        raise ValueError(f"mirror_p must be above 1 and finite, got {mirror_p}.")


def _check_noise(solver, loss, noise, average, dropout):
    """Refuse regularisers that are out of range, or that a solver has no use for."""
    for name, value in (
        ("token_dropout", noise.token_dropout),
        ("average", average),
        ("dropout", dropout),
    ):
        if not 0.0 <= value < 1.0:
            raise ValueError(f"{name} must be in [0, 1), got {value}.")
    _check_at_least("mixup", noise.mixup, 0.0)
    if noise.mixup > 0.0 and loss != "log_loss":
        raise ValueError(
            f"mixup={noise.mixup} mixes samples of the same class, and loss={loss!r} "
            "has no classes."
        )
    drawn = {
        "dropout": dropout,
        "token_dropout": noise.token_dropout,
        "mixup": noise.mixup,
    }
    refuse_noise(solver, average=average, **drawn)
    for name, value in drawn.items():
        if value > 0.0 and noise.rng is None:
            raise ValueError(f"{name}={value} is random: rng must be given.")


def _check_at_least(name, value, smallest):
    if not value >= smallest:
        raise ValueError(f"{name} must be at least {smallest}, got {value}.")
