"""Legs of a position on a surface: time to expiry, forward and volatility of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76
from derivdata.analysis.chain.normalise import instants
from derivdata.analysis.inputs import require_columns, require_variables
from derivdata.analysis.status import Status
from derivdata.analysis.surface.interpolation import variance_at, volatility
from derivdata.analysis.surface.labelling import require_surface, where
from derivdata.analysis.surface.maturity import Maturity, at_maturity
from derivdata.support.arrays import Floats
from derivdata.units import HOURS_PER_YEAR

DAYS_PER_YEAR = HOURS_PER_YEAR / 24.0
CURRENCIES = ("usd", "coin")
PREMIUMS = ("linear", "inverse")
_YEAR_US = DAYS_PER_YEAR * 86_400e6
_COLUMNS = ("strike", "quantity")


class Legs(NamedTuple):
    """What each leg is, and where the surface puts it; all over ``leg`` and the surface's leading dims."""

    strike: xr.DataArray
    side: xr.DataArray
    quantity: xr.DataArray
    year_fraction: xr.DataArray
    forward: xr.DataArray
    cut: Maturity

    def iv(self, k: xr.DataArray) -> xr.DataArray:
        """Return the volatility of the leg's expiry at log-moneyness `k`."""
        w = variance_at(self.cut, k)
        return volatility(w, self.year_fraction).reset_coords(drop=True)

    @property
    def moneyness(self) -> xr.DataArray:
        """Return ``ln(K/F)`` of each leg."""
        ratio: Any = self.strike / self.forward
        k: xr.DataArray = np.log(ratio)
        return k

    def status(self, k: xr.DataArray) -> xr.DataArray:
        """Return what the slices around each leg say, and whether its strike lies outside the quotes."""
        cut = self.cut
        flags = cut.status | cut.before["status"] | cut.after["status"]
        outside = (k < cut.k_min) | (k > cut.k_max)
        extrapolated = where(outside, np.int32(Status.EXTRAPOLATED), np.int32(0))
        status: xr.DataArray = (flags | extrapolated).astype(np.int32).reset_coords(drop=True)
        return status


def on_surface(legs: pd.DataFrame, surface: xr.Dataset, argument: str = "surface") -> Legs:
    """Place the legs on a surface.

    Raises
    ------
    ValueError
        A column is missing; a side, quantity or strike that cannot be; a surface without forwards or
        without instants as expiries.
    """
    require_columns(legs, "legs", _COLUMNS, others=("expiry", "side"))
    _require_legs(legs)
    require_surface(surface)
    require_variables(surface, argument, ("forward",))
    if "expiry" not in surface.indexes or surface["expiry"].dtype.kind != "M":
        raise ValueError(f"{argument} has no instants along expiry, so that no leg has a place on it")
    dated = instants(legs["expiry"], "the column 'expiry' of legs").dt.tz_localize(None)
    expiry = xr.DataArray(dated.to_numpy(), dims="leg")
    t = surface["year_fraction"].reset_coords(drop=True)
    # All expiries of an instant tell the same origin; the latest known one is as good as any.
    origin = (
        (surface["expiry"].astype("int64") / _YEAR_US - t).max("expiry").drop_vars("expiry", errors="ignore")
    )
    years = (expiry.astype("datetime64[us]").astype("int64") / _YEAR_US - origin).reset_coords(drop=True)
    years = years.where(abs(years) > 1e-12, 0.0)
    bare = surface.drop_vars(
        [name for name in surface.coords if name not in ("expiry", "forward", "year_fraction")]
    )
    parts = {
        "strike": legs["strike"].to_numpy(np.float64),
        "side": legs["side"].astype(object).to_numpy(),
        "quantity": legs["quantity"].to_numpy(np.float64),
    }
    arrays = {name: xr.DataArray(part, dims="leg") for name, part in parts.items()}
    forward = _forward_at(surface["forward"].reset_coords(drop=True), t, surface["method"] > 0, years)
    cut = at_maturity(bare.drop_vars("expiry"), years, extrapolate="flat_vol")
    return Legs(**arrays, year_fraction=years, forward=forward, cut=cut)


def _require_legs(legs: pd.DataFrame) -> None:
    if not len(legs):
        raise ValueError("legs has no rows")
    strange = ~legs["side"].isin(("call", "put"))
    if strange.any():
        raise ValueError(f"a leg has the side {legs['side'][strange].iloc[0]!r}: 'call' or 'put'")
    if not (np.isfinite(legs["quantity"]).all() and (legs["strike"] > 0).all()):
        raise ValueError("legs need a quantity in coins and a strike above 0 in every row")


def _forward_at(
    forward: xr.DataArray, t: xr.DataArray, usable: xr.DataArray, years: xr.DataArray
) -> xr.DataArray:
    at: xr.DataArray = xr.apply_ufunc(
        _interpolated,
        *(forward, t, usable.reset_coords(drop=True), years.rename(leg="leg")),
        input_core_dims=[["expiry"]] * 3 + [["leg"]],
        output_core_dims=[["leg"]],
        join="override",
        dask="parallelized",
        output_dtypes=[np.float64],
        vectorize=True,
    )
    return at


def _interpolated(forward: Floats, t: Floats, usable: Any, years: Floats) -> Floats:
    """Return the forward at each time: its logarithm linear between expiries, the nearest one beyond."""
    known = np.isfinite(forward) & np.isfinite(t) & np.asarray(usable, dtype=bool)
    if not known.any():
        return np.full(years.shape, np.nan)
    order = np.argsort(t[known])
    return np.asarray(np.exp(np.interp(years, t[known][order], np.log(forward[known][order]))))


def in_both_currencies(of: Callable[[Any], xr.DataArray | xr.Dataset]) -> Any:
    """Compute a value in USD and in coin, and join the two along ``currency``."""
    parts: list[Any] = [of(premium) for premium in PREMIUMS]
    index = xr.Variable("currency", np.array(CURRENCIES))
    return xr.concat(parts, index, coords="minimal", compat="override", combine_attrs="drop")


def value_of(legs: Legs, forward: Any, years: Any, iv: Any, rate: float, premium: Any) -> xr.DataArray:
    """Return the value of each leg times its quantity; at expiry that of the payoff."""
    left = where(years > 0.0, years, 0.0)
    vol = where(years > 0.0, iv, 0.0)
    each = black76.price(forward, legs.strike, left, vol, legs.side, interest_rate=rate, premium=premium)
    valued: xr.DataArray = each.drop_attrs() * legs.quantity
    return valued
