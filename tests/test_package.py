"""What holds for the package as a whole."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import simile


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
