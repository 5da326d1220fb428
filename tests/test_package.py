"""The package as a whole: what it exports, and what importing it costs."""

import ast
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from textwrap import dedent

import pytest

import skattn

ROOT = Path(__file__).parents[1]
NAMES = [name for name in skattn.__all__ if name != "__version__"]


def run_python(code):
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_the_changelog_begins_with_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == skattn.__version__


def test_the_package_is_marked_as_typed():
    assert (files("skattn") / "py.typed").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_public_name_resolves(name):
    value = getattr(skattn, name)
    assert value.__name__ in (name, f"skattn.{name}")
    assert name in dir(skattn)


def test_dir_shows_public_names_alone():
    assert dir(skattn) == sorted(skattn.__all__)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(skattn.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.name for statement in guarded.body for alias in statement.names]
    assert sorted(seen) == sorted(NAMES)


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="module 'skattn' has no attribute 'x'"):
        skattn.x  # noqa: B018


def test_importing_the_package_loads_no_other():
    loaded = run_python("import sys, skattn; print(*sys.modules)").split()
    assert not {"numpy", "sklearn", "torch", "cvxpy"}.intersection(loaded)


@pytest.mark.parametrize(
    "module",
    [
        "convex",
        "datasets",
        "estimators",
        "inspection",
        "mappings",
        "margin",
        "preprocessing",
        "selection",
        "theory",
        "tokens",
    ],
)
def test_importing_a_module_adds_nothing_heavy_to_scikit_learn(module):
    code = f"""
        import sys, sklearn
        before = set(sys.modules)
        import skattn.{module}
        print(*sys.modules.keys() - before)
    """
    added = run_python(dedent(code)).split()
    assert f"skattn.{module}" in added
    assert not {"torch", "cvxpy", "pandas", "matplotlib"}.intersection(added)


def test_import_is_quick_once_scikit_learn_is_there():
    code = (
        "import sklearn, time; start = time.perf_counter(); import skattn; "
        "print(time.perf_counter() - start)"
    )
    assert min(float(run_python(code)) for _ in range(3)) < 0.3
