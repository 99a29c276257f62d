"""`simile improve`, `versions`, `accept` and `roll-back`: the next version of a policy, and which is at work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options
from simile.cli.output import to_json

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations
    from simile.evaluation.improvement import Improvement
    from simile.policies.ledger import Line
    from simile.policies.policies import Policy

digest_argument = click.argument("digest")
reason_option = click.option("--reason", default="", help="Why, for the ledger.")


@click.command(short_help="Learn the next version of a policy from an operator's corrections.")
@options.policy_argument
@click.option("--demos", multiple=True, help="What the policy learned from, and some that it has not seen: DATA.")
@click.option(
    "--corrections", type=click.Path(path_type=Path), help="Folder of recordings in which somebody took over."
)
@options.config_option
@options.reading_options
@click.option("--blame", type=float, default=2.0, help="Seconds before a take-over that are marked as what went wrong.")
@click.option("--without", multiple=True, help="Stretch under the operator to leave out, by its name. May be repeated.")
@click.option(
    "--by",
    type=click.Choice(["aggregate", "mix"]),
    default="mix",
    help="Learn anew from demonstrations and corrections (DAgger), or mix what that makes with the old one (SIMILE).",
)
@click.option("--weight", type=float, help="How much a frame under the operator counts; chosen by default.")
@click.option("--model", help="F, as for `simile train`.")
@click.option(
    "--test",
    default="0.3",
    help="Share of demonstrations and corrections that judge, at least six groups of each where there are as many, "
    "or a data file.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed, same bits.")
@click.option("--margin", type=float, help="Share by which the error on demonstrations may rise: 0.025.")
@click.option("--gain", type=float, help="Share by which that on corrections must fall: 0.0025.")
@click.option("--dry-run", is_flag=True, help="Judge the new policy, and keep nothing.")
@options.trust_option
@options.json_option
def improve(policy: Path, **given: Any) -> None:
    """Learn the next version of POLICY from demonstrations and from what an operator did instead.

    Both policies are rolled out over demonstrations and corrections that neither has learned from. Where the new one is
    no worse on the former and better on the latter, it takes the place of POLICY in one step, and a service that serves
    it takes it over without a jump. Otherwise it is kept as a candidate: `simile versions POLICY` shows all, `simile
    accept` puts one to work anyway, `simile roll-back` the one before. Interrupted, the same command goes on.
    """
    from simile.data.corrections import read_corrections
    from simile.evaluation.gate import Gate
    from simile.evaluation.improvement import improve as learn
    from simile.evaluation.improvement import keep
    from simile.learning.recipes import parse
    from simile.learning.runs import CHECKPOINT
    from simile.policies.ledger import Ledger
    from simile.policies.storage.loading import load_own

    for name in ("demos", "corrections"):
        if not given[name]:
            raise click.ClickException(f"--{name} is missing: {_LACKING[name]}")
    ledger = Ledger(policy)
    ledger.lines()  # a damaged one is told before the work
    parent = ledger.at_work
    old = load_own(policy, trusted=given["trust"], max_memory=given["max_memory"])
    data = given["demos"]
    demos = options.read_for(old, data[0] if len(data) == 1 else list(data), given)
    with options.bounded(given):
        corrections = read_corrections(given["corrections"], blame=given["blame"], without=given["without"])
    say = {n: given[n] for n in ("margin", "gain") if given[n] is not None}
    if not given["as_json"]:
        click.echo(f"{corrections}\n")
    from simile.cli.progress import Trials

    with Trials(2 if given["weight"] else 4) as progress:
        found = learn(
            old,
            demos,
            corrections,
            **{name: given[name] for name in ("by", "weight", "seed")},
            test=_read_test(old, given),
            model=None if given["model"] is None else parse(given["model"], "model"),
            gate=Gate(**say),
            folder=None if given["dry_run"] else ledger.folder / CHECKPOINT,
            watch=progress,
        )
    kept = None if given["dry_run"] else keep(ledger, found, parent)
    _tell(found, kept, policy, as_json=given["as_json"])


def _read_test(old: Policy, given: dict[str, Any]) -> float | Demonstrations:
    """Return what judges: a share, or the demonstrations of a file."""
    try:
        return float(given["test"])
    except ValueError:
        return options.read_for(old, given["test"], given)


_LACKING = {
    "demos": "name the file that the policy was trained on, with the sequences that were held out",
    "corrections": "name the folder that `simile serve --record` wrote",
}


def _tell(found: Improvement, kept: Line | None, policy: Path, *, as_json: bool) -> None:
    from simile.policies.ledger import ACCEPTED

    decision = found.decision
    if as_json:
        trials = [
            {n: getattr(t, n) for n in ("weight", "let", "demonstrations", "corrections", "roughness")}
            for t in found.trials
        ]
        about = {n: None if kept is None else getattr(kept, n) for n in ("digest", "event")}
        about |= {"by": found.by, "weight": found.weight, "trials": trials, **found.facts}
        click.echo(to_json({**about, "notes": list(found.notes), "decision": decision.to_dict()}))
        return
    click.echo(found)
    if kept is None:
        click.echo("\nNothing was kept (--dry-run).")
    elif kept.event == ACCEPTED:
        click.echo(f"\n{policy} is version {kept.digest[:12]} now. Back: simile roll-back {policy}")
    elif decision.accepted:  # and another took the place meanwhile
        click.echo(f"\nBut {kept.reason}")
    else:
        digest = kept.digest[:12]
        click.echo(f"\nKept as candidate {digest}. Put it to work anyway: simile accept {policy} {digest}")


@click.command(short_help="List the versions of a policy.")
@options.policy_argument
@options.json_option
def versions(policy: Path, as_json: bool) -> None:
    """List the versions of POLICY: which is at work, which were, which wait, who decided, and why."""
    from dataclasses import asdict

    from simile.policies.ledger import Ledger

    ledger = Ledger(policy)
    if as_json:
        found = [
            {"digest": v.digest, "state": v.state, "lines": [asdict(e) for e in v.lines]} for v in ledger.versions()
        ]
        click.echo(to_json({"at_work": ledger.at_work, "versions": found}))
    else:
        click.echo(ledger)


@click.command(short_help="Put a version to work that the gate has not accepted.")
@options.policy_argument
@digest_argument
@reason_option
def accept(policy: Path, digest: str, reason: str) -> None:
    """Put version DIGEST of POLICY to work, whatever the gate has said; the ledger says who did."""
    from simile.policies.ledger import Ledger

    click.echo(f"{policy} is version {Ledger(policy).accept(digest, reason=reason)[:12]} now.")


@click.command("roll-back", short_help="Put an earlier version of a policy back to work.")
@options.policy_argument
@click.argument("digest", required=False)
@reason_option
def roll_back(policy: Path, digest: str | None, reason: str) -> None:
    """Put version DIGEST of POLICY back to work, or the one before that at work. Nothing is deleted."""
    from simile.policies.ledger import Ledger

    click.echo(f"{policy} is version {Ledger(policy).roll_back(digest, reason=reason)[:12]} now.")
