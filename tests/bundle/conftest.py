"""A service whose responses a test can change, and its bundle's path."""

from __future__ import annotations

import json
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from derivdata.client import transport
from tests.transport.server import NOON, ReceivedRequest, Reply, Server, serving

KEY = "k-90c1d7-not-a-real-one"


@dataclass
class Service:
    """Funding history by the document, from numbers that a test may change."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {"BTC": [1.0, 2.0], "ETH": [3.0, 4.0]})
    date: pd.Timestamp = NOON
    extra: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    server: Server | None = None

    def __call__(self, request: ReceivedRequest) -> Reply:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path != "/funding/historical":
            return Reply.json({"path": request.path, **self.extra}, date=self.date, headers=self.headers)
        if query["symbol"] not in self.rates:
            return Reply.json({"error": "no such symbol"}, status=404, date=self.date)
        hours = pd.date_range(query["start"], periods=2, freq="h").strftime("%Y-%m-%dT%H:%M:%SZ")
        points = [{"timestamp": t, "y": y} for t, y in zip(hours, self.rates[query["symbol"]], strict=True)]
        body = {"symbol": query["symbol"], "unit": "bps_8h", "resolution": "1h", "series": {"okx": points}}
        return Reply.json({**body, "notices": [], **self.extra}, date=self.date, headers=self.headers)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("derivdata.client.transport.settings.Pace.wait", lambda *_: None)
    made = Service()
    with serving(made) as server:
        made.server = server
        transport.connect(server.url, api_key=KEY, cache="off")
        yield made
        transport.disconnect()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "carry.ddz"


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every socket, connection and look-up is an error."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def text_of(path: Path, name: str) -> Any:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(name))
