"""What the HTTP part takes and answers, and its OpenAPI document.

The document is made for the policy at work, so that it says how wide a context is; its schemas are those of the
structs below, which are also what is sent.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from simile.serving.messages import NAME, By, CloseAnswer, Count

JSON, TEXT = "application/json", "text/plain"
REFERENCE = "#/components/schemas/{name}"
LARGEST_NUMBER = 1e30  # of what a roll-out is asked for; a policy computes in single precision
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
    digest: str
    drift: Literal["known", "unknown"]


class StreamFacts(Struct, forbid_unknown_fields=True):
    """What may be told of a stream."""

    name: str
    frames: Count
    dropped: Count
    late: Count
    by: By | None


class StreamList(Struct, forbid_unknown_fields=True):
    """The streams that live."""

    streams: list[StreamFacts]


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
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _describe_paths(n_contexts: int, n_actions: int, *, token: bool) -> dict[str, Any]:
    def operation(name: str, summary: str, answers: dict[str, Any], *, free: bool = False, **more: Any) -> Any:
        if token and free:
            more = {**more, "security": []}
        elif token:
            answers = {**answers, "401": _error("the token is missing or wrong")}
        return {"operationId": name, "summary": summary, "responses": answers, **more}

    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    }
    health = {"200": _answer("it is well", Health), "503": _answer("it is ending, or full", Health)}
    return {
        "/health": {"get": operation("health", "Whether the service lives", health, free=True)},
        "/ready": {"get": operation("ready", "Whether it takes new streams", health, free=True)},
        "/metrics": {
            "get": operation(
                "metrics",
                "Prometheus metrics",
                {"200": {"description": "text of Prometheus", "content": {TEXT: {"schema": {"type": "string"}}}}},
            )
        },
        "/openapi.json": {"get": operation("openapi", "This document", {"200": _answer("the document", None)})},
        "/policy": {
            "get": operation("policy", "What the policy at work is", {"200": _answer("the policy", PolicyFacts)})
        },
        "/rollouts": {
            "post": operation(
                "rollOut",
                "Roll the policy out over contexts; no stream is touched, and no actuator's limits apply",
                {
                    "200": _answer("the actions, one row per context", Actions),
                    "400": _error("the contexts or the start cannot be used"),
                    "409": _error("the policy diverges on them"),
                    "413": _error("the request is too large"),
                    "503": _error("the service is ending"),
                },
                requestBody={"required": True, "content": {JSON: {"schema": _describe_rollout(n_contexts, n_actions)}}},
            )
        },
        "/streams": {"get": operation("streams", "The streams there are", {"200": _answer("the streams", StreamList)})},
        "/streams/{name}": {
            "delete": operation(
                "closeStream",
                "End a stream",
                {"200": _answer("it has ended", CloseAnswer), "404": _error("there is no such stream")},
                parameters=[name],
            )
        },
        "/reload": {
            "post": operation(
                "reload",
                "Read the policy file anew, and hand over to it without a jump",
                {
                    "200": _answer("the policy that is now at work", PolicyFacts),
                    "409": _error("the file cannot be used, and the policy that was at work goes on"),
                    "503": _error("the service is ending"),
                },
            )
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
    answers = (Actions, CloseAnswer, Error, Health, PolicyFacts, StreamList)
    found: dict[str, Any] = msgspec.json.schema_components(answers, ref_template=REFERENCE)[1]
    found["Actions"]["properties"]["actions"]["items"] |= {"minItems": n_actions, "maxItems": n_actions}
    return found


def _answer(description: str, kind: type[Struct] | None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"} if kind is None else {"$ref": REFERENCE.format(name=kind.__name__)}
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _error(description: str) -> dict[str, Any]:
    return _answer(description, Error)
