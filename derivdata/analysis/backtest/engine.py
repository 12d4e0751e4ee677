"""Backtest one rule of carry, or many on the same data.

Each row is processed in this order: payments and marks, liquidations, the rule, its trades. A sweep simulates
many rules in one loop and adjusts the Sharpe ratio of the best for the number of trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr, ndtri, stdtr

from derivdata.analysis.backtest.book import (
    Account,
    Accounts,
    Book,
    CoinBook,
    Contracts,
    Fills,
    Portfolio,
    contracts_of,
)
from derivdata.analysis.backtest.costs import Costs, Slippage
from derivdata.analysis.backtest.market import Knowledge, Market, Target, market_of
from derivdata.analysis.backtest.results import (
    DAYS_PER_YEAR,
    FIGURES,
    Reason,
    dataset,
    equity_of,
    long_run_ratio,
    provenance_of,
    returns_by_day,
    totals_of,
)
from derivdata.analysis.backtest.rules import RuleStack
from derivdata.analysis.funding.pairs import BORROWED, OWNED
from derivdata.analysis.panels import Panel, hours_of, positive, require, require_rate
from derivdata.analysis.settlements import Apart
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.text import warn_caller
from derivdata.tables.venue_facts import DEFAULT_MAINTENANCE, MaintenanceTiers

_CONTRACTS_NEED = "contracts= needs prices= and a rule of pairs, not a Portfolio"


@typed
def carry(
    panel: Panel,
    rule: Callable | Portfolio,  # type: ignore[type-arg]
    costs: Costs,
    *,
    prices: Panel | None = None,
    apart: Apart = "raise",
    contracts: Mapping[str, str] | None = None,
    max_mark_age: str | pd.Timedelta = "24h",
    depth: xr.DataArray | None = None,
    capital: float = 1_000_000.0,
    leg_usd: float = 100_000.0,
    leverage: float = 3.0,
    maintenance: float | pd.DataFrame = 0.01,
    transfer_every: str | pd.Timedelta | None = None,
    delay: str | pd.Timedelta = "0h",
) -> xr.Dataset:
    """Simulate a rule that opens pairs of perpetuals, one per symbol at a time.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with a ``kind``, dims ``exchange`` and ``time``, ``symbol`` allowed, in memory
        or lazy (loaded). Settlements are paid at their timestamps to positions opened before; samples accrue
        over time, which estimates payments.
    rule
        Called at every row with the known data (`Past`); returns the target pairs. See `SpreadThreshold`,
        `ForecastThreshold`, `Rotation`, `HoldingTime` and `VenueLimit`. Or a `Portfolio`: many pairs of a
        symbol with different sizes, and an account for each venue.
    costs
        Fees by venue and side; slippage without `depth`.
    prices
        Marks [USD] over ``symbol``, ``exchange`` and ``time``. Their times become rows. A pair is opened, and
        its price P&L changes, only at rows where both venues have a mark. None omits price P&L and
        liquidation.
    apart
        How to handle a series that appears to be another coin with the same ticker, because it differs from
        the other venues by a factor above 1.25 in the median, or above 2 at a tenth of the timestamps.
        ``"raise"`` raises if every symbol has such a series, and otherwise omits these series with a notice.
        ``"keep"`` uses them. Other prices more than 5 % apart, as in a squeeze, before a listing or of a
        dated future, are used with a `DataNotice`.
    contracts
        Settlement of the contracts of venues: ``"inverse"``, a fixed number of USD settled in the contract's
        own coin; ``"quanto:BTC"``, settled in that coin at a fixed number of coins per USD of price;
        ``"linear"`` and other venues are settled in USD. Needs `prices`, also of the settlement coin on that
        venue. Coins stay until the exit. Not for a `Portfolio`.
    max_mark_age
        Maximum time without a common mark of both venues. After it the pair is closed at the last common
        marks, with reason ``no_mark``.
    depth
        Depth of the books [USD], a panel from ``dd.panel``: slippage is that of an order of `leg_usd` at the
        newest depth. Depth without the dim ``time`` applies to all times.
    capital
        Initial capital [USD].
    leg_usd
        Notional of each leg at entry [USD]; both legs have the same number of coins.
    leverage
        Notional over margin at entry. A pair is rejected if the equity minus the margin in use is below its
        margin.
    maintenance
        Maintenance margin as a fraction of a leg's notional. If margin, unrealised P&L and funding of a leg
        add up to less, both legs are closed at that row's marks. Or tiers by size, the table of
        ``dd.venues.margin_tiers()``; contracts without a tier have 0.01, and legs larger than the last tier
        have its rate. Both give a `DataNotice`.
    transfer_every
        Interval at which equity is balanced between the legs; None never moves margin.
    delay
        Minimum age of the rates that the rule receives. With 0 it receives settlements of the current row,
        and samples whose bucket has ended.

    Returns
    -------
    Dataset
        Over ``time``: ``equity_usd``, ``drawdown`` (fraction of the peak), ``refused_entries`` (counted again
        at each row). Over ``symbol`` and ``time``, per row: ``funding_usd``, ``price_usd``, ``fees_usd``,
        ``slippage_usd``, ``traded_usd``, and the venues held afterwards, ``long_venue`` and ``short_venue``
        (empty text for none; not for a `Portfolio`). Over ``trade``: see `trades`. Scalars: ``net_usd``,
        ``apr`` (simple), ``sharpe`` (annualised, from the returns of whole UTC days, assuming independence),
        ``sharpe_adjusted`` (for dependence: Lo 2002), ``max_drawdown``, ``turnover`` (annual notional over
        capital), ``liquidations``, ``missing_hours``, ``unmarked_hours``. Equity is `capital` plus all
        funding and price minus all fees and slippage. Positions open at the last row are closed there. The
        provenance is joined from `panel`, `prices` and `depth`.

    Raises
    ------
    TypeError, ValueError
        As `derivdata.analysis.funding.cumulative`; a venue has no fee; the rule does not return pairs of the
        panel's venues; an amount is invalid.

    Notes
    -----
    At a row, positions are marked and paid, then liquidated, then the rule is called, then its trades are
    filled at the marks of the row. A payment at the entry is not earned, one at the exit is. A missing
    payment earns nothing and is counted in ``missing_hours``: a result with many of them is unusable. A leg
    on the venue ``"spot"`` (`derivdata.analysis.funding.with_spot`) is bought coins: it needs their full
    price and is never liquidated, its gains cannot be transferred to the other leg, and it cannot be short;
    ``"borrowed"`` is short only, at its rate and on margin. Impact on later prices and failures of venues are
    not simulated.

    Examples
    --------
    >>> paid = dd.funding.settlements(["BTC", "ETH"], "30d", venues=["binance", "hyperliquid", "okx"])
    >>> rule = dd.analysis.backtest.SpreadThreshold(enter_bps_8h=1.0, window="3d")
    >>> result = dd.analysis.backtest.carry(paid, rule, dd.analysis.backtest.Costs(fee_bps=2.0))
    >>> result["equity_usd"].dims
    ('time',)
    """
    given = setting(
        panel, costs, prices=prices, apart=apart, contracts=contracts, max_mark_age=max_mark_age,
        depth=depth, capital=capital, leg_usd=leg_usd, leverage=leverage, maintenance=maintenance,
        transfer_every=transfer_every, delay=delay,
    )  # fmt: skip
    journal = simulate(given, [rule])
    return dataset(given.market, journal, given.account, rule, given.attrs)


class Setting(NamedTuple):
    """Inputs of a backtest except its rules."""

    market: Market
    account: Account
    slippage: Slippage
    latency: float
    contracts: Contracts | None
    attrs: dict[str, str]
    """Attributes with the source of the data."""


@typed
def setting(
    panel: Panel,
    costs: Costs,
    *,
    prices: Panel | None = None,
    apart: Apart = "raise",
    contracts: Mapping[str, str] | None = None,
    max_mark_age: str | pd.Timedelta = "24h",
    depth: xr.DataArray | None = None,
    capital: float = 1_000_000.0,
    leg_usd: float = 100_000.0,
    leverage: float = 3.0,
    maintenance: float | pd.DataFrame = 0.01,
    transfer_every: str | pd.Timedelta | None = None,
    delay: str | pd.Timedelta = "0h",
) -> Setting:
    """Check the arguments of `carry` and prepare its market."""
    for name, value in (("capital", capital), ("leg_usd", leg_usd), ("leverage", leverage)):
        positive(value, name)
    if not isinstance(maintenance, pd.DataFrame) and not 0.0 <= maintenance < 1.0 / leverage:
        raise ValueError(
            f"maintenance must be a fraction of notional from 0 to below 1/leverage={1 / leverage:g}, got "
            f"{maintenance!r}"
        )
    transfer = np.inf if transfer_every is None else hours_of(transfer_every, "transfer_every")
    panel = require_rate(panel, "exchange", "time")
    prices = None if prices is None else require(prices, name="prices")
    market = market_of(panel, prices, apart)
    account = Account(
        capital=capital, leg_usd=leg_usd, leverage=leverage,
        maintenance=_maintenance(maintenance, market.symbols, market.venues, leverage),
        transfer_hours=transfer, fees=costs.by_side(market.symbols, market.venues),
        liquidation=costs.liquidation_bps, mark_step=market.mark_step,
        max_mark_age=hours_of(max_mark_age, "max_mark_age"),
        owned=np.array([venue == OWNED for venue in market.venues]),
        borrowed=np.array([venue == BORROWED for venue in market.venues]),
    )  # fmt: skip
    contract_kinds = None
    if contracts is not None:
        if prices is None:
            raise ValueError(_CONTRACTS_NEED)
        contract_kinds = contracts_of(contracts, market.symbols, market.venues)
    slippage = Slippage(market, depth, leg_usd, costs.slippage_bps)
    latency = hours_of(delay, "delay", minimum=0.0)
    return Setting(market, account, slippage, latency, contract_kinds, provenance_of(panel, prices, depth))


def _maintenance(
    given: float | pd.DataFrame, symbols: Sequence[str], venues: Sequence[str], leverage: float
) -> float | MaintenanceTiers:
    """Return the maintenance margin as a number or a table of tiers."""
    if not isinstance(given, pd.DataFrame):
        return given
    traded = [venue for venue in venues if venue not in (OWNED, BORROWED)]
    tiers = MaintenanceTiers(given, symbols, venues)
    if tiers.highest() >= 1.0 / leverage:
        raise ValueError(
            f"maintenance: a first tier requires {tiers.highest():g} of notional, more than "
            f"1/leverage={1 / leverage:g}: pass a lower leverage"
        )
    named = [name for name in tiers.absent if name.rpartition(" on ")[2] in traded]
    if named:
        warn_caller(
            f"maintenance: {DEFAULT_MAINTENANCE:.0%} of notional is used for {len(named)} contracts without "
            f"tiers: {', '.join(named[:5])}{', …' if len(named) > 5 else ''}"
        )
    return tiers


class Journal:
    """Earnings and trades of the rules at each row [USD], and every closed position.

    Attributes
    ----------
    funding, price, fees, slippage, traded
        Values of the current row, over (rule, symbol), one rule after the other.
    earned
        Over (row, rule): funding and price less fees and slippage.
    total_traded
        Notional of all trades, over rules.
    refused
        Over (row, rule): entries rejected for lack of capital, mark or depth.
    figures
        The five values above, over (figure, row, symbol); None for more than one rule.
    legs
        Venues held after the row's trades, over (row, leg, place), −1 for none; None for more than one rule.
    closed
        Closed positions, with their places.
    """

    def __init__(self, rows: int, rules: int, symbols: int, book: Book) -> None:
        self._shape = (rules, symbols)
        self._row = np.zeros((len(FIGURES), rules * symbols))
        # Views of the rows of `_row`, so that `finish` stores and resets all five at once.
        self.funding, self.price, self.fees, self.slippage, self.traded = self._row
        # Position of each place in these views. Only a single rule may have several places per symbol.
        self._slot = np.arange(rules * symbols) if rules > 1 else book.symbol
        self.earned = np.zeros((rows, rules))
        self.total_traded = np.zeros(rules)
        self.refused = np.zeros((rows, rules), dtype=np.intp)
        self.closed = book.closed
        # The values of every row are stored for a single rule only: those of a sweep would fill the memory.
        is_single = rules == 1
        self.figures = np.zeros((len(FIGURES), rows, symbols)) if is_single else None
        self.legs = np.full((rows, 2, book.symbol.size), -1, dtype=np.int16) if is_single else None

    def net(self) -> Floats:
        """Return the earnings of each rule in this row so far, summed over symbols [USD]."""
        earned = self.funding + self.price - self.fees - self.slippage
        return np.asarray(earned.reshape(self._shape).sum(axis=1))

    def add(self, figure: Floats, at: Indices, amounts: Floats) -> None:
        """Add the amounts at some places to one of the sums of this row."""
        np.add.at(figure, self._slot[at], amounts)

    def rule_of(self, at: Indices) -> Indices:
        """Return the rule of each place."""
        return self._slot[at] // self._shape[1]

    def finish(self, row: int, legs: Indices) -> None:
        """Store the sums of a row, and start the next row."""
        self.earned[row] = self.net()
        self.total_traded += self.traded.reshape(self._shape).sum(axis=1)
        if self.figures is not None and self.legs is not None:
            self.figures[:, row] = self._row
            self.legs[row] = legs
        self._row[:] = 0.0


class _Now(NamedTuple):
    """The current row of the simulation."""

    row: int
    hours: float
    fills: Fills
    tradable: Bools
    interval: Floats


def _book_of(given: Setting, rules: Sequence[Any], shape: tuple[int, int]) -> Book:
    """Return the empty positions of rules: a place for each rule and symbol."""
    if isinstance(rules[0], Portfolio):
        if given.contracts is not None:
            raise ValueError(_CONTRACTS_NEED)
        return Accounts(rules[0].on(given.market), shape, given.account)
    symbol = np.tile(np.arange(shape[0]), len(rules))
    if given.contracts is not None:
        return CoinBook(symbol, shape, given.account, given.contracts)
    return Book(symbol, shape, given.account)


def simulate(given: Setting, rules: Sequence[Any]) -> Journal:
    """Run rules over all rows, each with the full capital; a `Portfolio` is run separately.

    Positions open at the last row are closed there.
    """
    market = given.market
    account = given.account
    rows = market.since.size
    shape = (len(market.symbols), len(market.venues))
    book = _book_of(given, rules, shape)
    journal = Journal(rows, len(rules), shape[0], book)
    knowledge = Knowledge(market, given.latency)
    stack = RuleStack(rules)
    marks = np.ones(shape)
    accrual = np.full(marks.shape, np.nan), np.full(marks.shape, -np.inf)
    equity = np.full(len(rules), account.capital, dtype=np.float64)
    for row in range(rows):
        # 1. Find the venues at which orders can be filled at this row.
        costs, tradable = given.slippage.at(market.times[row])
        if market.prices is not None:
            marks = np.where(market.prices.row(row) > 0.0, market.prices.row(row), np.nan)
            tradable = book.tradable(tradable, marks)
        now = _Now(row, market.since[row], Fills(marks, costs), tradable, knowledge.interval)

        # 2. Apply payments and marks, then liquidate at these marks.
        _earn(book, market, now, accrual, journal)
        if market.prices is not None:
            _close(book, now, book.unmarked_pairs(now.hours), Reason.NO_MARK, journal)
            lost = book.lost_legs()  # both legs are closed, because the other one would be unhedged
            places = np.flatnonzero(lost.any(axis=0))
            _close(book, now, places, Reason.LIQUIDATION, journal, lost[:, places])
            book.transfer(now.hours, float((equity + journal.net())[0]))

        # 3. Call the rule with the rows up to now, and fill its trades at this row.
        knowledge.advance(now.hours)
        if row == rows - 1:
            _close(book, now, book.held, Reason.END, journal)
        elif isinstance(book, Accounts):
            _resize(book, now, market.times, float(equity[0]), journal)
        else:
            target = stack.targets(knowledge, row, book.legs, book.opened, tradable, account.leg_usd)
            _follow(book, now, target, equity, journal)
        equity += journal.net()
        journal.finish(row, book.legs)
    if isinstance(account.maintenance, MaintenanceTiers) and (notice := account.maintenance.beyond_notice()):
        warn_caller(notice)
    return journal


def _earn(book: Book, market: Market, now: _Now, accrual: tuple[Floats, Floats], journal: Journal) -> None:
    """Mark the positions and pay due amounts. Orders filled at this row earn from the next row on.

    `accrual` has the last sampled rate of each series [bps/8h] and its time [h]. It is updated in place.
    """
    # 1. Mark the open pairs.
    held = book.held
    row = now.row
    if held.size:
        passed = now.hours - market.since[max(row - 1, 0)]
        journal.add(journal.price, held, book.mark_to(now.fills.mark, now.hours, passed))
    # 2. Pay settlements, which have an interval.
    rates = market.rates.row(row)
    if market.interval is not None:
        paid = book.settle(rates, market.interval.row(row), now.hours)
        journal.add(journal.funding, held, paid)
        return

    # 3. Accrue sampled rates since the previous row, each until it is `market.limit` hours old.
    last_rate, last_time = accrual
    if held.size and row:
        before = market.since[row - 1]
        hours = np.clip(np.minimum(now.hours, last_time + market.limit) - before, 0.0, None)
        journal.add(journal.funding, held, book.accrue(last_rate, hours, now.hours - before))
    has_rate = np.isfinite(rates)
    np.copyto(last_rate, rates, where=has_rate)
    last_time[has_rate] = now.hours


def _close(
    book: Book, now: _Now, at: Indices, reason: Reason, journal: Journal, lost: Bools | None = None
) -> None:
    """Close the pairs at some places and book their costs; `lost` masks liquidated legs."""
    if at.size:
        due = book.of_legs(now.interval, at)
        _enter(journal, at, book.close(at, now.row, now.hours, now.fills, reason, lost, due))


def _follow(book: Book, now: _Now, target: Target, before: Floats, journal: Journal) -> None:
    """Trade to the target in the order of descending score, within the capital of each rule."""
    # 1. Close pairs that the rule dropped.
    wanted = np.stack([target.long, target.short])
    changes = (wanted != book.legs).any(axis=0)
    _close(book, now, np.flatnonzero(changes & (book.legs[0] >= 0)), Reason.RULE, journal)
    enters = np.flatnonzero(changes & (wanted[0] >= 0))
    if not enters.size:
        return

    # 2. Select the new pairs that can be filled, by descending score.
    symbol = book.symbol[enters]
    fills = now.tradable[symbol, wanted[:, enters]].all(axis=0) & book.account.possible(wanted[:, enters])
    filled = enters[fills]
    ranked = filled[np.lexsort((-target.score[filled], journal.rule_of(filled)))]

    # 3. Open them for each rule while it has capital.
    rules = before.size
    used = np.bincount(journal.rule_of(book.held), book.margin_used()[book.held], minlength=rules)
    free = before + journal.net() - used
    rule = journal.rule_of(ranked)
    needs = _cumulative(book.account.margins(wanted[:, ranked]).sum(axis=0), rule, rules)
    # Tolerance, so that rounding of sums does not reject the last pair.
    able = ranked[needs * (1.0 - 1e-9) <= free[rule]]
    refused = np.bincount(journal.rule_of(enters), minlength=rules)
    journal.refused[now.row] = refused - np.bincount(journal.rule_of(able), minlength=rules)
    if able.size:
        traded = book.open(able, wanted[:, able], book.account.leg_usd, now.row, now.hours, now.fills)
        _enter(journal, able, traded)


def _cumulative(amounts: Floats, rule: Indices, rules: int) -> Floats:
    """Return the running sum of the amounts of each rule; amounts of one rule are adjacent."""
    count = np.bincount(rule, minlength=rules)
    place = np.arange(rule.size) - (np.cumsum(count) - count)[rule]
    table = np.zeros((rules, int(np.max(count, initial=0))))
    table[rule, place] = amounts
    return np.asarray(np.cumsum(table, axis=1)[rule, place])


def _resize(book: Accounts, now: _Now, times: Any, before: float, journal: Journal) -> None:
    """Trade to new sizes for the current equity, and set the accounts' collateral."""
    sizes = book.sizes
    place = sizes.due(times[now.row], times[max(now.row - 1, 0)])
    if place is None:
        return
    # 1. Close pairs of size 0; the sizes scale with the equity.
    scale = max(before + float(journal.net()[0]), 0.0) / sizes.capital
    target_usd = scale * sizes.leg_usd[place]
    is_open = book.legs[0] >= 0
    _close(book, now, np.flatnonzero(is_open & (target_usd <= 0.0)), Reason.RULE, journal)

    # 2. Trade the pairs whose size differs from the target by more than the band.
    is_open = book.legs[0] >= 0
    current_usd = book.coins * book.mark.mean(axis=0)
    changes = np.flatnonzero(np.abs(target_usd - current_usd) > sizes.band * current_usd)
    legs = sizes.legs[:, changes]
    can_trade = now.tradable[sizes.symbol[changes], legs].all(axis=0) & book.account.possible(legs)
    traded = changes[can_trade]
    journal.refused[now.row, 0] = changes.size - traded.size
    resized = traded[is_open[traded]]
    opened = traded[~is_open[traded]]
    if resized.size:
        _enter(journal, resized, book.resize(resized, target_usd[resized], now.fills))
    if opened.size:
        costs = book.open(opened, sizes.legs[:, opened], target_usd[opened], now.row, now.hours, now.fills)
        _enter(journal, opened, costs)

    # 3. Set the accounts' collateral to the new sizes.
    book.collateral = scale * sizes.collateral_usd[place]
    book.allot(now.hours, before + float(journal.net()[0]))


def _enter(journal: Journal, at: Indices, trade: tuple[Floats, Any, Any]) -> None:
    """Add notional, fees and slippage of trades [USD] to the sums of the row."""
    for total, amount in zip((journal.traded, journal.fees, journal.slippage), trade, strict=True):
        journal.add(total, at, amount)


_MAX_RULES = 128
"""Maximum number of rules in one loop, so that their positions fit into the processor's cache."""


@typed
def sweep(panel: Panel, rules: Mapping[str, Any], costs: Costs, **options: Any) -> pd.DataFrame:
    """Backtest several rules on the same data and deflate the Sharpe ratio of the best.

    Parameters
    ----------
    panel, costs
        As in `carry`.
    rules
        The rules by name, a row of the result for each.
    **options
        Further arguments of `carry`, the same for all.

    Returns
    -------
    DataFrame
        One row per rule, in the given order: ``rule``, ``net_usd``, ``apr``, ``sharpe`` (annualised, from
        daily returns assuming independence) and ``sharpe_adjusted`` (for dependence, as in `carry`),
        ``max_drawdown``, ``turnover``, ``liquidations``, ``trades``, ``days`` (whole UTC days), and
        ``deflated_sharpe``: the probability that the rule has skill, given that it may be the best of all
        these and that daily carry is autocorrelated; ``deflated_if_independent`` is the same for independent
        days, and too high otherwise. It applies to the row with the highest Sharpe ratio, and is a lower
        bound for the other rows. ``attrs["best"]`` names that row, ``attrs["trials"]`` counts the rules that
        traded.

    Raises
    ------
    TypeError, ValueError
        As `carry`; `rules` is empty.

    Examples
    --------
    >>> backtest = dd.analysis.backtest
    >>> rates = dd.funding.history("BTC", "10d", venues=["binance", "hyperliquid", "okx"])
    >>> rules = {f"from {level} bps": backtest.SpreadThreshold(level) for level in (0.5, 1.0, 2.0)}
    >>> table = backtest.sweep(rates, rules, backtest.Costs(fee_bps=1.0))
    >>> table["rule"].tolist()
    ['from 0.5 bps', 'from 1.0 bps', 'from 2.0 bps']
    """
    if not rules:
        raise ValueError("rules must have at least one rule to compare")
    for name, rule in rules.items():
        if not callable(rule) and not isinstance(rule, Portfolio):
            raise TypeError(f"rules[{name!r}] must be a rule, a function or a Portfolio, got {rule!r}")
    given = setting(panel, costs, **options)
    lines: dict[str, dict[str, Any]] = {}
    returns: dict[str, Floats] = {}
    # 1. Simulate the rules, several in one loop.
    for names in _together(rules):
        journal = simulate(given, [rules[name] for name in names])
        trades, liquidations = _trades_of(journal, len(names))
        for place, name in enumerate(names):
            equity, drawdown = equity_of(journal.earned[:, place], given.account.capital)
            traded = float(journal.total_traded[place])
            lost = int(liquidations[place])
            totals = totals_of(given.market, equity, drawdown, given.account.capital, traded, lost)
            returns[name] = returns_by_day(given.market.times, equity, given.account.capital)
            counts = {"trades": int(trades[place]), "days": returns[name].size}
            lines[name] = {"rule": name} | totals._asdict() | counts
    table = pd.DataFrame([lines[name] for name in rules])

    # 2. Deflate their Sharpe ratios by the number of rules that traded.
    daily = table["sharpe"].to_numpy() / np.sqrt(DAYS_PER_YEAR)
    tried = np.isfinite(daily)
    variance = float(np.var(daily[tried], ddof=1)) if tried.sum() > 1 else 0.0
    trials = int(tried.sum())
    for column, dependent in (("deflated_sharpe", True), ("deflated_if_independent", False)):
        table[column] = np.nan
        for place, name in enumerate(rules):
            deflated = _deflated(daily[place], returns[name], trials, variance, dependent=dependent)
            table.loc[place, column] = deflated
    best = str(table.loc[table["sharpe"].idxmax(), "rule"]) if tried.any() else ""
    table.attrs = {"best": best, "trials": trials, **given.attrs}
    return table


def _together(rules: Mapping[str, Any]) -> list[list[str]]:
    """Group the names of rules that are simulated in one loop.

    A `Portfolio` is simulated alone, because it has its own accounts.
    """
    alone: list[list[str]] = []
    blocks: list[list[str]] = []
    for name, rule in rules.items():
        if isinstance(rule, Portfolio):
            alone.append([name])
        elif blocks and len(blocks[-1]) < _MAX_RULES:
            blocks[-1].append(name)
        else:
            blocks.append([name])
    return blocks + alone


def _trades_of(journal: Journal, rules: int) -> tuple[Indices, Indices]:
    """Return the number of trades and of liquidations of each rule."""
    none = np.empty(0, dtype=np.intp)
    places = np.concatenate([none, *(closed["place"] for closed in journal.closed)])
    reasons = np.concatenate([none, *(closed["reason"] for closed in journal.closed)])
    rule = journal.rule_of(places)
    lost = rule[reasons == Reason.LIQUIDATION]
    return np.bincount(rule, minlength=rules), np.bincount(lost, minlength=rules)


def _deflated(sharpe: float, returns: Any, trials: int, variance: float, *, dependent: bool) -> float:
    """Return the deflated Sharpe ratio of daily `returns`; with `dependent` for autocorrelated days."""
    from scipy import stats  # imported here because it is slow and only sweeps need it

    if not np.isfinite(sharpe):
        return float("nan")
    ratio, degrees = long_run_ratio(returns) if dependent else (1.0, 0)
    return deflated_sharpe_ratio(
        float(sharpe),
        trials=trials,
        variance=variance,
        observations=int(returns.size),
        skewness=float(stats.skew(returns)),
        kurtosis=float(stats.kurtosis(returns, fisher=False)),
        long_run_ratio=ratio,
        degrees=degrees or np.inf,
    )


@typed
def deflated_sharpe_ratio(
    sharpe: float,
    *,
    trials: int,
    variance: float,
    observations: int,
    skewness: float = 0.0,
    kurtosis: float = 3.0,
    long_run_ratio: float = 1.0,
    degrees: float = np.inf,
) -> float:
    """Compute the probability that the best of several trials has a true Sharpe ratio above zero.

    Parameters
    ----------
    sharpe
        Sharpe ratio of the best trial, per observation: an annual one over √365 for daily returns.
    trials
        Number of independent trials from which it is selected. Trials of a grid are correlated, so counting
        all of them is conservative.
    variance
        Variance of the trials' Sharpe ratios, per observation.
    observations
        Number of returns of the best trial.
    skewness, kurtosis
        Moments of its returns; the kurtosis of a normal distribution is 3.
    long_run_ratio, degrees
        Long-run variance of its returns over their variance, which is 1 for independent returns, and the
        degrees of freedom of that estimate.

    Returns
    -------
    float
        From 0 to 1; 0.95 is a usual threshold. NaN where an argument is NaN.

    Raises
    ------
    ValueError
        Fewer than one trial or two observations, or a negative variance.

    Notes
    -----
    Bailey and López de Prado, *The deflated Sharpe ratio*, Journal of Portfolio Management 40 (5), 2014. The
    probabilistic Sharpe ratio ``Φ((SR − SR₀) √(T − 1) / √(1 − γ₃ SR + (γ₄ − 1) SR² / 4))`` against the
    expected maximum of N trials without skill, ``SR₀ = √V ((1 − γ) Φ⁻¹(1 − 1/N) + γ Φ⁻¹(1 − 1/(N e)))``,
    where γ is Euler's constant. One trial is not deflated: SR₀ = 0. For dependent returns T − 1 is divided by
    the ratio of the variances, and Φ is the distribution function of Student's t: without skill about 5 % of
    single trials then pass 0.95 (measured in docs/backtest.md).

    Examples
    --------
    Their example: 2.5 a year over five years of 250 days, the best of 100 trials.

    >>> year = 250
    >>> from derivdata.analysis.backtest.engine import deflated_sharpe_ratio
    >>> chance = deflated_sharpe_ratio(
    ...     2.5 / year**0.5, trials=100, variance=0.5 / year, observations=1250, skewness=-3.0, kurtosis=10.0
    ... )
    >>> round(chance, 4)
    0.9004
    """
    if trials < 1 or observations < 2 or variance < 0.0:
        raise ValueError(
            f"trials, observations and variance must be at least 1, 2 and 0, got {trials!r}, "
            f"{observations!r} and {variance!r}"
        )
    highest = 0.0
    if trials > 1:
        # Expected maximum Sharpe ratio of independent trials without skill, assuming normal returns.
        highest = np.sqrt(variance) * (
            (1.0 - np.euler_gamma) * ndtri(1.0 - 1.0 / trials)
            + np.euler_gamma * ndtri(1.0 - 1.0 / (trials * math.e))
        )
    spread = 1.0 - skewness * sharpe + (kurtosis - 1.0) / 4.0 * sharpe**2
    score = (sharpe - highest) * np.sqrt((observations - 1.0) / long_run_ratio) / np.sqrt(spread)
    return float(ndtr(score) if np.isinf(degrees) else stdtr(degrees, score))
