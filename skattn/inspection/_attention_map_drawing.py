"""How an `AttentionMapDisplay` draws what it holds."""

import numpy as np

from skattn.inspection._shades import ABSENT, colormap
from skattn.inspection._style import COLORS, add_legend, axes_for, distinct_colors
from skattn.inspection._words import draw_words

# More labels beside a map than these would overlap.
_MOST_LABELS = 40
_SHADING_ALPHA = 0.5


class AttentionMapDrawing:
    """Maps, words and curves of a display, which has the attributes.

    They are `values`, `label`, `signed`, `words`, `series`, `feature_names`,
    `sample_labels` and `position_labels`.
    """

    def _plot_map(self, ax, scale, colorbar, image_kw):
        longest = max(map(len, self.values))
        rows = np.full((len(self.values), longest), np.nan)
        for row, values in zip(rows, self._scaled(scale), strict=True):
            row[: len(values)] = values
        height = 1.6 + min(0.25 * len(rows), 7)
        ax = axes_for(self, ax, figsize=(7.2, height))
        ax.set_facecolor(ABSENT)
        self.image_ = ax.imshow(
            rows,
            **{
                "aspect": "auto",
                "interpolation": "nearest",
                **self._colors(scale),
                **image_kw,
            },
        )
        ax.set_yticks(*_ticks(self._labels()))
        if self.position_labels is None:
            ax.xaxis.get_major_locator().set_params(integer=True)
        else:
            ax.set_xticks(*_ticks(self.position_labels), rotation=90)
        absent = " (grey: no token)" if np.isnan(rows).any() else ""
        ax.set(xlabel=f"position of the token{absent}", ylabel="sample")
        self._add_colorbar(colorbar, ax, self.image_, scale)

    def _plot_text(self, ax, scale, colorbar, text_kw):
        samples = self._shaded_words(scale)
        is_new = ax is None
        ax = axes_for(self, ax, figsize=(7.2, 1.2))
        self._add_colorbar(colorbar, ax, self._mappable(scale), scale, below=True)
        text_kw = dict(text_kw)
        self.texts_ = draw_words(
            ax,
            self._labels(),
            samples,
            size=text_kw.pop("fontsize", 10),
            can_grow=is_new,
            text_kw=text_kw,
        )

    def _plot_series(self, ax, scale, colorbar, image_kw, line_kw):
        if self.series is None:
            raise ValueError(
                "kind='series' needs the curves of the samples: pass series=."
            )
        axes = self._axes_for_series(ax)
        self.lines_, self.shades_ = [], []
        for one, label, series, values in zip(
            axes, self._labels("sample "), self.series, self._scaled(scale), strict=True
        ):
            edges = np.arange(len(values) + 1) - 0.5
            self.shades_.append(
                one.pcolormesh(
                    edges,
                    [0, 1],
                    values[None],
                    transform=one.get_xaxis_transform(),
                    **{
                        "alpha": _SHADING_ALPHA,
                        "zorder": 0,
                        "linewidth": 0,
                        **self._colors(scale),
                        **image_kw,
                    },
                )
            )
            self.lines_.append(self._plot_curves(one, series, line_kw))
            one.set(ylabel=label, xlim=(edges[0], edges[-1]))
            one.xaxis.get_major_locator().set_params(integer=True)
        axes[-1].set_xlabel("position of the token")
        n_features = len(self.lines_[0])
        # Names that say no more than a number are worth a small legend only.
        if self.feature_names is not None or 1 < n_features <= len(COLORS):
            add_legend(axes[0], self.lines_[0])
        self._add_colorbar(colorbar, list(axes), self.shades_[0], scale)

    def _axes_for_series(self, ax):
        n_samples = len(self.series)
        if ax is None and n_samples > 1:
            import matplotlib.pyplot as plt

            self.figure_, ax = plt.subplots(
                n_samples,
                1,
                layout="constrained",
                figsize=(7.2, 0.8 + 1.4 * n_samples),
            )
        if ax is None or np.ndim(ax) == 0:
            ax = axes_for(self, ax, figsize=(7.2, 2.4))
        axes = np.atleast_1d(ax)
        if axes.shape != (n_samples,):
            raise ValueError(
                f"The series of {n_samples} samples need as many axes, in an array of "
                f"one dimension; got {axes.size}. Pass ax=None or fewer samples."
            )
        self.ax_ = axes if n_samples > 1 else axes[0]
        self.figure_ = axes[0].figure
        return axes

    def _plot_curves(self, ax, series, line_kw):
        n_features = series.shape[1]
        names = self.feature_names
        if names is None:
            names = [f"feature {feature}" for feature in range(n_features)]
        colors = distinct_colors(n_features) if n_features > 1 else ["0.1"]
        lines = []
        for name, color, curve in zip(names, colors, series.T, strict=True):
            style = {"color": color, "lw": 1.3, "label": name, **line_kw}
            lines += ax.plot(curve, **style)
        return lines

    def _labels(self, prefix=""):
        if self.sample_labels is None:
            return [f"{prefix}{sample}" for sample in range(len(self.values))]
        return [str(label) for label in self.sample_labels]

    def _scaled(self, scale):
        """Return the values, divided by the largest of each sample if so scaled."""
        if scale == "all":
            return self.values
        return [row / _largest([row]) for row in self.values]

    def _limit(self, scale):
        return 1.0 if scale == "sample" else _largest(self.values)

    def _shaded_words(self, scale):
        """Return words and their shades, in which weights count as negative."""
        if self.words is None:
            raise ValueError(
                "The display has no words: pass words=, a list of words for each "
                "sample."
            )
        limit = self._limit(scale) * (1 if self.signed else -1)
        return [
            [(word, value / limit) for word, value in zip(words, row, strict=False)]
            for words, row in zip(self.words, self._scaled(scale), strict=True)
        ]

    def _colors(self, scale):
        limit = self._limit(scale)
        return {
            "cmap": colormap(self.signed),
            "vmin": -limit if self.signed else 0.0,
            "vmax": limit,
        }

    def _mappable(self, scale):
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        colors = self._colors(scale)
        return ScalarMappable(Normalize(colors["vmin"], colors["vmax"]), colors["cmap"])

    def _add_colorbar(self, wanted, ax, mappable, scale, below=False):
        if not wanted:
            return
        label = self.label
        if scale == "sample":
            label += " / largest of the sample"
        where = {"location": "bottom", "aspect": 50} if below else {}
        self.colorbar_ = self.figure_.colorbar(mappable, ax=ax, label=label, **where)


def _ticks(labels):
    """Return where to put labels, and those of them that do not overlap."""
    every = -(-len(labels) // _MOST_LABELS)
    return range(0, len(labels), every), labels[::every]


def _largest(rows):
    """Return the largest magnitude in some rows; 1 if there is nothing but zeros."""
    largest = max(np.nanmax(np.abs(row), initial=0.0) for row in rows)
    return float(largest) or 1.0
