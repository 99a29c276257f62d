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
        use(install(wheel, Path(folder)), Path(folder))
    print(f"{wheel.name} works")


def check_content(wheel: Path) -> None:
    """Compare the files of the wheel with those of src: pages, templates, the stub and py.typed are among them."""
    source = ROOT / "src"
    files = {
        p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file() and p.parent.name != "__pycache__"
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == files, f"only in src: {sorted(files - packed)}; only in the wheel: {sorted(packed - files)}"
    print(f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel, with what serving and the studio need, and return the folder of its commands."""
    venv.create(folder / "venv", with_pip=True)
    bin_ = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [bin_ / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, f"{wheel}[serve,studio]"], check=True, cwd=folder)
    return bin_


def use(bin_: Path, folder: Path) -> None:
    """Train, report, run, serve and open a studio, by the command `simile`."""
    # Nothing of the checkout may help.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def call(program: str, *arguments: str, stdin: str = "") -> str:
        print("$", program, *arguments[: 1 if program == "python" else None], flush=True)
        command = [bin_ / program, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=folder, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(*arguments: str, path: str = "") -> None:
        """Start a server, ask for a page below the address that it prints, and stop it."""
        print("$ simile", *arguments, flush=True)
        command = [bin_ / "simile", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment) as server:
            try:
                assert server.stdout is not None
                address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
                browser = build_opener(
                    ProxyHandler({}), HTTPCookieProcessor()
                )  # the studio turns its token into a cookie
                with browser.open(address + path) as answer:
                    assert answer.status == 200, address
            finally:
                server.terminate()

    assert str(folder) in call("python", "-c", MAKE_DATA)
    call("simile", "train", "games.csv", "--actions", "pan", "--model", "SmoothForest(n_trees=4)")
    call("simile", "report", "run", "--out", "page.html")
    assert "</html>" in (folder / "page.html").read_text(encoding="utf-8")
    actions = call("simile", "run", "run/policy.safetensors", stdin=(folder / "games.csv").read_text())
    assert len(actions.splitlines()) == 1 + 6 * 120, actions
    start("serve", "run/policy.safetensors", "--port", "0", "--http-port", str(free_port()), path="/health")
    start("studio", "games.csv", "--actions", "pan", "--port", "0", "--no-open")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
