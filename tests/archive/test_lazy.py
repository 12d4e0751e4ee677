"""The dask reader gives what `read` gives, without reading it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive, queries, schemas
from tests.archive.rates import EVER, START, conformed, rates, said, say
from tests.support.records import attrs_of

pytest.importorskip("dask.dataframe")


def panel(
    archive: Archive,
    table: str = "funding_history",
    column: str = "rate_bps_8h",
    *,
    days: int = 1,
    **more: Any,
) -> Any:
    """A panel of some days by the hour."""
    return archive.panel(
        table, column, **{"step": "1h"} | more, start=START, end=START + pd.Timedelta(days, "D")
    )


def test_lazy_table_stays_lazy_and_equals_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    start, end = START + pd.Timedelta("40h"), START + pd.Timedelta("60h")
    with monkeypatch.context() as patch:
        patch.setattr(queries, "read", None)
        frame = archive.lazy("funding_history", start=start, end=end, symbols=["BTC"])
        assert frame.npartitions == 2
    result = conformed(frame.compute())
    pd.testing.assert_frame_equal(result, archive.read("funding_history", start, end, symbols=["BTC"]))


def test_partitions_share_categories_and_an_empty_table_is_an_empty_frame(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC"]))
    archive.append("funding_history", rates(["ETH"], start=START + pd.Timedelta(60, "D")))
    sums = archive.lazy("funding_history").groupby("symbol", observed=True)["rate_bps_8h"].sum().compute()
    assert sums.to_dict() == {"BTC": 2 * 4560.0, "ETH": 2 * 4560.0}
    frame = open_archive(tmp_path / "empty").lazy("funding_history").compute()
    assert list(frame.columns) == list(tables.TABLES["funding_history"].columns)
    assert frame.empty


@pytest.mark.parametrize("chunks", [None, 1, 7, 96])
def test_lazy_panel_equals_the_panel_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: int | None
) -> None:
    """To the bit, over files of two months, with a hole and a venue that has fewer rows."""
    monkeypatch.setattr(schemas, "GROUP_ROWS", 8)
    monkeypatch.setattr("derivdata.sources.archive.writing.SMALL_ROWS", 8)
    archive = open_archive(tmp_path)
    frame = rates(["BTC", "ETH"], ["okx"])
    archive.append("funding_history", frame[frame["rate_bps_8h"] != 40.0])
    archive.append("funding_history", rates(["BTC"], ["bybit"], hours=30, plus=0.25))
    result = panel(archive, days=4, chunks=chunks)
    expected = dd.panel(archive.read("funding_history", *EVER)).reindex(time=result["time"])
    assert result.chunks is not None
    assert (result.attrs["units"], result.attrs["kind"]) == (expected.attrs["units"], expected.attrs["kind"])
    np.testing.assert_array_equal(result.compute().to_numpy(), expected.to_numpy())
    assert result["symbol"].to_numpy().tolist() == ["BTC", "ETH"]
    assert int(np.isnan(result.sel(symbol="ETH", exchange="okx")).sum()) == 1
    some = panel(archive, symbols=["ETH"]).compute().sel(symbol="ETH", exchange="okx")
    assert some.to_numpy().tolist() == [float(i) for i in range(24)]


@pytest.mark.parametrize("chunks", [None, 1, 3])
def test_settlement_panel_has_interval_hours(tmp_path: Path, chunks: int | None) -> None:
    """A venue that changed from 8 h to 4 h, and an hour without a settlement: the hours are NaN there."""
    archive = open_archive(tmp_path)
    times = [START + pd.Timedelta(hours, "h") for hours in (0, 8, 12, 16)]
    rows = pd.DataFrame(
        {"symbol": "BTC", "exchange": "okx", "time": times, "rate_bps_8h": [1.0, 2.0, 3.0, 4.0]}
    )
    rows = rows.assign(interval_hours=[8.0, 8.0, 4.0, 4.0], rate_native=0.0, kind="settled")
    archive.merge("funding_settlements", rows)
    window = {"start": START, "end": START + pd.Timedelta(20, "h"), "step": "4h", "chunks": chunks}
    result = archive.panel("funding_settlements", "rate_bps_8h", **window)
    assert result["interval_hours"].chunks is not None
    assert attrs_of(result["interval_hours"]) == {"units": "h"}
    hours = result["interval_hours"].to_numpy()
    np.testing.assert_array_equal(hours, [[[8.0, np.nan, 8.0, 4.0, 4.0]]])
    np.testing.assert_array_equal(result.to_numpy(), [[[1.0, np.nan, 2.0, 3.0, 4.0]]])
    expected = dd.panel(archive.read("funding_settlements", *EVER)).reindex(time=result["time"])
    np.testing.assert_array_equal(hours, expected["interval_hours"].to_numpy())


def test_a_panel_of_prices_is_of_one_kind(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    rows = {"symbol": "BTC", "exchange": "okx", "time": [START] * 2, "resolution": "1h"}
    both = pd.DataFrame(rows).assign(kind=["mark", "index"], price_usd=[100.0, 101.0])
    archive.append("prices_history", both)
    result = panel(archive, "prices_history", "price_usd", kind="index").dropna("time")
    assert result.to_numpy().tolist() == [[[101.0]]]


def test_panel_of_no_symbols_is_empty(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    result = panel(archive, symbols=[]).compute()
    assert result.sizes == {"symbol": 0, "exchange": 2, "time": 24}


def test_impossible_panels_raise_with_the_reason(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC"], ["okx"], hours=3, start=START + pd.Timedelta(90, "s")))
    with pytest.raises(ValueError, match="of funding_history at 2026-01-30 00:01:30 is off the grid"):
        panel(archive).compute()
    for table, column, more, told in (
        (
            "funding_history",
            "resolution",
            {},
            "column must be a numeric column of funding_history, got 'resolution'",
        ),
        ("options_snapshot", "iv", {}, "its key is not symbol, exchange and time"),
        (
            "prices_history",
            "price_usd",
            {},
            "kind must be 'mark' or 'index' or 'last' for a panel of prices_history, got None",
        ),
        (
            "funding_history",
            "rate_bps_8h",
            {"kind": "mark"},
            "kind must be None for a panel of funding_history, got 'mark'",
        ),
        (
            "funding_history",
            "rate_bps_8h",
            {"step": "0s"},
            "step must be a positive length of time, got '0s'",
        ),
    ):
        with pytest.raises(ValueError, match=told):
            panel(archive, table, column, **more)


def test_lazy_table_of_replaced_files_raises_with_advice(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC"], ["okx"], hours=5))
    for told in ("a writer replaced this file after lazy", "is missing; restore it from a copy"):
        planned = [archive.lazy("funding_history"), panel(archive)]
        if "replaced" in told:
            archive.append("funding_history", rates(["ETH"], ["okx"], hours=5))
        else:
            next(tmp_path.rglob("*.parquet")).unlink()
        for item in planned:
            with pytest.raises(ArchiveError, match=told):
                item.compute()


def test_symbol_missing_from_the_manifest_raises(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC", "ETH"], ["okx"], hours=5))
    text = said(tmp_path)
    text["tables"]["funding_history"]["values"]["symbol"] = ["BTC", "ETC"]
    say(tmp_path, text)
    for item in (archive.lazy("funding_history"), panel(archive)):
        with pytest.raises(
            ArchiveError, match=r"a file contains symbol 'ETH', which archive\.json does not list"
        ):
            item.compute()
