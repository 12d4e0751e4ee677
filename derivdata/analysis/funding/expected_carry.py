"""Expected carry of a pair after costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.funding import ar1
from derivdata.analysis.funding.accrual import prepare
from derivdata.analysis.funding.costs import breakeven_hours, legs_cost, reverting_carry, slippage_bps
from derivdata.analysis.funding.periods import period_sums
from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.inputs import require_draws, require_labels
from derivdata.analysis.panels import like, positive, require, require_rate, require_venues, whole
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS_UNIT, HOUR_UNIT, RATE_UNIT, apr_from_bps, bps_8h_from_bps

__all__ = ["net_carry"]

_LEAST = 30
_APR = "1/year"
_TRADES = (("long", "ask"), ("long", "bid"), ("short", "bid"), ("short", "ask"))  # bought, sold, sold, bought

_LONG_NAMES = {
    "net_bps": "expectation after costs",
    "net_low_bps": "low end of the interval of the expectation after costs",
    "net_high_bps": "high end of the interval of the expectation after costs",
    "gross_bps": "expectation before costs",
}


class _Plan(NamedTuple):
    period: float
    hold: float
    level: float
    resamples: int
    seed: int


@typed
def net_carry(
    panel: xr.DataArray,
    long: str,
    short: str,
    horizon_hours: float,
    *,
    cost_bps: Mapping[str, Any],
    interval_hours: Numbers | None = None,
    period_hours: float = 8.0,
    depth_usd: xr.DataArray | None = None,
    size_usd: float | None = None,
    leverage: tuple[float, float] = (1.0, 1.0),
    level: float = 0.9,
    resamples: int = 999,
    seed: int = 0,
) -> xr.Dataset:
    """Compute the expectation of what a pair earns over a horizon from the panel's end on, after all costs.

    Parameters
    ----------
    panel
        History of funding rates [bps/8h] whose ``kind`` is stated, dims ``exchange`` and ``time``, in
        memory or lazy (time is put into one chunk).
    long, short
        Venues of the two legs, of equal notional.
    horizon_hours
        How long the pair is held.
    cost_bps
        Cost of each trade [bps of one leg's notional]: ``long_entry``, ``long_exit``, ``short_entry``,
        ``short_exit``.
    interval_hours
        Settlements only, and needed there: hours that each pays for.
    period_hours
        Length of the periods over which history is summed; at least every venue's interval.
    depth_usd, size_usd
        Order-book depth [USD] with dims ``exchange``, ``side`` (bid, ask) and ``depth_bps`` (see
        `slippage_bps`), and notional of one leg [USD]: adds the slippage of the four trades. Both or
        neither.
    leverage
        Of the long and the short leg; capital is ``1/L + 1/L`` of one leg's notional.
    level, resamples, seed
        Nominal coverage of the interval of the net figure, and its block bootstrap.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``
        ``net_bps`` with ``net_low_bps`` and ``net_high_bps``, ``net_apr`` and ``net_apr_on_capital``
        (decimal, simple), ``breakeven_hours`` (inf with status ``unreachable``); what they are made of:
        ``gross_bps``, ``gross_apr``, ``cost_bps``, ``slippage_bps``, ``spread_bps_8h`` (last period),
        ``mean_bps_8h``, ``half_life_hours``, ``periods``, ``status``; coordinates
        ``long``, ``short``, ``horizon_hours``. NaN below 30 pairs of neighbouring
        periods, where the last period is unknown (``gap``) or the book is too thin (``too_thin``). Status
        ``anti_persistent``: the slope is below 0, so that the last spread says nothing of the next and the
        mean is expected; ``unit_root``: it is 1 or more, and the last spread is expected to stay.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; a venue is not in the panel; costs are not the four legs; depth and size do not
        come together.

    Notes
    -----
    The spread of whole periods follows an autoregression with the bias-corrected slope and reverts to its
    sample mean. The interval is that of the expectation when slope and mean are estimated again from series
    made of the autoregression and blocks of its residuals (n^(1/3) periods, circular); its coverage is in
    docs/funding.md. It says how well the expectation is known, not how far one outcome may lie from it:
    outcomes have `forecast_carry`.
    """
    require_rate(panel, "exchange", "time")
    require_venues(panel, long=long, short=short)
    plan = _Plan(
        positive(period_hours, "period_hours"),
        positive(horizon_hours, "horizon_hours"),
        level,
        resamples,
        seed,
    )
    if not 0.0 < level < 1.0:
        raise ValueError(f"{level=} is a probability: 0.9")
    require_draws(resamples, seed)
    cost, slipped = legs_cost(cost_bps), _slipped(depth_usd, size_usd, long, short)
    history = _history(panel, long, short, interval_hours, plan.period)
    figures = xr.apply_ufunc(
        _expected,
        history,
        input_core_dims=[["time"]],
        output_core_dims=[[]] * 8,
        kwargs={"plan": plan},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * 7 + [np.int32],
    )
    names = ("gross", "low", "high", "start", "mean", "half_life", "slope", "periods")
    expected = xr.Dataset({name: like(part, history) for name, part in zip(names, figures, strict=True)})
    result = _netted(expected, history, cost, slipped, plan, leverage)
    labelled = result.assign_coords(long=long, short=short, horizon_hours=plan.hold)
    return labelled.assign_attrs(level=level)


def _history(panel: xr.DataArray, long: str, short: str, interval: Any, period: float) -> xr.DataArray:
    require_venues(panel, long=long, short=short)
    prepared = prepare(panel, interval_hours=interval)
    prepared = prepared._replace(arrays=tuple(part.sel(exchange=[long, short]) for part in prepared.arrays))
    sums = period_sums(prepared, period)["amount"]
    earned = sums.isel(exchange=1, drop=True) - sums.isel(exchange=0, drop=True)
    return whole(bps_8h_from_bps(earned, period), "time")


def _slipped(depth: xr.DataArray | None, size: float | None, long: str, short: str) -> Any:
    if (depth is None) != (size is None):
        raise ValueError("depth_usd and size_usd go together: give both or neither")
    if depth is None:
        return xr.DataArray(0.0)
    require(depth, "exchange", "side", "depth_bps", name="depth_usd")
    for dim, labels in (("exchange", (long, short)), ("side", ("bid", "ask"))):
        require_labels(depth, "depth_usd", dim, labels)
    each = slippage_bps(depth, positive(size, "size_usd"))
    venue = {"long": long, "short": short}
    return sum(each.sel(exchange=venue[leg], side=side, drop=True) for leg, side in _TRADES)


def _netted(
    expected: xr.Dataset, history: xr.DataArray, cost: Any, slipped: Any, plan: _Plan, leverage: Any
) -> xr.Dataset:
    paid, gross = xr.DataArray(cost) + slipped, expected["gross"]
    capital = sum(1.0 / positive(part, "leverage") for part in leverage)
    last, mean, half_life = history.isel(time=-1, drop=True), expected["mean"], expected["half_life"]
    breakeven = breakeven_hours(expected["start"], paid, mean_bps_8h=mean, half_life_hours=half_life)
    net_apr = apr_from_bps(gross - paid, plan.hold)
    figures: dict[str, tuple[str, Any]] = {
        "net_bps": (BPS_UNIT, gross - paid),
        "net_low_bps": (BPS_UNIT, expected["low"] - paid),
        "net_high_bps": (BPS_UNIT, expected["high"] - paid),
        "net_apr": (_APR, net_apr),
        "net_apr_on_capital": (_APR, net_apr / capital),
        "breakeven_hours": (HOUR_UNIT, breakeven),
        "gross_bps": (BPS_UNIT, gross),
        "gross_apr": (_APR, apr_from_bps(gross, plan.hold)),
        "cost_bps": (BPS_UNIT, xr.DataArray(cost)),
        "slippage_bps": (BPS_UNIT, slipped),
        "spread_bps_8h": (RATE_UNIT, last),
        "mean_bps_8h": (RATE_UNIT, mean),
        "half_life_hours": (HOUR_UNIT, half_life),
        "periods": ("1", expected["periods"]),
    }
    status = _status(expected, last, slipped, breakeven).assign_attrs(flag_attrs(FundingStatus))
    named = {name: figure.drop_attrs(deep=False) for name, (_, figure) in figures.items()}
    for name, (unit, _) in figures.items():
        named[name].attrs["units"] = unit
    for name, words in _LONG_NAMES.items():
        named[name].attrs["long_name"] = words
    return xr.Dataset({**named, "status": status})


def _status(expected: xr.Dataset, last: xr.DataArray, slipped: Any, breakeven: Any) -> xr.DataArray:
    reasons = {
        FundingStatus.TOO_FEW: expected["periods"] < _LEAST,
        FundingStatus.GAP: last.isnull(),
        FundingStatus.ANTI_PERSISTENT: expected["slope"] < 0.0,
        FundingStatus.UNIT_ROOT: expected["slope"] >= 1.0,
        FundingStatus.UNREACHABLE: np.isinf(breakeven),
        FundingStatus.TOO_THIN: slipped.isnull(),
    }
    bits = (where.astype(np.int32) * np.int32(reason) for reason, where in reasons.items())
    return xr.DataArray(sum(bits)).drop_attrs().astype(np.int32)


def _expected(history: Floats, *, plan: _Plan) -> tuple[Any, ...]:
    results = np.empty((8, *history.shape[:-1]))
    for series in np.ndindex(history.shape[:-1]):
        results[(slice(None), *series)] = _one(history[series], plan)
    return *results[:-1], results[-1].astype(np.int32)


def _one(series: Floats, plan: _Plan) -> list[float]:
    both = np.isfinite(series[:-1]) & np.isfinite(series[1:])
    pairs = np.stack([series[:-1][both], series[1:][both]])
    if pairs.shape[1] < _LEAST or not np.isfinite(series[-1]):
        return [np.nan] * 7 + [pairs.shape[1]]
    raw = _slopes(pairs[:, None, :])
    slope, mean = np.clip(raw, 0.0, 1.0), np.array([np.nanmean(series)])
    gross, start, half_life = _carry(series[-1], slope, mean, plan)
    resampled = _resampled(pairs, float(slope[0]), float(mean[0]), plan)
    carried, _, _ = _carry(series[-1], *resampled, plan)
    tail = 50.0 * (1.0 - plan.level)
    low, high = np.percentile(carried, [tail, 100.0 - tail])
    return [gross[0], low, high, start[0], mean[0], half_life[0], raw[0], pairs.shape[1]]


def _slopes(pairs: Floats) -> Floats:
    """Return the bias-corrected slopes of pairs (2, samples, n); 0 where nothing moves."""
    x, y = pairs - pairs.mean(axis=-1, keepdims=True)
    spread = (x * x).sum(axis=-1)
    slope = (x * y).sum(axis=-1) / np.where(spread > 0.0, spread, 1.0)
    return np.where(spread > 0.0, ar1.corrected(slope, pairs.shape[-1]), 0.0)


def _carry(last: float, slope: Floats, mean: Floats, plan: _Plan) -> tuple[Floats, Floats, Floats]:
    """Compute the expected carry over the horizon, the spread that it starts from and its half-life.

    The last period is over: the next is expected at ``mean + slope (last − mean)``. The start is the spread
    at that instant from which continuous decay gives the same mean over the next period.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = -np.log(slope)
        share = np.where(slope < 1.0, slope * kappa / (1.0 - slope), 1.0)
    share = np.where(slope > 0.0, share, 0.0)
    start = mean + (last - mean) * share
    half_life = ar1.half_life_steps(slope) * plan.period
    return reverting_carry(start, mean, half_life, plan.hold), start, half_life


def _resampled(pairs: Floats, slope: float, mean: float, plan: _Plan) -> tuple[Floats, Floats]:
    """Return the slopes and means of series made again from blocks of residuals."""
    n, rng = pairs.shape[1], np.random.default_rng(plan.seed)
    slope = min(slope, 1.0 - 1.0 / n)
    residual = pairs[1] - slope * pairs[0]
    residual = (residual - residual.mean()) * np.sqrt(n / (n - 2.0))
    block = int(np.ceil(n ** (1.0 / 3.0)))
    begins = rng.integers(0, n, (plan.resamples, -(-n // block), 1))
    noise = residual[(begins + np.arange(block)) % n].reshape(plan.resamples, -1)[:, :n]
    first = rng.standard_normal(plan.resamples) * residual.std() / np.sqrt(1.0 - slope**2)
    series = np.concatenate([first[:, None], noise], axis=1)
    for t in range(1, n + 1):
        series[:, t] += slope * series[:, t - 1]
    slopes = np.clip(_slopes(np.stack([series[:, :-1], series[:, 1:]])), 0.0, 1.0)
    return slopes, mean + series.mean(axis=1)
