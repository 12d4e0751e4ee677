"""Any path of the API, undecoded except its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derivdata.client.transport.response import warn_deprecated
from derivdata.client.transport.session import SESSION, decode_body, request_of
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables.endpoints import Endpoint, Request, endpoint_of


@typed
def raw(path: str, **params: Any) -> Any:
    """Return the decoded JSON of any path of the API: what a table leaves out, or what has no table yet.

    Parameters
    ----------
    path
        ``"/funding"``, ``"/oi/BTC/timeseries"``.
    **params
        Query parameters; those that the API document names are written in its way, others are sent as
        text. Which values it takes is the service's to say.

    Raises
    ------
    ValueError, TypeError
        The path or a parameter makes no request.
    NotConnected, FetchError, SchemaError
        Nothing is connected; no usable answer came; it is not JSON.
    """
    if not path.startswith("/") or path.startswith("//") or any(c in path for c in "?#\\ "):
        raise ValueError(f"path={path!r} must start with one / and hold no query: pass parameters by name")
    endpoint = endpoint_of(path)
    request = _plain(path, params) if endpoint is None else _canonical(endpoint, path, params)
    response = SESSION.serve(request, endpoint, None)
    warn_deprecated(response)
    return decode_body(response, Any)


def _canonical(endpoint: Endpoint, path: str, params: Mapping[str, Any]) -> Request:
    """Return the canonical request, with what the document does not name next to it."""
    names = {p.name for p in endpoint.params}
    in_path = endpoint.values(path)
    twice = sorted(set(in_path) & set(params))
    if twice:
        raise ValueError(f"{twice[0]} is already in the path {path}: pass it once")
    named = {n: v for n, v in params.items() if n in names}
    documented = request_of(endpoint, {**in_path, **named}, strict=False)
    other = _plain(path, {n: v for n, v in params.items() if n not in names})
    return Request(documented.path, tuple(sorted((*documented.query, *other.query))))


def _plain(path: str, params: Mapping[str, Any]) -> Request:
    query = {name: _text(name, value) for name, value in params.items() if value is not None}
    return Request(path, tuple(sorted(query.items())))


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(_text(name, item) for item in value)
    return times.iso(times.instant(value, name))
