"""Run the code of the README and the docs as tests: what they claim must be true.

The tutorial is run from beginning to end, its commands too, where the data it speaks of are at hand (SIMILE_DATA): with
the beginning of each of its sequences, and by `make test-all` with all of them.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

# Threads of scikit-learn and torch that wait for each other sleep: with a worker for each core they wait for long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A shell ignores Ctrl-C for what it runs in the background, and so would the commands whose end by Ctrl-C is tried.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = Path(os.environ.get("SIMILE_DATA", "../shared/data")).absolute() / "car_following"


def run_commands(example: Example, *, here: bool = False) -> None:
    """Run each line after a `$` in a shell, or, `here`, a `simile` that needs none in this process; it must succeed."""
    from simile.cli import main

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in str(example.parsed).splitlines():
        words = shlex.split(line)
        if here and words[:2] == ["$", "simile"] and "|" not in words:
            handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            assert main(words[2:]) == 0, line
            for number, handler in handlers.items():
                signal.signal(number, handler)
        elif line.startswith("$ "):
            subprocess.run(line[2:], shell=True, check=True, capture_output=True, env={**os.environ, "PATH": path})


def enter(namespace: dict[str, object], frames: int | None = None) -> None:
    """Begin the tutorial in a folder with nothing but its data, or so many frames of each of their sequences."""
    namespace["home"], folder = os.getcwd(), tempfile.mkdtemp()
    shutil.copy(DATA / "sequences.csv", folder)
    seen = Counter[str]()
    with open(DATA / "car_following.csv") as recorded, open(Path(folder, "car_following.csv"), "w") as taken:
        taken.writelines(islice(recorded, 1))
        for line in recorded:
            seen[sequence := line.partition(",")[0]] += 1
            if frames is None or seen[sequence] <= frames:
                taken.write(line)
    os.chdir(folder)


def leave(namespace: dict[str, object]) -> None:
    """Go back to where the tests run."""
    shutil.rmtree(os.getcwd())
    os.chdir(str(namespace["home"]))


PAGES = [Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"], excludes=["CHANGELOG.md", "docs/tutorial.md"])]
IN_FULL = []
if (DATA / "car_following.csv").exists():
    for pages, setup in ((PAGES, partial(enter, frames=250)), (IN_FULL, enter)):
        parsers = [PythonCodeBlockParser(), CodeBlockParser("console", partial(run_commands, here=pages is PAGES))]
        pages.append(Sybil(parsers=parsers, patterns=["docs/tutorial.md"], setup=setup, teardown=leave))


class Page(pytest.File):
    """A page with code."""

    def collect(self) -> Iterator[pytest.Item]:
        """Make it one test: a block builds on those before it, which another worker might have got."""
        for sybil in (*PAGES, *IN_FULL):
            if sybil.should_parse(self.path) and any(sybil.parse(self.path).examples()):
                code = Code.from_parent(self, name="code in full" if sybil in IN_FULL else "code", sybil=sybil)
                if sybil in IN_FULL:
                    code.add_marker(pytest.mark.long)
                yield code


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
