"""Fit many surfaces to quotes at once."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis import smile
from derivdata.analysis.labelling import applied, elementwise, where
from derivdata.analysis.panels import require_decimal_volatility
from derivdata.analysis.smile import essvi
from derivdata.analysis.smile.essvi import ssvi_to_raw
from derivdata.analysis.smile.evaluate import FACTS, RAW, Method, assemble
from derivdata.analysis.smile.joint_svi import fit_joint
from derivdata.analysis.smile.quotes import (
    LabelledQuotes,
    SurfaceQuotes,
    in_rows,
    labelled,
    off_quotes,
    strips,
    with_covariance,
)
from derivdata.analysis.smile.quotes import at_the_money_of as money_between
from derivdata.analysis.smile.refinement import Quotes, bumps_of
from derivdata.analysis.smile.svi import BUMP_NAMES, Bumped, Raw, at_index, slice_of, total_variance
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface.points import calendar_check
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats, Indices

_MINIMUM = 3  # minimum number of distinct strikes for a separate slice
_BATCH = 64
_EDGE = 0.1  # fraction of the spread at each end that a fit to bid and ask avoids
_INSIDE = 1e-9  # distance outside bid and ask up to which a quote counts as met [volatility]


class QuoteGrid(NamedTuple):
    """Quotes of surfaces ``(surfaces, expiries, strikes)``, NaN if missing, usable expiries first.

    ``order`` is the original position of each expiry; bid and ask are volatilities.
    """

    k: Floats
    iv: Floats
    weight: Floats
    bid: Floats
    ask: Floats
    t: Floats
    n: NDArray[np.int32]
    status: NDArray[np.int32]
    usable: Indices
    order: Indices


def arrange(k: Floats, iv: Floats, t: Floats, weight: Floats, bid: Floats, ask: Floats) -> QuoteGrid:
    """Order the quotes of surfaces ``(surfaces, expiries, strikes)`` with times ``(surfaces, expiries)``."""
    live = (
        np.isfinite(k) & np.isfinite(iv) & (iv > 0.0) & (weight > 0.0) & ((t > 0.0) & (t < np.inf))[..., None]
    )
    k, iv, weight, bid, ask = _packed(live, k, iv, weight, bid, ask)
    with np.errstate(invalid="ignore"):
        distinct = (np.diff(np.sort(k, axis=-1), axis=-1) > 0.0).sum(axis=-1) + 1
    n = live.sum(axis=-1).astype(np.int32)
    has_strikes = (n > 0) & (distinct >= _MINIMUM)
    status = np.select(
        [np.isnan(t) | (t == np.inf), t <= 0.0, ~has_strikes],
        [np.int32(Status.BAD_INPUT), np.int32(Status.EXPIRED), np.int32(Status.TOO_FEW_STRIKES)],
        np.int32(0),
    )
    order = np.argsort(np.where(status == 0, t, np.inf), axis=-1, kind="stable")
    k, iv, weight, bid, ask = (
        np.take_along_axis(values, order[..., None], 1) for values in (k, iv, weight, bid, ask)
    )
    t = np.take_along_axis(t, order, 1)
    n = np.take_along_axis(n, order, 1)
    status = np.take_along_axis(status, order, 1)
    usable = (status == 0).sum(axis=1)
    return QuoteGrid(k, iv, weight, bid, ask, t=t, n=n, status=status, usable=usable, order=order)


def batches(ordered: QuoteGrid) -> Iterator[tuple[Indices, int, SurfaceQuotes]]:
    """Yield groups of surfaces with equally many usable expiries: rows, this number, quotes."""
    for count in np.unique(ordered.usable[ordered.usable > 0]):
        alike = np.flatnonzero(ordered.usable == count)
        for first in range(0, alike.size, _BATCH):
            rows = alike[first : first + _BATCH]
            yield rows, int(count), quotes_of(ordered, rows, int(count))


def quotes_of(ordered: QuoteGrid, rows: Indices, count: int) -> SurfaceQuotes:
    """Return the quotes of the first `count` expiries of some surfaces, without those of unusable expiries.

    Residuals are in volatility: ``(w_model − w)/(2 √(w T))``, times the root of the weight. With bid and ask
    w is halfway between them in volatility, half the ask without a bid, and residuals begin a tenth of the
    spread inside, because least squares end at the edge of the free region or just beyond it.
    """
    # 1. Select the quotes of these surfaces, without unused columns.
    usable = np.arange(count) < ordered.usable[rows, None]
    k, iv, weight = (values[rows, :count] for values in (ordered.k, ordered.iv, ordered.weight))
    weight = np.where(usable[..., None], weight, 0.0)
    strikes = max(int((weight > 0.0).any(axis=(0, 1)).sum()), 1)
    k, iv, weight = (values[..., :strikes] for values in (k, iv, weight))
    t = ordered.t[rows, :count, None]
    is_used = weight > 0.0
    bid, ask = (values[rows, :count, :strikes] for values in (ordered.bid, ordered.ask))

    # 2. Find the region without loss of each quote. With one side, the other end is open. Without sides, or
    # if they cross, the region is the quote itself.
    crossed = bid > ask
    has_bid = is_used & np.isfinite(bid) & ~crossed
    has_ask = is_used & np.isfinite(ask) & ~crossed
    minimum = np.where(has_bid, bid, 0.0)
    middle = np.where(has_ask, (minimum + ask) / 2.0, np.where(has_bid, bid, iv))
    room = np.where(has_ask, _EDGE * (ask - minimum), 0.0)
    floor = np.where(has_bid, bid + room, 0.0)
    ceiling = ask - room

    # 3. Convert it to total variance, and compute the scale of the residuals.
    w = np.where(is_used, middle * middle * t, 1.0)
    scale = np.where(is_used, np.sqrt(weight / np.where(is_used, 4.0 * w * t, 1.0)), 0.0)
    k = np.where(is_used, k, 0.0)
    low = np.where(has_bid | has_ask, floor * floor * t, w)
    high = np.where(has_ask, ceiling * ceiling * t, np.where(has_bid, np.inf, w))
    if not (low < high).any():
        return SurfaceQuotes(k, w, scale)
    return SurfaceQuotes(k, w, scale, low, high)


def _packed(live: NDArray[np.bool_], *quotes: Floats) -> list[Floats]:
    """Move the quotes of every slice to the front and drop unused columns.

    The third array has the weights.
    """
    columns = max(int(np.max(live.sum(axis=-1), initial=0)), 1)
    front = np.argsort(~live, axis=-1, kind="stable")[..., :columns]
    is_live = np.take_along_axis(live, front, -1)
    moved = (np.take_along_axis(values, front, -1) for values in quotes)
    return [np.where(is_live, values, 0.0 if i == 2 else np.nan) for i, values in enumerate(moved)]


SurfaceMethod = Literal["svi", "essvi", "slices"]
Loss = Literal["quote", "bid_ask"]

_SURFACES = 512
_JOINT_SURFACES = 128
_FLAT = 4.0  # maximum deviation from the value at the money, in rms residuals, of a slice that counts as flat


@typed
def fit(
    log_moneyness: Numbers,
    iv: Numbers,
    year_fraction: Numbers,
    *,
    method: SurfaceMethod = "svi",
    weights: Any = None,
    iv_bid: Numbers | None = None,
    iv_ask: Numbers | None = None,
    loss: Loss = "bid_ask",
    forward: xr.DataArray | None = None,
    dim: str = "strike",
) -> xr.Dataset:
    """Fit one volatility surface for each combination of leading labels, such as venue, symbol and time.

    Parameters
    ----------
    log_moneyness, iv
        ``ln(K/F)`` and implied volatility [decimal per √year], with dims ``expiry`` and `dim` and any others;
        bare arrays have these two last. NaN is a missing quote and pads ragged chains. One volatility per
        strike: see `derivdata.analysis.chain`.
    year_fraction
        Time to expiry [years], with dim ``expiry``, in any order.
    method
        - ``"svi"``: five parameters per expiry. All expiries are fitted together, and the result is proved
          free of butterfly and calendar arbitrage.
        - ``"essvi"``: three parameters per expiry. All expiries are fitted together. The form itself excludes
          both kinds of arbitrage, and the fit is about twenty times faster.
        - ``"slices"``: `derivdata.analysis.smile.fit` on each expiry separately. Arbitrage is only reported.
    weights
        Weights of the squared residuals of volatility, or an array such as ``1/(ask_iv − bid_iv)²``. A weight
        of 0 or NaN drops a quote. None is ``"vega"``; for quotes with bid and ask it is one over the square
        of half the spread, so that residuals are measured in half spreads.

        - ``"vega"``: vega.
        - ``"price"``: vega squared, so that residuals are errors of price and options at the money dominate.
          Recommended for eSSVI.
        - ``"equal"``: 1, so that each far strike counts as much as one at the money.
        - ``"variance"``: residuals are errors of total variance.
    iv_bid, iv_ask
        Volatilities of bid and ask, shaped like `iv`; NaN or not positive if missing. Outside bid and ask,
        the residual is the distance to a point a tenth of the spread inside the nearer side. Between them it
        is a thousandth of the distance to the mid, which only makes the minimum unique. A quote without bid
        and ask uses `iv`. ``"slices"`` uses them as `derivdata.analysis.smile.fit` does.
    loss
        Use of bid and ask.

        - ``"bid_ask"``: residuals as described for `iv_bid`.
        - ``"quote"``: the residual is the distance to `iv`, or to the nearer of bid and ask if `iv` is not
          between them. Seven bumps on each SVI slice then move the surface between bid and ask, as far as it
          stays free of butterfly and calendar arbitrage. Other methods ignore bid and ask.
    forward
        Forward of each expiry, returned as a coordinate.
    dim
        Name of the strikes' dimension.

    Returns
    -------
    Dataset over the dims of `iv` without `dim`
        The variables of `derivdata.analysis.smile.evaluate`, and:

        - ``theta``, ``rho`` and ``psi`` of each slice (eSSVI only).
        - ``atm_error_vol`` [per √year]: fitted minus quoted volatility at the money. The quoted one is linear
          in variance between the two nearest quotes; NaN without a quote on either side.
        - ``strip_variance`` [1]: the part of total variance priced by the quotes only, between ``strip_low``
          and ``strip_high`` [log-moneyness], for `derivdata.analysis.variance.model_free`.
        - With bumps, ``bump_unit`` [log-moneyness] and ``bump_1`` to ``bump_7`` [1], their heights in total
          variance. `derivdata.analysis.smile.total_variance` and all functions of surfaces add them to the
          SVI slice.
        - ``status``: ``OFF_QUOTES`` if other expiries keep a slice away from its quotes, or no slice has
          their shape. ``FALLBACK_USED`` if the search of ``"svi"`` found no arbitrage-free surface and eSSVI
          is used.

        ``nfev`` counts for the whole surface. An expiry that is past, has fewer than 3 strikes, or is padding
        is NaN with the reason in ``status``, and the other expiries are fitted without it. Lazy if `iv` is.

    Raises
    ------
    ValueError
        Unknown method or weighting; a dimension is missing; the volatilities look like percent (lazy input is
        not checked).

    Notes
    -----
    The residual is ``(w_model − w)/(2 √(w T))``, an error in volatility. All surfaces of a call are searched
    at once by Levenberg-Marquardt with exact derivatives, from one linear least squares per slice. Expiries
    and strikes are put into one chunk. Errors of each method and weighting on recorded chains, and the
    reasons for the defaults, are in docs/methods/surfaces.md.
    """
    return fitted(
        log_moneyness, iv, year_fraction, method=method, weights=weights, iv_bid=iv_bid, iv_ask=iv_ask,
        loss=loss, forward=forward, dim=dim,
    )  # fmt: skip


def fitted(
    log_moneyness: Any,
    iv: Any,
    year_fraction: Any,
    *,
    method: SurfaceMethod,
    weights: Any,
    iv_bid: Any,
    iv_ask: Any,
    loss: Loss,
    forward: xr.DataArray | None,
    dim: str = "strike",
    covariance: bool = True,
) -> xr.Dataset:
    """Return the result of `fit`, with the covariance of parameters only if requested."""
    to_quotes = loss == "quote"
    if to_quotes and method != "svi":
        iv_bid = iv_ask = None
    refined = to_quotes and (iv_bid is not None or iv_ask is not None)
    if weights is None and to_quotes:
        weights = "vega"
    quotes = labelled(
        log_moneyness, iv, year_fraction, weights, iv_bid, iv_ask, core=("expiry", dim), lead="surface"
    )
    if quotes.iv.chunks is None:
        require_decimal_volatility(quotes.iv)
    if method == "slices":
        surface = _alone(quotes, forward, dim)
    else:
        targets = quotes._replace(iv=_between(quotes)) if refined else quotes
        surface = _together(targets, forward, method, dim, refined)
        if covariance:
            free = RAW if method == "svi" else essvi.SsviSlices._fields
            surface = with_covariance(surface, targets, dim, free)
    quoted = at_the_money_of(quotes.k, (quotes.iv**2).where(quotes.iv > 0.0), dim) ** 0.5
    error = smile.iv(surface, 0.0, extrapolate=True) - quoted
    variance, low, high, *_ = strips(quotes.k, quotes.iv, quotes.t, dim)
    more = {
        "strip_variance": (variance, "1"),
        "strip_low": (low, "log-moneyness"),
        "strip_high": (high, "log-moneyness"),
        "atm_error_vol": (error, "1/√year"),
    }
    for name, (variable, unit) in more.items():
        surface = surface.assign({name: variable.reset_coords(drop=True).assign_attrs(units=unit)})
    return surface


def _between(quotes: LabelledQuotes) -> xr.DataArray:
    """Clip volatilities to bid and ask."""
    crossed = quotes.bid > quotes.ask
    iv = quotes.iv.where(crossed | ~(quotes.iv < quotes.bid), quotes.bid)
    return iv.where(crossed | ~(iv > quotes.ask), quotes.ask)


def _together(
    quotes: LabelledQuotes, forward: xr.DataArray | None, method: SurfaceMethod, dim: str, refined: bool
) -> xr.Dataset:
    """Fit all expiries of each surface together, by joint SVI or eSSVI, with bumps if `refined`."""
    joint = method == "svi"
    parameters: tuple[str, ...] = RAW if joint else essvi.SsviSlices._fields
    if refined:
        parameters = Bumped._fields
    outputs = applied(
        lambda *blocks: in_rows(
            functools.partial(_block, joint=joint, refined=refined), blocks[:5], blocks[5:], core=2,
            most=_JOINT_SURFACES if joint else _SURFACES,
        ),
        *quotes,
        core=[["expiry", dim]] * 5 + [["expiry"]],
        out=[["expiry"]] * (len(parameters) + len(FACTS)),
        types=[*[np.float64] * len(parameters), *FACTS.values()],
    )  # fmt: skip
    variables = dict(zip((*parameters, *FACTS), outputs, strict=True))
    done = np.isfinite(variables[parameters[0]])
    fallback = (variables["status"] & np.int32(Status.FALLBACK_USED)) != 0
    variables["method"] = where(done, where(fallback | (not joint), Method.SSVI, Method.SVI), Method.NONE)
    if not joint:
        variables |= ssvi_to_raw(*(variables[name] for name in parameters))._asdict()
    fit = assemble(variables, quotes.t, forward=forward, surface=method)
    if refined:
        unit_name, *height_names = BUMP_NAMES
        fit[unit_name].attrs["units"] = "log-moneyness"
        for name in height_names:
            fit[name].attrs["units"] = "1"
    return fit


def at_the_money_of(k: xr.DataArray, values: xr.DataArray, dim: str) -> xr.DataArray:
    """Return values of the quotes at k = 0, interpolated linearly; NaN without a quote on each side."""
    return elementwise(money_between, k, values, core=[[dim], [dim]]).reset_coords(drop=True)


def largest_errors(
    surface: xr.Dataset, quotes: xr.Dataset, spread: xr.DataArray | None
) -> dict[str, xr.DataArray]:
    """Return the largest errors of each slice, and half the spread at the money."""
    k = quotes["log_moneyness"]
    model = smile.iv(surface, k, extrapolate=True)
    error = abs(model - quotes["iv"])
    largest = error.reduce(np.fmax.reduce, "strike", initial=np.nan)  # NaN if there are no strikes
    result = {"largest_error_vol": largest.assign_attrs(units="1/√year")}
    if spread is not None:
        off = (error / spread.where(spread > 0.0)).max("strike")
        outside = xr.concat([quotes["iv_bid"] - model, model - quotes["iv_ask"]], "edge")
        is_two_sided = outside.notnull().all("edge")
        outside = outside.max("edge")  # of an option without a bid, the distance above its ask
        breach = outside.max("strike").clip(0.0)
        inside = (outside <= _INSIDE).where(is_two_sided).mean("strike")
        two_sided = is_two_sided.sum("strike").astype(np.int32)
        half = at_the_money_of(k, spread.where(spread >= 0.0) / 2.0, "strike")
        result["largest_error_spreads"] = off.assign_attrs(units="1")
        result["inside_share"] = inside.assign_attrs(units="1")
        result["two_sided"] = two_sided.assign_attrs(units="1")
        result["breach_vol"] = breach.assign_attrs(units="1/√year")
        result["atm_half_spread_vol"] = half.assign_attrs(units="1/√year")
    return result


def _alone(quotes: LabelledQuotes, forward: Any, dim: str) -> xr.Dataset:
    """Fit every expiry separately; flag those that cross the previous one."""
    k, iv, weight, bid, ask, t = quotes
    surface = smile.fit(k, iv, t, weights=weight, iv_bid=bid, iv_ask=ask, forward=forward, dim=dim)
    surface = surface.assign_attrs(surface="slices")
    ok = calendar_check(surface)["ok"] if surface.sizes["expiry"] else surface["method"] == 0
    crossed = (surface["method"] > 0) & ~ok
    status = surface["status"] | crossed * np.int32(Status.CALENDAR)
    return surface.assign(status=status.astype(np.int32).assign_attrs(flag_attrs()))


def _block(
    k: Floats, iv: Floats, weight: Floats, bid: Floats, ask: Floats, t: Floats, *, joint: bool, refined: bool
) -> list[Any]:
    """Return parameters and `FACTS` of surfaces on one axis, expiries in the given order."""
    # 1. Fit eSSVI, which excludes arbitrage, then SVI from this start, then bumps. Only the bumps use bid and
    # ask.
    with_sides = ordered = arrange(k, iv, t, weight, bid, ask)
    if refined:
        nothing = np.full_like(ordered.bid, np.nan)
        ordered = ordered._replace(bid=nothing, ask=nothing)
    parameters, nfev, status = _essvi(ordered)
    if joint:
        parameters, nfev, status = _joint(ordered, parameters, nfev, status)
    if refined:
        parameters = _refined(with_sides, Raw(*parameters))

    # 2. Compute errors of the slices, and flag those that miss their quotes in one direction.
    slices = slice_of(parameters) if joint else ssvi_to_raw(*parameters)
    w = total_variance(ordered.k, slice_of([values[..., None] for values in slices]))
    is_quote = ordered.weight > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        model = np.sqrt(w / ordered.t[..., None])
        error = np.where(is_quote, model - ordered.iv, 0.0)
        mean = (error**2).sum(axis=-1) / is_quote.sum(axis=-1)
    rmse = np.where((ordered.status == 0) & (ordered.n > len(parameters)), np.sqrt(mean), np.nan)
    quoted = np.where(is_quote, ordered.iv, np.nan)
    off = off_quotes(model, ordered.k, quoted, ordered.t, ordered.bid, ordered.ask) & (ordered.status == 0)
    status |= np.where(off, np.int32(Status.OFF_QUOTES), np.int32(0))

    # 3. Return parameters and `FACTS` in the original order of the expiries.
    out: list[NDArray[Any]] = [*parameters, rmse, ordered.n, nfev]
    # The range of log-moneyness, NaN without quotes.
    for outside, extreme in ((np.inf, np.min), (-np.inf, np.max)):
        end = extreme(np.where(np.isnan(ordered.k), outside, ordered.k), axis=-1, initial=outside)
        out.append(np.where(np.isinf(end), np.nan, end))
    out.append(status)
    back = [np.empty_like(values) for values in out]
    for values, in_order in zip(back, out, strict=True):
        np.put_along_axis(values, ordered.order, in_order, 1)
    return back


def _refined(ordered: QuoteGrid, raw: Raw) -> Bumped:
    """Return slices with the bumps for their bids and asks."""
    bumped = Bumped(*raw, np.ones_like(raw.a), *(np.zeros_like(raw.a) for _ in BUMP_NAMES[1:]))
    for row, count in enumerate(ordered.usable):
        usable = slice(0, int(count))
        raw_slices = at_index(raw, (row, usable))
        expiry, strike = np.nonzero(ordered.weight[row, usable] > 0.0)
        t = ordered.t[row, usable]
        k, iv, weight, bid, ask = (values[row, expiry, strike] for values in ordered[:5])
        quotes = Quotes(expiry, k, iv, bid, ask, weight, t[expiry])
        if not np.isfinite(quotes.ask).any() or not np.isfinite(raw_slices.a).all():
            continue
        for values, value in zip(bumped, bumps_of(raw_slices, quotes, t), strict=True):
            values[row, usable] = value
    return bumped


def _essvi(ordered: QuoteGrid) -> tuple[tuple[Floats, ...], NDArray[np.int32], NDArray[np.int32]]:
    """Return natural parameters of eSSVI slices in the grid's order, evaluations and status."""
    slices = np.full((*ordered.t.shape, 3), np.nan)
    nfev = np.zeros(ordered.t.shape, np.int32)
    status = ordered.status.copy()
    for rows, count, quotes in batches(ordered):
        fitted, ended = essvi.fit_essvi(quotes, essvi.linear_start(quotes))
        places = rows[:, None], np.arange(count)
        slices[places] = fitted
        nfev[places] = ended.nfev[:, None]
        reason = np.where(_all_flat(fitted, quotes), np.int32(Status.FLAT), np.int32(Status.NOT_CONVERGED))
        status[places] |= np.where(ended.converged, 0, reason)[:, None]
    return essvi.natural(slices), nfev, status


def _all_flat(slices: Floats, quotes: SurfaceQuotes) -> Bools:
    """Return a mask of surfaces whose slices are flat within their residuals.

    For these the search ends in a flat valley, along which ρ and ψ change but the volatilities hardly do.
    """
    raw = ssvi_to_raw(*essvi.natural(slices))
    w = total_variance(quotes.k, at_index(raw, np.s_[..., None]))
    theta = slices[..., :1]
    squares = quotes.scale**2
    # Number of quotes, in units of the full weight.
    counted = squares.sum(axis=-1) / np.maximum(squares.max(axis=-1), 1e-300)
    rms = np.sqrt((squares * (w - quotes.w) ** 2).sum(axis=-1) / np.maximum(counted, 1.0))
    bend = (quotes.scale * np.abs(w - theta)).max(axis=-1)
    return np.asarray((bend <= _FLAT * rms).all(axis=-1))


def _joint(
    ordered: QuoteGrid, natural: tuple[Floats, ...], nfev: NDArray[np.int32], status: NDArray[np.int32]
) -> tuple[tuple[Floats, ...], NDArray[np.int32], NDArray[np.int32]]:
    """Return raw parameters of the joint SVI fit, started from eSSVI; eSSVI itself if no surface is free."""
    # 1. Start from eSSVI.
    start = ssvi_to_raw(*natural)
    count = int(np.max(ordered.usable, initial=0))
    if not count:
        return start, nfev, status
    live = np.arange(count) < ordered.usable[:, None]
    quotes = quotes_of(ordered, np.arange(len(live)), count)
    at = ordered.t[:, :count]
    begin = at_index(start, np.s_[:, :count])
    joint = fit_joint(quotes._replace(low=None, high=None), at, live, begin)
    if quotes.low is not None:
        # Start from the fit to mid quotes, because the loss is flat between bid and ask.
        spent = joint.nfev
        place = joint.free[:, None] & live
        middle = Raw(*(np.where(place, new, old) for new, old in zip(joint.raw, begin, strict=True)))
        joint = fit_joint(quotes, at, live, middle)
        joint = joint._replace(nfev=joint.nfev + spent)

    # 2. Replace eSSVI and its flags by the result if it is free of arbitrage.
    free = joint.free[:, None] & live
    for parameter, value in zip(start, joint.raw, strict=True):
        parameter[:, :count] = np.where(free, value, parameter[:, :count])
    nfev[:, :count] += np.where(live, joint.nfev[:, None], 0).astype(np.int32)
    settled = status[:, :count] & ~np.int32(Status.NOT_CONVERGED | Status.FLAT)
    lost = status[:, :count] | np.int32(Status.FALLBACK_USED)
    status[:, :count] = np.where(free, settled, np.where(live, lost, status[:, :count]))
    return start, nfev, status
