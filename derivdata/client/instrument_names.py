"""Option names: parse asset, expiry, strike and side, and compare them with the columns of a response."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from derivdata.client.reading import DAY_US, CheckedAnswer
from derivdata.support.arrays import Array
from derivdata.tables import endpoints
from derivdata.tables.contracts import contract


class _Option(NamedTuple):
    base: str
    day: int
    strike: float
    side: str


_OPTION = re.compile(
    r"(?P<base>[A-Z0-9]+)(?:[_-](?:USD[TC]?|EUR))?-(?P<date>\d{1,2}[A-Z]{3}\d{2}(?:\d{2})?|\d{6}|\d{8})"
    r"-(?P<strike>\d+(?:[d._]\d+)?)-(?P<side>[CP])(?:-[A-Z]+)?",
    re.IGNORECASE,
)
"""Names of Deribit, Binance, Bybit, OKX and Derive: ``XRP_USDC-3JUL26-1d5-C``, ``BTC-USD-260703-1000-P``."""


@lru_cache(maxsize=16384)
def _option(name: str) -> _Option | None:
    """Parse the name of an option; None for a name of another pattern."""
    match = _OPTION.fullmatch(name)
    if match is None:
        return None
    day = _day(match["date"])
    if day is None:
        return None
    strike = float(re.sub(r"[dD_]", ".", match["strike"]))
    return _Option(contract(match["base"]).symbol, day, strike, "call" if match["side"] in "Cc" else "put")


@lru_cache(maxsize=1024)
def _day(text: str) -> int | None:
    """Return the days since 1970 of a date in a name: ``3JUL26``, ``260703`` or ``20260703``; else None."""
    if text.isdecimal():
        form = "%Y%m%d" if len(text) == 8 else "%y%m%d"
    else:
        form = "%d%b%Y" if text[-4:].isdecimal() else "%d%b%y"
    try:
        date = dt.datetime.strptime(text, form).date()  # noqa: DTZ007
    except ValueError:
        return None
    return date.toordinal() - dt.date(1970, 1, 1).toordinal()


class OptionNames(NamedTuple):
    """Parsed names of a chain, one element per readable name; `places` are their rows."""

    places: Array
    bases: Array
    days: Array
    strikes: Array
    sides: Array


@lru_cache(maxsize=4)
def read_names(names: tuple[str, ...]) -> OptionNames:
    """Parse the names of a chain. Cached, because each poll has the same names."""
    options = [(place, option) for place, option in enumerate(map(_option, names)) if option is not None]
    bases, days, strikes, sides = ([option[field] for _, option in options] for field in range(4))
    return OptionNames(
        np.array([place for place, _ in options], dtype=np.intp),
        np.array(bases, dtype=str),
        np.array(days, dtype=np.int64),
        np.array(strikes, dtype=np.float64),
        np.array(sides, dtype=str),
    )


def names_against_options(e: CheckedAnswer) -> Iterator[str]:
    """Yield a breach for the first option whose name and columns differ."""
    symbol = e.requested.get("symbol")
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    named = read_names(tuple(names))
    days = np.asarray(e.micros("expiry"))[named.places] // DAY_US
    strikes = np.asarray(e.columns["strike"])[named.places]
    puts = np.asarray(e.columns["side"] == "put")[named.places]
    tolerances = 1e-9 * np.maximum(np.abs(strikes), 1.0)
    differing = (
        (np.zeros(days.size, dtype=bool) if symbol is None else named.bases != contract(symbol).symbol),
        (named.sides == "put") != puts,
        np.abs(named.strikes - strikes) > tolerances,
        named.days != days,
    )
    rows = np.flatnonzero(np.any(differing, axis=0))
    if not rows.size:
        return
    first = rows[0]
    name = names[named.places[first]]
    is_other_symbol, is_other_side, is_other_strike, _ = (differs[first] for differs in differing)
    if is_other_symbol:
        yield f"requested symbol {symbol!r}, the response has the instrument {name!r}"
    elif is_other_side:
        yield f"the instrument {name!r} has the side {'put' if puts[first] else 'call'!r}"
    elif is_other_strike:
        yield f"the instrument {name!r} has the strike {strikes[first]:g}"
    else:
        yield f"the instrument {name!r} expires on {np.datetime64(int(days[first]), 'D')}"


def names_against_expiries(e: CheckedAnswer) -> Iterator[str]:
    """Yield a breach for the first dated future whose name ends in a date other than its expiry."""
    if "side" in e.columns:
        return
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    days = (np.asarray(e.micros("expiry")) // DAY_US).tolist()
    for name, day in dict.fromkeys(zip(names, days, strict=True)):
        # Rows without an expiry have a day below 0.
        if day > 0 and _day(re.split("[-_]", name)[-1]) not in (None, day):
            yield f"the instrument {name!r} expires on {np.datetime64(day, 'D')}"
            return


def unread_names(e: CheckedAnswer) -> Iterator[str]:
    """Yield a notice of option names that cannot be parsed, on venues whose pattern is known."""
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    unread = sorted({*range(len(names))}.difference(read_names(tuple(names)).places.tolist()))
    if unread and e.requested.get("exchange") in endpoints.OPTIONS_MATRIX.get("BTC", ()):
        yield f"{len(unread)} of {len(names)} names of options cannot be read, first {names[unread[0]]!r}"


def options_twice(e: CheckedAnswer) -> Iterator[str]:
    """Yield a notice of options with the same expiry, strike and side."""
    if "trade_id" in e.columns:  # rows are trades, of which an option has many
        return
    distinct = np.unique([e.micros("expiry"), e.numbers("strike"), e.columns["side"] == "call"], axis=1)
    if duplicates := e.size - distinct.shape[1]:
        yield f"{duplicates} options have expiry, strike and side of another one"
