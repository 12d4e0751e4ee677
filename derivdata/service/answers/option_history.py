"""Options over time: at-the-money volatility, surfaces, notional figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from derivdata import tables, times
from derivdata.service import buckets, span, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.answers.options import require_pair
from derivdata.service.refusal import bad_request
from derivdata.service.totals import cut
from derivdata.service.view import View

__all__ = ["atm_history", "metrics", "overview_history", "surface_history"]

_HOUR = pd.Timedelta(1, "h")
_DAY = pd.Timedelta(1, "D")
_CAP_DAYS = 90
_STEPS = ((2, "1h"), (7, "4h"), (30, "12h"))
_LONGEST = "1d"
_KEYS = ["time", "expiry"]


def metrics(ask: Ask) -> dict[str, Any]:
    """``GET /options/metrics``: at-the-money volatility of every expiry now and a day ago."""
    view, symbol, exchange = ask.view, ask.params["symbol"], ask.params["exchange"]
    require_pair(view, symbol, exchange)
    now, before = (_atm(_chain(view, symbol, exchange, at)) for at in (view.now, view.now - _DAY))
    ago = before.set_index("expiry")["iv"].reindex(now["expiry"]).to_numpy()
    columns = {
        "expiry": now["expiry"],
        "underlying_price": now["underlying_price"],
        "atm_strike": now["strike"],
        "atm_iv": now["iv"],
        "atm_iv_24h_ago": ago,
        "atm_iv_change_24h": (now["iv"] - ago).round(6),
    }
    return {
        "symbol": symbol,
        "exchange": exchange,
        "count": len(now),
        "data": wire.rows(columns),
        "cached": False,
    }


def atm_history(ask: Ask) -> dict[str, Any]:
    """``GET /options/atm-history``: a row per full hour and expiry."""
    window = _window(ask)
    found = _joined([_atm(chains) for chains in _hourly(ask, window)])
    columns = {"hour": found["time"], **found[["expiry", "underlying_price", "strike", "iv"]]}
    return _envelope(ask) | {
        "count": len(found),
        "data": wire.rows(columns),
        "resolution": "1h",
        "notices": window.notices + _none(found),
    }


def surface_history(ask: Ask) -> dict[str, Any]:
    """``GET /options/surface-history``: by the hour for 2 days, every 4 for 7, 12 for 30, else by the day."""
    window, view = _window(ask), ask.view
    require_pair(view, ask.params["symbol"], ask.params["exchange"])
    step = next((step for most, step in _STEPS if window.asked <= most * _DAY), _LONGEST)
    length = times.RESOLUTIONS[step]
    hours = pd.date_range(window.start.ceil(length), window.end, freq=length, inclusive="left", unit="us")
    chains = [_chain(view, ask.params["symbol"], ask.params["exchange"], hour) for hour in hours]
    found = _joined(chains)
    names = ["expiry", "strike", "side", "iv", "underlying_price", "open_interest"]
    stamps = pd.Series(wire.iso_tokens(pd.DatetimeIndex(found["time"])), dtype=object).str.decode("ascii")
    snapshots = wire.split(wire.objects(found[names]), stamps.str.strip('"'))
    return _envelope(ask) | {
        "hours": list(snapshots),
        "snapshots": snapshots,
        "resolution": step,
        "notices": window.notices + _thinned(ask, step) + _none(found),
    }


def overview_history(ask: Ask) -> dict[str, Any]:
    """``GET /options/overview-history``: notional figures by hour, venue and symbol."""
    view = ask.view
    view.need("options_overview_history")
    window = _window(ask)
    found = view.read("options_overview_history", window.start, window.end)
    found = found.sort_values(["time", "exchange", "symbol"])
    columns = {
        "timestamp": found["time"],
        **found[["exchange", "symbol", "notional_oi_usd", "notional_volume_24h_usd"]],
    }
    echo = {"range": ask.params["range"], "days": _days(ask)}
    return echo | {
        "count": len(found),
        "data": wire.rows(columns),
        "unit": "usd",
        "resolution": "1h",
        "notices": window.notices + _none(found),
    }


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    found = [part for part in parts if len(part)]
    return pd.concat(found, ignore_index=True) if found else tables.OPTIONS_SNAPSHOT.empty()


def _days(ask: Ask) -> int:
    return int(ask.params["range"][:-1])


def _window(ask: Ask) -> span.Span:
    if _days(ask) > _CAP_DAYS and ask.tier not in ("pro", "team"):
        raise bad_request(f"range={ask.params['range']!r} is longer than {_CAP_DAYS}d, which needs Pro")
    return ask.view.window(ask.params, ask.tier)


def _envelope(ask: Ask) -> dict[str, Any]:
    asked = ask.params
    return {
        "symbol": asked["symbol"],
        "exchange": asked["exchange"],
        "days": _days(ask),
        "range": asked["range"],
    }


def _thinned(ask: Ask, step: str) -> list[str]:
    hourly = step == "1h"
    return [] if hourly else [f"of a range of {ask.params['range']} the surface is given by {step}, not 1h"]


def _none(found: pd.DataFrame) -> list[str]:
    return [] if len(found) else ["no options in this range"]


def _chain(view: View, symbol: str, exchange: str, at: pd.Timestamp) -> pd.DataFrame:
    """The newest chain at an instant, at most an hour old, stamped with that instant."""
    if at < view.store.start:
        return view.read("options_snapshot", at, at)
    chain = view.store.latest(
        "options_snapshot", at, within=buckets.HOLD, symbols=[symbol], exchanges=[exchange]
    )
    return chain[chain["expiry"] > at].assign(time=at)


def _hourly(ask: Ask, window: span.Span) -> Iterator[pd.DataFrame]:
    """The chains at the full hours of the window, a day at a time."""
    view, asked = ask.view, ask.params
    require_pair(view, asked["symbol"], asked["exchange"])
    for day in cut(window, _DAY):
        frame = view.read(
            "options_snapshot",
            day.start - buckets.HOLD,
            day.end,
            symbols=[asked["symbol"]],
            exchanges=[asked["exchange"]],
        )
        hours = pd.date_range(day.start.ceil("1h"), day.end, freq="1h", inclusive="left", unit="us")
        yield _at_hours(frame, pd.DatetimeIndex(hours))


def _at_hours(frame: pd.DataFrame, hours: pd.DatetimeIndex) -> pd.DataFrame:
    """Each hour's newest chain that still holds, stamped with the hour."""
    stamps = pd.DatetimeIndex(frame["time"].drop_duplicates().sort_values())
    place = stamps.searchsorted(hours, side="right") - 1
    hours, place = hours[place >= 0], place[place >= 0]
    held = hours - stamps[place] <= buckets.HOLD
    chosen = pd.DataFrame({"time": stamps[place[held]], "hour": hours[held]})
    found = frame.merge(chosen, on="time").drop(columns="time").rename(columns={"hour": "time"})
    return found[found["expiry"] > found["time"]]


def _atm(chains: pd.DataFrame) -> pd.DataFrame:
    """Strike nearest the underlying (the lower of two) and the mean volatility there, by time and expiry."""
    quoted = chains[(chains["iv"] > 0) & (chains["underlying_price"] > 0)]
    distance = (quoted["strike"] - quoted["underlying_price"]).abs()
    nearest = quoted.assign(distance=distance).sort_values([*_KEYS, "distance", "strike"])
    nearest = nearest.drop_duplicates(_KEYS)[[*_KEYS, "strike"]]
    there = quoted.merge(nearest, on=[*_KEYS, "strike"])
    found = there.groupby([*_KEYS, "strike"])[["iv", "underlying_price"]].mean().reset_index()
    return found.round({"iv": 6})
