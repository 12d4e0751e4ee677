"""The local service with faults on demand, to test what stands between a service and its user.

A request says what shall go wrong with it, in the query (``?fault=503``) or before its path, which holds
for all that is asked of one base address (``http://127.0.0.1:8080/fault:503``). Items parted by ``;`` are
for one try after the other, the last for all that follow: ``503;reset;ok`` is well from the third try on.

====================== =================================================================================
``ok``                 the answer as it is
``503``, ``429=2``     that status; ``Retry-After: 2``
``html``, ``html=502`` a page instead of JSON, with status 200 or another
``garbled``            a body that is said to be compressed and is not
``reset=100``          the connection is reset after so many bytes of the body; ``reset``: at once
``cut=100``            the connection ends after so many bytes of the body, whose length was announced
``open=100``           the same without a length
``chunk=100``          the same in chunks
``silent=2``           nothing for so many seconds, then the end
``drip=0.1``           one byte of the body each so many seconds
``any=0.3:7``          with chance 0.3 one of `PASSING`, drawn from the seed 7, the address and the try
====================== =================================================================================
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from derivdata.sources import sample, service

PASSING = (
    "500", "html=502", "503", "504", "429=0.01", "429=soon", "reset", "reset=20", "cut=20", "open=20",
    "chunk=20", "garbled", "silent=1.5", "drip=0.1",
)  # fmt: skip
"""Faults that the next try may find gone."""

_PREFIX = "/fault:"
_PAGE = b"<html><body>Please log in</body></html>"
_NO_LINGER = struct.pack("ii", 1, 0)


class FaultProtocol(H11Protocol):
    """uvicorn's HTTP protocol, by which an application gets at the connection of its request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the connection where every request on it finds it."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


@dataclass(frozen=True)
class _Answer:
    """What is sent; `target` is the path and query that were asked for, without their fault."""

    target: str
    status: int
    headers: MutableHeaders
    body: bytes

    def instead(self, body: bytes, status: int = 200, **headers: str) -> _Answer:
        """Another answer, of the same time and source."""
        kept = MutableHeaders({name: v for name, v in self.headers.items() if name not in _OF_THE_BODY})
        kept.update({name.replace("_", "-"): value for name, value in headers.items()})
        kept["content-length"] = str(len(body))
        return _Answer(self.target, status, kept, body)


_OF_THE_BODY = ("content-length", "content-encoding", "content-type")


class Faults:
    """An application whose answers go wrong in the way that each request asks for.

    Parameters
    ----------
    app
        The application underneath.

    Notes
    -----
    To be served by `FaultProtocol`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tries: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        plan, scope = _asked(scope)
        target = f"{scope['path']}?{scope['query_string'].decode('latin-1')}"
        self._tries[plan, target] += 1
        name, value = _item(plan, target, self._tries[plan, target])
        if name == "ok":
            await self._app(scope, receive, send)
            return
        answer = await _answered(self._app, scope, receive, target)
        if name in _BROKEN:
            await _BROKEN[name](scope["state"]["transport"], answer, value)
            await _gone(receive)
        else:
            await _sent(_INSTEAD[name](answer, value), send)


@contextmanager
def serve(keys: Mapping[str, str]) -> Iterator[str]:
    """Serve the sample with faults on demand in a thread; give its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = Faults(service.app(sample.open(), keys=keys, limits=False))
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "none", "lifespan": "off"}
    server = uvicorn.Server(
        uvicorn.Config(
            app, loop="asyncio", http=FaultProtocol, date_header=False, timeout_graceful_shutdown=1, **quiet
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield "http://{}:{}".format(*listener.getsockname())
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def drawn(share: float, seed: str, target: str, tried: int) -> str:
    """The fault of one try for one path and query: the same whenever the arguments are."""
    chance = random.Random(f"{seed} {target} {tried}")
    return chance.choice(PASSING) if chance.random() < share else "ok"


def _asked(scope: Scope) -> tuple[str, Scope]:
    """The plan that a request carries, and the request without it."""
    path: str = scope["raw_path"].decode("ascii")
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    plan = next((value for name, value in pairs if name == "fault"), "ok")
    if path.startswith(_PREFIX):
        plan, _, rest = path.removeprefix(_PREFIX).partition("/")
        plan, path = unquote(plan), f"/{rest}"
    query = urlencode([(name, value) for name, value in pairs if name != "fault"]).encode()
    return plan, {**scope, "path": unquote(path), "raw_path": path.encode(), "query_string": query}


def _item(plan: str, target: str, tried: int) -> tuple[str, str]:
    items = plan.split(";")
    name, _, value = items[min(tried, len(items)) - 1].partition("=")
    if name == "any":
        share, _, seed = value.partition(":")
        name, _, value = drawn(float(share), seed, target, tried).partition("=")
    return ("status", f"{name}={value}") if name.isdecimal() else (name, value)


async def _answered(app: ASGIApp, scope: Scope, receive: Receive, target: str) -> _Answer:
    """What the application answers, kept back."""
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, keep)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    body = b"" if scope["method"] == "HEAD" else body
    return _Answer(target, sent[0]["status"], MutableHeaders(raw=list(sent[0]["headers"])), body)


async def _sent(answer: _Answer, send: Send) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers.raw})
    await send({"type": "http.response.body", "body": answer.body})


async def _gone(receive: Receive) -> None:
    """Wait until the connection is over: only then does uvicorn take the answer for done."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _status(answer: _Answer, value: str) -> _Answer:
    status, _, after = value.partition("=")
    body = json.dumps({"error": f"a fault that was asked for: {status}"}).encode()
    wait = {"retry_after": after} if after else {}
    return answer.instead(body, int(status), content_type="application/json", **wait)


def _page(answer: _Answer, value: str) -> _Answer:
    return answer.instead(_PAGE, int(value or 200), content_type="text/html")


def _garbled(answer: _Answer, _: str) -> _Answer:
    return answer.instead(b"no gzip", content_encoding="gzip", content_type="application/json")


_INSTEAD: dict[str, Callable[[_Answer, str], _Answer]] = {
    "status": _status,
    "html": _page,
    "garbled": _garbled,
}


def _head(answer: _Answer, **framing: str) -> bytes:
    """The status line and headers; `framing` takes the place of the length."""
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items() if name != "content-length"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in framing.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _part(answer: _Answer, value: str) -> bytes:
    """The first bytes of a body, never all of them."""
    return answer.body[: min(int(value), len(answer.body) - 1)]


async def _reset(transport: Any, answer: _Answer, value: str) -> None:
    if value:
        transport.write(_head(answer, content_length=str(len(answer.body))) + _part(answer, value))
        await asyncio.sleep(0.01)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


async def _cut(transport: Any, answer: _Answer, value: str) -> None:
    transport.write(_head(answer, content_length=str(len(answer.body))) + _part(answer, value))
    transport.close()


async def _open(transport: Any, answer: _Answer, value: str) -> None:
    transport.write(_head(answer, connection="close") + _part(answer, value))
    transport.close()


async def _chunk(transport: Any, answer: _Answer, value: str) -> None:
    announced = f"{len(answer.body):x}\r\n".encode()
    transport.write(_head(answer, transfer_encoding="chunked") + announced + _part(answer, value))
    transport.close()


async def _silent(transport: Any, _: _Answer, value: str) -> None:
    await asyncio.sleep(float(value))
    transport.abort()


async def _drip(transport: Any, answer: _Answer, value: str) -> None:
    transport.write(_head(answer, content_length=str(len(answer.body))))
    for byte in answer.body:
        if transport.is_closing():
            break
        transport.write(bytes([byte]))
        await asyncio.sleep(float(value))
    transport.close()


_BROKEN: dict[str, Callable[[Any, _Answer, str], Awaitable[None]]] = {
    "reset": _reset,
    "cut": _cut,
    "open": _open,
    "chunk": _chunk,
    "silent": _silent,
    "drip": _drip,
}
