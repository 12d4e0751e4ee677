"""A position revalued: spot, volatility and time moved, the smile at the strike or at the delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.labelling import where
from derivdata.analysis.position.sensitivities import (
    DAYS_PER_YEAR,
    Legs,
    in_both_currencies,
    on_surface,
    value_of,
    with_labels,
)
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface.clock import Clock
from derivdata.support.arguments import Numbers, typed
from derivdata.support.times import length

_STEPS = 30


@typed
def scenarios(
    legs: pd.DataFrame,
    surface: xr.Dataset,
    *,
    spot_change: Numbers = 0.0,
    vol_change: Numbers = 0.0,
    elapsed: str | pd.Timedelta | Sequence[str | pd.Timedelta] = "0d",
    sticky: Literal["strike", "delta"] | float = "strike",
    interest_rate: float = 0.0,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Revalue a position over a grid of moves of spot, volatility and time.

    Parameters
    ----------
    legs, surface, interest_rate, clock
        As in `derivdata.analysis.position.greeks`; with a clock the variance that `elapsed` takes away is
        that of its hours and events, so that volatilities change with time.
    spot_change
        Moves of the underlying [fraction]: −0.1 is down 10 %; all forwards move in proportion.
    vol_change
        Added to every volatility [1/√year]: 0.05 is up five points.
    elapsed
        Time that passes, ``"1d"`` or several such; forwards stay, expiries come nearer.
    sticky
        How the smile of each expiry goes along: ``"strike"``, an option keeps its volatility; ``"delta"``,
        an option gets that of the strike which has its new forward delta now. A number is a skew-stickiness
        ratio R, as `derivdata.analysis.surface.history` measures it: an option gets that of its new
        moneyness, plus R times the slope of the smile at the money times the logarithm of spot's move. 0
        moves the smile with spot; 1 keeps volatilities by strike as far as the smile is a straight line.

    Returns
    -------
    Dataset
        ``value`` and ``pnl``, its change, over ``currency``, the surface's leading dims, ``spot_change``,
        ``vol_change`` and ``days``; ``value_by_leg`` and ``pnl_by_leg`` also over ``leg`` [currency]. A leg
        that expires by then is worth its payoff at the moved forward, with ``EXPIRED`` in ``status`` (over
        ``leg``, ``spot_change`` and ``days``); NaN for a leg that had expired before the surface. NaN with
        ``BAD_INPUT`` where a volatility would not be above 0; a sum with a NaN is NaN. ``EXTRAPOLATED``: the
        volatility lies outside the quotes.

    Raises
    ------
    ValueError
        A fall of spot by all or more, an `elapsed` that is no length of time; as in
        `derivdata.analysis.position.greeks`.
    """
    move = _axis(spot_change, "spot_change")
    shift = _axis(vol_change, "vol_change")
    many = [elapsed] if isinstance(elapsed, str | pd.Timedelta) else list(elapsed)
    passed = _axis([length(each, "elapsed") / pd.Timedelta(1, "D") for each in many], "days")
    if not bool((move > -1.0).all()):
        raise ValueError("spot_change must be above -1: a fall of 10 % is -0.1")
    placed = on_surface(legs, surface, clock=clock)
    forward = placed.forward * (1.0 + move)
    years = placed.year_fraction - passed / DAYS_PER_YEAR
    years = years.where(abs(years) > 1e-12, 0.0)
    k = placed.moneyness
    if sticky == "strike":
        at = k * xr.ones_like(move)
        iv = placed.iv(k)
    else:
        ratio: Any = placed.strike / forward
        at = np.log(ratio)
        if sticky == "delta":
            at, iv = _at_delta(placed, at, passed / DAYS_PER_YEAR)
        else:
            iv = placed.iv(at) + sticky * placed.cut.skew() * np.log1p(move)
    moved = iv * placed.ageing(passed / DAYS_PER_YEAR) + shift
    good = (moved > 0.0) | (years <= 0.0) | ~placed.is_option
    alive = placed.year_fraction > 0.0
    now = in_both_currencies(
        lambda premium: value_of(
            placed, placed.forward, placed.year_fraction, placed.iv(k), interest_rate, premium
        )
    ).where(alive)
    then = in_both_currencies(
        lambda premium: value_of(placed, forward, years, moved.where(good), interest_rate, premium)
    ).where(alive)
    by_leg = xr.Dataset({"value": then, "pnl": then - now})
    result = by_leg.sum("leg", skipna=False).assign({f"{name}_by_leg": by_leg[name] for name in by_leg})
    for part in result.data_vars.values():
        part.attrs = {"units": "currency", "sticky": sticky}
    expired = where(years <= 0.0, np.int32(Status.EXPIRED), np.int32(0))
    bad = where(good.all("vol_change"), np.int32(0), np.int32(Status.BAD_INPUT))
    status = (placed.status(at) | expired | bad).astype(np.int32)
    order = [dim for dim in ("leg", "spot_change", "days") if dim in status.dims]
    result["status"] = status.transpose(..., *order).drop_attrs().assign_attrs(flag_attrs())
    order = [dim for dim in ("leg", "spot_change", "vol_change", "days") if dim in result.dims]
    result = result.transpose("currency", ..., *order)
    units = {"spot_change": "fraction", "vol_change": "1/√year", "days": "days"}
    for name, unit in units.items():
        result[name].attrs["units"] = unit
    return with_labels(result, surface)


def _axis(value: Any, name: str) -> xr.DataArray:
    if isinstance(value, xr.DataArray):
        raise TypeError(f"{name} must be a number or a 1-D array: it becomes a dim of its own")
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if values.ndim > 1 or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a number or a 1-D array of finite numbers")
    return xr.DataArray(values, {name: values}, [name])


def _at_delta(placed: Legs, k: xr.DataArray, passed: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Find the log-moneyness, and the volatility there, of the present smile that has a leg's new delta.

    Equal ``d₁`` before (log-moneyness y, time T) and after (k, T′) under the volatility σ(y):
    ``−y/(σ√T) + σ√T/2 = −k/(σ√T′) + σ√T′/2``, solved for y as ``y = k √(T/T′) + σ(y)² √T (√T − √T′)/2``.
    Without time passing y is k. Smiles are flat enough in y for the iteration to contract. T′ is the share of
    T that has as much variance as is left.
    """
    t = placed.year_fraction
    remains = t * placed.left(passed)
    left = where((t - passed > 1e-12) & (remains > 0.0), remains, t)
    scaled = k * (t / left) ** 0.5
    spare = (t**0.5 * (t**0.5 - left**0.5) / 2.0).where(t > 0.0)
    y = scaled
    if placed.cut.status.chunks or bool((spare != 0.0).any()):
        for _ in range(_STEPS):
            y = scaled + placed.iv(y) ** 2 * spare
    return y, placed.iv(y)
