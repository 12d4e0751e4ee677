"""First requests of histories that the local service sums from an archive, next to a desk's pandas script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

import derivdata as dd
from benchmarks.row import OURS, Check, Made, Row, faster, stated
from derivdata.sources import sample
from derivdata.sources.service.answers import ANSWERS, encoding
from derivdata.sources.service.answers.encoding import RequestContext
from derivdata.sources.service.data.view import View
from derivdata.sources.service.http import access
from derivdata.tables import endpoints
from tests.service import slow_answers

__all__ = ["ROWS"]

_START = pd.Timestamp("2026-03-01", tz="UTC").as_unit("us")
_ENDPOINTS = {endpoint.path: endpoint for endpoint in endpoints.ENDPOINTS}
_PANDAS = "pandas.read_parquet of the same files, groupby"
_AGAIN = "derivdata, second request"
_Ask = Callable[[View], Any]


def _ask(path: str, **texts: str) -> _Ask:
    """Make a response as the service does, for any view."""
    endpoint = _ENDPOINTS[path]

    def ask(view: View) -> Any:
        params = access.parse(endpoint, texts, view.exchanges)
        return encoding.encoded(endpoint, RequestContext(view, "team", params), ANSWERS[path])

    return ask


def _sides(folder: Path, ask: _Ask, pandas: Callable[[], Any]) -> Made:
    store = dd.open_archive(folder)
    warm = View(store, store.now)
    ask(warm)
    return Made({OURS: lambda: ask(View(store, store.now)), _PANDAS: pandas, _AGAIN: lambda: ask(warm)})


def _hours(folder: Path, table: str, column: str, days: int) -> None:
    """Hours of 60 symbols on 43 venues; every other day one of them is listed on one more venue."""
    symbols, venues, hours = 60, 43, 24 * days
    pair = np.arange(symbols * venues).repeat(hours)
    stamps = pd.date_range(_START, periods=hours, freq="h").as_unit("us")
    listed = np.zeros(symbols * venues, np.int64)
    chosen = np.random.default_rng(3).choice(listed.size, days // 2, replace=False)
    listed[chosen] = 48 * np.arange(1, chosen.size + 1) - 15
    there = np.tile(np.arange(hours), symbols * venues) >= listed[pair]
    frame = pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(pair // venues, [f"SYM{i:03d}" for i in range(symbols)]),
            "exchange": pd.Categorical.from_codes(pair % venues, [f"venue{i:02d}" for i in range(venues)]),
            "time": pd.DatetimeIndex(np.tile(stamps, symbols * venues)),
            column: np.random.default_rng(2).lognormal(15, 1, pair.size).round(2),
            "resolution": pd.Categorical.from_codes(np.zeros(pair.size, np.int8), ["1h"]),
        }
    )
    dd.open_archive(folder).merge(table, frame[there])


def _totals(folder: Path) -> Made:
    _hours(folder, "oi_history", "oi_usd", 90)

    def pandas() -> Any:
        frame = pd.read_parquet(folder / "oi_history", columns=["symbol", "exchange", "time", "oi_usd"])
        frame["time"] = frame["time"].dt.floor("4h")
        means = frame.groupby(["symbol", "exchange", "time"], observed=True)["oi_usd"].mean().round(2)
        return means.groupby(["time", "exchange"], observed=True).agg(["sum", "size"])

    made = _sides(folder, _ask("/oi/exchange-totals", range="90d"), pandas)
    return Made(made.sides, checks=lambda: [_equal(folder, pandas)])


def _equal(folder: Path, pandas: Callable[[], Any]) -> Check:
    """Compare the response with the script's sums."""
    store = dd.open_archive(folder)
    view = View(store, store.now)
    body = ANSWERS["/oi/exchange-totals"](
        RequestContext(
            view, "team", access.parse(_ENDPOINTS["/oi/exchange-totals"], {"range": "90d"}, view.exchanges)
        )
    )
    ours = sum(row["total_open_interest_usd"] for row in msgspec.json.decode(body["data"]))
    theirs = pandas()["sum"].sum()
    error = abs(ours / theirs - 1.0)
    return Check("sum of all totals against the script's", f"{error:.0e}", "≤ 1e-03", bool(error <= 1e-3))


def _ratio(folder: Path) -> Made:
    for table, column in (("oi_history", "oi_usd"), ("volume_history", "volume_usd")):
        _hours(folder, table, column, 90)

    def pandas() -> Any:
        columns = ["symbol", "exchange", "time"]
        frame = pd.read_parquet(folder / "oi_history", columns=[*columns, "oi_usd"])
        frame["time"] = frame["time"].dt.floor("4h")
        means = frame.groupby(columns, observed=True)["oi_usd"].mean()
        held = means.groupby(["exchange", "time"], observed=True).sum()
        frame = pd.read_parquet(folder / "volume_history", columns=[*columns, "volume_usd"])
        hourly = frame.groupby(["exchange", "time"], observed=True)["volume_usd"].sum().unstack("exchange")
        return hourly.rolling(168).sum().shift(1).stack().reindex(held.index.swaplevel()) / held.swaplevel()

    return _sides(folder, _ask("/volume-oi-ratio", range="90d", window_days="7"), pandas)


def _at_the_money(folder: Path) -> Made:
    """Make chains of a month of the sample, three times."""
    chains = sample.open().read(
        "options_snapshot", _START, _START + pd.Timedelta(30, "D"), symbols=["BTC"], venues=["deribit"]
    )
    archive = dd.open_archive(folder)
    for month in range(3):
        later = pd.Timedelta(30 * month, "D")
        archive.merge(
            "options_snapshot", chains.assign(time=chains["time"] + later, expiry=chains["expiry"] + later)
        )

    def pandas() -> Any:
        columns = ["time", "expiry", "strike", "iv", "underlying_price"]
        frame = pd.read_parquet(folder / "options_snapshot", columns=columns)
        return slow_answers.at_the_money(frame)

    return _sides(folder, _ask("/options/atm-history", symbol="BTC", exchange="deribit", range="90d"), pandas)


def _liquidated(folder: Path) -> Made:
    """Make fills of a month of the sample, three times."""
    fills = sample.open().read("liquidations_fills", _START, _START + pd.Timedelta(30, "D"))
    archive = dd.open_archive(folder)
    for month in range(3):
        names = fills["order_id"] + f"-{month}", fills["fill_id"] + f"-{month}"
        later = fills.assign(
            time=fills["time"] + pd.Timedelta(30 * month, "D"), order_id=names[0], fill_id=names[1]
        )
        archive.merge("liquidations_fills", later)

    def pandas() -> Any:
        columns = ["exchange", "order_id", "time", "side", "value_usd"]
        frame = pd.read_parquet(folder / "liquidations_fills", columns=columns).sort_values("time")
        by_order = frame.groupby(["exchange", "order_id"], observed=True)
        orders = by_order.agg(time=("time", "last"), side=("side", "first"), value_usd=("value_usd", "sum"))
        return slow_answers.liquidated(orders.reset_index(), pd.Timedelta(1, "D"))

    return _sides(folder, _ask("/liquidations/history", range="90d"), pandas)


ROWS = [
    Row(
        "totals",
        what="service: open interest of every venue, first request",
        given="90 days in steps of 4 h, from an archive of the hours of 60 symbols × 43 venues, 45 listings",
        make=_totals,
        goals={_PANDAS: faster(2), _AGAIN: stated()},
        rounds=3,
    ),
    Row(
        "ratio",
        what="service: volume over open interest of every venue, first request",
        given="volume of 7 days at steps of 4 h over 90 days, from an archive as above (2 × 5.6 M rows)",
        make=_ratio,
        goals={_PANDAS: faster(2), _AGAIN: stated()},
        rounds=3,
    ),
    Row(
        "atm-history",
        what="service: volatility at the money by hour and expiry, first request",
        given="90 days of hourly chains of one symbol on one venue (1.6 M rows)",
        make=_at_the_money,
        goals={_PANDAS: faster(1), _AGAIN: stated()},
        rounds=3,
    ),
    Row(
        "liquidation-history",
        what="service: liquidated value by day, venue and side, first request",
        given="90 days of fills of all venues (0.9 M rows)",
        make=_liquidated,
        goals={_PANDAS: faster(1), _AGAIN: stated()},
        rounds=3,
    ),
]
