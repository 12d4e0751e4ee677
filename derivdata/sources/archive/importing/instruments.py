"""Instruments and units of a chunk: symbols, venues, expiries, strikes, sides, and converted amounts.

Open interest in coins becomes USD by the prices of the file or of the archive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.importing.adjustments import amount_of
from derivdata.sources.archive.importing.cells import Rejections, Words, distinct, encoded
from derivdata.sources.archive.importing.market_names import (
    Market,
    cme_expiry,
    is_of_markets,
    known_interval,
    made_name,
    market_of,
    may_name_dated_contracts,
    plain_name,
    symbol_of_contract,
    symbol_of_dated,
)
from derivdata.sources.archive.importing.plan import (
    IN_COINS,
    RATE_UNITS,
    ImportPlan,
    is_of_contracts,
    takes_contract_size,
)
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.contracts import contract, hip3_contract
from derivdata.tables.frames import require_decimal_volatility
from derivdata.tables.schema import Table

RANK = "quote_rank"
CONTRACT = "contract_name"


def read_names(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Replace market names by symbols; fill in venue and instrument from these names."""
    table = plan.table
    if "symbol" not in table.columns:
        return
    if "symbol" not in columns and "instrument_name" in columns:
        columns["symbol"] = columns["instrument_name"]
    if "symbol" not in columns:
        return
    words: Words = columns["symbol"]
    markets = [market_of(text) for text in words.texts]
    columns[CONTRACT] = words
    columns[RANK] = np.array([*_priorities(plan, markets, words), 0])[words.codes]
    if "exchange" in table.columns and "exchange" not in columns and any(m.venue for m in markets):
        columns["exchange"] = words.replaced(lambda text: market_of(text).venue or None)
    if "instrument_name" in table.columns and "instrument_name" not in columns:
        named = words.replaced(_name_of_instrument)
        if named.texts:
            columns["instrument_name"] = named
    columns["symbol"] = words.replaced(lambda text: market_of(text).symbol)
    if "exchange" in columns and any(":" in text for text in columns["symbol"].texts):
        _name_hip3_contracts(columns, rejections)
    _refuse_others(words, markets, plan, rejections)
    _refuse_spot(columns, words, plan, rejections)


def _name_of_instrument(text: str) -> str | None:
    """Return the name of an option or a dated future; None for another market."""
    market = market_of(text)
    return market.name if market.kind in ("option", "future") else None


def _priorities(plan: ImportPlan, markets: list[Market], words: Words) -> list[int]:
    """Return the priority of each name among rows of one key, lowest first.

    Chunks of a file may have a spot market and its contract apart, so `_refuse_spot` sees one of them.
    """
    if plan.table.name == "prices_spot":
        return [market.rank for market in markets]
    likeness = [_likeness_of_spot(text) for text in words.texts]
    return [market.rank * _LIKENESSES + like for market, like in zip(markets, likeness, strict=True)]


def _name_hip3_contracts(columns: dict[str, Any], rejections: Rejections) -> None:
    """Set venue and symbol of contracts of Hyperliquid's dexes as the adapters do."""
    venues = columns["exchange"]
    symbols = columns["symbol"]
    is_named = ~venues.is_missing & ~symbols.is_missing
    code = np.where(is_named, venues.codes.astype(np.int64) * len(symbols.texts) + symbols.codes, -1)
    codes, places = np.unique(code, return_inverse=True)
    renamed: list[tuple[str | None, str | None]] = []
    for place, pair in enumerate(codes.tolist()):
        if pair < 0:
            renamed.append((None, None))
            continue
        venue, symbol = divmod(pair, len(symbols.texts))
        names = venues.texts[venue], symbols.texts[symbol]
        try:
            renamed.append(hip3_contract(*names))
        except ValueError as problem:
            renamed.append(names)
            rejections.reject(places == place, str(problem))
    columns["exchange"] = distinct([venue for venue, _ in renamed], places)
    columns["symbol"] = distinct([symbol for _, symbol in renamed], places)


_PLAIN_PAIR = re.compile(r"[A-Z0-9]+(?P<separator>[-_/]?)(USDT|USDC|USD)", re.IGNORECASE)
"""Names of pairs that are perpetual contracts on some venues, and spot markets on others."""


def _refuse_spot(columns: dict[str, Any], words: Words, plan: ImportPlan, rejections: Rejections) -> None:
    """Reject pairs without a word for perpetual contracts next to those with one: they are spot markets.

    ``BTC-USDT`` is the spot market of a venue that has ``BTC-USDT-SWAP``, as ``BTC/USDT`` is next to
    ``BTCUSDT``.
    """
    likeness = np.array([_likeness_of_spot(text) for text in words.texts], dtype=np.int64)
    if plan.table.name == "prices_spot" or np.unique(likeness).size < 2:
        return
    pairs = pd.Series([contract(text)[:2] for text in words.texts], dtype=object)
    group = np.append(pd.factorize(pairs)[0], -1)[words.codes]
    if "exchange" in columns:
        group = group + (columns["exchange"].codes.astype(np.int64) + 1) * (len(pairs) + 1)
    like = np.append(likeness, 0)[words.codes]
    pairs_of_group = np.unique(group * _LIKENESSES + like)
    least = pairs_of_group[np.append(True, np.diff(pairs_of_group // _LIKENESSES) > 0)]  # of each group
    least_of_row = least[np.searchsorted(least // _LIKENESSES, group)] % _LIKENESSES
    texts = words.strings()
    rejections.reject(
        like > least_of_row,
        lambda row: (
            f"symbol={texts[row]!r} is a spot market (the perpetual contract has another name): omit it"
        ),
    )


_LIKENESSES = 3


def _likeness_of_spot(text: str) -> int:
    """Return 0 for a contract name, 1 for a pair, and 2 for a pair with a slash."""
    pair = _PLAIN_PAIR.fullmatch(text)
    if pair is None:
        return 0
    return 2 if pair["separator"] == "/" else 1


_TOTALS = frozenset({"total", "totals", "subtotal", "grand total", "average", "mean", "all coins"})
"""Words of total rows in the column of market names."""


_OF_INSTRUMENTS = {
    "option": ("an option", "options_snapshot"),
    "future": ("a dated future", "futures_history"),
}
"""By kind of a market, its words in messages and the table of its prices."""
_BOOKS = ("orderbook_book", "orderbook_depth_history")


def _is_of_perpetuals(table: Table) -> bool:
    return is_of_contracts(table) or table.name in _BOOKS


def _refuse_others(words: Words, markets: list[Market], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject names of unknown patterns, and contracts that a table of perpetuals does not store."""
    reasons: dict[int, str] = {}
    for place, market in enumerate(markets):
        if words.texts[place].lower() in _TOTALS:
            reasons[place] = f"symbol={market.name!r} is a total of several markets: omit it"
        elif market.kind == "cross":
            reasons[place] = f"symbol={market.name!r} is not quoted in USD: omit it"
        elif market.kind == "unknown":
            reasons[place] = (
                f"symbol={market.name!r} is not a known market name: map it to a symbol with --map-value "
                f"symbol:{market.name}=BTC"
            )
        elif market.kind in _OF_INSTRUMENTS and _is_of_perpetuals(plan.table):
            kind, table = _OF_INSTRUMENTS[market.kind]
            advice = "omit it" if plan.table.name in _BOOKS else f"omit it, or import it as {table}"
            reasons[place] = (
                f"symbol={market.name!r} is {kind}, but {plan.table.name} is for perpetual contracts: "
                f"{advice}"
            )
        elif market.kind == "spot" and plan.table.name != "prices_spot":
            reasons[place] = f"symbol={market.name!r} is a spot market: omit it"
    for place, why in reasons.items():
        rejections.reject(words.codes == place, why)


DATED_TYPES = frozenset(
    "CURRENT_QUARTER NEXT_QUARTER CURRENT_MONTH NEXT_MONTH CURRENT_QUARTER_DELIVERING ALL "
    "THIS_WEEK NEXT_WEEK QUARTER".split()
)
"""Words for contracts other than perpetuals, and for all of a pair: Binance (COIN-M) and HTX, 2026."""


def reject_dated_contracts(
    chunk: Chunk, columns: dict[str, Any], plan: ImportPlan, rejections: Rejections
) -> None:
    """Reject rows of a coin or a pair if another column names a dated contract of it.

    HTX has ``contract_code`` next to ``symbol``, and Binance has ``contractType`` next to ``pair``. A column
    whose name does not indicate markets counts only if all its texts are contracts of the row's coin, because
    an identifier may end in a date. Index prices belong to the coin in any row, so they are not rejected.
    """
    if "symbol" not in columns or not _is_of_perpetuals(plan.table):
        return
    symbols: Words = columns["symbol"]
    is_index = np.zeros(len(chunk), dtype=bool)
    if plan.table.name == "prices_history" and "kind" in columns:
        is_index = columns["kind"].is_in(["index"])
    own = plan.source_of("symbol", chunk.columns)  # its words are replaced as the caller states
    for name, values in chunk.columns.items():
        if name == own:
            continue
        if plain_name(name) == "contracttype":
            words = encoded(values)
            is_dated = words.is_in([text for text in words.texts if text.upper() in DATED_TYPES])
        elif may_name_dated_contracts(name, values):
            words = encoded(values)
            is_dated = _are_dated(name, words, symbols)
        else:
            continue
        texts = words.strings()
        rejections.reject(
            is_dated & ~is_index,
            lambda row, name=name, texts=texts: (  # type: ignore[misc]
                f"{name}={texts[row]!r} is a dated future, but {plan.table.name} is for perpetual contracts: "
                f"omit it, or import it as futures_history (or drop column {name} if it does not name "
                "contracts)"
            ),
        )


def _are_dated(name: str, words: Words, symbols: Words) -> Array:
    """Return a mask of rows with a dated contract of their coin in a column of contract names.

    A date in the name of another coin, or in an identifier, does not apply to the row.
    """
    coins = symbols.strings()
    has_both = ~words.is_missing & ~symbols.is_missing
    if not is_of_markets(name):
        is_contract = words.replaced(symbol_of_contract).strings() == coins
        if not is_contract[has_both].all():
            return np.zeros(len(coins), dtype=bool)
    is_dated: Array = has_both & (words.replaced(symbol_of_dated).strings() == coins)
    return is_dated


def complete(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Derive expiry, strike and side from names of options and futures, or the names from these columns."""
    table = plan.table
    if "instrument_name" not in table.columns or "expiry" not in table.columns:
        return
    name = plan.constants.get("instrument_name")
    if name is not None and "strike" in table.columns and market_of(name).kind != "option":
        raise ArchiveError(
            f"instrument_name={name!r} is not the name of an option and cannot apply to all rows: omit "
            "it, and names are made from symbol, expiry, strike and side"
        )
    if "instrument_name" in columns:
        _from_names(columns, plan, rejections)
    elif {"symbol", "expiry", "strike", "side"} <= columns.keys() and "strike" in table.columns:
        columns["instrument_name"] = _made_names(columns)


def _from_names(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Derive expiry, strike and side from instrument names; reject rows that contradict their name."""
    words: Words = columns["instrument_name"]
    texts = words.strings()
    columns["instrument_name"] = words.replaced(_name_as_stored)
    expiries = _expiries(words, _year(columns))
    has_strikes = "strike" in plan.table.columns
    if "expiry" not in columns:
        columns["expiry"] = pd.DatetimeIndex(expiries).tz_localize("UTC")
    elif has_strikes:
        stated = times.naive_utc(columns["expiry"])
        is_other_day = stated.floor("D") != pd.DatetimeIndex(expiries).floor("D")
        rejections.reject(
            np.asarray(~np.isnat(expiries) & ~stated.isna() & is_other_day),
            lambda row: f"instrument_name={texts[row]!r} does not expire on expiry={stated[row]}",
        )
    if not has_strikes:
        _take_named_hours(columns, expiries)
        return
    _take_hours_of_dates(columns, expiries)
    strikes = words.mapped(lambda text: market_of(text).strike).astype(np.float64)
    if "strike" in columns:
        strike = columns["strike"]
        rejections.reject(
            np.abs(strikes - strike) > 1e-9 * np.maximum(np.abs(strike), 1.0),
            lambda row: f"instrument_name={texts[row]!r} and strike={strike[row]:g} differ",
        )
    else:
        columns["strike"] = strikes
    sides = words.replaced(lambda text: market_of(text).side or None)
    if "side" in columns:
        side = columns["side"].strings()
        has_both = ~sides.is_missing & ~columns["side"].is_missing
        rejections.reject(
            has_both & (sides.strings() != side),
            lambda row: f"instrument_name={texts[row]!r} is not a {side[row]}",
        )
    else:
        columns["side"] = sides


def _name_as_stored(text: str) -> str:
    """Return the name of an option as it is stored; the name of another instrument unchanged."""
    market = market_of(text)
    return market.name if market.kind == "option" else text


def _expiries(words: Words, year: int | None) -> Array:
    """Return the expiry of instruments from their names; `year` is the year of a row, for CME contracts."""
    # The last entry is missing: a missing name has the code -1.
    expiries = np.full(len(words.texts) + 1, "NaT", dtype="datetime64[us]")
    for place, text in enumerate(words.texts):
        market = market_of(text)
        expiry = market.expiry
        if expiry is None and year is not None:
            expiry = cme_expiry(market.name, year)
        if expiry is not None:
            expiries[place] = expiry
    return expiries[words.codes]


def _take_named_hours(columns: dict[str, Any], stamps: Array) -> None:
    """Set the hour of expiry from a future's name if the day is the same.

    A date without a time is 08:00 UTC; contracts of CME expire at 16:00 in London.
    """
    stated = pd.DatetimeIndex(columns["expiry"])
    named = pd.DatetimeIndex(stamps).tz_localize("UTC")
    is_same_day = np.asarray(stated.floor("D") == named.floor("D"))
    columns["expiry"] = pd.DatetimeIndex(np.where(is_same_day, named, stated))


_HOUR_OF_DATES = pd.Timedelta(8, "h")


def _take_hours_of_dates(columns: dict[str, Any], stamps: Array) -> None:
    """Set the expiry hour of Delta Exchange options, 12:00 UTC, if the file has only the date."""
    stated = pd.DatetimeIndex(columns["expiry"])
    named = pd.DatetimeIndex(stamps).tz_localize("UTC")
    is_date = np.asarray(
        (stated - stated.floor("D") == _HOUR_OF_DATES) & (stated.floor("D") == named.floor("D"))
    )
    columns["expiry"] = pd.DatetimeIndex(np.where(is_date, named, stated))


def _year(columns: dict[str, Any]) -> int | None:
    """Return the year of the first row with a time; None without one."""
    if "time" not in columns:
        return None
    stamps = columns["time"].dropna()
    return int(stamps[0].year) if len(stamps) else None


def _made_names(columns: dict[str, Any]) -> Words:
    """Return names in Deribit's format, ``BTC-27MAR26-90000-C``, from symbol, expiry, strike and side."""
    frame = pd.DataFrame(
        {
            "symbol": columns["symbol"].strings(),
            "expiry": columns["expiry"],
            "strike": columns["strike"],
            "side": columns["side"].strings(),
        }
    )
    group = frame.groupby([*frame], sort=False, dropna=False)
    firsts = frame.loc[group.head(1).index]
    names: list[str | None] = []
    for symbol, expiry, strike, side in firsts.itertuples(index=False):
        is_complete = pd.notna([symbol, expiry, strike, side]).all()
        names.append(made_name(symbol, times.us(expiry), strike, side) if is_complete else None)
    return distinct(names, np.asarray(group.ngroup()))


SPACED_HOURS = 8.0
"""Provisional interval of rates until the spacing of all rows determines it."""


def convert_units(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Convert rates, amounts, volatilities and shares to the table's units."""
    if "rate_bps_8h" in columns:
        _convert_rate(columns, plan, rejections)
    if takes_contract_size(plan.table):
        _convert_amounts(columns, plan, rejections)
    if "iv" in columns:
        _convert_volatility(columns, plan)
    if "long_short_ratio" in plan.table.columns:
        _convert_ratio(columns, plan, rejections)


def _convert_amounts(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    if plan.unit in IN_COINS and (price := columns.get("price_usd")) is not None:
        rejections.reject(price <= 0, lambda row: f"price_usd={price[row]:g} is not positive")
    if "contract_size" in columns:
        _of_contracts(columns, plan)
    elif plan.unit == "contracts" and not _of_known_contracts(columns, rejections):
        raise ArchiveError(
            "--unit contracts needs the contract size in coins: pass --set contract_size=0.01, or its "
            "column with --map contract_size=COLUMN"
        )
    if "filled_quantity" in plan.table.columns:
        _convert_value(columns)


def _of_known_contracts(columns: dict[str, Any], rejections: Rejections) -> bool:
    """Multiply open interest by the coins per contract in the venues' facts; False without their names.

    Rows of the contracts whose size is unknown, or in USD, are rejected. A chunk with only such rows does not
    raise, because the result would then depend on where chunks end.
    """
    if "exchange" not in columns or CONTRACT not in columns:
        return False
    venues = columns["exchange"].strings().tolist()
    names = columns[CONTRACT].strings().tolist()
    pairs = [*zip(venues, names, strict=True)]
    sizes: dict[tuple[str, str], float] = {}
    sizes_in_usd: dict[tuple[str, str], float] = {}
    for venue, name in {*pairs}:
        if venue is None or name is None:
            continue
        amount = amount_of(venue, name)
        if amount is not None and amount.is_usd:
            sizes_in_usd[venue, name] = amount.size
        elif amount is not None:
            sizes[venue, name] = amount.size
    size_of_rows = np.array([sizes.get(pair, np.nan) for pair in pairs])

    def reason(row: int) -> str:
        if pairs[row] in sizes_in_usd:
            return (
                f"a contract of {names[row]} on {venues[row]} is {sizes_in_usd[pairs[row]]:g} USD: multiply "
                "its open interest by this size, and import its rows separately with --unit usd"
            )
        return (
            f"the contract size of {names[row]} on {venues[row]} is unknown: import its rows separately, "
            "with --unit contracts --set contract_size=COINS"
        )

    rejections.reject(np.isnan(size_of_rows), reason)
    columns["oi_usd"] = columns["oi_usd"] * size_of_rows
    return True


def _convert_volatility(columns: dict[str, Any], plan: ImportPlan) -> None:
    """Convert percent to decimal; raise where the unit is not stated and values look like percent."""
    if plan.unit is None:
        try:
            require_decimal_volatility(
                columns["iv"], "pass --unit percent, or --unit decimal if it is decimal"
            )
        except ValueError as fault:
            raise ArchiveError(str(fault)) from None
    if plan.unit == "percent":
        columns["iv"] = columns["iv"] / 100


def _of_contracts(columns: dict[str, Any], plan: ImportPlan) -> None:
    """Multiply amounts in contracts by the contract size."""
    names = ("oi_usd",) if plan.table.name == "oi_history" else ("quantity", "filled_quantity")
    for name in names:
        if name in columns:
            columns[name] = columns[name] * columns["contract_size"]


def _convert_value(columns: dict[str, Any]) -> None:
    """Compute the value of liquidations as price × quantity if the file has none."""
    size = _first_known(columns, ("filled_quantity", "quantity"))
    price = _first_known(columns, ("fill_price_usd", "order_price_usd"))
    if size is None or price is None:
        return
    stated = columns.get("value_usd", np.full(len(size), np.nan))
    columns["value_usd"] = np.where(np.isnan(stated), price * size, stated)


def _first_known(columns: dict[str, Any], names: Sequence[str]) -> Array | None:
    """Return the value of the first of some columns that has one in a row; None without any column."""
    result: Array | None = None
    for name in names:
        if name not in columns:
            continue
        result = columns[name] if result is None else np.where(np.isnan(result), columns[name], result)
    return result


def _convert_ratio(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Compute the ratio from the shares if both exist, else the shares from the ratio."""
    nothing = np.full(len(rejections.bad), np.nan)
    long = columns.get("long_share", nothing)
    short = columns.get("short_share", nothing)
    if _are_percent(long, short):
        long = columns["long_share"] = long / 100
        short = columns["short_share"] = short / 100
    stated = columns.get("long_short_ratio", nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.isnan(stated) & ~np.isnan(long) & ~np.isnan(short), long / short, stated)
        share = ratio / (1 + ratio)
    rejections.reject(
        ~np.isfinite(ratio), "long_short_ratio is missing, and so are the shares to compute it from"
    )
    if "long_share" in plan.sources:  # an export of this library comes back as it is
        _refuse_other_ratios(ratio, long, short, rejections)
    columns["long_short_ratio"] = ratio
    if "long_share" not in columns:  # an export with empty shares comes back as it was
        columns["long_share"] = share
    if "short_share" not in columns:
        columns["short_share"] = 1 - columns["long_share"]


def _refuse_other_ratios(ratio: Array, long: Array, short: Array, rejections: Rejections) -> None:
    """Reject ratios that contradict the shares next to them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        differs = np.abs(np.log(ratio / (long / short))) > _MAX_APART
    rejections.reject(
        differs,
        lambda row: (
            f"long_short_ratio={ratio[row]:g} contradicts the shares {long[row]:g} and {short[row]:g}"
        ),
    )


def _are_percent(long: Array, short: Array) -> bool:
    """Return whether shares are percent: both of each row add up to 100."""
    both = long + short
    sums = both[~np.isnan(both)]
    return bool(sums.size) and bool((np.abs(sums - 100) < _ROUNDING).all())


_MAX_APART = 0.1
"""Maximum log difference between a ratio and the ratio of the shares next to it. Above it, one is wrong."""
_ROUNDING = 1.5
"""Percentage points by which two rounded shares may miss 100."""


def _known_intervals(columns: dict[str, Any]) -> Array | None:
    """Return the interval of each row by facts of its venue and symbol; None if one is not known."""
    venues: Words | None = columns.get("exchange")
    symbols: Words | None = columns.get("symbol")
    if venues is None or symbols is None or not venues.texts:
        return None
    hours = np.full((len(venues.texts), len(symbols.texts) + 1), np.nan)
    for row, venue in enumerate(venues.texts):
        for column, symbol in enumerate([*symbols.texts, ""]):
            hours[row, column] = known_interval(venue, symbol) or np.nan
    of_rows = np.where(venues.is_missing, np.nan, hours[venues.codes, symbols.codes])
    if not (np.isfinite(of_rows) | venues.is_missing).all():
        return None
    return of_rows


def _convert_rate(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    rate = columns["rate_bps_8h"]
    if plan.unit in (None, "bps_8h"):
        return
    scale, hours = RATE_UNITS[plan.unit]
    own: Any = hours
    if hours is None and plan.is_spaced:
        own = SPACED_HOURS  # until the interval is known from the spacing of all rows
    elif hours is None:
        known = None if "interval_hours" in columns else _known_intervals(columns)
        if known is not None:
            columns["interval_hours"] = known
        if "interval_hours" not in columns:
            advice = "pass --set interval_hours=8 or --map interval_hours=COLUMN"
            if "exchange" not in columns:
                advice = "pass the venue first, with --set exchange=VENUE or --map exchange=COLUMN"
            raise ArchiveError(
                f"rates in {plan.unit} are per the venue's own interval, which the file does not state: "
                f"{advice}"
            )
        own = columns["interval_hours"]
        rejections.reject(np.isnan(own), "interval_hours is missing")
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["rate_bps_8h"] = units.convert(rate / scale, "native", "bps_8h", hours=own)


_PRICES = ("prices_history", "markets_symbol_exchanges")
_OLDEST = pd.Timedelta(1, "h")
_KINDS = ("last", "index", "mark")  # of prices at one time the last of these is used


def usd_from_coins(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return rows of ``oi_history`` whose ``oi_usd`` [coins] was multiplied by the price of its time.

    That is the row's ``price_usd``, or else the venue's newest of the hour before in the archive (mark, or
    else index, or else last), or else another venue's.
    """
    price = rows["price_usd"] if "price_usd" in rows else pd.Series(np.nan, index=rows.index)
    if price.isna().any():
        price = price.fillna(_price_in_archive(rows, archive))
    missing = np.flatnonzero(price.isna())
    if missing.size:
        first = rows.iloc[missing[0]]
        raise ArchiveError(
            f"oi_usd: {missing.size:,} of {len(rows):,} rows are in coins, and the archive has no price "
            f"of {first['symbol']} within the hour before {times.iso(first['time'])}: name the price "
            "column [USD] with --map price_usd=COLUMN, or import prices_history first"
        )
    return rows.assign(oi_usd=rows["oi_usd"] * price).drop(columns="price_usd", errors="ignore")


def _price_in_archive(rows: pd.DataFrame, archive: Archive) -> pd.Series:
    """Return the newest price of the hour before each row, of its venue or else of another."""
    prices = _prices(rows, archive)
    wanted = rows[["symbol", "exchange", "time"]].astype({"symbol": object, "exchange": object})
    wanted = wanted.assign(row=rows.index).sort_values("time", kind="stable")
    own = _newest(wanted, prices, ["symbol", "exchange"])
    other = _newest(wanted, prices, ["symbol"])
    return own.fillna(other).set_axis(wanted["row"])


def _newest(wanted: pd.DataFrame, prices: pd.DataFrame, by: list[str]) -> pd.Series:
    """Return the newest price of the hour before each row, of rows with the same values of `by`."""
    columns = prices[[*by, "time", "price_usd"]]
    return pd.merge_asof(wanted, columns, on="time", by=by, tolerance=_OLDEST)["price_usd"]


def _prices(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return the archive's prices of these symbols and times, sorted so that the last one counts."""
    first = rows["time"].min() - _OLDEST
    last = rows["time"].max() + pd.Timedelta(1, "us")
    symbols = sorted(set(rows["symbol"].astype(object)))
    frames = [archive.read(name, first, last, symbols=symbols) for name in _PRICES]
    columns = ["symbol", "exchange", "time", "price_usd", "kind"]
    # Tables have other categories each, and prices of markets have no kind.
    texts = dict.fromkeys(["symbol", "exchange", "kind"], object)
    frames = [frame.reindex(columns=columns).astype(texts) for frame in frames]
    prices = pd.concat(frames, ignore_index=True)
    prices = prices[prices["price_usd"] > 0].assign(rank=lambda p: p["kind"].map(_KINDS.index, "ignore"))
    return prices.sort_values(["time", "rank", "exchange"], na_position="first", kind="stable")
