"""How few tokens have most of the attention."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skattn.inspection._style import FAINT, axes_for, color, one_or_list
from skattn.theory import attention_sparsity

_SHARES = np.linspace(0, 1, 201)


class SparsityDisplay:
    """Attention left out when only the largest weights are kept.

    It is recommended to use :meth:`from_weights` or :meth:`from_estimator` to create a
    display. All parameters are stored as attributes.

    Parameters
    ----------
    tail_mass : dict of str to list of ndarray of shape (n_tokens_i + 1,)
        By name, for each sample: the weight that is left out when its k largest weights
        are kept, for k from 0 on. The samples of a name are drawn faint, and their
        median strong.

    eps : float, default=0.05
        Weight that may be left out, drawn as a level; the legend says how many tokens
        the median sample needs.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure with the curves.

    line_ : matplotlib Artist or list of such
        The median of each name.

    level_ : matplotlib Artist
        The level `eps`.

    See Also
    --------
    skattn.theory.attention_sparsity : The same as numbers, with output errors.

    Notes
    -----
    The weight left out is also the total variation between the weights and the kept
    ones, made to sum to 1.

    References
    ----------
    Deng, Song and Yang, "Attention is Naturally Sparse with Gaussian Distributed
    Input", arXiv 2404.02690.

    Examples
    --------
    >>> from skattn.inspection import SparsityDisplay
    >>> display = SparsityDisplay.from_weights([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])
    >>> [round(float(mass), 2) for mass in display.tail_mass["all samples"][0]]
    [1.0, 0.3, 0.1, 0.0]
    """

    def __init__(self, *, tail_mass, eps=0.05):
        self.tail_mass = tail_mass
        self.eps = eps

    @classmethod
    def from_weights(cls, weights, *, eps=0.05, ax=None, x="count", yscale="linear"):
        """Plot attention weights.

        Parameters
        ----------
        weights : array-like of shape (n_samples, n_tokens) or (n_samples, n_heads, \
                n_tokens), or list of (n_tokens_i,) or (n_heads, n_tokens_i) arrays
            Rows that sum to 1, for example ``estimator.attention_weights(X)``. NaN
            marks an absent token.

        eps : float, default=0.05
            Weight that may be left out.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        x : {"count", "share"}, default="count"
            As in :meth:`plot`.

        yscale : {"linear", "log"}, default="linear"
            As in :meth:`plot`.

        Returns
        -------
        display : SparsityDisplay
            The display, plotted.

        Raises
        ------
        ValueError
            If weights are negative or do not sum to 1, or shapes disagree.
        """
        if not isinstance(weights, list | tuple):
            weights = np.asarray(weights)
        # It also says what is wrong with weights that are none.
        attention_sparsity(weights, eps=eps)
        rows = [_rows_of_heads(sample) for sample in weights]
        n_heads = len(rows[0])
        tail_mass = {
            f"head {head}" if n_heads > 1 else "all samples": [
                _tail_mass(sample[head]) for sample in rows
            ]
            for head in range(n_heads)
        }
        return cls(tail_mass=tail_mass, eps=eps).plot(ax=ax, x=x, yscale=yscale)

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        query=None,
        eps=0.05,
        ax=None,
        x="count",
        yscale="linear",
    ):
        """Plot the attention of an estimator.

        Parameters
        ----------
        estimator : fitted estimator of attention
            Such as :class:`skattn.AttentionClassifier` or :class:`skattn.TokenSVM`.

        X : any form that :func:`skattn.check_tokens` reads
            The samples.

        query : array-like of shape (n_samples, n_query_features), default=None
            One query a sample, for ``query="given"``.

        eps : float, default=0.05
            Weight that may be left out.

        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        x : {"count", "share"}, default="count"
            As in :meth:`plot`.

        yscale : {"linear", "log"}, default="linear"
            As in :meth:`plot`.

        Returns
        -------
        display : SparsityDisplay
            The display, plotted.

        Examples
        --------
        >>> from skattn import TokenSVM
        >>> from skattn.datasets import make_token_selection
        >>> from skattn.inspection import SparsityDisplay
        >>> X, y, _ = make_token_selection(n_samples=60, random_state=0)
        >>> display = SparsityDisplay.from_estimator(TokenSVM().fit(X, y), X)
        >>> display.ax_.get_xlabel()
        'tokens kept'
        """
        check_is_fitted(estimator)
        weights = estimator.attention_weights(X, query=query)
        scores = estimator.token_scores(X, query=query)
        # Absent tokens have weight 0 without being tokens that attention passes over.
        present = [
            sample[..., np.isfinite(score).reshape(-1, score.shape[-1])[0]]
            for sample, score in zip(weights, scores, strict=True)
        ]
        return cls.from_weights(present, eps=eps, ax=ax, x=x, yscale=yscale)

    def plot(
        self, ax=None, *, x="count", yscale="linear", line_kw=None, sample_kw=None
    ):
        """Plot the weight left out against the tokens kept.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        x : {"count", "share"}, default="count"
            Whether to count the tokens that are kept, or to divide by the tokens of the
            sample, which compares samples of different lengths.

        yscale : {"linear", "log"}, default="linear"
            Scale of the weight left out.

        line_kw : dict, default=None
            Keywords of ``Axes.plot`` for the medians.

        sample_kw : dict, default=None
            Keywords of ``Axes.plot`` for the samples.

        Returns
        -------
        display : SparsityDisplay
            Object that stores what was plotted.

        Raises
        ------
        ValueError
            If `x` or `yscale` is unknown.

        ImportError
            If matplotlib is not installed.
        """
        for name, value, known in (
            ("x", x, ("count", "share")),
            ("yscale", yscale, ("linear", "log")),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {known}, got {value!r}.")
        ax = axes_for(self, ax)
        shown = _positive if yscale == "log" else np.asarray
        lines = []
        for number, (name, samples) in enumerate(self.tail_mass.items()):
            style = {"color": color(number)}
            for mass in samples if len(samples) > 1 else []:
                kept = np.arange(len(mass)) / (len(mass) - 1 if x == "share" else 1)
                ax.plot(
                    kept,
                    shown(mass),
                    **{**style, "alpha": FAINT, "lw": 0.8, **(sample_kw or {})},
                )
            grid, median = _median(samples, x)
            needed = grid[np.argmax(median <= self.eps)]
            amount = f"{needed:.0%} of its" if x == "share" else f"{needed:g}"
            tokens = "token" if x == "count" and needed == 1 else "tokens"
            style["label"] = f"{name}: the median needs {amount} {tokens}"
            lines += ax.plot(
                grid, shown(median), **{"lw": 2.5, **style, **(line_kw or {})}
            )
        self.line_ = one_or_list(lines)
        self.level_ = ax.axhline(
            self.eps, color="0.45", linestyle=":", label=f"{self.eps:g} left out"
        )
        ax.set_yscale(yscale)
        if yscale == "log":
            ax.set_ylim(bottom=min(self.eps or 1e-3, 1e-3) / 10)
        if x == "count":
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(
            xlabel="tokens kept" if x == "count" else "share of the tokens kept",
            ylabel="weight left out",
        )
        ax.legend()
        return self


def _rows_of_heads(weights):
    weights = np.asarray(weights, dtype=np.float64)
    weights = weights.reshape(-1, weights.shape[-1])
    return [row[~np.isnan(row)] for row in weights]


def _tail_mass(weights):
    # Summed from the smallest, so that small tails keep their digits.
    tails = np.cumsum(np.sort(weights))[::-1]
    return np.append(tails / tails[0], 0.0)


def _positive(mass):
    # Nothing left out has no logarithm: the line ends before.
    return np.where(mass > 0, mass, np.nan)


def _median(samples, x):
    """Return where the median is taken, and the median."""
    if x == "share":
        shares = [
            np.interp(_SHARES, np.linspace(0, 1, len(mass)), mass) for mass in samples
        ]
        return _SHARES, np.median(shares, axis=0)
    longest = max(map(len, samples))
    # A sample of which all tokens are kept leaves nothing out.
    padded = [np.pad(mass, (0, longest - len(mass))) for mass in samples]
    return np.arange(longest), np.median(padded, axis=0)
