"""Where the P&L of a position between two surfaces came from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76
from derivdata.analysis.position.legs import DAYS_PER_YEAR, Legs, in_both_currencies, on_surface, value_of
from derivdata.analysis.position.sensitivities import scaled_greeks
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import typed
from derivdata.tables.joining import joined_provenance
from derivdata.tables.panels import provenance

TERMS = (
    "theta", "delta", "rho", "gamma", "speed", "vega", "volga", "vanna", "charm", "veta",
)  # fmt: skip


@typed
def attribution(
    legs: pd.DataFrame,
    before: xr.Dataset,
    after: xr.Dataset,
    *,
    spot: tuple[float, float] | None = None,
    interest_rate: float = 0.0,
) -> xr.Dataset:
    """Attribute the P&L of a position between two surfaces to the moves of time, forwards and volatility.

    Parameters
    ----------
    legs
        The position, held unchanged from `before` to `after`.
    before, after
        Two surfaces of one underlying as in `derivdata.analysis.position.greeks`, of different instants.
    spot
        Spot at both instants [USD]. With it the moves of the forwards are divided: what spot made is
        ``delta``, what is left (rates, basis) is ``rho``. Without it all of it is ``delta``, ``rho`` is 0.
    interest_rate
        As in `derivdata.analysis.position.greeks`.

    Returns
    -------
    Dataset
        ``contribution`` over ``currency`` and ``term`` and ``residual`` [currency]: they add up to ``pnl``,
        the revaluation. ``residual_share``: the residual over the sum of the sizes of all terms. The same by
        leg with ``_by_leg``; ``forward_change`` [USD], ``vol_change`` [1/√year] and ``days`` over ``leg``.
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
    """
    one, two = (on_surface(legs, part, name) for part, name in ((before, "before"), (after, "after")))
    years, left = one.year_fraction, two.year_fraction
    passed = years - left
    if not passed.chunks and not bool((passed > 0.0).all()):
        raise ValueError("after is not later than before: swap them")
    k, k_after = one.moneyness, two.moneyness
    iv = one.iv(k)
    d_forward, d_vol = two.forward - one.forward, two.iv(k_after) - iv
    by_spot = d_forward if spot is None else one.forward * (_ratio(spot) - 1.0)
    later = one._replace(year_fraction=left.where(left > 0.0))
    moves = (d_forward, by_spot, d_vol)

    def contributions(premium: Any) -> xr.Dataset:
        terms = _terms(one, later, iv, moves, interest_rate, premium)
        start = value_of(one, one.forward, years, iv, interest_rate, premium)
        end = value_of(two, two.forward, left, two.iv(k_after), interest_rate, premium).where(left > 0.0)
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
    status = (one.status(k) | two.status(k_after)).astype(np.int32)
    labelled: xr.Dataset = result.assign(status=status.drop_attrs().assign_attrs(flag_attrs()))
    return labelled.assign_attrs(_joined_origin(before, after))


def _joined_origin(before: xr.Dataset, after: xr.Dataset) -> dict[str, str]:
    origins = [provenance(part) if "provenance" in part.attrs else None for part in (before, after)]
    return {"provenance": json.dumps(joined_provenance(origins), sort_keys=True)} if any(origins) else {}


def _terms(
    legs: Legs, later: Legs, iv: xr.DataArray, moves: tuple[Any, Any, Any], rate: float, premium: Any
) -> xr.DataArray:
    """Return what each leg owes to each move; greeks are those of the position."""
    d_forward, by_spot, d_vol = moves
    now = scaled_greeks(legs, iv, ["delta", "vega"], rate, premium)
    then = scaled_greeks(later, iv, ["delta", "gamma", "speed", "vega", "vanna", "volga"], rate, premium)
    aged = black76.price(
        legs.forward,
        legs.strike,
        later.year_fraction,
        iv,
        legs.side,
        interest_rate=rate,
        premium=premium,
    )
    start = value_of(legs, legs.forward, legs.year_fraction, iv, rate, premium)
    parts = {
        "theta": aged.drop_attrs() * legs.quantity - start,
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
    index = xr.Variable("term", np.array(TERMS))
    every: list[Any] = [parts[name] for name in TERMS]
    terms: xr.DataArray = xr.concat(every, index, coords="minimal", compat="override")
    return terms


def _ratio(spot: tuple[float, float]) -> float:
    first, last = spot
    if not (first > 0.0 and last > 0.0):
        raise ValueError(f"{spot=} must be two prices above 0")
    return last / first
