"""Run the code of the README and the docs as tests: what they claim must be true.

The tutorial is run from beginning to end, its commands too, where the data it speaks of are at hand (SIMILE_DATA).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


PAGES = [Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"], excludes=["CHANGELOG.md", "docs/tutorial.md"])]
if (DATA / "car_following.csv").exists():
    commands = CodeBlockParser("console", run_commands)
    PAGES.append(
        Sybil(parsers=[PythonCodeBlockParser(), commands], patterns=["docs/tutorial.md"], setup=enter, teardown=leave)
    )


class Page(pytest.File):
    """A page with code."""

    def collect(self) -> Iterator[pytest.Item]:
        """Make it one test: a block builds on those before it, which another worker might have got."""
        for sybil in PAGES:
            if sybil.should_parse(self.path) and any(sybil.parse(self.path).examples()):
                yield Code.from_parent(self, name="code", sybil=sybil)


class Code(pytest.Item):
    """The code of a page, from beginning to end."""

    def __init__(self, sybil: Sybil, **rest: Any) -> None:
        super().__init__(**rest)
        self.sybil = sybil

    def runtest(self) -> None:
        """Run block after block."""
        document = self.sybil.parse(self.path)
        if self.sybil.setup is not None:
            self.sybil.setup(document.namespace)
        try:
            for example in document.examples():
                try:
                    example.evaluate()
                except Exception as error:
                    error.add_note(f"in the code at line {example.line} of {self.path}")
                    raise
        finally:
            if self.sybil.teardown is not None:
                self.sybil.teardown(document.namespace)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Page | None:
    """Take pages as test files."""
    if any(sybil.should_parse(file_path) for sybil in PAGES):
        return Page.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: whoever gets it last keeps the others waiting."""
    items.sort(key=lambda item: not (isinstance(item, Code) or item.path.name in ("test_soak.py", "test_attack.py")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Take a worker more than there are cores: some tests wait for servers and browsers."""
    return (os.cpu_count() or 1) + 1
