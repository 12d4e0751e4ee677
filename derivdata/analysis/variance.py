"""Model-free variance of options: strips, integrals over a smile, and a volatility index."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis import smile
from derivdata.analysis.labelling import applied, elementwise, in_chunks, with_units
from derivdata.analysis.panels import (
    along,
    require_decimal_volatility,
    require_numbers,
    require_variables,
    unit_of,
    whole,
)
from derivdata.analysis.smile.quotes import over_strike, strips, tails
from derivdata.analysis.status import Status
from derivdata.analysis.surface.maturity import Clock, neighbours, read_times, take
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats
from derivdata.support.times import length
from derivdata.units import (
    APR_UNIT,
    APY_UNIT,
    BPS_UNIT,
    HOUR_UNIT,
    HOURS_PER_YEAR,
    NATIVE_UNIT,
    PERCENT_UNIT,
    RATE_UNIT,
    VOLATILITY_SPELLINGS,
)

__all__ = ["cboe", "model_free", "volatility_index"]
__dir__ = __all__.copy

_NOT_PRICES = {
    RATE_UNIT,
    NATIVE_UNIT,
    BPS_UNIT,
    HOUR_UNIT,
    APR_UNIT,
    APY_UNIT,
    PERCENT_UNIT,
    *VOLATILITY_SPELLINGS,
}
"""Units of rates, times and volatilities, which are not units of quotes."""


_YEAR = HOURS_PER_YEAR / 24.0
_INDEX_OUT = ("index", "lower", "upper", "near_days", "next_days", "near_share", "status")
_INDEX_UNITS = (
    dict.fromkeys(("index", "lower", "upper"), "1/√year")
    | dict.fromkeys(("near_days", "next_days"), "days")
    | {"near_share": "1"}
)


@typed
def volatility_index(
    variance: xr.Dataset, *, horizon: str | pd.Timedelta = "30d", clock: Clock | None = None
) -> xr.Dataset:
    """Compute a volatility index for a fixed time to expiry from the two expiries around it.

    Parameters
    ----------
    variance
        Result of `model_free` or `cboe` with dim ``expiry`` and ``year_fraction`` [years]. It must have
        ``total_variance``; ``lower`` and ``upper`` are optional.
    horizon
        Time to expiry of the index, ``"30d"`` or a Timedelta.
    clock
        As in `derivdata.analysis.surface.iv`; published indices do not have one.

    Returns
    -------
    Dataset over the other dims
        ``index`` [per √year], ``√(w/T)`` of the total variance interpolated linearly in time, or by the
        clock; ``lower`` and ``upper``, the same for the bounds, if any; ``near_days`` and ``next_days``, the
        expiries used, and ``near_share``, the weight of the first. ``status``: bits of the two expiries;
        ``EXTRAPOLATED`` and NaN without two expiries with a variance around `horizon`.

    Raises
    ------
    ValueError
        `horizon` is not a length of time above 0; the Dataset has no expiries or no total variance.

    Notes
    -----
    The interpolation follows the Cboe's index. The inputs of the variances differ between indices (filters,
    prices, wings), so this equals a published index only with its inputs.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> index = dd.analysis.variance.volatility_index(dd.analysis.variance.model_free(surface))
    >>> round(index["index"].item(), 3)
    0.477
    """
    days = length(horizon, "horizon") / pd.Timedelta(1, "D")
    if days == 0.0:
        raise ValueError(f"horizon must be a positive length of time, got {horizon!r}")
    require_variables(variance, "variance", ("total_variance", "year_fraction"))
    if not variance["total_variance"].sizes.get("expiry"):
        raise ValueError(
            "variance must have total_variance over the dim expiry: pass the result of model_free"
        )

    # 1. Read variances by expiry (missing bounds are NaN), and the clock at each expiry and at the horizon.
    total = variance["total_variance"]
    absent = xr.full_like(total, np.nan)
    years = variance["year_fraction"]
    lower = variance.get("lower", absent)
    upper = variance.get("upper", absent)
    status = variance.get("status", xr.zeros_like(absent, dtype=np.int32))
    ahead = xr.DataArray(days / _YEAR)
    at_expiries, at_horizon = read_times(
        variance, clock, years.reset_coords(drop=True), ahead, argument="variance"
    )

    # 2. Find the two expiries around the horizon, and interpolate their variances.
    along_expiry = [years, total, lower, upper, status, at_expiries.business, at_expiries.events]
    at_one_time = [ahead, *at_horizon]
    outputs = applied(
        _index,
        *(array.chunk(expiry=-1) if array.chunks else array for array in along_expiry),
        *at_one_time,
        core=[["expiry"]] * len(along_expiry) + [[]] * len(at_one_time),
        out=[[]] * len(_INDEX_OUT),
        types=[np.float64] * 6 + [np.int32],
    )
    index = xr.Dataset(dict(zip(_INDEX_OUT, outputs, strict=True)), attrs=variance.attrs | {"days": days})
    index = index.drop_vars([name for name in ("lower", "upper") if name not in variance])
    return with_units(index, _INDEX_UNITS)


def _index(
    t: Floats, w: Floats, lower: Floats, upper: Floats, status: NDArray[np.int32], *clock: Floats
) -> tuple[Any, ...]:
    """Interpolate the variances of expiries to a fixed maturity; return the variables `_INDEX_OUT`.

    `clock` has the last arguments of `neighbours`; its third array is the maturity.
    """
    t, w = np.broadcast_arrays(t, w)
    horizon = clock[2]
    usable = np.isfinite(w) & (t > 0.0)
    around = neighbours(t, usable, w, *clock, flat_beyond=False)
    before, after, share_before, share_after, _, cut_status = (array[..., 0] for array in around)
    outside = Status.SHORT_EXTRAPOLATION | Status.EXTRAPOLATED | Status.BAD_INPUT
    is_between = (cut_status & np.int32(outside)) == 0
    near_share = np.where(is_between, share_before, np.nan)
    next_share = np.where(is_between, share_after, np.nan)
    volatilities = []
    for values in (w, lower, upper):
        with np.errstate(invalid="ignore"):
            variance = (near_share * take(values, before) + next_share * take(values, after)) / horizon
            volatilities.append(np.sqrt(variance))
    near_days = np.where(is_between, take(t, before) * _YEAR, np.nan)
    next_days = np.where(is_between, take(t, after) * _YEAR, np.nan)
    quote_status = take(status, before) | take(status, after)
    index_status = np.where(is_between, quote_status, np.int32(Status.EXTRAPOLATED))
    return (*volatilities, near_days, next_days, near_share, index_status)


VarianceMethod = Literal["strip", "smile", "fukasawa"]

_OUT = ("total_variance", "inside", "lower", "upper", "k_low", "k_high", "status")
_UNITS = (
    dict.fromkeys(("total_variance", "inside", "lower", "upper", "wing_share"), "1")
    | dict.fromkeys(("k_low", "k_high"), "log-moneyness")
    | {"vol": "1/√year"}
)
_MUCH = 0.1
_SLICES = 4096
_NARROW = 1e-3
_PANELS = 4
_PER_PANEL = 96
_FAR = 1e6
# If the vertex is narrower than this fraction of the smile's width, panels also end around it.
_BENT = 0.1
_BENDS = np.sinh(np.array([-5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0]))


@typed
def model_free(
    source: xr.Dataset,
    *,
    method: VarianceMethod | None = None,
    k_range: tuple[Numbers, Numbers] | None = None,
    floor: float = 0.01,
    dim: str = "strike",
) -> xr.Dataset:
    """Compute the model-free total variance implied by the options of each expiry.

    Parameters
    ----------
    source
        Quotes, a Dataset with ``log_moneyness`` and ``iv`` [per √year] over `dim` and others, one volatility
        per strike, and ``year_fraction``; or a fit of `derivdata.analysis.smile` or
        `derivdata.analysis.surface`.
    method
        None is ``"strip"`` for quotes and for surfaces fitted to quotes, and ``"fukasawa"`` for others.

        - ``"strip"``: the integral of Black-76 prices at r = 0 between the quotes, with volatilities linear
          between two strikes. Options with a delta below 0.001 are omitted. It has no wings.
        - ``"smile"``: ``2 ∫ OTM(k) e^(−k) dk`` over the fitted smile with its wings.
        - ``"fukasawa"``: ``∫ w(k) φ(d2) |d2'| dk``, the same number from volatilities; NaN with ``BUTTERFLY``
          where d2 does not fall.

        The last two include extrapolated wings, which on days of stress are half of the variance of some
        expiries.
    k_range
        Range of log-moneyness that counts as quoted; by default the range of the quotes.
    floor
        Fraction of the forward below which the underlying is assumed never to fall; only `upper` needs it.
    dim
        Name of the strikes' dimension of quotes.

    Returns
    -------
    Dataset over the dims of `source` without `dim`
        ``total_variance`` [1]; ``inside`` [1], the part priced by options within ``[k_low, k_high]``;
        ``wing_share`` [1], ``1 − inside / total_variance``; ``vol``, ``√(total_variance/T)`` [per √year].
        ``lower`` and ``upper`` [1] bound the total variance: nothing is beyond the quotes, or the maximum
        that prices allow there (calls cost at most the last one, puts at most the first one in proportion to
        the strike). ``status`` adds ``EXTRAPOLATED`` if `wing_share` is above 0.1, ``TOO_FEW_STRIKES`` if a
        strip has fewer than three or is on one side of the forward, and the bits of the fit. NaN without a
        fit. Lazy if `source` is.

    Raises
    ------
    ValueError
        Unknown method; `floor` is not between 0 and 1; the source lacks inputs of the method.

    Notes
    -----
    Carr and Madan (1998); Fukasawa (2012), "The normalizing transformation of the implied volatility smile".
    Without a floor, prices do not bound the variance of puts, because the underlying may fall to 0.
    """
    if not 0.0 < floor < 1.0:
        raise ValueError(f"floor must be a share of the forward between 0 and 1, got {floor!r}")
    # 1. Choose the method.
    fitted = "k_min" in source
    carries = "strip_variance" in source
    if method is None:
        method = "strip" if (carries and k_range is None) or not fitted else "fukasawa"
    quoted = method == "strip" and not carries
    _require(source, ("log_moneyness", "iv") if quoted else ("k_min", "k_max", "method", "status"))
    if quoted:
        result = _of_quotes(source, k_range, floor, dim)
    elif method == "strip":
        result = _carried(source, k_range, floor)
    else:
        ends = (source["k_min"], source["k_max"]) if k_range is None else map(xr.DataArray, k_range)
        ended = source.assign(dict(zip(("k_low", "k_high"), ends, strict=True)))
        result = in_chunks(lambda block: _of_fit(block, floor, str(method)), ended, most=_SLICES)

    # 2. Add the share of the wings, and the volatility.
    t = source["year_fraction"]
    w = result["total_variance"]
    result["wing_share"] = 1.0 - result["inside"] / w
    result["vol"] = (w / t).where((w >= 0.0) & (t > 0.0)) ** 0.5
    wide = result["wing_share"] > _MUCH
    result["status"] = (result["status"] | wide * np.int32(Status.EXTRAPOLATED)).astype(np.int32)
    return with_units(result, _UNITS).assign_attrs(method=method, floor=floor)


def _require(source: xr.Dataset, names: tuple[str, ...]) -> None:
    missing = [name for name in (*names, "year_fraction") if name not in source]
    if missing:
        raise ValueError(
            f"source must have {', '.join(missing)}: the strip needs quotes, other methods need a fit"
        )


def _of_quotes(source: xr.Dataset, k_range: tuple[Any, Any] | None, floor: float, dim: str) -> xr.Dataset:
    """Return the variance of each expiry from the strip of its quotes."""
    if source["iv"].chunks is None:
        require_decimal_volatility(source["iv"])
    k = whole(source["log_moneyness"], dim)
    iv = whole(source["iv"], dim)
    w, *ends, status = strips(k, iv, source["year_fraction"], dim, k_range or (-np.inf, np.inf))
    return _of_strip(w, ends, status, floor)


def _carried(fit: xr.Dataset, k_range: Any, floor: float) -> xr.Dataset:
    """Return the strip of the quotes that a surface was fitted to, extended by prices of its smiles."""
    if k_range is not None:
        raise ValueError("k_range of a strip needs the quotes: model_free(quotes, method='strip', k_range=…)")
    places = [fit[f"strip_{end}"] for end in ("low", "high")]
    widths = [smile.total_variance(fit, end.fillna(0.0), extrapolate=True) ** 0.5 for end in places]
    w = fit["strip_variance"]
    none = (w.isnull() & (fit["method"] > 0)) * np.int32(Status.TOO_FEW_STRIKES)
    return _of_strip(w, [*places, *widths], fit["status"] | none, floor)


def _of_strip(w: xr.DataArray, ends: list[xr.DataArray], status: xr.DataArray, floor: float) -> xr.Dataset:
    beyond = elementwise(tails, *ends, floor)
    return xr.Dataset(dict(zip(_OUT, (w, w, w, w + beyond, *ends[:2], status), strict=True)))


def _of_fit(fit: xr.Dataset, floor: float, method: str) -> xr.Dataset:
    """Return the variables `_OUT` of each expiry, from integrals over its fitted smile."""
    low = fit["k_low"]
    high = fit["k_high"]
    width = smile.total_variance(fit, 0.0, extrapolate=True).clip(_NARROW**2) ** 0.5
    vertex = fit["m"].reset_coords(drop=True)
    bend = fit["sigma"].reset_coords(drop=True)
    # Panels at the vertex take time, so they are added only if a vertex is narrow or its width is unknown.
    bends = _BENDS
    if bend.chunks is None and not bool((bend < _BENT * width).any()):
        bends = _BENDS[:0]
    k, step, is_quoted = applied(
        _nodes,
        *(width, low, high, vertex, bend),
        bends=bends,
        out=[["node"]] * 3,
        types=[np.float64, np.float64, np.bool_],
        sizes={"node": (_PANELS + bends.size) * _PER_PANEL},
    )
    total, inside, status = applied(
        _integrals,
        *(k, step, is_quoted),
        *(smile.total_variance(fit, k, derivative=d, extrapolate=True) for d in (0, 1)),
        fukasawa=method == "fukasawa",
        core=[["node"]] * 5,
        out=[[]] * 3,
        types=[np.float64, np.float64, np.int32],
    )
    finite = [end.where(np.isfinite(end), 0.0) for end in (low, high)]
    ends = [smile.total_variance(fit, end, extrapolate=True) ** 0.5 for end in finite]
    max_outside = elementwise(tails, low, high, *ends, floor).where(total.notnull())
    outputs = (total, inside, inside, inside + max_outside, low, high, status | fit["status"])
    return xr.Dataset(dict(zip(_OUT, outputs, strict=True)))


def _nodes(
    width: Floats, low: Floats, high: Floats, vertex: Floats, bend: Floats, *, bends: Floats
) -> tuple[Floats, Floats, Bools]:
    """Return Gauss-Legendre nodes in ``asinh(k/width)`` on panels, weights, and a mask of quoted ones.

    Panels also end at the vertex and at `bends` times sigma on both sides of it.
    """
    width, low, high, vertex, bend = np.broadcast_arrays(width, low, high, vertex, bend)
    end = np.arcsinh(_FAR / width)
    low_cut = np.clip(np.arcsinh(low / width), -end, end)
    high_cut = np.clip(np.arcsinh(high / width), -end, end)
    near = np.where(np.isfinite(vertex), vertex, 0.0)[..., None] + bends * np.nan_to_num(bend)[..., None]
    turns = np.clip(np.arcsinh(near / width[..., None]), -end[..., None], end[..., None])
    fixed = np.stack([-end, low_cut, high_cut, np.zeros_like(end), end], axis=-1)
    edges = np.sort(np.concatenate([fixed, turns], axis=-1), axis=-1)
    middle = (edges[..., 1:] + edges[..., :-1]) / 2.0
    half = np.diff(edges, axis=-1) / 2.0
    x, weight = np.polynomial.legendre.leggauss(_PER_PANEL)
    u = middle[..., None] + half[..., None] * x
    scale = width[..., None, None]
    is_quoted = (middle > low_cut[..., None]) & (middle < high_cut[..., None])
    shape = (*width.shape, u.shape[-1] * u.shape[-2])
    is_quoted = np.broadcast_to(is_quoted[..., None], u.shape)
    k = scale * np.sinh(u)
    step = scale * np.cosh(u) * half[..., None] * weight
    return k.reshape(shape), step.reshape(shape), is_quoted.reshape(shape)


def _integrals(
    k: Floats, step: Floats, inside: Bools, w: Floats, slope: Floats, *, fukasawa: bool
) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Return total variance, the part inside the quotes, and ``BUTTERFLY`` where d2 rises."""
    s = np.sqrt(np.where(w > 0.0, w, np.nan))
    priced = 2.0 * over_strike(k, s) * step
    within = np.where(inside, priced, 0.0).sum(axis=-1)
    if not fukasawa:
        return priced.sum(axis=-1), within, np.zeros(within.shape, np.int32)
    d2 = -k / s - s / 2.0
    fall = 1.0 / s - k * slope / (2.0 * s * w) + slope / (4.0 * s)
    density = np.exp(-0.5 * d2 * d2) / np.sqrt(2.0 * np.pi)
    total = (w * density * fall * step).sum(axis=-1)
    rises = (fall < 0.0).any(axis=-1)
    return np.where(rises, np.nan, total), within, np.where(rises, np.int32(Status.BUTTERFLY), np.int32(0))


_LISTED_OUT = ("forward", "strike_0", "total_variance", "variance", "status", "contribution", "used")
_LISTED_UNITS = {"total_variance": "1", "variance": "1/year"}


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
        Quotes [currency of the strikes] with dims ``strike`` and ``side`` (``call``, ``put``) and any others.
        An option with neither is treated as not listed. If one of them is missing or 0, the option counts as
        listed without a bid.
    year_fraction
        Time to expiry [years].
    interest_rate
        Continuous interest rate [1/year].
    price
        Price of an option with a bid; by default the mean of bid and ask.

    Returns
    -------
    Dataset over the other dims
        ``forward``, from the strike whose call and put are closest; ``strike_0``, the largest strike not
        above it; ``total_variance`` ``σ²T`` and ``variance`` ``σ²`` [per year]; over ``strike`` also
        ``contribution`` ``ΔK/K² Q`` and ``used``; ``status``. NaN with ``TOO_FEW_STRIKES`` without a strike
        that has both a call and a put, or with fewer than three used; with ``EXPIRED`` if no time is left.
        Lazy if the quotes are; strikes and sides are put into one chunk.

    Raises
    ------
    ValueError
        A dim or side is missing; quotes have different units, or the unit of a rate or a volatility.

    Notes
    -----
    The Cboe Volatility Index methodology uses out-of-the-money puts below ``K₀``, calls above it, and the
    mean of both at ``K₀``. Options without a bid are omitted, and so are all options beyond two consecutive
    strikes without a bid. Since 2025 options without an ask are omitted too.
    """
    stated = {}
    for name, data in (("bid", bid), ("ask", ask), ("price", price)):
        unit = None if data is None else unit_of(data, name)
        if unit is not None:
            stated[name] = unit
    for name, unit in stated.items():
        if unit in _NOT_PRICES:
            raise ValueError(
                f"{name} must be prices in the currency of the strikes, got {unit!r}: pass premiums in that "
                "currency (a premium in coin times the forward)"
            )
    if len(set(stated.values())) > 1:
        units = ", ".join(f"{name} in {unit!r}" for name, unit in stated.items())
        raise ValueError(f"{' and '.join(stated)} must have one unit, got {units}: convert with dd.units")
    bid = _sorted(bid, "bid")
    ask = _sorted(ask, "ask")
    price = (bid + ask) / 2.0 if price is None else _sorted(price, "price")
    core = ["strike", "side"]
    year_fraction, interest_rate = along(
        price, *core, year_fraction=year_fraction, interest_rate=interest_rate
    )
    outputs = applied(
        _cboe,
        *(bid, ask, price, bid["strike"].astype(np.float64), year_fraction, interest_rate),
        core=[core, core, core, ["strike"], [], []],
        out=[[]] * 5 + [["strike"]] * 2,
        types=[np.float64] * 4 + [np.int32, np.float64, np.bool_],
    )
    result = xr.Dataset(dict(zip(_LISTED_OUT, outputs, strict=True)))
    return with_units(result, _LISTED_UNITS).assign_coords(year_fraction=year_fraction)


def _sorted(quotes: xr.DataArray, name: str) -> xr.DataArray:
    """Return prices sorted by strike, calls before puts, in one chunk."""
    missing = [dim for dim in ("strike", "side") if dim not in quotes.dims]
    if missing:
        raise ValueError(f"{name} must have the dim {', '.join(missing)}, got dims {quotes.dims}")
    require_numbers(quotes, name)
    if "strike" not in quotes.coords:
        raise ValueError(f"{name} must have labels along strike")
    require_numbers(quotes["strike"], f"strike of {name}")
    if sorted(quotes["side"].to_numpy().tolist()) != ["call", "put"]:
        raise ValueError(f"side of {name} must be call and put, got {quotes['side'].to_numpy().tolist()}")
    ordered = quotes.sortby("strike").sel(side=["call", "put"])
    return ordered.chunk(strike=-1, side=-1) if ordered.chunks else ordered


def _cboe(
    bid: Floats, ask: Floats, price: Floats, strike: Floats, t: Floats, interest_rate: Floats
) -> tuple[Any, ...]:
    """Return the variance of one expiry by the VIX rules, and the parts of the sum."""
    bid, ask, price = np.broadcast_arrays(bid, ask, price)
    listed = np.isfinite(bid) | np.isfinite(ask)
    firm = (bid > 0.0) & (ask > 0.0) & np.isfinite(price)
    growth = np.broadcast_to(np.exp(interest_rate * t), listed.shape[:-2])
    forward, paired = _forward(price, np.all(firm, axis=-1), strike, growth)
    # Find the largest listed strike that is not above the forward.
    low = np.any(listed, axis=-1) & (strike <= forward[..., None])
    start = np.where(low, strike, -np.inf).max(axis=-1)
    start = np.where(np.isfinite(start), start, np.nan)
    # The strip has calls above the start, puts below it, and the start itself if both options have a bid.
    above = strike > start[..., None]
    below = strike < start[..., None]
    calls = _walk(listed[..., 0] & above, firm[..., 0])
    puts = _walk((listed[..., 1] & below)[..., ::-1], firm[..., ::-1, 1])[..., ::-1]
    used = calls | puts | (~above & ~below & np.isfinite(start)[..., None] & firm.all(axis=-1))
    at_start = strike == start[..., None]
    sides = np.where(strike > start[..., None], price[..., 0], price[..., 1])
    premium = np.where(at_start, price.mean(axis=-1), sides)
    with np.errstate(invalid="ignore"):  # ``ΔK/K² Q`` of each used strike, in ascending order
        contribution = np.where(used, _spacing(strike, used) / np.square(strike) * premium, 0.0)
    few = ~paired | (used.sum(axis=-1) < 3)
    expired = np.broadcast_to(t <= 0.0, few.shape)
    status = np.where(few, np.int32(Status.TOO_FEW_STRIKES), np.int32(0))
    status |= np.where(expired, np.int32(Status.EXPIRED), np.int32(0))
    # ``2 e^(RT) Σ ΔK/K² Q − (F/K₀ − 1)²``
    w = 2.0 * growth * contribution.sum(axis=-1) - np.square(forward / start - 1.0)
    w = np.where(few | expired, np.nan, w)
    return forward, start, w, w / np.where(expired, np.nan, t), status, contribution, used


def _forward(price: Floats, both: Bools, strike: Floats, growth: Floats) -> tuple[Floats, Bools]:
    """Return ``K + e^(RT)(C − P)`` at the strike where call and put are closest; NaN without one."""
    apart = np.where(both, np.abs(price[..., 0] - price[..., 1]), np.inf)
    at = apart.argmin(axis=-1)[..., None]
    there = np.any(both, axis=-1)
    call, put = (np.take_along_axis(price[..., i], at, -1)[..., 0] for i in (0, 1))
    return np.where(there, strike[at[..., 0]] + growth * (call - put), np.nan), there


def _spacing(strike: Floats, used: Bools) -> Floats:
    """Return half the distance between the neighbouring used strikes, at the ends the full distance.

    0 if unused.
    """
    strike = np.broadcast_to(strike, used.shape)
    below = _shifted(np.maximum.accumulate(np.where(used, strike, -np.inf), axis=-1), 1, -np.inf)
    from_above = np.where(used, strike, np.inf)[..., ::-1]
    above = _shifted(np.minimum.accumulate(from_above, axis=-1)[..., ::-1], -1, np.inf)
    lower = np.isfinite(below)
    upper = np.isfinite(above)
    wide = np.where(upper, above, strike) - np.where(lower, below, strike)
    return np.where(used, wide / np.where(lower & upper, 2.0, 1.0), 0.0)


def _walk(listed: Bools, bid: Bools) -> Bools:
    """Return a mask of options with a bid, along the axis until two consecutive listed ones have none."""
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
