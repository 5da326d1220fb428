"""Everything that the commands print."""

import sys
import textwrap

from skattn._demo.comparison import KEPT_DEFINITION

_HEADER = ("model", "accuracy", "std", "fit time", "tokens kept")
_N_TOKENS_SHOWN = 5
_WIDTH = 80


def error(message):
    """Print what the user has to mend."""
    print(f"error: {message}", file=sys.stderr, flush=True)


def note(message):
    """Print what the user may want to know."""
    print(f"note: {message}", file=sys.stderr, flush=True)


def problem(problem):
    """Print what is compared on."""
    lengths = problem.X.lengths
    n_classes = len(set(problem.y))
    _say_paragraph(
        f"{problem.title}: {len(problem.X)} samples of {lengths.min()} to "
        f"{lengths.max()} tokens, {problem.X.n_features} features, {n_classes} "
        f"classes; {problem.protocol}."
    )
    _say("")


def table(evaluations, repeated="folds"):
    """Print one line a model, and what the columns mean.

    Parameters
    ----------
    evaluations : list of Evaluation
        What to print.

    repeated : str, default="folds"
        What the accuracies of an evaluation are of.
    """
    rows = [_HEADER] + [_cells(evaluation) for evaluation in evaluations]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    _say("\n".join(lines))
    spread = (
        f"standard deviation over {repeated}"
        if len(evaluations[0].accuracies) > 1
        else "n/a, since there is one split"
    )
    _say_paragraph(
        f"std: {spread}. fit time: median of the fits. tokens kept: {KEPT_DEFINITION}."
    )
    for evaluation in evaluations:
        if evaluation.n_at_limit:
            _say(
                f"{evaluation.model}: {evaluation.n_at_limit} of {evaluation.n_fits} "
                "fits ended at max_iter."
            )


def explanation(explanation, *, model, sample_name, label):
    """Print which tokens decided about one sample."""
    predicted = explanation.predicted
    shown = explanation.strongest(_N_TOKENS_SHOWN)
    n_tokens = len(explanation.positions)
    _say_paragraph(
        f"Which tokens decided: held-out sample {sample_name}, whose label is "
        f"{label}; {model} says {predicted}."
    )
    _say("")
    header = ("position", "weight", f"contribution to {predicted}")
    widths = [len(word) for word in header]
    _say(_line(header, widths))
    for token in shown:
        cells = (
            f"{explanation.positions[token]:>{widths[0]}}",
            f"{explanation.weights[token]:.3f}",
            f"{explanation.contributions[token]:+.3f}",
        )
        _say(_line(cells, widths))
    _say_paragraph(
        f"These are {len(shown)} of {n_tokens} tokens. All contributions, "
        f"{explanation.contributions.sum():+.3f}, and the intercept, "
        f"{explanation.intercept:+.3f}, add up to the score of {predicted}, "
        f"{explanation.score:+.3f}."
    )


def picture(path):
    """Print where the picture is."""
    _say(f"\nPicture of the attention over held-out samples: {path}")


def _cells(evaluation):
    accuracies = evaluation.accuracies
    return (
        evaluation.model,
        f"{accuracies.mean():.3f}",
        f"{accuracies.std():.3f}" if len(accuracies) > 1 else "n/a",
        f"{evaluation.fit_time:.2f} s",
        f"{evaluation.share_kept:.0%}",
    )


def _line(cells, widths):
    """Align the first cell to the left and the others to the right."""
    first, *others = zip(cells, widths, strict=True)
    return "  ".join(
        [first[0].ljust(first[1])] + [cell.rjust(width) for cell, width in others]
    )


def _say_paragraph(text):
    _say("\n" + textwrap.fill(text, width=_WIDTH))


def _say(text):
    print(text, flush=True)
