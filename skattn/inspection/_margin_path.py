"""How attention approaches its support vector machine."""

import numpy as np
from sklearn.utils import check_array

from skattn.inspection._style import FAINT, axes_for, color, one_or_list

# From this ratio of the last iteration to the first on, a logarithmic axis shows more.
_LOG_RATIO = 50


class MarginPathDisplay:
    """Alignment with the attention SVM, and the largest weight, over iterations.

    It is recommended to use :meth:`from_monitor`, :meth:`from_trajectory` or
    :meth:`from_arrays` to create a display. All parameters are stored as attributes.

    Parameters
    ----------
    alignment : dict of str to list of ndarray of shape (2, n_records_i)
        Curves by name: iterations in the first row, and in the second the cosine
        between the attention weights and the solution of the SVM. NaN leaves a gap.
        Curves of one name share a colour: several are drawn faint, and their median
        strong.

    top_weight : dict of str to list of ndarray of shape (2, n_records_i), default=None
        The same of the largest attention weight of a sample, averaged over samples.
        A name that `alignment` has too shares its colour, any other is grey.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure with the curves.

    line_ : matplotlib Artist or list of such
        The strong lines of the alignment: one a name.

    top_weight_line_ : matplotlib Artist, list of such, or None
        The same of the largest weight.

    See Also
    --------
    skattn.theory.ImplicitBiasMonitor : Records these while an estimator fits.

    References
    ----------
    The figures on the alignment of gradient descent in arXiv 2306.13596, "Max-Margin
    Token Selection in Attention Mechanism", and arXiv 2308.16898, "Transformers as
    Support Vector Machines".

    Examples
    --------
    >>> from skattn.inspection import MarginPathDisplay
    >>> display = MarginPathDisplay.from_arrays(
    ...     [1, 10, 100], [0.3, 0.9, 0.99], top_weight=[0.2, 0.6, 1.0])
    >>> display.ax_.get_xscale()
    'log'
    """

    def __init__(self, *, alignment, top_weight=None):
        self.alignment = alignment
        self.top_weight = top_weight

    @classmethod
    def from_monitor(cls, monitor, *, select="most_recent", ax=None, yscale="linear"):
        """Plot what a monitor has recorded.

        Each head of each fit is a curve. In a grid search on which the monitor is set
        the folds of a candidate share a name. Runs with one record each, as calls of
        `partial_fit` make them, are joined to one curve.

        Parameters
        ----------
        monitor : skattn.theory.ImplicitBiasMonitor
            After a fit.

        select : {"most_recent", "all"}, default="most_recent"
            Which runs.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        yscale : {"linear", "log"}, default="linear"
            As in :meth:`plot`.

        Returns
        -------
        display : MarginPathDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If the monitor has recorded no iterations.
        """
        logs = monitor.get_logs(select)
        fits = {}
        for run, log in enumerate(logs if select == "all" else [logs]):
            for row in log.data:
                # The folds of TokenSVMCV are no iterations.
                if np.isfinite(row["iteration"]):
                    fits.setdefault((run, row["fit"], row["head"]), []).append(row)
        if not fits:
            raise ValueError("The monitor has recorded no iterations.")
        if all(len(rows) == 1 for rows in fits.values()):
            fits = _joined(fits)
        alignment, top_weight = {}, {}
        for name, rows in zip(_names(fits), fits.values(), strict=True):
            alignment.setdefault(name, []).append(_curve(rows, "alignment"))
            top_weight.setdefault(name, []).append(_curve(rows, "top_weight"))
        return cls(alignment=alignment, top_weight=top_weight).plot(
            ax=ax, yscale=yscale
        )

    @classmethod
    def from_trajectory(cls, trajectory, *, ax=None, yscale="linear"):
        """Plot the result of `skattn.theory.train_attention`.

        Each direction that training is compared with has a name, and each instance a
        curve.

        Parameters
        ----------
        trajectory : object
            With the attributes `iterations`, `alignment`, a dict, and `top_weight`, as
            in :meth:`from_arrays`.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        yscale : {"linear", "log"}, default="linear"
            As in :meth:`plot`.

        Returns
        -------
        display : MarginPathDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If the trajectory was recorded without a direction.
        """
        if not trajectory.alignment:
            raise ValueError(
                "The trajectory has no alignment. Train with directions=, for example "
                "the solutions of attention_svm."
            )
        return cls.from_arrays(
            trajectory.iterations,
            trajectory.alignment,
            top_weight=trajectory.top_weight,
            ax=ax,
            yscale=yscale,
        )

    @classmethod
    def from_arrays(
        cls, iterations, alignment, *, top_weight=None, ax=None, yscale="linear"
    ):
        """Plot curves that share their iterations.

        Parameters
        ----------
        iterations : array-like of shape (n_records,)
            When the records were taken.

        alignment : array-like of shape (n_records,) or (n_records, n_curves), or dict \
                of str to such
            Alignment; a dict has one entry for each direction compared with.

        top_weight : array-like of shape (n_records,) or (n_records, n_curves), \
                default=None
            Largest weight, which does not depend on a direction.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        yscale : {"linear", "log"}, default="linear"
            As in :meth:`plot`.

        Returns
        -------
        display : MarginPathDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If lengths differ, or there is no record.

        Examples
        --------
        >>> from skattn.inspection import MarginPathDisplay
        >>> display = MarginPathDisplay.from_arrays(
        ...     [10, 20], {"fro": [0.8, 0.9], "nuc": [0.5, 0.6]})
        >>> [line.get_label() for line in display.line_]
        ['alignment, fro', 'alignment, nuc']
        """
        iterations = check_array(
            iterations, ensure_2d=False, dtype=np.float64, input_name="iterations"
        )
        by_name = alignment if isinstance(alignment, dict) else {"": alignment}
        return cls(
            alignment={
                name: _curves(iterations, values, "alignment")
                for name, values in by_name.items()
            },
            top_weight=None
            if top_weight is None
            else {"": _curves(iterations, top_weight, "top_weight")},
        ).plot(ax=ax, yscale=yscale)

    def plot(self, ax=None, *, yscale="linear", line_kw=None, top_weight_kw=None):
        """Plot the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        yscale : {"linear", "log"}, default="linear"
            "log" shows how much is missing to 1, on a logarithmic scale: there one sees
            that training goes on long after the curves have come close to 1.

        line_kw : dict, default=None
            Keywords of ``Axes.plot`` for the lines of the alignment.

        top_weight_kw : dict, default=None
            Keywords of ``Axes.plot`` for the lines of the largest weight.

        Returns
        -------
        display : MarginPathDisplay
            Object that stores what was plotted.

        Raises
        ------
        ValueError
            If `yscale` is unknown.

        ImportError
            If matplotlib is not installed.
        """
        if yscale not in ("linear", "log"):
            raise ValueError(f"yscale must be 'linear' or 'log', got {yscale!r}.")
        ax = axes_for(self, ax)
        shown = _missing_to_one if yscale == "log" else np.asarray
        colors = {name: color(number) for number, name in enumerate(self.alignment)}
        tops = self.top_weight or {}
        lines = _draw(
            ax, self.alignment, "alignment", colors, shown, linestyle="-", kw=line_kw
        )
        top_lines = _draw(
            ax, tops, "largest weight", colors, shown, linestyle="--", kw=top_weight_kw
        )
        self.line_ = one_or_list(lines)
        self.top_weight_line_ = one_or_list(top_lines) if tops else None

        curves = [curve for group in self.alignment.values() for curve in group]
        iterations = np.concatenate([curve[0] for curve in curves])
        first = iterations[iterations > 0].min(initial=np.inf)
        if iterations.max() >= _LOG_RATIO * first:
            if iterations.min() > 0:
                ax.set_xscale("log")
            else:
                ax.set_xscale("symlog", linthresh=first)
        if yscale == "log":
            ax.set_yscale("log")
        prefix = "1 - " if yscale == "log" else ""
        shown_names = ["alignment", "largest weight"] if tops else ["alignment"]
        ax.set(
            xlabel="iteration",
            ylabel=", ".join(f"{prefix}{name}" for name in shown_names),
        )
        ax.legend()
        return self


def _draw(ax, curves_of_name, what, colors, shown, *, linestyle, kw):
    """Draw the curves of each name and return their strong lines."""
    lines = []
    for name, curves in curves_of_name.items():
        style = {
            "color": colors.get(name, "0.45"),
            "linestyle": linestyle,
            **(kw or {}),
        }
        label = f"{what}, {name}" if name else what
        if len(curves) > 1:
            for curve in curves:
                faint = {**style, "alpha": FAINT, "lw": 1, "label": None}
                ax.plot(curve[0], shown(curve[1]), **faint)
            label = f"{label} (median of {len(curves)})"
        median = _median(curves)
        lines += ax.plot(median[0], shown(median[1]), **{"label": label, **style})
    return lines


def _median(curves):
    """Return the median curve, over the iterations that all curves have."""
    iterations = curves[0][0]
    for curve in curves[1:]:
        iterations = np.intersect1d(iterations, curve[0])
    values = [curve[1][np.searchsorted(curve[0], iterations)] for curve in curves]
    # A median over some of the curves would jump when one of them has a gap.
    return np.stack([iterations, np.median(values, axis=0)])


def _missing_to_one(values):
    # What has reached 1 in floating point has no logarithm: there its line ends.
    return np.where(values < 1, 1 - values, np.nan)


def _joined(fits):
    """Return fits of one record each as one fit, for each head."""
    joined = {}
    for (_, _, head), rows in fits.items():
        joined.setdefault((0, "", head), []).extend(rows)
    return joined


def _names(fits):
    """Name each curve by what tells it apart from the others."""
    runs, _, heads = (len(set(parts)) for parts in zip(*fits, strict=True))
    fits_of_run, searches = {}, set()
    for (run, fit, _), rows in fits.items():
        fits_of_run.setdefault(run, set()).add(fit)
        if np.isfinite(rows[0]["candidate"]):
            searches.add(run)
    names = []
    for (run, fit, head), rows in fits.items():
        candidate = rows[0]["candidate"]
        parts = []
        if runs > 1:
            parts.append(f"run {run}")
        if np.isfinite(candidate):
            parts.append(f"candidate {candidate}")
        elif run in searches:
            parts.append("refit")
        elif len(fits_of_run[run]) > 1:
            parts.append(f"fit {fit}")
        if heads > 1:
            parts.append(f"head {head}")
        names.append(", ".join(parts))
    return names


def _curve(rows, column):
    return np.array(
        [[row["iteration"] for row in rows], [row[column] for row in rows]],
        dtype=np.float64,
    )


def _curves(iterations, values, name):
    """Return a curve for each column of `values`."""
    values = check_array(
        values,
        ensure_2d=False,
        allow_nd=True,
        dtype=np.float64,
        ensure_all_finite="allow-nan",
        input_name=name,
    )
    if values.shape[:1] != iterations.shape or values.ndim > 2:
        raise ValueError(
            f"{name} must have shape ({len(iterations)},) or ({len(iterations)}, "
            f"n_curves), one row an entry of iterations; got shape {values.shape}."
        )
    columns = values.reshape(len(iterations), -1).T
    return [np.stack([iterations, column]) for column in columns]
