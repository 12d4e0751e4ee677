"""A desk's larger questions: runs of liquidations, faults of a table, earnings of a pair."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import derivdata as dd
from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, growth, stated, within
from benchmarks.rows.archive import funding_rows
from benchmarks.rows.panels import panel, rows_of
from derivdata.analysis import align, liquidations

__all__ = ["ROWS"]

_RUNS = "pandas: sort, cumsum of gaps, groupby and agg; without peaks, venues and prices"
_SUMMARY = "pandas: groupby(symbol, exchange).agg(count, first, last, min, max) and steps; nothing else"
_POLARS = "polars: steps, gaps, duplicates, frozen runs and medians by group_by; nothing else"
_JOIN = "pandas: merge_asof of the sorted frames; without checks"


def orders(count: int) -> pd.DataFrame:
    """Liquidations of a quarter: bursts that follow one another, all venues."""
    rng = np.random.default_rng(4)
    stamps = np.cumsum(
        rng.exponential(7_800_000 * 1_000_000 / count, count) * rng.choice([0.1, 3.0], count, p=[0.7, 0.3])
    )
    price = 100.0 * np.exp(np.cumsum(rng.normal(0, 1e-4, count)))
    return pd.DataFrame(
        {
            "time": pd.DatetimeIndex(np.datetime64("2026-01-01", "us") + stamps.astype("m8[us]"), tz="UTC"),
            "exchange": pd.Categorical.from_codes(
                rng.integers(0, 43, count), [f"venue{i:02d}" for i in range(43)]
            ),
            "symbol": pd.Categorical.from_codes(
                rng.integers(0, 200, count), [f"SYM{i:03d}" for i in range(200)]
            ),
            "order_id": np.arange(count).astype(str),
            "side": pd.Categorical.from_codes(rng.integers(0, 2, count), ["long", "short"]),
            "value_usd": np.exp(rng.normal(8, 2, count)),
            "fill_price_usd": price,
        }
    )


def _clusters(_: Path) -> Made:
    events = orders(1_000_000)

    def pandas() -> pd.DataFrame:
        frame = events.sort_values("time")
        run = (frame["time"].diff() > pd.Timedelta("60s")).cumsum()
        return frame.groupby(run).agg(
            start=("time", "first"), end=("time", "last"), value=("value_usd", "sum")
        )

    assert len(pandas()) == len(liquidations.clusters(events))
    return _within(1.5, {OURS: lambda: liquidations.clusters(events), _RUNS: pandas})


def _within(most: float, sides: dict[str, Callable[[], Any]]) -> Made:
    """Sides, and ours once more against the clock of the processor."""

    def seconds() -> list[Check]:
        began = time.process_time()
        sides[OURS]()
        spent = time.process_time() - began
        return [Check("processor seconds", f"{spent:.2f}", f"≤ {most:g}", spent <= most)]

    return Made(sides, checks=seconds)


def _growing_clusters(_: Path, times: int) -> Callable[[], Any]:
    events = orders(62_500 * times)
    return lambda: liquidations.clusters(events)


def _quality(_: Path) -> Made:
    frame = funding_rows(300 * 43 * 24, venues=43, symbols=300)

    def pandas() -> pd.DataFrame:
        series = frame.groupby(["symbol", "exchange"], observed=True)
        found = series["rate_bps_8h"].agg(["count", "first", "last", "min", "max"])
        return found.assign(
            step=frame["time"].diff().groupby([frame["symbol"], frame["exchange"]], observed=True).median()
        )

    assert len(dd.quality(frame)) == len(pandas()) == 12_900
    return _within(1.0, {OURS: lambda: dd.quality(frame), _SUMMARY: pandas})


def rows_in_time_order(count: int) -> pd.DataFrame:
    """Hourly rates of 43 venues and 300 symbols in the order of time, as a store of snapshots has them."""
    hours, series = count // (43 * 300), np.arange(43 * 300)
    stamps = pd.date_range("2025-01-01", periods=hours, freq="h", tz="UTC", unit="us")
    pair = np.tile(series, hours)
    rates = np.random.default_rng(1).normal(size=pair.size).round(4)
    return pd.DataFrame(
        {
            "time": stamps.repeat(series.size),
            "exchange": pd.Categorical.from_codes(pair % 43, [f"venue{i:02d}" for i in range(43)]),
            "symbol": pd.Categorical.from_codes(pair // 43, [f"SYM{i:03d}" for i in range(300)]),
            "rate_bps_8h": rates,
            "resolution": pd.Categorical.from_codes(np.zeros(pair.size, np.int8), ["1h"]),
            "kind": pd.Categorical.from_codes(np.zeros(pair.size, np.int8), ["sampled"]),
        }
    )


def _figures_by_polars(frame: pl.DataFrame) -> pl.DataFrame:
    """Steps, gaps, duplicates, frozen runs and medians of each series, without any comparison of venues."""
    stamps, value = pl.col("time").sort(), pl.col("rate_bps_8h")
    return frame.group_by("symbol", "exchange").agg(
        pl.len().alias("present"),
        stamps.diff().median().alias("step"),
        stamps.diff().max().alias("longest_gap"),
        (stamps.len() - stamps.n_unique()).alias("duplicates"),
        value.rle().struct.field("len").max().alias("frozen"),
        value.median().alias("median"),
        value.is_null().sum().alias("nulls"),
    )


def _large_quality(_: Path) -> Made:
    frame = rows_in_time_order(10_000_000)
    columns = pl.from_pandas(frame)
    keys = {"symbol": str, "exchange": str}
    ours, theirs = (
        report.astype(keys).set_index(list(keys)).sort_index()
        for report in (dd.quality(frame), _figures_by_polars(columns).to_pandas())
    )
    for name in ("present", "duplicates", "frozen", "nulls"):
        np.testing.assert_array_equal(ours[name], theirs[name])

    def memory() -> list[Check]:
        times = peak_bytes_of("quality", str(len(frame))) / int(frame.memory_usage(deep=True).sum())
        return [
            Check("peak memory beside the table, of the table's", f"{times:.2f} ×", "≤ 1 ×", times <= 1.0)
        ]

    return Made(
        {OURS: lambda: dd.quality(frame), _POLARS: lambda: _figures_by_polars(columns)},
        checks=memory,
        facts=lambda: ["points, duplicates, frozen runs and nulls equal, one by one"],
    )


def _growing_quality(_: Path, times: int) -> Callable[[], Any]:
    frame = funding_rows(20 * times * 43 * 24, venues=43, symbols=20 * times)
    return lambda: dd.quality(frame)


def _joined(_: Path) -> Made:
    left = rows_of(panel(1, 10_000, missing=0.0))
    right = left.rename(columns={"rate_bps_8h": "other"})
    keys = ["symbol", "exchange"]

    def pandas() -> pd.DataFrame:
        sides = [frame.sort_values("time") for frame in (left, right)]
        return pd.merge_asof(*sides, on="time", by=keys, tolerance=pd.Timedelta("2h"))

    return Made({OURS: lambda: align.asof_join(left, right, tolerance="2h"), _JOIN: pandas})


ROWS = [
    Row(
        "clusters",
        what="runs of liquidations",
        given="a million orders of a quarter, 43 venues × 200 symbols",
        make=_clusters,
        goals={_RUNS: stated()},
        rounds=3,
    ),
    growth("clusters", "runs of liquidations", "62,500 orders and up", _growing_clusters, rounds=3),
    Row(
        "quality",
        what="what is wrong with a table (`dd.quality`)",
        given="a day of hours of 43 venues × 300 symbols, 12,900 series",
        make=_quality,
        goals={_SUMMARY: stated()},
        rounds=3,
    ),
    Row(
        "quality-large",
        what="what is wrong with a table in the order of time (`dd.quality`)",
        given="10 million rows of 43 venues × 300 symbols",
        make=_large_quality,
        goals={_POLARS: within(5)},
        rounds=3,
    ),
    growth(
        "quality",
        "what is wrong with a table",
        "a day of hours of 43 venues × 20 symbols and up",
        _growing_quality,
        rounds=3,
    ),
    Row(
        "asof-join",
        what="two tables joined as of a time",
        given="10,000 hours of one symbol on 43 venues, twice",
        make=_joined,
        goals={_JOIN: within(2)},
        rounds=3,
    ),
]
