"""A studio for tests of its page: the real server in a process of its own, with runs to look at."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import simile

pytest.importorskip("uvicorn", reason="needs the extra 'studio'")
pytest.importorskip("pyarrow", reason="needs pyarrow")

MODEL = "SmoothForest(n_trees=4)"
LARGEST = 5  # MB of an upload
PLOT = "#curves canvas"
EXPERT, POLICY, PREVIEW = "#1b1f24", "#0072b2", "#e69f00"
SLIDES = "performance.getEntriesByName('slide').map((slide) => slide.duration)"


@dataclass
class Studio:
    """A server in a child process."""

    folder: Path
    port: int = 0
    address: str = ""
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> Studio:
        options = ["--no-open", "--port", str(self.port), "--folder", str(self.folder), "--max-upload", str(LARGEST)]
        with (self.folder.parent / "studio.log").open("a") as log:
            command = [sys.executable, "-m", "simile", "studio", *options]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        found = next((m for line in process.stdout if (m := re.search(r"http://\S+:(\d+)/\?token=\S+", line))), None)
        assert found is not None, "the studio has printed no address"
        self.address, self.port = found[0], int(found[1])
        return self

    def kill(self) -> None:
        self.processes[-1].kill()
        self.processes[-1].wait()

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
            process.communicate()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        base, token = self.address.split("/?token=")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{base}{path}", data, {"Authorization": f"Bearer {token}"}, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    def run(self, **wish: Any) -> dict[str, Any]:
        """Start a run and wait for its end."""
        key = self.ask("POST", "/api/runs", {"kind": "train", "model": MODEL, **wish})["id"]
        while True:
            found: dict[str, Any] = next(r for r in self.ask("GET", "/api/state", {})["runs"] if r["id"] == key)
            if found["status"] not in ("waiting", "running"):
                assert found["status"] == "done", found["error"]
                return found
            time.sleep(0.2)


@pytest.fixture(scope="module")
def studio(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    started = Studio(tmp_path_factory.mktemp("studio") / "folder").start()
    yield started
    started.end()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight short sequences, of which two are held out; it has to be said which column is the action."""
    path = tmp_path_factory.mktemp("data") / "pursuit.csv"
    simile.write(simile.tasks.pursuit(n_sequences=8, length=150), path)
    return path


@pytest.fixture(scope="module")
def trained(studio: Studio, table: Path) -> dict[str, Any]:
    """A run of several rounds that is done."""
    data = studio.ask("PUT", "/api/data/table.csv", table.read_bytes())["id"]
    studio.ask("POST", f"/api/data/{data}", {"actions": ["pan"]})
    return studio.run(data=data, algorithm="paper", n_rounds=3, smoothness="5")


@pytest.fixture(scope="module", params=[4_000, pytest.param(10_000, marks=pytest.mark.long)])
def long(studio: Studio, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    """A run that was held to one long sequence, and learned from shorter ones."""
    path = tmp_path_factory.mktemp("data") / "long.parquet"
    *most, last = simile.tasks.pursuit(n_sequences=3, length=request.param)
    short = (replace(demo, contexts=demo.contexts[:500], actions=demo.actions[:500]) for demo in most)
    simile.write(simile.Demonstrations((*short, last)), path)
    data = studio.ask("PUT", "/api/data/long.parquet", path.read_bytes())["id"]
    return studio.run(data=data, smoothness="30")


def show(page: Any, run: dict[str, Any]) -> None:
    """Select a run, and wait until its curves are drawn."""
    page.locator("button.name", has_text=re.compile(f"^{re.escape(run['name'])}$")).first.click()
    page.wait_for_selector("#curves[data-points]")
    page.wait_for_timeout(200)


def picture(page: Any) -> str:
    return str(page.evaluate(f"document.querySelector('{PLOT}').toDataURL()"))


def complaint(page: Any) -> str:
    text: str = page.locator("[role=alert] .banner p").first.inner_text()
    return text
