"""Plan of a file without a declared layout: columns and units, by their names and values, or a question."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.adjustments import (
    ADJUST,
    VENUES_IN_COINS,
    amount_of,
    at_delivery,
    book_amount,
    is_inverse_name,
    one_side,
    usd_of_contracts,
)
from derivdata.sources.archive.importing.cells import Rejections, encoded, interval_hours, numbers
from derivdata.sources.archive.importing.guessed_tables import (
    OF_RECEIPT,
    PRICES_OF_FUTURES,
    are_trades,
    figures_of_all,
    guessed_tables,
    interval_of_next_payments,
    own_table,
    refuse_remaining_orders,
    total_columns,
    value_columns,
    words_in,
)
from derivdata.sources.archive.importing.liquidation_amounts import (
    AmountPlan,
    amount_plan,
    refuse_other_sizes,
    words_of_sides,
)
from derivdata.sources.archive.importing.market_names import (
    ALWAYS_HOURLY,
    CURRENCIES,
    known_interval,
    market_of,
    meaning_of,
    names_by_meaning,
    names_in_path,
    pair_of_coins,
    pays_hourly,
    plain_name,
    scale_in_name,
    unread_scale,
    venue_of_word,
)
from derivdata.sources.archive.importing.plan import (
    IN_COINS,
    RATE_UNITS,
    Adjust,
    Given,
    ImportPlan,
    Unclear,
    make_plan,
    units_of,
)
from derivdata.sources.archive.importing.readers import UNNAMED, Chunk, Sparse, is_sparse, rows_with
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import instants, zone, zone_in_name
from derivdata.sources.archive.importing.wide_tables import METRIC_NAMES, PRICE_OF_COIN
from derivdata.sources.archive.schemas import archive_table
from derivdata.support.arrays import Array
from derivdata.tables.schema import Kind


def columns_by_meaning(head: Chunk) -> dict[str, str]:
    """Return the file's column of each meaning of ``names.toml`` that it has."""
    plain = _plain_columns(head)
    by_meaning: dict[str, str] = {}
    for meaning, names in names_by_meaning().items():
        candidates = [plain[name] for name in names if name in plain]
        candidates = [column for column in candidates if _can_be(meaning, head.columns[column])]
        if meaning == "time":
            candidates = _times_first(candidates, head)
        if candidates:
            by_meaning[meaning] = candidates[0]
    if [*head.columns] == ["0", "1"] and _has_times(head.columns["0"]):
        by_meaning |= {"time": "0", "value": "1"}
    _take_short_candles(plain, by_meaning)
    _take_numbers_of_candles(head, plain, by_meaning)
    _take_near_names(head, by_meaning)
    _take_stated_rate(head, by_meaning)
    if by_meaning.get("last", "").lower() in _OPENS:
        by_meaning.pop("price_usd", None)  # the close of a candle, which is known at its end
        if _OF_ENDS.search(plain_name(by_meaning.get("time", ""))):
            _take_closes(plain, by_meaning)
    return by_meaning


_FIXED_PERIODS = ("8h", "hour")
_ONLY_PERIOD = re.compile(r"(rate)?(pct|percent|bps?)?(per)?(8h(ours?)?|1h|h(our(ly)?)?)(pct|percent|bps?)?")
"""What may follow the name of a rate in that of the same rate of a fixed period; not ``avg_8h``."""


def _take_stated_rate(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Take the rate of 8 hours or of an hour in place of one of an interval that the file does not state."""
    column = by_meaning.get("rate")
    if column is None or "interval_hours" in by_meaning or any(_scale_and_period(column)):
        return
    for name in head.columns:
        rest = plain_name(name.replace("%", "pct")).removeprefix(plain_name(column))
        is_same = _ONLY_PERIOD.fullmatch(rest) is not None
        if is_same and _scale_and_period(name)[1] in _FIXED_PERIODS and _can_be("rate", head.columns[name]):
            by_meaning["rate"] = name
            return


def _take_near_names(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Take the one column with the words of a rate, a time or open interest, where no name means it."""
    nearest = {
        "rate": _near_rate(head),
        "time": _near_time(head),
        "interval_hours": _near(head, _NEAR_INTERVAL, _OF_OTHER_INTERVALS),
    }
    for meaning, name in _scaled_amounts(head).items():
        by_meaning.setdefault(meaning, name)
    for meaning, near in nearest.items():
        if meaning not in by_meaning and near is not None:
            by_meaning[meaning] = near
    if not {"oi_usd", "oi_coins"} & by_meaning.keys():
        by_meaning |= _near_interest(head)


_OF_ENDS = re.compile(r"^(close|end)|(close|end)(time|date|at)?$")
_CLOSES = ("close", "closeprice", "c")


def _take_closes(plain: Mapping[str, str], by_meaning: dict[str, str]) -> None:
    """Use the close of candles whose times are their ends."""
    close = next((plain[name] for name in _CLOSES if name in plain), None)
    if close is None:
        del by_meaning["last"]
    else:
        by_meaning["last"] = close


def _plain_columns(head: Chunk) -> dict[str, str]:
    """Return the columns by their normalised names, and by the last part of names such as ``delta.coin``."""
    plain = {column: column for column in head.columns if plain_name(column) == column}  # t before T
    for column in head.columns:
        plain.setdefault(plain_name(column), column)
    for column in head.columns:
        plain.setdefault(plain_name(column.rsplit(".", 1)[-1]), column)
        plain.setdefault(plain_name(column.replace("%", "pct")), column)
    return plain


_OPENS = ("open", "openprice", "open_price", "o")
_NAMELESS = (UNNAMED, "dt")
"""Names of columns that may be numbers of rows."""


def _times_first(columns: list[str], head: Chunk) -> list[str]:
    """Return columns of times, those with valid times first; row numbers are excluded."""
    times = [column for column in columns if _share_of_times(head.columns[column]) >= _MOST_TIMES]
    times = _with_time_of_day(times, head)
    times = _without_bookkeeping(times, head)
    return times + [column for column in columns if column not in times and column not in _NAMELESS]


_OF_BOOKKEEPING = frozenset("createdat createtime createdtime updatedat updatetime insertedat".split())
"""Plain names of times that databases keep of their rows."""


def _without_bookkeeping(columns: list[str], head: Chunk) -> list[str]:
    """Return columns of times with those last that a database has of its rows, and that say less.

    Rows that were inserted at once have one time of creation.
    """
    counts = {name: len(encoded(head.columns[name]).texts) for name in columns}
    most = max(counts.values(), default=0)
    kept = [name for name in columns if plain_name(name) in _OF_BOOKKEEPING and 2 * counts[name] <= most]
    return [name for name in columns if name not in kept] + kept


_NOT_OF_QUOTES = re.compile(
    r"updat|creat|fetch|collect|retriev|scrap|captur|log|sampl|record|receiv|close|end"
)
"""Words of times at which something else happened than what a row is of."""


def _with_time_of_day(columns: list[str], head: Chunk) -> list[str]:
    """Return columns of times with one of date and time before one of the same dates only.

    Candles are of their first time.
    """
    names = {plain_name(name) for name in head.columns}
    if len(columns) < 2 or {"open", "close"} <= names or "date" not in plain_name(columns[0]):
        return columns
    first, *others = columns
    rejections = Rejections(len(head))
    days = instants(head.columns[first], "time", rejections, tz=dt.UTC)
    if not (days == days.floor("D"))[~days.isna()].all():
        return columns
    for column in others:
        stamps = instants(head.columns[column], "time", rejections, tz=dt.UTC)
        is_of_days = bool((stamps.floor("D") == days)[~stamps.isna() & ~days.isna()].all())
        has_clock = bool((stamps != stamps.floor("D"))[~stamps.isna()].any())
        if is_of_days and has_clock and not _NOT_OF_QUOTES.search(plain_name(column)):
            return [column, *(name for name in columns if name != column)]
    return columns


_CANDLE = ("o", "h", "l", "c")


def _take_numbers_of_candles(head: Chunk, plain: Mapping[str, str], by_meaning: dict[str, str]) -> None:
    """Use the ids of candles as their times if they are times, as in HTX's files."""
    is_candle = by_meaning.get("last", "").lower() in _OPENS
    if "time" not in by_meaning and is_candle and "id" in plain and _has_times(head.columns[plain["id"]]):
        by_meaning["time"] = plain["id"]


def _take_short_candles(plain: Mapping[str, str], by_meaning: dict[str, str]) -> None:
    """Use the open of candles whose prices have names of one letter."""
    if "last" not in by_meaning and all(name in plain for name in _CANDLE):
        by_meaning["last"] = plain["o"]
        if "s" in plain:
            by_meaning.setdefault("symbol", plain["s"])


_NEAR_INTERVAL = re.compile(r"interval.*hour|hour.*interval|funding.*(interval|period)", re.I)
_OF_OTHER_INTERVALS = re.compile(r"expected|source|elapsed|until|next|change", re.I)


def _near(head: Chunk, words: re.Pattern[str], other_words: re.Pattern[str]) -> str | None:
    """Return the only column whose name has some words, and no others."""
    near = [name for name in head.columns if words.search(name) and not other_words.search(name)]
    return near[0] if len(near) == 1 else None


_OF_USD = frozenset("oi_usd long_usd short_usd buy_usd sell_usd volume_usd value_usd".split())


def _scaled_amounts(head: Chunk) -> dict[str, str]:
    """Return the columns of amounts in thousands, millions or billions, as their names say."""
    scaled: dict[str, str] = {}
    for name in head.columns:
        rest, scale = scale_in_name(name)
        if scale == 1.0:
            continue
        meaning = meaning_of(rest)
        if meaning is None and rest.endswith(" usd"):
            meaning = meaning_of(rest.removesuffix(" usd"))
            if meaning == "oi_coins":
                meaning = "oi_usd"
        if meaning in _OF_USD or meaning == "oi_coins":
            scaled.setdefault(meaning, name)
    return scaled


def _near_rate(head: Chunk) -> str | None:
    """Return the only column whose name has the words of a funding rate.

    Of several that are one rate in the units that their names state, it is that of the shortest period.
    """
    near = [name for name in head.columns if _NEAR_RATE.search(name) and not _NOT_A_RATE.search(name)]
    if len(near) > 1 and _are_one_rate(near, head):
        return min(near, key=lambda name: _HOURS[_scale_and_period(name)[1]])
    return near[0] if len(near) == 1 else None


def _are_one_rate(names: list[str], head: Chunk) -> bool:
    """Return whether columns have the same rates in the units that their names state."""
    stated = [_rates_per_hour(head, name) for name in names]
    rates = [values for values in stated if values is not None]
    first = rates[0] if rates else np.empty(0)
    return len(rates) == len(names) and all(
        np.allclose(first, other, rtol=1e-3, atol=1e-9, equal_nan=True) for other in rates
    )


def _rates_per_hour(head: Chunk, name: str) -> Array | None:
    """Return rates as fractions of an hour if their name states the scale and period, else None."""
    scale, period = _scale_and_period(name)
    if not scale or not period:
        return None
    per = 1e4 if scale == "bps" else 100.0
    rates = numbers(head.columns[name], name, Rejections(len(head)), suffix="%")
    return np.asarray(rates / per / _HOURS[period])


def _near_interest(head: Chunk) -> dict[str, str]:
    """Return the one column whose name has the words of open interest, in USD where it says so."""
    near = [name for name in head.columns if _NEAR_INTEREST.search(name) and not _NOT_INTEREST.search(name)]
    meanings = ["oi_usd" if _IN_USD.search(name) else "oi_coins" for name in near]
    if len(near) != 1 or not _can_be(meanings[0], head.columns[near[0]]):
        return {}
    return {meanings[0]: near[0]}


def _near_time(head: Chunk) -> str | None:
    """Return the only column of timestamps, or else of times whose name has the word time.

    Of several that have the same instants, in other formats and zones, it is one in UTC.
    """
    near = [name for name, values in head.columns.items() if pa.types.is_timestamp(values.type)]
    if len(near) > 1:
        near = [name for name in near if not _OTHER_TIME.search(name)]
    if not near:
        named = [name for name in head.columns if _NEAR_TIME.search(name) and not _OTHER_TIME.search(name)]
        near = [name for name in named if _has_times(head.columns[name])]
        near = [name for name in near if not _are_of_listings(name, head.columns[name])]
    if not near:
        near = _times_of_receipt(head)
    if len(near) > 1 and _are_equal_times(near, head):
        return next((name for name in near if "utc" in plain_name(name)), near[0])
    return near[0] if len(near) == 1 else None


def _times_of_receipt(head: Chunk) -> list[str]:
    """Return the columns of times at which a collector had its rows, for files without another time."""
    named = [name for name in head.columns if OF_RECEIPT.search(name) and _NEAR_TIME.search(name)]
    return [name for name in named if _has_times(head.columns[name])]


def _are_equal_times(names: list[str], head: Chunk) -> bool:
    """Return whether columns of times have the same instants; a name may state the zone."""
    stamps = []
    for name in names:
        try:
            tz = zone(zone_in_name(name) or "UTC")
        except ValueError:
            return False
        stamps.append(instants(head.columns[name], "time", Rejections(len(head)), tz=tz).floor("s"))
    return all(stamps[0].equals(other) for other in stamps[1:])


_LONGEST_SNAPSHOT = pd.Timedelta(1, "h")


def _are_of_listings(name: str, values: pa.ChunkedArray) -> bool:
    """Return whether times are listing times of contracts, not times of quotes.

    Deribit's ``creation_timestamp`` is the former in lists of instruments, and the latter in summaries of
    books.
    """
    if not plain_name(name).startswith("creation"):
        return False
    stamps = instants(values, "time", Rejections(len(values)), tz=dt.UTC)
    return bool(stamps.max() - stamps.min() > _LONGEST_SNAPSHOT)


def _has_times(values: pa.ChunkedArray) -> bool:
    """Return whether all values of a column are times."""
    return _share_of_times(values) == 1.0


_MOST_TIMES = 0.5
"""Share of the values of a column of times that are times; the last line of a file may be a remark."""


def _share_of_times(values: pa.ChunkedArray) -> float:
    """Return the share of times among the non-missing values of a column."""
    rejections = Rejections(len(values))
    is_time = ~instants(values, "time", rejections, tz=dt.UTC).isna()
    count = int(is_time.sum()) + int(rejections.bad.sum())
    return int(is_time.sum()) / count if count else 0.0


_NEAR_RATE = re.compile(
    r"funding.*(rate|bps|(?<![a-z])bp(?![a-z])|pct|percent|apr|apy|annual|8h|1h)|(rate|bps|apr).*funding",
    re.I,
)
_NEAR_INTEREST = re.compile(r"open[ _]?interest|(?<![a-z])oi(?![a-z])", re.I)
_NOT_INTEREST = re.compile(
    r"change|delta|diff|pct|percent|%|ratio|z.?score|std|rank|count|lag|prev|ema|sma|ma\d|roc|high|low|close|"
    r"(?<![a-z])(k|m|mm|mn|mln|bn|thousands?|millions?|billions?)(?![a-z])|interval|time|date|all|total|sum",
    re.I,
)
"""Words of columns that are not open interest, or in thousands or of all venues."""
_NEAR_TIME = re.compile(r"time|date|(?<![a-z])ts(?![a-z])|_(ms|us|ns)$", re.I)
_OTHER_TIME = re.compile(
    r"expir|matur|deliver|next|first|settle|listing|launch|onboard|ingest|receiv|recv|local|arriv", re.I
)
"""Words of times that are not those of a row, or those at which a collector had it."""
_NOT_A_RATE = re.compile(
    r"total|count|updates|time|interval|sum|cumul|pred|theor|expected|next|estimat|forecast|indicative|prev|lag|"
    r"change|delta|diff|spread|z.?score|std",
    re.I,
)
_WORDS = ("symbol", "instrument_name", "exchange", "side")
_AMOUNTS = ("oi_usd", "oi_coins", "underlying_price", "price_usd", "mark", "index", "last")


def _can_be(meaning: str, values: pa.ChunkedArray) -> bool:
    """Return whether values may be of a meaning: names are text, amounts numbers that are not all missing.

    Open interest is not 0 in all rows either: feeds of backtrader fill their column of it with zeros.
    """
    if meaning == "rate":
        return values.null_count < len(values) or not len(values)
    if meaning not in (*_WORDS, *_AMOUNTS):
        return True
    rejections = Rejections(len(values))
    sizes = numbers(values, meaning, rejections, suffix="%")
    is_text = bool(rejections.bad.any())
    if meaning in _WORDS:
        return is_text or meaning not in ("symbol", "side") or not np.isfinite(sizes).any()
    finite = sizes[np.isfinite(sizes)]
    has_amounts = (finite != 0).any() if meaning in ("oi_usd", "oi_coins") else finite.size
    return not is_text and bool(has_amounts)


QUANTITIES = frozenset({"rate", "oi_usd", "oi_coins", "price_usd", "mark", "index", "last", "iv"})
_QUANTITY_OF_TABLE = {
    "oi_exchange_totals": "total_oi_usd",
    "volume_exchange_totals": "total_volume_usd",
    "volume_history": "volume_usd",
    "funding_settlements": "rate",
    "funding_history": "rate",
    "oi_history": "oi_coins",
    "prices_history": "price_usd",
    "volatility_index_published": "index_pct",
}
_QUANTITY_OF_NAME = (
    (re.compile(r"funding", re.I), "rate"),
    (
        re.compile(r"(open.?interest|(?<![a-z])oi(?![a-z])).*(usd(?![tc])|dollar|notional|value)", re.I),
        "oi_usd",
    ),
    (re.compile(r"open.?interest|(?<![a-z])oi(?![a-z])", re.I), "oi_coins"),
    (re.compile(r"dvol|volatility.?index", re.I), "index_pct"),
    (re.compile(r"mark.?price|(?<![a-z])mark(?![a-z])", re.I), "mark"),
    (re.compile(r"(?<![a-z])index(?![a-z])", re.I), "index"),
    (re.compile(r"price|(?<![a-z])close", re.I), "last"),
)
"""Words in the file name that identify its only column of numbers."""


def quantity_of(source: Source, table: str | None) -> str | None:
    """Return the quantity of a column named ``value``, by the table or the file name."""
    if table is not None:
        return _QUANTITY_OF_TABLE.get(table)
    name = source.name.rsplit("/", 1)[-1]
    return next((quantity for pattern, quantity in _QUANTITY_OF_NAME if pattern.search(name)), None)


def _quantity_in_rows(source: Source, head: Chunk) -> str | None:
    """Return the quantity of a table with a metric in each row; raise for several metrics."""
    for column, values in head.columns.items():
        if plain_name(column) not in METRIC_NAMES:
            continue
        words = encoded(values).texts
        if len(words) > 1:
            raise ArchiveError(
                f"{source}: its column {column!r} names {len(words)} quantities ({', '.join(words[:5])}), "
                "whose values are in one column: write a file for each of them, or a column for each"
            )
        meaning = meaning_of(words[0]) if words else None
        if meaning in QUANTITIES:
            return meaning
    return None


def column_of_words(head: Chunk, words: frozenset[str]) -> str:
    """Return the column that has some words only; empty without one."""
    for column, values in head.columns.items():
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            texts = {text.lower() for text in encoded(values).texts}
            if texts and texts <= words:
                return column
    return ""


_SCALE = re.compile(r"pct|percentage|percent|bps?(?=8h|1h|h|$)|bps")
_PERIODS = (
    (re.compile(r"(apr|apy|annual(ized|ised)?|peryear|yearly)$|^(annual(ized|ised)?|yearly)"), "year"),
    (re.compile(r"(daily|perday|1d|24h)$|^daily"), "day"),
    (re.compile(r"8h$"), "8h"),
    (re.compile(r"(1h|hourly|perhour)$|^hourly"), "hour"),
)
"""Prefixes and suffixes of a rate's name with its period."""
_HOURS = {"year": 8_760.0, "day": 24.0, "8h": 8.0, "hour": 1.0}
_MOST_PER_YEAR = (0.5, 1.5)
"""Rates of a year from which few, or many, may be percent; fractions above are rare."""
_FLOORS = (0.0001, 0.0000125, 0.00005, 0.000025, 0.0003)
"""Rates of quiet times, as fractions of 8, 1, 4, 2 and 24 hours (interest of 0.03 % a day)."""
_LEAST = 10
_MOST_AT_FLOOR = 0.2
"""Share of rates at the floors of fractions above which a name that says percent needs a second sign."""


def _sizes(head: Chunk, column: str) -> Array:
    values = np.abs(numbers(head.columns[column], column, Rejections(len(head)), suffix="%"))
    return values[np.isfinite(values) & (values > 0)]


def unit_of_rates(source: Source, head: Chunk, column: str) -> str:
    """Return the unit of rates that their name, their cells or their size state."""
    values = head.columns[column]
    has_name = plain_name(column) not in ("value", *_OPENS, *_CLOSES)
    name = column if has_name else source.name.rsplit("/", 1)[-1].split(".")[0]
    scale, period = _scale_and_period(name)
    if pa.types.is_string(values.type) and any("%" in text for text in encoded(values).texts):
        scale = "percent"
    sizes = _sizes(head, column)
    unit = _stated_unit(scale, period) if scale else _sized_unit(sizes, period)
    at_floor = bool(sizes.size) and float(np.mean(np.isin(np.round(sizes, 9), _FLOORS)))
    if scale == "percent" and not period and "%" in column and at_floor > _MOST_AT_FLOOR:
        unit = None  # the name says percent, and the sizes are those of fractions
    if unit is not None:
        return unit
    median = float(np.median(sizes)) if sizes.size else 0.0
    raise Unclear(
        f"{source}: the unit of {column} is not clear, its median is {median:.4g}: state it with --unit: "
        "native (a fraction of the interval), percent, bps, bps_8h, per_8h, per_year, percent_year",
        "--unit",
        ["native", "percent", "bps", "bps_8h", "per_8h", "per_day", "per_year", "percent_year"],
    )


def _scale_and_period(name: str) -> tuple[str, str]:
    """Return ``percent`` or ``bps``, and the period, from a name; each is empty if missing."""
    word = plain_name(name.replace("%", "pct"))
    stated = _SCALE.search(word)
    scale = "" if stated is None else "bps" if stated[0].startswith("bp") else "percent"
    base = _SCALE.sub("", word)
    return scale, next((period for pattern, period in _PERIODS if pattern.search(base)), "")


def _stated_unit(scale: str, period: str) -> str | None:
    """Return the unit of a scale and a period; None for bps of a period other than 8 hours."""
    if scale == "bps":
        return {"": "bps", "8h": "bps_8h"}.get(period)
    return f"percent_{period}" if period else "percent"


def _sized_unit(sizes: Array, period: str) -> str | None:
    """Return whether rates of a period are fractions or percent, by their size."""
    if not period:
        return _unit_by_size(sizes, float(np.median(sizes)) if sizes.size else 0.0)
    unit = _sized_unit(sizes * 8 / _HOURS[period], "")
    is_large = period == "year" and sizes.max(initial=0.0) > _MOST_PER_YEAR[sizes.size >= _LEAST]
    if unit == "native" and is_large:
        return None
    return {"native": f"per_{period}", "percent": f"percent_{period}"}.get(unit or "")


def _unit_by_size(sizes: Array, median: float) -> str | None:
    """Return whether rates are fractions or percent of their interval, by their size and their floors."""
    at_floor = bool(sizes.size) and float(np.mean(np.isin(np.round(sizes, 9), _FLOORS))) > 0.02
    is_small = sizes.size < _LEAST or sizes.max(initial=0.0) < 0.03
    if 1e-7 < median < 0.0015 and (at_floor or is_small):
        return "native"
    if at_floor and median < 0.005:
        return "native"
    if sizes.size >= _LEAST and np.mean(np.isclose(sizes, 0.01, rtol=1e-9)) > 0.05 and median < 0.05:
        return "percent"
    return None


_IN_USD = re.compile(
    r"(interest|(?<![a-z])(oi|in|value|notional|history))[-_ (\[]*usd(?![a-z])|^usd(?![a-z])|notional|"
    r"dollars?(?![a-z])",
    re.I,
)
"""``oi_usd``, ``Open Interest (USD)``; the USD of a market's name, ``BTC-USD``, is not a unit."""


_NAMES_OF_UNITS = frozenset("unit units oiunit openinterestunit rateunit fundingunit".split())
_WORDS_OF_UNITS = {
    "usd": "usd", "usdt": "usd", "$": "usd", "usdvalue": "usd",
    "coin": "coins", "coins": "coins", "base": "coins", "token": "coins",
    "contract": "contracts", "contracts": "contracts", "cont": "contracts", "lots": "contracts",
    "percent": "percent", "pct": "percent", "%": "percent", "bps": "bps",
    "fraction": "native", "decimal": "native",
}  # fmt: skip
"""What words of a column of units say, of open interest and of rates."""


def unit_in_rows(source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str]) -> str | None:
    """Return the unit that a column states for all rows; raise for several units.

    The name of a coin is the unit of its own open interest.
    """
    units = units_of(archive_table(table))
    for column, values in head.columns.items():
        if plain_name(column) not in _NAMES_OF_UNITS:
            continue
        symbol = by_meaning.get("symbol")
        texts = [] if symbol is None else encoded(head.columns[symbol]).texts
        coins = {market_of(text).symbol for text in texts}
        words = encoded(values).texts
        stated = {"coins" if word in coins else _WORDS_OF_UNITS.get(word.lower(), "") for word in words}
        if len(stated) > 1 or (stated and stated <= {""}):
            raise ArchiveError(
                f"{source}: its column {column} has units ({', '.join(words[:4])}) that are not all read: "
                "write a file for the rows of each unit"
            )
        return next((unit for unit in stated if unit in units), None)
    return None


def unit_of_interest(source: Source, column: str) -> str:
    """Return USD if the file name has it, else raise a question."""
    if _IN_USD.search(source.name.rsplit("/", 1)[-1]) is not None:
        return "usd"
    raise Unclear(
        f"{source}: {column} may be in USD, coins or contracts: state it with --unit usd, "
        "--unit coins, or --unit contracts and --set contract_size=COINS",
        "--unit",
        ["usd", "coins", "contracts"],
    )


def unit_of_volatility(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> str | None:
    """Return whether volatilities are percent, by their median: no market is at 300 %, or at 3 %."""
    if "iv" not in by_meaning:
        return None
    sizes = _sizes(head, by_meaning["iv"])
    if not sizes.size:
        return None
    median = float(np.median(sizes))
    if median > 8.0:
        return "percent"
    if median < 3.0:
        return "decimal"
    raise Unclear(
        f"{source}: {by_meaning['iv']} has the median {median:.4g}, which may be decimal or percent: pass "
        "--unit decimal or --unit percent",
        "--unit",
        ["decimal", "percent"],
    )


def guessed_plans(
    source: Source, head: Chunk, table: str | None, given: Given
) -> tuple[list[ImportPlan], tuple[str, ...]]:
    """Return the plans for a file with the library's column names, or unambiguous names, and notices.

    Of several tables that a file fills, those are read whose units and words its columns state; a notice
    has the question about each of the others.
    """
    exact = own_table(source, head, table, given)
    if exact is not None and table is None and _has_rows_of_others(head, exact):
        exact = None
    if exact is not None and not (given.unit and "filled_quantity" in archive_table(exact).columns):
        return [make_plan(exact, given)], ()
    by_meaning = columns_by_meaning(head)
    _take_stated(given, head, by_meaning)
    _drop_other_steps(source, head, by_meaning, given)
    _take_value(source, head, table, by_meaning)
    _take_candles(source, table, by_meaning)
    _take_curve(head, by_meaning)
    if table is None:
        refuse_remaining_orders(source, head)
    try:
        return _plans_of(source, head, table, by_meaning, given)
    except Unclear:
        # The venue and the symbol decide many questions of tables and units.
        if {"rate", "oi_usd", "oi_coins"} & by_meaning.keys():
            _refuse_no_market(source, head, by_meaning, given)
        raise


def _plans_of(
    source: Source, head: Chunk, table: str | None, by_meaning: Mapping[str, str], given: Given
) -> tuple[list[ImportPlan], tuple[str, ...]]:
    """Return the plans of one table, or of those that the columns fill, and notices."""
    tables = guessed_tables(source, head, by_meaning, given) if table is None else [table]
    has_prices = table is None and tables[0] in _WITH_PRICES and {"mark", "index"} & by_meaning.keys()
    if len(tables) == 1 and not has_prices and not _has_prices_in_rows(head, tables[0], by_meaning):
        plan = _plan(source, head, tables[0], by_meaning, given)
        return [plan], _notice_of_sides(plan, head, given)
    return _plans_of_several(source, head, tables, by_meaning, given)


def _has_rows_of_others(head: Chunk, table: str) -> bool:
    """Return whether some rows have no figure of a table, and have one of another table."""
    by_meaning = columns_by_meaning(head)
    own = value_columns(table, by_meaning)
    others = figures_of_all(by_meaning) - own
    return bool(own) and is_sparse(head, Sparse(frozenset(own), frozenset(others)))


def _both_sides(given: Given, head: Chunk) -> list[str]:
    """Return the venues of a file whose column of open interest counts both sides of each contract."""
    name = plain_name(_last_part(given.map.get("oi_usd", "")))
    columns = {plain_name(_last_part(column)) for column in head.columns}
    venues = []
    for venue in sorted(set(map(venue_of_word, _words_of("exchange", head, given)))):
        fields, neighbours = _FIELDS_OF_BOTH_SIDES.get(venue, ((), ()))
        if name in fields and (not neighbours or not columns.isdisjoint(neighbours)):
            venues.append(venue)
    return venues


_OF_STEPS = frozenset({"interval", "intervall", "intervalo", "intervalle", "intervallo"})
"""Names of columns that are the step of rows as well as the interval of payments."""


def _drop_other_steps(source: Source, head: Chunk, by_meaning: dict[str, str], given: Given) -> None:
    """Drop a column ``interval`` that contradicts that of the contracts: it is a vendor's step of rows."""
    column = by_meaning.get("interval_hours", "")
    if plain_name(column) not in _OF_STEPS or "interval_hours" in given.map:
        return
    venues = {venue_of_word(word) for word in words_in(source, "exchange", head, by_meaning, given)}
    symbols = {market_of(word).symbol for word in words_in(source, "symbol", head, by_meaning, given)}
    hours = {known_interval(venue, symbol) for venue, symbol in itertools.product(venues, symbols)}
    stated = interval_hours(head.columns[column], Rejections(len(head)))
    stated = np.unique(stated[np.isfinite(stated)])
    if len(hours) == 1 and None not in hours and stated.size == 1 and stated[0] not in hours:
        del by_meaning["interval_hours"]


def _refuse_no_market(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> None:
    """Ask for the venue, and for the symbol with it, if a file has neither."""
    known = {*by_meaning, *given.set, *given.map, *names_in_path(source.name)}
    if "exchange" in known:
        return
    symbol = by_meaning.get("symbol") or by_meaning.get("instrument_name")
    if symbol is None and "symbol" not in known:
        raise ArchiveError(
            f"{source}: symbol is not in the file, nor is exchange: state both with --market VENUE:SYMBOL, "
            "such as --market binance:BTC, or name their columns with --map symbol=COLUMN and --map "
            f"exchange=COLUMN; the file has {', '.join(head.columns)[:300]}"
        )
    texts = [] if symbol is None else encoded(head.columns[symbol]).texts
    if not any(market_of(text).venue for text in texts):
        raise ArchiveError(
            f"{source}: exchange is not in the file: name the column with --map exchange=COLUMN, or state "
            f"one value for all rows with --set exchange=VALUE; the file has {', '.join(head.columns)[:300]}"
        )


def _last_part(column: str) -> str:
    """Return the name of a field without those of the objects around it, ``data.openInterestValue``."""
    return column.rsplit(".", 1)[-1]


def _notice_of_contracts(plan: ImportPlan, head: Chunk, given: Given) -> tuple[str, ...]:
    """Return the notice that sizes of a book are read as contracts of a known size."""
    own = given._replace(map=plan.sources, set=plan.constants)
    pairs = itertools.product(_words_of("exchange", head, own), _words_of("symbol", head, own))
    for word, name in pairs:
        amount = book_amount(venue_of_word(word), name)
        if amount is not None and (amount.is_usd or amount.size != 1.0):
            unit = "USD" if amount.is_usd else "coins"
            return (
                f"sizes of {name} on {word} are contracts of {amount.size:g} {unit}, and are stored in coins",
            )
    return ()


def _notice_of_sides(plan: ImportPlan, head: Chunk, given: Given) -> tuple[str, ...]:
    """Return the notice that open interest of a venue is halved, or that sizes of a book are converted."""
    if plan.table.name == "orderbook_book":
        return _notice_of_contracts(plan, head, given)
    if plan.table.name != "oi_history":
        return ()
    own = given._replace(map=plan.sources, set=plan.constants)
    venues = _both_sides(own, head)
    if not venues:
        named = sorted(set(map(venue_of_word, _words_of("exchange", head, own))) & {*_FIELDS_OF_BOTH_SIDES})
        column = plan.sources.get("oi_usd", "oi_usd")
        if not named or column == "oi_usd" or plain_name(column).startswith("single"):
            return ()  # Bybit's singleOpenInterest counts one side (v5, 2026)
        return (
            f"{', '.join(named)} states the open interest of both sides of each contract, and "
            f"{plan.sources['oi_usd']} is stored as it is: halve it first if it is the venue's own figure",
        )
    return (
        f"{plan.sources['oi_usd']} of {', '.join(venues)} counts both sides of each contract, and is halved: "
        "pass oi_usd in a column of that name if it is of one side already",
    )


def _take_value(source: Source, head: Chunk, table: str | None, by_meaning: dict[str, str]) -> None:
    """Take a column named ``value`` as the quantity that rows, the table or the file name state."""
    if by_meaning.get("value") == by_meaning.get("time"):
        by_meaning.pop("value", None)  # data is Italian for date
    if "value" in by_meaning and not QUANTITIES & by_meaning.keys():
        quantity = _quantity_in_rows(source, head) or quantity_of(source, table)
        if quantity is not None:
            by_meaning[quantity] = by_meaning["value"]


_QUANTITY_OF_CANDLES = {
    "funding_history": "rate",
    "oi_history": "oi_coins",
    "volatility_index_published": "index_pct",
}
"""What the open of a candle is, if the caller says the table."""


def _take_candles(source: Source, table: str | None, by_meaning: dict[str, str]) -> None:
    """Take the open of candles as the quantity of the table, or of Deribit's index by the file name."""
    quantity = _QUANTITY_OF_CANDLES.get(table or "")
    if table is None and _DVOL.search(source.name.rsplit("/", 1)[-1]):
        quantity = "index_pct"
    has_own = quantity in by_meaning or (quantity == "oi_coins" and "oi_usd" in by_meaning)
    is_candle = plain_name(by_meaning.get("last", "")) in (*_OPENS, *_CLOSES)
    if quantity is not None and is_candle and not has_own:
        by_meaning[quantity] = by_meaning.pop("last")


_AT_THE_MONEY = frozenset("atmiv atmvol atmvolatility ivatm atmimpliedvolatility atmimpliedvol".split())


def _take_curve(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Take the volatility at the money of each expiry, whose strike is the forward next to it."""
    columns = [name for name in head.columns if plain_name(name) in _AT_THE_MONEY]
    has_forward = {"expiry", "underlying_price"} <= by_meaning.keys()
    if len(columns) == 1 and has_forward and not {"iv", "strike"} & by_meaning.keys():
        by_meaning["iv"] = columns[0]
        by_meaning["strike"] = by_meaning["underlying_price"]


def _plans_of_several(
    source: Source, head: Chunk, tables: list[str], by_meaning: Mapping[str, str], given: Given
) -> tuple[list[ImportPlan], tuple[str, ...]]:
    """Return the plans for those of several tables about which there is no question, and the questions."""
    plans: list[ImportPlan] = []
    notices: list[str] = []
    wanted = [(name, by_meaning) for name in tables if name != "prices_history"]
    wanted += _prices_by_kind(by_meaning)
    figures: set[str] = set()
    for name, meanings in wanted:
        figures |= value_columns(name, meanings)
    for name, meanings in wanted:
        own = value_columns(name, meanings)
        sparse = Sparse(frozenset(own), frozenset(figures - own))
        rows = rows_with(head, own) if is_sparse(head, sparse) else head
        try:
            plan = _plan(source, rows, name, meanings, _given_of(name, tables, given))
            _refuse_lacking(plan, rows)
            _refuse_no_price(plan, rows)
            if rows is not head:
                plan = plan._replace(sparse=sparse)
            plans.append(plan)
            notices += _notice_of_sides(plan, head, given)
        except ArchiveError as question:
            if [name] == tables:
                raise
            why = str(question).removeprefix(f"{source}: ")
            notices.append(f"not imported as {name} (--table {name}): {why}")
    if any(plan.table.name in tables for plan in plans):
        return plans, tuple(notices)
    raise Unclear(
        f"{source}: its columns fill {' and '.join(tables)}: select one with "
        f"{' or '.join(f'--table {name}' for name in tables)}",
        "--table",
        tables,
    )


_PRICES = ("mark", "index", "last", "price_usd")


def _prices_by_kind(by_meaning: Mapping[str, str]) -> list[tuple[str, Mapping[str, str]]]:
    """Return the table of prices with the columns of each kind of price next to other tables."""
    wanted: list[tuple[str, Mapping[str, str]]] = []
    for kind in ("mark", "index", "last"):
        column = by_meaning.get(kind)
        # A close is known at the end of its bar.
        if column is not None and plain_name(column) not in _CLOSES:
            others = {name: used for name, used in by_meaning.items() if name == kind or name not in _PRICES}
            wanted.append(("prices_history", others))
    return wanted


_WITH_PRICES = ("funding_settlements", "funding_history")
"""Tables whose rows have the prices next to them at the same time."""


def _has_prices_in_rows(head: Chunk, table: str, by_meaning: Mapping[str, str]) -> bool:
    """Return whether each row has the price of one kind, of several kinds."""
    kinds = [by_meaning[kind] for kind in ("mark", "index", "last") if kind in by_meaning]
    if table != "prices_history" or len(kinds) < 2:
        return False
    return is_sparse(head, Sparse(frozenset(kinds[:1]), frozenset(kinds[1:])))


def _given_of(table: str, tables: list[str], given: Given) -> Given:
    """Return the options that are of one of the tables of a file: its columns, and its units."""
    own = archive_table(table)
    foreign = {name for other in tables for name in archive_table(other).columns} - {*own.columns}
    foreign |= {"interval_hours", "contract_size", "price_usd"} - {*own.columns}
    if "rate_bps_8h" in own.columns:
        foreign.discard("interval_hours")
    if table == "oi_history":
        foreign -= {"contract_size", "price_usd"}
    return given._replace(
        map={name: column for name, column in given.map.items() if name not in foreign},
        set={name: word for name, word in given.set.items() if name not in foreign},
        values={name: words for name, words in given.values.items() if name not in foreign},
        unit=given.unit if given.unit in units_of(own) else None,
    )


def _refuse_no_price(plan: ImportPlan, head: Chunk) -> None:
    """Raise for amounts in coins without a price, so that the other tables of the file are imported."""
    if plan.unit in IN_COINS and plan.raw("price_usd", head) is None:
        raise ArchiveError(
            f"{plan.sources['oi_usd']} is in {plan.unit}, and no column is its price: import prices_history, "
            "and then this table"
        )


def _refuse_lacking(plan: ImportPlan, head: Chunk) -> None:
    """Raise for a table of which a file lacks a column, other than the names of the market."""
    for name in plan.table.columns:
        if name not in ("symbol", "exchange") and plan.required(name) and plan.raw(name, head) is None:
            plan.refuse_missing([name], head)


_QUANTITY_OF_COLUMN = {"rate_bps_8h": "rate", "price_usd": "last"} | {
    name: name
    for name in (
        "oi_usd long_share short_share long_short_ratio buy_usd sell_usd long_usd short_usd index_pct "
        "volume_usd iv"
    ).split()
}
"""What the columns of tables are, for those that say which table they are of."""


def _take_stated(given: Given, head: Chunk, by_meaning: dict[str, str]) -> None:
    """Take the columns that the caller names; a quantity comes in place of the others of a file."""
    stated = {
        _QUANTITY_OF_COLUMN[name]: column
        for name, column in given.map.items()
        if name in _QUANTITY_OF_COLUMN and column in head.columns
    }
    if stated:
        for meaning in {*_QUANTITY_OF_COLUMN.values(), *QUANTITIES} - {*stated}:
            by_meaning.pop(meaning, None)
        by_meaning.update(stated)
    by_meaning |= {
        name: column
        for name, column in given.map.items()
        if name in (*_WORDS, "time", "interval_hours") and column in head.columns
    }


def _plan(source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan of a table."""
    if table == "options_trades":
        return _plan_of_trades(source, head, by_meaning, given)
    if table == "futures_history":
        return _plan_of_futures(source, head, by_meaning, given)
    if table in _TOTALS_OF and _TOTALS_OF[table] not in {*given.map, *given.set, *head.columns}:
        given = given._replace(map={**_total_of(table, head), **given.map})
    return _plan_by_names(source, head, table, by_meaning, given)


def _plan_by_names(
    source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given
) -> ImportPlan:
    """Return a plan with each column by its name, and units from names or sizes."""
    whole = _named_columns(source, head, table, by_meaning, given)
    if table == "orderbook_book":
        return _plan_of_book(by_meaning, whole, head)
    amounts = AmountPlan(whole)
    if "filled_quantity" in archive_table(table).columns:
        amounts = amount_plan(source, head, _with_words_of_sides(head, whole), given)
        whole = amounts.given
    if table == "oi_history":
        refuse_other_sizes(source, head, whole)
        amounts = _interest_of_inverse(source, head, by_meaning, whole, given)
        whole = amounts.given
    whole = _with_interval(source, head, whole, table)
    _refuse_repeated_times(source, head, table, whole)
    if "strike" in archive_table(table).columns:
        _refuse_quotes_in_rows(source, head, whole)
    has_interval = "interval_hours" in {*whole.map, *whole.set, *head.columns}
    is_spaced = table == "funding_settlements" and not has_interval
    adjust = amounts.adjust or _adjustment(table, whole, head)
    plan = make_plan(table, whole, adjust=adjust, is_spaced=is_spaced)
    plan = plan._replace(
        makes=amounts.makes,
        ignored=_of_other_words(table, head, {*given.set, *given.map}) | amounts.ignored,
        scales=_scales(source, whole.map),
    )
    if table == "oi_history":
        _refuse_small_interest(source, head, plan)
    return plan


def _named_columns(
    source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given
) -> Given:
    """Return the options with the columns, constants, words and unit of a file by their names and sizes."""
    columns = archive_table(table).columns
    given = _with_unit_of_rows(source, head, table, by_meaning, given)
    stated = {*given.set, *given.map}
    mapped = _mapped(table, head, by_meaning, given)
    has = {*stated, *head.columns}
    unit = given.unit
    if "rate_bps_8h" in columns and "rate" in by_meaning and "rate_bps_8h" not in has:
        unit = _take_rate(source, head, by_meaning["rate"], mapped, given)
    unit = unit or _unit_of_mapped(source, head, given.map.get("rate_bps_8h", ""))
    if table == "oi_history":
        unit = _take_interest(source, head, by_meaning, mapped, given) or unit
    fixed: dict[str, str] = {}
    words: dict[str, Mapping[str, str]] = {}
    if table == "prices_history":
        fixed = _take_kind_of_price(source, head, by_meaning, mapped, given)
    elif table == "positioning_history" and "kind" not in has:
        fixed = _take_kind_of_ratio(source, head, by_meaning, mapped, words)
    if "fill_price_usd" in columns:
        _take_price_of_fills(by_meaning, mapped, has)
    extra: dict[str, Kind] = {}
    if "strike" in columns:
        _options(head, by_meaning, mapped)
        unit = unit or unit_of_volatility(source, head, by_meaning)
        extra = _take_quotes(by_meaning, mapped, has)
    if "side" in columns and "side" not in stated:
        words |= _take_sides(head, table, mapped)
    return given._replace(
        map={**mapped, **given.map},
        extra=extra,
        set={**_path_words(source, head, mapped, columns, stated), **fixed, **given.set},
        values={**words, **given.values},
        unit=unit,
    )


def _with_unit_of_rows(
    source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given
) -> Given:
    """Add the unit that a column states; raise if the caller states another one."""
    if table != "oi_history" and "rate_bps_8h" not in archive_table(table).columns:
        return given
    unit = unit_in_rows(source, head, table, by_meaning)
    if unit is None or given.unit == unit:
        return given
    if given.unit is not None:
        raise ArchiveError(
            f"{source}: --unit {given.unit} contradicts its column of units, which says {unit}"
        )
    return given._replace(unit=unit)


def _with_words_of_sides(head: Chunk, given: Given) -> Given:
    """Add the meaning of the words of orders on venues that state it."""
    sides = words_of_sides(head, given) or _both_words(head, given)
    return given._replace(values={**given.values, "side": sides}) if sides else given


def _both_words(head: Chunk, given: Given) -> dict[str, str]:
    """Return both words of a column of sides of which the caller says one."""
    stated = given.values.get("side", {})
    column = given.map.get("side", "side")
    if len(stated) != 1 or column not in head.columns:
        return {}
    [(word, side)] = stated.items()
    others = {text.lower() for text in encoded(head.columns[column]).texts} - {word.lower()}
    if len(others) != 1:
        return {}
    opposite = "short" if side == "long" else "long"
    return {word: side, others.pop(): opposite}


def _scales(source: Source, mapped: Mapping[str, str]) -> dict[str, float]:
    """Return what 1 is in the columns of amounts whose names say it; raise for a word that may say it."""
    scales: dict[str, float] = {}
    for name, column in mapped.items():
        if name not in _OF_USD:
            continue
        word = unread_scale(column)
        if word:
            raise ArchiveError(
                f"{source}: its column {column!r} may be in a multiple of USD, as it has the word {word!r}: "
                f"multiply it first, and name it {name}"
            )
        scale = scale_in_name(column)[1]
        if scale != 1.0:
            scales[name] = scale
    return scales


_LEAST_INTEREST = 1e6
"""Open interest of BTC or ETH on a large venue [USD], which was always higher since 2020."""
_LARGE_VENUES = frozenset("binance bybit okx bitget gateio deribit hyperliquid".split())


def _refuse_small_interest(source: Source, head: Chunk, plan: ImportPlan) -> None:
    """Raise for open interest of BTC or ETH in USD that is too small for a large venue, also where stated."""
    column = plan.source_of("oi_usd", head.columns)
    if column in (None, "oi_usd") or plan.unit in IN_COINS or "unit" in plan.accept:
        return
    names = [_name_of_all(head, plan, name) for name in ("symbol", "exchange")]
    if market_of(names[0]).symbol not in _LEADERS or venue_of_word(names[1]) not in _LARGE_VENUES:
        return
    sizes = numbers(head.columns[column], "oi_usd", Rejections(len(head))) * plan.scales.get("oi_usd", 1.0)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if sizes.size and float(np.median(sizes)) < _LEAST_INTEREST:
        raise Unclear(
            f"{source}: the median of {column} is {float(np.median(sizes)):,.6g} USD, and {names[0]} on "
            f"{names[1]} has always had more than a million: pass --unit coins or --unit contracts if it is "
            "one of these, multiply it if it is in millions, or pass --accept unit",
            "--unit",
            ["coins", "contracts"],
        )


def _name_of_all(head: Chunk, plan: ImportPlan, name: str) -> str:
    """Return the symbol or the venue of all rows; empty where rows have several."""
    if name in plan.constants:
        return plan.constants[name]
    column = plan.source_of(name, head.columns)
    texts = [] if column is None else encoded(head.columns[column]).texts
    return texts[0] if len(texts) == 1 else ""


def _adjustment(table: str, given: Given, head: Chunk) -> Adjust | None:
    """Return the function for rows whose quotes or open interest are in a venue's own unit."""
    if table == "delivery_prices":
        return at_delivery
    if table == "oi_history" and (venues := _both_sides(given, head)):
        return partial(one_side, venues=venues)
    return ADJUST["quotes_by_size"] if given.extra else None


def _of_other_words(table: str, head: Chunk, stated: set[str]) -> frozenset[str]:
    """Return the optional columns that the file fills with words which the table does not allow.

    Such a column of the file has the same name by chance, so it is ignored.
    """
    columns = archive_table(table).columns
    other = set()
    for name in archive_table(table).optional & {*head.columns} - stated:
        allowed = columns[name].allowed
        if allowed and not {*encoded(head.columns[name]).texts} <= {*allowed}:
            other.add(name)
    return frozenset(other)


def _unit_of_mapped(source: Source, head: Chunk, column: str) -> str | None:
    """Return the unit that the name of the caller's column of rates states, such as ``apr``."""
    if column not in head.columns or not any(_scale_and_period(column)):
        return None
    return unit_of_rates(source, head, column)


_KEYS_OF_SERIES = ("time", "symbol", "exchange", "kind", "resolution")
_SERIES = frozenset(
    "funding_settlements funding_history oi_history prices_history positioning_history liquidations_history "
    "volume_history volume_taker volatility_index_published".split()
)
_LEAST_DISTINCT = 0.8


def _refuse_repeated_times(source: Source, head: Chunk, table: str, given: Given) -> None:
    """Ask what tells rows apart where most have the time, symbol and venue of another row.

    Their time of day, or their contract, is in a column that was not recognised.
    """
    names = [given.map.get(name, name) for name in _KEYS_OF_SERIES if name not in given.set]
    keys = [encoded(head.columns[name]).codes for name in names if name in head.columns]
    columns = archive_table(table).columns
    values = {given.map.get(name, name) for name in columns if name not in _KEYS_OF_SERIES}
    figures = [encoded(head.columns[name]).codes for name in values if name in head.columns]
    if table not in _SERIES or not keys or not figures or not len(head):
        return
    distinct_keys = len(np.unique(np.column_stack(keys), axis=0))
    distinct_rows = len(np.unique(np.column_stack([*keys, *figures]), axis=0))
    if distinct_keys < _LEAST_DISTINCT * distinct_rows:
        raise Unclear(
            f"{source}: its {distinct_rows:,} different rows have only {distinct_keys:,} different "
            f"combinations of {', '.join(names)}: name the column that distinguishes the others with --map "
            "time=COLUMN or --map symbol=COLUMN, or write one file for each series; the file has "
            f"{', '.join(head.columns)[:300]}",
            "--map",
            [f"time={names[0]}"],
        )


_WORDS_OF_QUOTES = frozenset("bid ask mark last mid trade index best_bid best_ask bids asks".split())
_KEYS_OF_QUOTES = ("time", "symbol", "exchange", "instrument_name", "expiry", "strike", "side")


def _refuse_quotes_in_rows(source: Source, head: Chunk, given: Given) -> None:
    """Raise for options whose bid, ask and mark have a row each, of which one would be stored."""
    column = column_of_words(head, _WORDS_OF_QUOTES)
    words = encoded(head.columns[column]).texts if column else []
    if len(words) < 2 or column in given.map.values():
        return
    columns = {given.map.get(name, name) for name in _KEYS_OF_QUOTES}
    keys = [encoded(head.columns[name]).codes for name in sorted(columns & {*head.columns})]
    distinct_keys = len(np.unique(np.column_stack(keys), axis=0)) if keys else 0
    if distinct_keys < _LEAST_DISTINCT * len(head):
        raise ArchiveError(
            f"{source}: its {len(head):,} first rows have only {distinct_keys:,} different options and "
            f"times, and its column {column} distinguishes rows ({', '.join(words[:5])}): write a file of "
            "rows with one of these words, or one row for each option and time with a column for each word"
        )


_OF_STARTS = re.compile(r"start|begin|from")


def _refuse_two_ends(source: Source, head: Chunk, mapped: Mapping[str, str]) -> None:
    """Ask for the time of rates that have the start and the end of a period: payments are at either."""
    start = mapped.get("time", "")
    ends = [name for name, values in head.columns.items() if _is_end(name) and _has_times(values)]
    if _OF_STARTS.search(plain_name(start)) and len(ends) == 1:
        raise Unclear(
            f"{source}: its rates have the start and the end of their period: pass --map time={ends[0]} if "
            f"each was paid at the end, or --map time={start}",
            "--map",
            [f"time={ends[0]}", f"time={start}"],
        )


_PAYERS = re.compile(r"(longs?|shorts?)( ?pays?( ?(longs?|shorts?))?)?", re.I)
_NOT_OF_PAYERS = re.compile(r"position|pos|strateg|trade|my", re.I)
"""Words of columns with a side of the caller."""


def _refuse_unsigned_rates(source: Source, head: Chunk, column: str) -> None:
    """Raise for rates without a sign next to a column that says who pays, as in Lighter's responses."""
    rates = numbers(head.columns[column], column, Rejections(len(head)), suffix="%")
    if (rates < 0).any():
        return
    for name, values in head.columns.items():
        if not pa.types.is_string(values.type) or _NOT_OF_PAYERS.search(name):
            continue
        words = encoded(values).texts
        is_of_payers = bool(words) and all(_PAYERS.fullmatch(word.replace("_", " ")) for word in words)
        if is_of_payers and any("short" in word.lower() for word in words):
            raise ArchiveError(
                f"{source}: its column {column} has no negative value, and its column {name} states who pays "
                f"({', '.join(words[:3])}): write a rate that is negative where shorts pay longs, or pass "
                f"--map rate_bps_8h={column} and its --unit if that column is something else"
            )


_OF_PREDICTIONS = frozenset("predicted prediction estimated estimate next indicative forecast".split())


def _refuse_predicted_rates(source: Source, head: Chunk) -> None:
    """Raise for rates of which a column says that some are predictions."""
    column = next((name for name in head.columns if _has_predictions(head.columns[name])), None)
    if column is not None:
        texts = encoded(head.columns[column]).texts
        raise ArchiveError(
            f"{source}: its column {column} states the kind of a rate ({', '.join(texts[:5])}): write a "
            "file of the settled rates, without this column"
        )


def _has_predictions(values: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(values.type):
        return False
    texts = encoded(values).texts
    return len(texts) <= _MOST_KINDS and bool(_OF_PREDICTIONS & {text.lower() for text in texts})


_MOST_KINDS = 8


def _is_end(name: str) -> bool:
    return re.search(r"end(?!ing)|until|(?<![a-z])to(?![a-z])", name, re.IGNORECASE) is not None


_AMOUNTS_OF_FILLS = ("quantity", "filled_quantity", "value_usd")


def _mapped(table: str, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> dict[str, str]:
    """Return the file's column for each of the table's names that the caller does not map.

    An amount that the caller maps to one column is not that of another.
    """
    columns = archive_table(table).columns
    allowed = {*columns, "interval_hours"} if "rate_bps_8h" in columns else {*columns}
    stated = {*given.set, *given.map, *head.columns}
    mapped = {name: column for name, column in by_meaning.items() if name in allowed and name not in stated}
    if table == "delivery_prices" and "delivery_price" in by_meaning and "price_usd" not in stated:
        mapped["price_usd"] = by_meaning["delivery_price"]
    spot = by_meaning.get("last") or by_meaning.get("price_usd")
    if table == "prices_spot" and spot is not None and "price" not in stated:
        mapped["price"] = spot
    taken = given.map.values()
    return {n: c for n, c in mapped.items() if n not in _AMOUNTS_OF_FILLS or c not in taken}


def _take_price_of_fills(by_meaning: Mapping[str, str], mapped: dict[str, str], has: set[str]) -> None:
    """Take a price without more words as that of fills, or of orders where fills have their own."""
    name = "order_price_usd" if "fill_price_usd" in mapped else "fill_price_usd"
    if "price_usd" in by_meaning and name not in has:
        mapped[name] = by_meaning["price_usd"]


def _with_interval(source: Source, head: Chunk, given: Given, table: str) -> Given:
    """Add the interval of samples whose unit is per the venue's own, or ask for it.

    It is a fact of the venue, or the time between the next payments that rows state.
    """
    if "rate_bps_8h" not in archive_table(table).columns or given.unit not in _OF_INTERVALS:
        return given
    venues = [venue_of_word(word) for word in _words_of("exchange", head, given)]
    stated = given.set.get("interval_hours")
    hourly = sorted({*venues} & ALWAYS_HOURLY)
    if stated is not None and hourly and stated.strip().lower() not in ("1", "1.0", "1h", "01:00:00"):
        raise ArchiveError(
            f"{source}: interval_hours={stated} is not that of {', '.join(hourly)}, which pays each hour: "
            "omit it, or import the rows of other venues apart"
        )
    has_interval = "interval_hours" in {*given.map, *given.set, *head.columns}
    if table != "funding_history" or has_interval or not venues:
        return given
    symbols = {market_of(word).symbol for word in _words_of("symbol", head, given)}
    hours = {known_interval(venue, symbol) for venue, symbol in itertools.product(venues, symbols)}
    if None not in hours and (hours == {1.0} or not _has_floor_of_hours(head, given)):
        return given
    between = interval_of_next_payments(head, given)
    if between is not None:
        return given._replace(set={**given.set, "interval_hours": f"{between:g}"})
    raise Unclear(
        f"{source}: --unit {given.unit} is per the venue's own interval, which the file does not state: "
        "pass --set interval_hours=8 or --map interval_hours=COLUMN",
        "--set",
        ["interval_hours=8", "interval_hours=4", "interval_hours=1"],
    )


_FLOOR_OF_HOUR = 0.0000125


def _has_floor_of_hours(head: Chunk, given: Given) -> bool:
    """Return whether rates of venues that pay less often are at the floor of an hour, 0.00125 %."""
    column = given.map.get("rate_bps_8h", "rate_bps_8h")
    if column not in head.columns:
        return False
    scale, _ = RATE_UNITS[given.unit or "bps_8h"]
    rates = np.abs(numbers(head.columns[column], column, Rejections(len(head)), suffix="%"))
    name = given.map.get("exchange", "exchange")
    if name in head.columns:
        words = encoded(head.columns[name])
        hourly = [word for word in words.texts if pays_hourly(venue_of_word(word))]
        rates = rates[~words.is_in(hourly)]
    rates = rates[np.isfinite(rates) & (rates > 0)]
    at_floor = np.round(rates / scale, 9) == _FLOOR_OF_HOUR
    return bool(rates.size) and float(np.mean(at_floor)) > _MOST_AT_FLOOR


_OF_INTERVALS = [unit for unit, (_, hours) in RATE_UNITS.items() if hours is None]


def _words_of(name: str, head: Chunk, given: Given) -> list[str]:
    """Return the words of a column of the table in the first rows, or the one of all rows."""
    if name in given.set:
        return [given.set[name]]
    column = given.map.get(name, name)
    return encoded(head.columns[column]).texts if column in head.columns else []


def _take_quotes(by_meaning: Mapping[str, str], mapped: dict[str, str], has: set[str]) -> dict[str, Kind]:
    """Add quotes whose currency, coin or USD, is not in the file; return their kinds."""
    taken = {*mapped, *has}
    for name in _QUOTES:
        quote = name.removeprefix("raw_")
        if name in by_meaning and not {f"{quote}_usd", f"{quote}_coin"} & taken:
            mapped[name] = by_meaning[name]
    return {name: Kind.NUMBER for name in _QUOTES if name in mapped}


_TOTALS_OF = {"oi_exchange_totals": "total_oi_usd", "volume_exchange_totals": "total_volume_usd"}


def _total_of(table: str, head: Chunk) -> dict[str, str]:
    """Return the file's column of the totals of venues, if it has one."""
    column = total_columns(head).get(table)
    return {} if column is None else {_TOTALS_OF[table]: column}


def _take_rate(source: Source, head: Chunk, column: str, mapped: dict[str, str], given: Given) -> str:
    """Add the column of rates, and return its unit."""
    _refuse_two_ends(source, head, mapped)
    _refuse_unsigned_rates(source, head, column)
    _refuse_predicted_rates(source, head)
    mapped["rate_bps_8h"] = column
    return given.unit or unit_of_rates(source, head, column)


_FIELDS_OF_BOTH_SIDES = {
    "bybit": (("openinterest", "openinterestvalue"), ()),
    "gateio": (("openinterest", "openinterestusd", "totalsize"), ("lsrtaker", "lsraccount", "totalsize")),
    "huobi": (("amount", "volume", "value"), ("amounttype", "tradeturnover", "contractcode")),
}
"""By venue, fields that count both sides of each contract, and fields next to them, of which one is required.

Bybit's history, Gate's ``contract_stats`` and tickers, and HTX's open interest: `derivdata.sources.venues`.
"""
_NAMES_OF_SIZES = ("contractsize", "ctval", "contractval", "contractvalue", "quantomultiplier")
"""Names of the coins of a contract."""
_NAMES_IN_COINS = ("oiccy", "openinterestccy", "oicoins", "openinterestcoins", "openinterestbase")
"""Names of open interest that say coins; OKX's ``oiCcy`` is next to ``oi``, which is contracts."""


def _take_interest(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str], given: Given
) -> str | None:
    """Add open interest in coins or contracts with its price; return its unit, None for a column of USD."""
    stated = {*given.set, *given.map}
    if "oi_usd" in {*mapped, *stated, *head.columns} or "oi_coins" not in by_meaning:
        return None
    plain = _plain_columns(head)
    in_coins = _first_of(plain, _NAMES_IN_COINS)
    column = in_coins or by_meaning["oi_coins"]
    mapped["oi_usd"] = column
    unit = given.unit
    if unit is None and in_coins is not None:
        unit = "coins"
    elif unit is None and plain_name(column).endswith("contracts"):
        unit = "contracts"
    unit = unit or _interest_by_size(source, head, by_meaning, given) or unit_of_interest(source, column)
    size = _first_of(plain, _NAMES_OF_SIZES)
    if unit == "contracts" and size is not None and "contract_size" not in stated:
        mapped["contract_size"] = size
    _take_price(head, by_meaning, mapped, stated, unit)
    return unit


_SAYS_USD = re.compile(r"usd|dollar|\$", re.IGNORECASE)


def _interest_of_inverse(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], whole: Given, given: Given
) -> AmountPlan:
    """Return how open interest is read of contracts that are settled in their coin.

    Their value is in coins, and their amount in contracts of so many USD, or in USD.
    """
    column = whole.map.get("oi_usd", "oi_usd")
    pairs = [
        (venue_of_word(venue), name)
        for venue, name in itertools.product(
            _words_of("exchange", head, whole), _words_of("symbol", head, whole)
        )
    ]
    inverse = [pair for pair in pairs if is_inverse_name(*pair)]
    if not inverse or column not in head.columns or _SAYS_USD.search(column) or given.unit == "usd":
        return AmountPlan(whole)
    names = ", ".join(name for _, name in inverse[:3])
    if len(inverse) < len(pairs):
        raise ArchiveError(
            f"{source}: its open interest is of contracts in coins and in contracts ({names}): write a file "
            "for each, or a column in USD"
        )
    amounts = [amount_of(*pair) for pair in inverse]
    contracts = by_meaning.get("oi_coins", column)
    has_value = plain_name(column) in _VALUES_OF_INTEREST
    is_known = all(amount is not None and amount.is_usd for amount in amounts)
    if is_known and ((has_value and contracts != column) or whole.unit == "contracts"):
        rest = whole._replace(
            map={**{n: c for n, c in whole.map.items() if n != "price_usd"}, "oi_usd": contracts}, unit=None
        )
        venues = _both_sides(rest, head)
        adjust = partial(_usd_of_one_side, venues=venues) if venues else usd_of_contracts
        return AmountPlan(rest, adjust)
    if has_value or whole.unit is None:
        raise Unclear(
            f"{source}: {column} of {names} may be in USD, coins or contracts: pass --unit usd, --unit "
            "coins, or --unit contracts if they are contracts of a known amount of USD",
            "--unit",
            ["usd", "coins", "contracts"],
        )
    return AmountPlan(whole)


def _usd_of_one_side(frame: pd.DataFrame, venues: Sequence[str]) -> pd.DataFrame:
    return one_side(usd_of_contracts(frame), venues)


_VALUES_OF_INTEREST = frozenset("openinterestvalue sumopeninterestvalue oivalue openinterestnotional".split())
"""Names of values of open interest that do not say USD: those of inverse contracts are coins."""
_LIKELY_INTEREST = (1e7, 1e11)
"""Open interest of BTC or ETH on a venue [USD], which is never less or more."""
_LEADERS = frozenset({"BTC", "ETH"})


def _interest_by_size(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> str | None:
    """Return whether open interest of BTC or ETH is USD, coins or contracts, by its size and price.

    One reading must be usual for a large venue, and the others impossible. None if that is not so.
    """
    venues = {venue_of_word(word) for word in words_in(source, "exchange", head, by_meaning, given)}
    words = words_in(source, "symbol", head, by_meaning, given)
    symbols = {market_of(word).symbol for word in words}
    known = [_coins_of_contract(venue, word.upper()) for venue, word in itertools.product(venues, words)]
    sizes = {size for size in known if size is not None}
    if len(sizes) != 1 or None in known or len(symbols) != 1 or not symbols <= _LEADERS:
        return None
    name = by_meaning["oi_coins"]
    stated = numbers(head.columns[name], "oi_usd", Rejections(len(head))) * scale_in_name(name)[1]
    column = next((by_meaning[name] for name in _PRICES if name in by_meaning), None)
    least, most = _PRICES_OF_LEADERS[symbols.pop()]
    lowest = np.full(len(head), least)
    highest = np.full(len(head), most)
    if column is not None:
        lowest = highest = numbers(head.columns[column], "price_usd", Rejections(len(head)))
    coins = stated * sizes.pop()
    readings = {"usd": (stated, stated), "coins": (stated * lowest, stated * highest)}
    if not np.array_equal(coins, stated, equal_nan=True):
        readings["contracts"] = (coins * lowest, coins * highest)
    usual = [unit for unit, usd in readings.items() if _share_within(*usd, _USUAL_INTEREST) > _MOST_ROWS]
    possible = [unit for unit, usd in readings.items() if _share_within(*usd, _LIKELY_INTEREST) > 0.0]
    return usual[0] if usual == possible and len(usual) == 1 else None


_USUAL_INTEREST = (1e8, 3e10)
"""Open interest of BTC or ETH on a large venue since 2021 [USD]."""
_PRICES_OF_LEADERS = {"BTC": (3_000.0, 300_000.0), "ETH": (80.0, 10_000.0)}
"""The lowest and highest prices [USD] by which amounts without a price are judged."""
_MOST_ROWS = 0.9


def _share_within(least: Array, most: Array, bounds: tuple[float, float]) -> float:
    """Return the share of rows whose range of open interest reaches into some bounds."""
    is_known = np.isfinite(least) & np.isfinite(most) & (most > 0)
    if not is_known.any():
        return 0.0
    is_within = (most >= bounds[0]) & (least <= bounds[1])
    return float(np.mean(is_within[is_known]))


def _coins_of_contract(venue: str, name: str) -> float | None:
    """Return the coins of an amount of 1 of a linear contract on a large venue; None if that is not known."""
    if venue not in {*VENUES_IN_COINS, *_LARGE_VENUES}:
        return None
    if venue in VENUES_IN_COINS and name in _LEADERS:
        return 1.0
    amount = amount_of(venue, name)
    return None if amount is None or amount.is_usd or name in _LEADERS else amount.size


_TAKERS = frozenset({"buy", "sell"})
_PRICES_OF_TRADES = ("price", "px", "optionprice", "tradeprice", "premium")
_IDS_OF_TRADES = ("tradeid", "execid", "id", "tradeseq")
_BLOCKS = {
    "blocktradeid": "block_id", "isblocktrade": "block_id",
    "combotradeid": "combo_id", "comboid": "combo_id",
}  # fmt: skip
"""Columns with a value in trades that were not made in the order book (Deribit API v2, 2026)."""


def _plan_of_trades(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan of trades of options, whose prices are in coins or USD."""
    plain = _plain_columns(head)
    has = {*given.set, *given.map, *head.columns}
    mapped = _mapped("options_trades", head, by_meaning, given)
    _options(head, by_meaning, mapped)
    taker = column_of_words(head, _TAKERS)
    if taker and mapped.get("side") == taker:
        del mapped["side"]
    _take_sides(head, "options_trades", mapped)
    names = {
        "taker_side": taker or None,
        "size": by_meaning.get("quantity"),
        "trade_id": _first_of(plain, _IDS_OF_TRADES),
    }
    mapped |= {name: column for name, column in names.items() if column is not None and name not in has}
    extra = {column: Kind.TEXT for name, column in _BLOCKS.items() if name in plain}
    mapped |= {column: plain[name] for name, column in _BLOCKS.items() if name in plain}
    price = _first_of(plain, _PRICES_OF_TRADES)
    if price is not None and not {"price_usd", "price_coin"} & has:
        mapped.pop("price_usd", None)
        mapped["raw_price"] = price
        extra["raw_price"] = Kind.NUMBER
    columns = archive_table("options_trades").columns
    whole = given._replace(
        map={**mapped, **given.map},
        set={**_path_words(source, head, mapped, columns, {*given.set, *given.map}), **given.set},
        unit=given.unit or unit_of_volatility(source, head, by_meaning),
        extra=extra,
    )
    plan = make_plan("options_trades", whole, adjust=ADJUST["trades"])
    ignored = {"side"} if taker == "side" else set()
    return plan._replace(makes=frozenset({"execution"} - has), ignored=frozenset(ignored))


def _first_of(plain: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the file's column of the first of some plain names that it has."""
    return next((plain[name] for name in names if name in plain), None)


def _plan_of_futures(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan of prices of dated futures, whose names have the symbol and the expiry."""
    has = {*given.set, *given.map, *head.columns}
    mapped = _mapped("futures_history", head, by_meaning, given)
    names = {
        "price_usd": _first_of(_plain_columns(head), PRICES_OF_FUTURES),
        "index_price_usd": mapped.get("index_price_usd", by_meaning.get("underlying_price")),
        "instrument_name": by_meaning.get("instrument_name"),
    }
    mapped |= {name: column for name, column in names.items() if column is not None and name not in has}
    if mapped.get("symbol") == mapped.get("instrument_name"):
        mapped.pop("symbol", None)
    columns = archive_table("futures_history").columns
    constants = _path_words(source, head, mapped, columns, {*given.set, *given.map})
    mapped.pop("expiry", None)  # names of instruments have it, with the time of day
    whole = given._replace(map={**mapped, **given.map}, set={**constants, **given.set})
    plan = make_plan("futures_history", whole)
    return plan._replace(ignored=frozenset({"expiry"} - {*given.map}))


def _take_price(
    head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str], stated: set[str], unit: str
) -> None:
    """Add the price that converts open interest in coins or contracts to USD."""
    price = (
        by_meaning.get("mark")
        or by_meaning.get("index")
        or by_meaning.get("price_usd")
        or by_meaning.get("last")
        or (PRICE_OF_COIN if PRICE_OF_COIN in head.columns else None)
    )
    if unit in IN_COINS and price is not None and "price_usd" not in stated:
        mapped["price_usd"] = price


def _take_kind_of_price(
    source: Source,
    head: Chunk,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    given: Given,
) -> dict[str, str]:
    """Add the mark, index or last price; return the kind if a column or the path has it."""
    has = {*given.set, *given.map, *head.columns}
    stated_kind = given.set.get("kind")
    if "price_usd" in {*mapped, *has}:
        is_of_trades = "kind" not in has and are_trades(head)
        return {"kind": "last"} if is_of_trades else {}
    if stated_kind in ("mark", "index", "last"):
        column = _price_of_kind(source, by_meaning, stated_kind)
    else:
        column = next((by_meaning[name] for name in ("mark", "index", "last") if name in by_meaning), None)
    if column is None:
        return {}
    mapped["price_usd"] = column
    kinds = [name for name in ("mark", "index") if by_meaning.get(name) == column]
    return {} if "kind" in has else {"kind": kinds[0] if kinds else _kind_in_path(source)}


def _price_of_kind(source: Source, by_meaning: Mapping[str, str], kind: str) -> str | None:
    """Return the column of the kind of price that the caller states; raise if columns are of other kinds.

    A candle may be of any kind, so that its open has that of the caller.
    """
    is_candle = plain_name(by_meaning.get("last", "")) in (*_OPENS, *_CLOSES)
    if kind in by_meaning or is_candle:
        return by_meaning.get(kind) or by_meaning["last"]
    others = [by_meaning[name] for name in ("mark", "index", "last") if name in by_meaning]
    if not others:
        return None
    raise Unclear(
        f"{source}: no column is that of {kind} prices, and {' and '.join(others)} may be of another kind: "
        f"pass --map price_usd={others[0]} if it is",
        "--map",
        [f"price_usd={name}" for name in others],
    )


def _kind_of_ratio(words: str) -> str | None:
    """Return whose ratio some words name, such as ``topLongShortPositionRatio``; None for other words."""
    plain = plain_name(words)
    named = [kind for word, kind in _KINDS_OF_RATIOS.items() if word in plain]
    if "top" in plain or "elite" in plain:
        return f"top_{named[0]}" if len(named) == 1 else None
    if "global" in plain and not named:
        return "accounts"
    return named[0] if len(named) == 1 and "taker" not in plain else None


_KINDS_OF_RATIOS = {"account": "accounts", "position": "positions"}


def _take_kind_of_ratio(
    source: Source,
    head: Chunk,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    words: dict[str, Mapping[str, str]],
) -> dict[str, str]:
    """Return the kind that the ratio's column or the file names, or add the column of kinds and its words."""
    for column, values in head.columns.items():
        if not pa.types.is_string(values.type) or column in mapped.values():
            continue
        texts = encoded(values).texts
        kinds = {text: _kind_of_ratio(text) for text in texts}
        if kinds and None not in kinds.values():
            mapped["kind"] = column
            words["kind"] = {text: kind for text, kind in kinds.items() if kind is not None}
            return {}
    if {"buyratio", "sellratio"} <= {plain_name(name) for name in head.columns}:
        return {"kind": "accounts"}  # Bybit's account-ratio alone has these fields
    path = "/".join(source.name.split("/")[-_FOLDERS_OF_RATIOS:])
    columns = [by_meaning[name] for name in ("long_short_ratio", "long_share") if name in by_meaning]
    # Binance's ratio of positions has the column longAccount as well.
    columns = [name for name in columns if plain_name(name) not in ("longaccount", "longshortratio")]
    named = {_kind_of_ratio(name) for name in (path, *columns)} - {None}
    is_of_top = "top" in plain_name(path)
    if len(named) != 1 or (is_of_top and not named <= {"top_accounts", "top_positions"}):
        return {}
    return {"kind": str(named.pop())}


_FOLDERS_OF_RATIOS = 2


def _take_sides(head: Chunk, table: str, mapped: dict[str, str]) -> dict[str, Mapping[str, str]]:
    """Add the column of types of options, or of closed positions; return the words of flags."""
    columns = archive_table(table).columns
    column = ""
    if "strike" in columns:
        column = column_of_words(head, _OPTION_TYPES)
    elif "order_id" in columns:
        column = column_of_words(head, _POSITIONS)
    if column:
        mapped["side"] = column
    return _take_flags_of_sides(head, mapped) if "strike" in columns else {}


_FLAGS_OF_SIDES = {"iscall": ("call", "put"), "isput": ("put", "call")}


def _take_flags_of_sides(head: Chunk, mapped: dict[str, str]) -> dict[str, Mapping[str, str]]:
    """Add a column that says whether an option is a call, if no other has its side; return its words."""
    if "side" in mapped or "side" in head.columns:
        return {}
    plain = {plain_name(name): name for name in head.columns}
    for name, (yes, no) in _FLAGS_OF_SIDES.items():
        if name in plain:
            mapped["side"] = plain[name]
            return {"side": {"true": yes, "1": yes, "false": no, "0": no}}
    return {}


def _plan_of_book(by_meaning: Mapping[str, str], given: Given, head: Chunk) -> ImportPlan:
    """Return the plan of an order book; levels without a number are numbered from the best price."""
    levels = {"price_usd": "price_usd", "size": "quantity", "side": "side"}
    mapped = {name: by_meaning[meaning] for name, meaning in levels.items() if meaning in by_meaning}
    whole = given._replace(map={**given.map, **{n: c for n, c in mapped.items() if n not in given.set}})
    if "level" in {*head.columns, *whole.map, *whole.set}:
        return make_plan("orderbook_book", whole, adjust=ADJUST["book_sizes"])
    plan = make_plan("orderbook_book", whole, adjust=ADJUST["levels"])
    return plan._replace(makes=frozenset({"level"}))


def _kind_in_path(source: Source) -> str:
    """Return the kind of the candles of a file: mark price or index if its name says so."""
    name = source.name.rsplit("/", 1)[-1].lower()
    kinds = [kind for kind in ("mark", "index") if re.search(rf"(?<![a-z]){kind}(?!et)", name)]
    return kinds[0] if len(kinds) == 1 else "last"


def _path_words(
    source: Source, head: Chunk, mapped: Mapping[str, str], columns: Any, stated: set[str]
) -> dict[str, str]:
    """Return venue and symbol from the names of the file and its folders, if nothing else has them."""
    have = {*mapped, *stated, *head.columns}
    if _DVOL.search(f"{mapped.get('index_pct', '')} {source.name.rsplit('/', 1)[-1]}"):
        return {"exchange": "deribit"} | _path_words_of(source, columns, have)
    if "price_usd" in columns and "symbol" not in stated:
        _refuse_other_currency(source, has_symbols="symbol" in have)
    if "symbol" in columns and not {"symbol", "instrument_name"} & have and "instrument_name" not in columns:
        _refuse_dated_name(source, head, mapped)
    return _path_words_of(source, columns, have)


_DVOL = re.compile(r"dvol", re.IGNORECASE)
"""The name of Deribit's index, which no other venue has."""


def _path_words_of(source: Source, columns: Any, have: set[str]) -> dict[str, str]:
    """Return the table's columns that are in the path only."""
    named = names_in_path(source.name)
    if "instrument_name" in have and "instrument_name" in columns:
        named.pop("symbol", None)  # names of instruments have it
    return {name: word for name, word in named.items() if name in columns and name not in have}


def _refuse_other_currency(source: Source, *, has_symbols: bool) -> None:
    """Ask whether prices are in USD where the name of their file has another currency, or a pair of coins."""
    name = source.name.rsplit("/", 1)[-1]
    words = re.split(r"[^A-Z]+", name.upper())
    other = sorted(CURRENCIES & {*words})
    pair = "" if has_symbols else pair_of_coins(name.split(".")[0])
    if pair:
        other.append(pair)
    if other:
        raise Unclear(
            f"{source}: its name has {other[0]}, so that its prices may not be in USD: omit it, or state the "
            "symbol with --set symbol=BTC if they are",
            "--set",
            ["symbol=BTC"],
        )


_DATED_NAME = re.compile(
    r"(?<![A-Z0-9])[A-Z0-9]{2,}?(?:USD[TC]?)?[-_](?:\d{6}|\d{1,2}[A-Z]{3}\d{2})(?![A-Z0-9])"
)
_FRIDAY = 4


def _refuse_dated_name(source: Source, head: Chunk, mapped: Mapping[str, str]) -> None:
    """Ask for the symbol where the name of a file is that of a dated future: it has a Friday after its rows.

    Other dates in names are those of the rows.
    """
    column = mapped.get("time", "time")
    if column not in head.columns or not len(head):
        return
    last = instants(head.columns[column], "time", Rejections(len(head)), tz=dt.UTC).max()
    for name in _DATED_NAME.findall(source.name.rsplit("/", 1)[-1]):
        expiry = market_of(name).expiry
        if expiry is None or pd.isna(last):
            continue
        stamp = pd.Timestamp(expiry, unit="us", tz="UTC")
        if stamp > last and stamp.weekday() == _FRIDAY:
            raise Unclear(
                f"{source}: its name may be that of a dated future, {name}, which no table of perpetual "
                f"contracts holds: omit it, or pass --set symbol={market_of(name).symbol} if it is not",
                "--set",
                [f"symbol={market_of(name).symbol}"],
            )


def _options(head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str]) -> None:
    """Add the column of instruments if its values are names of options."""
    if "oi_coins" in by_meaning and "open_interest" not in head.columns:
        mapped["open_interest"] = by_meaning["oi_coins"]
    plain = _plain_columns(head)
    in_contracts = _first_of(plain, _INTEREST_OF_OPTIONS)
    if in_contracts is not None and not {"open_interest"} & {*mapped, *head.columns}:
        mapped["open_interest"] = in_contracts
    # Deribit's greeks are in an object of their own, ``greeks.delta``.
    mapped |= {name: plain[name] for name in _GREEKS if name in plain and name not in head.columns}
    # OKX has greeks in coins next to those of Black and Scholes, which the table holds.
    mapped |= {name: plain[f"{name}bs"] for name in _GREEKS if f"{name}bs" in plain}
    for meaning in ("instrument_name", "symbol"):
        column = by_meaning.get(meaning)
        if column is None:
            continue
        texts = encoded(head.columns[column]).texts[:20]
        if texts and all(market_of(text).kind == "option" for text in texts):
            mapped["instrument_name"] = column
            if mapped.get("symbol") == column:
                del mapped["symbol"]
            return
    mapped.pop("instrument_name", None)


_INTEREST_OF_OPTIONS = ("oicontracts", "oicoins", "oicoin")
_GREEKS = ("delta", "gamma", "vega", "theta", "rho")
_QUOTES = ("raw_bid", "raw_ask", "raw_mark")
"""Quotes of options of which the file does not say whether they are in coins or USD."""
_OPTION_TYPES = frozenset({"c", "p", "ce", "pe", "call", "put", "calls", "puts"})
_POSITIONS = frozenset({"long", "short", "longs", "shorts"})
