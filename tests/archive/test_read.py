"""Reads: windows, filters, newest rows and catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.sources.archive import Archive, open_archive, queries
from tests.archive.rates import EVER, START, conformed, rates


def test_read_filters_by_window_symbols_and_venues(archive: Archive) -> None:
    rows = archive.read("funding_history", START + pd.Timedelta("2h"), START + pd.Timedelta("4h"))
    assert sorted(set(rows["rate_bps_8h"])) == [2.0, 3.0]
    assert len(rows) == 8
    rows = archive.read("funding_history", *EVER, symbols=["ETH", "XYZ"], venues=["okx"])
    assert len(rows) == 96
    assert rows["symbol"].cat.categories.tolist() == ["ETH"]
    assert rows["exchange"].cat.categories.tolist() == ["okx"]
    pd.testing.assert_frame_equal(archive.read("oi_history", *EVER), tables.TABLES["oi_history"].empty())
    for nothing in ({"symbols": ["XYZ"]}, {"symbols": []}, {"venues": ["nowhere"]}):
        rows = archive.read("funding_history", *EVER, **nothing)
        pd.testing.assert_frame_equal(rows, tables.TABLES["funding_history"].empty())
    assert archive.symbols("oi_history") == ()
    with pytest.raises(ValueError, match="funding_histories"):
        archive.read("funding_histories", *EVER)
    with pytest.raises(ValueError, match="symbols: table funding_metadata does not have the column 'symbol'"):
        archive.read("funding_metadata", *EVER, symbols=["BTC"])
    with pytest.raises(ValueError, match="start must be a time such as '2026-01-31T08:00', got 'soon'"):
        archive.read("funding_history", "soon", EVER[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("rows_per_group", [1, 7, 50, 1000])
def test_every_filter_equals_a_pandas_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_group: int
) -> None:
    """Row groups that are excluded by their statistics never contain a requested row."""
    monkeypatch.setattr("derivdata.sources.archive.schemas.GROUP_ROWS", rows_per_group)
    frame = rates(["A", "B", "Bé", "ZZ", "千"], ["binance", "okx", "zo"], hours=60)
    archive = open_archive(tmp_path)
    archive.append("funding_history", frame)
    for symbols in (["A"], ["B", "千"], ["Bé"], ["ZZ", "A"]):
        for venues in (["okx"], ["binance", "zo"]):
            for first, last in ((0, 60), (23, 25), (47, 49), (59, 60)):
                start, end = START + pd.Timedelta(first, "h"), START + pd.Timedelta(last, "h")
                chosen = frame[
                    frame["symbol"].isin(symbols)
                    & frame["exchange"].isin(venues)
                    & (frame["time"] >= start)
                    & (frame["time"] < end)
                ]
                result = archive.read("funding_history", start, end, symbols=symbols, venues=venues)
                pd.testing.assert_frame_equal(result, conformed(chosen))


def test_archive_lists_tables_symbols_venues_and_span(archive: Archive) -> None:
    assert archive.tables() == {"funding_history"}
    assert archive.symbols("funding_history") == ("BTC", "ETH")
    assert archive.exchanges("funding_history") == ("binance", "okx")
    assert archive.start == START
    assert archive.now == START + pd.Timedelta("95h 1min")
    assert archive.label == "mine"
    row = archive.info().loc["funding_history"]
    assert row[["rows", "symbols", "exchanges", "files"]].tolist() == [384, 2, 2, 2]
    assert (row["first"], row["last"]) == (START, START + pd.Timedelta("95h"))
    assert "funding_history" in repr(archive)
    assert "<table" in archive._repr_html_()


def test_read_succeeds_during_a_concurrent_merge(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that it was about to read are merged away by another writer."""
    real, calls = queries.read, []

    def late(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            monkeypatch.setattr(queries, "read", real)
            open_archive(archive.path).append("funding_history", rates(["SOL"]))
            monkeypatch.setattr(queries, "read", late)
        return real(*arguments, **options)

    monkeypatch.setattr(queries, "read", late)
    assert len(archive.read("funding_history", *EVER)) == 384 + 192
    assert len(calls) == 2
