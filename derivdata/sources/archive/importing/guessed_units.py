"""Units of rates, volatilities and open interest, by the names of columns, their sizes and the contracts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.adjustments import (
    VENUES_IN_COINS,
    amount_of,
    is_inverse_name,
    one_side,
    usd_of_contracts,
)
from derivdata.sources.archive.importing.cells import Rejections, encoded, numbers
from derivdata.sources.archive.importing.column_meanings import (
    CLOSES,
    HOURS,
    IN_USD,
    OF_USD,
    OPENS,
    PRICES,
    first_of,
    plain_columns,
    scale_and_period,
)
from derivdata.sources.archive.importing.guessed_tables import (
    words_in,
)
from derivdata.sources.archive.importing.liquidation_amounts import (
    AmountPlan,
)
from derivdata.sources.archive.importing.market_names import (
    market_of,
    plain_name,
    scale_in_name,
    unread_scale,
    venue_of_word,
)
from derivdata.sources.archive.importing.plan import (
    IN_COINS,
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

_MAX_PER_YEAR = (0.5, 1.5)
"""Rates of a year from which few, or many, may be percent; fractions above are rare."""
_FLOORS = (0.0001, 0.0000125, 0.00005, 0.000025, 0.0003)
"""Rates of quiet times, as fractions of 8, 1, 4, 2 and 24 hours (interest of 0.03 % a day)."""
_LEAST = 10
MAX_AT_FLOOR = 0.2
"""Share of rates at the floors of fractions above which a name that says percent needs a second sign."""


def _sizes(head: Chunk, column: str) -> Array:
    values = np.abs(numbers(head.columns[column], column, Rejections(len(head)), suffix="%"))
    return values[np.isfinite(values) & (values > 0)]


def unit_of_rates(source: Source, head: Chunk, column: str) -> str:
    """Return the unit of rates that their name, their cells or their size state."""
    values = head.columns[column]
    has_name = plain_name(column) not in ("value", *OPENS, *CLOSES)
    name = column if has_name else source.name.rsplit("/", 1)[-1].split(".")[0]
    scale, period = scale_and_period(name)
    if pa.types.is_string(values.type) and any("%" in text for text in encoded(values).texts):
        scale = "percent"
    sizes = _sizes(head, column)
    unit = _stated_unit(scale, period) if scale else _sized_unit(sizes, period)
    at_floor = bool(sizes.size) and float(np.mean(np.isin(np.round(sizes, 9), _FLOORS)))
    if scale == "percent" and not period and "%" in column and at_floor > MAX_AT_FLOOR:
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


def _stated_unit(scale: str, period: str) -> str | None:
    """Return the unit of a scale and a period; None for bps of a period other than 8 hours."""
    if scale == "bps":
        return {"": "bps", "8h": "bps_8h"}.get(period)
    return f"percent_{period}" if period else "percent"


def _sized_unit(sizes: Array, period: str) -> str | None:
    """Return whether rates of a period are fractions or percent, by their size."""
    if not period:
        return _unit_by_size(sizes, float(np.median(sizes)) if sizes.size else 0.0)
    unit = _sized_unit(sizes * 8 / HOURS[period], "")
    is_large = period == "year" and sizes.max(initial=0.0) > _MAX_PER_YEAR[sizes.size >= _LEAST]
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
    if IN_USD.search(source.name.rsplit("/", 1)[-1]) is not None:
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


def both_sides(given: Given, head: Chunk) -> list[str]:
    """Return the venues of a file whose column of open interest counts both sides of each contract."""
    name = plain_name(_last_part(given.map.get("oi_usd", "")))
    columns = {plain_name(_last_part(column)) for column in head.columns}
    venues = []
    for venue in sorted(set(map(venue_of_word, words_of("exchange", head, given)))):
        fields, neighbours = FIELDS_OF_BOTH_SIDES.get(venue, ((), ()))
        if name in fields and (not neighbours or not columns.isdisjoint(neighbours)):
            venues.append(venue)
    return venues


def _last_part(column: str) -> str:
    """Return the name of a field without those of the objects around it, ``data.openInterestValue``."""
    return column.rsplit(".", 1)[-1]


def scales_of(source: Source, mapped: Mapping[str, str]) -> dict[str, float]:
    """Return what 1 is in the columns of amounts whose names say it; raise for a word that may say it."""
    scales: dict[str, float] = {}
    for name, column in mapped.items():
        if name not in OF_USD:
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


def refuse_small_interest(source: Source, head: Chunk, plan: ImportPlan) -> None:
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


def unit_of_mapped(source: Source, head: Chunk, column: str) -> str | None:
    """Return the unit that the name of the caller's column of rates states, such as ``apr``."""
    if column not in head.columns or not any(scale_and_period(column)):
        return None
    return unit_of_rates(source, head, column)


def words_of(name: str, head: Chunk, given: Given) -> list[str]:
    """Return the words of a column of the table in the first rows, or the one of all rows."""
    if name in given.set:
        return [given.set[name]]
    column = given.map.get(name, name)
    return encoded(head.columns[column]).texts if column in head.columns else []


FIELDS_OF_BOTH_SIDES = {
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
    unit = given.unit
    if unit is None and in_coins is not None:
        unit = "coins"
    elif unit is None and plain_name(column).endswith("contracts"):
        unit = "contracts"
    unit = unit or _interest_by_size(source, head, by_meaning, given) or unit_of_interest(source, column)
    size = first_of(plain, _NAMES_OF_SIZES)
    if unit == "contracts" and size is not None and "contract_size" not in stated:
        mapped["contract_size"] = size
    _take_price(head, by_meaning, mapped, stated, unit)
    return unit


_SAYS_USD = re.compile(r"usd|dollar|\$", re.IGNORECASE)


def interest_of_inverse(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], whole: Given, given: Given
) -> AmountPlan:
    """Return how open interest is read of contracts that are settled in their coin.

    Their value is in coins, and their amount in contracts of so many USD, or in USD.
    """
    column = whole.map.get("oi_usd", "oi_usd")
    pairs = [
        (venue_of_word(venue), name)
        for venue, name in itertools.product(
            words_of("exchange", head, whole), words_of("symbol", head, whole)
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
        venues = both_sides(rest, head)
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
    column = next((by_meaning[name] for name in PRICES if name in by_meaning), None)
    least, most = _PRICES_OF_LEADERS[symbols.pop()]
    lowest = np.full(len(head), least)
    highest = np.full(len(head), most)
    if column is not None:
        lowest = highest = numbers(head.columns[column], "price_usd", Rejections(len(head)))
    coins = stated * sizes.pop()
    readings = {"usd": (stated, stated), "coins": (stated * lowest, stated * highest)}
    if not np.array_equal(coins, stated, equal_nan=True):
        readings["contracts"] = (coins * lowest, coins * highest)
    usual = [unit for unit, usd in readings.items() if _share_within(*usd, _USUAL_INTEREST) > _MAX_ROWS]
    possible = [unit for unit, usd in readings.items() if _share_within(*usd, _LIKELY_INTEREST) > 0.0]
    return usual[0] if usual == possible and len(usual) == 1 else None


_USUAL_INTEREST = (1e8, 3e10)
"""Open interest of BTC or ETH on a large venue since 2021 [USD]."""
_PRICES_OF_LEADERS = {"BTC": (3_000.0, 300_000.0), "ETH": (80.0, 10_000.0)}
"""The lowest and highest prices [USD] by which amounts without a price are judged."""
_MAX_ROWS = 0.9


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
