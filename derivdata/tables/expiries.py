"""Expiries as venues and people write them: the one parser of every entry point."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from derivdata.support import times
from derivdata.support.arguments import typed

EXPIRY_HOUR = 8
"""Hour [UTC] at which options and futures of a date expire, on each venue whose hour is known.

Deribit, Binance, Bybit, OKX and Derive (their instrument lists state the timestamp, recorded 2025 and
2026) and Paradex (docs.paradex.trade, "Expiries and listing schedule", 2026).
"""

_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
_TIME = (
    r"(?:(?:T|\s+|_|-)(?P<hh>\d{2}):?(?P<mm>\d{2})(?::?(?P<ss>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
_FORMS = (
    re.compile(r"(?P<y>20\d{2})(?P<dash>[-/])(?P<m>\d{1,2})(?P=dash)(?P<d>\d{1,2})" + _TIME),
    re.compile(r"(?P<y>20\d{2})(?P<m>\d{2})(?P<d>\d{2})" + _TIME),
    re.compile(r"(?P<y>\d{2})(?P<m>\d{2})(?P<d>\d{2})" + _TIME),
    re.compile(r"(?P<d>\d{1,2})[-/ ]?(?P<month>[A-Z]{3})[-/ ]?(?P<y>20\d{2}|\d{2})" + _TIME),
)
_EXAMPLES = "write it like '2026-03-27', '27MAR26', '260327' or '2026-03-27T08:00Z'"
_EXPIRY_TIME = pd.Timedelta(EXPIRY_HOUR, "h")
_DAY = pd.Timedelta(1, "D")


def iso_of(label: str) -> tuple[str, bool] | None:
    """Return a written expiry in ISO 8601, and whether it is a date without a time; None for other text.

    Midnight counts as no time: tools write dates so, and no venue's contracts expire then. A time without a
    zone stays without one.
    """
    text = label.strip().upper()
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        part = match.groupdict()
        if part.get("month") is not None and part["month"] not in _MONTHS:
            continue
        month = _MONTHS.index(part["month"]) + 1 if part.get("month") else int(part["m"])
        year = int(part["y"]) + (2000 if len(part["y"]) == 2 else 0)
        try:
            date = dt.date(year, month, int(part["d"])).isoformat()
        except ValueError:
            continue
        if part["hh"] is None:
            return date, True
        seconds = f"{part['ss'] or '00'}{'.' + part['fraction'] if part['fraction'] else ''}"
        zone = {"UTC": "Z", "GMT": "Z", None: ""}.get(part["zone"], part["zone"])
        is_midnight = int(part["hh"]) == int(part["mm"]) == float(seconds) == 0
        if is_midnight and zone.replace(":", "") in ("", "Z", "+00", "+0000", "-00", "-0000"):
            return date, True
        return f"{date}T{part['hh']}:{part['mm']}:{seconds}{zone}", False
    return None


@typed
def expiry(label: times.Instant, *, name: str = "label") -> pd.Timestamp:
    """Return the timestamp of an expiry.

    Parameters
    ----------
    label
        ``"2026-03-27"``, ``"27MAR26"``, ``"27-MAR-26"``, ``"260327"`` (year first), ``"20260327"``, each with
        or without a time; or a date, datetime, Timestamp or datetime64. Without a zone it is UTC.
    name
        Name of the argument, for the error.

    Returns
    -------
    Timestamp
        In UTC. A date, or midnight, means 08:00 UTC.

    Raises
    ------
    ValueError
        The label is not an expiry.

    Examples
    --------
    >>> dd.tables.expiry("27MAR26")
    Timestamp('2026-03-27 08:00:00+0000', tz='UTC')
    """
    return stamp_of(label, name)


def stamp_of(label: Any, name: str) -> pd.Timestamp:
    """Return what `expiry` returns; labels of another type are refused by the name of the argument."""
    stamp, is_date = _read(label, name)
    return stamp + _EXPIRY_TIME if is_date else stamp


def _read(label: Any, name: str) -> tuple[pd.Timestamp, bool]:
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        label = str(label)
    if isinstance(label, str):
        iso = iso_of(label)
        if iso is None:
            raise ValueError(f"{name}={label!r} is not an expiry: {_EXAMPLES}")
        stamp = times.instant(iso[0], name)
        return stamp, iso[1]
    stamp = times.instant(label, name)
    return stamp, stamp == stamp.normalize()


def expiries(values: Any, name: str, *, dates: bool | None = None) -> tuple[pd.Series, npt.NDArray[np.bool_]]:
    """Return expiries as UTC timestamps, and which of them were dates.

    Parameters
    ----------
    values
        Text, dates or timestamps; missing values stay missing.
    name
        What the values are, for errors.
    dates
        Whether timestamps at midnight are dates; None and True: they are.
    """
    column = pd.Series(values)
    if column.dtype.kind == "M":
        stamps = times.utc(column).dt.as_unit("us")
        is_date = (stamps == stamps.dt.normalize()).to_numpy()
    else:
        codes, labels = pd.factorize(column.astype(object))
        read = [_read(label, name) for label in labels]
        known = pd.Series([*(stamp for stamp, _ in read), pd.NaT], dtype="datetime64[us, UTC]")
        stamps = known.take(codes).set_axis(column.index)  # the code of a missing value is -1
        is_date = np.array([*(flag for _, flag in read), False])[codes]
    is_date = is_date & (dates is not False)
    return stamps.where(~is_date, stamps + _EXPIRY_TIME), is_date


def nearest_listed(listed: Sequence[pd.Timestamp], label: Any, name: str) -> pd.Timestamp:
    """Return the one listed expiry that a label names: its timestamp, or the only one of its date."""
    stamp, is_date = _read(label, name)
    known = times.utc(pd.DatetimeIndex(listed))
    day = stamp.normalize()
    matches = known[(known >= day) & (known < day + _DAY)] if is_date else known[known == stamp]
    if len(matches) != 1:
        written = ", ".join(f"{each:%Y-%m-%dT%H:%MZ}" for each in known)
        raise ValueError(f"{name}={label!r} matches {len(matches)} of the expiries {written}")
    found: pd.Timestamp = matches[0]
    return found
