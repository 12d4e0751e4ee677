"""The OpenAPI document of the service."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from derivdata.sources.service import legacy
from derivdata.sources.service.openapi.payloads import PAYLOADS
from derivdata.sources.service.openapi.schemas import TEXT, Schema
from derivdata.sources.service.query import LARGEST
from derivdata.tables import endpoints

__all__ = ["PLAIN", "document"]

PLAIN = ("/volume-oi-ratio",)
"""Paths whose 400 is plain text, as the hosted service has it."""

_VENUES = ("exchange", "exchanges")
_REFUSALS = {
    "400": "A parameter is missing, unreadable, or does not fit the others.",
    "401": "No key, or one that is not known.",
    "403": "The key's tier does not include this; `required_tier` names the one that does.",
    "404": "No such symbol, venue or outcome, or data that the source does not hold.",
    "410": "The path was retired.",
    "429": "Too many requests; `retry_after` seconds to wait.",
    "500": "Internal error.",
    "503": "The store cannot be read.",
}
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": TEXT,
        "docs": TEXT,
        "required_tier": TEXT,
        "message": TEXT,
        "retry_after": {"type": "number"},
    },
    "required": ["error"],
}
_INTEGERS = {"type": "integer", "minimum": 1, "maximum": LARGEST}
_KINDS: dict[endpoints.ParamKind, Schema] = {
    endpoints.ParamKind.TEXT: {"type": "string", "minLength": 1},
    endpoints.ParamKind.LIST: {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": "^[^,\\s]+$"},
    },
    endpoints.ParamKind.INTEGER: _INTEGERS,
    endpoints.ParamKind.NUMBER: {"type": "number"},
    endpoints.ParamKind.INSTANT: {"type": "string", "format": "date-time"},
    endpoints.ParamKind.MILLIS: {"type": "integer", "minimum": 0, "maximum": 9_999_999_999_999},
    endpoints.ParamKind.DAYS: {"type": "string", "pattern": "^[1-9][0-9]?d$"},
}


def document(exchanges: Collection[str], *, label: str, version: str) -> dict[str, Any]:
    """Return OpenAPI 3.1 of every endpoint.

    Parameters
    ----------
    exchanges
        Slugs that the service knows.
    label
        Name of the source.
    version
        Of the library.
    """
    return {
        "openapi": "3.1.0",
        "info": {"title": f"derivdata: {label}", "version": version, "description": _ABOUT},
        "security": [{"key": []}],
        "paths": {
            **{e.path: {"get": _operation(e, sorted(exchanges))} for e in endpoints.ENDPOINTS},
            **{path: {"get": _retired(path, sorted(exchanges))} for path in legacy.PATHS},
        },
        "components": {
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
            "schemas": {"Error": _ERROR},
        },
    }


_ABOUT = (
    "Crypto derivatives data, read-only. Section numbers and tiers are those of the API document. Paths "
    "under /local are not part of that document: this service alone answers them."
)
_OURS = " Not part of the API document: the hosted service does not answer it."


def _operation(endpoint: endpoints.Endpoint, exchanges: list[str]) -> dict[str, Any]:
    return {
        "summary": endpoint.doc,
        "operationId": endpoint.path.strip("/").replace("/", "_").replace("{", "").replace("}", ""),
        "tags": [endpoint.path.split("/")[1]],
        "description": f"Tier: {endpoint.tier.title()} and above.{_OURS if endpoint.local else ''}",
        "parameters": [_parameter(p, exchanges, endpoint.path) for p in endpoint.params],
        "responses": {
            "200": _answer("The data.", PAYLOADS[endpoint.path]),
            **{status: _refusal(endpoint.path, status, text) for status, text in _REFUSALS.items()},
        },
    }


def _retired(path: str, exchanges: list[str]) -> dict[str, Any]:
    """Describe an old path: the operation of its successor, whose symbol is the parameter ``coin``."""
    now = _operation(legacy.PATHS[path], exchanges)
    coin = {"name": "coin", "in": "query", "required": True, "schema": _KINDS[endpoints.ParamKind.TEXT]}
    others = [p for p in now["parameters"] if p["in"] != "path"]
    return now | {
        "summary": f"Retired on {legacy.SUNSET:%Y-%m-%d}: use {legacy.PATHS[path].path}",
        "operationId": path.strip("/").replace("/", "_"),
        "deprecated": True,
        "parameters": [coin, *others],
    }


def _parameter(p: endpoints.Param, exchanges: list[str], path: str) -> dict[str, Any]:
    schema = dict(_KINDS[p.kind])
    if p.choices:
        schema = {"type": "string", "enum": list(p.choices)}
    elif p.name in _VENUES and not path.startswith("/rwa"):
        venues = {"type": "string", "enum": exchanges}
        schema = {**schema, "items": venues} if p.kind is endpoints.ParamKind.LIST else venues
    if p.default is not None:
        schema["default"] = p.default
    where = "path" if p.in_path else "query"
    description = {
        "name": p.name,
        "in": where,
        "required": p.required,
        "description": p.doc,
        "schema": schema,
    }
    return description | ({"style": "form", "explode": False} if p.kind is endpoints.ParamKind.LIST else {})


def _refusal(path: str, status: str, text: str) -> dict[str, Any]:
    if status == "400" and path in PLAIN:
        return {"description": text, "content": {"text/plain": {"schema": TEXT}}}
    return _answer(text, {"$ref": "#/components/schemas/Error"})


def _answer(text: str, schema: Schema) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
