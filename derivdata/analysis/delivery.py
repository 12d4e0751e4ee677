"""Delivery prices of expiring legs, and their probabilities in earlier implied distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import risk_neutral
from derivdata.analysis.panels import (
    require_columns,
    require_numbers,
    require_unit_if_stated,
    require_variables,
)
from derivdata.support.arguments import typed
from derivdata.support.times import naive_utc
from derivdata.tables.contracts import expiries as read_expiries
from derivdata.tables.frames import require_timestamps

__all__ = ["calibration", "probabilities"]
__dir__ = __all__.copy

_PREFERENCE = ("option", "index", "unstated")
"""Kinds of delivery price for options, in order of preference; a future's mean may use another window."""


@typed
def probabilities(surface: xr.Dataset, prices: pd.DataFrame, *, contract: str | None = None) -> xr.Dataset:
    """Compute the implied probability of a price at or below each delivery price.

    Parameters
    ----------
    surface
        Result of `derivdata.analysis.surface.from_chain`, of one symbol on one venue, at one time or over
        time.
    prices
        Table ``delivery_prices``. Rows of other symbols and venues than the surface's are ignored.
    contract
        Contract whose deliveries are used, such as ``"option:USD"``. By default the first of these with
        deliveries: options, an index, an unknown contract. Deliveries of futures are used only if named.

    Returns
    -------
    Dataset over the surface's dims
        ``probability`` [1] of the risk-neutral distribution, ``log_moneyness`` ``ln(S/F)`` of the delivery,
        ``price_usd`` [USD], and ``status`` as in `derivdata.analysis.risk_neutral.density`. NaN without a
        delivery at an expiry, or without a fit.

    Raises
    ------
    ValueError
        The surface lacks forwards or has several symbols or venues; `prices` is another table; `contract`
        is missing although two contracts have different prices at an expiry, or only futures were delivered.

    Notes
    -----
    If this were the real-world distribution, probabilities would be uniform (Rosenblatt 1952; Diebold,
    Gunther and Tay 1998). It is risk-neutral: a price of risk shifts it, and overpriced volatility
    concentrates probabilities in the middle.
    """
    require_variables(surface, "surface", ("forward",), dims=("expiry",))
    require_columns(prices, "prices", ("price_usd",), others=("symbol", "exchange", "time"))
    require_timestamps(prices, "prices", ("time",))
    for name in ("symbol", "exchange"):
        if name in surface.dims:
            raise ValueError(f"surface must not have the dim {name!r}: select one of its labels")
        if name in surface.coords:
            prices = prices[prices[name] == surface[name].item()]
    expiries = pd.DatetimeIndex(surface["expiry"].to_numpy())
    prices = prices.assign(time=naive_utc(prices["time"]))
    prices = of_contract(prices[prices["time"].isin(expiries)], contract)
    delivered = prices.set_index("time")["price_usd"]
    if not delivered.index.is_unique:
        raise ValueError("prices must have one delivery for each time: select one symbol and venue")
    values = delivered.reindex(expiries).to_numpy(np.float64)
    price = xr.DataArray(values, {"expiry": surface["expiry"]}, "expiry", attrs={"units": "USD"})
    k = (xr.ones_like(price) * np.log(price / surface["forward"].reset_coords(drop=True))).drop_attrs()
    densities = risk_neutral.density(surface, k)
    named = {"probability": densities["distribution"].where(k.notnull()), "log_moneyness": k}
    return xr.Dataset({**named, "price_usd": price, "status": densities["status"]})


def of_contract(
    prices: pd.DataFrame,
    contract: str | None,
    preference: Sequence[str] = _PREFERENCE,
    argument: str = "prices",
) -> pd.DataFrame:
    """Return the deliveries of one contract at each expiry, of the first preferred kind."""
    if "contract" not in prices:
        if contract is not None:
            raise ValueError(f"contract={contract!r}: {argument} must have the column 'contract'")
        return prices
    # 1. Select the named contract.
    names = prices["contract"].astype(object)
    listed = ", ".join(sorted(set(names)))
    if contract is not None:
        if len(prices) and contract not in set(names):
            raise ValueError(
                f"contract={contract!r}: {argument} has no delivery of it at the expiries, only of {listed}"
            )
        return prices[names == contract]

    # 2. Select the contracts of the preferred kind for each expiry.
    ranks = {kind: float(place) for place, kind in enumerate(preference)}
    rank = names.map(lambda name: ranks.get(name.partition(":")[0], np.nan)).astype(np.float64)
    if len(prices) and rank.isna().all():
        raise ValueError(
            f"{argument} has only deliveries of {listed} at the expiries: pass one of them as contract="
        )
    best = rank.groupby(prices["time"]).transform("min")
    chosen = prices[(rank == best) & rank.notna()]

    # 3. Require that they agree, and use one of them.
    apart = chosen.groupby("time")["price_usd"].nunique()
    if (apart > 1).any():
        time = apart.index[apart > 1][0]
        several = sorted(set(chosen.loc[chosen["time"] == time, "contract"].astype(object)))
        if len(several) > 1:
            raise ValueError(
                f"{argument} at {time:%Y-%m-%d %H:%M} UTC differ between contracts {', '.join(several)}: "
                "pass one of them as contract="
            )
    same = chosen.duplicated(["time", "price_usd"]) & ~chosen.duplicated(["time", "contract"])
    return chosen[~same]


@typed
def calibration(probability: xr.DataArray, *, intervals: Sequence[float] = (0.5, 0.8, 0.9)) -> xr.Dataset:
    """Compare probabilities of deliveries with the uniform distribution, which correct densities imply.

    Parameters
    ----------
    probability
        Result of `probabilities`, any dims. Pass one forecast of each delivery: the test treats values as
        independent.
    intervals
        Probabilities of the central intervals to test.

    Returns
    -------
    Dataset, dim ``interval``
        ``inside``, the share of deliveries within each central interval [1]; ``count``; ``mean`` [1], which
        is 0.5 if neither side was overpriced; ``ks_statistic`` and ``p_value`` of the test of Kolmogorov and
        Smirnov against the uniform distribution, for independent deliveries. NaN without a probability.

    Raises
    ------
    ValueError
        An interval is not between 0 and 1, or `probability` states another unit than 1.

    Examples
    --------
    >>> held = dd.analysis.delivery.calibration(xr.DataArray([0.1, 0.4, 0.6, 0.97], dims="expiry"))
    >>> held["inside"].values.tolist(), held["count"].item()
    ([0.5, 0.75, 0.75], 4)
    """
    from scipy import stats  # imported here because it is slow and only this test needs it

    require_numbers(probability, "probability")
    require_unit_if_stated(probability, "probability", "1", "fraction")
    if not all(0.0 < level < 1.0 for level in intervals):
        raise ValueError("intervals must be probabilities above 0 and below 1")
    values = probability.to_numpy()
    values = values[np.isfinite(values)]
    apart = np.abs(values - 0.5)
    inside = np.full(len(intervals), np.nan)
    if values.size:
        inside[:] = [np.mean(apart <= level / 2.0) for level in intervals]
    figures: dict[str, Any] = {"mean": np.nan, "ks_statistic": np.nan, "p_value": np.nan}
    if values.size:
        test = stats.kstest(values, "uniform")
        figures = {"mean": values.mean(), "ks_statistic": test.statistic, "p_value": test.pvalue}
    variables = {"inside": ("interval", inside, {"units": "1"}), "count": values.size, **figures}
    return xr.Dataset(variables, {"interval": list(intervals)})


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
    require_timestamps(delivery, "delivery", ("time",))
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
    """Return the deliveries of the preferred kinds of contracts."""
    if "contract" not in rows:
        return rows
    kinds = rows["contract"].astype(object).map(lambda name: str(name).partition(":")[0])
    return rows[kinds.isin(preference)]


def _of_mapping(prices: Mapping[Any, Any], times: pd.DatetimeIndex) -> pd.Series:
    stamps, _ = read_expiries(list(prices), "delivery")
    values = np.asarray(list(prices.values()), dtype=np.float64)
    if not (values > 0.0).all():
        raise ValueError("the prices of delivery must be above 0 USD")
    by_time = pd.Series(values, index=pd.DatetimeIndex(naive_utc(stamps)))
    if not by_time.index.is_unique:
        raise ValueError("delivery must have one price for each expiry, got two")
    return by_time.reindex(times)


def require_delivered(prices: pd.Series) -> None:
    """Raise for an expiry without a delivery price."""
    missing = prices.index[prices.isna()]
    if len(missing):
        raise ValueError(
            f"delivery does not have a price for the expiry {missing[0]:%Y-%m-%d %H:%M} UTC: pass the table "
            "of dd.delivery.prices, or a mapping from expiries to prices [USD]"
        )
