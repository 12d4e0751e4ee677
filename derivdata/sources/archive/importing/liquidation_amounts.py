"""Amounts and sides of liquidations in files without a declared layout.

An amount is in coins, contracts or USD. The contract states which, and a value next to it may prove it. A
value that is price × amount proves nothing where the venue counts contracts: its writer may have taken them
for coins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.archive.importing.adjustments import ADJUST, amount_of, is_inverse_name
from derivdata.sources.archive.importing.cells import Rejections, encoded, numbers
from derivdata.sources.archive.importing.market_names import plain_name, venue_of_word
from derivdata.sources.archive.importing.plan import Adjust, Given, Unclear
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.source_files import Source
from derivdata.support.arrays import Array

_VENUES_IN_CONTRACTS = frozenset("okx gateio kucoin huobi mexc bitmex".split())
"""Venues whose amounts are contracts, also those of which the size is not a fact of `dd.venues.facts`."""
_NEAR = 0.05
"""Share by which a value may differ from amount × price, as orders and fills have different prices."""


class AmountPlan(NamedTuple):
    """How amounts of liquidations are read: options of the plan, its last function, columns that it makes."""

    given: Given
    adjust: Adjust | None = None
    makes: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()


def amount_plan(source: Source, head: Chunk, whole: Given, given: Given) -> AmountPlan:
    """Return how the amounts of a file are read, by the caller's unit or by the contracts and values.

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
    """Return the file's column of the first of some columns of the table that it has."""
    for name in names:
        column = given.map.get(name, name)
        if column in head.columns and name not in given.set:
            return column
    return None


def _has_contract_size(head: Chunk, given: Given) -> bool:
    """Return whether an option or the file states the size of a contract."""
    return "contract_size" in {*given.map, *given.set, *head.columns}


def _without(given: Given, *names: str) -> Given:
    """Return the options without the columns of some names."""
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
    """Return the plan for contracts of a stated size; values that take contracts for coins are not used."""
    is_coin = float(whole.set.get("contract_size", "nan")) == 1.0
    if value is None or price is None or is_coin or {*given.map, *given.set} & {"value_usd"}:
        return AmountPlan(whole)
    rows = _first_rows(head, whole, size, price, value)
    if not _is_near(rows["value"], rows["size"] * rows["price"]):
        return AmountPlan(whole)
    return AmountPlan(_without(whole, "value_usd"), ignored=frozenset({"value_usd"}))


def refuse_other_sizes(source: Source, head: Chunk, whole: Given) -> None:
    """Raise for a stated contract size that cannot be that of all contracts of a file."""
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
        f"{source}: contract_size={stated} differs from the sizes of its contracts ({listed[:200]}): pass "
        "--unit contracts to use the size of each (contracts of unknown size are rejected), or import one "
        "contract at a time",
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
    """Ask for the unit of amounts of a contract if neither the contract nor the values prove it."""
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
            f"{source}: sizes of {name} on {venue} may be in coins or not{values}: pass {contracts}, --unit "
            f"coins or --unit usd; they are in its column {size}",
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
            reasons[rows] = f"amounts of {name} on {venue} may be in coins or contracts: pass --unit"
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
_NAMES_OF_SIDES = ("side", "direction", "s", "orderside")


def words_of_sides(head: Chunk, given: Given) -> Mapping[str, str]:
    """Return the position that each word of the column of sides closed, where the venue decides it."""
    column = given.map.get("side", "side")
    if column not in head.columns or "side" in {*given.set, *given.values}:
        return {}
    words = {text.lower() for text in encoded(head.columns[column]).texts}
    if plain_name(column) not in _NAMES_OF_SIDES or not words or not words <= {*_ORDER_SIDES}:
        return {}
    texts = [word for word in _words_of_rows(head, given, "exchange").tolist() if word is not None]
    venues = set(map(venue_of_word, texts))
    if not venues or not venues <= _VENUES_OF_ORDER_SIDES:
        return {}
    return _ORDER_SIDES
