"""Option positions on a fitted surface: greeks, vega buckets, scenarios, and P&L attribution.

A position is a table with a row per leg:

- ``side``: ``"call"``, ``"put"``, ``"future"``, ``"perpetual"`` or ``"spot"``
- ``quantity``: coins of the underlying, or USD of an inverse contract; negative for short
- ``expiry``: of options and futures
- ``strike`` [USD]: of options
- ``price`` [USD], optional: the entry price of a future or perpetual; without it the price of the
  surface, so that its value is 0
- ``contract``, optional: ``"inverse"`` of a future or perpetual of a fixed number of USD that is
  settled in coin; ``"linear"`` otherwise

The surface gives each leg its volatility and its forward: from the expiry if it is listed; between expiries
total variance is interpolated as in `derivdata.analysis.surface.iv`, and the logarithm of the forward is
linear in time. Perpetuals and spot are valued at the surface's ``spot``: a premium of the perpetual over the
index is not included.

Results have a dim ``currency``: ``"usd"`` is Black's value (the value of a coin premium at the forward of its
expiry), ``"coin"`` that over the forward, the premium of coin-settled options. Greeks of ``"coin"`` are
derivatives of the coin value, so a position without delta in coin still has one in USD. Similarly a future of
q coins entered at P has the USD value ``q (F − P)`` and the coin value ``q (1 − P/F)``. The latter is an
inverse contract of Q = q P USD, ``Q (1/P − 1/F)``. Spot is worth ``q F`` USD and q coins.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.delivery import delivered, require_delivered
from derivdata.analysis.labelling import where
from derivdata.analysis.position.sensitivities import (
    DAYS_PER_YEAR,
    Instruments,
    Legs,
    greeks,
    in_both_currencies,
    instruments,
    on_surface,
    scaled_greeks,
    value_of,
    vega_buckets,
    with_labels,
)
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface.maturity import Clock, origin_us
from derivdata.support.arguments import Numbers, typed
from derivdata.support.times import length
from derivdata.tables.frames import joined_provenance
from derivdata.tables.panels import provenance

__all__ = ["attribution", "greeks", "scenarios", "vega_buckets"]
__dir__ = __all__.copy


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
    delivery: pd.DataFrame | Mapping[Any, Any] | None = None,
    contract: str | None = None,
) -> xr.Dataset:
    """Attribute the P&L of a position between two surfaces to time, forwards and volatility.

    Parameters
    ----------
    legs
        The position, held unchanged from `before` to `after`.
    before, after
        Two surfaces of one underlying as in `derivdata.analysis.position.greeks`, at different times.
    method
        ``"greeks"``: each greek times its move, with a residual that grows with the moves; ``"revaluation"``:
        the legs are revalued after each move in turn, without a residual.
    spot
        Spot at both times [USD]. With it the moves of the forwards are divided: the part due to spot is
        ``delta`` (``spot``), the rest (rates, basis) is ``rho`` (``basis``), 0 without it.
    interest_rate, clock
        As in `derivdata.analysis.position.greeks`. With a clock, ``theta`` has the effect of the hours and
        events that have passed, and vega only that of further moves of volatility.
    delivery
        Prices at which legs that expire in between are settled: the table ``delivery_prices``
        (`derivdata.delivery.prices`) with rows of the surface's symbol and venue, or a mapping from
        expiries to prices [USD]. Without it these legs are NaN.
    contract
        Deliveries to use, such as ``"option:USD"``, if contracts of one expiry differ. By default, options
        use deliveries of options and futures those of futures; without them, deliveries of an index are used.

    Returns
    -------
    Dataset
        ``contribution`` over ``currency`` and ``term`` and ``residual`` [currency]: they add up to ``pnl``,
        the change of value. ``residual_share``: the residual over the sum of the sizes of all terms.
        Variables ending in ``_by_leg`` are the same by leg; ``forward_change`` [USD], ``vol_change``
        [1/√year] and ``days`` over ``leg``; ``vol_steps`` [1/√year] over ``term`` and ``leg``, the change of
        volatility in each revaluation. NaN for a leg that has expired without a delivery price or has no
        volatility, and for sums that include one; ``status`` has the reason. With `delivery` there is a term
        ``settlement`` (method ``"greeks"``), and ``settlement_price`` [USD] over ``leg``, NaN for live legs.

    Raises
    ------
    ValueError
        `after` is not later than `before`; `delivery` has no price, or several, for a leg that expires in
        between; as in `derivdata.analysis.position.greeks`.

    Notes
    -----
    A future or perpetual without a ``price`` has its gain from the price at `before`. Its P&L is only its
    ``delta`` and ``rho`` in USD. The payoff of a delivered leg is fixed: the coin value is the coins of the
    payoff, the USD value their value at the delivery price.

    A settled leg has ``theta``, its time value at the earlier forward; ``delta`` and ``charm`` as below, with
    the delta of the payoff at the old forward; and ``settlement``, the rest of the payoff: its nonlinearity
    between the old forward and the delivery price.

    With ``method="greeks"``, dF and dσ are the moves of a leg's forward and of its volatility at its strike.
    The terms are:

    - ``theta``: revaluation for the passed time only.
    - ``delta`` dF and ``vega`` dσ, with the earlier greeks. The part of ``delta`` dF that is not due to spot
      is ``rho``.
    - ``charm`` and ``veta``: the change of these two with time, times dF and dσ.
    - ½ ``gamma`` dF², ``speed`` dF³/6, ½ ``volga`` dσ² and ``vanna`` dF dσ, with greeks at the new time.

    The residual has the mixed terms of third order, dσ³, and higher orders.

    With ``method="revaluation"``, the steps are in this order, on which the terms depend:

    - ``theta``: time only.
    - ``spot`` and ``basis``: the forward moves, and the option keeps its volatility.
    - ``slide``: the option moves along the earlier smile to its new moneyness.
    - ``level``, ``skew``, ``wings``: the smile itself moves. ``level`` is its move at the money. ``skew`` is
      half the difference, and ``wings`` is the mean minus ``level``, of its moves at this moneyness and the
      opposite one.
    """
    # 1. Place the legs on both surfaces.
    held = instruments(legs)
    legs_before = on_surface(held, before, "before", clock)
    legs_after = on_surface(held, after, "after", clock, entry=legs_before.forward)
    elapsed = legs_before.year_fraction - legs_after.year_fraction
    if not elapsed.chunks and not bool((elapsed > 0.0).all()):
        raise ValueError("after must be later than before, and options of legs must have an expiry")
    price = settlement_prices(held, delivery, before, after, contract)
    legs_after = _settled(legs_after, price)

    # 2. Compute the moves of time, of forwards, and of volatilities beyond their ageing.
    years = legs_before.year_fraction
    years_after = legs_after.year_fraction
    passed = years - years_after
    alive = years_after > 0.0
    k = legs_before.moneyness
    k_after = legs_after.moneyness
    ageing = legs_before.ageing(passed)
    iv = where(legs_before.is_option, legs_before.iv(k), 0.0)
    aged = iv * ageing
    valid = alive
    if price is not None:
        valid = alive | (price.notnull() & (years > 0.0))
    iv_after = where(legs_before.is_option & alive, legs_after.iv(k_after), aged).where(valid)
    d_forward = legs_after.forward - legs_before.forward
    by_spot = d_forward if spot is None else _by_spot(legs_before, d_forward, alive, spot)
    aged_legs = legs_before._replace(year_fraction=years_after.where(valid))
    moves = (d_forward, by_spot, iv_after - aged)
    steps = _volatilities(legs_before, legs_after, k_after, ageing) if method == "revaluation" else None

    def contributions(premium: Any) -> xr.Dataset:
        start = value_of(legs_before, legs_before.forward, years, iv, interest_rate, premium)
        end = value_of(legs_after, legs_after.forward, years_after, iv_after, interest_rate, premium)
        end = end.where(valid)
        if steps is None:
            terms = leg_terms(legs_before, aged_legs, (iv, aged), moves, interest_rate, premium)
            terms = _with_settlement(terms, end - start, price)
        else:
            # The forward after each of `STEPS`: theta, spot, basis, and four moves of the smile.
            forwards = [legs_before.forward, legs_before.forward + by_spot] + [legs_after.forward] * 5
            terms = _revalued(aged_legs, start, forwards, steps, interest_rate, premium)
        pnl = end - start
        return xr.Dataset(
            {"contribution": terms, "residual": pnl - terms.sum("term", skipna=False), "pnl": pnl}
        )

    # 3. Compute the terms in USD and in coin, by leg and for the position.
    by_leg: xr.Dataset = in_both_currencies(contributions)
    total = by_leg.sum("leg", skipna=False)
    for variable in (*by_leg.data_vars.values(), *total.data_vars.values()):
        variable.attrs = {"units": "currency"}
    size = abs(total["contribution"]).sum("term", skipna=False)
    result = total.assign({f"{name}_by_leg": by_leg[name] for name in by_leg})
    result = result.assign(
        residual_share=(abs(total["residual"]) / size).assign_attrs(units="1"),
        forward_change=d_forward.assign_attrs(units="USD"),
        vol_change=(iv_after - iv).assign_attrs(units="1/√year"),
        days=(passed * DAYS_PER_YEAR).assign_attrs(units="days"),
    )
    if price is not None:
        result["settlement_price"] = price.assign_attrs(units="USD")
    if steps is not None:
        vol_steps = [later - earlier for earlier, later in itertools.pairwise([iv, *steps])]
        result["vol_steps"] = _joined(STEPS, vol_steps).assign_attrs(units="1/√year")
    status = (legs_before.status(k) | legs_after.status(k_after)).astype(np.int32)
    labelled: xr.Dataset = result.assign(status=status.drop_attrs().assign_attrs(flag_attrs()))
    return labelled.assign_attrs(_origin(before, after))


def _revalued(
    legs: Legs, start: xr.DataArray, forwards: Sequence[Any], vols: Sequence[Any], rate: float, premium: Any
) -> xr.DataArray:
    """Return the change of value in each of `STEPS`."""
    last = start
    changes = []
    for forward, vol in zip(forwards, vols, strict=True):
        now = value_of(legs, forward, legs.year_fraction, vol.clip(0.0), rate, premium)
        changes.append(now - last)
        last = now
    return _joined(STEPS, changes)


def _origin(*surfaces: xr.Dataset) -> dict[str, str]:
    origins = [provenance(surface) if "provenance" in surface.attrs else None for surface in surfaces]
    return {"provenance": json.dumps(joined_provenance(origins), sort_keys=True)} if any(origins) else {}


def _by_spot(start: Legs, d_forward: Any, alive: Any, spot: tuple[float, float]) -> Any:
    """Return the part of each move due to spot, which is the full move of settled and undated legs."""
    first, last = spot
    if not (first > 0.0 and last > 0.0):
        raise ValueError(f"spot must be two prices above 0 USD, got {spot!r}")
    return where(start.expires & alive, start.forward * (last / first - 1.0), d_forward)


def _settled(legs: Legs, price: xr.DataArray | None) -> Legs:
    """Return the legs; legs with a delivery price are expired at that price."""
    if price is None:
        return legs
    over = price.notnull()
    forward = where(over, price, legs.forward).transpose(*legs.forward.dims)
    return legs._replace(forward=forward, year_fraction=where(over, 0.0, legs.year_fraction))


def _volatilities(start: Legs, legs_after: Legs, k: xr.DataArray, ageing: Any) -> list[xr.DataArray]:
    """Return each leg's volatility after each of `STEPS`."""

    def moved(at: Any) -> xr.DataArray:
        change: xr.DataArray = legs_after.iv(at) - start.iv(at) * ageing
        return change

    aged = start.iv(start.moneyness) * ageing
    level = moved(0.0)
    slid = start.iv(k) * ageing
    skewed = slid + level + (moved(k) - moved(-k)) / 2.0
    every = [aged, aged, aged, slid, slid + level, skewed, legs_after.iv(k)]
    return [where(start.is_option, iv, 0.0) for iv in every]


def _with_settlement(terms: xr.DataArray, pnl: xr.DataArray, price: xr.DataArray | None) -> xr.DataArray:
    """Add the settlement term, the rest of the payoff, for legs with delivery prices."""
    if price is None:
        return terms
    settled = price.notnull()
    usual = where(settled, terms.fillna(0.0), terms)
    rest = where(settled, pnl - usual.sum("term", skipna=False), 0.0)
    joined: xr.DataArray = xr.concat([usual, rest.expand_dims(term=["settlement"])], "term", coords="minimal")
    return joined


def leg_terms(
    legs: Legs, later: Legs, vols: tuple[Any, Any], moves: tuple[Any, Any, Any], rate: Any, premium: Any
) -> xr.DataArray:
    """Return the contribution of each move to the P&L of each leg, from the greeks of the position."""
    (iv, aged), (d_forward, by_spot, d_vol) = vols, moves
    now = scaled_greeks(legs, iv, ["delta", "vega"], rate, premium)
    then = scaled_greeks(later, aged, ["delta", "gamma", "speed", "vega", "vanna", "volga"], rate, premium)
    start = value_of(legs, legs.forward, legs.year_fraction, iv, rate, premium)
    terms = {
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
    return _joined(tuple(terms), list(terms.values()))


def _joined(names: tuple[str, ...], terms: list[Any]) -> xr.DataArray:
    index = xr.Variable("term", np.array(names))
    joined: xr.DataArray = xr.concat(terms, index, coords="minimal", compat="override")
    return joined


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
        As in `derivdata.analysis.position.greeks`; with a clock `elapsed` removes the variance of its hours
        and events, so that volatilities change with time.
    spot_change
        Moves of the underlying [fraction]: −0.1 is a fall of 10 %. All forwards move in proportion.
    vol_change
        Change of every volatility [1/√year]: 0.05 adds five points.
    elapsed
        Times that pass, ``"1d"`` or a list of them. Forwards stay the same, and times to expiry become
        shorter.
    sticky
        Move of the smile of each expiry: ``"strike"``, an option keeps its volatility; ``"delta"``, an option
        gets the volatility of the strike that now has its new forward delta. A number is a skew-stickiness
        ratio R, as `derivdata.analysis.surface.history` estimates it: an option gets the volatility of its
        new moneyness, plus R times the slope of the smile at the money times the logarithm of spot's move. 0
        moves the smile with spot; 1 keeps volatilities by strike as far as the smile is a straight line.

    Returns
    -------
    Dataset
        ``value`` and ``pnl``, its change, over ``currency``, the surface's leading dims, ``spot_change``,
        ``vol_change`` and ``days``; ``value_by_leg`` and ``pnl_by_leg`` also over ``leg`` [currency]. A leg
        that expires by then is worth its payoff at the moved forward, with ``EXPIRED`` in ``status`` (over
        ``leg``, ``spot_change`` and ``days``); NaN for a leg that had expired before the surface. NaN with
        ``BAD_INPUT`` if a volatility would not be above 0; a sum with a NaN is NaN. ``EXTRAPOLATED``: the
        volatility is outside the quotes.

    Raises
    ------
    ValueError
        A fall of spot by 100 % or more, an `elapsed` that is not a length of time; as in
        `derivdata.analysis.position.greeks`.
    """
    # 1. Make the axes of the grid.
    move = _axis(spot_change, "spot_change")
    shift = _axis(vol_change, "vol_change")
    durations = [elapsed] if isinstance(elapsed, str | pd.Timedelta) else list(elapsed)
    days = _axis([length(duration, "elapsed") / pd.Timedelta(1, "D") for duration in durations], "days")
    passed = days / DAYS_PER_YEAR
    if not bool((move > -1.0).all()):
        raise ValueError("spot_change must be a fraction above -1 (a fall of 10 % is -0.1)")

    # 2. Compute forward, time and volatility of each leg in each scenario.
    placed = on_surface(legs, surface, clock=clock)
    forward = placed.forward * (1.0 + move)
    years = placed.year_fraction - passed
    years = years.where(abs(years) > 1e-12, 0.0)
    k_now = placed.moneyness
    if sticky == "strike":
        k = k_now * xr.ones_like(move)
        iv = placed.iv(k_now)
    else:
        ratio: Any = placed.strike / forward
        k = np.log(ratio)
        if sticky == "delta":
            k, iv = _at_delta(placed, k, passed)
        else:
            iv = placed.iv(k) + sticky * placed.cut.skew() * np.log1p(move)

    # 3. Revalue the legs; a volatility that is not above 0 gives NaN.
    new_iv = iv * placed.ageing(passed) + shift
    is_valid = (new_iv > 0.0) | (years <= 0.0) | ~placed.is_option
    alive = placed.year_fraction > 0.0
    value_now = in_both_currencies(
        lambda premium: value_of(
            placed, placed.forward, placed.year_fraction, placed.iv(k_now), interest_rate, premium
        )
    ).where(alive)
    value = in_both_currencies(
        lambda premium: value_of(placed, forward, years, new_iv.where(is_valid), interest_rate, premium)
    ).where(alive)
    by_leg = xr.Dataset({"value": value, "pnl": value - value_now})
    result = by_leg.sum("leg", skipna=False).assign({f"{name}_by_leg": by_leg[name] for name in by_leg})
    for variable in result.data_vars.values():
        variable.attrs = {"units": "currency", "sticky": sticky}
    expired = where(years <= 0.0, np.int32(Status.EXPIRED), np.int32(0))
    invalid = where(is_valid.all("vol_change"), np.int32(0), np.int32(Status.BAD_INPUT))
    status = (placed.status(k) | expired | invalid).astype(np.int32)
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
        raise TypeError(f"{name} must be a number or a 1-D array")
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if values.ndim > 1 or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a number or a 1-D array of finite numbers")
    return xr.DataArray(values, {name: values}, [name])


def _at_delta(placed: Legs, k: xr.DataArray, passed: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the log-moneyness, and the volatility of the present smile at the leg's new delta.

    Equal ``d₁`` before (log-moneyness y, time T) and after (k, T′) under the volatility σ(y): ``−y/(σ√T) +
    σ√T/2 = −k/(σ√T′) + σ√T′/2``, solved for y as ``y = k √(T/T′) + σ(y)² √T (√T − √T′)/2``. Without elapsed
    time y is k. Smiles are flat enough in y for the iteration to contract. T′ is the share of T with the
    remaining variance.
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


def settlement_prices(
    held: Instruments,
    delivery: pd.DataFrame | Mapping[Any, Any] | None,
    before: xr.Dataset,
    after: xr.Dataset,
    contract: str | None,
) -> xr.DataArray | None:
    """Return the delivery price of legs that expire by the time of `after`, NaN for other legs.

    None without `delivery`.
    """
    if delivery is None:
        return None
    # Options and futures of one expiry may have different delivery prices.
    price = np.full(held.strike.size, np.nan)
    timestamp = np.asarray(origin_us(after, "after"))
    if timestamp.ndim:
        raise ValueError("after must have one timestamp with delivery=, got several")
    expiry = held.expiry.to_numpy()
    over = expiry.astype(np.int64) <= timestamp + 1.0
    labels = {}
    for name in ("symbol", "exchange"):
        if name in before.coords:
            labels[name] = str(before[name].item())
    for kind, of_kind in (("option", held.is_option), ("future", ~held.is_option)):
        rows = np.flatnonzero(over & of_kind.to_numpy())
        if rows.size:
            times = pd.DatetimeIndex(np.unique(expiry[rows]))
            prices = delivered(delivery, times, contract=contract, kind=kind, **labels)
            require_delivered(prices)
            price[rows] = prices.loc[expiry[rows]].to_numpy()
    return xr.DataArray(price, dims="leg")
