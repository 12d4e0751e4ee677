"""Bodies of venues to rows: a walk through the histories of a hundred contracts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, stated
from benchmarks.venue_histories import histories
from benchmarks.venue_minute import CONTRACTS, Minute, rows_of_a_day
from derivdata import open_archive
from derivdata.sources import venues
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.tabulation import frames

__all__ = ["ROWS"]

_CONTRACTS, _PAYMENTS = 100, 1000
_REACH = 200_000
_SERIES, _PART, _DAY, _YEAR = 8000, 20, 1440, 365
_DAYS = _YEAR if os.environ.get("DERIVDATA_YEAR") else 10
"""Days that are appended; a complete twentieth takes five minutes of processor time."""
_FRAME = "json.loads, pd.DataFrame, to_datetime and arithmetic, without checks or intervals"
_ORJSON = "limit: orjson.loads"
_PATH = "/fapi/v1/fundingRate"


def _bodies() -> list[bytes]:
    return [
        json.dumps(
            [
                {
                    "symbol": f"C{contract}USDT",
                    "fundingTime": 1_698_768_000_000 + number * 28_800_000 + number % 20,
                    "fundingRate": f"{(number * 7919 % 2001 - 1000) * 1e-7:.8f}",
                    "markPrice": "34287.54619963",
                }
                for number in range(_PAYMENTS)
            ]
        ).encode()
        for contract in range(_CONTRACTS)
    ]


def _settlements(_: Path) -> Made:
    bodies = _bodies()

    def ours() -> pd.DataFrame:
        records = Records()
        for body in bodies:
            records.add(venues.records("binance", _PATH, body))
        return frames("binance", records, ["funding_settlements"])["funding_settlements"]

    def plain() -> pd.DataFrame:
        frame = pd.concat([pd.DataFrame(json.loads(body)) for body in bodies], ignore_index=True)
        frame["time"] = pd.to_datetime(frame["fundingTime"], unit="ms", utc=True).dt.floor("min")
        frame["rate_bps_8h"] = frame["fundingRate"].astype(float) * 1e4
        return frame

    def limit() -> list[Any]:
        return [orjson.loads(body) for body in bodies]

    def checks() -> list[Check]:
        before = time.process_time()
        rows = len(ours())
        speed = rows / (time.process_time() - before)
        each = {history.exchange: history.rows_per_second() for history in histories()}
        slowest = min(each, key=lambda name: each[name])
        return [
            Check("rows a second", f"{speed:,.0f}", f"≥ {_REACH:,}", speed >= _REACH),
            Check(
                f"rows a second of pages of the slowest of {len(each)} venues, {slowest}",
                f"{each[slowest]:,.0f}",
                f"≥ {_REACH:,}",
                each[slowest] >= _REACH,
            ),
        ]

    return Made({OURS: ours, _FRAME: plain, _ORJSON: limit}, checks=checks)


def _minute(folder: Path) -> Made:
    minute = Minute(folder)

    def ours() -> dict[str, int]:
        return minute.collector().once()

    def limit() -> list[Any]:
        return [orjson.loads(body) for body in minute.bodies]

    def checks() -> list[Check]:
        collector = minute.collector()
        before = time.process_time()
        collector.once()
        spent = time.process_time() - before
        memory = peak_bytes_of("minute") / 1e6
        return [
            Check("processor time of a minute", f"{spent:.2f} s", "≤ 1 s", spent <= 1.0),
            Check("memory above an idle process", f"{memory:.0f} MB", "≤ 200 MB", memory <= 200.0),
        ]

    def facts() -> list[str]:
        size = sum(map(len, minute.bodies)) / 1e6
        return [f"{sum(ours().values()):,} rows of {size:.1f} MB in {len(minute.bodies)} bodies"]

    return Made({OURS: ours, _ORJSON: limit}, checks=checks, facts=facts, close=minute.close)


def _year(folder: Path) -> Made:
    frame = rows_of_a_day(_SERIES // _PART, _DAY)
    made = iter(range(1000))

    def ours() -> int:
        return open_archive(folder / str(next(made))).append("funding_history", frame)

    def facts() -> list[str]:
        archive = open_archive(folder / "told")
        before = time.process_time()
        for day in range(_DAYS):
            archive.append("funding_history", rows_of_a_day(_SERIES // _PART, _DAY, day))
        spent = time.process_time() - before
        info = archive.info().loc["funding_history"]
        size, year = info["megabytes"] * 1e6, _SERIES * _DAY * _YEAR
        return [
            f"measured, a twentieth of the contracts, {_DAYS} of {_YEAR} days: {info['rows']:,} rows in "
            f"{info['files']} files of {size / 1e9:.2f} GB, {size / info['rows']:.2f} bytes a row, made and "
            f"appended day by day in {spent:.0f} s of the processor; all of the year on paper: {year:,} rows "
            f"a table, {year * size / info['rows'] / 1e9:.0f} GB, {info['files'] * _YEAR // _DAYS} files or "
            "more (DERIVDATA_YEAR=1 measures all days)"
        ]

    return Made({OURS: ours}, facts=facts)


ROWS = [
    Row(
        "venue-minute",
        what="a minute of all venues: bodies → rows → archive",
        given=f"15 venues × {CONTRACTS} contracts",
        make=_minute,
        goals={_ORJSON: stated()},
    ),
    Row(
        "venue-year",
        what="a day of minutes, a twentieth of 800 symbols × 10 venues → archive",
        given=f"{_SERIES // _PART} series × {_DAY:,} minutes; more such days below",
        make=_year,
        goals={},
    ),
    Row(
        "venue-settlements",
        what="bodies of a venue → settlements",
        given=f"{_CONTRACTS} contracts × {_PAYMENTS:,} payments",
        make=_settlements,
        goals={_FRAME: stated(), _ORJSON: stated()},
    ),
]
