"""What the convex estimators share: from tokens to a certified optimum and back."""

import warnings
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    is_classifier,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.metrics import check_scoring
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import local_generator, warn_not_converged
from skattn._input import read_input
from skattn._links import DocumentationLinkMixin
from skattn.convex import (
    BLOCKS,
    SOLVERS,
    ConvexProblem,
    convex_path,
    estimate_memory,
    make_features,
    make_gates,
    solve,
)
from skattn.convex._samples import Samples
from skattn.convex.memory import check_width
from skattn.estimators._callbacks import IterationReporter
from skattn.estimators._convex_folds import BetaPath, BetaSearch
from skattn.estimators._convex_state import average, coef_of, state_of
from skattn.estimators._folds import (
    FoldedSamples,
    check_same_classes,
    first_best,
    fit_folds,
)
from skattn.tokens._table import TableTokens

# Bytes up to which nobody is told how much memory a fit takes.
_LARGEST_SILENT = 1e9

# Numbers that the features of the samples of one part of a prediction may hold.
_LARGEST_PART = 2**24

# Larger products of features leave no digits to anything else.
_LARGEST_PRODUCT = 1e20

_REMEDY = "Scale the features, or increase beta, tol or max_iter."


class ConvexTraining(NamedTuple):
    """The samples that a fit is about, and what is to be predicted.

    `y` is what folds are made of, `targets` what the loss reads.
    """

    tokens: Any
    y: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    loss: str
    n_outputs: int


def _gates_look_at_one_token(estimator):
    if estimator.activation == "linear" or estimator.block not in (
        "self_attention",
        "mlp",
    ):
        raise AttributeError(
            "token_groups needs gates that look at tokens: block='self_attention' or "
            "'mlp', and activation='gated_relu'."
        )
    if estimator.gate_rank == "full":
        raise AttributeError(
            "token_groups needs gate_rank='rank_one': a full gate says something about "
            "pairs of tokens, and nothing about one of them."
        )
    return True


def _largest_beta(problem, training):
    """Return where a path of betas begins."""
    used = training.targets[training.weights > 0]
    # Without any signal nothing is left at any beta, and the beta_max of equal targets
    # is rounding, which no path should follow.
    if problem.beta_max > 0 and np.ptp(used, axis=0).any():
        return problem.beta_max
    return 1.0


class BaseConvexAttention(
    CallbackSupportMixin,
    DocumentationLinkMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """One convex block over tokens, fitted to its global optimum.

    A subclass reads its targets in `_read_training`, and has the parameters of
    `_parameter_constraints`.
    """

    _parameter_constraints: ClassVar[dict] = {
        "block": [StrOptions(set(BLOCKS))],
        "activation": [StrOptions({"linear", "gated_relu"})],
        "n_gates": [Interval(Integral, 1, None, closed="left")],
        "gate_rank": [StrOptions({"rank_one", "full"}), None],
        "n_groups": [Interval(Integral, 1, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _read_training(self, X, y, sample_weight):
        """Check what `fit` was given and return it as a `ConvexTraining`."""

    def _beta_search(self):
        """Return the `BetaSearch` that chooses beta, None for a given beta."""
        return BetaSearch() if self.beta == "auto" else None

    def _with_given_beta(self):
        """Return an unfitted estimator that looks at its beta."""
        parameters = self.get_params(deep=False)
        return type(self)(**{**parameters, "beta": 1.0})

    @property
    def coef_(self):
        """The matrices of the convex program, of shape (n_gates_, p, q * n_outputs)."""
        return coef_of(self.gates_, self.heads_, len(self.intercept_))

    def transform(self, X):
        """Return what the heads make of each sample before their second weights.

        The mean over tokens of ``act(X W1 X') X``, ``act(X w1)`` or ``act(W1 X)``, head
        by head. Times the W2 of the heads, one below the other, these features are the
        output less ``intercept_``.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        pooled : ndarray of shape (n_samples, rank_ * q)
            The heads side by side, each of width q: that of a token for
            ``block="self_attention"`` and ``"mixer"``, otherwise 1. A dataframe after
            ``set_output``.
        """
        tokens = self._read(X).tokens
        from skattn.estimators._convex_module import make_module, pool

        module = make_module(self.gates_, self.heads_, self.intercept_)
        return np.concatenate([pool(module, part) for part in self._parts(tokens)])

    def token_contributions(self, X):
        """Return what each token added to the output.

        The output of a block is a mean over tokens; the contribution of a token is its
        term of the sum. Contributions of a sample add up to its output less
        ``intercept_``.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        contributions : ndarray of shape (n_samples, n_positions), or with a last axis \
                n_outputs when there are several; or list of such arrays
            An array for array input, a list for a list or `Tokens`; 0 at absent tokens.
        """
        read = self._read(X)
        coef = self.coef_
        outputs = np.concatenate(
            [
                make_features(self.gates_, part, keep=False).token_outputs(coef)
                for part in self._parts(read.tokens)
            ]
        )
        return read.per_token(self._without_single_axis(outputs), fill=0.0)

    @available_if(_gates_look_at_one_token)
    def token_groups(self, X):
        """Return the pattern of gates that each token has.

        Gates divide the space of tokens by hyperplanes. Tokens of one pattern are on
        the same side of all of them: through the gates of self-attention they see, and
        are seen by, the same tokens, so that a block can only tell them apart by linear
        functions. In this sense the block clusters tokens [1]_.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        Returns
        -------
        groups : int array of shape (n_samples, n_positions, n_signs), or list of \
                (n_positions_i, n_signs) arrays
            1 on the side where ``x'u >= 0``, 0 on the other, -1 at absent tokens. In
            ``block="self_attention"`` the first `n_gates_` signs are of the token as
            one that looks, and `n_gates_` more as one that is looked at: the gate
            between two tokens is open if the first sign of the one equals the second
            of the other, or one of them is exactly on the hyperplane. In
            ``block="mlp"`` there is one sign a gate, 1 where it is open.

        References
        ----------
        .. [1] Sahiner et al., "Unraveling Attention via Convex Duality: Analysis and
           Interpretations of Vision Transformers", ICML 2022, arXiv 2205.08078.
        """
        read = self._read(X)
        signs = np.concatenate(
            [self.gates_.token_signs(part) for part in self._parts(read.tokens)]
        )
        return read.per_token(signs.astype(np.int64), fill=-1)

    def to_module(self):
        """Return the fitted heads as a torch module.

        Returns
        -------
        module : skattn.attention.ConvexHeads
            Maps :class:`skattn.attention.RaggedTokens` to outputs of shape (n_samples,
            n_outputs), and can be trained further. It shares no memory with the
            estimator.
        """
        check_is_fitted(self)
        from skattn.estimators._convex_module import make_module

        return make_module(self.gates_, self.heads_, self.intercept_)

    def _fit(self, X, y, sample_weight):
        search = self._beta_search()
        training = self._read_training(X, y, sample_weight)
        self._check_size(training, search)
        # One seed, so that the gates are the same in all folds and in the last fit.
        seed = local_generator(self.random_state).randint(2**31 - 1)
        gates, problem = self._make_problem(training, seed)
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        if search is None:
            reporter = IterationReporter(self, "solve", 1, **data)
            state = self._solve(gates, problem, reporter)
        else:
            betas = search.candidates(_largest_beta(problem, training))
            samples = FoldedSamples.make(X, training.y, sample_weight)
            splits = search.splits(samples, is_classifier(self))
            reporter = IterationReporter(
                self,
                "fold or refit" if search.refit else "fold",
                len(splits) + search.refit,
                **data,
            )
            template = self._with_given_beta()
            folds = fit_folds(
                BetaPath(betas, seed),
                template,
                len(betas),
                samples,
                splits,
                check_scoring(template, scoring=search.scoring),
                n_jobs=search.n_jobs,
                reporter=reporter,
            )
            self._warn_unfinished_folds(folds)
            scores = np.array([fold.scores for fold in folds])
            if search.refit:
                best = first_best(scores.mean(axis=0))
                state = self._solve_path(gates, problem, betas, best, reporter)
            else:
                check_same_classes(folds, getattr(self, "classes_", None))
                state = average([fold.state for fold in folds])
                state["beta_max_"] = problem.beta_max
            state |= {"beta_path_": betas, "scores_": scores}
        for name, value in state.items():
            setattr(self, name, value)
        reporter.end(lambda: state)
        return self

    def _solve(self, gates, problem, reporter):
        """Return the fitted attributes at the given beta."""
        reporter.begin_iteration()
        solution = solve(problem.with_beta(self.beta), **self._solver_options())
        self._warn_unfinished(solution)
        state = state_of(gates, problem, solution)
        reporter.end_iteration(lambda: state)
        return state

    def _solve_path(self, gates, problem, betas, best, reporter):
        """Return the fitted attributes at the best of all betas."""
        reporter.begin_iteration()
        path = convex_path(problem, betas, **self._solver_options())
        self._warn_unfinished(path[best])
        state = state_of(gates, problem, path[best])
        state["rank_path_"] = np.array([solution.rank for solution in path])
        reporter.end_iteration(lambda: state)
        return state

    def _warn_unfinished(self, solution):
        if solution.status != "optimal":
            warn_not_converged(
                f"The {solution.solver!r} solver reached a relative duality gap of "
                f"{solution.duality_gap:.1e}, above tol={self.tol:.1e}. {_REMEDY}",
                n_functions_below_fit=3,
            )

    def _warn_unfinished_folds(self, folds):
        n_unfinished = sum(fold.n_unfinished for fold in folds)
        if n_unfinished:
            n_fits = sum(len(fold.scores) for fold in folds)
            warn_not_converged(
                f"{n_unfinished} of {n_fits} fits in the folds did not reach "
                f"tol={self.tol:.1e}. {_REMEDY}"
            )

    def _check_size(self, training, search):
        """Refuse tokens too wide or too large; tell how much memory a fit takes."""
        tokens = training.tokens
        is_table = isinstance(tokens, TableTokens)
        if is_table:
            # Of the shape that dense tokens would have, without their memory.
            n_samples, n_columns = tokens.cells.shape
            tokens = np.broadcast_to(0.0, (n_samples, n_columns, 2 * n_columns))
        samples = Samples.read(tokens)
        try:
            check_width(self.block, self.activation, samples, self.n_gates)
        except ValueError as error:
            if not is_table:
                raise
            raise ValueError(
                f"{error} Each of the {n_columns} columns of the table is a token of "
                f"{2 * n_columns} features."
            ) from error
        self._check_magnitude(training)
        n_bytes = estimate_memory(
            self.block,
            self.activation,
            samples,
            training.n_outputs,
            self.n_gates,
            n_groups=self.n_groups,
        )
        if is_table:
            n_bytes += samples.values.nbytes
        if search is not None:
            # The folds that are fitted at the same time, beside all samples.
            n_bytes *= 1 + effective_n_jobs(search.n_jobs)
        if n_bytes > _LARGEST_SILENT:
            warnings.warn(
                f"{type(self).__name__}.fit is about to take {n_bytes / 1e9:.1f} GB of "
                "memory. Reduce the features of tokens, n_gates, or the samples.",
                UserWarning,
                stacklevel=7,
            )

    def _check_magnitude(self, training):
        tokens = training.tokens
        numbers = tokens.cells if isinstance(tokens, TableTokens) else tokens.values
        largest = float(np.abs(numbers).max())
        n_factors = 3 if self.block == "self_attention" else 1
        if largest > _LARGEST_PRODUCT ** (1 / n_factors):
            raise ValueError(
                f"X has features as large as {largest:.1e}, whose products a "
                f"{type(self).__name__} with block={self.block!r} cannot be fitted "
                "to. Scale them first, for example with TokenScaler."
            )

    def _make_problem(self, training, seed):
        """Draw the gates; return them and the problem, at no beta in particular."""
        tokens = training.tokens
        if isinstance(tokens, TableTokens):
            tokens = tokens.to_tokens()
        gates = make_gates(
            self.block,
            self.activation,
            tokens,
            self.n_gates,
            gate_rank=self.gate_rank,
            n_groups=self.n_groups,
            rng=np.random.RandomState(seed),
            sample_weight=training.weights,
        )
        problem = ConvexProblem(
            make_features(gates, tokens),
            training.targets,
            training.loss,
            beta=1.0,
            sample_weight=training.weights,
        )
        return gates, problem

    def _solver_options(self):
        return {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}

    def _read(self, X):
        check_is_fitted(self)
        return read_input(self, X)

    def _outputs(self, X):
        """Return outputs of shape (n_samples, n_outputs), or (n_samples,) for one."""
        tokens = self._read(X).tokens
        coef = self.coef_
        outputs = np.concatenate(
            [
                make_features(self.gates_, part, keep=False).predict(coef)
                for part in self._parts(tokens)
            ]
        )
        return self._without_single_axis(outputs + self.intercept_)

    @property
    def _n_features_out(self):
        width = self.heads_[0].second.shape[1] if self.heads_[0].second.ndim == 3 else 1
        return self.rank_ * width

    def _without_single_axis(self, outputs):
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _parts(self, tokens):
        """Yield dense tokens of so many samples that their features are no burden."""
        per_sample = self.gates_.entries(int(tokens.lengths.max()))
        step = max(1, _LARGEST_PART // per_sample)
        for start in range(0, len(tokens), step):
            if isinstance(tokens, TableTokens):
                yield TableTokens(tokens.cells[start : start + step]).to_tokens()
            else:
                yield tokens[start : start + step]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
