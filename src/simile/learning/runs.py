"""A run as a folder: the options it was started with, what it has found so far, and how to repeat it.

`simile train --out FOLDER` writes one, `simile report FOLDER` and the studio read it. Options are plain data under
the names of the command line, as config.toml holds them.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from simile._common import locks
from simile._common.files import LONGEST, clear_leftovers, open_regular, read_text, write_atomically
from simile._common.urls import name_of
from simile.data.demonstrations import Demonstrations
from simile.data.groups import are_grouped
from simile.data.reading import read
from simile.data.reading.columns import SINGLE
from simile.data.recorded import Recorded
from simile.data.timing import read_known
from simile.errors import ArgumentError, DataError, redact
from simile.learning.algorithms import refuse_rounds
from simile.learning.initial import Data, leave_seen
from simile.learning.judged import Judged, cut_places
from simile.learning.outliers import weigh
from simile.learning.recipes import as_python, parse
from simile.policies.policies import Policy, timing
from simile.policies.storage.loading import load_own, read_header

POLICY, CONFIG, CHECKPOINT, SUMMARY = "policy.safetensors", "config.toml", "checkpoint", "summary.json"
PATH = "path.safetensors"  # the policies from rough to smooth in one file, for the slider of the studio
JUDGED = "judged.npz"  # what the policy did over recordings that its parts had not seen
TEST = "0.25"  # what the rounds of Algorithm 1 hold out
BASELINE = "baseline.safetensors"  # the best simple filter, which the policy is compared with
ROUNDS = "rounds.jsonl"  # one line for each round, or for each contender of a comparison, as they come
COMPARISON, REPORT = "comparison.json", "report.html"
LOCK = ".lock"  # while a run is at work

READING = (
    *("actions", "contexts", "sequence", "group", "time", "time_unit", "rate", "gap", "resample", "max_memory"),
    *("as_is", "repair", "missing", "wraps"),
)
RECIPES = ("model", "regularizer", "smoothness", "horizon", "feedback", "hold", "loss", "rule", "step_size", "space")
# What the commands take for granted, and a line that repeats a run need not say.
DEFAULTS: dict[str, Any] = {
    "algorithm": "learn",
    "seed": 0,
    "report": True,
    "rivals": True,
    "exact": True,
    "as_is": False,
    "repair": False,
}
ORDER = (
    *("algorithm", *READING, *RECIPES, "lead", "known", "n_rounds", "initial"),
    *("reductions", "rivals", "seed", "test", "validation", "dask", "exact", "trust"),
)


def reading_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the arguments of `simile.read` that were given."""
    given = {name: options.get(name) for name in READING}
    return {
        n: list(v) if isinstance(v, tuple) else v
        for n, v in given.items()
        if v not in (None, (), []) and v is not False
    }


def chosen_test(options: Mapping[str, Any]) -> str | None:
    """Return what is held out, a share or a file; by default nothing for `learn`, which leaves all out in turn."""
    mixed = options.get("algorithm") == "learn"
    given = options.get("test")
    if given is None:
        return None if mixed else TEST
    return None if mixed and _share(given) == 0.0 else str(given)


def read_and_hold_out(
    options: Mapping[str, Any], *, quiet: bool = False
) -> tuple[Demonstrations, Demonstrations | None]:
    """Read the data, and the held-out part: another data file, a share of the groups or sequences, or nothing.

    What is held out is weighed by the loss of the run; what is learned from is so there.
    """
    demos = read(_one_or_many(options["data"]), **reading_arguments(options), quiet=quiet)
    train, test = hold_out(options, demos, quiet=quiet)
    return train, None if test is None else weigh_by(options, test)


def weigh_by(options: Mapping[str, Any], demos: Demonstrations) -> Demonstrations:
    """Weigh demonstrations by the loss of a run."""
    loss = None if options.get("loss") is None else parse(options["loss"], "loss")
    return weigh(demos, loss, seed=options["seed"])


def hold_out(
    options: Mapping[str, Any], demos: Data, *, quiet: bool = False
) -> tuple[Data, Data] | tuple[Data, Demonstrations] | tuple[Data, None]:
    """Hold a part out, where demonstrations lie; another data file is read here."""
    if options.get("initial") is not None and options.get("algorithm") == "learn":
        card = read_header(options["initial"], max_memory=options.get("max_memory"))["card"]
        demos, left_out = leave_seen(card["training"], demos)
        if left_out and not quiet:
            print(left_out, file=sys.stderr)  # noqa: T201 - as `read` says what it has read
    test = chosen_test(options)
    if test is None:
        return demos, None
    share = _share(test)
    if share is None:
        columns = {"actions": demos.action_names, "contexts": demos.context_names}
        alike = {**columns, "wraps": list(demos.preparation.wraps.items())}
        return demos, read(test, **{**reading_arguments(options), **alike}, quiet=quiet)
    if not 0.0 < share < 1.0:
        raise ArgumentError(f"--test must be a share between 0 and 1, or a data file; got {test}")
    train, held = demos.hold_out(share, seed=options["seed"])
    if are_grouped(demos.kin) and held.n_frames > max(train.n_frames, share * demos.n_frames) and not quiet:
        much = f"{held.n_frames / demos.n_frames:.0%} of the frames"
        note = f"  note      the groups that are held out have {much}: another --seed holds out others"
        print(note, file=sys.stderr)  # noqa: T201 - as the reading does
    return train, held


def as_read(options: Mapping[str, Any], demos: Recorded) -> dict[str, Any]:
    """Return the options that read the same: a cluster guesses no groups, and whoever reads the data here would."""
    alone = options.get("dask") and options.get("group") is None and demos.groups is None
    return {**options, "group": SINGLE} if alone else dict(options)


def tell_new(options: Mapping[str, Any], train: Recorded, test: Recorded) -> str:
    """Say what is new in the held-out part to whoever has learned from the other."""
    elsewhere = _share(chosen_test(options)) is None and (train.groups is None or test.groups is None)
    return "another file" if elsewhere else train.tell_new(test)


def recipes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the texts of --model, --horizon and the like into objects; what is not given is left out."""
    return {name: parse(options[name], name) for name in RECIPES if options.get(name) is not None}


def timing_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `lead` and `known` of the algorithms, where they were given; several leads are those of a comparison."""
    lead = {} if options.get("lead") in (None, (), []) else {"lead": options["lead"]}
    return lead | ({"known": read_known(options["known"])} if options.get("known") else {})


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the algorithm that were given, refused where `learn` has no use for them."""
    rounds = {} if options.get("n_rounds") is None else {"n_rounds": options["n_rounds"]}
    found = {**recipes(options), **timing_arguments(options), **rounds, "seed": options["seed"]}
    if options.get("initial") is not None:
        found["initial"] = load_own(
            options["initial"], trusted=options.get("trust") or (), max_memory=options.get("max_memory")
        )
    if options.get("algorithm") == "learn":
        refuse_rounds(found)
    return found


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run; nothing is read before it is asked for.

    Parameters
    ----------
    path : Path
        What `simile train --out` or `simile compare --out` was given.
    """

    path: Path

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the folder for one run at a time, told from others by a lock that ends with its process.

        What a run that was killed has left of files that it was writing goes.
        """
        busy = (
            f"{self.path} is in use by {{other}}, a run that is at work: wait for it, or choose another folder (--out)"
        )
        with locks.hold(self.path / LOCK, busy):
            clear_leftovers(self.path)
            clear_leftovers(self.path / CHECKPOINT, below=True)
            yield

    @cached_property
    def config(self) -> dict[str, Any]:
        """All options of the run, given or default."""
        return tomllib.loads(self.config_text)

    @cached_property
    def config_text(self) -> str:
        """The options as they stand in config.toml."""
        file = self.path / CONFIG
        try:
            text = read_text(file)
            tomllib.loads(text)
        except OSError as error:
            raise DataError(
                f"{self.path} is no folder of a run: {file} cannot be read ({error.strerror}): name the folder that "
                "`simile train --out` wrote"
            ) from None
        except ValueError as error:  # TOML or UTF-8
            raise DataError(f"{file} is no TOML file: {error}") from None
        return text

    def write_config(self, options: Mapping[str, Any]) -> None:
        """Keep the options, so that --config and --resume repeat the run."""
        import tomli_w

        kept = {name: _as_kept(value) for name, value in options.items() if value not in (None, (), [])}
        write_atomically(self.path / CONFIG, tomli_w.dumps(kept).encode())

    def policy(self, trusted: Sequence[str] = (), *, name: str = POLICY, max_memory: float | None = None) -> Policy:
        """Load the policy; while the run goes on, that of the best round so far.

        What this user's own run wrote here needs no trust. What the folder says itself, in config.toml, is none.
        """
        return load_own(self.path / name, trusted=trusted, max_memory=max_memory)

    def baseline(self, trusted: Sequence[str] = (), *, max_memory: float | None = None) -> Policy | None:
        """Load what the policy is compared with; None where the run has kept none."""
        if not (self.path / BASELINE).exists():
            return None
        return self.policy(trusted, name=BASELINE, max_memory=max_memory)

    def stacked(self, *, max_memory: float | None = None) -> Policy | None:
        """Load the policies from rough to smooth, all their actions side by side; None where the run has kept none."""
        return self.policy(name=PATH, max_memory=max_memory) if (self.path / PATH).exists() else None

    def summary(self) -> dict[str, Any] | None:
        """Return what the run found; None before it has ended."""
        return self._json(SUMMARY)

    def comparison(self) -> dict[str, Any] | None:
        """Return what a comparison found; None for a training, or before the end."""
        return self._json(COMPARISON)

    def rounds(self) -> list[dict[str, Any]]:
        """Return the rounds so far, as `Round` has them: errors are mean squared ones; of a comparison its lines."""
        return [line for line in self._lines() if "steps" not in line]

    def fits(self) -> dict[str, Any] | None:
        """Return the latest fit of a mixture, and how many there are; None where none was."""
        return next((line for line in reversed(self._lines()) if "steps" in line), None)

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = read_text(self.path / ROUNDS, longest=LONGEST)
            return [json.loads(line) for line in text.split("\n")[:-1]]  # a last one without an end is being written
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise DataError(f"{self.path / ROUNDS} is damaged: {error}: run it again") from None

    def demonstrations(self) -> tuple[Demonstrations, Demonstrations | None]:
        """Read the data again: the part the run learned from, and the part it held out, where it did."""
        return read_and_hold_out(self.config, quiet=True)

    def write_judged(self, judged: Judged) -> None:
        """Keep what the policy did over recordings that its parts had not seen."""
        arrays: dict[str, Any] = {name: getattr(judged, name) for name in ("places", "kin", "begin", "scale", "new")}
        if judged.problems:
            arrays["problems"] = np.array(judged.problems)
        arrays |= {"rolled": np.concatenate(judged.rolled), "digest": judged.demos.digest()}
        if judged.simple is not None:
            arrays["simple"] = np.concatenate(judged.simple)
        with io.BytesIO() as file:
            np.savez_compressed(file, **arrays)
            write_atomically(self.path / JUDGED, file.getvalue())

    def judged(self, demos: Demonstrations | None = None) -> Judged | None:
        """Return what `write_judged` kept, over the data read again; None where the run held a part out instead."""
        try:
            with open_regular(self.path / JUDGED) as file, np.load(file, allow_pickle=False) as kept:
                found = {name: kept[name] for name in kept.files}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
            raise DataError(f"{self.path / JUDGED} is damaged: {error}: run it again") from None
        if missing := {"places", "kin", "begin", "scale", "new", "rolled", "digest"} - set(found):
            raise DataError(f"{self.path / JUDGED} is damaged: it has no {min(missing)!r}: run it again")
        if demos is None:
            demos = weigh_by(self.config, self.demonstrations()[0])
        policy = self.policy()
        recorded = demos.foretell(timing(policy)[1])
        fits = (found["places"][:, 0] < len(recorded)).all() and not any(
            end > len(recorded[int(i)]) for i, _, end in found["places"]
        )
        shown = cut_places(recorded, found["places"]) if fits else None
        if shown is None or shown.digest() != str(found["digest"]):
            raise DataError(
                f"{self.path / JUDGED} is of other data: they have changed since the run; run it again, or name "
                "recordings to judge on: simile report RUN DATA"
            )
        ends = np.cumsum(shown.lengths)[:-1]
        return Judged(
            demos=shown,
            rolled=np.split(found["rolled"], ends),
            simple=np.split(found["simple"], ends) if "simple" in found else None,
            begin=int(found["begin"]),
            scale=found["scale"],
            logs=policy.card.logs(shown.n_actions) or shown.logs,
            kin=found["kin"],
            new=str(found["new"]),
            problems=tuple(map(str, found["problems"].tolist())) if "problems" in found else (),
            places=found["places"],
        )

    @property
    def title(self) -> str:
        """What to write above a page about the run."""
        if self.config.get("title"):
            return str(self.config["title"])
        data = self.config["data"]
        name = name_of(data if isinstance(data, str) else data[0])
        return f"A policy learned from {name}" if self.verb == "train" else f"A comparison on {name}"

    @property
    def verb(self) -> str:
        """The command that made the folder."""
        return "train" if "algorithm" in self.config else "compare"

    @property
    def command(self) -> str:
        """The line for a shell that does it again; it says only what differs from the defaults."""
        return as_command(self.verb, self.config)

    @property
    def python(self) -> str:
        """A script in Python that does the same."""
        return as_script(self.verb, self.config)

    def _json(self, name: str) -> dict[str, Any] | None:
        file = self.path / name
        try:
            found = json.loads(read_text(file, longest=LONGEST))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataError(f"{file} is damaged: {error}: run it again") from None
        return found if isinstance(found, dict) else None


def as_command(verb: str, config: Mapping[str, Any]) -> str:
    """Write the options of a run as a command.

    >>> as_command("train", {"data": ["my games.csv"], "actions": ["pan"], "n_rounds": 5, "seed": 0, "out": "run"})
    "simile train 'my games.csv' --actions pan --n-rounds 5 --out run"
    """
    data = config["data"]
    words = ["simile", verb, *([data] if isinstance(data, str) else data)]
    for name in (*ORDER, "report", "title", "out"):
        value = config.get(name)
        if value is None or value == DEFAULTS.get(name):
            continue
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else f"--no-{name}")
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                # A value that looks like an option must not be taken for one.
                words += [f"{option}={one}"] if str(one).startswith("-") else [option, str(one)]
    return shlex.join(words)


def as_script(verb: str, config: Mapping[str, Any]) -> str:
    """Write the options of a run as a script in Python."""
    written = {name: as_python(str(config[name])) for name in RECIPES if config.get(name) is not None}
    modules = sorted({"simile", *(m for _, needed in written.values() for m in needed)})
    arguments = {name: text for name, (text, _) in written.items()}
    arguments |= {name: repr(value) for name, value in timing_arguments(config).items()}
    if config.get("n_rounds") is not None:
        arguments["n_rounds"] = str(config["n_rounds"])
    if config.get("initial") is not None:
        trust = f", trusted={list(config['trust'])!r}" if config.get("trust") else ""
        arguments["initial"] = f"simile.load({config['initial']!r}{trust})"
    loss = f", loss={arguments['loss']}" if "loss" in arguments else ""
    arguments["seed"] = str(config["seed"])
    validation = config.get("validation", 0.2 if config.get("algorithm", "learn") != "learn" else None)
    if validation is not None:
        arguments["validation"] = repr(validation)
    how = "".join(f", {name}={value!r}" for name, value in reading_arguments(config).items())
    lines = [f"import {m}" for m in modules]
    test = chosen_test(config)
    share = _share(test)
    lines += ["", f"demos = simile.read({_one_or_many(config['data'])!r}{how})"]
    if test is None:
        lines.append("train = demos")
    elif share is None:
        columns = "actions=demos.action_names, contexts=demos.context_names"
        rest = "".join(f", {n}={v!r}" for n, v in reading_arguments(config).items() if n not in ("actions", "contexts"))
        lines.append(f"train, test = demos, simile.read({test!r}, {columns}{rest})")
    else:
        lines.append(f"train, test = demos.hold_out({share!r}, seed={config['seed']})")
    if verb == "compare":
        if config.get("reductions"):
            arguments["reductions"] = repr(tuple(config["reductions"]))
        if not config.get("rivals", True):
            arguments["rivals"] = "()"
        lines += [
            f"found = simile.compare(train, test, {_write(arguments)})",
            "print(found)",
        ]
    else:
        lines += [
            f"run = simile.{config['algorithm']}(train, {_write(arguments)})",
            "print(run)",
            "print(run.verdict)"
            if test is None
            else f"print(simile.evaluate(run.policy, test, baseline=run.baseline{loss}))",
            f'run.policy.save("{POLICY}")',
        ]
    return "\n".join(lines) + "\n"


def _as_kept(value: Any) -> Any:
    """Return a value as TOML has it, and without the secrets of URLs."""
    if isinstance(value, str | Path):
        return redact(str(value))
    return [_as_kept(one) for one in value] if isinstance(value, list | tuple) else value


def _write(arguments: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in arguments.items())


def _one_or_many(paths: Any) -> str | list[str]:
    """Return one path as such; several are files with a sequence each."""
    if isinstance(paths, str):
        return paths
    return paths[0] if len(paths) == 1 else list(paths)


def _share(test: str | None) -> float | None:
    """Return a share of the sequences; None where a data file was named, or nothing."""
    try:
        return None if test is None else float(test)
    except ValueError:
        return None
