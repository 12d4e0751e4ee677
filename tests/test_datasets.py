"""Recorded data sets: fetched once, refused where the bytes are others, read as tables in UTC."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import NetworkError
from derivdata.sources import datasets
from tests.support.shared import shared_path

MADE = b"""Symbol,Date,Funding Rate
BTC-USDT,2020-01-01 03:00:00,-0.00012359
BTC-USDT,2020-01-01 11:00:00,0.0002
"""
SET = f"""
[made]
table = "funding_settlements"
holds = "two payments"
units = "fraction"
licence = "MIT"
source = "https://example.org/made"
certain = "all"
url = "ADDRESS"
unit = "native"
map = {{ symbol = "Symbol", time = "Date", rate_bps_8h = "Funding Rate" }}
[[made.parts]]
tz = "UTC+3"
set = {{ exchange = "binance", interval_hours = "8" }}
files = [{{ path = "x/made.csv", bytes = {len(MADE)}, sha256 = "{sha256(MADE).hexdigest()}" }}]
"""


class Host(http.server.ThreadingHTTPServer):
    """Answers by the name of the file; `asked` are the paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        body = self.server.files.get(self.path.rpartition("/")[2])
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "cache"))
    with Host() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        known = datasets._registry() | msgspec.toml.decode(SET, type=dict[str, datasets._Dataset])
        moved = {name: msgspec.structs.replace(one, url=server.address) for name, one in known.items()}
        monkeypatch.setattr(datasets, "_registry", lambda: moved)
        yield server
        server.shutdown()


def test_a_set_is_fetched_once_and_read_as_a_table(host: Host) -> None:
    host.files["made.csv"] = MADE
    frame = dd.datasets.load("made")
    assert frame["rate_bps_8h"].tolist() == pytest.approx([-1.2359, 2.0], abs=1e-12)
    assert frame["time"].tolist() == list(pd.to_datetime(["2020-01-01T00:00Z", "2020-01-01T08:00Z"]))
    assert frame["symbol"].tolist() == ["BTC", "BTC"]
    said = dd.provenance(frame)
    assert (said["source"], said["synthetic"]) == ("made", False)
    assert said["attribution"] == "data: https://example.org/made; licence: MIT"
    host.files.clear()
    pd.testing.assert_frame_equal(dd.datasets.load("made"), frame)
    assert host.asked == ["/x/made.csv"]


@pytest.mark.parametrize("body", [MADE[:-1], MADE.replace(b"0.0002", b"0.0003"), b"", None])
def test_other_bytes_are_refused_and_a_file_put_there_by_hand_is_taken(
    host: Host, body: bytes | None
) -> None:
    host.files = {} if body is None else {"made.csv": body}
    what = "HTTP 404 from" if body is None else f"{len(body)} bytes came from"
    with pytest.raises(NetworkError, match=f"x/made.csv: {what} {host.address}x/made.csv") as caught:
        dd.datasets.load("made")
    path = Path(str(caught.value).rpartition("save the file by hand as ")[2])
    assert not path.exists()
    path.write_bytes(b"not it")
    with pytest.raises(NetworkError, match="try again, or save"):
        dd.datasets.load("made")
    path.write_bytes(MADE)
    asked = len(host.asked)
    assert len(dd.datasets.load("made")) == 2
    assert len(host.asked) == asked


def test_without_a_network_the_address_is_named(host: Host) -> None:
    host.shutdown()
    host.server_close()
    with pytest.raises(NetworkError, match=r"takes no connection; the address is http://127.*by hand as /"):
        dd.datasets.load("made")


def test_every_address_is_of_one_commit_and_every_set_has_a_licence() -> None:
    listed = dd.datasets.load()
    known = datasets._registry()
    assert list(listed.index) == list(known)
    assert listed["licence"].str.contains("MIT|Unlicense").all()
    assert (listed["bytes"] > 40_000).all()
    assert set(listed["table"]) <= set(dd.tables.TABLES)
    for one in known.values():
        repository = one.source.removeprefix("https://github.com/")
        pattern = rf"https://raw\.githubusercontent\.com/{repository}/[0-9a-f]{{40}}/data/"
        assert pd.Series([one.url]).str.fullmatch(pattern).all()
    with pytest.raises(
        ValueError, match=r"name='funding_2020': there are .*; did you mean 'funding_2020_2023'"
    ):
        dd.datasets.load("funding_2020")


@pytest.mark.parametrize(
    ("name", "rows", "first"),
    [
        ("funding_2020_2023", 78_664, {"symbol": "BTC", "rate_bps_8h": -1.2359, "interval_hours": 8.0}),
        ("funding_basis_2023_2024", 9_852, {"symbol": "BTC", "exchange": "binance"}),
        ("options_deribit_2025", 676, {"iv": 0.8733, "mark_coin": 0.13545041, "side": "call"}),
        ("liquidations_hyperliquid", 2_243, {"exchange": "hyperliquid", "status": "filled"}),
    ],
)
def test_the_recorded_files_are_those_of_the_list(
    host: Host, name: str, rows: int, first: dict[str, object]
) -> None:
    files = [f for part in datasets._registry()[name].parts for f in part.files]
    recorded = {
        Path(f.path).name: shared_path(f"data/{name}/{Path(f.path).name}").read_bytes() for f in files
    }
    assert [len(recorded[Path(f.path).name]) for f in files] == [f.bytes for f in files]
    host.files = recorded
    frame = dd.datasets.load(name)
    assert len(frame) == rows
    assert len(host.asked) == len(files)
    table = dd.datasets.load().loc[name, "table"]
    pd.testing.assert_frame_equal(frame, dd.tables.TABLES[table].conform(frame))
    for column, value in first.items():
        assert frame[column].iloc[0] == (pytest.approx(value) if isinstance(value, float) else value)
