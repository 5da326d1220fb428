"""What the scripts of the figures have in common: arguments, tables and plots."""

import argparse
import time
from typing import NamedTuple


class Row(NamedTuple):
    """A number that was measured, beside the one that others have reported.

    `source` says who: "paper", "re-run" (measured again by us in the setting of the
    paper, with other code) or "theory" (what it should tend to).
    """

    setting: str
    measured: float
    reference: float | None = None
    source: str = ""


class Table(NamedTuple):
    """Rows below a title; `form` is how numbers are written."""

    title: str
    rows: list
    form: str = ".4f"


def run(description, measure, draw, *, trials, arguments=None):
    """Measure as the command line asks, print the tables, and draw the plot.

    Parameters
    ----------
    description : str
        The docstring of the script, which is its help.

    measure : callable
        ``measure(trials, seed)`` returns a list of `Table`, and what `draw` needs.

    draw : callable
        ``draw(figure, results)`` plots on an empty matplotlib figure.

    trials : int
        Default number of random instances.

    arguments : list of str, default=None
        Those of the command line if None.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=trials,
        help="number of random instances in each setting (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the instances (default: %(default)s)"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the figure to this file; needs matplotlib"
    )
    options = parser.parse_args(arguments)
    if options.trials < 1:
        parser.error("--trials must be at least 1")

    # Before the work: matplotlib may be missing.
    figure = new_figure() if options.plot else None

    start = time.process_time()
    tables, results = measure(options.trials, options.seed)
    for table in tables:
        print_table(table)
    print(f"{options.trials} trials, {time.process_time() - start:.1f} s of CPU time")
    if figure is not None:
        draw(figure, results)
        figure.savefig(options.plot)


def print_table(table):
    """Print measured numbers beside their references, and how far they are apart."""
    width = max(len(row.setting) for row in table.rows)
    print(table.title)
    print(f"  {'':{width}}   measured  reference  difference")
    for row in table.rows:
        line = f"  {row.setting:{width}}  {format(row.measured, table.form):>9}"
        if row.reference is not None:
            difference = row.measured - row.reference
            line += f"  {format(row.reference, table.form):>9}"
            line += f"  {format(difference, '+' + table.form):>10}  {row.source}"
        print(line)
    print()


def new_figure():
    """Return a figure that opens no window."""
    from matplotlib.figure import Figure

    return Figure(layout="constrained")
