"""Convert rates, amounts, volatilities and shares of a file to the units of the table.

Open interest in coins becomes USD by the prices of the file or of the archive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.importing.finishing import amount_of
from derivdata.sources.archive.importing.instruments import CONTRACT
from derivdata.sources.archive.importing.plan import IN_COINS, RATE_UNITS, ImportPlan, takes_contract_size
from derivdata.sources.archive.importing.values import Rejections
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.required import require_decimal_volatility

SPACED_HOURS = 8.0
"""Interval by which rates are converted until the spacing of all rows gives theirs."""


def convert_units(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Convert rates, amounts, volatilities and shares to the table's units."""
    if "rate_bps_8h" in columns:
        _convert_rate(columns, plan, rejections)
    if takes_contract_size(plan.table):
        _convert_amounts(columns, plan, rejections)
    if "iv" in columns:
        _convert_volatility(columns, plan)
    if "long_short_ratio" in plan.table.columns:
        _convert_ratio(columns, rejections)


def _convert_amounts(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    if plan.unit in IN_COINS and (price := columns.get("price_usd")) is not None:
        rejections.reject(price <= 0, lambda row: f"price_usd={price[row]:g} is not positive")
    if "contract_size" in columns:
        _of_contracts(columns, plan)
    elif plan.unit == "contracts" and not _of_known_contracts(columns):
        raise ArchiveError(
            "--unit contracts needs the coins of a contract: pass --set contract_size=0.01, or its column "
            "with --map contract_size=COLUMN"
        )
    if "filled_quantity" in plan.table.columns:
        _convert_value(columns)


def _of_known_contracts(columns: dict[str, Any]) -> bool:
    """Multiply open interest by the coins of a contract that are facts of the venues; False if one is not."""
    if "exchange" not in columns or CONTRACT not in columns:
        return False
    venues = columns["exchange"].strings()
    names = columns[CONTRACT].strings()
    pairs = set(zip(venues.tolist(), names.tolist(), strict=True))
    amounts = {pair: amount_of(*pair) for pair in pairs if None not in pair}
    if any(amount is None or amount.is_usd for amount in amounts.values()):
        return False
    sizes = {pair: amount.size for pair, amount in amounts.items() if amount is not None}
    columns["oi_usd"] = columns["oi_usd"] * np.array(
        [sizes.get(pair, np.nan) for pair in zip(venues.tolist(), names.tolist(), strict=True)]
    )
    return True


def _convert_volatility(columns: dict[str, Any], plan: ImportPlan) -> None:
    if plan.unit is None:
        try:
            require_decimal_volatility(columns["iv"], "say --unit percent, or --unit decimal if it is not")
        except ValueError as fault:
            raise ArchiveError(str(fault)) from None
    if plan.unit == "percent":
        columns["iv"] = columns["iv"] / 100


def _of_contracts(columns: dict[str, Any], plan: ImportPlan) -> None:
    """Multiply amounts in contracts by the size of one."""
    names = ("oi_usd",) if plan.table.name == "oi_history" else ("quantity", "filled_quantity")
    for name in names:
        if name in columns:
            columns[name] = columns[name] * columns["contract_size"]


def _convert_value(columns: dict[str, Any]) -> None:
    """Value liquidations by price × quantity where the file has no value."""
    sizes = [columns[name] for name in ("filled_quantity", "quantity") if name in columns]
    prices = [columns[name] for name in ("fill_price_usd", "order_price_usd") if name in columns]
    if not sizes or not prices:
        return
    size = _first_known(sizes)
    price = _first_known(prices)
    stated = columns.get("value_usd")
    columns["value_usd"] = (
        price * size if stated is None else np.where(np.isnan(stated), price * size, stated)
    )


def _first_known(columns: list[Array]) -> Array:
    result = columns[0]
    for other in columns[1:]:
        result = np.where(np.isnan(result), other, result)
    return result


def _convert_ratio(columns: dict[str, Any], rejections: Rejections) -> None:
    """Take the ratio from the shares where both are there, and else the shares from the ratio."""
    nothing = np.full(len(rejections.bad), np.nan)
    long, short = (columns.get(name, nothing) for name in ("long_share", "short_share"))
    if _are_percent(long, short):
        long = columns["long_share"] = long / 100
        short = columns["short_share"] = short / 100
    stated = columns.get("long_short_ratio", nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.isnan(stated) & ~np.isnan(long) & ~np.isnan(short), long / short, stated)
        share = ratio / (1 + ratio)
    rejections.reject(~np.isfinite(ratio), "long_short_ratio is missing, and no shares give it")
    columns["long_short_ratio"] = ratio
    if "long_share" not in columns:  # an export with empty shares comes back as it was
        columns["long_share"] = share
    if "short_share" not in columns:
        columns["short_share"] = 1 - columns["long_share"]


def _are_percent(long: Array, short: Array) -> bool:
    """Return whether shares are percent: both of each row add up to 100."""
    both = long + short
    known = both[~np.isnan(both)]
    return bool(known.size) and bool((np.abs(known - 100) < _ROUNDING).all())


_ROUNDING = 1.5
"""Percentage points by which two rounded shares may miss 100."""


def _convert_rate(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    rate = columns["rate_bps_8h"]
    if plan.unit in (None, "bps_8h"):
        return
    scale, hours = RATE_UNITS[plan.unit]
    own: Any = hours
    if hours is None and plan.is_spaced:
        own = SPACED_HOURS  # until the interval is known from the spacing of all rows
    elif hours is None:
        if "interval_hours" not in columns:
            raise ArchiveError(
                f"--unit {plan.unit} is per the venue's own interval: select it with "
                "--set interval_hours=8 or --map interval_hours=COLUMN"
            )
        own = columns["interval_hours"]
        rejections.reject(np.isnan(own), "interval_hours is missing")
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["rate_bps_8h"] = units.convert(rate / scale, "native", "bps_8h", hours=own)


_PRICES = ("prices_history", "markets_symbol_exchanges")
_OLDEST = pd.Timedelta(1, "h")
_KINDS = ("last", "index", "mark")  # of prices at one instant the last of these is taken


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
            f"oi_usd: {missing.size:,} of {len(rows):,} rows are in coins, and the archive has no price of "
            f"{first['symbol']} within the hour before {times.iso(first['time'])}: name the file's column of "
            "prices [USD] with --map price_usd=COLUMN, or import prices_history first"
        )
    return rows.assign(oi_usd=rows["oi_usd"] * price).drop(columns="price_usd", errors="ignore")


def _price_in_archive(rows: pd.DataFrame, archive: Archive) -> pd.Series:
    prices = _prices(rows, archive)
    wanted = rows[["symbol", "exchange", "time"]].astype({"symbol": object, "exchange": object})
    wanted = wanted.assign(row=rows.index).sort_values("time", kind="stable")
    own, other = (
        pd.merge_asof(wanted, prices[[*by, "time", "price_usd"]], on="time", by=by, tolerance=_OLDEST)
        for by in (["symbol", "exchange"], ["symbol"])
    )
    return own["price_usd"].fillna(other["price_usd"]).set_axis(own["row"])


def _prices(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return the archive's prices of these symbols and times, in the order in which the last one counts."""
    first = rows["time"].min() - _OLDEST
    last = rows["time"].max() + pd.Timedelta(1, "us")
    symbols = sorted(set(rows["symbol"].astype(object)))
    parts = [archive.read(name, first, last, symbols=symbols) for name in _PRICES]
    columns = ["symbol", "exchange", "time", "price_usd", "kind"]
    parts = [part.reindex(columns=columns).astype(dict.fromkeys(columns[:2], object)) for part in parts]
    prices = pd.concat([part.assign(kind=part["kind"].astype(object)) for part in parts], ignore_index=True)
    prices = prices[prices["price_usd"] > 0].assign(rank=lambda p: p["kind"].map(_KINDS.index, "ignore"))
    return prices.sort_values(["time", "rank", "exchange"], na_position="first", kind="stable")
