"""The live page in a real browser: a service, a client that streams, and a person who takes over and hands back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simile.client import Client

import browser as real
import servers
import simile
import studio_pages as shared
from browser import Opener, pixels_near, screenshot, scrolls_sideways, until
from servers import served
from studio_pages import Studio

browser, open_page, studio = real.browser, real.open_page, shared.studio
contexts, policies = servers.contexts, servers.policies

POLICY, OPERATOR = "#0072b2", "#d55e00"
WHO = ".who canvas"


class Streaming(threading.Thread):
    """A client that sends frames at its own pace, and keeps who acted and what was sent."""

    def __init__(self, url: str, contexts: np.ndarray, rate: float = 30.0) -> None:
        super().__init__(daemon=True)
        self.client, self.contexts, self.rate = Client(url), contexts, rate
        self.by: list[str | None] = []
        self.sent: list[float] = []
        self.ended = threading.Event()

    def run(self) -> None:
        n = 0
        while not self.ended.is_set():
            # There and back, so that there is no jump.
            at = n % (2 * len(self.contexts))
            self.sent.append(float(self.client.step(self.contexts[min(at, 2 * len(self.contexts) - 1 - at)])[0]))
            self.by.append(self.client.by)
            n += 1
            time.sleep(1.0 / self.rate)

    def end(self) -> None:
        self.ended.set()
        self.join()
        self.client.close()  # which does nothing where it is closed

    def wait_for(self, by: str) -> None:
        servers.until(lambda: self.by[-3:] == [by] * 3, seconds=30)


@pytest.fixture(scope="module")
def service(policies: dict[str, Path]) -> Iterator[servers.Server]:
    with served(policies["served"]) as running:
        yield running


@pytest.fixture
def stream(service: servers.Server, contexts: np.ndarray) -> Iterator[Streaming]:
    streaming = Streaming(f"{service.url}/camera-1", contexts)
    streaming.start()
    yield streaming
    streaming.end()


def show(page: Any, service: servers.Server, name: str = "camera-1") -> None:
    """Go to the live page, find the service's streams, and choose one."""
    page.get_by_role("link", name="Live").click()
    page.get_by_label("Service").fill(service.url.removesuffix("/streams"))
    page.get_by_role("button", name="Look for streams").click()
    page.locator(".streams button", has_text=name).click()
    page.wait_for_selector(".state[data-by=policy]")
    page.wait_for_selector("#stream .timechart[data-points]")


def drag(page: Any, by: float, up: bool = True) -> None:
    """Drag the lever by so many pixels, down, and let go of the mouse."""
    box = page.locator(".knob").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + by, steps=8)
    if up:
        page.mouse.up()


def test_a_stream_is_taken_over_by_the_mouse_handed_back_and_found_in_the_list(
    studio: Studio, service: servers.Server, stream: Streaming, open_page: Opener, tmp_path: Path
) -> None:
    page = open_page(studio.address).page
    show(page, service)
    until(page, "document.querySelector('.facts').textContent.includes('frame')")
    servers.until(lambda: pixels_near(page, "#stream .timechart canvas", POLICY) > 100)
    assert page.get_by_text("None yet").is_visible()

    drag(page, 60)
    stream.wait_for("operator")
    page.wait_for_selector(".state[data-by=operator]")
    until(page, "document.querySelectorAll('#corrections [data-stretch]').length === 1")
    assert page.locator("#events li", has_text="taken over").count() == 1
    page.wait_for_timeout(600)  # longer than a service waits for a word: it goes on being held
    assert stream.by[-1] == "operator"
    # A row is the same while its numbers change, so that it can be pressed, and can have the focus.
    leave = page.locator("[data-stretch='1'] button").nth(1)
    pressed = leave.element_handle()
    leave.focus()
    page.wait_for_timeout(200)
    assert pressed.evaluate("button => button.isConnected && document.activeElement === button")
    leave.click(delay=150)
    leave.get_by_text("Take in").wait_for()
    leave.click()
    assert np.abs(np.diff(stream.sent)).max() < 10.0  # no jump
    page.get_by_role("button", name="Hand back").click()
    stream.wait_for("policy")
    page.wait_for_selector(".state[data-by=policy]")
    assert [e["on"] for e in stream.client.events if e["kind"] == "operated"] == [True, False]
    assert pixels_near(page, WHO, OPERATOR) > 50

    row = page.locator("#corrections [data-stretch='1']")
    assert float(row.locator("td.number").first.inner_text()) >= 0.6
    assert float(row.locator("td.far span").inner_text()) > 0.0
    screenshot(page, "live")
    row.get_by_role("button", name="Watch 1 again").click()
    page.get_by_text("Correction 1, again").wait_for()
    until(page, "document.querySelector('.replay .facts').textContent.includes('the operator acts')")
    until(page, "document.querySelector('.replay .facts').textContent.includes('the policy acts')")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as a table").click()
    saved.value.save_as(tmp_path / "corrections.csv")
    demos = simile.read(tmp_path / "corrections.csv", actions=["pan"], sequence="sequence", time="t")
    acted = [a for a, by in zip(stream.sent, stream.by, strict=False) if by == "operator"]
    np.testing.assert_allclose(np.concatenate([d.actions[:, 0] for d in demos]), acted)
    row.get_by_role("button", name="Leave out 1").click()
    assert "left-out" in (row.get_attribute("class") or "")
    assert page.get_by_role("button", name="Save as a table").is_disabled()
    # Who comes back to a stream finds what was left out of it, and no events, which are those since then.
    page.locator(".streams button", has_text="camera-1").click()
    page.locator("#events").get_by_text("Nothing yet.").wait_for()
    assert "left-out" in (row.get_attribute("class") or "")
    row.get_by_role("button", name="Take in 1").click()


def test_keys_take_over_and_space_hands_back(
    studio: Studio, service: servers.Server, stream: Streaming, open_page: Opener
) -> None:
    page = open_page(studio.address).page
    show(page, service)
    page.locator("body").press("ArrowUp")
    stream.wait_for("operator")
    held = stream.sent[-1]
    for _ in range(10):
        page.keyboard.press("Shift+ArrowUp")
    servers.until(lambda: stream.sent[-1] > held)
    # What is still held when it is handed back takes nothing over: a key that repeats, and a lever.
    page.keyboard.down("ArrowUp")
    page.keyboard.press("Space")
    stream.wait_for("policy")
    page.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', repeat: true, bubbles: true}))"
    )
    page.keyboard.up("ArrowUp")
    drag(page, 20, up=False)
    stream.wait_for("operator")
    page.keyboard.press("Space")
    stream.wait_for("policy")
    page.mouse.move(0, 0, steps=4)
    page.mouse.up()
    page.wait_for_timeout(200)
    assert stream.by[-1] == "policy"
    assert len([e for e in stream.client.events if e["kind"] == "operated"]) == 4

    # Nobody acts in what is not heard of any more.
    page.keyboard.press("ArrowUp")
    stream.wait_for("operator")
    stream.ended.set()
    page.locator(".state", has_text="Nothing is heard").wait_for()
    assert page.get_by_role("button", name="Hand back").is_disabled()
    stream.end()
    page.locator(".state", has_text="The stream has ended").wait_for()


PAD = """() => {
  const pad = { axes: [0.9, 0, 0, 0], buttons: [{ pressed: false }], connected: true };
  window.pad = pad;
  navigator.getGamepads = () => [window.pad];
  dispatchEvent(new Event("gamepadconnected"));
}"""


def test_a_gamepad_takes_over_and_its_first_button_hands_back(
    studio: Studio, service: servers.Server, stream: Streaming, open_page: Opener
) -> None:
    page = open_page(studio.address).page
    show(page, service)
    page.evaluate(PAD)
    stream.wait_for("operator")
    low = stream.sent[-1]
    servers.until(lambda: stream.sent[-1] > low + 0.5)
    page.evaluate("() => { window.pad.buttons[0].pressed = true; }")  # and the stick is still held
    stream.wait_for("policy")
    page.wait_for_timeout(200)
    assert stream.by[-1] == "policy"


def test_a_page_that_is_closed_hands_back(
    studio: Studio, service: servers.Server, stream: Streaming, open_page: Opener
) -> None:
    page = open_page(studio.address).page
    show(page, service)
    drag(page, -30)
    stream.wait_for("operator")
    page.goto("about:blank")
    stream.wait_for("policy")


def test_a_service_that_is_not_there_or_not_here_is_told_in_a_sentence(studio: Studio, open_page: Opener) -> None:
    page = open_page(studio.address, calm=False).page
    page.get_by_role("link", name="Live").click()
    for address, sentence in (
        (f"ws://127.0.0.1:{servers.free_port()}", "no connection to ws://127.0.0.1"),
        ("ws://pan.example:8770", "start the studio with --service ws://pan.example:8770"),
        ("http://127.0.0.1:8771", "service must be the address of a service, like ws://127.0.0.1:8770"),
    ):
        page.get_by_label("Service").fill(address)
        page.get_by_role("button", name="Look for streams").click()
        page.get_by_text(re.compile(re.escape(sentence))).wait_for()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        (1600, "dark"),
        pytest.param(390, "dark", marks=pytest.mark.long),
        pytest.param(1600, "light", marks=pytest.mark.long),
    ],
)
def test_the_page_fits_into_narrow_and_wide_windows(
    studio: Studio, service: servers.Server, stream: Streaming, open_page: Opener, width: int, scheme: str
) -> None:
    page = open_page(studio.address, viewport={"width": width, "height": 900}, color_scheme=scheme).page
    show(page, service)
    drag(page, 40)
    stream.wait_for("operator")
    page.keyboard.press("Space")
    stream.wait_for("policy")
    page.get_by_role("button", name="Watch 1 again").click()
    page.wait_for_timeout(500)
    assert not scrolls_sideways(page)
    for button in page.locator("#corrections .buttons button").all():  # without scrolling in the table, either
        box, table = button.bounding_box(), page.locator("#corrections .scroll").bounding_box()
        assert box["x"] + box["width"] <= table["x"] + table["width"] + 1
    screenshot(page, f"live-{width}-{scheme}")
