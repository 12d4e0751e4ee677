"""Where the P&L of a position between two surfaces came from."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.position.sensitivities import (
    DAYS_PER_YEAR,
    Legs,
    in_both_currencies,
    on_surface,
    scaled_greeks,
    value_of,
)
from derivdata.analysis.status import flag_attrs
from derivdata.analysis.surface.clock import Clock
from derivdata.support.arguments import typed
from derivdata.tables.joining import joined_provenance
from derivdata.tables.panels import provenance

STEPS = ("theta", "spot", "basis", "slide", "level", "skew", "wings")


@typed
def attribution(
    legs: pd.DataFrame,
    before: xr.Dataset,
    after: xr.Dataset,
    *,
    method: Literal["greeks", "revaluation"] = "greeks",
    spot: tuple[float, float] | None = None,
    interest_rate: float = 0.0,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Attribute the P&L of a position between two surfaces to the moves of time, forwards and volatility.

    Parameters
    ----------
    legs
        The position, held unchanged from `before` to `after`.
    before, after
        Two surfaces of one underlying as in `derivdata.analysis.position.greeks`, of different instants.
    method
        ``"greeks"``: each greek times its move, with a residual that grows with the moves;
        ``"revaluation"``: one move after the other, each by revaluation, with none.
    spot
        Spot at both instants [USD]. With it the moves of the forwards are divided: what spot made is
        ``delta`` (``spot``), what is left (rates, basis) is ``rho`` (``basis``), 0 without it.
    interest_rate, clock
        As in `derivdata.analysis.position.greeks`; with a clock ``theta`` is for the hours and events that
        have passed, and only what volatility moved beyond that is vega.

    Returns
    -------
    Dataset
        ``contribution`` over ``currency`` and ``term`` and ``residual`` [currency]: they add up to ``pnl``,
        the change of value. ``residual_share``: the residual over the sum of the sizes of all terms. The same
        by leg with ``_by_leg``; ``forward_change`` [USD], ``vol_change`` [1/√year] and ``days`` over ``leg``;
        ``vol_steps`` [1/√year] over ``term`` and ``leg``, what each revaluation changed of it.
        NaN for a leg that has expired or has no volatility, and for sums that hold one; ``status`` says why.

    Raises
    ------
    ValueError
        `after` is not later than `before`; as in `derivdata.analysis.position.greeks`.

    Notes
    -----
    With dF and dσ the moves of a leg's forward and of its volatility at its strike: ``theta`` is the
    revaluation for time alone; delta dF, vega dσ with greeks of before; ``charm`` and ``veta``, what the
    passing of time changed in these two; at the new time ½ gamma dF², speed dF³/6, ½ volga dσ², vanna dF dσ.
    What is left is of third order and higher: mixed in dF and dσ, and dσ³.

    Revaluations in their order: ``theta``, time alone; ``spot`` and ``basis``, the forwards, the option at
    its volatility; ``slide``, along the smile of before to its new moneyness; then the smile itself, from
    before to after: ``level`` by what it moved at the money, ``skew`` by half the difference and ``wings`` by
    the mean of what it moved at this moneyness and its opposite, level apart. Another order, other parts.
    """
    one, two = (on_surface(legs, part, name, clock) for part, name in ((before, "before"), (after, "after")))
    years, left = one.year_fraction, two.year_fraction
    passed = years - left
    if not passed.chunks and not bool((passed > 0.0).all()):
        raise ValueError("after is not later than before: swap them")
    k, k_after = one.moneyness, two.moneyness
    iv = one.iv(k)
    d_forward, d_vol = two.forward - one.forward, two.iv(k_after) - iv
    by_spot = d_forward if spot is None else one.forward * (_ratio(spot) - 1.0)
    ageing = one.ageing(passed)
    later = one._replace(year_fraction=left.where(left > 0.0))
    aged = iv * ageing
    moves = (d_forward, by_spot, two.iv(k_after) - aged)
    steps = _volatilities(one, two, k_after, ageing) if method == "revaluation" else None

    def contributions(premium: Any) -> xr.Dataset:
        start = value_of(one, one.forward, years, iv, interest_rate, premium)
        end = value_of(two, two.forward, left, two.iv(k_after), interest_rate, premium).where(left > 0.0)
        if steps is None:
            terms = _terms(one, later, (iv, aged), moves, interest_rate, premium)
        else:
            forwards = (one.forward, one.forward + by_spot, *[two.forward] * 5)
            values = [
                value_of(later, forward, later.year_fraction, vol.clip(0.0), interest_rate, premium)
                for forward, vol in zip(forwards, steps, strict=True)
            ]
            terms = _joined(
                STEPS, [now - then for now, then in zip(values, [start, *values[:-1]], strict=True)]
            )
        pnl = end - start
        return xr.Dataset(
            {"contribution": terms, "residual": pnl - terms.sum("term", skipna=False), "pnl": pnl}
        )

    by_leg: xr.Dataset = in_both_currencies(contributions)
    total = by_leg.sum("leg", skipna=False)
    for part in (*by_leg.data_vars.values(), *total.data_vars.values()):
        part.attrs = {"units": "currency"}
    size = abs(total["contribution"]).sum("term", skipna=False)
    result = total.assign({f"{name}_by_leg": by_leg[name] for name in by_leg})
    result = result.assign(
        residual_share=(abs(total["residual"]) / size).assign_attrs(units="1"),
        forward_change=d_forward.assign_attrs(units="USD"),
        vol_change=d_vol.assign_attrs(units="1/sqrt(year)"),
        days=(passed * DAYS_PER_YEAR).assign_attrs(units="days"),
    )
    if steps is not None:
        moved = [now - then for now, then in zip(steps, [iv, *steps[:-1]], strict=True)]
        result["vol_steps"] = _joined(STEPS, moved).assign_attrs(units="1/sqrt(year)")
    status = (one.status(k) | two.status(k_after)).astype(np.int32)
    labelled: xr.Dataset = result.assign(status=status.drop_attrs().assign_attrs(flag_attrs()))
    origins = [provenance(each) if "provenance" in each.attrs else None for each in (before, after)]
    if any(origins):
        labelled.attrs["provenance"] = json.dumps(joined_provenance(origins), sort_keys=True)
    return labelled


def _volatilities(one: Legs, two: Legs, k: xr.DataArray, ageing: Any) -> list[xr.DataArray]:

    def moved(at: Any) -> xr.DataArray:
        change: xr.DataArray = two.iv(at) - one.iv(at) * ageing
        return change

    aged, level = one.iv(one.moneyness) * ageing, moved(0.0)
    slid = one.iv(k) * ageing
    skewed = slid + level + (moved(k) - moved(-k)) / 2.0
    return [aged, aged, aged, slid, slid + level, skewed, two.iv(k)]


def _terms(
    legs: Legs, later: Legs, vols: tuple[Any, Any], moves: tuple[Any, Any, Any], rate: float, premium: Any
) -> xr.DataArray:
    """Return what each leg owes to each move; greeks are those of the position."""
    (iv, aged), (d_forward, by_spot, d_vol) = vols, moves
    now = scaled_greeks(legs, iv, ["delta", "vega"], rate, premium)
    then = scaled_greeks(later, aged, ["delta", "gamma", "speed", "vega", "vanna", "volga"], rate, premium)
    start = value_of(legs, legs.forward, legs.year_fraction, iv, rate, premium)
    parts = {
        "theta": value_of(later, legs.forward, later.year_fraction, aged, rate, premium) - start,
        "delta": now["delta"] * by_spot,
        "rho": now["delta"] * (d_forward - by_spot),
        "gamma": then["gamma"] * d_forward**2 / 2.0,
        "speed": then["speed"] * d_forward**3 / 6.0,
        "vega": now["vega"] * d_vol,
        "volga": then["volga"] * d_vol**2 / 2.0,
        "vanna": then["vanna"] * d_forward * d_vol,
        "charm": (then["delta"] - now["delta"]) * d_forward,
        "veta": (then["vega"] - now["vega"]) * d_vol,
    }
    return _joined(tuple(parts), list(parts.values()))


def _joined(names: tuple[str, ...], parts: list[Any]) -> xr.DataArray:
    index = xr.Variable("term", np.array(names))
    joined: xr.DataArray = xr.concat(parts, index, coords="minimal", compat="override")
    return joined


def _ratio(spot: tuple[float, float]) -> float:
    first, last = spot
    if not (first > 0.0 and last > 0.0):
        raise ValueError(f"{spot=} must be two prices above 0")
    return last / first
