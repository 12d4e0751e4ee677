"""Trading hours of the exchanges behind real-world assets: weeks with early closes and holidays."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.sample.noise import instants
from derivdata.sources.sample.universe import MARKET

_BEFORE = 14
_AHEAD = 14
_HOLIDAYS_AHEAD = 60


class _Exchange(NamedTuple):
    """An exchange; a session whose end is before its start begins on the previous day."""

    id: str
    name: str
    short_name: str
    mic: str
    timezone: str
    weekdays: tuple[int, ...]
    hours: str
    holidays: str
    early: str = ""


_EXCHANGES = [_Exchange(name, **facts) for name, facts in MARKET["exchanges"].items()]


def newest(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the calendar at `last` [µs]: sessions and holidays of the days before and after it."""
    now = instants([last])[0]
    frame = pd.concat([_calendar(exchange, now) for exchange in _EXCHANGES], ignore_index=True)
    return {str(name): frame[name] for name in frame.columns}


def _calendar(exchange: _Exchange, now: pd.Timestamp) -> pd.DataFrame:
    today = now.tz_convert(exchange.timezone).tz_localize(None).normalize()
    closed = pd.DatetimeIndex(exchange.holidays.split())
    begin = today - pd.Timedelta(_BEFORE, "D")
    days = pd.date_range(begin, today + pd.Timedelta(_AHEAD, "D"))
    open_days = days[days.day_of_week.isin(exchange.weekdays) & ~days.isin(closed)]
    sessions = [
        (name, *_span(exchange, day, start, end), True)
        for day in open_days
        for name, start, end in _hours(exchange, day)
    ]
    listed = closed[(closed >= begin) & (closed <= today + pd.Timedelta(_HOLIDAYS_AHEAD, "D"))]
    midnight = pd.Timedelta(0)
    whole_day = pd.Timedelta(1, "D")
    holidays = [("holiday", *_span(exchange, day, midnight, whole_day), False) for day in listed]
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


def _hours(exchange: _Exchange, day: pd.Timestamp) -> list[tuple[str, pd.Timedelta, pd.Timedelta]]:
    """Return the sessions of a day in local time; an early close moves the later sessions forward."""
    sessions = []
    for text in exchange.hours.split(", "):
        name, *times = text.split()
        start, end = (pd.Timedelta(f"{time}:00") for time in times)
        if end <= start:
            start -= pd.Timedelta(1, "D")
        sessions.append((name, start, end))
    early = dict(text.split() for text in exchange.early.split(",") if text.strip())
    if f"{day.date()}" not in early:
        return sessions
    usual = max(end for name, _, end in sessions if name == "regular")
    close = pd.Timedelta(f"{early[f'{day.date()}']}:00")
    moved = []
    for name, start, end in sessions:
        if name == "regular":
            moved.append((name, start, min(end, close)))
        elif start >= usual:
            moved.append((name, start - usual + close, end - usual + close))
        else:
            moved.append((name, start, end))
    return moved


def _span(
    exchange: _Exchange, day: pd.Timestamp, begin: pd.Timedelta, end: pd.Timedelta
) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return the start and end of a session of a local day, in UTC."""
    start, stop = (
        (day + time).tz_localize(exchange.timezone).tz_convert("UTC").as_unit("us") for time in (begin, end)
    )
    return start, stop
