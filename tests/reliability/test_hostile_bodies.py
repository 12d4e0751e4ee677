"""Hostile bodies: one typed error each, in little memory and bounded time."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.reliability.conftest import Measured
from tests.reliability.processes import finished
from tests.transport.server import ReceivedRequest, Reply, serving

MIB = 2**20
GZIP = {"Content-Encoding": "gzip"}
HEAD = b"HTTP/1.1 200 OK\r\nDate: Tue, 30 Jun 2026 12:00:30 GMT\r\n"


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, compressed, so that nothing comes of it for long."""
    handler.wfile.write(HEAD + b"Content-Encoding: gzip\r\n\r\n")
    with suppress(ConnectionError):
        for byte in gzip.compress(b'{"rate": 1.0}' * 1000):
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.05)


def flood(handler: BaseHTTPRequestHandler) -> None:
    """300 MiB as they are, of unstated length."""
    handler.wfile.write(HEAD + b"\r\n")
    with suppress(ConnectionError):
        for _ in range(300):
            handler.wfile.write(b" " * MIB)


def rate(text: str) -> Reply:
    return Reply(f'{{"rate": {text}}}'.encode())


BODIES = {
    "bomb of 300 MiB": Reply(gzip.compress(b" " * MIB) * 300, headers=GZIP),
    "bomb of two layers": Reply(gzip.compress(gzip.compress(b" " * MIB) * 300), headers=GZIP),
    "flood of 300 MiB": Reply(raw=flood),
    "drip": Reply(raw=drip),
    "deep arrays": Reply(b"[" * MIB),
    "deep objects": Reply(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "NaN": rate("NaN"),
    "-Infinity": rate("-Infinity"),
    "number beyond any float": rate("1e999"),
    "5,000 digits": rate("9" * 5000),
    "a million digits": rate("9" * MIB),
    "BOM": Reply(b'\xef\xbb\xbf{"rate": 1.0}'),
    "latin-1": Reply('{"rate": 1.0, "name": "é"}'.encode("latin-1")),
    "half a surrogate": Reply(b'{"rate": 1.0, "name": "\xed\xa0\x80"}'),
    "duplicate keys": Reply(b'{"rate": 1.0, "rate": 2.0}'),
    "duplicate keys deep inside": Reply(b'{"rate": 1.0, "list": [[{"a": {"x": 1, "y": 2, "x": 1}}]]}'),
    "two values": Reply(b'{"rate": 1.0}{"rate": 2.0}'),
    "nothing": Reply(b""),
    "zeros": Reply(bytes(1000)),
}

CLIENT = """
    import json, sys, time
    from pathlib import Path

    import msgspec
    import derivdata as dd
    from derivdata import errors
    from derivdata.client import transport
    from derivdata.tables.endpoints import FUNDING
    from derivdata.client.transport.settings import Limits, ConnectionSettings, Timing
    from derivdata.client.transport.connection import Connection
    from derivdata.client.transport.settings import site

    class Body(msgspec.Struct):
        rate: float

    def connect(name):
        limits = Limits(answer=0.5, tries=2) if name == "drip" else Limits()
        timing = Timing(sleep=lambda _: None)
        settings = ConnectionSettings(name, Path(sys.argv[2]), limits=limits, timing=timing)
        place = site(f"{sys.argv[1]}/{name.replace(' ', '_')}")
        transport.SESSION.connection = Connection(place, None, settings)

    def memory(what):
        line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(what))
        return int(line.split()[1]) / 1024

    connect("good")
    assert transport.get(FUNDING, {}, into=Body).body.rate == 1.0
    assert dd.raw("/funding") == {"rate": 1.0}
    before = memory("VmRSS")
    for name in json.loads(sys.argv[3]):
        connect(name)
        said = []
        for ask in (lambda: transport.get(FUNDING, {}, into=Body), lambda: dd.raw("/funding")):
            try:
                ask()
                said.append("none")
            except errors.DerivdataError as error:
                said.append(type(error).__name__ + str(error)[:200])
        extra = memory("VmHWM") - before
        print(json.dumps([name, said, extra]), flush=True)
"""


def answered(request: ReceivedRequest) -> Reply:
    name = request.path.split("/")[1].replace("_", " ")
    return Reply(b'{"rate": 1.0}') if name == "good" else BODIES[name]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_hostile_bodies_raise_typed_errors_in_little_memory(tmp_path: Path, measured: Measured) -> None:
    with serving(answered) as server:
        said = finished(CLIENT, server.url, tmp_path, json.dumps(list(BODIES)))
    results = [json.loads(line) for line in said.splitlines()]
    assert [name for name, *_ in results] == list(BODIES)
    for name, said, extra in results:
        for item in said:
            assert item.startswith(("SchemaError", "NetworkError")), (name, said)
            assert "/funding: " in item, (name, said)
        assert extra < 64, name
    most = max(extra for _, _, extra in results)
    measured(
        "hostile bodies", f"{len(results)} bodies: each a typed error, at most {most:.0f} MiB of extra memory"
    )
