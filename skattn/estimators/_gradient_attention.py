"""What the estimators that train attention by gradients share."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import ClassVar

from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skattn._fitting import local_generator
from skattn._input import read_input
from skattn.estimators._base import BaseAttention
from skattn.estimators._callbacks import IterationReporter
from skattn.estimators._combinations import (
    check_combinations,
    check_given_head,
    check_token_dropout,
)
from skattn.estimators._parameters import (
    FITTED_WEIGHTS,
    from_attributes,
    with_initial_values,
)
from skattn.estimators._queries import QUERY_CONSTRAINT, check_given_query
from skattn.estimators._training import (
    model_options,
    run_training,
    starting_parameters,
)
from skattn.mappings import MAPPING_NAMES
from skattn.tokens import Tokens

_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
_SHARE = Interval(Real, 0, 1, closed="left")
_NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


def is_stochastic(estimator):
    """Whether training can go on with other samples; raises if it cannot."""
    if estimator.solver != "lbfgs":
        return True
    raise AttributeError(
        "partial_fit is not available with solver='lbfgs', which needs all samples at "
        "every step."
    )


class GradientAttention(CallbackSupportMixin, BaseAttention):
    """Attention and a head, trained together by torch.

    A subclass has the parameters below and those of its loss, and says in
    `_read_targets` what is to be predicted.
    """

    _parameter_constraints: ClassVar[dict] = {
        "query": QUERY_CONSTRAINT,
        "parameterization": [StrOptions({"W", "KQ"})],
        "rank": [_AT_LEAST_ONE, None],
        "mapping": [StrOptions(set(MAPPING_NAMES))],
        "mapping_params": [dict, None],
        "n_heads": [_AT_LEAST_ONE],
        "hidden_size": [Interval(Integral, 0, None, closed="left")],
        "kernel_size": [_AT_LEAST_ONE],
        "n_layers": [Interval(Integral, 0, None, closed="left")],
        "position": [StrOptions({"learned", "sinusoidal", "rotary"}), None],
        "attention_norm": [StrOptions({"batch"}), None],
        "beta": [StrOptions({"learned"}), Interval(Real, None, None, closed="neither")],
        "head_scale": [_AT_LEAST_ONE, "array-like", None],
        "scoring": [StrOptions({"linear", "gated"})],
        "gate_size": [_AT_LEAST_ONE, None],
        "pooling": [StrOptions({"attention"}), list, tuple],
        "head": [StrOptions({"linear", "mlp"})],
        "head_hidden_size": [_AT_LEAST_ONE, None],
        "diversity": [_NOT_NEGATIVE],
        "dropout": [_SHARE],
        "token_dropout": [_SHARE],
        "average": [_SHARE],
        "solver": [StrOptions({"adam", "lbfgs", "gd", "ngd", "polyak", "mirror"})],
        "mirror_p": [Interval(Real, 1, None, closed="neither")],
        "learning_rate_init": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "alpha": [_NOT_NEGATIVE],
        "max_iter": [_AT_LEAST_ONE],
        "batch_size": [_AT_LEAST_ONE, StrOptions({"auto"}), None],
        "tol": [_NOT_NEGATIVE],
        "n_iter_no_change": [_AT_LEAST_ONE],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "warm_start": ["boolean"],
        "freeze_head": ["boolean"],
        "device": [str],
        "dtype": [StrOptions({"float64", "float32"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _read_targets(self, y, n_samples, sample_weight, goes_on):
        """Return the `Targets` of training, and the weights of the samples."""

    def _fit(
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
        """Train from the start, or with `warm_start` from the earlier weights."""
        check_combinations(self)
        goes_on = self.warm_start and hasattr(self, "coef_")
        tokens = self._read_training(X, query, reset=True)
        targets, weights = self._read_targets(y, len(tokens), sample_weight, goes_on)
        check_given_head(self, coef_init, goes_on)
        rng = local_generator(self.random_state)
        parameters = starting_parameters(self, tokens, rng, goes_on, targets.n_outputs)
        if not goes_on:
            # A head of zeros predicts the mean target, whatever that is.
            parameters = targets.from_training(parameters)
        parameters = with_initial_values(
            parameters, coef_init, intercept_init, attention_coef_init
        )
        reporter = self._reporter(X, y, sample_weight, query, self.max_iter)
        for name in ("_optimizer_of", "_optimizer_state"):
            self.__dict__.pop(name, None)
        self._train(tokens, targets, weights, parameters, rng, reporter)
        return self

    def _fit_one_epoch(self, tokens, targets, weights, is_first, reporter):
        """Train for one epoch after those of earlier calls."""
        # One generator for all calls, so that each shuffles anew.
        if is_first:
            self._random_state = local_generator(self.random_state)
        rng = getattr(self, "_random_state", None) or local_generator(self.random_state)
        parameters = starting_parameters(
            self, tokens, rng, not is_first, targets.n_outputs
        )
        if is_first:
            parameters = targets.from_training(parameters)
        self._train(
            tokens, targets, weights, parameters, rng, reporter, incremental=True
        )
        return self

    def _check_partial_fit(self):
        """Refuse parameters that need all samples at once; tells if it is the first."""
        check_combinations(self)
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True.")
        is_first = not hasattr(self, "coef_")
        if is_first and self.freeze_head:
            raise ValueError(
                "freeze_head=True needs a head: call fit first, with coef_init or with "
                "freeze_head=False."
            )
        return is_first

    def _reporter(self, X, y, sample_weight, query, n_epochs):
        metadata = {"sample_weight": sample_weight, "query": query}
        return IterationReporter(self, "epoch", n_epochs, X=X, y=y, metadata=metadata)

    def to_module(self):
        """Return the fitted model as a torch module.

        Returns
        -------
        module : skattn.attention.AttentionModel
            Maps a :class:`skattn.attention.TokenBatch` to the outputs of the head. It
            shares no memory with the estimator.
        """
        check_is_fitted(self)
        from skattn.estimators import _torch_bridge as bridge

        device = bridge.resolve_device(self.device, self.dtype)
        return bridge.make_model(
            from_attributes(self),
            query=self.query,
            dtype=self.dtype,
            device=device,
            **model_options(self),
        )

    def _read_training(self, X, query, reset):
        tokens = read_input(self, X, query=query, reset=reset).tokens
        check_given_query(self, tokens, query is not None, reset=reset)
        check_token_dropout(self, tokens)
        return tokens

    def _train(
        self, tokens, targets, weights, parameters, rng, reporter, incremental=False
    ):
        from skattn.estimators import _torch_bridge as bridge

        with bridge.threads_for(tokens):
            state = run_training(
                self, tokens, targets, weights, parameters, rng, reporter, incremental
            )
        # Of an earlier fit with other parameters there may be weights of parts that
        # this model does not have.
        for name in FITTED_WEIGHTS:
            self.__dict__.pop(name, None)
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

    def _view_attention(self, tokens):
        for name in ("attention_norm", "head_scale"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"The margins of attention are those of scores x'Wz, and "
                    f"{name}={value!r} makes others of them. Use {name}=None."
                )
        return super()._view_attention(tokens)

    def _seen_by_attention(self, tokens):
        if not (self.hidden_size or self.n_layers) and self.scoring == "linear":
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
