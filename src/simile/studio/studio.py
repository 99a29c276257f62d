"""What the studio knows and does, without a word of HTTP: data, runs, what the page is told of them, and previews."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio

from simile import __version__
from simile._common.files import make_folder
from simile._common.text import plain
from simile._common.urls import name_of
from simile._common.web import RequestError
from simile.learning import ALGORITHMS
from simile.learning.runs import DEFAULTS, POLICY, TEST, RunFolder
from simile.studio import child_tasks
from simile.studio.events import Events
from simile.studio.improving import Improving
from simile.studio.jobs import Jobs
from simile.studio.live import Services
from simile.studio.preview_service import PreviewService, import_early
from simile.studio.run_view import describe_record, describe_run, spread_smoothness
from simile.studio.workspace import DONE, UNFINISHED, Data, Job, Workspace, clean_name, make_id, read_clock

Result = TypeVar("Result")
WORKERS = 4  # threads for what takes longer than a request may hold the others up


class Studio:
    """The state of a server.

    Parameters
    ----------
    workspace : Workspace
        Where everything is kept.
    upload : int
        Bytes of the largest file that is taken.
    jobs : int
        Trainings at a time.
    max_memory : float, optional
        MB that a child process may take, which looks into a file or trains, or a policy that is looked at; a half of
        the machine's by default.
    services : sequence of str
        Addresses of services elsewhere that the live page may talk to.
    improve : (Path, Path), optional
        The policy that is served, and the folder of its recording.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        upload: int,
        jobs: int = 1,
        max_memory: float | None = None,
        services: Sequence[str] = (),
        improve: tuple[Path, Path] | None = None,
    ) -> None:
        self.workspace = workspace
        self.upload = upload
        self.max_memory = max_memory
        self.events = Events()
        self.previews = PreviewService(max_memory)
        self.services = Services(services)
        self.improving = Improving(improve, max_memory)
        self.data: dict[str, Data] = {data.id: data for data in workspace.data()}
        self.jobs = Jobs(workspace, jobs, max_memory, self._refresh)
        self._views: dict[str, dict[str, Any]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._looks = asyncio.Semaphore(2)
        self._limiter = anyio.CapacityLimiter(WORKERS)

    async def begin(self) -> None:
        """Show what is there, and go on with what was under way."""
        threading.Thread(target=import_early, daemon=True).start()
        for key in list(self.jobs.all):
            await self._refresh(key)
        await self.jobs.begin()

    async def close(self) -> None:
        """End the children; the next server takes their runs up."""
        await self.improving.close()
        await self.jobs.close()

    def state(self) -> dict[str, Any]:
        """Return everything that a page shows."""
        return {
            "version": __version__,
            "limits": {"upload": self.upload},
            "algorithms": list(ALGORITHMS),
            "data": [data.describe() for data in self.data.values()],
            "runs": [self._views[key] for key in self.jobs.all if key in self._views],
        }

    async def in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do work that would hold the server up."""
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self._limiter)

    def find_data(self, key: str) -> Data:
        """Return data by their id."""
        if key not in self.data:
            raise RequestError(404, f"there are no data {clean_name(key)!r}: they may have been removed")
        return self.data[key]

    def find_job(self, key: str) -> Job:
        """Return a run by its id."""
        if key not in self.jobs.all:
            raise RequestError(404, f"there is no run {clean_name(key)!r}: it may have been removed")
        return self.jobs.all[key]

    def folder(self, job: Job) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(self.workspace.folder_of(job))

    def view(self, key: str) -> dict[str, Any]:
        """Return what the page shows of a run."""
        self.find_job(key)
        return self._views[key]

    async def look(self, data: Data) -> Data:
        """Look into data, anew where there are other options, and tell the pages."""
        is_new = data.id not in self.data
        async with self._looks:
            found = await child_tasks.run_in_child("look", self.max_memory, paths=data.paths, options=data.options)
        if not is_new:
            self.find_data(data.id)  # somebody may have removed them meanwhile
        return self.keep(replace(data, found=self.scrub(found, data)))

    def keep(self, data: Data) -> Data:
        """Keep data, and tell the pages."""
        self.data[data.id] = data
        self.workspace.keep(data)
        self.events.tell({"type": "data", "data": data.describe()})
        return data

    async def simulate(self, data: Data, **wanted: Any) -> Data:
        """Simulate games into the folder of new data."""
        folder = self.workspace.folder_of(data)
        make_folder(folder)
        async with self._looks:
            found = await child_tasks.run_in_child("simulate", self.max_memory, folder=str(folder), **wanted)
        table = folder / "games.parquet"
        size = table.stat().st_size if table.exists() else 0
        return self.keep(replace(data, paths=[str(table)], bytes=size, found=self.scrub(found, data)))

    def drop(self, data: Data) -> None:
        """Forget data that no run uses."""
        users = [job.name for job in self.jobs.all.values() if job.data == data.id]
        if users:
            raise RequestError(409, f"{data.name} is used by {_list_names(users)}: remove that first")
        del self.data[data.id]
        self.workspace.forget(data)
        self.events.tell({"type": "gone", "data": data.id})

    async def start(self, kind: str, data: Data, options: Mapping[str, Any], **about: Any) -> Job:
        """Write the config of a new run, and queue it."""
        if data.found.get("status") != child_tasks.READY:
            raise RequestError(409, f"{data.name} cannot be read yet: choose its columns first")
        parent = about.get("parent")
        inherited = {} if parent is None else self._options(self.find_job(parent), kind)
        for older in [j for j in self.jobs.all.values() if parent and j.parent == parent and j.status in UNFINISHED]:
            await self.remove(older)
        defaults = {**{n: DEFAULTS[n] for n in ("seed", "report")}, "test": TEST}
        if kind == "train":
            defaults["algorithm"] = DEFAULTS["algorithm"]
        name = about.pop("name", None) or _make_name(kind, data, options, parent)
        if parent is not None and "smoothness" in options:
            policy = self.folder(self.find_job(parent)).path / POLICY
            options = {**options, "smoothness": await self.in_thread(spread_smoothness, policy, options["smoothness"])}
        job = Job(make_id(), clean_name(name), kind, data.id, read_clock(), **about)
        make_folder(self.workspace.folder_of(job))
        self.folder(job).write_config(
            {**defaults, **data.options, **inherited, **options, "data": data.paths, "title": job.name}
        )
        await self.jobs.add(job)
        return job

    def _options(self, job: Job, kind: str) -> dict[str, Any]:
        """Return the options of a run, for another that differs in little."""
        if job.kind != kind:
            raise RequestError(400, f"parent must be a run of the kind {kind}; {job.name!r} is of the kind {job.kind}")
        return {n: v for n, v in self.folder(job).config.items() if n not in ("data", "out")}

    async def remove(self, job: Job) -> None:
        """Remove a run, and tell the pages."""
        await self.jobs.remove(job)
        self._views.pop(job.id, None)
        self._turns.pop(job.id, None)
        self.events.tell({"type": "gone", "run": job.id})

    def scrub(self, found: Any, data: Data | None) -> Any:
        """Return texts without the server's paths: data go by the name that the user knows."""
        if isinstance(found, dict):
            return {name: self.scrub(value, data) for name, value in found.items()}
        if isinstance(found, list):
            return [self.scrub(value, data) for value in found]
        if not isinstance(found, str):
            return found
        for path in data.paths if data is not None else ():
            name = data.name if data is not None and data.uploaded else name_of(path)
            found = found.replace(path, name)
            if found.startswith(f"{name_of(path)}: "):
                found = name + found.removeprefix(name_of(path))
        return found.replace(f"{self.workspace.folder}/", "").replace(str(self.workspace.folder), "the studio's folder")

    async def _refresh(self, key: str) -> None:
        """Look at a run's folder again, and tell the pages."""
        # One at a time for each run, so that nobody is told the older news last.
        async with self._turns.setdefault(key, asyncio.Lock()):
            job = self.jobs.all.get(key)
            if job is None:
                return
            data = self.data.get(job.data)
            try:
                view = await self.in_thread(describe_run, job, self.workspace.folder_of(job), data)
            except Exception as error:  # a folder that somebody has tampered with must not stop the others
                view = {**describe_record(job), "error": f"its folder cannot be read: {error}"}
            if key not in self.jobs.all:
                return
            view["error"] = self.scrub(view["error"], data)
            before, self._views[key] = self._views.get(key), plain(view)
            self.events.tell({"type": "run", "run": self._views[key]})
        if job.status == DONE and before is not None and before["status"] != DONE:
            self.warm(job)

    def warm(self, job: Job) -> None:
        """Prepare the first preview of a run, so that the slider is quick from the start."""
        folder = self.folder(job)

        def prepare() -> None:
            with suppress(Exception):
                self.previews.roll(folder, 0, None)

        threading.Thread(target=prepare, daemon=True).start()


def _make_name(kind: str, data: Data, options: Mapping[str, Any], parent: str | None) -> str:
    if parent is not None:
        return f"smoothness {_shorten(options.get('smoothness', 'as before'))}"
    what = "compare all" if kind == "compare" else options.get("algorithm", "learn")
    smooth = f", {_shorten(options['smoothness'])}" if "smoothness" in options else ""
    return f"{what} on {data.name}{smooth}"


def _shorten(smoothness: str) -> str:
    try:
        return f"{float(smoothness):.3g}"
    except ValueError:
        return smoothness


def _list_names(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} others"
