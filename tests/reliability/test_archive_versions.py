"""Archives of older and newer versions of the library: read as they were, or refused by name."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive
from derivdata.tables.schema import Kind, Table
from tests.archive.rates import EVER, rates, said, say
from tests.reliability.test_archive_files import FUNDING, archive, contents, read

__all__ = ["archive"]


def version(monkeypatch: pytest.MonkeyPatch, archive: Archive, table: Table, frame: pd.DataFrame) -> None:
    """Rows that another version of the library wrote."""
    with monkeypatch.context() as patch:
        patch.setitem(tables.TABLES, table.name, table)
        archive.append(table.name, frame)


NOW = tables.TABLES["oi_exchange_totals"]
TIMES = pd.to_datetime(["2026-01-30T00:00:00Z", "2026-01-30T01:00:00Z"])


def totals(venue: str, **more: object) -> pd.DataFrame:
    """Two hours of a venue."""
    given = {"exchange": venue, "time": TIMES, "total_oi_usd": [5.0, 6.0], "symbol_count": [1, 2]}
    return pd.DataFrame(given | {"resolution": "1h"} | more)


def read_totals(archive: Archive) -> pd.DataFrame:
    return open_archive(archive.path).read(NOW.name, *EVER)


def without(table: Table, name: str) -> Table:
    return replace(
        table,
        columns={n: c for n, c in table.columns.items() if n != name},
        optional=frozenset(table.optional) - {name},
    )


def test_an_older_file_without_a_column_that_may_be_missing_is_read_and_merged(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = without(NOW, "symbol_count")
    version(monkeypatch, archive, older, totals("aevo").drop(columns="symbol_count"))
    for venue in ("bybit", "okx"):
        archive.append(NOW.name, totals(venue))
    found = read_totals(archive)
    assert found["exchange"].tolist() == ["aevo"] * 2 + ["bybit"] * 2 + ["okx"] * 2
    assert found["symbol_count"].fillna(-1).tolist() == [-1, -1, 1, 2, 1, 2]
    assert found["total_oi_usd"].tolist() == [5.0, 6.0] * 3


@pytest.mark.parametrize("appends", [0, 2])
def test_an_older_file_with_a_column_of_another_kind_is_read(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, appends: int
) -> None:
    """Counts that were once numbers."""
    kinds = NOW.columns
    older = replace(NOW, columns=kinds | {"symbol_count": replace(kinds["symbol_count"], kind=Kind.NUMBER)})
    version(monkeypatch, archive, older, totals("aevo", symbol_count=[3.0, float("nan")]))
    for venue in ("bybit", "okx")[:appends]:
        archive.append(NOW.name, totals(venue))
    found = read_totals(archive)
    assert found["symbol_count"].fillna(-1).tolist() == [3, -1] + [1, 2] * appends
    assert found["symbol_count"].dtype == "Int64"


def test_an_older_file_that_cannot_be_this_table_is_named_and_kept(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = without(NOW, "total_oi_usd")
    version(monkeypatch, archive, older, totals("aevo").drop(columns="total_oi_usd"))
    before = contents(archive.path)
    told = r"\.parquet: the file was written by another version of derivdata: it has no column total_oi_usd"
    for attempt in (lambda: read_totals(archive), lambda: archive.append(NOW.name, totals("aevo"))):
        with pytest.raises(ArchiveError, match=told):
            attempt()
    assert contents(archive.path) == before
    assert len(read(archive)) == 192


def test_a_number_that_this_version_cannot_hold_is_named(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = NOW.columns
    older = replace(NOW, columns=kinds | {"symbol_count": replace(kinds["symbol_count"], kind=Kind.NUMBER)})
    version(monkeypatch, archive, older, totals("aevo", symbol_count=[3.5, 1.0]))
    with pytest.raises(ArchiveError, match=r"\.parquet: the file was written by another version .*3\.5"):
        read_totals(archive)


def test_a_column_of_a_newer_version_outlasts_the_appends_of_this_one(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = NOW.columns | {"fee_usd": NOW.columns["total_oi_usd"]}
    newer = replace(NOW, columns=columns, optional=frozenset(NOW.optional) | {"fee_usd"})
    version(monkeypatch, archive, newer, totals("aevo", fee_usd=0.25))
    for venue in ("bybit", "okx", "woo"):
        assert archive.append(NOW.name, totals(venue)) == 2
        assert archive.append(NOW.name, totals("aevo")) == 0
    found = read_totals(archive)
    assert found["exchange"].tolist() == [name for name in ("aevo", "bybit", "okx", "woo") for _ in TIMES]
    assert "fee_usd" not in found
    with monkeypatch.context() as patch:
        patch.setitem(tables.TABLES, NOW.name, newer)
        later = read_totals(archive)
    assert later["fee_usd"].fillna(-1).tolist() == [0.25] * 2 + [-1] * 6


def test_a_newer_format_is_refused_and_not_touched(archive: Archive) -> None:
    say(archive.path, said(archive.path) | {"version": 5})
    before = contents(archive.path)
    for attempt in (lambda: read(archive), lambda: archive.append(FUNDING, rates(["SOL"]))):
        with pytest.raises(ArchiveError, match="has format 5, this version reads up to 4: update derivdata"):
            attempt()
    assert contents(archive.path) == before


def test_tables_of_a_newer_version_outlast_an_append(archive: Archive) -> None:
    text = said(archive.path)
    text["tables"]["prices_of_later"] = {"parts": [], "values": {"symbol": ["BTC"]}}
    say(archive.path, text)
    assert archive.append(FUNDING, rates(["SOL"], ["okx"])) == 96
    assert said(archive.path)["tables"]["prices_of_later"]["values"] == {"symbol": ["BTC"]}
