"""Legs of a position as arrays, and the prices at which expired ones are settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.delivery import of_contract
from derivdata.analysis.panels import require_columns
from derivdata.analysis.surface.clock import origin_us
from derivdata.support.text import did_you_mean
from derivdata.support.times import naive_utc
from derivdata.tables.contracts import expiries
from derivdata.tables.frames import require_instants

OPTIONS = ("call", "put")
EXPIRING = (*OPTIONS, "future")
SIDES = (*EXPIRING, "perpetual", "spot")
CONTRACTS = ("linear", "inverse")
NO_EXPIRY_YEARS = 100.0
"""Legs that are longer than this do not expire."""

_NEVER = np.datetime64("2400-01-01", "us")


class Instruments(NamedTuple):
    """Instruments of the legs; all over ``leg``."""

    expiry: xr.DataArray
    """Naive UTC; far in the future for legs without an expiry."""
    strike: xr.DataArray
    option_side: xr.DataArray
    """Side of each option, ``"call"`` of other legs."""
    quantity: xr.DataArray
    """Coins, or USD of an inverse future or perpetual."""
    price: xr.DataArray
    """Entry price [USD] of a future or perpetual, NaN if not given."""
    is_option: xr.DataArray
    is_spot: xr.DataArray
    has_no_expiry: xr.DataArray
    is_inverse: xr.DataArray
    is_dated: xr.DataArray
    """Whether the expiry was given as a date."""

    @property
    def options(self) -> Instruments:
        """Return the options only."""
        rows = np.flatnonzero(self.is_option.to_numpy())
        return Instruments(*(values.isel(leg=rows) for values in self))


def instruments(legs: pd.DataFrame) -> Instruments:
    """Read and check a table of legs; see `derivdata.analysis.position`."""
    require_columns(legs, "legs", ("quantity",), others=("side",))
    if not len(legs):
        raise ValueError("legs is empty: pass at least one leg")
    side = legs["side"].astype(object)
    unknown = ~side.isin(SIDES)
    if unknown.any():
        name = side[unknown].iloc[0]
        raise ValueError(
            f"the side of a leg must be one of {', '.join(SIDES)}, got "
            f"{name!r}{did_you_mean(str(name), SIDES)}"
        )
    is_option = side.isin(OPTIONS)
    if is_option.any():
        require_columns(legs, "legs", ("strike",), any_kind=("expiry",))
    quantity = legs["quantity"].astype(np.float64)
    strike = _numbers(legs, "strike")
    price = _numbers(legs, "price")
    is_good = np.isfinite(quantity).all() and (strike[is_option] > 0).all()
    if not is_good:
        raise ValueError("legs must have a quantity in coins and a strike above 0 in each row")
    if (strike.notna() & ~is_option).any():
        name = side[strike.notna() & ~is_option].iloc[0]
        raise ValueError(f"a leg with the side {name!r} must not have a strike: leave it empty")
    if not (price.isna() | (price > 0)).all():
        raise ValueError("the column 'price' of legs must be above 0 USD, or empty")
    is_inverse = _inverse(legs, side)
    expires = side.isin(EXPIRING)
    stamps, is_dated = _expiries(legs, side, expires)
    columns = {
        "expiry": stamps,
        "strike": strike.where(is_option).to_numpy(),
        "option_side": side.where(is_option, "call").to_numpy(dtype=object),
        "quantity": quantity.to_numpy(),
        "price": price.where(~is_option).to_numpy(),
        "is_option": is_option.to_numpy(dtype=bool),
        "is_spot": (side == "spot").to_numpy(dtype=bool),
        "has_no_expiry": ~expires.to_numpy(dtype=bool),
        "is_inverse": is_inverse.to_numpy(dtype=bool),
        "is_dated": is_dated,
    }
    return Instruments(**{name: xr.DataArray(values, dims="leg") for name, values in columns.items()})


def _numbers(legs: pd.DataFrame, name: str) -> pd.Series:
    if name not in legs:
        return pd.Series(np.nan, index=legs.index)
    try:
        return pd.to_numeric(legs[name]).astype(np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"the column {name!r} of legs must have numbers, got {legs[name].dtype}") from None


def _inverse(legs: pd.DataFrame, side: pd.Series) -> pd.Series:
    """Return a mask of inverse contracts, whose quantity is in USD."""
    if "contract" not in legs:
        return pd.Series(False, index=legs.index)
    contract = legs["contract"].astype(object)
    unknown = contract.notna() & ~contract.isin(CONTRACTS)
    if unknown.any():
        raise ValueError(
            f"the contract of a leg must be 'linear' or 'inverse', got {contract[unknown].iloc[0]!r}"
        )
    is_inverse = contract == "inverse"
    wrong = is_inverse & ~side.isin(("future", "perpetual"))
    if wrong.any():
        raise ValueError(
            f"a leg with the side {side[wrong].iloc[0]!r} must not have the contract 'inverse': only futures "
            "and perpetuals have a quantity in USD. The dim currency of results has the coin value of options"
        )
    return is_inverse


def _expiries(legs: pd.DataFrame, side: pd.Series, expires: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the expiry of each leg, a distant day without one, and a mask of dates."""
    stamps = np.full(len(legs), _NEVER)
    is_dated = np.zeros(len(legs), dtype=bool)
    if not expires.any():
        return stamps, is_dated
    require_columns(legs, "legs", any_kind=("expiry",))
    rows = expires.to_numpy(dtype=bool)
    if not rows.all() and legs["expiry"][~rows].notna().any():
        name = side[~rows & legs["expiry"].notna().to_numpy()].iloc[0]
        raise ValueError(
            f"a leg with the side {name!r} must not have an expiry: leave it empty, or set the side to "
            "'future'"
        )
    read, dated = expiries(legs["expiry"][rows], "the column 'expiry' of legs")
    stamps[rows] = naive_utc(read).to_numpy("datetime64[us]")
    is_dated[rows] = dated
    return stamps, is_dated


PREFERENCES = {"option": ("option", "index", "unstated"), "future": ("future", "index", "unstated")}
"""Kinds of delivery price for each kind of contract, in order of preference."""


def delivered(
    delivery: pd.DataFrame | Mapping[Any, Any],
    times: pd.DatetimeIndex,
    *,
    symbol: str | None = None,
    exchange: str | None = None,
    contract: str | None = None,
    kind: str = "option",
) -> pd.Series:
    """Return the delivery price [USD] of each expiry (naive UTC), NaN without one.

    Parameters
    ----------
    delivery
        Table ``delivery_prices``, or a mapping from expiries to prices.
    times
        Expiries of the legs.
    symbol, exchange
        Venue whose rows count; None if the data does not state it.
    contract
        As in `derivdata.analysis.position.attribution`.
    kind
        ``"option"`` or ``"future"``.
    """
    if isinstance(delivery, Mapping):
        return _of_mapping(delivery, times)
    require_columns(delivery, "delivery", ("price_usd",), others=("time",))
    require_instants(delivery, "delivery", ("time",))
    rows = delivery.assign(time=naive_utc(delivery["time"]))
    for name, value in (("symbol", symbol), ("exchange", exchange)):
        if value is not None and name in rows:
            rows = rows[rows[name].astype(object) == value]
    rows = rows[rows["time"].isin(times) & (rows["price_usd"] > 0.0)]
    if contract is None:
        rows = _without_others(rows, PREFERENCES[kind])
    rows = of_contract(rows, contract, PREFERENCES[kind], "delivery")
    rows = rows.drop_duplicates(["time", "price_usd"])
    repeated = rows.duplicated("time")
    if repeated.any():
        time = rows.loc[repeated, "time"].iloc[0]
        raise ValueError(
            f"delivery must have one price at {time:%Y-%m-%d %H:%M} UTC, got several: select the rows of one "
            "symbol and venue"
        )
    return rows.set_index("time")["price_usd"].astype(np.float64).reindex(times)


def _without_others(rows: pd.DataFrame, preference: Sequence[str]) -> pd.DataFrame:
    """Return the deliveries without those of other kinds of contracts."""
    if "contract" not in rows:
        return rows
    kinds = rows["contract"].astype(object).map(lambda name: str(name).partition(":")[0])
    return rows[kinds.isin(preference)]


def _of_mapping(prices: Mapping[Any, Any], times: pd.DatetimeIndex) -> pd.Series:
    stamps, _ = expiries(list(prices), "delivery")
    values = np.asarray(list(prices.values()), dtype=np.float64)
    if not (values > 0.0).all():
        raise ValueError("the prices of delivery must be above 0 USD")
    by_time = pd.Series(values, index=pd.DatetimeIndex(naive_utc(stamps)))
    if not by_time.index.is_unique:
        raise ValueError("delivery must have one price for each expiry, got two")
    return by_time.reindex(times)


def settlement_prices(
    held: Instruments,
    delivery: pd.DataFrame | Mapping[Any, Any],
    before: xr.Dataset,
    after: xr.Dataset,
    contract: str | None,
) -> xr.DataArray:
    """Return the delivery price of the legs that expire up to the time of `after`, NaN of others."""
    price = np.full(held.strike.size, np.nan)
    instant = np.asarray(origin_us(after, "after"))
    if instant.ndim:
        raise ValueError("after must have one timestamp with delivery=, got several")
    expiry = held.expiry.to_numpy()
    over = expiry.astype(np.int64) <= instant + 1.0
    labels = {name: str(before[name].item()) for name in ("symbol", "exchange") if name in before.coords}
    for kind, of_kind in (("option", held.is_option), ("future", ~held.is_option)):
        rows = np.flatnonzero(over & of_kind.to_numpy())
        if rows.size:
            times = pd.DatetimeIndex(np.unique(expiry[rows]))
            prices = delivered(delivery, times, contract=contract, kind=kind, **labels)
            require_delivered(prices)
            price[rows] = prices.loc[expiry[rows]].to_numpy()
    return xr.DataArray(price, dims="leg")


def require_delivered(prices: pd.Series) -> None:
    """Raise for an expiry without a delivery price."""
    missing = prices.index[prices.isna()]
    if len(missing):
        raise ValueError(
            f"delivery does not have a price for the expiry {missing[0]:%Y-%m-%d %H:%M} UTC: pass the table "
            "of dd.delivery.prices, or a mapping from expiries to prices [USD]"
        )
