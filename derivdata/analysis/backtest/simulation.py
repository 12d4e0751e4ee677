"""Backtest a rule of carry on recorded rates, prices and depth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from derivdata.analysis.backtest.book import Account
from derivdata.analysis.backtest.costs import Costs
from derivdata.analysis.backtest.engine import simulate
from derivdata.analysis.backtest.market import market_of
from derivdata.analysis.backtest.results import dataset, provenance_of
from derivdata.analysis.backtest.slippages import Slippage
from derivdata.analysis.panels import positive
from derivdata.support.arguments import Numbers, typed

__all__ = ["carry"]


@typed
def carry(
    panel: xr.DataArray,
    rule: Callable,  # type: ignore[type-arg]
    costs: Costs,
    *,
    interval_hours: Numbers | None = None,
    prices: xr.DataArray | None = None,
    depth: xr.DataArray | None = None,
    capital: float = 1_000_000.0,
    leg_usd: float = 100_000.0,
    leverage: float = 3.0,
    maintenance: float = 0.01,
    transfer_hours: float | None = None,
    latency_hours: float = 0.0,
) -> xr.Dataset:
    """Simulate what a rule would have earned that holds pairs of perpetuals, one for each symbol at a time.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] whose ``kind`` is stated, dims ``exchange`` and ``time``, ``symbol`` allowed,
        in memory or lazy (it is loaded). Settlements are paid at their stamps to positions that were opened
        before; samples accrue over time, which estimates payments.
    rule
        Called at every row with what is known (`Past`); returns the pairs to hold. See `SpreadThreshold`,
        `ForecastThreshold`, `Rotation`, `HoldingTime` and `VenueLimit`.
    costs
        Fees by venue and side; slippage where no `depth` is given.
    interval_hours
        Settlements only, and needed there: hours that each pays for.
    prices
        Marks [USD] over ``symbol``, ``exchange`` and ``time``. Their instants become rows. A pair is entered
        only where both venues have a mark at that row; later a missing one stands at the last. None leaves
        price P&L and liquidation out.
    depth
        Depth of the books [USD], what ``dd.tables.depth`` returns: slippage is that of an order of `leg_usd`
        at the newest depth. With dim ``time``, or without one for all times.
    capital
        What there is [USD].
    leg_usd
        Notional of each leg at entry [USD]; both legs have the same number of coins.
    leverage
        Notional over margin at entry. A pair is refused when the equity less the margin in use is below its
        margin.
    maintenance
        Fraction of a leg's notional at which the venue liquidates it: where its margin, unrealised P&L and
        funding are below, both legs are closed at that row's marks.
    transfer_hours
        The legs' equity is evened out whenever so many hours have passed; None never moves margin.
    latency_hours
        Age of the newest rate that the rule sees. At 0 it sees the settlements of its own row, and of samples
        those whose bucket has ended.

    Returns
    -------
    Dataset
        Over ``time``: ``equity_usd``, ``drawdown`` (fraction of the peak), ``refused_entries``. Over
        ``symbol`` and ``time``, of each row: ``funding_usd``, ``price_usd``, ``fees_usd``,
        ``slippage_usd``, ``traded_usd``, and the venues held after it, ``long_venue`` and ``short_venue``
        (places in ``exchange``, −1 for none). Over ``trade``: see `trades`. Single figures: ``net_usd``,
        ``apr`` (simple), ``sharpe`` (annualised, of the returns of whole UTC days), ``max_drawdown``,
        ``turnover`` (notional a year over capital), ``liquidations``, ``missing_hours``. Equity is `capital`
        plus all funding and price less all fees and slippage. The positions of the last row are closed there.
        The provenance is that of `panel`, `prices` and `depth`.

    Raises
    ------
    TypeError, ValueError
        As `derivdata.analysis.funding.cumulative`; a venue has no fee; the rule's answer is no pair of the
        panel's venues; an amount makes no sense.

    Notes
    -----
    At a row, positions are marked and paid, then liquidated, then the rule is asked, then its trades are
    filled at the marks of the row. A payment at the entry itself is not earned, one at the exit is. A payment
    that is missing is not earned either, and counted in ``missing_hours``: a result with many of them is not
    one. Impact on later prices, borrowing, and failures of venues are not simulated.

    Examples
    --------
    >>> paid = dd.funding.settlements(["BTC", "ETH"], "30d", venues=["binance", "hyperliquid", "okx"])
    >>> rates, hours = dd.panel(paid), dd.panel(paid, "interval_hours")
    >>> rule = dd.analysis.backtest.SpreadThreshold(enter_bps_8h=1.0, mean_hours=72)
    >>> costs = dd.analysis.backtest.Costs(fees_bps=2.0)
    >>> result = dd.analysis.backtest.carry(rates, rule, costs, interval_hours=hours)
    >>> result["equity_usd"].dims
    ('time',)
    """
    for name, value in (("capital", capital), ("leg_usd", leg_usd), ("leverage", leverage)):
        positive(value, name)
    if not 0.0 <= maintenance < 1.0 / leverage:
        raise ValueError(
            f"{maintenance=} is a fraction of notional, from 0 up to the margin {1 / leverage:g}"
        )
    if transfer_hours is not None:
        positive(transfer_hours, "transfer_hours")
    if not 0.0 <= latency_hours < np.inf:
        raise ValueError(f"{latency_hours=}: a rule cannot use rates of the future")
    market = market_of(panel, interval_hours, prices)
    fees = costs.by_side(market.symbols, market.exchanges)
    account = Account(
        capital,
        leg_usd,
        leverage,
        maintenance,
        np.inf if transfer_hours is None else transfer_hours,
        fees,
        costs.liquidation_bps,
    )
    slippage = Slippage(market, depth, leg_usd, costs.slippage_bps)
    journal = simulate(market, rule, account, slippage, latency_hours)
    return dataset(market, journal, account, rule, provenance_of(panel, prices, depth))
