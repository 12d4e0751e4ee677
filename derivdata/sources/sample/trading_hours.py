"""Trading hours of the exchanges behind real-world assets: plain weeks, and holidays."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.sample.noise import instants
from derivdata.sources.sample.universe import MARKET

_BEFORE, _AHEAD, _HOLIDAYS_AHEAD = 1, 8, 60


class _Exchange(NamedTuple):
    """One exchange; a session that ends before it starts ends on the next day."""

    id: str
    name: str
    short_name: str
    mic: str
    timezone: str
    weekdays: tuple[int, ...]
    hours: str
    holidays: str


_EXCHANGES = [_Exchange(name, **facts) for name, facts in MARKET["exchanges"].items()]


def newest(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the calendar as known at `last` [µs]: sessions of the days about it, coming holidays."""
    now = instants([last])[0]
    frame = pd.concat([_calendar(exchange, now) for exchange in _EXCHANGES], ignore_index=True)
    return {str(name): frame[name] for name in frame.columns}


def _calendar(exchange: _Exchange, now: pd.Timestamp) -> pd.DataFrame:
    today = now.tz_convert(exchange.timezone).tz_localize(None).normalize()
    closed = pd.DatetimeIndex(exchange.holidays.split())
    days = pd.date_range(today - pd.Timedelta(_BEFORE, "D"), today + pd.Timedelta(_AHEAD, "D"))
    open_days = days[days.day_of_week.isin(exchange.weekdays) & ~days.isin(closed)]
    rows = [(day, *text.split()) for day in open_days for text in exchange.hours.split(", ")]
    sessions = [(name, *_span(exchange, day, begin, end), True) for day, name, begin, end in rows]
    coming = closed[(closed >= today) & (closed <= today + pd.Timedelta(_HOLIDAYS_AHEAD, "D"))]
    holidays = [("holiday", *_span(exchange, day, "00:00", "24:00"), False) for day in coming]
    frame = pd.DataFrame([*sessions, *holidays], columns=["session", "start", "end", "is_tradable"])
    tradable = frame[frame["is_tradable"]]
    later = tradable[tradable["start"] > now]["start"]
    return frame.assign(
        exchange_id=exchange.id,
        **{name: getattr(exchange, name) for name in ("name", "short_name", "mic", "timezone")},
        time=now,
        is_tradable_now=bool(((tradable["start"] <= now) & (now < tradable["end"])).any()),
        next_session_start=later.min(),
    )


def _span(exchange: _Exchange, day: pd.Timestamp, begin: str, end: str) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return the start and end of a session on a local day, in UTC."""
    hours = [pd.Timedelta(f"{text}:00") for text in (begin, end)]
    later = pd.Timedelta(0) if hours[1] > hours[0] else pd.Timedelta(1, "D")
    local = [day + hours[0], day + hours[1] + later]
    start, stop = (stamp.tz_localize(exchange.timezone).tz_convert("UTC").as_unit("us") for stamp in local)
    return start, stop
