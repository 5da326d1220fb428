"""Reporting a fit to scikit-learn's callbacks, one subtask an iteration."""


class IterationReporter:
    """Tell the callbacks of an estimator about each iteration of its fit.

    Parameters
    ----------
    estimator : estimator instance
        Being fitted; has scikit-learn's `CallbackSupportMixin`.

    task_name : str
        What one iteration is called.

    max_subtasks : int
        Largest number of iterations.

    X, y : array-like
        The training data as the caller gave it.

    metadata : dict
        Sample weights and queries, as the caller gave them; None for none.

    Notes
    -----
    The `state` that methods take is a callable without arguments: it returns the fitted
    attributes as if fit had stopped now, and is called only if a callback asks for the
    fitted estimator.
    """

    def __init__(self, estimator, task_name, max_subtasks, *, X, y, metadata):
        self._estimator = estimator
        self._task_name = task_name
        # A scorer that monitors gets them all as keywords, and may not know some.
        given = {name: value for name, value in metadata.items() if value is not None}
        self._data = {"X": X, "y": y, "metadata": given}
        self._context = estimator._init_callback_context(max_subtasks=max_subtasks)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)
        # Contexts of subtasks cost more than a small epoch: none without a listener.
        self._listening = bool(getattr(estimator, "_skl_callbacks", None))
        self._subtask = None

    def begin_iteration(self):
        """Say that an iteration begins."""
        if self._listening:
            self._subtask = self._context.subcontext(task_name=self._task_name)
            self._subtask.call_on_fit_task_begin(
                estimator=self._estimator, **self._data
            )

    def end_iteration(self, state):
        """Say that an iteration ended; True asks to stop."""
        if not self._listening:
            return False
        context = self._subtask
        return context.call_on_fit_task_end(
            estimator=self._estimator,
            **self._data,
            reconstruction_attributes=lambda: (
                state() if self._is_due(context) else None
            ),
        )

    def _is_due(self, context):
        # scikit-learn asks for the fitted attributes at every iteration. A callback
        # that looks at some only says so by `is_due(context)`, and saves the copies.
        return any(
            not hasattr(callback, "is_due") or callback.is_due(context)
            for callback in self._estimator._skl_callbacks
        )

    def end(self, state):
        """Say that the fit ended."""
        self._context.call_on_fit_task_end(
            estimator=self._estimator, **self._data, reconstruction_attributes=state
        )
