"""When a pair has paid its cost: the break-even of a spread that returns to its mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.accrual import period_sums
from derivdata.analysis.funding.pairs import pair_costs, slippage_bps
from derivdata.analysis.funding.persistence import half_life
from derivdata.analysis.labelling import elementwise
from derivdata.analysis.panels import (
    Panel,
    hours_of,
    positive,
    require,
    require_labels,
    require_rate,
    require_venues,
)
from derivdata.analysis.status import FundingStatus, flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS_UNIT, HOUR_UNIT, RATE_UNIT, REFERENCE_HOURS, convert

_HALVINGS = 200
_TRADES = (("long", "ask"), ("long", "bid"), ("short", "bid"), ("short", "ask"))  # bought, sold, sold, bought


@typed
def breakeven(
    panel: Panel,
    long: str,
    short: str,
    *,
    fee_bps: float | Mapping[str, float],
    period: str | pd.Timedelta = "8h",
    depth_usd: xr.DataArray | None = None,
    size_usd: float | None = None,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Compute the holding time from the panel's end on after which a pair has paid its cost.

    Parameters
    ----------
    panel
        History of funding rates [bps/8h] with a ``kind``, dims ``exchange`` and ``time``, in memory or lazy.
    long, short
        Venues of the two legs, of equal notional.
    fee_bps
        Fee of one trade [bps of the notional traded], one number or a mapping by venue. A pair makes four.
    period
        Length of the periods over which history is summed; at least every venue's interval.
    depth_usd, size_usd
        Order-book depth [USD] with dims ``exchange``, ``side`` (bid, ask) and ``depth_bps`` (see
        `slippage_bps`), and notional of one leg [USD]: adds the slippage of the four trades. Both or
        neither.
    overlap
        As in `cumulative`.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``
        ``breakeven_hours``: inf with status ``unreachable`` if the carry never reaches the cost; its inputs:
        ``cost_bps`` (fees and slippage of the four trades), ``slippage_bps``, ``spread_bps_8h`` (of the last
        period), ``start_bps_8h`` (its persistent part), ``mean_bps_8h``, ``half_life_hours`` with
        ``half_life_low_hours`` and ``half_life_high_hours`` (90 %), ``status``; coordinates ``long`` and
        ``short``. NaN below 30 pairs of adjacent periods (``too_few``), if the last period is unknown
        (``gap``), nothing in the spread persists (``anti_persistent``) or the book is too thin
        (``too_thin``). ``cannot_tell``: the data do not determine the half-life, and therefore the
        break-even.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; a venue is not in the panel or has no fee; depth and size do not come together.

    Notes
    -----
    The half-life comes from `half_life` by components: of the present distance from the mean, the persistent
    share starts there and decays, the rest vanishes immediately. This is the expectation; the distribution of
    single outcomes is in `forecast_carry`.
    """
    panel = require_rate(panel, "exchange", "time")
    require_venues(panel, long=long, short=short)
    cost = pair_costs(fee_bps, [long, short])[0, 1]
    slipped = _slipped(depth_usd, size_usd, long, short)
    sums = period_sums(panel.sel(exchange=[long, short]), period, overlap=overlap)["funding_bps"]
    earned = sums.isel(exchange=1, drop=True) - sums.isel(exchange=0, drop=True)
    hours = hours_of(period, "period")
    spread = convert(earned, "bps", "bps_8h", hours=hours).assign_attrs(units=RATE_UNIT, kind="settled")
    life = half_life(spread, period=period, resamples=199)
    last = spread.isel(time=-1, drop=True)
    pinned = (life["status"].astype(np.int32) & np.int32(FundingStatus.CONSTANT)) > 0  # stays where it is
    mean = life["mean_bps_8h"].where(~pinned, last)
    lasts = life["half_life_hours"].where(~pinned, np.inf)
    start = mean + life["persistent_share"].where(~pinned, 1.0) * (last - mean)
    paid = cost + slipped
    even = elementwise(hours_to_earn, start, paid, mean, lasts)
    figures = {
        "breakeven_hours": (even, HOUR_UNIT),
        "cost_bps": (xr.DataArray(paid), BPS_UNIT),
        "slippage_bps": (slipped, BPS_UNIT),
        "spread_bps_8h": (last, RATE_UNIT),
        "start_bps_8h": (start, RATE_UNIT),
        "mean_bps_8h": (mean, RATE_UNIT),
        "half_life_hours": (life["half_life_hours"], HOUR_UNIT),
        "half_life_low_hours": (life["half_life_low_hours"], HOUR_UNIT),
        "half_life_high_hours": (life["half_life_high_hours"], HOUR_UNIT),
    }
    result = xr.Dataset(
        {
            name: values.drop_attrs(deep=False).assign_attrs(units=unit)
            for name, (values, unit) in figures.items()
        }
    )
    status = life["status"].astype(np.int32) | last.isnull() * np.int32(FundingStatus.GAP)
    status = status | np.isinf(even) * np.int32(FundingStatus.UNREACHABLE)
    status = status | slipped.isnull() * np.int32(FundingStatus.TOO_THIN)
    result["status"] = status.drop_attrs().assign_attrs(flag_attrs(FundingStatus))
    return result.assign_coords(long=long, short=short)


def _slipped(depth: xr.DataArray | None, size: float | None, long: str, short: str) -> xr.DataArray:
    if (depth is None) != (size is None):
        raise ValueError("depth_usd and size_usd must be passed together: pass both or neither")
    if depth is None or size is None:
        return xr.DataArray(0.0)
    require(depth, "exchange", "side", "depth_bps", name="depth_usd")
    for dim, labels in (("exchange", (long, short)), ("side", ("bid", "ask"))):
        require_labels(depth, "depth_usd", dim, labels)
    slippage = slippage_bps(depth, positive(size, "size_usd"))
    venue = {"long": long, "short": short}
    total: xr.DataArray = sum(  # type: ignore[assignment]
        slippage.sel(exchange=venue[leg], side=side, drop=True) for leg, side in _TRADES
    )
    return total


def reverting_carry(spread: Any, mean: Any, half_life: Any, hold: Any) -> Floats:
    """Carry [bps] expected over `hold` hours of a spread [bps/8h] that decays to its mean; plain numpy.

    A half-life of 0 starts at the mean, one of inf stays where it is.
    """
    spread, mean, half_life, hold = np.broadcast_arrays(spread, mean, half_life, hold)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kappa = np.log(2.0) / half_life
        weight = np.where(kappa > 0.0, -np.expm1(-kappa * hold) / kappa, hold)
    weight = np.where(np.isinf(kappa), 0.0, weight)
    return np.asarray((mean * hold + (spread - mean) * weight) / REFERENCE_HOURS, dtype=np.float64)


def hours_to_earn(spread: Any, cost: Any, mean: Any, half_life: Any) -> Floats:
    """Hours until a spread [bps/8h] that decays to its mean has paid a cost [bps]; plain numpy.

    The first H with ``μH/8 + (s − μ)(1 − e^{−κH})/(8κ) = cost``, κ = ln 2 / half-life: s decays to μ like the
    expectation of an Ornstein–Uhlenbeck process. 0 without a cost, inf if the carry never reaches it, NaN if
    an argument is NaN.
    """
    spread, cost, mean, half_life = (
        np.asarray(values, dtype=np.float64) for values in np.broadcast_arrays(spread, cost, mean, half_life)
    )
    low, high, reachable = _bracket(spread, cost, mean, half_life)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        short = reverting_carry(spread, mean, half_life, middle) < cost
        low = np.where(short, middle, low)
        high = np.where(short, high, middle)
    hours = np.where(reachable, 0.5 * (low + high), np.inf)
    hours = np.where(cost <= 0.0, 0.0, hours)
    return np.where(np.isnan(spread + cost + mean + half_life), np.nan, hours)


def _bracket(spread: Floats, cost: Floats, mean: Floats, half_life: Floats) -> tuple[Floats, Floats, Any]:
    """Return the hours between which the carry first exceeds the cost, and whether it ever does."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = half_life / np.log(2.0)
        away = spread - mean
        turn = np.where(np.sign(spread) * np.sign(mean) < 0.0, scale * np.log(-away / mean), 0.0)
        by_mean = (REFERENCE_HOURS * cost + np.abs(away) * scale) / mean
        by_spread = -scale * np.log1p(-REFERENCE_HOURS * cost / (spread * scale))
        steady = REFERENCE_HOURS * cost / spread
    still = np.isinf(half_life) | (away == 0.0)
    low = np.where((mean > 0.0) & (spread < 0.0) & ~still, turn, 0.0)
    # A mean at or above 0 only adds to the earnings of the spread while it decays to 0.
    enough = np.fmin(np.where(mean > 0.0, by_mean, np.inf), np.where(spread > 0.0, by_spread, np.inf))
    high = np.where(still, steady, np.where((mean < 0.0) & np.isfinite(turn), turn, enough))
    high = np.where(np.isfinite(high) & (high > 0.0), high * (1.0 + 1e-12), 0.0)
    return low, high, reverting_carry(spread, mean, half_life, high) >= cost
