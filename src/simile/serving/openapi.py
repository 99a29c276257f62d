"""The OpenAPI document of the HTTP part: made for the policy at work, so that it says how wide a context is."""

from __future__ import annotations

from typing import Any

JSON, TEXT = "application/json", "text/plain"
LARGEST_NUMBER = 1e30  # of what a roll-out is asked for; a policy computes in single precision
MOST_ROWS = 20_000  # of a roll-out: longer ones are for `simile rollout`
STREAM_NAME = "^[A-Za-z0-9._-]{1,64}$"


def document(n_contexts: int, n_actions: int, *, version: str, token: bool) -> dict[str, Any]:
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
        "paths": _paths(n_contexts, n_actions, token=token),
        "components": {"schemas": _schemas(n_actions)},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _paths(n_contexts: int, n_actions: int, *, token: bool) -> dict[str, Any]:
    refused = {"401": _error("the token is missing or wrong")} if token else {}

    def operation(name: str, summary: str, answers: dict[str, Any], *, free: bool = False, **more: Any) -> Any:
        extra: dict[str, Any] = {"security": []} if free and token else {}
        return {
            "operationId": name,
            "summary": summary,
            "responses": {**answers, **({} if free else refused)},
            **extra,
            **more,
        }

    name_parameter = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": STREAM_NAME},
    }
    health = {"200": _answer("it is well", "Health"), "503": _answer("it is ending, or full", "Health")}
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
        "/policy": {"get": operation("policy", "What the policy at work is", {"200": _answer("the policy", "Policy")})},
        "/rollouts": {
            "post": operation(
                "rollOut",
                "Roll the policy out over contexts; no stream is touched, and no actuator's limits apply",
                {
                    "200": _answer("the actions, one row per context", "Actions"),
                    "400": _error("the contexts or the start cannot be used"),
                    "409": _error("the policy diverges on them"),
                    "413": _error("the request is too large"),
                    "503": _error("the service is ending"),
                },
                requestBody={
                    "required": True,
                    "content": {JSON: {"schema": _rollout(n_contexts, n_actions)}},
                },
            )
        },
        "/streams": {"get": operation("streams", "The streams there are", {"200": _answer("the streams", "Streams")})},
        "/streams/{name}": {
            "delete": operation(
                "closeStream",
                "End a stream",
                {"200": _answer("it has ended", "Closed"), "404": _error("there is no such stream")},
                parameters=[name_parameter],
            )
        },
        "/reload": {
            "post": operation(
                "reload",
                "Read the policy file anew, and hand over to it without a jump",
                {
                    "200": _answer("the policy that is now at work", "Policy"),
                    "409": _error("the file cannot be used, and the policy that was at work goes on"),
                    "503": _error("the service is ending"),
                },
            )
        },
    }


def _rollout(n_contexts: int, n_actions: int) -> dict[str, Any]:
    number = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
    value = {"anyOf": [number, {"type": "null"}]}
    width = {"minItems": n_contexts, "maxItems": n_contexts} if n_contexts else {"minItems": 1}
    return {
        "type": "object",
        "required": ["contexts"],
        "additionalProperties": False,
        "properties": {
            "contexts": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_ROWS,
                "items": {"type": "array", "items": value, **width},
            },
            "start": {"type": "array", "minItems": n_actions, "maxItems": n_actions, "items": number},
        },
    }


def _schemas(n_actions: int) -> dict[str, Any]:
    action = {"type": "array", "items": {"type": "number"}, "minItems": n_actions, "maxItems": n_actions}
    count = {"type": "integer", "minimum": 0}
    names = {"type": "array", "items": {"type": "string"}}
    bounds = {"type": "array", "items": {"type": ["number", "null"]}}
    return {
        "Error": _object({"error": {"type": "string"}}),
        "Health": _object(
            {"status": {"enum": ["ok", "full", "draining"]}, "streams": count, "uptime": {"type": "number"}}
        ),
        "Actions": _object({"actions": {"type": "array", "items": action}}),
        "Closed": _object({"closed": _object({"frames": count, "dropped": count})}),
        "Policy": _object(
            {
                "contexts": names,
                "actions": names,
                "rate": {"type": ["number", "null"]},
                "low": bounds,
                "high": bounds,
                "smoothness": {},
                "digest": {"type": "string"},
                "drift": {"enum": ["known", "unknown"]},
            }
        ),
        "Streams": _object(
            {
                "streams": {
                    "type": "array",
                    "items": _object(
                        {
                            "name": {"type": "string"},
                            "frames": count,
                            "dropped": count,
                            "late": count,
                            "by": {"enum": ["policy", "gap", "operator", None]},
                        }
                    ),
                }
            }
        ),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _answer(description: str, schema: str | None) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object"} if schema is None else {"$ref": f"#/components/schemas/{schema}"}
    return {"description": description, "content": {JSON: {"schema": shape}}}


def _error(description: str) -> dict[str, Any]:
    return _answer(description, "Error")
