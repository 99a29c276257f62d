"""What holds for the package as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import simile
from simile.cli import EXTRAS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import simile", ("numpy",)),
        ("import simile; [getattr(simile, n) for n in simile.__all__]", ("numba", "sklearn", "pyarrow", "safetensors")),
    ],
)
def test_importing_simile_loads_nothing_heavy(code: str, heavy: tuple[str, ...]):
    told = (
        f"{code}; import sys; print([m for m in {heavy} + ('torch', 'scipy', 'pandas', 'skops') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_stub_tells_type_checkers_the_same_names_from_the_same_homes():
    stub = ast.parse(Path(simile.__file__).with_suffix(".pyi").read_text())
    told = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert told == {name: f"simile.{home}" for home, names in simile.HOMES.items() for name in names.split()}


def test_a_name_that_does_not_exist_is_an_attribute_error_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = simile.lern
    assert set(simile.__all__) < set(dir(simile))


def test_every_public_name_exists_and_is_documented():
    for name in simile.__all__:
        assert getattr(simile, name).__doc__, name


def test_every_error_is_a_simile_error():
    for name in ("ArgumentError", "DataError", "DivergedError", "StorageError"):
        assert issubclass(getattr(simile, name), simile.SimileError)


def test_the_version_is_said_once_and_the_same():
    assert simile.__version__ == version("smooth-imitation")


def test_extras_that_messages_and_docs_name_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    named = {name for found in re.findall(r"smooth-imitation\[([\w,]+)\]", text) for name in found.split(",")}
    named |= set(re.findall(r'\bneed\([^()]*"[^"]*", (?:extra=)?"(\w+)"\)', text)) | set(EXTRAS.values())
    assert {"cli", "torch", "video", "tracking"} <= named <= set(project["optional-dependencies"])


def test_make_help_lists_every_target_and_make_install_every_extra():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    assert targets == set(re.findall(r"^([a-z-]+):.* ## \w", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.search(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)[1].split(","))
    assert extras == set(project["optional-dependencies"]) - {"bench"}  # `make bench` adds that itself
