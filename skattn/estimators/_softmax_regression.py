"""Regression of attention weights."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from skattn._fitting import all_or_nothing, effective_weights, warn_not_converged
from skattn._input import TokenInput, read_input
from skattn._links import DocumentationLinkMixin
from skattn.estimators._callbacks import IterationReporter
from skattn.estimators._token_targets import per_real_token
from skattn.mappings import softmax
from skattn.softmax_regression import SOLVERS, SoftmaxProblem, solve
from skattn.tokens._reading import TABLE, recognise, refuse_non_numeric_columns
from skattn.tokens._selection import owners


class SoftmaxRegression(
    DocumentationLinkMixin, CallbackSupportMixin, RegressorMixin, BaseEstimator
):
    """Fit the softmax of linear scores to target weights.

    Given attention weights b, it finds the prompt x under which the tokens A of a
    sequence get them [1]_::

        minimise 1/2 |softmax(A x) - b|^2 + 1/2 |diag(w) A x|^2,   alpha = w^2,

    by Newton's method with the gradient and the Hessian in closed form. Tokens come in
    one of two forms.

    - X of shape (n_tokens, n_features) is one sequence, whose rows are its tokens. A
      prediction divides by the sum of exponentials of the *training* sequence: on the
      training data it is the softmax, and the prediction of a row does not depend on
      the rows beside it.
    - X of any form of sequences that :func:`skattn.check_tokens` reads holds many
      sequences, each with a softmax of its own, at prediction too. For one new sequence
      pass ``[X]``.

    Parameters
    ----------
    alpha : float or array-like, default=1e-4
        Strength of the penalty ``alpha / 2`` of each squared score, w squared in the
        paper; or one a token, in the form of `y`.

    solver : {"newton", "lbfgs"}, default="newton"
        Newton's method in a trust region, with full steps at the end, or L-BFGS.
        Newton's needs few iterations and ends at rounding; an iteration of L-BFGS does
        not form the Hessian, of shape (n_features, n_features).

    max_iter : int, default=300
        Largest number of iterations.

    tol : float, default=1e-6
        The fit has converged when `gradient_norm_` is at most this.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The prompt x; of those with the same scores, the smallest.

    log_normalizer_ : float
        Logarithm of the sum of exponentials of the training sequence. Only for X of
        two dimensions.

    loss_ : float
        Value of the objective, summed over sequences.

    gradient_norm_ : float
        Norm of the gradient with respect to the scores, within what the features can
        express, as a share of the gradient with respect to all scores at zero weights.
        It does not change when features are rescaled or data repeated.

    n_iter_ : int
        Iterations of the solver.

    n_features_in_ : int
        Features of a token.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    input_kind_ : {"table", "sequences"}
        What `fit` was given: "table" is X of two dimensions, one sequence.

    See Also
    --------
    skattn.AttentionClassifier : Attention trained through the labels of samples.

    Notes
    -----
    There is no intercept: softmax is blind to a constant added to all scores.

    With ``alpha >= 0.25`` the objective is convex for targets on the simplex (the
    Hessian with respect to the scores, without penalty, has no eigenvalue below
    -0.2405), but such a penalty returns nearly uniform weights. At useful, small
    penalties it is not convex: what is found is a stationary point, reached from zero
    weights unless `fit` gets `coef_init`.

    Targets need not be on the simplex, but predictions of a training sequence always
    are: targets that do not sum to 1 cannot be met.

    References
    ----------
    .. [1] Deng, Li and Song, "Attention Scheme Inspired Softmax Regression",
       arXiv 2304.10411.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn import SoftmaxRegression
    >>> from skattn.mappings import softmax
    >>> rng = np.random.default_rng(0)
    >>> X, prompt = rng.normal(size=(50, 8, 3)), np.array([1.0, -2.0, 0.5])
    >>> model = SoftmaxRegression(alpha=0.0).fit(X, softmax(X @ prompt))
    >>> model.coef_.round(6)
    array([ 1. , -2. ,  0.5])
    >>> new = rng.normal(size=(5, 3))
    >>> bool(np.allclose(model.predict([new])[0], softmax(new @ prompt)))
    True

    One sequence, whose rows are tokens:

    >>> model = SoftmaxRegression(alpha=0.0).fit(X[0], softmax(X[0] @ prompt))
    >>> bool(np.allclose(model.predict(X[0]), softmax(X[0] @ prompt)))
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "solver": [StrOptions(set(SOLVERS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, *, alpha=1e-4, solver="newton", max_iter=300, tol=1e-6):
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sample_weight=None, coef_init=None):
        """Find the prompt under which tokens get their target weights.

        Parameters
        ----------
        X : array-like of shape (n_tokens, n_features), or any form of sequences that \
                :func:`skattn.check_tokens` reads
            One sequence, or many.

        y : array-like of shape (n_tokens,), (n_samples, n_positions), or list of \
                (n_positions_i,) arrays
            Target weight of each token: one dimension for one sequence. For many, one
            row a sample, 0 or NaN at absent tokens.

        sample_weight : array-like of shape (n_tokens,) or (n_samples,), default=None
            For one sequence, how many times each token counts: 2 is the same as giving
            the token twice, in the sum of the softmax too. For many, the weight of the
            loss of each.

        coef_init : array-like of shape (n_features,), default=None
            Where the solver starts; zero for None.

        Returns
        -------
        self : SoftmaxRegression
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed: shapes that disagree, NaN, an absent token with a
            target.

        Warns
        -----
        ConvergenceWarning
            If the gradient norm did not reach `tol`; the message gives what it reached.
        """
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but "
                "the target y is None."
            )
        problem = self._read_training(X, y, sample_weight)
        reporter = IterationReporter(
            self,
            "iteration",
            self.max_iter,
            X=X,
            y=y,
            metadata={"sample_weight": sample_weight},
        )

        def state_at(coef):
            state = {"coef_": coef}
            if self.input_kind_ == "table":
                state["log_normalizer_"] = float(problem.log_normalizers(coef)[0])
            return state

        def report(coef):
            # scipy tells of an iteration when it is over.
            reporter.begin_iteration()
            return reporter.end_iteration(lambda: state_at(coef))

        solution = solve(
            problem,
            self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            start=self._start(coef_init),
            on_iteration=report,
        )
        if not (solution.is_converged or solution.is_stopped):
            warn_not_converged(
                f"{type(self).__name__} stopped after {solution.n_iter} iterations at "
                f"a relative gradient norm of {solution.gradient_norm:.1e}, above "
                f"tol={self.tol:g}. Increase max_iter or alpha.",
                n_functions_below_fit=0,
            )
        state = {
            **state_at(solution.coef),
            "loss_": solution.loss,
            "gradient_norm_": solution.gradient_norm,
            "n_iter_": solution.n_iter,
        }
        # An earlier fit may have been on one sequence.
        vars(self).pop("log_normalizer_", None)
        vars(self).update(state)
        reporter.end(lambda: state)
        return self

    def predict(self, X):
        """Return the weight of each token.

        Parameters
        ----------
        X : array-like of shape (n_tokens, n_features), or any form of sequences that \
                :func:`skattn.check_tokens` reads
            Of the kind that `fit` was given; for one new sequence pass ``[X]``.

        Returns
        -------
        weights : ndarray of shape (n_tokens,), (n_samples, n_positions), or list of \
                (n_positions_i,) arrays
            For X of two dimensions ``exp(X coef_ - log_normalizer_)``. For sequences
            the softmax over each sample, in the form of the input: an array for array
            input, a list for a list or `Tokens`; 0 at absent tokens.
        """
        check_is_fitted(self)
        read = self._read(X)
        if isinstance(read, TokenInput):
            return read.per_token(self._weights(read.tokens), fill=0.0)
        return np.exp(read @ self.coef_ - self.log_normalizer_)

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination R^2 over tokens.

        Parameters
        ----------
        X : array-like of shape (n_tokens, n_features), or any form of sequences that \
                :func:`skattn.check_tokens` reads
            Of the kind that `fit` was given.

        y : array-like, or list of arrays
            Target weights, as in :meth:`fit`.

        sample_weight : array-like of shape (n_tokens,) or (n_samples,), default=None
            Weights; that of a sample holds for each of its tokens.

        Returns
        -------
        score : float
            1 at best; 0 for predicting the mean target.
        """
        check_is_fitted(self)
        read = self._read(X)
        if not isinstance(read, TokenInput):
            return super().score(X, y, sample_weight)
        tokens = read.tokens
        targets = per_real_token(tokens, y, "y")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, tokens.lengths)
            sample_weight = sample_weight[owners(tokens)]
        return r2_score(targets, self._weights(tokens), sample_weight=sample_weight)

    def _weights(self, tokens):
        return softmax(tokens.values @ self.coef_, tokens.offsets)

    def _read(self, X):
        """Return X as a matrix if it is one sequence, else as a `TokenInput`."""
        # A matrix for an estimator of sequences is refused by `read_input`.
        if recognise(X) == TABLE and self.input_kind_ == "table":
            refuse_non_numeric_columns(X)
            return validate_data(self, X, reset=False, dtype=np.float64)
        return read_input(self, X)

    def _read_training(self, X, y, sample_weight):
        """Check what `fit` was given; return what of it counts."""
        if recognise(X) != TABLE:
            return self._read_sequences(X, y, sample_weight)
        refuse_non_numeric_columns(X)
        values, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        targets = np.asarray(targets, dtype=np.float64)
        self.input_kind_ = TABLE.kind
        alpha = self.alpha
        if not isinstance(alpha, Real):
            alpha = check_array(
                alpha, ensure_2d=False, dtype=np.float64, input_name="alpha"
            )
            if alpha.shape != targets.shape:
                raise ValueError(
                    f"alpha must be a number or have shape ({len(targets)},), one a "
                    f"token; got shape {alpha.shape}."
                )
        counts = effective_weights(sample_weight, None, None, targets)
        used = counts > 0
        return SoftmaxProblem(
            values[used],
            targets[used],
            alpha=_check_alpha(alpha, len(targets))[used],
            multiplicity=counts[used],
        )

    def _read_sequences(self, X, y, sample_weight):
        tokens = read_input(self, X, reset=True).tokens
        targets = per_real_token(tokens, y, "y")
        alpha = self.alpha
        if not isinstance(alpha, Real):
            alpha = per_real_token(tokens, alpha, "alpha")
        alpha = _check_alpha(alpha, tokens.n_tokens)
        weights = effective_weights(sample_weight, None, None, tokens.lengths)
        used = weights > 0
        used_tokens = used[owners(tokens)]
        return SoftmaxProblem(
            tokens.values[used_tokens].astype(np.float64),
            targets[used_tokens],
            np.concatenate([[0], np.cumsum(tokens.lengths[used])]),
            alpha=alpha[used_tokens],
            weights=weights[used],
        )

    def _start(self, coef_init):
        if coef_init is None:
            return None
        start = check_array(
            coef_init, ensure_2d=False, dtype=np.float64, input_name="coef_init"
        )
        if start.shape != (self.n_features_in_,):
            raise ValueError(
                f"coef_init must have shape ({self.n_features_in_},), one weight a "
                f"feature; got shape {start.shape}."
            )
        return start

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        # The weights of a sequence sum to 1; targets at large do not.
        tags.regressor_tags.poor_score = True
        return tags


def _check_alpha(alpha, n_tokens):
    if np.min(alpha) < 0:
        raise ValueError(f"alpha must not be negative, got {np.min(alpha):g}.")
    return np.broadcast_to(alpha, n_tokens)
