"""`tune`: an Optuna study that asks for trials, whoever runs them, and that a file keeps from one day to the next."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from simile._common import checks, locks
from simile._common.files import append
from simile._common.needs import need
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.losses import Loss
from simile.data.timing import Ahead
from simile.errors import ArgumentError, SimileError, StorageError
from simile.learning.distributed import DistributedDemonstrations, bring_here
from simile.learning.distributed.backend import Backend, LocalBackend
from simile.learning.initial import see_by
from simile.learning.outliers import weigh
from simile.learning.rounds import check_alike
from simile.learning.tuning.spaces import Conditions, CrossFitting, Rounds, Space, label, suggest
from simile.learning.tuning.trials import Split, Tried, Tuned, nan_to_zero, run_trial

if TYPE_CHECKING:
    import optuna

ANOTHER = "begin another: study='another name', or another storage"


def tune(
    demos: Demonstrations | Demonstration | DistributedDemonstrations,
    *,
    trials: int = 50,
    budget: float | None = 1.0,
    space: Space | Sequence[Space] | None = None,
    lead: float | None = None,
    known: Ahead | None = None,
    loss: Loss | None = None,
    validation: float | Demonstrations | Demonstration = 0.25,
    seed: int = 0,
    storage: str | Path | None = None,
    study: str | None = None,
    backend: Backend | None = None,
    jobs: int = 1,
    watch: Callable[[Tried], object] | None = None,
) -> Tuned:
    """Search for the settings of `simile.learn` that are most accurate at a budget of roughness.

    Every trial trains on one part of the sequences and is judged by roll-outs over the other. The first trial of each
    space is the library's own default, so that what is found is never worse than it on the sequences that judge. Keep
    test sequences out of `demos`: what chose among many trials flatters the winner.

    Parameters
    ----------
    demos : Demonstrations
        What to learn from. Those that lie with a backend are brought here, 256 MiB at most.
    trials : int
        How many in all, those of a study that is taken up included.
    budget : float, optional
        Largest roughness (mean |second difference| over the expert's) allowed on the validation sequences, the
        paper's eta; trials above it are marked and never chosen. None searches the whole frontier of accuracy and
        smoothness.
    space : Space, or several, optional
        What to choose from; `CrossFitting()` and `Rounds()` by default.
    lead, known
        As for `simile.learn`, of all trials alike: they are no knobs.
    loss : Loss, optional
        By what all trials are fitted and judged, as for `simile.learn`.
    validation : float or Demonstrations
        What judges: a share of the sequences (the end of a single one), or demonstrations of your own.
    seed : int
        The same seed and `jobs` give the same search, also where it was taken up in between.
    storage : path, optional
        SQLite file (or the URL of another database) in which the search is kept; give it again to go on. One process
        at a time may search in a study; its workers are not counted.
    study : str, optional
        Name of the study in the storage.
    backend : Backend, optional
        Where trials are done: `jobs` at a time, and as many again wait there.
    jobs : int
        Trials at a time, in processes where there is no backend; a script that asks for several needs
        `if __name__ == "__main__":`.
    watch : callable, optional
        Called with every `Tried` as it comes. Ctrl-C keeps what there is.

    Returns
    -------
    Tuned

    Examples
    --------
    >>> from simile import tasks
    >>> demos = tasks.pursuit(n_sequences=6, length=120)
    >>> tuned = tune(demos, trials=2, space=CrossFitting(mixture=("hinges",), lag=(2.0, 4.0)))
    >>> len(tuned.trials), len(tuned.run().rounds)
    (2, 1)
    """
    trials, jobs = checks.whole_number(trials, "trials", at_least=1), checks.whole_number(jobs, "jobs", at_least=1)
    budget = None if budget is None else checks.number(budget, "budget", above=0.0)
    seed, spaces = checks.whole_number(seed, "seed"), _name_spaces(space)
    demos = whole = weigh(bring_here(demos, "tune"), loss, seed=seed)
    if isinstance(validation, float | int):
        split = Split(*demos.hold_out(validation, seed=seed))
    else:
        split = Split(demos, weigh(Demonstrations.of(validation), loss, seed=seed))
        check_alike(demos, split.validation)
        whole = Demonstrations((*demos, *split.validation))
    horizon = see_by(demos, None, lead, known)[1]
    timing = horizon if horizon.lead or horizon.known else None
    facts = {
        "data": split.train.digest(),
        "validation": split.validation.digest(),
        "seed": seed,
        "budget": budget,
        "space": [label(one) for one in spaces.values()],
        "lead": timing and timing.lead,
        "known": timing and [list(pair) for pair in timing.known],
        "loss": None if loss is None else label(loss),
    }
    interrupted = False
    with _open_study(storage, study or "simile", facts) as opened, closing(_Processes(jobs)) as processes:
        search = _Search(opened, spaces, Conditions(split.train, budget, seed, loss, timing))
        try:
            search.enqueue_first()
            for trial in search.run(split, trials, backend or (LocalBackend() if jobs == 1 else processes), jobs):
                if watch is not None:
                    watch(trial)
        except KeyboardInterrupt:
            if not search.list_finished():
                raise
            interrupted = True
        return Tuned(tuple(map(search.read_trial, search.list_finished())), budget, split, whole, interrupted)


def _name_spaces(space: Space | Sequence[Space] | None) -> dict[str, Space]:
    """Return the spaces to search by the names of their classes."""
    given: Any = (CrossFitting(), Rounds()) if space is None else space if isinstance(space, list | tuple) else (space,)
    if not given:
        raise ArgumentError("space must hold at least one space; got none: leave it out for the default")
    for one in given:
        checks.instance(one, "space", needs="draw")
    named = {type(one).__name__: one for one in given}
    if len(named) != len(given):
        raise ArgumentError("space must hold at most one space of each kind; give their options in one")
    return named


@dataclass(frozen=True)
class _Search:
    """Asks an Optuna study for trials, has them run, and writes their results into it.

    A trial counts once it has a result. What was running when a process ended has none, and is enqueued again.
    """

    study: optuna.Study
    spaces: Mapping[str, Space]
    conditions: Conditions

    def enqueue_first(self) -> None:
        """Put first what should be tried first: what was interrupted, and the defaults of each space."""
        from optuna.trial import TrialState

        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):  # of a process that is no more
            self.study.enqueue_trial(trial.params)
            self.study.tell(trial.number, state=TrialState.FAIL)
        for name, space in self.spaces.items():
            knobs = {"way": name}
            space.draw(partial(suggest, knobs, name), self.conditions)
            self.study.enqueue_trial(knobs, skip_if_exists=True)

    def run(self, split: Split, n_trials: int, backend: Backend | _Processes, jobs: int) -> Iterator[Tried]:
        """Run trials, `jobs` at a time, until the study has so many.

        Results are written in the order of the trials, and each trial is asked for after so many results: what is tried
        depends on no race. Of several jobs as many again wait, so that hardly any is idle while the oldest goes on.
        """
        (data,) = backend.place([split])
        ahead = 1 if jobs == 1 else 2 * jobs
        pending: deque[tuple[optuna.Trial, Tried, Any]] = deque()
        while (n_begun := len(self.list_finished()) + len(pending)) < n_trials or pending:
            if n_begun < n_trials and len(pending) < ahead:
                self.study.sampler = _make_sampler(self.conditions.seed, n_begun)
                trial = self.study.ask()
                tried = self.read_trial(trial)
                shared = tried, self.conditions.budget, self.make_pruning(tried.settings)
                pending.append((trial, tried, *backend.map(run_trial, [data], shared=shared)))
            else:
                trial, tried, handle = pending.popleft()
                try:
                    ((tried, objectives),) = backend.collect([handle])
                except ChildProcessError as error:
                    tried, objectives = replace(tried, trouble=str(error)), {}
                self.write_result(trial, tried, objectives)
                yield tried

    def make_pruning(self, settings: Mapping[str, Any]) -> optuna.Trial | None:
        """Return a trial of a copy of the study, by which any process can prune; None where nothing is to be pruned.

        A mixture is solved for at once, and a frontier has no single objective. The copy compares with the complete
        trials of now, whatever ends meanwhile.
        """
        import optuna

        if self.conditions.budget is None or settings.get("algorithm", "learn") == "learn":
            return None
        # The first round is only the beginning, and a median takes some trials.
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1, n_min_trials=3)
        copy = optuna.create_study(pruner=pruner)
        copy.add_trials(self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)))
        return copy.ask()

    def read_trial(self, trial: optuna.Trial | optuna.trial.FrozenTrial) -> Tried:
        """Return a trial with its settings, which are objects that no storage keeps, and with its results if any."""
        found: dict[str, Any] = {"settings": {}}
        try:
            names = list(self.spaces)
            name = names[0] if len(names) == 1 else str(trial.suggest_categorical("way", names))
            drawn = self.spaces[name].draw(partial(suggest, trial, name), self.conditions)
            found["settings"] = self.conditions.add_to(drawn)
        except SimileError as error:  # these options do not go together; others may
            found["trouble"] = str(error)
        except ValueError as error:
            if "result" not in trial.user_attrs:
                raise
            raise ArgumentError(
                f"space cannot be that of trial {trial.number} of the study: {error}. Give the one it was begun with, "
                f"or {ANOTHER}"
            ) from error
        return Tried(trial.number, trial.params, **{**found, **trial.user_attrs.get("result", {})})

    def write_result(self, trial: optuna.Trial, tried: Tried, objectives: Mapping[int, float]) -> None:
        """Write the result of a trial into the study."""
        from optuna.trial import TrialState

        for step, value in objectives.items():
            trial.report(value, step)
        names = ("rmse", "roughness", "pruned", "trouble", "seconds")
        trial.set_user_attr("result", {name: getattr(tried, name) for name in names})
        values = [tried.rmse, nan_to_zero(tried.roughness)]
        if self.conditions.budget is not None:  # at most 0 where the budget is kept
            trial.set_constraint("roughness", values.pop() - self.conditions.budget)
        state = TrialState.FAIL if tried.trouble else TrialState.PRUNED if tried.pruned else TrialState.COMPLETE
        self.study.tell(trial, values if tried.complete else None, state)

    def list_finished(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials that have a result, in their order."""
        return [t for t in self.study.get_trials(deepcopy=False) if t.state.is_finished() and "result" in t.user_attrs]


class _Processes:
    """Calls functions in processes of its own, with those methods of a `Backend` that a search needs.

    Closing kills them, whatever they are doing: a trial without a result is tried again.
    """

    def __init__(self, jobs: int) -> None:
        self.threads = ThreadPoolExecutor(jobs)
        self.local = threading.local()  # each thread has the pipe to its process here
        self.started: list[BaseProcess] = []

    def close(self) -> None:
        """End all processes."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        for process in self.started:
            process.kill()
            process.join()

    def place(self, values: Sequence[Any]) -> list[Any]:
        """Return the values, which each call sends."""
        return list(values)

    def map(self, function: Callable[..., Any], values: Sequence[Any], *, shared: tuple[Any, ...]) -> list[Any]:
        """Begin function(value, *shared) for each value as soon as a process is free; returns handles."""
        return [self.threads.submit(self._call, function, value, *shared) for value in values]

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for results."""
        return [handle.result() for handle in handles]

    def _call(self, *call: Any) -> Any:
        if not hasattr(self.local, "pipe"):
            context = multiprocessing.get_context("spawn")  # a fork would copy locks of threads that are not copied
            self.local.pipe, other = context.Pipe()
            process = context.Process(target=_serve_calls, args=(other,), daemon=True)
            process.start()
            other.close()  # the process has the only one, so that its death ends the pipe
            self.started.append(process)
        try:
            self.local.pipe.send(call)
            return self.local.pipe.recv()
        except (EOFError, OSError):
            del self.local.pipe
            raise ChildProcessError(
                "its process died, for want of memory or of `if __name__ == '__main__':` in the script that called tune"
            ) from None


def _serve_calls(pipe: Connection) -> None:
    """Call the functions that come through a pipe, and send what they return, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that searches decides when to stop
    with suppress(EOFError, OSError):
        while True:
            function, *arguments = pipe.recv()
            pipe.send(function(*arguments))


def _make_sampler(seed: int, n_begun: int) -> optuna.samplers.BaseSampler:
    """Make a sampler anew for a trial, so that a search that is taken up goes on exactly as it would have gone on."""
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import TPESampler

    number = int(np.random.SeedSequence([seed, n_begun]).generate_state(1)[0])
    with warnings.catch_warnings():
        # Knobs of one space are chosen together; the argument for it is still called experimental.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(seed=number, multivariate=True, group=True)


@contextmanager
def _open_study(storage: str | Path | None, name: str, facts: Mapping[str, Any]) -> Iterator[optuna.Study]:
    """Open a study, or make it; one with other facts is refused.

    Raises
    ------
    ArgumentError
        Where Optuna is missing, the study is of other data or other choices, or another process is at work on it.
    StorageError
        Where the storage cannot be used.
    """
    optuna = need("optuna", "tune")
    with ExitStack() as stack:
        stack.callback(optuna.logging.set_verbosity, optuna.logging.get_verbosity())
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            opened = None if storage is None else stack.enter_context(_open_storage(str(storage), name))
            directions = ["minimize"] * (2 if facts["budget"] is None else 1)
            study = optuna.create_study(study_name=name, storage=opened, directions=directions, load_if_exists=True)
        except SimileError:  # another process is at work, or it is no file
            raise
        except Exception as error:  # of the database, its driver or the disk: there are many
            reason = str(error).partition("\n")[0]
            raise StorageError(
                f"storage: {storage} cannot be used: {reason}: name a file that is not there yet"
            ) from error
        if not study.user_attrs and not study.get_trials(deepcopy=False):
            study.set_user_attr("facts", facts)
        kept = study.user_attrs.get("facts", {})
        for fact in (fact for fact in facts if kept.get(fact) != facts[fact]):
            differ = "" if fact in ("data", "validation") else f": {kept.get(fact)!r} there, {facts[fact]!r} here"
            raise ArgumentError(
                f"storage: {storage} holds a study {name!r} with other {fact}{differ}. Go on with those, or {ANOTHER}"
            )
        yield study


@contextmanager
def _open_storage(storage: str, name: str) -> Iterator[optuna.storages.RDBStorage]:
    """Open a database; a file is one of SQLite, without pickles, and keeps each study for one process at a time."""
    from optuna.storages import RDBStorage
    from sqlalchemy import make_url

    address = storage if "://" in storage else f"sqlite:///{storage}"
    url = make_url(address)
    with ExitStack() as stack:
        if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
            file = Path(str(url.database))
            if file.exists() and not file.is_file():
                raise StorageError(f"storage: {file} is no regular file: name one that is not there yet")
            busy = f"storage: {file} holds a study {name!r} that {{other}} is at work on: wait for it, or {ANOTHER}"
            stack.enter_context(locks.hold(file.with_name(f"{file.name}.{quote(name, safe='')[:100]}.lock"), busy))
            append(file.absolute(), "")  # SQLite would let others read it
        opened = RDBStorage(address)
        stack.callback(opened.engine.dispose)
        stack.callback(opened.remove_session)
        yield opened
