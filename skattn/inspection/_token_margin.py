"""Tokens in the plane, and the direction that separates the selected ones."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skattn.inspection._style import axes_for, color
from skattn.tokens import check_tokens
from skattn.tokens._selection import rows_at_positions

# More samples than this would share colours: they go without a legend.
_LARGEST_LEGEND = 6
_MARKERS = ("o", "s", "^", "D", "v", "P")
# Share of the picture that is left free around the tokens.
_BORDER = 0.25


class TokenMarginDisplay:
    """Tokens with two features, and the prompt that selects one of each sample.

    As in the first figures of [1]_: the tokens of a few samples, the direction p of the
    attention SVM, for each sample the line ``x'p = x_selected'p - 1``, which no other
    token of that sample lies beyond, and the paths of prompts in training.

    It is recommended to use :meth:`from_tokens` or :meth:`from_estimator` to create a
    display. All parameters are stored as attributes.

    Parameters
    ----------
    tokens : list of ndarray of shape (n_tokens_i, 2)
        Tokens of each sample.

    selected : ndarray of shape (n_samples,)
        Index of the selected token of each sample.

    coef : ndarray of shape (2,)
        The prompt p.

    paths : list of ndarray of shape (n_steps_i, 2), default=None
        Prompts on the way of training, one array a path.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the tokens.

    figure_ : matplotlib Figure
        Figure with the tokens.

    line_ : matplotlib Artist
        The direction of p, a ray from the origin.

    margin_lines_ : list of matplotlib Artist
        The margin of each sample.

    path_lines_ : list of matplotlib Artist
        The paths.

    See Also
    --------
    skattn.theory.attention_svm : Solves the SVM.

    References
    ----------
    .. [1] Tarzanagh et al., "Max-Margin Token Selection in Attention Mechanism",
       arXiv 2306.13596.

    Examples
    --------
    >>> from skattn.inspection import TokenMarginDisplay
    >>> X = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    >>> display = TokenMarginDisplay.from_tokens(X, selected=[0])
    >>> display.coef.round(3)
    array([-0.099,  0.99 ])
    """

    def __init__(self, *, tokens, selected, coef, paths=None):
        self.tokens = tokens
        self.selected = selected
        self.coef = coef
        self.paths = paths

    @classmethod
    def from_tokens(cls, X, selected, *, coef=None, paths=None, ax=None):
        """Plot tokens and the SVM of a selection.

        Parameters
        ----------
        X : any form of sequences that :func:`skattn.check_tokens` reads
            A few samples of tokens with two features.

        selected : array-like of int of shape (n_samples,)
            Position of the selected token in each sample as given.

        coef : array-like of shape (2,), default=None
            The prompt. None solves the attention SVM of the selection.

        paths : array-like of shape (n_steps, 2) or (n_paths, n_steps, 2), or list of \
                array-like of shape (n_steps_i, 2), default=None
            Prompts on the way of training.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : TokenMarginDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If tokens do not have two features, a selected token is absent, or without
            `coef` no prompt separates the selection.
        """
        tokens = check_tokens(X)
        _refuse_other_than_plane(tokens.n_features)
        rows = rows_at_positions(tokens, selected, name="selected")
        if coef is None:
            coef = _svm_of(tokens, selected)
        coef = check_array(coef, ensure_2d=False, dtype=np.float64, input_name="coef")
        if coef.shape != (2,) or not coef.any():
            raise ValueError(f"coef must be a direction of shape (2,); got {coef}.")
        return cls(
            tokens=tokens.to_list(),
            selected=rows - tokens.offsets[:-1],
            coef=coef,
            paths=_read_paths(paths),
        ).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator, X, *, head=0, paths=None, ax=None):
        """Plot tokens and the prompt of a fitted estimator.

        The selected tokens are those with the largest attention weight. The prompt is
        drawn with the length that leaves a smallest margin of 1 on `X`, so that the
        margin lines pass the tokens that come closest.

        Parameters
        ----------
        estimator : fitted estimator of attention with ``query="prompt"``
            :class:`skattn.AttentionClassifier` or :class:`skattn.TokenSVM`; with a
            hidden layer, tokens are shown behind it.

        X : any form that :func:`skattn.check_tokens` reads
            A few samples.

        head : int, default=0
            Which attention of several.

        paths : array-like, default=None
            As in :meth:`from_tokens`.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : TokenMarginDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If attention sees other than two features, or has queries.
        """
        check_is_fitted(estimator)
        if estimator.query != "prompt":
            raise ValueError(
                "TokenMarginDisplay shows a prompt, which is one direction for all "
                f"samples; this {type(estimator).__name__} has "
                f"query={estimator.query!r}."
            )
        _refuse_other_than_plane(estimator.n_token_features_)
        if not 0 <= head < estimator.n_heads:
            raise ValueError(
                f"head must be at least 0 and below n_heads={estimator.n_heads}, got "
                f"{head}."
            )
        view = estimator._view_attention(estimator._read(X, None).tokens)
        coef = view.coefs[head].astype(np.float64)
        tokens, chosen = view.tokens, view.chosen(head)
        if hasattr(tokens, "to_tokens"):
            tokens = tokens.to_tokens()
        scores = tokens.values @ coef
        lead = np.repeat(scores[tokens.offsets[:-1] + chosen], tokens.lengths) - scores
        smallest = np.delete(lead, tokens.offsets[:-1] + chosen).min(initial=np.inf)
        if 0 < smallest < np.inf:
            coef = coef / smallest
        return cls(
            tokens=list(tokens), selected=chosen, coef=coef, paths=_read_paths(paths)
        ).plot(ax=ax)

    def plot(self, ax=None, *, token_kw=None, line_kw=None, path_kw=None):
        """Plot tokens, direction, margins and paths.

        Paths are drawn to scale with each other, the longest as far as the tokens
        reach: they grow for ever, and only their direction settles.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        token_kw : dict, default=None
            Keywords of ``Axes.scatter`` for the tokens.

        line_kw : dict, default=None
            Keywords of ``Axes.plot`` for the direction.

        path_kw : dict, default=None
            Keywords of ``Axes.plot`` for the paths.

        Returns
        -------
        display : TokenMarginDisplay
            Object that stores what was plotted.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_for(self, ax, figsize=(7.2, 5.2))
        every_token = np.vstack(self.tokens)
        center, reach = _frame(every_token)
        unit = self.coef / np.linalg.norm(self.coef)
        length = np.linalg.norm(self.coef)

        (self.line_,) = ax.plot(
            *np.stack([np.zeros(2), 4 * reach * unit]).T,
            **{"color": "0.1", "lw": 2, "label": "direction p", **(line_kw or {})},
        )
        self.margin_lines_ = []
        for number, (tokens, chosen) in enumerate(
            zip(self.tokens, self.selected, strict=True)
        ):
            self._plot_sample(ax, number, tokens, chosen, token_kw)
            # The foot of the margin line, on the ray of p.
            foot = (tokens[chosen] @ unit - 1 / length) * unit
            self.margin_lines_.append(
                ax.axline(
                    foot,
                    foot + np.array([-unit[1], unit[0]]),
                    color=color(number),
                    linestyle="--",
                    lw=1,
                )
            )
        ax.plot([], [], color="0.45", linestyle="--", lw=1, label="margin")
        self.path_lines_ = self._plot_paths(ax, reach, path_kw)
        ax.set_aspect("equal")
        ax.set(
            xlim=center[0] + np.array([-reach, reach]),
            ylim=center[1] + np.array([-reach, reach]),
            xlabel="feature 0",
            ylabel="feature 1",
        )
        self._add_legend(ax)
        return self

    def _plot_sample(self, ax, number, tokens, chosen, token_kw):
        style = {
            "color": color(number),
            "marker": _MARKERS[number % len(_MARKERS)],
            "zorder": 3,
            **(token_kw or {}),
        }
        others = np.delete(tokens, chosen, axis=0)
        ax.scatter(*others.T, **{"s": 30, "alpha": 0.6, **style})
        ax.scatter(
            *tokens[chosen],
            **{
                "s": 130,
                "edgecolor": "0.1",
                "linewidth": 1.5,
                "label": f"sample {number}",
                **style,
            },
        )

    def _plot_paths(self, ax, reach, path_kw):
        if not self.paths:
            return []
        longest = max(np.linalg.norm(path, axis=1).max() for path in self.paths)
        lines = []
        for number, path in enumerate(self.paths):
            style = {
                "color": "0.45",
                "lw": 1.5,
                "label": None if number else "training",
                **(path_kw or {}),
            }
            scaled = path * (reach * (1 - _BORDER) / max(longest, 1e-300))
            lines += ax.plot(*scaled.T, **style)
            ax.plot(*scaled[-1], marker=".", color=lines[-1].get_color())
        return lines

    def _add_legend(self, ax):
        handles, labels = ax.get_legend_handles_labels()
        if len(self.tokens) > _LARGEST_LEGEND:
            of_samples = slice(1, 1 + len(self.tokens))
            handles[of_samples] = handles[1:2]
            labels[of_samples] = ["a sample each"]
        ax.legend(
            handles,
            labels,
            title="large: selected",
            loc="upper left",
            bbox_to_anchor=(1.02, 1.0),
        )


def _refuse_other_than_plane(n_features):
    if n_features != 2:
        raise ValueError(
            f"TokenMarginDisplay draws tokens with 2 features, but these have "
            f"{n_features}. Reduce them to 2, for example with "
            "sklearn.decomposition.PCA(n_components=2) on the features of the tokens, "
            "and fit again."
        )


def _svm_of(tokens, selected):
    from skattn.theory import attention_svm

    solution = attention_svm(tokens.with_query(None), selected)
    if not np.isfinite(solution.coef).all():
        raise ValueError(
            "No prompt separates the selected tokens from the others of their samples. "
            "Pass coef, for example from attention_svm with a finite C, or fewer "
            "samples."
        )
    if not solution.coef.any():
        raise ValueError(
            "The selected tokens equal all others of their samples: there is nothing "
            "to separate. Pass coef, or samples with several tokens."
        )
    return solution.coef


def _read_paths(paths):
    if paths is None:
        return None
    if np.ndim(paths[0]) == 1:
        paths = [paths]
    paths = [check_array(path, dtype=np.float64, input_name="paths") for path in paths]
    if any(path.shape[1] != 2 for path in paths):
        raise ValueError(
            "paths must hold prompts of 2 features: shape (n_steps, 2) each."
        )
    return paths


def _frame(tokens):
    """Return the centre of a square with all tokens and the origin, and half its side.

    A border is left around them.
    """
    points = np.vstack([tokens, np.zeros(2)])
    low, high = points.min(axis=0), points.max(axis=0)
    reach = (high - low).max() / 2
    return (low + high) / 2, (reach if reach > 0 else 1.0) * (1 + _BORDER)
