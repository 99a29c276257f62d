"""How the studio's page looks and is reached: in a small window, in the dark, by the keyboard."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import browser as real
import studio_pages as shared
from browser import Opener, pixels_near, screenshot, scrolls_sideways
from studio_pages import PLOT, POLICY, Studio, show

browser, open_page = real.browser, real.open_page
studio, table, trained = shared.studio, shared.table, shared.trained


def test_the_page_fits_a_small_window_in_the_dark(studio: Studio, trained: dict[str, Any], open_page: Opener) -> None:
    page = open_page(studio.address, viewport={"width": 360, "height": 700}, color_scheme="dark").page
    show(page, trained)
    page.get_by_text("Advanced").click()
    page.get_by_text("Simulate camera games", exact=True).click()
    assert not scrolls_sideways(page)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", background))) < 120
    assert pixels_near(page, PLOT, "#56b4e9") > 100
    screenshot(page, "studio-small-dark")
    page.get_by_role("button", name="Colours").click()
    page.wait_for_timeout(200)
    assert pixels_near(page, PLOT, POLICY) > 100


UNNAMED = """() => [...document.querySelectorAll("button, input, select, a, iframe, progress")]
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent || e.title || (e.labels && e.labels.length)))
  .map((e) => e.outerHTML)"""
LEVELS = "() => [...document.querySelectorAll('h1,h2,h3')].filter((e) => e.checkVisibility()).map((e) => +e.tagName[1])"


def test_everything_has_a_name_and_can_be_reached_by_the_keyboard(
    studio: Studio, trained: dict[str, Any], open_page: Opener
) -> None:
    page = open_page(studio.address).page
    show(page, trained)
    page.get_by_text("Advanced").click()
    assert page.evaluate(UNNAMED) == []
    levels = page.evaluate(LEVELS)
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert all(page.locator(landmark).count() == 1 for landmark in ("main", "header", "footer"))
    page.locator("body").evaluate("(body) => { body.tabIndex = -1; body.focus(); }")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip the lists
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.innerText"))
    assert {"Train", "Compare", "sequence", "action", "curves", "smoothness", "Policy"} <= reached
