"""Final processing of a layout's rows beyond names and units; layouts refer to it by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.market_names import ALWAYS_HOURLY, market_of
from derivdata.sources.archive.importing.plan import Adjust
from derivdata.sources.venues.binance import named as binance_contract
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.contracts import EXPIRY_HOUR, contract, option_coins
from derivdata.tables.payments import (
    SOURCES,
    VALID_HOURS,
    Payments,
    assign_intervals,
    merge_payments,
    rates_of,
)
from derivdata.tables.venue_facts import fact_value

REASON = "reason"
"""Column of a layout's rows with the reason of each rejection."""
_FIVE_MINUTES = pd.Timedelta(5, "min")
_LABELS_MOVED = pd.Timestamp("2026-06-25", tz="UTC")


def _no_reasons(frame: pd.DataFrame) -> pd.Series:
    """Return a column of missing reasons, to be filled for rejected rows."""
    return pd.Series(None, frame.index, dtype=object)


def added_up(frame: pd.DataFrame, *, conflicts: list[str] | None = None) -> pd.DataFrame:
    """Round the times of payments to the hour, and add up the payments after a halt.

    Times in files are some milliseconds or seconds early or late. Only payments with an interval are changed.
    A row that contradicts an earlier one of
    the same payment is omitted, and a text about it is added to `conflicts`; with None such rows are kept.
    """
    frame = frame.reset_index(drop=True)
    paid = frame["rate_bps_8h"].to_numpy(dtype=np.float64) * _intervals(frame) / 8.0
    merged = _merged(frame, paid, conflicts)
    rows = merged.rows
    result = frame.iloc[rows].assign(time=pd.DatetimeIndex(merged.times.view("datetime64[us]"), tz="UTC"))
    is_sum = merged.counts > _counts(frame)[rows]
    if is_sum.any():
        # The first payment's interval: a venue that halts does not change it before it has caught up.
        single = _intervals(frame)[rows] / _counts(frame)[rows]
        hours = np.where(is_sum, single * merged.counts, _intervals(frame)[rows])
        native = np.full(len(rows), np.nan)
        if "rate_native" in frame:
            native = result["rate_native"].to_numpy()
        result = result.assign(
            interval_hours=hours,
            rate_bps_8h=np.where(is_sum, rates_of(merged.native, hours), result["rate_bps_8h"]),
            rate_native=np.where(is_sum, merged.native, native),
            payment_count=merged.counts,
        )
    return result.sort_values("time", kind="stable")


def _intervals(frame: pd.DataFrame) -> Array:
    """Return the interval of each row in hours."""
    return np.asarray(frame["interval_hours"].to_numpy(dtype=np.float64))


def _counts(frame: pd.DataFrame) -> Array:
    """Return the number of payments in each row."""
    if "payment_count" not in frame:
        return np.ones(len(frame), dtype=np.int64)
    return np.asarray(frame["payment_count"].fillna(1).to_numpy(dtype=np.int64))


def _series(frame: pd.DataFrame) -> tuple[Array, Array]:
    """Return the number of each row's series, and the names of all series."""
    name = "symbol"
    if "contract_name" in frame:
        name = "contract_name"
    venues = pd.Categorical(frame["exchange"])
    contracts = pd.Categorical(frame[name])
    # A missing word has the code -1, so that there is one number more than there are words.
    width = len(contracts.categories) + 1
    codes = (venues.codes.astype(np.int64) + 1) * width + contracts.codes + 1
    numbers, used = pd.factorize(codes)
    venue_words = [None, *venues.categories]
    contract_words = [None, *contracts.categories]
    names = [f"{venue_words[code // width]} {contract_words[code % width]}" for code in used.tolist()]
    return numbers.astype(np.int64), np.array(names, dtype=object)


def _merged(frame: pd.DataFrame, paid_bps: Array, conflicts: list[str] | None) -> Payments:
    """Return one row for each payment, from the amount of each row [bps]."""
    series, names = _series(frame)
    stamps = frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
    counts = _counts(frame)
    return merge_payments(
        series,
        stamps,
        paid_bps / units.BPS,
        counts,
        names,
        conflicts,
        keep_conflicts=conflicts is None,
    )


def spaced(
    frame: pd.DataFrame, *, per_interval: bool = True, conflicts: list[str] | None = None
) -> pd.DataFrame:
    """Derive each payment's interval from the spacing of the contract's rows, because the file has none.

    The rates per interval were first read as rates per 8 hours. Payments after a halt become one row. An
    interval that these rows do not confirm is missing until the rows of the archive determine it. Venues that
    always pay hourly have an interval of an hour, even where rows are further apart. `conflicts` is as in
    `added_up`.
    """
    frame = frame.reset_index(drop=True)
    rates = frame["rate_bps_8h"].to_numpy(dtype=np.float64)
    merged = _merged(frame, rates, conflicts)
    is_hourly = frame["exchange"].astype(object).isin(ALWAYS_HOURLY).to_numpy()[merged.rows]
    stated = np.where(is_hourly, 1.0, np.nan)
    hours = assign_intervals(_series(frame)[0][merged.rows], merged.times, stated).hours
    # Sorting the places and then taking the rows once: sorting the result copies a million rows again.
    order = np.argsort(merged.times, kind="stable")
    rows = merged.rows[order]
    hours = hours[order] * merged.counts[order]
    native = merged.native[order]
    source = np.where(is_hourly[order], SOURCES.index("list"), SOURCES.index("spacing"))
    source = np.where(np.isnan(hours), -1, source)
    paid: dict[str, Any]
    if per_interval:
        paid = {"rate_bps_8h": rates_of(native, hours), "rate_native": native}
    else:
        paid = {"rate_bps_8h": rates[rows], "rate_native": np.nan}
    return frame.iloc[rows].assign(
        time=pd.DatetimeIndex(merged.times[order].view("datetime64[us]"), tz="UTC"),
        interval_hours=hours,
        payment_count=merged.counts[order],
        interval_source=pd.Categorical.from_codes(source, SOURCES),
        **paid,
    )


def state_times(stamps: pd.Series, *, inverse: bool) -> pd.Series:
    """Return the times to which the values in a daily file of Binance's metrics apply.

    Rows were labelled 00:05 to 00:00 of the next day, the time of their state. Since 2026-06-25, and for
    coin-margined contracts always, they are labelled 00:00 to 23:55 and refer to five minutes later.
    """
    first = stamps.min()
    last = stamps.max()
    is_early = first == last.floor("D") or last == first.floor("D") + pd.Timedelta("23:55:00")
    is_exact = first == first.floor("D") + _FIVE_MINUTES or last == last.floor("D")
    if is_early == is_exact:
        # A day that lacks its first or last row may look like both.
        is_early = inverse or first >= _LABELS_MOVED
    if is_early:
        return stamps + _FIVE_MINUTES
    return stamps


def _metrics(frame: pd.DataFrame) -> pd.DataFrame:
    if frame.empty:
        return frame
    inverse = "USD_" in str(frame["contract_name"].iloc[0])
    frame = frame.assign(time=state_times(frame["time"], inverse=inverse))
    if frame["time"].is_unique:
        return frame
    keys = [name for name in ("symbol", "time", "kind") if name in frame]
    return frame.drop_duplicates(keys, keep="last")  # duplicate labels: the later one is used


def _contracts_in_usd(frame: pd.DataFrame) -> pd.DataFrame:
    sizes = {name: binance_contract(name).size for name in set(frame["contract_name"])}
    return _metrics(frame.assign(oi_usd=frame["oi_usd"] * frame["contract_name"].map(sizes)))


def _dated(frame: pd.DataFrame) -> pd.DataFrame:
    """Set coin and expiry of dated futures from their names, without rows after the expiry."""
    names = frame["contract_name"]
    symbols: dict[str, str] = {}
    expiries: dict[str, Any] = {}
    for name in set(names):
        future = binance_contract(name)
        if not future.is_dated:
            raise ArchiveError(f"{name} is not a dated future")
        symbols[name] = future.symbol
        expiries[name] = future.expiry
    expiry = pd.to_datetime(names.map(expiries), unit="us", utc=True)
    symbol = names.map(symbols)
    return frame.assign(symbol=symbol, expiry=expiry, instrument_name=names)[frame["time"] < expiry]


def _hourly(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each hour of a series with a row each second, at the hour's end."""
    hour = frame["time"].dt.floor("h") + pd.Timedelta(1, "h")
    return frame.assign(time=hour).drop_duplicates(["symbol", "time"], keep="last")


def _bought_and_sold(frame: pd.DataFrame) -> pd.DataFrame:
    """Set taker sells to the turnover, which the layout reads as ``sell_usd``, minus taker buys."""
    if frame["contract_name"].astype(str).str.contains("USD_").any():
        raise ArchiveError(
            f"turnover of {frame['contract_name'].iloc[0]} is in coins, not in USD, as for all "
            "coin-margined contracts: multiply it by the price, and import the file without --from"
        )
    turnover = frame["sell_usd"]
    sold = turnover - frame["buy_usd"]
    return frame.assign(sell_usd=np.where(np.abs(sold) < 1e-9 * turnover, 0.0, sold))


class _Amount(NamedTuple):
    """Unit of a venue's amount of a contract: coins, or USD."""

    size: float
    is_usd: bool


_UNKNOWN = _Amount(np.nan, False)
_LINEAR = re.compile(r"USDT|USDC|BUSD")
VENUES_IN_COINS = ("binance", "bybit", "hyperliquid", "aster", "bitget", "dydx")
"""Venues whose amounts of linear contracts are coins (Tardis' pages of 2026, and `venues`)."""


_USD_OF_OKX = {"BTC": 100.0, "ETH": 10.0}
"""USD of a contract of BTC-USD-SWAP and ETH-USD-SWAP.

``GET /api/v5/public/open-interest`` of 2022-06-04, recorded in the tests of a public Rust crawler, has
contracts and coins of both: 4,092,973 for 13,840 BTC and 21,795,246 for 123,562 ETH. ``public/instruments``
of 2026-09-25, recorded in the tests of a public C# adapter, has 100 USD of BTC.
"""


@lru_cache(maxsize=4096)
def amount_of(exchange: str, name: str) -> _Amount | None:
    """Return the unit of a contract's amounts; None if unknown.

    Sizes of contracts in coins or USD are facts of `dd.venues.facts`.
    """
    symbol = contract(name).symbol
    if exchange == "binance" and "USD_" in name:
        size = binance_contract(name).size
        if size is None:
            return None
        return _Amount(size, True)
    return _amount_of_coins(exchange, name, symbol) or _amount_by_facts(exchange, name, symbol)


def _amount_of_coins(exchange: str, name: str, symbol: str) -> _Amount | None:
    """Return the unit of amounts on a venue that counts coins or contracts of 1 USD."""
    if exchange in VENUES_IN_COINS and (_LINEAR.search(name) or exchange in ("hyperliquid", "dydx")):
        return _Amount(1.0, False)
    is_quanto = exchange == "bitmex" and symbol != "BTC"  # an amount of bitcoin per USD, as of ETHUSD
    if exchange in ("bybit", "deribit", "bitmex") and name.endswith(("USD", "-PERPETUAL")) and not is_quanto:
        return _Amount(1.0, is_usd="_USD" not in name)
    if exchange == "kraken" and name.upper().startswith(("PI_", "FI_", "PF_")):
        return _Amount(1.0, is_usd=not name.upper().startswith("PF_"))
    return None


def _amount_by_facts(exchange: str, name: str, symbol: str) -> _Amount | None:
    """Return the unit of a contract whose size is listed in the venue's facts."""
    if market_of(name).kind == "option":
        return None
    if exchange == "okx" and symbol in _USD_OF_OKX and is_inverse_name(exchange, name):
        return _Amount(_USD_OF_OKX[symbol], True)
    is_inverse = is_inverse_name(exchange, name) or "-USD-" in name or name.endswith("USD")
    if "USDC" in name.upper():
        return None  # the facts are of contracts in USDT: BTC-USDC-SWAP of OKX is 0.0001 BTC, not 0.01
    fact = "contract_coin"
    if is_inverse:
        fact = "contract_usd"
    size = fact_value(exchange, fact, symbol)
    if size is None:
        return None
    return _Amount(size, is_inverse)


_VENUES_OF_INVERSE = frozenset(
    "binance bitget bitmex bybit deribit gateio huobi kraken kucoin mexc okx phemex".split()
)
"""Venues with coin-settled contracts, whose amounts are in contracts or USD."""
_INVERSE = re.compile(r"(PI_|FI_)?[A-Z0-9]*[-_/]?USD(_PERP|[-_]SWAP|M|[-_:][A-Z0-9]+)?", re.IGNORECASE)
"""``BTCUSD``, ``BTCUSD_PERP``, ``BTC-USD-SWAP``, ``XBTUSDM``, ``PI_XBTUSD``, ``BTC/USD:BTC``."""


def is_inverse_name(exchange: str, name: str) -> bool:
    """Return whether a name belongs to a coin-settled contract, on a venue that has such contracts."""
    return exchange in _VENUES_OF_INVERSE and _INVERSE.fullmatch(name) is not None


def _units_of_rows(frame: pd.DataFrame, unit_of: Callable[[str, str], _Amount | None]) -> tuple[Array, Array]:
    """Return the size of one unit in each row (NaN if unknown), and a mask of sizes in USD."""
    contracts = [*zip(frame["exchange"].astype(object), frame["contract_name"].astype(object), strict=True)]
    units_by_contract = {names: unit_of(*names) or _UNKNOWN for names in set(contracts)}
    rows = [units_by_contract[names] for names in contracts]
    size = np.array([unit.size for unit in rows], dtype=np.float64)
    is_usd = np.array([unit.is_usd for unit in rows], dtype=bool)
    return size, is_usd


def _reasons_by_contract(frame: pd.DataFrame, text: str) -> list[str]:
    """Return a reason for each row that names its contract and venue."""
    contracts = zip(frame["contract_name"], frame["exchange"], strict=True)
    return [text.format(name=name, venue=venue) for name, venue in contracts]


def _valued(frame: pd.DataFrame, amounts: pd.Series, prices: pd.Series) -> tuple[Array, Array, pd.Series]:
    """Return amounts in coins and in USD, and a reason where neither is known."""
    size, is_usd = _units_of_rows(frame, amount_of)
    is_of_coins = _are_proven_coins(frame, amounts, prices) & np.isnan(size)
    if "contract_size" in frame:
        is_of_coins |= frame["contract_size"].notna().to_numpy()  # amounts were multiplied by it
    size = np.where(is_of_coins, 1.0, size)
    is_usd &= ~is_of_coins
    stated = amounts.to_numpy() * size
    price = prices.to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        coins = np.where(is_usd, stated / price, stated)
        usd = np.where(is_usd, stated, stated * price)
    reasons = _no_reasons(frame)
    is_unknown = np.isnan(size)
    reasons[is_unknown] = _reasons_by_contract(
        frame[is_unknown],
        "amounts of {name} on {venue} are in contracts, and the file does not state their size: pass "
        "--set contract_size=COINS, or omit these rows",
    )
    reasons[~is_unknown & ~np.isfinite(usd)] = "the amount or its price is missing"
    return coins, usd, reasons


_PROOF = 0.05
"""Share by which a value may differ from amount × price, as orders and fills have different prices."""


def _are_proven_coins(frame: pd.DataFrame, amounts: pd.Series, prices: pd.Series) -> Array:
    """Return a mask of amounts proven to be coins by a value in the file, for venues that count coins.

    Collectors cut ``USDT`` off the names of contracts, so the name alone does not show the settlement.
    """
    if "stated_value" not in frame:
        return np.zeros(len(frame), dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (frame["stated_value"] / (amounts * prices)).to_numpy(dtype=np.float64)
    is_in_coins = frame["exchange"].astype(object).isin(VENUES_IN_COINS).to_numpy()
    return np.asarray(is_in_coins & (np.abs(ratio - 1.0) < _PROOF))


def _amounts(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute values of liquidations whose amounts are in each venue's own unit."""
    price = frame.get("fill_price_usd", frame.get("order_price_usd"))
    coins, usd, reasons = _valued(frame, frame["quantity"], price)
    return frame.assign(quantity=coins, filled_quantity=coins, value_usd=usd).assign(reason=reasons)


def _amounts_once(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute values of liquidations in binance's snapshots, which have every row twice."""
    columns = [name for name in frame.columns if name != "origin"]
    valued = _amounts(frame)
    valued.loc[frame.duplicated(columns).to_numpy(), REASON] = "duplicate: the file has every row twice"
    return valued


_NAME_OF_CCXT = re.compile(r"(?P<base>[^/]+)/[^:]+:(?P<settle>[^-]+)")


def _amounts_of_ccxt(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute values of ccxt's liquidations from contracts, their size and the price.

    A contract that settles in its own coin has a size in USD, any other one in coins. ``quoteValue`` is not
    used: ccxt 4.5.90 multiplies the USD of such contracts by the price on bybit and gate.
    """
    names = frame["contract_name"].astype(object)
    inverse_names: list[str] = []
    for name in set(names):
        match = _NAME_OF_CCXT.match(name)
        if match is not None and match["base"] == match["settle"]:
            inverse_names.append(name)
    is_inverse = names.isin(inverse_names).to_numpy()
    stated = frame["number"].to_numpy() * frame["size"].fillna(1.0).to_numpy()
    price = frame["fill_price_usd"].to_numpy()
    coins = np.where(is_inverse, stated / price, stated)
    usd = np.where(is_inverse, stated, stated * price)
    reasons = _no_reasons(frame)
    reasons[~np.isfinite(usd)] = "contracts or price is missing"
    reasons[is_inverse & frame["size"].isna().to_numpy()] = "contractSize is missing"
    return frame.assign(quantity=coins, filled_quantity=coins, value_usd=usd).assign(reason=reasons)


def _signed_amounts(frame: pd.DataFrame) -> pd.DataFrame:
    """Set sides of Bitfinex's liquidations from the signs of amounts, which are positive for a long position.

    A position has a row when it is triggered, and one when the market takes it over: only the latter counts.
    """
    amount = frame["filled_quantity"]
    coins = amount.abs()
    reasons = _no_reasons(frame)
    reasons[(frame["is_match"] != 1).to_numpy()] = "it is the trigger of a liquidation that has its own row"
    return frame.assign(
        side=np.where(amount > 0, "long", "short"),
        quantity=coins,
        filled_quantity=coins,
        value_usd=coins * frame["fill_price_usd"],
        reason=reasons,
    )


def _paid_before(frame: pd.DataFrame) -> pd.DataFrame:
    """Correct payments that are labelled by the time of the next one: each was paid one interval before."""
    stamps = frame.sort_values(["contract_name", "time"])[["contract_name", "time"]]
    apart = stamps.groupby("contract_name", observed=True)["time"].diff()
    apart = apart.where(apart > pd.Timedelta(0))
    apart = apart.groupby(stamps["contract_name"], observed=True).transform("min").reindex(frame.index)
    reasons = _no_reasons(frame)
    reasons[apart.isna().to_numpy()] = (
        "the interval to the next payment is unknown: the file has only one row of the contract"
    )
    return frame.assign(time=frame["time"] - apart.fillna(pd.Timedelta(0))).assign(reason=reasons)


_VENUES_OF_BOTH_SIDES = ("bybit", "gateio", "huobi")
"""Venues whose open interest counts both sides of each contract in ccxt and Tardis, which pass it on.

ccxt 4.5.90 reads Gate's ``contract_stats`` and HTX's ``volume`` and ``value``. tardis-dev 13.35.3
reads Gate's ``total_size``, HTX's ``volume`` and Bybit's ``openInterest``.
"""


def usd_of_contracts(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute open interest [USD] of coin-settled contracts from their number and size in USD."""
    size, is_usd = _units_of_rows(frame, amount_of)
    size = np.where(is_usd, size, np.nan)
    reasons = _no_reasons(frame)
    reasons[np.isnan(size)] = "the contract size in USD is unknown: write open interest in USD"
    return frame.assign(oi_usd=frame["oi_usd"] * size).assign(reason=reasons)


def one_side(frame: pd.DataFrame, venues: Sequence[str] = _VENUES_OF_BOTH_SIDES) -> pd.DataFrame:
    """Halve open interest of `venues`, which count both sides of each contract."""
    is_doubled = frame["exchange"].astype(object).isin(venues).to_numpy()
    return frame.assign(oi_usd=np.where(is_doubled, frame["oi_usd"] / 2, frame["oi_usd"]))


def _interest_by_venue(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute the value of open interest in each venue's own unit by the mark price in the same row."""
    _, usd, reasons = _valued(frame, frame["oi_usd"], frame["price"])
    return one_side(frame.assign(oi_usd=usd)).assign(reason=reasons)


def _running_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Set the interval of running rates from the times of next payments in the rows."""
    names = frame["contract_name"]
    nexts = pd.DataFrame({"name": names, "next": frame["next_time"]}).dropna().drop_duplicates()
    nexts = nexts.sort_values(["name", "next"])
    apart = nexts.groupby("name")["next"].diff().dt.total_seconds() / 3600
    apart = apart.where(apart.isin(VALID_HOURS))
    # The first payment of a contract has the interval of the second one.
    nexts["hours"] = apart.groupby(nexts["name"]).bfill(limit=1)
    by_row = pd.DataFrame({"name": names, "next": frame["next_time"]}).merge(
        nexts, how="left", on=["name", "next"]
    )
    hours = by_row["hours"].to_numpy()
    reasons = _no_reasons(frame)
    reasons[np.isnan(hours)] = (
        "the interval of the rate is unknown: the file does not have two consecutive payments (pass "
        "--set interval_hours=8 and --map rate_bps_8h=funding_rate --unit native)"
    )
    reasons[frame["raw_rate"].isna().to_numpy()] = "rate_bps_8h is missing"
    rate = units.convert(
        frame["raw_rate"].to_numpy(), "native", "bps_8h", hours=np.where(np.isnan(hours), 8.0, hours)
    )
    return frame.assign(rate_bps_8h=rate).assign(reason=reasons)


_PERCENT_MEDIAN = 5.0
"""Minimum median volatility of a venue that publishes volatilities in percent."""


def _option_quotes(frame: pd.DataFrame) -> pd.DataFrame:
    """Move quotes to the coin or USD columns, and convert volatilities to decimals, by venue and size."""
    venue = frame["exchange"].astype(object)
    names = frame["instrument_name"].astype(object).str.upper()
    in_coin = venue.isin(["deribit", "okx"]) & ~names.str.contains("USDC|USDT")
    columns: dict[str, Any] = {}
    for raw, name in (("raw_bid", "bid"), ("raw_ask", "ask"), ("raw_mark", "mark")):
        if raw in frame:
            columns[f"{name}_coin"] = frame[raw].where(in_coin)
            columns[f"{name}_usd"] = frame[raw].where(~in_coin)
    iv = frame["raw_iv"]
    median = iv[iv > 0].groupby(venue).median()
    is_percent = venue.map(median).astype(float) > _PERCENT_MEDIAN
    columns["iv"] = np.where(is_percent, iv / 100, iv)
    return frame.assign(**columns)


_MIN_UNDERLYING = 1_000.0
_MAX_COINS = 20.0
"""Maximum price of an option in coins: a put whose strike is 20 times the underlying price."""
_MIN_SHARE_IN_USD = 0.1
"""Minimum share of quotes above `_MAX_COINS` in a chain that is in USD."""


def _quotes_by_size(frame: pd.DataFrame) -> pd.DataFrame:
    """Put quotes into the coin or USD columns if the name, or the venue and size of quotes, determine which.

    Other quotes are omitted. On an underlying of at least 1,000 USD, quotes in USD often exceed 20, and
    quotes in coins never do. So a chain of Deribit with many quotes above 20 was converted to USD by the
    writer of the file. A single quote above 20 is a wrong quote in a chain in coins.
    """
    venue = frame["exchange"].astype(object)
    names = frame["instrument_name"].astype(object).str.upper()
    is_in_usd = names.str.contains("USDC|USDT")
    is_quoted_in_coins = venue.isin(["deribit", "okx"]) & ~is_in_usd
    quotes = frame[[name for name in ("raw_bid", "raw_ask", "raw_mark", "raw_price") if name in frame]]
    if quotes.empty:
        return frame
    level = next(frame[name] for name in ("underlying_price", "index_price_usd", "strike") if name in frame)
    keys = [venue, frame["symbol"].astype(object)]
    largest = quotes.max(axis=1)
    is_above = (largest >= _MAX_COINS).astype(float).where(largest > 0.0)
    is_large = is_above.groupby(keys).transform("mean") >= _MIN_SHARE_IN_USD
    underlying = level.groupby(keys).transform("median")
    is_large |= _are_usd_by_model(frame, quotes, keys)
    in_coin = is_quoted_in_coins & ~is_large
    quotes = quotes.mask(in_coin & (largest >= _MAX_COINS))
    is_clear = is_in_usd | (underlying >= _MIN_UNDERLYING) & (in_coin | is_large)
    columns: dict[str, Any] = {}
    for raw in quotes:
        for unit, is_in_unit in (("coin", in_coin), ("usd", ~in_coin)):
            name = f"{str(raw).removeprefix('raw_')}_{unit}"
            if name not in frame:
                columns[name] = quotes[raw].where(is_in_unit & is_clear)
    return frame.assign(**columns)


_NEARER = 3.0
"""Minimum ratio of log errors against the model price, of quotes as coins to quotes as USD."""


def _are_usd_by_model(frame: pd.DataFrame, quotes: pd.DataFrame, keys: list[pd.Series]) -> Array:
    """Return a mask of quotes in USD, not coins, by Black's price of the row's own volatility.

    The unit is decided for each group of `keys` by its median distance to the price. Far strikes cost less
    than 20 USD, so their size alone does not show the unit.
    """
    names = ("iv", "underlying_price", "strike", "expiry", "time", "side")
    if not {*names} <= {*frame.columns}:
        return np.zeros(len(frame), dtype=bool)
    years = ((frame["expiry"] - frame["time"]) / pd.Timedelta(365.25, "D")).to_numpy(dtype=np.float64)
    forward = frame["underlying_price"].to_numpy(dtype=np.float64)
    strike = frame["strike"].to_numpy(dtype=np.float64)
    is_call = (frame["side"].astype(object) == "call").to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        # Black's price in coins: N(d1) - K/F N(d2) of a call, and the same with other signs of a put.
        width = frame["iv"].to_numpy(dtype=np.float64) * np.sqrt(years)
        upper = np.log(forward / strike) / width + width / 2
        sign = np.where(is_call, 1.0, -1.0)
        coins = sign * (ndtr(sign * upper) - strike / forward * ndtr(sign * (upper - width)))
        quote = quotes.where(quotes > 0).median(axis=1).to_numpy(dtype=np.float64)
        log_ratio = pd.Series(np.log(quote / coins), frame.index)
    log_ratio = log_ratio.where(np.isfinite(log_ratio))
    log_of_price = pd.Series(np.log(forward), frame.index)
    distance_if_usd = (log_ratio - log_of_price).groupby(keys).transform("median").abs()
    distance_if_coins = log_ratio.groupby(keys).transform("median").abs()
    return np.asarray(_NEARER * distance_if_usd < distance_if_coins)


def _trades(frame: pd.DataFrame) -> pd.DataFrame:
    """Set the price currency, the size in coins and the execution of option trades."""
    frame = _sizes_of_options(_quotes_by_size(frame))
    if "execution" in frame:
        return frame
    execution = pd.Series("book", frame.index)
    for column, word in (("combo_id", "combo"), ("block_id", "block")):
        if column in frame:
            stated = frame[column].astype(object)
            execution = execution.mask(stated.notna() & ~stated.isin(["false", "False", "0"]), word)
    return frame.assign(execution=execution)


def _sizes_of_options(frame: pd.DataFrame) -> pd.DataFrame:
    """Return trades of options with sizes in coins; those without a price or of unknown size get a reason."""
    pairs = [*zip(frame["exchange"].astype(object), frame["symbol"].astype(object), strict=True)]
    sizes = {pair: option_coins(*pair) for pair in set(pairs)}
    coins = np.array([sizes[pair] for pair in pairs], dtype=np.float64)  # None becomes NaN
    reasons = _no_reasons(frame)
    prices = frame[[name for name in ("price_usd", "price_coin", "raw_price") if name in frame]]
    reasons[prices.isna().all(axis=1).to_numpy()] = "the price is missing"
    reasons[np.isnan(coins)] = (
        "the contract size of options of this venue is unknown: write the size in coins"
    )
    return frame.assign(size=frame["size"] * coins).assign(reason=reasons)


def at_delivery(frame: pd.DataFrame) -> pd.DataFrame:
    """Set dates of deliveries to the hour at which contracts expire, 08:00 UTC."""
    stamps = frame["time"]
    if (stamps != stamps.dt.floor("D")).any():
        return frame
    return frame.assign(time=stamps + pd.Timedelta(EXPIRY_HOUR, "h"))


def _depth_bands(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each distance from the middle price of binance's depth files.

    They have a row for each side: -1 is the USD of bids within 1 %, and 1 that of asks.
    """
    keys = ["exchange", "symbol", "time", "depth_bps"]
    frame = frame.assign(depth_bps=np.round(frame["band"].abs() * 100, 6))
    side = np.sign(frame["band"])
    asks = frame[side > 0].drop_duplicates(keys).set_index(keys)["notional"]
    other = asks.reindex(pd.MultiIndex.from_frame(frame[keys])).to_numpy()
    reasons = _no_reasons(frame)
    reasons[np.isnan(other)] = "the asks at this distance are missing"
    reasons[(side > 0).to_numpy()] = "its asks [USD] are in the row of the bids at this distance"
    return frame.assign(bid_depth_usd=frame["notional"], ask_depth_usd=other).assign(reason=reasons)


def _amounts_of_markets(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute values of Coin Metrics' liquidations, whose market names start with the venue."""
    names = frame["contract_name"].str.replace(r"^[a-z0-9.]+-(.+)-future$", r"\1", regex=True)
    return _amounts(frame.assign(contract_name=names))


_FIXED_POINT = 1e9
_MAX_USD = 1e8


def _unscaled(prices: pd.Series) -> pd.Series:
    """Return prices of DBN in USD: fixed-point numbers in 1e-9, with the largest one undefined."""
    finite = prices.where(prices < 9.2e18)
    scaled = finite.where(finite <= _MAX_USD, finite / _FIXED_POINT)
    return scaled.where(scaled <= _MAX_USD)


def _fixed_point(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert prices of DBN to USD, without rows after a contract's expiry."""
    return frame.assign(price_usd=_unscaled(frame["price_usd"]), resolution="raw")


_CME_COINS = {"BTC": 5.0, "MBT": 0.1, "BFF": 0.02, "ETH": 50.0, "MET": 0.1}
"""Coins of a contract of CME by its root.

Page "Micro cryptocurrency futures and options" of cmegroup.com (MBT, MET, BFF), its specifications of bitcoin
options (BTC), and CoinDesk of 2023-10-30 (all but BFF), as stored in 2026.
"""
_MAX_CONTRACTS = 1e9


def _cme_statistics(frame: pd.DataFrame) -> pd.DataFrame:
    """Return settlement prices of CME (type 3) with the open interest (type 9) of the same contract and day.

    CME publishes open interest in contracts, some hours after the settlement price of its day.
    """
    kind = frame["kind"].astype(object)
    is_price = kind == "3"
    is_interest = kind == "9"
    reasons = _no_reasons(frame)
    reasons[~is_price] = "the type of the statistic is neither 3 (settlement price) nor 9 (open interest)"
    prices = _unscaled(frame["price_usd"])
    reasons[is_price & prices.isna()] = "the price is undefined"

    day = ["instrument_name", "day"]
    names = frame["instrument_name"].astype(object)
    keys = frame.assign(instrument_name=names)[day]
    stated = keys.assign(contracts=frame["quantity"])[is_interest & (frame["quantity"] < _MAX_CONTRACTS)]
    stated = stated.drop_duplicates(day, keep="last")  # a corrected figure comes later
    contracts = keys.merge(stated, how="left", on=day)["contracts"].to_numpy()
    coins = names.str[:3].map(_CME_COINS).to_numpy(dtype=float)
    interest = pd.Series(contracts * coins * prices.to_numpy(), frame.index).where(is_price)

    has_price = keys.merge(keys[is_price].drop_duplicates().assign(settled=True), how="left", on=day)
    is_settled = has_price["settled"].notna().to_numpy()
    reasons[is_interest & is_settled] = "its open interest is in the row with the settlement price of the day"
    reasons[is_interest & ~is_settled] = "open interest of a day without a settlement price in the file"
    return frame.assign(price_usd=prices, oi_usd=interest).assign(reason=reasons)


def _running_rates_of_coinapi(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the rows of other metrics: CoinAPI has one metric per row."""
    reasons = _no_reasons(frame)
    is_rate = frame["metric"].astype(object) == "DERIVATIVES_FUNDING_RATE_CURRENT"
    reasons[~is_rate] = "a metric other than DERIVATIVES_FUNDING_RATE_CURRENT"
    return frame.assign(reason=reasons)


def _hour_of_day(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the hour from the column next to a date."""
    return frame.assign(time=frame["time"] + pd.to_timedelta(frame["hour"], unit="h"))


_RATE_UNITS_OF_DRIFT = 1e9
_PRICE_UNITS_OF_DRIFT = 1e6


def _hourly_amounts(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert Drift's funding of one coin [USD per hour] to a rate of its price.

    In the program's own records both are integers, in 1e-9 and 1e-6 USD, and in later ones decimals. The
    price may be a whole number in either, but an hour's funding is whole only in the former.
    """
    amount = frame["amount"]
    price = frame["price"]
    if (price == price.round()).all() and (amount == amount.round()).all():
        amount = amount / _RATE_UNITS_OF_DRIFT
        price = price / _PRICE_UNITS_OF_DRIFT
    reasons = _no_reasons(frame)
    reasons[(price.isna() | (price <= 0)).to_numpy()] = "the oracle price is missing"
    rate = units.convert((amount / price).to_numpy(), "native", "bps_8h", hours=1.0)
    return frame.assign(rate_bps_8h=rate).assign(reason=reasons)


def _levels(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank the prices of each side of a book from the best one."""
    keys = [name for name in ("symbol", "exchange", "time", "side") if name in frame]
    is_bid = frame["side"].astype(object) == "bid"
    distance = frame["price_usd"].mask(is_bid, -frame["price_usd"])
    book = frame.groupby(keys, sort=False, observed=True).ngroup()
    return _book_sizes(frame.assign(level=distance.groupby(book).rank(method="first")))


def _actual_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return payments; predicted rates, which a flag marks, get a reason."""
    reasons = _no_reasons(frame)
    reasons[frame["is_actual"].astype(object).str.lower().ne("true").to_numpy()] = "it is a predicted rate"
    return frame.assign(reason=reasons)


_SUPPLIES = {"BTC": 2.1e7, "ETH": 1.25e8}
"""Coins that exist at most: by Bitcoin's protocol, and ETH's supply of 122 million in 2022 and less later.

Open interest above them is in USD, whatever the price.
"""


def _charts_in_usd(frame: pd.DataFrame) -> pd.DataFrame:
    """Return open interest in USD; raise if that of BTC or ETH on all venues may be in coins.

    CoinGlass returns USD or coins by the parameter ``unit`` of the request, ``usd`` or ``coin``, which the
    response does not repeat (API v4, 2026, as public clients use it).
    """
    supplies = frame["symbol"].astype(object).map(_SUPPLIES)
    largest = frame.loc[supplies.notna(), "oi_usd"].max()
    if (frame["oi_usd"] > supplies).any() or supplies.isna().all():
        return frame
    raise ArchiveError(
        f"its open interest of BTC or ETH on a venue is at most {largest:,.6g}, probably in coins: request "
        "the chart with unit=usd"
    )


def _at_ends_of_bars(frame: pd.DataFrame) -> pd.DataFrame:
    """Set the times of closes to the ends of their bars; rows whose bar has no end yet get a reason.

    A bar without a step of the table, such as a week, ends at the start of the next one.
    """
    steps = pd.to_timedelta(frame["resolution"].astype(object).str.replace("d", "D"), errors="coerce")
    names = [frame["symbol"].astype(object), frame["exchange"].astype(object)]
    following = frame["time"].sort_values().groupby(names).shift(-1)
    ends = (frame["time"] + steps).fillna(following)
    reasons = _no_reasons(frame)
    reasons[ends.isna().to_numpy()] = "the end of its bar is not known, because no bar follows"
    # The last bar of an export is open: its close is that of the export.
    reasons[(ends > times.machine_now()).to_numpy()] = "its bar has not ended"
    return frame.assign(time=ends.fillna(frame["time"])).assign(reason=reasons)


_OF_CONTRACTS = frozenset({"gateio", "huobi", "kucoin", "mexc", "okx"})
"""Venues whose books have sizes in contracts for futures, and in coins for spot markets."""
_CLEAR_CONTRACTS = re.compile(r"SWAP|:|USD[TC]?M$")
"""Name patterns of contracts, as opposed to spot markets: of OKX, ccxt and KuCoin."""


def book_amount(exchange: str, name: str) -> _Amount | None:
    """Return the unit of sizes in a contract's book; None if it may be contracts or coins."""
    is_inverse = name.endswith(("USD", "-PERPETUAL")) or "USD_" in name
    if exchange in ("binance", "bitmex", "bybit", "deribit") and is_inverse:
        return amount_of(exchange, name)
    if exchange == "kraken" or is_inverse_name(exchange, name):
        return amount_of(exchange, name)
    if exchange not in (*_OF_CONTRACTS, "bitmex"):
        return _Amount(1.0, False)
    if _CLEAR_CONTRACTS.search(name) is None:
        return None
    return amount_of(exchange, name)


def _book_sizes(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the sizes of a book to coins if the venue has them in contracts.

    Sides without orders get a reason. Their price is 0 in Binance's ``bookTicker``, where public clients skip
    them (USD-M API, 2026).
    """
    reasons = _no_reasons(frame)
    price = frame["price_usd"].where(frame["price_usd"] != 0)
    coins = frame["size"].to_numpy()
    if "contract_name" in frame:
        size_of_one, is_usd = _units_of_rows(frame, book_amount)
        coins = coins * size_of_one
        coins = np.where(is_usd, coins / price.to_numpy(), coins)
        is_unknown = np.isnan(size_of_one)
        reasons[is_unknown] = _reasons_by_contract(
            frame[is_unknown],
            "sizes of {name} on {venue} may be in contracts: convert them to coins, in a file with the "
            "columns symbol, exchange, time, side, level, price_usd and size",
        )
    reasons[(frame["price_usd"] == 0).to_numpy()] = "its price is 0, because this side has no orders"
    return frame.assign(size=coins).assign(reason=reasons)


ADJUST: dict[str, Adjust] = {
    "metrics": _metrics,
    "contracts_in_usd": _contracts_in_usd,
    "dated": _dated,
    "hourly": _hourly,
    "bought_and_sold": _bought_and_sold,
    "amounts": _amounts,
    "amounts_once": _amounts_once,
    "amounts_of_ccxt": _amounts_of_ccxt,
    "signed_amounts": _signed_amounts,
    "paid_before": _paid_before,
    "one_side": one_side,
    "interest_by_venue": _interest_by_venue,
    "running_rates": _running_rates,
    "option_quotes": _option_quotes,
    "quotes_by_size": _quotes_by_size,
    "trades": _trades,
    "depth_bands": _depth_bands,
    "running_rates_of_coinapi": _running_rates_of_coinapi,
    "hour_of_day": _hour_of_day,
    "amounts_of_markets": _amounts_of_markets,
    "fixed_point": _fixed_point,
    "cme_statistics": _cme_statistics,
    "levels": _levels,
    "book_sizes": _book_sizes,
    "hourly_amounts": _hourly_amounts,
    "actual_rates": _actual_rates,
    "charts_in_usd": _charts_in_usd,
    "at_ends_of_bars": _at_ends_of_bars,
}
"""Functions for the rows of one file, by the name that layouts use."""
