"""What holds for the package as a whole."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import simile


def test_importing_simile_loads_nothing_heavy():
    code = (
        "import sys, simile; print([m for m in ('numba', 'torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented():
    for name in simile.__all__:
        assert getattr(simile, name).__doc__, name


def test_every_error_is_a_simile_error():
    for name in ("ArgumentError", "DataError", "DivergedError"):
        assert issubclass(getattr(simile, name), simile.SimileError)


def test_the_version_is_said_once_and_the_same():
    assert simile.__version__ == version("smooth-imitation")


@pytest.mark.slow
def test_the_demo_prints_a_table_and_saves_a_picture(tmp_path: Path):
    picture = tmp_path / "sub" / "demo.png"
    done = subprocess.run(
        [sys.executable, "-m", "simile.demo", str(picture)],
        capture_output=True,
        text=True,
        check=True,
        env={"MPLBACKEND": "agg", "HOME": str(tmp_path), "PATH": ""},
    )
    assert "<- chosen" in done.stdout
    assert "times smoother" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
