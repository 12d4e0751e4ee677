"""Recognise a file without a declared layout, by the names and sizes of its columns, or ask."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from derivdata.sources.archive.importing.asking import Unclear, names_in_path
from derivdata.sources.archive.importing.instruments import market_of
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.archive.importing.plan import Given, ImportPlan, make_plan
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.values import Rejections, encoded, instants, numbers
from derivdata.sources.archive.schemas import archive_table, archive_tables
from derivdata.support.arrays import Array
from derivdata.tables.contracts import VENUES

_NAMES = {
    "time": "time timestamp date datetime ts t opentime unix unixtime fundingtime fundingtimestamp settledat "
    "settlementtime calctime createtime createdtime eventtime tsevent timepoint snapshottime index dt utc "
    "timestamputc timeutc datetimeutc timestampms utctime utctimestamp utcdatetime blocktime evtblocktime "
    "blocktimestamp quotedate quotetime starttime createdat effectiveat recordedat asof",
    "symbol": "symbol coin asset market ticker pair instrument instrumentname instid contract contractname "
    "contractcode productid basecurrency basecoin base tradingpair currency underlying",
    "exchange": "exchange venue source exch exchangename platform",
    "rate": "relativefundingrate fundingrate rate funding realizedrate realrate settledrate "
    "fundingratevalue lastfundingrate",
    "interval_hours": "intervalhours fundingintervalhours interval fundinginterval fundingperiod intervalmin "
    "fundingintervalminutes",
    "oi_usd": "oiusd openinterestusd openinterestvalue sumopeninterestvalue oivalue openinterestnotional "
    "notionalopeninterest usdopeninterest openinterestinusd",
    "oi_coins": "openinterest oi sumopeninterest openinterestamount openinterestcoins oicoins "
    "openinterestccy openinterestbase",
    "price_usd": "price priceusd",
    "mark": "markprice mark markpx",
    "index": "indexprice index_price indexpx oracleprice oraclepx",
    "last": "lastprice last open openprice close closeprice",
    "side": "positionside positiontype posside side direction type optiontype cp putcall callput",
    "quantity": "quantity qty size amount contracts filledquantity baseamount volume",
    "value_usd": "valueusd usdvalue value notional notionalusd sizeusd usd quoteamount",
    "strike": "strike strikeprice k",
    "expiry": "expiry expiration expirydate expirationdate maturity expirytime expirationtimestamp",
    "iv": "iv markiv impliedvolatility impliedvol sigma",
    "underlying_price": "underlyingprice spot underlying forward spotprice",
    "instrument_name": "instrumentname instrument instid symbol contract name",
    "order_id": "orderid oid id liquidationid",
}
"""Names of columns that mean one thing, without case and separators; the first that a file has counts."""
_SUFFIXES = (
    (re.compile(r"(apr|apy|annual(ized|ised)?|peryear|yearly)(pct|percent)$"), "percent_year"),
    (re.compile(r"(apr|annual(ized|ised)?|peryear|yearly)$"), "per_year"),
    (re.compile(r"(daily|perday|1d|24h)$"), "per_day"),
    (re.compile(r"8h(pct|percent)$"), "percent_8h"),
    (re.compile(r"(bps8h|8hbps)$"), "bps_8h"),
    (re.compile(r"(8h|per8h)$"), "per_8h"),
    (re.compile(r"(1hpct|hourlypct)$"), "percent_hour"),
    (re.compile(r"(1h|hourly|perhour)$"), "per_hour"),
    (re.compile(r"(pct|percent|percentage)$"), "percent"),
    (re.compile(r"bps$"), "bps"),
)
"""Ends of a rate's name that state its unit."""
_FLOORS = (0.0001, 0.0000125, 0.00005, 0.000025, 0.0003)
"""Rates of quiet times, as fractions of 8, 1, 4, 2 and 24 hours (interest of 0.03 % a day)."""
_LEAST = 10
_SETTLED = re.compile(r"settle|paid|payment|realized|applied|fundingratehistory|funding_rate_history", re.I)
_FORCED = re.compile(r"liq|forceorder|force_order", re.I)


def guessed_plan(source: Source, head: Chunk, table: str | None, given: Given) -> ImportPlan:
    """Return how a file is read whose columns have the library's names, or names that mean one thing."""
    exact = _own_table(source, head, table, given)
    if exact is not None:
        return make_plan(exact, given)
    found = _columns(head)
    if table is None:
        return _plan(source, head, _table(source, head, found, given), found, given)
    return _plan(source, head, table, found, given)


def _own_table(source: Source, head: Chunk, table: str | None, given: Given) -> str | None:
    """Return the table that a file is an export of: it has all columns that the table needs."""
    stated = {*given.set, *given.map}
    fitting = []
    for name in [table] if table is not None else archive_tables():
        columns = archive_table(name).columns
        needed = {c for c in columns if c not in archive_table(name).optional and c not in stated}
        if table is not None:
            plan = make_plan(name, given)
            needed = {c for c in needed if plan.required(c) and c not in plan.defaults}
        elif "rate_bps_8h" not in columns:
            needed -= {"resolution"}
        if needed <= {*head.columns}:
            fitting.append((len({*columns} & {*head.columns}), name))
    if not fitting:
        return None
    named = [name for _, name in fitting if name in source.name]
    if named:
        return max(named, key=len)
    most = max(count for count, _ in fitting)
    best = [name for count, name in fitting if count == most]
    best = [name for name in best if not _other_kind(name, head)] or best
    best = [name for name in best if _COMPUTED.search(name) is None] or best
    if len(best) > 1 and table is None:
        raise Unclear(
            f"{source}: its columns are those of {' and '.join(best)}: say which with --table",
            "--table",
            best,
        )
    return best[0]


_COMPUTED = re.compile("^markets_|_top_symbols$|_totals$")
"""Tables that services compute of others, which have the same columns."""


def _other_kind(name: str, head: Chunk) -> bool:
    """Return whether a column ``kind`` or ``side`` has words that a table does not allow."""
    for column in ("kind", "side"):
        allowed = archive_table(name).columns.get(column)
        if allowed is not None and allowed.allowed and column in head.columns:
            words = {text.lower() for text in encoded(head.columns[column]).texts}
            if not words <= {*allowed.allowed}:
                return True
    return False


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _columns(head: Chunk) -> dict[str, str]:
    """Return the file's column of each name of `_NAMES` that it has."""
    plain: dict[str, str] = {}
    for column in head.columns:
        plain.setdefault(_plain(column), column)
    found: dict[str, str] = {}
    for meaning, names in _NAMES.items():
        known = [plain[name] for name in names.replace("_", "").split() if name in plain]
        known = [column for column in known if _can_be(meaning, head.columns[column])]
        if known:
            found[meaning] = known[0]
    if "rate" not in found:
        near = [column for column in head.columns if re.search(r"funding.*rate|rate.*funding", column, re.I)]
        if len(near) == 1:
            found["rate"] = near[0]
    if "time" not in found:
        stamps = [name for name, values in head.columns.items() if pa.types.is_timestamp(values.type)]
        if len(stamps) == 1:
            found["time"] = stamps[0]
    return found


_WORDS = ("symbol", "instrument_name", "exchange")
_AMOUNTS = ("oi_usd", "oi_coins", "underlying_price", "price_usd", "mark", "index", "last")


def _can_be(meaning: str, values: pa.ChunkedArray) -> bool:
    """Return whether values may be of a meaning: names are text, and amounts are numbers that are not all 0.

    Feeds of backtrader fill a column of open interest with zeros.
    """
    if meaning not in (*_WORDS, *_AMOUNTS):
        return True
    rejections = Rejections(len(values))
    sizes = numbers(values, meaning, rejections, suffix="%")
    is_text = bool(rejections.bad.any())
    if meaning in _WORDS:
        return is_text or meaning != "symbol" or not np.isfinite(sizes).any()
    return not is_text and (
        meaning not in ("oi_usd", "oi_coins") or bool((sizes[np.isfinite(sizes)] != 0).any())
    )


def _table(source: Source, head: Chunk, found: Mapping[str, str], given: Given) -> str:
    """Return the table that a file fills, by what it has; several are a question."""
    tables: list[str] = []
    if "rate" in found:
        tables.append(_kind_of_rates(source, head, found, given))
    if "oi_usd" in found or ("oi_coins" in found and "strike" not in found and "iv" not in found):
        tables.append("oi_history")
    if "strike" in found or ("iv" in found and "instrument_name" in found):
        has_trades = any(_plain(column) in ("tradeid", "tradeseq") for column in head.columns)
        tables = ["options_trades" if has_trades else "options_snapshot"]
    elif {"side", "quantity"} <= found.keys() and _FORCED.search(f"{source.name} {' '.join(head.columns)}"):
        tables = ["liquidations_fills"]
    if not tables and ({"mark", "index", "last", "price_usd"} & found.keys()) and "side" not in found:
        tables.append("prices_history")
        _refuse_other_candles(source, found)
    if len(tables) == 1 and "time" in {*found, *given.map, *given.set}:
        return tables[0]
    if len(tables) > 1:
        raise Unclear(
            f"{source}: its columns fill {' and '.join(tables)}: say which with --table", "--table", tables
        )
    raise Unclear(
        f"{source}: what its columns are is not known: say the table with --table NAME, and its columns with "
        f"--map NAME=COLUMN; the file has {', '.join(head.columns)[:300]}",
        "--table",
        archive_tables(),
    )


_OTHER_CANDLES = (
    (re.compile(r"funding", re.I), "funding_history"),
    (re.compile(r"open.?interest|(?<![a-z])oi(?![a-z])", re.I), "oi_history"),
    (re.compile(r"dvol|volatility|(?<![a-z])iv(?![a-z])", re.I), "volatility_index_published"),
    (re.compile(r"premium", re.I), "funding_history"),
)
"""Words of names of files whose candles are not of prices, and the table that they may be of."""


def _refuse_other_candles(source: Source, found: Mapping[str, str]) -> None:
    """Ask what candles are where the name of their file says that they are not of prices."""
    if found.get("last", "").lower() not in ("open", "close"):
        return
    name = source.name.rsplit("/", 1)[-1]
    table = next((table for pattern, table in _OTHER_CANDLES if pattern.search(name)), None)
    if table is None:
        return
    column = "index_pct" if table == "volatility_index_published" else "rate_bps_8h"
    column = "oi_usd" if table == "oi_history" else column
    unit = " and --unit UNIT" if table == "funding_history" else ""
    raise Unclear(
        f"{source}: its columns are those of candles of prices, and its name is of {table}: "
        f"say --table {table} and --map {column}={found['last']}{unit}, or --table prices_history",
        "--table",
        [table, "prices_history"],
    )


def _kind_of_rates(source: Source, head: Chunk, found: Mapping[str, str], given: Given) -> str:
    """Return whether rates are payments or samples, by the time between rows of a series."""
    if "time" not in found:
        return "funding_settlements"
    stamps = _stamps(head, found, given)
    series = np.zeros(len(stamps), dtype=np.int64)
    for name in ("symbol", "exchange"):
        if name in found:
            codes = encoded(head.columns[found[name]]).codes.astype(np.int64)
            series = series * (int(np.max(codes, initial=0)) + 2) + codes + 1
    apart = _typical_hours(stamps, series)
    words = f"{source.name} {' '.join(head.columns)}"
    if apart is None or apart < 0.9:
        if apart is None and _SETTLED.search(words):
            return "funding_settlements"
        if apart is not None:
            return "funding_history"
    elif apart >= 1.9 or _SETTLED.search(words) or _is_hourly(source, head, found, given):
        return "funding_settlements"
    choices = ["funding_settlements", "funding_history"]
    raise Unclear(
        f"{source}: its rates may be payments (--table funding_settlements) or samples "
        "(--table funding_history): say which",
        "--table",
        choices,
    )


def _is_hourly(source: Source, head: Chunk, found: Mapping[str, str], given: Given) -> bool:
    """Return whether rows or their venue state an interval of one hour."""
    venue = given.set.get("exchange", names_in_path(source).get("exchange", ""))
    if not venue and "exchange" in found:
        texts = encoded(head.columns[found["exchange"]]).texts
        venue = texts[0].lower() if len(texts) == 1 else ""
    known = VENUES.get(venue)
    return known is not None and known.interval_hours == 1.0


def _stamps(head: Chunk, found: Mapping[str, str], given: Given) -> Array:
    rejections = Rejections(len(head))
    stamps = instants(head.columns[found["time"]], "time", rejections, tz=dt.UTC)
    return np.where(stamps.isna(), np.iinfo(np.int64).min, stamps.asi8)


def _typical_hours(stamps: Array, series: Array) -> float | None:
    """Return the median time between rows of a series that lie on whole hours; None where it is not known."""
    order = np.lexsort((stamps, series))
    stamps = stamps[order]
    series = series[order]
    apart = np.diff(stamps)[np.diff(series) == 0] / 3.6e9
    apart = apart[apart > 0]
    if not apart.size:
        return None
    on_hours = np.mean((stamps + 60_000_000) % 3_600_000_000 <= 120_000_000)
    return float(np.median(apart)) if on_hours > 0.8 else min(float(np.median(apart)), 0.5)


def _plan(source: Source, head: Chunk, table: str, found: Mapping[str, str], given: Given) -> ImportPlan:
    """Return a plan that takes each column by its name, and says units that names or sizes state."""
    columns = archive_table(table).columns
    stated = {*given.set, *given.map}
    mapped = {
        name: column
        for name, column in found.items()
        if (name in columns or name == "interval_hours") and name not in stated and name not in head.columns
    }
    fixed: dict[str, str] = {}
    unit = given.unit
    if "rate_bps_8h" in columns and "rate" in found and not {"rate_bps_8h"} & {*stated, *head.columns}:
        mapped["rate_bps_8h"] = found["rate"]
        unit = unit or _unit_of_rates(source, head, found["rate"])
    if table == "oi_history" and "oi_usd" not in {*mapped, *stated, *head.columns} and "oi_coins" in found:
        mapped["oi_usd"] = found["oi_coins"]
        unit = _unit_of_interest(source, head, found, mapped, stated, unit)
    if table == "prices_history" and "price_usd" not in {*mapped, *stated, *head.columns}:
        column = next((found[name] for name in ("mark", "index", "last") if name in found), None)
        if column is not None:
            kind = next(
                (name for name in ("mark", "index") if found.get(name) == column), _kind_in_path(source)
            )
            mapped["price_usd"] = column
            fixed = {} if "kind" in stated else {"kind": kind}
    if (
        "fill_price_usd" in columns
        and "fill_price_usd" not in {*stated, *head.columns}
        and "price_usd" in found
    ):
        mapped["fill_price_usd"] = found["price_usd"]
    if "strike" in columns:
        _options(head, found, mapped)
        unit = unit or _unit_of_volatility(source, head, found)
    time_column = mapped.get("time", "time")
    tz = given.tz or ("UTC" if re.search(r"utc", time_column, re.IGNORECASE) else None)
    if "side" in columns and "side" not in stated:
        words = _OPTION_TYPES if "strike" in columns else _POSITIONS
        column = _column_of_words(head, words) if "strike" in columns or "order_id" in columns else ""
        mapped |= {"side": column} if column else {}
    whole = given._replace(
        tz=tz,
        map={**mapped, **given.map},
        set={**_path_words(source, head, mapped, columns, stated), **fixed, **given.set},
        unit=unit,
    )
    is_spaced = table == "funding_settlements" and "interval_hours" not in {
        *whole.map,
        *whole.set,
        *head.columns,
    }
    return make_plan(table, whole, is_spaced=is_spaced)


def _kind_in_path(source: Source) -> str:
    """Return the kind of the candles of a file: that of the mark price or the index if its name says so."""
    name = source.name.rsplit("/", 1)[-1].lower()
    kinds = [kind for kind in ("mark", "index") if re.search(rf"(?<![a-z]){kind}(?!et)", name)]
    return kinds[0] if len(kinds) == 1 else "last"


def _path_words(
    source: Source, head: Chunk, mapped: Mapping[str, str], columns: Any, stated: set[str]
) -> dict[str, str]:
    """Return venue and symbol as names of the file and its folders state them, where nothing else does."""
    have = {*mapped, *stated, *head.columns}
    return {
        name: word for name, word in names_in_path(source).items() if name in columns and name not in have
    }


def _options(head: Chunk, found: Mapping[str, str], mapped: dict[str, str]) -> None:
    """Take the column of instruments as such, where its values are names of options."""
    for meaning in ("instrument_name", "symbol"):
        column = found.get(meaning)
        if column is None:
            continue
        texts = encoded(head.columns[column]).texts[:20]
        if texts and all(market_of(text).kind == "option" for text in texts):
            mapped["instrument_name"] = column
            if mapped.get("symbol") == column:
                del mapped["symbol"]
            return
    mapped.pop("instrument_name", None)


_OPTION_TYPES = frozenset({"c", "p", "call", "put", "calls", "puts"})
_POSITIONS = frozenset({"long", "short", "longs", "shorts"})


def _column_of_words(head: Chunk, words: frozenset[str]) -> str:
    """Return the column that has some words only; empty without one."""
    for column, values in head.columns.items():
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            texts = {text.lower() for text in encoded(values).texts}
            if texts and texts <= words:
                return column
    return ""


def _sizes(head: Chunk, column: str) -> Array:
    values = np.abs(numbers(head.columns[column], column, Rejections(len(head)), suffix="%"))
    return values[np.isfinite(values) & (values > 0)]


def _unit_of_rates(source: Source, head: Chunk, column: str) -> str:
    """Return the unit of rates that their name or their size states."""
    plain = _plain(column)
    for pattern, unit in _SUFFIXES:
        if pattern.search(plain):
            return unit
    values = head.columns[column]
    if pa.types.is_string(values.type) and any(text.endswith("%") for text in encoded(values).texts):
        return "percent"
    sizes = _sizes(head, column)
    median = float(np.median(sizes)) if sizes.size else 0.0
    at_floor = bool(sizes.size) and float(np.mean(np.isin(np.round(sizes, 9), _FLOORS))) > 0.02
    if 1e-7 < median < 0.0015 and (at_floor or sizes.size < _LEAST or sizes.max() < 0.03):
        return "native"
    if at_floor and median < 0.005:
        return "native"
    if sizes.size >= _LEAST and np.mean(np.isclose(sizes, 0.01, rtol=1e-9)) > 0.05 and median < 0.05:
        return "percent"
    raise Unclear(
        f"{source}: the unit of {column} is not clear, its median is {median:.4g}: say it with --unit: "
        "native (a fraction of the interval), percent, bps, bps_8h, per_8h, per_year, percent_year",
        "--unit",
        ["native", "percent", "bps", "bps_8h", "per_8h", "per_day", "per_year", "percent_year"],
    )


def _unit_of_interest(
    source: Source,
    head: Chunk,
    found: Mapping[str, str],
    mapped: dict[str, str],
    stated: set[str],
    unit: str | None,
) -> str:
    """Return the unit of a column of open interest whose name says none."""
    price = found.get("mark") or found.get("index") or found.get("price_usd") or found.get("last")
    if unit is None:
        raise Unclear(
            f"{source}: {found['oi_coins']} may be in USD, coins or contracts: say it with --unit usd, "
            "--unit coins, or --unit contracts and --set contract_size=COINS",
            "--unit",
            ["usd", "coins", "contracts"],
        )
    if unit in ("coins", "contracts") and price is not None and "price_usd" not in stated:
        mapped["price_usd"] = price
    return unit


def _unit_of_volatility(source: Source, head: Chunk, found: Mapping[str, str]) -> str | None:
    """Return whether volatilities are percent, by their median: no market is at 300 %, nor at 3 %."""
    if "iv" not in found:
        return None
    sizes = _sizes(head, found["iv"])
    if not sizes.size:
        return None
    median = float(np.median(sizes))
    if median > 8.0:
        return "percent"
    if median < 3.0:
        return "decimal"
    raise Unclear(
        f"{source}: {found['iv']} has the median {median:.4g}, which may be decimal or percent: say --unit "
        "decimal or --unit percent",
        "--unit",
        ["decimal", "percent"],
    )
