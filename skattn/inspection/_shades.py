"""Colours for weights and contributions of tokens, also without matplotlib."""

import numpy as np

from skattn.inspection._style import COLORS

#: Of the largest weight and of contributions against; of contributions for.
AGAINST, FOR = COLORS[0], COLORS[1]

#: Of what is no token.
ABSENT = "0.85"

# How bright each of red, green and blue looks (ITU-R BT.709).
_BRIGHTNESS = np.array([0.2126, 0.7152, 0.0722])
# Below this, white is easier to read than black.
_DARK = 0.45


def shade(value):
    """Return the colour, red, green and blue up to 1, of a value from -1 to 1.

    White at 0. Weights are shown as negative numbers, since they have one side only.
    """
    full = _rgb(AGAINST if value < 0 else FOR)
    return tuple(1 - min(abs(value), 1) * (1 - full))


def ink(background):
    """Return the colour in which text can be read on a background."""
    return "white" if np.dot(_BRIGHTNESS, background) < _DARK else "black"


def colormap(signed):
    """Return the colours of weights from 0 to 1, or of contributions from -1 to 1."""
    from matplotlib.colors import LinearSegmentedColormap

    colors = [AGAINST, "white", FOR] if signed else ["white", AGAINST]
    return LinearSegmentedColormap.from_list("skattn", colors)


def _rgb(color):
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
