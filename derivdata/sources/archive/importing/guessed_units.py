"""Units of rates, volatilities, open interest and liquidations, by names, sizes and contracts.

An amount of a liquidation is in coins, contracts or USD. The contract states which, and a value next to it
may prove it. A value that is price × amount proves nothing where the venue counts contracts: its writer may
have taken them for coins.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import TINY_BPS_8H
from derivdata.sources.archive.importing.adjustments import (
    ADJUST,
    VENUES_IN_COINS,
    amount_of,
    is_inverse_name,
    one_side,
    usd_of_contracts,
)
from derivdata.sources.archive.importing.cells import Rejections, encoded, numbers
from derivdata.sources.archive.importing.column_meanings import (
    AMOUNTS_IN_USD,
    CLOSES,
    HOURS,
    IN_USD,
    OPENS,
    PRICES,
    columns_by_meaning,
    columns_named,
    figures_of,
    first_of,
    plain_columns,
    scale_and_period,
    texts_of,
)
from derivdata.sources.archive.importing.guessed_tables import hours_apart, words_in
from derivdata.sources.archive.importing.market_names import (
    plain_name,
    scale_in_name,
    symbols_of,
    unread_scale,
    venue_of_word,
    venues_of,
)
from derivdata.sources.archive.importing.plan import (
    IN_COINS,
    IN_DOLLARS,
    Adjust,
    Given,
    ImportPlan,
    Unclear,
    units_of,
)
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.wide_tables import PRICE_OF_COIN
from derivdata.sources.archive.schemas import archive_table
from derivdata.support.arrays import Array

_FEW = 10
"""Minimum number of rates for a reliable conclusion from their size."""
_MAX_PER_YEAR = 1.5
_MAX_PER_YEAR_OF_FEW = 0.5
"""Rates of a year above which numbers may be percent; fractions above are rare."""
_SMALL_BPS_8H = 0.1
"""Median rate [bps per 8 hours] below which a mapped column may be in percent: 0.1 % in 8 h is rare."""
_FLOORS = (0.0001, 0.0000125, 0.00005, 0.000025, 0.0003)
"""Rates of quiet times, as fractions of 8, 1, 4, 2 and 24 hours (interest of 0.03 % a day)."""
MAX_AT_FLOOR = 0.2
"""Share of rates at the floors of fractions above which a name that says percent needs a second sign."""


def unit_of_rates(source: Source, head: Chunk, column: str) -> str:
    """Return the unit of rates from their name, cells or size."""
    scale, period = scale_and_period(column)
    if plain_name(column) in ("value", *OPENS, *CLOSES):
        scale, period = scale_and_period(source.file_name.split(".")[0])
        # Hours in a file name that are the time between its rows are not the period of its rates.
        apart = hours_apart(head, columns_by_meaning(head), Given())
        if period != "year" and (apart is None or np.isclose(apart, HOURS.get(period, 0.0), rtol=0.1)):
            period = ""
    if _has_percent_signs(head, column):
        scale = "percent"
    sizes = _sizes(head, column)
    unit = _stated_unit(scale, period) if scale else _sized_unit(sizes, period)
    is_of_percent = scale == "percent" and not period and "%" in column
    if is_of_percent and _share_at_floors(sizes) > MAX_AT_FLOOR:
        unit = None  # the name says percent, and the sizes are those of fractions
    if unit is not None:
        return unit
    raise _unclear_unit(source, head, column)


def _has_percent_signs(head: Chunk, column: str) -> bool:
    """Return whether cells of a column contain a percent sign, such as ``0.01%``."""
    is_text = pa.types.is_string(head.columns[column].type)
    return is_text and any("%" in text for text in texts_of(head, column))


def _unclear_unit(source: Source, head: Chunk, column: str) -> Unclear:
    """Return the `Unclear` error for a column of rates without a known unit."""
    median = _median(_sizes(head, column))
    return Unclear(
        f"{source}: the unit of column {column} is unclear (median {median:.4g}): pass --unit "
        "native (a fraction per interval), percent, bps, bps_8h, per_8h, per_year or percent_year",
        "--unit",
        ["native", "percent", "bps", "bps_8h", "per_8h", "per_day", "per_year", "percent_year"],
    )


def unit_of_mapped(source: Source, head: Chunk, given: Given) -> str | None:
    """Return the unit in the name of the rate column that the caller mapped, such as ``apr``.

    A name without a unit means bps per 8 hours, unless the rates are so small that they may be percent:
    then the caller must state the unit.
    """
    column = given.map.get("rate_bps_8h", "")
    if given.unit is not None or column not in head.columns:
        return given.unit
    if scale_and_period(column) != ("", ""):
        return unit_of_rates(source, head, column)
    if "unit" in given.accept or _has_percent_signs(head, column):
        return None  # the conversion rejects cells such as 0.01%
    # Below the lower limit, the check of all rows asks.
    if TINY_BPS_8H <= _median(_sizes(head, column)) < _SMALL_BPS_8H:
        raise _unclear_unit(source, head, column)
    return None


def _sizes(head: Chunk, column: str) -> Array:
    """Return the absolute values of a column that are not 0."""
    sizes = np.abs(figures_of(head, column, suffix="%"))
    return sizes[np.isfinite(sizes) & (sizes > 0)]


def _median(sizes: Array) -> float:
    """Return the median of some sizes; 0 without any."""
    return float(np.median(sizes)) if sizes.size else 0.0


def _share_at_floors(sizes: Array) -> float:
    """Return the share of rates that equal the usual floors, as fractions."""
    if not sizes.size:
        return 0.0
    return float(np.mean(np.isin(np.round(sizes, 9), _FLOORS)))


def _stated_unit(scale: str, period: str) -> str | None:
    """Return the unit of a scale and a period; None for bps of a period other than 8 hours."""
    if scale == "bps":
        return {"": "bps", "8h": "bps_8h"}.get(period)
    return f"percent_{period}" if period else "percent"


def _sized_unit(sizes: Array, period: str) -> str | None:
    """Return whether rates of a period are fractions or percent, by their size."""
    if not period:
        return _unit_by_size(sizes)
    unit = _unit_by_size(sizes * 8 / HOURS[period])
    if unit == "percent":
        return f"percent_{period}"
    most = _MAX_PER_YEAR if sizes.size >= _FEW else _MAX_PER_YEAR_OF_FEW
    if unit is None or (period == "year" and sizes.max(initial=0.0) > most):
        return None
    return f"per_{period}"


def _unit_by_size(sizes: Array) -> str | None:
    """Return whether rates are fractions or percent of their interval, by their size and their floors."""
    median = _median(sizes)
    has_floors = _share_at_floors(sizes) > 0.02
    is_small = sizes.size < _FEW or sizes.max(initial=0.0) < 0.03
    if 1e-7 < median < 0.0015 and (has_floors or is_small):
        return "native"
    if has_floors and median < 0.005:
        return "native"
    # The floor of 8 hours, 0.01 %, is the most frequent rate of most contracts.
    if sizes.size >= _FEW and np.mean(np.isclose(sizes, 0.01, rtol=1e-9)) > 0.05 and median < 0.05:
        return "percent"
    return None


def unit_of_volatility(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> str | None:
    """Return whether volatilities are in percent, by their median: no market has 300 % or 3 %."""
    if "iv" not in by_meaning:
        return None
    sizes = _sizes(head, by_meaning["iv"])
    if not sizes.size:
        return None
    median = _median(sizes)
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


_NAMES_OF_UNITS = frozenset("unit units oiunit openinterestunit rateunit fundingunit".split())
_WORDS_OF_UNITS = {
    "usd": "usd", "usdt": "usd", "$": "usd", "usdvalue": "usd",
    "coin": "coins", "coins": "coins", "base": "coins", "token": "coins",
    "contract": "contracts", "contracts": "contracts", "cont": "contracts", "lots": "contracts",
    "percent": "percent", "pct": "percent", "%": "percent", "bps": "bps",
    "fraction": "native", "decimal": "native",
}  # fmt: skip
"""Units of open interest and of rates, by the words of a unit column."""


def unit_in_rows(source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str]) -> str | None:
    """Return the unit that a column states for all rows; raise for several units.

    The name of a coin is the unit of its own open interest.
    """
    columns = columns_named(head, _NAMES_OF_UNITS)
    if not columns:
        return None
    words = texts_of(head, columns[0])
    coins = symbols_of(texts_of(head, by_meaning.get("symbol")))
    stated = set()
    for word in words:
        stated.add("coins" if word in coins else _WORDS_OF_UNITS.get(word.lower(), ""))
    if len(stated) > 1 or stated == {""}:
        raise ArchiveError(
            f"{source}: column {columns[0]} has several or unknown units ({', '.join(words[:4])}): write "
            "one file for each unit"
        )
    if not stated <= {*units_of(archive_table(table))}:
        return None
    return next(iter(stated), None)


def scales_of(source: Source, mapped: Mapping[str, str]) -> dict[str, float]:
    """Return the scale in the names of amount columns; raise for a word that may be a scale."""
    scales: dict[str, float] = {}
    for name, column in mapped.items():
        if name not in AMOUNTS_IN_USD:
            continue
        word = unread_scale(column)
        if word:
            raise ArchiveError(
                f"{source}: column {column!r} may be in a multiple of USD, because it has the word "
                f"{word!r}: convert it to USD, and rename it to {name}"
            )
        _, scale = scale_in_name(column)
        if scale != 1.0:
            scales[name] = scale
    return scales


def unit_of_interest(source: Source, column: str) -> str:
    """Return ``usd`` if the file name contains it, else raise `Unclear`."""
    if IN_USD.search(source.file_name) is not None:
        return "usd"
    raise Unclear(
        f"{source}: {column} may be in USD, coins or contracts: pass --unit usd (or usd_millions), "
        "--unit coins, or --unit contracts and --set contract_size=COINS",
        "--unit",
        ["usd", "usd_millions", "coins", "contracts"],
    )


FIELDS_OF_BOTH_SIDES = {
    "bybit": (("openinterest", "openinterestvalue"), ()),
    "gateio": (("openinterest", "openinterestusd", "totalsize"), ("lsrtaker", "lsraccount", "totalsize")),
    "huobi": (("amount", "volume", "value"), ("amounttype", "tradeturnover", "contractcode")),
}
"""By venue, fields that count both sides of each contract, and fields next to them, of which one is required.

Bybit's history, Gate's ``contract_stats`` and tickers, and HTX's open interest: `derivdata.sources.venues`.
"""


def both_sides(given: Given, head: Chunk) -> list[str]:
    """Return the venues of a file whose open interest counts both sides of each contract."""
    name = plain_name(_last_part(given.map.get("oi_usd", "")))
    columns = {plain_name(_last_part(column)) for column in head.columns}
    venues = []
    for venue in sorted(venues_of(words_of("exchange", head, given))):
        fields, neighbours = FIELDS_OF_BOTH_SIDES.get(venue, ((), ()))
        if name in fields and (not neighbours or not columns.isdisjoint(neighbours)):
            venues.append(venue)
    return venues


def _last_part(column: str) -> str:
    """Return the last part of a nested field name such as ``data.openInterestValue``."""
    return column.rsplit(".", 1)[-1]


def words_of(name: str, head: Chunk, given: Given) -> list[str]:
    """Return the words of a column of the table in the first rows, or the one of all rows."""
    if name in given.set:
        return [given.set[name]]
    column = given.map.get(name, name)
    return texts_of(head, column if column in head.columns else None)


_LEADERS = frozenset({"BTC", "ETH"})
_LARGE_VENUES = frozenset("binance bybit okx bitget gateio deribit hyperliquid".split())
_MIN_INTEREST = 1e6
"""Open interest of BTC or ETH on a large venue [USD], below which it needs ``--accept unit``."""


def refuse_small_interest(source: Source, head: Chunk, plan: ImportPlan) -> None:
    """Raise for open interest of BTC or ETH in USD that is too small for a large venue, also where stated."""
    column = plan.source_of("oi_usd", head.columns)
    if column in (None, "oi_usd") or plan.unit in IN_COINS or "unit" in plan.accept:
        return
    name = _word_of_all(head, plan, "symbol")
    venue = _word_of_all(head, plan, "exchange")
    if not symbols_of([name]) <= _LEADERS or venue_of_word(venue) not in _LARGE_VENUES:
        return
    amounts = figures_of(head, column) * plan.scales.get("oi_usd", 1.0)
    amounts = amounts[np.isfinite(amounts) & (amounts > 0)]
    if amounts.size and _median(amounts) < _MIN_INTEREST:
        raise Unclear(
            f"{source}: the median of column {column} is {_median(amounts):,.6g} USD, but open interest "
            f"of {name} on {venue} is rarely below one million USD: pass --unit usd_millions, "
            "--unit coins or --unit contracts if that is the unit, or --accept unit if it is right",
            "--unit",
            ["usd_millions", "coins", "contracts"],
        )


def _word_of_all(head: Chunk, plan: ImportPlan, name: str) -> str:
    """Return the symbol or the venue of all rows; empty where rows have several."""
    if name in plan.constants:
        return plan.constants[name]
    words = texts_of(head, plan.source_of(name, head.columns))
    return words[0] if len(words) == 1 else ""


_NAMES_OF_SIZES = ("contractsize", "ctval", "contractval", "contractvalue", "quantomultiplier")
"""Names of the coins of a contract."""
_NAMES_IN_COINS = (
    "oiccy", "openinterestccy", "oicoins", "openinterestcoins", "openinterestbase", "startingopeninterest",
)  # fmt: skip
"""Names of open interest in coins. OKX's ``oiCcy`` is next to ``oi``, which is contracts.

dYdX's candles have ``startingOpenInterest`` (indexer v4, 2026).
"""
_PRICES_OF_INTEREST = ("mark", "index", "price_usd", "last")
"""Meanings of prices that convert open interest to USD, the first of which is used."""


def take_interest(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str], given: Given
) -> str | None:
    """Add open interest in coins or contracts with its price; return its unit, None for a column of USD."""
    stated = {*given.set, *given.map}
    if "oi_usd" in {*mapped, *stated, *head.columns} or "oi_coins" not in by_meaning:
        return None
    plain = plain_columns(head)
    in_coins = first_of(plain, _NAMES_IN_COINS)
    column = in_coins or by_meaning["oi_coins"]
    mapped["oi_usd"] = column
    if given.unit is not None:
        unit = given.unit
    elif in_coins is not None:
        unit = "coins"
    elif plain_name(column).endswith("contracts"):
        unit = "contracts"
    else:
        unit = interest_by_size(source, head, by_meaning, given) or unit_of_interest(source, column)
    size = first_of(plain, _NAMES_OF_SIZES)
    if unit == "contracts" and size is not None and "contract_size" not in stated:
        _refuse_size_in_usd(source, head, size)
        mapped["contract_size"] = size
    price = first_of(by_meaning, _PRICES_OF_INTEREST)
    if price is None and PRICE_OF_COIN in head.columns:
        price = PRICE_OF_COIN
    if unit in IN_COINS and price is not None and "price_usd" not in stated:
        mapped["price_usd"] = price
    return unit


_NAMES_OF_CURRENCIES = frozenset("ctvalccy contractvalccy contractsizeccy contractsizecurrency".split())
_DOLLARS = frozenset({"USD", "USDT", "USDC"})


def _refuse_size_in_usd(source: Source, head: Chunk, size: str) -> None:
    """Raise for sizes of contracts in USD, by the column of their currency, OKX's ``ctValCcy`` (v5, 2026)."""
    for name, cells in head.columns.items():
        if plain_name(name) in _NAMES_OF_CURRENCIES and _DOLLARS & {*encoded(cells).texts}:
            raise ArchiveError(
                f"{source}: column {size} has contract sizes in USD, as {name} shows: multiply the "
                "contracts by their size, and write the product into a column oi_usd"
            )


_LARGEST_CONTRACT = 1_000.0
"""Value of a contract [USD] of more than one coin, above which its size is probably in USD.

Venues have 100 and 10 USD for inverse contracts, and less than a coin of BTC or ETH for linear ones. CME has
5 and 50 coins.
"""


def refuse_large_contracts(source: Source, head: Chunk, whole: Given) -> None:
    """Raise `ArchiveError` for contract sizes that would be worth more than any perpetual's contract.

    Contracts of a known amount of USD are exempt, because that amount is used instead.
    """
    if whole.unit != "contracts" or "unit" in whole.accept:
        return
    names = words_of("symbol", head, whole)
    venues = [venue_of_word(word) for word in words_of("exchange", head, whole)]
    pairs = [*itertools.product(venues, names)]
    if "cme" in venues or (pairs and _are_contracts_of_usd(pairs)):
        return
    sizes = _figures_or_constant(head, whole, "contract_size")
    prices = _figures_or_constant(head, whole, "price_usd")
    symbols = symbols_of(names)
    if np.isnan(prices).all() and len(symbols) == 1 and symbols <= _LEADERS:
        prices[:], _ = _PRICES_OF_LEADERS[symbols.pop()]  # their lowest price
    value = _median((sizes * prices)[(sizes > 1.0) & np.isfinite(prices)])
    if value > _LARGEST_CONTRACT:
        raise ArchiveError(
            f"{source}: a contract of {_median(sizes):g} coins would be worth {value:,.0f} USD, so that "
            "contract_size is probably in USD: write the contracts times their USD into a column oi_usd, or "
            "pass --accept unit if contract_size is in coins"
        )


def _figures_or_constant(head: Chunk, whole: Given, name: str) -> Array:
    """Return the figures of a column in the first rows, or the one of all rows; NaN without either."""
    if name in whole.set:
        return np.full(len(head), float(whole.set[name]))
    column = whole.map.get(name, name)
    if column not in head.columns:
        return np.full(len(head), np.nan)
    return figures_of(head, column)


_SAYS_USD = re.compile(r"usd|dollar|\$", re.IGNORECASE)
_VALUES_OF_INTEREST = frozenset("openinterestvalue sumopeninterestvalue oivalue openinterestnotional".split())
"""Names of open interest values without USD: for inverse contracts the values are in coins."""


def interest_of_inverse(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], whole: Given, given: Given
) -> AmountPlan:
    """Return the plan for open interest of coin-settled contracts.

    Their value is in coins, and their amount in contracts of so many USD, or in USD.
    """
    column = whole.map.get("oi_usd", "oi_usd")
    venues = [venue_of_word(word) for word in words_of("exchange", head, whole)]
    pairs = [*itertools.product(venues, words_of("symbol", head, whole))]
    if column in head.columns and not _SAYS_USD.search(column):
        _refuse_both_margins(source, pairs)
    inverse = [pair for pair in pairs if is_inverse_name(*pair)]
    if not inverse or column not in head.columns or _SAYS_USD.search(column) or given.unit in IN_DOLLARS:
        return AmountPlan(whole)
    names = ", ".join(name for _, name in inverse[:3])
    if len(inverse) < len(pairs):
        raise ArchiveError(
            f"{source}: open interest is in coins for some contracts and in contracts for others "
            f"({names}): write one file for each unit, or a column in USD"
        )
    contracts = by_meaning.get("oi_coins", column)
    has_value = plain_name(column) in _VALUES_OF_INTEREST
    has_contracts = (has_value and contracts != column) or whole.unit == "contracts"
    if has_contracts and _are_contracts_of_usd(inverse):
        return _plan_of_contracts(head, whole, contracts)
    if has_value or whole.unit is None:
        raise Unclear(
            f"{source}: {column} of {names} may be in USD, coins or contracts: pass --unit usd, --unit "
            "coins, or --unit contracts if they are contracts of a known amount of USD",
            "--unit",
            ["usd", "coins", "contracts"],
        )
    return AmountPlan(whole)


def _are_contracts_of_usd(pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether contracts of some venues and names are all of a known amount of USD."""
    for venue, name in pairs:
        amount = amount_of(venue, name)
        if amount is None or not amount.is_usd:
            return False
    return True


def _plan_of_contracts(head: Chunk, whole: Given, column: str) -> AmountPlan:
    """Return the plan for a column of contracts with a known size in USD, which needs no price."""
    not_needed = ("price_usd", "contract_size")
    rest = _without(whole, *not_needed)
    constants = {name: word for name, word in whole.set.items() if name not in not_needed}
    rest = rest._replace(map={**rest.map, "oi_usd": column}, set=constants, unit=None)
    venues = both_sides(rest, head)
    adjust: Adjust = usd_of_contracts
    if venues:
        adjust = partial(_usd_of_one_side, venues=venues)
    return AmountPlan(rest, adjust, ignored=frozenset(not_needed))


def _refuse_both_margins(source: Source, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise for open interest of inverse and linear perpetuals of Deribit in one column.

    It is in USD of the former and in coins of the latter (API v2, get_book_summary_by_currency, 2026).
    """
    names = [name for venue, name in pairs if venue == "deribit" and name.endswith("-PERPETUAL")]
    linear = [name for name in names if "_USD" in name]
    if linear and len(linear) < len(names):
        raise ArchiveError(
            f"{source}: open interest of Deribit is in coins for {', '.join(linear[:3])}, and in USD for "
            "contracts without USDC in their name: write one file for each unit, and pass --unit coins "
            "or --unit usd"
        )


def _usd_of_one_side(frame: pd.DataFrame, venues: Sequence[str]) -> pd.DataFrame:
    """Return open interest of one side [USD] from rows that count the contracts of both sides."""
    return one_side(usd_of_contracts(frame), venues)


_LIKELY_INTEREST = (1e7, 1e11)
"""Minimum and maximum open interest of BTC or ETH on a venue [USD]."""
_USUAL_INTEREST = (1e8, 3e10)
"""Open interest of BTC or ETH on a large venue since 2021 [USD]."""
_LARGEST_INTEREST = {
    "binance": 2e10, "bybit": 1.3e10, "gateio": 1.2e10, "bitget": 8e9, "okx": 6.5e9, "hyperliquid": 6.5e9,
    "deribit": 6.5e9,
}  # fmt: skip
"""Open interest of BTC on a venue [USD] that was never reached.

At the record of 2025-10-06 CoinGlass had 16.8e9 on Binance, 10.5e9 on Bybit, 9.2e9 on Gate, 6.3e9 on Bitget
and 5.1e9 on OKX. Hourly data of Hyperliquid from 2025-03 to 2026-03 are below 5e9.
"""
_PRICES_OF_LEADERS = {"BTC": (3_000.0, 300_000.0), "ETH": (80.0, 10_000.0)}
"""Minimum and maximum prices [USD] for checks of amounts without a price."""
_MAX_ROWS = 0.9


def interest_by_size(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> str | None:
    """Return whether open interest of BTC or ETH is USD, coins or contracts, by its size and price.

    One reading must be usual for a large venue, and the others impossible. None if that is not so.
    """
    venues = venues_of(words_in(source, "exchange", head, by_meaning, given))
    names = words_in(source, "symbol", head, by_meaning, given)
    symbols = symbols_of(names)
    sizes = {_coins_of_contract(venue, name.upper()) for venue, name in itertools.product(venues, names)}
    if len(sizes) != 1 or len(symbols) != 1 or not symbols <= _LEADERS:
        return None
    size = sizes.pop()
    column = by_meaning["oi_coins"]
    _, scale = scale_in_name(column)
    amounts = figures_of(head, column) * scale
    price = first_of(by_meaning, PRICES)
    if price is None:
        lowest, highest = _PRICES_OF_LEADERS[next(iter(symbols))]
        prices = np.full(len(head), lowest), np.full(len(head), highest)
    else:
        prices = figures_of(head, price), figures_of(head, price)
    readings = {"usd": (amounts, amounts), "coins": (amounts * prices[0], amounts * prices[1])}
    if size not in (None, 1.0):
        coins = amounts * size
        readings["contracts"] = (coins * prices[0], coins * prices[1])
    usual = [unit for unit, usd in readings.items() if _share_within(*usd, _USUAL_INTEREST) > _MAX_ROWS]
    possible = [unit for unit, usd in readings.items() if _share_within(*usd, _LIKELY_INTEREST) > 0.0]
    # Dashboards write millions: 8,000 may be so many coins, or 8 billion USD. 90,000 can only be coins.
    largest = min((_LARGEST_INTEREST.get(venue, _LIKELY_INTEREST[1]) for venue in venues), default=0.0)
    millions = 1e6 * amounts
    if scale == 1.0 and _share_within(millions, millions, (_USUAL_INTEREST[0], largest)) > 0.0:
        return None
    if usual != possible or len(usual) != 1:
        return None
    # Contracts of an unknown size are less than as many coins.
    return usual[0] if size is not None else None


def _share_within(least: Array, most: Array, bounds: tuple[float, float]) -> float:
    """Return the share of rows whose range of open interest reaches into some bounds."""
    is_known = np.isfinite(least) & np.isfinite(most) & (most > 0)
    if not is_known.any():
        return 0.0
    is_within = (most >= bounds[0]) & (least <= bounds[1])
    return float(np.mean(is_within[is_known]))


def _coins_of_contract(venue: str, name: str) -> float | None:
    """Return the coins of an amount of 1 of a linear contract on a large venue; None if that is not known."""
    if venue in VENUES_IN_COINS and name in _LEADERS:
        return 1.0
    # The name of a coin alone does not say which of a venue's contracts is meant.
    if venue not in {*VENUES_IN_COINS, *_LARGE_VENUES} or name in _LEADERS:
        return None
    amount = amount_of(venue, name)
    if amount is None or amount.is_usd:
        return None
    return amount.size


_VENUES_IN_CONTRACTS = frozenset("okx gateio kucoin huobi mexc bitmex".split())
"""Venues whose amounts are contracts, also those of which the size is not a fact of `dd.venues.facts`."""
_NEAR = 0.05
"""Share by which a value may differ from amount × price, as orders and fills have different prices."""


class AmountPlan(NamedTuple):
    """Plan for liquidation amounts: options, final function, and derived columns."""

    given: Given
    adjust: Adjust | None = None
    makes: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()


def amount_plan(source: Source, head: Chunk, whole: Given, given: Given) -> AmountPlan:
    """Return the plan for the amounts of a file, from the caller's unit or from contracts and values.

    `whole` has the columns that were recognised, `given` the options of the caller.
    """
    size = _column_of(("filled_quantity", "quantity"), head, whole)
    price = _column_of(("fill_price_usd", "order_price_usd"), head, whole)
    value = _column_of(("value_usd",), head, whole)
    if size is None:
        return AmountPlan(whole._replace(unit=None))
    if given.unit == "usd":
        return _of_usd(size, whole)
    if given.unit == "contracts" and not _has_contract_size(head, given):
        return _of_contracts(size, whole)
    if given.unit == "coins":
        whole = whole._replace(set={**whole.set, "contract_size": "1"})
    whole = whole._replace(unit=None)
    if given.unit is None:
        refuse_other_sizes(source, head, whole)
    if _has_contract_size(head, whole):
        return _of_stated_size(head, whole, given, size, price, value)
    rows = _first_rows(head, whole, size, price, value)
    _refuse_unclear(source, rows, size)
    if value is None:
        return AmountPlan(whole)
    return AmountPlan(whole, adjust=judged)


def _column_of(names: Sequence[str], head: Chunk, given: Given) -> str | None:
    """Return the file's column for the first of these columns of the table that it has."""
    for name in names:
        column = given.map.get(name, name)
        if column in head.columns and name not in given.set:
            return column
    return None


def _has_contract_size(head: Chunk, given: Given) -> bool:
    """Return whether an option or the file states the size of a contract."""
    return "contract_size" in {*given.map, *given.set, *head.columns}


def _without(given: Given, *names: str) -> Given:
    """Return the options without some columns of the table."""
    return given._replace(map={name: column for name, column in given.map.items() if name not in names})


def _of_usd(size: str, whole: Given) -> AmountPlan:
    """Return the plan for amounts in USD, which are the values."""
    rest = _without(whole, "quantity", "filled_quantity", "value_usd")
    rest = rest._replace(map={**rest.map, "value_usd": size}, unit=None)
    return AmountPlan(rest, ignored=frozenset({"quantity", "filled_quantity"}))


def _of_contracts(size: str, whole: Given) -> AmountPlan:
    """Return the plan for amounts in each venue's own unit, from which values are computed."""
    rest = _without(whole, "filled_quantity", "value_usd")
    rest = rest._replace(map={**rest.map, "quantity": size}, unit=None)
    made = frozenset({"value_usd"})
    return AmountPlan(rest, ADJUST["amounts"], made, made | {"filled_quantity"})


def _of_stated_size(
    head: Chunk, whole: Given, given: Given, size: str, price: str | None, value: str | None
) -> AmountPlan:
    """Return the plan for contracts of a stated size, without values that treat contracts as coins."""
    is_coin = float(whole.set.get("contract_size", "nan")) == 1.0
    if value is None or price is None or is_coin or {*given.map, *given.set} & {"value_usd"}:
        return AmountPlan(whole)
    rows = _first_rows(head, whole, size, price, value)
    if not _is_near(rows["value"], rows["size"] * rows["price"]):
        return AmountPlan(whole)
    return AmountPlan(_without(whole, "value_usd"), ignored=frozenset({"value_usd"}))


def refuse_other_sizes(source: Source, head: Chunk, whole: Given) -> None:
    """Raise for a stated contract size that does not fit all contracts of a file."""
    stated = whole.set.get("contract_size")
    if stated is None or float(stated) == 1.0:
        return
    venues = _words_of_rows(head, whole, "exchange")
    symbols = _words_of_rows(head, whole, "symbol")
    contracts = pd.DataFrame({"exchange": venues, "symbol": symbols}).dropna().drop_duplicates()
    sizes: dict[str, str] = {}
    have_stated_size = True
    for word, name in contracts.itertuples(index=False, name=None):
        amount = amount_of(venue_of_word(str(word)), str(name))
        size = "not known"
        if amount is not None:
            size = f"{amount.size:g}"
        sizes[f"{name} on {word}"] = size
        have_stated_size &= amount is not None and amount.size == float(stated)
    if len(sizes) <= 1 or have_stated_size:
        return
    listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
    raise Unclear(
        f"{source}: contract_size={stated} is not the size of all contracts ({listed[:200]}): import one "
        "contract at a time, or pass --unit contracts to use the size of each contract (rows are "
        "rejected if it is unknown)",
        "--unit",
        ["contracts"],
    )


def _words_of_rows(head: Chunk, whole: Given, name: str) -> Array:
    """Return the word of a column in each of the first rows; None where it is missing."""
    if name in whole.set:
        return np.full(len(head), whole.set[name], dtype=object)
    column = whole.map.get(name, name)
    if column not in head.columns:
        return np.full(len(head), None, dtype=object)
    return encoded(head.columns[column]).strings()


def _first_rows(head: Chunk, whole: Given, size: str, price: str | None, value: str | None) -> pd.DataFrame:
    """Return venue, contract, amount, price and value of the first rows; NaN without a column."""
    columns: dict[str, Array] = {}
    for name, column in (("size", size), ("price", price), ("value", value)):
        if column is None:
            columns[name] = np.full(len(head), np.nan)
        else:
            columns[name] = numbers(head.columns[column], name, Rejections(len(head)))
    for name in ("exchange", "symbol"):
        columns[name] = _words_of_rows(head, whole, name)
    return pd.DataFrame(columns)


def _refuse_unclear(source: Source, rows: pd.DataFrame, size: str) -> None:
    """Raise `Unclear` if neither the contract nor the values prove the unit of its amounts."""
    named = rows.dropna(subset=["exchange", "symbol"])
    for (word, name), own in named.groupby(["exchange", "symbol"], sort=False):
        venue = venue_of_word(str(word))
        if unit_of_amounts(venue, str(name), own["size"], own["price"], own["value"]):
            continue
        amount = amount_of(venue, str(name))
        choices = ["coins", "usd"]
        if amount is not None:
            choices = ["contracts", *choices]
            unit = "USD" if amount.is_usd else "coins"
            contracts = f"--unit contracts if they are contracts of {amount.size:g} {unit}"
        elif is_inverse_name(venue, str(name)):
            contracts = "--unit usd after multiplying them by the USD of a contract"
        else:
            contracts = "--set contract_size=COINS if they are contracts"
        values = ""
        if _is_near(own["value"], own["size"] * own["price"]):
            values = ", and its values are right only if they are coins"
        raise Unclear(
            f"{source}: sizes of {name} on {venue} (column {size}) may be in coins or in another "
            f"unit{values}: pass {contracts}, --unit coins or --unit usd",
            "--unit",
            choices,
        )


def unit_of_amounts(venue: str, name: str, sizes: pd.Series, prices: pd.Series, values: pd.Series) -> str:
    """Return ``coins``, or ``value`` if the value is right and amounts are not in coins; empty if unclear."""
    amount = amount_of(venue, name)
    is_of_coins = amount is not None and amount.size == 1.0 and not amount.is_usd
    is_product = _is_near(values, sizes * prices)
    if values.isna().all():
        # Without a proof amounts are coins if the venue counts coins, or has no contracts of another size.
        is_proven = False
        are_coins = is_of_coins or (amount is None and not _may_be_contracts(venue, name))
    elif prices.isna().all():
        is_proven = True
        are_coins = is_of_coins
    elif amount is None:
        is_proven = not is_product
        are_coins = is_product and not _may_be_contracts(venue, name)
    elif amount.is_usd:
        is_proven = _is_near(values, sizes * amount.size) and not is_product
        are_coins = False
    else:
        is_proven = _is_near(values, sizes * prices * amount.size) or _is_near(values, sizes)
        are_coins = is_of_coins and is_product
    if are_coins:
        return "coins"
    return "value" if is_proven else ""


def _may_be_contracts(venue: str, name: str) -> bool:
    """Return whether amounts of a contract of unknown size may be contracts."""
    return venue in _VENUES_IN_CONTRACTS or is_inverse_name(venue, name)


def _is_near(values: pd.Series, others: pd.Series) -> bool:
    """Return whether the median ratio of two columns of amounts is about 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (values / others).to_numpy(dtype=np.float64)
    ratios = ratios[np.isfinite(ratios)]
    return bool(ratios.size) and abs(float(np.median(ratios)) - 1.0) < _NEAR


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Set amounts in coins from their values where they are in another unit; unclear rows get a reason."""
    size_name = "filled_quantity" if "filled_quantity" in frame else "quantity"
    price = _price_of(frame)
    coins = frame[size_name].to_numpy(dtype=np.float64, copy=True)
    reasons = np.full(len(frame), None, dtype=object)
    names = frame["contract_name"].astype(str).to_numpy()
    venues = frame["exchange"].astype(str).to_numpy()
    is_changed = np.zeros(len(frame), dtype=bool)
    places = pd.Series(np.arange(len(frame)))
    for (venue, name), places_of_contract in places.groupby([venues, names], sort=False):
        rows = places_of_contract.to_numpy()
        values = frame["value_usd"].iloc[rows]
        unit = unit_of_amounts(str(venue), str(name), frame[size_name].iloc[rows], price.iloc[rows], values)
        if unit == "value":
            is_changed[rows] = True
            # Where a value is missing, price × amount was taken for it, which is wrong for contracts.
            is_computed = (values == frame[size_name].iloc[rows] * price.iloc[rows]).to_numpy()
            reasons[rows[is_computed]] = "value_usd is missing, and amounts are not in coins"
            coins[rows] = values / price.iloc[rows]
        elif not unit:
            reasons[rows] = (
                f"amounts of {name} on {venue} may be in coins or contracts: pass --unit coins or --unit "
                "contracts"
            )
    amounts: dict[str, Array] = {}
    for column in ("quantity", "filled_quantity"):
        if column in frame:
            amounts[column] = np.where(is_changed, coins, frame[column])
    return frame.assign(**amounts, reason=pd.Series(reasons, frame.index))


def _price_of(frame: pd.DataFrame) -> pd.Series:
    """Return the price of fills, or else of orders."""
    nothing = pd.Series(np.nan, frame.index)
    fill = frame.get("fill_price_usd", nothing)
    return fill.fillna(frame.get("order_price_usd", nothing))


_ORDER_SIDES = {"sell": "long", "buy": "short"}
_VENUES_OF_ORDER_SIDES = frozenset({"binance", "aster"})
"""Venues whose feeds of liquidations have the side of the order, and no other programs another one.

Binance's forceOrder (API document of 2026), Tardis, cryptofeed at ce58c2a0 and ccxt 4.5.90 agree.
"""
_OF_POSITION_SIDES = "bybit"
"""Venue whose feed ``allLiquidation`` has Buy for a liquidated long position (API v5, 2026)."""
_NAMES_OF_SIDES = ("side", "direction", "s", "orderside")


def words_of_sides(source: Source, head: Chunk, given: Given) -> Mapping[str, str]:
    """Return the closed position for each word of the side column, if the venue defines it."""
    column = given.map.get("side", "side")
    if column not in head.columns or "side" in {*given.set, *given.values}:
        return {}
    words = {text.lower() for text in encoded(head.columns[column]).texts}
    if plain_name(column) not in _NAMES_OF_SIDES or not words or not words <= {*_ORDER_SIDES}:
        return {}
    texts = [word for word in _words_of_rows(head, given, "exchange").tolist() if word is not None]
    venues = set(map(venue_of_word, texts))
    if _OF_POSITION_SIDES in venues and len(venues) > 1:
        raise ArchiveError(
            f"{source}: column {column} has sides of {', '.join(sorted(venues))}, where one word may "
            f"have two meanings: {_OF_POSITION_SIDES} publishes the side of the closed position, other "
            "venues the side of the order. Write one file for each venue, or pass --map-value "
            "side:BUY=short (or long) if a word has the same meaning in all rows"
        )
    if not venues or not venues <= _VENUES_OF_ORDER_SIDES:
        return {}
    return _ORDER_SIDES
