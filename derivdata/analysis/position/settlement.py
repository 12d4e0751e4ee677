"""Prices at which options and futures are settled when they expire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.delivery import of_contract
from derivdata.analysis.inputs import require_columns
from derivdata.analysis.position.instruments import Instruments
from derivdata.analysis.surface.clock import origin_us
from derivdata.support.times import naive_utc
from derivdata.tables.expiries import expiries
from derivdata.tables.required import require_instants

PREFERENCES = {"option": ("option", "index", "unstated"), "future": ("future", "index", "unstated")}
"""Which deliveries a kind of contract is settled at, the best first."""


def delivered(
    delivery: pd.DataFrame | Mapping[Any, Any],
    times: pd.DatetimeIndex,
    *,
    symbol: str | None = None,
    exchange: str | None = None,
    contract: str | None = None,
    kind: str = "option",
) -> pd.Series:
    """Return the delivery price [USD] of each expiry (naive UTC), NaN where there is none.

    Parameters
    ----------
    delivery
        Table ``delivery_prices``, or a mapping from expiries to prices.
    times
        Expiries of the legs.
    symbol, exchange
        Whose rows count; None where the data does not say.
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
            f"delivery has several prices at {time:%Y-%m-%d %H:%M} UTC: select the rows of one symbol and "
            "venue"
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
        raise ValueError("the prices of delivery must be above 0 [USD]")
    by_time = pd.Series(values, index=pd.DatetimeIndex(naive_utc(stamps)))
    if not by_time.index.is_unique:
        raise ValueError("delivery has two prices of one expiry")
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
        raise ValueError("after has several times: delivery= needs surfaces of one time each")
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
    """Refuse an expiry without a delivery price."""
    missing = prices.index[prices.isna()]
    if len(missing):
        raise ValueError(
            f"delivery has no price for the expiry {missing[0]:%Y-%m-%d %H:%M} UTC: pass the table of "
            "dd.delivery.prices, or a mapping from expiries to prices [USD]"
        )
