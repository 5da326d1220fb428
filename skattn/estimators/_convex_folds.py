"""How beta is chosen: a path of betas in every fold."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from skattn.convex import convex_path
from skattn.estimators._convex_state import state_of


@dataclass(frozen=True)
class BetaSearch:
    """The parameters of a choice of beta by cross-validation.

    Parameters are those of :class:`skattn.ConvexAttentionClassifierCV`.
    """

    betas: Any = 10
    eps: float = 1e-3
    cv: Any = None
    scoring: Any = None
    refit: bool = True
    n_jobs: int | None = None

    def __post_init__(self):
        """Refuse candidates that are no betas."""
        betas = np.asarray(self.betas, dtype=np.float64)
        if betas.ndim > 1 or betas.size == 0:
            raise ValueError(
                f"betas must be a number or a list of them, got shape {betas.shape}."
            )
        invalid = ~((betas > 0) & (betas < np.inf))
        if invalid.any():
            raise ValueError(
                f"betas must be above 0 and finite, got {betas[invalid][0]}."
            )

    def candidates(self, beta_max):
        """Return the betas from the largest to the smallest."""
        if isinstance(self.betas, Integral):
            return np.geomspace(beta_max, beta_max * self.eps, self.betas)
        return np.sort(np.asarray(self.betas, dtype=np.float64))[::-1]

    def splits(self, samples, classifier):
        """Return the training and held-out samples of each fold."""
        cv = check_cv(self.cv, samples.y, classifier=classifier)
        return list(cv.split(samples.X, samples.y))


@dataclass(frozen=True)
class BetaPath:
    """Fits the models of all betas on the samples of a fold.

    Parameters
    ----------
    betas : ndarray of shape (n_betas,)
        From the largest to the smallest.

    seed : int
        Draws the gates, the same in all folds.
    """

    betas: np.ndarray
    seed: int

    def __call__(self, model, inside):
        """Yield index, fitted attributes and success of each beta."""
        training = model._read_training(inside.X, inside.y, inside.sample_weight)
        gates, problem = model._make_problem(training, self.seed)
        path = convex_path(problem, self.betas, **model._solver_options())
        for index, solution in enumerate(path):
            state = state_of(gates, problem, solution)
            yield index, state, solution.status == "optimal"
