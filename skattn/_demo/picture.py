"""The picture of the attention over several samples."""

import os

from skattn._demo.errors import UserError


def check_path(path):
    """Refuse a path at which no picture can be written, before any work is done.

    Parameters
    ----------
    path : Path
        Where the picture shall go.

    Returns
    -------
    can_draw : bool
        False when matplotlib is not installed.

    Raises
    ------
    UserError
        If the folder does not exist or is read-only, `path` is a folder, or matplotlib
        does not know the format.
    """
    folder = path.parent
    if not folder.is_dir():
        raise UserError(
            f"--output={path}: there is no folder {str(folder)!r}. Create it first."
        )
    if path.is_dir():
        raise UserError(f"--output={path} is a folder. Name a file in it.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UserError(f"--output={path} cannot be written. Name another file.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        return False
    formats = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in formats:
        raise UserError(
            f"--output={path}: the format of the picture follows the ending of the "
            f"name, which must be one of {', '.join(sorted(formats))}."
        )
    return True


def draw(panels, path):
    """Draw the attention over samples, one panel beside the other.

    Parameters
    ----------
    panels : list of Panel
        What to draw.

    path : Path
        Where to write the picture; its ending gives the format.
    """
    # No pyplot: it would choose a backend for the whole process.
    from matplotlib.figure import Figure

    n_rows = max(len(panel.weights) for panel in panels)
    figure = Figure(figsize=(7 * len(panels), 1.6 + 0.3 * n_rows), layout="constrained")
    figure.suptitle("Share of the attention that each token gets; grey: no token")
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(all_axes, panels, strict=True):
        axes.set_facecolor("0.85")
        image = axes.imshow(
            panel.weights,
            aspect="auto",
            interpolation="nearest",
            cmap="viridis",
            vmin=0.0,
        )
        axes.set_title(panel.title)
        axes.set_yticks(range(len(panel.row_labels)), panel.row_labels)
        axes.set_xlabel("position of the token in the sample")
        axes.set_ylabel("label of the sample")
        axes.xaxis.get_major_locator().set_params(integer=True)
        figure.colorbar(image, ax=axes, label="attention weight")
    figure.savefig(path, dpi=120)
