"""The command `simile` for tests: in this process, or as one of its own where a process is the point.

A process of its own costs seconds of starting and importing. One test per verb has one, and so has what is about
signals, kills, pipes, imports, or bits that must be the same in another process; everything else calls `main`.
"""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from simile.cli import main


def command(*arguments: str | Path) -> list[str]:
    """Return the words that start the command in a process of its own."""
    return [sys.executable, "-m", "simile", *map(str, arguments)]


@contextlib.contextmanager
def stdin_of(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before


def simile_(
    *arguments: str | Path, cwd: Path, code: int = 0, stdin: str = "", process: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, in this process unless told otherwise, and see that its exit code is as expected."""
    words = command(*arguments)
    if process:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, input=stdin, timeout=300, check=False)
    else:
        out, err = io.StringIO(), io.StringIO()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        with (
            contextlib.chdir(cwd),
            stdin_of(stdin),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                returned = main(words[3:])
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        done = subprocess.CompletedProcess(words, returned, out.getvalue(), err.getvalue())
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done
