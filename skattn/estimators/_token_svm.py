"""The support vector machine over tokens."""

from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils._param_validation import Interval, StrOptions

from skattn._fitting import (
    all_or_nothing,
    effective_weights,
    refuse_class_without_weight,
    refuse_one_class,
    warn_not_converged,
)
from skattn._input import read_input, read_labels
from skattn.estimators import _token_algebra as algebra
from skattn.estimators._base import Attended, BaseAttentionClassifier
from skattn.estimators._callbacks import IterationReporter
from skattn.estimators._heads import HEADS
from skattn.estimators._queries import (
    QUERY_CONSTRAINT,
    check_given_query,
    query_vectors,
)
from skattn.estimators._rounds import InfeasibleMargin, Rounds, run_rounds
from skattn.mappings import MAPPINGS
from skattn.margin import SOLVERS, MarginProblem, solve
from skattn.tokens import Tokens
from skattn.tokens._selection import owners, rows_at_positions
from skattn.tokens._table import TableTokens

# A margin of 1 is met to this accuracy (Definition 2 of arXiv 2308.16898 in practice).
_SUPPORT_TOL = 1e-4


class _Training(NamedTuple):
    """The samples that an alternation is about; `y` indexes the classes."""

    tokens: Tokens | TableTokens
    y: np.ndarray
    weights: np.ndarray
    selected: np.ndarray | None


class TokenSVM(CallbackSupportMixin, BaseAttentionClassifier):
    """Classify by one token of each sample, selected with the largest margin.

    The attention is the solution of the attention SVM [1]_ [2]_: the smallest weights W
    under which the selected token of every sample scores at least 1 more than its other
    tokens,

        minimise 1/2 ||W||^2 + sum_i C_i sum_t slack_it
        subject to (x_i,selected - x_it)' W z_i >= 1 - slack_it,

    which is a convex problem, solved to a certified duality gap. It is the direction in
    which gradient descent drives the weights of :class:`skattn.AttentionClassifier`.
    With ``mapping="sparsemax"`` the attention is one-hot on every training sample that
    meets its margin.

    Which token is selected is found in rounds. A linear head is fitted on the mean
    token of each sample; the token of each sample that speaks most for its own class is
    selected; the convex problem is solved; the head is fitted again on the tokens
    pooled by the attention, as at prediction; and so on until the selection repeats.

    Parameters
    ----------
    C : float, default=0.005
        Penalty of the slack of a sample, shared among its other tokens: the penalty of
        one token is ``C * sample_weight * class_weight / (n_tokens_i - 1)``, so that
        repeating distractors changes nothing. ``C=np.inf`` asks for a hard margin.

    norm : {"fro", "nuc"} or float > 1, default="fro"
        Norm of the weights: Frobenius, the bias of training W; nuclear, the bias of
        training keys and queries; or the entrywise l_p norm, the bias of mirror
        descent.

    query : {"prompt", "first", "last", "mean", "given"} or int, default="prompt"
        What asks: one learned vector (W is a vector); the first, last or mean token of
        the sample; the token at this position; or a query given with the sample.

    mapping : {"sparsemax", "entmax15", "softmax"}, default="sparsemax"
        How scores become weights.

    head : {"svm", "logistic"}, default="svm"
        Linear classifier on the pooled features; "logistic" gives `predict_proba`.

    head_C : float, default=0.03
        Inverse strength of the ridge penalty of the head.

    tokens : {"score", "given"}, default="score"
        Whether the rounds find the selected tokens, or `fit` gets them.

    max_iter : int, default=5
        Largest number of rounds. More fit the selection to the training samples more
        closely than new samples may bear.

    solver : {"auto", "admm", "cvxpy", "dual_cd", "interior_point", "sqp"}, \
            default="auto"
        Solver of the convex problem; "auto" chooses by its size and norm, as
        :func:`skattn.margin.solve` does.

    tol : float, default=1e-8
        Relative duality gap to which the convex problem is solved.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as everywhere in scikit-learn.

    random_state : int, RandomState instance or None, default=None
        Passed to the solver of the head. The heads of today are deterministic.

    Attributes
    ----------
    attention_coef_ : ndarray of shape (n_token_features,) or \
            (n_token_features, n_query_features)
        The weights: a prompt, or W.

    coef_ : ndarray of shape (1, n_token_features) or (n_classes, n_token_features)
        Weights of the head.

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Offsets of the head.

    classes_ : ndarray of shape (n_classes,)
        The labels.

    selected_ : ndarray of shape (n_samples,)
        Position of the selected token of each training sample.

    dual_coef_ : ndarray of shape (n_tokens,)
        Dual variable of each real token of the training samples, laid end to end; 0 at
        the selected ones.

    slack_ : ndarray of shape (n_tokens,)
        By how much each token misses its margin, in the layout of `dual_coef_`.

    support_tokens_ : ndarray of shape (n_support, 2)
        Sample and position of each token at the margin or within it.

    objective_ : float
        Value of the last convex problem: the norm of W for a hard margin, the primal
        value otherwise.

    duality_gap_ : float
        Relative duality gap of the last convex problem. It certifies that problem, not
        the selection.

    solver_ : str
        Solver that ran.

    n_iter_ : int
        Number of rounds.

    loss_curve_ : list of float
        Mean training loss of the head in each round.

    n_features_in_ : int
        Features of a token; columns, for a table.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if all are strings.

    n_token_features_ : int
        Width of the tokens that attention sees.

    n_query_features_in_ : int
        Features of a query, with ``query="given"``.

    input_kind_ : {"sequences", "table"}
        What `fit` was given.

    See Also
    --------
    skattn.AttentionClassifier : Attention trained by gradient descent.
    skattn.theory.attention_svm : The convex problem by itself.

    References
    ----------
    .. [1] Tarzanagh et al., "Max-Margin Token Selection in Attention Mechanism",
       arXiv 2306.13596, equation (Att-SVM) for a prompt.
    .. [2] Tarzanagh et al., "Transformers as Support Vector Machines",
       arXiv 2308.16898, equations (Att-SVM) for W and for keys and queries.

    Examples
    --------
    >>> from skattn import TokenSVM
    >>> from skattn.datasets import make_token_selection
    >>> X, y, planted = make_token_selection(n_samples=60, random_state=0)
    >>> model = TokenSVM().fit(X, y)
    >>> float((model.selected_tokens(X) == planted).mean())
    1.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0, None, closed="right")],
        "norm": [StrOptions({"fro", "nuc"}), Interval(Real, 1, None, closed="neither")],
        "query": QUERY_CONSTRAINT,
        "mapping": [StrOptions(set(MAPPINGS))],
        "head": [StrOptions(set(HEADS))],
        "head_C": [Interval(Real, 0, None, closed="neither")],
        "tokens": [StrOptions({"score", "given"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        C=0.005,
        norm="fro",
        query="prompt",
        mapping="sparsemax",
        head="svm",
        head_C=0.03,
        tokens="score",
        max_iter=5,
        solver="auto",
        tol=1e-8,
        class_weight=None,
        random_state=None,
    ):
        self.C = C
        self.norm = norm
        self.query = query
        self.mapping = mapping
        self.head = head
        self.head_C = head_C
        self.tokens = tokens
        self.max_iter = max_iter
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sample_weight=None, query=None, selected=None):
        """Select a token of each sample and learn to find and to classify it.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample, in the margin problem and in the head.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        selected : array-like of shape (n_samples,), default=None
            Position of the token to select in each sample, for ``tokens="given"``.

        Returns
        -------
        self : TokenSVM
            Fitted estimator.

        Raises
        ------
        ValueError
            If the input is malformed, there is only one class, or no hard margin
            exists with ``C=np.inf``.

        Warns
        -----
        ConvergenceWarning
            If the selection does not settle, or the convex problem does not reach
            `tol`; the message gives the gap reached.
        """
        training = self._read_training(X, y, sample_weight, query, selected)
        reporter = IterationReporter(
            self,
            "round",
            self.max_iter,
            X=X,
            y=y,
            metadata={"sample_weight": sample_weight, "query": query},
        )
        rounds = self._alternate(training, self.C, reporter)
        for message in self._complaints(rounds):
            warn_not_converged(message, n_functions_below_fit=0)
        state = self._state_after(rounds, training.tokens)
        for name, value in state.items():
            setattr(self, name, value)
        reporter.end(lambda: state)
        return self

    def _read_training(self, X, y, sample_weight, query, selected):
        """Check what `fit` was given; record what it says about features and labels."""
        if (selected is not None) != (self.tokens == "given"):
            raise ValueError(
                "selected must be passed when tokens='given', and only then; got "
                f"tokens={self.tokens!r} and selected "
                f"{'missing' if selected is None else 'passed'}."
            )
        tokens = read_input(self, X, query=query, reset=True).tokens
        check_given_query(self, tokens, query is not None, reset=True)
        self.classes_, targets = np.unique(
            read_labels(self, y, len(tokens)), return_inverse=True
        )
        weights = effective_weights(
            sample_weight, self.class_weight, self.classes_, targets
        )
        refuse_one_class(self, self.classes_[np.unique(targets[weights > 0])])
        refuse_class_without_weight(self, self.classes_, targets, weights)
        return _Training(tokens, targets, weights, selected)

    def _alternate(self, training, C, reporter, earlier=None):
        """Run the rounds.

        Parameters
        ----------
        training : _Training
            The samples.

        C : float
            The parameter of that name.

        reporter : IterationReporter or None
            Is told about each round.

        earlier : Rounds, default=None
            What came of the same samples at another C: the first choice and its
            solution are the start.

        Returns
        -------
        rounds : Rounds
        """
        tokens, y, weights, selected = training
        queries = query_vectors(self.query, tokens)
        n_distractors = np.maximum(tokens.lengths - 1, 1)
        penalties = np.where(weights > 0, C, 0.0)
        if np.isfinite(C):
            penalties = penalties * weights / n_distractors
        fit_linear, loss = HEADS[self.head]
        used = weights > 0

        def separate(rows, previous):
            if reporter is not None:
                reporter.begin_iteration()
            if previous is None and earlier is not None:
                previous = earlier.first
            selected_positions = rows - tokens.offsets[:-1]
            if previous is None:
                problem = MarginProblem(
                    tokens, selected_positions, queries, penalties, self.norm
                )
            else:
                problem = previous.problem.with_C(penalties)
                problem = problem.with_selected(selected_positions)
            solution = solve(
                problem,
                solver=self.solver,
                tol=self.tol,
                warm_start=None if previous is None else previous.solution,
            )
            return problem, solution

        def fit_head(features):
            return fit_linear(
                features[used],
                y[used],
                weights[used],
                C=self.head_C,
                random_state=self.random_state,
            )

        def refit_head(solution):
            pooled = self._pool(tokens, queries, solution.coef).pooled
            coef, intercept = fit_head(pooled)
            scores = pooled @ coef.T + intercept
            return coef, intercept, loss(scores, y, weights)

        def choose(coef):
            return _rows_that_speak_for(y, algebra.project(tokens, coef.T), tokens)

        losses = []

        def report(round_):
            losses.append(round_.loss)
            stopped = Rounds(round_, round_, list(losses), "stopped")
            return reporter.end_iteration(lambda: self._state_after(stopped, tokens))

        if self.tokens == "given":
            first_rows = rows_at_positions(tokens, selected, name="selected")
        elif earlier is not None:
            first_rows = earlier.first.rows
        else:
            first_rows = choose(fit_head(algebra.mean(tokens))[0])
        try:
            return run_rounds(
                first_rows,
                separate,
                refit_head,
                choose if self.tokens == "score" else None,
                max_iter=self.max_iter,
                on_round=None if reporter is None else report,
            )
        except InfeasibleMargin:
            raise ValueError(
                f"No hard margin exists for the selected tokens (C={C}): no "
                "weights score them above all other tokens of their samples. Use a "
                "finite C, for example C=1.0."
            ) from None

    def _state_after(self, rounds, tokens):
        """Return all fitted attributes that the rounds define."""
        return {
            **self._state(rounds.best, tokens),
            "n_iter_": len(rounds.losses),
            "loss_curve_": rounds.losses,
        }

    def _state(self, round_, tokens):
        """Return the fitted attributes that one round defines."""
        solution = round_.solution
        return {
            "attention_coef_": solution.coef,
            "coef_": round_.coef,
            "intercept_": round_.intercept,
            "n_token_features_": tokens.n_features,
            "selected_": tokens.positions[round_.rows],
            "dual_coef_": solution.dual_coef,
            "slack_": solution.slack,
            "support_tokens_": _support_tokens(round_, tokens),
            "objective_": solution.objective,
            "duality_gap_": solution.duality_gap,
            "solver_": solution.solver,
        }

    def _complaints(self, rounds):
        """Return what should be said about rounds that did not end well."""
        messages = {
            "cycle": "The selection of tokens returned to an earlier one without "
            "settling; the round with the lowest training loss is kept.",
            "max_iter": f"The selection of tokens did not settle in max_iter="
            f"{self.max_iter} rounds; the round with the lowest training loss is kept.",
            "infeasible": "The selection of tokens moved to one that has no hard "
            "margin; the last one that has is kept. Use a finite C.",
        }
        complaints = []
        if rounds.outcome in messages:
            complaints.append(messages[rounds.outcome])
        solution = rounds.best.solution
        if solution.status != "optimal":
            complaints.append(
                f"The margin problem reached a relative duality gap of "
                f"{solution.duality_gap:.1e}, above tol={self.tol:.1e}. Scale the "
                "features, or increase tol."
            )
        return complaints

    def _attend(self, tokens):
        queries = query_vectors(self.query, tokens)
        return self._pool(tokens, queries, self.attention_coef_)

    def _pool(self, tokens, queries, attention_coef):
        if queries is None:
            scores = algebra.project(tokens, attention_coef[:, None])[:, 0]
        else:
            scores = algebra.project_by_sample(tokens, queries @ attention_coef.T)
        weights = MAPPINGS[self.mapping](scores, tokens.offsets)
        pooled = algebra.pool(tokens, weights)
        return Attended(scores[:, None], weights[:, None], pooled)

    def _token_votes(self, tokens):
        return self._attend(tokens).weights * algebra.project(tokens, self.coef_.T)


def _support_tokens(round_, tokens):
    """Return (sample, position) of the tokens at the margin or within it."""
    problem = round_.problem
    at_margin = problem.constraints.margins(round_.solution.coef) <= 1 + _SUPPORT_TOL
    return np.column_stack(
        [problem.samples[at_margin], tokens.positions[problem.rows[at_margin]]]
    )


def _rows_that_speak_for(y, votes, tokens):
    """Return the row of the token of each sample that speaks most for its class."""
    sample_of_token = owners(tokens)
    if votes.shape[1] == 1:
        scores = np.where(y[sample_of_token] == 1, votes[:, 0], -votes[:, 0])
    else:
        of_class = votes[np.arange(len(votes)), y[sample_of_token]]
        others = votes.copy()
        others[np.arange(len(votes)), y[sample_of_token]] = -np.inf
        scores = of_class - others.max(axis=1)
    return algebra.first_best_rows(scores, tokens.offsets)
