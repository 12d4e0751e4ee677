"""Dated futures: basis by expiry and at a constant maturity, cash and carry, rolls, and backtest legs.

If a venue has several contracts of one expiry, the one with the largest median open interest so far is used,
without look-ahead. Each is compared with the index in its own quote currency.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.chain.forward import basis
from derivdata.analysis.funding.pairs import free_leg
from derivdata.analysis.labelling import elementwise, with_units
from derivdata.analysis.panels import Panel, hours_of, require, require_rate, require_variables
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import SECONDS_PER_YEAR, length, naive_utc
from derivdata.tables.frames import require_columns, require_timestamps
from derivdata.units import BPS

__all__ = ["cash_and_carry", "constant_maturity", "roll", "term_structure", "with_leg"]
__dir__ = __all__.copy

_PLACE = ["symbol", "exchange", "time"]
_YEAR_HOURS = SECONDS_PER_YEAR / 3600.0


@typed
def term_structure(futures: pd.DataFrame, *, min_tenor: str | pd.Timedelta = "1h") -> xr.Dataset:
    """Compute the basis of every expiry from dated futures.

    Parameters
    ----------
    futures
        Table ``futures_history``. Rows without an index are omitted.
    min_tenor
        Minimum time to expiry of a contract; just before expiry the annualised basis is noise.

    Returns
    -------
    Dataset, dims ``symbol``, ``exchange``, ``time``, ``expiry``
        ``forward`` [USD]: the price, times the venue's index over the index of the contract's own currency;
        ``spot`` [USD], the median index of the venue's contracts; ``oi_usd`` [USD]; and ``basis``,
        ``basis_apr``, ``carry`` and ``forward_carry`` as `derivdata.analysis.chain.basis` defines them.
        Coordinate ``year_fraction`` [years of 365 days]. NaN where no contract of the expiry has a row.

    Raises
    ------
    ValueError
        A column or a time is missing, or no row before an expiry has an index price.

    Notes
    -----
    ``plot.term_structure(kind="basis")`` draws the result at one time.

    Examples
    --------
    >>> curve = dd.analysis.futures.term_structure(dd.futures.history("BTC", "1d", venues=["okx"]))
    >>> curve.sizes["expiry"]
    9
    """
    rows = _known(futures, hours_of(min_tenor, "min_tenor", minimum=0.0))
    rows = rows.drop_duplicates([*_PLACE, "expiry"], keep="last")
    rows = rows.dropna(subset=["index_price_usd"])
    if rows.empty:
        raise ValueError("futures must have at least one row with an index price before its expiry")
    spot = rows.groupby(_PLACE)["index_price_usd"].median()
    rows = rows.join(spot.rename("spot"), on=_PLACE)
    rows["forward"] = rows["price_usd"] / rows["index_price_usd"] * rows["spot"]
    columns = ["forward", "oi_usd"]
    curve: xr.Dataset = rows.set_index([*_PLACE, "expiry"])[columns].to_xarray()
    curve = curve.assign(spot=spot.to_xarray())
    years = (curve["expiry"] - curve["time"]) / np.timedelta64(int(SECONDS_PER_YEAR), "s")
    curve = curve.assign_coords(year_fraction=years.where(years > 0.0))
    curve["forward_status"] = xr.zeros_like(curve["forward"], dtype=np.int32)
    curve = curve.assign(basis(curve, spot=curve["spot"])).drop_vars("forward_status")
    for name in (*columns, "spot"):
        curve[name].attrs["units"] = "USD"
    return curve


@typed
def constant_maturity(curve: xr.Dataset, tenor: str | pd.Timedelta = "90d") -> xr.DataArray:
    """Interpolate the basis to a fixed time to expiry.

    Parameters
    ----------
    curve
        Result of `term_structure`, or `derivdata.analysis.chain.basis` with a spot.
    tenor
        Time to expiry.

    Returns
    -------
    DataArray, the dims of `curve` without ``expiry``
        ``basis_apr`` [1/year, simple]. ``ln(forward / spot)`` is interpolated linearly in time between two
        expiries, and from 0 before the first expiry. NaN if all expiries are earlier than `tenor`.

    Raises
    ------
    ValueError
        `curve` has no basis, or `tenor` is not a positive length of time.

    Examples
    --------
    >>> curve = dd.analysis.futures.term_structure(dd.futures.history("BTC", "1d", venues=["okx"]))
    >>> dd.analysis.futures.constant_maturity(curve, "30d").sizes["time"]
    24
    """
    require_variables(curve, "curve", ("basis", "year_fraction"), dims=("expiry",))
    if not curve.sizes["expiry"]:
        raise ValueError("curve must have at least one expiry, got an empty dim expiry")
    at = hours_of(tenor, "tenor") / _YEAR_HOURS
    core = [["expiry"], ["expiry"], []]
    inputs = np.log1p(curve["basis"]), curve["year_fraction"], at
    apr: xr.DataArray = elementwise(_interpolated, *inputs, core=core, out=[[]])
    return apr.rename("basis_apr").assign_attrs(units="1/year")


def _interpolated(total: Floats, years: Floats, at: Floats) -> Floats:
    """Interpolate `total` along the last axis to one time to expiry, and return it as a simple rate.

    `total` is 0 at time 0.
    """
    total, years = np.broadcast_arrays(total, years)
    finite = np.isfinite(total) & (years > 0.0)
    tenor = np.asarray(at)[..., None]
    before = np.where(finite & (years <= tenor), years, 0.0)
    after = np.where(finite & (years >= tenor), years, np.inf)

    # 1. Find the expiries on both sides of the tenor; before the first expiry the line starts at 0.
    first = before.max(-1)
    last = after.min(-1)
    earlier = np.take_along_axis(total, before.argmax(-1)[..., None], -1)[..., 0]
    later = np.take_along_axis(total, after.argmin(-1)[..., None], -1)[..., 0]
    low = np.where(first > 0.0, earlier, 0.0)

    # 2. Interpolate linearly in time.
    weight = np.where(last > first, (tenor[..., 0] - first) / np.where(last > first, last - first, 1.0), 0.0)
    inside = np.where(np.isfinite(last), low + weight * (later - low), np.nan)
    return np.asarray(np.expm1(inside) / tenor[..., 0])


@typed
def cash_and_carry(curve: xr.Dataset, *, costs_bps: float = 0.0, borrow_apr: float = 0.0) -> xr.Dataset:
    """Compute the return of buying the coin and selling its future, held until the expiry.

    Parameters
    ----------
    curve
        Result of `term_structure`, or `derivdata.analysis.chain.basis` with a spot.
    costs_bps
        All costs of the round trip [bps of the spot's value]: the fees of buying and selling the coin, of
        selling the future, and of its delivery.
    borrow_apr
        Borrowing rate for the price of the coin [1/year, simple]. The future's margin is not financed.

    Returns
    -------
    Dataset, the dims of `curve`
        ``net`` [fraction of the spot's value, at the expiry], ``net_apr`` [1/year, simple] and
        ``breakeven_borrow_apr`` [1/year], the borrowing rate with zero return. Below 0 the reverse trade,
        short of the coin, may pay, with other costs. NaN without a basis, for example after the expiry.

    Raises
    ------
    ValueError
        `curve` has no basis, or a cost is below 0.

    Examples
    --------
    >>> curve = dd.analysis.futures.term_structure(dd.futures.history("BTC", "1d", venues=["okx"]))
    >>> trade = dd.analysis.futures.cash_and_carry(curve, costs_bps=15.0, borrow_apr=0.05)
    >>> sorted(trade)
    ['breakeven_borrow_apr', 'net', 'net_apr']
    """
    require_variables(curve, "curve", ("basis", "year_fraction"), dims=("expiry",))
    if not costs_bps >= 0.0:
        raise ValueError(f"costs_bps must be 0 or more, got {costs_bps!r}")
    years = curve["year_fraction"]
    left = curve["basis"] - costs_bps / BPS
    net = left - borrow_apr * years
    figures = {"net": net, "net_apr": net / years, "breakeven_borrow_apr": left / years}
    units = {"net": "fraction", "net_apr": "1/year", "breakeven_borrow_apr": "1/year"}
    return with_units(xr.Dataset(figures).transpose(*curve["basis"].dims), units)


@typed
def roll(futures: pd.DataFrame, *, before: str | pd.Timedelta = "1d") -> pd.DataFrame:
    """Return a future that is rolled into the next expiry, with the cost of each roll.

    Parameters
    ----------
    futures
        Table ``futures_history``.
    before
        Time before expiry at which the next expiry is held.

    Returns
    -------
    DataFrame
        One row per symbol, venue and time at which the held contract has a price. Each row uses only data up
        to its time, and a contract is never held again after a roll. ``instrument_name``, ``expiry`` and
        ``price_usd`` [USD] are those of the contract held from this row on. ``roll_bps`` [bps] is its price
        over that of the previous contract, minus one, at a roll, and NaN at other rows. ``rolled_usd`` [USD]
        is the value of one contract bought at the first row and rolled without fees; a roll changes only
        later values.

    Raises
    ------
    ValueError
        A column or a time is missing, no contract has more than `before` to its expiry, or a contract expires
        without a common price with a later one: use a finer resolution, or a larger `before`.

    Examples
    --------
    >>> held = dd.analysis.futures.roll(dd.futures.history("BTC", "30d", venues=["binance"]), before="3d")
    >>> held["instrument_name"].unique().tolist()
    ['BTCUSDT_260626', 'BTCUSDT_260925']
    """
    rows = _known(futures, 0.0)
    ahead = np.timedelta64(length(before, "before"))
    if not (rows["expiry"] - rows["time"] > ahead).any():
        raise ValueError(
            f"futures must have a contract with more than {before} until its expiry: pass more contracts, or "
            "a smaller before="
        )
    by_venue = [_held(contracts, ahead) for _, contracts in rows.groupby(_PLACE[:2])]
    held = pd.concat(by_venue, ignore_index=True)
    carried = held["ratio"].fillna(1.0).groupby([held["symbol"], held["exchange"]]).cumprod()
    held = held.assign(roll_bps=BPS * (held["ratio"] - 1.0), rolled_usd=held["price_usd"] / carried)
    for name in ("time", "expiry"):
        held[name] = held[name].dt.tz_localize("UTC")
    return held[[*_PLACE, "instrument_name", "expiry", "price_usd", "roll_bps", "rolled_usd"]]


def _held(rows: pd.DataFrame, ahead: np.timedelta64) -> pd.DataFrame:
    """Return the rows of a venue's held contracts, with ``ratio``, the ratio of the two prices of a roll.

    The result at a time depends only on rows up to that time. The rows are sorted by time, expiry and usual
    open interest.
    """
    held = []
    ratios = []
    expiry = rows["expiry"].to_numpy()
    price = rows["price_usd"].to_numpy()
    name = rows["instrument_name"].to_numpy()
    last: Any = None  # the row of the held contract
    for timestamp, at in rows.groupby("time").indices.items():
        # 1. Find the row of the held contract at this time.
        now = timestamp.to_datetime64()
        if last is not None and expiry[last] <= now:
            lost = rows.iloc[last]
            raise ValueError(
                f"{lost['symbol']} on {lost['exchange']}: the contract of {lost['expiry']:%Y-%m-%d} cannot "
                "be rolled, because it and a later one never have a price at the same time before its "
                "expiry: request a finer resolution, or pass a larger before="
            )
        if last is not None:
            still_priced = at[name[at] == name[last]]
            if not still_priced.size:  # without a price the roll is postponed
                continue
            last = still_priced[0]

        # 2. Choose the next contract if the held one is near its expiry.
        chosen = last
        later = at[expiry[at] - now > ahead]
        if later.size and (last is None or expiry[last] - now <= ahead):
            chosen = later[expiry[later] == expiry[later].min()][-1]
        if chosen is not None:
            held.append(chosen)
            ratios.append(np.nan if last in (None, chosen) else price[chosen] / price[last])
        last = chosen
    return rows.iloc[held].assign(ratio=ratios)


@typed
def with_leg(rates: Panel, prices: Panel, held: pd.DataFrame) -> xr.Dataset:
    """Add a rolled future to the rates and prices of a backtest, as a venue without funding.

    Parameters
    ----------
    rates, prices
        Funding rates [bps/8h] and marks [USD] of perpetuals, as for ``analysis.backtest.carry``.
    held
        Result of `roll`, at the times of `prices`.

    Returns
    -------
    Dataset
        ``rate_bps_8h`` and ``price_usd``, with a venue such as ``"okx future"`` next to those of `rates`, for
        each venue of `held`. Its rate is 0 at the times of the venue that has the most rates of the symbol.
        Its price is ``rolled_usd``, so a pair earns the basis as it shrinks. Set the fee of this venue in
        ``Costs(fee_bps=...)``. Costs of rolls are not included: subtract them from the result.

    Raises
    ------
    ValueError, TypeError
        A panel lacks a dim or has another unit, or `held` has no price at a time of `prices`.
    """
    rates = require_rate(rates, "symbol", "exchange", "time", name="rates")
    prices = require(prices, "symbol", "exchange", "time", units="USD", name="prices")
    require_columns(held, "held", ("rolled_usd",), others=_PLACE)
    legs = held.assign(exchange=held["exchange"].astype(str) + " future", time=naive_utc(held["time"]))
    marks = legs.set_index(_PLACE)["rolled_usd"].to_xarray()
    marks = marks.reindex(symbol=prices["symbol"], time=prices["time"])
    if not marks.notnull().any():
        raise ValueError("held and prices must have timestamps in common: use one resolution for both")

    # 1. Give each future a rate of 0 while it has prices.
    marked_at = marks["time"].where(marks.notnull())
    free = free_leg(rates)
    free = free.where(
        (free["time"] >= marked_at.min("time", skipna=True))
        & (free["time"] <= marked_at.max("time", skipna=True))
    )
    if "interval_hours" in free.coords:
        free = free.assign_coords(interval_hours=free["interval_hours"].where(free.notnull()))

    # 2. Append the futures as additional venues.
    both = xr.concat([rates, free.transpose(*_PLACE)], "exchange", join="outer")
    return xr.Dataset(
        {
            "rate_bps_8h": both.assign_attrs(rates.attrs),
            "price_usd": xr.concat([prices, marks.transpose(*_PLACE)], "exchange").assign_attrs(prices.attrs),
        }
    )


def _known(futures: pd.DataFrame, min_hours: float) -> pd.DataFrame:
    """Return the unexpired rows with naive times, sorted so that the usual contract of an expiry is last."""
    names = ("price_usd", "index_price_usd", "oi_usd")
    require_columns(futures, "futures", names, others=(*_PLACE, "expiry", "instrument_name"))
    require_timestamps(futures, "futures", ["time", "expiry"])
    rows = futures[futures["price_usd"].notna()]
    rows = rows.astype({"symbol": str, "exchange": str})
    rows = rows.assign(time=naive_utc(rows["time"]), expiry=naive_utc(rows["expiry"]))
    rows = rows[rows["expiry"] - rows["time"] > pd.Timedelta(min_hours, "h")]
    rows = rows.sort_values([*_PLACE, "instrument_name"], ignore_index=True)
    held = rows.groupby(["symbol", "exchange", "instrument_name"])["oi_usd"]
    rows["usual"] = held.transform(lambda amounts: amounts.expanding().median())
    order = [*_PLACE, "expiry", "usual", "instrument_name"]
    return rows.sort_values(order, na_position="first", ignore_index=True)
