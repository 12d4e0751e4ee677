"""Variance from quotes with bids and asks by the rules of the Cboe."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import along, require_numbers
from derivdata.analysis.labelling import applied, with_units
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats

_OUT = ("forward", "strike_0", "total_variance", "variance", "status", "contribution", "used")
_UNITS = {"total_variance": "1", "variance": "1/year"}


@typed
def cboe(
    bid: xr.DataArray,
    ask: xr.DataArray,
    year_fraction: Numbers,
    *,
    interest_rate: Numbers = 0.0,
    price: xr.DataArray | None = None,
) -> xr.Dataset:
    """Compute the variance of each expiry by the rules of the Cboe's volatility index.

    Parameters
    ----------
    bid, ask
        Quotes [currency of the strikes] with dims ``strike`` and ``side`` (``call``, ``put``) and any
        others. An option without either is not listed; one whose bid or ask is missing or 0 is listed and
        has no bid.
    year_fraction
        Time to expiry [years].
    interest_rate
        Continuous interest rate [1/year].
    price
        What an option with a bid counts with; by default the mean of bid and ask.

    Returns
    -------
    Dataset over the other dims
        ``forward``, from the strike whose call and put are closest; ``strike_0``, the largest strike not
        above it; ``total_variance`` ``σ²T`` and ``variance`` ``σ²`` [per year]; over ``strike`` also
        ``contribution`` ``ΔK/K² Q`` and ``used``; ``status``. NaN with ``TOO_FEW_STRIKES`` without a
        strike that has both a call and a put, or with fewer than three used; with ``EXPIRED`` where no time
        is left. Lazy if the quotes are; strikes and sides are put into one chunk.

    Raises
    ------
    ValueError
        A dimension or side is missing.

    Notes
    -----
    Cboe Volatility Index methodology: out-of-the-money puts below ``K₀`` and calls above, walking outwards,
    without those that have no bid, and none after two in a row have none; at ``K₀`` the mean of both. That
    an option without an ask is left out too is the rule since 2025.
    """
    quotes = [_sorted(part, name) for part, name in ((bid, "bid"), (ask, "ask"))]
    quotes.append((quotes[0] + quotes[1]) / 2.0 if price is None else _sorted(price, "price"))
    core = ["strike", "side"]
    year_fraction, interest_rate = along(
        quotes[2], *core, year_fraction=year_fraction, interest_rate=interest_rate
    )
    outputs = applied(
        _cboe,
        *(*quotes, quotes[0]["strike"].astype(np.float64), year_fraction, interest_rate),
        core=[core, core, core, ["strike"], [], []],
        out=[[]] * 5 + [["strike"]] * 2,
        types=[np.float64] * 4 + [np.int32, np.float64, np.bool_],
    )
    result = xr.Dataset(dict(zip(_OUT, outputs, strict=True)))
    return with_units(result, _UNITS).assign_coords(year_fraction=year_fraction)


def _sorted(quotes: xr.DataArray, name: str) -> xr.DataArray:
    missing = [dim for dim in ("strike", "side") if dim not in quotes.dims]
    if missing:
        raise ValueError(f"{name} has dims {quotes.dims}; {', '.join(missing)} is missing")
    require_numbers(quotes, name)
    if "strike" not in quotes.coords:
        raise ValueError(f"{name} has no labels along strike")
    require_numbers(quotes["strike"], f"strike of {name}")
    if sorted(quotes["side"].to_numpy().tolist()) != ["call", "put"]:
        raise ValueError(f"side of {name} holds {quotes['side'].to_numpy().tolist()}, not call and put")
    ordered = quotes.sortby("strike").sel(side=["call", "put"])
    return ordered.chunk(strike=-1, side=-1) if ordered.chunks else ordered


def _cboe(
    bid: Floats, ask: Floats, price: Floats, strike: Floats, t: Floats, interest_rate: Floats
) -> tuple[Any, ...]:
    bid, ask, price = np.broadcast_arrays(bid, ask, price)
    listed = np.isfinite(bid) | np.isfinite(ask)
    firm = (bid > 0.0) & (ask > 0.0) & np.isfinite(price)
    growth = np.broadcast_to(np.exp(interest_rate * t), listed.shape[:-2])
    forward, paired = _forward(price, np.all(firm, axis=-1), strike, growth)
    # The largest listed strike that is not above the forward.
    low = np.any(listed, axis=-1) & (strike <= forward[..., None])
    start = np.where(low, strike, -np.inf).max(axis=-1)
    start = np.where(np.isfinite(start), start, np.nan)
    # The strip: calls above the start, puts below, and the start if both have a bid.
    above, below = strike > start[..., None], strike < start[..., None]
    calls = _walk(listed[..., 0] & above, firm[..., 0])
    puts = _walk((listed[..., 1] & below)[..., ::-1], firm[..., ::-1, 1])[..., ::-1]
    used = calls | puts | (~above & ~below & np.isfinite(start)[..., None] & firm.all(axis=-1))
    at_start = strike == start[..., None]
    sides = np.where(strike > start[..., None], price[..., 0], price[..., 1])
    each = np.where(at_start, price.mean(axis=-1), sides)
    with np.errstate(invalid="ignore"):  # ``ΔK/K² Q`` of each used strike, in rising order
        contribution = np.where(used, _spacing(strike, used) / np.square(strike) * each, 0.0)
    few = ~paired | (used.sum(axis=-1) < 3)
    expired = np.broadcast_to(t <= 0.0, few.shape)
    status = np.where(few, np.int32(Status.TOO_FEW_STRIKES), np.int32(0))
    status |= np.where(expired, np.int32(Status.EXPIRED), np.int32(0))
    # ``2 e^(RT) Σ ΔK/K² Q − (F/K₀ − 1)²``
    w = 2.0 * growth * contribution.sum(axis=-1) - np.square(forward / start - 1.0)
    w = np.where(few | expired, np.nan, w)
    return forward, start, w, w / np.where(expired, np.nan, t), status, contribution, used


def _forward(price: Floats, both: Bools, strike: Floats, growth: Floats) -> tuple[Floats, Bools]:
    """``K + e^(RT)(C − P)`` at the strike where call and put are closest; NaN without one that has both."""
    apart = np.where(both, np.abs(price[..., 0] - price[..., 1]), np.inf)
    at = apart.argmin(axis=-1)[..., None]
    there = np.any(both, axis=-1)
    call, put = (np.take_along_axis(price[..., i], at, -1)[..., 0] for i in (0, 1))
    return np.where(there, strike[at[..., 0]] + growth * (call - put), np.nan), there


def _spacing(strike: Floats, used: Bools) -> Floats:
    """Half the distance between the used neighbours, at the ends all of that to the only one; 0 if unused."""
    strike = np.broadcast_to(strike, used.shape)
    below = _shifted(np.maximum.accumulate(np.where(used, strike, -np.inf), axis=-1), 1, -np.inf)
    from_above = np.where(used, strike, np.inf)[..., ::-1]
    above = _shifted(np.minimum.accumulate(from_above, axis=-1)[..., ::-1], -1, np.inf)
    lower, upper = np.isfinite(below), np.isfinite(above)
    wide = np.where(upper, above, strike) - np.where(lower, below, strike)
    return np.where(used, wide / np.where(lower & upper, 2.0, 1.0), 0.0)


def _walk(listed: Bools, bid: Bools) -> Bools:
    """Options that a walk along the axis takes: those with a bid, until two listed in a row have none."""
    order = np.argsort(~listed, axis=-1, kind="stable")
    none = np.take_along_axis(listed & ~bid, order, -1)
    second = none & _shifted(none, 1, False)
    stopped = np.logical_or.accumulate(second, axis=-1)
    taken = np.empty_like(listed)
    np.put_along_axis(taken, order, ~stopped, -1)
    return taken & listed & bid


def _shifted(values: NDArray[Any], by: int, fill: float | bool) -> NDArray[Any]:
    out = np.roll(values, by, axis=-1)
    out[..., 0 if by > 0 else -1] = fill
    return out
