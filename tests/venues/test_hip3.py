"""Contracts of HIP-3 dexes keep their dex: as a venue, or in their symbol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import SchemaError
from derivdata.sources.archive import import_files
from derivdata.tables.contracts import HIP3_DEXES, hip3_contract

AT = pd.Timestamp("2026-01-01T00:30:00Z")


def contexts(*names: str, price: float = 100.0) -> list[Any]:
    """Return the contracts and the contexts of a dex, each with 10 coins of open interest."""
    universe = [{"name": name, "szDecimals": 2} for name in names]
    row = {"funding": "0.0000125", "openInterest": "10", "markPx": str(price), "oraclePx": str(price)}
    row |= {
        "prevDayPx": str(price),
        "dayNtlVlm": str(price * 1e4),
        "midPx": str(price),
        "dayBaseVlm": "10000",
    }
    return [{"universe": universe}, [row] * len(names)]


def _read(venue: str, request: str, body: str, table: str = "funding_history") -> list[tuple[str, str]]:
    rows = dd.venues.read(venue, request, body, at=AT)[table]
    return list(zip(rows["exchange"].astype(str), rows["symbol"].astype(str), strict=True))


@pytest.mark.parametrize(
    ("venue", "request_", "names", "expected"),
    [
        ("hyperliquid", "/info metaAndAssetCtxs", ["BTC"], [("hyperliquid", "BTC")]),
        ("hyperliquid", "/info metaAndAssetCtxs?dex=flx", ["flx:GOLD"], [("hyperliquid", "flx:GOLD")]),
        ("hyperliquid", "/info metaAndAssetCtxs?dex=mkts", ["mkts:BTC"], [("hyperliquid", "mkts:BTC")]),
        ("hyperliquid", "/info metaAndAssetCtxs?dex=xyz", ["xyz:GOLD"], [("tradexyz", "GOLD")]),
        ("tradexyz", "/info metaAndAssetCtxs?dex=xyz", ["xyz:GOLD"], [("tradexyz", "GOLD")]),
        ("hyena", "/info metaAndAssetCtxs", ["hyna:BTC"], [("hyena", "BTC")]),
    ],
)
def test_dex_is_a_venue_or_a_prefix_of_the_symbol(venue, request_, names, expected) -> None:
    assert _read(venue, request_, json.dumps(contexts(*names))) == expected


@pytest.mark.parametrize(
    ("venue", "request_", "name", "message"),
    [
        ("tradexyz", "/info metaAndAssetCtxs?dex=xyz", "flx:GOLD", "contracts of the dex xyz, got flx:GOLD"),
        ("tradexyz", "/info metaAndAssetCtxs?dex=flx", "flx:GOLD", "the request is of the dex flx"),
        ("tradexyz", "/info metaAndAssetCtxs", "GOLD", "contracts of the dex xyz, got GOLD"),
        ("hyperliquid", "/info metaAndAssetCtxs?dex=flx", "vntl:MAG7", "of the dex flx, got vntl:MAG7"),
        ("hyperliquid", "/info metaAndAssetCtxs?dex=flx", "BTC", "of the dex flx, got BTC"),
        ("hyperliquid", "/info metaAndAssetCtxs", "flx:GOLD", "the venue's own book"),
        ("hyperliquid", "/info metaAndAssetCtxs", "xyz:GOLD", "read the body as venue='tradexyz'"),
    ],
)
def test_a_body_of_another_dex_is_rejected(venue, request_, name, message) -> None:
    with pytest.raises(SchemaError, match=message):
        _read(venue, request_, json.dumps(contexts(name)))


def test_payments_and_books_keep_their_dex() -> None:
    paid = json.dumps([{"coin": "flx:GOLD", "fundingRate": "0.0001", "time": 1767225600000}])
    request = "/info fundingHistory"
    assert _read("hyperliquid", request, paid, "funding_settlements") == [("hyperliquid", "flx:GOLD")]
    asked = f"{request}?coin=xyz:NVDA"
    nvda = paid.replace("flx:GOLD", "xyz:NVDA")
    assert _read("hyperliquid", asked, nvda, "funding_settlements") == [("tradexyz", "NVDA")]
    with pytest.raises(SchemaError, match="dex xyz, got flx:GOLD"):
        _read("tradexyz", request, paid, "funding_settlements")
    with pytest.raises(SchemaError, match="read the body as venue='tradexyz'"):
        _read("hyperliquid", request, nvda, "funding_settlements")
    book = {"coin": "flx:GOLD", "time": 1767225600000}
    book["levels"] = [[{"px": "99", "sz": "1"}], [{"px": "101", "sz": "1"}]]
    result = dd.venues.read("hyperliquid", "/info l2Book", json.dumps(book))["orderbook_book"]
    assert set(result["symbol"].astype(str)) == {"flx:GOLD"}


def test_the_list_of_dexes_is_that_of_the_venue() -> None:
    body = '[null, {"name": "xyz", "fullName": "XYZ"}, {"name": "flx", "fullName": null, "deployer": "0x0"}]'
    result = dd.venues.read("hyperliquid", "/info perpDexs", body)["dexes"]
    assert result[["exchange", "dex", "venue"]].values.tolist() == [
        ["hyperliquid", "flx", "hyperliquid"],
        ["hyperliquid", "xyz", "tradexyz"],
    ]
    names = ["BTC", "flx:GOLD", "xyz:GOLD"]
    listed = json.dumps([{"universe": [{"name": name, "szDecimals": 2}]} for name in names])
    rows = dd.venues.read("hyperliquid", "/info allPerpMetas", listed)["instruments"]
    result = sorted(rows[["exchange", "symbol"]].astype(str).values.tolist())
    assert result == [["hyperliquid", "BTC"], ["hyperliquid", "flx:GOLD"], ["tradexyz", "GOLD"]]


@pytest.mark.parametrize("names", [["BTC", "flx:GOLD", "flx:OIL"], ["flx:GOLD", "flx:OIL"]])
def test_a_pushed_frame_is_read_by_the_listed_contracts_of_each_dex(names) -> None:
    row = contexts("A")[1][0]
    frame = {
        "channel": "allDexsAssetCtxs",
        "data": {"ctxs": [["", [row]], ["flx", [row, row]], ["xyz", [row]]]},
    }
    listed = pd.DataFrame({"instrument_name": names, "symbol": names})
    listed = listed.assign(exchange="hyperliquid", quote="USD", contract_size=1.0)
    listed = listed.assign(is_inverse=False, is_perpetual=True, is_active=True)
    result = dd.venues.read(
        "hyperliquid", "allDexsAssetCtxs", json.dumps(frame), at=AT, context={"instruments": listed}
    )
    # Without a list, the first contract of the venue's own book is BTC.
    assert result["funding_history"]["symbol"].astype(str).tolist() == ["BTC", "flx:GOLD", "flx:OIL"]


def test_a_file_has_the_same_names_as_an_adapter(tmp_path: Path) -> None:
    lines = ["symbol,exchange,time,rate_bps_8h", "flx:GOLD,hyperliquid,2026-01-01T00:00:00Z,1"]
    lines += ["xyz:GOLD,hyperliquid,2026-01-01T00:00:00Z,2", "xyz:NVDA,tradexyz,2026-01-01T00:00:00Z,3"]
    lines += ["GOLD,hyperliquid,2026-01-01T00:00:00Z,4", "flx:OIL,tradexyz,2026-01-01T00:00:00Z,5"]
    file = tmp_path / "rates.csv"
    file.write_text("\n".join(lines) + "\n")
    options = {"set": {"interval_hours": "1", "kind": "sampled"}, "unit": "bps_8h"}
    report = import_files("funding_history", file, tmp_path / "archive", **options)
    rows = dd.open_archive(tmp_path / "archive").read("funding_history")
    results = {tuple(row) for row in rows[["exchange", "symbol", "rate_bps_8h"]].astype(object).to_numpy()}
    assert results == {
        ("hyperliquid", "flx:GOLD", 1.0), ("tradexyz", "GOLD", 2.0), ("tradexyz", "NVDA", 3.0),
        ("hyperliquid", "GOLD", 4.0),
    }  # fmt: skip
    assert report.rejected == 1
    assert "flx:OIL" in str(report.first_rejected)


def test_every_slug_of_a_dex_is_a_venue_of_the_api() -> None:
    for slug, dex in HIP3_DEXES.items():
        assert slug in dd.tables.VENUES
        assert (
            hip3_contract("hyperliquid", f"{dex}:BTC") == hip3_contract(slug, f"{dex}:BTC") == (slug, "BTC")
        )
    assert hip3_contract("binance", "xyz:BTC") == ("binance", "xyz:BTC")
