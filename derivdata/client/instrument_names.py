"""Names of options: what they say of asset, expiry, strike and side, and the rules that compare it."""

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
    form = ("%d%b%Y" if text[-4:].isdecimal() else "%d%b%y") if not text.isdecimal() else "%y%m%d"
    form = "%Y%m%d" if text.isdecimal() and len(text) == 8 else form
    try:
        date = dt.datetime.strptime(text, form).date()  # noqa: DTZ007
    except ValueError:
        return None
    return date.toordinal() - dt.date(1970, 1, 1).toordinal()


class OptionNames(NamedTuple):
    """What the names of a chain say, one element for each name that can be read."""

    places: Array
    bases: Array
    days: Array
    strikes: Array
    sides: Array


@lru_cache(maxsize=4)
def read_names(names: tuple[str, ...]) -> OptionNames:
    """Parse the names of a chain; each poll of it brings the same names again."""
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
    """Compare the first option whose name and columns differ."""
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
    for first in np.flatnonzero(np.any(differing, axis=0))[:1]:
        name = names[named.places[first]]
        yield (
            f"asked for symbol {symbol!r}, an instrument is {name!r}",
            f"the instrument {name!r} has the side {'put' if puts[first] else 'call'!r}",
            f"the instrument {name!r} has the strike {strikes[first]:g}",
            f"the instrument {name!r} expires on {np.datetime64(int(days[first]), 'D')}",
        )[next(n for n, differs in enumerate(differing) if differs[first])]


def names_against_expiries(e: CheckedAnswer) -> Iterator[str]:
    """Compare the first dated future whose name and expiry differ, of names that end in a date."""
    if "side" in e.columns:
        return
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    days = (np.asarray(e.micros("expiry")) // DAY_US).tolist()
    for name, day in dict.fromkeys(zip(names, days, strict=True)):
        if day > 0 and _day(re.split("[-_]", name)[-1]) not in (None, day):  # a list may not tell expiries
            yield f"the instrument {name!r} expires on {np.datetime64(day, 'D')}"
            return


def unread_names(e: CheckedAnswer) -> Iterator[str]:
    """Find options whose names say nothing, on venues whose names are known."""
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    unread = sorted({*range(len(names))}.difference(read_names(tuple(names)).places.tolist()))
    if unread and e.requested.get("exchange") in endpoints.OPTIONS_MATRIX.get("BTC", ()):
        yield f"{len(unread)} of {len(names)} names of options cannot be read, first {names[unread[0]]!r}"


def options_twice(e: CheckedAnswer) -> Iterator[str]:
    """Find options of one expiry, strike and side; each may have many trades."""
    if "trade_id" in e.columns:
        return
    places = np.unique([e.micros("expiry"), e.numbers("strike"), e.columns["side"] == "call"], axis=1)
    if twins := e.size - places.shape[1]:
        yield f"{twins} options have expiry, strike and side of another one"
