"""Bodies of venues to rows: a walk through the histories of a hundred contracts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from benchmarks.row import OURS, Check, Made, Row, stated
from derivdata import venues
from derivdata.venues.record_types import Records
from derivdata.venues.tabulation import frames

__all__ = ["ROWS"]

_CONTRACTS, _PAYMENTS = 100, 1000
_REACH = 200_000
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
        return [Check("rows a second", f"{speed:,.0f}", f"≥ {_REACH:,}", speed >= _REACH)]

    return Made({OURS: ours, _FRAME: plain, _ORJSON: limit}, checks=checks)


ROWS = [
    Row(
        "venue-settlements",
        what="bodies of a venue → settlements",
        given=f"{_CONTRACTS} contracts × {_PAYMENTS:,} payments",
        make=_settlements,
        goals={_FRAME: stated(), _ORJSON: stated()},
    ),
]
