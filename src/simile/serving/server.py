"""The server: a policy file, two ports, signals. It ends by draining, and a restarted one goes on where it was."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiofastnet

from simile._common import locks, web
from simile._common.door import Door, Guest
from simile._common.files import clear_leftovers
from simile._common.needs import need
from simile._common.supervision import supervise
from simile.errors import ArgumentError, SimileError, StorageError
from simile.online.recording import Recorder
from simile.serving import snapshots
from simile.serving.guard import build_guard, check_exposure, load_tls
from simile.serving.http import build_app
from simile.serving.monitoring import Monitor
from simile.serving.openapi import PolicyFacts
from simile.serving.policy_file import LoadedPolicy, load_policy
from simile.serving.service import Service
from simile.serving.state import Options, ServerState
from simile.serving.websocket import ConnectionRegistry, StreamProtocol

# Bytes that the system keeps for a connection, each way: older frames and actions are of no use.
SYSTEM_BUFFER = 64 << 10
STRANGERS = 256  # connections to the port of streams that have not said yet what they want
SPARE_FILES = 64  # for snapshots, policies, and the process itself
THREADS = 2  # one reads a policy while another writes a snapshot; each has a heap of its own
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # as malloc.h numbers them
LARGE = 128 << 10  # bytes of a block that goes back to the system when it is freed
YOUNG = (50_000, 20, 50)  # objects, and rounds, between looks for garbage: frames are freed without any
SWITCH = 0.0005  # seconds for which a thread may keep Python's lock while another waits
COLLECT_EVERY, COLLECT_AFTER = 10.0, 2000.0  # seconds between looks, and for each second that a whole one took

Announce = Callable[[str, str | None, PolicyFacts], None]

log = logging.getLogger(__name__)


def serve(options: Options, announce: Announce) -> None:
    """Serve a policy until SIGTERM or SIGINT.

    Parameters
    ----------
    options : Options
        What, and how.
    announce : callable
        Told the addresses of streams and of HTTP (None where that is off), and facts of the policy, once both listen.
    """
    check_exposure(options.host, options.token, insecure=options.insecure)
    tls = load_tls(options.certfile, options.keyfile)
    _give_memory_back()
    loaded = load_policy(options.policy, options.trust, options.max_memory)
    shadows = _load_shadows(options)
    with ExitStack() as held:
        recorder = None if options.record is None else held.enter_context(_open_recorder(options))
        _run(options, loaded, shadows, recorder, tls, announce)


def _run(
    options: Options,
    loaded: LoadedPolicy,
    shadows: dict[str, LoadedPolicy],
    recorder: Recorder | None,
    tls: ssl.SSLContext | None,
    announce: Announce,
) -> None:
    rate = options.rate or loaded.policy.card.rate
    service = Service(
        loaded.policy,
        gap=options.gap,
        stages=options.stages,
        rate=options.rate,
        max_streams=options.max_streams,
        queue=options.queue,
        idle=options.idle,
        monitor=Monitor(loaded.policy, rate, options.max_streams, stages=options.stages),
        handover=options.handover,
        max_memory=options.max_memory,
        recorder=recorder,
        shadows={name: shadow.policy for name, shadow in shadows.items()},
    )
    if service.recording is not None:
        service.recording.policy = loaded.digest
    for shadow in () if service.shadows is None else service.shadows.all:
        shadow.digest = shadows[shadow.name].digest
    options = replace(options, max_connections=_allow_files(options.max_connections))
    # They write a line for every peer that goes without a word: anybody could fill a disk so.
    logging.getLogger("aiofastnet").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    # What is fed by strangers is their affair, and told to them as drift.
    logging.getLogger("simile.policies.precision").setLevel(logging.ERROR)
    with _own_snapshots(options.snapshots, options.policy), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        _restore(service, options)
        runner.run(_serve(options, loaded, service, tls, announce))


def _open_recorder(options: Options) -> Recorder:
    assert options.record is not None
    # A thread that makes columns holds Python's lock: frames wait for it no longer than this.
    sys.setswitchinterval(SWITCH)
    pa = need("pyarrow", "--record")
    pa.set_memory_pool(pa.system_memory_pool())  # which gives back what it does not need
    return Recorder(
        options.record, limit=options.record_limit, leave_out=options.record_without, hashed=options.record_hashed
    )


def _load_shadows(options: Options) -> dict[str, LoadedPolicy]:
    """Read the candidates, by the names of their files."""
    found: dict[str, LoadedPolicy] = {}
    for path in options.shadows:
        if path.name in found:
            raise ArgumentError(f"--shadow: two files are called {path.name}: rename one of them")
        found[path.name] = load_policy(path, options.trust, options.max_memory)
    return found


async def _serve(
    options: Options,
    loaded: LoadedPolicy,
    service: Service,
    tls: ssl.SSLContext | None,
    announce: Announce,
) -> None:
    state = ServerState(options, loaded, service)
    state.loop.set_exception_handler(_note)
    streams, listening = _listen_twice(options)
    registry = ConnectionRegistry(state, _build_guard(options, streams))
    state.tell = registry.tell
    _limit_buffers(streams)
    listener = asyncio.create_task(_accept(streams, registry, tls))
    http, http_address = None, None
    if listening is not None:
        _limit_buffers(listening)
        http_address = _read_address("https" if tls else "http", listening)
        http = _HttpHost(state, _build_guard(options, listening), listening)
        serving = asyncio.create_task(supervise(http.answer_http, service.counts, until=lambda: state.draining))
        while not http.server.started:
            await asyncio.sleep(0.005)
    stop = _stop_on_signals(state)
    state.loop.set_default_executor(ThreadPoolExecutor(THREADS))
    gc.collect()
    gc.freeze()  # what is here now stays: looking through it again and again would delay frames
    gc.set_threshold(*YOUNG)
    announce(f"{_read_address('wss' if tls else 'ws', streams)}/streams", http_address, state.facts)
    tasks = [asyncio.create_task(supervise(work, service.counts)) for work in _list_tasks(state, registry)]
    await stop.wait()
    for task in tasks:
        task.cancel()
    await _drain(state, registry, listener)
    if http is not None:
        http.server.should_exit = True
        with suppress(TimeoutError):  # it may just be waiting to be begun again
            await asyncio.wait_for(serving, web.FAREWELL + 1)
        http.listening.close()


def _list_tasks(state: ServerState, registry: ConnectionRegistry) -> Iterator[Callable[[], Awaitable[None]]]:
    """Yield what is done beside answering."""
    yield state.watch_deadlines
    yield state.tell_troubles
    yield registry.cut_slow_readers
    yield _collect_garbage
    if state.options.watch:
        yield state.watch_file
    if state.options.snapshots is not None:
        yield state.keep_snapshots


async def _collect_garbage(every: float = COLLECT_EVERY) -> None:
    """Free what hangs together in circles, for ever: connections that went, policies that were replaced.

    Left to itself, Python would wait for 50,000 such objects, and memory would grow for a quarter of an hour. All that
    was there at the start is frozen, and looking through the rest takes a millisecond or two for a hundred streams;
    where there are thousands, what has lasted is looked through less often.
    """
    due = 0.0
    while True:
        await asyncio.sleep(every)
        begin = time.perf_counter()
        gc.collect(1 if begin < due else 2)
        if begin >= due:
            due = begin + COLLECT_AFTER * (time.perf_counter() - begin)


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody has dealt with; what peers do to their connections is theirs."""
    if not isinstance(context.get("exception"), OSError):  # TLS, resets, time-outs
        loop.default_exception_handler(context)


async def _accept(listening: socket.socket, registry: ConnectionRegistry, tls: ssl.SSLContext | None) -> None:
    """Let connections to the port of streams in, until cancelled."""
    patience = registry.state.options.patience

    async def connect(guest: Guest) -> tuple[Any, Any]:
        return await aiofastnet.connect_accepted_socket(
            registry.state.loop,
            lambda: StreamProtocol(registry, guest),
            guest.sock,
            ssl=tls,
            ssl_handshake_timeout=patience if tls else None,
        )

    door = Door(STRANGERS, patience)

    async def accept() -> None:
        await door.accept(listening, connect)

    with listening:
        await supervise(accept, registry.state.service.counts)


async def _drain(state: ServerState, registry: ConnectionRegistry, listener: asyncio.Task[None]) -> None:
    """End in good order: nobody new, all that came is answered, the streams are kept, everybody is told."""
    state.draining = True
    listener.cancel()
    registry.tell({"kind": "draining", "on": True})
    await asyncio.sleep(0)  # what the system has already taken in is read
    state.run()
    keeping = asyncio.ensure_future(state.snapshot())
    await asyncio.sleep(0)  # the state is copied, and from here on no frame is taken
    registry.close_all()
    await keeping
    for _ in range(round(web.FAREWELL / 0.01)):
        if not registry.connections:
            return
        await asyncio.sleep(0.01)
    for connection in list(registry.connections):
        connection.cut()
    await asyncio.sleep(0.01)


class _HttpServer(web.WebServer):
    """Uvicorn as a guest: signals are the host's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class _HttpHost:
    """Uvicorn on a port that stays open, should it have to be begun again; it closes the socket that it is given."""

    def __init__(self, state: ServerState, guard: web.Guard, listening: socket.socket) -> None:
        self.state, self.guard, self.listening = state, guard, listening
        self.server = _build_http_server(state, guard)

    async def answer_http(self) -> None:
        """Answer until `server.should_exit`."""
        self.server = _build_http_server(self.state, self.guard)
        with self.listening.dup() as copy:
            try:
                await self.server.serve([copy])
            except Exception:
                self.server.force_exit = True  # without waiting for anybody
                await self.server.shutdown([copy])
                raise


def _build_http_server(state: ServerState, guard: web.Guard) -> _HttpServer:
    options = state.options
    config = web.configure_uvicorn(
        build_app(state, guard),
        log_level="error",
        lifespan="off",
        ws="none",
        ssl_certfile=options.certfile,
        ssl_keyfile=options.keyfile,
    )
    return _HttpServer(config, Door(web.CONNECTIONS, options.patience, pace=web.PACE))


def _give_memory_back() -> None:
    """Let a policy that was replaced leave no gaps: glibc learns to keep large blocks, unless it is told a limit."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_ARENA_MAX, THREADS)


def _stop_on_signals(state: ServerState) -> asyncio.Event:
    """Return what is set when the service is to end; SIGHUP reloads."""
    stop, tasks = asyncio.Event(), set[asyncio.Task[Any]]()

    def reload() -> None:
        task = state.loop.create_task(state.reload())
        tasks.add(task)  # the loop alone would forget it
        task.add_done_callback(tasks.discard)

    with suppress(NotImplementedError):  # on Windows, where Ctrl-C ends the loop instead
        for number in (signal.SIGTERM, signal.SIGINT):
            state.loop.add_signal_handler(number, stop.set)
        state.loop.add_signal_handler(signal.SIGHUP, reload)
    return stop


@contextmanager
def _own_snapshots(path: Path | None, policy: Path) -> Iterator[None]:
    """Keep other services off the file of snapshots: they would write over each other's streams."""
    with ExitStack() as held:
        if path is not None:
            if path.exists() and path.samefile(policy):
                raise ArgumentError(f"--snapshots: {path} is the policy file, which it would replace: name another")
            if path.exists() and not path.is_file():
                raise ArgumentError(f"--snapshots: {path} is no regular file: name another")
            busy = f"--snapshots: {path} is in use by {{other}}, another service: end that one, or name another file"
            try:
                held.enter_context(locks.hold(path.with_name(f"{path.name}.lock"), busy))
                clear_leftovers(path.parent, path.name)
            except StorageError as error:  # nor will there be snapshots, which is told and does not keep from serving
                log.warning("the snapshots have no lock: %s", error)
        yield


def _restore(service: Service, options: Options) -> None:
    """Go on with the streams of the last run, where there is a snapshot that fits."""
    path = options.snapshots
    if path is None or not path.exists():
        return
    try:
        for trouble in service.restore(snapshots.read(path)):
            log.warning("of the snapshot, one was not taken up: %s", trouble)
    except SimileError as error:
        aside = snapshots.set_aside(path)
        log.warning("the snapshot was not taken, and kept as %s: %s", aside, error)


def _limit_buffers(listening: socket.socket) -> None:
    """Let the system keep little for a connection; every one inherits it.

    Left to itself it takes in megabytes while this process is held up, and picows doubles its own buffer to read them
    at once, for as long as the connection lasts.
    """
    for kind in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        listening.setsockopt(socket.SOL_SOCKET, kind, SYSTEM_BUFFER)


def _listen_twice(options: Options) -> tuple[socket.socket, socket.socket | None]:
    """Open both ports, or none."""
    streams = web.listen(options.host, options.port, option="--port", way_out="name another")
    if not options.http_port:
        return streams, None
    try:
        return streams, web.listen(options.host, options.http_port, option="--http-port", way_out="name another")
    except ArgumentError:
        streams.close()
        raise


def _build_guard(options: Options, listening: socket.socket) -> web.Guard:
    port = listening.getsockname()[1]
    tls = options.certfile is not None
    return build_guard(options.host, port, options.token, options.origins, options.hosts, tls=tls)


def _read_address(scheme: str, listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return web.write_address(scheme, host, port)


def _allow_files(connections: int) -> int:
    """Let this process have as many connections as were asked for, and return how many it may have.

    The system's first limit is often 1024 files. Strangers, HTTP, snapshots and the process itself have theirs apart.
    """
    if sys.platform == "win32":
        return connections
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    apart = STRANGERS + web.CONNECTIONS + SPARE_FILES
    wanted = connections + apart
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < wanted:
        fewer = max(1, soft - apart)
        log.warning(
            "--max-connections %d needs %d open files, and the system allows %d: %d connections are let in; "
            "raise the limit (ulimit -n, LimitNOFILE=)",
            connections,
            wanted,
            soft,
            fewer,
        )
        return fewer
    return connections


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:  # on Windows
        return None
    return uvloop.new_event_loop
