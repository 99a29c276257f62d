"""Run the code of the README and the docs as tests: what they claim must be true.

The tutorial is run from beginning to end, its commands too, where the data it speaks of are at hand (SIMILE_DATA).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

DATA = Path(os.environ.get("SIMILE_DATA", "../shared/data")).absolute() / "car_following"


def run_commands(example: Example) -> None:
    """Run each line after a `$` in a shell, with this environment's `simile`; it must succeed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in str(example.parsed).splitlines():
        if line.startswith("$ "):
            subprocess.run(line[2:], shell=True, check=True, capture_output=True, env={**os.environ, "PATH": path})


def enter(namespace: dict[str, object]) -> None:
    """Begin the tutorial in a folder with nothing but its data."""
    namespace["home"], folder = os.getcwd(), tempfile.mkdtemp()
    for name in ("car_following.csv", "sequences.csv"):
        shutil.copy(DATA / name, folder)
    os.chdir(folder)


def leave(namespace: dict[str, object]) -> None:
    """Go back to where the tests run."""
    shutil.rmtree(os.getcwd())
    os.chdir(str(namespace["home"]))


documents = Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"], excludes=["CHANGELOG.md", "docs/tutorial.md"])
if (DATA / "car_following.csv").exists():
    commands = CodeBlockParser("console", run_commands)
    documents += Sybil(
        parsers=[PythonCodeBlockParser(), commands], patterns=["docs/tutorial.md"], setup=enter, teardown=leave
    )
pytest_collect_file = documents.pytest()
