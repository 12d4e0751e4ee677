"""The service as tools of the Model Context Protocol, over standard input and output: ``serve --mcp``.

Every endpoint is a tool, and a call is a request to the application in this process: what is answered,
refused and limited is what a client of HTTP gets. There is nothing to write: the service only answers GET.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from starlette.applications import Starlette

import derivdata
from derivdata.sources.service.application import app
from derivdata.sources.service.server import clock_of, open_store
from derivdata.support import times
from derivdata.support.extras import import_extra
from derivdata.support.text import did_you_mean
from derivdata.tables import endpoints

_LARGEST = 500_000
"""Characters of an answer; more would fill the context of the model that asks."""
_HINT = (
    "Read-only data on crypto derivatives, documented under each tool. Rates are basis points of notional "
    "per 8 hours, longs pay shorts where positive. Ask for one symbol, few venues and short windows."
)


def serve_mcp(source: str, *, now: times.Instant | None = None, live: bool = False) -> None:
    """Answer the program that started this process until it closes standard input.

    Raises `ImportError` without the extra ``mcp``, else as `start`.
    """
    stdio = import_extra("mcp.server.stdio", "mcp", "serve --mcp")
    store, key = open_store(source), secrets.token_hex(16)
    served = app(store, clock=clock_of(store, now, live=live), keys={key: endpoints.TIERS[-1]})
    server = mcp_server(served, key)

    async def run() -> None:
        async with stdio.stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(run())


def mcp_server(application: Starlette, key: str) -> Any:
    """Return a server of the protocol whose tools are the endpoints of an application."""
    lowlevel = import_extra("mcp.server.lowlevel", "mcp", "serve --mcp")
    tools = _Tools(application, key)
    return lowlevel.Server(
        "derivdata",
        version=derivdata.__version__,
        instructions=_HINT,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )


class _Tools:
    """What the protocol asks of tools, answered by an application."""

    def __init__(self, application: Starlette, key: str) -> None:
        self._types = import_extra("mcp.types", "mcp", "serve --mcp")
        http = import_extra("httpx2", "mcp", "serve --mcp")
        self._client = http.AsyncClient(
            transport=http.ASGITransport(application),
            base_url="http://localhost",
            headers={"X-Api-Key": key},
        )

    async def list(self, _context: Any, _params: Any) -> Any:
        tools = [
            self._types.Tool(
                name=name,
                description=f"{about['summary']} {about['description']}",
                input_schema={
                    "type": "object",
                    "properties": {
                        p["name"]: {**p["schema"], "description": p["description"]}
                        for p in about["parameters"]
                    },
                    "required": [p["name"] for p in about["parameters"] if p["required"]],
                    "additionalProperties": False,
                },
            )
            for name, (_path, about) in (await self._operations()).items()
        ]
        return self._types.ListToolsResult(tools=tools)

    async def call(self, _context: Any, asked: Any) -> Any:
        known = await self._operations()
        if asked.name not in known:
            return self._text(f"there is no tool {asked.name!r}{did_you_mean(asked.name, known)}", False)
        path, about = known[asked.name]
        given, names = asked.arguments or {}, [p["name"] for p in about["parameters"]]
        for name in given:
            if name not in names:  # which the endpoint would pass over
                return self._text(f"{asked.name} has no {name!r}{did_you_mean(name, names)}", False)
        answer = await self._client.get(_address(path, about["parameters"], given))
        if len(answer.text) > _LARGEST:
            size = f"the answer has {len(answer.text):,} characters, and {_LARGEST:,} are the most here"
            return self._text(f"{size}: ask for fewer symbols or venues, or a shorter window", False)
        return self._text(answer.text, answer.status_code == 200)

    async def _operations(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return path and description of each endpoint by the name of its tool."""
        paths = (await self._client.get("/openapi.json")).json()["paths"]
        return {about["get"]["operationId"]: (path, about["get"]) for path, about in paths.items()}

    def _text(self, text: str, good: bool) -> Any:
        content = [self._types.TextContent(type="text", text=text)]
        return self._types.CallToolResult(content=content, is_error=not good)


def _address(path: str, parameters: list[dict[str, Any]], given: Mapping[str, Any]) -> str:
    """Return the address of a call; what an endpoint lacks it refuses itself."""
    texts = {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in given.items()
    }
    for name in (p["name"] for p in parameters if p["in"] == "path"):
        path = path.replace(f"{{{name}}}", quote(texts.pop(name, ""), safe=""))
    return f"{path}?{urlencode(texts)}"
