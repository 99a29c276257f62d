"""Clients with a stream: numbers that jump, overrides out of this world, and what is left of a past after a kill."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from raids import wire
from raids.raid import CONTEXT, Raid, attack
from raids.targets import Broken, Service, until

LARGEST = 2**53 - 1


def _serve(raid: Raid, *options: str) -> Service:
    past = ("--snapshots", str(raid.folder / "streams.safetensors"), "--snapshot-every", "0.3")
    return Service(raid.policy, *past, *options)


def _keep(service: Service) -> None:
    """Wait until all that has happened is in a snapshot."""
    written = service.count("snapshots")
    if not until(lambda: service.count("snapshots") >= written + 2, 10.0):
        raise Broken("no snapshot is written any more")


def _play(ws: wire.WebSocket, frames: range) -> list[Any]:
    return [ws.ask({"n": n, "x": [math.sin(0.1 * n + i) for i in range(6)]}).get("a") for n in frames]


@attack("jumps of n", "3")
def jump(raid: Raid) -> str:
    """Push a counter as far as it goes: on restart, everybody else must go on."""
    with _serve(raid) as service:
        with service.open("victim") as victim:
            victim.ask({"open": {"resume": False}})
            _play(victim, range(20))
            with service.open("jumper") as jumper:
                for n in (0, 1, LARGEST):
                    jumper.ask({"n": n, "x": CONTEXT})
                for _ in range(3):
                    jumper.ask({"x": CONTEXT})
                missing = service.count("missing")
                _keep(service)
        service.kill()
    if missing > 1e6:
        raise Broken(f"one jump counts as {missing:.3g} missing frames")
    with _serve(raid) as service:
        with service.open("victim") as victim:
            opened = victim.ask({"open": {"resume": True}}).get("opened", {})
        if opened.get("frames") != 20:
            raise Broken(f"the victim's 20 frames are gone after the restart: {opened}; {service.log[-300:]}")
        _keep(service)
        service.check()
    return "the victim went on from its 20 frames"


@attack("overrides of 1e308", "7")
def override(raid: Raid) -> str:
    """Take over as an operator, to the ends of the numbers: what comes after must be actions again."""
    worst = []
    with _serve(raid, "--stage", "AccelerationLimit(50.0)", "--stage", "RateLimit(30.0)") as service:
        for i, pair in enumerate(((1e308, -1.7e308), (-1.7e308, 1e308), (1e300, 1e300), (1e17, -1e17))):
            with service.open(f"operator-{i}") as ws:
                ws.ask({"n": 0, "x": CONTEXT})
                for k, value in enumerate(pair):
                    ws.ask({"n": 1 + k, "x": CONTEXT, "override": [value]})
                said = [ws.ask({"n": n, "x": CONTEXT}) for n in range(3, 200)]
            actions = [one["a"][0] for one in said if one.get("a")]
            if len(actions) < 190 or any(a is None or not math.isfinite(a) for a in actions):
                raise Broken(f"after overrides of {pair} the answers are {said[-1]}")
            worst.append(max(abs(a) for a in actions[-20:]))
        service.check()
    if max(worst) > 1e6:
        raise Broken(f"200 frames after the overrides the action is still {max(worst):.3g}")
    return f"actions within {max(worst):.3g} afterwards"


@attack("kill -9 and restart", "restart")
def kill(raid: Raid) -> str:
    """End the process in the middle: the stream goes on with the same bits."""
    for attempt in range(raid.amount(5, 1)):
        with _serve(raid) as service:
            with service.open("whole") as whole:
                expected = _play(whole, range(60))
            with service.open("cut") as cut:
                begun = _play(cut, range(30))
                _keep(service)
            service.kill()
        with _serve(raid) as service, service.open("cut") as cut:
            opened = cut.ask({"open": {"resume": True}})["opened"]
            if opened["frames"] != 30:
                raise Broken(f"30 frames were kept, and {opened} came back")
            if begun + _play(cut, range(30, 60)) != expected:
                raise Broken(f"restart {attempt}: the actions are others than those of a stream that was never cut")
            service.check()
        (raid.folder / "streams.safetensors").unlink()
    return f"{raid.amount(5, 1)} kills, every bit equal"


@attack("flipped bits of a snapshot", "8")
def flip(raid: Raid) -> str:
    """Damage a snapshot by single bits: it is never loaded."""
    file = raid.folder / "streams.safetensors"
    with _serve(raid) as service:
        with service.open("kept") as ws:
            _play(ws, range(50))
            _keep(service)
        service.stop()
    good, n = file.read_bytes(), raid.amount(16, 3)
    size = int.from_bytes(good[:8], "little")
    for i in range(n):
        damaged = bytearray(good)
        place = raid.rng.randrange(len(good)) if i % 2 else raid.rng.randrange(8 + size, len(good))
        damaged[place] ^= 1 << raid.rng.randrange(8)
        file.write_bytes(damaged)
        with _serve(raid) as service, service.open("kept") as ws:
            opened = ws.ask({"open": {"resume": True}})["opened"]
            service.check()
            if opened["frames"]:
                raise Broken(f"a snapshot with a flipped bit at byte {place} of {len(good)} was loaded")
    return f"{n} flipped bits, none loaded"


@attack("two servers on one snapshot", "8")
def share(raid: Raid) -> str:
    """Start a second server on the same snapshot file: it says so, and ends."""
    with _serve(raid) as service:
        try:
            with _serve(raid):
                raise Broken("a second server works on the same snapshot file")
        except Broken as refused:
            if "second server" in str(refused):
                raise
            said = str(refused)
        if "Traceback" in said or "snapshot" not in said.partition("saying")[2].lower():
            raise Broken(f"the second one ends without saying why: {said[-300:]}")
        service.check()
    return "the second is refused with a sentence"


@attack("files that others can read", "10")
def peek(raid: Raid) -> str:
    """Look at files as a neighbour on the same machine, and leave rubbish of an earlier crash."""
    token = raid.folder / "token"
    token.write_text("a-long-secret-of-the-service")
    token.chmod(0o644)
    left = [raid.folder / ".streams.safetensors.0a1b2c3d.tmp"]
    for one in left:
        one.write_bytes(b"left over")
        os.utime(one, (1e9, 1e9))
    umask = os.umask(0o022)
    try:
        with _serve(raid, "--token-file", str(token)) as service:
            service.token = "a-long-secret-of-the-service"
            _keep(service)
            open_to_others = [p.name for p in _list_files(raid.folder) if p.stat().st_mode & 0o077]
            said, still = service.log, [p.name for p in left if p.exists()]
    finally:
        os.umask(umask)
    if any("streams" in name for name in open_to_others):
        raise Broken(f"others can read {open_to_others}")
    if "token" not in said.lower():
        raise Broken("a token file that others can read is not told")
    if still:
        raise Broken(f"left over: {still}")
    return "snapshots are the owner's alone, the open token file is told, rubbish is gone"


def _list_files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("log-")]


@attack("forged log lines by streams", "9")
def forge(raid: Raid) -> str:
    """Try to write lines of the log by names and values of our own."""
    forged = "\nsimile: the policy 0000 is at work\x1b[2J"
    with Service(raid.policy) as service:
        with service.open() as ws:
            for message in (
                {"stream": forged, "x": CONTEXT},
                {"stream": "s", "x": {forged: 1.0}},
                {"stream": "s", forged: 1},
                {"stream": "s", "open": {"start": forged}},
            ):
                ws.ask(message)
        for path in ("/streams/%0asimile:%20forged", "/%1b[2J", "/streams/" + "x" * 3000):
            service.get(path, method="DELETE")
        wire.ask(service.http, "/policy", method="POST", body=json.dumps(forged).encode())
        service.check()
        _check_log(service.log)
    return "nothing of it is in the log"


def _check_log(log: str) -> None:
    """See that no line and no escape of a stranger is in a log."""
    lines = [line for line in log.splitlines() if line.startswith("simile: the policy 0000")]
    if lines or "\x1b" in log:
        raise Broken(f"the log has {lines or 'an escape'}")
