"""The page of results: verdicts first, then every claim with its picture and its numbers."""

from __future__ import annotations

from simile.experiments.fingerprint import stamp
from simile.experiments.results import Result, Results, describe_bound, format_effect, format_number

PARTS = ("rounds", "rivals", "games")  # of the fingerprint: what the page shows numbers of

RULES = """\
Every comparison is paired: both sides have the same data and the same seed. An effect is the mean over seeds, of ratios
the geometric mean, with its 95 % t interval. What the paper says of an effect is written down in the code as a bound,
fixed before these seeds were measured. A claim **holds** where the interval of every effect with a bound lies on the
side that the paper says; it **does not hold here** where the interval of one lies on the other side; it is
**undecided** where an interval includes the bound. Nobody sets a verdict by hand. A verdict speaks of the side, the
effect of the size. Effects without a bound decide nothing. Errors are of roll-outs, in standard deviations of the
expert's actions; smoothness is the mean absolute first or second difference, as a multiple of the expert's own."""


def to_markdown(results: Results, *, pictures: str = ".") -> str:
    """Write the page, in Markdown.

    Parameters
    ----------
    results : Results
        What to write down.
    pictures : str
        Path from the page to the folder of the pictures.
    """
    folder = "" if pictures in ("", ".") else f"{pictures.rstrip('/')}/"
    parts = [
        "# Results",
        f"The claims of the paper, measured by simile {results.version} on `{results.source}`, seeds "
        f"{', '.join(map(str, results.seeds))}; {results.effort.n_trees} trees in each of {results.effort.n_rounds} "
        "rounds. This page is written by `simile.experiments.reproduce`.",
        f"<!-- {stamp(*PARTS, renew='make results')} -->",
        _verdicts(results),
        "## How to read this",
        RULES,
        *(_section(result, folder) for result in results),
    ]
    return "\n\n".join(parts) + "\n"


def _verdicts(results: Results) -> str:
    lines = ["| claim | verdict | what made it | effect | 95 % interval | bound |", "|---|---|---|---|---|---|"]
    for r in results:
        low, high = (format_number(v) for v in r.interval)
        lines.append(
            f"| [{r.claim.title}](#{r.name}) | {_strong(r)} | {_escape(r.headline.text)} | {format_number(r.effect)} "
            f"| {low} to {high} | {describe_bound(r.headline)} |"
        )
    return "\n".join(lines)


def _section(result: Result, folder: str) -> str:
    claim = result.claim
    rows = ["| effect | mean [95 % interval] | bound | verdict | seed by seed |", "|---|---|---|---|---|"]
    for e in result.effects:
        by_seed = ", ".join(format_number(v) for v in e.values)
        verdict = e.verdict or ""
        rows.append(f"| {_escape(e.text)} | {format_effect(e)} | {describe_bound(e)} | {verdict} | {by_seed} |")
    files = [f"[{result.name}.csv]({folder}{result.name}.csv)"]
    if result.traces:
        files.append(f"[{result.name}-trajectories.csv]({folder}{result.name}-trajectories.csv)")
    parts = [
        f'<a id="{result.name}"></a>\n\n## {claim.title}',
        f"> {claim.statement}\n>\n> {claim.section}",
        f"{_strong(result)}. {claim.method}",
        f"![{claim.title}: error bars are 95 % intervals over {result.n_seeds} seeds]({folder}{result.name}.png)",
        "\n".join(rows),
        *([result.comment] if result.comment else []),
        f"Every number: {', '.join(files)}.",
    ]
    return "\n\n".join(parts)


def _strong(result: Result) -> str:
    return f"**{str(result.verdict).capitalize()}**"


def _escape(text: str) -> str:
    """Escape bars, which would end the cell of a table."""
    return text.replace("|", "\\|")
