"""Copy figures from what was printed into the pages that quote them, each with the fingerprint of what it is from.

python benchmarks/quotes.py            # all, or those that are named
python benchmarks/quotes.py tutorial
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from simile.experiments.fingerprint import find_stamp, write_block

ROOT = Path(__file__).resolve().parents[1]
BENCH = "docs/assets/bench"


def whole(text: str) -> str:
    """Quote all of it, but for the first line, which is the stamp."""
    return as_printed(text.partition("\n")[2])


def as_printed(text: str) -> str:
    """Quote text as it is."""
    return "```text\n" + text.strip("\n") + "\n```"


def demo(text: str) -> str:
    """Quote the verdict of the demo."""
    return as_printed(next(line for line in text.splitlines() if line.startswith("Typically ")))


def trained(title: str) -> Callable[[str], str]:
    """Return what quotes table and verdict of one training of the tutorial."""

    def quote(text: str) -> str:
        part = text.partition(f"\n{title}:\n")[2]
        table = re.search(r"^ +RMSE .*?\n\nTypically .*?\n", part, re.MULTILINE | re.DOTALL)
        assert table is not None, f"{title} has no table"
        return as_printed(re.sub(r"(?<=[a-z\d)]\.) (?=[A-Z\d])", "\n", table[0]))

    return quote


def holding(text: str) -> str:
    """Make a table and two sentences of what holding still is worth from the three tables of benchmarks/eye.py."""
    lines = [
        "| data | RMSE | roughness | turns: policy, hold=0, expert | rest: policy, hold=0, expert |",
        "|---" * 5 + "|",
    ]
    habits, noise, joint = (rows_of(part) for part in text.split("\n\n"))
    several = {name for name, action, _ in habits if action == "1"}
    for name, action, (_, error, _, rough, *rest) in habits:
        said = f"{name}, action {action}" if name in several else name
        lines.append(f"| {said} | {error} | {rough} | {', '.join(rest[:3])} | {', '.join(rest[3:])} |")
    change = max(abs(float(value) - 1.0) for *_, values in noise for value in values)
    ratios = [float(values[0]) for *_, values in joint]
    names = ", ".join(dict.fromkeys(name for name, *_ in joint))
    return "\n".join(lines) + (
        "\n\nWhite noise of up to 1 % of the standard deviation on the recorded actions changes roughness and turns "
        f"by at most {100 * change:.0f} % there.\nAll actions learned together have {min(ratios):.3f} to "
        f"{max(ratios):.3f} times the error of each alone ({names})."
    )


def accuracy(text: str) -> str:
    """Make the table of the README from what benchmarks/accuracy.py prints: each data set at the expert's roughness."""
    parts = {
        part.partition(" times")[0]: part.splitlines() for part in text.split("\n\n") if " times the expert's" in part
    }
    names = [name.strip() for name in parts["1"][1].split("/ ")[1:]]
    lines = [
        "| RMSE of `learn` at equal smoothness, over that of | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    rows = [line.split() for line in parts["1"][2:] if not line.startswith("real data")]
    lines += [f"| {' | '.join([name.replace('_', ' '), *ratios])} |" for name, *ratios in rows]
    for level, part in parts.items():
        said = re.findall(r"^real data, over .+?: (.+)$", "\n".join(part), re.MULTILINE)
        lines.append(f"| **real data, {level} times the expert's roughness** | {' | '.join(said)} |")
    return "\n".join(lines)


def rows_of(text: str) -> list[tuple[str, str, list[str]]]:
    """Return the data set, the action and the numbers of each row of a table."""
    rows = re.findall(r"^(\S.*?) +(\d)((?: +\d+\.\d+)+)$", text, re.MULTILINE)
    return [(name, action, numbers.split()) for name, action, numbers in rows]


def hardness(text: str) -> str:
    """Make a table of both sports from what benchmarks/hardness.py and axes.py print."""
    sports = [part.splitlines() for part in text.strip().split("\n\n") if ", seeds " in part.partition("\n")[0]]
    lines = ["| | " + " | ".join(part[0].partition(",")[0] for part in sports) + " |", "|---" * (len(sports) + 1) + "|"]
    for rows in zip(*(part[1:] for part in sports), strict=True):
        cells = [re.split(r" {2,}", row.strip()) for row in rows]
        lines.append("| " + " | ".join([cells[0][0], *(value for _, value in cells)]) + " |")
    return "\n".join(lines)


def verdicts(text: str) -> str:
    """Quote the first table of the page of results, its links made to lead there."""
    table = next(part for part in text.split("\n\n") if part.startswith("| "))
    return table.replace("](#", "](docs/results.md#")


# Page, block, what is quoted there, and how.
QUOTES: tuple[tuple[str, str, str, Callable[[str], str]], ...] = (
    ("README.md", "demo", f"{BENCH}/demo.txt", demo),
    ("README.md", "accuracy", f"{BENCH}/accuracy.txt", accuracy),
    ("README.md", "results", "docs/results.md", verdicts),
    ("docs/default.md", "accuracy", f"{BENCH}/accuracy.txt", whole),
    ("docs/default.md", "bounds", f"{BENCH}/bounds.txt", whole),
    ("docs/default.md", "curve", f"{BENCH}/curve.txt", whole),
    ("docs/default.md", "verdicts", f"{BENCH}/verdicts.txt", whole),
    ("docs/default.md", "outliers", f"{BENCH}/outliers.txt", whole),
    ("docs/loop.md", "loop", f"{BENCH}/loop.txt", whole),
    ("docs/bands.md", "bands", f"{BENCH}/bands.txt", whole),
    ("docs/motion.md", "intervals", f"{BENCH}/intervals.txt", whole),
    ("docs/timing.md", "delays", f"{BENCH}/delays.txt", whole),
    ("docs/timing.md", "timing", f"{BENCH}/timing.txt", whole),
    ("docs/smoothness.md", "holding", f"{BENCH}/eye.txt", holding),
    ("docs/simulator.md", "hardness", f"{BENCH}/hardness.txt", hardness),
    ("docs/simulator.md", "axes", f"{BENCH}/axes.txt", hardness),
    ("docs/tutorial.md", "tutorial", f"{BENCH}/tutorial.txt", trained("as smooth as the expert")),
    ("docs/tutorial.md", "smoother", f"{BENCH}/tutorial.txt", trained("smoother")),
)


def main(names: list[str]) -> None:
    """Write the blocks with these names, or all."""
    for page, name, source, quote in QUOTES:
        if not names or name in names:
            text = (ROOT / source).read_text(encoding="utf-8")
            write_block(ROOT / page, name, quote(text), find_stamp(text))
            print(f"{page}: {name}, from {source}")


if __name__ == "__main__":
    main(sys.argv[1:])
