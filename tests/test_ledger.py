"""The versions of a policy: nothing is lost, who decided is said, and damage gets a sentence."""

from __future__ import annotations

import json
import multiprocessing
import shutil

import pytest

import simile
from commands import simile_
from simile.data import tasks
from simile.errors import ArgumentError, StorageError
from simile.policies.ledger import LEDGER, LOCK, Ledger, name_user
from simile.policies.storage.files import digest_of

DEMOS = tasks.pursuit(n_sequences=3, length=100)


@pytest.fixture(scope="module")
def policies():
    return [simile.clone(DEMOS, model=simile.SmoothForest(n_trees=2), seed=seed).policy for seed in range(3)]


@pytest.fixture
def ledger(tmp_path, policies):
    policies[0].save(tmp_path / "policy.safetensors")
    return Ledger(tmp_path / "policy.safetensors")


def test_an_accepted_version_takes_the_place_and_a_candidate_waits(ledger, policies):
    first, second, third = map(digest_of, policies)
    assert ledger.lines() == ()
    assert "has no versions yet" in str(ledger)
    assert ledger.offer(policies[1], accepted=False, reason="it turns more often.", facts={"score": 1.5}) == second
    assert ledger.at_work == first
    assert ledger.offer(policies[2], accepted=True, reason="it is better.") == third
    assert ledger.at_work == third == simile_digest(ledger)
    assert [v.state for v in ledger.versions()] == ["was at work", "candidate", "at work"]
    found, candidate, accepted = ledger.lines()
    assert (found.event, found.who) == ("found", name_user())
    assert (candidate.parents, dict(candidate.facts), candidate.who) == ((first,), {"score": 1.5}, "the gate")
    assert (accepted.replaced, accepted.parents) == (first, (first,))
    assert ledger.accept(second[:8], reason="we know better", who="anna") == second
    assert ledger.at_work == second
    assert (ledger.lines()[-1].event, ledger.lines()[-1].who) == ("put to work", "anna")
    assert ledger.roll_back() == third
    assert ledger.roll_back() == first
    with pytest.raises(ArgumentError, match=f"there is no version before {first[:12]} to go back to"):
        ledger.roll_back()
    assert ledger.roll_back(third[:8]) == third
    assert {p.name for p in ledger.folder.iterdir()} == {LEDGER, *(f"{d}.safetensors" for d in (first, second, third))}
    assert simile.load(ledger.path).card == policies[2].card
    assert "at work" in str(ledger)
    assert "anna" in str(ledger)
    assert len(ledger.lines()) == 7


def test_what_could_not_be_put_to_work_is_not_said_to_have_been(ledger, policies, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    ledger.offer(policies[1], accepted=False, reason="it turns more often.")
    with monkeypatch.context() as broken:
        broken.setattr("simile.policies.ledger.Ledger._put", fail)
        for change in (
            lambda: ledger.offer(policies[2], accepted=True, reason="it is better."),
            lambda: ledger.accept(digest_of(policies[1])),
        ):
            with pytest.raises(OSError, match="No space"):
                change()
    assert [line.event for line in ledger.lines()] == ["found", "candidate"]
    with pytest.raises(ArgumentError, match="there is no version before"):
        ledger.roll_back()


def simile_digest(ledger: Ledger) -> str:
    return digest_of(simile.load(ledger.path))


def test_the_way_back_is_that_of_what_was_at_work(ledger, policies):
    first, second, third = map(digest_of, policies)
    ledger.offer(policies[1], accepted=True, reason="")
    ledger.offer(policies[2], accepted=True, reason="")
    for mistake in (first, second):
        ledger.accept(mistake)
        assert ledger.roll_back() == third
    ledger.accept(second)
    assert [ledger.roll_back() for _ in range(3)] == [third, second, first]
    with pytest.raises(ArgumentError, match="there is no version before"):
        ledger.roll_back()


def test_a_policy_that_came_from_elsewhere_is_kept(ledger, policies):
    first, second, third = map(digest_of, policies)
    ledger.offer(policies[1], accepted=True, reason="")
    policies[2].save(ledger.path)  # behind the ledger's back
    assert [(v.digest, v.state) for v in ledger.versions()][-1] == (third, "at work")
    assert third[:12] in str(ledger)
    assert ledger.find(third[:8]) == third
    assert ledger.roll_back() == second
    assert (ledger.lines()[-2].digest, ledger.lines()[-2].replaced) == (third, second)
    shutil.copy(ledger.file_of(first), ledger.path)  # one that is known
    ledger.accept(third)
    assert [ledger.roll_back() for _ in range(2)] == [first, second]
    assert [v.state for v in ledger.versions()] == ["was at work", "at work", "was at work"]
    assert ledger.file_of(third).exists()


def test_what_was_compared_with_another_than_the_one_at_work_waits(ledger, policies):
    first, second, third = map(digest_of, policies)
    for policy in policies[1:]:  # both learned from the first
        ledger.offer(policy, accepted=True, reason="accepted: it is better.", parent=first)
    assert ledger.at_work == second
    last = ledger.lines()[-1]
    assert (last.digest, last.event, last.parents, last.replaced) == (third, "candidate", (first,), None)
    assert last.reason == (
        f"kept as a candidate, for version {second[:12]} took the place of {first[:12]}, which it was compared with, "
        f"meanwhile: improve again, or put it to work with `simile accept {ledger.path} {third[:12]}`; accepted: it is "
        "better."
    )


def test_mistakes_get_a_sentence(ledger, policies):
    first, second, _ = map(digest_of, policies)
    with pytest.raises(ArgumentError, match="'abc' names none: there are none yet"):
        ledger.find("abc")
    ledger.offer(policies[1], accepted=False, reason="")
    with pytest.raises(ArgumentError, match="never been at work, so that there is no way back to it"):
        ledger.roll_back(second)
    with pytest.raises(ArgumentError, match=f"version {first[:12]} is at work already"):
        ledger.accept(first)
    kept = ledger.file_of(second).read_bytes()
    shutil.copy(ledger.path, ledger.file_of(second))
    with pytest.raises(StorageError, match="holds another policy than its name says"):
        ledger.accept(second)
    ledger.file_of(second).unlink()
    with pytest.raises(StorageError, match="is missing: the ledger knows this version"):
        ledger.accept(second)
    ledger.file_of(second).write_bytes(kept)
    ledger.accept(second)
    file = ledger.folder / LEDGER
    good = file.read_text()
    others = json.dumps({"digest": "x"}), "\x00", good.splitlines()[0].replace('"found"', '"Found"')
    for bad in (good[:-30], good + "[1]\n", *(f"{good}{other}\n" for other in others)):
        file.write_text(bad)
        with pytest.raises(StorageError, match=r"ledger\.jsonl, line \d is no line of a ledger of versions"):
            ledger.offer(policies[2], accepted=True, reason="")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="cannot be read as a ledger"):
        ledger.lines()
    assert digest_of(simile.load(ledger.path)) == second
    ledger.path.write_bytes(b"nothing")
    with pytest.raises(StorageError):
        ledger.versions()


def offer(path, seed: int) -> None:
    policy = simile.clone(DEMOS, model=simile.SmoothForest(n_trees=1), seed=seed).policy
    while True:
        try:
            Ledger(path).offer(policy, accepted=True, reason=f"seed {seed}")
        except ArgumentError:  # another changes the versions
            continue
        return


def test_of_several_at_once_none_is_lost(ledger):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=offer, args=(ledger.path, seed)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    lines = ledger.lines()
    assert sorted(line.reason for line in lines[1:]) == [f"seed {seed}" for seed in range(4)]
    assert ledger.at_work == lines[-1].digest
    assert [line.replaced for line in lines[1:]] == [line.digest for line in lines[:-1]]
    assert not (ledger.folder / LOCK).exists()


def test_the_commands(ledger, policies, tmp_path):
    second = ledger.offer(policies[1], accepted=False, reason="it is\nrougher.")
    shown = simile_("versions", ledger.path, cwd=tmp_path, process=True).stdout
    assert second[:12] in shown
    assert "it is\\nrougher." in shown  # on one line, whatever a ledger says
    told = simile_("accept", ledger.path, second[:8], "--reason", "we looked", cwd=tmp_path, process=True).stdout
    assert f"is version {second[:12]} now" in told
    held = json.loads(simile_("versions", ledger.path, "--json", cwd=tmp_path).stdout)
    assert held["at_work"] == second
    assert held["versions"][1]["lines"][-1]["reason"] == "we looked"
    assert held["versions"][1]["lines"][-1]["who"] == name_user()
    simile_("roll-back", ledger.path, cwd=tmp_path, process=True)
    assert ledger.at_work == digest_of(policies[0])
    assert "there is no version before" in simile_("roll-back", ledger.path, cwd=tmp_path, code=2).stderr
    simile_("roll-back", ledger.path, second, cwd=tmp_path)
    assert ledger.at_work == second
