"""Meanings of columns, by their names and values: times, rates, open interest, prices, markets."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.cells import Rejections, encoded, numbers
from derivdata.sources.archive.importing.market_names import (
    KNOWN_VENUES,
    meaning_of,
    names_by_meaning,
    plain_name,
    scale_in_name,
    venue_of_word,
)
from derivdata.sources.archive.importing.plan import Unclear
from derivdata.sources.archive.importing.readers import UNNAMED, Chunk
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import to_timestamps, zone, zone_in_name
from derivdata.sources.archive.importing.wide_tables import METRIC_NAMES
from derivdata.support.arrays import Array


def columns_by_meaning(head: Chunk) -> dict[str, str]:
    """Return the column of the file for each meaning in ``names.toml``."""
    plain = plain_columns(head)
    by_meaning: dict[str, str] = {}
    for meaning, names in names_by_meaning().items():
        candidates = []
        for name in names:
            column = plain.get(name)
            if column is not None and _can_be(meaning, head.columns[column]):
                candidates.append(column)
        if meaning == "time":
            candidates = _times_first(candidates, head)
        if candidates:
            by_meaning[meaning] = candidates[0]
    if [*head.columns] == ["0", "1"] and has_times(head.columns["0"]):
        by_meaning |= {"time": "0", "value": "1"}
    _take_short_candles(plain, by_meaning)
    _take_numbers_of_candles(head, plain, by_meaning)
    _take_near_names(head, by_meaning)
    _take_stated_rate(head, by_meaning)
    _take_price_of_candles(plain, by_meaning)
    return by_meaning


def columns_named(head: Chunk, names: Collection[str]) -> list[str]:
    """Return the columns whose plain names are in `names`."""
    return [column for column in head.columns if plain_name(column) in names]


def columns_like(
    head: Chunk, words: re.Pattern[str], other_words: re.Pattern[str] | None = None
) -> list[str]:
    """Return the columns whose names match `words` and do not match `other_words`."""
    columns = [column for column in head.columns if words.search(column)]
    if other_words is None:
        return columns
    return [column for column in columns if not other_words.search(column)]


def first_of(plain: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the column of the first of `names` that the file has; None without any."""
    for name in names:
        if name in plain:
            return plain[name]
    return None


def texts_of(head: Chunk, column: str | None) -> list[str]:
    """Return the distinct texts of a column; empty without a column."""
    if column is None:
        return []
    return encoded(head.columns[column]).texts


def figures_of(head: Chunk, column: str, *, suffix: str = "") -> Array:
    """Return the numbers of a column, also in cells that end in `suffix`; NaN for other cells."""
    return numbers(head.columns[column], column, Rejections(len(head)), suffix=suffix)


_FIXED_PERIODS = ("8h", "hour")
_ONLY_PERIOD = re.compile(r"(rate)?(pct|percent|bps?)?(per)?(8h(ours?)?|1h|h(our(ly)?)?)(pct|percent|bps?)?")
"""Suffixes of a rate name that state a fixed period; not ``avg_8h``."""


def _take_stated_rate(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Use the 8-hour or hourly rate instead of a rate per interval if the interval is unknown."""
    column = by_meaning.get("rate")
    if column is None or "interval_hours" in by_meaning or scale_and_period(column) != ("", ""):
        return
    for name in head.columns:
        rest = plain_name(name.replace("%", "pct")).removeprefix(plain_name(column))
        is_same_rate = _ONLY_PERIOD.fullmatch(rest) is not None
        _, period = scale_and_period(name)
        if is_same_rate and period in _FIXED_PERIODS and _can_be("rate", head.columns[name]):
            by_meaning["rate"] = name
            return


def _take_near_names(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Use the only column whose name resembles a rate, time or open interest, if no known name matches."""
    for meaning, column in _scaled_amounts(head).items():
        by_meaning.setdefault(meaning, column)
    nearest = {
        "rate": _near_rate(head),
        "time": _near_time(head),
        "interval_hours": _only(columns_like(head, _NEAR_INTERVAL, _OF_OTHER_INTERVALS)),
    }
    for meaning, near in nearest.items():
        if near is not None:
            by_meaning.setdefault(meaning, near)
    if not {"oi_usd", "oi_coins"} & by_meaning.keys():
        by_meaning |= _near_interest(head)


def _only(columns: Sequence[str]) -> str | None:
    """Return the only column of a list; None for several."""
    if len(columns) != 1:
        return None
    return columns[0]


OF_ENDS = re.compile(r"^(close|end)|(close|end)(time|date|at)?$")
CLOSES = ("close", "closeprice", "c")


def _take_price_of_candles(plain: Mapping[str, str], by_meaning: dict[str, str]) -> None:
    """Use the price of candles at their times: the open, or the close where times are ends."""
    if by_meaning.get("last", "").lower() not in OPENS:
        return
    # A price next to the open is the close, which is known at the end of the candle only.
    by_meaning.pop("price_usd", None)
    if OF_ENDS.search(plain_name(by_meaning.get("time", ""))):
        close = first_of(plain, CLOSES)
        if close is None:
            del by_meaning["last"]
        else:
            by_meaning["last"] = close


def plain_columns(head: Chunk) -> dict[str, str]:
    """Return the columns by their normalised names, and by the last part of names such as ``delta.coin``."""
    # The column ``t`` comes before ``T``.
    plain = {column: column for column in head.columns if plain_name(column) == column}
    for column in head.columns:
        plain.setdefault(plain_name(_with_currency(column)), column)
    for column in head.columns:
        plain.setdefault(plain_name(column.rsplit(".", 1)[-1]), column)
        plain.setdefault(plain_name(column.replace("%", "pct")), column)
    return plain


def _with_currency(column: str) -> str:
    """Return ``Open Interest usd`` for ``Open Interest ($)``; other names unchanged."""
    named = re.sub(r"[(\[]\$[)\]]", "usd", column)
    return named if meaning_of(named) is not None else column


OPENS = ("open", "openprice", "open_price", "o")
_NAMELESS = (UNNAMED, "dt")
"""Names of columns that may be numbers of rows."""


def _times_first(columns: list[str], head: Chunk) -> list[str]:
    """Return columns of times, those with valid times first; row numbers are excluded."""
    times = [column for column in columns if _share_of_times(head.columns[column]) >= _MAX_TIMES]
    times = _with_time_of_day(times, head)
    times = _without_bookkeeping(times, head)
    others = [column for column in columns if column not in (*times, *_NAMELESS)]
    return times + others


_OF_BOOKKEEPING = frozenset("createdat createtime createdtime updatedat updatetime insertedat".split())
"""Plain names of the bookkeeping times that databases add to rows."""


def _without_bookkeeping(columns: list[str], head: Chunk) -> list[str]:
    """Return time columns, with the bookkeeping times of databases last.

    Rows that were inserted at once have one time of creation.
    """
    counts = {column: len(texts_of(head, column)) for column in columns}
    most = max(counts.values(), default=0)
    times: list[str] = []
    bookkeeping: list[str] = []
    for column in columns:
        if plain_name(column) in _OF_BOOKKEEPING and 2 * counts[column] <= most:
            bookkeeping.append(column)
        else:
            times.append(column)
    return times + bookkeeping


_NOT_OF_QUOTES = re.compile(
    r"updat|creat|fetch|collect|retriev|scrap|captur|log|sampl|record|receiv|close|end"
)
"""Words of times of other events than the one in the row."""


def _with_time_of_day(columns: list[str], head: Chunk) -> list[str]:
    """Return time columns, with date and time before columns that have only the same dates.

    The first time of a candle is used.
    """
    names = {plain_name(name) for name in head.columns}
    if len(columns) < 2 or {"open", "close"} <= names or "date" not in plain_name(columns[0]):
        return columns
    days = _stamps_of(head.columns[columns[0]])
    if not (days == days.floor("D"))[~days.isna()].all():
        return columns
    for column in columns[1:]:
        stamps = _stamps_of(head.columns[column])
        is_of_days = bool((stamps.floor("D") == days)[~stamps.isna() & ~days.isna()].all())
        has_clock = bool((stamps != stamps.floor("D"))[~stamps.isna()].any())
        if is_of_days and has_clock and not _NOT_OF_QUOTES.search(plain_name(column)):
            others = [name for name in columns if name != column]
            return [column, *others]
    return columns


def _stamps_of(values: pa.ChunkedArray) -> pd.DatetimeIndex:
    """Return the times of a column, read as UTC if they have no zone; NaT for other cells."""
    return to_timestamps(values, "time", Rejections(len(values)), tz=dt.UTC)


_CANDLE = ("o", "h", "l", "c")


def _take_numbers_of_candles(head: Chunk, plain: Mapping[str, str], by_meaning: dict[str, str]) -> None:
    """Use the IDs of candles as their times if they are timestamps, as in HTX's files."""
    is_candle = by_meaning.get("last", "").lower() in OPENS
    if "time" not in by_meaning and is_candle and "id" in plain and has_times(head.columns[plain["id"]]):
        by_meaning["time"] = plain["id"]


def _take_short_candles(plain: Mapping[str, str], by_meaning: dict[str, str]) -> None:
    """Use the open of candles whose price columns have one-letter names."""
    if "last" not in by_meaning and all(name in plain for name in _CANDLE):
        by_meaning["last"] = plain["o"]
        if "s" in plain:
            by_meaning.setdefault("symbol", plain["s"])


_NEAR_INTERVAL = re.compile(r"interval.*hour|hour.*interval|funding.*(interval|period)", re.I)
_OF_OTHER_INTERVALS = re.compile(r"expected|source|elapsed|until|next|change", re.I)


AMOUNTS_IN_USD = frozenset("oi_usd long_usd short_usd buy_usd sell_usd volume_usd value_usd".split())


def _scaled_amounts(head: Chunk) -> dict[str, str]:
    """Return the amount columns whose names state thousands, millions or billions."""
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
        if meaning in AMOUNTS_IN_USD or meaning == "oi_coins":
            scaled.setdefault(meaning, name)
    return scaled


def _near_rate(head: Chunk) -> str | None:
    """Return the only column whose name contains the words of a funding rate.

    If several are one rate in different units, by their names, the one of the shortest period is returned.
    """
    near = columns_like(head, _NEAR_RATE, _NOT_A_RATE)
    if len(near) > 1 and _are_one_rate(near, head):
        return min(near, key=lambda name: HOURS[scale_and_period(name)[1]])
    return _only(near)


def _are_one_rate(names: list[str], head: Chunk) -> bool:
    """Return whether columns have the same rates in the units that their names state."""
    first: Array | None = None
    for name in names:
        rates = _rates_per_hour(head, name)
        if rates is None:
            return False
        if first is not None and not np.allclose(first, rates, rtol=1e-3, atol=1e-9, equal_nan=True):
            return False
        first = rates if first is None else first
    return True


def _rates_per_hour(head: Chunk, name: str) -> Array | None:
    """Return rates as fractions of an hour if their name states the scale and period, else None."""
    scale, period = scale_and_period(name)
    if not scale or not period:
        return None
    per_fraction = 1e4 if scale == "bps" else 100.0
    return np.asarray(figures_of(head, name, suffix="%") / per_fraction / HOURS[period])


def _near_interest(head: Chunk) -> dict[str, str]:
    """Return the only open interest column by its meaning: USD if its name contains it, otherwise coins."""
    column = _only(columns_like(head, _NEAR_INTEREST, _NOT_INTEREST))
    if column is None:
        return {}
    meaning = "oi_usd" if IN_USD.search(column) else "oi_coins"
    if not _can_be(meaning, head.columns[column]):
        return {}
    return {meaning: column}


def _near_time(head: Chunk) -> str | None:
    """Return the only timestamp column, otherwise the only time column whose name contains "time".

    Without any other time, the time at which a collector received the rows is used. If several columns have
    the same times in different formats or zones, one in UTC is used.
    """
    near = [name for name, values in head.columns.items() if pa.types.is_timestamp(values.type)]
    if len(near) > 1:
        near = [name for name in near if not _OTHER_TIME.search(name)]
    if not near:
        for name in columns_like(head, _NEAR_TIME, _OTHER_TIME):
            values = head.columns[name]
            if has_times(values) and not _are_of_listings(name, values):
                near.append(name)
    if not near:
        received = columns_like(head, OF_RECEIPT)
        near = [name for name in received if _NEAR_TIME.search(name) and has_times(head.columns[name])]
    if len(near) > 1 and _are_equal_times(near, head):
        in_utc = [name for name in near if "utc" in plain_name(name)]
        return (in_utc or near)[0]
    return _only(near)


OF_RECEIPT = re.compile(r"(?<![a-z])(recv|receiv|receipt|ingest|arriv)", re.I)
"""Prefixes of words for the time at which a collector received a row."""


def _are_equal_times(names: list[str], head: Chunk) -> bool:
    """Return whether columns have the same times; a name may state the zone."""
    first: pd.DatetimeIndex | None = None
    for name in names:
        try:
            tz = zone(zone_in_name(name) or "UTC")
        except ValueError:
            return False
        stamps = to_timestamps(head.columns[name], "time", Rejections(len(head)), tz=tz).floor("s")
        if first is not None and not stamps.equals(first):
            return False
        first = stamps
    return True


_LONGEST_SNAPSHOT = pd.Timedelta(1, "h")


def _are_of_listings(name: str, values: pa.ChunkedArray) -> bool:
    """Return whether times are listing times of contracts, not times of quotes.

    Deribit's ``creation_timestamp`` is a listing time in lists of instruments, and the time of the quote in
    summaries of books.
    """
    if not plain_name(name).startswith("creation"):
        return False
    stamps = _stamps_of(values)
    return bool(stamps.max() - stamps.min() > _LONGEST_SNAPSHOT)


def has_times(values: pa.ChunkedArray) -> bool:
    """Return whether all values of a column are times."""
    return _share_of_times(values) == 1.0


_MAX_TIMES = 0.5
"""Share of the values of a column of times that are times; the last line of a file may be a remark."""


def _share_of_times(values: pa.ChunkedArray) -> float:
    """Return the share of times among the non-missing values of a column."""
    rejections = Rejections(len(values))
    stamps = to_timestamps(values, "time", rejections, tz=dt.UTC)
    times = int((~stamps.isna()).sum())
    cells = times + int(rejections.bad.sum())
    if not cells:
        return 0.0
    return times / cells


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
"""Words of columns that are not open interest, are in thousands, or are totals over all venues."""
_NEAR_TIME = re.compile(r"time|date|(?<![a-z])ts(?![a-z])|_(ms|us|ns)$", re.I)
_OTHER_TIME = re.compile(
    r"expir|matur|deliver|next|first|settle|listing|launch|onboard|ingest|receiv|recv|local|arriv", re.I
)
"""Words of times other than the time of a row, including the time at which a collector received it."""
_NOT_A_RATE = re.compile(
    r"total|count|updates|time|interval|sum|cumul|pred|theor|expected|next|estimat|forecast|indicative|prev|lag|"
    r"change|delta|diff|spread|z.?score|std",
    re.I,
)
WORDS = ("symbol", "instrument_name", "exchange", "side")
_AMOUNTS = ("oi_usd", "oi_coins", "underlying_price", "price_usd", "mark", "index", "last")


def _can_be(meaning: str, values: pa.ChunkedArray) -> bool:
    """Return whether values fit a meaning: text for names, and numbers that are not all missing for amounts.

    Open interest must not be 0 in all rows, because feeds of backtrader fill such a column with zeros.
    """
    if meaning == "rate":
        return values.null_count < len(values) or not len(values)
    if meaning not in (*WORDS, *_AMOUNTS):
        return True
    rejections = Rejections(len(values))
    sizes = numbers(values, meaning, rejections, suffix="%")
    is_text = bool(rejections.bad.any())
    if meaning in WORDS:
        return is_text or meaning not in ("symbol", "side") or not np.isfinite(sizes).any()
    if is_text:
        return False
    amounts = sizes[np.isfinite(sizes)]
    if meaning in ("oi_usd", "oi_coins"):
        return bool((amounts != 0).any())
    return amounts.size > 0


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
    name = source.file_name
    for pattern, quantity in _QUANTITY_OF_NAME:
        if pattern.search(name):
            return quantity
    return None


_TICKER = re.compile(
    r"(?:\.P_(?P<suffix>[A-Z_]*[A-Z])|(?:PERP|USD[TC]?)_(?P<known>OI|FR|LSR))(?![A-Za-z0-9])"
)
_QUANTITY_OF_SUFFIX = {"OI": "oi_coins", "FR": "rate", "LSR": "long_short_ratio"}
"""Endings of TradingView's tickers of a perpetual, ``BINANCE:BTCUSDT.P_FR`` (public Pine scripts, 2026)."""

_OF_PRICE_BARS = frozenset("OHLC OHLCV PRICE PRICES KLINE KLINES CANDLES D W M H DAILY HOURLY WEEKLY".split())
"""Words after the ticker of a price in file names, ``BTCUSDT.P_OHLCV.csv``."""


def quantity_of_ticker(source: Source, head: Chunk, symbols: str | None) -> str | None:
    """Return the quantity of candles by the tickers of their rows, or else by that in the file name.

    None for tickers of prices. Raise `Unclear` for an unknown quantity, and `ArchiveError` for several.
    """
    suffixes = {_suffix_of_ticker(text) for text in texts_of(head, symbols)}
    if suffixes <= {""}:
        suffixes = {_suffix_of_ticker(source.file_name)}
    if len(suffixes) > 1:
        raise ArchiveError(
            f"{source}: expected tickers of one quantity, got the endings "
            f"{' and '.join(suffix or '.P' for suffix in sorted(suffixes))}: write one file for each ending"
        )
    suffix = suffixes.pop()
    if suffix and suffix not in _QUANTITY_OF_SUFFIX:
        raise Unclear(
            f"{source}: the ticker ends in {suffix}, so the candles may not be prices: omit the file, or "
            "pass --table prices_history if they are prices",
            "--table",
            ["prices_history"],
        )
    return _QUANTITY_OF_SUFFIX.get(suffix)


def _suffix_of_ticker(text: str) -> str:
    """Return the ending of a ticker in a text; empty without one, and for the name of a venue."""
    match = _TICKER.search(text)
    if match is None:
        return ""
    suffix = match["suffix"] or match["known"]
    is_other_word = suffix in _OF_PRICE_BARS or venue_of_word(suffix) in KNOWN_VENUES
    return "" if is_other_word else suffix


def quantity_in_rows(source: Source, head: Chunk) -> str | None:
    """Return the quantity of a table with a metric in each row; raise for several metrics."""
    for column in columns_named(head, METRIC_NAMES):
        words = texts_of(head, column)
        if len(words) > 1:
            raise ArchiveError(
                f"{source}: column {column!r} names {len(words)} quantities ({', '.join(words[:5])}), "
                "whose values share one column: write one file or one column for each of them"
            )
        if words and meaning_of(words[0]) in QUANTITIES:
            return meaning_of(words[0])
    return None


def kind_of_ratio(words: str) -> str | None:
    """Return the kind of ratio in a name such as ``topLongShortPositionRatio``; None for other names."""
    plain = plain_name(words)
    is_of_top = "top" in plain or "elite" in plain
    is_of_accounts = "account" in plain
    is_of_positions = "position" in plain
    if is_of_accounts == is_of_positions:
        is_global = "global" in plain and not is_of_accounts and not is_of_top
        return "accounts" if is_global else None
    kind = "accounts" if is_of_accounts else "positions"
    if is_of_top:
        return f"top_{kind}"
    return None if "taker" in plain else kind


def column_of_words(head: Chunk, words: frozenset[str]) -> str:
    """Return the column whose texts are all among some words; empty without one."""
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
HOURS = {"year": 8_760.0, "day": 24.0, "8h": 8.0, "hour": 1.0}


def scale_and_period(name: str) -> tuple[str, str]:
    """Return ``percent`` or ``bps``, and the period, from a name; each is empty if missing."""
    word = plain_name(name.replace("%", "pct"))
    stated = _SCALE.search(word)
    scale = ""
    if stated is not None:
        scale = "bps" if stated[0].startswith("bp") else "percent"
    base = _SCALE.sub("", word)
    for pattern, period in _PERIODS:
        if pattern.search(base):
            return scale, period
    return scale, ""


IN_USD = re.compile(
    r"(interest|(?<![a-z])(oi|in|value|notional|history))[-_ (\[]*usd(?![a-z])|^usd(?![a-z])|notional|"
    r"dollars?(?![a-z])",
    re.I,
)
"""``oi_usd``, ``Open Interest (USD)``; the USD of a market's name, ``BTC-USD``, is not a unit."""
PRICES = ("mark", "index", "last", "price_usd")
