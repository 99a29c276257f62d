"""Try the wheel in dist/ as a user would: in a fresh environment, outside the checkout (`make dist`).

The wheel must hold every file of src/simile; what it installs must train, report, run, serve and open a studio.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

ROOT = Path(__file__).resolve().parents[1]
MAKE_DATA = """\
import simile
print("simile from", simile.__file__)
simile.write(simile.tasks.pursuit(n_sequences=6, length=120), "games.csv")
"""


def main() -> None:
    """Look into the wheel, install it, use it."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    check_content(wheel)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Environment(wheel, Path(folder))
        fresh.install("cli")
        assert folder in fresh.call("python", "-c", MAKE_DATA), "the wheel is not what was imported"
        fresh.call("simile", "train", "games.csv", "--actions", "pan", "--model", "SmoothForest(n_trees=4)")
        fresh.call("simile", "report", "run", "--out", "page.html")
        assert "</html>" in Path(folder, "page.html").read_text(encoding="utf-8")
        actions = fresh.call("simile", "run", "run/policy.safetensors", stdin=Path(folder, "games.csv").read_text())
        assert len(actions.splitlines()) == 1 + 6 * 120, actions
        fresh.install("studio")
        assert fresh.open("studio", "games.csv", "--actions", "pan", "--port", "0", "--no-open")
        fresh.install("serve")
        serve = ("serve", "run/policy.safetensors", "--port", "0", "--http-port")
        # Between choosing a port and listening on it, another process may take it.
        assert any(fresh.open(*serve, str(free_port()), path="/health") for _ in range(5))
    print(f"{wheel.name} works")


def check_content(wheel: Path) -> None:
    """Compare the files of the wheel with those of src: pages, templates, the stub and py.typed are among them."""
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == files, f"only in src: {sorted(files - packed)}; only in the wheel: {sorted(packed - files)}"
    print(f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size / 1e6:.1f} MB")


class Environment:
    """A fresh virtual environment in a folder where the wheel is used; nothing of the checkout helps."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        self.wheel, self.folder = wheel, folder
        self.bin = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def install(self, extra: str) -> None:
        """Install the wheel with one more extra: each command must do with its own."""
        pip = ("-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"))
        self.call("python", *pip, f"{self.wheel}[{extra}]")

    def call(self, program: str, *arguments: str, stdin: str = "") -> str:
        """Run a program of the environment and return what it printed."""
        print("$", program, *(argument.splitlines()[0] for argument in arguments), flush=True)
        done = subprocess.run([self.bin / program, *arguments], input=stdin, capture_output=True, **self.where)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def open(self, *arguments: str, path: str = "") -> bool:
        """Start a server, ask for a page below the address that it prints, and stop it; returns whether it started."""
        print("$ simile", *arguments, flush=True)
        browser = build_opener(ProxyHandler({}), HTTPCookieProcessor())  # the studio turns its token into a cookie
        browser.addheaders = [("Sec-Fetch-Site", "none")]  # as of an address that somebody has typed
        with subprocess.Popen([self.bin / "simile", *arguments], stdout=subprocess.PIPE, **self.where) as server:
            try:
                words = (word for line in server.stdout for word in line.split())
                address = next((word for word in words if word.startswith("http://")), None)
                if address is None:
                    return False
                with browser.open(address + path) as answer:
                    assert answer.status == 200, address
                return True
            finally:
                server.terminate()

    @property
    def where(self) -> dict[str, Any]:
        """What every process gets."""
        return {"text": True, "cwd": self.folder, "env": self.variables}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
