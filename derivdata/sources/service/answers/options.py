"""Options of one symbol on one venue, now and over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import Answers, RequestContext
from derivdata.sources.service.data import windows
from derivdata.sources.service.data.store import DOCS, Refusal, bad_request
from derivdata.sources.service.data.view import View
from derivdata.sources.service.data.windows import TICK, ResponseWindow
from derivdata.support import times
from derivdata.support.arrays import Indices
from derivdata.tables import endpoints
from derivdata.tables.chains import HOLD, aligned
from derivdata.tables.schema import Table

_GREEKS = ("delta", "gamma", "vega", "theta")
_EXTRA_COLUMNS = tuple(
    "rho bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd volume interest_rate "
    "quoted_at".split()
)
"""Columns that the hosted service does not have."""

_COLUMNS = tuple(
    f"instrument_name expiry strike side iv {' '.join(_GREEKS)} open_interest underlying_price".split()
)
_DAY = pd.Timedelta(1, "D")
_MAX_DAYS_BELOW_PRO = 90
_SURFACE_STEPS: tuple[tuple[int, times.Resolution], ...] = ((2, "1h"), (7, "4h"), (30, "12h"))
_LONGEST_STEP: times.Resolution = "1d"
_ATM_COLUMNS = ("time", "expiry", "strike", "iv", "underlying_price")
"""Columns of a chain that `at_the_money` reads and returns."""


def snapshot(context: RequestContext) -> dict[str, Any]:
    """``GET /options/snapshot``: the newest chain, at most an hour old, with its ``time`` if not now."""
    view = context.view
    symbol = context.params["symbol"]
    exchange = context.params["exchange"]
    chain = _require_pair(view, symbol, exchange)
    chain = chain[chain["expiry"] > view.now]
    optional = (*_GREEKS, *_EXTRA_COLUMNS)
    shown = [
        name for name in (*_COLUMNS, *_EXTRA_COLUMNS) if name not in optional or chain[name].notna().any()
    ]
    body: dict[str, Any] = {"symbol": symbol, "exchange": exchange, "count": len(chain)}
    if len(chain) and chain["time"].max() != view.now:
        body["time"] = times.iso(chain["time"].max())
    body["instruments"] = encoding.rows(chain[shown])
    return body


def metrics(context: RequestContext) -> dict[str, Any]:
    """``GET /options/metrics``: at-the-money volatility of every expiry now and a day ago."""
    view = context.view
    symbol = context.params["symbol"]
    exchange = context.params["exchange"]
    _require_pair(view, symbol, exchange)
    now = at_the_money(_chain(view, symbol, exchange, view.now))
    before = at_the_money(_chain(view, symbol, exchange, view.now - _DAY))
    iv_before = before.set_index("expiry")["iv"].reindex(now["expiry"]).to_numpy()
    columns = {
        "expiry": now["expiry"],
        "underlying_price": now["underlying_price"],
        "atm_strike": now["strike"],
        "atm_iv": now["iv"],
        "atm_iv_24h_ago": iv_before,
        "atm_iv_change_24h": (now["iv"] - iv_before).round(6),
    }
    return {
        "symbol": symbol,
        "exchange": exchange,
        "count": len(now),
        "data": encoding.rows(columns),
        "cached": False,
    }


def atm_history(context: RequestContext) -> dict[str, Any]:
    """``GET /options/atm-history``: a row per full hour and expiry."""
    window = _window(context)
    frame = _atm_by_hour(context, window)
    columns = {"hour": frame["time"], **frame[["expiry", "underlying_price", "strike", "iv"]]}
    return _echo(context) | {
        "count": len(frame),
        "data": encoding.rows(columns),
        "resolution": "1h",
        "notices": window.notices + _empty_notices(frame),
    }


def surface_history(context: RequestContext) -> dict[str, Any]:
    """``GET /options/surface-history``: chains with their own times, hourly up to 2 days, else less often."""
    window = _window(context)
    view = context.view
    _require_pair(view, context.params["symbol"], context.params["exchange"])
    step = _surface_step(window.requested)
    length = times.RESOLUTIONS[step]
    hours = pd.date_range(window.start.ceil(length), window.end, freq=length, inclusive="left", unit="us")
    by_time: dict[pd.Timestamp, pd.DataFrame] = {}  # keyed by time, because two steps may have the same chain
    for hour in hours:
        chain = _chain_of_step(context, hour, length)
        if len(chain):
            by_time[chain["time"].iloc[0]] = chain
    frame = _join_frames(list(by_time.values()), tables.TABLES["options_snapshot"])
    names = ["expiry", "strike", "side", "iv", "underlying_price", "open_interest"]
    stamps = [stamp[1:-1].decode() for stamp in encoding.iso_tokens(pd.DatetimeIndex(frame["time"]))]
    snapshots = encoding.split(encoding.objects(frame[names]), pd.Series(stamps, dtype=object))
    notices = list(window.notices)
    if step != "1h":
        notices.append(
            f"for a range of {context.params['range']} the step of the surface is {step} instead of 1h"
        )
    return _echo(context) | {
        "hours": list(snapshots),
        "snapshots": snapshots,
        "resolution": step,
        "notices": notices + _empty_notices(frame),
    }


def _surface_step(length: pd.Timedelta) -> times.Resolution:
    """Return the step of surfaces over a window."""
    for days, step in _SURFACE_STEPS:
        if length <= days * _DAY:
            return step
    return _LONGEST_STEP


def overview_history(context: RequestContext) -> dict[str, Any]:
    """``GET /options/overview-history``: notional figures by hour, venue and symbol."""
    view = context.view
    view.need("options_overview_history")
    window = _window(context)
    frame = view.rows(Query("options_overview_history", window.start, window.end))
    frame = frame.sort_values(["time", "exchange", "symbol"], ignore_index=True)
    columns = {
        "timestamp": frame["time"],
        **frame[["exchange", "symbol", "notional_oi_usd", "notional_volume_24h_usd"]],
    }
    return {
        "range": context.params["range"],
        "days": _days(context),
        "count": len(frame),
        "data": encoding.rows(columns),
        "unit": "usd",
        "resolution": "1h",
        "notices": window.notices + _empty_notices(frame),
    }


def at_the_money(chains: pd.DataFrame) -> pd.DataFrame:
    """Return the strike nearest the underlying and the mean volatility there, by time and expiry.

    If two strikes are equally near, the lower one is used. Rows may be in any order and of any number of
    chains: each quantity is a minimum or sum over the cell (time, expiry) of a row, so nothing is sorted.
    """
    strike = chains["strike"].to_numpy()
    iv = chains["iv"].to_numpy()
    underlying = chains["underlying_price"].to_numpy()
    quoted = (iv > 0) & (underlying > 0)
    strike = strike[quoted]
    iv = iv[quoted]
    underlying = underlying[quoted]
    # 1. Number the cells.
    time, stamps = pd.factorize(chains["time"].array.asi8[quoted], sort=True)
    expiry, expiries = pd.factorize(chains["expiry"].array.asi8[quoted], sort=True)
    cell = time * len(expiries) + expiry
    cells = len(stamps) * len(expiries)
    # 2. Find the nearest strike of each cell, on ties the lower one.
    distance = np.abs(strike - underlying)
    smallest = np.full(cells, np.inf)
    np.minimum.at(smallest, cell, distance)
    nearest = np.flatnonzero(distance == smallest[cell])
    lowest = np.full(cells, np.inf)
    np.minimum.at(lowest, cell[nearest], strike[nearest])
    # 3. Average over the rows with that strike: call, put, and other options.
    at_strike = np.flatnonzero(strike == lowest[cell])
    count = np.bincount(cell[at_strike], minlength=cells)
    filled = np.flatnonzero(count)

    def mean(values: Any) -> Any:
        return np.bincount(cell[at_strike], values[at_strike], minlength=cells)[filled] / count[filled]

    time, expiry = np.divmod(filled, max(len(expiries), 1))
    columns = {
        "time": _times(np.asarray(stamps)[time]),
        "expiry": _times(np.asarray(expiries)[expiry]),
        "strike": lowest[filled],
        "iv": mean(iv).round(6),
        "underlying_price": mean(underlying),
    }
    return pd.DataFrame(columns, copy=False)


def at_hours(chains: pd.DataFrame, hours: pd.DatetimeIndex) -> pd.DataFrame:
    """Return `at_the_money` of the newest valid chain at each hour, stamped with the hour.

    Rows with their own timestamps are joined to chains, as in `derivdata.tables.chains`.
    """
    # 1. The time of the newest chain of each hour that has a valid one.
    stamps = np.unique(chains["time"].array.asi8)
    if (np.diff(stamps) < times.us(HOLD)).any():  # chains an hour apart or more are separate
        chains, _ = aligned(chains)
        stamps = np.unique(chains["time"].array.asi8)
    hour = hours.as_unit("us").asi8
    newest = np.searchsorted(stamps, hour, side="right") - 1
    hour = hour[newest >= 0]
    newest = newest[newest >= 0]
    is_valid = hour - stamps[newest] <= times.us(windows.HOLD)
    hour = hour[is_valid]
    stamp = stamps[newest[is_valid]]
    # 2. The rows of these chains, which are sorted by time.
    rows = at_the_money(chains)
    row_times = rows["time"].array.asi8
    first = np.searchsorted(row_times, stamp, side="left")
    end = np.searchsorted(row_times, stamp, side="right")
    count = end - first
    # The result has the rows first_i … end_i − 1 of each hour i in turn. Its j-th row, if it is of hour i,
    # is row j + end_i − (number of rows up to and including hour i).
    place = np.arange(count.sum()) + np.repeat(end - np.cumsum(count), count)
    hourly = rows.take(place).assign(time=_times(np.repeat(hour, count)))
    return hourly[hourly["expiry"] > hourly["time"]].reset_index(drop=True)


def _times(micros: Indices) -> pd.DatetimeIndex:
    """Return UTC times from microseconds since 1970."""
    return pd.DatetimeIndex(micros.view("M8[us]")).tz_localize("UTC")


def _require_pair(view: View, symbol: str, exchange: str) -> pd.DataFrame:
    """Return the newest chain of a pair, which may be empty; raise `Refusal` for an unknown pair."""
    view.need("options_snapshot")
    chain = view.latest("options_snapshot", view.now, windows.HOLD, [symbol], [exchange])
    if chain.empty and exchange not in endpoints.OPTIONS_MATRIX.get(symbol, ()):
        raise bad_request(f"no options of {symbol} on {exchange}; request a venue that lists them")
    return chain


def _join_frames(frames: list[pd.DataFrame], table: Table) -> pd.DataFrame:
    """Return the rows of all frames, or the empty table."""
    nonempty = [frame for frame in frames if len(frame)]
    if not nonempty:
        return table.empty()
    return pd.concat(nonempty, ignore_index=True)


def _days(context: RequestContext) -> int:
    """Return the days of a range such as ``30d``."""
    return int(context.params["range"][:-1])


def _window(context: RequestContext) -> ResponseWindow:
    """Return the requested window; raise `Refusal` (403) for a range that the tier does not cover."""
    if _days(context) > _MAX_DAYS_BELOW_PRO and context.tier not in ("pro", "team"):
        why = f"a range over {_MAX_DAYS_BELOW_PRO}d requires Pro or higher, got {context.params['range']}"
        raise Refusal(403, why, required_tier="pro", docs=DOCS)
    return context.window()


def _echo(context: RequestContext) -> dict[str, Any]:
    """Return the parameters that a response repeats."""
    params = context.params
    return {
        "symbol": params["symbol"],
        "exchange": params["exchange"],
        "range": params["range"],
        "days": _days(context),
    }


def _empty_notices(frame: pd.DataFrame) -> list[str]:
    """Return the notice of a response without rows."""
    if len(frame):
        return []
    return ["no options in this range"]


def _chain(view: View, symbol: str, exchange: str, at: pd.Timestamp) -> pd.DataFrame:
    """Return the newest chain at a time, at most an hour old, stamped with that time."""
    if at < view.store.start:
        return tables.TABLES["options_snapshot"].empty()
    chain = view.latest("options_snapshot", at, windows.HOLD, [symbol], [exchange])
    return chain[chain["expiry"] > at].assign(time=at)


def _chain_of_step(context: RequestContext, start: pd.Timestamp, length: pd.Timedelta) -> pd.DataFrame:
    """Return the chain of a step: the newest at its start, at most an hour old, else the last in the step."""
    view = context.view
    params = context.params
    # Steps are half-open, and the clock hides later rows.
    last = min(start + length - TICK, view.now)
    if last < view.store.start:
        return tables.TABLES["options_snapshot"].empty()
    symbols = [params["symbol"]]
    venues = [params["exchange"]]
    chain = None
    if start >= view.store.start:
        chain = view.latest("options_snapshot", start, windows.HOLD, symbols, venues)
    if chain is None or chain.empty:
        chain = view.latest("options_snapshot", last, last - start, symbols, venues)
    return chain[chain["expiry"] > chain["time"]]


def _atm_by_hour(context: RequestContext, window: ResponseWindow) -> pd.DataFrame:
    """Return the at-the-money volatility at the full hours of the window."""
    view = context.view
    symbol = context.params["symbol"]
    exchange = context.params["exchange"]
    _require_pair(view, symbol, exchange)

    def read_block(block: ResponseWindow) -> tuple[pd.DataFrame, int]:
        start = block.start - windows.HOLD
        columns = (*_ATM_COLUMNS, "side")
        query = Query("options_snapshot", start, block.end, [symbol], [exchange], columns, near_money=True)
        chains = view.rows(query)
        hours = pd.date_range(block.start.ceil("1h"), block.end, freq="1h", inclusive="left", unit="us")
        return at_hours(chains, pd.DatetimeIndex(hours)), len(chains)

    return _join_frames(view.blocks(window, read_block), tables.TABLES["options_snapshot"])


ANSWERS: Answers = {
    "/options/snapshot": snapshot,
    "/options/metrics": metrics,
    "/options/atm-history": atm_history,
    "/options/surface-history": surface_history,
    "/options/overview-history": overview_history,
}
