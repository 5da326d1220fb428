"""The losses of outputs, with an intercept that is always at its optimum."""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit

#: Newton steps towards the best intercept; a handful is enough unless a class has no
#: sample, whose intercept goes to minus infinity.
NEWTON_STEPS = 100

#: Sum of the residuals of an output at which its intercept is at the optimum.
FLAT = 1e-15

#: Sum of the residuals of an output that may be all rounding, if it falls no more.
ROUNDING = 1e-12

#: Share of the largest singular value of a Hessian that is rounding: adding the same
#: number to the outputs of all classes changes nothing.
RANK = 1e-13

#: Sum of the residuals of an output from which another start may be better.
STEEP = 0.1

#: Steps of an intercept that are never too long.
SAFE = 0.5

#: Below this, exp(x) - 1 - x is computed by its series.
SMALL = 1e-4

#: Moves of outputs whose exponential might overflow: too far for anyone.
LARGE = 500.0


class Loss(ABC):
    """A convex loss of outputs, averaged with weights that sum to 1.

    Parameters
    ----------
    targets : ndarray of shape (n_samples, m)

    weight : ndarray of shape (n_samples,)
        Sums to 1.

    Attributes
    ----------
    n_outputs : int

    curvature : float
        Largest eigenvalue of the Hessian of one sample's loss, anywhere.
    """

    curvature = 1.0

    def __init__(self, targets, weight):
        self.targets = targets
        self.weight = weight

    @property
    def n_outputs(self):
        """Number of outputs."""
        return self.targets.shape[1]

    @abstractmethod
    def value(self, outputs):
        """Return the averaged loss of outputs of shape (n_samples, n_outputs)."""

    @abstractmethod
    def residuals(self, outputs):
        """Return the gradient of :meth:`value`, of the shape of `outputs`."""

    @abstractmethod
    def divergence(self, outputs, moved):
        """Return what :meth:`value` rises above its tangent when outputs move.

        Computed without differences of values, so that it keeps its digits where the
        move is small.

        Parameters
        ----------
        outputs, moved : ndarray of shape (n_samples, n_outputs)

        Returns
        -------
        divergence : float
            ``value(outputs + moved) - value(outputs) - <residuals(outputs), moved>``;
            infinite where the move is too far for the exponential.
        """

    @abstractmethod
    def intercept_derivatives(self, outputs):
        """Return gradient and Hessian of :meth:`value` in the intercept.

        Parameters
        ----------
        outputs : ndarray of shape (n_samples, n_outputs)

        Returns
        -------
        slope : ndarray of shape (n_outputs,)

        hessian : ndarray of shape (n_outputs, n_outputs)
        """

    def best_intercept(self, outputs, start):
        """Return the intercept that minimises the loss of ``outputs + intercept``.

        Parameters
        ----------
        outputs : ndarray of shape (n_samples, n_outputs)

        start : ndarray of shape (n_outputs,)
            Newton's method starts here, or from 0 where that is much better.

        Returns
        -------
        intercept : ndarray of shape (n_outputs,)
        """
        intercept, last = start, np.inf
        for n_steps in range(NEWTON_STEPS):
            shifted = outputs + intercept
            slope, hessian = self.intercept_derivatives(shifted)
            steepest = np.abs(slope).max()
            if steepest <= FLAT or last / 2 < steepest <= ROUNDING:
                break
            last = steepest
            # From far away, where there is no curvature, steps lead nowhere.
            is_far = n_steps == 0 and steepest > STEEP
            if is_far and self.value(outputs) < self.value(shifted):
                intercept = np.zeros_like(start)
                continue
            step = -np.linalg.lstsq(hessian, slope, rcond=RANK)[0]
            decrement = -float(slope @ step)
            if decrement <= 0:
                break
            intercept = intercept + self._shortened(shifted, step, decrement)
        return self._canonical(intercept)

    def _shortened(self, outputs, step, decrement):
        """Halve a step until it falls by a tenth of what the tangent says."""
        # By the divergence, since values do not show small steps. No share changes by
        # more than a factor e within SAFE, and that is near enough.
        while np.abs(step).max() > SAFE and (
            self.divergence(outputs, np.tile(step, (len(outputs), 1))) > 0.9 * decrement
        ):
            step, decrement = step / 2, decrement / 2
        return step

    def _canonical(self, intercept):
        return intercept


class Logistic(Loss):
    """``log(1 + exp(-t f))`` for t of -1 and 1; one output."""

    curvature = 0.25

    def value(self, outputs):
        """Return the averaged loss."""
        margins = self.targets * outputs
        return float(self.weight @ np.logaddexp(0, -margins)[:, 0])

    def residuals(self, outputs):
        """Return the gradient."""
        margins = self.targets * outputs
        return -self.weight[:, None] * self.targets * expit(-margins)

    def divergence(self, outputs, moved):
        """Return what the loss rises above its tangent."""
        shares = np.hstack([expit(outputs), expit(-outputs)])
        return _divergence(
            shares, np.hstack([moved, np.zeros_like(moved)]), self.weight
        )

    def intercept_derivatives(self, outputs):
        """Return gradient and Hessian in the intercept."""
        curvature = expit(outputs) * expit(-outputs)
        return self.residuals(outputs).sum(axis=0), (self.weight @ curvature)[:, None]


class Multinomial(Loss):
    """``log(sum of exp(f)) - f_y``; one output a class, targets are indicators."""

    curvature = 0.5

    def value(self, outputs):
        """Return the averaged loss."""
        lowered = outputs - outputs.max(axis=1, keepdims=True)
        own = (self.targets * lowered).sum(axis=1)
        return float(self.weight @ (np.log(np.exp(lowered).sum(axis=1)) - own))

    def residuals(self, outputs):
        """Return the gradient."""
        return self.weight[:, None] * (_softmax(outputs) - self.targets)

    def divergence(self, outputs, moved):
        """Return what the loss rises above its tangent."""
        return _divergence(_softmax(outputs), moved, self.weight)

    def intercept_derivatives(self, outputs):
        """Return gradient and Hessian in the intercept."""
        shares = _softmax(outputs)
        hessian = -(shares.T * self.weight) @ shares
        hessian.flat[:: len(hessian) + 1] += self.weight @ shares
        return self.weight @ (shares - self.targets), hessian

    def _canonical(self, intercept):
        # The loss does not see their mean.
        return intercept - intercept.mean()


class Squared(Loss):
    """``1/2 |f - y|^2``, the outputs added up."""

    def value(self, outputs):
        """Return the averaged loss."""
        return float(0.5 * self.weight @ ((outputs - self.targets) ** 2).sum(axis=1))

    def residuals(self, outputs):
        """Return the gradient."""
        return self.weight[:, None] * (outputs - self.targets)

    def divergence(self, outputs, moved):
        """Return what the loss rises above its tangent."""
        return float(0.5 * self.weight @ (moved**2).sum(axis=1))

    def intercept_derivatives(self, outputs):
        """Return gradient and Hessian in the intercept."""
        return self.residuals(outputs).sum(axis=0), np.eye(outputs.shape[1])

    def best_intercept(self, outputs, start):
        """Return the intercept that minimises the loss, in closed form."""
        return self.weight @ (self.targets - outputs)


def _softmax(outputs):
    # SciPy's takes ten times as long where samples are few, and steps are many.
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _divergence(shares, moved, weight):
    """Divergence of ``log(sum of exp(f))`` with softmax `shares`, averaged."""
    # log(sum of p exp(m)) - sum of p m, in terms that are all at least 0.
    moved = moved - (shares * moved).sum(axis=1, keepdims=True)
    if np.abs(moved).max() > LARGE:
        return np.inf
    bends = np.where(
        np.abs(moved) < SMALL, moved**2 * (0.5 + moved / 6), np.expm1(moved) - moved
    )
    return float(weight @ np.log1p((shares * bends).sum(axis=1)))


#: Losses by name.
LOSSES = {"logistic": Logistic, "multinomial": Multinomial, "squared": Squared}


def read_targets(targets, loss, n_samples, n_outputs=None):
    """Check targets and give them the form that the loss works with.

    Parameters
    ----------
    targets : ndarray of shape (n_samples,) or (n_samples, n_outputs)

    loss : {"logistic", "multinomial", "squared"}

    n_samples : int

    n_outputs : int, default=None
        Classes of the multinomial loss, where some have no sample.

    Returns
    -------
    targets : ndarray of shape (n_samples, m)

    Raises
    ------
    ValueError
        If the loss is unknown, or the targets are not made for it.
    """
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {list(LOSSES)}, got {loss!r}.")
    targets = np.asarray(targets)
    allowed = (1, 2) if loss == "squared" else (1,)
    if targets.ndim not in allowed or len(targets) != n_samples:
        raise ValueError(
            f"targets must have shape ({n_samples},)"
            + (f" or ({n_samples}, n_outputs)" if loss == "squared" else "")
            + f" for loss={loss!r}, got shape {targets.shape}."
        )
    if n_outputs is not None and loss != "multinomial":
        raise ValueError(f"n_outputs is for loss='multinomial', got loss={loss!r}.")
    if not np.isfinite(targets.astype(np.float64)).all():
        raise ValueError("targets must be finite, got NaN or infinity.")
    if loss == "squared":
        return targets.astype(np.float64).reshape(n_samples, -1)
    if loss == "logistic":
        if not np.isin(targets, (0, 1)).all():
            raise ValueError("targets must be 0 or 1 for loss='logistic'.")
        return np.where(targets == 1, 1.0, -1.0)[:, None]
    if targets.dtype.kind not in "iu" or targets.min() < 0:
        raise ValueError(
            "targets must be integers from 0 for loss='multinomial', one a class."
        )
    n_classes = int(targets.max()) + 1 if n_outputs is None else n_outputs
    if targets.max() >= n_classes:
        raise ValueError(
            f"targets must be below n_outputs={n_outputs} for loss='multinomial', got "
            f"{targets.max()}."
        )
    return (targets[:, None] == np.arange(n_classes)).astype(np.float64)
