"""The command line: ``python -m skattn demo`` and ``python -m skattn compare``."""

import argparse
from pathlib import Path

from skattn import __version__


def main(arguments=None):
    """Run one command.

    Parameters
    ----------
    arguments : list of str, default=None
        Words of the command line; by default those of the process.

    Returns
    -------
    status : int
        0; 2 for a mistake of the user's and 130 for an interruption, after a message
        on stderr.
    """
    options = _parser().parse_args(arguments)
    # Loaded late, so that `--help` does not wait for scikit-learn and torch.
    from skattn._demo import commands, report
    from skattn._demo.errors import UserError

    try:
        if options.command == "demo":
            commands.demo(output=options.output, n_jobs=options.jobs)
        else:
            commands.compare(
                options.file,
                sample=options.sample,
                target=options.target,
                order=options.order,
                n_folds=options.folds,
                output=options.output,
                n_jobs=options.jobs,
            )
    except UserError as error:
        report.error(error)
        return 2
    except KeyboardInterrupt:
        report.error("interrupted.")
        return 130
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m skattn",
        description="Compare attention with pooling by cross-validation.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="compare on the bundled data sets",
        description="Compare on MUSK1 and on the Japanese vowels, which are bundled.",
    )
    _add_common_options(demo, output="skattn_demo.png")
    compare = commands.add_parser(
        "compare",
        help="compare on your own data",
        description=(
            "Compare on a long table: one row a token, one column that names the "
            "sample, one with its label. All other columns are features."
        ),
    )
    compare.add_argument("file", type=Path, metavar="FILE.csv", help="the table")
    compare.add_argument(
        "--sample",
        required=True,
        metavar="COLUMN",
        help="column that names the sample of each row",
    )
    compare.add_argument(
        "--target",
        required=True,
        metavar="COLUMN",
        help="column with the label of the sample",
    )
    compare.add_argument(
        "--order",
        metavar="COLUMN",
        help="column that orders the rows of a sample (default: order of the rows)",
    )
    compare.add_argument(
        "--folds",
        type=_integer_from(2),
        default=5,
        metavar="N",
        help="folds of the stratified cross-validation (default: %(default)s)",
    )
    _add_common_options(compare, output="skattn_compare.png")
    return parser


def _add_common_options(parser, output):
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(output),
        metavar="PICTURE",
        help="where to write the picture of the attention (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=_integer_from(1),
        default=2,
        metavar="N",
        help="fits to run at a time (default: %(default)s)",
    )


def _integer_from(least):
    def integer(text):
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < least:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least}, got {text!r}"
            )
        return number

    return integer


if __name__ == "__main__":
    raise SystemExit(main())
