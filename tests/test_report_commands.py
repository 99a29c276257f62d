"""Reports as users get them: of `train`, `report`, `compare` and `demo`, opened in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import browser as real
import simile
from browser import pixels_near, screenshot
from commands import simile_
from report_pages import drawn
from simile.camera.simulation import simulate
from simile.data import tasks

browser, open_page = real.browser, real.open_page

BLUE, PLOT = "#0072b2", ".timechart .plot canvas"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    simile.write(tasks.pursuit(n_sequences=6, length=120, seed=5), path / "games.csv")
    simile_("train", "games.csv", "--actions", "pan", "--model", "(SmoothForest(n_trees=6), Ridge)", cwd=path)
    return path


def opened(open_page: Any, path: Path) -> Any:
    """Open a report without a network, and see that the policy's curve is on it."""
    found = open_page(path, offline=True)
    page = drawn(found)
    assert found.requests == [path.as_uri()]
    assert pixels_near(page, PLOT, BLUE) > 300
    return page


def test_a_training_ends_in_a_report_with_everything_on_it(folder, open_page):
    page = opened(open_page, folder / "run" / "report.html")
    assert page.locator(".answer").count() == 6
    headings = page.locator("section h2").all_inner_texts()
    assert {"How smooth should I choose?", "What is it made of?", "What does it look at?"} <= set(headings)
    text = page.inner_text("body")
    for said in ("games.csv", "best simple filter", "hold the last action", "other smoothness", "simile train"):
        assert said in text, said
    screenshot(page, "report-of-a-training")


def test_report_makes_the_page_again_from_the_folder(folder):
    before = (folder / "run" / "report.html").read_text()
    assert "run/report.html" in simile_("report", "run", cwd=folder, process=True).stdout
    assert (folder / "run" / "report.html").read_text() == before


def test_report_shows_other_data(folder, open_page):
    simile.write(tasks.pursuit(n_sequences=2, length=300, seed=99), folder / "new.csv")
    simile_("report", "run", "new.csv", "--out", "new.html", cwd=folder)
    page = opened(open_page, folder / "new.html")
    assert page.locator("#errors tbody tr").count() == 2
    motion = page.locator("#motion table").inner_text()
    assert re.search(r"policy\s+pan\s+[\d.]+\s+[\d.]+\s+expert\s+pan", motion), motion


def test_a_training_without_a_report_writes_none(folder):
    words = ("--actions", "pan", "--model", "Ridge", "--smoothness", "9", "--out", "bare", "--no-report")
    simile_("train", "games.csv", *words, cwd=folder)
    assert not (folder / "bare" / "report.html").exists()


def test_data_that_have_gone_are_told_with_the_way_out(folder, tmp_path):
    (folder / "run").rename(tmp_path / "run")
    try:
        told = simile_("report", "run", cwd=tmp_path, code=2).stderr
    finally:
        (tmp_path / "run").rename(folder / "run")
    assert "games.csv" in told
    assert "simile report RUN DATA" in told


def test_a_folder_without_a_run_is_told(tmp_path):
    assert "is no folder of a run" in simile_("report", ".", cwd=tmp_path, code=2).stderr


@pytest.mark.long
def test_a_comparison_ends_in_a_report_with_every_contender(folder, open_page):
    words = ("--reductions", "learn", "--reductions", "clone", "--model", "SmoothForest(n_trees=4)", "--n-rounds", "1")
    simile.write(tasks.pursuit(n_sequences=4, length=60, seed=5), folder / "few.csv")
    simile_("compare", "few.csv", "--actions", "pan", *words, "--out", "found", cwd=folder)
    page = opened(open_page, folder / "found" / "report.html")
    text = page.inner_text("#smoothness")
    for name in ("learn", "clone", "look+", "hold the last action"):
        assert name in text, name
    screenshot(page, "report-of-a-comparison")


@pytest.fixture(scope="module", params=["small", pytest.param("whole", marks=pytest.mark.long)])
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo says and where it writes: of a few short games, or as users run it."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small":
            few = simulate(4, minutes=0.1, seed=100)
            patch.setattr("simile.experiments.demo.simulate", lambda *_, **__: few)
            patch.setattr("simile.experiments.demo.FILMED", (1.0, 1.4))
        return simile_(
            "demo", "--film", "--out", "sub", cwd=folder, process=request.param == "whole"
        ).stdout, folder / "sub"


def test_demo_prints_tables_and_writes_a_picture_a_page_and_a_policy(demo, request):
    said, folder = demo
    for words in ("component", "without smoothness", "holding the last action", "players in the picture"):
        assert words in said
    (told,) = re.findall(r"^Typically [\d.]+ off in pan on \d recordings? it had not seen: .*$", said, re.MULTILINE)
    if request.node.callspec.params["demo"] == "whole":
        assert told in (Path(__file__).parent.parent / "README.md").read_text()
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "<canvas" in (folder / "demo.html").read_text()
    assert b"ANIM" in (folder / "viewfinder.webp").read_bytes()[:64]
    assert simile.load(folder / "pan.safetensors").card.action_names == ("pan",)


def test_the_demo_ends_by_telling_of_a_report_that_shows_the_games(demo, open_page):
    (path,) = re.findall(r"^Report: (.*)$", demo[0], re.MULTILINE)
    assert demo[0].rstrip().endswith(path)
    page = opened(open_page, Path(path))
    assert page.locator("#errors tbody tr").count() == 3
    assert "without smoothness" in page.inner_text("#smoothness")
