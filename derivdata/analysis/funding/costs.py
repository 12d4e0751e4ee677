"""Trading costs of a pair of positions, and the time to earn them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import along, require_numbers, together
from derivdata.analysis.panels import require
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS_UNIT, HOUR_UNIT, REFERENCE_HOURS, USD_UNIT

__all__ = ["LEGS", "breakeven_hours", "legs_cost", "reverting_carry", "slippage_bps"]

LEGS = ("long_entry", "long_exit", "short_entry", "short_exit")
"""The four trades of a pair: each leg is bought or sold on entry and reversed on exit."""
_HALVINGS = 200


def legs_cost(cost_bps: Mapping[str, Any], name: str = "cost_bps") -> Any:
    """Sum of the four legs' costs [bps of one leg's notional].

    Raises
    ------
    TypeError, ValueError
        Other legs than exactly the four `LEGS`, or a cost that is no number.
    """
    if set(cost_bps) != set(LEGS):
        raise ValueError(f"{name} names {sorted(cost_bps)}; the four legs are {', '.join(LEGS)}")
    for leg, cost in cost_bps.items():
        if isinstance(cost, str) or cost is None:
            raise TypeError(f"{name}[{leg!r}] must be a number or an array, not {cost!r}")
    return sum(cost_bps[leg] for leg in LEGS)


@typed
def slippage_bps(depth_usd: xr.DataArray, size_usd: Numbers, *, dim: str = "depth_bps") -> xr.DataArray:
    """Estimate the mean distance from mid at which an order fills, from the depth of the book.

    Parameters
    ----------
    depth_usd
        Depth [USD] within each distance of mid, cumulative; `dim` has the distances [bps] as coordinate.
        In memory or lazy (`dim` is put into one chunk).
    size_usd
        Size of the order [USD], a number or an array over other dims.

    Returns
    -------
    DataArray without `dim`
        [bps of the order's notional]. The depth is taken to be spread evenly between the distances. NaN
        where the size is not filled within the last distance, or a depth is missing or falls.

    Raises
    ------
    TypeError, ValueError
        `depth_usd` is not in USD or lacks `dim`; the distances do not ascend from above 0.
    """
    require(depth_usd, dim, units=USD_UNIT, name="depth_usd")
    require_numbers(depth_usd[dim], f"{dim} of depth_usd")
    (size_usd,) = along(depth_usd, dim, new=True, size_usd=size_usd)
    distance = depth_usd[dim].to_numpy().astype(np.float64)
    if not distance.size:
        raise ValueError(f"depth_usd has no distances along {dim!r}")
    if (np.diff(distance, prepend=0.0) <= 0.0).any():
        raise ValueError(f"the distances along {dim!r} must ascend from above 0: {distance}")
    cost = xr.apply_ufunc(
        _slippage,
        depth_usd.chunk({dim: -1}) if depth_usd.chunks else depth_usd,
        size_usd,
        input_core_dims=[[dim], []],
        kwargs={"distance": distance},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64],
    )
    return xr.DataArray(cost).rename("slippage_bps").assign_attrs(units=BPS_UNIT)


@typed
def breakeven_hours(
    spread_bps_8h: Numbers,
    cost_bps: Numbers,
    *,
    mean_bps_8h: Numbers | None = None,
    half_life_hours: Numbers | None = None,
) -> Any:
    """Compute the hours that a pair must be held until its carry has paid its cost.

    Parameters
    ----------
    spread_bps_8h
        Spread at entry [bps/8h].
    cost_bps
        All costs of the pair [bps of one leg's notional].
    mean_bps_8h, half_life_hours
        Level that the spread reverts to [bps/8h] and its half-life [h]; both or neither. Without them the
        spread is taken to stay.

    Returns
    -------
    float or array of the kind given
        [h]; 0 where there is no cost; inf where the carry never reaches it. NaN where an argument is.

    Raises
    ------
    ValueError
        Only one of `mean_bps_8h` and `half_life_hours` is given.

    Notes
    -----
    The first H with ``μH/8 + (s − μ)(1 − e^{−κH})/(8κ) = cost``, κ = ln 2 / half-life: s decays to μ as an
    Ornstein–Uhlenbeck process is expected to.

    Examples
    --------
    >>> dd.analysis.funding.breakeven_hours(2.0, 20.0)
    80.0
    """
    if (mean_bps_8h is None) != (half_life_hours is None):
        raise ValueError("mean_bps_8h and half_life_hours go together: give both or neither")
    if mean_bps_8h is None:
        mean_bps_8h, half_life_hours = spread_bps_8h, np.inf
    arrays = together(
        spread_bps_8h=spread_bps_8h,
        cost_bps=cost_bps,
        mean_bps_8h=mean_bps_8h,
        half_life_hours=half_life_hours,
    )
    hours = xr.apply_ufunc(
        _breakeven,
        *(part.to_numpy() if isinstance(part, pd.Series) else part for part in arrays),
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64],
    )
    if isinstance(hours, xr.DataArray):
        return hours.rename("breakeven_hours").assign_attrs(units=HOUR_UNIT)
    return float(hours) if np.ndim(hours) == 0 else hours


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


def _breakeven(spread: Any, cost: Any, mean: Any, half_life: Any) -> Floats:
    spread, cost, mean, half_life = (
        np.asarray(part, dtype=np.float64) for part in np.broadcast_arrays(spread, cost, mean, half_life)
    )
    low, high, reachable = _bracket(spread, cost, mean, half_life)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        short = reverting_carry(spread, mean, half_life, middle) < cost
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    hours = np.where(reachable, 0.5 * (low + high), np.inf)
    hours = np.where(cost <= 0.0, 0.0, hours)
    return np.where(np.isnan(spread + cost + mean + half_life), np.nan, hours)


def _bracket(spread: Floats, cost: Floats, mean: Floats, half_life: Floats) -> tuple[Floats, Floats, Any]:
    """Return the hours between which the carry first rises through the cost, and whether it ever does."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = half_life / np.log(2.0)
        away = spread - mean
        turn = np.where(np.sign(spread) * np.sign(mean) < 0.0, scale * np.log(-away / mean), 0.0)
        by_mean = (REFERENCE_HOURS * cost + np.abs(away) * scale) / mean
        by_spread = -scale * np.log1p(-REFERENCE_HOURS * cost / (spread * scale))
        steady = REFERENCE_HOURS * cost / spread
    still = np.isinf(half_life) | (away == 0.0)
    low = np.where((mean > 0.0) & (spread < 0.0) & ~still, turn, 0.0)
    # A mean at or above 0 only adds to what the spread earns while it decays to 0.
    enough = np.fmin(np.where(mean > 0.0, by_mean, np.inf), np.where(spread > 0.0, by_spread, np.inf))
    high = np.where(still, steady, np.where((mean < 0.0) & np.isfinite(turn), turn, enough))
    high = np.where(np.isfinite(high) & (high > 0.0), high * (1.0 + 1e-12), 0.0)
    return low, high, reverting_carry(spread, mean, half_life, high) >= cost


def _slippage(depth: Floats, size: Any, *, distance: Floats) -> Floats:
    size = np.asarray(size, dtype=np.float64)[..., None]
    outer = np.minimum(depth, size)
    inner = np.concatenate([np.zeros_like(outer[..., :1]), np.minimum(depth[..., :-1], size)], axis=-1)
    previous = np.concatenate([np.zeros_like(depth[..., :1]), depth[..., :-1]], axis=-1)
    width = np.diff(distance, prepend=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(depth > previous, (outer - previous) / (depth - previous), 0.0)
    filled = np.maximum(outer - inner, 0.0)
    near = distance - width
    cost = (filled * (near + 0.5 * width * np.clip(share, 0.0, 1.0))).sum(axis=-1) / size[..., 0]
    rises = (np.diff(depth, axis=-1, prepend=0.0) >= 0.0).all(axis=-1)
    return np.where(rises & (size[..., 0] > 0.0) & (depth[..., -1] >= size[..., 0]), cost, np.nan)
