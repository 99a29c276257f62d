"""The book of a search: an Optuna study that asks and is told, and that a file keeps from one day to the next."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from simile._common import locks
from simile._common.files import append
from simile._common.needs import need
from simile._common.text import plain
from simile.errors import ArgumentError, SimileError, StorageError
from simile.learning.tuning.result import Tried
from simile.learning.tuning.spaces import Ask, Between, Known, Space, ask_by
from simile.learning.tuning.trial import Verdict

if TYPE_CHECKING:
    import optuna

NAME = "simile"  # of a study, where none is given
INTERRUPTED = "interrupted"  # the trials of a study that nobody finished, and that were put up again
# A trial is given up where it does worse than the median of at least so many others.
STARTUP, AT_LEAST = 5, 3


class Search:
    """Asks for settings and is told verdicts.

    The sampler is made anew for every trial, from the seed and the number of trials before it: a search that is taken
    up goes on exactly as it would have gone on by itself.
    """

    def __init__(self, study: optuna.Study, spaces: Sequence[Space], known: Known, trials: int) -> None:
        self.study, self.known, self.trials = study, known, trials
        self.spaces = {type(space).__name__: space for space in spaces}
        self.running: dict[int, optuna.trial.Trial] = {}
        if len(self.spaces) != len(spaces):
            raise ArgumentError("space must hold at most one space of each kind; give their options in one")

    def begin(self) -> None:
        """Put first what should be tried first: the defaults of each space, or what was interrupted."""
        from optuna.trial import TrialState

        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):  # of a process that is no more
            self.study.enqueue_trial(trial.params)
            self.study.set_user_attr(INTERRUPTED, [*self._interrupted(), trial.number])
            self.study.tell(trial.number, state=TrialState.FAIL)
        if "begun" not in self.study.user_attrs:
            for way in self.spaces:
                self.study.enqueue_trial(self._first(way), skip_if_exists=True)
            self.study.set_user_attr("begun", True)

    @property
    def left(self) -> int:
        """How many trials are still to be asked for."""
        return max(0, self.trials - len(self.finished()) - len(self.running))

    def ask(self) -> tuple[int, dict[str, Any]] | None:
        """Return the number and the settings of the next trial; None where there are enough."""
        from optuna.trial import TrialState

        while self.left:
            begun = [t for t in self.study.get_trials(deepcopy=False) if t.state != TrialState.WAITING]
            self.study.sampler = _sampler(self.known.seed, len(begun))
            trial = self.study.ask()
            self.running[trial.number] = trial
            try:
                return trial.number, self._draw(_suggest_by(trial))
            except SimileError as error:  # these choices do not go together; others may
                self.tell(trial.number, Verdict(trouble=str(error)))
        return None

    def report(self, number: int, step: int, rmse: float, roughness: float) -> bool:
        """Note how a trial is doing; returns whether to give it up. A frontier has no single measure to go by."""
        if self.known.budget is None or math.isnan(rmse):
            return False
        # What is too rough must not raise the bar for those that are smooth enough.
        self.running[number].report(rmse * max(1.0, _number(roughness) / self.known.budget), step)
        return self.running[number].should_prune()

    def tell(self, number: int, verdict: Verdict) -> Tried:
        """Write down how a trial ended."""
        from optuna.trial import TrialState

        trial, budget = self.running[number], self.known.budget
        trial.set_user_attr("verdict", plain(asdict(verdict)))
        if verdict.trouble:
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            if budget is not None:  # at most 0 where the budget is kept
                trial.set_constraint("roughness", _number(verdict.roughness) - budget)
            values = [verdict.rmse] if budget is not None else [verdict.rmse, _number(verdict.roughness)]
            if verdict.pruned:
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                self.study.tell(trial, values)
        del self.running[number]
        return self._read(next(t for t in self.study.get_trials(deepcopy=False) if t.number == number))

    def finished(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials that count: those that were interrupted are tried again."""
        again = self._interrupted()
        return [t for t in self.study.get_trials(deepcopy=False) if t.state.is_finished() and t.number not in again]

    def _interrupted(self) -> list[int]:
        return list(self.study.user_attrs.get(INTERRUPTED, []))

    def tried(self) -> tuple[Tried, ...]:
        """Return what is known of all that are finished."""
        return tuple(self._read(t) for t in self.finished())

    def _read(self, trial: optuna.trial.FrozenTrial) -> Tried:
        from optuna.trial import TrialState

        told = trial.user_attrs.get("verdict", {"trouble": "it was ended by another program"})
        try:
            settings = self._draw(ask_by(lambda name, _, __: trial.params[name]))
        except (SimileError, KeyError):  # of choices that do not go together
            settings = {}
        return Tried(
            trial.number,
            trial.params,
            settings,
            _number(told.get("rmse"), math.nan),
            _number(told.get("roughness"), math.nan),
            trial.state == TrialState.PRUNED,
            str(told["trouble"]),
            _number(told.get("seconds"), math.nan),
        )

    def _draw(self, ask: Ask) -> dict[str, Any]:
        ways = tuple(self.spaces)
        way = ask("way", ways)
        found = self.spaces[way].draw(
            lambda name, options, first=None: ask(f"{way}.{name}", options, first), self.known
        )
        return self.known.see(found if self.known.loss is None else {**found, "loss": self.known.loss})

    def _first(self, way: str) -> dict[str, Any]:
        """Return the knobs of a space's first trial."""
        knobs: dict[str, Any] = {}

        def choose(name: str, options: Between | list[str], first: Any) -> Any:
            wanted = way if name == "way" else first
            if isinstance(options, Between):
                knobs[name] = wanted if wanted in options else options.middle
            else:
                knobs[name] = wanted if wanted in options else options[0]
            return knobs[name]

        self._draw(ask_by(choose))
        return knobs


@contextmanager
def open_study(
    storage: str | Path | None, name: str, facts: Mapping[str, Any], *, frontier: bool
) -> Iterator[optuna.Study]:
    """Open a study, or make it; `facts` tell what it is about, and a study about something else is refused.

    Raises
    ------
    ArgumentError
        Where Optuna is missing, the study is of other data or other choices, or another process is at work on it.
    StorageError
        Where the storage cannot be used.
    """
    optuna = need("optuna", "tune")
    loud = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    held: Any = None
    owned = ExitStack()
    try:
        try:
            if storage is not None:
                address = _address(storage)
                owned.enter_context(_own(address, name))
                held = optuna.storages.RDBStorage(address)
            study = optuna.create_study(
                study_name=name,
                storage=held,
                directions=["minimize"] * (2 if frontier else 1),
                pruner=optuna.pruners.MedianPruner(STARTUP, n_min_trials=AT_LEAST),
                load_if_exists=True,
            )
        except ArgumentError:  # somebody else is at work
            raise
        except Exception as error:  # of the database, its driver or the disk: there are many
            reason = str(error).partition("\n")[0]
            raise StorageError(
                f"storage: {storage} cannot be used: {reason}: name a file that is not there yet"
            ) from error
        _check_facts(study, storage, facts)
        yield study
    finally:
        if held is not None:
            held.remove_session()
            held.engine.dispose()
        owned.close()
        optuna.logging.set_verbosity(loud)


def _check_facts(study: optuna.Study, storage: str | Path | None, facts: Mapping[str, Any]) -> None:
    known = study.user_attrs
    if not known and not study.get_trials(deepcopy=False):
        for fact, value in facts.items():
            study.set_user_attr(fact, value)
        return
    for fact, value in facts.items():
        if known.get(fact) != value:
            differ = "" if fact in ("data", "validation") else f": {known.get(fact)!r} there, {value!r} here"
            raise ArgumentError(
                f"storage: {storage} holds a study {study.study_name!r} with other {fact}{differ}. Go on with those, "
                "or begin another: study='another name', or another storage"
            )


def _address(storage: str | Path) -> str:
    """Return what Optuna calls a storage: a file is one of SQLite, which holds no pickles."""
    if "://" in str(storage):
        return str(storage)
    append(Path(storage).absolute(), "")  # SQLite would let others read it
    return f"sqlite:///{storage}"


@contextmanager
def _own(address: str, name: str) -> Iterator[None]:
    """Keep a study in a file for one process at a time; a database elsewhere has no place for a lock."""
    from sqlalchemy import make_url

    url = make_url(address)
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        yield
        return
    file = Path(str(url.database))
    busy = (
        f"storage: {file} holds a study {name!r} that {{other}} is at work on: wait for it, or begin another: "
        "study='another name', or another storage"
    )
    with locks.hold(file.with_name(f"{file.name}.{quote(name, safe='')[:100]}.lock"), busy):
        yield


def _sampler(seed: int, number: int) -> optuna.samplers.BaseSampler:
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import TPESampler

    chance = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():
        # Knobs of one space are chosen together; the argument for it is still called experimental.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(seed=chance, multivariate=True, group=True)


def _suggest_by(trial: optuna.trial.Trial) -> Ask:
    def choose(name: str, options: Between | list[str], first: Any) -> Any:  # noqa: ARG001
        if not isinstance(options, Between):
            return trial.suggest_categorical(name, options)
        if options.whole:
            return trial.suggest_int(name, int(options.low), int(options.high), log=options.log)
        return trial.suggest_float(name, options.low, options.high, log=options.log)

    return ask_by(choose)


def _number(value: float | None, missing: float = 0.0) -> float:
    """Return a number in place of none: an expert who never moves sets no measure of roughness."""
    return missing if value is None or math.isnan(value) else float(value)
