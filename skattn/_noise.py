"""Which solvers can bear what makes training noisy, said to estimators and trainer."""


def refuse_noise(solver, *, average, **rates):
    """Refuse, by name, regularisers that a solver has no use for.

    Parameters
    ----------
    solver : str

    average : float
        Decay of the average of the weights; 0 for none.

    **rates : float
        Of what is random in each step, by the names of the parameters; 0 for none.

    Raises
    ------
    ValueError
        If noise meets a solver that compares losses, or an average one whose steps
        are not noisy.
    """
    if solver not in ("lbfgs", "polyak"):
        return
    for name, value in rates.items():
        if value > 0:
            raise ValueError(
                f"{name}={value} makes the loss of every step another one, and "
                f"solver={solver!r} compares losses. Use {name}=0, or solver='adam'."
            )
    if average > 0 and solver == "lbfgs":
        raise ValueError(
            f"average={average} smooths steps that are noisy, and those of "
            "solver='lbfgs' are not. Use average=0, or solver='adam'."
        )
