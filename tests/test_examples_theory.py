"""The scripts of the theory's figures run, and what they print agrees with the papers.

Trials are few here, and tolerances wide; docs/figures.md has the numbers of full runs.
"""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "examples" / "theory"
NAMES = [path.stem for path in SCRIPTS.glob("[!_]*.py")]
NUMBER = r"[-+]?\d[\d.e+-]*"
REFERENCE = rf"\s+({NUMBER})\s+{NUMBER}  \S+"

pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a script as the command line does; return its tables, and check its plot."""
    monkeypatch.syspath_prepend(SCRIPTS)

    def run(name, trials):
        plot = tmp_path / "figure.svg"
        script = importlib.import_module(name)
        script.main(["--trials", str(trials), "--plot", str(plot)])
        assert plot.read_text().count("<path") > 10
        return read_tables(capsys.readouterr().out)

    yield run
    for name in [*NAMES, "_report", "_instances"]:
        sys.modules.pop(name, None)


def read_tables(output):
    """Return ``{title: {setting: (measured, reference or None)}}``."""
    tables, title = {}, None
    for line in output.splitlines():
        row = re.match(rf"\s+(\S.*?)\s+({NUMBER})({REFERENCE})?$", line)
        if row:
            setting, measured, _, reference = row.groups()
            tables[title].setdefault(setting, []).append(
                (float(measured), None if reference is None else float(reference))
            )
        elif line and not line.startswith(" "):
            title = line
            tables[title] = {}
    return {title: rows for title, rows in tables.items() if rows}


def assert_near(rows, tolerance):
    """Assert that whatever has a reference is near it, and that something has."""
    differences = [
        abs(measured - reference)
        for numbers in rows.values()
        for measured, reference in numbers
        if reference is not None
    ]
    assert differences
    assert max(differences) < tolerance


def measured(rows):
    """Return the numbers of a table in which each setting has one."""
    return {setting: numbers[0][0] for setting, numbers in rows.items()}


def test_every_script_is_tested_here():
    assert set(NAMES) == {
        "alignment",
        "global_optimality",
        "joint_training",
        "mirror_descent",
        "optimizer_race",
        "ranks",
        "regularization_path",
        "several_tokens",
    }


def test_a_script_runs_from_anywhere_and_explains_itself(tmp_path):
    script = [sys.executable, str(SCRIPTS / "ranks.py")]
    done = subprocess.run(
        [*script, "--trials", "2", "--plot", "ranks.svg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "nuclear   15 samples" in done.stdout
    assert (tmp_path / "ranks.svg").stat().st_size > 1000
    refused = subprocess.run(
        [*script, "--trials", "0"], capture_output=True, text=True, timeout=100
    )
    assert refused.returncode == 2
    assert "--trials must be at least 1" in refused.stderr


def test_alignment_is_with_the_own_norm(run):
    tables = run("alignment", 30)
    at_end = tables["Alignment after 2,000 iterations, mean"]
    own = {key: at_end[key] for key in ("W to Frobenius", "KQ to nuclear")}
    assert_near(own, 0.005)
    assert_near({key: at_end[key] for key in at_end if key not in own}, 0.04)
    assert_near(tables["Alignment after 600 iterations"], 0.01)
    assert_near(tables["Share of locally optimal selections"], 0.06)


def test_the_share_of_global_optima_grows_with_features(run):
    tables = run("global_optimality", 10)
    shares = {
        (table, setting): row[0]
        for table in tables
        for setting, row in tables[table].items()
    }
    assert len(shares) == 42
    differences = [share - reference for share, reference in shares.values()]
    # With 10 trials the mean over all settings is uncertain by .013,
    assert abs(sum(differences)) / 42 < 0.05
    # a single one by up to .16.
    assert max(map(abs, differences)) < 0.45
    for table in tables:
        few = shares[table, "20 samples,  5 tokens, d=5"][0]
        assert few < 0.2 < 0.8 < shares[table, "20 samples,  5 tokens, d=30"][0]


def test_ranks_of_the_nuclear_norm_are_low(run):
    ranks = run("ranks", 30)["Rank of the solution, mean"]
    assert_near(ranks, 0.5)


def test_several_tokens_need_the_finite_component(run):
    tables = run("several_tokens", 150)
    kept = measured(tables["Runs that are kept"])
    assert kept["d=4"] > 15
    assert kept["d=4"] > kept["d=8"] > 0
    rows = tables["1 - alignment after 2,000 iterations, mean, beside the paper"]
    distance = measured(rows)
    for d in (4, 6, 8):
        assert (
            distance[f"W_fin and direction, d={d}"]
            < distance[f"direction only, d={d}"]
            < distance[f"one token, d={d}"]
        )
    assert_near({key: rows[key] for key in rows if "d=4" in key}, 0.08)


def test_polyak_wins_the_race(run):
    (rows,) = run("optimizer_race", 10).values()
    assert_near(rows, 0.03)
    missing = {
        name: 1 - alignment
        for name, alignment in measured(rows).items()
        if name.endswith(" 100 iterations")
    }
    gd, faster_gd, normalised, polyak = missing.values()
    assert polyak < 1e-3 < normalised < gd
    assert polyak < 1e-3 < faster_gd < gd
    assert_near({key: rows[key] for key in rows if "Polyak" in key}, 5e-4)


def test_the_regularisation_path_ends_at_the_svm(run):
    (rows,) = run("regularization_path", 6).values()
    for numbers in rows.values():
        (measured, reference) = numbers[0]
        assert reference / 2.5 < measured < 2.5 * reference


def test_each_mirror_descent_is_nearest_its_own_svm(run):
    tables = run("mirror_descent", 6)
    nearest = tables["Share of instances whose own SVM is the nearest"]
    assert len(nearest) == 8
    assert_near(nearest, 0.01)
    assert_near(tables["Alignment with the own SVM, mean"], 0.006)
    pairs = measured(tables["Bregman divergence after 2,000 iterations, mean"])
    assert len(pairs) == 16
    for pair, divergence in pairs.items():
        trained, svm = re.findall(r"l_([\d.]+)", pair)
        assert divergence >= 0
        assert (divergence < 0.01) == (trained == svm)


def test_prompt_and_head_go_each_to_their_svm(run):
    *examples, random = run("joint_training", 10).values()
    assert len(examples) == 2
    for rows in examples:
        assert_near(rows, 1e-4)
    assert_near(random, 0.005)
    alignment = measured(random)
    relaxed, plain = (
        [alignment[f"steps of the head {step}, p to {svm} SVM"] for step in (0.1, 3.0)]
        for svm in ("relaxed", "plain")
    )
    assert relaxed[0] < plain[0]
    assert plain[1] < relaxed[1] - 0.01
