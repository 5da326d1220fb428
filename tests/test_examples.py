"""The scripts in examples/ run, and what they print is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

pytestmark = pytest.mark.slow


def output_of(name, *arguments):
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def numbers(pattern, text):
    found = re.findall(pattern, text, re.MULTILINE)
    return [tuple(map(float, groups)) for groups in found]


def test_every_script_is_tested_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "boolean_functions.py",
        "convex_heads.py",
        "explain_vowels.py",
        "from_gradient_descent_to_svm.py",
        "from_svr_to_attention.py",
        "molecules.py",
        "token_groups.py",
        "vowels.py",
    }


def test_boolean_functions_are_hidden_from_labels_and_told_by_hints():
    output = output_of("boolean_functions.py")
    table = numbers(r"^ +(\d+) +(0\.\d{3}) +(0\.\d{3})$", output)
    assert [int(n_hidden) for n_hidden, _, _ in table] == [4, 6, 8, 10]
    for n_hidden, probability, measured in table:
        expected = (1 - 2**-n_hidden) ** 200
        assert probability == pytest.approx(expected, abs=5e-4)
        # Four standard deviations of a share of 500.
        assert abs(measured - expected) <= 4 * (expected * (1 - expected) / 500) ** 0.5

    (found,) = numbers(r"found, mean +(\S+) of (\d+)", output)
    chance = float(re.search(r"by chance +(\S+)", output)[1])
    assert chance - 1 < found[0] < found[1] - 1
    assert re.search(r"all found +(\d+) draws", output)[1] == "0"

    sections = output.split("One gradient step")[1:]
    assert [re.search(r"(\w+):", section)[1] for section in sections] == [
        "and",
        "or",
        "noisy_and",
        "noisy_or",
    ]
    for section, ceiling in zip(sections, (1, 1, 0.9, 0.9), strict=True):
        assert "10 of 10 draws" in section
        right = float(re.search(r"right +(\S+)", section)[1])
        assert right == pytest.approx(ceiling, abs=0.02)


def test_molecules_are_classified_and_explained():
    output = output_of("molecules.py")
    accuracies = numbers(r"(0\.\d{3}) \(std (0\.\d{3})\)", output)
    assert len(accuracies) == 2
    assert all(mean > 0.7 for mean, _ in accuracies)
    sums = numbers(r"shapes (\S+) and the intercept (\S+) make (\S+):", output)
    assert len(sums) == 2
    for contributions, intercept, score in sums:
        assert contributions + intercept == pytest.approx(score, abs=0.002)


def test_vowels_are_told_apart_also_by_few_frames():
    output = output_of("vowels.py")
    accuracies = re.findall(r"accuracy (0\.\d{3}|1\.000)", output)
    assert len(accuracies) == 2
    assert min(map(float, accuracies)) > 0.9
    shares = re.findall(r"part \d: (0\.\d\d)", output)
    assert len(shares) == 4
    assert sum(map(float, shares)) == pytest.approx(1, abs=0.02)
    assert len(re.search(r": \[(.*)\]", output)[1].split(",")) == 3


def test_explanations_of_vowels_name_what_decides():
    output = output_of("explain_vowels.py")
    rows = numbers(r"^ +([01]\.\d) +(\S+) +(\S+) +(\S+)$", output)
    assert [share for share, *_ in rows] == [tenth / 10 for tenth in range(11)]
    accuracy = float(re.search(r"Accuracy (0\.\d{3}) on", output)[1])
    assert rows[0][1:] == (accuracy,) * 3
    # Deletion at random is survived longer at every share.
    assert all(max(named) < at_random for _, at_random, *named in rows[1:])
    areas = dict(re.findall(r"curves, by (\w+): (0\.\d{3})", output))
    assert float(areas["contributions"]) > float(areas["weights"]) > 0.1
    losses = numbers(r"(?:coefficient|frame) +\d+: (\S+) \+- (\S+)", output)
    assert len(losses) == 6
    assert all(mean > 3 * std for mean, std in losses)


def test_training_approaches_the_svm_and_the_svm_is_where_it_leads():
    output = output_of("from_gradient_descent_to_svm.py")
    of_w, of_keys_and_queries, back = re.split(
        r"^(?:Training KQ|From)", output, flags=re.MULTILINE
    )
    for section in (of_w, of_keys_and_queries):
        rows = re.findall(r"(\d+)  0\.\d+ +(0\.\d+) +(True|False)", section)
        assert [int(steps) for steps, _, _ in rows] == [100, 300, 1000, 2000]
        alignments = [float(alignment) for _, alignment, _ in rows]
        assert alignments == sorted(alignments)
        assert alignments[-1] > 0.99
        assert rows[-1][2] == "True"

    trained, started = map(float, re.findall(r"(0\.\d{10})$", back, re.MULTILINE))
    assert started == pytest.approx(trained, abs=1e-4)
    assert float(re.search(r"100 steps +(\S+)", back)[1]) > 0.999
    assert re.search(r"stay +(\S+)", back)[1] == "True"


def test_convex_heads_are_certified_and_one_beats_the_linear_head():
    output = output_of("convex_heads.py", "hidden")
    rows = re.findall(r"^([^\d\n]+?) +([01]\.\d{3})(.*) s$", output, re.MULTILINE)
    accuracy = {name: float(value) for name, value, _ in rows}
    assert list(accuracy) == [
        "linear",
        "gated MLP",
        "linear self-attention",
        "gated self-attention",
        "trained attention",
    ]
    assert accuracy["gated MLP"] > accuracy["linear"]
    assert min(accuracy.values()) > 0.9
    for _, _, rest in rows[1:4]:
        rank, gap, _ = map(float, rest.split())
        assert rank > 0
        assert gap <= 1e-4


def test_groups_hold_neighbouring_frames_together():
    output = output_of("token_groups.py")
    assert float(re.search(r"accuracy (\S+),", output)[1]) > 0.9
    assert float(re.search(r"gap (\S+)\.", output)[1]) <= 1e-4
    by_lag = [float(share) for share in re.findall(r"apart: (\S+)", output)]
    by_chance = float(re.search(r"any two series: (\S+)", output)[1])
    assert by_lag == sorted(by_lag, reverse=True)
    assert by_lag[-1] > by_chance + 0.05
    four = r"^  (0\.\d\d)  (0\.\d\d)  (0\.\d\d)  (0\.\d\d)$"
    rows = [tuple(map(float, row)) for row in re.findall(four, output, re.MULTILINE)]
    assert len(rows) == 4
    for index, row in enumerate(rows):
        assert row[index] == max(row)
        assert row[index] > by_chance + 0.2


def test_from_svr_to_attention():
    printed = output_of("from_svr_to_attention.py")
    pairs = numbers(r"difference (\S+) +R\^2 (\S+)", printed)
    assert len(pairs) == 5
    assert max(difference for difference, _ in pairs) < 1e-10
    softmax, linear, normalised, _, of_means = (score for _, score in pairs)
    assert max(softmax, linear) < 0.2 < normalised < of_means
    trained = numbers(r"R\^2 (\S+) +distance of heads (\S+)", printed)
    assert len(trained) == 5
    # Heads that see one token and all of them are further apart.
    assert min(trained[3][1], trained[4][1]) > 2 * trained[0][1]
