"""Appends: rows that are written, rows that are dropped, and the view of a reader."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from derivdata import tables
from derivdata.errors import ArchiveError, DataNotice, SchemaError
from derivdata.sources.archive import open_archive, writing
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.schema import Kind
from tests.archive.rates import EVER, START, conformed, rates


def orders(ids: list[str], *, start: pd.Timestamp = START, value: float = 10.0) -> pd.DataFrame:
    """Orders a minute apart, of which only what must be known is."""
    times = pd.date_range(start, periods=len(ids), freq="min").as_unit("us")
    fixed = {"exchange": "okx", "symbol": "BTC", "side": "long", "fill_price_usd": 100.0, "fill_count": 1}
    unknown = dict.fromkeys(("order_price_usd", "quantity", "filled_quantity"), float("nan"))
    return pd.DataFrame(
        {"order_id": ids, "time": times, "value_usd": value, "status": None, **fixed, **unknown}
    )


_CELLS: dict[Kind, list[object]] = {
    Kind.TEXT: ["b", "a", "ü"],
    Kind.LABEL: ["x", "y 1", "z"],
    Kind.NUMBER: [0.25, 0.1, 1e-300],
    Kind.COUNT: [3, 1, 2],
    Kind.RANK: [30, 10, 20],
    Kind.FLAG: [True, False, True],
    Kind.TIME: [START + pd.Timedelta(day, "D") for day in (3, 1, 2)],
}


@pytest.mark.parametrize("name", sorted(n for n, t in tables.TABLES.items() if "time" in t.columns))
def test_every_table_round_trips(tmp_path: Path, name: str) -> None:
    """Three rows with all columns, then three later rows without the optional columns."""
    table = tables.TABLES[name]
    cells = {}
    for column, definition in table.columns.items():
        allowed = [*definition.allowed * 3][:3]
        cells[column] = allowed or _CELLS[definition.kind]
    if "symbol" in table.columns:
        cells["symbol"] = ["B", "A", "Ü"]
    full = pd.DataFrame(cells)
    if "expiry" in full:
        full["expiry"] += pd.Timedelta(8, "h")  # a date would get this hour
    keys = {column: full[column] for column in table.key if column != "time"}
    later = full["time"] + pd.Timedelta(90, "D")
    bare = full.drop(columns=sorted(table.optional)).assign(time=later, **keys)
    archive = open_archive(tmp_path)
    assert archive.append(name, full) == 3
    pd.testing.assert_frame_equal(archive.read(name, *EVER), archive_table(name).conform(full))
    if "order_id" not in table.key:
        assert archive.append(name, bare) == 3
    assert archive.append(name, full) == 0


def test_expiry_dates_get_the_venues_hour_of_expiry(tmp_path: Path) -> None:
    expiry = [pd.Timestamp(text) for text in ("2026-03-27T00:00Z", "2026-06-26T16:00Z")]
    frame = pd.DataFrame(
        {
            "time": START,
            "symbol": "BTC",
            "exchange": "deribit",
            "expiry": expiry,
            "iv": 0.5,
            "strike": 1e5,
            "underlying_price": 1e5,
        }
    )
    archive = open_archive(tmp_path)
    assert archive.append("options_atm_history", frame) == 2
    assert archive.append("options_atm_history", frame) == 0
    back = archive.read("options_atm_history", *EVER)["expiry"]
    assert [stamp.isoformat()[:16] for stamp in back] == ["2026-03-27T08:00", "2026-06-26T16:00"]


def test_missing_values_round_trip_and_compare_equal(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("liquidations_events", orders(["1", "2"]))
    back = archive.read("liquidations_events", *EVER)
    pd.testing.assert_frame_equal(back, tables.TABLES["liquidations_events"].conform(orders(["1", "2"])))
    archive = open_archive(tmp_path / "equal")
    archive.append("liquidations_events", orders(["1"]))
    assert archive.merge("liquidations_events", orders(["1"])) == (0, 1, 0)
    assert archive.merge("liquidations_events", orders(["1"], value=11.0)) == (0, 0, 1)
    archive = open_archive(tmp_path / "later")
    archive.append("liquidations_events", orders(["7", "8"]))
    later = orders(["8", "9"], start=START + pd.Timedelta(70, "D"))
    assert archive.merge("liquidations_events", later) == (1, 0, 1)
    assert sorted(archive.read("liquidations_events", *EVER)["order_id"]) == ["7", "8", "9"]


def test_append_of_stored_rows_writes_nothing(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    identity, files = archive.identity, sorted(tmp_path.rglob("*.parquet"))
    assert archive.append("funding_history", rates()) == 0
    assert archive.append("funding_history", rates().iloc[:7]) == 0
    assert archive.identity == identity
    assert sorted(tmp_path.rglob("*.parquet")) == files


def test_append_writes_new_keys_only(tmp_path: Path) -> None:
    """Two venues have 10 more hours of BTC, and 60 hours of SOL."""
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(hours=50))
    assert archive.append("funding_history", rates(["BTC", "SOL"], hours=60)) == 2 * 10 + 2 * 60
    expected = pd.concat([rates(hours=50), rates(["BTC", "SOL"], hours=60)]).drop_duplicates()
    pd.testing.assert_frame_equal(archive.read("funding_history", *EVER), conformed(expected))


def test_append_keeps_stored_values_with_a_notice(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(hours=3))
    restated = rates(hours=4)
    restated.loc[0, "rate_bps_8h"] = 77.0
    with pytest.warns(DataNotice, match="1 rows already exist with other values"):
        assert archive.append("funding_history", restated) == 4
    assert archive.read("funding_history", *EVER)["rate_bps_8h"].max() == 3.0


def test_table_without_time_in_its_key_is_stored_once_per_time(tmp_path: Path) -> None:
    def venues(hour: int) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "exchange": ["okx"],
                "time": [START + pd.Timedelta(hour, "h")],
                "total_oi_usd": [5.0 + hour],
                "symbol_count": [3],
                "top_symbol": ["BTC"],
                "change_24h": [0.0],
                "change_7d": [0.0],
                "market_share": [1.0],
            }
        )

    archive = open_archive(tmp_path)
    assert [archive.append("oi_exchanges", venues(hour)) for hour in (0, 1, 1)] == [1, 1, 0]
    assert archive.read("oi_exchanges", *EVER)["total_oi_usd"].tolist() == [5.0, 6.0]
    newest = archive.latest("oi_exchanges", START + pd.Timedelta("5h"), within=pd.Timedelta("1D"))
    assert newest["total_oi_usd"].tolist() == [6.0]


def test_identity_changes_with_every_append_and_depends_only_on_the_data(tmp_path: Path) -> None:
    one, other = open_archive(tmp_path / "one"), open_archive(tmp_path / "other")
    seen = [one.identity]
    for day in range(4):
        one.append("funding_history", rates(start=START + pd.Timedelta(day * 4, "D")))
        other.append("funding_history", rates(start=START + pd.Timedelta(day * 4, "D")))
        seen.append(one.identity)
        assert one.identity == other.identity
    assert len(set(seen)) == 5
    other.append("funding_history", rates(["DOGE"]))
    assert one.identity != other.identity


def test_large_files_are_merged_eight_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derivdata.sources.archive.schemas.GROUP_ROWS", 4)
    monkeypatch.setattr(writing, "SMALL_ROWS", 4)
    monkeypatch.setattr(writing, "SLICE_ROWS", 10)
    archive = open_archive(tmp_path)
    whole = rates(["A", "B", "C"], hours=20)
    counts = []
    for hour in range(20):
        archive.append("funding_history", whole[whole["time"] == START + pd.Timedelta(hour, "h")])
        counts.append(len(list(tmp_path.rglob("*.parquet"))))
    assert counts == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6]
    pd.testing.assert_frame_equal(archive.read("funding_history", *EVER), conformed(whole))
    merged = max(tmp_path.rglob("*.parquet"), key=lambda p: pq.read_metadata(p).num_rows)
    assert pq.read_table(merged)["symbol"].to_pylist() == ["A"] * 16 + ["B"] * 16 + ["C"] * 16


def test_archive_with_synthetic_rows_stays_marked_synthetic(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC"]))
    assert not archive.synthetic
    made_up = rates(["ETH"])
    made_up.attrs["provenance"] = {"source": "sample", "synthetic": True}
    archive.append("funding_history", made_up)
    archive.append("funding_history", rates(["SOL"]))
    assert archive.synthetic
    assert "synthetic" in repr(archive)
    second = open_archive(tmp_path / "second")
    second.append("funding_history", archive.read("funding_history", *EVER))
    assert second.synthetic


def test_empty_frames_and_frames_of_other_tables_append_nothing(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    with pytest.raises(SchemaError, match=r"oi_history\.oi_usd"):
        archive.append("oi_history", rates())
    with pytest.raises(SchemaError, match="repeat a key"):
        archive.append("funding_history", pd.concat([rates(), rates()]))
    with pytest.raises(ValueError, match=r"'prices' cannot be archived; the tables are .*funding_history"):
        archive.append("prices", rates())
    assert archive.tables() == frozenset()
    archive = open_archive(tmp_path / "empty" / "new")
    assert archive.append("funding_history", rates().iloc[:0]) == 0
    assert archive.tables() == frozenset()
    with pytest.raises(ArchiveError, match="the archive is empty"):
        _ = archive.now
    frame = rates().sample(frac=1.0, random_state=1)
    before = frame.copy(deep=True)
    open_archive(tmp_path / "kept").append("funding_history", frame)
    pd.testing.assert_frame_equal(frame, before)
