"""What the displays have in common."""

import math

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

#: Okabe and Ito's colours, which people with any colour vision can tell apart; black
#: and yellow left out, the one for text, the other too pale for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: How much of the colour is left of one curve among several.
FAINT = 0.25
# The more curves, the fainter, so that they do not add up to one dense area; but each
# is to be seen.
_FAINTEST = 0.04
_N_BEFORE_FAINTER = 20
# A legend with more entries covers the curves.
_LARGEST_INSIDE = 6
_ROWS_BESIDE = 18


def color(number):
    """Return the colour of the item of that number; they repeat."""
    return COLORS[number % len(COLORS)]


def distinct_colors(n_items):
    """Return a colour for each of several items; none repeats."""
    if n_items <= len(COLORS):
        return list(COLORS[:n_items])
    import matplotlib

    # The pale end is left out.
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, n_items)))


def faintness(n_curves):
    """Return the alpha of each of so many curves that are drawn faint."""
    share = min(1.0, _N_BEFORE_FAINTER / max(n_curves, 1))
    return max(_FAINTEST, FAINT * math.sqrt(share))


def add_legend(ax, handles):
    """Add a legend, beside the axes if inside it would cover much."""
    if len(handles) <= _LARGEST_INSIDE:
        ax.legend(handles=handles)
        return
    ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        borderaxespad=0.0,
        ncols=math.ceil(len(handles) / _ROWS_BESIDE),
    )


def axes_for(display, ax, figsize=None):
    """Return the axes to plot on, and note them as attributes of the display.

    Parameters
    ----------
    display : object
        Gets `ax_` and `figure_`.

    ax : matplotlib Axes or None
        As given to `plot`; None makes a figure.

    figsize : (float, float), default=None
        Size of a new figure, if not matplotlib's own.

    Returns
    -------
    ax : matplotlib Axes
        To plot on.
    """
    check_matplotlib_support(f"{type(display).__name__}.plot")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained", figsize=figsize)
    display.ax_, display.figure_ = ax, ax.figure
    return ax


def one_or_list(artists):
    """Return the only artist by itself, several as a list."""
    return artists[0] if len(artists) == 1 else artists
