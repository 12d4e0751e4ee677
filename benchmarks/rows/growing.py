"""Each input once, four and sixteen times: the time of the library grows no faster."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import derivdata as dd
from benchmarks import wire
from benchmarks.answering import answer_with, history_table, serve
from benchmarks.row import growth
from benchmarks.rows.archive import funding_rows
from benchmarks.rows.black76 import implied, options
from benchmarks.rows.desk import rows_in_time_order
from benchmarks.rows.panels import panel, share_and_hhi
from benchmarks.rows.surfaces import YEARS, boards
from benchmarks.rows.tables import liquidation_table, surface
from derivdata.analysis import smile
from derivdata.analysis import surface as surfaces
from tests.analysis.smiles import crypto_like

__all__ = ["ROWS"]

_Run = Callable[[], Any]


def _reading(table: _Run, body: bytes) -> _Run:
    def run() -> Any:
        answer_with(body)
        return table()

    return run


def _history(_: Path, times: int) -> _Run:
    return _reading(history_table, wire.history(43, 3_125 * times))


def _snapshot(_: Path, times: int) -> _Run:
    return _reading(dd.funding.snapshot, wire.snapshot(43, 500 * times))


def _events(_: Path, times: int) -> _Run:
    return _reading(liquidation_table, wire.events(31_250 * times))


def _chain(_: Path, times: int) -> _Run:
    return _reading(surface, wire.chain(1_500 * times))


def _hit(_: Path, times: int) -> _Run:
    server = serve(wire.history(43, 310 * times))
    url = f"http://127.0.0.1:{server.server_port}"

    def run() -> Any:
        dd.connect(url)
        return history_table()

    run()
    server.shutdown()
    return run


def _table_panel(_: Path, times: int) -> _Run:
    table = rows_in_time_order(3_125_000 * times)
    return lambda: dd.panel(table)


def _pair(_: Path, times: int) -> _Run:
    rates = panel(12 * times, 10_000, missing=0.1)
    return lambda: dd.analysis.funding.best_pair(rates)


def _shares(_: Path, times: int) -> _Run:
    oi = panel(12 * times, 10_000, missing=0.0, log=True)
    return lambda: share_and_hhi(oi)


def _zscore(_: Path, times: int) -> _Run:
    rates = panel(12 * times, 10_000, missing=0.0)
    return lambda: dd.analysis.funding.zscore(rates, rows=168, lag_rows=0)


def _robust(_: Path, times: int) -> _Run:
    # All sizes are below a million values, above which two threads share the work and take a tenth more
    # processor time in total.
    rates = panel(times, 1_000, missing=0.0)
    return lambda: dd.analysis.funding.zscore(rates, rows=168, robust=True)


def _implied(_: Path, times: int) -> _Run:
    of = options(62_500 * times)
    return lambda: implied(of)


def _slices(_: Path, times: int) -> _Run:
    k, iv, t, _raw = crypto_like(2_500 * times, 40, seed=11, noise=0.03)
    return lambda: smile.fit(k, iv, t, weights="equal")


def _boards(_: Path, times: int) -> _Run:
    k, iv = boards(100 * times)
    return lambda: surfaces.fit(k, iv, YEARS, method="essvi", weights="equal")


def _append(folder: Path, times: int) -> _Run:
    frame = funding_rows(625_000 * times)
    place = folder / str(times)

    def run() -> None:
        shutil.rmtree(place, ignore_errors=True)
        dd.open_archive(place).append("funding_history", frame)

    return run


def _read(folder: Path, times: int) -> _Run:
    archive = dd.open_archive(folder / str(times))
    archive.append("funding_history", funding_rows(625_000 * times, symbols=12 * times))
    end = pd.Timestamp("2025-10-01", tz="UTC")
    return lambda: archive.read("funding_history", "2025-09-01", end, symbols=["SYM0003"])


ROWS = [
    growth("history", "history → table", "43 venues × 3,125 points and up", _history, rounds=3),
    growth("snapshot", "funding snapshot → table", "43 venues × 500 symbols and up", _snapshot, rounds=5),
    growth("liquidations", "liquidation events → table", "31,250 events and up", _events, rounds=3),
    growth("surface", "option chain → surface", "1,500 instruments and up", _chain, rounds=5),
    growth("cache", "cache hit → table", "1 MB and up", _hit, rounds=5),
    growth(
        "panel", "`dd.panel` of rows in the order of time", "3.1 million rows and up", _table_panel, rounds=3
    ),
    growth("best-pair", "best pair", "43 venues × 12 symbols × 10,000 hours and up", _pair, rounds=3),
    growth("shares", "OI share and HHI", "43 venues × 12 symbols × 10,000 hours and up", _shares, rounds=5),
    growth("zscore", "rolling z-score", "43 venues × 12 symbols × 10,000 hours and up", _zscore, rounds=3),
    growth(
        "robust-zscore", "robust z-score", "43 venues × one symbol × 1,000 hours and up", _robust, rounds=5
    ),
    growth("implied-vol", "Black-76 implied volatility", "62,500 options and up", _implied, rounds=3),
    growth("svi", "SVI slices, 3 % noise", "2,500 slices of 40 strikes and up", _slices, rounds=3),
    growth("essvi", "eSSVI surfaces", "100 surfaces of 10 × 40 and up", _boards, rounds=3),
    growth("append", "archive: append", "625,000 rows and up", _append, clock="wall", rounds=3),
    growth(
        "read", "archive: a month of one symbol", "out of 625,000 rows and up", _read, clock="wall", rounds=9
    ),
]
