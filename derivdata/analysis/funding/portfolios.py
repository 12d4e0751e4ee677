"""Portfolio of pairs: sizes from forecasts, capital by venue, and the probability of liquidation.

The sizes solve a convex problem at each time. The margin of an account follows from the moves of prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtri

from derivdata.analysis.funding.pairs import BORROWED, OWNED, pair_coordinates
from derivdata.analysis.funding.rolling import sliding
from derivdata.analysis.labelling import origin_attrs
from derivdata.analysis.panels import (
    Panel,
    hours,
    hours_of,
    labels_of,
    last_valid,
    positive,
    require,
    require_labels,
    require_variables,
    row_quantiles,
    usual_step,
    with_symbol,
)
from derivdata.analysis.settlements import Apart, of_one_coin
from derivdata.analysis.status import FundingStatus, flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats, Indices
from derivdata.support.text import warn_caller
from derivdata.support.times import TimeLike, naive_utc, timestamp
from derivdata.tables.venue_facts import MaintenanceTiers
from derivdata.units import BPS, USD_UNIT

_NEEDS = ("gross_bps", "net_bps", "net_low_bps", "net_high_bps", "realised_net_bps", "decisions")
_PAIRS = 100
"""Maximum number of pairs at one time: current ones, then those with the highest net per risk."""


@typed
def portfolio(
    forecasts: xr.Dataset,
    prices: Panel,
    *,
    capital: float,
    max_venue_share: float = 1.0,
    max_liquidation: float = 0.01,
    transfer_every: str | pd.Timedelta = "1d",
    maintenance: float | Mapping[str, float] | pd.DataFrame = 0.01,
    haircut: float | Mapping[str, float] = 0.0,
    max_leverage: float = 10.0,
    max_leg_usd: float | None = None,
    risk_aversion: float = 1.0,
    start: TimeLike | None = None,
    apart: Apart = "raise",
) -> xr.Dataset:
    """Compute risk-adjusted sizes of pairs from forecasts, with the collateral on each venue.

    Parameters
    ----------
    forecasts
        Result of `forecast_history` with ``prices=``: means, intervals and past outcomes of the pairs.
    prices
        Marks [USD] over ``exchange`` and ``time``, ``symbol`` allowed.
    capital
        Initial capital [USD].
    max_venue_share
        Maximum fraction of the capital as collateral on one venue, which is lost if the venue fails.
    max_liquidation
        Maximum probability that any one account is liquidated within a week.
    transfer_every
        Time until collateral can be transferred, during which an account must cover price moves itself.
    maintenance
        Fraction of the legs' notional below which a venue liquidates an account, one number or by venue. Or
        the table ``dd.venues.margin_tiers()`` of tiers by size: each venue then has the highest rate of its
        symbols for a leg of `max_leg_usd`, or of `capital` times `max_leverage` without one. Contracts
        without a tier have 0.01, and legs larger than the last tier have its rate, with a `DataNotice`.
    haircut
        Fraction of the collateral that a venue does not count, for example of coins instead of USD.
    max_leverage
        Maximum notional over counted collateral of an account, from the venue's initial margin.
    max_leg_usd
        Maximum notional of one pair's leg [USD], for example from the depth of its books; None for no limit.
    risk_aversion
        The objective is the mean outcome minus ``risk_aversion / 2`` times its variance over the capital: 1
        is the growth of the capital (Kelly), 2 half its size if no limit binds.
    start
        Compute sizes at every forecast time from this one on, starting without positions; existing positions
        do not pay their cost again. None computes the last time only.
    apart
        As in `forecast_carry`, for `prices`.

    Returns
    -------
    Dataset, for `derivdata.analysis.backtest.Portfolio`
        Over ``symbol``, ``pair`` and ``time``: ``leg_usd``, the notional of each leg. Over ``exchange`` and
        ``time``: ``collateral_usd``, ``exposure_usd`` (notional of the legs) and ``liquidation_probability``,
        within a week. Over ``time``: ``net_usd``, the mean outcome of the holding time minus the cost of
        added positions, ``risk_usd``, its standard deviation, ``idle_usd``, and ``status``: ``too_few``
        without a forecast or with fewer than thirty times `transfer_every` of prices, with all sizes 0.
        ``attrs["capital_usd"]``.

    Raises
    ------
    TypeError, ValueError
        `forecasts` does not come from forecasts with prices; `prices` are not in USD, lack a symbol or are of
        another coin; a venue has no maintenance or haircut; an amount is invalid.

    Notes
    -----
    Sizes are never negative, and the legs of a pair are equal. The risk of a pair comes from its forecast's
    interval; the joint risk from the correlation of past forecasts' errors, shrunk to independence. All legs
    on a venue share one account (cross margin): legs in opposite directions offset each other's moves but
    each has its maintenance. A leg on the venue ``"spot"`` (`with_spot`) is owned coins: it needs their full
    price, regardless of `max_leverage` and `maintenance`, is not liquidated, and is never short; legs on
    ``"borrowed"`` are never long. A symbol has one price, the median of its venues; moves within a step of
    `prices` are not included, nor is a single venue's wick. At each time the hundred pairs with the highest
    net per risk are used. Coverage on recorded data: docs/methods/carry.md.

    Examples
    --------
    >>> venues = ["binance", "bybit", "hyperliquid", "okx"]
    >>> paid = dd.funding.settlements(["BTC", "ETH"], "60d", venues=venues)
    >>> marks = dd.prices.history(["BTC", "ETH"], "60d", venues=venues)
    >>> forecasts = dd.analysis.funding.forecast_history(paid, hold="7d", fee_bps=0.2, prices=marks)
    >>> sizes = dd.analysis.funding.portfolio(forecasts, marks, capital=1e6, max_venue_share=0.3)
    >>> bool((sizes["collateral_usd"] <= 300_000 * (1 + 1e-9)).all())
    True
    """
    amounts = {"capital": capital, "max_leverage": max_leverage, "risk_aversion": risk_aversion}
    for name, value in amounts.items():
        positive(value, name)
    for name, share in (("max_venue_share", max_venue_share), ("max_liquidation", max_liquidation)):
        if not 0.0 < share <= 1.0 or (name == "max_liquidation" and share == 1.0):
            raise ValueError(f"{name} must be a fraction above 0, such as 0.3, got {share}")

    # 1. Express pairs and limits as fractions of the capital.
    pairs = _pairs_of(forecasts)
    owned = pairs.venues == OWNED
    if isinstance(maintenance, pd.DataFrame):
        largest = capital * max_leverage if max_leg_usd is None else max_leg_usd
        maintenance = _highest_rates(maintenance, pairs.venues, prices, largest)
    most = np.inf
    if max_leg_usd is not None:
        most = positive(max_leg_usd, "max_leg_usd") / capital
    limits = Limits(
        most=most, share=max_venue_share, liquidation=max_liquidation / int(np.count_nonzero(~owned)),
        maintenance=_by_venue(maintenance, "maintenance", pairs.venues),
        counted=1.0 - _by_venue(haircut, "haircut", pairs.venues),
        initial=np.where(owned, 1.0, 1.0 / max_leverage), aversion=risk_aversion,
        price_risk=np.where(owned, 0.0, 1.0),
    )  # fmt: skip

    # 2. Compute sizes at each time, starting from the previous ones.
    first = pairs.times.size - 1
    if start is not None:
        stamp = naive_utc(timestamp(start, "start")).to_datetime64()
        first = int(np.searchsorted(pairs.times, stamp))
        if first == pairs.times.size:
            raise ValueError(
                f"start must not be after the last time of forecasts, {pairs.times[-1]}, got {start!r}"
            )
    span = hours_of(transfer_every, "transfer_every")
    moves = _moves(prices, pairs, first, span, apart)
    return _labelled(forecasts, pairs, first, capital, *_walk(pairs, moves, limits, first))


class _Pairs(NamedTuple):
    """Forecasts of the pairs of all symbols over (pair, time), as fractions of a leg's notional."""

    symbols: Any
    venues: Any
    times: Any
    signed: Floats
    """(venue, symbol, pair): 1 where a pair is long, −1 where it is short."""
    gross: Floats
    net: Floats
    deviation: Floats
    errors: Floats
    """Outcomes minus means, in units of the deviation."""
    decisions: Floats
    hold: Any


def _pairs_of(forecasts: xr.Dataset) -> _Pairs:
    """Check forecasts, and arrange the pairs of all symbols on one axis."""
    require_variables(forecasts, "forecasts", _NEEDS, dims=["pair", "time"])
    hours(forecasts["net_bps"], name="forecasts")
    if "level" not in forecasts.attrs or not {"long", "short", "hold_hours"} <= forecasts.coords.keys():
        raise ValueError(
            "forecasts must have long, short, hold_hours and attrs['level']: pass the result of "
            "forecast_history"
        )
    if "price_bps" not in forecasts:
        raise ValueError(
            "forecasts must include prices, got funding only: compute them with forecast_history(..., "
            "prices=marks)"
        )
    if not forecasts.sizes["pair"]:
        raise ValueError(
            "forecasts must have at least one pair: forecast_history(..., pairs=None) computes all pairs"
        )
    needed = with_symbol(forecasts[list(_NEEDS)])
    symbols = labels_of(needed["net_bps"], "symbol")
    if not symbols.size:
        raise ValueError("forecasts must have at least one symbol")
    times = needed["time"].to_numpy()

    # 1. Find the long and the short venue of each pair, with pairs of all symbols on one axis.
    long = forecasts["long"].to_numpy().astype(str)
    short = forecasts["short"].to_numpy().astype(str)
    venues = np.unique(np.stack([long, short]))
    symbol = np.repeat(np.arange(symbols.size), long.size)
    pair = np.tile(np.arange(long.size), symbols.size)
    number = np.arange(symbol.size)
    signed = np.zeros((venues.size, symbols.size, symbol.size))
    signed[np.searchsorted(venues, long)[pair], symbol, number] = 1.0
    signed[np.searchsorted(venues, short)[pair], symbol, number] = -1.0

    # 2. Arrange the values in this order, and derive the deviation from the interval as for a normal
    # distribution.
    needed = needed.broadcast_like(needed["net_bps"]).transpose("symbol", "pair", "time")
    figures = {name: needed[name].to_numpy().reshape(symbol.size, times.size) for name in _NEEDS}
    # Owned coins cannot be short, and borrowed coins cannot be long.
    is_impossible = (long == BORROWED) | (short == OWNED)
    figures["net_bps"] = np.where(is_impossible[pair][:, None], np.nan, figures["net_bps"])
    normal_width = 2.0 * ndtri(0.5 * (1.0 + float(forecasts.attrs["level"])))
    deviation = (figures["net_high_bps"] - figures["net_low_bps"]) / normal_width
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = (figures["realised_net_bps"] - figures["net_bps"]) / deviation
    hold = np.timedelta64(round(float(forecasts["hold_hours"]) * 3600.0), "s")
    gross = figures["gross_bps"] / BPS
    net = figures["net_bps"] / BPS
    return _Pairs(
        symbols=symbols, venues=venues, times=times, signed=signed, gross=gross, net=net,
        deviation=deviation / BPS, errors=errors, decisions=figures["decisions"], hold=hold,
    )  # fmt: skip


def _highest_rates(tiers: pd.DataFrame, venues: Any, prices: Panel, leg_usd: float) -> dict[str, float]:
    """Return, for each venue, the highest maintenance margin of any symbol for legs of a size [USD]."""
    marks = with_symbol(require(prices, "exchange", "time", units=USD_UNIT, name="prices"))
    symbols = [str(name) for name in marks["symbol"].to_numpy().tolist()]
    names = [str(name) for name in venues]
    values = marks.transpose("symbol", "exchange", "time").to_numpy().astype(np.float64)
    last = np.maximum(last_valid(np.isfinite(values))[..., -1:], 0)
    (newest,) = row_quantiles(np.take_along_axis(values, last, axis=-1)[..., 0], 0.5)
    table = MaintenanceTiers(tiers, symbols, names)
    symbol_places = np.arange(len(symbols))[:, None]
    coins = leg_usd / newest[:, None]
    rates = table.rates(symbol_places, np.arange(len(names)), coins, np.full(coins.shape, leg_usd))
    if notice := table.beyond_notice():
        warn_caller(notice)
    return dict(zip(names, rates.max(axis=0).tolist(), strict=True))


def _by_venue(given: float | Mapping[str, float], name: str, venues: Any) -> Floats:
    """Return the fraction of each of `venues`, given for all or by venue; 0 for owned coins."""
    by_venue: dict[str, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(venues, given)
    by_venue[OWNED] = 0.0
    missing = [venue for venue in venues if venue not in by_venue]
    if missing:
        raise ValueError(f"{name} does not have a fraction for {', '.join(missing)}: add it")
    fractions = np.array([by_venue[venue] for venue in venues], dtype=float)
    if not ((fractions >= 0.0) & (fractions < 1.0)).all():
        raise ValueError(f"{name} must be fractions from 0 to 1, got {given!r}")
    return fractions


def _moves(prices: Panel, pairs: _Pairs, first: int, span: float, apart: Apart) -> Moves:
    """Return the moves of the symbols' prices as known at each time of the forecasts from one on."""
    marks = with_symbol(require(prices, "exchange", "time", units=USD_UNIT, name="prices"))
    require_labels(marks, "prices", "symbol", pairs.symbols.tolist())
    marks = marks.sel(symbol=pairs.symbols.tolist())
    marks = of_one_coin(marks, "prices", apart)
    step = usual_step(hours(marks, name="prices"), "prices")
    middle: Any = marks.where(marks > 0.0).median("exchange").transpose("time", "symbol").to_pandas()
    levels = np.log(middle.ffill().to_numpy().T)  # a price move over a gap counts at its end
    at = np.searchsorted(marks["time"].to_numpy(), pairs.times[first:], side="right") - 1
    return moves_of(levels, step, span, np.maximum(at, 0))


def _walk(pairs: _Pairs, moves: Moves, limits: Limits, first: int) -> tuple[Floats, Floats, Floats]:
    """Return sizes (pair, time), accounts (variable, venue, time) and totals (variable, time).

    Variables of accounts are collateral, notional and probability of liquidation; of totals the mean and the
    standard deviation of the outcome. All are fractions of the capital, except the probability.
    """
    pair_count = pairs.net.shape[0]
    count = pairs.times.size - first
    sizes = np.zeros((pair_count, count))
    held = np.zeros(pair_count)
    accounts = np.zeros((3, pairs.venues.size, count))
    totals = np.full((2, count), np.nan)
    for column, at in enumerate(range(first, pairs.times.size)):
        # 1. Select pairs with a forecast and marks, and among them those with the best ratio to risk.
        covariance = moves.covariance[column]
        has_marks = np.repeat(np.isfinite(np.diag(covariance)), pair_count // len(covariance))
        has_forecast = np.isfinite(pairs.net[:, at]) & np.isfinite(pairs.deviation[:, at]) & has_marks
        net = np.where(has_forecast, pairs.net[:, at], -1.0)
        before = np.where(has_forecast, held, 0.0)
        selected = best_for_risk(net, pairs.deviation[:, at], before, _PAIRS)
        held = np.zeros(pair_count)
        if not has_forecast.any() or not np.isfinite(moves.tail[column]):
            continue

        # 2. Solve for the sizes, with the correlation of the errors known so far.
        has_ended = pairs.times + pairs.hold <= pairs.times[at]
        decisions = float(pairs.decisions[selected, at].max(initial=1.0))
        error_correlation = correlation(pairs.errors[selected][:, has_ended].T, decisions)
        deviation = pairs.deviation[selected, at]
        problem = Problem(
            gross=pairs.gross[selected, at],
            cost=pairs.gross[selected, at] - net[selected],
            covariance=deviation[:, None] * error_correlation * deviation[None, :],
            held=before[selected],
            signed=pairs.signed[:, :, selected],
            moves=np.nan_to_num(covariance),  # pairs of symbols without marks are excluded
            deviations=moves.deviations(column, limits.liquidation),
            limits=limits,
        )
        if selected.size:
            held[selected] = solve(problem)
        sizes[:, column] = held

        # 3. Compute the accounts. Liquidation comes when the loss exceeds collateral over maintenance margin.
        new = held[selected]
        notional, account_deviation = problem.exposures(new)
        collateral = problem.collateral(new)
        max_loss = collateral * limits.counted - limits.maintenance * notional
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = moves.weekly(column, max_loss / account_deviation)
        accounts[..., column] = collateral, notional, np.where(notional > 0.0, probability, 0.0)

        # 4. Compute mean and standard deviation of the outcome.
        added = np.maximum(held - before, 0.0)[selected]
        mean = problem.gross @ new - problem.cost @ added
        totals[:, column] = mean, np.sqrt(new @ problem.covariance @ new)
    return sizes, accounts, totals


def _labelled(
    forecasts: xr.Dataset,
    pairs: _Pairs,
    first: int,
    capital: float,
    sizes: Floats,
    accounts: Floats,
    totals: Floats,
) -> xr.Dataset:
    """Return the results of `_walk` as a Dataset, with amounts in USD."""
    usd = {"units": USD_UNIT}
    venue = ("exchange", "time")
    sizes = capital * sizes.reshape(pairs.symbols.size, -1, sizes.shape[1])
    collateral, exposure, liquidation = accounts
    status = np.where(np.isnan(totals[0]), int(FundingStatus.TOO_FEW), 0).astype(np.int32)
    variables: dict[str, Any] = {
        "leg_usd": (("symbol", "pair", "time"), sizes, usd | {"long_name": "notional of each leg"}),
        "collateral_usd": (venue, capital * collateral, usd),
        "exposure_usd": (venue, capital * exposure, usd | {"long_name": "notional of the legs"}),
        "liquidation_probability": (venue, liquidation, {"units": "1", "long_name": "within a week"}),
        "net_usd": ("time", capital * totals[0], usd | {"long_name": "mean outcome, of funding and prices"}),
        "risk_usd": ("time", capital * totals[1], usd | {"long_name": "standard deviation of the outcome"}),
        "idle_usd": ("time", capital * (1.0 - collateral.sum(axis=0)), usd),
        "status": ("time", status, flag_attrs(FundingStatus)),
    }
    labels = {"symbol": pairs.symbols, "exchange": pairs.venues, "time": pairs.times[first:]}
    attrs = {"capital_usd": capital} | origin_attrs(forecasts)
    result = xr.Dataset(variables, labels | {"hold_hours": forecasts["hold_hours"].item()}, attrs)
    return result.assign_coords(pair_coordinates(forecasts["long"].values, forecasts["short"].values))


_TINY = 1e-12
_ROUNDS = 300
_MIN_SIZE = 1e-4  # fraction of the capital below which a size is rounding error


class Limits(NamedTuple):
    """Limits of a portfolio, as fractions of the capital; limits by venue are arrays."""

    most: float
    """Largest size of a pair."""
    share: float
    """Largest collateral on one venue."""
    liquidation: float
    """Largest probability within a week that one account is liquidated."""
    maintenance: Floats
    """Fraction of the legs' notional at which a venue liquidates."""
    counted: Floats
    """Fraction of the collateral that a venue counts."""
    initial: Floats | float
    """Minimum collateral as a fraction of the legs' notional."""
    aversion: float
    """Weight of the variance of the outcome (risk aversion)."""
    price_risk: Floats | float = 1.0
    """1 if the account covers the gains and losses of its legs, 0 for owned coins."""


class Problem(NamedTuple):
    """Data known at one time; sizes and collateral are fractions of the capital."""

    gross: Floats
    """(pair) mean outcome of a leg's notional before cost."""
    cost: Floats
    """(pair) cost of the four trades, paid on additions to a pair."""
    covariance: Floats
    """(pair, pair) of outcomes."""
    held: Floats
    """(pair) previous size."""
    signed: Floats
    """(venue, symbol, pair): 1 where a pair is long there, −1 where it is short."""
    moves: Floats
    """(symbol, symbol) covariance of prices while no collateral can be moved."""
    deviations: float
    """Number of standard deviations that an account covers."""
    limits: Limits

    def exposures(self, sizes: Floats) -> tuple[Floats, Floats]:
        """Return the notional of the legs on each venue, and the standard deviation of their joint gain."""
        notional = np.abs(self.signed).sum(axis=1) @ sizes
        net = self.signed @ sizes
        variance = np.maximum(np.einsum("vs,st,vt->v", net, self.moves, net), 0.0)
        return notional, self.limits.price_risk * np.sqrt(variance)

    def collateral(self, sizes: Floats) -> Floats:
        """Return the collateral that each venue's account needs."""
        notional, deviation = self.exposures(sizes)
        against_liquidation = self.limits.maintenance * notional + self.deviations * deviation
        to_open = self.limits.initial * notional
        return np.asarray(np.maximum(against_liquidation, to_open) / self.limits.counted)


def solve(problem: Problem) -> Floats:
    """Return the sizes with the highest mean outcome minus half the aversion times its variance.

    Keeping a pair is free, and additions have a cost. Mean and limits scale with the sizes, so a solution
    that exceeds a limit by rounding is scaled down.
    """
    from scipy.optimize import Bounds, NonlinearConstraint, minimize  # imported here because it is slow

    # 1. The variables x are the kept and the added size of each pair, and the collateral on each venue.
    limits = problem.limits
    pairs = problem.gross.size
    venues = len(problem.signed)
    kept_plus_added = np.hstack([np.eye(pairs), np.eye(pairs)])
    scale = max(float(np.abs(problem.gross).max(initial=0.0)), _TINY)
    legs_on_venue = np.abs(problem.signed).sum(axis=1)
    price_risk = np.reshape(limits.price_risk, (-1, 1, 1))
    initial = np.reshape(limits.initial, (-1, 1))
    # Covariance (venue, pair, pair) of the gains of the legs on each venue.
    covariances = price_risk * np.einsum("vsk,st,vtl->vkl", problem.signed, problem.moves, problem.signed)

    # 2. Define the objective and its gradient.
    def loss(x: Floats) -> tuple[float, Floats]:
        sizes = kept_plus_added @ x[: 2 * pairs]
        risk = limits.aversion * problem.covariance @ sizes
        value = problem.gross @ sizes - problem.cost @ x[pairs : 2 * pairs] - 0.5 * sizes @ risk
        gradient = (problem.gross - risk) @ kept_plus_added - np.append(np.zeros(pairs), problem.cost)
        return float(-value / scale), np.append(-gradient / scale, np.zeros(venues))

    # 3. Define the constraints, which must not be negative: collateral minus need against liquidation, by
    # venue; collateral minus need to open, by venue; idle capital. A tiny variance is added below the root,
    # whose derivative at 0 is infinite.
    def constraints(x: Floats) -> Floats:
        sizes = kept_plus_added @ x[: 2 * pairs]
        collateral = x[2 * pairs :] * limits.counted
        notional = legs_on_venue @ sizes
        deviation = np.sqrt(np.maximum(covariances @ sizes @ sizes, 0.0) + _TINY) - np.sqrt(_TINY)
        against_liquidation = limits.maintenance * notional + problem.deviations * deviation
        to_open = limits.initial * notional
        idle = 1.0 - x[2 * pairs :].sum()
        return np.concatenate([collateral - against_liquidation, collateral - to_open, [idle]])

    def jacobian(x: Floats) -> Floats:
        sizes = kept_plus_added @ x[: 2 * pairs]
        covariance_with_pair = covariances @ sizes
        deviation = np.sqrt(np.maximum(covariance_with_pair @ sizes, 0.0) + _TINY)
        by_deviation = problem.deviations * covariance_with_pair / deviation[:, None]
        against_liquidation = limits.maintenance[:, None] * legs_on_venue + by_deviation
        to_open = initial * legs_on_venue
        by_sizes = np.vstack([against_liquidation, to_open, np.zeros((1, pairs))]) @ kept_plus_added
        counted = np.diag(limits.counted)
        by_collateral = np.vstack([counted, counted, -np.ones((1, venues))])
        return np.hstack([-by_sizes, by_collateral])

    # 4. Search from the current sizes. The bound of an addition assumes that the current size is kept.
    max_addition = np.maximum(limits.most - problem.held, 0.0)
    upper = np.concatenate([problem.held, max_addition, np.full(venues, limits.share)])
    collateral = np.minimum(limits.share, problem.collateral(problem.held))
    solution = minimize(
        loss,
        np.concatenate([problem.held, np.zeros(pairs), collateral]),
        jac=True,
        method="SLSQP",
        bounds=Bounds(np.zeros(upper.size), upper),
        constraints=NonlinearConstraint(constraints, 0.0, np.inf, jac=jacobian),
        options={"maxiter": _ROUNDS, "ftol": 1e-10},
    )

    # 5. Scale down a solution that exceeds a limit by rounding.
    sizes: Floats = kept_plus_added @ solution.x[: 2 * pairs]
    sizes[sizes < _MIN_SIZE] = 0.0
    collateral = problem.collateral(sizes)
    of_share = float(np.max(collateral, initial=0.0)) / limits.share
    of_size = float(np.max(sizes, initial=0.0)) / limits.most
    return np.asarray(sizes / max(of_share, float(collateral.sum()), of_size, 1.0))


def correlation(errors: Floats, decisions: float) -> Floats:
    """Return the correlation of errors (decision, pair), NaN if unknown, shrunk to independence.

    By the intensity of Schäfer and Strimmer (2005, Statistical Applications in Genetics and Molecular Biology
    4(1)): the variance of the correlations, from `decisions` independent decisions, over the sum of their
    squares.
    """
    errors_or_zero = np.nan_to_num(errors)
    products = errors_or_zero.T @ errors_or_zero
    deviation = np.sqrt(np.maximum(np.diag(products), _TINY))
    correlations = products / deviation[:, None] / deviation[None, :]
    between_pairs = correlations[~np.eye(len(correlations), dtype=bool)]
    variance = ((1.0 - between_pairs**2) ** 2).sum() / max(decisions, 1.0)
    intensity = 0.0
    if between_pairs.size:
        intensity = min(1.0, float(variance) / max(float((between_pairs**2).sum()), _TINY))
    return np.asarray((1.0 - intensity) * correlations + intensity * np.eye(len(correlations)))


def best_for_risk(net: Floats, deviation: Floats, held: Floats, number: int) -> Indices:
    """Return at most `number` pairs: current ones, then those with the highest net outcome per deviation."""
    is_candidate = (net > 0.0) | (held > 0.0)
    ratio = np.where(held > 0.0, np.inf, net / np.maximum(deviation, _TINY))
    order = np.argsort(np.where(is_candidate, -ratio, np.inf), kind="stable")
    return np.sort(order[: min(number, int(is_candidate.sum()))])


_HALF_LIFE_HOURS = 14.0 * 24.0  # half-life of the weight of past moves in volatility and correlation
_MIN_SPANS = 30.0  # minimum number of spans of history
_TAIL = 0.1  # fraction of the largest moves to which the tail is fitted
_PRIOR_INDEX = 3.0
_PRIOR_WEIGHT = 10.0
"""Prior tail index (the inverse cubic law of returns), and its weight in moves."""
_WEEK = 168.0


class Moves(NamedTuple):
    """Moves of prices within a span, as known at some times; NaN if history is too short."""

    covariance: Floats
    """(time, symbol, symbol): of the logarithms of prices over the span."""
    threshold: Floats
    """(time) number of standard deviations that the largest tenth of moves within a span exceeds."""
    tail: Floats
    """(time) tail index: beyond the threshold the probability is ``0.1 (x / threshold) ** −index``."""
    spans: float
    """Number of spans in a week."""

    def deviations(self, at: int, weekly: float) -> float:
        """Return the standard deviations that a span's largest move exceeds with this weekly probability."""
        probability = -np.expm1(np.log1p(-weekly) / self.spans)
        # The tail starts at a probability of one in ten: use its threshold for larger probabilities.
        return float(self.threshold[at] * max(_TAIL / probability, 1.0) ** (1.0 / self.tail[at]))

    def weekly(self, at: int, deviations: Floats) -> Floats:
        """Return the probability that a span's largest move exceeds some deviations within a week."""
        beyond = np.maximum(deviations / self.threshold[at], 1e-12)
        probability = np.minimum(_TAIL * beyond ** -self.tail[at], 1.0)
        return np.asarray(1.0 - (1.0 - probability) ** self.spans)


def moves_of(levels: Floats, step: float, span: float, at: Indices) -> Moves:
    """Return the moves of levels (symbol, row) within a span of hours, known at some rows.

    Rows are `step` hours apart. Volatility comes from recent moves, the newest with most weight. The largest
    rise and the largest fall within each past span, in units of the volatility known at its start, give the
    distribution (filtered historical simulation: Barone-Adesi, Giannopoulos and Vosper 1999), and their
    largest tenth its tail (Hill 1975).
    """
    # 1. Find the largest rise and fall within each span, in units of the volatility at its start.
    rows = max(1, round(span / step))
    one_row_moves = np.diff(levels, axis=1, prepend=np.nan)
    deviation, correlations = _recent_volatility(one_row_moves, _HALF_LIFE_HOURS / step, at)
    deviation *= np.sqrt(rows)
    largest_moves = np.stack([_largest_rise(levels, rows), _largest_rise(-levels, rows)])
    with np.errstate(divide="ignore", invalid="ignore"):
        standardised = largest_moves / deviation

    # 2. Fit the tail of the moves known at each time, shrunk to the prior index if there are few.
    threshold = np.full(at.size, np.nan)
    index = np.full(at.size, np.nan)
    for place, row in enumerate(map(int, at)):
        past = standardised[..., : max(row - rows + 1, 0)]  # completed spans
        past = past[np.isfinite(past)]
        if row + 1 < _MIN_SPANS * rows or not past.size:
            continue
        threshold[place] = np.quantile(past, 1.0 - _TAIL)
        tail = past[past > threshold[place]]
        number = max(tail.size / rows, 1.0)  # overlapping spans share information
        mean_log_excess = float(np.log(tail / threshold[place]).mean()) if tail.size else 0.0
        index[place] = (number + _PRIOR_WEIGHT) / (number * mean_log_excess + _PRIOR_WEIGHT / _PRIOR_INDEX)

    # 3. Combine deviations and correlations known at each time.
    deviation_at = deviation[:, at].T
    covariance = deviation_at[:, :, None] * correlations * deviation_at[:, None, :]
    return Moves(covariance, threshold, index, _WEEK / span)


def _recent_volatility(moves: Floats, half_life: float, at: Indices) -> tuple[Floats, Floats]:
    """Return deviations (symbol, row) of recent moves, and their correlations (at, symbol, symbol).

    `moves` is (symbol, row); weights halve in `half_life` rows.
    """

    def mean(values: Floats) -> Floats:
        smoothed: Floats = pd.DataFrame(values.T).ewm(halflife=half_life, ignore_na=True).mean().to_numpy().T
        return smoothed

    deviation = np.sqrt(mean(moves**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        standardised = moves / deviation
    symbols = len(moves)
    products = (standardised[:, None] * standardised[None]).reshape(symbols**2, -1)
    mean_products = mean(products)[:, at].reshape(symbols, symbols, at.size)
    covariance = np.moveaxis(mean_products, -1, 0)
    scale = np.sqrt(np.maximum(np.einsum("tii->ti", covariance), 1e-300))
    return deviation, np.clip(covariance / scale[:, :, None] / scale[:, None, :], -1.0, 1.0)


def _largest_rise(levels: Floats, rows: int) -> Floats:
    """Return the largest rise of levels within `rows` rows after each; NaN near the end."""
    highest = np.full(levels.shape, np.nan)
    if levels.shape[1] > rows:
        highest[:, :-rows] = sliding(np.fmax, levels[:, 1:], rows)
    return highest - levels
