"""The regularisation path: the risk minimised over larger and larger balls."""

import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from skattn._fitting import local_generator
from skattn.margin import MarginProblem, MarginSolution, solve
from skattn.margin._norms import EntrywiseNorm, NuclearNorm
from skattn.theory._alignment import alignment
from skattn.theory._excess_risk import ExcessRisk
from skattn.theory._losses import LOSSES
from skattn.theory._norm_balls import EntrywiseBall, NuclearBall
from skattn.theory._reading import index_of_position, read_floats, read_head, signs_of
from skattn.tokens import check_tokens
from skattn.tokens._selection import owners

# How often a search that stalls above the tolerance is set going again.
_MOST_ROUNDS = 10
_SVM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class RegularizationPath:
    """The best weights found in each of several balls.

    Attributes
    ----------
    radii : ndarray of shape (n_radii,)
        Largest norm allowed.

    coefs : ndarray of shape (n_radii, d) or (n_radii, d, d_q)
        The weights found, a prompt or W.

    norms : ndarray of shape (n_radii,)
        Their norms: the radius, unless a smaller norm is better.

    losses : ndarray of shape (n_radii,)
        Their risk.

    log_excess : ndarray of shape (n_radii,)
        Logarithm of the risk above that of attending to the best tokens alone. It keeps
        its digits where `losses` have become equal.

    alignments : ndarray of shape (n_radii,)
        Cosine between the weights and the attention SVM of `selected`; NaN where there
        is none or weights are zero.

    gaps : ndarray of shape (n_radii,)
        Frank-Wolfe gap of `log_excess`: by how much it could fall within the ball if it
        were linear. 0 exactly at stationary points.

    n_iter : ndarray of shape (n_radii,)
        Iterations of L-BFGS, all starts together.

    selected : ndarray of shape (n,)
        Position of the token of each sample that the SVM selects.

    svm : MarginSolution
        The attention SVM of `selected`.
    """

    radii: np.ndarray
    coefs: np.ndarray
    norms: np.ndarray
    losses: np.ndarray
    log_excess: np.ndarray
    alignments: np.ndarray
    gaps: np.ndarray
    n_iter: np.ndarray
    selected: np.ndarray
    svm: MarginSolution

    def to_frame(self):
        """Return a pandas dataframe with one row a radius, without the weights."""
        import pandas as pd

        return pd.DataFrame(
            {
                "radius": self.radii,
                "norm": self.norms,
                "loss": self.losses,
                "log_excess": self.log_excess,
                "alignment": self.alignments,
                "gap": self.gaps,
                "n_iter": self.n_iter,
            }
        )


def regularization_path(
    X,
    y,
    head,
    query=None,
    *,
    radii=(1, 2, 5, 10, 20, 50, 100, 200, 600),
    selected=None,
    loss="logistic",
    norm="fro",
    n_restarts=0,
    tol=1e-5,
    max_iter=5000,
    random_state=None,
):
    """Minimise the risk of attention over balls of growing radius.

    Under a fixed head v, the risk ``mean loss(y_i v' X_i' softmax(X_i W z_i))`` is
    minimised over ``|W| <= R`` for each R. As R grows, W / R converges to the direction
    of the attention SVM of the optimal tokens, those that the head scores highest
    (regularisation path of arXiv 2308.16898; of arXiv 2306.13596 for a prompt).

    Parameters
    ----------
    X : array-like of shape (n, T, d), list of (T_i, d), Tokens, or table
        Any input form of `skattn.check_tokens`.

    y : array-like of shape (n,)
        Two labels; the second in sorted order is the positive one. Labels of -1 and 1
        can all be equal.

    head : array-like of shape (d,)
        The linear head v that scores tokens.

    query : array-like of shape (n, d_q), default=None
        As in `attention_svm`.

    radii : array-like of shape (n_radii,), default=(1, 2, 5, ..., 200, 600)
        The radii R, above 0. They are solved in ascending order.

    selected : array-like of int of shape (n,), default=None
        Position of the token of each sample whose attention SVM the path is compared
        with. None: the optimal tokens, the first among equals.

    loss : {"logistic", "exponential", "correlation"}, default="logistic"
        The decreasing loss.

    norm : {"fro", "nuc"} or float, default="fro"
        Norm of the ball and of the SVM: Frobenius, nuclear, or a number p > 1 for the
        l_p norm of the entries. Searches are slow for p close to 1.

    n_restarts : int, default=0
        Number of further searches at each radius, from random directions; the best of
        all is kept.

    tol : float, default=1e-5
        Largest Frank-Wolfe gap to accept.

    max_iter : int, default=5000
        Largest number of iterations of one search.

    random_state : int, RandomState instance or None, default=None
        Draws the random directions.

    Returns
    -------
    path : RegularizationPath
        In the order of `radii`: weights, losses, alignments and gaps.

    Raises
    ------
    ValueError
        If shapes do not agree, `y` does not hold two labels, a parameter is invalid, or
        the risk does not depend on the weights.

    Warns
    -----
    ConvergenceWarning
        If a gap stayed above `tol`.

    Notes
    -----
    The risk is not convex in W. Each radius is searched from the solution before, from
    the attention SVM where it exists, and from random directions; what is returned is
    the best stationary point found, and its gap says how stationary it is. A solution
    of a smaller ball is never better.

    The search is L-BFGS on the logarithm of the excess risk, which is as well scaled at
    weights of norm 600 as near zero, over a smooth map onto the ball.

    Examples
    --------
    >>> from skattn.theory import regularization_path
    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]]
    >>> path = regularization_path(
    ...     X, ["yes", "no"], head=[1.0, 2.0], radii=[2, 20, 200]
    ... )
    >>> path.alignments.round(4)
    array([0.9846, 0.9995, 1.    ])
    """
    tokens = check_tokens(X, query=query)
    signs = signs_of(y, len(tokens))
    head = read_head(head, tokens)
    radii = _read_radii(radii)
    _check_options(loss, n_restarts, tol, max_iter)
    values = tokens.values.astype(np.float64)
    gammas = np.repeat(signs, tokens.lengths) * (values @ head)
    best = _first_best_rows(gammas, tokens)
    if selected is None:
        selected = tokens.positions[best]
    problem = MarginProblem(
        tokens, index_of_position(tokens, selected), query=tokens.query, norm=norm
    )
    risk = ExcessRisk(
        values - np.repeat(values[best], tokens.lengths, axis=0),
        np.ones((len(tokens), 1)) if tokens.query is None else tokens.query,
        tokens.offsets,
        gammas,
        loss,
    )
    if risk.is_constant:
        raise ValueError(
            "The risk does not depend on the weights: head scores all tokens of each "
            "sample equally, or query is zero. Use another head, samples of several "
            "tokens, or other queries."
        )
    rng = local_generator(random_state)
    svm = solve(problem, tol=_SVM_TOLERANCE)
    search = _Search(risk, problem, tol, max_iter)
    found = _follow(search, radii, svm, n_restarts, rng)
    gaps = np.array([point.gap for point in found])
    if gaps.max() > tol:
        worst = int(gaps.argmax())
        warnings.warn(
            f"The search stopped at a Frank-Wolfe gap of {gaps[worst]:.1e} at radius "
            f"{radii[worst]:g}, above tol={tol:g}. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    coefs = np.stack([search.coef(point) for point in found])
    log_excess = np.array([point.value for point in found])
    return RegularizationPath(
        radii=radii,
        coefs=coefs,
        norms=np.array([problem.norm.value(coef) for coef in coefs]),
        losses=risk.least + np.exp(log_excess),
        log_excess=log_excess,
        alignments=np.array([_alignment_or_nan(coef, svm.coef) for coef in coefs]),
        gaps=gaps,
        n_iter=np.array([point.n_iter for point in found]),
        selected=np.asarray(selected),
        svm=svm,
    )


@dataclass(frozen=True)
class _Point:
    """Where a search ended, in the coordinates of the search."""

    coef: np.ndarray
    value: float
    gap: float
    n_iter: int


class _Search:
    """Minimise the logarithm of the excess risk over a ball."""

    def __init__(self, risk, problem, tol, max_iter):
        self._norm = problem.norm
        self._coef_shape = problem.coef_shape
        self._tol = tol
        self._max_iter = max_iter
        self._left, self._right = np.eye(risk.shape[0]), np.eye(risk.shape[1])
        if not isinstance(self._norm, EntrywiseNorm):
            # Neither of the other norms gains from leaving the span of the data.
            self._left, self._right = risk.spans()
        self._risk = risk.in_coordinates(self._left, self._right)
        shape = self._risk.shape
        if isinstance(self._norm, NuclearNorm):
            self._ball = NuclearBall(shape)
        else:
            self._ball = EntrywiseBall(shape, getattr(self._norm, "p", 2.0))

    def steepest(self):
        """Return the direction in which the risk falls fastest from zero weights."""
        slope = self._risk.log_value(np.zeros(self._risk.shape))[1]
        return self._ball.lowest(slope, 1.0) if slope.any() else slope

    def random(self, rng):
        """Return a random direction."""
        return rng.standard_normal(self._risk.shape)

    def inside(self, coef):
        """Return what the data can tell of weights, in coordinates."""
        return self._left.T @ coef.reshape(len(self._left), -1) @ self._right

    def scaled(self, coef, radius):
        """Return the point of the sphere in a direction."""
        return coef * (radius / self._norm.value(coef))

    def coef(self, point):
        """Return the weights of a point, in the user's coordinates."""
        return (self._left @ point.coef @ self._right.T).reshape(self._coef_shape)

    def run(self, start, radius):
        """Search from a point of the ball."""
        coef, n_iter = start, 0
        best = None
        for _ in range(_MOST_ROUNDS):
            coef, n_done = self._descend(coef, radius, self._max_iter - n_iter)
            n_iter += n_done
            value, gradient = self._risk.log_value(coef)
            gap = self._gap(coef, gradient, radius)
            if best is None or value < best.value or gap < best.gap:
                best = _Point(coef, value, gap, n_iter)
            else:
                break
            if gap <= self._tol or n_iter >= self._max_iter:
                break
            coef = self._step_of_frank_wolfe(coef, value, gradient, radius)
        return best

    def _gap(self, coef, gradient, radius):
        return max(
            float(np.sum(gradient * coef) + radius * self._norm.dual_value(gradient)),
            0.0,
        )

    def _descend(self, coef, radius, max_iter):
        def value_and_gradient(parameters):
            coef = self._ball.coef(parameters, radius)
            value, gradient = self._risk.log_value(coef)
            return value, self._ball.pull_back(parameters, radius, gradient)

        result = minimize(
            value_and_gradient,
            self._ball.parameters(coef, radius),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": max_iter,
                "maxfun": 10 * max_iter,
                "maxcor": 50,
                "ftol": 0.0,
                "gtol": 1e-3 * self._tol,
            },
        )
        return self._ball.coef(result.x, radius), result.nit

    def _step_of_frank_wolfe(self, coef, value, gradient, radius):
        """Leave a point that is stationary for the map onto the ball, not the ball.

        Such are points of too low a rank, and points of the sphere where the risk falls
        inwards.
        """
        target = self._ball.lowest(gradient, radius)
        best = coef
        for step in 0.5 ** np.arange(1, 25):
            candidate = coef + step * (target - coef)
            new_value = self._risk.log_value(candidate)[0]
            if new_value < value:
                best, value = candidate, new_value
        return best


def _follow(search, radii, svm, n_restarts, rng):
    """Return the best point at each radius, in the order of `radii`."""
    found = [None] * len(radii)
    direction = search.steepest()
    if not direction.any():
        direction = search.random(rng)
    directions_of_svm = []
    if np.isfinite(svm.coef).all() and svm.coef.any():
        directions_of_svm = [search.inside(svm.coef)]
    before = None
    for index in np.argsort(radii, kind="stable"):
        radius = radii[index]
        directions = [direction, *directions_of_svm]
        directions += [search.random(rng) for _ in range(n_restarts)]
        points = [search.run(search.scaled(one, radius), radius) for one in directions]
        if before is not None and before.value < min(point.value for point in points):
            points.append(search.run(before.coef, radius))
        best = min(points, key=lambda point: point.value)
        before = replace(best, n_iter=sum(point.n_iter for point in points))
        found[index] = before
        if best.coef.any():
            direction = best.coef
    return found


def _alignment_or_nan(coef, other):
    usable = all(np.isfinite(array).all() and array.any() for array in (coef, other))
    return alignment(coef, other) if usable else np.nan


def _first_best_rows(gammas, tokens):
    starts = tokens.offsets[:-1]
    best = np.repeat(np.maximum.reduceat(gammas, starts), tokens.lengths)
    candidates = np.flatnonzero(gammas == best)
    _, first = np.unique(owners(tokens)[candidates], return_index=True)
    return candidates[first]


def _read_radii(radii):
    radii = read_floats(radii, "radii")
    if radii.ndim != 1 or not radii.size:
        raise ValueError(
            f"radii must be a one-dimensional array of at least one number; got shape "
            f"{radii.shape}."
        )
    if not ((radii > 0) & np.isfinite(radii)).all():
        raise ValueError(f"radii must be above 0 and finite, got {radii.tolist()}.")
    return radii


def _check_options(loss, n_restarts, tol, max_iter):
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, LOSSES))}, got {loss!r}."
        )
    for name, value, least in (
        ("n_restarts", n_restarts, 0),
        ("max_iter", max_iter, 1),
    ):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise ValueError(
                f"{name} must be an integer of at least {least}, got {value!r}."
            )
    if not isinstance(tol, Real) or not tol > 0:
        raise ValueError(f"tol must be above 0, got {tol!r}.")
