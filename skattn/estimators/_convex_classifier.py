"""Classification by a convex attention block."""

from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.callback import with_callbacks
from sklearn.utils._param_validation import StrOptions

from skattn._fitting import (
    all_or_nothing,
    effective_weights,
    refuse_class_without_weight,
    refuse_one_class,
)
from skattn._input import read_input, read_labels
from skattn.estimators._convex_base import BaseConvexAttention, ConvexTraining
from skattn.estimators._heads import likeliest, log_probabilities, probabilities


class ConvexAttentionClassifier(ClassifierMixin, BaseConvexAttention):
    """Classify by an attention, MLP, mixer or Fourier block at its global optimum.

    A block of heads without a softmax, averaged over the tokens of a sample, with
    weight decay on both of its layers, is a convex problem in disguise [1]_::

        minimise F(f(Z_1), ..., f(Z_G)) + beta * sum_g |Z_g|_*,

    with F the mean logistic loss or cross-entropy of the outputs, one matrix Z_g a gate
    and nuclear norms, which keep the number of heads small. There is no learning rate
    and nothing depends on where one starts: the problem is solved until its duality
    gap certifies the optimum. The heads are recovered from the matrices.

    Parameters
    ----------
    block : {"self_attention", "mlp", "mixer", "fno"}, default="self_attention"
        What a head with weights W1 and W2 makes of the tokens of a sample, the rows of
        X, before the mean over tokens:

        - "self_attention": ``act(X W1 X') X W2``, for tokens of at most 64 features;
        - "mlp": ``act(X w1) w2'``;
        - "mixer": ``act(W1 X) W2``, which mixes positions;
        - "fno": the same as "mlp" on all cyclic shifts of the tokens, a Fourier neural
          operator.

        The last two need samples of one length.

    activation : {"gated_relu", "linear"}, default="gated_relu"
        ``act(S)`` is S where a fixed gate is open and 0 elsewhere, with the gates of
        `n_gates`; or S itself, for self-attention only: the other blocks would be
        linear models of pooled tokens.

    n_gates : int, default=8
        Gates to draw, for each group; only looked at with ``activation="gated_relu"``.
        Gates that repeat on the training samples, or are shut everywhere, are left
        out: `n_gates_` are in use.

    gate_rank : {"rank_one", "full"}, default=None
        Self-attention has gates ``1{X U X' >= 0}``, with U an outer product or a full
        matrix; None stands for "rank_one". To be left at None elsewhere.

    n_groups : int, default=1
        For "fno", the number of blocks of features that are transformed by themselves
        and added up. Divides the number of features of a token.

    beta : float > 0 or "auto", default=0.01
        Strength of the regularisation. From `beta_max_` on all matrices are zero;
        useful values are between a thousandth and a tenth of it. "auto" chooses by
        cross-validation, as :class:`skattn.ConvexAttentionClassifierCV` with its
        defaults does.

    solver : {"auto", "fista", "burer_monteiro", "cvxpy"}, default="auto"
        Accelerated proximal gradient; L-BFGS on factors of the matrices; or cvxpy,
        which serves small problems only. "auto" decides by the size of the problem.

    tol : float > 0, default=1e-4
        The solver stops at a relative duality gap of `tol`.

    max_iter : int, default=None
        Largest number of iterations; None is the solver's own.

    class_weight : dict or "balanced", default=None
        Weights of the classes, as everywhere in scikit-learn.

    random_state : int, RandomState instance or None, default=None
        Draws the gates. Nothing else is random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    coef_ : ndarray of shape (n_gates_, p, q * n_outputs)
        The matrices Z_g, sums of outer products of `heads_`. ``n_outputs`` is 1 for two
        classes; p and q are d^2 and d for self-attention of d features, d and 1 for
        "mlp", s^2 and d for "mixer" with s tokens, s * d / n_groups and 1 for "fno".

    intercept_ : ndarray of shape (n_outputs,)
        Offsets, not regularised.

    heads_ : list of (first, second)
        For each gate the weights W1 and W2 of its heads, arrays of shape (n_heads,
        ...): the global optimum of training both layers by weight decay, with the gates
        as they are.

    gates_ : skattn.convex.Gates
        The gates.

    n_gates_ : int
        Gates in use; 1 (one a group) for the linear activation.

    rank_ : int
        Sum of the ranks of the matrices: the number of heads.

    objective_ : float
        Value of the objective.

    duality_gap_ : float
        How far `objective_` can be above the optimum, relative to a lower bound that
        holds at any point.

    beta_ : float
        The beta of this model.

    beta_max_ : float
        The smallest beta at which all matrices are zero.

    n_iter_ : int
        Iterations of the solver.

    solver_ : str
        The solver that was used.

    beta_path_, rank_path_, scores_ : ndarray
        With ``beta="auto"``, as in :class:`skattn.ConvexAttentionClassifierCV`.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    n_token_features_ : int
        Width of the tokens that the block sees.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    See Also
    --------
    skattn.ConvexAttentionClassifierCV : With beta chosen by cross-validation.
    skattn.ConvexAttentionRegressor : The same for numbers.
    skattn.AttentionClassifier : Attention with a softmax, trained by gradient descent.

    Notes
    -----
    Products of three features are what self-attention is made of: scale tokens first,
    for example by :class:`skattn.TokenScaler`.

    References
    ----------
    .. [1] Sahiner et al., "Unraveling Attention via Convex Duality: Analysis and
       Interpretations of Vision Transformers", ICML 2022, arXiv 2205.08078.

    Examples
    --------
    >>> from skattn import ConvexAttentionClassifier
    >>> from skattn.datasets import make_token_selection
    >>> X, y, _ = make_token_selection(n_samples=60, random_state=0)
    >>> model = ConvexAttentionClassifier(block="mlp", random_state=0).fit(X, y)
    >>> model.duality_gap_ <= model.tol
    True
    >>> model.token_contributions(X).shape == X.shape[:2]
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseConvexAttention._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        block="self_attention",
        *,
        activation="gated_relu",
        n_gates=8,
        gate_rank=None,
        n_groups=1,
        beta=0.01,
        solver="auto",
        tol=1e-4,
        max_iter=None,
        class_weight=None,
        random_state=None,
    ):
        self.block = block
        self.activation = activation
        self.n_gates = n_gates
        self.gate_rank = gate_rank
        self.n_groups = n_groups
        self.beta = beta
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sample_weight=None):
        """Find the global optimum.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the loss.

        Returns
        -------
        self : ConvexAttentionClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed, there is only one class, the combination of block
            and activation is a linear model, samples differ in length where they must
            not, or tokens have too many features.

        Warns
        -----
        ConvergenceWarning
            If a solver does not reach `tol`; the message gives the gap reached.

        UserWarning
            If the fit is going to take more than 1 GB of memory.
        """
        return self._fit(X, y, sample_weight)

    def _read_training(self, X, y, sample_weight):
        tokens = read_input(self, X, reset=True).tokens
        y = read_labels(self, y, len(tokens))
        self.classes_, targets = np.unique(y, return_inverse=True)
        weights = effective_weights(
            sample_weight, self.class_weight, self.classes_, targets
        )
        refuse_one_class(self, self.classes_[np.unique(targets[weights > 0])])
        refuse_class_without_weight(self, self.classes_, targets, weights)
        is_binary = len(self.classes_) == 2
        return ConvexTraining(
            tokens,
            y,
            targets,
            weights,
            "logistic" if is_binary else "multinomial",
            1 if is_binary else len(self.classes_),
        )

    def decision_function(self, X):
        """Return the confidence in each class.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one number, positive for ``classes_[1]``.
        """
        return self._outputs(X)

    def predict(self, X):
        """Return the class of each sample.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels of ``classes_``.
        """
        scores = self.decision_function(X)
        return likeliest(scores, self.classes_)

    def predict_proba(self, X):
        """Return the probability of each class.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return probabilities(self.decision_function(X))

    def predict_log_proba(self, X):
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return log_probabilities(self.decision_function(X))
