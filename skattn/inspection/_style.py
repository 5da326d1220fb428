"""What the displays have in common."""

from sklearn.utils._optional_dependencies import check_matplotlib_support

#: Okabe and Ito's colours, which people with any colour vision can tell apart; black
#: and yellow left out, the one for text, the other too pale for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: How much of the colour is left of one curve among many.
FAINT = 0.25


def color(number):
    """Return the colour of the item of that number; they repeat."""
    return COLORS[number % len(COLORS)]


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
