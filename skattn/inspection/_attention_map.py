"""Which tokens get attention, or decide: a map, coloured words or shaded series."""

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from skattn.inspection._attention_map_drawing import AttentionMapDrawing
from skattn.inspection._attention_step import AttentionStep, rows_of_head
from skattn.inspection._map_inputs import (
    are_tokens,
    column_names,
    contributions_to,
    curves_of,
    read_names,
    read_series,
    read_words,
)
from skattn.inspection._samples import is_table
from skattn.inspection._words import words_as_html

_KEYWORDS = {
    "map": ("image_kw",),
    "text": ("text_kw",),
    "series": ("image_kw", "line_kw"),
}
_KINDS = tuple(_KEYWORDS)
_SCALES = ("all", "sample")


class AttentionMapDisplay(AttentionMapDrawing):
    """The attention over tokens of samples, or what tokens contribute to a class.

    It is recommended to use :meth:`from_estimator` or :meth:`from_weights` to create a
    display. All parameters are stored as attributes.

    Parameters
    ----------
    values : list of ndarray of shape (n_positions_i,)
        One number a token of each sample; NaN at absent tokens.

    label : str, default="attention weight"
        What the numbers are.

    signed : bool, default=False
        Whether they may be negative, as contributions are.

    words : list of list of str, default=None
        The words of each sample, for ``kind="text"``. As many as the sample has
        positions; those behind the last token may be left out.

    series : list of ndarray of shape (n_positions_i, n_features), default=None
        The curves of each sample, for ``kind="series"``; NaN at absent tokens.

    feature_names : list of str, default=None
        Names of the curves.

    sample_labels : list of str, default=None
        What to call the samples; by default by their numbers.

    position_labels : list of str, default=None
        What to call the positions in a map, such as the columns of a table; by default
        by their numbers.

    Attributes
    ----------
    ax_ : matplotlib Axes or ndarray of such
        Axes with the picture; for the series of several samples, one for each.

    figure_ : matplotlib Figure
        Figure with the picture.

    colorbar_ : matplotlib Colorbar or None
        What the colours mean.

    image_ : matplotlib AxesImage or None
        The map.

    texts_ : list of list of matplotlib Annotation or None
        The words of each sample.

    lines_ : list of list of matplotlib Line2D or None
        The curves of each sample.

    shades_ : list of matplotlib QuadMesh or None
        The shading of the frames of each sample.

    See Also
    --------
    faithfulness : Tests whether the tokens with most attention decide.
    SparsityDisplay : How few tokens have most of the attention.

    Examples
    --------
    >>> from skattn.inspection import AttentionMapDisplay
    >>> display = AttentionMapDisplay.from_weights(
    ...     [[0.1, 0.2, 0.7], [0.9, 0.1]],
    ...     words=[["not", "so", "bad"], ["great", "film"]],
    ...     kind="text",
    ... )
    >>> [text.get_text() for text in display.texts_[1]]
    ['great', 'film']
    >>> "great</span>" in display.to_html()
    True
    """

    def __init__(
        self,
        *,
        values,
        label="attention weight",
        signed=False,
        words=None,
        series=None,
        feature_names=None,
        sample_labels=None,
        position_labels=None,
    ):
        self.values = values
        self.label = label
        self.signed = signed
        self.words = words
        self.series = series
        self.feature_names = feature_names
        self.sample_labels = sample_labels
        self.position_labels = position_labels

    @classmethod
    def from_weights(
        cls,
        weights,
        *,
        values="weights",
        head=None,
        words=None,
        series=None,
        feature_names=None,
        sample_labels=None,
        position_labels=None,
        kind="map",
        scale="all",
        ax=None,
    ):
        """Plot weights, or any other numbers of tokens.

        Parameters
        ----------
        weights : array-like of shape (n_samples, n_positions) or (n_samples, n_heads, \
                n_positions), or list of (n_positions_i,) or (n_heads, n_positions_i) \
                arrays
            One number a token; NaN marks an absent one.

        values : {"weights", "contributions"}, default="weights"
            Whether numbers are weights, from 0 on, or may be negative.

        head : int, default=None
            Which head of several; None takes their mean.

        words : list of list of str, default=None
            The words of each sample, for ``kind="text"``.

        series : array-like of shape (n_samples, n_positions, n_features), or list of \
                (n_positions_i, n_features) arrays, default=None
            The curves of each sample, for ``kind="series"``.

        feature_names : list of str, default=None
            Names of the curves.

        sample_labels : array-like of shape (n_samples,), default=None
            What to call the samples, such as their classes.

        position_labels : array-like of shape (n_positions,), default=None
            What to call the positions in a map.

        kind : {"map", "text", "series"}, default="map"
            As in :meth:`plot`.

        scale : {"all", "sample"}, default="all"
            As in :meth:`plot`.

        ax : matplotlib Axes, or array of such, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : AttentionMapDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If weights are negative or shapes disagree.
        """
        _check_choice("values", values, ("weights", "contributions"))
        if len(weights) == 0:
            raise ValueError("weights has no sample; a minimum of 1 is required.")
        rows = rows_of_head(weights, head)
        signed = values == "contributions"
        for sample, row in enumerate(rows):
            if np.isinf(row).any():
                raise ValueError(f"weights[{sample}] contains infinity.")
            if not signed and (row < 0).any():
                raise ValueError(
                    f"weights[{sample}] is negative at token {int(np.nanargmin(row))}; "
                    "for numbers with a sign pass values='contributions'."
                )
        return cls._of_rows(
            rows,
            "contribution" if signed else _label_of_weights(head),
            signed,
            words=words,
            series=series,
            feature_names=feature_names,
            sample_labels=sample_labels,
            position_labels=position_labels,
        ).plot(ax, kind=kind, scale=scale)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        values="weights",
        head=None,
        target=None,
        query=None,
        words=None,
        series=None,
        feature_names=None,
        sample_labels=None,
        position_labels=None,
        kind="map",
        scale="all",
        ax=None,
    ):
        """Plot the attention of an estimator, or what tokens contribute.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator of attention, or a pipeline or search that ends with one. The
            tokens are those that reach the last step.

        X : any form that the estimator reads
            The samples, some tens for a map, a few for text and series.

        values : {"weights", "contributions"}, default="weights"
            Attention weights, which say where the estimator looks, or the signed
            `token_contributions`, which say for and against what a token speaks.

        head : int, default=None
            Whose weights, of several heads; None takes their mean.

        target : class label, default=None
            To which class tokens contribute; None takes the class that is predicted
            for each sample.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``.

        words : list of list of str, default=None
            The words of each sample, for ``kind="text"``. As many as the sample has
            positions; those behind the last token may be left out.

        series : array-like of shape (n_samples, n_positions, n_features), or list of \
                (n_positions_i, n_features) arrays, default=None
            The curves of each sample, for ``kind="series"``. By default those in `X`.

        feature_names : list of str, default=None
            Names of the curves.

        sample_labels : array-like of shape (n_samples,), default=None
            What to call the samples, such as their classes.

        position_labels : array-like of shape (n_positions,), default=None
            What to call the positions in a map. By default the columns, if X is a
            dataframe whose columns are the tokens.

        kind : {"map", "text", "series"}, default="map"
            As in :meth:`plot`.

        scale : {"all", "sample"}, default="all"
            As in :meth:`plot`.

        ax : matplotlib Axes, or array of such, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : AttentionMapDisplay
            The display, plotted.

        Raises
        ------
        TypeError
            If `estimator` has no attention.

        ValueError
            If an option is unknown or has no meaning for `values`, or lengths disagree.

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from skattn import TokenScaler, TokenSVM
        >>> from skattn.datasets import make_token_selection
        >>> from skattn.inspection import AttentionMapDisplay
        >>> X, y, _ = make_token_selection(n_tokens=(4, 9), random_state=0)
        >>> model = make_pipeline(TokenScaler(), TokenSVM()).fit(X, y)
        >>> display = AttentionMapDisplay.from_estimator(
        ...     model, X[:20], values="contributions", sample_labels=y[:20]
        ... )
        >>> display.label
        'contribution to the predicted class'
        """
        _check_choice("values", values, ("weights", "contributions"))
        step = AttentionStep.of(estimator, X, query)
        if values == "weights":
            if target is not None:
                raise ValueError(
                    "target is a class, to which weights do not belong: it needs "
                    "values='contributions'."
                )
            rows, label = step.weights(head), _label_of_weights(head)
        else:
            if head is not None:
                raise ValueError(
                    "head chooses among weights; contributions are summed over heads: "
                    "it needs values='weights'."
                )
            rows, label = contributions_to(step, target)
        if series is None and kind == "series":
            series = curves_of(X, rows)
            if feature_names is None:
                feature_names = column_names(X[0]) if not is_table(X) else None
        if position_labels is None and are_tokens(columns := column_names(X), rows):
            position_labels = columns
        return cls._of_rows(
            rows,
            label,
            values == "contributions",
            words=words,
            series=series,
            feature_names=feature_names,
            sample_labels=sample_labels,
            position_labels=position_labels,
        ).plot(ax, kind=kind, scale=scale)

    @classmethod
    def _of_rows(
        cls,
        rows,
        label,
        signed,
        *,
        words,
        series,
        feature_names,
        sample_labels,
        position_labels,
    ):
        """Make a display of values and what the caller passed beside them."""
        n_positions = max(map(len, rows))
        series = read_series(series, rows)
        n_features = None if series is None else series[0].shape[1]
        return cls(
            values=rows,
            label=label,
            signed=signed,
            words=read_words(words, rows),
            series=series,
            feature_names=read_names("feature_names", feature_names, n_features),
            sample_labels=read_names("sample_labels", sample_labels, len(rows)),
            position_labels=read_names("position_labels", position_labels, n_positions),
        )

    def plot(
        self,
        ax=None,
        *,
        kind="map",
        scale="all",
        colorbar=True,
        image_kw=None,
        text_kw=None,
        line_kw=None,
    ):
        """Plot the tokens with colours.

        Weights go from white to blue. Contributions for the class are red, against it
        blue. Absent tokens are left blank: grey in a map, a gap in a series, and
        without ground in a text.

        Parameters
        ----------
        ax : matplotlib Axes, or array of such, default=None
            Axes to plot on, for series one a sample; None makes a figure.

        kind : {"map", "text", "series"}, default="map"
            - ``"map"``: a row a sample, a column a position;
            - ``"text"``: the words of each sample on coloured ground; in given axes
              the font shrinks where they would not fit;
            - ``"series"``: the curves of each sample, with frames shaded.

        scale : {"all", "sample"}, default="all"
            Whether the strongest colour is that of the largest number of all samples or
            of each sample, which compares samples of different lengths.

        colorbar : bool, default=True
            Whether to draw what the colours mean.

        image_kw : dict, default=None
            Keywords of ``Axes.imshow`` for a map, or of ``Axes.pcolormesh`` for the
            shading of a series.

        text_kw : dict, default=None
            Keywords of ``Axes.annotate`` for words.

        line_kw : dict, default=None
            Keywords of ``Axes.plot`` for curves.

        Returns
        -------
        display : AttentionMapDisplay
            Object that stores what was plotted.

        Raises
        ------
        ValueError
            If `kind` or `scale` is unknown, keywords are for another kind, or there are
            no words or series to plot.

        ImportError
            If matplotlib is not installed.
        """
        _check_choice("kind", kind, _KINDS)
        _check_choice("scale", scale, _SCALES)
        keywords = {"image_kw": image_kw, "text_kw": text_kw, "line_kw": line_kw}
        for name, value in keywords.items():
            if value is not None and name not in _KEYWORDS[kind]:
                raise ValueError(f"{name} has no meaning for kind={kind!r}.")
        check_matplotlib_support(f"{type(self).__name__}.plot")
        self.image_ = self.texts_ = self.lines_ = self.shades_ = self.colorbar_ = None
        if kind == "map":
            self._plot_map(ax, scale, colorbar, image_kw or {})
        elif kind == "text":
            self._plot_text(ax, scale, colorbar, text_kw or {})
        else:
            self._plot_series(ax, scale, colorbar, image_kw or {}, line_kw or {})
        return self

    def to_html(self, *, scale="all"):
        """Return the words of each sample on coloured grounds, as HTML.

        The value of a word is shown when the pointer is on it. This needs no
        matplotlib, if the display was made by its constructor.

        Parameters
        ----------
        scale : {"all", "sample"}, default="all"
            As in :meth:`plot`.

        Returns
        -------
        html : str
            One element without references to others: show it with
            ``IPython.display.HTML``, or write it to a file of its own.

        Raises
        ------
        ValueError
            If the display has no words.
        """
        _check_choice("scale", scale, _SCALES)
        samples = self._shaded_words(scale)
        titles = [
            [
                "no token" if np.isnan(value) else f"{self.label} {value:.3g}"
                for value in row[: len(sample)]
            ]
            for row, sample in zip(self.values, samples, strict=True)
        ]
        return words_as_html(self._labels(), samples, titles)


def _check_choice(name, value, known):
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, got {value!r}.")


def _label_of_weights(head):
    return "attention weight" if head is None else f"attention weight of head {head}"
