"""Spans of trading and closure of a market: from exchange_calendars, or from a table of trading hours."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import pandas as pd

from derivdata.support.text import did_you_mean, import_extra
from derivdata.support.times import naive_utc, utc

SESSIONS = ("regular", "extended", "break", "overnight", "weekend", "holiday")

_MARGIN = pd.Timedelta(20, "D")  # longer than any closure
_US_STOCKS = ("04:00", "20:00")
"""Extended trading of US stocks, local time: NYSE Arca and Nasdaq, as markets' sites state it in 2026."""
_WEEKEND = "1111100"


class _Trading(NamedTuple):
    """A span of trading, and its local day."""

    start: pd.Timestamp
    end: pd.Timestamp
    session: str
    day: pd.Timestamp


def exchange_spans(
    market: str, first: pd.Timestamp, last: pd.Timestamp, extended: tuple[str, str] | None
) -> pd.DataFrame:
    """Return the spans of a market of exchange_calendars about a window."""
    package = import_extra("exchange_calendars", "sessions", "a calendar of sessions without hours=")
    names = package.get_calendar_names(include_aliases=True)
    if market not in names:
        raise ValueError(
            f"exchange_calendars has no market {market!r}{did_you_mean(market, names)}: pass its hours, "
            "hours=dd.rwa.market_hours(market)"
        )
    name = package.resolve_alias(market)
    start, end = (naive_utc(edge + add).normalize() for edge, add in ((first, -_MARGIN), (last, _MARGIN)))
    with warnings.catch_warnings():
        # exchange_calendars 4.13 reads `Series.values` of zoned times, which pandas 3.1 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        book = package.get_calendar(name, start=start, end=end)
        schedule = book.schedule
        early = set(book.early_closes)
    if extended is None and name == "XNYS":
        extended = _US_STOCKS
    trading = []
    for day, row in schedule.iterrows():
        opens = row["open"]
        closes = row["close"]
        halves = [(opens, closes)]
        if not pd.isna(row["break_start"]):
            halves = [(opens, row["break_start"]), (row["break_end"], closes)]
        if extended is not None:
            begin, stop = (_local(day, text, book.tz) for text in extended)
            if day in early:
                stop -= _usual_close(book, day) - closes
            if not begin <= opens <= closes <= stop:
                raise ValueError(
                    f"extended must include the regular hours of {name} on {day.date()}, got {extended}"
                )
            trading.append(_Trading(begin, opens, "extended", day))
            trading.append(_Trading(closes, stop, "extended", day))
        trading.extend(_Trading(*half, "regular", day) for half in halves)
    return _with_closures(trading, str(book.weekmask), market, None)


def _usual_close(book: Any, day: pd.Timestamp) -> pd.Timestamp:
    """Return the close of a market on a day without an early close."""
    times = [time for since, time in book.close_times if since is None or since <= day]
    return _local(day, times[-1].strftime("%H:%M"), book.tz)


def _local(day: pd.Timestamp, text: str, zone: Any) -> pd.Timestamp:
    """Return the timestamp of a local time of day."""
    hour, _, minute = text.partition(":")
    if not (hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60):
        raise ValueError(f"extended must have local times such as '04:00', got {text!r}")
    wall = day.replace(hour=int(hour), minute=int(minute))
    return wall.tz_localize(zone).tz_convert("UTC")


def table_spans(hours: pd.DataFrame, market: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
    """Return the spans of a market of ``rwa_market_hours`` about a window that the table covers."""
    named = [name for name in ("exchange_id", "short_name", "mic") if name in hours.columns]
    texts = hours[named].astype("str").apply(lambda column: column.str.lower())
    rows = hours[(texts == market.lower()).any(axis=1)]
    if not len(rows):
        raise ValueError(f"hours does not have the market {market!r}; available: {_listed(hours)}")
    if "timezone" not in rows.columns or rows["timezone"].isna().any():
        raise ValueError(f"hours must have a timezone for {market!r}, which the closures need")
    if "time" in rows.columns:
        rows = rows.sort_values("time")
    rows = rows.drop_duplicates(["exchange_id", "start", "session"], keep="last")
    if rows["exchange_id"].nunique() > 1:
        raise ValueError(f"{market!r} matches several markets of hours: pass the exchange_id")
    zone = str(rows["timezone"].iloc[-1])
    tradable = rows["is_tradable"].astype("bool")
    trading = []
    for row in rows[tradable].itertuples():
        start = utc(pd.Timestamp(row.start))
        end = utc(pd.Timestamp(row.end))
        day = _day(end - pd.Timedelta(1, "us"), zone)
        session = "regular" if row.session == "regular" else "extended"
        trading.append(_Trading(start, end, session, day))
    holidays: set[pd.Timestamp] = set()
    for row in rows[rows["session"] == "holiday"].itertuples():
        span = utc(pd.Timestamp(row.start)), utc(pd.Timestamp(row.end)) - pd.Timedelta(1, "us")
        holidays.update(pd.date_range(*(_day(edge, zone) for edge in span)))
    spans = _with_closures(trading, _WEEKEND, market, holidays)
    if spans["start"].min() > first or spans["end"].max() < last:
        raise ValueError(
            f"hours has sessions of {market!r} from {spans['start'].min()} to {spans['end'].max()}, but the "
            f"window is from {first} to {last}: join tables of other times with pd.concat"
        )
    return spans


def _listed(hours: pd.DataFrame) -> str:
    return ", ".join(sorted(set(hours["exchange_id"].astype("str")))) or "no rows"


def _day(at: pd.Timestamp, zone: str) -> pd.Timestamp:
    return pd.Timestamp(at.tz_convert(zone).date())


def _with_closures(
    trading: list[_Trading], weekmask: str, market: str, holidays: set[pd.Timestamp] | None
) -> pd.DataFrame:
    """Return spans of trading with the closures between them; `holidays` are the listed ones, if known."""
    ordered = sorted(span for span in trading if span.start < span.end)
    if not ordered:
        raise ValueError(f"{market!r} does not trade in or near the window")
    rows = []
    before = None
    for span in ordered:
        if before is not None and span.start < before.end:
            raise ValueError(f"sessions of {market!r} must not overlap, got an overlap at {span.start}")
        if before is not None and span.start > before.end:
            rows.append((_closure(before, span, weekmask, market, holidays), before.end, span.start))
        rows.append((span.session, span.start, span.end))
        before = span
    frame = pd.DataFrame(rows, columns=["session", "start", "end"])
    for name in ("start", "end"):
        frame[name] = pd.to_datetime(frame[name], utc=True).dt.as_unit("us")
    return frame


def _closure(
    before: _Trading, after: _Trading, weekmask: str, market: str, holidays: set[pd.Timestamp] | None
) -> str:
    """Return the session of the time between two spans of trading, from the days in between."""
    if before.day == after.day:
        return "break"
    skipped = pd.date_range(before.day, after.day)[1:-1]
    weekdays = [day for day in skipped if weekmask[day.day_of_week] == "1"]
    unlisted = [day for day in weekdays if holidays is not None and day not in holidays]
    if unlisted:
        raise ValueError(
            f"hours lacks a session or holiday of {market!r} on {unlisted[0].date()}: join the table of an "
            "earlier time with pd.concat"
        )
    if weekdays:
        return "holiday"
    return "weekend" if len(skipped) else "overnight"
