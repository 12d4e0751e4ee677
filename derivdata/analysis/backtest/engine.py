"""The loop over rows: payments and marks first, then liquidations, then the rule, then its trades."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from derivdata.analysis.backtest.book import Account, Book, Fills
from derivdata.analysis.backtest.market import Market
from derivdata.analysis.backtest.past import Knowledge, Past, Target, target_of
from derivdata.analysis.backtest.results import Reason
from derivdata.analysis.backtest.slippages import Slippage
from derivdata.support.arrays import Bools, Floats, Indices

__all__ = ["Journal", "simulate"]


class Journal(NamedTuple):
    """What happened at each row, over (row, symbol) [USD]; and every closed position."""

    funding: Floats
    price: Floats
    fees: Floats
    slippage: Floats
    traded: Floats
    legs: Any
    """Venues held after the row's trades, over (row, leg, symbol); −1 for none."""
    refused: Any
    """Entries at each row for which there was no capital, or no mark or depth."""
    closed: list[dict[str, Any]]


class _Now(NamedTuple):
    """The row that is simulated."""

    row: int
    hours: float
    fills: Fills
    tradable: Bools
    interval: Floats


def simulate(
    market: Market, rule: Callable[[Past], Any], account: Account, slippage: Slippage, latency: float
) -> Journal:
    """Run a rule over all rows; positions that are left at the last row are closed there."""
    rows, symbols = market.since.size, len(market.symbols)
    book, knowledge = Book(symbols, account), Knowledge(market, latency)
    legs = np.full((rows, 2, symbols), -1, dtype=np.int16)
    funding, price, fees, slipped, traded = (np.zeros((rows, symbols)) for _ in range(5))
    refused = np.zeros(rows, dtype=np.intp)
    journal = Journal(funding, price, fees, slipped, traded, legs, refused, book.closed)
    marks = np.full(knowledge.last.shape, np.nan if market.prices is not None else 1.0)
    accrual = np.full(marks.shape, np.nan), np.full(marks.shape, -np.inf)
    equity = account.capital
    for row in range(rows):
        costs, tradable = slippage.at(market.times[row])
        if market.prices is not None:
            prices = market.prices.row(row)
            priced = np.isfinite(prices) & (prices > 0.0)
            np.copyto(marks, prices, where=priced)
            tradable = tradable & priced
        now = _Now(row, market.since[row], Fills(marks, costs), tradable, knowledge.interval)
        _earn(book, market, now, accrual, journal)
        if market.prices is not None:
            _liquidate(book, now, journal)
            book.transfer(now.hours)
        knowledge.advance(now.hours)
        if row == rows - 1:
            _close(book, now, book.held, Reason.END, journal)
        else:
            held_hours = np.where(book.legs[0] >= 0, now.hours - book.opened, 0.0)
            past = Past(knowledge, row, book.legs, held_hours, now.tradable, account.leg_usd)
            target = target_of(rule(past), past)
            before = journal.fees[row].sum() + journal.slippage[row].sum()
            earned = journal.funding[row].sum() + journal.price[row].sum()
            _follow(book, now, target, equity + earned - before, journal)
        equity += journal.funding[row].sum() + journal.price[row].sum()
        equity -= journal.fees[row].sum() + journal.slippage[row].sum()
        journal.legs[row] = book.legs
    return journal


def _earn(book: Book, market: Market, now: _Now, accrual: tuple[Floats, Floats], journal: Journal) -> None:
    """Mark the positions and pay them what is due; an order filled at this row earns from the next one on."""
    held, row = book.held, now.row
    if held.size:
        journal.price[row, held] = book.mark_to(now.fills.mark)
    rates = market.rates.row(row)
    if market.interval is not None:
        if held.size:
            journal.funding[row, held] = book.settle(rates, market.interval.row(row), now.hours)
        return
    last, at = accrual
    if held.size and row:
        before = market.since[row - 1]
        hours = np.clip(np.minimum(now.hours, at + market.limit) - before, 0.0, None)
        journal.funding[row, held] = book.accrue(last, hours, now.hours - before)
    there = np.isfinite(rates)
    np.copyto(last, rates, where=there)
    at[there] = now.hours


def _liquidate(book: Book, now: _Now, journal: Journal) -> None:
    """Close pairs of which a leg is below its maintenance margin: the other leg would be unhedged."""
    lost = book.lost_legs()
    at = np.flatnonzero(lost.any(axis=0))
    _close(book, now, at, Reason.LIQUIDATION, journal, lost[:, at])


def _close(
    book: Book, now: _Now, at: Indices, reason: Reason, journal: Journal, lost: Bools | None = None
) -> None:
    if at.size:
        due = now.interval[at, book.legs[:, at]]
        _enter(journal, now.row, at, book.close(at, now.row, now.hours, now.fills, reason, lost, due))


def _follow(book: Book, now: _Now, target: Target, equity: float, journal: Journal) -> None:
    """Trade from the positions to the target, the highest scores first, as far as the capital reaches."""
    wanted = np.stack([target.long, target.short])
    changes = (wanted != book.legs).any(axis=0)
    leaves = (changes & (book.legs[0] >= 0)).nonzero()[0]
    if leaves.size:
        paid = journal.fees[now.row].sum() + journal.slippage[now.row].sum()
        _close(book, now, leaves, Reason.RULE, journal)
        equity -= journal.fees[now.row].sum() + journal.slippage[now.row].sum() - paid
    enters = (changes & (wanted[0] >= 0)).nonzero()[0]
    if not enters.size:
        return
    fills = now.tradable[enters, wanted[:, enters]].all(axis=0)
    ranked = enters[fills][np.argsort(-target.score[enters[fills]], kind="stable")]
    free = equity - book.margin_used()
    able = ranked[: max(int(np.floor(free / book.account.pair_margin + 1e-9)), 0)]
    journal.refused[now.row] = enters.size - able.size
    if able.size:
        traded = book.open(able, wanted[:, able], now.row, now.hours, now.fills)
        _enter(journal, now.row, able, traded)


def _enter(journal: Journal, row: int, at: Indices, trade: tuple[Floats, Any, Any]) -> None:
    for total, part in zip((journal.traded, journal.fees, journal.slippage), trade, strict=True):
        total[row, at] += part
