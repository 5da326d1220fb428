"""Training of attention on a batch of instances."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from skattn._fitting import local_generator
from skattn._threads import SingleThread
from skattn.theory._dynamics._inputs import (
    initial_weights,
    read_directions,
    read_head,
    read_instances,
)
from skattn.theory._dynamics._model import AttentionModel, attention_matrix
from skattn.theory._dynamics._options import (
    check_attention_options,
    check_head_options,
    check_solver_options,
)
from skattn.theory._dynamics._solvers import SOLVERS, make_descent
from skattn.theory._dynamics._trajectory import (
    AttentionTrajectory,
    Recorder,
    record_iterations,
)
from skattn.theory._losses import LOSSES

#: Of K and Q under "ngd", for each unit of weight: that of the published code.
_PUBLISHED_DECAY = 2.2e-16

_ONE_THREAD = SingleThread("blas")

_POSITIVE = Interval(Real, 0, None, closed="neither")


@validate_params(
    {
        "parameterization": [StrOptions({"W", "KQ"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "head_activation": [StrOptions({"identity", "relu"})],
        "train_head": ["boolean"],
        "loss": [StrOptions(set(LOSSES))],
        "solver": [StrOptions(set(SOLVERS))],
        "mirror_p": [Interval(Real, 1, None, closed="neither")],
        "eps": [Interval(Real, 0, None, closed="left")],
        "learning_rate_init": [_POSITIVE, None],
        "head_learning_rate_init": [_POSITIVE, None],
        "weight_decay": [Interval(Real, 0, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "attention_init": [StrOptions({"uniform", "zero"}), "array-like"],
        "record_coef": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def train_attention(
    X,
    y,
    head=None,
    query=None,
    *,
    parameterization="W",
    rank=None,
    head_activation="identity",
    train_head=False,
    loss="logistic",
    solver="ngd",
    mirror_p=2.0,
    eps=0.0,
    learning_rate_init=None,
    head_learning_rate_init=None,
    weight_decay=None,
    max_iter=1000,
    attention_init="uniform",
    record="log",
    record_coef=True,
    directions=None,
    random_state=None,
):
    """Train attention on many instances at once, and return its trajectory.

    An instance is a small data set of its own: n samples of T tokens with labels, a
    query and a head. The model of arXiv 2308.16898 is ``f(X, z) = head(X' softmax(X W
    z))``, with W or K and Q (W = K Q') as its weights; that of arXiv 2306.13596 has a
    prompt p in place of W z. The risk is the mean of ``loss(y f(X, z))``.

    Gradients are in closed form, in float64, and keep all their digits however
    saturated attention is: the direction of W goes on converging where the usual form
    of the gradient is lost in rounding, or is zero.

    Parameters
    ----------
    X : ndarray of shape (B, n, T, d), or one instance
        B instances of n samples each. A token whose features are all NaN is absent.
        One instance has any input form of `skattn.check_tokens`, such as (n, T, d) or
        a list of (T_i, d); its results lack the axis of instances.

    y : array-like of shape (B, n), or (n,) for one instance
        Two labels, the second in sorted order the positive one. Numbers -1 and 1 are
        signs even if all are equal.

    head : array-like of shape (d,) or (B, d), default=None
        The linear head v that reads the pooled token; of shape (d, m) or (B, d, m)
        with ``head_activation="relu"``. One for all instances, or one each. With
        `train_head` it is where training starts, and None means zero.

    query : array-like of shape (B, n, d_q), or (n, d_q) for one instance, default=None
        The query z of each sample. None: the queries that `X` carries, or else a
        prompt.

    parameterization : {"W", "KQ"}, default="W"
        What is trained. "KQ" needs queries.

    rank : int, default=None
        Number of columns of K and Q; None means the smaller of d and d_q.

    head_activation : {"identity", "relu"}, default="identity"
        "relu": the head returns the sum of ``relu(x'V)`` over the columns of V.

    train_head : bool, default=False
        Whether attention and head are trained together.

    loss : {"logistic", "exponential", "correlation"}, default="logistic"
        ``log(1 + exp(-m))``, ``exp(-m)`` or ``-m`` of the margin m.

    solver : {"ngd", "gd", "polyak", "mirror"}, default="ngd"
        "ngd": normalised gradient descent; K, Q and the head each by itself. "gd":
        gradient descent. "polyak": steps of ``(L - L*) / |grad|^2`` times the
        gradient, L* being the loss when all attention is on the best tokens; for a
        fixed linear head. "mirror": l_p mirror descent (arXiv 2410.14581), the
        gradient divided by its norm in the dual of l_p, of each weight by itself.

    mirror_p : float, default=2.0
        The p > 1 of "mirror". With 2 it is "ngd".

    eps : float, default=0.0
        What is added to the norm of the gradient in the steps of "ngd" and "mirror",
        ``learning_rate_init * grad / (|grad| + eps)``. The published code has 2.2e-16:
        training comes to rest where the gradient falls below it. With 0 steps keep
        their length for ever.

    learning_rate_init : float, default=None
        Step size, constant; the length of the step for "ngd", a factor of the step
        for "polyak". None means 0.1, and 1 for "polyak".

    head_learning_rate_init : float, default=None
        Step size of the head; None means that of attention.

    weight_decay : float, default=None
        What is added to the gradient of W, or of K and Q, for each unit of weight.
        None means 2.2e-16 for K and Q under "ngd", as in the published code, and 0
        otherwise. Even the smallest decay is a brake once the gradient has vanished.

    max_iter : int, default=1000
        Number of steps.

    attention_init : {"uniform", "zero"}, array-like or (K, Q), default="uniform"
        Start of the attention weights. "uniform": entries within ``1/sqrt(d)``, those
        of Q within ``1/sqrt(d_q)``, of each instance its own. Arrays are shared by all
        instances, or have one more axis in front. K = Q = 0 would never move.

    record : "log", int or array-like of int, default="log"
        At which iterations to record: 0, 1, 2, 5, 10, 20, 50, ... and the last; every
        that many and the last; or these.

    record_coef : bool, default=True
        Whether to keep the weights at the records too, for `alignment_to`.

    directions : dict of array-like, default=None
        Directions whose cosine with the attention weights is recorded, each of the
        shape of the weights of an instance, or with one more axis in front.

    random_state : int, RandomState instance or None, default=None
        Source of "uniform" starts.

    Returns
    -------
    trajectory : AttentionTrajectory
        Norm, loss, top weight and alignment at the records, and the weights, the
        selected tokens and the attention at the end.

    Raises
    ------
    ValueError
        If shapes do not agree, a parameter is invalid, or parameters contradict each
        other.
    FloatingPointError
        If weights become infinite or NaN.

    Warns
    -----
    ConvergenceWarning
        If instances asked for steps longer than 1e100 and were stopped there. "polyak"
        does so when attention saturates on other than the best tokens.

    See Also
    --------
    attention_svm : The direction that training converges to.
    skattn.datasets.make_attention_instances : Random instances.

    Notes
    -----
    The weights of "mirror" grow as the ``1/(p - 1)``-th power of the number of steps.
    They are scaled down to 1e100 where they would be larger, which leaves the
    direction as it is.

    Examples
    --------
    Training W aligns it with the attention SVM of the tokens it selects:

    >>> import numpy as np
    >>> from skattn.datasets import make_attention_instances
    >>> from skattn.theory import attention_svm, train_attention
    >>> data = make_attention_instances(10, 6, 8, 10, random_state=0)
    >>> trajectory = train_attention(
    ...     data.X, data.y, data.head, data.query, max_iter=500, random_state=0
    ... )
    >>> svm = attention_svm(data.X, trajectory.selected, data.query)
    >>> alignments = trajectory.alignment_to(np.stack([s.coef for s in svm]))
    >>> trajectory.iterations
    array([  0,   1,   2,   5,  10,  20,  50, 100, 200, 500])
    >>> bool(np.median(alignments[-1]) > 0.98)
    True

    A prompt on one instance with two samples:

    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]]
    >>> trajectory = train_attention(
    ...     X, [1, 0], head=[0.0, 1.0], attention_init="zero", max_iter=2000,
    ...     directions={"svm": [-0.099, 0.9901]},
    ... )
    >>> trajectory.selected, float(trajectory.alignment["svm"][-1].round(3))
    (array([0, 0]), 1.0)
    """
    instances = read_instances(X, y, query)
    check_attention_options(parameterization, rank, attention_init, instances.is_prompt)
    check_head_options(head, head_activation, train_head, head_learning_rate_init)
    check_solver_options(
        solver, mirror_p, eps, weight_decay, head_activation, train_head
    )
    iterations = record_iterations(record, max_iter)
    directions = read_directions(directions, instances)
    rng = local_generator(random_state)
    weights = initial_weights(attention_init, parameterization, rank, instances, rng)
    if weight_decay is None:
        as_published = parameterization == "KQ" and solver == "ngd"
        weight_decay = _PUBLISHED_DECAY if as_published else 0.0
    decays = dict.fromkeys(weights, float(weight_decay)) if weight_decay else {}
    if learning_rate_init is None:
        learning_rate_init = 1.0 if solver == "polyak" else 0.1
    rates = dict.fromkeys(weights, float(learning_rate_init))
    fixed_head = read_head(head, head_activation, instances)
    if train_head:
        weights["head"], fixed_head = fixed_head, None
        rates["head"] = float(head_learning_rate_init or learning_rate_init)

    descent = make_descent(
        solver, weights, rates, mirror_p=float(mirror_p), eps=float(eps)
    )
    model = AttentionModel(instances, loss, head_activation, fixed_head)
    recorder = Recorder(iterations, directions, record_coef)
    # What overflows is found at the end, and named.
    with _ONE_THREAD, np.errstate(over="ignore", invalid="ignore"):
        look = _train(model, descent, decays, max_iter, recorder)
    end = {"head": fixed_head, **descent.weights}
    _refuse_not_finite(end, look, instances)
    if descent.has_run_away.any():
        warnings.warn(
            f"{descent.has_run_away.sum()} of {len(descent.has_run_away)} instances "
            "asked for steps longer than 1e100, and were stopped there. Lower "
            'learning_rate_init, or use solver="ngd".',
            ConvergenceWarning,
            stacklevel=3,
        )
    return _trajectory(recorder, end, look, descent, instances, head_activation)


def _train(model, descent, decays, max_iter, recorder):
    """Take all steps; return the look of the model after the last."""
    for iteration in range(max_iter):
        weights = descent.weights
        look = model.look(weights)
        recorder.record(iteration, model, weights, look)
        gradients = model.gradients(weights, look)
        for name, decay in decays.items():
            gradients[name] = gradients[name].plus(decay, weights[name])
        descent.step(
            gradients, model.log_excess(look) if descent.needs_excess else None
        )
    look = model.look(descent.weights)
    recorder.record(max_iter, model, descent.weights, look)
    return look


def _trajectory(recorder, end, look, descent, instances, head_activation):
    def as_given(array, instance_axis=0):
        return array if instances.is_batch else array.take(0, axis=instance_axis)

    def coef(array):
        return array[..., 0] if instances.is_prompt else array

    def head(array):
        return array[..., 0] if head_activation == "identity" else array

    records, alignment = (
        {name: as_given(array, 1) for name, array in arrays.items()}
        for arrays in (recorder.arrays, recorder.alignment)
    )
    coefs, heads = records.pop("coefs", None), records.pop("heads", None)
    is_factored = "K" in end
    return AttentionTrajectory(
        iterations=recorder.iterations,
        alignment=alignment,
        **records,
        coefs=None if coefs is None else coef(coefs),
        heads=None if heads is None else head(heads),
        attention_coef=coef(as_given(attention_matrix(end))),
        key_coef=as_given(end["K"]) if is_factored else None,
        query_coef=as_given(end["Q"]) if is_factored else None,
        head=head(as_given(end["head"])),
        selected=as_given(look.top),
        attention_weights=as_given(look.attention),
        has_run_away=as_given(descent.has_run_away),
    )


def _refuse_not_finite(end, look, instances):
    arrays = [attention_matrix(end), end["head"], look.attention]
    is_finite = np.all([np.isfinite(a).all(axis=(1, 2)) for a in arrays], axis=0)
    if not is_finite.all():
        which = f" of instance {np.argmin(is_finite)}" if instances.is_batch else ""
        raise FloatingPointError(
            f"The weights{which} became infinite or NaN. Lower learning_rate_init, or "
            "scale the features."
        )
