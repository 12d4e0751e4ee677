"""The service as tools of the Model Context Protocol, over standard input and output: ``serve --mcp``.

Every endpoint is a tool, and a call is a request to the service that runs in this process, with the checks
and limits of HTTP. Six analyses are tools as well; they fetch their data from the same service.
Every tool is read-only, and its response has at most 32,000 characters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import derivdata
from derivdata.client import transport
from derivdata.errors import DerivdataError
from derivdata.sources.service.mcp import analyses
from derivdata.sources.service.server import start
from derivdata.support import times
from derivdata.support.text import did_you_mean, import_extra

LARGEST = 32_000
"""Maximum length of a tool's response in characters."""

_ROWS = (200, 100, 50, 25, 12, 6, 3, 2, 1, 0)
"""Rows to show at each end of a list; the largest number that fits is used."""
_LONGEST_TEXT = 2_000
_TIMES = ("timestamp", "hour", "date", "time")


def fitted(body: Any, advice: str) -> dict[str, Any]:
    """Return a response of at most `LARGEST` characters.

    ``data`` is the body. If it is too long, each long list is replaced by an object with its ``count`` and
    its ``first`` and ``last`` items, and each long object by an object with ``count`` and ``first``.
    ``truncated`` is true if anything was left out. ``window`` has the first and last time of all rows,
    including omitted rows. ``more`` explains how to request the rest.
    """
    response: dict[str, Any] = {"data": body, "truncated": False}
    window = _window(body)
    if window is not None:
        response["window"] = window
    if _size(response) <= LARGEST:
        return response
    response |= {"truncated": True, "more": advice}
    for rows in _ROWS:
        response["data"] = _shortened(body, rows)
        if _size(response) <= LARGEST:
            return response
    return {**response, "data": None}


def text_of(response: Mapping[str, Any]) -> str:
    """Return a response as the text that is counted and sent."""
    return json.dumps(response, ensure_ascii=False, allow_nan=False)


def _size(response: Mapping[str, Any]) -> int:
    return len(text_of(response))


def _shortened(value: Any, rows: int) -> Any:
    """Shorten lists and objects of data to at most twice `rows` items, and long texts."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
    if isinstance(value, Mapping):
        # Up to twelve names are the fields of a row; more are data, such as one field per symbol.
        most = max(2 * rows, 12)
        names = list(value)
        shown = {name: _shortened(value[name], rows) for name in names[:most]}
        return shown if len(names) <= most else {"count": len(names), "first": shown}
    if isinstance(value, Sequence):
        if len(value) <= 2 * rows:
            return [_shortened(item, rows) for item in value]
        first = [_shortened(item, rows) for item in value[:rows]]
        last = [_shortened(item, rows) for item in value[len(value) - rows :]]
        return {"count": len(value), "first": first, "last": last}
    return value


def _window(body: Any) -> dict[str, str] | None:
    """Return the first and last time in the rows of a body, or None if the rows have no times."""
    times = sorted(set(_row_times(body, in_list=False)))
    return {"start": times[0], "end": times[-1]} if times else None


def _row_times(value: Any, *, in_list: bool) -> list[str]:
    """Return the time of every row, that is, of every object in a list, at any depth."""
    if isinstance(value, Mapping):
        own = [value[name] for name in _TIMES if in_list and isinstance(value.get(name), str)]
        nested = [time for item in value.values() for time in _row_times(item, in_list=False)]
        return own[:1] + nested
    if isinstance(value, list):
        return [time for item in value for time in _row_times(item, in_list=True)]
    return []


_MOST_ARGUMENTS = 16_384
"""Maximum bytes of a tool's name and arguments: servers reject a longer request line."""
_HINT = (
    "Read-only data on crypto derivatives, documented under each tool. Rates are basis points of notional "
    "per 8 hours; longs pay shorts where they are positive. Tools named analysis_… return figures with "
    "units. A long response has the first and last rows, their count, and how to request the rest."
)


def serve_mcp(source: str, *, now: times.Instant | None = None, live: bool = False) -> None:
    """Serve the program that started this process until it closes standard input.

    Raises `ImportError` without the extra ``mcp``, else as `start`.
    """
    stdio = import_extra("mcp.server.stdio", "mcp", "serve --mcp")
    with contextlib.closing(start(source, now=now, live=live)) as local:
        transport.connect(local.url, api_key=local.api_key)
        server = mcp_server(local.url, local.api_key)

        async def run() -> None:
            async with stdio.stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())

        asyncio.run(run())


def mcp_server(url: str, key: str) -> Any:
    """Return a server of the protocol whose tools are the endpoints of a running service, and the analyses.

    The analyses use the source that this process is connected to.
    """
    lowlevel = import_extra("mcp.server.lowlevel", "mcp", "serve --mcp")
    tools = _Tools(url, key)
    return lowlevel.Server(
        "derivdata",
        version=derivdata.__version__,
        instructions=_HINT,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )


class _Tools:
    """The tools of a server, whose data comes from a running service."""

    def __init__(self, url: str, key: str) -> None:
        self._types = import_extra("mcp.types", "mcp", "serve --mcp")
        self._http = import_extra("httpx2", "mcp", "serve --mcp")
        self._url = url
        self._headers = {"X-Api-Key": key}

    async def list(self, _context: Any, _params: Any) -> Any:
        tools = [
            self._tool(
                name,
                f"{about['summary']} {about['description']}",
                {p["name"]: {**p["schema"], "description": p["description"]} for p in about["parameters"]},
                [p["name"] for p in about["parameters"] if p["required"]],
            )
            for name, (_path, about) in (await self._operations()).items()
        ]
        tools += [
            self._tool(name, tool.description, tool.arguments, tool.required)
            for name, tool in analyses.TOOLS.items()
        ]
        return self._types.ListToolsResult(tools=tools)

    def _tool(self, name: str, about: str, arguments: dict[str, Any], required: Sequence[str]) -> Any:
        schema = {
            "type": "object",
            "properties": arguments,
            "required": list(required),
            "additionalProperties": False,
        }
        hints = self._types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return self._types.Tool(name=name, description=about, input_schema=schema, annotations=hints)

    async def call(self, _context: Any, request: Any) -> Any:
        if (refusal := _unreadable(request.name, request.arguments or {})) is not None:
            return self._refused(refusal)
        operations = await self._operations()
        names = [*operations, *analyses.TOOLS]
        if request.name not in names:
            return self._refused(f"unknown tool {request.name!r}{did_you_mean(request.name, names)}")
        given = request.arguments or {}
        if request.name in analyses.TOOLS:
            return await self._analysis(request.name, given)
        path, about = operations[request.name]
        parameters = [p["name"] for p in about["parameters"]]
        if (refusal := _unknown(request.name, given, parameters)) is not None:
            return self._refused(refusal)
        response = await self._get(_address(path, about["parameters"], given))
        if response.status_code != 200:
            return self._refused(response.text)
        return self._fitted(response.json(), _advice(parameters))

    async def _analysis(self, name: str, given: Mapping[str, Any]) -> Any:
        tool = analyses.TOOLS[name]
        if (refusal := _unknown(name, given, list(tool.arguments))) is not None:
            return self._refused(refusal)
        missing = [argument for argument in tool.required if argument not in given]
        if missing:
            return self._refused(f"{name} requires {', '.join(missing)}")
        try:
            result = await asyncio.to_thread(analyses.run, name, given)
        except (DerivdataError, ValueError, TypeError) as error:
            return self._refused(f"{name}: {error}")
        return self._fitted(result, "request fewer rows with top, or a shorter window with since")

    async def _operations(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Map the name of each endpoint's tool to its path and OpenAPI description."""
        paths = (await self._get("/openapi.json")).json()["paths"]
        return {about["get"]["operationId"]: (path, about["get"]) for path, about in paths.items()}

    async def _get(self, address: str) -> Any:
        """Request an address of the service; a local service may take long, so no timeout is set."""
        client = self._http.AsyncClient(
            base_url=self._url, headers=self._headers, timeout=None, trust_env=False
        )
        async with client:
            return await client.get(address)

    def _fitted(self, body: Any, advice: str) -> Any:
        response = fitted(body, advice)
        content = [self._types.TextContent(type="text", text=text_of(response))]
        return self._types.CallToolResult(content=content, structured_content=response, is_error=False)

    def _refused(self, text: str) -> Any:
        content = [self._types.TextContent(type="text", text=text)]
        return self._types.CallToolResult(content=content, is_error=True)


def _unknown(tool: str, given: Mapping[str, Any], parameters: Sequence[str]) -> str | None:
    """Return an error text for an argument that a tool does not take; an endpoint would ignore it."""
    for name in given:
        if name not in parameters:
            return f"{tool}: unknown argument {name!r}{did_you_mean(name, parameters)}"
    return None


_NARROWER = {
    "symbol": "one symbol",
    "exchanges": "fewer exchanges",
    "exchange": "one exchange",
    "range": "a shorter range",
    "start": "a shorter window with start and end",
    "resolution": "a coarser resolution",
    "limit": "a smaller limit",
}


def _advice(parameters: Sequence[str]) -> str:
    """Return advice on how to request the omitted rows of a response."""
    ways = [words for name, words in _NARROWER.items() if name in parameters]
    if not ways:
        return "fetch the whole response with the library, dd.raw(path)"
    return f"request {', '.join(ways)}; or fetch the whole response with the library, dd.raw(path, …)"


def _unreadable(name: str, given: Mapping[str, Any]) -> str | None:
    """Return an error text if the arguments are not valid Unicode or too long, else None."""
    try:
        size = len(json.dumps([name, given], ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return "an argument has half of a surrogate pair: expected Unicode text"
    if size > _MOST_ARGUMENTS:
        return f"the arguments have {size:,} bytes: at most {_MOST_ARGUMENTS:,}; request fewer names at once"
    return None


def _address(path: str, parameters: list[dict[str, Any]], given: Mapping[str, Any]) -> str:
    """Return path and query of a call; the endpoint itself rejects missing parameters."""
    texts: dict[str, str] = {}
    for name, value in given.items():
        texts[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    for name in (p["name"] for p in parameters if p["in"] == "path"):
        path = path.replace(f"{{{name}}}", quote(texts.pop(name, ""), safe=""))
    return f"{path}?{urlencode(texts)}"
