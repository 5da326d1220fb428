"""The part of the interior point's iterate that depends on the norm.

Each class holds a point W and offers what the main loop asks for: the scaling of the
current iterate, Newton directions, and how far they may be followed.
"""

from typing import NamedTuple

import numpy as np

from skattn.margin._scaling import FrobeniusScaling, NuclearScaling

#: Rounds of iterative refinement of a Newton direction.
MAX_REFINEMENTS = 12

#: Relative residual that needs no refinement.
ENOUGH = 1e-12


class Direction(NamedTuple):
    """A Newton direction: of W, of the duals, and of the matrices behind the norm."""

    point: np.ndarray
    dual: np.ndarray
    X: np.ndarray | None = None
    Z: np.ndarray | None = None
    size: float = 0.0


class FrobeniusPart:
    """Half the squared Frobenius norm: W and ``A*(a)`` are to become equal.

    Parameters
    ----------
    rows : FactoredRows

    dual : ndarray of shape (m,)
        The duals to start from.
    """

    #: Number of complementary pairs, the norm's share of the barrier parameter.
    degree = 0

    #: Their sum of products.
    complementarity = 0.0

    def __init__(self, rows, dual):
        self._rows = rows
        self.scaling = FrobeniusScaling()
        self.point = rows.adjoint(dual)

    def rescale(self, gradient):
        """Take in ``A*(a)`` of the current duals."""
        self._gradient = gradient

    def direction(self, system, weights, h, centre, previous=None):
        """Return the `Direction` towards the barrier parameter `centre`."""

        def residuals(solution, target):
            point, dual = solution
            gradient = self._rows.adjoint(dual)
            return (
                target[0] - point + gradient,
                target[1] - dual - weights * self._rows.margins(point),
            )

        target = (self._gradient - self.point, h)
        return Direction(*_refine(lambda goal: system.solve(*goal), residuals, target))

    def longest_steps(self, direction):
        """Longest primal and dual steps that keep the iterate interior."""
        return 1.0, 1.0

    def complementarity_after(self, direction, primal_step, dual_step):
        """Return `complementarity` after a step."""
        return 0.0

    def move(self, direction, primal_step, dual_step):
        """Follow the direction."""
        self.point = self.point + primal_step * direction.point


class NuclearPart:
    """Half the squared nuclear norm, as a semidefinite program.

    The norm of W is the least ``(tr P + tr R) / 2`` among positive semidefinite
    ``X = [[P, W], [W', R]]``. With sigma for that norm, X is complementary to
    ``Z = [[sigma, -A*(a)], [-A*(a)', sigma]] / 2``.

    Parameters
    ----------
    rows : FactoredRows

    dual : ndarray of shape (m,)
        The duals to start from.
    """

    def __init__(self, rows, dual):
        self._rows = rows
        self.degree = sum(rows.shape)
        self._size = 2 * float(np.linalg.norm(rows.adjoint(dual), 2))
        if self._size == 0:
            self._size = 1.0
        self._X = 2 * self._size / self.degree * np.eye(self.degree)

    @property
    def point(self):
        """W."""
        return self._X[: self._rows.shape[0], self._rows.shape[0] :]

    @property
    def complementarity(self):
        """Sum of the products of X and Z."""
        return float(np.sum(self._X * self._Z))

    def rescale(self, gradient):
        """Take in ``A*(a)`` of the current duals."""
        self._Z = self._dual_matrix(self._size, gradient)
        self.scaling = NuclearScaling(self._X, self._Z, self._rows.shape[0])

    def direction(self, system, weights, h, centre, previous=None):
        """Return the `Direction` towards the barrier parameter `centre`.

        With `previous`, the affine direction, Mehrotra's second-order correction is
        added.
        """
        rows, scaling = self._rows, self.scaling
        n_left = rows.shape[0]
        spectrum, G = scaling.spectrum, scaling.matrix
        goal = np.diag(centre - spectrum**2)
        if previous is not None:
            X, Z = self._scaled(previous)
            goal -= 0.5 * (X @ Z + Z @ X)
        goal = 2 * goal / (spectrum[:, None] + spectrum)
        free = scaling.root @ goal @ scaling.root.T

        # A change of sigma by t moves X by -t/2 G^2, which borders the system.
        border = (G @ G)[:n_left, n_left:]
        own = 1 + 0.25 * float(np.sum(G * G))
        border_point, border_dual = system.solve(-0.5 * border, np.zeros(rows.size))
        slope = own - 0.5 * float(np.sum(border * rows.adjoint(border_dual)))

        def solve(target):
            point, dual = system.solve(target[0], target[1])
            pull = 0.5 * float(np.sum(border * rows.adjoint(dual)))
            size = (target[2] + pull) / slope
            return point + size * border_point, dual + size * border_dual, size

        def residuals(solution, target):
            point, dual, size = solution
            gradient = rows.adjoint(dual)
            return (
                target[0] - point + scaling.apply(gradient) - 0.5 * size * border,
                target[1] - dual - weights * rows.margins(point),
                target[2] - own * size + 0.5 * float(np.sum(border * gradient)),
            )

        shortage = 0.5 * float(np.trace(self._X) + np.trace(free)) - self._size
        target = (free[:n_left, n_left:], h, shortage)
        _, dual, size = _refine(solve, residuals, target)
        # X from its own equation, which holds to the last digit, and W from X.
        Z = self._dual_matrix(size, rows.adjoint(dual))
        X = free - G @ Z @ G
        X = 0.5 * (X + X.T)
        return Direction(X[:n_left, n_left:], dual, X, Z, size)

    def longest_steps(self, direction):
        """Longest primal and dual steps that keep the iterate interior."""
        spectrum = self.scaling.spectrum
        roots = np.sqrt(np.outer(spectrum, spectrum))
        steps = []
        for change in self._scaled(direction):
            change = 0.5 * (change + change.T) / roots
            smallest = np.linalg.eigvalsh(change)[0]
            steps.append(1.0 if smallest >= -1 else -1 / smallest)
        return tuple(steps)

    def complementarity_after(self, direction, primal_step, dual_step):
        """Return `complementarity` after a step."""
        X = self._X + primal_step * direction.X
        return float(np.sum(X * (self._Z + dual_step * direction.Z)))

    def move(self, direction, primal_step, dual_step):
        """Follow the direction."""
        self._X = self._X + primal_step * direction.X
        self._size += dual_step * direction.size

    def _dual_matrix(self, size, gradient):
        n_left, n_right = self._rows.shape
        return 0.5 * np.block(
            [[size * np.eye(n_left), -gradient], [-gradient.T, size * np.eye(n_right)]]
        )

    def _scaled(self, direction):
        root, inverse_root = self.scaling.root, self.scaling.inverse_root
        return inverse_root @ direction.X @ inverse_root.T, root.T @ direction.Z @ root


def _refine(solve, residuals, target):
    solution = best = solve(target)
    smallest = np.inf
    for _ in range(MAX_REFINEMENTS):
        errors = residuals(solution, target)
        error = sum(
            np.linalg.norm(lacking) / (np.linalg.norm(part) + np.finfo(float).tiny)
            for lacking, part in zip(errors, solution, strict=True)
        )
        if not error < smallest:
            break
        smallest, best = error, solution
        if error < ENOUGH:
            break
        correction = solve(errors)
        solution = tuple(
            part + change for part, change in zip(solution, correction, strict=True)
        )
    return best
