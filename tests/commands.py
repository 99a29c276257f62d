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
def stdin_of(given: str | bytes) -> Iterator[None]:
    data = given.encode() if isinstance(given, str) else given
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), "utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def simile_(
    *arguments: str | Path, cwd: Path, code: int = 0, stdin: str | bytes = "", process: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, in this process unless told otherwise, and see that its exit code is as expected."""
    words = command(*arguments)
    if process:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ended = subprocess.run(words, cwd=cwd, capture_output=True, input=given, timeout=300, check=False)
        done = subprocess.CompletedProcess(words, ended.returncode, ended.stdout.decode(), ended.stderr.decode())
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
