"""A transformer around an estimator of attention."""

from copy import deepcopy
from typing import ClassVar

from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import all_or_nothing
from skattn._output import TokenTransformerMixin


class BaseAttentionTransformer(
    CallbackSupportMixin, MetaEstimatorMixin, TokenTransformerMixin, BaseEstimator
):
    """Fit, or take over, an estimator of attention; subclasses transform with it."""

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "attention_weights"])],
        "prefit": ["boolean"],
    }

    @all_or_nothing
    @with_callbacks
    @_fit_context(
        # The estimator validates its own parameters when it is fitted.
        prefer_skip_nested_validation=False
    )
    def fit(self, X, y=None, **fit_params):
        """Fit the estimator of attention.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,), default=None
            Labels; needed unless ``prefit=True``.

        **fit_params : dict
            Passed to the `fit` of the estimator, such as `sample_weight` and `query`;
            routed to it if metadata routing is enabled.

        Returns
        -------
        self : object
            Fitted transformer.

        Raises
        ------
        NotFittedError
            If ``prefit=True`` and the estimator is not fitted.
        """
        self._check_parameters()
        if self.prefit:
            self._refuse_unfitted()
            self.estimator_ = deepcopy(self.estimator)
            return self
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        estimator = clone(self.estimator)
        context = self._init_callback_context(max_subtasks=1)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        subtask = context.subcontext(task_name="fit-estimator")
        with subtask.propagate_callback_context(estimator):
            subtask.call_on_fit_task_begin(estimator=self, X=X, y=y)
            estimator.fit(X, y, **fit_params)
            subtask.call_on_fit_task_end(estimator=self, X=X, y=y)
        self.estimator_ = estimator
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def fit_transform(self, X, y=None, *, query=None, **fit_params):
        """Fit the estimator and transform the training samples.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            Training samples.

        y : array-like of shape (n_samples,), default=None
            Labels; needed unless ``prefit=True``.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for an estimator with ``query="given"``.

        **fit_params : dict
            Passed to the `fit` of the estimator.

        Returns
        -------
        X_new : see `transform`
            The transformed samples.
        """
        if query is not None:
            fit_params["query"] = query
        return self.fit(X, y, **fit_params).transform(X, query=query)

    def get_metadata_routing(self):
        """Return how metadata goes to the estimator.

        Returns
        -------
        routing : MetadataRouter
            The routing of scikit-learn.
        """
        return MetadataRouter(owner=self).add(
            estimator=self.estimator,
            method_mapping=MethodMapping()
            .add(caller="fit", callee="fit")
            .add(caller="transform", callee="transform"),
        )

    @property
    def n_features_in_(self):
        """Features of a token, or columns of a table, seen by the estimator."""
        return self._attention().n_features_in_

    @property
    def feature_names_in_(self):
        """Names of the features seen by the estimator, if all were strings."""
        return self._attention().feature_names_in_

    @property
    def input_kind_(self):
        """What the estimator was fitted on: "sequences" or "table"."""
        return self._attention().input_kind_

    def __sklearn_is_fitted__(self):
        try:
            self._attention()
        except (NotFittedError, AttributeError):
            return False
        return True

    def _attention(self):
        """Return the fitted estimator, for which `fit` is not needed if prefit."""
        if hasattr(self, "estimator_"):
            return self.estimator_
        if not self.prefit:
            # AttributeError, so that hasattr() says no, and NotFittedError.
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' "
                "with appropriate arguments before using this estimator."
            )
        self._refuse_unfitted()
        return self.estimator

    def _check_parameters(self):
        """Refuse parameters that contradict each other."""

    def _refuse_unfitted(self):
        try:
            check_is_fitted(self.estimator)
        except NotFittedError as error:
            raise NotFittedError(
                "When `prefit=True`, `estimator` is expected to be a fitted estimator. "
                "Cloning, as cross-validation does, unfits it: wrap it in "
                "sklearn.frozen.FrozenEstimator to keep it as it is."
            ) from error

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = (
            not self.prefit and get_tags(self.estimator).target_tags.required
        )
        return tags
