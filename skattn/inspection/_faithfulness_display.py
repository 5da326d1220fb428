"""Scores as tokens are deleted, drawn."""

import numpy as np

from skattn.inspection._faithfulness import FaithfulnessCurve, faithfulness
from skattn.inspection._style import (
    add_legend,
    axes_for,
    distinct_colors,
    one_or_list,
)

_ONLY = ""
_BAND_ALPHA = 0.25


class FaithfulnessDisplay:
    """Scores as the tokens that decide are deleted, beside random deletion.

    It is recommended to use :meth:`from_estimator` or :meth:`from_curves` to create a
    display. All parameters are stored as attributes.

    Parameters
    ----------
    curves : dict of str to FaithfulnessCurve
        By name, which the legend shows.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure with the curves.

    line_ : matplotlib Artist or list of such
        Score of each name.

    random_line_ : matplotlib Artist or list of such
        Mean score of random deletion; one where all names have the same.

    random_band_ : matplotlib Artist or list of such
        Random deletion, a standard deviation to either side.

    See Also
    --------
    faithfulness : Computes a curve.

    Examples
    --------
    >>> from skattn import TokenSVM
    >>> from skattn.datasets import make_token_selection
    >>> from skattn.inspection import FaithfulnessDisplay, faithfulness
    >>> X, y, _ = make_token_selection(n_samples=60, random_state=0)
    >>> model = TokenSVM().fit(X, y)
    >>> curves = {
    ...     order: faithfulness(model, X, y, order=order, random_state=0)
    ...     for order in ("weights", "contributions")
    ... }
    >>> display = FaithfulnessDisplay.from_curves(curves)
    >>> display.ax_.get_xlabel()
    'share of the tokens deleted'
    """

    def __init__(self, *, curves):
        self.curves = curves

    @classmethod
    def from_curves(cls, curves, *, ax=None):
        """Plot one curve or several.

        Parameters
        ----------
        curves : FaithfulnessCurve or dict of str to FaithfulnessCurve
            What :func:`faithfulness` returned.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : FaithfulnessDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If some curves count tokens and others take shares, or scores differ.
        """
        if isinstance(curves, FaithfulnessCurve):
            curves = {_ONLY: curves}
        if not curves:
            raise ValueError("curves has no curve; a minimum of 1 is required.")
        for name in ("unit", "score_name"):
            if len({getattr(curve, name) for curve in curves.values()}) > 1:
                raise ValueError(
                    f"curves must agree in {name} to be drawn on the same axes."
                )
        return cls(curves=dict(curves)).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        order="weights",
        shares=None,
        n_deleted=None,
        scoring=None,
        n_repeats=10,
        head=None,
        sample_weight=None,
        query=None,
        random_state=None,
        ax=None,
    ):
        """Delete tokens, and plot the scores.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator of attention, or a pipeline or search that ends with one.

        X : any form that the estimator reads, other than a table of tokens
            The samples, best held out.

        y : array-like of shape (n_samples,), default=None
            Labels; None takes those that are predicted for complete samples.

        order : {"weights", "contributions"} or array-like, default="weights"
            What ranks the tokens of a sample, as in :func:`faithfulness`.

        shares : array-like of shape (n_points,), default=None
            Shares of the tokens to delete.

        n_deleted : array-like of int of shape (n_points,), default=None
            Numbers of tokens to delete, instead of shares.

        scoring : str or callable, default=None
            What to score, as in :func:`faithfulness`.

        n_repeats : int, default=10
            How often tokens are deleted at random.

        head : int, default=None
            Whose weights rank tokens, of several heads; None takes their mean.

        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights for scoring.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``.

        random_state : int, RandomState instance or None, default=None
            Source of the random deletions.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : FaithfulnessDisplay
            The display, plotted.
        """
        curve = faithfulness(
            estimator,
            X,
            y,
            order=order,
            shares=shares,
            n_deleted=n_deleted,
            scoring=scoring,
            n_repeats=n_repeats,
            head=head,
            sample_weight=sample_weight,
            query=query,
            random_state=random_state,
        )
        name = f"by {order}" if isinstance(order, str) else _ONLY
        return cls.from_curves({name: curve}, ax=ax)

    def plot(self, ax=None, *, line_kw=None, random_kw=None):
        """Plot scores against the tokens deleted.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        line_kw : dict, default=None
            Keywords of ``Axes.plot`` for the scores of each name.

        random_kw : dict, default=None
            Keywords of ``Axes.plot`` for random deletion.

        Returns
        -------
        display : FaithfulnessDisplay
            Object that stores what was plotted.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_for(self, ax)
        shares_random = _have_same_random_scores(self.curves)
        lines, random_lines, bands = [], [], []
        colors = distinct_colors(len(self.curves))
        for (name, curve), color in zip(self.curves.items(), colors, strict=True):
            style = {
                "color": color,
                "lw": 2,
                "marker": ".",
                "label": f"{name or 'named first'}: area {curve.area:.3f}",
                **(line_kw or {}),
            }
            lines += ax.plot(curve.deleted, curve.scores, **style)
            if shares_random and random_lines:
                continue
            style = {
                "color": "0.45" if shares_random else color,
                "linestyle": "--",
                "label": "at random" if shares_random else f"{name}: at random",
                **(random_kw or {}),
            }
            mean, std = curve.random_mean, curve.random_std
            random_lines += ax.plot(curve.deleted, mean, **style)
            bands.append(
                ax.fill_between(
                    curve.deleted,
                    mean - std,
                    mean + std,
                    color=random_lines[-1].get_color(),
                    alpha=_BAND_ALPHA,
                    linewidth=0,
                )
            )
        self.line_ = one_or_list(lines)
        self.random_line_ = one_or_list(random_lines)
        self.random_band_ = one_or_list(bands)
        first = next(iter(self.curves.values()))
        if first.unit == "count":
            ax.xaxis.get_major_locator().set_params(integer=True)
        what = "share of the tokens" if first.unit == "share" else "tokens"
        ax.set(xlabel=f"{what} deleted", ylabel=first.score_name)
        add_legend(ax, [*lines, *random_lines])
        return self


def _have_same_random_scores(curves):
    first, *others = curves.values()
    return all(
        np.array_equal(first.deleted, other.deleted)
        and np.array_equal(first.random_scores, other.random_scores)
        for other in others
    )
