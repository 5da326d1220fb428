"""What the README shows and points to."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skattn.__main__ import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def numbers_after(label, text):
    found = re.search(rf"{re.escape(label)} \[(.*?)\]", text, re.DOTALL)
    return np.array(found[1].split(), dtype=float)


def test_example_runs_as_it_is(tmp_path):
    (example,) = code_blocks("python")
    assert sum(bool(line) for line in example.splitlines()) <= 15
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stderr) == (0, "")
    # About half of the molecules are musk: guessing is right for about half.
    assert float(re.search(r"before: (\d\.\d\d)", run.stdout)[1]) > 0.65
    weights = numbers_after("attention to each shape:", run.stdout)
    assert weights.sum() == pytest.approx(1, abs=0.005 * len(weights))
    contributions = numbers_after("spoke for musk with:", run.stdout)
    assert len(contributions) == len(weights)


@pytest.mark.parametrize("link", re.findall(r"\]\((?!https://)(.*?)\)", README))
def test_link_leads_to_a_file(link):
    assert (ROOT / link).exists()


def test_make_targets_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    mentioned = re.findall(r"make ([a-z-]+)", "\n".join(code_blocks("console")))
    assert {"demo", "test"} <= set(mentioned) <= set(targets)


def test_compare_command_is_understood(capsys):
    (command,) = re.findall(r"python -m skattn (compare .*)", README)
    assert main(command.split()) == 2
    assert "FILE.csv" in capsys.readouterr().err
