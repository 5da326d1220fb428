"""Steps of the optimisers of the theory, each instance by itself."""

import numpy as np

from skattn.theory._dynamics._scaled import per_matrix

#: An instance that asks for a longer step is not moved any more.
_LONGEST = 1e100


class GradientDescent:
    """``W -= rate * grad``, with rates by the name of the weights.

    The next two differ in the length of the step only. `has_run_away`, of shape (B,),
    tells which instances were stopped.
    """

    needs_excess = False

    def __init__(self, weights, rates):
        self.weights = {name: array.copy() for name, array in weights.items()}
        self.has_run_away = np.zeros(len(next(iter(weights.values()))), dtype=bool)
        self._log_rates = {name: np.log(rate) for name, rate in rates.items()}

    def step(self, gradients, log_excess=None):
        sizes = {name: _positive_norms(gradients[name]) for name in gradients}
        log_lengths = self._log_lengths(
            {name: np.log(sizes[name]) + gradients[name].log_scale for name in sizes},
            log_excess,
        )
        for log_length in log_lengths.values():
            self.has_run_away |= log_length > np.log(_LONGEST)
        for name, size in sizes.items():
            length = np.exp(np.where(self.has_run_away, -np.inf, log_lengths[name]))
            self.weights[name] -= per_matrix(length / size) * gradients[name].values

    def _log_lengths(self, log_norms, log_excess):
        return {name: self._log_rates[name] + log_norms[name] for name in log_norms}


class NormalizedGradientDescent(GradientDescent):
    """Steps of length `rate` for each of the weights."""

    def _log_lengths(self, log_norms, log_excess):
        return {
            name: np.full_like(log_norms[name], self._log_rates[name])
            for name in log_norms
        }


class PolyakGradientDescent(GradientDescent):
    """Rates times ``(L - L*) / |grad|^2``, with the gradient in all weights."""

    needs_excess = True

    def _log_lengths(self, log_norms, log_excess):
        log_square = np.logaddexp.reduce([2 * norm for norm in log_norms.values()])
        moves = np.isfinite(log_square)
        log_step = log_excess - np.where(moves, log_square, 0.0)
        return {
            name: np.where(moves, self._log_rates[name] + log_step + norm, -np.inf)
            for name, norm in log_norms.items()
        }


class MirrorDescent:
    """Normalised steps in the dual of the l_p potential.

    The dual is the state: it moves on where the weights are too small to be told from
    zero. Weights too large for a floating-point number are scaled down to one.
    """

    needs_excess = False

    def __init__(self, weights, rates, power):
        self.weights = weights
        self.has_run_away = np.zeros(len(next(iter(weights.values()))), dtype=bool)
        self._rates = rates
        self._power = power
        self._duals = {
            name: np.sign(array) * np.abs(array) ** (power - 1)
            for name, array in weights.items()
        }

    def step(self, gradients, log_excess=None):
        conjugate = self._power / (self._power - 1)
        for name, gradient in gradients.items():
            factor = self._rates[name] / _positive_norms(gradient, conjugate)
            self._duals[name] -= per_matrix(factor) * gradient.values
        self.weights = {
            name: _primal(dual, self._power) for name, dual in self._duals.items()
        }


def _positive_norms(gradient, power=2.0):
    """Return norms to divide by: 1 for a gradient of zero, which moves nothing."""
    norms = gradient.value_norms(power)
    return np.where(norms > 0, norms, 1.0)


def _primal(dual, power):
    exponent = 1 / (power - 1)
    peak = np.abs(dual).max(axis=(1, 2))
    peak = np.where(peak > 0, peak, 1.0)
    shape = np.abs(dual / per_matrix(peak)) ** exponent
    size = np.exp(np.minimum(exponent * np.log(peak), np.log(_LONGEST)))
    return np.sign(dual) * per_matrix(size) * shape


#: By name, for all solvers that need nothing but the rates.
DESCENTS = {
    "gd": GradientDescent,
    "ngd": NormalizedGradientDescent,
    "polyak": PolyakGradientDescent,
}
