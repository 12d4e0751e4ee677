"""The rules that an answer must keep, as data: what is compared with what, and what becomes of a breach.

`RULES` is the whole list; ``docs/checked-answers.md`` is its table. A rule looks at an `Evidence`: the
request, what the answer says of itself, and the columns of its table. It yields a sentence for each breach,
which names both sides. A breach of a rule whose `outcome` is ``"error"`` is a `SchemaError`; any other breach
is a `DataNotice`, and the table comes, without the rows that the rule removed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from derivdata import api, times
from derivdata.schema import Table
from derivdata.tables import COLUMNS, contract
from derivdata.transport import Answer

__all__ = ["RULES", "Evidence", "Rule"]

Array = np.ndarray[Any, Any]

_ECHOES = {
    "symbol": ("symbol",),
    "exchange": ("exchange",),
    "exchanges": ("exchanges_filter",),
    "dex": ("dex", "dex_name"),
    "coin": ("coin",),
    "outcome_id": ("outcome_id",),
    "venue": ("venue",),
    "interval": ("interval",),
    "group_by": ("group_by",),
    "kind": ("kind",),
    "window_days": ("window_days",),
}
"""Fields in which an answer repeats a parameter."""

_UNITS = frozenset(
    "usd bps_8h bps bps_1h percent pct % fraction decimal ratio coin coins base contracts native".split()
)
"""Words for units that are understood, so that one of them in place of another is a contradiction."""

_HOUR_US, _DAY_US = 3_600_000_000, 86_400_000_000
_EDGE_US = _HOUR_US
"""How far outside of its window a row may lie where no resolution says how long a bucket is."""

_LATE_US = 600_000_000
_HIGH_RATE_BPS = 400.0
_LONGEST_INTERVAL_HOURS = 168.0
_MISFIT = 20.0
_DOUBTFUL = 1.9
"""How many times an interval may differ from the time between payments; minutes taken for hours are 60."""

_SHARES_OFF = 0.02
_DATE_LETTERS = len("2026-07-03")


@dataclass
class Evidence:
    """An answer beside the request that it answers.

    Attributes
    ----------
    columns
        Columns of the answer's rows by the library's names, typed; `keep` removes rows from all of them.
    raw
        The columns as they were decoded, by wire name.
    facts
        What a rule found out and provenance shall say.
    """

    answer: Answer[Any]
    table: Table | None
    columns: dict[str, Any]
    raw: Mapping[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def endpoint(self) -> api.Endpoint | None:
        """The endpoint that was asked."""
        return api.endpoint_of(self.answer.request.path)

    @cached_property
    def asked(self) -> dict[str, str]:
        """Every parameter of the request by name, those in its path too."""
        request = self.answer.request
        in_path = self.endpoint.values(request.path) if self.endpoint else {}
        return dict(request.query) | in_path

    def said(self, name: str) -> Any:
        """Return a field of the answer beside its rows; None where it has none."""
        body = self.answer.body
        return body.get(name) if isinstance(body, Mapping) else getattr(body, name, None)

    def listed(self, *names: str) -> frozenset[str] | None:
        """Return the names in a list of the request; None where it asked for all."""
        for name in names:
            if name in self.asked:
                found = frozenset(self.asked[name].split(","))
                return None if "all" in found else found
        return None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def keep(self, rows: Array) -> None:
        """Remove all other rows."""
        places = np.flatnonzero(rows)
        self.columns = {name: values.take(places) for name, values in self.columns.items()}

    def words(self, name: str) -> list[str]:
        """Return the distinct words of a text column, none where the answer has no such column."""
        values = self.columns.get(name)
        if values is None:
            return []
        found = values.categories if isinstance(values, pd.Categorical) else pd.unique(values)
        return [str(word) for word in found if word is not None and word == word]

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, None where the answer has no such column."""
        values = self.columns.get(name)
        if values is None:
            return None
        if isinstance(values, np.ndarray) and values.dtype == np.float64:
            return values
        return np.asarray(pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan))

    def micros(self, name: str) -> Array | None:
        """Return the instants of a column [µs since 1970], None where the answer has no such column."""
        values: Any = self.columns.get(name)
        return np.asarray(values.asi8) if hasattr(values, "asi8") else None

    @cached_property
    def step_us(self) -> int:
        """Length of a bucket [µs], as the answer or else the request states it."""
        for name in (self.said("resolution"), self.asked.get("resolution"), self.asked.get("interval")):
            if name in times.RESOLUTIONS:
                return int(times.RESOLUTIONS[name] // pd.Timedelta(1, "us"))
        return _EDGE_US

    @cached_property
    def window(self) -> tuple[int, int] | None:
        """The window that was asked for [µs since 1970]; None where the request has none.

        ``range`` counts back from the answer's own ``Date``, and from the start of the bucket; ``since`` is
        open at its end.
        """
        asked = self.asked
        if "start" in asked and "end" in asked:
            return _us(times.instant(asked["start"])), _us(times.instant(asked["end"]))
        if self.answer.as_of is pd.NaT:
            return None
        now = _us(self.answer.as_of)
        if "since" in asked:
            return int(asked["since"]) * 1000, now + _DAY_US
        back = times.lookback(asked["range"]) if "range" in asked and self.table is not None else None
        return None if back is None else (now - int(back // pd.Timedelta(1, "us")) - self.step_us, now + 1)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    compares
        What is compared with what, for the docs.
    outcome
        ``"error"``: a breach is a `SchemaError`. ``"notice"``: the table comes with a `DataNotice`.
    """

    name: str
    compares: str
    outcome: Literal["error", "notice"]
    check: Callable[[Evidence], Iterator[str]]


def _us(stamp: pd.Timestamp) -> int:
    return int(stamp.as_unit("us").asm8.view(np.int64))


def _subject(e: Evidence) -> Iterator[str]:
    lists = {p.name for p in e.endpoint.params if p.kind is api.ParamKind.LIST} if e.endpoint else set()
    for name, fields in _ECHOES.items():
        for said in (e.said(f) for f in fields if name in e.asked):
            if isinstance(said, list | tuple) and set(map(str, said)) != set(e.asked[name].split(",")):
                yield f"asked for {name} {e.asked[name]!r}, the answer is about {','.join(map(str, said))!r}"
            elif isinstance(said, str | int) and name not in lists and str(said) != e.asked[name]:
                yield f"asked for {name} {e.asked[name]!r}, the answer is about {said!r}"


_CLAMP = re.compile(r"clamp|limit|cap|cut|rais|reduc|short|trunc|restrict|cover|floor|adjust", re.IGNORECASE)
"""Words of notices about a shortened range; the document does not give their text."""


def _range(e: Evidence) -> Iterator[str]:
    """Compare the range; a shorter one may stand where a notice of the answer explains it."""
    asked = e.asked.get("range")
    said = e.said("range") or e.said("period")
    if said is None and isinstance(e.said("days"), int):
        said = f"{e.said('days')}d"
    if asked is None or not isinstance(said, str) or said == asked:
        return
    wanted, used = _length(asked), _length(said)
    explained = any(said in notice or _CLAMP.search(notice) for notice in e.answer.notices)
    shorter = wanted is not None and used is not None and used < wanted
    if (wanted is None or wanted != used) and not (shorter and explained):
        yield f"asked for range {asked!r}, the answer is about range {said!r}"


def _length(text: str) -> pd.Timedelta | None:
    """Return the length of a range, the longest there is for ``all``; None for text that is none."""
    try:
        return pd.Timedelta.max if text == "all" else times.lookback(text)
    except ValueError:  # an answer may name any number of days
        return None


def _venues(e: Evidence) -> Iterator[str]:
    asked = e.listed("exchanges", "exchange")
    others = sorted(set(e.words("exchange")) - asked) if asked is not None else []
    if others:
        yield f"asked for exchanges {', '.join(sorted(asked or ()))}, rows are of {', '.join(others[:5])}"


def _symbols(e: Evidence) -> Iterator[str]:
    if e.table is None:
        return
    asked, excluded = e.listed("symbol"), e.listed("exclude_symbol") or frozenset()
    rows = set(e.words("symbol"))
    others = sorted(rows - asked) if asked is not None else []
    if others:
        yield f"asked for symbols {', '.join(sorted(asked or ()))}, rows are of {', '.join(others[:5])}"
    if rows & excluded:
        both = ", ".join(sorted(rows & excluded))
        yield f"asked to leave out {', '.join(sorted(excluded))}, rows are of {both}"


def _dexes(e: Evidence) -> Iterator[str]:
    for name, columns in {"dex": ("dex", "dex_name"), "venue": ("venue",), "coin": ("coin",)}.items():
        for words in (set(e.words(column)) for column in columns if name in e.asked and e.table is None):
            if words - {e.asked[name]}:
                yield f"asked for {name} {e.asked[name]!r}, rows are of {', '.join(sorted(words))}"


def _behind_assets(e: Evidence) -> Iterator[str]:
    asked = e.listed("exchange") if "exchange_id" in e.columns else None
    if asked is None:
        return
    wanted = {name.casefold() for name in asked}
    columns = [e.columns[name] for name in ("exchange_id", "short_name", "mic")]
    others = sorted({str(names[0]) for names in zip(*columns, strict=True) if not _one_of(names, wanted)})
    if others:
        yield f"asked for exchange {', '.join(sorted(asked))}, rows are of {', '.join(others[:5])}"


def _one_of(names: tuple[Any, ...], wanted: set[str]) -> bool:
    return any(isinstance(name, str) and name.casefold() in wanted for name in names)


def _spelling(e: Evidence) -> Iterator[str]:
    spellings: dict[str, str] = {}
    for venue in e.words("exchange"):
        other = spellings.setdefault(venue.strip().casefold(), venue)
        if other != venue:
            yield f"one venue stands twice, as {other!r} and as {venue!r}"


def _other_unit(e: Evidence) -> Iterator[str]:
    said, expected = e.said("unit"), e.endpoint.unit if e.endpoint else ""
    if expected and isinstance(said, str) and said.lower() != expected and said.lower() in _UNITS:
        yield f"figures are in {expected!r} by the document, the answer says {said!r}"


def _unknown_unit(e: Evidence) -> Iterator[str]:
    said, expected = e.said("unit"), e.endpoint.unit if e.endpoint else ""
    if expected and isinstance(said, str) and said.lower() != expected and said.lower() not in _UNITS:
        yield f"the answer names the unit {said!r}, which is not known; taken as {expected!r}"


def _no_resolution(e: Evidence) -> Iterator[str]:
    said = e.said("resolution")
    if e.endpoint and e.endpoint.states_resolution and said in (None, "unstated", ""):
        yield "the document promises the resolution that was used, the answer names none"


def _finer(e: Evidence) -> Iterator[str]:
    if _coarseness(e) < 0:
        yield f"asked for resolution {e.asked['resolution']!r}, the answer has {e.said('resolution')!r}"


def _coarser(e: Evidence) -> Iterator[str]:
    if _coarseness(e) > 0:
        yield f"asked for resolution {e.asked['resolution']!r}, the answer has {e.said('resolution')!r}"


def _coarseness(e: Evidence) -> int:
    """Return 1 where the resolution that was used is coarser than the request's, -1 where finer, else 0."""
    steps = {"raw": pd.Timedelta(0), **times.RESOLUTIONS}
    asked, used = steps.get(e.asked.get("resolution", "")), steps.get(str(e.said("resolution")))
    return 0 if asked is None or used is None else (used > asked) - (used < asked)


class _Option(NamedTuple):
    base: str
    day: int
    strike: float
    side: str


_OPTION = re.compile(
    r"(?P<base>[A-Z0-9]+)(?:[_-](?:USD[TC]?|EUR))?-(?P<date>\d{1,2}[A-Z]{3}\d{2}|\d{6}|\d{8})"
    r"-(?P<strike>\d+(?:[d._]\d+)?)-(?P<side>[CP])(?:-[A-Z]+)?"
)
"""Names of Deribit, Binance, Bybit, OKX and Derive: ``XRP_USDC-3JUL26-1d5-C``, ``BTC-USD-260703-1000-P``."""


@lru_cache(maxsize=16384)
def _option(name: str) -> _Option | None:
    """Parse the name of an option; None for a name of another pattern."""
    match = _OPTION.fullmatch(name)
    if match is None:
        return None
    text = match["date"]
    form = "%d%b%y" if not text.isdecimal() else "%y%m%d" if len(text) == 6 else "%Y%m%d"
    try:
        date = dt.datetime.strptime(text, form).date()  # noqa: DTZ007
    except ValueError:
        return None
    strike = float(re.sub(r"[d_]", ".", match["strike"]))
    day = date.toordinal() - dt.date(1970, 1, 1).toordinal()
    return _Option(contract(match["base"]).symbol, day, strike, "call" if match["side"] == "C" else "put")


def _option_names(e: Evidence) -> Iterator[str]:
    if "instrument_name" not in e.columns:
        return
    c, symbol = e.columns, e.asked.get("symbol")
    days = (np.asarray(e.micros("expiry")) // _DAY_US).tolist()
    rows = zip(c["instrument_name"], c["strike"], np.asarray(c["side"]), days, strict=True)
    for name, strike, side, day in rows:
        option = _option(name)
        if option is None:
            continue
        if symbol is not None and option.base != contract(symbol).symbol:
            yield f"asked for symbol {symbol!r}, an instrument is {name!r}"
        elif option.side != side:
            yield f"the instrument {name!r} has the side {side!r}"
        elif abs(option.strike - strike) > 1e-9 * max(abs(strike), 1.0):
            yield f"the instrument {name!r} has the strike {strike:g}"
        elif option.day != day:
            yield f"the instrument {name!r} expires on {np.datetime64(day, 'D')}"
        else:
            continue
        return


def _impossible(e: Evidence) -> Iterator[str]:
    for name in e.columns:
        column = None if e.table is None else e.table.columns.get(name, COLUMNS.get(name))
        least = _open_least(name, e.columns) if column is None else column.least
        if least is None:
            continue
        numbers = e.numbers(name)
        if numbers is None:
            continue
        if (numbers < least).any():
            yield f"{name} is {np.nanmin(numbers):g}; it cannot be below {least:g}"
        elif column is not None and column.positive and (numbers == 0.0).any():
            yield f"{name} is 0; it must be above 0"


_COUNTED = re.compile(r"(.*_)?(volume|oi|contracts|count|trades|open|high|low|close|users|traders)(_usd)?")


def _open_least(name: str, columns: Mapping[str, Any]) -> float | None:
    """Return the smallest number of a field that no document fixes, by its name."""
    numeric = getattr(columns[name], "dtype", None) == np.float64
    return 0.0 if numeric and _COUNTED.fullmatch(name) else None


def _intervals(e: Evidence) -> Iterator[str]:
    hours = e.numbers("interval_hours")
    if hours is None or not hours.size:
        return
    wrong = hours[(hours <= 0) | (hours > _LONGEST_INTERVAL_HOURS)]
    if wrong.size:
        yield f"an interval is {wrong[0]:g} hours; it must be above 0 and at most {_LONGEST_INTERVAL_HOURS:g}"


def _spacing(e: Evidence) -> Iterator[str]:
    for ratio, words in _spacings(e):
        if not 1 / _MISFIT < ratio < _MISFIT:
            yield words


def _unlikely_spacing(e: Evidence) -> Iterator[str]:
    for ratio, words in _spacings(e):
        if not 1 / _DOUBTFUL < ratio < _DOUBTFUL:
            yield words


def _spacings(e: Evidence) -> Iterator[tuple[float, str]]:
    """Yield the time between payments over the stated interval of each venue, and both in words."""
    hours, stamps = e.numbers("interval_hours"), e.micros("time")
    if hours is None or stamps is None or "settled" not in e.words("kind") or stamps.size < 3:
        return
    frame = pd.DataFrame({"venue": e.columns["exchange"], "at": stamps, "hours": hours}).sort_values(
        ["venue", "at"]
    )
    apart = frame.groupby("venue", observed=True)["at"].diff() / _HOUR_US
    both = pd.DataFrame({"venue": frame["venue"], "apart": apart, "hours": frame["hours"]}).dropna()
    for venue, row in both.groupby("venue", observed=True)[["apart", "hours"]].median().iterrows():
        words = (
            f"payments of {venue} are {row['apart']:g} hours apart, the answer says that each is for "
            f"{row['hours']:g} hours"
        )
        yield row["apart"] / row["hours"], words


def _native_rates(e: Evidence) -> Iterator[str]:
    """Check the venues' own rates against both readings of the document, and convert them to one.

    Rule 4 of the document can be read as "the raw rate is bps / 10,000", which is per 8 hours, or as the
    venue's rate per interval, times 8 / interval for comparison. Both agree at 8 hours.
    """
    rates, native, hours = (e.numbers(n) for n in ("rate_bps_8h", "rate_native", "interval_hours"))
    if rates is None or native is None or hours is None or np.isnan(native).all():
        return
    known = ~np.isnan(rates) & ~np.isnan(native)
    slack = 0.1 + 0.01 * np.abs(rates)
    per_8h = known & (np.abs(native * 1e4 - rates) <= slack)
    per_interval = known & (np.abs(native * 1e4 * 8 / hours - rates) <= slack)
    checked = known & ~np.isnan(hours)
    neither = np.flatnonzero(checked & ~per_8h & ~per_interval)
    if neither.size:
        n = neither[0]
        yield (
            f"{e.columns['symbol'][n]} on {e.columns['exchange'][n]} has {rates[n]:g} bps per 8 hours and "
            f"the raw rate {native[n]:g} at {hours[n]:g} hours, which agree by no reading of the document"
        )
        return
    by_8h, by_interval = int((per_8h & ~per_interval & checked).sum()), int((per_interval & ~per_8h).sum())
    reading = "per interval" if by_interval >= by_8h else "per 8 hours"
    e.facts["funding_rates_raw"] = (
        f"{reading} ({by_interval} rates fit only per interval, {by_8h} only per 8 hours)"
    )
    if by_8h:  # the column is per interval, whatever the wire is
        wire_is_8h = per_8h & ~per_interval if reading == "per interval" else ~(per_interval & ~per_8h)
        e.columns["rate_native"] = np.where(checked & wire_is_8h, native * hours / 8, native)


def _outside(e: Evidence) -> Iterator[str]:
    stamps = e.micros("time") if e.window is not None else None
    if stamps is None or not stamps.size or e.window is None:
        return
    start, end = e.window
    far = (stamps < start - e.step_us) | (stamps > end)
    # A service that takes `end` into the window may have nothing but the row there.
    none_inside = ((stamps < start) | (stamps >= end)).all() and not (stamps == end).all()
    if far.any() or none_inside:
        bounds = (start, end, stamps.min(), stamps.max())
        shown = [times.iso(pd.Timestamp(int(micros), unit="us", tz="UTC")) for micros in bounds]
        yield f"asked for {shown[0]} to {shown[1]}, rows are of {shown[2]} to {shown[3]}"


def _edge(e: Evidence) -> Iterator[str]:
    stamps = e.micros("time") if e.window is not None else None
    if stamps is None or e.window is None:
        return
    inside = (stamps >= e.window[0]) & (stamps < e.window[1])
    if not inside.all():
        count = int((~inside).sum())
        e.keep(inside)
        yield f"{count} rows at the edges of the window were dropped: it is half-open"


def _book_order(e: Evidence) -> Iterator[str]:
    for side, sign in (("bid", -1.0), ("ask", 1.0)):
        prices = _side(e, side)
        if prices is not None and (np.diff(sign * prices) < 0).any():
            yield f"the {side}s are not sorted from the best price"


def _crossed(e: Evidence) -> Iterator[str]:
    bids, asks = _side(e, "bid"), _side(e, "ask")
    if bids is not None and asks is not None and bids.size and asks.size and bids[0] >= asks[0]:
        yield f"the book is crossed: the best bid is {bids[0]:g}, the best ask {asks[0]:g}"


def _side(e: Evidence, side: str) -> Array | None:
    if "level" not in e.columns:
        return None
    prices = np.asarray(e.columns["price_usd"], dtype=np.float64)
    return np.asarray(prices[np.asarray(e.columns["side"] == side)])


def _limit(e: Evidence) -> Iterator[str]:
    if "limit" not in e.asked or e.table is None:
        return
    most = int(e.asked["limit"])
    for column, what in (("level", "levels"), ("rank", "entries")):
        places = e.numbers(column)
        if places is not None and places.size and np.nanmax(places) > most:
            yield f"asked for {most} {what}, the answer holds {np.nanmax(places):g}; the others were cut"
            e.keep(~(places > most))
    symbols = e.said("symbols")
    if isinstance(symbols, list) and len(symbols) > most:
        yield f"asked for {most} symbols, the answer holds {len(symbols)}; the others were cut"
        e.keep(np.asarray(pd.Series(e.columns["symbol"]).isin(symbols[:most])))
    if "order_id" in e.columns and e.size > most:
        yield f"asked for {most} orders at most, the answer holds {e.size}; all were kept"


def _stale(e: Evidence) -> Iterator[str]:
    said = e.said("timestamp")
    if not isinstance(said, str) or e.answer.as_of is pd.NaT:
        return
    late = _us(e.answer.as_of) - int(times.parse([said]).asi8[0])
    if abs(late) > _LATE_US:
        apart = f"{abs(late) / _HOUR_US:.1f} hours {'before' if late > 0 else 'after'} its Date"
        yield f"the answer's own time is {said}, {apart}"


def _high_rates(e: Evidence) -> Iterator[str]:
    rates, hours = e.numbers("rate_bps_8h"), e.numbers("interval_hours")
    if rates is None or not rates.size:
        return
    paid = np.abs(rates) * (1.0 if hours is None else np.where(np.isnan(hours), 8.0, hours) / 8)
    count = int((paid > _HIGH_RATE_BPS).sum())
    if count:
        worst = int(np.nanargmax(paid))
        where = f"{e.columns['symbol'][worst]} on {e.columns['exchange'][worst]}"
        rate = f"{rates[worst]:g} bps per 8 hours, {where}"
        yield f"{count} rates are beyond 4 % per interval, the largest is {rate}"


def _percent_shares(e: Evidence) -> Iterator[str]:
    shares = e.numbers("market_share")
    if shares is not None and (shares > 1 + _SHARES_OFF).any():
        yield f"a market share is {np.nanmax(shares):g}; the document's are fractions from 0 to 1"


def _shares(e: Evidence) -> Iterator[str]:
    shares = e.numbers("market_share")
    if shares is None or not shares.size or np.isnan(shares).any():
        return
    if abs(shares.sum() - 1) > _SHARES_OFF:
        yield f"market shares add up to {shares.sum():.3f}, not to 1"


def _dated_expiry(e: Evidence) -> Iterator[str]:
    texts = e.raw.get("expiry")
    if texts is None or "expiry" not in e.columns:
        return
    listed = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)
    dates = np.array([isinstance(text, str) and len(text) == _DATE_LETTERS for text in listed])
    if dates.any():
        eight = np.where(dates, 8 * _HOUR_US, 0).astype("timedelta64[us]")
        e.columns["expiry"] = e.columns["expiry"] + eight
        yield f"{int(dates.sum())} expiries are dates without a time of day; taken as 08:00 UTC"


def _expired(e: Evidence) -> Iterator[str]:
    expiries, stamps = e.micros("expiry"), e.micros("time")
    if expiries is None or stamps is None or "instrument_name" not in e.columns:
        return
    count = int((expiries < stamps - _DAY_US).sum())
    if count:
        yield f"{count} instruments expired more than a day before the answer"


RULES: tuple[Rule, ...] = (
    Rule(
        "another subject",
        "symbol, venue, dex, coin, outcome, filter, grouping, kind of price and window length that the "
        "answer repeats, with the request's, letter by letter",
        "error",
        _subject,
    ),
    Rule(
        "another range",
        "the rolling window that the answer names, with the request's; a shorter one needs a notice about it",
        "error",
        _range,
    ),
    Rule("venues not asked for", "venues of the rows, with those that were asked for", "error", _venues),
    Rule(
        "symbols not asked for",
        "symbols of the rows, with those that were asked for or left out",
        "error",
        _symbols,
    ),
    Rule("dexes not asked for", "dex, venue and coin of the rows, with those asked for", "error", _dexes),
    Rule(
        "exchanges not asked for",
        "id, short name and code of the exchanges behind assets, with those asked for",
        "error",
        _behind_assets,
    ),
    Rule("one venue twice", "names of venues that differ in case or blanks only", "error", _spelling),
    Rule("another unit", "a known word for the unit, with the document's", "error", _other_unit),
    Rule(
        "no resolution",
        "an answer without the resolution that the document promises",
        "error",
        _no_resolution,
    ),
    Rule("finer resolution", "the resolution that was used, with the request's", "error", _finer),
    Rule("date as expiry", "an expiry without a time of day; it is 08:00 UTC", "notice", _dated_expiry),
    Rule(
        "name against option",
        "an option's name, with its symbol, strike, side and expiry",
        "error",
        _option_names,
    ),
    Rule(
        "impossible figure",
        "open interest, volume, size, price, strike, volatility or count below zero; a price over time of 0",
        "error",
        _impossible,
    ),
    Rule("impossible interval", "an interval that is not above 0 or is above a week", "error", _intervals),
    Rule(
        "interval against spacing",
        "intervals of payments, with the time between them: 20 times apart",
        "error",
        _spacing,
    ),
    Rule(
        "unlikely spacing",
        "intervals of payments, with the time between them: twice apart or more",
        "notice",
        _unlikely_spacing,
    ),
    Rule(
        "raw rate against rate",
        "a venue's own rate, with the rate per 8 hours, by both readings of the document; provenance says "
        "which one fitted",
        "error",
        _native_rates,
    ),
    Rule("shares in percent", "market shares above 1", "error", _percent_shares),
    Rule("unsorted book", "prices of a side, from the best", "error", _book_order),
    Rule(
        "another window",
        "times of the rows, with the window: all outside, or any by more than one bucket",
        "error",
        _outside,
    ),
    Rule(
        "edge of the window",
        "rows up to a bucket before the window, or at its end; they are dropped",
        "notice",
        _edge,
    ),
    Rule("coarser resolution", "the resolution that was used, with the request's", "notice", _coarser),
    Rule("unknown unit", "a word for the unit that the library does not know", "notice", _unknown_unit),
    Rule(
        "more than the limit",
        "levels, entries and symbols, with the limit; the rest is cut",
        "notice",
        _limit,
    ),
    Rule("crossed book", "the best bid, with the best ask", "notice", _crossed),
    Rule(
        "old snapshot", "the answer's own time, with its Date: more than 10 minutes apart", "notice", _stale
    ),
    Rule("high rate", "a funding rate beyond 4 % per interval", "notice", _high_rates),
    Rule("shares that do not add up", "the sum of the market shares, with 1", "notice", _shares),
    Rule("expired option", "an option's expiry, with the answer's time", "notice", _expired),
)
"""Every rule about one answer, in the order in which they are applied."""
