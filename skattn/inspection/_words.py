"""Words on coloured grounds, in axes of matplotlib and in HTML."""

from html import escape

import numpy as np

from skattn.inspection._shades import ink, shade

# In units of the size of the font.
_LINE_HEIGHT, _SPACE, _BETWEEN_SAMPLES, _SMALLEST = 1.75, 0.55, 0.7, 0.5
_POINTS_PER_INCH = 72


def draw_words(ax, labels, samples, *, size, can_grow, text_kw):
    """Write samples into axes, wrapped to their width.

    Parameters
    ----------
    ax : matplotlib Axes
        Their size is that of the words, below each other.

    labels : list of str
        What stands before each sample.

    samples : list of list of (str, float)
        Words, and the value of each from -1 to 1; NaN for a word that is no token.

    size : float
        Size of the font in points.

    can_grow : bool
        Whether the figure may get the height that the words need. If not, the font
        shrinks, to half its size at most, until they fit.

    text_kw : dict
        Keywords of ``Axes.annotate``.

    Returns
    -------
    texts : list of list of matplotlib Annotation
        The words of each sample.
    """
    ax.set_axis_off()
    # Settles how wide the axes are.
    ax.figure.draw_without_rendering()
    width, height = (
        _POINTS_PER_INCH * length / ax.figure.dpi for length in ax.bbox.size
    )
    lines = [
        [_write(ax, label, None, size, text_kw)]
        + [_write(ax, word, value, size, text_kw) for word, value in sample]
        for label, sample in zip(labels, samples, strict=True)
    ]
    widths = [[_width(text) for text in line] for line in lines]
    indent = max(line[0] for line in widths) + _SPACE * size

    scale = 1.0
    places, needed = _places(widths, indent, width, size)
    while not can_grow and needed * scale > height and scale > _SMALLEST:
        scale *= 0.95
        places, needed = _places(widths, indent, width / scale, size)
    for line, of_line in zip(lines, places, strict=True):
        for text, (x, y) in zip(line, of_line, strict=True):
            text.xyann = (scale * x, -scale * y)
            text.set_fontsize(scale * size)
    if can_grow:
        figure = ax.figure
        beside = figure.get_figheight() - height / _POINTS_PER_INCH
        figure.set_figheight(beside + needed / _POINTS_PER_INCH)
    return [line[1:] for line in lines]


def words_as_html(labels, samples, titles):
    """Return samples as paragraphs of HTML with coloured words.

    Parameters
    ----------
    labels : list of str
        What stands before each sample.

    samples : list of list of (str, float)
        As in :func:`draw_words`.

    titles : list of list of str
        What is shown when the pointer is on a word.

    Returns
    -------
    html : str
        An element with all styles in it, in plain ASCII.
    """
    paragraphs = []
    for label, sample, of_sample in zip(labels, samples, titles, strict=True):
        words = [
            f'<span title="{escape(title)}" style="{_css(value)}">{escape(word)}</span>'
            for (word, value), title in zip(sample, of_sample, strict=True)
        ]
        paragraphs.append(
            '<p style="margin:0.4em 0"><span style="color:#666;margin-right:0.6em">'
            f"{escape(label)}</span>{' '.join(words)}</p>"
        )
    html = (
        '<div style="font-family:sans-serif;line-height:1.8;color:black;'
        'background:white;padding:0.5em">' + "\n".join(paragraphs) + "</div>"
    )
    # Whatever encoding the page has that it is put in.
    return html.encode("ascii", "xmlcharrefreplace").decode()


def _css(value):
    if np.isnan(value):
        return "color:#888"
    background = shade(value)
    red, green, blue = (round(255 * part) for part in background)
    return (
        f"background:rgb({red},{green},{blue});color:{ink(background)};"
        "border-radius:0.2em;padding:0.1em 0.2em"
    )


def _write(ax, word, value, size, text_kw):
    style = {"fontsize": size, "color": "0.5"}
    if value is not None and not np.isnan(value):
        background = shade(value)
        style["color"] = ink(background)
        style["bbox"] = {
            "boxstyle": "round,pad=0.15",
            "facecolor": background,
            "edgecolor": "none",
        }
    return ax.annotate(
        word,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 0),
        textcoords="offset points",
        verticalalignment="top",
        annotation_clip=False,
        # Prices in dollars are no formulas.
        parse_math=False,
        **{**style, **text_kw},
    )


def _width(text):
    return text.get_window_extent().width * _POINTS_PER_INCH / text.figure.dpi


def _places(widths, indent, width, size):
    """Return where each word goes, right and down in points, and the height of all."""
    places, top = [], 0.5 * (_LINE_HEIGHT - 1) * size
    for line in widths:
        # The label first; its words beside it.
        of_line, left = [(0.0, top)], indent
        for word in line[1:]:
            if left + word > width and left > indent:
                left, top = indent, top + _LINE_HEIGHT * size
            of_line.append((left, top))
            left += word + _SPACE * size
        places.append(of_line)
        top += (_LINE_HEIGHT + _BETWEEN_SAMPLES) * size
    return places, top - _BETWEEN_SAMPLES * size
