"""Every recorded body against the rows that were worked out by hand from it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.errors import VenueError
from derivdata.sources import venues
from derivdata.sources.venues.registry import VENUES
from tests.venues import recorded

FILES = [row["file"] for row in recorded.listed() if row["exchange"] in VENUES]
APPROXIMATE = {("kraken/ticker_enj.json", "rate_bps_8h"): 5e-3}


def test_every_recorded_body_is_of_a_listed_endpoint() -> None:
    rows = venues.endpoints()
    known = set(zip(rows["exchange"], rows["what"], rows["method"], rows["path_or_channel"], strict=True))
    missing = [
        row
        for row in recorded.listed()
        if row["what"] != "error"
        and (row["exchange"], row["what"], row["method"], row["path_or_channel"]) not in known
    ]
    assert missing == []


@pytest.mark.parametrize("file", FILES)
def test_a_recorded_body_gives_the_rows_worked_out_by_hand(file: str) -> None:
    rows = recorded.expected().get(file, [])
    if any(row["column"] == "error" for row in rows):
        with pytest.raises(VenueError) as caught:
            recorded.read(file)
        assert caught.value.code == rows[0]["value"]
        return
    frames = recorded.read(file)
    for frame, table in (
        (f, tables.TABLES[n]) for n, f in frames.items() if n in tables.TABLES and "time" in f
    ):
        pd.testing.assert_frame_equal(frame, table.conform(frame))
    records = recorded.read(file, venues.records)
    for row in rows:
        found = _value(frames, row) if row["table"] else _fact(frames, records, row)
        where = f"{row['table']} {row['symbol']} {row['column']}: {row['why']}"
        if row["value"] == "":
            assert pd.isna(found), where
            continue
        try:
            wanted: Any = float(row["value"])
        except ValueError:
            wanted = row["value"]
            found = (
                found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                if isinstance(found, pd.Timestamp)
                else found
            )
            assert found == wanted, where
        else:
            tolerance = APPROXIMATE.get((file, row["column"]), 1e-9)
            assert found == pytest.approx(wanted, rel=tolerance), where


def _value(frames: dict[str, pd.DataFrame], row: dict[str, str]) -> Any:
    frame = frames.get(row["table"], pd.DataFrame())
    if row["column"] == "rows":
        return len(frame)
    rows = frame[frame["symbol"] == row["symbol"]]
    if row["time"]:
        rows = rows[rows["time"] == pd.Timestamp(row["time"])]
    column = row["column"]
    if column.startswith(("bid ", "ask ")):
        side, level, column = column.split()
        rows = rows[(rows["side"] == side) & (rows["level"] == int(level))]
    assert len(rows) >= 1, f"no row of {row}"
    if row["table"] == "liquidations_fills":
        wanted = row["value"]
        alike = [v for v in rows[column] if str(v) == wanted or (wanted.isdecimal() and v == float(wanted))]
        return (alike or rows[column].tolist())[0]
    assert len(rows) == 1, f"{len(rows)} rows of {row}"
    return rows[column].iloc[0]


def _fact(frames: dict[str, pd.DataFrame], records: Any, row: dict[str, str]) -> Any:
    """A fact that is no row of a table: of an instrument, an interval, or a point of the past."""
    name, column = row["symbol"], row["column"]
    if column == "interval_hours":
        return _interval(frames["intervals"], records, row)
    stamp = pd.Timestamp(row["time"]).value // 1000 if row["time"] else None
    items = sorted((i for i in records.instruments if name in (i.name, i.symbol)), key=lambda i: i.rank)
    points = [p for p in (*records.states, *records.oi) if stamp in (None, p.time)]
    facts: dict[str, Any] = {
        "perpetuals": lambda: sum(i.perpetual and i.active for i in records.instruments),
        "instrument": lambda: items[0].name,
        "contract_coins": lambda: next(i.size for i in items if not i.inverse),
        "contract_usd": lambda: next(i.size for i in items if i.inverse),
        "oi_coins": lambda: next(p.oi_coins for p in points if p.instrument.symbol == name and p.oi_coins),
        "oi_usd": lambda: next(p.oi_usd for p in points if p.instrument.name.startswith(name)),
        "underlying_price": lambda: next(o.underlying for o in records.options if o.symbol == name),
        "strike": lambda: next(o.strike for o in records.options if o.name == name),
    }
    return facts[column]()


def _interval(hours: pd.DataFrame, records: Any, row: dict[str, str]) -> float:
    rows = hours[hours["symbol"] == row["symbol"]]
    if rows.empty:
        assert "not listed" in row["why"]
        return 8
    return rows["interval_hours"].iloc[0] if len(rows) == 1 else _preferred(records, rows)


def _preferred(records: Any, rows: pd.DataFrame) -> float:
    items = {i.name: i for i in records.instruments}
    best = min(rows["instrument_name"], key=lambda n: items[n].rank)
    return float(rows.loc[rows["instrument_name"] == best, "interval_hours"].iloc[0])
