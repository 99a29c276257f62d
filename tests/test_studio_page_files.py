"""The studio's page in a real browser: files are opened, understood and learned from, or refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import browser as real
import studio_pages as shared
from browser import Opener, pixels_near, screenshot, until
from studio_pages import EXPERT, MODEL, PLOT, POLICY, Studio, complaint

browser, open_page = real.browser, real.open_page
studio, table = shared.studio, shared.table


def test_a_file_is_opened_understood_and_learned_from_and_rounds_arrive_on_the_curves(
    studio: Studio, table: Path, open_page: Opener
) -> None:
    opened = open_page(studio.address)
    page = opened.page
    assert "token" not in page.url
    page.get_by_text("Nothing here yet").wait_for()
    page.get_by_text("then you can train a policy here").wait_for()
    screenshot(page, "studio-empty")

    page.set_input_files("#file", table)
    page.get_by_text("Which columns are the actions?").wait_for()
    screenshot(page, "studio-choose")
    page.get_by_label("pan is an action").check()
    page.get_by_role("button", name="Read it so").click()
    entry = page.locator("#data .entry", has_text="pursuit.csv")
    entry.locator(".chip.action", has_text="pan").wait_for()
    assert "8 sequences" in entry.inner_text()
    assert entry.locator(".choose").is_hidden()
    entry.get_by_text("What was understood").click()
    assert "8 sequences by column 'sequence'" in entry.locator("pre").inner_text()

    page.evaluate(
        """() => {
          window.seen = [];
          const rounds = document.querySelector("#rounds");
          new MutationObserver(() => window.seen.push(rounds.dataset.rounds)).observe(rounds, { attributes: true });
        }"""
    )
    page.get_by_label("Algorithm").select_option("authors")
    page.get_by_label("How smooth", exact=True).select_option("lambda")
    page.get_by_label("Lambda").fill("5")
    page.get_by_text("Advanced").click()
    page.get_by_label("Model").fill(MODEL)
    page.get_by_label("Rounds", exact=True).fill("30")  # long enough for a slow page to see some of them arrive
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector("#curves[data-points]")
    page.wait_for_selector(".run.selected[data-status=done]")
    page.wait_for_selector("#rounds canvas")
    assert len(set(page.evaluate("window.seen"))) > 2
    assert sum("/roll" in url for url in opened.requests) > 1
    assert pixels_near(page, PLOT, POLICY) > 300
    assert pixels_near(page, PLOT, EXPERT) > 300
    assert "s late" in page.locator(".verdict.large").inner_text()
    screenshot(page, "studio-trained")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        pytest.param("junk.parquet", b"\x00\xffnot a table" * 50, "junk.parquet", marks=pytest.mark.long),
        pytest.param("notes.docx", b"PK\x03\x04", "docx", marks=pytest.mark.long),
        ("words.csv", b"who,what\nme,hello\nyou,goodbye\n", "Which columns are the actions"),
        ("<img src=x onerror=alert(1)>.csv", b"<b>,<i>\n1,2\n3,4\n", "Which columns are the actions"),
    ],
)
def test_a_file_that_is_no_table_of_numbers_is_refused_in_a_sentence(
    studio: Studio, tmp_path: Path, open_page: Opener, name: str, content: bytes, sentence: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    opened = open_page(studio.address, calm=False)
    page = opened.page
    page.get_by_role("heading", name="Data", exact=True).wait_for()
    page.set_input_files("#file", file)
    until(page, f"document.body.innerText.includes({json.dumps(sentence)})")
    shown = page.locator(f".banner.error, #data .entry:has-text('{name}')").first.inner_text()
    assert sentence in shown
    assert "Traceback" not in shown
    assert not any(url.endswith("/x") for url in opened.requests)
    assert str(studio.folder) not in page.content()
    if (entry := page.locator("#data .entry", has_text=name)).count():
        entry.get_by_role("button", name="Delete").click()
        entry.get_by_role("button", name="press again").click()
        entry.wait_for(state="detached")


def test_columns_that_cannot_be_read_as_chosen_are_told_and_the_form_stays(
    studio: Studio, table: Path, open_page: Opener
) -> None:
    page = open_page(studio.address).page
    page.set_input_files("#file", shutil.copy(table, table.with_name("wrong.csv")))  # a browser reads it when it likes
    entry = page.locator("#data .entry", has_text="wrong.csv")
    entry.get_by_label("pan is an action").check()
    entry.get_by_label("Time column").select_option("player0")
    entry.get_by_role("button", name="Read it so").click()
    until(page, "document.querySelector('#data').innerText.includes('player0')")
    trouble = entry.locator("p.trouble")
    trouble.wait_for()
    assert "player0" in trouble.inner_text()
    assert entry.get_by_label("pan is an action").is_checked()
    entry.get_by_label("Time column").select_option("")
    entry.get_by_role("button", name="Read it so").click()
    entry.locator(".chip.action").wait_for()


def test_the_unit_of_time_can_be_chosen(studio: Studio, tmp_path: Path, open_page: Opener) -> None:
    page = open_page(studio.address).page
    rows = "".join(f"{i % 3},{i % 5},{40 * i}\n" for i in range(20))
    (tmp_path / "ticks.csv").write_text(f"pan,x_ball,t\n{rows}")
    page.set_input_files("#file", tmp_path / "ticks.csv")
    entry = page.locator("#data .entry", has_text="ticks.csv")
    entry.get_by_label("pan is an action").check()
    entry.get_by_label("Unit of time").select_option("microseconds")
    entry.get_by_role("button", name="Read it so").click()
    entry.locator(".chip.action").wait_for()
    entry.get_by_text("What was understood").click()
    assert "25000 Hz inferred from column 't' in microseconds" in entry.locator("pre").inner_text()


def test_what_is_held_out_as_a_whole_can_be_chosen(studio: Studio, tmp_path: Path, open_page: Opener) -> None:
    page = open_page(studio.address).page
    rows = "".join(f"{i // 4},{'uvvuvu'[i // 4]},{i % 3},{i % 5}\n" for i in range(24))
    (tmp_path / "people.csv").write_text(f"sequence,who,x_ball,a_pan\n{rows}")
    page.set_input_files("#file", tmp_path / "people.csv")
    entry = page.locator("#data .entry", has_text="people.csv")
    entry.locator(".chip.action").wait_for()
    entry.get_by_role("button", name="Change how people.csv is read").click()
    entry.get_by_label("Held out as a whole").select_option("who")
    entry.get_by_role("button", name="Read it so").click()
    entry.get_by_text("What was understood").click()
    until(page, "document.querySelector('#data').innerText.includes('2 by column')")


def test_a_file_that_is_too_large_is_refused_by_the_page_and_else_by_the_server(
    studio: Studio, tmp_path: Path, open_page: Opener
) -> None:
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(2 * 10**9)
    opened = open_page(studio.address)
    page = opened.page
    page.get_by_role("heading", name="Data", exact=True).wait_for()
    page.wait_for_selector("#foot:not(:empty)")
    page.set_input_files("#file", huge)
    page.wait_for_selector(".banner.error")
    assert complaint(page).startswith("huge.csv is too large: it has 2 GB, and this studio takes 5 MB at most.")
    assert not any("huge.csv" in url for url in opened.requests)
    screenshot(page, "studio-too-large")

    over = tmp_path / "over.csv"
    over.write_bytes(b"a,b\n" + b"1.5,2.5\n" * 1_000_000)
    opened = open_page(None, calm=False)
    page = opened.page
    page.add_init_script("Object.defineProperty(Blob.prototype, 'size', { get: () => 1 })")
    page.goto(studio.address)
    page.wait_for_selector("#foot:not(:empty)")
    page.set_input_files("#file", over)
    page.wait_for_selector(".banner.error")
    assert "5 MB" in complaint(page) or "5,000,000" in complaint(page)
    assert any("over.csv" in url for url in opened.requests)
