"""A callback that watches attention approach its support vector machine."""

from numbers import Integral, Real
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.callback import ScoringMonitor
from sklearn.utils import check_scalar
from sklearn.utils._optional_dependencies import check_pandas_support

from skattn.margin import SOLVERS, MarginProblem, solve
from skattn.margin._norms import resolve_norm
from skattn.theory._alignment import alignment


class ImplicitBiasMonitor:
    """Callback that measures attention against its support vector machine during `fit`.

    While attention trains it chooses a token of each sample, the one with the largest
    weight, and its weights grow in the direction of the smallest weights that separate
    the chosen tokens: the solution of the attention SVM of that choice [1]_. The
    monitor solves this SVM on the way and records how far training has come.

    It watches every classifier of attention in this package, such as
    :class:`skattn.AttentionClassifier` and :class:`skattn.TokenSVM`. Set it with
    `set_callbacks` on such a classifier, which may be part of a
    :class:`~sklearn.pipeline.Pipeline` or of a
    :class:`~sklearn.model_selection.GridSearchCV`; or on the outermost of these, from
    where it finds its way to the classifiers. All fits, in worker processes too, report
    to the one monitor.

    Parameters
    ----------
    every : int, default=10
        Epochs from one record to the next; the first epoch and the weights that `fit`
        keeps are recorded in any case. The rounds of :class:`skattn.TokenSVM` are few,
        and each is recorded. In between, the monitor computes nothing.

    norm : {"auto", "fro", "nuc"} or float > 1, default="auto"
        Norm of the SVM. "auto" is the one that belongs to the training: the Frobenius
        norm for a prompt and for W, the nuclear norm for keys and queries, the l_p norm
        for mirror descent, and that of a :class:`skattn.TokenSVM`.

    C : float, default=inf
        Cost of slack in the SVM, as in :func:`attention_svm`. Often no weights
        separate the chosen tokens of all samples, a prompt above all: the record then
        says so, and a finite C asks for the soft margin.

    solver : {"auto"} or a key of `skattn.margin.SOLVERS`, default="auto"
        As in :func:`skattn.margin.solve`.

    tol : float, default=1e-6
        Relative duality gap to which the SVM is solved.

    Raises
    ------
    ValueError, TypeError
        If a parameter has the wrong type or is out of range.

    See Also
    --------
    attention_svm : The SVM by itself.
    skattn.inspection.MarginPathDisplay : The records as a plot.
    sklearn.callback.ScoringMonitor : The same for scores.

    Notes
    -----
    Each call of `partial_fit` is a run of its own, with one record.

    The SVM is solved anew only when the choice has changed, or the tokens behind a
    hidden layer have, and then from the solution before. Samples of weight zero are
    left out. With ``early_stopping=True`` the held-out samples count too.

    References
    ----------
    .. [1] Tarzanagh et al., "Transformers as Support Vector Machines",
       arXiv 2308.16898, equation (Att-SVM); for a prompt "Max-Margin Token Selection in
       Attention Mechanism", arXiv 2306.13596; for mirror descent arXiv 2410.14581.

    Examples
    --------
    >>> import numpy as np
    >>> from skattn import AttentionClassifier
    >>> from skattn.theory import ImplicitBiasMonitor
    >>> rng = np.random.default_rng(0)
    >>> X, query = rng.normal(size=(6, 8, 10)), rng.normal(size=(6, 10))
    >>> monitor = ImplicitBiasMonitor(every=100)
    >>> model = AttentionClassifier(
    ...     query="given", solver="ngd", learning_rate_init=0.1, alpha=0, tol=0,
    ...     freeze_head=True, random_state=0)
    >>> model = model.set_callbacks(monitor).fit(
    ...     X, [0, 1, 0, 1, 0, 1], query=query, coef_init=rng.normal(size=10))
    >>> frame = monitor.to_frame()
    >>> [round(float(alignment), 1) for alignment in frame["alignment"].iloc[[0, -1]]]
    [0.5, 1.0]
    """

    def __init__(self, *, every=10, norm="auto", C=np.inf, solver="auto", tol=1e-6):
        self.every = check_scalar(every, "every", Integral, min_val=1)
        if norm != "auto":
            resolve_norm(norm, (2, 2))
        self.norm = norm
        self.C = _check_above_zero(C, "C")
        if solver != "auto" and solver not in SOLVERS:
            raise ValueError(
                f"solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r}."
            )
        self.solver = solver
        self.tol = _check_above_zero(tol, "tol")
        # scikit-learn's monitor brings the records home from worker processes, and
        # says which task of which run each is about.
        self._records = ScoringMonitor(scoring=_as_given)
        self._fits = WeakKeyDictionary()

    def setup(self, estimator, context):
        """Prepare for a fit; called by scikit-learn.

        Parameters
        ----------
        estimator : estimator instance
            On which the monitor is set.

        context : CallbackContext
            Of its fit.
        """
        if not hasattr(estimator, "_view_attention"):
            # This attribute is what makes scikit-learn pass a callback on to
            # sub-estimators. Always there, it would forbid to set the monitor on the
            # classifier inside a meta-estimator.
            self.max_propagation_depth = None

    def teardown(self, estimator, context):
        """Clear up after a fit; called by scikit-learn.

        Parameters
        ----------
        estimator : estimator instance
            On which the monitor is set.

        context : CallbackContext
            Of its fit.
        """
        self.__dict__.pop("max_propagation_depth", None)
        self._fits.pop(context, None)

    def is_due(self, context):
        """Tell whether the monitor will look at the end of a task.

        Parameters
        ----------
        context : CallbackContext
            Of the task.

        Returns
        -------
        is_due : bool
            Always true for tasks other than epochs.
        """
        number = context.task_id + 1
        return context.task_name != "epoch" or number == 1 or number % self.every == 0

    def on_fit_task_begin(self, estimator, context):
        """Do nothing; called by scikit-learn.

        Parameters
        ----------
        estimator : estimator instance
            That is being fitted.

        context : CallbackContext
            Of the task that begins.
        """

    def on_fit_task_end(
        self,
        estimator,
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        """Measure and record, if it is time; called by scikit-learn.

        Parameters
        ----------
        estimator : estimator instance
            That is being fitted.

        context : CallbackContext
            Of the task that ends.

        X, y : array-like
            Training samples.

        metadata : dict
            Sample weights and queries.

        fitted_estimator : estimator instance
            The estimator as if `fit` had stopped here.
        """
        if hasattr(estimator, "n_splits_") and not context.sequential_subtasks:
            # The candidates and folds of a search: their number tells them apart.
            measured = [{"n_splits": estimator.n_splits_}]
        elif hasattr(fitted_estimator, "_view_attention") and self.is_due(context):
            measured = self._measure(fitted_estimator, context, X, metadata or {})
        else:
            return
        # It is given no samples: there is nothing left to score.
        self._records.setup(estimator, context)
        for measures in measured:
            self._records.on_fit_task_end(
                estimator,
                context,
                X=(),
                y=(),
                fitted_estimator=estimator,
                metadata={"measures": measures},
            )
        self._records.teardown(estimator, context)

    def get_logs(self, select="most_recent", include_lineage=False):
        """Return the records by run, as scikit-learn's `ScoringMonitor` does.

        A run is a fit of the outermost estimator.

        Parameters
        ----------
        select : {"most_recent", "all"}, default="most_recent"
            Which runs.

        include_lineage : bool, default=False
            Whether to add a row, without measures, for each task above a recorded one.

        Returns
        -------
        logs : sklearn.callback.ScoringMonitorLog, or list of them for "all"
            With the attributes `run_id`, `estimator_name`, `timestamp`, `data` (a list
            of dicts) and `data_as_pandas`. The entries of a dict are the columns of
            :meth:`to_frame`.

        Raises
        ------
        ValueError
            If nothing was recorded.
        """
        logs = self._records.get_logs(select, include_lineage)
        for log in logs if select == "all" else [logs]:
            log.data = _with_folds(log.data, include_lineage)
        return logs

    def to_frame(self, select="most_recent"):
        """Return the records as a dataframe, one row for each record and head.

        Parameters
        ----------
        select : {"most_recent", "all"}, default="most_recent"
            Which runs.

        Returns
        -------
        frame : pandas.DataFrame
            Which fit a row is about say the columns

            - `run_id`: the fit of the outermost estimator;
            - `task_id_path`, `parent_task_id_path`, `estimator_name`, `task_name`,
              `task_id`, `sequential_subtasks`: the task, as in
              :class:`sklearn.callback.ScoringMonitorLog`. The rows of one fit have one
              `parent_task_id_path`, except that of the weights which it keeps, with the
              `task_name` "fit": it is there if these are not those of the record
              before;
            - `fit`: the same for all rows of one fit;
            - `candidate`, `fold`: in a grid search on which the monitor is set, or
              above it, which parameters and which split; NaN elsewhere.

            What was measured say the columns

            - `iteration`: epochs, or rounds, that the weights are from, counted from 1;
            - `head`: which attention, from 0;
            - `alignment`: cosine between the weights and the SVM of their choice, NaN
              if it has no solution, or the weights are still zero;
            - `norm`: Frobenius norm of the weights, which grows without bound;
            - `top_weight`, `min_top_weight`: mean and smallest, over the samples, of
              the largest attention weight: how saturated attention is;
            - `n_changed`: samples whose chosen token is not that of the record before,
              NaN in the first;
            - `loss`: training loss, the entry of `loss_curve_` for this iteration;
            - `svm_norm`: norm of the SVM, "fro", "nuc" or p;
            - `svm_status`: "optimal", "infeasible" or "max_iter", as in
              :class:`skattn.margin.MarginSolution`;
            - `svm_gap`: relative duality gap of the SVM.

        Raises
        ------
        ValueError
            If nothing was recorded.

        ImportError
            If pandas is not installed.
        """
        pandas = check_pandas_support(f"{type(self).__name__}.to_frame")
        logs = self.get_logs(select)
        rows = [
            {"run_id": log.run_id, **row}
            for log in (logs if select == "all" else [logs])
            for row in log.data
        ]
        return pandas.DataFrame(rows)

    def __getstate__(self):
        # A fit under way goes on where it is; its records come home without this.
        return {name: value for name, value in vars(self).items() if name != "_fits"}

    def __setstate__(self, state):
        vars(self).update(state, _fits=WeakKeyDictionary())

    def _measure(self, fitted, context, X, metadata):
        """Return the measures of each head; nothing if they are recorded already."""
        is_iteration = context.max_subtasks == 0
        fit = self._fits.setdefault(
            context.parent if is_iteration else context, _WatchedFit()
        )
        if not is_iteration:
            del self._fits[context]
            if np.array_equal(fit.coefs, fitted.attention_coef_):
                return []
        tokens = fit.read(fitted, X, metadata.get("query"))
        view = fitted._view_attention(tokens)
        if not np.isfinite(view.scores).all():
            # Training has diverged, which is for `fit` to complain about.
            return []
        fit.coefs = fitted.attention_coef_
        iteration, loss = _where_in_training(fitted, is_iteration)
        costs = _costs(self.C, metadata.get("sample_weight"), len(tokens))
        norm = view.norm if self.norm == "auto" else self.norm
        offsets = view.tokens.offsets
        top_weights = np.maximum.reduceat(view.weights, offsets[:-1])
        measured = []
        for head, coef in enumerate(view.coefs):
            svm = fit.svm_of(head)
            chosen = view.chosen(head)
            n_changed = svm.update(view, chosen, costs, norm, self.solver, self.tol)
            measured.append(
                {
                    "iteration": iteration,
                    "head": head,
                    "alignment": _alignment_or_nan(coef, svm.solution.coef),
                    "norm": float(np.linalg.norm(coef)),
                    "top_weight": float(top_weights[:, head].mean()),
                    "min_top_weight": float(top_weights[:, head].min()),
                    "n_changed": n_changed,
                    "loss": loss,
                    "svm_norm": norm,
                    "svm_status": svm.solution.status,
                    "svm_gap": float(svm.solution.duality_gap),
                }
            )
        return measured


class _WatchedFit:
    """What is kept from one record of a fit to the next."""

    def __init__(self):
        self.coefs = None
        self._tokens = None
        self._svms = {}

    def read(self, fitted, X, query):
        """Return the training samples, read once."""
        if self._tokens is None:
            self._tokens = fitted._read(X, query).tokens
        return self._tokens

    def svm_of(self, head):
        """Return the `_WatchedSVM` of a head."""
        return self._svms.setdefault(head, _WatchedSVM())


class _WatchedSVM:
    """The attention SVM of one head, solved again only if it has changed."""

    def __init__(self):
        self.problem = None
        self.solution = None
        self._tokens = None
        self._chosen = None

    def update(self, view, chosen, costs, norm, solver, tol):
        """Solve the SVM of a choice; return how many samples have changed theirs."""
        n_changed = np.nan
        if self._chosen is not None:
            n_changed = int(np.sum(chosen != self._chosen))
        are_same_tokens = view.tokens is self._tokens
        if are_same_tokens and n_changed == 0:
            return n_changed
        if are_same_tokens:
            self.problem = self.problem.with_selected(chosen)
        else:
            self.problem = MarginProblem(view.tokens, chosen, view.queries, costs, norm)
        start = self.solution
        if start is not None and start.status == "infeasible":
            start = None
        self.solution = solve(self.problem, tol=tol, solver=solver, warm_start=start)
        self._tokens, self._chosen = view.tokens, chosen
        return n_changed


def _as_given(estimator, X, y, *, measures):
    """Hand what was measured over to scikit-learn's monitor, as a scorer would."""
    return measures


def _check_above_zero(value, name):
    check_scalar(value, name, Real, min_val=0, include_boundaries="neither")
    if np.isnan(value):
        raise ValueError(f"{name} must be above 0, got {value}.")
    return value


def _costs(C, sample_weight, n_samples):
    if sample_weight is None:
        return C
    is_used = np.broadcast_to(np.asarray(sample_weight) > 0, n_samples)
    return np.where(is_used, C, 0.0)


def _where_in_training(fitted, is_iteration):
    """Return the iteration that the weights are from, and its loss, NaN for none."""
    curve = getattr(fitted, "loss_curve_", None)
    if curve is None:
        return np.nan, np.nan
    number = len(curve)
    if not is_iteration:
        scores = getattr(fitted, "validation_scores_", None)
        if scores is not None:
            number = int(np.argmax(scores)) + 1
        elif hasattr(fitted, "selected_"):
            # Each round was recorded, so that this is not the last of them: then the
            # round of the lowest loss is kept.
            number = int(np.argmin(curve)) + 1
    return number, float(curve[number - 1])


def _alignment_or_nan(coef, solution):
    if not (np.isfinite(solution).all() and solution.any() and coef.any()):
        return np.nan
    return alignment(coef, solution)


def _with_folds(data, include_lineage):
    """Name the fit of each row, and its place in the grid search around it."""
    n_splits = {
        row["task_id_path"]: row.pop("n_splits") for row in data if "n_splits" in row
    }
    measured = [row for row in data if "iteration" in row]
    for row in measured:
        path = row["task_id_path"]
        fit = path if row["task_name"] == "fit" else row["parent_task_id_path"]
        row["fit"] = "/".join(map(str, fit))
        row["candidate"], row["fold"] = _candidate_and_fold(fit, n_splits)
    # Rows of tasks come by depth, which would put the end of a fit before the rest.
    measured.sort(key=lambda row: (row["fit"], np.nan_to_num(row["iteration"])))
    lineage = [row for row in data if "iteration" not in row] if include_lineage else []
    return lineage + measured


def _candidate_and_fold(path, n_splits):
    for depth in reversed(range(len(path))):
        if path[:depth] in n_splits:
            return divmod(path[depth], n_splits[path[:depth]])
    return np.nan, np.nan
