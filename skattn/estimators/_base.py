"""What every fitted estimator of attention offers, written once."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skattn._input import read_input
from skattn._links import DocumentationLinkMixin
from skattn.estimators._heads import likeliest, log_probabilities, probabilities
from skattn.estimators._queries import check_given_query, query_vectors
from skattn.estimators._token_algebra import first_best_rows


class Attended(NamedTuple):
    """What attention made of some samples.

    `scores` and `weights` are (n_tokens, n_heads), `pooled` is (n_samples, n_heads *
    n_token_features).
    """

    scores: np.ndarray
    weights: np.ndarray
    pooled: np.ndarray


class AttentionView(NamedTuple):
    """Attention as its support vector machine reads it.

    `tokens` and `queries` are what the weights of attention are multiplied with, after
    a hidden layer and gates if there are any; `queries` is None for a prompt. `scores`
    and `weights` are (n_tokens, n_heads), `coefs` are the attention weights with the
    axis of heads first, and `norm` is the norm whose margin their training is drawn to.
    """

    tokens: object
    queries: np.ndarray | None
    scores: np.ndarray
    weights: np.ndarray
    coefs: np.ndarray
    norm: str | float

    def chosen(self, head):
        """Return the index of the top token of each sample, of shape (n_samples,)."""
        offsets = self.tokens.offsets
        return first_best_rows(self.scores[:, head], offsets) - offsets[:-1]


def _head_is_logistic(estimator):
    return getattr(estimator, "head", "logistic") != "svm"


class BaseAttention(
    DocumentationLinkMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """Explanations from attention with a head, and what that is given.

    A subclass fits `coef_`, `intercept_` and its attention, has the parameter `query`,
    and says in `_attend` and `_token_votes` what its attention does. The head is linear
    in what is pooled, unless the subclass says otherwise in `_outputs`, `_token_votes`
    and `_n_features_out`.
    """

    #: Heads of attention; a subclass with several has the parameter `n_heads`.
    n_heads = 1

    @abstractmethod
    def _attend(self, tokens):
        """Return the `Attended` of `tokens`."""

    @abstractmethod
    def _token_votes(self, tokens):
        """Return the share of each token in the decision, (n_tokens, n_outputs)."""

    def attention_weights(self, X, query=None):
        """Return how much of the attention each token gets.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        weights : ndarray of shape (n_samples, n_heads, n_positions), or list of \
                (n_heads, n_positions_i) arrays
            Non-negative, adding up to 1 over each sample; 0 at absent tokens. An array
            for array input, a list for a list or `Tokens`. The axis of heads is left
            out when ``n_heads=1``.
        """
        read = self._read(X, query)
        return self._by_head(read, self._attend(read.tokens).weights, fill=0.0)

    def token_scores(self, X, query=None):
        """Return the score of each token, before the mapping makes weights of them.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_heads, n_positions), or list of \
                (n_heads, n_positions_i) arrays
            In the form of :meth:`attention_weights`; -inf at absent tokens.
        """
        read = self._read(X, query)
        return self._by_head(read, self._attend(read.tokens).scores, fill=-np.inf)

    def selected_tokens(self, X, query=None):
        """Return the position of the token with the highest score in each sample.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        positions : ndarray of shape (n_samples, n_heads), or (n_samples,) for one head
            Positions in the samples as given; the first among equals.
        """
        tokens = self._read(X, query).tokens
        scores = self._attend(tokens).scores
        selected = np.column_stack(
            [
                tokens.positions[first_best_rows(head, tokens.offsets)]
                for head in scores.T
            ]
        )
        return selected[:, 0] if self.n_heads == 1 else selected

    def token_contributions(self, X, query=None):
        """Return what each token added to the decision, or to the prediction.

        The contribution of token t is its weight times its own vote,
        ``s_it * coef' x_it``, summed over heads. Contributions add up to
        ``decision_function(X) - intercept_``, of a regressor ``predict(X) -
        intercept_``: unlike a weight, they say in favour of what a token spoke.

        Where more than attention is pooled, a token also has its part of the mean, and
        of a minimum or maximum all that the features add of which it is the extreme,
        in equal parts with other tokens that are. Behind a head with a layer, what a
        token puts into each unit counts times the mean slope of the unit between no
        tokens and all of them: these are the integrated gradients of arXiv 1703.01365,
        in closed form.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        contributions : ndarray of shape (n_samples, n_positions), or with a last axis \
                n_outputs when there are several; or list of such arrays
            In favour of ``classes_[1]`` for two classes, of each class for more, of
            larger numbers for a regressor; 0 at absent tokens.
        """
        read = self._read(X, query)
        votes = self._token_votes(read.tokens)
        return read.per_token(votes[:, 0] if votes.shape[1] == 1 else votes, fill=0.0)

    def transform(self, X, query=None):
        """Return what the tokens of each sample are pooled into.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        pooled : ndarray of shape (n_samples, n_heads * n_token_features_)
            The heads of attention side by side, and what else is pooled beside them;
            a dataframe after ``set_output``.
        """
        return self._attend(self._read(X, query).tokens).pooled

    def _outputs(self, tokens):
        """Return the output of the head, of shape (n_samples, n_outputs)."""
        return self._attend(tokens).pooled @ self.coef_.T + self.intercept_

    def _read(self, X, query):
        check_is_fitted(self)
        read = read_input(self, X, query=query)
        check_given_query(self, read.tokens, query is not None, reset=False)
        return read

    def _view_attention(self, tokens):
        """Return the `AttentionView` of `tokens`."""
        attended = self._attend(tokens)
        seen = self._seen_by_attention(tokens)
        coefs = self.attention_coef_
        return AttentionView(
            seen,
            query_vectors(self.query, seen),
            attended.scores,
            attended.weights,
            coefs[None] if self.n_heads == 1 else coefs,
            self._implicit_norm,
        )

    def _seen_by_attention(self, tokens):
        return tokens

    @property
    def _implicit_norm(self):
        return self.norm

    def _by_head(self, read, values, fill):
        """Give (n_tokens, n_heads) values the public layout, heads before tokens."""
        if self.n_heads == 1:
            return read.per_token(values[:, 0], fill)
        by_token = read.per_token(values, fill)
        if isinstance(by_token, list):
            return [sample.T for sample in by_token]
        return by_token.transpose(0, 2, 1)

    @property
    def _n_features_out(self):
        return self.coef_.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class BaseAttentionClassifier(ClassifierMixin, BaseAttention):
    """Predictions of a head on attention; a subclass also fits `classes_`."""

    def decision_function(self, X, query=None):
        """Return the confidence in each class.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one number, positive for ``classes_[1]``.
        """
        scores = self._outputs(self._read(X, query).tokens)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X, query=None):
        """Return the class of each sample.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels of ``classes_``.
        """
        scores = self.decision_function(X, query=query)
        return likeliest(scores, self.classes_)

    @available_if(_head_is_logistic)
    def predict_proba(self, X, query=None):
        """Return the probability of each class; needs a logistic head.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return probabilities(self.decision_function(X, query=query))

    @available_if(_head_is_logistic)
    def predict_log_proba(self, X, query=None):
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return log_probabilities(self.decision_function(X, query=query))

    def score(self, X, y, sample_weight=None, query=None):
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        y : array-like of shape (n_samples,)
            True labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``; overrides those X carries.

        Returns
        -------
        accuracy : float
            Share of samples whose label is predicted.
        """
        return accuracy_score(
            y, self.predict(X, query=query), sample_weight=sample_weight
        )
