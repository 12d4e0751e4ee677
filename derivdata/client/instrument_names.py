"""Names of options: what they say of asset, expiry, strike and side."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from derivdata.support.arrays import Array
from derivdata.tables.contracts import contract

__all__ = ["OptionNames", "read_names"]


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
