"""How heavy and how quick the pages are, in headless Chromium, beside Plotly's own pages (`make bench`)."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from playwright.sync_api import Page, sync_playwright
from scipy.signal import lfilter

import simile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import CHROMIUM, QUIET

FRAMES, TURNS, SLIDES = 1_000_000, 3, 30
# Pans in steps of a hundredth of the view, one for each frame that the browser draws, for two seconds.
PAN_OURS = """() => new Promise((done) => {
  const chart = document.querySelector(".timechart");
  const key = (name) => chart.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  for (let i = 0; i < 12; i++) key("+");
  let frames = 0; const begin = performance.now();
  const step = () => {
    key(Math.floor(frames / 40) % 2 ? "ArrowLeft" : "ArrowRight");
    frames += 1;
    const passed = performance.now() - begin;
    if (passed < 2000) requestAnimationFrame(step); else done(1000 * frames / passed);
  };
  requestAnimationFrame(step);
})"""
PAN_PLOTLY = """() => new Promise((done) => {
  const chart = document.querySelector(".plotly-graph-div");
  let frames = 0; const begin = performance.now();
  const step = async () => {
    const from = 400 * frames;
    await Plotly.relayout(chart, { "xaxis.range": [from, from + 250000] });
    frames += 1;
    const passed = performance.now() - begin;
    if (passed < 2000) requestAnimationFrame(step); else done(1000 * frames / passed);
  };
  requestAnimationFrame(step);
})"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


def demonstrations(frames: int, n: int, seed: int) -> simile.Demonstrations:
    """Make contexts that swing slowly, and an operator with a tremor who follows them."""
    rng = np.random.default_rng(seed)
    contexts, actions = [], []
    for _ in range(n):
        x = lfilter([1e-4], [1.0, -1.98, 0.9801], rng.normal(size=(frames, 3)), axis=0)
        x /= x.std(axis=0)
        contexts.append(x)
        actions.append(20.0 * np.roll(x[:, :1], 5, axis=0) + 0.02 * rng.normal(size=(frames, 1)))
    return simile.Demonstrations.from_arrays(contexts, actions, rate=30.0)


def opened(browser: Any, path: Path, ready: str, pan: str) -> tuple[float, float]:
    """Return milliseconds to the first paint, and frames a second while panning."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector(ready, timeout=120_000)
    page.wait_for_timeout(1000)
    found = page.evaluate(PAINTED), page.evaluate(pan)
    page.close()
    return found


def report(browser: Any, folder: Path) -> None:
    """Print size, first paint and panning of a report of a million frames, and of Plotly's page of the same curves."""
    run = simile.learn(demonstrations(4000, 6, 0), model=simile.Ridge())
    test = demonstrations(FRAMES, 1, 1)
    begin = time.process_time()
    simile.Report.of(run, test, title="A million frames").save(folder / "ours.html")
    made = time.process_time() - begin
    rolled = simile.rollout(run.policy, test)[0][:, 0]
    figure = go.Figure([go.Scatter(y=y, mode="lines") for y in (test[0].actions[:, 0], rolled)])
    figure.write_html(folder / "plotly.html", include_plotlyjs=True)
    ways = {"ours": (".timechart canvas", PAN_OURS), "plotly": (".plotly-graph-div .main-svg", PAN_PLOTLY)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, (ready, pan) in ways.items():
            found[name].append(opened(browser, folder / f"{name}.html", ready, pan))
    print(f"a report of {FRAMES:,} frames, made in {made:.1f} s (CPU, roll-outs included); medians of {TURNS} turns\n")
    print(f"{'':14} {'MB':>8} {'first paint (ms)':>18} {'panning (fps)':>15}")
    for name, turns in found.items():
        size = (folder / f"{name}.html").stat().st_size / 1e6
        paint, fps = (statistics.median(t[i] for t in turns) for i in (0, 1))
        print(f"{'simile report' if name == 'ours' else 'plotly':14} {size:8.1f} {paint:18.0f} {fps:15.0f}")
    print("\nplotly: a page with the two curves alone, as SVG; its WebGL needs a graphics card")


def slid(page: Page) -> list[float]:
    """Move the slider, step by step; returns the milliseconds from each move to the drawn curve."""
    slider = page.locator("input[type=range]").first
    taken = []
    for _ in range(SLIDES):
        page.evaluate("delete document.body.dataset.slide")
        slider.press("ArrowRight")
        page.wait_for_selector("body[data-slide]", state="attached")
        taken.append(float(page.evaluate("document.body.dataset.slide")))
    return taken


def studio(browser: Any, folder: Path) -> None:
    """Print how long a curve takes to follow the slider, for a held-out sequence of 10,000 frames."""
    simile.write(demonstrations(10_000, 4, 2), folder / "data.csv")
    columns = ("--actions", "a0", "--sequence", "sequence")
    words = [sys.executable, "-m", "simile", "studio", "data.csv", *columns, "--no-open", "--folder", "studio"]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.get_by_role("button", name="Train", exact=True).click()
        page.get_by_text("Open the report").wait_for(timeout=300_000)
        taken = slid(page)
    finally:
        server.terminate()
        server.wait()
    middle, slowest = statistics.median(taken), max(taken)
    print("\nthe studio's slider, a held-out sequence of 10,000 frames, the default policy:")
    print(f"{middle:.0f} ms from a move to the drawn curve, median of {SLIDES}; the slowest {slowest:.0f} ms")


def main() -> None:
    """Print everything."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *QUIET])
        report(browser, Path(name))
        studio(browser, Path(name))
        browser.close()


if __name__ == "__main__":
    main()
