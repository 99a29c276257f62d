"""Options that several commands share. They have the library's names, and a config file holds the same."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from simile._common.files import ELSEWHERE, read_text
from simile._common.urls import refuse_url

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations
    from simile.data.recorded import Recorded
    from simile.learning.distributed import DistributedDemonstrations
    from simile.learning.distributed.dask import DaskBackend
    from simile.online import Recorder
    from simile.policies.policies import Policy
    from simile.policies.stages import Stage

Command = TypeVar("Command", bound=Callable[..., Any])
FILES = (".safetensors", ".npz", ".html", ".json", ".toml", ".csv", ".parquet")  # that simile writes or reads


def stack(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Put several options on a command, in the order they are listed."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def use_config(ctx: click.Context, path: Path, *, without: tuple[str, ...] = ()) -> None:
    """Take the options of a TOML file as defaults, but for some; what is said on the command line wins."""
    refuse_url(path, "--config", "fetch the file first")
    try:
        held = tomllib.loads(read_text(path))
    except OSError as error:
        raise click.ClickException(f"--config: {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # TOML, UTF-8, or no file to read
        raise click.ClickException(f"--config: {path} is no TOML file: {error}") from None
    known = {str(p.name) for p in ctx.command.params}
    if unknown := sorted(set(held) - known):
        raise click.ClickException(
            f"--config: {path} holds {', '.join(map(repr, unknown))}, which `simile {ctx.command.name}` does not know; "
            f"it knows {', '.join(sorted(known - {'config'}))}"
        )
    many = {str(p.name) for p in ctx.command.params if p.multiple or p.nargs == -1}
    kept = {n: v for n, v in held.items() if n not in without}
    defaults = {n: [v] if n in many and not isinstance(v, list) else v for n, v in kept.items()}
    ctx.default_map = {**defaults, **(ctx.default_map or {})}
    ctx.show_default = False  # --help would print them, and a URL among them may hold a password


def _config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        use_config(ctx, path)


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_config,
    help="TOML file with any of these options under the same names (seed = 5).",
)

column_options = stack(
    click.option("--actions", multiple=True, help="Action columns: a name, a glob or /regex/. May be repeated."),
    click.option("--contexts", multiple=True, help="Context columns; all other numeric columns by default."),
)
time_unit_option = click.option(
    "--time-unit",
    type=click.Choice(["s", "ms", "us", "ns", "min", "h", "d"]),
    help="What numbers of time are, if it is not seconds; `simile.read` says which it has taken them for.",
)
memory_option = click.option(
    "--max-memory",
    type=click.FloatRange(min=0.0, min_open=True, max=1e12),
    help="MB that a file, and what is made of it, may take; a half of the machine's by default.",
)
reading_options = stack(
    click.option("--sequence", help="Column that tells the sequences apart."),
    click.option(
        "--group",
        help="What is held out whole: a column (who acted, the day), 'folder', FILE:COLUMN, or 'sequence' for none.",
    ),
    click.option("--time", help="Column of time: seconds, frames or timestamps."),
    time_unit_option,
    click.option("--rate", type=float, help="Frames per second; inferred from the time column by default."),
    click.option("--gap", type=float, help="Begin a new sequence where time jumps by more seconds than this."),
    click.option("--resample", type=float, help="Bring every sequence to this rate (Hz)."),
    click.option("--as-is", is_flag=True, default=False, help="Take values as they are: look for no errors in them."),
    click.option("--repair", is_flag=True, default=False, help="Mend damaged files, and tell what was mended."),
    click.option(
        "--missing",
        multiple=True,
        metavar="[COLUMN=]NUMBER",
        help="Code that stands for a missing value: 'wind=-999', or -999 for all contexts. May be repeated.",
    ),
    click.option(
        "--wraps",
        multiple=True,
        metavar="COLUMN=PERIOD",
        help="Angle or counter that begins anew after so much: 'pan=360', 'pan=2pi'. May be repeated.",
    ),
    memory_option,
)
loss_option = click.option("--loss", help="By what all is fitted and judged: 'Huber()' for data with outliers.")


def _read_lead(_ctx: click.Context, param: click.Parameter, value: Any) -> float | str | None:
    """Read seconds, or 'auto'."""
    return value if value in (None, "auto") else float(click.FLOAT.convert(value, param, _ctx))


lead_option = stack(
    click.option(
        "--lead",
        metavar="SECONDS|auto",
        callback=_read_lead,
        help="Seconds (frames, where nothing tells the rate) from choosing an action to when it is for: below 0 the "
        "policy may wait, above 0 its actuator is late; 'auto' measures how late, by --effect.",
    ),
    click.option(
        "--effect",
        multiple=True,
        help="For --lead auto: the column that tells what the first action brought about, the second's, and so on.",
    ),
)
leads_option = click.option(
    "--lead",
    type=float,
    multiple=True,
    help="As for `train`, for all alike. Repeated, 0 and -0.5: the others for `learn` alone, what waiting would buy.",
)
known_option = click.option(
    "--known",
    multiple=True,
    metavar="PATTERN=SECONDS",
    help="Contexts that are known ahead, and how far: 'curv_*=1.0', 'score=0.5,1'. May be repeated.",
)
timing_options = stack(lead_option, known_option)
learning_options = stack(
    click.option(
        "--smoothness", help="How smooth: 'MatchExpert(0.5)' (half as rough as the expert), 'SmoothTime(0.3)', lambda."
    ),
    click.option("--model", help="F, the regressor inside, e.g. 'SmoothForest()'; a tuple of several to mix."),
    click.option("--horizon", help="What of the past a policy sees, e.g. 'Horizon(context_lags=10, action_lags=10)'."),
    timing_options,
    click.option("--regularizer", help="H, e.g. 'CriticallyDamped(order=3)'."),
    click.option("--feedback", help="Line 6 of Algorithm 1, e.g. 'SmoothFeedback()'."),
    click.option("--hold", help="How far to hold still: 0, a width in deviations, or 'Hold(0.1, stepping=True)'."),
    loss_option,
    click.option("--rule", help="The leaf rule of Appendix B: 'JointRule()' or 'ImitationRule()'."),
    click.option("--step-size", help="beta: 'ErrorRatio()' (Eq. 8), a number, ..."),
    click.option(
        "--space",
        show_default="as recorded, and a margin",
        help="Bounds of the actions, e.g. 'ActionSpace(low=-90, high=90)'; none for no bounds.",
    ),
    click.option("--n-rounds", type=click.IntRange(0), help="Rounds of Algorithm 1 after the first."),
    click.option("--initial", help="Policy file to go on from, best with recordings that it has not seen."),
    click.option("--seed", type=click.IntRange(0), default=0, help="Same seed, same bits."),
    click.option(
        "--test",
        help="Recordings that nothing is learned from, to judge the result: a share of the sequences (or groups), a "
        "data file or a URL. By default none for learn, which judges on all recordings, each left out in turn; 0.25 "
        "for the rounds and comparisons.",
    ),
    click.option("--validation", type=float, help="Share of the rest that chooses among rounds; 0 for none."),
)
dask_option = click.option(
    "--dask", help="Run on a Dask cluster: the address of its scheduler, or 'local' to start one here."
)
dask_options = stack(
    dask_option,
    click.option(
        "--exact/--no-exact",
        default=True,
        help="With --dask: the policy of one machine to the bit, or trees that see one part of the data each.",
    ),
)


def no_dask(reason: str) -> Callable[[Command], Command]:
    """Return `--dask` of a command that a cluster is of no use to, which says why."""

    def refuse(_: click.Context, __: click.Parameter, address: str | None) -> None:
        if address is not None:
            raise click.ClickException(f"--dask: {reason}")

    return click.option("--dask", hidden=True, expose_value=False, callback=refuse)


trust_option = click.option(
    "--trust", multiple=True, help="Type of another library that a policy file may build. May be repeated."
)
policy_options = stack(trust_option, memory_option)  # of commands that read no data, which have these already
report_option = stack(
    click.option("--report/--no-report", default=True, help="Write report.html, a page to look at."),
    click.option("--title", help="What to write above it."),
)


def _check_folder(_: click.Context, option: click.Parameter, out: Path) -> Path:
    """Refuse what is a file, or is called like one: whoever says so expects no folder."""
    refuse_url(out, "--out", ELSEWHERE)
    if out.is_dir():
        return out
    if out.suffix.lower() in FILES:
        raise click.ClickException(
            f"--out: {out} is the name of a file, and this writes a folder: name that, such as {out.with_suffix('')} "
            f"({getattr(option, 'help', '')})"
        )
    if out.exists():
        raise click.ClickException(f"--out: {out} is not a folder")
    return out


def folder_option(default: str, text: str) -> Callable[[Command], Command]:
    """Return `--out` of a command that writes a folder."""
    return click.option("--out", type=click.Path(path_type=Path), default=default, callback=_check_folder, help=text)


run_option = folder_option("run", "Folder for the results; the policy is policy.safetensors in it.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
start_option = click.option(
    "--start",
    type=click.Choice(["expert", "cold"]),
    default="expert",
    help="Let the expert act until the policy has its past, or start from the first context alone.",
)
stage_option = click.option(
    "--stage", multiple=True, help="Actuator limit, e.g. 'RateLimit(30.0)'. May be repeated; kept in order."
)
record_options = stack(
    click.option(
        "--record",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder to keep all frames and actions in, as data to train on.",
    ),
    click.option(
        "--record-limit",
        type=click.FloatRange(min=1.0),
        help="MB that these files may take; the oldest go first.",
    ),
    click.option("--record-without", multiple=True, help="Context not to keep. May be repeated."),
    click.option("--record-hashed", multiple=True, help="Context to keep a keyed hash of. May be repeated."),
)


def _read_level(_: click.Context, __: click.Parameter, level: float | None) -> float | None:
    """Refuse a level of a band that is none before anything is read."""
    from simile.errors import ArgumentError
    from simile.policies.bands import check_level

    try:
        return None if level is None else check_level(level)
    except ArgumentError as error:
        raise click.BadParameter(str(error)) from None


band_option = click.option(
    "--band",
    type=float,
    callback=_read_level,
    help="Level of a band around the actions, from 0.5 to 0.99, such as 0.9.",
)
host_option = click.option(
    "--allow-host",
    multiple=True,
    help="Name, or NAME:PORT, that `Host` may say beside this machine's. May be repeated.",
)
policy_argument = click.argument("policy", type=click.Path(path_type=Path))
# Several files, as a shell makes of runs/*.csv, are taken as they come; a config may name them too.
data_argument = click.argument("data", nargs=-1, callback=lambda _, __, paths: _one_or_many(paths))

policy_on_data = stack(policy_argument, data_argument, config_option, reading_options)


def _one_or_many(paths: tuple[str, ...]) -> str | list[str]:
    """Return one path as such; several are files with a sequence each."""
    if not paths:
        raise click.ClickException(
            "DATA is missing: name a file, a folder, several files or a quoted glob, or their URLs"
        )
    return paths[0] if len(paths) == 1 else list(paths)


def load_policy(path: Path, trust: tuple[str, ...], max_memory: float | None) -> Policy:
    """Load a policy; of the models in it, only those of trusted types, and in so much memory."""
    from simile.policies.storage.loading import load

    return load(path, trusted=trust, max_memory=max_memory)


def name_ends(actions: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the ends of a band: all low ones, then all high ones."""
    return tuple(f"{name}{end}" for end in ("_low", "_high") for name in actions)


def check_band(policy: Policy, *, beside: Sequence[str] = (), more: Sequence[str] = ()) -> None:
    """Refuse a policy without a band, or one of whose columns has the name of one that comes with the band.

    Beside the actions stand columns `beside`; with the ends of the band come `more`.
    """
    from simile.policies.bands import Band

    Band.of(policy)
    actions = policy.card.action_names
    added = (*name_ends(actions), *more)
    twice = [name for name in dict.fromkeys((*actions, *beside, *added)) if (*actions, *beside, *added).count(name) > 1]
    if twice:
        raise click.UsageError(
            f"--band: it would write a column {twice[0]!r}, and that is a column of the policy already: rename it in "
            "the data and learn again, or leave --band out"
        )


def bounded(given: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Hold a reading to --max-memory, also where a file lies about how much it holds."""
    from simile._common.memory import confined, read_limit

    return confined(read_limit(given.get("max_memory")))


def check_exact(given: Mapping[str, Any]) -> None:
    """Refuse --exact and --no-exact without a cluster."""
    source = click.get_current_context().get_parameter_source("exact")
    if not given["dask"] and source is ParameterSource.COMMANDLINE:
        said = "--exact" if given["exact"] else "--no-exact"
        raise click.ClickException(f"{said}: one machine is always exact: give it with --dask")


@contextmanager
def cluster(given: Mapping[str, Any], choices: Mapping[str, Any] | None = None) -> Iterator[DaskBackend | None]:
    """Connect to the cluster of --dask, unless there are choices that it cannot have; None where there is none."""
    if not given["dask"]:
        yield None
        return
    from simile.learning.distributed.dask import DaskBackend, connect
    from simile.learning.distributed.problem import check_choices

    check_choices(choices or {}, rounds=given.get("algorithm", "learn") != "learn")
    with connect(given["dask"]) as client:
        yield DaskBackend(client, exact=given.get("exact", True))


def bring(demos: Demonstrations | DistributedDemonstrations, what: str, *, seed: int = 0) -> Demonstrations:
    """Bring demonstrations here, of many as many sequences as come here, drawn by chance; says what sees no more."""
    from simile.learning.distributed import MOST, DistributedDemonstrations

    if not isinstance(demos, DistributedDemonstrations):
        return demos
    some = demos.draw(MOST, seed=seed)
    if len(some) < len(demos):
        how = f"drawn by chance: as many as come here, {MOST >> 20} MiB"
        click.echo(f"  note      {what} {len(some)} of {len(demos)} sequences, {how}", err=True)
    return some.gather()


def read_parts(
    given: Mapping[str, Any], backend: DaskBackend | None
) -> tuple[Demonstrations | DistributedDemonstrations, Demonstrations | DistributedDemonstrations | None]:
    """Read what to learn from, and what is held out, if anything is, here or where a backend is."""
    from simile.learning import runs

    with bounded(given):
        if backend is None:
            return runs.read_and_hold_out(given)
        demos = backend.read(given["data"], **runs.reading_arguments(given))
        columns = f"contexts {', '.join(demos.context_names)} and actions {', '.join(demos.action_names)}"
        click.echo(f"{demos} with {columns}", err=bool(click.get_current_context().params.get("as_json")))
        return runs.hold_out(given, demos)


def settle_lead(given: dict[str, Any]) -> None:
    """Measure the lead, where it is 'auto', and put it and the contexts that are left into the options."""
    if given.get("lead") != "auto" and not given.get("effect"):
        return
    from simile.data.reading import read
    from simile.learning import initial, runs

    effect = given.pop("effect") or None
    given["effect"] = ()
    if given.get("dask"):
        raise click.ClickException(
            "--lead auto is measured here: simile describe --effect tells it, then --lead SECONDS"
        )
    how = runs.reading_arguments(given)
    if effect and how.get("contexts"):
        how["contexts"] = [*how["contexts"], *effect]
    with bounded(given):
        demos = read(given["data"], **how, quiet=True)
    given["lead"], names, told = initial.settle_lead(demos, given["lead"], effect)
    given["contexts"] = tuple(name for name in demos.context_names if name not in names)
    for note in told:
        click.echo(f"  {note}", err=True)


def tell_timing(settings: Mapping[str, Any], demos: Recorded) -> None:
    """Say which time policies of these settings have; what cannot be is refused before the work."""
    from simile.data.timing import name_ahead, tell_lead
    from simile.learning.initial import see_by

    _, horizon = see_by(demos, *(settings.get(name) for name in ("horizon", "lead", "known", "initial")))
    if horizon.lead:
        click.echo(f"  lead      the policy {tell_lead(horizon.lead, demos.rate)}", err=True)
    if horizon.known:
        ahead, most = name_ahead(demos.context_names, horizon.known), max(n for _, n in horizon.known)
        click.echo(f"  known     {', '.join(ahead)}; not learned from: the last {most} frames of a sequence", err=True)


def _arguments_for(policy: Policy, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to read the columns that a policy was trained on."""
    from simile.learning.runs import reading_arguments
    from simile.policies.policies import recorded_names

    card = policy.card
    if not card.context_names:
        raise click.ClickException("the policy does not say which columns it was trained on")
    how, known = reading_arguments(options), card.preparation
    return {
        **how,
        "actions": card.action_names,
        "contexts": recorded_names(policy),
        "missing": [*how.get("missing", ()), *known.missing.items()],
        "wraps": [*how.get("wraps", ()), *known.wraps.items()],
    }


def read_for(policy: Policy, data: str | list[str], options: Mapping[str, Any]) -> Demonstrations:
    """Read the columns that a policy was trained on."""
    from simile.data.reading import read

    with bounded(options):
        demos = read(data, **_arguments_for(policy, options))
    _tell_about(policy, demos, options)
    return demos


def _tell_about(policy: Policy, demos: Recorded, options: Mapping[str, Any]) -> None:
    """Say where data are about something else, such as another camera, than what a policy has learned from."""
    said = policy.card.training.get("about")
    turned = any("Retarget" in text for text in options.get("stage", ()))
    if said and demos.about and said != demos.about and not turned:
        one, other = (json.dumps(facts, separators=(",", ":"))[:200] for facts in (said, demos.about))
        click.echo(
            f"simile: the policy has learned from data about {one}, and these are about {other}: the actions of both "
            "mean different things (`simile camera retarget` tells the --stage between two cameras)",
            err=True,
        )


@contextmanager
def recorded_for(
    policy: Policy, data: str | list[str], options: Mapping[str, Any], choices: Mapping[str, Any] | None = None
) -> Iterator[Demonstrations | DistributedDemonstrations]:
    """Read them here, or let the workers of --dask read them, who are there meanwhile."""
    with cluster(options, choices) as backend:
        if backend is None:
            yield read_for(policy, data, options)
        else:
            found = backend.read(data, **_arguments_for(policy, options))
            _tell_about(policy, found, options)
            yield found


def say(sentences: Sequence[str]) -> None:
    """Write sentences for whoever looks on, beside the output."""
    for sentence in sentences:
        click.echo(f"simile: {sentence}", err=True)


def check_record(given: Mapping[str, Any]) -> None:
    """Refuse what says how to record where nothing is."""
    for option in ("record_limit", "record_without", "record_hashed"):
        if given["record"] is None and given[option]:
            raise click.ClickException(f"--{option.replace('_', '-')} needs --record: name the folder to record into")


@contextmanager
def recording(given: Mapping[str, Any], policy: Path) -> Iterator[Recorder | None]:
    """Yield the recorder that --record asks for, or None; at the end it is closed, and what was lost is said."""
    from simile.online import Recorder
    from simile.policies.storage.loading import read_header

    check_record(given)
    if given["record"] is None:
        yield None
        return
    how = {"leave_out": given["record_without"], "hashed": given["record_hashed"]}
    recorder = Recorder(given["record"], limit=given["record_limit"], **how)
    recorder.digest = read_header(policy)["digest"]
    with recorder:
        yield recorder
    if recorder.lost:
        say([f"{recorder.lost} frames could not be recorded in {given['record']}"])


def stages_of(texts: Sequence[str]) -> tuple[Stage, ...]:
    """Return the stages of --stage."""
    from simile.learning.recipes import parse

    return tuple(parse(text, "stage") for text in texts)


def pace_of(demos: Recorded, options: Mapping[str, Any]) -> float | None:
    """Return the frames per second of data that --rate or --resample has told; None leaves them to the policy."""
    return demos.rate if options["rate"] or options["resample"] else None


def start_of(name: str) -> Any:
    """Return the start rule of --start."""
    from simile.policies.rollouts import ColdStart, ExpertStart

    return ColdStart() if name == "cold" else ExpertStart()
