"""The studio as a server on this machine."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from simile.errors import ArgumentError
from simile.studio import api, locks
from simile.studio.core import Studio
from simile.studio.security import HEADERS, Guard, hosts_of
from simile.studio.workspace import Data, Workspace, new_id

PORT = 8765  # where the studio is, unless something else is there
LONGEST_WORD = 1 << 16  # bytes of a message over a WebSocket; the page has nothing to say


def build_app(
    workspace: Workspace,
    token: str,
    hosts: frozenset[str],
    *,
    cookie: str = "simile-studio",
    upload: int = 200_000_000,
    jobs: int = 1,
    given: Sequence[Data] = (),
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
    given : sequence of Data
        Data to look into at the start.
    """
    studio = Studio(workspace, upload=upload, jobs=jobs)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await studio.begin()
        looks = [asyncio.create_task(studio.look(_known(studio, data))) for data in given]
        try:
            yield
        finally:
            for look in looks:
                look.cancel()
            await studio.close()

    return Starlette(
        routes=api.routes(studio),
        lifespan=lifespan,
        middleware=[Middleware(Guard, token=token, hosts=hosts, cookie=cookie)],
        exception_handlers={HTTPException: _not_there, Exception: _trouble},
    )


def serve(
    folder: Path,
    *,
    data: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    upload: int = 200_000_000,
    jobs: int = 1,
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
    upload, jobs
        As for `build_app`.
    show : bool
        Whether to open a browser.
    """
    workspace = Workspace.at(folder)
    lock = locks.take(workspace.folder / "lock")
    if lock is None:
        raise ArgumentError(
            f"--folder: another studio is at work in {workspace.folder}: end it, or name another folder"
        )
    listening = listen(host, port)
    port = listening.getsockname()[1]
    token = workspace.token()
    given = [_given(data, options or {})] if data else []
    app = build_app(
        workspace,
        token,
        hosts_of(port, host),
        cookie=f"simile-studio-{port}",
        upload=upload,
        jobs=jobs,
        given=given,
    )
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{port}/?token={token}"
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    if show:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # it would show the token
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # nobody stands between the browser and us
        ws_max_size=LONGEST_WORD,
        timeout_graceful_shutdown=3,
    )
    with suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Open the port, before anybody is told of it; port 0 is 8765 or, where that is taken, a free one."""
    if host in ("0.0.0.0", "::", ""):
        raise ArgumentError(f"--host must be the name or address under which the page is opened; got {host!r}")
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    trouble: OSError | None = None
    for wanted in (port,) if port else (PORT, 0):
        # The protocol is named, for asyncio turns Nagle's delay off only where it knows of TCP.
        opened = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform != "win32":  # there it would share the port with others
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, wanted))
            opened.listen(128)
        except OSError as error:
            opened.close()
            trouble = error
        else:
            return opened
    reason = None if trouble is None else trouble.strerror
    raise ArgumentError(f"--port: {host}:{port} cannot be opened: {reason}: leave --port out, or name another")


def _given(paths: Sequence[str], options: dict[str, Any]) -> Data:
    """Describe data that were named on the command line."""
    found = [str(Path(p).absolute()) for p in paths]
    size = sum(Path(p).stat().st_size for p in found if Path(p).is_file())
    name = Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and {len(paths) - 1} more"
    return Data(new_id(), name, "table", found, size, options)


def _known(studio: Studio, data: Data) -> Data:
    """Return data as an earlier start knew them, so that a file is listed once."""
    same = [d for d in studio.data.values() if d.paths == data.paths and not d.uploaded]
    return replace(data, id=same[0].id, added=same[0].added) if same else data


async def _not_there(request: Request, trouble: Exception) -> Response:  # noqa: ARG001
    """Answer for addresses that are not, or not so."""
    status = trouble.status_code if isinstance(trouble, HTTPException) else 404
    sentence = {404: "there is nothing at this address", 405: "this address does not take that method"}
    return api.error(status, sentence.get(status, "the request cannot be answered"))


async def _trouble(request: Request, trouble: Exception) -> Response:  # noqa: ARG001
    """Answer for what nobody has thought of; the server's terminal shows the rest."""
    answer = api.error(500, "the studio has made a mistake: its terminal shows which")
    answer.headers.update(HEADERS)  # such an answer does not pass the guard
    return answer
