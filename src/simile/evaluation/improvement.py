"""From a policy at work, its demonstrations and an operator's corrections to the next version, and a verdict on it."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.text import table
from simile._common.typing import IntArray
from simile.data.corrections import Corrections
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import draw_groups, number_labels
from simile.data.reference import Reference
from simile.data.sanity import check_problems
from simile.errors import ArgumentError, DivergedError, StorageError
from simile.evaluation.gate import Decision, Gate
from simile.learning.algorithms import Run, learn_mixture
from simile.learning.initial import Kept, check_initial, find_new, marks_of, note_initial
from simile.learning.mixture import Choices
from simile.learning.smoothness import MatchExpert
from simile.metrics import compare_bends
from simile.policies.hold import Hold
from simile.policies.ledger import OFFERED, Ledger, Line
from simile.policies.policies import Policy, hold_by, timing
from simile.policies.rollouts import rollout
from simile.policies.storage.files import digest_of
from simile.policies.storage.loading import load_own, save_own

WAYS = ("aggregate", "mix")
WEIGHTS = (1.0, 2.0)  # times that a frame under the operator counts
REMAINS = 0.25  # of the old policy in a mixture, for it changes by steps that a few judges can vouch for
SHARE = 0.3  # of demonstrations and corrections that judge
ODD = 1000.0  # times the range of a context in the demonstrations, from where on it is another thing, such as a hash
JUDGES = 6  # groups that judge, at least, where there are as many
COLUMNS = (
    *(("weight", 6, "g"), ("", 4, "<"), ("demonstrations", 14, ".4f"), ("corrections", 11, ".4f")),
    ("roughness", 9, ".2f"),
)


@dataclass(frozen=True, eq=False)
class Trial:
    """A policy that was learned with one weight of the corrections, and its errors on what its models left out.

    `let` tells whether it learned from what the policy did where somebody watched and let it, too.
    """

    weight: float
    let: bool
    policy: Policy
    demonstrations: float  # root mean squared, in standard deviations; NaN where none was learned from
    corrections: float
    roughness: float = 1.0  # over that of the old policy, along the demonstrations that were learned from


@dataclass(frozen=True, eq=False)
class Improvement:
    """What `improve` found; prints as a table of old and new, and the verdict.

    Attributes
    ----------
    old, policy : Policy
        The policy at hand, and the new one.
    decision : Decision
        Whether the new one may take its place.
    by : str
        How it was learned, "aggregate" or "mix".
    trials : tuple of Trial
        One for each weight of the corrections that was tried, with and without what the policy was let do.
    chosen : Trial
        The one whose policy it is, by what the models left out.
    facts : mapping
        Digests of demonstrations and corrections, and how many of each were learned from and held out.
    judges : (Demonstrations, Corrections)
        What was held out, and both were rolled out over.
    notes : tuple of str
        What the user should know.
    place : Path, optional
        Where the policies that were learned are kept: of no use once this is done with.
    """

    old: Policy
    policy: Policy
    decision: Decision
    by: str
    trials: tuple[Trial, ...]
    chosen: Trial
    facts: dict[str, Any]
    judges: tuple[Demonstrations, Corrections]
    notes: tuple[str, ...] = ()
    place: Path | None = None

    @property
    def weight(self) -> float:
        """How much a frame under the operator counts."""
        return self.chosen.weight

    def __repr__(self) -> str:
        return f"Improvement({self.decision.reason!r})"

    def __str__(self) -> str:
        rows = [
            (
                *(t.weight, "let" if t.let else "", t.demonstrations, t.corrections, t.roughness),
                "  <- chosen" * (t is self.chosen),
            )
            for t in self.trials
        ]
        tried = [
            "errors where models left sequences out, by how much a frame under the operator counts (let: with what the "
            "policy was let do):"
        ]
        lines = [*tried, *table(COLUMNS, rows), ""] if len(rows) > 1 else []
        learned, held = self.facts["learned"], self.facts["held_out"]
        shares = [
            f"{learned[what]} of {learned[what] + held[what]} {name}"
            for what, name in (("corrections", "stretches"), ("demonstrations", "demonstrations"))
        ]
        lines += [f"learned from {' and '.join(shares)}; the others judge", ""]
        return "\n".join([*lines, str(self.decision), *(f"note: {note}" for note in self.notes)])


def improve(
    policy: Policy,
    demos: Demonstrations | Demonstration,
    corrections: Corrections,
    *,
    by: str = "mix",
    weight: float | None = None,
    model: Any = None,
    test: float | Demonstrations = SHARE,
    seed: int = 0,
    gate: Gate | None = None,
    folder: str | Path | None = None,
    watch: Callable[[Trial], object] | None = None,
) -> Improvement:
    """Learn the next version of a policy from demonstrations and an operator's corrections, and judge it.

    The new policy keeps units, hold and horizon of the old one, and its filter, unless it would be too rough for the
    gate. What it is judged on is set apart before
    anything is learned, from sequences and stretches that the old policy has not learned from either: its error there
    would be flattering.

    Parameters
    ----------
    policy : Policy
        The policy at work, on contexts alone, as `simile.learn` makes them.
    demos : Demonstrations
        What it was learned from, and some that it has not seen, such as those that were held out when it was trained.
    corrections : Corrections
        What an operator did, see `simile.data.corrections.read_corrections`.
    by : {"mix", "aggregate"}
        "aggregate" learns anew from demonstrations and corrections together, as DAgger does, and that is the policy.
        "mix" mixes what that makes with the old policy (Algorithm 1, line 10), as SIMILE does: at most a quarter of the
        old one remains, so that a version changes less at a time.
    weight : float, optional
        How many frames of demonstrations a frame under the operator counts for; by default 1 and 2 are tried. Each is
        tried with and without learning, too, what the policy did where somebody watched and let it, all of which counts
        as much as the frames under the operator do. What has the least product of both errors, on demonstrations and on
        corrections that models left out, is taken.
    model : Regressor, or several, optional
        F, as for `simile.learn`.
    test : float or Demonstrations
        Share of the demonstrations, and of the stretches, that judge: whole groups, and at least six of each where
        there are as many. Or demonstrations that judge instead, which the policy has not seen; of the stretches it is
        then 0.3.
    seed : int
        Same seed, same bits.
    gate : Gate, optional
        When the new policy may take the place of the old one.
    folder : path, optional
        Where each policy that was learned is kept, so that the same call goes on where it was interrupted.
    watch : callable, optional
        Called with every `Trial` as it comes.

    Returns
    -------
    Improvement

    Examples
    --------
    See `docs/loop.md`.
    """
    demos, gate = Demonstrations.of(demos).prepare(policy.card.preparation), Gate() if gate is None else gate
    problems = check_problems(demos)
    if by not in WAYS:
        raise ArgumentError(f"by must be {' or '.join(map(repr, WAYS))}; got {by!r}")
    if not isinstance(corrections, Corrections):
        raise ArgumentError(
            f"corrections must be Corrections; got {type(corrections).__name__}: read them with "
            "simile.data.corrections.read_corrections(folder)"
        )
    _, known = timing(policy)
    corrections = corrections.prepare(policy.card.preparation)
    recorded, corrections = corrections.demos, corrections.foretell(known)
    _check(policy, demos.foretell(known), corrections.demos)
    _check_contexts(demos, recorded)
    learned, shown = _hold_out(policy, demos, test, seed)
    share = SHARE if isinstance(test, Demonstrations) else test
    taken, held = _set_apart(policy.card.training, corrections.demos, share, seed, "corrections")
    judges = shown, corrections.where(held)
    facts = {
        "data": demos.digest(),
        "corrections": corrections.digest,
        "learned": {"demonstrations": len(learned), "corrections": len(taken)},
        "held_out": {"demonstrations": len(shown), "corrections": len(held)},
    }
    lesson = _Lesson(policy, learned, corrections.where(taken), by, model, seed, gate.tolerance)
    # Demonstrations and corrections are in the facts by their digests.
    key = repr([digest_of(policy), facts, learned.digest(), sorted(taken.tolist()), by, repr(model), seed])
    place = None if folder is None else Path(folder) / hashlib.sha256(key.encode()).hexdigest()[:16]
    trials = []
    weights = WEIGHTS if weight is None else (checks.number(weight, "weight", above=0.0),)
    for let in (False, True) if lesson.corrections.watched is not None else (False,):
        for one in weights:
            trial = _learn_or_read(lesson, one, let, place)
            trials.append(replace(trial, roughness=compare_roughness(trial.policy, policy, learned)))
            if watch is not None:
                watch(trials[-1])
    chosen = _choose(trials, gate.tolerance)
    decision = gate.judge(policy, chosen.policy, judges[0], judges[1].demos)
    notes = *problems, *_note_unknown(policy, demos), *lesson.notes
    return Improvement(policy, chosen.policy, decision, by, tuple(trials), chosen, facts, judges, notes, place)


def keep(ledger: Ledger, found: Improvement, parent: str, *, accepted: bool | None = None) -> Line:
    """Keep a new version in the ledger of a policy, and put it to work where the gate accepted it.

    Parameters
    ----------
    ledger : Ledger
        Of the policy that was improved.
    found : Improvement
        The new version; what it was learned with on the way is cleared.
    parent : str
        Digest of the policy that was improved, as it was in the ledger then.
    accepted : bool, optional
        Whether to put it to work; by default as the gate says.

    Returns
    -------
    Line
        What the ledger says of it.
    """
    decision = found.decision
    facts = {**found.facts, "by": found.by, "weight": found.weight, "decision": decision.to_dict()}
    accepted = decision.accepted if accepted is None else accepted
    digest = ledger.offer(found.policy, accepted=accepted, reason=decision.reason, facts=facts, parent=parent)
    if found.place is not None:
        shutil.rmtree(found.place, ignore_errors=True)
        with suppress(OSError):  # others that were interrupted lie beside it
            found.place.parent.rmdir()
    return next(line for line in reversed(ledger.lines()) if line.digest == digest and line.event in OFFERED)


def _check(policy: Policy, demos: Demonstrations, corrections: Demonstrations) -> None:
    """Refuse a policy that was not made for such data, or that a mixture cannot go on from."""
    check_initial(policy, demos)
    for what in ("context_names", "action_names"):
        ours, theirs = getattr(demos, what), getattr(corrections, what)
        if ours != theirs:
            raise ArgumentError(
                f"corrections must have the columns of the demonstrations, {ours}; got {theirs}: these were recorded "
                "with another policy; give the folder of those that were recorded with this one"
            )
    if demos.rate != corrections.rate:
        raise ArgumentError(
            f"corrections were recorded at {corrections.rate} frames per second, and the demonstrations have "
            f"{demos.rate}: read these with rate={corrections.rate} (--rate {corrections.rate}) where they are as fast "
            "in truth; otherwise give what was recorded with this policy"
        )
    try:
        Kept.of(policy)
    except ArgumentError:
        raise ArgumentError(
            f"policy must be one on contexts alone behind a linear filter, as simile.learn makes them; got {policy}: "
            "learn one with simile.learn(demos), and improve that"
        ) from None


def _check_contexts(demos: Demonstrations, corrections: Demonstrations) -> None:
    """Refuse contexts that were left out of recordings, or hashed; what is known ahead is made of the others."""
    n = min(demos.n_contexts, corrections.n_contexts)
    low, high, least, most = (side[:n] for part in (demos, corrections) for side in part.extremes())
    known = ~np.isnan(low)
    if (gone := known & np.isnan(least)).any():
        names = ", ".join(demos.context_names[j] for j in np.flatnonzero(gone))
        raise ArgumentError(
            f"corrections: {names} is missing in all of them, and the demonstrations have it: nothing can be learned "
            "from such recordings (was it left out, --record-without?): record all contexts of the policy, or learn a "
            "policy that does without it"
        )
    far = ODD * np.maximum(high - low, np.maximum(np.abs(low), np.abs(high)))
    for j in np.flatnonzero(known & (far > 0.0)):
        values = np.concatenate([x[:, j] for x in corrections.contexts])
        values = values[~np.isnan(values)]
        if np.maximum(low[j] - values, values - high[j]).min() > far[j]:
            raise ArgumentError(
                f"corrections: {demos.context_names[j]} is from {least[j]:.3g} to {most[j]:.3g} in them, and from "
                f"{low[j]:.3g} to {high[j]:.3g} in the demonstrations: hashed values (--record-hashed), or those in "
                "another unit, are nothing to learn from: record this context as it is, or learn a policy that does "
                "without it"
            )


def _note_unknown(policy: Policy, demos: Demonstrations) -> tuple[str, ...]:
    """Say where the policy, which knows what it has learned from, knows none of the demonstrations."""
    if not marks_of(policy.card.training) or len(find_new(policy.card.training, demos)) < len(demos):
        return ()
    return (
        "the policy has learned from none of these demonstrations as far as its card tells: if they are the same, read "
        "them as at training (--group, --sequence, the same names), or what it has learned from judges it",
    )


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What there is to learn from, and how."""

    policy: Policy
    demos: Demonstrations
    corrections: Corrections
    by: str
    model: Any
    seed: int
    tolerance: float  # of the gate, by which a new policy may be rougher

    def learn(self, weight: float, let: bool) -> Trial:
        """Learn with this weight of the corrections, and with or without what the policy was let do.

        The filter is that of the old policy or, where behind it the new one is too rough for the gate, another.
        """
        demos = Demonstrations((*_ungroup_one(self.demos), *self.corrections.lessons(weight)))
        choices = Choices.of(demos, model=self.model, seed=self.seed, initial=self.policy)
        kept = choices.kept
        assert kept is not None
        kept.check_filter(demos, "learn a policy anew with another filter, simile.learn(demos, smoothness=...)")
        hold = Hold(np.zeros(demos.n_actions)) if kept.hold is None else kept.hold
        mix = self.by == "mix"
        models = choices.models if mix else choices.models[:-1]
        choices = replace(choices, models=models, hold=hold, share=REMAINS if mix else None)
        choices = replace(choices, beside=self.corrections.let_be() if let else None)
        run = learn_mixture(demos, replace(choices, regularizer=kept), kept.smoothness)
        if compare_roughness(run.policy, self.policy, self.demos) > 1.0 + self.tolerance:
            run = learn_mixture(demos, choices, MatchExpert(self.roughness))
        return self._note(run, weight, let)

    @cached_property
    def roughness(self) -> tuple[float, ...]:
        """How rough the old policy is in each action, as a multiple of the expert, before its hysteresis."""
        bare, logs = hold_by(self.policy, None), self.policy.card.logs(self.demos.n_actions)
        sums = Reference(self.demos, bare.units.scale, logs=logs).sums(rollout(bare, self.demos))
        found = compare_bends(*(getattr(sums, name).sum(axis=0) for name in ("bends", "expert_bends", "sizes")))
        return tuple(ratio if 0.0 < ratio < math.inf else 1.0 for ratio in found.tolist())

    def _note(self, run: Run, weight: float, let: bool) -> Trial:
        """Take the errors of what the models left out apart, and write them on the policy's card."""
        judged = run.judged
        assert judged is not None
        corrected = [demo.weights is not None for demo in judged.demos]
        errors = [judged.error([own == which for own in corrected]) for which in (False, True)]
        card, policy = run.policy.card, run.policy
        improved = {
            "from": digest_of(self.policy),
            "by": self.by,
            "weight": weight,
            "let": let,
            "corrections": self.corrections.digest,
            "unseen": [None if math.isnan(e) else e for e in errors],
        }
        noted = replace(card, training={**card.training, "improved": improved})
        return Trial(weight, let, policy.in_units(policy.units, policy.space, noted), *errors)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        return tuple(filter(None, note_initial(self.policy, self.demos, rounds=False)))


def _ungroup_one(demos: Demonstrations) -> Demonstrations:
    """Return demonstrations of one group alone without it: beside corrections, too, each is left out on its own."""
    if len(set(demos.groups or ())) != 1:
        return demos
    apart = demos.grouped(None, by=demos.group_name)
    for demo, other in zip(demos, apart, strict=True):
        vars(other)["digest"] = demo.digest
    return apart


def _learn_or_read(lesson: _Lesson, weight: float, let: bool, place: Path | None) -> Trial:
    """Learn, or read what an earlier call has learned and kept."""
    if place is None:
        return lesson.learn(weight, let)
    file = place / f"weight-{weight!r}{'-let' * let}.safetensors"
    if file.exists():
        try:
            policy = load_own(file)
        except StorageError as error:
            raise StorageError(
                f"{file}, which an earlier call has kept, cannot be read: remove it, and it is learned again"
            ) from error
        errors = policy.card.training["improved"]["unseen"]
        return Trial(weight, let, policy, *(math.nan if e is None else float(e) for e in errors))
    trial = lesson.learn(weight, let)
    save_own(trial.policy, file)
    return trial


def compare_roughness(new: Policy, old: Policy, demos: Demonstrations) -> float:
    """Return how rough a policy is along demonstrations, as a multiple of another; infinite where it diverges."""
    reference = Reference(demos, old.units.scale, logs=old.card.logs(demos.n_actions))
    try:
        after, before = (reference.measure(rollout(one, demos)).roughness for one in (new, old))
    except DivergedError:
        return math.inf
    return after / before if before > 0.0 else math.inf if after > 0.0 else 1.0


def _choose(trials: Sequence[Trial], tolerance: float) -> Trial:
    """Choose the trial with the least product of both errors: what one loses, as a share, the other must win.

    One that the gate would call rougher than the old policy is left alone; where all are, the smoothest is taken.
    """
    smooth = [t for t in trials if t.roughness <= 1.0 + tolerance]
    return min(smooth or [min(trials, key=lambda t: t.roughness)], key=lambda t: t.demonstrations * t.corrections)


def _hold_out(
    policy: Policy, demos: Demonstrations, test: float | Demonstrations, seed: int
) -> tuple[Demonstrations, Demonstrations]:
    """Return the demonstrations to learn from, whose last frames nobody could know ahead, and those that judge."""
    _, known = timing(policy)
    if not isinstance(test, Demonstrations):
        learned, shown = _set_apart(policy.card.training, demos, test, seed, "demonstrations")
        return demos.where(learned).foretell(known, complete=True), demos.where(shown).foretell(known)
    check_initial(policy, test.foretell(known))
    known_again = set(test.digests) & set(demos.digests) or set(map(_hash, test)) & set(map(_hash, demos))
    if known_again or len(find_new(policy.card.training, test)) < len(test):
        raise ArgumentError("test must be demonstrations that neither the policy nor the new one learns from; some are")
    return demos.foretell(known, complete=True), test.foretell(known)


def _hash(demo: Demonstration) -> bytes:
    """Return the SHA-256 of the values alone: a recording is known again by another name, or in another group."""
    found = hashlib.sha256(np.ascontiguousarray(demo.contexts).data)
    found.update(np.ascontiguousarray(demo.actions).data)
    return found.digest()


def _set_apart(
    training: Mapping[str, Any], demos: Demonstrations, test: float, seed: int, what: str
) -> tuple[IntArray, IntArray]:
    """Return the numbers of sequences to learn from and of those that judge, which nobody has learned from yet."""
    test = checks.number(test, "test", above=0.0, at_most=0.9)
    whole = what == "corrections"  # groups are groups, even one alone: those of one share frames
    kin = number_labels([demo.group for demo in demos]) if whole else demos.kin
    new, n = find_new(training, demos), int(kin.max()) + 1
    seen = np.setdiff1d(np.arange(len(demos)), new)
    apart = new[~np.isin(kin[new], kin[seen])]  # of groups that it knows nothing of, where there are such
    new = apart if len(apart) or whole else new
    kin = np.unique(kin[new], return_inverse=True)[1] if len(new) else new
    groups = len(set(kin.tolist()))
    others = len(new) < len(demos)  # something is left to learn from anyway
    wanted = min(max(round(test * n), JUDGES), groups if others else groups - 1)
    if wanted < 1:
        learned = "it has learned from all of them" + ", or from what shares frames with them" * whole
        found = "there is one alone" if groups else learned
        raise ArgumentError(
            f"{what}: some that the policy has not learned from must judge, and {found}: "
            + (
                "add recordings that it has not seen, such as those held out by `simile train --test`"
                if what == "demonstrations"
                else "let an operator work with the policy again"
            )
        )
    held = new if wanted == groups else new[draw_groups(kin, wanted / groups, seed)]
    return np.setdiff1d(np.arange(len(demos)), held), held
