"""``python -m skattn`` as a user meets it."""

import csv
import subprocess
import sys

import numpy as np
import pytest

from skattn.__main__ import main
from skattn._demo import report
from skattn._demo.comparison import Evaluation
from skattn._demo.models import make_models
from skattn.datasets import make_token_selection

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLUMNS = ["--sample", "molecule", "--target", "smell"]


def run(*arguments, cwd, timeout=120):
    return subprocess.run(
        [sys.executable, "-m", "skattn", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A long table of 12 samples, 3 of them in the smaller class; rows shuffled."""
    X, _, _ = make_token_selection(
        n_samples=12, n_tokens=(2, 5), n_features=3, random_state=0
    )
    rows = [
        [f"m{i}", "musk" if i < 3 else "none", t, *token]
        for i, sample in enumerate(X)
        for t, token in enumerate(sample)
    ]
    np.random.default_rng(0).shuffle(rows)
    path = tmp_path_factory.mktemp("data") / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["molecule", "smell", "t", "a", "b", "c"], *rows])
    return path


@pytest.fixture
def compare(table, tmp_path):
    def compare(*more):
        picture = tmp_path / "picture.png"
        arguments = ["compare", str(table), *COLUMNS, "--order", "t", "--folds", "2"]
        arguments += ["--jobs", "1", "--output", str(picture), *more]
        return main(arguments), picture

    return compare


def test_compare_prints_a_table_and_an_explanation_and_writes_a_picture(
    compare, capsys
):
    status, picture = compare()
    output = capsys.readouterr().out
    assert status == 0
    assert "12 samples of 2 to 5 tokens, 3 features, 2 classes" in output
    for name in make_models():
        assert f"\n{name} " in output
    assert "Which tokens decided: held-out sample m" in output
    assert "GridSearchCV - fit" in output
    assert picture.read_bytes().startswith(PNG_SIGNATURE)


def test_table_is_aligned_and_says_what_has_no_spread(capsys):
    report.table(
        [
            Evaluation("short", np.array([0.5]), 12.345, 1.0, 0, 1),
            Evaluation("a longer name", np.array([0.25]), 0.001, 0.084, 1, 1),
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "model          accuracy  std  fit time  tokens kept",
        "---------------------------------------------------",
        "short             0.500  n/a   12.35 s         100%",
        "a longer name     0.250  n/a    0.00 s           8%",
    ]
    assert "std: n/a, since there is one split." in lines[5]
    assert lines[-1] == "a longer name: 1 of 1 fits ended at max_iter."


def test_table_gives_the_spread_of_several_accuracies(capsys):
    report.table([Evaluation("a", np.array([0.5, 0.7]), 1, 1, 0, 2)], repeated="seeds")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["a", "0.600", "0.100", "1.00", "s", "100%"]
    assert "std: standard deviation over seeds." in lines[4]


def test_fewer_folds_than_asked_are_announced(compare, capsys):
    status, _ = compare("--folds", "20")
    assert status == 0
    captured = capsys.readouterr()
    assert "there are 3 folds instead of 20" in captured.err
    assert "stratified 3-fold" in captured.out


def test_without_matplotlib_there_is_a_note_and_no_picture(
    compare, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    status, picture = compare()
    assert status == 0
    assert "no picture is written" in capsys.readouterr().err
    assert not picture.exists()


def test_without_rich_there_is_a_note_and_no_progress(compare, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    status, _ = compare()
    captured = capsys.readouterr()
    assert status == 0
    assert 'pip install "skattn[demo]"' in captured.err
    assert "GridSearchCV" not in captured.out


def test_without_pandas_compare_says_what_to_install(compare, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    status, _ = compare()
    assert status == 2
    assert 'pip install "skattn[demo]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/picture.png", "there is no folder"),
        ("picture.csv", "must be one of"),
        ("picture", "must be one of"),
        (".", "is a folder"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_any_fit(
    compare, capsys, tmp_path, name, message
):
    status, _ = compare("--output", str(tmp_path / name))
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("folds", ["1", "x"])
def test_folds_must_be_an_integer_of_at_least_two(compare, capsys, folds):
    with pytest.raises(SystemExit) as exit_:
        compare("--folds", folds)
    assert exit_.value.code == 2
    assert "must be an integer of at least 2" in capsys.readouterr().err


def test_a_mistake_ends_with_status_2_and_no_traceback(tmp_path):
    finished = run("compare", "nowhere.csv", *COLUMNS, cwd=tmp_path)
    assert finished.returncode == 2
    assert finished.stderr == "error: There is no file nowhere.csv.\n"
    assert finished.stdout == ""


def test_help_needs_neither_scikit_learn_nor_torch():
    code = "import sys, skattn.__main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"numpy", "sklearn", "torch"}.intersection(loaded)


@pytest.mark.slow
def test_demo_runs_from_end_to_end(tmp_path):
    finished = run("demo", cwd=tmp_path, timeout=600)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    output = finished.stdout
    for title in ("MUSK1: 92 samples", "Japanese vowels: 640 samples"):
        assert title in output
    rows = [line for line in output.splitlines() if line.endswith("%")]
    for name in make_models():
        assert sum(row.startswith(name) for row in rows) == 2
    assert output.count("Which tokens decided") == 2
    picture = tmp_path / "skattn_demo.png"
    assert picture.read_bytes().startswith(PNG_SIGNATURE)
