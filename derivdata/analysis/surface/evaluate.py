"""Evaluate surfaces: volatility, densities, local volatility, and options at a strike and a date.

A cut is one smile, whose total variance is linear in time, except if prices are mixed: mixed at equal
moneyness (lemma 5.1 of Gatheral and Jacquier 2014) they belong to a mixture of two distributions. With ``c(x)
= C/F`` at ``x = K/F`` the density of ``S/F`` is ``c''(x)``, which is linear in c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis.black76 import formulas
from derivdata.analysis.black76.kernels import DeltaKind
from derivdata.analysis.labelling import bare, elementwise, origin_attrs, where, with_units
from derivdata.analysis.panels import require_variables
from derivdata.analysis.smile.svi import density_factor, total_variance
from derivdata.analysis.status import Status
from derivdata.analysis.surface.maturity import (
    YEAR_US,
    Clock,
    Extrapolation,
    Maturity,
    at_maturity,
    origin_us,
    slices_of_pair,
    volatility,
)
from derivdata.analysis.surface.points import at_delta
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats
from derivdata.support.times import length, naive_utc
from derivdata.tables.contracts import expiries, stamp_of

_UNITS = {
    "forward": "USD",
    "strike_usd": "USD",
    "log_moneyness": "log-moneyness",
    "iv": "1/√year",
    "delta": "1",
    "year_fraction": "years",
}


@typed
def iv(
    surface: xr.Dataset,
    log_moneyness: Numbers,
    year_fraction: Numbers,
    *,
    extrapolate: Extrapolation | None = None,
    wings: bool = False,
    clock: Clock | None = None,
) -> xr.DataArray:
    """Evaluate the implied volatility [per √year] of a surface at any time to expiry and moneyness.

    Total variance is ``w = iv² T``. At the surface's own expiries `derivdata.analysis.smile.iv` returns the
    same values without interpolation.

    Parameters
    ----------
    surface
        Result of `fit`, of `from_essvi`, or of `derivdata.analysis.smile.fit` with dim ``expiry``.
    log_moneyness
        ``ln(K/F(T))``: a number, a 1-D array (dim ``log_moneyness``) or a DataArray.
    year_fraction
        Time to expiry [years]: a number, a 1-D array (dim ``maturity``) or a DataArray without dim
        ``expiry``.
    extrapolate
        Beyond the last expiry: None gives NaN, ``"flat_vol"`` extends its variance per year at each k, in the
        clock's years with a clock. Before the first expiry it is always extended.
    wings
        Whether to evaluate outside the log-moneyness of the quotes, whose ends are interpolated linearly in
        T. If False, those points are NaN.
    clock
        Growth of variance between expiries and before the first; None is linear. A number is the weight of an
        hour of a weekend (Saturday 00:00 to Monday 00:00 UTC) relative to another, 0.5 on many days. Or a
        mapping with any of ``weekend_weight``; ``events``, a mapping from times to their addition to total
        variance; and ``averaging``, the length before expiry over which the venue averages its settlement
        price (Deribit: ``"30min"``; ``dd.venues.facts``), whose variance decreases as it is fixed. Or the
        result of `derivdata.analysis.business_time.fit`. All but None need timestamps along ``expiry``.

    Returns
    -------
    DataArray over the surface's dims without ``expiry``, then the dims of T and of k
        NaN if no expiry has a slice, total variance is negative or no time is left. Lazy if the surface is.

    Raises
    ------
    ValueError
        Unknown extrapolation; `year_fraction` has dim ``expiry``; an invalid clock, or a clock for a surface
        without timestamps.
    TypeError
        A bare array has more than one dimension.

    Notes
    -----
    Between two expiries w is linear in T at equal k: calendar-free if the expiries are, and a flat surface
    stays flat. Each pair is checked for butterflies in between; if there is one, prices are mixed as in lemma
    5.1 of Gatheral and Jacquier (2014), and results with a ``status`` have ``PRICES_MIXED``. With a clock w
    is linear in business time, except for an event in between, which adds its variance at its time (limited
    to the available variance; ``CALENDAR``). The share of the later expiry is that of the variance at the
    money, the same for all k.
    """
    k = bare(log_moneyness, "log_moneyness")
    t = bare(year_fraction, "maturity", "year_fraction")
    cut = at_maturity(surface, t, extrapolate=extrapolate, clock=clock)
    w = cut.total_variance(k)
    result = volatility(w if wings else w.where((cut.k_min <= k) & (k <= cut.k_max)), t)
    return result.rename("iv").assign_attrs(units="1/√year")


@typed
def at(
    surface: xr.Dataset,
    expiry: Any = None,
    *,
    tenor: str | pd.Timedelta | Sequence[str | pd.Timedelta] | None = None,
    strike: Numbers | None = None,
    target_delta: Numbers | None = None,
    side: Literal["call", "put"] | None = None,
    delta: DeltaKind = "forward",
    interest_rate: float = 0.0,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Evaluate the forward, and the volatility and delta of options, at any expiry, listed or not.

    Parameters
    ----------
    surface
        As in `iv`; with coordinate ``forward``, unless only deltas are requested. Or a result over ``tenor``
        (`constant_maturity`, `history`), from which `tenor` selects, like ``.sel(tenor=30)`` by days.
    expiry
        An expiry as `derivdata.tables.expiry` reads it (a date means 08:00 UTC), several of them (dim
        ``expiry``), or a DataArray of timestamps; or times to expiry [years], of surfaces without timestamps
        too: a number, several (dim ``maturity``) or a DataArray. NaN and NaT give NaN with ``BAD_INPUT``.
    tenor
        Time to expiry in place of `expiry`, such as ``"30d"``, or several (dim ``maturity``).
    strike, target_delta
        The options, by strike [USD] or by delta (positive for calls, negative for puts): a number, a 1-D
        array (dim ``strike`` or ``target_delta``) or a DataArray. Without both, the option at the forward.
    side
        Side of the delta. None uses the out-of-the-money option, or the sign of `target_delta`.
    delta, interest_rate
        Convention of delta, as in `constant_maturity`.
    extrapolate, clock
        As in `iv`.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then the dims of the expiries and of the options
        - ``forward`` [USD]: its logarithm is linear in time between listed expiries, with or without a fit.
          Beyond them, the annual carry of the nearest expiry is extended if the surface has the coordinate
          ``spot``, otherwise the line through the two nearest forwards.
        - ``strike_usd`` [USD] (NaN without a forward), ``log_moneyness`` [1], ``iv`` [per √year], ``delta``
          [1] and ``year_fraction`` [years]. If several options have the target delta, the one nearest the
          money is used, or for premium-adjusted calls the one with the highest strike.
        - ``status``: ``DELTA_UNREACHABLE`` with NaN if no option within 40 deviations has the delta,
          ``EXTRAPOLATED`` if the strike is outside the quotes, on the fitted wings, and the status of
          `constant_maturity`.

        For a result over ``tenor``, its variables at the tenors.

    Raises
    ------
    ValueError
        Both a strike and a delta, both an expiry and a tenor, or neither; a result that lacks the tenor; a
        strike for a surface without forwards; times for one without timestamps; as in `iv`.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> option = dd.analysis.surface.at(surface, "2026-08-07T08:00Z", strike=120_000.0)
    >>> [round(option[name].item(), 3) for name in ("iv", "delta")]
    [0.445, 0.301]
    >>> round(dd.analysis.surface.at(surface, tenor="30d")["iv"].item(), 3)
    0.468
    """
    if (expiry is None) == (tenor is None):
        raise ValueError(
            "expiry= and tenor= exclude each other: pass one of them, such as at(surface, tenor='30d')"
        )
    if "tenor" in surface.dims and "expiry" not in surface.dims:
        return _of_tenors(surface, tenor)
    if tenor is not None:
        expiry = _days(tenor) / 365.0
    if strike is not None and target_delta is not None:
        raise ValueError("strike and target_delta exclude each other: pass one of them")

    # 1. Interpolate the smile to the time to expiry.
    years = _years(surface, expiry)
    cut = at_maturity(surface, years, extrapolate=extrapolate, clock=clock)
    forward = cut.forward

    # 2. Find the log-moneyness of the option: at its strike, at its delta, or at the forward.
    wanted: Any = None
    if strike is not None:
        require_variables(surface, "surface", ("forward",))
        ratio: Any = bare(strike, "strike") / forward
        k = np.log(ratio)
    elif target_delta is not None:
        wanted = bare(target_delta, "target_delta")
        k = at_delta(cut, wanted, delta, interest_rate).where(wanted.notnull())
    else:
        k = xr.zeros_like(forward).where(cut.share_before.notnull())

    # 3. Compute volatility and delta; the side is that of the target, or out of the money.
    vol = volatility(cut.total_variance(k), cut.year_fraction)
    k = k * xr.ones_like(vol)
    signed = k if wanted is None else wanted
    sides: Any = side or where(signed < 0.0, "put", "call")
    greek = formulas.greeks(
        1.0, np.exp(k), cut.year_fraction, vol, sides,
        which=("delta",), delta=delta, interest_rate=interest_rate,
    )  # fmt: skip
    lost = cut.share_before.notnull() & k.isnull() & (wanted is not None)
    status = cut.flags_at(k) | where(lost, np.int32(Status.DELTA_UNREACHABLE), np.int32(0))
    variables = {
        "forward": forward, "strike_usd": forward * np.exp(k), "log_moneyness": k, "iv": vol,
        "delta": greek["delta"], "year_fraction": years, "status": status.astype(np.int32),
    }  # fmt: skip
    result = xr.Dataset({name: variable.drop_attrs() for name, variable in variables.items()})
    if "timestamp" in result.dims:
        result = result.transpose(*vol.dims).rename(timestamp="expiry")
    return with_units(result.assign_attrs(origin_attrs(surface)), _UNITS)


def _days(tenor: str | pd.Timedelta | Sequence[str | pd.Timedelta]) -> Any:
    """Return one or several times to expiry in days."""
    day = pd.Timedelta(1, "D")
    if isinstance(tenor, str | pd.Timedelta):
        return length(tenor, "tenor") / day
    return np.array([length(value, "tenor") / day for value in tenor])


def _of_tenors(result: xr.Dataset, tenor: Any) -> xr.Dataset:
    """Select tenors of a result."""
    listed = result["tenor"].to_numpy()
    if tenor is None:
        raise ValueError("the result has tenors: pass tenor='30d' instead of an expiry")
    days = _days(tenor)
    missing = np.setdiff1d(days, listed)
    if missing.size:
        texts = ", ".join(f"{day:g}" for day in listed)
        raise ValueError(f"the result does not have a tenor of {missing[0]:g} days; available: {texts}")
    selected: xr.Dataset = result.sel(tenor=days)
    return selected


def _years(surface: xr.Dataset, expiry: Any) -> xr.DataArray:
    """Return times to expiry; several times are labelled by the dim ``timestamp``."""
    if isinstance(expiry, xr.DataArray):
        if expiry.dtype.kind != "M":
            return bare(expiry, "maturity", "expiry")
        stamps, _ = expiries(expiry.to_numpy().ravel(), "expiry")
        expiry = expiry.copy(data=naive_utc(stamps).to_numpy().reshape(expiry.shape))
        return years_until(surface, expiry.rename(expiry="timestamp") if "expiry" in expiry.dims else expiry)
    several = isinstance(expiry, list | tuple | range) or getattr(expiry, "ndim", 0) > 0
    labels = list(expiry) if several else [expiry]
    if all(isinstance(stamp, int | float | np.number) for stamp in labels):
        return bare(expiry, "maturity", "expiry")
    label = np.full(len(labels), np.datetime64("NaT", "us"))
    for place, stamp in enumerate(labels):
        if not (pd.api.types.is_scalar(stamp) and pd.isna(stamp)):
            label[place] = naive_utc(stamp_of(stamp, "expiry"))
    timestamps = xr.DataArray(label, {"timestamp": label}, ["timestamp"])
    return years_until(surface, timestamps if several else timestamps[0].drop_vars("timestamp"))


def years_until(surface: xr.Dataset, timestamps: xr.DataArray, argument: str = "surface") -> xr.DataArray:
    """Return the time from a surface's time to others [years]; negative rounding errors become 0."""
    at_us = timestamps.astype("datetime64[us]").astype(np.int64).astype(np.float64)
    years = (at_us - origin_us(surface, argument)).reset_coords(drop=True) / YEAR_US
    return years.where(abs(years) > 1e-12, 0.0).where(timestamps.notnull())


_JUST_BEFORE = 1.0 - 1e-9
"""At an expiry the slope in time has a jump: the slope of the interval that ends there is used."""
_ROOT_TAU = np.sqrt(2.0 * np.pi)


def density(cut: Maturity, k: xr.DataArray, *, weighted: bool = False) -> xr.DataArray:
    """Return the density of ``ln(S/F)`` at `k`; if `weighted`, times ``e^k``, without overflow."""

    def kernel(k: Floats, w: Floats, dw: Floats, d2w: Floats) -> Floats:
        """Return ``p(k) = g(k) φ(d₂)/√w``; if weighted, with ``e^k φ(d₂) = φ(d₁)``."""
        return np.asarray(density_factor(k, w, dw, d2w) * _vega(k, w, 1.0 if weighted else -1.0))

    return elementwise(lambda *arrays: _mixed(kernel, *arrays), *cut.parameters, k)


def distribution(cut: Maturity, k: xr.DataArray) -> xr.DataArray:
    """Return the probability that ``ln(S/F)`` is at most `k`."""
    return elementwise(distribution_of, *cut.parameters, k)


def distribution_of(*parts: Floats) -> Floats:
    """Return the distribution from `Maturity.parameters` and k."""
    return _mixed(_distribution, *parts)


def _mixed(
    kernel: Callable[..., Floats],
    share_before: Floats,
    share_after: Floats,
    price_share: Floats,
    *parts: Floats,
) -> Floats:
    """Return the kernel of the smile at a time, or its weighted mean over two smiles if prices are mixed."""
    *raws, k = parts
    first, second = (
        [total_variance(k, own, derivative=order) for order in (0, 1, 2)] for own in slices_of_pair(raws)
    )
    pairs = zip(first, second, strict=True)
    alone = kernel(k, *(share_before * before + share_after * after for before, after in pairs))
    if not np.isfinite(price_share).any():
        return alone
    mean = price_share * kernel(k, *first) + (1.0 - price_share) * kernel(k, *second)
    return np.where(np.isfinite(price_share), mean, alone)


def _distribution(k: Floats, w: Floats, dw: Floats, d2w: Floats) -> Floats:
    """Return ``∂P/∂K = N(−d₂) + φ(d₂) ∂√w/∂k``: the slope of the undiscounted put in its strike."""
    root = np.sqrt(np.where(w > 0.0, w, np.nan))
    d2 = -k / root - root / 2.0
    return np.asarray(ndtr(-d2) + np.exp(-0.5 * d2 * d2) / _ROOT_TAU * dw / (2.0 * root))


def _vega(k: Floats, w: Floats, side: float = 1.0) -> Floats:
    """Return ``φ(d₁)/√w``, twice the derivative of the call over F by w; with d₂ for ``side=-1``."""
    root = np.sqrt(np.where(w > 0.0, w, np.nan))
    return np.asarray(np.exp(-0.5 * (-k / root + side * root / 2.0) ** 2) / (_ROOT_TAU * root))


@typed
def local_volatility(
    surface: xr.Dataset,
    log_moneyness: Numbers,
    year_fraction: Numbers,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute the local volatility of a surface, with which a diffusion reproduces its prices.

    Parameters
    ----------
    surface, log_moneyness, year_fraction, extrapolate, clock
        As in `iv`; k outside the quotes uses the fitted wings. Events of a clock are jumps, which have no
        local variance.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then the dims of T and of k
        ``local_variance`` [1/year] and ``local_vol``, its root [1/√year], NaN where it is not positive;
        ``status`` has the reason: ``CALENDAR`` where prices fall with time, ``BUTTERFLY`` where the density
        is not positive, ``EXTRAPOLATED`` outside the quotes, and where price and density are both below
        1e-290 (NaN), ``SHORT_EXTRAPOLATION`` and the rest as in `iv`.

    Raises
    ------
    ValueError
        As `total_variance`.

    Notes
    -----
    ``σ² = 2 ∂c/∂T / (x² ∂²c/∂x²)`` with the undiscounted call ``c`` over the forward at ``x = K/F(T)``
    (Dupire 1994); for one smile that is ``∂w/∂T / g(k)`` (Gatheral 2006, equation 1.10). At an expiry the
    slope in time is that of the interval before it, so local variance jumps there because of piecewise
    interpolation.

    Examples
    --------
    A term structure without smiles has the forward volatility as its local one:

    >>> flat = dd.analysis.surface.from_essvi([0.02, 0.05], [0.0, 0.0], [0.0, 0.0], [0.1, 0.2])
    >>> round(dd.analysis.surface.local_volatility(flat, 0.3, 0.15)["local_vol"].item(), 6)
    0.547723
    """
    t = bare(year_fraction, "maturity", "year_fraction")
    cut = at_maturity(surface, t * _JUST_BEFORE, extrapolate=extrapolate, clock=clock)
    k = bare(log_moneyness, "log_moneyness")
    weighted = density(cut, k, weighted=True)
    twice_slope = elementwise(_slope_in_time, cut.slope, *cut.parameters, k)

    # far in the wings both vanish, and their ratio is rounding error
    variance = twice_slope / weighted
    positive = (twice_slope > 0.0) & (weighted > 0.0)
    vanished = (abs(twice_slope) < 1e-290) | (abs(weighted) < 1e-290)
    local = variance.where(positive & ~vanished)
    bits = [
        ((twice_slope <= 0.0) & ~vanished, Status.CALENDAR),
        ((weighted <= 0.0) & ~vanished, Status.BUTTERFLY),
        (vanished | (k < cut.k_min) | (k > cut.k_max), Status.EXTRAPOLATED),
    ]
    status = cut.flags
    for here, bit in bits:
        status = status | where(here & cut.share_before.notnull(), np.int32(bit), np.int32(0))
    result = xr.Dataset(
        {"local_variance": local, "local_vol": local**0.5, "status": status.astype(np.int32)}
    ).reset_coords(drop=True)
    if "maturity" in t.coords:
        result = result.assign_coords(maturity=t["maturity"])
    result = result.transpose(*weighted.dims)
    result = result.assign_attrs(origin_attrs(surface))
    return with_units(result, {"local_variance": "1/year", "local_vol": "1/√year"})


def _slope_in_time(
    slope: Floats, share_before: Floats, share_after: Floats, price_share: Floats, *parts: Floats
) -> Floats:
    """Return ``2 ∂c/∂T`` at fixed k.

    For one smile ``∂c/∂w = φ(d₁)/(2√w)``; for mixed prices ``c = α c₁ + (1 − α) c₂`` it is ``α' (c₁ − c₂)``.
    """
    *raws, k = parts
    first, second = slices_of_pair(raws)
    # 1. One smile: total variance is linear in time.
    w1 = total_variance(k, first)
    w2 = total_variance(k, second)
    both = share_after > 0.0
    change = np.where(both, slope * (w2 - w1), slope * w1)
    alone = np.asarray(_vega(k, share_before * w1 + share_after * w2) * change)
    if not np.isfinite(price_share).any():
        return alone

    # 2. Two smiles with mixed prices: the mixture keeps the volatility at the money.
    level1 = total_variance(0.0, first)
    level2 = total_variance(0.0, second)
    middle = share_before * level1 + share_after * level2
    rate = -slope * (level2 - level1) / (2.0 * np.sqrt(middle)) / (np.sqrt(level2) - np.sqrt(level1))
    side = np.where(k > 0.0, "call", "put")
    price1 = formulas.price(1.0, np.exp(k), 1.0, np.sqrt(w1), side)
    price2 = formulas.price(1.0, np.exp(k), 1.0, np.sqrt(w2), side)
    return np.where(np.isfinite(price_share), 2.0 * rate * (price1 - price2), alone)
