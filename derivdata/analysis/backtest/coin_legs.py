"""Legs that are settled in a coin: inverse and quanto contracts.

An inverse contract has a fixed number of USD and is settled in its own coin: a long position of Q USD opened
at P gains ``Q (1/P − 1/P')`` coins. A quanto contract pays m coins of a third currency for each USD of price
change, with ``m = Q / (P S)`` where S is the price of that coin at the entry. Payments and fees are in the
same coin. The earnings of a leg are its coins at their current price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from derivdata.analysis.backtest.book import DIRECTION, Account, Book, Fills
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.units import BPS, REFERENCE_HOURS


class Contracts(NamedTuple):
    """Settlement of the contracts of each venue."""

    inverse: Bools
    """(venue): whether contracts are settled in their underlying coin."""
    settle: Indices
    """(venue): index of the settlement coin's symbol for a quanto contract, −1 for others."""

    @property
    def in_coin(self) -> Bools:
        """(venue): settled in a coin."""
        return np.asarray(self.inverse | (self.settle >= 0))


def contracts_of(kinds: Mapping[str, str], symbols: Sequence[str], venues: Sequence[str]) -> Contracts:
    """Return the contracts of venues from their kinds, ``"linear"``, ``"inverse"`` or ``"quanto:BTC"``."""
    inverse = np.zeros(len(venues), dtype=bool)
    settle = np.full(len(venues), -1, dtype=np.intp)
    for venue, kind in kinds.items():
        if venue not in venues:
            raise ValueError(
                f"contracts has the venue {venue!r}, which the panel does not have; its venues: "
                f"{', '.join(venues)}"
            )
        place = list(venues).index(venue)
        name, _, coin = kind.partition(":")
        if kind == "inverse":
            inverse[place] = True
        elif name == "quanto" and coin:
            if coin not in symbols:
                raise ValueError(
                    f"contracts[{venue!r}]={kind!r}: the panel must include {coin}, whose price values the "
                    "settlement coin"
                )
            settle[place] = list(symbols).index(coin)
        elif kind != "linear":
            raise ValueError(
                f"contracts[{venue!r}] must be 'linear', 'inverse' or 'quanto:' and the settlement coin, "
                f"such as 'quanto:BTC', got {kind!r}"
            )
    return Contracts(inverse, settle)


class CoinBook(Book):
    """Positions with some legs that are settled in a coin.

    Coins stay until the exit: the sum of payments and fees gains and loses with the coin's price, which
    counts as price P&L. The price of the collateral is not included.
    """

    def __init__(
        self, symbol: Indices, shape: tuple[int, int], account: Account, contracts: Contracts
    ) -> None:
        super().__init__(symbol, shape, account)
        self.contracts = contracts
        self.balance = np.zeros((2, symbol.size))
        """Coins from payments minus fees and slippage; 0 for legs settled in USD."""
        self.settle_entry = np.ones((2, symbol.size))
        self.settle_now = np.ones((2, symbol.size))
        """Price of the settlement coin [USD]; 1 for legs that are settled in USD."""

    def _settle_marks(self, marks: Floats, at: Indices, legs: Any) -> Floats:
        """Return the prices of the legs' settlement coins [USD]."""
        own = marks[self.symbol[at], legs]
        third = marks[np.maximum(self.contracts.settle[legs], 0), legs]
        quanto = self.contracts.settle[legs] >= 0
        return np.asarray(np.where(self.contracts.inverse[legs], own, np.where(quanto, third, 1.0)))

    def _price_coin(self, at: Indices) -> Floats:
        """Return the price gain of the legs since the entry [settlement coin; USD for linear legs]."""
        legs = self.legs[:, at]
        coins = self.coins[at]
        entry = self.entry[:, at]
        mark = self.mark[:, at]
        linear = coins / self.settle_entry[:, at] * (mark - entry)  # of linear legs settle_entry is 1
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = coins * entry * (1.0 / entry - 1.0 / mark)
        return np.asarray(DIRECTION * np.where(self.contracts.inverse[legs], inverse, linear))

    def _value(self, at: Indices) -> Floats:
        """Return the earnings of the legs [USD]: price P&L, and coins of payments minus fees."""
        return np.asarray((self._price_coin(at) + self.balance[:, at]) * self.settle_now[:, at])

    def _notional(self, at: Indices) -> Floats:
        """Return the legs' notional [USD], fixed for inverse legs."""
        legs = self.legs[:, at]
        linear = self.coins[at] * self.mark[:, at] * self.settle_now[:, at] / self.settle_entry[:, at]
        inverse = self.coins[at] * self.entry[:, at]
        return np.asarray(np.where(self.contracts.inverse[legs], inverse, linear))

    def tradable(self, tradable: Bools, marks: Floats) -> Bools:
        """Return a mask of positions that can be opened, which also need the settlement coin's price."""
        allowed = super().tradable(tradable, marks)
        settle = self.contracts.settle
        quanto = np.flatnonzero(settle >= 0)
        allowed[:, quanto] &= np.isfinite(marks[settle[quanto], quanto])
        return allowed

    def mark_to(self, marks: Floats, now: float, passed: float) -> Floats:
        """Take in the marks of a row as `Book.mark_to` does; the coins of a leg are valued again."""
        held = self.held
        legs = self.legs[:, held]
        fresh = self.of_legs(marks, held)
        settle = self._settle_marks(marks, held, legs)
        both = (np.isfinite(fresh) & np.isfinite(settle)).all(axis=0)
        before = self._value(held)
        self.mark[:, held] = np.where(both, fresh, self.mark[:, held])
        self.settle_now[:, held] = np.where(both, settle, self.settle_now[:, held])
        gained = (self._value(held) - before).sum(axis=0)
        self.price[held] += gained
        age = now - self.marked_at[held]
        self.unmarked[held] += np.clip(np.minimum(age - self.account.mark_step, passed), 0.0, None)
        self.marked_at[held] = np.where(both, now, self.marked_at[held])
        return np.asarray(gained)

    def _receive(self, held: Indices, rate: Floats, hours: Floats) -> Floats:
        received = -DIRECTION * rate * hours / REFERENCE_HOURS / BPS * self._notional(held)
        self.leg_funding[:, held] += received
        self.funding[held] += received.sum(axis=0)
        self._book_coins(held, received)
        return np.asarray(received.sum(axis=0))

    def _book_coins(self, at: Indices, usd: Floats) -> None:
        """Add amounts [USD] to the coins of coin-settled legs."""
        in_coin = self.contracts.in_coin[self.legs[:, at]]
        self.balance[:, at] += np.where(in_coin, usd / self.settle_now[:, at], 0.0)

    def lost_legs(self) -> Bools:
        """Tell which legs have less left than their maintenance margin."""
        margined = (self.legs >= 0) & ~self.account.owned[self.legs]
        notional = self._notional(np.arange(self.symbol.size))
        coins = notional / np.where(self.mark > 0.0, self.mark, 1.0)
        needs = self.account.maintenance_usd(self.symbol, self.legs, coins, notional)
        return np.asarray(margined & (self._equity() < needs))

    def _equity(self) -> Floats:
        every = np.arange(self.symbol.size)
        in_coin = self.contracts.in_coin[self.legs]
        paid = np.where(in_coin, 0.0, self.leg_funding)  # of coin legs the value has it
        return np.asarray(self.margin + self._value(every) + paid)

    def open(
        self, at: Indices, legs: Any, leg_usd: Any, row: int, now: float, fills: Fills
    ) -> tuple[Floats, Any, Any]:
        """Open pairs as `Book.open` does."""
        settle = self._settle_marks(fills.mark, at, legs)
        self.settle_entry[:, at] = settle
        self.settle_now[:, at] = settle
        self.balance[:, at] = 0.0
        return super().open(at, legs, leg_usd, row, now, fills)

    def close(
        self, at: Indices, row: int, now: float, fills: Fills, reason: int, lost: Bools | None, due: Floats
    ) -> tuple[Floats, Any, Any]:
        """Close pairs as `Book.close`, and record the earnings of coin-settled legs in their coin."""
        in_coin = self.contracts.in_coin[self.legs[:, at]]
        by_price = self._price_coin(at)
        traded = super().close(at, row, now, fills, reason, lost, due)
        earned = np.where(in_coin, by_price + self.balance[:, at], np.nan)
        self.closed[-1] |= {"long_coin": earned[0], "short_coin": earned[1]}
        return traded

    def _trade(
        self, at: Indices, coins: Floats, side: Indices, fills: Fills, lost: Bools | None
    ) -> tuple[Floats, Any, Any]:
        where = (side, self.symbol[at], self.legs[:, at])
        notional = self._notional(at)
        fee = self.account.fees[where]
        if lost is not None:
            fee = fee + np.where(lost, self.account.liquidation, 0.0)
        fees = notional * fee / BPS
        slippage = notional * fills.slippage[where] / BPS
        self._book_coins(at, -(fees + slippage))
        self.fees[at] += fees.sum(axis=0)
        self.slippage[at] += slippage.sum(axis=0)
        return np.asarray(notional.sum(axis=0)), fees.sum(axis=0), slippage.sum(axis=0)
