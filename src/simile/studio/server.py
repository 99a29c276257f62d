"""The studio as a server on this machine."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware

from simile._common import locks, web
from simile._common.files import write_atomically
from simile._common.supervision import explain
from simile._common.urls import is_url, name_of
from simile.errors import LEFT_OUT, ArgumentError, redact
from simile.studio import api
from simile.studio.security import EventsProtocol, GuardedStudio, build_guard, write_redirect
from simile.studio.studio import Studio
from simile.studio.workspace import Data, Workspace, make_id

PORT = 8765  # where the studio is, unless something else is there
LONGEST_WORD = 1 << 16  # bytes of a message over a WebSocket; a page has little to say

log = logging.getLogger(__name__)


def build_app(
    workspace: Workspace,
    token: str,
    hosts: frozenset[str],
    *,
    cookie: str = "simile-studio",
    upload: int = 200_000_000,
    jobs: int = 1,
    max_memory: float | None = None,
    given: Sequence[Data] = (),
    services: Sequence[str] = (),
    improve: tuple[Path, Path] | None = None,
) -> Starlette:
    """Build the server of a workspace.

    Parameters
    ----------
    workspace : Workspace
    token : str
        The secret that requests must show.
    hosts : frozenset of str
        What `Host` may say.
    cookie : str
        Name of the cookie that holds the token.
    upload : int
        Bytes of the largest file that is taken.
    jobs : int
        Trainings at a time.
    max_memory : float, optional
        MB that a child process may take, which looks into a file or trains; a half of the machine's by default.
    given : sequence of Data
        Data to look into at the start.
    services : sequence of str
        Addresses of services elsewhere that the live page may talk to, beside those of this machine.
    improve : (Path, Path), optional
        The policy that is served, and the folder of its recording: the live page may learn its next version.
    """
    studio = Studio(workspace, upload=upload, jobs=jobs, max_memory=max_memory, services=services, improve=improve)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await studio.begin()
        looks = [asyncio.create_task(_look(studio, data)) for data in given]
        try:
            yield
        finally:
            for look in looks:
                look.cancel()
            await studio.close()

    return Starlette(
        routes=api.routes(studio),
        lifespan=lifespan,
        middleware=[
            Middleware(web.HeaderedApp),
            Middleware(GuardedStudio, guard=build_guard(token, hosts, cookie)),
        ],
        exception_handlers={**web.build_handlers("studio"), **api.build_handlers(studio)},
    )


def serve(
    folder: Path,
    *,
    data: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    hosts: Sequence[str] = (),
    upload: int = 200_000_000,
    jobs: int = 1,
    max_memory: float | None = None,
    services: Sequence[str] = (),
    improve: tuple[Path, Path] | None = None,
    show: bool = True,
) -> None:
    """Serve a workspace until Ctrl-C; prints the address to open.

    Parameters
    ----------
    folder : Path
        Of the workspace.
    data : sequence of str
        Files to begin with, read where they are.
    options : dict, optional
        How to read them, as for `simile.read`.
    host, port
        Where to listen; port 0 is 8765 or, where that is taken, a free one.
    hosts : sequence of str
        What `Host` may say beside, as for a tunnel from another port: see `simile._common.web.list_hosts`.
    upload, jobs, max_memory, services, improve
        As for `build_app`.
    show : bool
        Whether to open a browser.
    """
    workspace = Workspace.at(folder)
    lock = locks.acquire(workspace.folder / "lock")
    if lock is None:
        raise ArgumentError(
            f"--folder: another studio is at work in {workspace.folder}: end it, or name another folder"
        )
    workspace.clear_up()
    listening = listen(host, port)
    port = listening.getsockname()[1]
    token = workspace.token()
    given = [_describe_files(data, options or {})] if data else []
    app = build_app(
        workspace,
        token,
        web.list_hosts(port, host, allowed=hosts),
        cookie=f"simile-studio-{port}",
        upload=upload,
        jobs=jobs,
        max_memory=max_memory,
        given=given,
        services=services,
        improve=improve,
    )
    address = f"{web.write_address('http', host, port)}/?token={token}"
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    if show:
        # By way of a file: everybody on this machine can see the words of a command, and the token is in the address.
        page = workspace.folder / "open.html"
        write_atomically(page, write_redirect(address).encode(), secret=True)
        threading.Timer(0.5, webbrowser.open, [page.as_uri()]).start()
    config = web.configure_uvicorn(app, log_level="warning", lifespan="on", ws=EventsProtocol, ws_max_size=LONGEST_WORD)
    with suppress(KeyboardInterrupt):  # the way to end it
        web.WebServer(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Open the port, before anybody is told of it; port 0 is 8765 or, where that is taken, a free one."""
    if host in ("0.0.0.0", "::", ""):
        raise ArgumentError(f"--host must be the name or address under which the page is opened; got {host!r}")
    ports = (port,) if port else (PORT, 0)
    return web.listen(host, *ports, option="--port", way_out="leave --port out, or name another")


def _describe_files(paths: Sequence[str], options: dict[str, Any]) -> Data:
    """Describe data that were named on the command line."""
    if secret := next((redact(p) for p in paths if redact(p) != p), None):
        raise ArgumentError(
            f"DATA: {secret} carries secrets ({LEFT_OUT}), which the studio's folder would keep: give them by the "
            "environment, or fetch the file first"
        )
    found = [p if is_url(p) else str(Path(p).absolute()) for p in paths]
    size = sum(Path(p).stat().st_size for p in found if Path(p).is_file())
    name = name_of(paths[0]) if len(paths) == 1 else f"{name_of(paths[0])} and {len(paths) - 1} more"
    return Data(make_id(), name, "table", found, size, options)


async def _look(studio: Studio, data: Data) -> None:
    """Look into data that were given at the start."""
    try:
        await studio.look(_find_known(studio, data))
    except Exception as error:  # nobody waits for it
        log.error("%s was not looked into: %s", data.name, explain(error))


def _find_known(studio: Studio, data: Data) -> Data:
    """Return data as an earlier start knew them, so that a file is listed once."""
    same = [d for d in studio.data.values() if d.paths == data.paths and not d.uploaded]
    return replace(data, id=same[0].id, added=same[0].added) if same else data
