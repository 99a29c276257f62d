"""`tune`: try, judge, and remember."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simile._common import checks
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.losses import Loss
from simile.data.timing import Ahead
from simile.errors import ArgumentError
from simile.learning.distributed import DistributedDemonstrations, bring_here
from simile.learning.initial import see_by
from simile.learning.outliers import weigh
from simile.learning.rounds import check_alike
from simile.learning.tuning.executors import run_here, run_in_processes, run_on_backend
from simile.learning.tuning.result import Tried, Tuned
from simile.learning.tuning.spaces import CrossFitting, Known, Rounds, Space, label
from simile.learning.tuning.study import NAME, Search, open_study
from simile.learning.tuning.trial import Split

if TYPE_CHECKING:
    from simile.learning.distributed.backend import Backend

Watch = Callable[[Tried], object]


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
    watch: Watch | None = None,
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
        The same seed gives the same search, also where it was taken up in between, unless `jobs` race.
    storage : path, optional
        SQLite file (or the URL of another database) in which the search is kept; give it again to go on. One process
        at a time may search in a study; its workers are not counted.
    study : str, optional
        Name of the study in the storage.
    backend : Backend, optional
        Where trials are done; `jobs` of them are asked for at a time. Trials then cannot be given up early.
    jobs : int
        Processes that do trials at a time; a script that asks for several needs `if __name__ == "__main__":`.
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
    demos = weigh(bring_here(demos, "tune"), loss, seed=seed)
    if isinstance(validation, Demonstrations | Demonstration):
        validation = weigh(Demonstrations.of(validation), loss, seed=seed)
    trials, jobs = checks.whole_number(trials, "trials", at_least=1), checks.whole_number(jobs, "jobs", at_least=1)
    budget = None if budget is None else checks.number(budget, "budget", above=0.0)
    seed = checks.whole_number(seed, "seed")
    spaces = _spaces(space)
    split, whole = _split(demos, validation, seed)
    timed = see_by(demos, None, lead, known)[1]
    facts = {
        "data": split.train.digest(),
        "validation": split.validation.digest(),
        "seed": seed,
        "budget": budget,
        "space": [label(one) for one in spaces],
        "lead": timed.lead or None,
        "known": [list(pair) for pair in timed.known] or None,
        **({} if loss is None else {"loss": label(loss)}),
    }
    interrupted = False
    with open_study(storage, NAME if study is None else study, facts, frontier=budget is None) as held:
        search = Search(held, spaces, Known(split.train, budget, seed, loss, timed.lead, timed.known), trials)
        try:
            search.begin()
            found = (
                run_on_backend(search, split, backend, jobs)
                if backend is not None
                else run_in_processes(search, split, jobs)
                if jobs > 1
                else run_here(search, split)
            )
            for tried in found:
                if watch is not None:
                    watch(tried)
        except KeyboardInterrupt:
            if not search.finished():
                raise
            interrupted = True
        return Tuned(search.tried(), budget, split, whole, interrupted)


def _spaces(space: Space | Sequence[Space] | None) -> tuple[Space, ...]:
    given = (
        (CrossFitting(), Rounds()) if space is None else tuple(space) if isinstance(space, list | tuple) else (space,)
    )
    if not given:
        raise ArgumentError("space must hold at least one space; got none: leave it out for the default")
    for one in given:
        checks.instance(one, "space", needs="draw")
    return given


def _split(
    demos: Demonstrations, validation: float | Demonstrations | Demonstration, seed: int
) -> tuple[Split, Demonstrations]:
    """Return the two parts, and all of the data."""
    if isinstance(validation, float | int):
        train, held_out = demos.hold_out(validation, seed=seed)
        return Split(train, held_out), demos
    held_out = Demonstrations.of(validation)
    check_alike(demos, held_out)
    return Split(demos, held_out), Demonstrations((*demos, *held_out))
