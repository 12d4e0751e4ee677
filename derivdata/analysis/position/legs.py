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
from derivdata.analysis.labelling import require_surface, where
from derivdata.analysis.surface.clock import YEAR_US, Clock, Rules, clock_of, origin_us
from derivdata.analysis.surface.evaluate import forward_of, years_until
from derivdata.analysis.surface.maturity import Maturity, at_maturity, volatility
from derivdata.units import HOURS_PER_YEAR

DAYS_PER_YEAR = HOURS_PER_YEAR / 24.0
CURRENCIES = ("usd", "coin")
PREMIUMS = ("linear", "inverse")
_COLUMNS = ("strike", "quantity")


class Legs(NamedTuple):
    """What each leg is, and where the surface puts it; all over ``leg`` and the surface's leading dims."""

    strike: xr.DataArray
    side: xr.DataArray
    quantity: xr.DataArray
    year_fraction: xr.DataArray
    forward: xr.DataArray
    cut: Maturity
    origin: xr.DataArray
    rules: Rules | None

    def left(self, passed: xr.DataArray) -> xr.DataArray:
        """Return the share of each leg's total variance that is left when some years have passed."""
        t = self.year_fraction
        if self.rules is None:
            return (t - passed) / t
        whole = self.rules.read(self.origin, t)
        rest = self.rules.read(self.origin + passed * YEAR_US, t - passed)
        w = self.cut.total_variance(0.0)
        even = (1.0 - whole.events / w).clip(0.0) * rest.business / whole.business
        share: xr.DataArray = even + rest.events / where(w > whole.events, w, whole.events)
        return share

    def ageing(self, passed: xr.DataArray) -> xr.DataArray | float:
        """Return what time multiplies each leg's volatility by; 1 without a clock."""
        if self.rules is None:
            return 1.0
        remains = (self.year_fraction - passed).where(passed < self.year_fraction)
        aged: xr.DataArray = (self.left(passed) * self.year_fraction / remains) ** 0.5
        return aged.fillna(1.0)

    def haste(self) -> xr.DataArray | float:
        """Return how fast variance passes now, in multiples of each leg's average over its life."""
        if self.rules is None:
            return 1.0
        t, whole = self.year_fraction, self.rules.read(self.origin, self.year_fraction)
        even = (1.0 - whole.events / self.cut.total_variance(0.0)).clip(0.0)
        speed: xr.DataArray = self.rules.pace(self.origin) * self.rules.open_share(t)
        return even * speed * t / whole.business

    def iv(self, k: xr.DataArray) -> xr.DataArray:
        """Return the volatility of the leg's expiry at log-moneyness `k`."""
        return volatility(self.cut.total_variance(k), self.year_fraction).reset_coords(drop=True)

    @property
    def moneyness(self) -> xr.DataArray:
        """Return ``ln(K/F)`` of each leg."""
        ratio: Any = self.strike / self.forward
        k: xr.DataArray = np.log(ratio)
        return k

    @property
    def slope(self) -> xr.DataArray:
        """Return the slope in log-moneyness of the smile of each leg's expiry, at the money."""
        step = 1e-3 * self.cut.total_variance(0.0) ** 0.5
        return (self.iv(step) - self.iv(-step)) / (2.0 * step)

    def status(self, k: xr.DataArray) -> xr.DataArray:
        """Return what the slices around each leg say, and whether its strike lies outside the quotes."""
        status: xr.DataArray = self.cut.flags_at(k).astype(np.int32).reset_coords(drop=True)
        return status


def on_surface(
    legs: pd.DataFrame, surface: xr.Dataset, argument: str = "surface", clock: Clock | None = None
) -> Legs:
    """Place the legs on a surface."""
    require_columns(legs, "legs", _COLUMNS, others=("expiry", "side"))
    _require_legs(legs)
    require_surface(surface)
    require_variables(surface, argument, ("forward",))
    dated = instants(legs["expiry"], "the column 'expiry' of legs").dt.tz_localize(None)
    years = years_until(surface, xr.DataArray(dated.to_numpy(), dims="leg"), argument)
    kinds = {"strike": np.float64, "side": object, "quantity": np.float64}
    arrays = {
        name: xr.DataArray(legs[name].astype(kind).to_numpy(), dims="leg") for name, kind in kinds.items()
    }
    cut = at_maturity(surface, years, extrapolate="flat_vol", clock=clock)
    rules = None if clock is None else clock_of(clock)
    where_it_lies = {"year_fraction": years, "forward": forward_of(cut), "origin": origin_us(surface)}
    return Legs(**arrays, **where_it_lies, cut=cut, rules=rules)


def _require_legs(legs: pd.DataFrame) -> None:
    if not len(legs):
        raise ValueError("legs has no rows")
    strange = ~legs["side"].isin(("call", "put"))
    if strange.any():
        raise ValueError(f"a leg has the side {legs['side'][strange].iloc[0]!r}: 'call' or 'put'")
    if not (np.isfinite(legs["quantity"]).all() and (legs["strike"] > 0).all()):
        raise ValueError("legs need a quantity in coins and a strike above 0 in every row")


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
