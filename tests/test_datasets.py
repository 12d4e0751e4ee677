"""Recorded data sets: fetched once, rejected if the bytes differ, read as tables in UTC."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import threading
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import NetworkError
from derivdata.sources import datasets
from tests.support.shared import shared_path

pytestmark = pytest.mark.filterwarnings("ignore:.*all are called")

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
notices = ["all are called settled"]
url = "ADDRESS"
unit = "native"
map = {{ symbol = "Symbol", time = "Date", rate_bps_8h = "Funding Rate" }}
[[made.parts]]
tz = "UTC+3"
set = {{ exchange = "binance", interval_hours = "8" }}
files = [{{ path = "x/made.csv", bytes = {len(MADE)}, sha256 = "{sha256(MADE).hexdigest()}" }}]
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve a folder on this machine in place of every data set's address."""
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "cache"))
    served = tmp_path / "served"
    (served / "x").mkdir(parents=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = {"url": f"http://127.0.0.1:{server.server_address[1]}/"}
        known = datasets._registry() | tomllib.loads(SET)
        moved = {name: item | address for name, item in known.items()}
        monkeypatch.setattr(datasets, "_registry", lambda: moved)
        yield served
        server.shutdown()


def test_dataset_is_fetched_once_and_read_as_a_table(files: Path) -> None:
    (files / "x" / "made.csv").write_bytes(MADE)
    with pytest.warns(dd.errors.DataNotice, match="made: all are called settled"):
        frame = dd.datasets.load("made")
    assert frame["rate_bps_8h"].tolist() == pytest.approx([-1.2359, 2.0], abs=1e-12)
    assert frame["time"].tolist() == list(pd.to_datetime(["2020-01-01T00:00Z", "2020-01-01T08:00Z"]))
    assert frame["symbol"].tolist() == ["BTC", "BTC"]
    provenance = dd.provenance(frame)
    assert (provenance["source"], provenance["synthetic"]) == ("made", False)
    assert provenance["notices"] == ["all are called settled"]
    assert provenance["attribution"] == "data: https://example.org/made; licence: MIT"
    (files / "x" / "made.csv").unlink()
    pd.testing.assert_frame_equal(dd.datasets.load("made"), frame)


@pytest.mark.parametrize("body", [MADE[:-1], MADE.replace(b"0.0002", b"0.0003"), b"", None])
def test_wrong_bytes_are_rejected_and_a_manual_download_is_used(files: Path, body: bytes | None) -> None:
    if body is not None:
        (files / "x" / "made.csv").write_bytes(body)
    what = "HTTP 404 from" if body is None else f"received {len(body)} bytes from"
    with pytest.raises(NetworkError, match=f"x/made.csv: {what} http://127.*/x/made.csv.*; try") as caught:
        dd.datasets.load("made")
    path = Path(str(caught.value).rpartition("save the file manually as ")[2])
    assert not path.exists()
    path.write_bytes(b"not it")
    with pytest.raises(NetworkError, match="try again, or save"):
        dd.datasets.load("made")
    path.write_bytes(MADE)
    assert len(dd.datasets.load("made")) == 2


@pytest.mark.parametrize("another_was_first", [True, False])
def test_unwritable_dataset_folder_raises_unless_the_file_exists(
    files: Path, monkeypatch: pytest.MonkeyPatch, another_was_first: bool
) -> None:
    (files / "x" / "made.csv").write_bytes(MADE)

    def rename(self: Path, target: Path) -> None:
        if another_was_first:
            shutil.copytree(self, target)
        raise OSError("there is no way")

    monkeypatch.setattr(Path, "rename", rename)
    if another_was_first:
        assert len(dd.datasets.load("made")) == 2
    else:
        with pytest.raises(OSError, match="there is no way"):
            dd.datasets.load("made")


def test_missing_network_raises_with_the_address(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"made": datasets._registry()["made"] | {"url": "http://127.0.0.1:1/"}}
    monkeypatch.setattr(datasets, "_registry", lambda: nowhere)
    with pytest.raises(
        NetworkError, match=r"does not accept connections; the address is http://127.*manually as /"
    ):
        dd.datasets.load("made")


def test_every_dataset_has_a_pinned_address_and_a_licence() -> None:
    listed = dd.datasets.load()
    known = datasets._registry()
    assert list(listed.index) == list(known)
    assert listed["licence"].str.contains("MIT|Unlicense").all()
    assert (listed["bytes"] > 40_000).all()
    assert set(listed["table"]) <= set(dd.tables.TABLES)
    for value in known.values():
        place = value["source"].replace("https://github.com/", r"https://raw\.githubusercontent\.com/")
        assert re.fullmatch(rf"{place}/[0-9a-f]{{40}}/data/", value["url"])
    with pytest.raises(
        ValueError, match=r"name must be one of .*, got \'funding_2020\'; did you mean 'funding_2020_2023'\?"
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
def test_recorded_files_equal_the_list_of_datasets(
    files: Path, name: str, rows: int, first: dict[str, object]
) -> None:
    for file in (file for part in datasets._registry()[name]["parts"] for file in part["files"]):
        content = shared_path(f"data/{name}/{Path(file['path']).name}").read_bytes()
        assert len(content) == file["bytes"]
        (files / file["path"]).parent.mkdir(exist_ok=True)
        (files / file["path"]).write_bytes(content)
    frame = dd.datasets.load(name)
    assert len(frame) == rows
    table = dd.datasets.load().loc[name, "table"]
    pd.testing.assert_frame_equal(frame, dd.tables.TABLES[table].conform(frame))
    for column, value in first.items():
        assert frame[column].iloc[0] == (pytest.approx(value) if isinstance(value, float) else value)
