"""What all displays share: scikit-learn's Display protocol, and an optional library."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from skattn import inspection
from skattn.inspection import MarginPathDisplay, SparsityDisplay, TokenMarginDisplay

DISPLAYS = {
    "MarginPathDisplay": lambda **options: MarginPathDisplay.from_arrays(
        [1, 2], [0.1, 0.2], **options
    ),
    "SparsityDisplay": lambda **options: SparsityDisplay.from_weights(
        [[0.5, 0.5]], **options
    ),
    "TokenMarginDisplay": lambda **options: TokenMarginDisplay.from_tokens(
        [np.eye(2)], [0], **options
    ),
}


def test_all_displays_are_here():
    assert sorted(inspection.__all__) == sorted(DISPLAYS)


@pytest.mark.parametrize("name", DISPLAYS)
class TestProtocol:
    def test_makes_a_figure(self, pyplot, name):
        display = DISPLAYS[name]()
        assert type(display).__name__ == name
        assert display.ax_.figure is display.figure_
        assert pyplot.get_fignums()
        assert display.line_.axes is display.ax_
        assert display.ax_.get_xlabel()
        assert display.ax_.get_ylabel()
        assert display.ax_.get_legend() is not None

    def test_plots_on_given_axes(self, pyplot, name):
        _, (left, right) = pyplot.subplots(1, 2)
        display = DISPLAYS[name](ax=left)
        assert display.ax_ is left
        assert not right.lines
        assert len(pyplot.get_fignums()) == 1

    def test_plots_again(self, pyplot, name):
        display = DISPLAYS[name]()
        first = display.ax_
        assert display.plot() is display
        assert display.ax_ is not first
        assert len(display.ax_.lines) == len(first.lines)

    def test_line_keywords_win(self, pyplot, name):
        display = DISPLAYS[name]().plot(
            line_kw={"color": "red", "linestyle": ":", "label": "mine"}
        )
        assert display.line_.get_color() == "red"
        assert display.line_.get_linestyle() == ":"
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert "mine" in texts

    def test_can_be_drawn(self, pyplot, name, tmp_path):
        path = tmp_path / "display.png"
        DISPLAYS[name]().figure_.savefig(path)
        assert path.stat().st_size > 5000


def test_without_matplotlib_the_error_says_what_to_install():
    code = """
        import sys
        sys.modules["matplotlib"] = None
        from skattn.inspection import MarginPathDisplay
        try:
            MarginPathDisplay.from_arrays([1, 2], [0.1, 0.2])
        except ImportError as error:
            print(error)
    """
    output = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "MarginPathDisplay.plot requires matplotlib" in output
    assert "pip install matplotlib" in output
