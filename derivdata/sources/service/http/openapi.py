"""The service described by itself: its OpenAPI document, and the endpoints as one page of HTML."""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from typing import Any

from derivdata.sources.service.http.openapi_payloads import PAYLOADS, TEXT, Schema
from derivdata.sources.service.http.query import LARGEST
from derivdata.support.text import html_page
from derivdata.tables import endpoints

PLAIN = ("/volume-oi-ratio",)
"""Paths whose 400 is plain text, as the hosted service has it."""

_VENUES = ("exchange", "exchanges")
_REFUSALS = {
    "400": "A parameter is missing, unreadable, or does not fit the others.",
    "401": "No key, or one that is not known.",
    "403": "The key's tier does not include this; `required_tier` names the one that does.",
    "404": "No such symbol, venue or outcome, or data that the source does not hold.",
    "429": "Too many requests; `retry_after` seconds to wait.",
    "500": "Internal error.",
    "503": "The store cannot be read, too many answers are unsent, or the service is ending.",
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
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h2{font:600 1rem ui-monospace,monospace;margin:2rem 0 .3rem}table{border-collapse:collapse;width:100%}"
    "td,th{border-bottom:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "code{font-family:ui-monospace,monospace}.tier{color:#777;font-weight:400}"
)
_ABOUT = (
    "Crypto derivatives data, read-only. Section numbers and tiers are those of the API document. Paths "
    "under /local are not part of that document: this service alone answers them."
)
_OURS = " Not part of the API document: the hosted service does not answer it."


def document(exchanges: Collection[str], *, label: str, version: str) -> dict[str, Any]:
    """Return OpenAPI 3.1 of every endpoint; `exchanges` are the slugs that the service knows."""
    return {
        "openapi": "3.1.0",
        "info": {"title": f"derivdata: {label}", "version": version, "description": _ABOUT},
        "security": [{"key": []}],
        "paths": {e.path: {"get": _operation(e, sorted(exchanges))} for e in endpoints.ENDPOINTS},
        "components": {
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
            "schemas": {"Error": _ERROR},
        },
    }


def page(label: str) -> str:
    """Return every endpoint with its tier and parameters as HTML."""
    title = f"derivdata: {label}"
    parts = "".join(map(_section, endpoints.ENDPOINTS))
    body = (
        f"<h1>{escape(title)}</h1>"
        "<p>Every request carries a key in the header <code>X-Api-Key</code>. The same as "
        '<a href="/openapi.json">OpenAPI</a>.</p>'
        f"{parts}"
    )
    return html_page(title, body, style=_STYLE, policy="default-src 'none'; style-src 'unsafe-inline'")


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


def _section(endpoint: endpoints.Endpoint) -> str:
    rows = "".join(map(_row, endpoint.params))
    head = "<tr><th>parameter</th><th>kind</th><th>default</th><th>meaning</th></tr>"
    table = f"<table>{head}{rows}</table>" if rows else "<p>No parameters.</p>"
    tier = f'<span class="tier">{endpoint.tier.title()} and above</span>'
    return f"<h2>GET {escape(endpoint.path)} {tier}</h2><p>{escape(endpoint.doc)}</p>{table}"


def _row(p: endpoints.Param) -> str:
    kind = ", ".join(p.choices) if p.choices else str(p.kind)
    default = "required" if p.required else "" if p.default is None else str(p.default)
    cells = (f"<code>{escape(p.name)}</code>", escape(kind), escape(default), escape(p.doc))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
