"""Legs of a position on a surface: values, greeks, and vega by bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.black76 import formulas
from derivdata.analysis.black76.kernels import Greek
from derivdata.analysis.labelling import applied, origin_attrs, where, whole_surface
from derivdata.analysis.panels import require_columns, require_variables
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface.evaluate import years_until
from derivdata.analysis.surface.maturity import (
    YEAR_US,
    Clock,
    Maturity,
    Rules,
    at_maturity,
    clock_of,
    origin_us,
    volatility,
)
from derivdata.support.arguments import typed
from derivdata.support.text import did_you_mean
from derivdata.support.times import naive_utc
from derivdata.tables.contracts import expiries
from derivdata.units import HOURS_PER_YEAR

OPTIONS = ("call", "put")
EXPIRING = (*OPTIONS, "future")
SIDES = (*EXPIRING, "perpetual", "spot")
CONTRACTS = ("linear", "inverse")
NO_EXPIRY_YEARS = 100.0
"""Time to expiry that marks legs without an expiry."""

_NEVER = np.datetime64("2400-01-01", "us")


class Instruments(NamedTuple):
    """Instruments of the legs; all over ``leg``."""

    expiry: xr.DataArray
    """Naive UTC; far in the future for legs without an expiry."""
    strike: xr.DataArray
    option_side: xr.DataArray
    """Side of each option, ``"call"`` of other legs."""
    quantity: xr.DataArray
    """Coins, or USD of an inverse future or perpetual."""
    price: xr.DataArray
    """Entry price [USD] of a future or perpetual, NaN if not given."""
    is_option: xr.DataArray
    is_spot: xr.DataArray
    has_no_expiry: xr.DataArray
    is_inverse: xr.DataArray
    is_dated: xr.DataArray
    """Whether the expiry was given as a date."""

    @property
    def options(self) -> Instruments:
        """Return the options only."""
        rows = np.flatnonzero(self.is_option.to_numpy())
        return Instruments(*(values.isel(leg=rows) for values in self))


def instruments(legs: pd.DataFrame) -> Instruments:
    """Read and check a table of legs; see `derivdata.analysis.position`."""
    # 1. Read the columns of all legs, and those of options.
    require_columns(legs, "legs", ("quantity",), others=("side",))
    if not len(legs):
        raise ValueError("legs is empty: pass at least one leg")
    side = legs["side"].astype(object)
    unknown = ~side.isin(SIDES)
    if unknown.any():
        name = side[unknown].iloc[0]
        raise ValueError(
            f"the side of a leg must be one of {', '.join(SIDES)}, got "
            f"{name!r}{did_you_mean(str(name), SIDES)}"
        )
    is_option = side.isin(OPTIONS)
    if is_option.any():
        require_columns(legs, "legs", ("strike",), any_kind=("expiry",))
    quantity = legs["quantity"].astype(np.float64)
    strike = _numbers(legs, "strike")
    price = _numbers(legs, "price")
    is_good = np.isfinite(quantity).all() and (strike[is_option] > 0).all()
    if not is_good:
        raise ValueError("legs must have a quantity in coins and a strike above 0 in each row")

    # 2. Reject columns that a side must not have, and read entry prices.
    if (strike.notna() & ~is_option).any():
        name = side[strike.notna() & ~is_option].iloc[0]
        raise ValueError(f"a leg with the side {name!r} must not have a strike: leave it empty")
    if not (price.isna() | (price > 0)).all():
        raise ValueError("the column 'price' of legs must be above 0 USD, or empty")

    # 3. Convert all to arrays over the legs.
    is_inverse = _inverse(legs, side)
    expires = side.isin(EXPIRING)
    stamps, is_dated = _expiries(legs, side, expires)
    columns = {
        "expiry": stamps,
        "strike": strike.where(is_option).to_numpy(),
        "option_side": side.where(is_option, "call").to_numpy(dtype=object),
        "quantity": quantity.to_numpy(),
        "price": price.where(~is_option).to_numpy(),
        "is_option": is_option.to_numpy(dtype=bool),
        "is_spot": (side == "spot").to_numpy(dtype=bool),
        "has_no_expiry": ~expires.to_numpy(dtype=bool),
        "is_inverse": is_inverse.to_numpy(dtype=bool),
        "is_dated": is_dated,
    }
    return Instruments(**{name: xr.DataArray(values, dims="leg") for name, values in columns.items()})


def _numbers(legs: pd.DataFrame, name: str) -> pd.Series:
    if name not in legs:
        return pd.Series(np.nan, index=legs.index)
    try:
        return pd.to_numeric(legs[name]).astype(np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"the column {name!r} of legs must have numbers, got {legs[name].dtype}") from None


def _inverse(legs: pd.DataFrame, side: pd.Series) -> pd.Series:
    """Return a mask of inverse contracts, whose quantity is in USD."""
    if "contract" not in legs:
        return pd.Series(False, index=legs.index)
    contract = legs["contract"].astype(object)
    unknown = contract.notna() & ~contract.isin(CONTRACTS)
    if unknown.any():
        raise ValueError(
            f"the contract of a leg must be 'linear' or 'inverse', got {contract[unknown].iloc[0]!r}"
        )
    is_inverse = contract == "inverse"
    wrong = is_inverse & ~side.isin(("future", "perpetual"))
    if wrong.any():
        raise ValueError(
            f"a leg with the side {side[wrong].iloc[0]!r} must not have the contract 'inverse': only futures "
            "and perpetuals have a quantity in USD. The dim currency of results has the coin value of options"
        )
    return is_inverse


def _expiries(legs: pd.DataFrame, side: pd.Series, expires: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the expiry of each leg, a distant day without one, and a mask of dates."""
    stamps = np.full(len(legs), _NEVER)
    is_dated = np.zeros(len(legs), dtype=bool)
    if not expires.any():
        return stamps, is_dated
    require_columns(legs, "legs", any_kind=("expiry",))
    rows = expires.to_numpy(dtype=bool)
    if not rows.all() and legs["expiry"][~rows].notna().any():
        name = side[~rows & legs["expiry"].notna().to_numpy()].iloc[0]
        raise ValueError(
            f"a leg with the side {name!r} must not have an expiry: leave it empty, or set the side to "
            "'future'"
        )
    read, dated = expiries(legs["expiry"][rows], "the column 'expiry' of legs")
    stamps[rows] = naive_utc(read).to_numpy("datetime64[us]")
    is_dated[rows] = dated
    return stamps, is_dated


DAYS_PER_YEAR = HOURS_PER_YEAR / 24.0
CURRENCIES = ("usd", "coin")
PREMIUMS = ("linear", "inverse")


class Legs(NamedTuple):
    """Legs with their inputs from the surface; all over ``leg`` and the surface's leading dims."""

    strike: xr.DataArray
    side: xr.DataArray
    quantity: xr.DataArray
    year_fraction: xr.DataArray
    forward: xr.DataArray
    cut: Maturity
    origin: xr.DataArray
    rules: Rules | None
    dated: xr.DataArray
    is_option: xr.DataArray
    entry: xr.DataArray
    """Price [USD] relative to which a future or perpetual gains; 0 for spot, NaN for options."""

    def left(self, passed: xr.DataArray) -> xr.DataArray:
        """Return the fraction of each leg's total variance that remains after some years."""
        t = self.year_fraction
        if self.rules is None:
            return (t - passed) / t
        now = self.rules.read(self.origin, t)
        later = self.rules.read(self.origin + passed * YEAR_US, t - passed)
        # Variance without events remains in proportion to business time, and that of events until they occur.
        w = self.cut.total_variance(0.0)
        without_events = (1.0 - now.events / w).clip(0.0) * later.business / now.business
        share: xr.DataArray = without_events + later.events / where(w > now.events, w, now.events)
        return share

    def ageing(self, passed: xr.DataArray) -> xr.DataArray | float:
        """Return the factor of each leg's volatility after some years; 1 without a clock."""
        if self.rules is None:
            return 1.0
        remains = (self.year_fraction - passed).where(passed < self.year_fraction)
        aged: xr.DataArray = (self.left(passed) * self.year_fraction / remains) ** 0.5
        return aged.fillna(1.0)

    def haste(self) -> xr.DataArray | float:
        """Return the current rate of variance relative to each leg's average until expiry."""
        if self.rules is None:
            return 1.0
        t = self.year_fraction
        until_expiry = self.rules.read(self.origin, self.year_fraction)
        even = (1.0 - until_expiry.events / self.cut.total_variance(0.0)).clip(0.0)
        speed: xr.DataArray = self.rules.pace(self.origin) * self.rules.open_share(t)
        return even * speed * t / until_expiry.business

    def iv(self, k: xr.DataArray) -> xr.DataArray:
        """Return the volatility of the leg's expiry at log-moneyness `k`."""
        return volatility(self.cut.total_variance(k), self.year_fraction).reset_coords(drop=True)

    @property
    def expires(self) -> xr.DataArray:
        """Return a mask of legs with an expiry: options and futures."""
        expires: xr.DataArray = self.year_fraction < NO_EXPIRY_YEARS
        return expires

    @property
    def moneyness(self) -> xr.DataArray:
        """Return ``ln(K/F)`` of each leg."""
        ratio: Any = self.strike / self.forward
        k: xr.DataArray = np.log(ratio)
        return k

    def status(self, k: xr.DataArray) -> xr.DataArray:
        """Return the status of the slices around each leg, and whether its strike is outside the quotes."""
        of_surface = self.cut.flags_at(k).astype(np.int32).reset_coords(drop=True)
        others = of_surface & np.int32(Status.EXPIRED)
        of_surface = of_surface.where(self.is_option, others)
        status: xr.DataArray = of_surface | where(
            self.dated, np.int32(Status.EXPIRY_TIME_ASSUMED), np.int32(0)
        )
        return status.astype(np.int32)


def on_surface(
    legs: pd.DataFrame | Instruments,
    surface: xr.Dataset,
    argument: str = "surface",
    clock: Clock | None = None,
    entry: xr.DataArray | None = None,
) -> Legs:
    """Place the legs on a surface; `entry` is the price of futures and perpetuals without one."""
    # 1. Find time and smile of each leg's expiry.
    held = legs if isinstance(legs, Instruments) else instruments(legs)
    surface = whole_surface(surface)
    require_variables(surface, argument, ("forward",))
    years = years_until(surface, held.expiry, argument)
    cut = at_maturity(surface, years, extrapolate="flat_vol", clock=clock)

    # 2. Set entry prices: spot for perpetuals and spot, the forward for futures, unless a price is given.
    forward = cut.forward
    if held.has_no_expiry.any():
        spot = where(held.has_no_expiry, _spot_of(surface, argument), forward)
        forward = spot.transpose(*forward.dims)
    start = held.price.fillna(forward if entry is None else entry)
    start = where(held.is_spot, 0.0, start).where(~held.is_option)

    # 3. Convert quantities of inverse contracts from USD to coins.
    coins = held.quantity
    if held.is_inverse.any():
        coins = where(held.is_inverse, held.quantity / start, held.quantity)
    return Legs(
        strike=held.strike,
        side=held.option_side,
        quantity=coins,
        year_fraction=years,
        forward=forward,
        cut=cut,
        origin=origin_us(surface),
        rules=None if clock is None else clock_of(clock),
        dated=held.is_dated,
        is_option=held.is_option,
        entry=start,
    )


def _spot_of(surface: xr.Dataset, argument: str) -> xr.DataArray:
    """Return the price of the coin at each time of a surface, at which perpetuals and spot are valued."""
    if "spot" not in surface.variables:
        raise ValueError(
            f"{argument} must have the coordinate 'spot' [USD] to value a perpetual or spot leg: fit the "
            "surface with from_chain(..., spot=...), or use assign_coords(spot=...)"
        )
    return surface["spot"].reset_coords(drop=True).astype(np.float64)


def in_both_currencies(of: Callable[[Any], xr.DataArray | xr.Dataset]) -> Any:
    """Compute a value in USD and in coin, and join them along ``currency``."""
    values: list[Any] = [of(premium) for premium in PREMIUMS]
    index = xr.Variable("currency", np.array(CURRENCIES))
    return xr.concat(values, index, coords="minimal", compat="override", combine_attrs="drop")


def value_of(legs: Legs, forward: Any, years: Any, iv: Any, rate: Any, premium: Any) -> xr.DataArray:
    """Return the value of each leg times its quantity; at expiry its payoff."""
    left = where(years > 0.0, years, 0.0)
    vol = where(years > 0.0, iv, 0.0)
    value = formulas.price(forward, legs.strike, left, vol, legs.side, interest_rate=rate, premium=premium)
    value = value.drop_attrs()
    if not legs.is_option.all():
        gain = forward - legs.entry
        value = _with_others(legs, value, gain if premium == "linear" else gain / forward)
    valued: xr.DataArray = value * legs.quantity
    return valued


def _with_others(legs: Legs, of_options: xr.DataArray, of_others: Any) -> xr.DataArray:
    """Return values of options joined with those of other legs, over the dims of both."""
    joined = where(legs.is_option, of_options, of_others)
    leading = [dim for dim in joined.dims if dim not in of_options.dims]
    ordered: xr.DataArray = joined.transpose(*leading, *of_options.dims)
    return ordered


def _linear_greek(name: str, legs: Legs, premium: Any) -> xr.DataArray | float:
    """Return a greek of one coin of a future, perpetual or spot leg: of ``F − P``, or ``1 − P/F`` in coin."""
    forward = legs.forward
    entry = legs.entry
    inverse = premium == "inverse"
    if name == "rho":  # only futures have rho, because their forward depends on the rate: ∂F/∂r = T F
        years = legs.year_fraction.where(legs.expires, 0.0)
        return years * (entry / forward if inverse else forward)
    if not inverse:
        return 1.0 + 0.0 * forward if name == "delta" else 0.0
    by_forward = {
        "delta": entry / forward**2,
        "gamma": -2.0 * entry / forward**3,
        "speed": 6.0 * entry / forward**4,
    }
    return by_forward.get(name, 0.0)


_BY_VOLATILITY = {"theta": "vega", "charm": "vanna"}
"""For each derivative by time, the corresponding derivative by volatility."""

_UNITS = {
    "value": "currency",
    "delta": "currency/USD",
    "gamma": "currency/USD^2",
    "vega": "currency per 1.00 of volatility",
    "theta": "currency/year",
    "vanna": "currency/USD per 1.00 of volatility",
    "volga": "currency per squared volatility",
    "rho": "currency per 1.00 of rate",
    "charm": "currency/USD/year",
    "speed": "currency/USD^3",
}


@typed
def greeks(
    legs: pd.DataFrame,
    surface: xr.Dataset,
    *,
    which: Sequence[Greek] = (
        "delta", "gamma", "vega", "theta", "vanna", "volga", "rho", "charm", "speed",
    ),
    interest_rate: float = 0.0,
    clock: Clock | None = None,
) -> xr.Dataset:  # fmt: skip
    """Compute value and greeks of each leg, in USD and in coin, at the volatility of a surface.

    Parameters
    ----------
    legs
        The position, a table in the format of `derivdata.analysis.position`.
    surface
        A fit with coordinate ``forward`` and timestamps along ``expiry``, from
        `derivdata.analysis.surface.from_chain`; leading dims (a history) are preserved.
    which
        Greeks, as in `derivdata.analysis.black76.greeks`.
    interest_rate
        Continuous discount rate of the premium [1/year].
    clock
        As in `derivdata.analysis.surface.iv`: it sets the volatility of legs between expiries; ``theta`` and
        ``charm`` apply to the current hour, are lower at a weekend, and exclude the variance of future
        events.

    Returns
    -------
    Dataset over ``currency``, the surface's leading dims and ``leg``
        ``value`` and each greek times the quantity, as plain derivatives with their units in ``attrs`` (vega
        per 1.00 of volatility, theta per year). ``delta`` is ``∂value/∂F``: in USD it is the number of coins
        to sell as a hedge, and in coin times ``forward`` it is the premium-adjusted delta. ``forward`` [USD],
        ``iv`` [1/√year], ``year_fraction`` [years] and ``status`` have no currency. Use ``.sum("leg",
        skipna=False)`` for the position: NaN if an option has no volatility. ``iv`` is NaN for legs that are
        not options, and ``year_fraction`` for legs that do not expire.

    Raises
    ------
    ValueError
        `which` is empty or has ``d1`` or ``d2``, which do not add up; a leg is impossible; the surface has no
        forwards.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> leg = {"expiry": ["2026-07-31T08:00Z"], "strike": [110_000.0], "side": ["call"], "quantity": [2.0]}
    >>> greeks = dd.analysis.position.greeks(pd.DataFrame(leg), surface)
    >>> greeks["delta"].sel(currency="usd").round(2).values
    array([1.06])
    """
    strange = [name for name in which if name not in _UNITS]
    if strange or not len(which):
        raise ValueError(f"which must be greeks that add up over legs, got {strange or 'nothing'}")
    placed = on_surface(legs, surface, clock=clock)
    k = placed.moneyness
    iv = placed.iv(k)

    def in_currency(premium: str) -> xr.Dataset:
        """Return value and greeks with a premium in USD ("linear") or in coin ("inverse")."""
        value = value_of(placed, placed.forward, placed.year_fraction, iv, interest_rate, premium)
        greek = scaled_greeks(placed, iv, which, interest_rate, premium)
        return greek.assign(value=value.where(placed.year_fraction > 0.0))

    result = in_both_currencies(in_currency)
    for variable in ("value", *which):
        result[variable].attrs = {"units": _UNITS[variable]}
    result = result.assign(
        forward=placed.forward.assign_attrs(units="USD"),
        iv=iv.assign_attrs(units="1/√year"),
        year_fraction=placed.year_fraction.where(placed.expires).assign_attrs(units="years"),
        status=placed.status(k).drop_attrs().assign_attrs(flag_attrs()),
    )
    return with_labels(result, surface)


def scaled_greeks(
    placed: Legs, iv: xr.DataArray, which: Sequence[Greek], rate: Any, premium: Any
) -> xr.Dataset:
    """Return greeks times quantity; ``delta`` is the derivative of the value in either currency."""
    # ∂/∂t at constant volatility is −σ/(2T) times the derivative by volatility, plus the effect of interest.
    timed: dict[str, Any] = {}
    if placed.rules is not None:
        timed = {name: other for name, other in _BY_VOLATILITY.items() if name in which}
    needed: list[Any] = list(dict.fromkeys([*which, *timed.values()]))
    greeks = formulas.greeks(
        placed.forward, placed.strike, placed.year_fraction, iv, placed.side,
        which=needed, delta="spot" if premium == "linear" else "pa", interest_rate=rate, premium=premium,
    )  # fmt: skip
    if "delta" in greeks and premium == "inverse":
        # δ_pa = F ∂(B/F)/∂F; the discount is the premium's.
        greeks["delta"] = greeks["delta"] / placed.forward * np.exp(-rate * placed.year_fraction)
    for name, other in timed.items():
        by_time = -greeks[other] * iv / (2.0 * placed.year_fraction)
        greeks[name] = greeks[name] + (placed.haste() - 1.0) * by_time
    if not placed.is_option.all():
        for name in which:
            greeks[name] = _with_others(placed, greeks[name], _linear_greek(name, placed, premium))
    scaled: xr.Dataset = (greeks[list(which)] * placed.quantity).drop_attrs()
    return scaled


@typed
def vega_buckets(
    legs: pd.DataFrame,
    surface: xr.Dataset,
    *,
    deltas: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    interest_rate: float = 0.0,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Split the vega of a position by expiry of the surface and by delta.

    Parameters
    ----------
    legs, surface, interest_rate, clock
        As in `greeks`.
    deltas
        Forward deltas of calls in ascending order, one per bucket. The put of delta −0.25 is at 0.75.

    Returns
    -------
    Dataset
        ``vega`` [currency per 1.00 of volatility] over ``currency``, ``expiry`` and ``call_delta``: the
        change of the position's value with the volatility around one delta of one expiry. The vega of a leg
        is split between the two deltas around it; beyond the ends it is that of the last delta. A leg between
        two expiries counts for both, by ``s σᵢ Tᵢ/(σ T)`` with the share s that the expiry has in its total
        variance. ``total`` over ``currency`` is the position's vega; the buckets of legs at listed expiries
        add up to it.

    Raises
    ------
    ValueError
        There are fewer than two deltas, or they do not ascend from above 0 to below 1; as in `greeks`.
    """
    nodes = np.asarray(deltas, dtype=np.float64)
    if nodes.size < 2 or not (np.diff(nodes) > 0).all() or not (nodes[0] > 0.0 and nodes[-1] < 1.0):
        raise ValueError(
            f"deltas must be at least two numbers that ascend from above 0 to below 1, got {list(deltas)}"
        )

    # 1. Compute vega and call delta of each option.
    options = instruments(legs).options
    if not options.strike.size:
        raise ValueError("legs must have at least one option: other legs do not have vega")
    placed = on_surface(options, surface, clock=clock)
    k = placed.moneyness
    iv = placed.iv(k)
    t = placed.year_fraction
    call = formulas.greeks(placed.forward, placed.strike, t, iv, "call", which=["delta"])["delta"]
    vega = in_both_currencies(
        lambda premium: scaled_greeks(placed, iv, ["vega"], interest_rate, premium)["vega"]
    )

    # 2. Compute the weight of each node: 1 at the node, linear to 0 at its neighbours, constant beyond the
    # ends.
    hats = applied(
        lambda at: np.stack([np.interp(at, nodes, row) for row in np.eye(nodes.size)], axis=-1),
        call,
        out=[["call_delta"]],
        sizes={"call_delta": nodes.size},
    )

    # 3. Compute the share of each expiry in the leg's total variance, and the expiry's own volatility.
    years = surface["year_fraction"].reset_coords(drop=True)
    shares = xr.zeros_like(years * t)
    cut = placed.cut
    for share, bucket in ((cut.share_before, cut.before), (cut.share_after, cut.after)):
        years_of_bucket = bucket["year_fraction"].reset_coords(drop=True)
        pillar = smile.iv(bucket, k, extrapolate=True).reset_coords(drop=True)
        weight = (share * pillar * years_of_bucket / (iv * t)).where(share != 0.0, 0.0)
        shares = shares + where(years == years_of_bucket, weight, 0.0)

    # 4. Sum over legs.
    buckets = (vega * hats * shares).sum("leg", skipna=False)
    buckets = buckets.transpose("currency", ..., "expiry", "call_delta")
    result = xr.Dataset({"vega": buckets, "total": vega.sum("leg", skipna=False)})
    for variable in result.data_vars.values():
        variable.attrs = {"units": _UNITS["vega"]}
    return with_labels(result.assign_coords(call_delta=nodes), surface)


def with_labels(result: xr.Dataset, surface: xr.Dataset) -> xr.Dataset:
    """Add the surface's labels along the remaining dims, and its provenance, to a result."""
    dims = [dim for dim in surface.dims if dim in result.dims and dim in surface.coords]
    return result.assign_coords({dim: surface[dim] for dim in dims}).assign_attrs(origin_attrs(surface))
