"""Parse cells of files as UTC times: ISO 8601, numbers since 1970, spreadsheet and other dates."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import zoneinfo
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.sources.archive.importing.cells import Rejections, Words, encoded, first_cell, floats, shown
from derivdata.support.arrays import Array
from derivdata.support.times import naive_utc
from derivdata.tables.contracts import expiries, iso_of

_FIXED = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_ZONED = re.compile(r".*(Z|:\d{2}(\.\d+)?[+-]\d{2}(:?\d{2})?)")
_EPOCH = re.compile(r"\d+(\.\d*)?(e\+?\d+)?", re.IGNORECASE)
_CALENDAR = re.compile(r"(20\d{2})(\d{2})(\d{2})(?:[ T]?(\d{2}):?(\d{2})?:?(\d{2})?)?")
"""A date, hour, minute or second in digits only: ``20240301``, ``2024030108``."""
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(20\d{2})(?:,? (.+))?")
_YEAR_FIRST = re.compile(
    r"(20\d{2})(?:[./]|\. |年)(\d{1,2})(?:[./]|\. |月)(\d{1,2})[日.]?(?:(?:(?<=日)|[ TD])(.+))?"
)
"""``2026.03.01 08:00`` of MetaTrader, ``2026.03.01D08:00:00.000000000`` of kdb, ``2026/3/1 8:00``.

Also ``2026. 3. 1. 오후 4:00:00`` of Korea, ``2026. 03. 01. 8:00`` of Hungary, ``2026年3月1日 下午4:00``.
"""
_HALF_OF_DAY = re.compile(r"(?P<date>20\d{2}-\d{2}-\d{2})[ T](?P<clock>[\d:.]+ ?[AP]M)", re.IGNORECASE)
"""``2026-03-01 08:00 PM``."""
_KDB = re.compile(r"(?P<date>20\d{2}-\d{2}-\d{2})D(?P<clock>\d{2}:\d{2}:\d{2}(\.\d+)?)")
"""``2026-03-01D08:00:00.123456000`` of BitMEX's public files."""
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(20\d{2})(?:,? (.+))?")
_SHORT_YEAR = re.compile(r"(\d{1,2})[./](\d{1,2})[./](\d{2})(?:,? (.+))?")
"""``15/03/23 8:00``, ``15.03.23`` or ``3/15/23``."""
_MONTH_SECOND = re.compile(
    r"(?:[a-z]{3}, )?(?P<day>\d{1,2})[ -]?(?P<month>[a-z]{3,9})[ -]?(?P<year>20\d{2}|[1-3]\d(?=:|$))"
    r"(?:(?:,? |:)(?P<rest>.+))?",
    re.IGNORECASE,
)
_MONTH_FIRST = re.compile(
    r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2}),? (?P<year>20\d{2})(?:,? (?P<rest>.+))?", re.IGNORECASE
)
"""``Sun, 01 Mar 2026 08:00:00 GMT``, ``Mar 01, 2026 08:00 AM``, SAS's ``01MAR26:08:00:00``."""
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?\s*([AP]M)?", re.IGNORECASE)
_HALVES_OF_DAYS = {"오전": "AM", "오후": "PM", "上午": "AM", "下午": "PM", "午前": "AM", "午後": "PM"}
"""Words before a time of day in Korean, Chinese and Japanese."""
_EARLIEST = 1_200_000_000
_LATEST = 4_200_000_000
"""2008-01-10 and 2103-02-04 in seconds since 1970: numbers in other units are not between them."""
_FIRST_DATE_AND_HOUR = 2_000_010_100
"""2000-01-01 00 in digits only: smaller numbers of ten digits are seconds since 1970."""
_MICROS_PER = {1: 1_000_000.0, 1_000: 1_000.0, 1_000_000: 1.0, 1_000_000_000: 0.001}
_TICKS = (632_600_000_000_000_000, 662_700_000_000_000_000)
"""2005-08 and 2101-01 as .NET stores times: units of 100 ns since the year 1."""
_TICKS_AT_1970 = 621_355_968_000_000_000
_MISSING = np.datetime64("NaT", "us")
_MISSING_MICROS = np.iinfo(np.int64).min
_SERIAL_DAYS = (36_526.0, 62_000.0)
"""2000-01-01 and 2069-09-29 as spreadsheets store dates: days since 1899-12-30."""
_COMMA_DAYS = re.compile(r"\d{5},\d+")
_SERIAL_EPOCH = np.datetime64("1899-12-30", "us")


def zone(name: str) -> dt.tzinfo:
    """Return the zone of a name: ``Europe/London``, ``Etc/GMT-3`` or ``UTC+3`` (three hours ahead)."""
    fixed = _FIXED.fullmatch(name.strip())
    if fixed is not None:
        offset = dt.timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        if offset >= dt.timedelta(hours=24):
            raise ValueError(f"tz={name!r} must be less than a day from UTC")
        if fixed[1] == "-":
            offset = -offset
        return dt.timezone(offset)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"tz={name!r} is not a time zone: pass one such as Europe/London, UTC or UTC+3"
        ) from None


_OFFSET_IN_NAME = re.compile(
    r"(?:UTC|GMT)(?:[_ ]?(?P<signed>[+-]\s*\d{1,2}(?::?\d{2})?)|(?P<ahead>\d{1,2})(?![\da-z]))", re.IGNORECASE
)
"""``Time (UTC+8)``, ``time GMT+08:00``, ``datetime_utc8``; not ``time_utc_1``, the second of two columns."""
_ZONE_IN_NAME = re.compile(r"[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+")
_ZONE_WORDS = {
    "utc": "UTC", "gmt": "UTC", "zulu": "UTC", "jst": "UTC+9", "kst": "UTC+9", "hkt": "UTC+8", "sgt": "UTC+8",
    "beijing": "UTC+8", "北京": "UTC+8", "msk": "UTC+3", "bangkok": "UTC+7", "jakarta": "UTC+7",
    "singapore": "UTC+8", "hongkong": "UTC+8", "shanghai": "UTC+8", "taipei": "UTC+8", "tokyo": "UTC+9",
    "seoul": "UTC+9", "kolkata": "UTC+5:30", "dubai": "UTC+4", "istanbul": "Europe/Istanbul",
    "moscow": "Europe/Moscow", "london": "Europe/London", "berlin": "Europe/Berlin", "paris": "Europe/Paris",
    "zurich": "Europe/Zurich", "chicago": "America/Chicago",
}  # fmt: skip
"""Words of zones and cities with one meaning."""
_LOCAL_WORDS = frozenset(
    "local lokal locale lokalzeit est edt et pst pdt pt cst cdt ct ist bst cet cest aest aedt "
    "本地 当地 現地 현지".split()
)
"""Words for times that are not UTC, of an unknown zone."""
_LETTERS = re.compile(r"[a-z]+|[^\W\da-zA-Z_]+", re.IGNORECASE)


def zone_in_name(name: str) -> str | None:
    """Return the time zone in a column name, such as ``UTC+8`` in ``Time (UTC+8)``; None without one.

    Raises `ValueError` with the word of the name if it indicates local times without a zone.
    """
    offset = _OFFSET_IN_NAME.search(name)
    if offset is not None:
        signed = offset["signed"] or f"+{offset['ahead']}"
        return f"UTC{signed.replace(' ', '')}"
    listed = _ZONE_IN_NAME.search(name)
    if listed is not None and listed[0] in zoneinfo.available_timezones():
        return listed[0]
    separated = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)  # the words of "localTime"
    words = [word.lower() for word in _LETTERS.findall(separated)]
    for word in words:
        for zone_word, zone_name in _ZONE_WORDS.items():
            if _is_word(zone_word, word):
                return zone_name
    for word in words:
        if any(_is_word(local_word, word) for local_word in _LOCAL_WORDS):
            raise ValueError(word)
    return None


def _is_word(zone_word: str, word: str) -> bool:
    """Return whether a word names a zone; Chinese, Japanese and Korean have no spaces between words."""
    if zone_word.isascii():
        return word == zone_word
    return zone_word in word


def to_timestamps(
    column: pa.ChunkedArray,
    name: str,
    rejections: Rejections,
    *,
    tz: dt.tzinfo | None,
    groups: Sequence[Any] | None = None,
) -> pd.DatetimeIndex:
    """Return ISO 8601 text, numbers since 1970 in s, ms, µs or ns, or timestamps as UTC times.

    Rows without a zone are in `tz`, and rejected without it. `groups` are the series of rows, by which
    `_localized` distinguishes the two hours of an ambiguous local hour.
    """
    utc, naive = _read(column, name, rejections)
    if name == "expiry":  # a date needs no zone
        dates = naive == naive.astype("datetime64[D]")
        utc[dates] = naive[dates]
        naive[dates] = _MISSING

    def reject(rows: Array, why: str) -> None:
        rejections.reject(rows, lambda row: f"{name}={shown(column, row)} {why}")

    is_local = ~np.isnat(naive)
    if is_local.any() and tz is None:
        reject(is_local, "has no time zone: pass --tz, such as --tz UTC or --tz Europe/London")
    elif tz == dt.UTC or str(tz) == "UTC":
        utc[is_local] = naive[is_local]
    elif is_local.any():
        utc[is_local], is_ambiguous = _localized(naive, is_local, tz, groups)
        is_mixed = np.zeros(len(is_local), dtype=bool)
        is_mixed[is_local] = is_ambiguous
        reject(
            is_mixed,
            "occurs twice because the clock was set back, and the file is not sorted: sort it by time",
        )
        reject(is_local & np.isnat(utc), f"does not exist in {tz}, because the clock was set forward")
    result = pd.DatetimeIndex(utc).tz_localize("UTC")
    if name != "expiry":
        return result
    return pd.DatetimeIndex(expiries(result, name)[0])


def has_floating_times(column: pa.ChunkedArray) -> bool:
    """Return whether a column has a time without a zone."""
    _, naive = _read(column, "time", Rejections(len(column)))
    return bool((~np.isnat(naive)).any())


def _read(column: pa.ChunkedArray, name: str, rejections: Rejections) -> tuple[Array, Array]:
    """Return the UTC times of values with a zone, and local times of the others."""
    kind = column.type
    missing = np.full(len(column), _MISSING)
    if pa.types.is_timestamp(kind):
        stamps = _stamps(column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()))
        if kind.tz:
            return stamps, missing
        return missing, stamps
    serials = _serial_dates(column)
    if serials is not None:
        return missing, serials
    if pa.types.is_date(kind):
        return missing, _stamps(column.cast(pa.timestamp("us")).cast(pa.int64()))
    numbers = _as_integers(column, name)
    if numbers is not None:
        # Numbers that are not epochs, such as 2024030108, are read as texts below.
        stamps = _whole_epochs(_integers(numbers))
        if not np.isnat(stamps[np.asarray(numbers.is_valid())]).any():
            return stamps, missing
    return _read_texts(encoded(column), column, name, rejections)


def _serial_dates(column: pa.ChunkedArray) -> Array | None:
    """Return dates that a spreadsheet stored as days; None for a column with other values.

    Days have about ten decimals, so times are rounded to seconds. They have no zone.
    """
    if not pa.types.is_string(column.type) and not pa.types.is_floating(column.type):
        return None
    if _COMMA_DAYS.fullmatch(first_cell(column)):
        column = pc.replace_substring(column, ",", ".")
    try:
        days = floats(column.cast(pa.float64()))
    except pa.ArrowInvalid:
        return None
    finite = days[~np.isnan(days)]
    if not finite.size or finite.min() < _SERIAL_DAYS[0] or finite.max() > _SERIAL_DAYS[1]:
        return None
    seconds = np.round(np.nan_to_num(days) * 86_400).astype(np.int64)
    stamps = _SERIAL_EPOCH + seconds * np.timedelta64(1_000_000, "us")
    return np.where(np.isnan(days), _MISSING, stamps)


def _as_integers(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray | None:
    """Return a column as integers if all of it is; expiries of few digits are dates."""
    if pa.types.is_integer(column.type):
        return column
    if not pa.types.is_string(column.type):
        return None
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if name == "expiry" and (pc.max(numbers).as_py() or 0) < _EARLIEST:
        return None
    return numbers


def _integers(column: pa.ChunkedArray) -> Array:
    """Return integers, 0 for missing ones."""
    values = column.cast(pa.int64(), safe=False).fill_null(0)
    return np.asarray(values.to_numpy())


def _stamps(micros: pa.ChunkedArray) -> Array:
    """Return integers [µs] as times."""
    values = np.asarray(micros.fill_null(_MISSING_MICROS).to_numpy())
    return values.view("datetime64[us]").copy()


def _whole_epochs(amounts: Array) -> Array:
    """Return the times of integers since 1970, in s, ms, µs or ns by their size.

    Ten digits such as 2024030108, which as seconds are after 2033, are parsed later as a date and hour.
    """
    result = np.full(len(amounts), _MISSING)
    for scale in _MICROS_PER:
        is_of_scale = (amounts >= _EARLIEST * scale) & (amounts < _LATEST * scale)
        if scale == 1:
            is_of_scale &= amounts < _FIRST_DATE_AND_HOUR
        if scale <= 1_000_000:
            micros = amounts[is_of_scale] * (1_000_000 // scale)
        else:
            micros = amounts[is_of_scale] // (scale // 1_000_000)
        result[is_of_scale] = micros.view("datetime64[us]")
    is_ticks = (amounts >= _TICKS[0]) & (amounts < _TICKS[1])
    result[is_ticks] = ((amounts[is_ticks] - _TICKS_AT_1970) // 10).view("datetime64[us]")
    return result


def _read_texts(
    words: Words, column: pa.ChunkedArray, name: str, rejections: Rejections
) -> tuple[Array, Array]:
    """Return the UTC times of texts with a zone, and local times of the others; each text is parsed once."""
    iso_texts: list[str] = []
    for text in words.texts:
        if name == "expiry":
            text = (iso_of(text) or (text,))[0]
        iso_texts.append(_of_calendar(_with_all_digits(_with_offset(text))))
    iso_texts = _in_iso_order(iso_texts)
    # A missing row has the code -1, which is the last item.
    utc = np.full(len(iso_texts) + 1, _MISSING)
    naive = np.full(len(iso_texts) + 1, _MISSING)
    places: dict[str, list[int]] = {"epoch": [], "zoned": [], "naive": []}
    for place, text in enumerate(iso_texts):
        if text:
            places[_kind(text)].append(place)
    utc[places["epoch"]] = _epochs([iso_texts[place] for place in places["epoch"]])
    utc[places["zoned"]] = _iso([iso_texts[place] for place in places["zoned"]], utc=True)
    naive[places["naive"]] = _iso([iso_texts[place] for place in places["naive"]], utc=False)
    is_unread = np.isnat(utc) & np.isnat(naive)
    is_unread[-1] = False
    rejections.reject(
        is_unread[words.codes], lambda row: f"{name}={shown(column, row)} {_why_unread(column[row])}"
    )
    return utc[words.codes], naive[words.codes]


_ROUNDED = re.compile(r"\d(\.\d{0,6})?e\+?1[2-8]", re.IGNORECASE)
"""``1.77232E+12``: a time in ms of which a spreadsheet saved six digits."""


_ZONE_AFTER_OFFSET = re.compile(r"(?P<time>.*(?:[+-]\d{2}:?\d{2}|Z))\[[\w/+-]+\]")
"""``2026-03-01T08:00:00+01:00[Europe/Berlin]``: how Java writes times."""
_OFFSETS = {
    "CET": "+01:00", "CEST": "+02:00", "MSK": "+03:00", "HKT": "+08:00", "SGT": "+08:00", "JST": "+09:00",
    "KST": "+09:00", "EDT": "-04:00", "PDT": "-07:00",
}  # fmt: skip
"""Words after times that mean one offset; EST, CST, IST and BST mean several."""
_WORD_OF_ZONE = re.compile(r"(?P<time>.*\d{1,2}:\d{2}\S*) (?P<word>[A-Z]{3,4})")


def _with_offset(text: str) -> str:
    """Return a time with its offset from UTC in place of a name of its zone; other texts unchanged."""
    named = _ZONE_AFTER_OFFSET.fullmatch(text)
    if named is not None:
        return named["time"]
    match = _WORD_OF_ZONE.fullmatch(text)
    if match is None or match["word"] not in _OFFSETS:
        return text
    return match["time"] + _OFFSETS[match["word"]]


def _with_all_digits(text: str) -> str:
    """Return a text, marked as rounded if a spreadsheet has dropped digits of the number."""
    if _ROUNDED.fullmatch(text):
        return f"rounded {text}"
    return text


def _why_unread(value: Any) -> str:
    text = str(value).strip()
    if _ROUNDED.fullmatch(text):
        return "was rounded by a spreadsheet: export the file again, or format the column as a number"
    if _SLASHED.fullmatch(text) or _SHORT_YEAR.fullmatch(text):
        return "is ambiguous, because the file does not show the order of day and month: write 2026-03-27"
    return "is not a time: expected ISO 8601 or a number since 1970"


def _of_calendar(text: str) -> str:
    """Return a date and hour in digits only as ISO 8601; seconds since 1970 are before 2033-05-18."""
    of_kdb = _KDB.fullmatch(text)
    if of_kdb is not None:
        return f"{of_kdb['date']}T{of_kdb['clock']}"
    halved = _HALF_OF_DAY.fullmatch(text)
    if halved is not None:
        return f"{halved['date']}{_clock(halved['clock'])}"
    dated = _YEAR_FIRST.fullmatch(text)
    if dated is not None:
        text = f"{dated[1]}-{int(dated[2]):02}-{int(dated[3]):02}{_clock(dated[4])}"
    match = _CALENDAR.fullmatch(text)
    if match is None or (len(text) == 10 and int(text) < _FIRST_DATE_AND_HOUR):
        return text
    year, month, day, hour, minute, second = match.groups("00")
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}"


def _in_iso_order(texts: list[str]) -> list[str]:
    """Return dates such as 27.03.2026 and 3/27/2026 2:00 PM as ISO 8601.

    Dates with dots have the day first. In dates with slashes, a field above 12 in any date of the file is the
    day; if both orders are possible, they stay unchanged and are rejected.
    """
    texts = _with_whole_years([*map(_of_month_name, texts)])
    slashed = [*filter(None, map(_SLASHED.fullmatch, texts))]
    can_be_day_first = all(int(match[2]) <= 12 for match in slashed)
    can_be_month_first = all(int(match[1]) <= 12 for match in slashed)
    if can_be_day_first and can_be_month_first:
        can_be_day_first = _are_even(slashed, day=1, month=2)
        can_be_month_first = _are_even(slashed, day=2, month=1)
    has_one_order = can_be_day_first != can_be_month_first
    result: list[str] = []
    for text in texts:
        dotted = _DAY_FIRST.fullmatch(text)
        with_slashes = None
        if has_one_order:
            with_slashes = _SLASHED.fullmatch(text)
        if dotted is not None:
            text = _iso_date(dotted, day=1, month=2)
        elif with_slashes is not None and can_be_day_first:
            text = _iso_date(with_slashes, day=1, month=2)
        elif with_slashes is not None:
            text = _iso_date(with_slashes, day=2, month=1)
        result.append(text)
    return result


def _iso_date(match: re.Match[str], *, day: int, month: int) -> str:
    """Return a date whose day and month are in two groups of a match, before the year and the time of day."""
    return f"{match[3]}-{int(match[month]):02}-{int(match[day]):02}{_clock(match[4])}"


_MIN_DATES = 2
_MAX_DAYS_APART = 7


_MIDNIGHT = re.compile(r"0?0:00(:00)?|12:00(:00)? ?AM")


def _are_even(dates: Sequence[re.Match[str]], *, day: int, month: int) -> bool:
    """Return whether dates are at most a week apart, with day and month in two groups of each match.

    In the other order, the first days of a month are months apart. Months of reports begin on the first.
    """
    days = sorted({dt.date(int(date[3]), int(date[month]), int(date[day])) for date in dates})
    if len(days) < _MIN_DATES:
        return False
    longest = max(later - earlier for earlier, later in itertools.pairwise(days))
    has_dates_only = all(_MIDNIGHT.fullmatch(date[4] or "0:00") for date in dates)
    may_be_monthly = has_dates_only and all(int(date[month]) == 1 for date in dates)
    return longest.days <= _MAX_DAYS_APART and not may_be_monthly


_YEARS = range(11, 41)
"""Years of two digits."""
_MAX_DAYS = 31
_MAX_MONTHS = 12
_ORDERS = {"day": (3, 2, 1), "month": (3, 1, 2), "year": (1, 2, 3)}
"""Places of year, month and day in dates with slashes, by the first of them."""


def _with_whole_years(texts: list[str]) -> list[str]:
    """Return dates such as 15/03/23 as ISO 8601, if only one order of day, month and year fits them all."""
    matches = [_SHORT_YEAR.fullmatch(text) for text in texts]
    dates = [*filter(None, matches)]
    orders = {*_ORDERS}
    for date in dates:
        orders = {order for order in orders if _is_date(date, _ORDERS[order])}
        if "." in date[0].partition(" ")[0]:
            orders.discard("month")  # dates with dots begin with the day or the year
    if not dates or len(orders) != 1:
        return texts
    year, month, day = _ORDERS[orders.pop()]
    result: list[str] = []
    for text, match in zip(texts, matches, strict=True):
        if match is not None:
            text = f"20{match[year]}-{int(match[month]):02}-{int(match[day]):02}{_clock(match[4])}"
        result.append(text)
    return result


def _is_date(date: re.Match[str], groups: tuple[int, int, int]) -> bool:
    """Return whether groups of a match are a year, a month and a day."""
    year, month, day = (int(date[group]) for group in groups)
    return year in _YEARS and 1 <= month <= _MAX_MONTHS and 1 <= day <= _MAX_DAYS


_NAMED_DAY = re.compile(
    r"[a-z]{3} (?P<month>[a-z]{3}) +(?P<day>\d{1,2}) (?:(?P<year>20\d{2}) (?P<clock>[\d:]+)|"
    r"(?P<last_clock>[\d:]+) (?P<last_year>20\d{2}))(?: GMT(?P<offset>[+-]\d{4}).*)?",
    re.IGNORECASE,
)
"""``Sun Mar 01 2026 08:00:00 GMT+0000 (...)`` of JavaScript, ``Sun Mar  1 08:00:00 2026`` of C."""


def _of_month_name(text: str) -> str:
    """Return a date with a month name as ISO 8601; other texts unchanged."""
    named = _NAMED_DAY.fullmatch(text)
    if named is not None and named["month"].lower() in _MONTHS:
        month = _MONTHS.index(named["month"].lower()) + 1
        year = named["year"] or named["last_year"]
        clock = named["clock"] or named["last_clock"]
        return f"{year}-{month:02}-{int(named['day']):02} {clock}{named['offset'] or ''}"
    match = _MONTH_SECOND.fullmatch(text) or _MONTH_FIRST.fullmatch(text)
    if match is None or match["month"][:3].lower() not in _MONTHS:
        return text
    month = _MONTHS.index(match["month"][:3].lower()) + 1
    return f"20{match['year'][-2:]}-{month:02}-{int(match['day']):02}{_clock(match['rest'])}"


def _clock(text: str | None) -> str:
    """Return a time of day in ISO 8601; other texts stay unchanged and are rejected later."""
    if text is None:
        return ""
    text = text.strip()
    clock = text
    if text[:2] in _HALVES_OF_DAYS:
        clock = f"{text[2:].strip()} {_HALVES_OF_DAYS[text[:2]]}"
    match = _CLOCK.fullmatch(clock)
    if match is None:
        return f" {text}"
    hour = int(match[1])
    half_of_day = (match[5] or "").upper()
    if half_of_day:
        hour %= 12  # 12 AM is 0, and 12 PM is 12
    if half_of_day == "PM":
        hour += 12
    return f" {hour:02}:{match[2]}:{match[3] or '00'}{match[4] or ''}"


def _kind(text: str) -> str:
    """Return ``epoch`` for a number since 1970, and else whether a time has a zone or is naive."""
    if _EPOCH.fullmatch(text):
        return "epoch"
    if _ZONED.fullmatch(text) or text.endswith((" UTC", " GMT")):
        return "zoned"
    return "naive"


def _iso(texts: list[str], *, utc: bool) -> Array:
    """Return times of texts by ISO 8601, missing for other texts."""
    plain = [text.removesuffix(" UTC").removesuffix(" GMT") for text in texts]
    parsed = pd.DatetimeIndex(pd.to_datetime(plain, format="ISO8601", errors="coerce", utc=utc))
    return np.asarray(naive_utc(parsed).as_unit("us"))


def _epochs(texts: list[str]) -> Array:
    """Return times of numbers since 1970, in s, ms, µs or ns by their size."""
    stamps = np.array([_epoch_micros(text) for text in texts], dtype=np.int64)
    return stamps.view("datetime64[us]")


def _epoch_micros(text: str) -> int:
    """Return the time of a number since 1970 [µs], by its size; that of NaT if it is too small or large."""
    amount = float(text)
    for scale, micros in _MICROS_PER.items():
        if _EARLIEST * scale <= amount < _LATEST * scale:
            if text.isdigit():  # a float has 53 bits, which are too few for nanoseconds
                return int(text) * 1_000_000 // scale
            return round(amount * micros)
    return _MISSING_MICROS


def _localized(
    naive: Array,
    is_local: Array,
    tz: dt.tzinfo | None,
    groups: Sequence[Any] | None,
) -> tuple[Array, Array]:
    """Return local times as UTC, and a mask of times that are ambiguous because the file is unsorted.

    Summer time ends with a repeated hour. In an ascending file the first of two such rows is in the first
    hour; in a descending one, in the second.
    """
    local = pd.DatetimeIndex(naive[is_local])
    is_twice = np.asarray(local.tz_localize(tz, ambiguous="NaT", nonexistent="shift_forward").isna())
    is_ambiguous = np.zeros(len(local), dtype=bool)
    is_second = np.zeros(len(local), dtype=bool)
    if is_twice.any():
        rows = pd.DataFrame({"time": local})
        for number, values in enumerate(groups or ()):
            rows[str(number)] = np.asarray(values, dtype=object)[is_local]
        keys = [name for name in rows.columns if name != "time"]
        series = pd.Series(0, rows.index)
        if keys:
            series = rows.groupby(keys, sort=False, dropna=False).ngroup()
        # Count forward and backward steps of each series, except within repeated hours.
        step = rows["time"].groupby(series).diff().dt.total_seconds().fillna(0.0)
        is_after_twice = pd.Series(is_twice, rows.index).groupby(series).shift(fill_value=False).to_numpy()
        step[is_twice & is_after_twice] = 0.0
        forward = (step > 0).groupby(series).transform("sum").to_numpy()
        backward = (step < 0).groupby(series).transform("sum").to_numpy()
        is_newest_first = backward > forward
        is_again = np.where(is_newest_first, rows.duplicated(keep="last"), rows.duplicated())
        is_double = rows.duplicated(keep=False).to_numpy() & is_twice
        is_ambiguous = is_double & (np.minimum(forward, backward) > 0.1 * (forward + backward))
        if not (is_again & ~is_twice).any():  # a file that repeats every row repeats these too
            is_second = is_again & is_twice
    zoned = local.tz_localize(tz, ambiguous=~is_second, nonexistent="NaT")
    return np.asarray(naive_utc(zoned)), is_ambiguous
