"""The routes of the studio. A handler checks what it is asked, asks the `Studio`, and answers with JSON."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from simile._common.pages import asset
from simile._common.web import Bodies, RequestError, answer_json, answer_refusal
from simile.errors import SimileError
from simile.learning.runs import DEFAULTS, POLICY, REPORT, settings
from simile.studio import calibrating, requests, uploads
from simile.studio.run_view import write_commands, write_config
from simile.studio.security import CALIBRATE_POLICY, PAGE_POLICY, SANDBOX_POLICY
from simile.studio.studio import Studio
from simile.studio.workspace import Data, clean_name, make_id

LONGEST = 1 << 16  # bytes of a JSON body
_KINDS = (("js", "javascript"), ("css", "css"))
STATIC = {f"{page}.{ending}": f"text/{kind}" for page in ("studio", "calibrate", "live") for ending, kind in _KINDS}


def routes(studio: Studio) -> list[Route | WebSocketRoute]:
    """Return all routes of a studio."""
    api = Api(studio)
    return [
        Route("/", api.page),
        Route("/favicon.ico", api.nothing),
        Route("/calibrate", api.calibrate),
        Route("/live", api.live),
        Route("/static/{name}", api.static),
        Route("/api/state", api.state),
        Route("/api/data/{name:path}", api.upload, methods=["PUT"]),
        Route("/api/data/{id}", api.choose, methods=["POST"]),
        Route("/api/data/{id}", api.drop, methods=["DELETE"]),
        Route("/api/games", api.games, methods=["POST"]),
        Route("/api/courts", api.courts),
        Route("/api/calibrations", api.fit, methods=["POST"]),
        Route("/api/calibrations/{name}", api.calibration),
        Route("/api/runs", api.start, methods=["POST"]),
        Route("/api/runs/{id}", api.remove, methods=["DELETE"]),
        Route("/api/runs/{id}/stop", api.stop, methods=["POST"]),
        Route("/api/runs/{id}/resume", api.resume, methods=["POST"]),
        Route("/api/runs/{id}/sequences", api.sequences),
        Route("/api/runs/{id}/roll", api.roll, methods=["POST"]),
        Route("/api/runs/{id}/court", api.court),
        Route("/api/runs/{id}/{what}", api.download),
        Route("/api/services", api.services),
        Route("/api/streams", api.streams, methods=["POST"]),
        Route("/api/improvement", api.improvement),
        Route("/api/improvement", api.improve, methods=["POST"]),
        Route("/api/improvement/accept", api.accept, methods=["POST"]),
        WebSocketRoute("/api/events", api.events),
        WebSocketRoute("/api/operate", api.operate),
    ]


def build_handlers(studio: Studio) -> dict[Any, Any]:
    """Return the handlers that turn whatever goes wrong in a handler of a route into a sentence."""

    async def answer(request: Request, error: Exception) -> Response:
        status, sentence = 422, str(error)
        if isinstance(error, RequestError):
            status = error.status
        elif isinstance(error, OSError):
            status, sentence = 500, f"a file of the studio cannot be used: {error.strerror or 'unknown trouble'}"
        refusal = answer_refusal(status, studio.scrub(sentence, None))
        return uploads.DrainingResponse(refusal.body, status) if request.method == "PUT" else refusal

    return dict.fromkeys((RequestError, SimileError, OSError), answer)


class Api:
    """The handlers of a studio's routes."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.bodies = Bodies()

    async def _read_json(self, request: Request) -> Any:
        """Return the JSON of a request; an empty object where there is none."""
        data = await self.bodies.read(request, LONGEST, f"a request must be shorter than {LONGEST} bytes")
        try:
            return json.loads(data) if data.strip() else {}
        except (ValueError, RecursionError):
            raise RequestError(400, "the request must be JSON") from None

    async def page(self, request: Request) -> Response:  # noqa: ARG002
        """Answer with the page itself."""
        return Response(asset("studio.html"), media_type="text/html", headers={"content-security-policy": PAGE_POLICY})

    async def calibrate(self, request: Request) -> Response:  # noqa: ARG002
        """Answer with the page to calibrate on."""
        policy = {"content-security-policy": CALIBRATE_POLICY}
        return Response(asset("calibrate.html"), media_type="text/html", headers=policy)

    async def live(self, request: Request) -> Response:  # noqa: ARG002
        """Answer with the page of a stream that is being served."""
        return Response(asset("live.html"), media_type="text/html", headers={"content-security-policy": PAGE_POLICY})

    async def services(self, request: Request) -> Response:  # noqa: ARG002
        """Tell the services that this studio was started with."""
        return answer_json({"services": self.studio.services.known})

    async def streams(self, request: Request) -> Response:
        """List the streams of a running service."""
        wanted = requests.read_request(await self._read_json(request), requests.Watching)
        return answer_json(await self.studio.services.list_streams(**wanted))

    async def improvement(self, request: Request) -> Response:  # noqa: ARG002
        """Tell how the next version of the policy does."""
        return answer_json(await self.studio.improving.describe())

    async def improve(self, request: Request) -> Response:
        """Begin to learn the next version of the policy."""
        wanted = requests.read_request(await self._read_json(request), requests.Improvement)
        self.studio.improving.begin(self.studio.find_data(wanted["data"]), wanted["left_out"])
        return answer_json(await self.studio.improving.describe(), 202)

    async def accept(self, request: Request) -> Response:  # noqa: ARG002
        """Put the next version to work."""
        await self.studio.improving.put_to_work()
        return answer_json(await self.studio.improving.describe())

    async def operate(self, socket: WebSocket) -> None:
        """Let a page look on at a stream of a running service, and take it over."""
        await self.studio.services.operate(socket)

    async def courts(self, request: Request) -> Response:
        """Tell the lines and landmarks of all courts, or of one of its own size."""
        text = request.query_params.get("court")
        return answer_json(await self.studio.in_thread(calibrating.describe_courts, text))

    async def fit(self, request: Request) -> Response:
        """Find the calibration of a picture, and keep it where a name is given."""
        wanted = requests.read_request(await self._read_json(request), requests.Calibrating)
        found = await self.studio.in_thread(calibrating.fit_clicks, wanted)
        if "name" in wanted:
            kept = (self.studio.workspace, wanted["name"], found["calibration"])
            found["kept"] = await self.studio.in_thread(calibrating.keep_calibration, *kept)
        return answer_json(found)

    async def calibration(self, request: Request) -> Response:
        """Hand out a calibration that was kept."""
        asked = {"name": request.path_params["name"], "court": "", "size": [1, 1], "pairs": []}
        name = requests.read_request(asked, requests.Calibrating)["name"]
        content = await self.studio.in_thread(calibrating.read_calibration, self.studio.workspace, name)
        headers = {"content-disposition": f'attachment; filename="{name}.json"'}
        return Response(content, media_type="application/json", headers=headers)

    async def nothing(self, request: Request) -> Response:  # noqa: ARG002
        """Answer with nothing: browsers ask for an icon, and would note an error."""
        return Response(status_code=204)

    async def static(self, request: Request) -> Response:
        """Answer with the page's script or style."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise RequestError(404, "there is no such file")
        return Response(asset(f"built/{name}"), media_type=STATIC[name])

    async def state(self, request: Request) -> Response:  # noqa: ARG002
        """Answer with everything that a page shows."""
        return answer_json(self.studio.state())

    async def events(self, socket: WebSocket) -> None:
        """Tell a page what happens."""
        await self.studio.events.serve(socket, self.studio.state)

    async def upload(self, request: Request) -> Response:
        """Take a data file."""
        studio, name = self.studio, clean_name(request.path_params["name"])
        ending = uploads.read_ending(name)
        uploads.check_size(request, studio.upload)
        data = Data(make_id(), name, "table", [], 0, uploaded=True)
        folder = studio.workspace.folder_of(data)
        target = folder / f"data{ending}"
        try:
            size = await uploads.receive_file(request, target, studio.upload)
            found = await studio.look(replace(data, paths=[str(target)], bytes=size))
        except BaseException:
            if data.id not in studio.data:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return answer_json(found.describe(), 201)

    async def choose(self, request: Request) -> Response:
        """Read data again, with other options."""
        data = self.studio.find_data(request.path_params["id"])
        given = await self._read_json(request)
        given = given["options"] if isinstance(given, dict) and isinstance(given.get("options"), dict) else given
        options = {n: v for n, v in requests.read_request(given, requests.Reading).items() if v not in ("", [])}
        return answer_json((await self.studio.look(replace(data, options=options))).describe())

    async def drop(self, request: Request) -> Response:
        """Forget data."""
        self.studio.drop(self.studio.find_data(request.path_params["id"]))
        return Response(status_code=204)

    async def games(self, request: Request) -> Response:
        """Simulate games."""
        wanted = requests.read_request(await self._read_json(request), requests.Games)
        n, length = wanted["n_games"], wanted["minutes"]
        options = f"--axes {wanted['axes']} --sport {wanted['sport']} --seed {wanted['seed']}"
        origin = [
            f"simile camera simulate --n-games {n} --minutes {length:g} {length:g} {options} --out games",
            "simile camera features games/*.npz --out games.parquet",
        ]
        name = f"{n} simulated {'game' if n == 1 else 'games'} of {wanted['sport']}"
        made = await self.studio.simulate(Data(make_id(), name, "games", [], 0, origin=origin), **wanted)
        return answer_json(made.describe(), 201)

    async def start(self, request: Request) -> Response:
        """Begin a training or a comparison."""
        given = await self._read_json(request)
        kind = given.get("kind", "train") if isinstance(given, dict) else "train"
        # An unknown kind is refused as a field like any other.
        fields = requests.RUNS.get(str(kind), requests.Training)
        options = await self.studio.in_thread(requests.read_request, given, fields)
        about = {name: options.pop(name) for name in ("name", "parent") if name in options}
        if "parent" in about:
            options.setdefault("data", self.studio.find_job(about["parent"]).data)
        if "data" not in options:
            raise RequestError(400, "data must be the id of data that were uploaded")
        options.pop("kind", None)
        if kind == "train":  # what the algorithm has no use for is refused here, not by a run that fails
            await self.studio.in_thread(settings, {**DEFAULTS, **options})
        job = await self.studio.start(kind, self.studio.find_data(options.pop("data")), options, **about)
        return answer_json(self.studio.view(job.id), 201)

    async def stop(self, request: Request) -> Response:
        """Stop a run; the best policy so far is kept."""
        job = self.studio.find_job(request.path_params["id"])
        await self.studio.jobs.stop(job)
        return answer_json(self.studio.view(job.id))

    async def resume(self, request: Request) -> Response:
        """Go on with a run."""
        job = self.studio.find_job(request.path_params["id"])
        await self.studio.jobs.resume(job)
        return answer_json(self.studio.view(job.id))

    async def remove(self, request: Request) -> Response:
        """Remove a run."""
        await self.studio.remove(self.studio.find_job(request.path_params["id"]))
        return Response(status_code=204)

    async def sequences(self, request: Request) -> Response:
        """Tell the held-out sequences of a run and the range of its slider."""
        job = self.studio.find_job(request.path_params["id"])
        about = await self.studio.in_thread(self.studio.previews.describe, self.studio.folder(job))
        self.studio.warm(job)
        return answer_json(about)

    async def roll(self, request: Request) -> Response:
        """Roll a policy out, at its own smoothness or at another."""
        job = self.studio.find_job(request.path_params["id"])
        wanted = requests.read_request(await self._read_json(request), requests.Roll)
        curves = await self.studio.in_thread(
            self.studio.previews.curves, self.studio.folder(job), wanted["sequence"], wanted["smoothness"]
        )
        return Response(curves, media_type="application/octet-stream")

    async def court(self, request: Request) -> Response:
        """Play a held-out game."""
        job = self.studio.find_job(request.path_params["id"])
        data = self.studio.find_data(job.data)
        if data.kind != "games":
            raise RequestError(404, "there is no court to show: these data are no games")
        asked = {name: request.query_params.get(name) for name in ("sequence", "smoothness")}
        wanted = requests.read_request(asked, requests.Roll, strict=False)
        page = await self.studio.in_thread(
            self.studio.previews.court,
            self.studio.folder(job),
            self.studio.workspace.folder_of(data),
            wanted["sequence"],
            wanted["smoothness"],
        )
        return Response(page, media_type="text/html", headers={"content-security-policy": SANDBOX_POLICY})

    async def download(self, request: Request) -> Response:
        """Hand out a file of a run."""
        job = self.studio.find_job(request.path_params["id"])
        run, data, what = self.studio.folder(job), self.studio.data.get(job.data), request.path_params["what"]
        name = re.sub(r"[^\w.-]+", "-", job.name, flags=re.ASCII).strip("-.") or "run"
        if what in ("policy", "report"):
            file = run.path / (POLICY if what == "policy" else REPORT)
            if not file.is_file():
                raise RequestError(404, f"there is no {what} yet: it is written {_WHEN[what]}")
            content = await self.studio.in_thread(file.read_bytes)
            inline = what == "report" and request.query_params.get("inline") == "1"
        elif what in ("command", "python", "config"):
            command, script = write_commands(run, data)
            content = {"command": f"{command}\n", "python": script, "config": write_config(run, data)}[what].encode()
            inline = False
        else:
            raise RequestError(404, f"there is no {clean_name(what)!r} of a run")
        ending, media = _FILES[what]
        headers = {"content-security-policy": SANDBOX_POLICY} if what == "report" else {}
        if not inline:
            headers["content-disposition"] = f'attachment; filename="{name}{ending}"'
        return Response(content, media_type=media, headers=headers)


_WHEN = {"policy": "when the first round has ended", "report": "at the end of a run"}
_FILES = {
    "policy": (".safetensors", "application/octet-stream"),
    "report": (".html", "text/html"),
    "command": (".sh", "text/plain"),
    "python": (".py", "text/plain"),
    "config": (".toml", "text/plain"),
}
