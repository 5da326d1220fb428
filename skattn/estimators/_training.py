"""How an `AttentionClassifier` is trained: from its parameters to the trainer and back.

Torch is imported by the functions that need it, so that the estimator can be imported
without.
"""

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

from skattn._fitting import warn_not_converged
from skattn.estimators._parameters import from_attributes, to_attributes
from skattn.estimators._progress import progress_logger
from skattn.tokens._table import TableTokens

# Up to so many samples, batch_size="auto" takes all of them at every step.
_LARGEST_FULL_BATCH = 2_000
_AUTO_BATCH_SIZE = 200

# What None means for the widths of gates and of the layer of a head.
_GATE_SIZE = 64
_HEAD_HIDDEN_SIZE = 32


def check_combinations(estimator):
    """Refuse parameters that contradict each other, by name."""
    _check_attention(estimator)
    _check_head(estimator)
    if estimator.solver != "mirror" and estimator.mirror_p != 2.0:
        raise ValueError(
            f"mirror_p={estimator.mirror_p} needs solver='mirror'; got "
            f"solver={estimator.solver!r}."
        )
    if estimator.solver == "lbfgs" and estimator.batch_size not in ("auto", None):
        raise ValueError(
            f"solver='lbfgs' takes all samples at every step, which "
            f"batch_size={estimator.batch_size} contradicts. Use batch_size='auto', or "
            "solver='adam'."
        )


def _check_attention(estimator):
    if estimator.scoring == "gated" and estimator.parameterization == "KQ":
        raise ValueError(
            "scoring='gated' scores by a prompt, and parameterization='KQ' by keys and "
            "queries. Use scoring='linear', or parameterization='W'."
        )
    if estimator.scoring == "gated" and estimator.query != "prompt":
        raise ValueError(
            f"scoring='gated' scores by a prompt; got query={estimator.query!r}. Use "
            "query='prompt', or scoring='linear'."
        )
    if estimator.gate_size is not None and estimator.scoring != "gated":
        raise ValueError(
            f"gate_size={estimator.gate_size} needs scoring='gated'; got "
            f"scoring={estimator.scoring!r}."
        )
    if estimator.parameterization == "KQ" and estimator.query == "prompt":
        raise ValueError(
            "parameterization='KQ' needs queries, and query='prompt' has none. Use "
            "parameterization='W', or another query."
        )
    if estimator.rank is not None and estimator.parameterization != "KQ":
        raise ValueError(
            f"rank={estimator.rank} needs parameterization='KQ'; got "
            f"parameterization={estimator.parameterization!r}."
        )
    if estimator.diversity > 0 and estimator.n_heads == 1:
        raise ValueError(
            f"diversity={estimator.diversity} needs heads that can differ; got "
            "n_heads=1."
        )


def _check_head(estimator):
    from skattn.attention.pooling import check_pooling

    check_pooling(estimator.pooling)
    if estimator.head_hidden_size is not None and estimator.head != "mlp":
        raise ValueError(
            f"head_hidden_size={estimator.head_hidden_size} needs head='mlp'; got "
            f"head={estimator.head!r}."
        )


def check_given_head(estimator, coef_init, goes_on):
    """Refuse a head of which a part would be missing.

    Parameters
    ----------
    estimator : AttentionClassifier
        Not yet fitted.

    coef_init : array-like or None
        What the caller of `fit` gives of the head.

    goes_on : bool
        Whether there is the head of an earlier fit.
    """
    if estimator.head == "mlp" and coef_init is not None:
        raise ValueError(
            "coef_init gives a linear head, and head='mlp' has a layer before it. Use "
            "warm_start=True to start from an earlier fit, or head='linear'."
        )
    if not estimator.freeze_head or goes_on or coef_init is not None:
        return
    if estimator.head == "mlp":
        raise ValueError(
            "freeze_head=True with head='mlp' needs the head of an earlier fit: fit "
            "once with warm_start=True and freeze_head=False."
        )
    raise ValueError(
        "freeze_head=True needs coef_init: the head must be given, since it is not "
        "trained."
    )


def starting_parameters(estimator, tokens, rng, goes_on):
    """Return the weights that training starts from.

    Parameters
    ----------
    estimator : AttentionClassifier
        Has `classes_`; with `goes_on` also the weights of an earlier fit.

    tokens : Tokens or TableTokens
        Training samples.

    rng : RandomState
        Draws initial weights.

    goes_on : bool
        Whether to take the weights of the earlier fit.

    Returns
    -------
    parameters : dict of str to ndarray
        As :class:`skattn.attention.AttentionModel` names them.
    """
    from skattn.attention.parameters import initial_parameters
    from skattn.estimators._torch_bridge import query_kind

    is_given = estimator.query == "given"
    n_classes = len(estimator.classes_)
    parameters = initial_parameters(
        rng,
        n_features=tokens.n_features,
        query_kind=query_kind(estimator.query),
        n_query_features=tokens.query.shape[1] if is_given else None,
        parameterization=estimator.parameterization,
        rank=estimator.rank,
        n_heads=estimator.n_heads,
        hidden_size=estimator.hidden_size,
        n_outputs=1 if n_classes == 2 else n_classes,
        n_active_features=2 if isinstance(tokens, TableTokens) else None,
        gate_size=_width(estimator, "scoring", "gated", "gate_size", _GATE_SIZE),
        pooling=estimator.pooling,
        head_hidden_size=_width(
            estimator, "head", "mlp", "head_hidden_size", _HEAD_HIDDEN_SIZE
        ),
    )
    if not goes_on:
        return parameters
    fitted = from_attributes(estimator)
    shapes = {name: value.shape for name, value in parameters.items()}
    if shapes != {name: value.shape for name, value in fitted.items()}:
        raise ValueError(
            "The weights of the earlier fit do not have the shapes that the data and "
            "parameters of this one ask for. Set warm_start=False, or clone the "
            "estimator."
        )
    return fitted


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
    estimator : AttentionClassifier
        Says how to train.

    tokens : Tokens or TableTokens
        Training samples.

    targets : int array of shape (n_samples,)
        Class of each sample.

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
        parameters,
        mapping=estimator.mapping,
        query=estimator.query,
        pooling=estimator.pooling,
        **options,
    )
    batch = bridge.make_batch(tokens, estimator.query, **options)
    batch, targets, weights, validate = _hold_out(
        estimator, batch, targets, weights, rng
    )
    logger = progress_logger() if estimator.verbose else None

    def fitted_now():
        state = to_attributes(model.parameters_as_arrays())
        state["n_token_features_"] = estimator.hidden_size or tokens.n_features
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
    batch_size = _batch_size(estimator, len(targets))
    sees_all = batch_size is None and not incremental
    try:
        result = train(
            model,
            batch,
            bridge.as_tensors(targets).to(device),
            bridge.as_tensors(weights.astype(estimator.dtype)).to(device),
            solver=estimator.solver,
            learning_rate=estimator.learning_rate_init,
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
            max_learning_rate=None if sees_all else estimator.learning_rate_init,
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
            "learning_rate_init, or scale the features."
        )
    return state


def _optimizer_of(estimator):
    """Return what the state of an optimiser depends on."""
    return estimator.solver, estimator.freeze_head


def _optimizer_state(estimator):
    """Return the state to go on from, if it is that of the present solver."""
    if getattr(estimator, "_optimizer_of", None) != _optimizer_of(estimator):
        return None
    return estimator._optimizer_state


def _hold_out(estimator, batch, targets, weights, rng):
    """Return the samples to train on, and how to validate."""
    if not estimator.early_stopping:
        return batch, targets, weights, None
    from skattn.estimators._torch_bridge import predicted_index

    used = np.flatnonzero(weights > 0)
    trained, held_out = train_test_split(
        used,
        test_size=estimator.validation_fraction,
        stratify=targets[used],
        random_state=rng,
    )
    held_out_batch = batch.take(held_out)

    def validate(model):
        return accuracy_score(
            targets[held_out],
            predicted_index(model, held_out_batch),
            sample_weight=weights[held_out],
        )

    return batch.take(trained), targets[trained], weights[trained], validate


def _batch_size(estimator, n_samples):
    if estimator.batch_size != "auto":
        return estimator.batch_size
    if n_samples <= _LARGEST_FULL_BATCH or estimator.solver == "lbfgs":
        return None
    return _AUTO_BATCH_SIZE
