"""A real browser for tests of pages: Chromium, driven by Playwright. Without either, these tests are skipped.

`browser` and `open_page` are fixtures. A test module takes them by name, since linters see no use in an import of them:

    import browser as real
    browser, open_page = real.browser, real.open_page
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conftest import NO_BROWSER

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 90.0  # seconds: what a page waits for takes many times as long on a machine that has other work
QUIET = tuple(f"--disable-{what}" for what in ("gpu", "background-networking", "component-update", "sync"))


WINDOW = {"width": 1280, "height": 900}


@dataclass
class Opened:
    """A page, and what it did that nobody sees: complaints in the console, and requests."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))

    def look(self, viewport: Any = WINDOW, color_scheme: str = "light", offline: bool = False) -> None:
        """Look at the page as a new one would look that was opened so."""
        self.page.set_viewport_size(viewport)
        self.page.emulate_media(media="null", color_scheme=color_scheme)
        self.page.context.set_offline(offline)

    def empty(self) -> None:
        """Leave the page, and forget what it did and what it keeps."""
        for other in self.page.context.pages:
            if other != self.page:
                other.close()
        self.page.evaluate("try { localStorage.clear() } catch {}")  # where no page came, there is none
        self.page.context.clear_cookies()
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")
        for heard in (self.complaints, self.requests, self.failed):
            heard.clear()

    def _hear(self, message: Any) -> None:
        # The browser advises against reading pixels often: that is the tests' doing, not the page's.
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.complaints.append(message.text)


Opener = Callable[..., Opened]
# Of each browser, a page for all that is opened in ways that a page can change: a new one would start a process.
KEPT: dict[Any, Opened] = {}
CHANGED = {"viewport", "color_scheme", "offline"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests of a module."""
    sync_api = pytest.importorskip("playwright.sync_api", reason=f"{NO_BROWSER}, driven by playwright")
    if CHROMIUM is None:
        pytest.skip(f"{NO_BROWSER}: chromium or google-chrome")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *QUIET])
        yield chromium
        KEPT.pop(chromium, None)
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Opener]:
    """Return a function that opens a page in a context of its own, or in one that has been emptied.

    Its arguments: an address (or None, to go there later), `calm` (whether the test fails when the page complains in
    the console; True), and any of Playwright's `new_context`, such as `viewport`, `color_scheme` and `offline`.
    """
    contexts: list[Any] = []
    calm_ones: list[Opened] = []
    used: list[Opened] = []

    def new(**options: Any) -> Opened:
        context = browser.new_context(**{"viewport": WINDOW, **options})
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        return Opened(context.new_page())

    def opener(url: str | Path | None, *, calm: bool = True, **options: Any) -> Opened:
        if url is not None and options.keys() <= CHANGED and not used:
            if browser not in KEPT:
                KEPT[browser] = new()
                contexts.pop()
            opened = KEPT[browser]
            opened.look(**options)
            used.append(opened)
        else:
            opened = new(**options)
        if calm:
            calm_ones.append(opened)
        if url is not None:
            opened.page.goto(url.absolute().as_uri() if isinstance(url, Path) else url)
        return opened

    yield opener
    for context in contexts:
        context.close()
    complaints = [complaint for opened in calm_ones for complaint in opened.complaints]
    for opened in used:
        opened.empty()
    assert not complaints, complaints


def screenshot(page: Any, name: str, *, full: bool = True) -> Path:
    """Write what a page looks like to the folder SIMILE_SCREENSHOTS (out/screenshots), for people to look at."""
    path = Path(os.environ.get("SIMILE_SCREENSHOTS", "out/screenshots")) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=full)
    return path


def scrolls_sideways(page: Any) -> bool:
    """Whether a page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def until(page: Any, expression: str, arg: Any = None, seconds: float = PATIENCE) -> None:
    """Wait until a JavaScript expression, or function of `arg`, is true.

    Playwright's own `wait_for_function` evaluates texts inside the page, which the pages' security policy forbids.
    """
    for _ in range(int(20 * seconds)):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"still not true after {seconds:g} s: {expression}")


def pixels_near(page: Any, canvas: str, colour: str, tolerance: int = 40) -> int:
    """Count the pixels of a canvas (a CSS selector: its first) whose colour is near one such as "#0072b2"."""
    return int(page.evaluate(COUNT_PIXELS, [canvas, colour, tolerance]))


COUNT_PIXELS = """([selector, colour, tolerance]) => {
  const canvas = document.querySelector(selector);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const wanted = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const near = wanted.every((w, c) => Math.abs(data[i + c] - w) <= tolerance);
    if (near && data[i + 3] > 128) count += 1;
  }
  return count;
}"""
