"""How attention is trained: from an estimator's parameters to the trainer and back.

Torch is imported by the functions that need it, so that the estimator can be imported
without.
"""

from typing import NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from skattn._fitting import warn_not_converged
from skattn.estimators._combinations import encoder_width
from skattn.estimators._parameters import from_attributes, to_attributes
from skattn.estimators._progress import progress_logger
from skattn.tokens._table import TableTokens

# Up to so many samples, batch_size="auto" takes all of them at every step.
_LARGEST_FULL_BATCH = 2_000
_AUTO_BATCH_SIZE = 200

# What None means for the widths of gates and of the layer of a head.
_GATE_SIZE = 64
_HEAD_HIDDEN_SIZE = 32

# What learning_rate_init="auto" means.
_LEARNING_RATE = 0.02
_ENCODER_LEARNING_RATE = 0.001


class Targets(NamedTuple):
    """What is to be predicted.

    `values` are classes (n_samples,), or numbers (n_samples, n_outputs) that were
    centred by `shift` and divided by `scale`, both (n_outputs,).
    """

    values: np.ndarray
    n_outputs: int
    shift: np.ndarray | None = None
    scale: np.ndarray | None = None

    @property
    def are_classes(self):
        """Whether there are labels to be told apart."""
        return self.shift is None

    def to_training(self, parameters):
        """Return parameters whose head predicts centred and scaled numbers."""
        if self.are_classes:
            return parameters
        coef = parameters["coef"] / self.scale[:, None]
        intercept = (parameters["intercept"] - self.shift) / self.scale
        return {**parameters, "coef": coef, "intercept": intercept}

    def from_training(self, parameters):
        """Return parameters whose head predicts the numbers as they were given."""
        if self.are_classes:
            return parameters
        coef = parameters["coef"] * self.scale[:, None]
        intercept = parameters["intercept"] * self.scale + self.shift
        return {**parameters, "coef": coef, "intercept": intercept}


def starting_parameters(estimator, tokens, rng, goes_on, n_outputs):
    """Return the weights that training starts from.

    Parameters
    ----------
    estimator : AttentionClassifier or AttentionRegressor
        With `goes_on` it has the weights of an earlier fit.

    tokens : Tokens or TableTokens
        Training samples.

    rng : RandomState
        Draws initial weights.

    goes_on : bool
        Whether to take the weights of the earlier fit.

    n_outputs : int
        Of the head.

    Returns
    -------
    parameters : dict of str to ndarray
        As :class:`skattn.attention.AttentionModel` names them.
    """
    from skattn.attention.parameters import initial_parameters
    from skattn.estimators._torch_bridge import query_kind

    is_given = estimator.query == "given"
    parameters = initial_parameters(
        rng,
        n_features=tokens.n_features,
        query_kind=query_kind(estimator.query),
        n_query_features=tokens.query.shape[1] if is_given else None,
        parameterization=estimator.parameterization,
        rank=estimator.rank,
        n_heads=estimator.n_heads,
        hidden_size=encoder_width(estimator),
        kernel_size=estimator.kernel_size,
        n_layers=estimator.n_layers,
        position=estimator.position,
        n_positions=longest(tokens),
        n_outputs=n_outputs,
        n_active_features=2 if isinstance(tokens, TableTokens) else None,
        gate_size=_width(estimator, "scoring", "gated", "gate_size", _GATE_SIZE),
        pooling=estimator.pooling,
        head_hidden_size=_width(
            estimator, "head", "mlp", "head_hidden_size", _HEAD_HIDDEN_SIZE
        ),
        mapping=estimator.mapping,
        mapping_params=estimator.mapping_params,
        learned_beta=(
            estimator.attention_norm is not None and estimator.beta == "learned"
        ),
    )
    if not goes_on:
        return parameters
    fitted = from_attributes(estimator)
    shapes = {name: value.shape for name, value in parameters.items()}
    # Positions that were learned stay as many as they were.
    shapes.pop("encoder.position", None)
    found = {name: value.shape for name, value in fitted.items()}
    found.pop("encoder.position", None)
    if shapes != found:
        raise ValueError(
            "The weights of the earlier fit do not have the shapes that the data and "
            "parameters of this one ask for. Set warm_start=False, or clone the "
            "estimator."
        )
    return fitted


def longest(tokens):
    """Return how many positions the samples have at the most."""
    return int(tokens.positions.max()) + 1


def model_options(estimator):
    """Return what a model needs to know besides its weights."""
    beta = None
    if estimator.attention_norm is not None and estimator.beta != "learned":
        beta = float(estimator.beta)
    return {
        "mapping": estimator.mapping,
        "mapping_params": estimator.mapping_params,
        "pooling": estimator.pooling,
        "attention_norm": estimator.attention_norm,
        "beta": beta,
        "head_scale": estimator.head_scale,
        "n_heads": estimator.n_heads,
        "position": estimator.position,
        "dropout": estimator.dropout,
    }


def _learning_rate(estimator):
    if estimator.learning_rate_init != "auto":
        return estimator.learning_rate_init
    return _ENCODER_LEARNING_RATE if estimator.n_layers else _LEARNING_RATE


def _width(estimator, name, value, size, default):
    """Return the width of a part that an estimator has if a parameter has a value."""
    if getattr(estimator, name) != value:
        return None
    given = getattr(estimator, size)
    return default if given is None else given


def run_training(
    estimator, tokens, targets, weights, parameters, rng, reporter, incremental
):
    """Train and return the fitted attributes.

    Parameters
    ----------
    estimator : AttentionClassifier or AttentionRegressor
        Says how to train.

    tokens : Tokens or TableTokens
        Training samples.

    targets : Targets
        What is to be predicted.

    weights : ndarray of shape (n_samples,)
        Weight of each sample.

    parameters : dict of str to ndarray
        Where training starts.

    rng : RandomState
        Draws mini-batches and held-out samples.

    reporter : IterationReporter
        Hears of each epoch.

    incremental : bool
        Whether to train for one epoch only, after those of earlier calls.

    Returns
    -------
    state : dict of str to object
        Fitted attributes by name.
    """
    from skattn.estimators import _torch_bridge as bridge
    from skattn.optim import train

    device = bridge.resolve_device(estimator.device, estimator.dtype)
    options = {"dtype": estimator.dtype, "device": device}
    model = bridge.make_model(
        targets.to_training(parameters),
        query=estimator.query,
        **model_options(estimator),
        **options,
    )
    batch = bridge.make_batch(tokens, estimator.query, **options)
    batch, values, weights, validate = _hold_out(
        estimator, batch, targets, weights, rng
    )
    if not targets.are_classes:
        values = values.astype(estimator.dtype)
    logger = progress_logger() if estimator.verbose else None
    if logger is not None and estimator.n_layers:
        share = 100 * bridge.padded_share(batch)
        logger.info("Self-attention spends %.1f %% of its work on padding.", share)

    def fitted_now():
        arrays = targets.from_training(model.parameters_as_arrays())
        state = to_attributes(arrays)
        state["n_token_features_"] = encoder_width(estimator) or tokens.n_features
        return state

    losses = list(getattr(estimator, "loss_curve_", [])) if incremental else []

    def stopped_now():
        return {**fitted_now(), "loss_curve_": list(losses), "n_iter_": len(losses)}

    def on_epoch(epoch):
        losses.append(epoch.loss)
        if logger is not None:
            logger.info("Epoch %d, loss = %.8f", epoch.number + 1, epoch.loss)
        return reporter.end_iteration(stopped_now)

    earlier = _optimizer_state(estimator) if incremental else None
    batch_size = _batch_size(estimator, len(values))
    learning_rate = _learning_rate(estimator)
    sees_all = batch_size is None and not incremental
    try:
        result = train(
            model,
            batch,
            bridge.as_tensors(values).to(device),
            bridge.as_tensors(weights.astype(estimator.dtype)).to(device),
            solver=estimator.solver,
            learning_rate=learning_rate,
            alpha=estimator.alpha,
            max_iter=1 if incremental else estimator.max_iter,
            batch_size=batch_size,
            tol=0.0 if incremental else estimator.tol,
            n_iter_no_change=estimator.n_iter_no_change,
            rng=rng,
            validation=validate,
            freeze_head=estimator.freeze_head,
            mirror_p=estimator.mirror_p,
            diversity=estimator.diversity,
            max_learning_rate=None if sees_all else learning_rate,
            loss="log_loss" if targets.are_classes else "squared_error",
            label_smoothing=getattr(estimator, "label_smoothing", 0.0),
            token_dropout=estimator.token_dropout,
            mixup=getattr(estimator, "mixup", 0.0),
            average=estimator.average,
            on_epoch_begin=reporter.begin_iteration,
            on_epoch=on_epoch,
            optimizer_state=None if earlier is None else bridge.as_tensors(earlier),
        )
    except FloatingPointError as error:
        raise ValueError(str(error)) from error
    state = fitted_now()
    if incremental:
        state["_optimizer_state"] = bridge.as_arrays(result.optimizer_state)
        state["_optimizer_of"] = _optimizer_of(estimator)
    scores = result.validation_scores
    state["loss_curve_"] = losses
    state["n_iter_"] = len(losses)
    state["best_loss_"] = min(losses)
    state["validation_scores_"] = scores
    state["best_validation_score_"] = None if scores is None else max(scores)
    if not (incremental or result.converged or result.stopped_by_callback):
        warn_not_converged(
            f"Training reached max_iter={estimator.max_iter} before the loss stopped "
            f"improving by tol={estimator.tol}. Increase max_iter or "
            "learning_rate_init, or scale the features.",
            n_functions_below_fit=3,
        )
    return state


def _optimizer_of(estimator):
    """Return what the state of an optimiser depends on."""
    return estimator.solver, estimator.freeze_head, estimator.average > 0


def _optimizer_state(estimator):
    """Return the state to go on from, if it is that of the present solver."""
    if getattr(estimator, "_optimizer_of", None) != _optimizer_of(estimator):
        return None
    return estimator._optimizer_state


def _hold_out(estimator, batch, targets, weights, rng):
    """Return the samples to train on, and how to validate."""
    values = targets.values
    if not estimator.early_stopping:
        return batch, values, weights, None
    from skattn.estimators import _torch_bridge as bridge

    used = np.flatnonzero(weights > 0)
    trained, held_out = train_test_split(
        used,
        test_size=estimator.validation_fraction,
        stratify=values[used] if targets.are_classes else None,
        random_state=rng,
    )
    held_out_batch = batch.take(held_out)
    predict, score = bridge.logits, r2_score
    if targets.are_classes:
        predict, score = bridge.predicted_index, accuracy_score

    def validate(model):
        return score(
            values[held_out],
            predict(model, held_out_batch),
            sample_weight=weights[held_out],
        )

    return batch.take(trained), values[trained], weights[trained], validate


def _batch_size(estimator, n_samples):
    if estimator.batch_size != "auto":
        return estimator.batch_size
    if n_samples <= _LARGEST_FULL_BATCH or estimator.solver == "lbfgs":
        return None
    return _AUTO_BATCH_SIZE
