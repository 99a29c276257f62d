"""The whole loop on the live page: corrections that were recorded, the next version, its verdict, and put to work."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from simile.client import Client

import browser as real
import servers
import simile
import studio_pages
from browser import Opener, screenshot, until
from servers import Server, served
from simile.data.corrections import read_corrections
from simile.experiments.operators import ScriptedOperator
from simile.policies.ledger import Ledger
from test_studio_page_live import Streaming, drag, show

browser, open_page = real.browser, real.open_page


@dataclass
class Loop:
    """A policy that is served and recorded, with a shadow, and a studio that may improve it."""

    policy: Path
    recording: Path
    service: Server
    studio: studio_pages.Studio
    contexts: np.ndarray


@pytest.fixture(scope="module")
def loop(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    folder = tmp_path_factory.mktemp("loop")
    demos = simile.tasks.pursuit(n_sequences=16, length=240, seed=0)
    forest = simile.SmoothForest(n_trees=4)
    policy = simile.learn(demos[:2], model=forest).policy
    policy.save(folder / "pan.safetensors")
    simile.learn(demos[:4], model=forest).policy.save(folder / "next.safetensors")
    recording = folder / "recording"
    recording.mkdir()
    simile.write(simile.Demonstrations(tuple(demos[:8])), folder / "games.csv")
    options = ("--record", str(recording), "--shadow", str(folder / "next.safetensors"))
    with served(folder / "pan.safetensors", *options) as service:
        # A day of somebody who took over wherever it was wrong.
        for i, one in enumerate(ScriptedOperator(threshold=3.0, patience=0.3).watch(policy, demos[8:])):
            with Client(f"{service.url}/day-{i}") as client:
                client.open(start=one.actions[0])
                for x, a, operated in zip(one.demo.contexts, one.actions, one.operated, strict=True):
                    client.override(a, x) if operated else client.step(x)
        studio = Improving(folder / "studio", folder).start()
        try:
            yield Loop(folder / "pan.safetensors", recording, service, studio, demos.contexts[9])
        finally:
            studio.end()


class Improving(studio_pages.Studio):
    """A studio that was started with what to improve."""

    def __init__(self, folder: Path, data: Path) -> None:
        super().__init__(folder)
        self.data = data

    def start(self) -> Improving:
        improve = ["--improve", str(self.data / "pan.safetensors"), str(self.data / "recording")]
        options = ["--no-open", "--port", "0", "--folder", str(self.folder), *improve, "--actions", "pan"]
        command = [sys.executable, "-m", "simile", "studio", str(self.data / "games.csv"), *options]
        with (self.folder.parent / "studio.log").open("a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        found = re.search(r"http://\S+:(\d+)/\?token=\S+", process.stdout.readline())
        assert found is not None
        self.address = found[0]
        return self


@pytest.mark.long
def test_the_next_version_is_learned_judged_side_by_side_and_put_to_work(loop: Loop, open_page: Opener) -> None:
    streaming = Streaming(f"{loop.service.url}/camera-1", loop.contexts)
    streaming.client.open(band=0.9)
    streaming.start()
    try:
        page = open_page(loop.studio.address).page
        show(page, loop.service)
        for curve in ("next", "band, low"):  # the shadow, and what the policy is sure of
            until(page, f"document.querySelector('#stream .legend').textContent.includes('{curve}')")
        drag(page, 30)
        streaming.wait_for("operator")
        page.keyboard.press("Space")
        streaming.wait_for("policy")
        page.get_by_role("button", name="Leave out 1").click()
        page.wait_for_timeout(1200)  # what is recorded is on the disk within a second

        improve = page.locator("#improve")
        improve.get_by_label("Demonstrations").wait_for()
        servers.until(lambda: improve.get_by_role("button", name="Improve").is_enabled())
        improve.get_by_role("button", name="Improve").click()
        page.wait_for_selector("#improve[data-status=running]")
        page.wait_for_selector("#improve:not([data-status=running])")
        assert improve.get_attribute("data-status") == "done", improve.inner_text()
        assert improve.locator("table.verdict tbody tr").count() == 4
        assert "accepted" in improve.locator("[role=status]").inner_text()
        # What was left out on the page was not learned from.
        own = [s.name for s in read_corrections(loop.recording).stretches if s.sequence.startswith("camera-1 ")]
        taken = len(read_corrections(loop.recording)) - len(own)
        improve.get_by_text(f"Learned from {taken} corrections, {len(own)} left out.").wait_for()
        screenshot(page, "live-improve")
        before = Ledger(loop.policy).at_work
        assert [v.state for v in Ledger(loop.policy).versions()] == ["at work", "candidate"]
        improve.get_by_role("button", name="Put it to work").click()
        page.wait_for_selector("#improve[data-status='at work']")
        page.locator("#events li[data-kind=reloaded]").wait_for()  # the service has taken it over
        versions = Ledger(loop.policy).versions()
        assert [v.state for v in versions] == ["was at work", "at work"]
        assert loop.service.get("/policy").json()["digest"] == Ledger(loop.policy).at_work != before
        assert np.abs(np.diff(streaming.sent)).max() < 12.0  # without a jump
        Ledger(loop.policy).roll_back()  # by somebody else: the page does not go on saying that it is at work
        page.wait_for_selector("#improve[data-status=done]")
    finally:
        streaming.end()
