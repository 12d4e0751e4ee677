"""The key is searched for wherever something is written, shown or sent, after every kind of failure."""

from __future__ import annotations

import pickle  # noqa: TID251 - what pickles of errors hold
import sys
import traceback
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import vcr

import derivdata as dd
from derivdata import errors
from derivdata.client.transport import SESSION
from derivdata.client.transport.cache import ResponseFiles
from derivdata.client.transport.connection import Connection
from tests.reliability.conftest import Measured
from tests.support.cassettes import SETTINGS
from tests.transport.conftest import KEY, Open
from tests.transport.server import ReceivedRequest, Reply, serving
from tests.transport.test_faults import CUT, RESET

TLS = Path(__file__).resolve().parents[1] / "transport" / "tls.pem"
GOOD = Reply.json({"notices": ["all is well"], "list": list(range(100))})
ECHO = {"error": f"unknown key {KEY}", "message": f"X-Api-Key: {KEY}"}
FAILURES = {
    "the key in an error": Reply.json(ECHO, status=401, headers={"Warning": f'299 - "{KEY}"'}),
    "the key in a text": Reply(f"bad request by {KEY}".encode(), status=400, kind="text/plain"),
    "the key in an answer": Reply.json(ECHO),
    "500": Reply.json({}, status=500),
    "reset": RESET,
    "cut": CUT,
    "page": Reply(b"<html>"),
}


class Scene:
    """A connection with a key, a good response, a failing one, and one that fails at another host."""

    def __init__(self, connection: Connection, folder: Path, other: list[ReceivedRequest]) -> None:
        self.connection, self.folder, self.other = connection, folder, other
        self.raised: list[BaseException] = []
        self.shown: list[Any] = []

    def play(self) -> None:
        """Send all requests with an active cassette, without and then with a bundle."""
        recorder = vcr.VCR(**SETTINGS | {"record_mode": "all"})
        with recorder.use_cassette(str(self.folder / "cassette.yaml")):
            self._ask()
            with dd.record(self.folder / "b.ddz") as tape:
                self._ask()
        self.shown += [tape, dd.cache_info(), self.connection]

    def _ask(self) -> None:
        for path in ("/good", "/fails", "/elsewhere"):
            try:
                dd.raw(path)
            except (errors.DerivdataError, ValueError) as error:
                self.raised.append(error)

    def written(self) -> Iterator[bytes]:
        """The bytes of everything in the cache, packed and unpacked."""
        for path in (self.folder / "cache").rglob("*.answer"):
            yield path.read_bytes()
            record = ResponseFiles(path.parents[1], path.parent.name).record(path.stem)
            assert record is not None
            yield record.body + repr(record.head).encode()

    def places(self, logged: str, printed: str) -> dict[str, bytes]:
        """Contents of each of the nine places."""
        verbose = [
            "".join(traceback.TracebackException.from_exception(e, capture_locals=True).format())
            for e in self.raised
        ]
        modules = [m for name, m in sys.modules.items() if name.startswith("derivdata.client.transport")]
        with zipfile.ZipFile(self.folder / "b.ddz") as bundle:
            members = [name.encode() + bundle.read(name) for name in bundle.namelist()]
        parts: dict[str, list[Any]] = {
            "cache": list(self.written()),
            "bundle": members,
            "cassette": [(self.folder / "cassette.yaml").read_bytes()],
            "logs": [logged],
            "repr": [[repr(e), repr(vars(e))] for e in self.raised]
            + [
                repr(vars(self.connection)),
                repr(vars(self.connection._network) if self.connection._network else {}),
                *map(vars, modules),
            ],
            "pickle": [pickle.dumps(e) for e in self.raised],
            "traceback": verbose,
            "notebook": [*(repr(s) + _html(s) for s in self.shown), printed, *map(str, self.raised)],
            "another host": [(a.path, a.headers) for a in self.other],
        }
        return {place: b"\n".join(map(_bytes, held)) for place, held in parts.items()}


def _bytes(thing: Any) -> bytes:
    return thing if isinstance(thing, bytes) else (thing if isinstance(thing, str) else repr(thing)).encode()


def _html(thing: Any) -> str:
    return str(thing._repr_html_()) if hasattr(thing, "_repr_html_") else ""


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_key_does_not_leak_into_nine_places(
    failure: Reply,
    open_connection: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    measured: Measured,
) -> None:
    caplog.set_level(1)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(TLS))
    with serving(lambda _: failure, tls=TLS) as other:
        away = Reply(b"", status=307, headers={"Location": f"{other.url}/there"})
        answers = {"/good": GOOD, "/fails": failure, "/elsewhere": away}
        with serving(lambda asked: answers.get(asked.path, GOOD), tls=TLS) as server:
            scene = Scene(open_connection(server.url), tmp_path, other.received)
            monkeypatch.setattr(SESSION, "connection", scene.connection)
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                scene.play()
            assert {a.headers.get("X-Api-Key") for a in server.received} == {KEY}, (
                "it was sent where it belongs"
            )
    # The cassette recorder logs requests before it applies its filters.
    logged = [r.getMessage() + repr(vars(r)) for r in caplog.records if not r.name.startswith("vcr")]
    places = scene.places("\n".join(logged), "".join(capfd.readouterr()))
    assert len(places) == 9
    assert all(places.values()), {place for place, held in places.items() if not held}
    assert other.received
    results = {place: held.count(KEY.encode()) for place, held in places.items()}
    assert not any(results.values()), results
    measured("the key", "9 places after one kind of failure: 0 occurrences")
