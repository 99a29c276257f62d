"""What the HTTP part takes and answers, and its OpenAPI document.

The document is made for the policy at work, so that it says how wide a context is; its schemas are those of the
structs below, which are also what is sent.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from simile.serving.messages import NAME, CloseAnswer, Count, StreamList

JSON, TEXT = "application/json", "text/plain"
Answers = dict[int, tuple[str, type]]  # by status: what it means, and what is sent
REFERENCE = "#/components/schemas/{name}"
LARGEST_NUMBER = 1e30  # of what a roll-out is asked for; a policy computes in single precision
LARGEST_REQUEST = 2 << 20  # bytes; reading more would keep the streams waiting
MOST_ROWS = 20_000  # of a roll-out: longer ones are for `simile rollout`


class Rollout(Struct, forbid_unknown_fields=True):
    """What a roll-out is asked for by."""

    contexts: list[list[float | None]]
    start: list[float] | None = None


class Actions(Struct, forbid_unknown_fields=True):
    """A roll-out."""

    actions: list[list[float]]


class Health(Struct, forbid_unknown_fields=True):
    """How the service is."""

    status: Literal["ok", "full", "draining"]
    streams: Count
    uptime: float  # seconds


class PolicyFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """What may be told of a policy to anybody."""

    contexts: list[str]
    actions: list[str]
    rate: float | None
    low: list[float | None]
    high: list[float | None]
    smoothness: Any
    hold: list[float] | None  # how far each action holds still, in its units
    stepping: list[bool] | None  # which of them step rather than glide
    offset: list[float] | None  # which share of the start each action keeps
    fade: list[float] | None  # what a frame leaves of it
    lead: int  # frames from the one that is answered to the one that the action is for
    digest: str
    drift: Literal["known", "unknown"]


class ShadowScore(Struct, forbid_unknown_fields=True):
    """How far a shadow was from what was done."""

    frames: Count
    squared_error: list[float] | None  # its mean, for each action; null without a frame


class ShadowFacts(Struct, forbid_unknown_fields=True):
    """What may be told of a candidate that acts beside the policy at work."""

    name: str
    digest: str | None
    frames: Count  # that it acted in
    skipped: Count
    failed: Count
    seconds: float  # of CPU
    operator: ShadowScore  # in the frames of operators
    policy: ShadowScore  # in those of the policy at work
    roughness: list[float] | None  # the mean square of second differences, for each action
    roughness_done: list[float] | None  # the same of what was done


class ShadowList(Struct, forbid_unknown_fields=True):
    """The candidates."""

    actions: list[str]
    shadows: list[ShadowFacts]


class Error(Struct, forbid_unknown_fields=True):
    """Why something was not done."""

    error: str


def build_document(n_contexts: int, n_actions: int, *, version: str, token: bool) -> dict[str, Any]:
    """Return the document.

    Parameters
    ----------
    n_contexts, n_actions : int
        m and k of the policy.
    version : str
        Of simile.
    token : bool
        Whether a token is asked for.
    """
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "simile serve",
            "version": version,
            "description": "A smooth controller as a service. Streams are WebSockets on a port of their own; this is "
            "for one-off roll-outs, health and metrics.",
        },
        "paths": _describe_paths(n_contexts, n_actions, token=token),
        "components": {"schemas": _describe_answers(n_actions)},
    }
    if token:
        found["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "query": {"type": "apiKey", "in": "query", "name": "token"},
        }
        found["security"] = [{"token": []}, {"query": []}]  # either of them
    return found


def _describe_paths(n_contexts: int, n_actions: int, *, token: bool) -> dict[str, Any]:
    def operation(name: str, summary: str, answers: Answers, *, free: bool = False, **more: Any) -> dict[str, Any]:
        if token and free:
            more["security"] = []
        elif token:
            answers = {**answers, 401: ("the token is missing or wrong", Error)}
        answers = {
            **answers,
            403: ("a web page asks, and its origin is not allowed", Error),
            421: ("the service does not go by what `Host` says", Error),
        }
        described = {str(status): _describe_answer(*answer) for status, answer in answers.items()}
        return {"operationId": name, "summary": summary, "responses": described, **more}

    def ask(name: str, summary: str, answers: Answers, *, free: bool = False) -> dict[str, Any]:
        """Describe GET, and HEAD, which is the same without the body."""
        get, head = (operation(n, summary, answers, free=free) for n in (name, f"{name}Head"))
        for answer in head["responses"].values():
            del answer["content"]
        return {"get": get, "head": head}

    health: Answers = {200: ("it is well", Health), 503: ("it is ending, or full", Health)}
    ending = ("the service is ending", Error)
    rollouts: Answers = {
        200: ("the actions, one row per context", Actions),
        400: ("the contexts or the start cannot be used", Error),
        409: ("the policy diverges on them", Error),
        408: ("the request did not come in time", Error),
        413: ("the request is too large", Error),
        503: ("the service is ending, or asked for too much at a time", Error),
    }
    reloads: Answers = {
        200: ("the policy that is now at work", PolicyFacts),
        409: ("the file cannot be used, and the policy that was at work goes on", Error),
        503: ending,
    }
    closing: Answers = {200: ("it has ended", CloseAnswer), 404: ("there is no such stream", Error)}
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    }
    body = {
        "required": True,
        "description": f"JSON, whatever its Content-Type says, of at most {LARGEST_REQUEST:,} bytes",
        "content": {JSON: {"schema": _describe_rollout(n_contexts, n_actions)}},
    }
    advice = "Roll the policy out over contexts; no stream is touched, and no actuator's limits apply"
    return {
        "/health": ask("health", "Whether the service lives", health, free=True),
        "/ready": ask("ready", "Whether it takes new streams", health, free=True),
        "/metrics": ask("metrics", "Prometheus metrics", {200: ("text of Prometheus", str)}),
        "/openapi.json": ask("openapi", "This document", {200: ("the document", dict)}),
        "/policy": ask("policy", "What the policy at work is", {200: ("the policy", PolicyFacts)}),
        "/rollouts": {"post": operation("rollOut", advice, rollouts, requestBody=body)},
        "/shadows": ask("shadows", "Candidates beside the policy at work", {200: ("the candidates", ShadowList)}),
        "/streams": ask("streams", "The streams there are", {200: ("the streams", StreamList)}),
        "/streams/{name}": {"delete": operation("closeStream", "End a stream", closing, parameters=[name])},
        "/reload": {
            "post": operation("reload", "Read the policy file anew, and hand over to it without a jump", reloads)
        },
    }


def _describe_rollout(n_contexts: int, n_actions: int) -> dict[str, Any]:
    """Return the schema of `Rollout`, with the limits that are checked in words of our own."""
    number: Any = Annotated[float, Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
    row: Any = Annotated[list[number | None], Meta(min_length=n_contexts or 1, max_length=n_contexts or None)]
    rows: Any = Annotated[list[row], Meta(min_length=1, max_length=MOST_ROWS)]
    start: Any = Annotated[list[number], Meta(min_length=n_actions, max_length=n_actions)]
    limited = msgspec.defstruct(
        "Rollout", [("contexts", rows), ("start", start | None, None)], forbid_unknown_fields=True
    )
    schemas: dict[str, dict[str, Any]] = msgspec.json.schema_components([limited], ref_template=REFERENCE)[1]
    return schemas["Rollout"]


def _describe_answers(n_actions: int) -> dict[str, Any]:
    """Return the schemas of all answers; those of actions say how many there are."""
    answers = (Actions, CloseAnswer, Error, Health, PolicyFacts, ShadowList, StreamList)
    found: dict[str, Any] = msgspec.json.schema_components(answers, ref_template=REFERENCE)[1]
    found["Actions"]["properties"]["actions"]["items"] |= {"minItems": n_actions, "maxItems": n_actions}
    return found


def _describe_answer(description: str, kind: type) -> dict[str, Any]:
    schema = msgspec.json.schema_components([kind], ref_template=REFERENCE)[0][0]
    return {"description": description, "content": {TEXT if kind is str else JSON: {"schema": schema}}}
