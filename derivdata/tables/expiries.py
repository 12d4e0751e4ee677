"""Parse expiries as venues and users write them; every entry point uses this parser."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
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
    """Return an expiry in ISO 8601, and whether it is a date without a time; None for other text.

    Midnight counts as a date, since tools write dates so and contracts do not expire at midnight. A time
    without a zone is returned without a zone.
    """
    text = label.strip().upper()
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        fields = match.groupdict()
        date = _iso_date(fields)
        if date is None:
            continue
        if fields["hh"] is None:
            return date, True
        seconds = fields["ss"] or "00"
        if fields["fraction"]:
            seconds = f"{seconds}.{fields['fraction']}"
        zone = {"UTC": "Z", "GMT": "Z", None: ""}.get(fields["zone"], fields["zone"])
        is_midnight = int(fields["hh"]) == int(fields["mm"]) == float(seconds) == 0
        if is_midnight and zone.replace(":", "") in ("", "Z", "+00", "+0000", "-00", "-0000"):
            return date, True
        return f"{date}T{fields['hh']}:{fields['mm']}:{seconds}{zone}", False
    return None


def _iso_date(fields: Mapping[str, str]) -> str | None:
    """Return the date of a parsed label, or None if it is not a date of the calendar."""
    month_name = fields.get("month")
    if month_name is None:
        month = int(fields["m"])
    elif month_name in _MONTHS:
        month = _MONTHS.index(month_name) + 1
    else:
        return None
    year = int(fields["y"])
    if len(fields["y"]) == 2:
        year += 2000
    try:
        return dt.date(year, month, int(fields["d"])).isoformat()
    except ValueError:
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
    """Return the timestamp of an expiry, as `expiry` does; errors have the name of the argument."""
    stamp, is_date = _read(label, name)
    return stamp + _EXPIRY_TIME if is_date else stamp


def _read(label: Any, name: str) -> tuple[pd.Timestamp, bool]:
    """Return the timestamp of a label, and whether it is a date."""
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
    """Return expiries as UTC timestamps, and a mask of the values that were dates.

    Parameters
    ----------
    values
        Text, dates or timestamps; missing values stay missing.
    name
        Name of the values, for errors.
    dates
        Whether timestamps at midnight are dates; None and True: they are.
    """
    column = pd.Series(values)
    if column.dtype.kind == "M":
        stamps = times.utc(column).dt.as_unit("us")
        is_date = (stamps == stamps.dt.normalize()).to_numpy()
    else:
        codes, labels = pd.factorize(column.astype(object))
        parsed = [_read(label, name) for label in labels]
        # The code of a missing value is −1, which is the appended NaT.
        distinct = pd.Series([*(stamp for stamp, _ in parsed), pd.NaT], dtype="datetime64[us, UTC]")
        stamps = distinct.take(codes).set_axis(column.index)
        is_date = np.array([*(flag for _, flag in parsed), False])[codes]
    is_date = is_date & (dates is not False)
    return stamps.where(~is_date, stamps + _EXPIRY_TIME), is_date


def nearest_listed(listed: Sequence[pd.Timestamp], label: Any, name: str) -> pd.Timestamp:
    """Return the listed expiry at the timestamp of a label, or the only one on its date."""
    stamp, is_date = _read(label, name)
    stamps = times.utc(pd.DatetimeIndex(listed))
    if is_date:
        day = stamp.normalize()
        matches = stamps[(stamps >= day) & (stamps < day + _DAY)]
    else:
        matches = stamps[stamps == stamp]
    if len(matches) != 1:
        written = ", ".join(f"{listed_stamp:%Y-%m-%dT%H:%MZ}" for listed_stamp in stamps)
        raise ValueError(f"{name}={label!r} matches {len(matches)} of the expiries {written}")
    match: pd.Timestamp = matches[0]
    return match
