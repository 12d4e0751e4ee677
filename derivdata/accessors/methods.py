"""Types of the methods of ``.dd``, for type checkers; ``docs/accessor_types.py`` writes this file.

A class has the methods of all kinds of an object, since a type checker does not see which columns and
variables it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import derivdata as dd

__all__ = ["DataArrayMethods", "DataFrameMethods", "DatasetMethods"]

D = TypeVar("D")
P = ParamSpec("P")
R = TypeVar("R")


class _Method(Generic[P, R]):
    """A function whose first argument is the object."""

    def __init__(self, function: Callable[Concatenate[D, P], R]) -> None:
        self._function: Callable[..., R] = function

    def __get__(self, methods: Any, owner: type) -> Callable[P, R]:
        raise NotImplementedError("methods of .dd are made at run time by derivdata.accessors.Accessor")


class _DataArrayAlign:
    """``.dd.align``."""

    align = _Method(dd.analysis.align.align)


class _DataArrayBacktest:
    """``.dd.backtest``."""

    carry = _Method(dd.analysis.backtest.carry)
    sweep = _Method(dd.analysis.backtest.sweep)  # type: ignore[arg-type]


class _DataArrayBasis:
    """``.dd.basis``."""

    against = _Method(dd.analysis.basis.against)


class _DataArrayDelivery:
    """``.dd.delivery``."""

    calibration = _Method(dd.analysis.delivery.calibration)


class _DataArrayFunding:
    """``.dd.funding``."""

    best_pair = _Method(dd.analysis.funding.best_pair)
    breakeven = _Method(dd.analysis.funding.breakeven)
    comovement = _Method(dd.analysis.funding.comovement)
    cumulative = _Method(dd.analysis.funding.cumulative)
    dispersion = _Method(dd.analysis.funding.dispersion)
    forecast_carry = _Method(dd.analysis.funding.forecast_carry)
    forecast_history = _Method(dd.analysis.funding.forecast_history)
    half_life = _Method(dd.analysis.funding.half_life)
    infer_interval = _Method(dd.analysis.funding.infer_interval)
    oi_weighted = _Method(dd.analysis.funding.oi_weighted)
    period_sums = _Method(dd.analysis.funding.period_sums)
    pick_record = _Method(dd.analysis.funding.pick_record)
    realised_carry = _Method(dd.analysis.funding.realised_carry)
    slippage_bps = _Method(dd.analysis.funding.slippage_bps)
    spread = _Method(dd.analysis.funding.spread)
    universe = _Method(dd.analysis.funding.universe)
    with_spot = _Method(dd.analysis.funding.with_spot)
    zscore = _Method(dd.analysis.funding.zscore)


class _DataArrayFutures:
    """``.dd.futures``."""

    with_leg = _Method(dd.analysis.futures.with_leg)


class _DataArrayLiquidations:
    """``.dd.liquidations``."""

    branching_ratio = _Method(dd.analysis.liquidations.branching_ratio)


class _DataArrayOi:
    """``.dd.oi``."""

    by_kind = _Method(dd.analysis.oi.by_kind)
    hhi = _Method(dd.analysis.oi.hhi)
    in_coins = _Method(dd.analysis.oi.in_coins)
    market_share = _Method(dd.analysis.oi.market_share)
    migration = _Method(dd.analysis.oi.migration)
    oi_to_volume = _Method(dd.analysis.oi.oi_to_volume)
    share_trend = _Method(dd.analysis.oi.share_trend)


class _DataArrayTaker:
    """``.dd.taker``."""

    cumulative_delta = _Method(dd.analysis.taker.cumulative_delta)
    imbalance = _Method(dd.analysis.taker.imbalance)


class _DataArrayVariance:
    """``.dd.variance``."""

    cboe = _Method(dd.analysis.variance.cboe)


class _DataArrayVolatility:
    """``.dd.volatility``."""

    bars = _Method(dd.analysis.volatility.bars)
    bipower = _Method(dd.analysis.volatility.bipower)
    implied_minus_realised = _Method(dd.analysis.volatility.implied_minus_realised)


class _DataArrayPlot:
    """``.dd.plot``."""

    calibration = _Method(dd.plot.calibration)
    cumulative_funding = _Method(dd.plot.cumulative_funding)
    funding_heatmap = _Method(dd.plot.funding_heatmap)
    funding_history = _Method(dd.plot.funding_history)
    heatmap = _Method(dd.plot.funding_heatmap)
    open_interest = _Method(dd.plot.open_interest)
    orderbook_depth = _Method(dd.plot.orderbook_depth)
    positioning = _Method(dd.plot.positioning)
    taker_volume = _Method(dd.plot.taker_volume)
    volatility = _Method(dd.plot.volatility)


class DataArrayMethods:
    """Methods of the accessor ``.dd`` of a DataArray, with types."""

    backtest: _DataArrayBacktest
    basis: _DataArrayBasis
    delivery: _DataArrayDelivery
    funding: _DataArrayFunding
    futures: _DataArrayFutures
    liquidations: _DataArrayLiquidations
    oi: _DataArrayOi
    plot: _DataArrayPlot
    taker: _DataArrayTaker
    variance: _DataArrayVariance
    volatility: _DataArrayVolatility
    against = _Method(dd.analysis.basis.against)
    align = _Method(dd.analysis.align.align)
    bars = _Method(dd.analysis.volatility.bars)
    best_pair = _Method(dd.analysis.funding.best_pair)
    bipower = _Method(dd.analysis.volatility.bipower)
    branching_ratio = _Method(dd.analysis.liquidations.branching_ratio)
    breakeven = _Method(dd.analysis.funding.breakeven)
    by_kind = _Method(dd.analysis.oi.by_kind)
    calibration = _Method(dd.analysis.delivery.calibration)
    card = _Method(dd.card)
    carry = _Method(dd.analysis.backtest.carry)
    cboe = _Method(dd.analysis.variance.cboe)
    comovement = _Method(dd.analysis.funding.comovement)
    cumulative = _Method(dd.analysis.funding.cumulative)
    cumulative_delta = _Method(dd.analysis.taker.cumulative_delta)
    dispersion = _Method(dd.analysis.funding.dispersion)
    flags = _Method(dd.analysis.flags)
    forecast_carry = _Method(dd.analysis.funding.forecast_carry)
    forecast_history = _Method(dd.analysis.funding.forecast_history)
    half_life = _Method(dd.analysis.funding.half_life)
    hhi = _Method(dd.analysis.oi.hhi)
    imbalance = _Method(dd.analysis.taker.imbalance)
    implied_minus_realised = _Method(dd.analysis.volatility.implied_minus_realised)
    in_coins = _Method(dd.analysis.oi.in_coins)
    infer_interval = _Method(dd.analysis.funding.infer_interval)
    market_share = _Method(dd.analysis.oi.market_share)
    migration = _Method(dd.analysis.oi.migration)
    oi_to_volume = _Method(dd.analysis.oi.oi_to_volume)
    oi_weighted = _Method(dd.analysis.funding.oi_weighted)
    percentile = _Method(dd.analysis.percentile)
    period_sums = _Method(dd.analysis.funding.period_sums)
    pick_record = _Method(dd.analysis.funding.pick_record)
    provenance = _Method(dd.provenance)
    rank = _Method(dd.analysis.rank)
    realised_carry = _Method(dd.analysis.funding.realised_carry)
    share_trend = _Method(dd.analysis.oi.share_trend)
    slippage_bps = _Method(dd.analysis.funding.slippage_bps)
    spread = _Method(dd.analysis.funding.spread)
    sweep = _Method(dd.analysis.backtest.sweep)  # type: ignore[arg-type]
    universe = _Method(dd.analysis.funding.universe)
    with_leg = _Method(dd.analysis.futures.with_leg)
    with_spot = _Method(dd.analysis.funding.with_spot)
    zscore = _Method(dd.analysis.funding.zscore)


class _DataFrameAlign:
    """``.dd.align``."""

    asof_join = _Method(dd.analysis.align.asof_join)


class _DataFrameBacktest:
    """``.dd.backtest``."""

    options = _Method(dd.analysis.backtest.options)


class _DataFrameChain:
    """``.dd.chain``."""

    clean = _Method(dd.analysis.chain.clean)
    executable = _Method(dd.analysis.chain.executable)
    forwards = _Method(dd.analysis.chain.forwards)
    greeks = _Method(dd.analysis.chain.greeks)
    smiles = _Method(dd.analysis.chain.smiles)


class _DataFrameDepth:
    """``.dd.depth``."""

    by_band = _Method(dd.analysis.depth.by_band)
    market_order_cost = _Method(dd.analysis.depth.market_order_cost)


class _DataFrameExposure:
    """``.dd.exposure``."""

    gamma_exposure = _Method(dd.analysis.exposure.gamma_exposure)
    history = _Method(dd.analysis.exposure.history)
    max_pain = _Method(dd.analysis.exposure.max_pain)
    open_interest = _Method(dd.analysis.exposure.open_interest)
    put_call_ratio = _Method(dd.analysis.exposure.put_call_ratio)
    zero_gamma = _Method(dd.analysis.exposure.zero_gamma)


class _DataFrameFunding:
    """``.dd.funding``."""

    next_settlements = _Method(dd.analysis.funding.next_settlements)


class _DataFrameFutures:
    """``.dd.futures``."""

    roll = _Method(dd.analysis.futures.roll)
    term_structure = _Method(dd.analysis.futures.term_structure)


class _DataFrameLiquidations:
    """``.dd.liquidations``."""

    bucket = _Method(dd.analysis.liquidations.bucket)
    cascades = _Method(dd.analysis.liquidations.cascades)
    clusters = _Method(dd.analysis.liquidations.clusters)
    observed = _Method(dd.analysis.liquidations.observed)


class _DataFrameOptionTrades:
    """``.dd.option_trades``."""

    chain = _Method(dd.analysis.option_trades.chain)
    flow = _Method(dd.analysis.option_trades.flow)


class _DataFramePosition:
    """``.dd.position``."""

    attribution = _Method(dd.analysis.position.attribution)
    greeks = _Method(dd.analysis.position.greeks)
    scenarios = _Method(dd.analysis.position.scenarios)
    vega_buckets = _Method(dd.analysis.position.vega_buckets)


class _DataFrameSessions:
    """``.dd.sessions``."""

    by_session = _Method(dd.analysis.sessions.by_session)
    closures = _Method(dd.analysis.sessions.closures)


class _DataFrameSurface:
    """``.dd.surface``."""

    from_chain = _Method(dd.analysis.surface.from_chain)
    history = _Method(dd.analysis.surface.history)


class _DataFramePlot:
    """``.dd.plot``."""

    backtest = _Method(dd.plot.backtest)
    cumulative_funding = _Method(dd.plot.cumulative_funding)
    funding_heatmap = _Method(dd.plot.funding_heatmap)
    funding_history = _Method(dd.plot.funding_history)
    heatmap = _Method(dd.plot.funding_heatmap)
    implied_density = _Method(dd.plot.implied_density)
    liquidations = _Method(dd.plot.liquidations)
    open_interest = _Method(dd.plot.open_interest)
    option_flow = _Method(dd.plot.option_flow)
    orderbook_depth = _Method(dd.plot.orderbook_depth)
    positioning = _Method(dd.plot.positioning)
    smile = _Method(dd.plot.smile)
    strikes = _Method(dd.plot.strikes)
    surface = _Method(dd.plot.surface)
    taker_volume = _Method(dd.plot.taker_volume)
    term_structure = _Method(dd.plot.term_structure)
    venue_difference = _Method(dd.plot.venue_difference)


class DataFrameMethods:
    """Methods of the accessor ``.dd`` of a DataFrame, with types."""

    align: _DataFrameAlign
    backtest: _DataFrameBacktest
    depth: _DataFrameDepth
    exposure: _DataFrameExposure
    funding: _DataFrameFunding
    futures: _DataFrameFutures
    liquidations: _DataFrameLiquidations
    option_trades: _DataFrameOptionTrades
    plot: _DataFramePlot
    position: _DataFramePosition
    sessions: _DataFrameSessions
    surface: _DataFrameSurface
    asof_join = _Method(dd.analysis.align.asof_join)
    attribution = _Method(dd.analysis.position.attribution)
    bucket = _Method(dd.analysis.liquidations.bucket)
    by_band = _Method(dd.analysis.depth.by_band)
    by_session = _Method(dd.analysis.sessions.by_session)
    card = _Method(dd.card)
    cascades = _Method(dd.analysis.liquidations.cascades)
    chain = _Method(dd.analysis.option_trades.chain)
    clean = _Method(dd.analysis.chain.clean)
    closures = _Method(dd.analysis.sessions.closures)
    clusters = _Method(dd.analysis.liquidations.clusters)
    executable = _Method(dd.analysis.chain.executable)
    flow = _Method(dd.analysis.option_trades.flow)
    forwards = _Method(dd.analysis.chain.forwards)
    from_chain = _Method(dd.analysis.surface.from_chain)
    gamma_exposure = _Method(dd.analysis.exposure.gamma_exposure)
    gaps = _Method(dd.gaps)
    market_order_cost = _Method(dd.analysis.depth.market_order_cost)
    max_pain = _Method(dd.analysis.exposure.max_pain)
    next_settlements = _Method(dd.analysis.funding.next_settlements)
    observed = _Method(dd.analysis.liquidations.observed)
    open_interest = _Method(dd.analysis.exposure.open_interest)
    options = _Method(dd.analysis.backtest.options)
    panel = _Method(dd.panel)
    provenance = _Method(dd.provenance)
    put_call_ratio = _Method(dd.analysis.exposure.put_call_ratio)
    quality = _Method(dd.quality)
    roll = _Method(dd.analysis.futures.roll)
    scenarios = _Method(dd.analysis.position.scenarios)
    smiles = _Method(dd.analysis.chain.smiles)
    term_structure = _Method(dd.analysis.futures.term_structure)
    vega_buckets = _Method(dd.analysis.position.vega_buckets)
    zero_gamma = _Method(dd.analysis.exposure.zero_gamma)


class _DatasetBacktest:
    """``.dd.backtest``."""

    capacity = _Method(dd.analysis.backtest.capacity)
    trades = _Method(dd.analysis.backtest.trades)


class _DatasetBusinessTime:
    """``.dd.business_time``."""

    fit = _Method(dd.analysis.business_time.fit)


class _DatasetChain:
    """``.dd.chain``."""

    arbitrage = _Method(dd.analysis.chain.arbitrage)
    basis = _Method(dd.analysis.chain.basis)
    clean = _Method(dd.analysis.chain.clean)
    executable = _Method(dd.analysis.chain.executable)
    forwards = _Method(dd.analysis.chain.forwards)
    greeks = _Method(dd.analysis.chain.greeks)


class _DatasetDelivery:
    """``.dd.delivery``."""

    probabilities = _Method(dd.analysis.delivery.probabilities)


class _DatasetExposure:
    """``.dd.exposure``."""

    gamma_exposure = _Method(dd.analysis.exposure.gamma_exposure)
    history = _Method(dd.analysis.exposure.history)
    max_pain = _Method(dd.analysis.exposure.max_pain)
    open_interest = _Method(dd.analysis.exposure.open_interest)
    put_call_ratio = _Method(dd.analysis.exposure.put_call_ratio)
    zero_gamma = _Method(dd.analysis.exposure.zero_gamma)


class _DatasetFunding:
    """``.dd.funding``."""

    pick_summary = _Method(dd.analysis.funding.pick_summary)
    portfolio = _Method(dd.analysis.funding.portfolio)


class _DatasetFutures:
    """``.dd.futures``."""

    cash_and_carry = _Method(dd.analysis.futures.cash_and_carry)
    constant_maturity = _Method(dd.analysis.futures.constant_maturity)


class _DatasetRiskNeutral:
    """``.dd.risk_neutral``."""

    density = _Method(dd.analysis.risk_neutral.density)
    moments = _Method(dd.analysis.risk_neutral.moments)
    quantile = _Method(dd.analysis.risk_neutral.quantile)


class _DatasetSmile:
    """``.dd.smile``."""

    butterfly_check = _Method(dd.analysis.smile.butterfly_check)
    iv = _Method(dd.analysis.smile.iv)
    total_variance = _Method(dd.analysis.smile.total_variance)


class _DatasetSurface:
    """``.dd.surface``."""

    at = _Method(dd.analysis.surface.at)
    calendar_check = _Method(dd.analysis.surface.calendar_check)
    constant_maturity = _Method(dd.analysis.surface.constant_maturity)
    forward_variance = _Method(dd.analysis.surface.forward_variance)
    from_chain = _Method(dd.analysis.surface.from_chain)
    history = _Method(dd.analysis.surface.history)
    iv = _Method(dd.analysis.surface.iv)
    local_volatility = _Method(dd.analysis.surface.local_volatility)
    term_structure = _Method(dd.analysis.surface.term_structure)


class _DatasetVariance:
    """``.dd.variance``."""

    model_free = _Method(dd.analysis.variance.model_free)
    volatility_index = _Method(dd.analysis.variance.volatility_index)


class _DatasetVolatility:
    """``.dd.volatility``."""

    cone = _Method(dd.analysis.volatility.cone)
    realised = _Method(dd.analysis.volatility.realised)


class _DatasetPlot:
    """``.dd.plot``."""

    backtest = _Method(dd.plot.backtest)
    card = _Method(dd.plot.card)
    carry = _Method(dd.plot.carry)
    implied_density = _Method(dd.plot.implied_density)
    open_interest = _Method(dd.plot.open_interest)
    pnl_attribution = _Method(dd.plot.pnl_attribution)
    smile = _Method(dd.plot.smile)
    strikes = _Method(dd.plot.strikes)
    surface = _Method(dd.plot.surface)
    term_structure = _Method(dd.plot.term_structure)
    venue_difference = _Method(dd.plot.venue_difference)
    volatility = _Method(dd.plot.volatility)


class DatasetMethods:
    """Methods of the accessor ``.dd`` of a Dataset, with types."""

    backtest: _DatasetBacktest
    business_time: _DatasetBusinessTime
    chain: _DatasetChain
    delivery: _DatasetDelivery
    exposure: _DatasetExposure
    funding: _DatasetFunding
    futures: _DatasetFutures
    plot: _DatasetPlot
    risk_neutral: _DatasetRiskNeutral
    smile: _DatasetSmile
    surface: _DatasetSurface
    variance: _DatasetVariance
    volatility: _DatasetVolatility
    arbitrage = _Method(dd.analysis.chain.arbitrage)
    at = _Method(dd.analysis.surface.at)
    basis = _Method(dd.analysis.chain.basis)
    butterfly_check = _Method(dd.analysis.smile.butterfly_check)
    calendar_check = _Method(dd.analysis.surface.calendar_check)
    capacity = _Method(dd.analysis.backtest.capacity)
    card = _Method(dd.card)
    carry_table = _Method(dd.analysis.carry_table)
    cash_and_carry = _Method(dd.analysis.futures.cash_and_carry)
    clean = _Method(dd.analysis.chain.clean)
    cone = _Method(dd.analysis.volatility.cone)
    density = _Method(dd.analysis.risk_neutral.density)
    executable = _Method(dd.analysis.chain.executable)
    fit = _Method(dd.analysis.business_time.fit)
    flags = _Method(dd.analysis.flags)
    forward_variance = _Method(dd.analysis.surface.forward_variance)
    forwards = _Method(dd.analysis.chain.forwards)
    from_chain = _Method(dd.analysis.surface.from_chain)
    gamma_exposure = _Method(dd.analysis.exposure.gamma_exposure)
    greeks = _Method(dd.analysis.chain.greeks)
    local_volatility = _Method(dd.analysis.surface.local_volatility)
    max_pain = _Method(dd.analysis.exposure.max_pain)
    model_free = _Method(dd.analysis.variance.model_free)
    moments = _Method(dd.analysis.risk_neutral.moments)
    open_interest = _Method(dd.analysis.exposure.open_interest)
    pick_summary = _Method(dd.analysis.funding.pick_summary)
    portfolio = _Method(dd.analysis.funding.portfolio)
    probabilities = _Method(dd.analysis.delivery.probabilities)
    provenance = _Method(dd.provenance)
    put_call_ratio = _Method(dd.analysis.exposure.put_call_ratio)
    quantile = _Method(dd.analysis.risk_neutral.quantile)
    realised = _Method(dd.analysis.volatility.realised)
    term_structure = _Method(dd.analysis.surface.term_structure)
    total_variance = _Method(dd.analysis.smile.total_variance)
    trades = _Method(dd.analysis.backtest.trades)
    volatility_index = _Method(dd.analysis.variance.volatility_index)
    zero_gamma = _Method(dd.analysis.exposure.zero_gamma)
