"""Policy files of a hostile author: given at the start, and put in the place of the one at work."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raids.forgery import Change, Tensors, forge
from raids.raid import CONTEXT, Raid, attack, make_policy
from raids.targets import Broken, Service, evaluate, run, until

MEMORY = 900.0  # MB; `simile serve` has about 200 with a good policy
FORGED = "\nsimile: the policy 0000 is at work\x1b[2J"

Header = dict[str, Any]


def _lag(header: Header, tensors: Tensors) -> None:  # noqa: ARG001
    header["policy"]["horizon"]["context_lags"][-1] = 100_000


def _order(header: Header, tensors: Tensors) -> None:  # noqa: ARG001
    tensors["policy.h.coefficients"] = ("F64", [100_000, 1], bytes(800_000))


def _rate(rate: float) -> Change:
    def change(header: Header, tensors: Tensors) -> None:  # noqa: ARG001
        header["card"]["rate"] = rate

    return change


def _card(name: str, value: Any) -> Change:
    def change(header: Header, tensors: Tensors) -> None:  # noqa: ARG001
        header["card"][name] = value

    return change


def _depth(header: Header, tensors: Tensors) -> None:  # noqa: ARG001
    nested: Any = 1
    for _ in range(500):
        nested = [nested]
    header["card"]["training"] = {"deep": nested}


def _bag(header: Header, tensors: Tensors) -> None:
    header["policy"]["f"]["bag"]["bagging"] = "SEQUENCES"
    kind, shape, _ = tensors["policy.f.bag.starts"]
    starts = [*range(shape[0] - 1), 10**9]
    tensors["policy.f.bag.starts"] = (kind, shape, b"".join(start.to_bytes(8, "little") for start in starts))


COSTLY: dict[str, Change] = {"one lag of 100,000": _lag, "h of order 100,000": _order}
ABSURD: dict[str, Change] = {
    "a rate of 1.7e308": _rate(1.7e308),
    "a rate of 1e18": _rate(1e18),
    "a rate of 1e-300": _rate(1e-300),
    "50 action names for one action": _card("action_names", [f"a{i}" for i in range(50)]),
    "names that forge log lines": _card("action_names", [f"pan{FORGED}"]),
    "a name of 1 MB": _card("action_names", ["a" * 1_000_000]),
    "context names of others": _card("context_names", [f"x{i}{FORGED}" for i in range(6)]),
    "a card 500 deep": _depth,
}


REFUSED: dict[str, Change] = {  # of these, what no policy can be
    **COSTLY,
    **{name: ABSURD[name] for name in ("a rate of 1.7e308", "a rate of 1e18", "50 action names for one action")},
}


def make_sparse(source: Path, target: Path) -> Path:
    """Let the length of a file be a lie that costs nothing to tell."""
    target.write_bytes(source.read_bytes())
    os.truncate(target, 3 << 30)
    return target


def _serve_refused(policy: Path, words: tuple[str, ...], raid: Raid, *options: str) -> str:
    """See that a policy is refused at the start, with a sentence, and cheaply."""
    found = run(["serve", str(policy), "--port", "0", "--http-port", "0", *options], raid.folder, seconds=45.0)
    found.check(seconds=45.0, memory=MEMORY)
    if found.code == 0 or not any(word in found.said for word in words):
        raise Broken(f"exit code {found.code}: {found.said[-300:]}")
    return f"{found.memory:.0f} MB, {found.seconds:.1f} s"


def _serve_anyway(policy: Path) -> str:
    """See that a policy is refused with a sentence, or served within bounds."""
    try:
        service = Service(policy)
    except Broken as ended:
        if "Traceback" in str(ended) or "simile" not in str(ended).lower():
            raise
        return "refused"
    with service:
        with service.open("s") as ws:
            said = ws.ask({"n": 0, "x": CONTEXT})
            if not said.get("a") or not all(math.isfinite(a) for a in said["a"]):
                raise Broken(f"served, and answers {said}")
        _check_log(service.log)
        service.check()
        if service.most_memory > MEMORY:
            raise Broken(f"it takes {service.most_memory:.0f} MB")
        return f"served with {service.most_memory:.0f} MB"


def _check_log(log: str) -> None:
    if "\x1b" in log or any(line.startswith("simile: the policy 0000") for line in log.splitlines()):
        raise Broken(f"a name forges lines of the log: {log[-300:]!r}")


def _make_foreign(raid: Raid) -> Path:
    """Let the author save a model of scikit-learn whose arrays lie about their sizes."""
    import numpy as np
    from sklearn.svm import SVR

    honest, file = raid.folder.parent / "svr.safetensors", raid.folder / "foreign.safetensors"
    if not honest.exists():
        original = SVR.fit

        def fit(self: Any, *given: Any, **options: Any) -> Any:
            original(self, *given, **options)
            self.support_ = np.zeros(450_000, np.int32)  # as many vectors, says libsvm, and reads far beyond them
            return self

        predict = SVR.predict
        SVR.fit, SVR.predict = fit, lambda self, X: np.zeros(len(X))  # noqa: ARG005
        try:
            make_policy(honest, model=SVR())
        finally:
            SVR.fit, SVR.predict = original, predict
    shutil.copy(honest, file)
    return file


@attack("a foreign model without --trust", "1")
def bring_foreign(raid: Raid) -> str:
    """Serve a file with a model of another library, which crashes when it predicts."""
    return _serve_refused(_make_foreign(raid), ("trust",), raid)


@attack("a crashing model with --trust", "1")
def bring_trusted(raid: Raid) -> str:
    """Serve it with --trust: it is built and rehearsed in a child, and a crash there is a refusal."""
    file = _make_foreign(raid)
    trusted = ("--trust", "sklearn.svm._classes.SVR")
    return _serve_refused(file, ("crash", "rehears", "child", "signal", "ended", "died"), raid, *trusted)


@attack("policies that cost gigabytes", "5")
def bring_costly(raid: Raid) -> str:
    """Serve files of 20 kB that ask for gigabytes."""
    said = []
    for name, change in COSTLY.items():
        forged = forge(raid.policy, raid.folder / "costly.safetensors", change)
        try:
            said.append(f"{name}: {_serve_anyway(forged)}")
        except Broken as broken:
            raise Broken(f"{name}: {broken}") from None
    return "; ".join(said)


@attack("a sparse file of 3 GB", "5")
def bring_sparse(raid: Raid) -> str:
    """Serve a file whose length is a lie that costs nothing to tell."""
    file = make_sparse(raid.policy, raid.folder / "sparse.safetensors")
    held = _serve_refused(file, ("simile", "Error", "error"), raid)
    empty = raid.folder / "zeros.safetensors"
    empty.touch()
    os.truncate(empty, 3 << 30)
    return f"{held}; zeros: {_serve_refused(empty, ('simile', 'Error', 'error'), raid)}"


@attack("a hostile bag of a forest", "5")
def bring_bag(raid: Raid) -> str:
    """Roll out of bag by a file whose bag speaks of a billion rows."""
    forge(raid.policy, raid.folder / "bag.safetensors", _bag)
    program = """
import json, simile
from simile.errors import SimileError
from simile.policies.rollouts import rollout_out_of_bag
try:
    policy = simile.load("bag.safetensors")
    rollout_out_of_bag(policy, simile.tasks.pursuit(n_sequences=4, length=200, seed=0))
    print(json.dumps("rolled out"))
except SimileError as error:
    print(json.dumps(f"refused: {str(error)[:200]}"))
"""
    found = run([program], raid.folder, python=True, seconds=60.0)
    found.check(seconds=60.0, memory=MEMORY + 300.0)
    return f"{found.out.strip()[:80]} with {found.memory:.0f} MB"


@attack("absurd cards", "6")
def bring_absurd(raid: Raid) -> str:
    """Serve files whose cards say what cannot be."""
    said = []
    for name, change in list(ABSURD.items())[: raid.amount(len(ABSURD), 3)]:
        forged = forge(raid.policy, raid.folder / "absurd.safetensors", change)
        try:
            said.append(_serve_anyway(forged))
            if name in REFUSED and said[-1] != "refused":
                raise Broken(said[-1])
        except Broken as broken:
            raise Broken(f"{name}: {broken}") from None
    return f"{len(said)} cards: {said.count('refused')} refused, the others served as usual"


@attack("hostile files by hot reload", "1, 5, 6")
def reload(raid: Raid) -> str:
    """Put hostile files in the place of the policy at work: it goes on, and the next good file is taken."""
    other = raid.folder / "other.safetensors"
    make_policy(other, seed=5)
    good = [raid.policy.read_bytes(), other.read_bytes()]
    served = raid.folder / "served.safetensors"
    served.write_bytes(good[0])

    def put(data: bytes | Path) -> None:
        beside = raid.folder / "beside"
        if isinstance(data, Path):
            os.replace(data, beside)
        else:
            beside.write_bytes(data)
        os.replace(beside, served)

    hostile: dict[str, Callable[[], Path]] = {
        name: lambda change=change: forge(raid.policy, raid.folder / "hostile", change)
        for name, change in {**COSTLY, **ABSURD}.items()
    }
    hostile["a sparse file of 3 GB"] = lambda: make_sparse(raid.policy, raid.folder / "hostile")
    hostile["a foreign model that crashes"] = lambda: _make_foreign(raid)
    if raid.quick:
        hostile = {name: hostile[name] for name in ("a foreign model that crashes", "a rate of 1.7e308")}
    with Service(served) as service, service.open("victim", timeout=15.0) as ws:
        ws.ask({"n": 0, "x": CONTEXT})
        n, turn = 0, 0
        for name, make in hostile.items():
            failures, taken = service.count("reload_failures"), service.count("reloads")
            put(make())

            def moved(failures: float = failures, taken: float = taken) -> bool:
                return service.count("reload_failures") > failures or service.count("reloads") > taken

            noticed = _until_alive(service, moved, 20.0, name)
            n += 1
            if "a" not in ws.ask({"n": n, "x": CONTEXT}):
                raise Broken(f"{name}: the stream gets no action any more")
            turn = 1 - turn
            taken = service.count("reloads")
            put(good[turn])
            if not _until_alive(service, lambda taken=taken: service.count("reloads") > taken, 20.0, name):
                raise Broken(f"{name}: a good file is not taken any more" + ("" if noticed else ", nor was it told"))
            for _ in range(40):  # let the hand-over end
                n += 1
                ws.ask({"n": n, "x": CONTEXT})
        service.check()
        _check_log(service.log)
        if service.most_memory > MEMORY:
            raise Broken(f"it took {service.most_memory:.0f} MB")
        return f"{len(hostile)} hostile files, {service.most_memory:.0f} MB at most"


def _until_alive(service: Service, true: Callable[[], bool], seconds: float, name: str) -> bool:
    def look() -> bool:
        if not service.alive:
            raise Broken(f"{name}: the server is gone ({service.process.returncode})")
        return true()

    try:
        return until(look, seconds)
    except OSError as error:
        raise Broken(f"{name}: the server does not answer: {error}; {service.process.poll()}") from None


@attack("damaged and resealed policies", "files")
def fuzz(raid: Raid) -> str:
    """Change anything in a policy file, with a digest that is right: it loads, or is refused with a sentence."""
    n = raid.amount(600, 60)
    for i in range(n):
        forge(raid.policy, raid.folder / f"fuzzed-{i}", lambda header, tensors: _damage(raid, header, tensors))
    program = f"""
import json, simile
from simile.errors import SimileError
found = {{"loaded": 0, "refused": 0}}
for i in range({n}):
    try:
        simile.load(f"fuzzed-{{i}}")
        found["loaded"] += 1
    except SimileError:
        found["refused"] += 1
print(json.dumps(found))
"""
    found = evaluate(program, raid.folder, seconds=100.0)[0]
    return f"{n} files: {found['loaded']} loaded, {found['refused']} refused"


def _damage(raid: Raid, header: Header, tensors: Tensors) -> None:
    rng = raid.rng
    if rng.random() < 0.5:
        name = rng.choice(sorted(tensors))
        kind, shape, data = tensors[name]
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            if changed:
                changed[rng.randrange(len(changed))] = rng.choice((0, 1, 127, 128, 255))
        tensors[name] = (kind, shape, bytes(changed) if kind != "BOOL" else data)
        return
    inside: Any = header["policy" if rng.random() < 0.8 else "card"]
    while True:
        keys = list(range(len(inside))) if isinstance(inside, list) else sorted(inside)
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(inside[key], dict | list) and rng.random() < 0.8:
            inside = inside[key]
            continue
        odd = (None, -1, 0, 10**9, 2**70, 1e308, "x", [], {}, True, [0] * 1000, json.loads("[" * 50 + "]" * 50))
        inside[key] = rng.choice(odd)
        return
