"""The page of results: verdicts first, then every claim with its picture and its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simile._common.text import spell
from simile.experiments.fingerprint import stamp
from simile.experiments.lab import PRESETS, READINGS
from simile.experiments.results import Case, Claim, Result, Results, describe_bound, format_effect
from simile.experiments.statistics import Effect, Verdict

PARTS = ("rounds", "rivals", "games")  # of the fingerprint: what the page shows numbers of

RULES = """\
Every comparison is paired: both sides have the same data and the same seed. An effect is the mean over seeds, of ratios
the geometric mean, with its 95 % t interval. What the paper says of an effect is written down in the code as a bound,
fixed before these seeds were measured. A claim **holds** where the interval of every effect with a bound lies on the
side that the paper says; it **does not hold here** where the interval of one lies on the other side; it is
**undecided** where an interval includes the bound. Nobody sets a verdict by hand. A verdict speaks of the side, the
effect of the size. Effects without a bound decide nothing. The intervals of effects with a bound are corrected for
their number, by Holm's method over all those of a column: the chance that any verdict of a column is wrong by luck is
at most 5 %. Errors are of roll-outs, in standard deviations of the expert's actions; smoothness is the mean absolute
first or second difference, as a multiple of the expert's own. Seeds of simulated data are new games; seeds of real data
are other draws from the same recordings, so that their intervals speak of splits and trees, not of new recordings."""

# What needs no data, and is the same under both readings: the statement, what tests assert of it, and the claim that
# looks at it for trained policies. tests/test_theory.py has a test for each word in the middle.
STATEMENTS = (
    ("Lemma 5.1, Lemma A.2", "holds where phi >= 0 everywhere; fails on bounded actions", ""),
    ("Section 5.1, sqrt(12 H R)", "holds for one component; fails in the Euclidean norm", ""),
    ("Conditions 1 and 2", "hold for Example 2.1 where f ignores the action", "stability"),
    ("Lemma 5.2", "holds for affine policies; fails for curved ones", "same-mean"),
    ("Corollary 5.3", "holds for affine policies; fails for curved ones", "deterministic"),
    ("Lemma 5.4", "holds with SEARN's cost; fails with the loss of one step", ""),
    (
        "Theorem 5.5",
        "holds with the first state in epsilon, and promises no gain: the bound is never negative",
        "improvement",
    ),
    ("Theorem 5.6", "holds with the first state in epsilon", "improvement"),
    ("Corollary 5.7", "holds, and is empty from gamma = 1/2 on", "improvement"),
    ("Proposition 5.8", "holds where the f of pi is as good, from one start; fails as printed", "necessary-feedback"),
    ("Lemma A.1", "holds", ""),
)


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
    data = "; ".join(f"{name}: `{source}`" for name, source in results.sources.items())
    parts = [
        "# Results",
        f"The claims of the paper, measured by simile {results.version}, seeds {', '.join(map(str, results.seeds))}; "
        f"{results.effort.n_trees} trees in each of {results.effort.n_rounds} rounds. Data: {data}. This page is "
        "written by `simile.experiments.reproduce`.",
        f"<!-- {stamp(*PARTS, renew='make results')} -->",
        *([results.absent] if results.absent else []),
        _verdicts(results),
        *_failures(results),
        "## The two readings of Algorithm 2",
        *_readings(),
        "## How to read this",
        RULES,
        "## The numbered statements",
        _statements(results),
        *(_section(claim, results, folder) for claim in results.claims),
    ]
    return "\n\n".join(parts) + "\n"


def _verdicts(results: Results) -> str:
    lines = [
        f"| claim | in the paper | {' | '.join(map(str, results.cases))} |",
        "|---" * (2 + len(results.cases)) + "|",
    ]
    for claim in results.claims:
        cells = [_strong(results.verdict(claim.name, case)) for case in results.cases]
        lines.append(f"| [{claim.title}](#{claim.name}) | {claim.section} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _failures(results: Results) -> Iterator[str]:
    """Say plainly what does not hold, reading by reading."""
    for reading in dict.fromkeys(case.reading for case in results.cases):
        said = [f"**{READINGS[reading].capitalize()}** (`simile.{reading}`), what does not hold:"]
        for case in (c for c in results.cases if c.reading == reading):
            verdicts = {claim.title: results.verdict(claim.name, case) for claim in results.claims}
            counts = [sum(v is verdict for v in verdicts.values()) for verdict in (Verdict.HOLDS, Verdict.UNDECIDED)]
            failing = "; ".join(title for title, verdict in verdicts.items() if verdict is Verdict.FAILS) or "nothing"
            said.append(f"- on {case.source}: {failing} (holds: {counts[0]}, undecided: {counts[1]})")
        yield "\n".join([said[0], "", *said[1:]])


def _statements(results: Results) -> str:
    """Write what tests assert of each numbered statement, and where it is measured."""
    titles = {claim.name: claim.title for claim in results.claims}
    lines = [
        "What is mathematics needs no data and is the same under both readings; tests assert it against simulated "
        "truth (`docs/paper-map.md` names them). Figure 1 is a drawing.",
        "",
        "| statement | as mathematics | for trained policies |",
        "|---|---|---|",
    ]
    for statement, asserted, name in STATEMENTS:
        measured = f"[{titles[name]}](#{name})" if name in titles else ""
        lines.append(f"| {statement} | {asserted} | {measured} |")
    return "\n".join(lines)


def _readings() -> list[str]:
    """Show the choices in which they differ, from the presets themselves."""
    printed, script = PRESETS.values()
    rows = [f"| choice | {' | '.join(f'{READINGS[name]}: `simile.{name}`' for name in PRESETS)} |", "|---|---|---|"]
    rows += [
        f"| {n} | `{spell(printed[n])}` | `{spell(script[n])}` |"
        for n in printed
        if repr(printed[n]) != repr(script[n])
    ]
    same = ", ".join(n for n in printed if repr(printed[n]) == repr(script[n]))
    return [
        "\n".join(rows),
        f"The rest ({same}) is the same in both. All rivals share h, splits, lags and lambda with the reading.",
    ]


def _section(claim: Claim, results: Results, folder: str) -> str:
    own = results.of(claim.name)
    files = [f"[{claim.name}.csv]({folder}{claim.name}.csv)"]
    if any(result.traces for result in own):
        files.append(f"[{claim.name}-trajectories.csv]({folder}{claim.name}-trajectories.csv)")
    comments = dict.fromkeys(result.comment for result in own if result.comment)
    verdicts = "; ".join(f"{result.case}: {_strong(result.verdict)}" for result in own)
    parts = [
        f'<a id="{claim.name}"></a>\n\n## {claim.title}',
        f"> {claim.statement}\n>\n> {claim.section}",
        f"{verdicts}.",
        claim.method,
        f"![{claim.title}: error bars are 95 % intervals over {own[0].n_seeds} seeds]({folder}{claim.name}.png)",
        _effects(own),
        *comments,
        f"Every number, seed by seed: {', '.join(files)}.",
    ]
    return "\n\n".join(parts)


def _effects(own: Sequence[Result]) -> str:
    """Write a row for each effect and a column for each case."""
    found: dict[str, dict[Case, Effect]] = {}
    for result in own:
        for effect in result.effects:
            found.setdefault(effect.text, {})[result.case] = effect
    rows = [f"| effect | bound | {' | '.join(str(r.case) for r in own)} |", "|---" * (2 + len(own)) + "|"]
    for text, effects in found.items():
        bound = describe_bound(next(iter(effects.values())))
        cells = [_cell(effects.get(result.case)) for result in own]
        rows.append(f"| {_escape(text)} | {bound} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(effect: Effect | None) -> str:
    if effect is None:
        return ""
    return format_effect(effect) + (f" {effect.verdict}" if effect.verdict else "")


def _strong(verdict: Verdict | None) -> str:
    return "" if verdict is None else f"**{verdict}**" if verdict is not Verdict.UNDECIDED else str(verdict)


def _escape(text: str) -> str:
    """Escape bars, which would end the cell of a table."""
    return text.replace("|", "\\|")
