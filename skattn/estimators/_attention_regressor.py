"""Regression by attention trained by gradient descent."""

from typing import ClassVar

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.callback import with_callbacks
from sklearn.metrics import r2_score
from sklearn.utils.metaestimators import available_if

from skattn._fitting import all_or_nothing, effective_weights
from skattn._input import read_targets
from skattn.estimators._from_svr import FromSVR
from skattn.estimators._gradient_attention import GradientAttention, is_stochastic
from skattn.estimators._training import Targets


class AttentionRegressor(FromSVR, RegressorMixin, GradientAttention):
    """Predict numbers from sets or sequences of tokens by attention.

    Every token of a sample gets a score; the scores of a sample become weights that add
    up to 1; the tokens, averaged with these weights, go into a linear model:

        prediction = coef' X' mapping(X W z) + intercept

    with the tokens of a sample in the rows of X and its query z, or a learned prompt in
    place of W z [1]_ [2]_. All parts are trained together by minimising half the mean
    squared error, averaged over outputs, plus ``alpha / 2`` times the sum of squared
    weights. Training sees centred targets of unit variance, whatever their own scale;
    the head is turned back into their units at the end, and `alpha` and `loss_curve_`
    are in those of training.

    :meth:`from_svr` turns a fitted support-vector regression into attention over its
    training samples.

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

    mapping : {"softmax", "sparsemax", "entmax15", "entmax", "topk", "linear", "elu"}, \
            default="softmax"
        How scores become weights, see :mod:`skattn.mappings`. "sparsemax", "entmax15",
        "entmax" and "topk" give weights of exactly zero; "linear" is a baseline whose
        weights may be negative and do not add up to 1. The layers of an encoder always
        have softmax.

    mapping_params : dict, default=None
        For "entmax", ``{"alpha": "learned"}``, the default, or a number above 1. For
        "topk" at most one of ``{"k": int}``; ``{"mass": share}``, as many tokens as
        have this share of the weight; ``{"power": (a, C)}``, ``ceil(a n^C)`` of n
        tokens. The default is a mass of 0.95.

    n_heads : int, default=1
        How many attentions, with their pooled tokens side by side; also those of each
        layer of the encoder.

    hidden_size : int, default=0
        Width of a layer ``gelu(x'M + b)`` that every token goes through first; 0 for
        none. With `n_layers` it is the width of the encoder, and 0 means 64.

    kernel_size : int, default=1
        How many neighbouring tokens that layer sees: a convolution, for tokens in an
        order. Zeros stand in where the sample has no neighbour.

    n_layers : int, default=0
        Layers of an encoder between that layer and the attention that pools. Each has
        self-attention among the tokens of a sample and a layer on every token, both on
        normalised tokens and added to them [5]_. What the estimator says of a token
        then holds for what the encoder made of it, which has seen the others.

    position : {"learned", "sinusoidal", "rotary"} or None, default=None
        How the encoder knows the order of tokens: by a learned vector for each
        position, where samples that are longer than those of `fit` go on with the last;
        by sines [5]_; by turning keys and queries [6]_; or not at all.

    attention_norm : {"batch"} or None, default=None
        Attention-BN [7]_: keys and queries, here and in the encoder, are centred and
        scaled by the mean and deviation of the keys of their own sample, for each head
        and feature. No sample sees another.

    beta : "learned" or float, default="learned"
        How far Attention-BN centres queries by the mean key: a number for each head, or
        the same fixed number for all. Needs ``attention_norm="batch"``.

    head_scale : int, array-like of shape (n_heads,) or None, default=None
        Attention-SH [7]_: each head, here and in the encoder, attends to windows of so
        many tokens, whose keys and values are averaged. One length for all or one a
        head.

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
        A linear model of what is pooled, or one with a layer
        ``gelu(x'M + b) - gelu(b)`` before it. Subtracting its value without tokens
        makes `intercept_` the prediction without them.

    head_hidden_size : int, default=None
        Width of that layer, with ``head="mlp"``; None means 32.

    diversity : float, default=0.0
        Strength of a penalty on heads of attention that look at the same tokens: the
        cosine between their weights, averaged over pairs of heads and over samples.
        Needs ``n_heads > 1``.

    dropout : float, default=0.0
        Share of the features of tokens that training drops at random: of those that
        attention sees, or inside of the encoder.

    token_dropout : float, default=0.0
        Share of the tokens that training leaves out at random, before the hidden layer.
        Needs sequences.

    average : float, default=0.0
        Decay of a moving average of the weights over steps, such as 0.99, which
        predicts in their place; 0 for none.

    solver : {"adam", "lbfgs", "gd", "ngd", "polyak", "mirror"}, default="adam"
        Adam; L-BFGS; gradient descent; or a solver of the theory, by which the
        direction of attention converges to the attention SVM:

        - "ngd": normalised gradient descent. It moves the prompt or W, K, Q, V, U, the
          hidden layer and the head each by a step of fixed length.
        - "mirror": normalised mirror descent with the l_p potential of `mirror_p` on
          the prompt or W, K, Q, which leads to the l_p norm [3]_; "ngd" for the rest.
        - "polyak": gradient descent with Polyak's step size, by an estimate of the
          infimum of the loss; every step lowers the loss of its samples.

    mirror_p : float, default=2.0
        The exponent of "mirror", above 1. 2 is "ngd"; smaller prefers sparse weights.

    learning_rate_init : "auto" or float, default="auto"
        Step size; "auto" is 0.02, and 0.001 with an encoder. For "ngd" the length of a
        step, for "mirror" the l_q length of a step of the dual weights,
        ``1/p + 1/q = 1``; for "polyak" the largest step size with
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
        Whether to hold out a part of the training samples, stop when their R^2 no
        longer improves, and keep the weights with the best.

    validation_fraction : float, default=0.1
        Share of the samples to hold out, with ``early_stopping=True``.

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
        Weights of the hidden layer, if any; with ``kernel_size > 1`` an array of shape
        (kernel_size, n_features, hidden_size).

    hidden_intercept_ : ndarray of shape (hidden_size,)
        Offsets of the hidden layer, if any.

    encoder_ : dict of str to ndarray
        Weights of the encoder, if any, by the names that they have in `to_module`.

    attention_beta_ : ndarray of shape (n_heads,)
        What Attention-BN learned to centre queries by.

    entmax_alpha_ : ndarray of shape (n_heads,)
        The orders that ``mapping="entmax"`` learned, between 1 and 2.

    mapping_alpha_raw_ : ndarray of shape (n_heads,)
        The weights behind them, see :func:`skattn.mappings.learned_alpha`.

    head_hidden_coef_ : ndarray of shape (n_pooled, head_hidden_size)
        Weights of the layer of the head, with ``head="mlp"``.

    head_hidden_intercept_ : ndarray of shape (head_hidden_size,)
        Offsets of the layer of the head, with ``head="mlp"``.

    coef_ : ndarray of shape (n_outputs, n_pooled)
        Weights of the head. What is pooled has ``n_heads * n_token_features_`` columns
        for "attention" and `n_token_features_` for any other name of `pooling`. With
        ``head="mlp"`` there are `head_hidden_size` columns instead.

    intercept_ : ndarray of shape (n_outputs,)
        Offsets of the head.

    n_outputs_ : int
        Numbers that are predicted for a sample.

    keys_, values_ : ndarray of shape (n_keys, n_features_in_) and (n_keys,)
        After :meth:`from_svr`: what queries attend to, and what they get of it.

    n_iter_ : int
        Number of epochs.

    loss_curve_ : list of float
        Training loss with the penalty, one an epoch.

    best_loss_ : float
        The lowest of them.

    validation_scores_ : list of float or None
        R^2 on the held-out samples after each epoch, with ``early_stopping=True``.

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
    skattn.AttentionClassifier : The same for classes; its page says more.
    skattn.ConvexAttentionRegressor : Attention at a certified global optimum.

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
    .. [5] Vaswani et al., "Attention Is All You Need", arXiv 1706.03762; with
       normalised inputs as by Xiong et al., arXiv 2002.04745.
    .. [6] Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
       arXiv 2104.09864, equation (34).
    .. [7] Nguyen et al., "A Primal-Dual Framework for Transformers and Neural
       Networks", arXiv 2406.13781.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn import AttentionRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6, 3))
    >>> loudest = X[..., 0].argmax(axis=1)
    >>> y = 100 + 20 * X[np.arange(200), loudest, 1]
    >>> model = AttentionRegressor(hidden_size=16, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = GradientAttention._parameter_constraints

    def __init__(
        self,
        *,
        query="prompt",
        parameterization="W",
        rank=None,
        mapping="softmax",
        mapping_params=None,
        n_heads=1,
        hidden_size=0,
        kernel_size=1,
        n_layers=0,
        position=None,
        attention_norm=None,
        beta="learned",
        head_scale=None,
        scoring="linear",
        gate_size=None,
        pooling="attention",
        head="linear",
        head_hidden_size=None,
        diversity=0.0,
        dropout=0.0,
        token_dropout=0.0,
        average=0.0,
        solver="adam",
        mirror_p=2.0,
        learning_rate_init="auto",
        alpha=1e-2,
        max_iter=1000,
        batch_size="auto",
        tol=1e-4,
        n_iter_no_change=10,
        early_stopping=False,
        validation_fraction=0.1,
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
        self.mapping_params = mapping_params
        self.n_heads = n_heads
        self.hidden_size = hidden_size
        self.kernel_size = kernel_size
        self.n_layers = n_layers
        self.position = position
        self.attention_norm = attention_norm
        self.beta = beta
        self.head_scale = head_scale
        self.scoring = scoring
        self.gate_size = gate_size
        self.pooling = pooling
        self.head = head
        self.head_hidden_size = head_hidden_size
        self.diversity = diversity
        self.dropout = dropout
        self.token_dropout = token_dropout
        self.average = average
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

        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss, ``sum(w l) / sum(w)``.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        coef_init : array-like of the shape of ``coef_``, default=None
            Where a linear head starts, or stays with ``freeze_head=True``. A head with
            a layer starts elsewhere than at random by `warm_start` only.

        intercept_init : float or array-like of the shape of ``intercept_``, default=0
            The same for its offsets; 0 without `coef_init` is the mean target.

        attention_coef_init : array-like or pair of array-like, default=None
            Where the attention starts: of the shape of ``attention_coef_``, or with
            keys and queries a pair of the shapes of ``key_coef_`` and ``query_coef_``.

        Returns
        -------
        self : AttentionRegressor
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed, parameters contradict each other, or the loss
            becomes infinite.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` epochs pass before the stopping rule of `tol` holds.
        """
        return self._fit(
            X,
            y,
            sample_weight=sample_weight,
            query=query,
            coef_init=coef_init,
            intercept_init=intercept_init,
            attention_coef_init=attention_coef_init,
        )

    @available_if(is_stochastic)
    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, *, sample_weight=None, query=None):
        """Train for one more epoch on these samples.

        Targets are centred and scaled as in `fit`, or as in the first call in which
        they differ, each output by itself.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        self : AttentionRegressor
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed; or with ``early_stopping=True``, which needs all
            samples at once; or with ``freeze_head=True`` before a first fit, which
            needs a head.
        """
        is_first = self._check_partial_fit()
        tokens = self._read_training(X, query, reset=is_first)
        known = None if is_first else self.n_outputs_
        values, weights = self._read_numbers(y, len(tokens), sample_weight, known)
        self._update_moments(values, weights, is_first)
        reporter = self._reporter(X, y, sample_weight, query, n_epochs=1)
        targets = _standardized(values, *self._target_moments)
        return self._fit_one_epoch(tokens, targets, weights, is_first, reporter)

    def predict(self, X, query=None):
        """Return the predicted numbers.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Of one dimension for one output.
        """
        outputs = self._outputs(self._read(X, query).tokens)
        return outputs[:, 0] if self.n_outputs_ == 1 else outputs

    def score(self, X, y, sample_weight=None, query=None):
        """Return the R^2 of the predictions.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True numbers.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        score : float
            1 is perfect, 0 as good as the mean; averaged over outputs.
        """
        return r2_score(y, self.predict(X, query=query), sample_weight=sample_weight)

    def _read_targets(self, y, n_samples, sample_weight, goes_on):
        if goes_on:
            self._refuse_keys("warm_start", "Set warm_start=False.")
        known = getattr(self, "n_outputs_", None) if goes_on else None
        values, weights = self._read_numbers(y, n_samples, sample_weight, known)
        self._target_moments = _moments(values, weights)
        return _standardized(values, *self._target_moments), weights

    def _update_moments(self, values, weights, is_first):
        """Measure the targets by the first that differ."""
        mean, deviation = _moments(values, weights)
        if not is_first:
            known_mean, known = self._target_moments
            is_known = known > 0
            if is_known.all() or not (deviation[~is_known] > 0).any():
                return
            mean = np.where(is_known, known_mean, mean)
            deviation = np.where(is_known, known, deviation)
            # The optimiser has made its steps in other units.
            self.__dict__.pop("_optimizer_of", None)
        self._target_moments = mean, deviation

    def _read_numbers(self, y, n_samples, sample_weight, known=None):
        """Return targets of shape (n_samples, n_outputs), and weights."""
        y = read_targets(self, y, n_samples)
        weights = effective_weights(sample_weight, None, None, y)
        values = y.reshape(n_samples, -1)
        if known is not None and values.shape[1] != known:
            raise ValueError(
                f"The earlier fit had {known} outputs, and y has {values.shape[1]}."
            )
        self.n_outputs_ = values.shape[1]
        return values, weights

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _moments(values, weights):
    """Return the weighted mean and deviation of each output."""
    mean = np.average(values, axis=0, weights=weights)
    centred = values - mean
    # Squares of small numbers would vanish.
    largest = np.abs(centred).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    deviation = unit * np.sqrt(
        np.average((centred / unit) ** 2, axis=0, weights=weights)
    )
    # Of equal targets there is left what rounding makes of them.
    is_constant = deviation <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(is_constant, 0.0, deviation)


def _standardized(values, shift, deviation):
    scale = np.where(deviation > 0, deviation, 1.0)
    return Targets((values - shift) / scale, values.shape[1], shift, scale)
