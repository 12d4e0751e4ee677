"""From the bytes of a response to a table: decode and build, no HTTP."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson
import pandas as pd

import derivdata as dd
from benchmarks import wire
from benchmarks.answering import answer_with, history_table
from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, faster, stated, within

__all__ = ["ROWS", "liquidation_table", "surface"]


class _Point(msgspec.Struct):
    timestamp: str
    y: float


class _History(msgspec.Struct):
    symbol: str
    series: dict[str, list[_Point]]


_NORMALISED = "json.loads, json_normalize, concat, to_datetime"
_ORJSON = "limit: orjson.loads alone"
_TYPED = "limit: msgspec typed decode alone"


def _history(points: int, folder: Path) -> Made:
    body = wire.history(43, points)
    answer_with(body)
    rates = normalised_history(body)["y"]
    assert (history_table()["rate_bps_8h"].to_numpy() == rates.to_numpy()).all()

    def checks() -> list[Check]:
        file = folder / "body.json"
        file.write_bytes(body)
        peak = peak_bytes_of("history", str(file)) / len(body)
        return [Check("peak memory, the body included", f"{peak:.2f} × the body", "≤ 3 ×", peak <= 3)]

    return Made(
        {
            OURS: history_table,
            _NORMALISED: lambda: normalised_history(body),
            _ORJSON: lambda: orjson.loads(body),
            _TYPED: lambda: msgspec.json.decode(body, type=_History),
        },
        checks=checks,
        facts=lambda: ["rates equal, one by one"],
    )


def normalised_history(body: bytes) -> pd.DataFrame:
    series = json.loads(body)["series"]
    parts = [pd.json_normalize(points).assign(exchange=venue) for venue, points in series.items()]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(time=pd.to_datetime(frame["timestamp"]))


_STACKED = "json.loads, DataFrame.stack, join"


def _snapshot(_: Path) -> Made:
    body = wire.snapshot(43, 1000)
    answer_with(body)
    keys = ["symbol", "exchange"]
    ours, theirs = (frame.astype(dict.fromkeys(keys, "str")).sort_values(keys) for frame in _snapshots(body))
    assert np.array_equal(ours["rate_bps_8h"], theirs["rate"])
    return Made(
        {
            OURS: dd.funding.snapshot,
            _STACKED: lambda: stacked_snapshot(body),
            _ORJSON: lambda: orjson.loads(body),
        },
        facts=lambda: ["rates equal, one by one"],
    )


def _snapshots(body: bytes) -> tuple[pd.DataFrame, pd.DataFrame]:
    return dd.funding.snapshot(), stacked_snapshot(body)


def stacked_snapshot(body: bytes) -> pd.DataFrame:
    found = json.loads(body)
    names = {"funding_rates": "rate", "funding_rates_raw": "raw", "funding_intervals": "hours"}
    columns = [pd.DataFrame(found[wire]).stack().astype(float).rename(n) for wire, n in names.items()]
    frame = pd.concat(columns, axis=1).rename_axis(["symbol", "exchange"]).reset_index()
    ranks = pd.to_numeric(frame["symbol"].map(found["oi_rankings"]), errors="coerce")
    return frame.assign(rank=ranks, time=pd.to_datetime(found["timestamp"]))


_EVENTS = "json.loads, json_normalize, to_datetime"


def _liquidations(_: Path) -> Made:
    body = wire.events(200_000)
    answer_with(body)
    ours, theirs = liquidation_table(), normalised_events(body)
    assert len(ours) == len(theirs)
    assert np.array_equal(np.sort(ours["fill_price_usd"]), np.sort(theirs["avg_price"]))
    del ours, theirs
    return Made(
        {
            OURS: liquidation_table,
            _EVENTS: lambda: normalised_events(body),
            _ORJSON: lambda: orjson.loads(body),
        },
        facts=lambda: ["prices equal, one by one"],
    )


def liquidation_table() -> pd.DataFrame:
    return dd.liquidations.events(limit=1_000_000)


def normalised_events(body: bytes) -> pd.DataFrame:
    frame = pd.json_normalize(json.loads(body)["events"])
    return frame.assign(time=pd.to_datetime(frame["timestamp"]))


_INDEXED = "json.loads, json_normalize, set_index().to_xarray()"


def _surface(_: Path) -> Made:
    body = wire.chain(1500)
    answer_with(body)
    ours, theirs = surface(), indexed_surface(body)
    assert np.array_equal(np.sort(ours["iv"], axis=None), np.sort(theirs["iv"], axis=None))
    return Made(
        {
            OURS: surface,
            _INDEXED: lambda: indexed_surface(body),
            _ORJSON: lambda: orjson.loads(body),
        },
        facts=lambda: ["volatilities equal, one by one"],
    )


def surface() -> Any:
    return dd.options.surface("BTC", "deribit")


def indexed_surface(body: bytes) -> Any:
    frame = pd.json_normalize(json.loads(body)["instruments"])
    frame["expiry"] = pd.to_datetime(frame["expiry"])
    return frame.set_index(["expiry", "strike", "side"]).drop(columns="instrument_name").to_xarray()


ROWS = [
    Row(
        "history-2000",
        what="history → table",
        given="43 venues × 2,000 points, 7 MB of JSON",
        make=partial(_history, 2_000),
        goals={_NORMALISED: faster(10), _ORJSON: faster(1), _TYPED: within(2.5)},
    ),
    Row(
        "history-15000",
        what="history → table",
        given="43 venues × 15,000 points, 53 MB of JSON",
        make=partial(_history, 15_000),
        goals={_NORMALISED: faster(8), _ORJSON: faster(1), _TYPED: within(2.5)},
        rounds=3,
    ),
    Row(
        "snapshot",
        what="funding snapshot → table",
        given="43 venues × 1,000 symbols",
        make=_snapshot,
        goals={_STACKED: faster(3), _ORJSON: stated()},
    ),
    Row(
        "liquidations",
        what="liquidation events → table",
        given="200,000 events",
        make=_liquidations,
        goals={_EVENTS: faster(4), _ORJSON: stated()},
        rounds=3,
    ),
    Row(
        "surface",
        what="option chain → surface Dataset",
        given="1,500 instruments",
        make=_surface,
        goals={_INDEXED: faster(3), _ORJSON: stated()},
    ),
]
