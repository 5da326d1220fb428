"""Attention trained by gradient descent."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import (
    all_or_nothing,
    effective_weights,
    local_generator,
    refuse_one_class,
)
from skattn._input import read_input, read_labels
from skattn.estimators._base import BaseAttentionClassifier
from skattn.estimators._callbacks import IterationReporter
from skattn.estimators._parameters import (
    MODEL_NAMES,
    from_attributes,
    with_initial_values,
)
from skattn.estimators._queries import QUERY_CONSTRAINT, check_given_query
from skattn.estimators._training import (
    check_combinations,
    check_given_head,
    run_training,
    starting_parameters,
)
from skattn.mappings import MAPPINGS
from skattn.tokens import Tokens


def _is_stochastic(estimator):
    if estimator.solver != "lbfgs":
        return True
    raise AttributeError(
        "partial_fit is not available with solver='lbfgs', which needs all samples at "
        "every step."
    )


class AttentionClassifier(CallbackSupportMixin, BaseAttentionClassifier):
    """Classify sets or sequences of tokens by attention trained by gradient descent.

    Every token of a sample gets a score; the scores of a sample become weights that add
    up to 1; the tokens, averaged with these weights, go into a linear classifier:

        decision = coef' X' mapping(X W z) + intercept

    with the tokens of a sample in the rows of X and its query z, or a learned prompt in
    place of W z [1]_ [2]_. All parts are trained together by minimising the mean
    logistic loss, or cross-entropy, plus ``alpha / 2`` times the sum of squared
    weights.

    Parameters
    ----------
    query : {"prompt", "first", "last", "mean", "given"} or int, default="prompt"
        What asks: one learned vector; the first, last or mean token of the sample; the
        token at this position; or a query given with the sample.

    parameterization : {"W", "KQ"}, default="W"
        One matrix W, or the product of keys and queries ``W = K Q'``; a prompt allows
        only "W".

    rank : int, default=None
        Columns of K and Q; None means as many as the smaller side of W.

    mapping : {"softmax", "sparsemax", "entmax15"}, default="softmax"
        How scores become weights. The last two give weights of exactly zero.

    n_heads : int, default=1
        How many attentions, with their pooled tokens side by side.

    hidden_size : int, default=0
        Width of a layer ``gelu(x'M + b)`` that every token goes through first; 0 for
        none.

    scoring : {"linear", "gated"}, default="linear"
        What a prompt scores: the token, or its gated features
        ``tanh(V'x) * sigmoid(U'x)`` [4]_, by which scores need not grow along a line.
        Heads share the gates. Other queries allow only "linear".

    gate_size : int, default=None
        Columns of V and U, with ``scoring="gated"``; None means 64.

    pooling : "attention", or list or tuple of {"attention", "mean", "min", "max"}, \
            default="attention"
        What the head gets of the tokens, side by side in this order: their average by
        attention, for each head of it; their mean, or the smallest or largest value of
        each feature. "attention" must be among them.

    head : {"linear", "mlp"}, default="linear"
        A linear classifier of what is pooled, or one with a layer
        ``gelu(x'M + b) - gelu(b)`` before it. Subtracting its value without tokens
        makes `intercept_` the decision without them.

    head_hidden_size : int, default=None
        Width of that layer, with ``head="mlp"``; None means 32.

    diversity : float, default=0.0
        Strength of a penalty on heads of attention that look at the same tokens: the
        cosine between their weights, averaged over pairs of heads and over samples.
        Needs ``n_heads > 1``.

    solver : {"adam", "lbfgs", "gd", "ngd", "polyak", "mirror"}, default="adam"
        Adam; L-BFGS; gradient descent; or a solver of the theory, by which the
        direction of attention converges to the attention SVM:

        - "ngd": normalised gradient descent. It moves the prompt or W, K, Q, V, U, the
          hidden layer and the head each by a step of fixed length.
        - "mirror": normalised mirror descent with the l_p potential of `mirror_p` on
          the prompt or W, K, Q, which leads to the l_p norm [3]_; "ngd" for the rest.
        - "polyak": gradient descent with Polyak's step size. With
          ``freeze_head=True``, ``alpha=0``, two classes, full batches and none of
          hidden layer, gates, `diversity`, other `head` or other `pooling`, the
          infimum of the loss is known. It is then approached in tens of
          steps, K and Q each with a step size of its own; where the tokens of largest
          margin cannot be separated training may come to rest above it, which is an
          error. In all other cases the infimum is estimated, and every step lowers the
          loss of its samples.

    mirror_p : float, default=2.0
        The exponent of "mirror", above 1. 2 is "ngd"; smaller prefers sparse weights.

    learning_rate_init : float, default=0.02
        Step size; for "ngd" the length of a step, for "mirror" the l_q length of a step
        of the dual weights, ``1/p + 1/q = 1``; for "polyak" the largest step size with
        mini-batches and in `partial_fit`. Not used by "lbfgs", nor by "polyak" when it
        sees all samples, which find their own.

    alpha : float, default=1e-2
        Strength of the penalty on all weights but intercepts.

    max_iter : int, default=1000
        Largest number of epochs; of iterations for "lbfgs".

    batch_size : int, "auto" or None, default="auto"
        Samples in a mini-batch. None takes all samples at every step, and so does
        "auto" up to 2,000 samples; beyond, "auto" is 200, but for "lbfgs", which always
        takes all.

    tol : float, default=1e-4
        Training stops when the loss, or the validation score, improves by less than
        this for `n_iter_no_change` epochs in a row; for "lbfgs" also when no entry of
        the gradient is larger. 0 disables stopping.

    n_iter_no_change : int, default=10
        See `tol`.

    early_stopping : bool, default=False
        Whether to hold out a stratified part of the training samples, stop when their
        accuracy no longer improves, and keep the weights with the best.

    validation_fraction : float, default=0.1
        Share of the samples to hold out, with ``early_stopping=True``.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as everywhere in scikit-learn.

    warm_start : bool, default=False
        Whether `fit` goes on from the weights of an earlier fit.

    freeze_head : bool, default=False
        Whether to train the attention alone, with the head as given by `coef_init`, or
        by an earlier fit and `warm_start`.

    device : str, default="auto"
        Where to compute: "cpu", "cuda", ...; "auto" takes a GPU if there is one.

    dtype : {"float64", "float32"}, default="float64"
        Precision of training and of the fitted weights.

    random_state : int, RandomState instance or None, default=None
        Determines initial weights, mini-batches and the held-out samples. None draws
        a new seed; the global generator of numpy is left alone.

    verbose : bool, default=False
        Whether to log the loss of every epoch, to the logger "skattn". For progress
        bars, set scikit-learn's `ProgressBar` with `set_callbacks`.

    Attributes
    ----------
    attention_coef_ : ndarray of shape (n_heads, n_token_features_) for a prompt, else \
            (n_heads, n_token_features_, n_query_features)
        Prompts, or W; ``K Q'`` with keys and queries; with gates, prompts of shape
        (n_heads, gate_size). The axis of heads is left out when ``n_heads=1``.

    tanh_coef_, sigmoid_coef_ : ndarray of shape (n_token_features_, gate_size)
        V and U, with ``scoring="gated"``.

    key_coef_, query_coef_ : ndarray of shape (n_heads, n_features, rank)
        K and Q, with ``parameterization="KQ"``.

    hidden_coef_ : ndarray of shape (n_features, hidden_size)
        Weights of the hidden layer, if any.

    hidden_intercept_ : ndarray of shape (hidden_size,)
        Offsets of the hidden layer, if any.

    head_hidden_coef_ : ndarray of shape (n_pooled, head_hidden_size)
        Weights of the layer of the head, with ``head="mlp"``.

    head_hidden_intercept_ : ndarray of shape (head_hidden_size,)
        Offsets of the layer of the head, with ``head="mlp"``.

    coef_ : ndarray of shape (1, n_pooled) or (n_classes, n_pooled)
        Weights of the head. What is pooled has ``n_heads * n_token_features_`` columns
        for "attention" and `n_token_features_` for any other name of `pooling`. With
        ``head="mlp"`` there are `head_hidden_size` columns instead.

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Offsets of the head.

    classes_ : ndarray of shape (n_classes,)
        The labels.

    n_iter_ : int
        Number of epochs.

    loss_curve_ : list of float
        Training loss with the penalty, one an epoch.

    best_loss_ : float
        The lowest of them.

    validation_scores_ : list of float or None
        Accuracy on the held-out samples after each epoch, with ``early_stopping=True``.

    best_validation_score_ : float or None
        The highest of them.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    n_token_features_ : int
        Width of the tokens that attention sees: after the hidden layer, if there is
        one. The token of column t of a table is ``[e_t, x_t e_t]``.

    n_query_features_in_ : int
        Features of a query, with ``query="given"``.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    See Also
    --------
    skattn.TokenSVM : The convex problem that this training leads to.

    References
    ----------
    .. [1] Tarzanagh et al., "Max-Margin Token Selection in Attention Mechanism",
       arXiv 2306.13596, equation (1), for a prompt.
    .. [2] Tarzanagh et al., "Transformers as Support Vector Machines",
       arXiv 2308.16898, equation (1), for W and for keys and queries.
    .. [3] Julistiono et al., "Optimizing Attention with Mirror Descent: Generalized
       Max-Margin Token Selection", arXiv 2410.14581.
    .. [4] Ilse, Tomczak and Welling, "Attention-based Deep Multiple Instance
       Learning", arXiv 1802.04712, equation (9).

    Examples
    --------
    >>> from skattn import AttentionClassifier
    >>> from skattn.datasets import make_token_selection
    >>> X, y, planted = make_token_selection(n_samples=100, random_state=0)
    >>> model = AttentionClassifier(random_state=0).fit(X, y)
    >>> bool((model.selected_tokens(X) == planted).mean() > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "query": QUERY_CONSTRAINT,
        "parameterization": [StrOptions({"W", "KQ"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "mapping": [StrOptions(set(MAPPINGS))],
        "n_heads": [Interval(Integral, 1, None, closed="left")],
        "hidden_size": [Interval(Integral, 0, None, closed="left")],
        "scoring": [StrOptions({"linear", "gated"})],
        "gate_size": [Interval(Integral, 1, None, closed="left"), None],
        "pooling": [StrOptions({"attention"}), list, tuple],
        "head": [StrOptions({"linear", "mlp"})],
        "head_hidden_size": [Interval(Integral, 1, None, closed="left"), None],
        "diversity": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"adam", "lbfgs", "gd", "ngd", "polyak", "mirror"})],
        "mirror_p": [Interval(Real, 1, None, closed="neither")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "freeze_head": ["boolean"],
        "device": [str],
        "dtype": [StrOptions({"float64", "float32"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        query="prompt",
        parameterization="W",
        rank=None,
        mapping="softmax",
        n_heads=1,
        hidden_size=0,
        scoring="linear",
        gate_size=None,
        pooling="attention",
        head="linear",
        head_hidden_size=None,
        diversity=0.0,
        solver="adam",
        mirror_p=2.0,
        learning_rate_init=0.02,
        alpha=1e-2,
        max_iter=1000,
        batch_size="auto",
        tol=1e-4,
        n_iter_no_change=10,
        early_stopping=False,
        validation_fraction=0.1,
        class_weight=None,
        warm_start=False,
        freeze_head=False,
        device="auto",
        dtype="float64",
        random_state=None,
        verbose=False,
    ):
        self.query = query
        self.parameterization = parameterization
        self.rank = rank
        self.mapping = mapping
        self.n_heads = n_heads
        self.hidden_size = hidden_size
        self.scoring = scoring
        self.gate_size = gate_size
        self.pooling = pooling
        self.head = head
        self.head_hidden_size = head_hidden_size
        self.diversity = diversity
        self.solver = solver
        self.mirror_p = mirror_p
        self.learning_rate_init = learning_rate_init
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.freeze_head = freeze_head
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y,
        *,
        sample_weight=None,
        query=None,
        coef_init=None,
        intercept_init=0.0,
        attention_coef_init=None,
    ):
        """Train attention and head.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss, ``sum(w l) / sum(w)``.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        coef_init : array-like of the shape of ``coef_``, default=None
            Where a linear head starts, or stays with ``freeze_head=True``. A head with
            a layer starts elsewhere than at random by `warm_start` only.

        intercept_init : float or array-like of the shape of ``intercept_``, default=0
            The same for its offsets.

        attention_coef_init : array-like or pair of array-like, default=None
            Where the attention starts: of the shape of ``attention_coef_``, or with
            keys and queries a pair of the shapes of ``key_coef_`` and ``query_coef_``.

        Returns
        -------
        self : AttentionClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed, parameters contradict each other, there is only
            one class, the loss becomes infinite, or "polyak" with a known infimum comes
            to rest above it.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` epochs pass before the stopping rule of `tol` holds.
        """
        check_combinations(self)
        tokens = self._read_training(X, query, reset=True)
        labels = read_labels(self, y, len(tokens))
        goes_on = self.warm_start and hasattr(self, "coef_")
        previous = getattr(self, "classes_", None)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if goes_on and not np.array_equal(previous, self.classes_):
            raise ValueError(
                f"warm_start goes on with the classes of the earlier fit, {previous}; "
                f"y has {self.classes_}. Set warm_start=False."
            )
        refuse_one_class(self, self.classes_)
        weights = effective_weights(
            sample_weight, self.class_weight, self.classes_, targets
        )
        check_given_head(self, coef_init, goes_on)
        rng = local_generator(self.random_state)
        parameters = starting_parameters(self, tokens, rng, goes_on)
        parameters = with_initial_values(
            parameters, coef_init, intercept_init, attention_coef_init
        )
        metadata = {"sample_weight": sample_weight, "query": query}
        reporter = IterationReporter(
            self, "epoch", self.max_iter, X=X, y=y, metadata=metadata
        )
        self._train(tokens, targets, weights, parameters, rng, reporter)
        return self

    @available_if(_is_stochastic)
    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, *, sample_weight=None, query=None):
        """Train for one more epoch on these samples.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,)
            Labels.

        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur; needed in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        self : AttentionClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed; or with ``early_stopping=True`` or
            ``class_weight="balanced"``, which need all samples at once; or with
            ``freeze_head=True`` before a first fit, which needs a head.
        """
        check_combinations(self)
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True.")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' is not supported for partial_fit: it needs "
                "all labels at once. Pass the weights as a dict."
            )
        is_first = not hasattr(self, "coef_")
        if is_first and self.freeze_head:
            raise ValueError(
                "freeze_head=True needs a head: call fit first, with coef_init or with "
                "freeze_head=False."
            )
        tokens = self._read_training(X, query, reset=is_first)
        labels = read_labels(self, y, len(tokens))
        _check_partial_fit_first_call(self, classes)
        refuse_one_class(self, self.classes_)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has classes that are not in classes_ {self.classes_}: {unknown}."
            )
        targets = np.searchsorted(self.classes_, labels)
        weights = effective_weights(
            sample_weight, self.class_weight, self.classes_, targets
        )
        # One generator for all calls, so that each shuffles anew.
        if is_first:
            self._random_state = local_generator(self.random_state)
        rng = getattr(self, "_random_state", None) or local_generator(self.random_state)
        parameters = starting_parameters(self, tokens, rng, goes_on=not is_first)
        metadata = {"sample_weight": sample_weight, "query": query}
        reporter = IterationReporter(self, "epoch", 1, X=X, y=y, metadata=metadata)
        self._train(
            tokens, targets, weights, parameters, rng, reporter, incremental=True
        )
        return self

    def to_module(self):
        """Return the fitted model as a torch module.

        Returns
        -------
        module : skattn.attention.AttentionModel
            Maps a :class:`skattn.attention.TokenBatch` to logits. It shares no memory
            with the estimator.
        """
        check_is_fitted(self)
        from skattn.estimators import _torch_bridge as bridge

        device = bridge.resolve_device(self.device, self.dtype)
        return bridge.make_model(
            from_attributes(self),
            mapping=self.mapping,
            query=self.query,
            pooling=self.pooling,
            dtype=self.dtype,
            device=device,
        )

    def _read_training(self, X, query, reset):
        tokens = read_input(self, X, query=query, reset=reset).tokens
        check_given_query(self, tokens, query is not None, reset=reset)
        return tokens

    def _train(
        self, tokens, targets, weights, parameters, rng, reporter, incremental=False
    ):
        if not incremental:
            self.__dict__.pop("_optimizer_of", None)
            self.__dict__.pop("_optimizer_state", None)
        from skattn.estimators import _torch_bridge as bridge

        with bridge.threads_for(tokens):
            state = run_training(
                self, tokens, targets, weights, parameters, rng, reporter, incremental
            )
        # Of an earlier fit with other parameters there may be weights of parts that
        # this model does not have.
        for name in MODEL_NAMES:
            self.__dict__.pop(f"{name}_", None)
        for name, value in state.items():
            setattr(self, name, value)
        reporter.end(lambda: state)

    def _attend(self, tokens):
        from skattn.estimators import _torch_bridge as bridge

        with bridge.threads_for(tokens):
            return bridge.attend(*self._model_and_batch(tokens))

    def _outputs(self, tokens):
        from skattn.estimators import _torch_bridge as bridge

        with bridge.threads_for(tokens):
            return bridge.logits(*self._model_and_batch(tokens))

    def _seen_by_attention(self, tokens):
        if not self.hidden_size and self.scoring == "linear":
            return tokens
        from skattn.estimators import _torch_bridge as bridge

        with bridge.threads_for(tokens):
            scored = bridge.scored_values(*self._model_and_batch(tokens))
        return Tokens(
            scored,
            tokens.offsets,
            tokens.positions,
            tokens.query,
            n_positions=tokens.n_positions,
        )

    @property
    def _implicit_norm(self):
        if self.parameterization == "KQ":
            return "nuc"
        if self.solver == "mirror" and self.mirror_p != 2:
            return self.mirror_p
        return "fro"

    def _token_votes(self, tokens):
        from skattn.estimators import _torch_bridge as bridge

        with bridge.threads_for(tokens):
            return bridge.token_votes(*self._model_and_batch(tokens))

    @property
    def _n_features_out(self):
        # With a layer in the head, `coef_` is as wide as that.
        return len(getattr(self, "head_hidden_coef_", self.coef_.T))

    def _model_and_batch(self, tokens):
        from skattn.estimators import _torch_bridge as bridge

        model = self.to_module()
        parameter = next(model.parameters())
        batch = bridge.make_batch(
            tokens, self.query, dtype=self.dtype, device=parameter.device
        )
        return model, batch

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags
