"""The HTTP part: health, metrics, one-off roll-outs, and a look at the streams."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simile import __version__
from simile._common.web import Bodies, Guard, GuardedApp, HeaderedApp, RequestError, answer_json, build_handlers
from simile.errors import DivergedError, SimileError
from simile.policies.rollouts import ColdStart, rollout
from simile.serving.guard import OPEN_PATHS
from simile.serving.messages import CloseAnswer
from simile.serving.openapi import LARGEST_NUMBER, LARGEST_REQUEST, MOST_ROWS, Actions, Health, Rollout, build_document

if TYPE_CHECKING:
    from simile.serving.state import ServerState

LARGEST_TOGETHER = 16 << 20  # bytes of all requests on their way in
MOST_ROLLOUTS = 16  # at a time, so that connections are left for those who ask for the service's health


def build_app(state: ServerState, guard: Guard) -> Starlette:
    """Build the application on what both ports share."""
    api = HttpApi(state, token=guard.token is not None)
    pages = [Middleware(CORSMiddleware, allow_origins=sorted(guard.origins), allow_methods=["*"], allow_headers=["*"])]
    return Starlette(
        routes=[
            Route("/health", api.health, methods=["GET"]),
            Route("/ready", api.ready, methods=["GET"]),
            Route("/metrics", api.metrics, methods=["GET"]),
            Route("/openapi.json", api.openapi, methods=["GET"]),
            Route("/policy", api.policy, methods=["GET"]),
            Route("/rollouts", api.roll_out, methods=["POST"]),
            Route("/shadows", api.shadows, methods=["GET"]),
            Route("/streams", api.streams, methods=["GET"]),
            Route("/streams/{name}", api.close, methods=["DELETE"]),
            Route("/reload", api.reload, methods=["POST"]),
        ],
        middleware=[
            Middleware(HeaderedApp),
            *(pages if guard.origins else []),
            Middleware(GuardedApp, guard=guard, open_paths=OPEN_PATHS),
        ],
        exception_handlers=build_handlers("service"),
    )


class HttpApi:
    """The answers to requests."""

    def __init__(self, state: ServerState, *, token: bool) -> None:
        self.state = state
        self.token = token
        self.one_at_a_time = asyncio.Lock()  # roll-outs beside each other would take the streams' processor
        self.rolling_out = 0  # one of them, while the others wait
        self.bodies = Bodies(LARGEST_TOGETHER, state.options.patience)

    async def health(self, _: Request) -> Response:
        """Say whether the service lives."""
        return self._answer_health("draining" if self.state.draining else "ok")

    async def ready(self, _: Request) -> Response:
        """Say whether it takes new streams."""
        return self._answer_health("draining" if self.state.draining else "full" if self.state.is_full else "ok")

    def _answer_health(self, status: Literal["ok", "full", "draining"]) -> Response:
        health = Health(status, len(self.state.service.streams), round(self.state.uptime, 3))
        return answer_json(health, 200 if status == "ok" else 503)

    async def metrics(self, _: Request) -> Response:
        """Show the numbers to Prometheus."""
        return Response(self.state.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, _: Request) -> Response:
        """Show what can be asked."""
        return answer_json(self.document)

    @cached_property
    def document(self) -> dict[str, Any]:
        """What can be asked; building it takes many times as long as a frame, and no policy can change it."""
        n_actions = self.state.policy.n_actions
        return build_document(self.state.n_contexts, n_actions, version=__version__, token=self.token)

    async def policy(self, _: Request) -> Response:
        """Show what the policy at work is."""
        return answer_json(self.state.facts)

    async def shadows(self, _: Request) -> Response:
        """Show how the candidates do."""
        return answer_json(self.state.describe_shadows())

    async def streams(self, _: Request) -> Response:
        """List the streams."""
        return answer_json(self.state.describe_streams())

    async def close(self, request: Request) -> Response:
        """End a stream."""
        closed = self.state.close(request.path_params["name"])
        if closed is None:
            raise RequestError(404, "there is no stream of this name: GET /streams lists them")
        return answer_json(CloseAnswer(closed))

    async def reload(self, _: Request) -> Response:
        """Read the policy file anew."""
        self._check_open()
        if trouble := await self.state.reload():
            raise RequestError(409, trouble)
        return answer_json(self.state.facts)

    async def roll_out(self, request: Request) -> Response:
        """Roll the policy out, in a thread."""
        self._check_open()
        sent = await self.bodies.read(
            request, LARGEST_REQUEST, f"the request is larger than {LARGEST_REQUEST:,} bytes: ask in parts"
        )
        if self.rolling_out >= MOST_ROLLOUTS:
            raise RequestError(503, f"{MOST_ROLLOUTS} roll-outs are asked for already: ask again in a while")
        self.rolling_out += 1
        try:
            async with self.one_at_a_time:
                body = await asyncio.to_thread(_roll_out, self.state.policy, sent, self.state.n_contexts)
        finally:
            self.rolling_out -= 1
        return Response(body, media_type="application/json")

    def _check_open(self) -> None:
        if self.state.draining:
            raise RequestError(503, "the service is ending: ask another, or wait for its next start")


def _read(body: bytes) -> Rollout:
    try:
        asked = msgspec.json.decode(body, type=Rollout)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, f"the request cannot be read: {str(error)[:200]}") from None
    if not 1 <= len(asked.contexts) <= MOST_ROWS:
        raise RequestError(
            400, f"contexts must have 1 to {MOST_ROWS:,} rows; got {len(asked.contexts):,}: ask in parts"
        )
    return asked


def _roll_out(policy: Any, sent: bytes, n_contexts: int) -> bytes:
    """Return the answer to a roll-out, both as JSON."""
    asked = _read(sent)
    wanted = n_contexts or len(asked.contexts[0])
    for i, row in enumerate(asked.contexts):
        if len(row) != wanted or not row:
            raise RequestError(400, f"contexts[{i}] must have {wanted} values; got {len(row)}")
    if asked.start is not None and len(asked.start) != policy.n_actions:
        raise RequestError(400, f"start must have {policy.n_actions} values; got {len(asked.start)}")
    X = np.array(asked.contexts, dtype=np.float64)
    names, preparation = policy.card.action_names, policy.card.preparation
    start = ColdStart() if asked.start is None else preparation.mend(np.array([asked.start]), names)[0]
    if np.nanmax(np.abs(X), initial=0.0) > LARGEST_NUMBER or max(map(abs, asked.start or [0.0])) > LARGEST_NUMBER:
        raise RequestError(400, f"contexts and start must be within {LARGEST_NUMBER:g} of 0: these are no measurements")
    try:
        actions = preparation.restore(rollout(policy, [X], start=start)[0], names)
    except DivergedError:
        raise RequestError(
            409, "the policy diverges on these contexts: start elsewhere, or train it with bounds"
        ) from None
    except SimileError as error:
        raise RequestError(400, str(error)) from None
    return msgspec.json.encode(Actions(actions.tolist()))
