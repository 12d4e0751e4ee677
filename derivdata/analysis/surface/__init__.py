"""Fit one arbitrage-free volatility surface to the smiles of many expiries, or to whole option chains.

`fit` returns a Dataset over the dims of its quotes without the strikes. Every other function accepts such a
Dataset, or any fit of `derivdata.analysis.smile` with dim ``expiry``. Total variance is ``w = iv² T``,
log-moneyness ``k = ln(K/F)``, a time to expiry is in years of 365 days.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.black76.kernels import DeltaKind
from derivdata.analysis.chain.cleaning import flags, prepare_cleaned, smiles_of, usable
from derivdata.analysis.chain.forward import (
    by_listed_expiry,
    main_contracts,
    of_expiries,
    slice_forwards,
    spot_prices,
)
from derivdata.analysis.chain.prepared import PreparedChain, is_cleaned, prepare
from derivdata.analysis.labelling import KEYS, applied, plain, where
from derivdata.analysis.smile.essvi import from_essvi
from derivdata.analysis.smile.quotes import quote_weights
from derivdata.analysis.smile.svi import filled_bumps
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface.evaluate import at, iv, local_volatility
from derivdata.analysis.surface.fitting import (
    Loss,
    SurfaceMethod,
    at_the_money_of,
    fit,
    fitted,
    largest_errors,
)
from derivdata.analysis.surface.maturity import Clock
from derivdata.analysis.surface.points import (
    at_tenors,
    calendar_check,
    constant_maturity,
    forward_variance,
    term_structure,
)
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

__all__ = [
    "at",
    "calendar_check",
    "constant_maturity",
    "fit",
    "forward_variance",
    "from_chain",
    "from_essvi",
    "history",
    "iv",
    "local_volatility",
    "term_structure",
]
__dir__ = __all__.copy


_LEADING_DIMS = ("symbol", "exchange", "time")
_WIDE = 0.1  # half spread in volatility at which a quote gets half the weight
# Maximum number of times in one pass. The grid of a pass contains all strikes, and those of different days
# differ.
_INSTANTS = 32
_MAX_INSTANTS = 128
_CELLS = 400_000
_COLUMNS = (
    *KEYS, "instrument_name", "expiry", "strike", "side", "iv", "delta", "open_interest", "underlying_price",
    "index_price_usd", "interest_rate", "year_fraction", "status",
)  # fmt: skip


@typed
def from_chain(
    chain: pd.DataFrame | xr.Dataset,
    *,
    method: SurfaceMethod = "svi",
    weights: Any = None,
    loss: Loss = "quote",
    at: Any = None,
    given: Any = None,
    spot: Numbers | None = None,
    interest_rate: float | None = None,
) -> xr.Dataset:
    """Fit a surface to the out-of-the-money options of one or several chains.

    Parameters
    ----------
    chain
        The table ``options_snapshot``, a surface of `derivdata.options`, or the result of
        `derivdata.analysis.chain.clean`, which is used unchanged; several symbols, venues and times become
        dims.
    method
        As in `fit`.
    weights
        As in `fit`, or ``"spread"``: one over the squared bid-ask spread in volatility, which needs a chain
        with bid and ask prices. None uses vega, divided by ``1 + (half spread / 10 volatility points)²`` if
        the chain has bid and ask prices. This reduces the weight of far strikes of short expiries, which
        often have only a mark from the venue's model.
    loss
        ``"quote"``: the distance to the quoted volatility; if the chain has bid and ask prices, a volatility
        outside them counts as the nearer of the two, and bumps on the SVI slices then move the surface
        between them, as far as it stays free of arbitrage (`fit` with ``loss="quote"``). ``"bid_ask"``: the
        distance outside bid and ask in half spreads, as with ``iv_bid`` and ``iv_ask`` of `fit`, which needs
        a chain with bid and ask prices, and no marks. An option without a bid is only bounded by its ask.
    at, given, spot
        Timestamp of the quotes, known forwards and spot, as in `derivdata.analysis.chain`.
    interest_rate
        Continuous rate [1/year] at which premiums are discounted; None uses the chain's column
        ``interest_rate`` (Binance publishes one), or 0 without one.

    Returns
    -------
    Dataset
        The result of `fit` with every expiry of the chain. It has the coordinates ``forward`` [USD], also for
        live expiries without a fit, and ``spot`` [USD] if `spot` or the column ``index_price_usd`` gives one.

        For an expiry without a fit the parameters are NaN and ``status`` has the reason: ``EXPIRED``,
        ``NEAR_EXPIRY``, ``TOO_FEW_STRIKES``, ``CROSSED`` (all bids are above their asks) or ``BAD_INPUT`` (no
        option or no forward could be used). ``status`` also includes the status of forwards and options.

        ``largest_error_vol`` [per √year] is the largest error of a quote. If the chain has bid and ask
        prices, also:

        - ``two_sided``, the number of quotes with bid and ask;
        - ``inside_share`` [1], the share of these for which the surface is between bid and ask, NaN without
          such quotes;
        - ``breach_vol`` [per √year], the maximum distance of the surface below a bid or above an ask, also of
          quotes with only one of them, 0 without a breach;
        - ``atm_half_spread_vol`` [per √year], half the spread at the money; ``OFF_AT_THE_MONEY`` in
          ``status`` if the surface or the quoted volatility is outside bid and ask there;
        - ``largest_error_spreads`` [1], the largest error of a quote relative to its spread.

    Raises
    ------
    ValueError
        As `derivdata.analysis.chain` and `fit`; ``"spread"`` or ``"bid_ask"`` without prices; `at` for a
        cleaned chain, which has a time.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> surface.sizes["expiry"], bool(dd.analysis.surface.calendar_check(surface)["ok"].all())
    (11, True)
    """
    return _surface(
        chain, method=method, weights=weights, loss=loss, at=at, given=given, spot=spot,
        interest_rate=interest_rate, moved=True,
    )  # fmt: skip


def _surface(
    chain: pd.DataFrame | xr.Dataset,
    *,
    method: SurfaceMethod,
    weights: Any,
    interest_rate: float | None,
    moved: bool,
    loss: Loss = "quote",
    at: Any = None,
    given: Any = None,
    spot: Any = None,
) -> xr.Dataset:
    """Return the result of `from_chain`; bumps, errors and covariance are included only if `moved`."""
    if isinstance(chain, pd.DataFrame) and is_cleaned(chain):
        if at is not None:
            raise ValueError(
                "at= applies only to a chain that was not cleaned: pass it to clean(chain, at=...) instead"
            )
        listed = options = prepare_cleaned(chain, interest_rate)
        attrs = chain.attrs
    else:
        listed = _narrowed(prepare(chain, at=at, interest_rate=interest_rate))
        options = usable(listed, chain)
        attrs = options.rows.attrs
        options.rows.attrs = {}
        listed = listed._replace(rows=listed.rows.assign(status=listed.rows["status"] | flags(listed)))
    if given is not None:
        given = by_listed_expiry(given, listed.rows, "given")
    # 1. Fit a few times in one pass, because their strikes share a grid.
    surfaces = []
    for chains in _passes(options):
        quotes = smiles_of(chains, attrs, given=of_expiries(given, chains.rows), spot=spot)
        surfaces.append(_fitted(quotes, method=method, weights=weights, loss=loss, moved=moved))

    # 2. Join the passes, then add expiries and forwards without a fit.
    if len(surfaces) == 1:
        surface = surfaces[0]
    else:
        aligned = [_with_dims(fit, surfaces) for fit in surfaces]
        surface = xr.concat(aligned, "time", data_vars="all", join="outer", combine_attrs="override")
        surface = _filled(surface.sortby("time"))
    return _with_forwards(_with_lost_expiries(surface, listed), listed, given, spot)


def _narrowed(chain: PreparedChain) -> PreparedChain:
    """Return a chain with only the columns that a surface needs, and with cheap names."""
    rows = chain.rows[[name for name in _COLUMNS if name in chain.rows]]
    if "instrument_name" in rows:
        rows = rows.assign(instrument_name=rows["instrument_name"].astype("category"))
    return chain._replace(rows=rows)


def _passes(options: PreparedChain) -> list[PreparedChain]:
    """Yield the chains of a few times together, of more times if they list the same options."""
    rows = options.rows
    if "time" not in rows:
        return [options]
    cells = rows["expiry"].nunique() * rows["strike"].nunique()
    size = int(np.clip(_CELLS // max(cells, 1), _INSTANTS, _MAX_INSTANTS))
    times = rows["time"].to_numpy("datetime64[us]")
    timestamps = np.unique(times[~np.isnat(times)])
    if len(timestamps) <= size + 1:
        return [options]
    # A pass with a single time would lack the dim time, so the last pass takes one more.
    cuts = timestamps[size : len(timestamps) - 1 : size]
    number = np.searchsorted(cuts, times, side="right")
    return [options.select(number == i) for i in range(len(cuts) + 1)]


def _require_dims_of_chain(weights: xr.DataArray, quotes: xr.Dataset) -> None:
    """Raise for weights with a dim that chains do not have."""
    foreign = [str(dim) for dim in weights.dims if dim not in {*quotes.dims, *_LEADING_DIMS}]
    if foreign:
        raise ValueError(
            f"weights must have dims of the chain ({', '.join(map(str, quotes.dims))}), got the dim "
            f"{foreign[0]!r}"
        )


def _fitted(
    quotes: xr.Dataset, *, method: SurfaceMethod, weights: Any, loss: Loss, moved: bool
) -> xr.Dataset:
    """Fit a surface to prepared quotes, and add flags of its chain; see `from_chain`."""
    # 1. Remove labels, which xarray would compare at every step.
    labels: dict[Any, xr.DataArray] = {}
    if isinstance(weights, xr.DataArray):
        _require_dims_of_chain(weights, quotes)
    else:
        labels = {name: quotes[name] for name in quotes.indexes}
    quotes = quotes.drop_vars(list(labels))
    k = quotes["log_moneyness"]
    iv = quotes["iv"]
    t = quotes["year_fraction"]
    iv_bid = quotes.get("iv_bid")
    iv_ask = quotes.get("iv_ask")

    # 2. Compute weights, from the spread if the chain has bid and ask.
    spread = None if iv_bid is None or iv_ask is None else iv_ask - iv_bid
    quoted = spread is not None and bool(spread.notnull().any())
    if isinstance(weights, str) and weights == "spread":
        if spread is None or not quoted:
            raise ValueError("weights='spread' needs a chain with bid and ask prices")
        weights = 1.0 / spread.where(spread > 0.0) ** 2
    if loss == "bid_ask" and not quoted:
        raise ValueError("loss='bid_ask' needs a chain with bid and ask prices")
    if weights is None and loss == "quote" and spread is not None:
        half_spread = spread.fillna(quotes["iv_ask"]) / 2.0  # half of the ask if there is no bid
        relative = (half_spread / _WIDE).clip(0.0).fillna(0.0)
        weights = quote_weights("vega", k, iv, t) / (1.0 + relative**2)

    # 3. Fit the surface; bid and ask are used for the bumps or for the loss.
    has_sides = quoted and (moved or loss == "bid_ask")
    surface = fitted(
        k, iv, t, method=method, weights=weights, loss=loss, forward=quotes["forward"], covariance=moved,
        iv_bid=iv_bid if has_sides else None, iv_ask=iv_ask if has_sides else None,
    )  # fmt: skip

    # 4. Add flags of forwards and options, and flag fits outside their quotes at the money.
    fit_status = surface["status"]
    option_status = quotes["status"].reduce(np.bitwise_or.reduce, "strike")
    status = fit_status | quotes["forward_status"] | option_status
    if moved:
        surface = surface.assign(largest_errors(surface, quotes, spread if quoted else None))
    if spread is not None and quoted:
        level = smile.iv(surface, 0.0, extrapolate=True)
        low = at_the_money_of(k, quotes["iv_bid"], "strike")
        high = at_the_money_of(k, quotes["iv_ask"], "strike")
        marked = at_the_money_of(k, iv, "strike")
        far = (level < low) | (level > high) | (marked < low) | (marked > high)
        status = status | where(far, np.int32(Status.OFF_AT_THE_MONEY), np.int32(0))
    surface["status"] = status.astype(np.int32).assign_attrs(fit_status.attrs)
    surface = surface.assign_coords({name: label for name, label in labels.items() if name in surface.dims})
    return surface.assign_attrs({name: value for name, value in quotes.attrs.items() if name == "provenance"})


def _with_dims(surface: xr.Dataset, surfaces: list[xr.Dataset]) -> xr.Dataset:
    """Expand scalar labels of a surface to all dims that at least one of several surfaces has."""
    for dim, scalar in {"symbol": "symbol", "exchange": "exchange", "time": "as_of"}.items():
        if dim not in surface.dims and any(dim in other.dims for other in surfaces):
            label = surface[scalar].to_numpy()[()]
            surface = surface.drop_vars(scalar).expand_dims({dim: [label]})
    return surface


def _filled(surface: xr.Dataset) -> xr.Dataset:
    """Mark the cells that an outer join added as missing fits, with the status ``BAD_INPUT``."""
    empty = surface["method"].isnull()
    types = {"status": np.int32, "method": np.int8, "n": np.int32, "nfev": np.int32}
    if "two_sided" in surface:
        types["two_sided"] = np.int32
    for name, kind in types.items():
        value = int(Status.BAD_INPUT) if name == "status" else 0
        filled = surface[name].where(~empty & surface[name].notnull(), value)
        surface[name] = filled.astype(kind).assign_attrs(surface[name].attrs)
    return filled_bumps(surface)


def _with_lost_expiries(surface: xr.Dataset, listed: PreparedChain) -> xr.Dataset:
    """Return the surface with every expiry that the chain lists, with a reason for those without a fit."""
    dims = [str(dim) for dim in surface["method"].dims if dim != "expiry"]
    labels = listed.labels[[*dims, "expiry"]]
    complete = labels.notna().all(axis=1).to_numpy()
    if not complete.any():
        return surface

    # 1. Find the time to expiry of each label, and whether all its options are too near or have crossed
    # quotes.
    flagged = listed.rows["status"].to_numpy()
    count = len(labels)
    years_left = np.full(count, np.inf)
    np.fmin.at(years_left, listed.place, listed.rows["year_fraction"].to_numpy())
    is_near = np.bincount(listed.place, (flagged & np.int32(Status.NEAR_EXPIRY)) == 0, minlength=count) == 0
    is_crossed = np.bincount(listed.place, (flagged & np.int32(Status.CROSSED)) == 0, minlength=count) == 0

    # 2. Join the expiries of the chain and of the fit.
    columns = {name: plain(labels.loc[complete, name]) for name in labels}
    expiries = np.union1d(columns["expiry"], surface["expiry"])
    is_fitted = surface["expiry"].variable == surface["expiry"].variable
    if len(expiries) > surface.sizes["expiry"]:
        is_fitted = xr.Variable("expiry", np.isin(expiries, surface["expiry"]))
        surface = _filled(surface.reindex(expiry=expiries))

    # 3. Put these values on the grid of the surface, over all contracts.
    place = [surface.indexes[name].get_indexer(columns[name]) for name in columns]
    in_surface = np.all([position >= 0 for position in place], axis=0)
    cell = tuple(position[in_surface] for position in place)
    order = [*dims, "expiry"]
    shape = [surface.sizes[name] for name in order]
    t = np.full(shape, np.inf)
    near = np.ones(shape, dtype=bool)
    crossed = np.ones(shape, dtype=bool)
    np.minimum.at(t, cell, years_left[complete][in_surface])
    np.logical_and.at(near, cell, is_near[complete][in_surface])
    np.logical_and.at(crossed, cell, is_crossed[complete][in_surface])

    # 4. Set the reason. Fitted cells keep their status, unless it only states a missing quote.
    is_listed = t < np.inf
    reason = np.select(
        [t <= 0.0, near, crossed], [Status.EXPIRED, Status.NEAR_EXPIRY, Status.CROSSED], Status.BAD_INPUT
    )
    status: Any = surface["status"].variable  # without labels, whose alignment takes time
    is_empty = (surface["method"].variable == 0) & (~is_fitted | (status == np.int32(Status.BAD_INPUT)))
    is_lost = is_empty & xr.Variable(order, is_listed)
    filled = status.where(~is_lost, xr.Variable(order, reason)).transpose(*status.dims).astype(np.int32)
    surface["status"] = (filled.dims, filled.data, surface["status"].attrs)

    # 5. Add the time to expiry of the new cells.
    years = surface["year_fraction"]
    listed_years: Any = xr.Variable(order, np.where(is_listed, t, np.nan))
    if years.ndim == 1:
        listed_years = listed_years.max(dims)
    without_labels: Any = years.variable
    filled = without_labels.fillna(listed_years).transpose(*years.dims)
    return surface.assign_coords(year_fraction=(filled.dims, filled.data, years.attrs))


def _with_forwards(surface: xr.Dataset, listed: PreparedChain, given: Any, spot: Any) -> xr.Dataset:
    """Return the surface with the forwards of its live expiries without a fit, and the spot price.

    Both determine the forward at a time between or beyond the fitted expiries.
    """
    dims = [str(dim) for dim in surface["method"].dims if dim != "expiry"]
    if "forward" not in surface.coords:
        return surface
    rows = listed.rows
    forward = surface["forward"]
    live = listed.select(((rows["year_fraction"] > 0.0) & rows["expiry"].notna()).to_numpy())
    if bool((forward.isnull() & (surface["year_fraction"] > 0.0)).any()) and len(live.rows):
        table = main_contracts(slice_forwards(live, given=of_expiries(given, live.rows), spot=spot))
        quoted = _by_labels(table, [*dims, "expiry"], "forward")
        filled = forward.fillna(quoted.reindex_like(forward)).transpose(*forward.dims)
        surface = surface.assign_coords(forward=filled.assign_attrs(forward.attrs))
    index = spot_prices(live, spot)
    if index is None:
        return surface
    level = _by_labels(index, dims, "spot") if dims else index["spot"].median()
    if isinstance(level, xr.DataArray):
        level = level.reindex({dim: surface[dim] for dim in dims})
    return surface.assign_coords(spot=xr.DataArray(level).assign_attrs(units="USD"))


def _by_labels(table: pd.DataFrame, names: list[str], column: str) -> xr.DataArray:
    """Arrange a column of a table over some of its columns."""
    labels = {name: plain(table[name]) for name in names}
    frame = pd.DataFrame(labels | {column: table[column].to_numpy()})
    array: xr.DataArray = frame.groupby(names)[column].median().to_xarray()
    return array


@typed
def history(
    chains: pd.DataFrame | xr.Dataset,
    *,
    tenors: Sequence[str | pd.Timedelta] = ("7d", "30d", "90d"),
    points: Sequence[str] = ("atm", "rr25", "bf25"),
    horizon: str | pd.Timedelta = "30d",
    delta: DeltaKind = "forward",
    method: SurfaceMethod = "svi",
    weights: Any = None,
    interest_rate: float | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute a volatility index and points at constant maturity at every time of a history.

    Parameters
    ----------
    chains
        The result of ``dd.options.surface_history``, or a table ``options_snapshot`` of many times.
    tenors, points, delta, clock
        As in `constant_maturity`.
    horizon
        Time to expiry of the index.
    method, weights, interest_rate
        As in `from_chain`; ``method="essvi", weights="price"`` is about twenty times faster. Slices are
        fitted without bumps, which would take 0.1 seconds of processor time per chain and move points by a
        median of about 0.05 volatility points.

    Returns
    -------
    Dataset over the dims of the chains without expiry, strike and side
        The result of `constant_maturity`, over ``tenor`` [days]: ``atm``, ``rr25`` … [1/√year]; ``forward``
        [USD] and ``skew``, the slope of the volatility in log-moneyness at the money. For a history also,
        over ``tenor``: ``spot_beta``, the move of volatility at the money per 1.00 of the forward's
        logarithm, and ``skew_stickiness``, the same as a multiple of ``skew``: 0 if the smile moves with
        spot, 1 if volatilities stay at their strikes; with ``spot_beta_error`` and ``skew_stickiness_error``,
        standard errors that allow for unequal variances. ``strip_index`` [1/√year] as
        `derivdata.analysis.variance.volatility_index` computes it from the strips of quotes,
        ``strip_index_upper``, its maximum with unquoted strikes, and ``strip_index_status``.

    Raises
    ------
    ValueError
        As `from_chain`, `constant_maturity` and `derivdata.analysis.variance.volatility_index`.

    Examples
    --------
    >>> chains = dd.options.surface_history("BTC", "deribit", "6h")
    >>> seen = dd.analysis.surface.history(chains, tenors=["30d"], method="essvi", weights="price")
    >>> seen["atm"].dims, sorted(map(str, seen.data_vars))[-3:]
    (('time', 'tenor'), ['strip_index', 'strip_index_status', 'strip_index_upper'])
    """
    # imported here, because `variance` imports this module
    from derivdata.analysis import variance

    surface = _surface(chains, method=method, weights=weights, interest_rate=interest_rate, moved=False)
    conventions: dict[str, Any] = {"delta": delta, "atm": "forward", "interest_rate": 0.0}
    # Remove labels that the clock does not need, as in `_fitted`.
    labels = {name: surface[name] for name in surface.indexes if clock is None}
    fixed = at_tenors(surface.drop_vars(list(labels)), tenors, points, conventions, clock=clock, more=True)
    fixed = fixed.assign_coords({name: label for name, label in labels.items() if name in fixed.dims})
    level = fixed["level"]
    fixed = fixed.drop_vars("level")
    for name, unit in (("forward", "USD"), ("skew", "1/√year")):
        fixed[name].attrs = {"units": unit}
    if "time" in fixed.dims:
        fixed = fixed.assign(_dynamics(level, fixed["skew"], fixed["forward"]))
    strips = variance.model_free(surface, method="strip")
    index = variance.volatility_index(strips, horizon=horizon, clock=clock)
    fixed["strip_index"] = index["index"]
    fixed["strip_index_upper"] = index["upper"]
    fixed["strip_index_status"] = index["status"].astype(np.int32).assign_attrs(flag_attrs())
    return fixed.assign_attrs(fixed.attrs | surface.attrs | {"index_days": index.attrs["days"]})


def _dynamics(level: xr.DataArray, skew: xr.DataArray, forward: xr.DataArray) -> dict[str, xr.DataArray]:
    """Regress moves of volatility on moves of the forward, and on these moves times the earlier skew."""
    series = [values.chunk(time=-1) if values.chunks else values for values in (level, skew, forward)]
    slopes = applied(_regressed, *series, core=[["time"]] * 3, out=[[]] * 4, types=[np.float64] * 4)
    units = {
        "spot_beta": "1/√year",
        "spot_beta_error": "1/√year",
        "skew_stickiness": "1",
        "skew_stickiness_error": "1",
    }
    for slope, unit in zip(slopes, units.values(), strict=True):
        slope.attrs["units"] = unit
    return {name: slope.reset_coords(drop=True) for name, slope in zip(units, slopes, strict=True)}


def _regressed(level: Floats, skew: Floats, forward: Floats) -> tuple[Floats, ...]:
    """Return both slopes and their errors, which allow for unequal variances; time is the last axis."""
    moved = np.diff(level)
    with np.errstate(all="ignore"):
        fell = np.diff(np.log(forward))
        before = skew[..., :-1]
        return (*_slope(fell, moved), *_slope(before * fell, moved))


def _slope(cause: Floats, moved: Floats) -> tuple[Floats, Floats]:
    """Return the slope of moves on a regressor along the last axis, and its error.

    NaN with up to two moves.
    """
    both = ~(np.isnan(cause) | np.isnan(moved))
    count = both.sum(axis=-1)

    def centred(values: Floats) -> Floats:
        mean = np.where(both, values, 0.0).sum(axis=-1) / count
        return np.where(both, values - mean[..., None], 0.0)

    x = centred(cause)
    y = centred(moved)
    square = (x**2).sum(axis=-1)
    slope = (x * y).sum(axis=-1) / square
    spread = (x**2 * (y - slope[..., None] * x) ** 2).sum(axis=-1) * count / (count - 2)
    enough = (count > 2) & (square > 0.0)
    return np.where(enough, slope, np.nan), np.where(enough, np.sqrt(spread) / square, np.nan)
