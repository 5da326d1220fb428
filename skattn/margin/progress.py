"""What a callback is told."""

from typing import NamedTuple


class Progress(NamedTuple):
    """Where a solver stands.

    Attributes
    ----------
    stage : str
        What has just ended: "warm_start", or a stage of the solver by name.

    n_iter : int
        Iterations so far.

    lower_bound, upper_bound : float
        The best bounds on the optimum so far.

    duality_gap : float
        Their relative distance; infinite without an upper bound.
    """

    stage: str
    n_iter: int
    lower_bound: float
    upper_bound: float
    duality_gap: float
