"""Contents of the connected source, by table and venue, up to the source's clock."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata import errors
from derivdata.sources.collect.contracts import changed
from tests.support.rows import rows
from tests.transport.server import Reply, serving


def stored(folder: Path) -> Path:
    """Hourly rates of okx, four-hourly ones of bybit, and eight days of open interest."""
    archive = dd.open_archive(folder / "made")
    rates = pd.DataFrame(
        [
            {"symbol": symbol, "exchange": venue, "timestamp": pd.Timestamp(f"2026-06-01T{hour:02d}:00Z")}
            for venue, step in (("okx", 1), ("bybit", 4))
            for hour in range(0, 24, step)
            for symbol in ("BTC", "ETH")
        ]
    )
    sampled = {"y": 1.0, "resolution": "raw", "kind": "sampled"}
    archive.append("funding_history", rows("funding_history", **rates, **sampled))
    held = {"timestamp": pd.date_range("2026-05-25", periods=8, tz="UTC"), "open_interest_usd": 1.0}
    daily = rows("oi_history", symbol="BTC", exchange="okx", resolution="1d", **held)
    archive.append("oi_history", daily)
    return folder / "made"


def test_archive_catalog_states_span_step_and_rows_by_venue(tmp_path: Path) -> None:
    dd.connect(str(stored(tmp_path)))
    catalog = dd.catalog().astype({"table": "str", "exchange": "str"})
    assert catalog[["table", "exchange", "step_hours", "row_count"]].to_numpy().tolist() == [
        ["funding_history", "bybit", 4.0, 12],
        ["funding_history", "okx", 1.0, 48],
        ["oi_history", "okx", 24.0, 8],
    ]
    assert catalog["first"].dt.strftime("%m-%d %H").tolist() == ["06-01 00", "06-01 00", "05-25 00"]
    assert catalog["last"].dt.strftime("%m-%d %H").tolist() == ["06-01 20", "06-01 23", "06-01 00"]
    assert dd.provenance(dd.catalog())["requests"][0]["path"] == "/local/catalog"


def test_a_row_at_the_clock_counts_and_later_ones_do_not(tmp_path: Path) -> None:
    dd.connect(str(stored(tmp_path)), now="2026-06-01T06:00")
    catalog = dd.catalog()
    assert catalog["row_count"].tolist() == [4, 14, 8]
    assert catalog["last"].dt.strftime("%m-%d %H").tolist() == ["06-01 04", "06-01 06", "06-01 00"]


def test_catalog_describes_only_rows_up_to_the_clock(tmp_path: Path) -> None:
    """Of six rows, ten minutes apart, one is before the clock: one row has no step."""
    stamps = pd.date_range("2026-06-01T06:00", periods=6, freq="10min", tz="UTC")
    place = {"symbol": "BTC", "exchange": "okx", "resolution": "raw", "kind": "sampled"}
    rates = rows("funding_history", timestamp=stamps, y=1.0, **place)
    dd.open_archive(tmp_path / "made").append("funding_history", rates)
    dd.connect(str(tmp_path / "made"), now="2026-06-01T06:05")
    catalog = dd.catalog()
    assert catalog["row_count"].tolist() == [1]
    assert catalog["step_hours"].isna().all()


def test_catalog_of_the_sample_has_no_row_counts() -> None:
    dd.connect("sample")
    catalog = dd.catalog().set_index(["table", "exchange"])
    rates, payments = (
        catalog.loc[(table, "binance")] for table in ("funding_history", "funding_settlements")
    )
    assert (rates["step_hours"], payments["step_hours"]) == (pytest.approx(1 / 12), 8.0)
    assert rates["first"] == pd.Timestamp("2025-09-01", tz="UTC")
    assert rates["last"] == pd.Timestamp("2026-06-30T12:00Z")
    assert catalog["row_count"].isna().all()
    assert ("hip3_traders", "unstated") in catalog.index


def test_hosted_service_has_no_catalog_and_the_error_names_alternatives() -> None:
    with serving(lambda _: Reply.json({"error": "no such path"}, status=404)) as server:
        dd.connect(server.url, api_key="k-5d0c5a2f")
        with pytest.raises(
            errors.NotFound, match="the hosted service does not have this endpoint; the sample"
        ):
            dd.catalog()


def test_unlisted_contract_has_its_last_known_state(tmp_path: Path) -> None:
    """OLD is on the first list only, ETH has another step on the second, and BTC is the same on both."""
    archive = dd.open_archive(tmp_path / "made")
    for hour, listed in ((10, {"BTC": 0.1, "OLD": 0.1, "ETH": 0.1}), (11, {"BTC": 0.1, "ETH": 0.01})):
        place = {"exchange": "okx", "time": pd.Timestamp(f"2026-06-01T{hour}:00Z"), "multiplier": 1.0}
        place |= {"is_inverse": False, "is_perpetual": True, "is_active": True}
        names = [f"{symbol}-USDT-SWAP" for symbol in listed]
        frame = rows("instruments", symbol=[*listed], instrument_name=names, step=[*listed.values()], **place)
        archive.append("instruments", changed(archive, frame))
    assert len(archive.read("instruments")) == 5
    dd.connect(str(tmp_path / "made"))
    result = dd.instruments().set_index("symbol")
    assert result["is_active"].to_dict() == {"BTC": True, "ETH": True, "OLD": False}
    assert result["step"].to_dict() == {"BTC": 0.1, "ETH": 0.01, "OLD": 0.1}
    assert result.loc["OLD", "delisted"] == pd.Timestamp("2026-06-01T11:00Z")
    assert dd.instruments("OLD", venues="okx")["instrument_name"].tolist() == ["OLD-USDT-SWAP"]
    with pytest.warns(dd.errors.DataNotice, match="no contract of these symbols and venues"):
        assert dd.instruments("NEW").empty
