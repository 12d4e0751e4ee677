"""Rules about columns, snapshots and chains: equal columns, calls and puts, expiries, Black (1976)."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from derivdata.client.market_sizes import LARGE_VENUES, MIN_PRICES
from derivdata.client.reading import DAY_US, HOUR_US, CheckedResponse
from derivdata.client.transport import SESSION
from derivdata.support.arrays import Array
from derivdata.tables.series_faults import mirrored_rates
from derivdata.tables.series_patterns import (
    OF_EIGHT_HOURS,
    UNITS,
    WITH_INTEREST,
    other_interest,
    rank_correlation,
    tiny_rates,
)
from derivdata.tables.venue_facts import fact_value

_FEW_VENUES = 3
_SNAPSHOT_RATES = ("rate_bps_8h", "funding_current_bps_8h")
_MIN_OF_VENUE = 30  # minimum rates of a venue
_MIN_OF_SHIFT = 50  # minimum symbols
_SHIFTED = 0.35  # minimum rank correlation of shifted rows
_NOT_SHIFTED = 0.4
"""Maximum ratio of the correlation of unshifted rows to that of shifted rows."""
_PRICED = ("options_snapshot", "options_trades")
_YEAR_US = 365 * 24 * HOUR_US
_MIN_US = 12 * HOUR_US
_MIN_OPTIONS = 8  # minimum options near the money
_LONGEST_ON_INDEX = 90 / 365
"""Longest time to expiry [years] if one price represents all expiries: forwards differ from an index by the
basis, which at 20 % a year and 50 % of volatility moves a volatility by a quarter after half a year."""
_NEAR_MONEY = 1.0
"""Standard deviations from the forward within which options have enough vega."""
_NEAREST = 12
"""Number of nearest options per expiry that are always compared, even if a wrong volatility makes them appear
far."""
_DELTA_APART = 0.12  # maximum median difference of deltas
_OTHER_GREEK = 3.0  # ratio to Black 1976 from which a greek is in another unit
_WRONG_GREEKS = 0.1
"""Maximum share of options whose greek deviates from Black 1976. For vega it is 0 in 8 chains of Deribit from
January 2026."""
_BLACK_VENUES = {"binance", "bybit", "deribit", "derive"}
"""Venues with greeks of Black (1976), in USD: docs/conventions.md."""
_IV_APART = 0.25
"""Maximum relative difference of the volatilities from mark price and quote, at the median option."""


_KINDS = {
    "price": r"price(_usd)?|underlying_price|index_price_usd|open|high|low|close",
    "strike": "strike|atm_strike",
    "premium": "(bid|ask|mark)_(coin|usd)|price_coin",
    "volume": "(total_|notional_)?volume(_usd|_24h_usd)?",
    "open interest": (
        "(total_|notional_)?(oi_usd|open_interest)|(filled_)?quantity|size|oi_contracts|value_usd"
    ),
    "depth": "(bid|ask)_depth_usd",
    "change of open interest": "change_(24h|7d)",
    "rate": "(funding_(current|avg_7d)|top_funding)_bps_8h",
    "volatility": "iv|atm_iv(_24h_ago)?",
    "liquidations": "liquidation_(24h|value)_usd",
    "fees": "(total_|builder_)?fees(_usd|_paid)?",
}
"""Columns by kind. Two columns of one kind may be equal, and any other column is a kind of its own.

Contracts of 1 USD and coins of 1 USD have equal sizes and values, automatic market makers equal sides, new
markets equal changes, and constant rates equal means.
"""
_OWN_KINDS = (
    "delta", "gamma", "vega", "theta", "buy_usd", "sell_usd", "price_24h_change_pct", "oi_24h_change_pct",
    "volume_24h_change_pct",
)  # fmt: skip
_MAY_BE_ONE = ("price", "strike", "premium", "rate", "volatility", "fees")
"""Kinds whose values may be equal for many symbols or venues, because cheap coins have few digits."""
_MIN_EQUAL = 8  # minimum rows of which two columns are compared
_EQUAL_SHARE = 0.95  # minimum share of equal rows
_MIN_DISTINCT = 5  # minimum distinct values
_MIN_OF_SNAPSHOT = 8  # minimum symbols or venues of a snapshot
_MIN_WITHOUT_ANY = 20  # minimum rows of a column of zeros
_MIN_LIMITED = 20  # minimum rows in which a limit is searched
_MIN_SHARED = 6  # minimum rows at a limit
_LIMITED_SHARE = 0.2  # minimum share of these rows
_MIN_ROUNDED = 20  # minimum amounts with one digit
_MIN_ROUNDED_USD = 1e4  # smaller amounts may have one digit
_MAX_AT_MONEY = 50
_COUNTS = ("unique_users", "unique_traders", "trades", "trade_count", "fill_count")
_MAX_OF_FEES = 0.1  # maximum ratio of fees to volume
_MIN_FAR = 3  # minimum rows
_OTHER_SUM = 3.0
"""Maximum ratio of a summary to the sum of its rows, whose first and last bucket may exceed the window."""
_SUMMARIES = {
    "volume": ("volume", "volume_usd"),
    "total_fees": ("total_fees", "fees_usd"),
    "trade_count": ("trade_count", "trades"),
    "liquidation_value_usd": ("liquidation_value_usd",),
    "liquidation_count": ("liquidation_count",),
}
"""Figures of a summary, and the names of the same figures in rows."""
_MIN_VENUES = 10
_TINY_BPS = 0.005  # maximum rate of a symbol in another unit
_MIN_TRADES = 8  # minimum trades
_MIN_EXPIRIES = 5  # minimum expiries of a list
_LISTS_OF_VENUES = ("markets_exchanges", "oi_exchanges", "funding_snapshot")
_MIN_LISTED = 20  # minimum venues of a list
_WEEK_US = 8 * DAY_US
_WRONG_TRADES = 0.2  # minimum share of wrong trades


def unlikely_columns(e: CheckedResponse) -> Iterator[str]:
    """Find equal columns, columns of one value, and sums that their rows contradict."""
    kinds = _columns_by_kind(e)
    yield from _equal_columns(kinds)
    is_snapshot = e.time_us is None or np.unique(e.time_us).size == 1
    names = next((e.columns[name] for name in ("symbol", "exchange", "dex_name") if name in e.columns), ())
    if is_snapshot and pd.unique(np.asarray(names, dtype=object)).size >= _MIN_OF_SNAPSHOT:
        yield from _constant_columns(e, kinds)
        yield from _missing_venues(e)
    yield from _weekdays(e)
    ranks = e.numbers("rank") if e.table is not None and e.table.name == "markets_symbols" else None
    if ranks is not None and ranks.size and not e.requested and np.nanmin(ranks) > 1.0:
        yield f"expected the first rank to be 1, got {np.nanmin(ranks):g}: rows may be missing"
    if e.table is None and "part" in e.columns:
        yield from _summaries(e)
        yield from _lists(e)


def _missing_venues(e: CheckedResponse) -> Iterator[str]:
    """Find lists of many venues that lack one of the three largest venues."""
    venues = {*e.words.get("exchange", ())}
    is_list = e.table is not None and e.table.name in _LISTS_OF_VENUES
    missing = sorted(LARGE_VENUES - venues)
    if is_list and not e.requested and len(venues) >= _MIN_LISTED and missing:
        yield f"{missing[0]} is not among {len(venues)} venues: rows may be missing"


def _weekdays(e: CheckedResponse) -> Iterator[str]:
    """Find chains without an expiry on a Friday after a week: weeks, months and quarters end on Fridays."""
    expiry = e.micros("expiry")
    if expiry is None or e.table is None or not e.table.name.startswith("options_") or not e.size:
        return
    now = e.as_of_us if e.time_us is None else int(np.max(e.time_us))
    days = np.unique(expiry[expiry > (now or 0) + _WEEK_US]) // DAY_US
    # 1970-01-01 was a Thursday
    if days.size >= _MIN_EXPIRIES and not (days % 7 == 1).any():
        shown = np.datetime64(int(days[0]), "D")
        yield (
            f"none of {days.size} expiries beyond one week is on a Friday, first {shown}: days may be shifted"
        )


def _columns_by_kind(e: CheckedResponse) -> dict[str, tuple[str, Array]]:
    """Return the amounts of a response and their kinds, by name."""
    columns = {}
    for name, values in e.columns.items():
        kinds = [kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, name)]
        is_amount = bool(kinds) or name in _OWN_KINDS or name in _COUNTS
        if is_amount and (e.table is not None or getattr(values, "dtype", None) == np.float64):
            numbers = e.numbers(name)
            if numbers is not None:
                columns[name] = ((kinds or [name])[0], numbers)
    return columns


def _equal_columns(kinds: dict[str, tuple[str, Array]]) -> Iterator[str]:
    """Find two columns of different kinds whose values are equal in most rows."""
    for (first, (kind, values)), (second, (other, others)) in combinations(kinds.items(), 2):
        if kind == other or first in _COUNTS or second in _COUNTS or values.size < _MIN_EQUAL:
            continue
        if {kind, other} == {"price", "strike"} and values.size < _MAX_AT_MONEY:
            continue  # an exact strike at the money
        is_compared = np.isfinite(values) & np.isfinite(others) & (values != 0.0) & (others != 0.0)
        count = int(is_compared.sum())
        if count < _MIN_EQUAL:
            continue
        is_equal = is_compared & (values == others)
        if is_equal.sum() >= _EQUAL_SHARE * count and np.unique(values[is_equal]).size >= _MIN_DISTINCT:
            shown = f"{int(is_equal.sum())} of {count} rows"
            yield f"{first} and {second} are equal in {shown}: one of them may be copied"
            return


def _constant_columns(e: CheckedResponse, kinds: dict[str, tuple[str, Array]]) -> Iterator[str]:
    """Find amounts of many symbols or venues that are all equal, or all 0."""
    for name, (kind, values) in kinds.items():
        known = values[np.isfinite(values)]
        if known.size < _MIN_OF_SNAPSHOT:
            continue
        value = known[0]
        if not (known == value).all():
            yield from _limited_column(name, kind, known)
            continue
        if kind in _MAY_BE_ONE and not (kind == "rate" and value == 0.0):
            continue
        has_digits = value != float(f"{value:.2g}")
        if value != 0.0 and has_digits:
            yield f"{name} is {value:g} in all {known.size} rows: the value may be a placeholder"
        elif value == 0.0 and known.size >= _MIN_WITHOUT_ANY and _is_of_large_markets(e):
            yield f"{name} is 0 in all {known.size} rows: values may be missing"


def _limited_column(name: str, kind: str, own: Array) -> Iterator[str]:
    """Find a maximum or minimum that many symbols share, and amounts rounded to one digit."""
    if kind in _MAY_BE_ONE or own.size < _MIN_LIMITED:
        return
    for word, limit in (("above", float(own.max())), ("below", float(own.min()))):
        shared = int((own == limit).sum())
        others = own[own != limit]
        has_digits = limit != float(f"{limit:.3g}")
        is_varied = np.unique(others).size >= 0.5 * others.size
        if has_digits and is_varied and shared >= max(_MIN_SHARED, _LIMITED_SHARE * own.size):
            yield f"{name} is {limit:g} in {shared} of {own.size} rows and never {word}: it may be capped"
            return
    amounts = own[own >= _MIN_ROUNDED_USD]
    if name.endswith("usd") and amounts.size >= _MIN_ROUNDED and np.unique(amounts).size > _MIN_DISTINCT:
        scale = 10.0 ** np.floor(np.log10(amounts))
        if (np.abs(amounts / scale - np.rint(amounts / scale)) < 1e-9).all():
            yield f"{name} has one significant digit in all {amounts.size} rows: values may be rounded"


def _is_of_large_markets(e: CheckedResponse) -> bool:
    """Return whether a response has BTC on all venues or a large one; others may lack some figures."""
    venues = [value for name in ("exchange", "exchanges") for value in e.requested_names.get(name, ())]
    is_large = not venues or not LARGE_VENUES.isdisjoint(venues)
    return is_large and "BTC" in e.words.get("symbol", ())


def _lists(e: CheckedResponse) -> Iterator[str]:
    """Compare volumes, fees and numbers of trades of the rows of open tables."""
    for name in ("volume_usd", "volume"):
        volumes = e.numbers(name) if name in e.columns else None
        if volumes is None:
            continue
        for column in ("trades", "trade_count"):
            trades = e.numbers(column) if column in e.columns else None
            without = np.zeros(0) if trades is None else (volumes > 0.0) & (trades == 0.0)
            # Values of one response may differ by minutes, within which a market may have its first trade.
            if without.sum() >= max(_MIN_FAR, 0.5 * (volumes > 0.0).sum()):
                row = int(np.argmax(without))
                yield f"{column} is 0 although {name} is {volumes[row]:g} in {int(without.sum())} rows"
        for column in ("fees_usd", "builder_fees_usd", "total_fees"):
            fees = e.numbers(column) if column in e.columns else None
            is_far = np.zeros(0) if fees is None else fees > _MAX_OF_FEES * volumes
            if fees is not None and is_far.sum() >= _MIN_FAR:
                row = int(np.argmax(is_far))
                yield (
                    f"{column} is {fees[row]:g} although {name} is {volumes[row]:g} in "
                    f"{int(is_far.sum())} rows: no venue has fees of a tenth of the volume"
                )


def _summaries(e: CheckedResponse) -> Iterator[str]:
    """Compare the figures of a summary with the sums of the other lists of the response."""
    lists = np.asarray(e.columns["part"], dtype=object)
    for name, names in _SUMMARIES.items():
        totals = e.numbers(name) if name in e.columns else None
        if totals is None:
            continue
        of_summary = totals[lists == "summary"]
        if of_summary.size != 1 or not of_summary[0] > 0.0:
            continue
        stated = float(of_summary[0])
        for column, part, values in _listed_values(e, names):
            total = float(np.sum(values))
            # A list by symbol or venue may contain only the largest ones.
            is_short = part == "timeseries" and total < stated / _OTHER_SUM
            if is_short or total > stated * _OTHER_SUM:
                yield (
                    f"{name} of the summary is {stated:g}, but {column} of {part} adds up to {total:g} "
                    f"in {values.size} rows"
                )
                return


def _listed_values(e: CheckedResponse, columns: Iterable[str]) -> Iterator[tuple[str, str, Array]]:
    """Yield column, list and values of each list of a response except its summary and short lists."""
    lists = np.asarray(e.columns["part"], dtype=object)
    for column in columns:
        values = e.numbers(column) if column in e.columns else None
        if values is None:
            continue
        for part in pd.unique(lists):
            listed = values[(lists == part) & np.isfinite(values)]
            if part != "summary" and listed.size >= _MIN_FAR:
                yield column, part, listed


def unlikely_snapshots(e: CheckedResponse) -> Iterator[str]:
    """Find snapshots of rates in another unit, mirrored, constant, or of other symbols."""
    if e.table is None or not e.size:
        return
    is_history = e.window_us is not None
    for name in _SNAPSHOT_RATES:
        rates = e.numbers(name) if name in e.columns and not is_history else None
        if rates is None:
            continue
        values = rates[has_interest(e)]
        size = tiny_rates(values)
        if size is not None:
            yield tiny_text(name, size, values.size)
            return
        group = "exchange" if len(e.words.get("exchange", ())) > 1 or "symbol" in e.words else ""
        if len(e.words.get("symbol", ())) <= 1:
            group = ""  # one symbol on several venues
        codes = np.zeros(e.size, dtype=np.int64)
        if group:
            codes = np.unique(np.asarray(e.columns[group]), return_inverse=True)[1]
        yield from _rates_of_groups(e, name, rates, codes, group)
    if "interval_hours" in e.columns and not is_history:
        yield from _known_intervals(e)


def _rates_of_groups(e: CheckedResponse, name: str, rates: Array, codes: Array, group: str) -> Iterator[str]:
    """Find the faults of all rates of one venue, or of one symbol on all venues."""
    order = np.argsort(codes, kind="stable")
    hours = e.numbers("interval_hours") if "interval_hours" in e.columns else None
    is_of_formula = has_interest(e)
    for code in np.unique(codes).tolist():
        rows = order[codes[order] == code]
        known = rates[rows]
        where = str(e.columns[group][rows[0]]) if group else "all venues"
        known = known[np.isfinite(known)]
        if known.size < _MIN_OF_VENUE:
            continue
        if np.unique(known).size == 1 and known[0] != 0.0:
            yield f"{name} of {where} is {known[0]:g} bps for all {known.size} symbols: rows may be missing"
            return
        compared = rows[is_of_formula[rows]]
        factor = other_interest(rates[compared], UNITS)
        if factor is None and hours is not None:
            factor = other_interest(rates[compared[hours[compared] == 8.0]], OF_EIGHT_HOURS)
        if factor is not None:
            yield interest_text(name, where, factor)
            return
        if mirrored_rates(np.zeros(known.size, dtype=np.int64), known):
            yield (
                f"{name} of {where} repeats -1 bps, but the interest in the venues' formula is +1 bps: the "
                "sign may be inverted"
            )
            return
    if group:
        yield from _tiny_symbols(e, name, rates)
        yield from _shifted_symbols(e, name, rates, codes)


def _tiny_symbols(e: CheckedResponse, name: str, rates: Array) -> Iterator[str]:
    """Find a symbol whose rates are too small on all venues, as in another unit."""
    if "symbol" not in e.columns:
        return
    symbols, codes = np.unique(np.asarray(e.columns["symbol"]), return_inverse=True)
    is_used = np.isfinite(rates) & (rates != 0.0)
    counts = np.bincount(codes[is_used], minlength=symbols.size)
    largest = np.zeros(symbols.size)
    np.maximum.at(largest, codes[is_used], np.abs(rates[is_used]))
    is_tiny = (counts >= _MIN_VENUES) & (largest < _TINY_BPS)
    if is_tiny.any():
        place = int(np.argmax(is_tiny))
        yield (
            f"{name} of {symbols[place]} is at most {largest[place]:.2g} bps on all {counts[place]} venues: "
            "the rates may be in another unit"
        )


def _shifted_symbols(e: CheckedResponse, name: str, rates: Array, codes: Array) -> Iterator[str]:
    """Find a venue whose rates belong to the next symbol, compared with the median of other venues."""
    symbols, column = np.unique(np.asarray(e.columns["symbol"]), return_inverse=True)
    count = int(codes.max()) + 1
    if count <= _FEW_VENUES or symbols.size < _MIN_OF_SHIFT:
        return
    table = np.full((count, symbols.size), np.nan)
    table[codes, column] = rates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # symbols of one venue
        middle = np.nanmedian(table, axis=0)
    for code, own in enumerate(table):
        listed = np.flatnonzero(np.isfinite(own) & np.isfinite(middle))
        if listed.size < _MIN_OF_SHIFT:
            continue
        values = own[listed]
        others = middle[listed]
        up = rank_correlation(values[:-1], others[1:])
        down = rank_correlation(values[1:], others[:-1])
        shifted = max(up, down)
        if shifted > _SHIFTED and rank_correlation(values, others) < _NOT_SHIFTED * shifted:
            first = np.flatnonzero(codes == code)[0]
            yield (
                f"{name} of {e.columns['exchange'][first]} has the rates of the next symbols in the "
                f"list, compared with the other venues (correlation {shifted:.2f}): rows may be "
                "shifted"
            )
            return


def _known_intervals(e: CheckedResponse) -> Iterator[str]:
    """Compare the intervals of venues that pay each hour with the response."""
    hours = e.numbers("interval_hours")
    venues = np.asarray(e.columns["exchange"])
    for venue in e.words.get("exchange", ()):
        if hours is None or fact_value(venue, "interval_hours", "") != 1.0:
            continue
        known = hours[venues == venue]
        known = known[np.isfinite(known)]
        if known.size and float(np.median(known)) != 1.0:
            yield (
                f"the median interval_hours of {venue} is {np.median(known):g} for {known.size} symbols, but "
                "the venue pays every hour: rows may belong to another venue"
            )
            return


def has_interest(e: CheckedResponse) -> Array:
    """Return a mask of rows of venues whose formula has an interest rate.

    On other venues, all rates may be small on quiet days. Deribit's ``funding_8h`` of 2.55e-06 and 2.14e-06
    are in bodies of 2022-06-02 and 2024-07-13 (tests of crypto-msg-parser), and 2.6e-06 in ccxt 4.5.90.
    """
    if "exchange" not in e.columns:
        return np.ones(e.size, dtype=bool)
    is_listed: Array = np.isin(np.asarray(e.columns["exchange"], dtype=str), [*WITH_INTEREST])
    return is_listed


def tiny_text(name: str, size: float, count: int) -> str:
    """Return the sentence about rates that are too small."""
    return f"{name} is at most {size:.2g} bps in 95 % of {count} rows: the rates may be fractions or percent"


def interest_text(name: str, where: str, factor: float) -> str:
    """Return the sentence about a repeated rate that is the interest in another unit."""
    return (
        f"{name} of {where} repeats {factor:g} bps, but the interest in the venues' formula is 1 bps per "
        "8 hours: the rates may be in another unit"
    )


def unlike_black(e: CheckedResponse) -> Iterator[str]:
    """Find expiries whose volatilities, deltas and marks contradict each other under Black (1976).

    Venues use forwards, rates and times of their own, so only large differences of the median option count.
    """
    if e.table is None or e.table.name not in _PRICED or not e.size or e.time_us is None:
        return
    expiry = e.micros("expiry")
    iv, strike, forward = (e.numbers(name) for name in ("iv", "strike", "underlying_price"))
    if expiry is None or iv is None or strike is None or forward is None:
        return
    # 1. Select options near the money with enough time to expiry.
    years = (expiry - e.time_us) / _YEAR_US
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = iv * np.sqrt(years)
        moneyness = np.log(strike / forward)
        is_near = (np.abs(moneyness) < _NEAR_MONEY * deviation) | _nearest(expiry, np.abs(moneyness))
        is_near &= (years * _YEAR_US > _MIN_US) & (iv > 0.0)
        if np.unique(forward).size == 1 and np.unique(expiry).size > 1:
            is_near &= years <= _LONGEST_ON_INDEX
        d1 = -moneyness / deviation + 0.5 * deviation  # d2 is d1 − deviation
    is_call = np.asarray(e.columns["side"] == "call")
    # 2. Compare deltas: N(d1) for calls, on some venues minus the value in coins (premium-adjusted).
    sign = np.where(is_call, 1.0, -1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = sign * (forward * _normal(sign * d1) - strike * _normal(sign * (d1 - deviation)))
    delta = e.numbers("delta") if "delta" in e.columns else None
    if delta is not None:
        apart = delta - sign * _normal(sign * d1)
        apart = np.minimum(np.abs(apart), np.abs(apart + value / forward))
        yield from _wrong_expiries(expiry, is_near, apart, _DELTA_APART, "delta", "the volatility")
    # 3. Compare other greeks, of venues with known units.
    if {*e.words.get("exchange", ())} <= _BLACK_VENUES:
        yield from _other_greeks(e, is_near, forward, d1, years)
    # 4. Compare marks: the error of the value divided by vega is the error of the volatility.
    mark = marks_usd(e, forward)
    if mark is None:
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        vega = forward * np.exp(-0.5 * d1**2) / math.sqrt(2.0 * math.pi) * np.sqrt(years)
        error = (mark - value) / vega / iv
    if e.table.name == "options_trades":
        is_near &= years <= _LONGEST_ON_INDEX  # the underlying of a trade may be the index
        is_near &= (np.abs(moneyness) < deviation) & (mark > 0.0) & np.isfinite(error)
        yield from _wrong_trades(error[is_near])
        return
    yield from _wrong_expiries(expiry, is_near & (mark > 0.0), error, _IV_APART, "iv", "the mark price")


def _wrong_trades(error: Array) -> Iterator[str]:
    """Find trades whose volatilities do not match their prices."""
    wrong = int((np.abs(error) > _IV_APART).sum())
    if wrong >= max(_MIN_TRADES, _WRONG_TRADES * error.size):
        yield (
            f"iv of {wrong} of {error.size} trades near the money differs from the volatility of their "
            "prices (Black 1976): one of them is in another unit"
        )


def _other_greeks(
    e: CheckedResponse, is_near: Array, forward: Array, d1: Array, years: Array
) -> Iterator[str]:
    """Find greeks in another unit than USD per USD², per volatility point and per day."""
    density = np.exp(-0.5 * d1**2) / math.sqrt(2.0 * math.pi)
    with np.errstate(invalid="ignore", divide="ignore"):
        vega = forward * density * np.sqrt(years) / 100.0
        gamma = density / (forward * np.sqrt(years) * e.columns["iv"])
        theta = -forward * density * e.columns["iv"] / (2.0 * np.sqrt(years)) / 365.0
    for name, size in (("gamma", gamma), ("vega", vega), ("theta", theta)):
        stated = e.numbers(name) if name in e.columns else None
        expected = np.abs(size)
        if stated is not None and name == "theta":
            stated = -stated
        if stated is None:
            continue
        is_negative = is_near & (stated < 0.0) & (expected > 0.0)
        if is_negative.sum() >= max(_MIN_OPTIONS, _WRONG_GREEKS * is_near.sum()):
            yield (
                f"{name} has the wrong sign in {int(is_negative.sum())} of {int(is_near.sum())} options near "
                "the money"
            )
            continue
        is_used = is_near & (stated > 0.0) & (expected > 0.0)
        if is_used.sum() < _MIN_OPTIONS:
            continue
        factors = stated[is_used] / expected[is_used]
        is_far = (factors > _OTHER_GREEK) | (factors * _OTHER_GREEK < 1.0)
        if is_far.mean() > _WRONG_GREEKS:
            yield (
                f"{name} is {np.median(factors[is_far]):.3g} times the value from the volatility in "
                f"{int(is_far.sum())} of {is_far.size} options near the money (Black 1976): it may be in "
                "another unit"
            )


def _nearest(expiry: Array, distance: Array) -> Array:
    """Return a mask of the options of each expiry with the strikes nearest to the forward."""
    order = np.lexsort((distance, expiry))
    starts = np.flatnonzero(np.append(True, np.diff(expiry[order]) != 0))
    place = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))
    is_near = np.zeros(order.size, dtype=bool)
    is_near[order] = place < _NEAREST
    return is_near


def marks_usd(e: CheckedResponse, forward: Array) -> Array | None:
    """Return mark prices [USD] from coins or USD; None if the response has neither."""
    name = "price" if "trade_id" in e.columns else "mark"
    coins = e.numbers(f"{name}_coin") if f"{name}_coin" in e.columns else None
    dollars = e.numbers(f"{name}_usd") if f"{name}_usd" in e.columns else None
    if dollars is None:
        return None if coins is None else coins * forward
    return dollars if coins is None else np.where(np.isnan(dollars), coins * forward, dollars)


def _normal(values: Array) -> Array:
    """Return the standard normal distribution function."""
    scaled = (values / math.sqrt(2.0)).tolist()
    return np.array([0.5 + 0.5 * math.erf(value) for value in scaled])


def _wrong_expiries(
    expiry: Array, is_near: Array, error: Array, limit: float, name: str, other: str
) -> Iterator[str]:
    """Find the expiry with the largest median error among the options where `is_near`, if above `limit`."""
    worst = 0.0
    stamp = 0
    number = 0
    for day in np.unique(expiry[is_near]).tolist():
        errors = error[is_near & (expiry == day)]
        errors = np.abs(errors[np.isfinite(errors)])
        if errors.size >= _MIN_OPTIONS and float(np.median(errors)) > worst:
            worst = float(np.median(errors))
            stamp = day
            number = int(errors.size)
    if worst > limit:
        shown = np.datetime64(stamp, "us").astype("datetime64[D]")
        yield (
            f"{name} of the options of {shown} differs from {other} by {100 * worst:.3g} % (median of "
            f"{number} options near the money, Black 1976): one of them is in another unit or belongs to "
            "other options"
        )


_DAILY_VENUES = frozenset(("binance", "bybit", "deribit", "okx"))
"""Venues that list calls and puts on BTC and ETH for the next days, weeks and quarters.

In 17 chains of Deribit from December 2025 and January 2026, every strike had a call and a put, every forward
was between the strikes of its expiry, and the first expiry was at most 1.3 days ahead. Whole chains of the
other venues were not recorded, so the rules are unconfirmed for them.
"""
_NEXT_US = 4 * DAY_US
_LAST_US = 30 * DAY_US
_MIN_OF_CHAIN = 100
_MIN_EXPIRIES_OF_LIST = 3
_MIN_OF_EXPIRY = 10
_FEW = 0.01
"""Maximum share of strikes with only a call or a put that suggests missing rows. If the share is larger, the
venue omits options without quotes."""
_MIN_PAIRS = 4
_PARITY_APART = 0.03
"""Maximum median deviation from put-call parity, as a share of the forward. Recorded chains have 0.0002."""
_ABOVE = 2.0
_BASIS_A_YEAR = 0.3
_ONE_INDEX = 0.001
"""Largest difference of one index between its rows, as a share; it moves while a venue publishes them."""
_MIN_WITHOUT_VOLATILITY = 3
_PRICED_USD = 5.0


def unlikely_chains(e: CheckedResponse) -> Iterator[str]:
    """Find chains with missing options, and mark prices that contradict parity or their volatility."""
    if e.table is None or e.table.name not in ("options_snapshot", "options_metrics") or not e.size:
        return
    now = e.as_of_us
    if e.time_us is not None:
        if np.unique(e.time_us).size > 1:
            return
        now = int(e.time_us[0])
    expiry = e.micros("expiry")
    if expiry is None or now is None:
        return
    # An archive may hold only some of the options.
    is_whole = SESSION.origin() is not None and np.unique(expiry).size >= _MIN_EXPIRIES_OF_LIST
    is_whole &= e.requested.get("symbol", "") in MIN_PRICES
    is_whole &= e.requested.get("exchange", "") in _DAILY_VENUES
    if is_whole:
        yield from _missing_expiries(expiry, now)
    forward = e.numbers("underlying_price")
    strike = e.numbers("strike") if e.table.name == "options_snapshot" else None
    if strike is None or forward is None:
        return
    if is_whole and e.size >= _MIN_OF_CHAIN:
        yield from _missing_strikes(expiry, strike, forward)
    yield from _repeated_asks(e, strike, forward)
    yield from _without_volatility(e, expiry, now, strike, forward)
    yield from _unlike_parity(e, expiry, now, strike, forward)


def _missing_expiries(expiry: Array, now: int) -> Iterator[str]:
    """Find chains without an expiry in the next days, or without one in a later month."""
    apart = expiry[expiry > now] - now
    if not apart.size:
        return
    if apart.min() > _NEXT_US:
        yield (
            f"the first expiry is {apart.min() / DAY_US:.0f} days ahead: expected at most "
            f"{_NEXT_US / DAY_US:.0f} days; rows may be missing"
        )
    if apart.max() < _LAST_US:
        yield (
            f"the last expiry is {apart.max() / DAY_US:.0f} days ahead: expected at least "
            f"{_LAST_US / DAY_US:.0f} days; rows may be missing"
        )


def _missing_strikes(expiry: Array, strike: Array, forward: Array) -> Iterator[str]:
    """Find single strikes without a call or a put, and forwards outside the range of strikes."""
    frame = pd.DataFrame({"expiry": expiry, "strike": strike, "forward": forward})
    sides = frame.groupby(["expiry", "strike"]).size()
    single = sides[sides == 1]
    if 0 < len(single) <= max(1.0, _FEW * len(sides)):
        day, first = single.index[0]
        shown = np.datetime64(int(day), "us").astype("datetime64[D]")
        yield (
            f"{len(single)} of {len(sides)} strikes have only a call or only a put, first {first:g} of "
            f"{shown}: rows may be missing"
        )
    for day, own in frame.groupby("expiry"):
        middle = float(own["forward"].median())
        lowest, highest = float(own["strike"].min()), float(own["strike"].max())
        if len(own) >= _MIN_OF_EXPIRY and (middle < lowest or middle > highest):
            shown = np.datetime64(int(day), "us").astype("datetime64[D]")
            yield (
                f"strikes of {shown} are from {lowest:g} to {highest:g}, but the underlying price is "
                f"{middle:g}: rows may be missing or belong to another coin"
            )
            return


def _repeated_asks(e: CheckedResponse, strike: Array, forward: Array) -> Iterator[str]:
    """Find placeholders: repeated prices far above the strike and the underlying price."""
    for name in ("bid_usd", "ask_usd", "mark_usd"):
        prices = e.numbers(name) if name in e.columns else None
        if prices is None:
            continue
        is_above = prices > _ABOVE * np.fmax(strike, forward)
        largest = float(prices[is_above].max()) if is_above.any() else 0.0
        count = int((prices == largest).sum())
        if largest and count >= _MIN_PAIRS:
            yield (
                f"{name} is {largest:g} USD in {count} options, over {_ABOVE:g} times the strike and the "
                "underlying price: it may be a placeholder"
            )
            return


def _without_volatility(
    e: CheckedResponse, expiry: Array, now: int, strike: Array, forward: Array
) -> Iterator[str]:
    """Find options near the money with a price and a volatility of 0."""
    iv = e.numbers("iv")
    mark = e.numbers("mark_usd") if "mark_usd" in e.columns else None
    if iv is None or mark is None:
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        is_near = (np.abs(np.log(strike / forward)) < 0.1) & (expiry - now > 12 * HOUR_US)
    is_wrong = is_near & (iv == 0.0) & (mark > _PRICED_USD)
    if is_wrong.sum() >= _MIN_WITHOUT_VOLATILITY:
        row = int(np.argmax(is_wrong))
        yield (
            f"iv is 0 in {int(is_wrong.sum())} options near the money, first at strike {strike[row]:g} with "
            f"a mark price of {mark[row]:g} USD: values may be missing"
        )


def _unlike_parity(
    e: CheckedResponse, expiry: Array, now: int, strike: Array, forward: Array
) -> Iterator[str]:
    """Find expiries whose mark prices violate put-call parity: call − put = forward − strike."""
    dollars = marks_usd(e, forward)
    if dollars is None:
        return
    rows = pd.DataFrame({"expiry": expiry, "strike": strike, "mark": dollars / forward, "forward": forward})
    is_call = np.asarray(e.columns["side"] == "call")
    pairs = rows[is_call].merge(rows[~is_call], on=["expiry", "strike"], suffixes=("", "_put"))
    pairs = pairs[(pairs["mark"] > 0.0) & (pairs["mark_put"] > 0.0)]
    # Farther from the forward, a discount of the strike by 5 % counts.
    pairs = pairs[(pairs["strike"] / pairs["forward"] - 1.0).abs() < 0.5]
    pairs["apart"] = pairs["mark"] - pairs["mark_put"] - 1.0 + pairs["strike"] / pairs["forward"]
    # One index for all expiries differs from each forward by the basis, and may move between its rows.
    levels = rows.groupby("expiry")["forward"].median()
    is_index = levels.max() - levels.min() < _ONE_INDEX * levels.median()
    for day, own in pairs.groupby("expiry"):
        years = (int(day) - now) / (365 * DAY_US)
        most = _PARITY_APART + (_BASIS_A_YEAR * years if is_index else 0.0)
        apart = float(own["apart"].abs().median())
        if len(own) >= _MIN_PAIRS and apart > most:
            shown = np.datetime64(int(day), "us").astype("datetime64[D]")
            yield (
                f"call minus put of {shown} differs from forward minus strike by {100 * apart:.2g} % of the "
                f"forward (median of {len(own)} strikes): mark prices may belong to other options or be in "
                "another unit"
            )
            return
