"""Positions of a backtest: pairs as arrays over (leg, place), sizes, and accounts with shared collateral.

The long leg is row 0, the short leg row 1. Both legs have the same number of coins, so the pair gains or
loses only if the prices of the two venues diverge.

Legs may be settled in a coin (`CoinBook`). An inverse contract has a fixed number of USD and is settled in
its own coin: a long position of Q USD opened at P gains ``Q (1/P − 1/P')`` coins. A quanto contract pays m
coins of a third currency for each USD of price change, with ``m = Q / (P S)`` where S is the price of that
coin at the entry. Payments and fees are in the same coin. The earnings of a leg are its coins at their
current price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.backtest.market import Market
from derivdata.analysis.funding.ledger import LATE
from derivdata.analysis.panels import labels_of, positive, require_times, require_variables
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.tables.venue_facts import MaintenanceTiers
from derivdata.units import BPS, REFERENCE_HOURS

_ROUNDING = 1e-9  # intervals
DIRECTION = np.array([[1.0], [-1.0]])  # sign of a leg's profit if its price rises
_ENTRY = np.array([[0], [1]])  # sides of the legs' trades: the long leg buys (0), the short leg sells (1)
_EXIT = np.array([[1], [0]])


class Account(NamedTuple):
    """Capital of a backtest, and the margin of its legs."""

    capital: float
    leg_usd: float
    leverage: float
    maintenance: float | MaintenanceTiers
    transfer_hours: float
    fees: Floats
    """[bps] over (buy, sell), symbols and venues."""
    liquidation: float
    mark_step: float
    """Usual hours between marks. Longer gaps count as unmarked time."""
    max_mark_age: float
    """Maximum hours without a mark of both legs before a pair is closed."""

    owned: Bools
    """Venues whose legs are coins bought at their full price: long only, without margin."""
    borrowed: Bools
    """Venues whose legs are coins that are borrowed and sold: short only."""

    def margins(self, legs: Any) -> Floats:
        """Return the initial margin of legs [USD], for owned coins their full price."""
        return np.where(self.owned[legs], self.leg_usd, self.leg_usd / self.leverage)

    def maintenance_usd(self, symbols: Indices, legs: Indices, coins: Floats, notional: Floats) -> Floats:
        """Return the maintenance margin of legs [USD], with tiers by the size of each leg."""
        if isinstance(self.maintenance, MaintenanceTiers):
            return np.asarray(self.maintenance.rates(symbols, legs, coins, notional) * notional)
        return np.asarray(self.maintenance * notional)

    def possible(self, legs: Any) -> Bools:
        """Return a mask of pairs (leg, pair) that can be opened."""
        return np.asarray(~(self.owned[legs[1]] | self.borrowed[legs[0]]))


class Fills(NamedTuple):
    """Data of one row: marks, and slippage by (side, symbol, venue)."""

    mark: Floats
    slippage: Floats


class Book:
    """Positions, and their earnings since the entry [USD].

    A place has at most one pair at a time. `symbol` contains the index of its symbol.
    """

    def __init__(self, symbol: Indices, shape: tuple[int, int], account: Account) -> None:
        self.account = account
        self.symbol = symbol
        places = symbol.size
        self.legs = np.full((2, places), -1, dtype=np.intp)
        self.opened = np.zeros(places)
        self.coins = np.zeros(places)
        self.entry = np.zeros((2, places))
        self.mark = np.zeros((2, places))
        self.margin = np.zeros((2, places))
        self.leg_funding = np.zeros((2, places))
        self.missing = np.zeros((2, places))
        self.paid_at = np.full(shape, -np.inf)
        """Hours of each series' last payment, also before an entry; the next payment is due from there."""
        self.paid_hours = np.full(shape, np.inf)
        """Interval of each series' last payment."""
        self.transferred = np.zeros(places)
        self.marked_at = np.zeros(places)
        self.unmarked = np.zeros(places)
        self.entry_row = np.zeros(places, dtype=np.intp)
        self.entry_usd = np.zeros(places)
        self.exit_usd = np.zeros(places)
        self.funding = np.zeros(places)
        self.price = np.zeros(places)
        self.fees = np.zeros(places)
        self.slippage = np.zeros(places)
        self.closed: list[dict[str, Any]] = []

    @property
    def held(self) -> Indices:
        """Mask of places with a position."""
        return np.flatnonzero(self.legs[0] >= 0)

    def of_legs(self, table: Floats, at: Indices) -> Floats:
        """Return the values of an array (symbol, venue) at both legs of some places."""
        by_leg: Floats = table[self.symbol[at], self.legs[:, at]]
        return by_leg

    def tradable(self, tradable: Bools, marks: Floats) -> Bools:
        """Return a mask (symbol, venue) of contracts with a mark, in which a position can be opened."""
        return np.asarray(tradable & np.isfinite(marks))

    def mark_to(self, marks: Floats, now: float, passed: float) -> Floats:
        """Set the marks of a row, NaN if missing; return the gains [USD] of the open pairs.

        A pair is marked only if both legs have a mark. Otherwise the move of the market would count as a gain
        of one leg.
        """
        held = self.held
        fresh = self.of_legs(marks, held)
        both = np.isfinite(fresh).all(axis=0)
        new = np.where(both, fresh, self.mark[:, held])
        gained = self.coins[held] * (DIRECTION * (new - self.mark[:, held])).sum(axis=0)
        self.mark[:, held] = new
        self.price[held] += gained
        age = now - self.marked_at[held]
        self.unmarked[held] += np.clip(np.minimum(age - self.account.mark_step, passed), 0.0, None)
        self.marked_at[held] = np.where(both, now, self.marked_at[held])
        return np.asarray(gained)

    def unmarked_pairs(self, now: float) -> Indices:
        """Return the places whose legs have lacked a common mark for too long."""
        return np.flatnonzero((self.legs[0] >= 0) & (now - self.marked_at > self.account.max_mark_age))

    def settle(self, rates: Floats, interval: Floats, now: float) -> Floats:
        """Apply a row's settlements; return the payments to the open pairs [USD]."""
        # 1. Compute the payments of this row, and the payments that open legs missed since the last one.
        held = self.held
        rate = self.of_legs(rates, held)
        hours = self.of_legs(interval, held)
        due = np.isfinite(rate) & (hours > 0.0)
        before = self.of_legs(self.paid_hours, held)
        step = np.where(due, np.minimum(before, np.where(due, hours, 1.0)), 1.0)
        self.missing[:, held] += np.where(due, self._lacking(held, now - hours, step), 0.0)

        # 2. Store the time of each series' last payment, from which the next due time of later positions
        # follows.
        is_paid = np.isfinite(rates) & (interval > 0.0)
        self.paid_at[is_paid] = now
        self.paid_hours[is_paid] = interval[is_paid]
        return self._receive(held, np.where(due, rate, 0.0), np.where(due, hours, 0.0))

    def _lacking(self, at: Indices, until: Floats, interval: Floats) -> Floats:
        """Return the hours covered by missing payments that were due after the entry and up to `until`.

        Payments are due one interval apart, the last one at `until`. If the interval changed, the shorter one
        applies. A payment due at most half an interval after the series' last payment is not missing, because
        that payment was late.
        """
        since = np.maximum(self.of_legs(self.paid_at, at) + (LATE - 1.0) * interval, self.opened[at])
        return np.asarray(np.clip(np.ceil((until - since) / interval - _ROUNDING), 0.0, None) * interval)

    def accrue(self, rates: Floats, hours: Floats, passed: float) -> Floats:
        """Add the accrual of sampled rates since the previous row, over `hours` of the `passed` hours."""
        held = self.held
        rate = self.of_legs(rates, held)
        covered = self.of_legs(hours, held)
        covered = np.where(np.isfinite(rate), covered, 0.0)
        self.missing[:, held] += passed - covered
        return self._receive(held, np.where(covered > 0.0, rate, 0.0), covered)

    def _receive(self, held: Indices, rate: Floats, hours: Floats) -> Floats:
        """Book funding at a rate [bps/8h] over some hours, by leg; return its sum by place [USD]."""
        notional = self.coins[held] * self.mark[:, held]
        received = -DIRECTION * rate * hours / REFERENCE_HOURS / BPS * notional  # longs pay positive amounts
        self.leg_funding[:, held] += received
        self.funding[held] += received.sum(axis=0)
        return np.asarray(received.sum(axis=0))

    def lost_legs(self) -> Bools:
        """Return a mask of legs whose equity is below the maintenance margin."""
        margined = (self.legs >= 0) & ~self.account.owned[self.legs]
        needs = self.account.maintenance_usd(self.symbol, self.legs, self.coins, self.coins * self.mark)
        return np.asarray(margined & (self._equity() < needs))

    def _equity(self) -> Floats:
        """Return margin, unrealised P&L and funding of each leg [USD]."""
        unrealised = DIRECTION * self.coins * (self.mark - self.entry)
        return np.asarray(self.margin + unrealised + self.leg_funding)

    def transfer(self, now: float, equity: float) -> None:
        """Divide the equity evenly between the legs of a pair, if the last transfer is long enough ago."""
        # Gains of owned coins cannot be transferred.
        due = (self.legs[0] >= 0) & ~self.account.owned[self.legs[0]]
        due &= now - self.transferred >= self.account.transfer_hours
        if due.any():
            left = self._equity()
            self.margin += np.where(due, left.mean(axis=0) - left, 0.0)
            self.transferred[due] = now

    def margin_used(self) -> Floats:
        """Return the initial margin of each open position [USD], by place."""
        margins = self.account.margins(self.legs).sum(axis=0)
        return np.where(self.legs[0] >= 0, margins, 0.0)

    def open(
        self, at: Indices, legs: Any, leg_usd: Any, row: int, now: float, fills: Fills
    ) -> tuple[Floats, Any, Any]:
        """Open pairs; return traded notional, fees and slippage by place [USD]."""
        self.legs[:, at] = legs
        self.opened[at] = now
        self.entry_row[at] = row
        mark = self.of_legs(fills.mark, at)
        self.coins[at] = leg_usd / mark.mean(axis=0)
        self.entry[:, at] = self.mark[:, at] = mark
        self.margin[:, at] = self.account.margins(legs)
        self.leg_funding[:, at] = self.missing[:, at] = 0.0
        self.transferred[at] = self.marked_at[at] = now
        for amounts in (self.unmarked, self.exit_usd, self.funding, self.price, self.fees, self.slippage):
            amounts[at] = 0.0
        traded = self._trade(at, self.coins[at], _ENTRY, fills, None)
        self.entry_usd[at] = traded[0]
        return traded

    def resize(self, at: Indices, leg_usd: Floats, fills: Fills) -> tuple[Floats, Any, Any]:
        """Change the size of open pairs; return the same values as `open`."""
        mark = self.of_legs(fills.mark, at)
        before = self.coins[at]
        coins = leg_usd / mark.mean(axis=0)
        more = coins > before
        entry = self.entry[:, at]
        # A closed part realises its gain, which counts to the leg's equity as funding does. An added part
        # enters at the current mark.
        gained = DIRECTION * (before - coins) * (mark - entry)
        self.leg_funding[:, at] += np.where(more, 0.0, gained)
        self.entry[:, at] = np.where(more, (before * entry + (coins - before) * mark) / coins, entry)
        traded = self._trade(at, np.abs(coins - before), np.where(more, _ENTRY, _EXIT), fills, None)
        self.coins[at] = coins
        self.entry_usd[at] += np.where(more, traded[0], 0.0)
        self.exit_usd[at] += np.where(more, 0.0, traded[0])
        return traded

    def close(
        self, at: Indices, row: int, now: float, fills: Fills, reason: int, lost: Bools | None, due: Floats
    ) -> tuple[Floats, Any, Any]:
        """Close pairs at their marks; return traded notional, fees and slippage by place [USD].

        Parameters
        ----------
        lost
            Mask of liquidated legs.
        due
            Last known interval [h] of the legs' settlements, used to count missing payments.
        """
        # 1. Count the payments since the last one of each leg, if the next one is overdue. `until` is the due
        # time of the last of them; a leg without overdue payments gets its entry, and none are counted.
        interval = np.where(due > 0.0, due, 1.0)
        gap = now - self.of_legs(self.paid_at, at)
        overdue = (due > 0.0) & (gap > LATE * interval) & np.isfinite(gap)
        until = np.where(overdue, now - np.mod(np.where(overdue, gap, 0.0), interval), self.opened[at])
        self.missing[:, at] += self._lacking(at, until, interval)

        # 2. Trade, and record the position.
        traded = self._trade(at, self.coins[at], _EXIT, fills, lost)
        self.closed.append(
            {
                "place": at,
                "symbol": self.symbol[at],
                "long": self.legs[0, at],
                "short": self.legs[1, at],
                "entry_row": self.entry_row[at],
                "exit_row": np.full(at.size, row),
                "entry_usd": self.entry_usd[at],
                "exit_usd": self.exit_usd[at] + traded[0],
                "funding_usd": self.funding[at],
                "price_usd": self.price[at],
                "fees_usd": self.fees[at],
                "slippage_usd": self.slippage[at],
                "missing_hours": self.missing[:, at].sum(axis=0),
                "unmarked_hours": self.unmarked[at].copy(),
                "reason": np.full(at.size, reason),
            }
        )
        self.legs[:, at] = -1
        self.coins[at] = 0.0
        return traded

    def _trade(
        self, at: Indices, coins: Floats, side: Indices, fills: Fills, lost: Bools | None
    ) -> tuple[Floats, Any, Any]:
        """Charge the trade of some coins of both legs; return notional, fees and slippage by place [USD].

        `lost` masks liquidated legs, which pay the liquidation fee too.
        """
        where = (side, self.symbol[at], self.legs[:, at])
        notional = coins * self.mark[:, at]
        fee = self.account.fees[where]
        if lost is not None:
            fee = fee + np.where(lost, self.account.liquidation, 0.0)
        fees = (notional * fee / BPS).sum(axis=0)
        slippage = (notional * fills.slippage[where] / BPS).sum(axis=0)
        self.fees[at] += fees
        self.slippage[at] += slippage
        return np.asarray(notional.sum(axis=0)), fees, slippage


@dataclass(frozen=True, eq=False)
class Portfolio:
    """Hold pairs with the sizes of `derivdata.analysis.funding.portfolio`, several pairs per symbol.

    Used instead of a rule of `carry`, which then ignores ``leg_usd`` and ``leverage``: sizes and collateral
    scale with the equity. The legs on a venue share one account. If its equity is below `carry`'s
    ``maintenance`` of its legs' notional, the whole account is liquidated, and the other legs of its pairs
    are closed. Collateral is set to the requirement of the sizes when they change and at every
    ``transfer_every``, as far as the equity allows.

    Attributes
    ----------
    sizes
        Dims ``symbol``, ``pair`` and ``time``, with ``leg_usd`` and, over ``exchange`` and ``time``,
        ``collateral_usd``, both for a capital of ``attrs["capital_usd"]``; ``long`` and ``short`` along
        ``pair``. Sizes of a time apply from the first row at or after it.
    band
        A pair is not traded while its size is within this fraction of the target, because each trade costs.
        Gains of owned coins are available only after a sale; 0 preserves the other leg's collateral.
    """

    sizes: xr.Dataset = field(repr=False)
    band: float = 0.1

    def __post_init__(self) -> None:
        require_variables(
            self.sizes, "sizes", ["leg_usd", "collateral_usd"], dims=["symbol", "pair", "exchange", "time"]
        )
        require_times(self.sizes, "sizes")
        if (np.diff(self.sizes["time"].to_numpy()) <= np.timedelta64(0, "us")).any():
            raise ValueError(
                "the times of sizes must ascend without duplicates: sort them and drop duplicates"
            )
        positive(self.sizes.attrs.get("capital_usd", np.nan), "sizes.attrs['capital_usd']")
        if not 0.0 <= self.band < 1.0:
            raise ValueError(f"band must be a fraction of a pair's size from 0 to below 1, got {self.band}")

    def on(self, market: Market) -> Sizes:
        """Return the sizes by index of symbol and venue in a market, without pairs that never have a size."""
        # 1. Require that the market has the symbols and venues of the sizes.
        names = labels_of(self.sizes["leg_usd"], "symbol")
        venues = labels_of(self.sizes["collateral_usd"], "exchange")
        for dim, labels, wanted in (("symbol", market.symbols, names), ("exchange", market.venues, venues)):
            strange = sorted(set(wanted.tolist()) - set(labels))
            if strange:
                raise ValueError(f"sizes has the {dim} {strange[0]!r}, which the panel does not have")

        # 2. Find the venues of each pair, and the pairs with a size at any time.
        venue_at = {name: place for place, name in enumerate(market.venues)}
        legs = np.empty((2, self.sizes.sizes["pair"]), dtype=np.intp)
        for row, leg in enumerate(("long", "short")):
            legs[row] = [venue_at[str(name)] for name in self.sizes[leg].to_numpy()]
        leg_usd = np.nan_to_num(self.sizes["leg_usd"].transpose("time", "symbol", "pair").to_numpy())
        symbol, pair = np.nonzero((leg_usd > 0.0).any(axis=0))
        places = np.array([market.symbols.index(str(name)) for name in names], dtype=np.intp)
        collateral = self.sizes["collateral_usd"].reindex(exchange=list(market.venues), fill_value=0.0)
        return Sizes(
            times=self.sizes["time"].to_numpy(), symbol=places[symbol], legs=legs[:, pair],
            leg_usd=leg_usd[:, symbol, pair],
            collateral_usd=np.nan_to_num(collateral.transpose("time", "exchange").to_numpy()),
            capital=float(self.sizes.attrs["capital_usd"]), band=self.band,
        )  # fmt: skip


class Sizes(NamedTuple):
    """Sizes of a portfolio; its places are pairs of a symbol."""

    times: Any
    symbol: Indices
    legs: Indices
    """(leg, place) venues."""
    leg_usd: Floats
    """(time, place)."""
    collateral_usd: Floats
    """(time, venue)."""
    capital: float
    band: float

    def due(self, now: Any, previous: Any) -> int | None:
        """Return the index of the newest sizes at a row.

        None if they were already applied at an earlier row.
        """
        newest, before = np.searchsorted(self.times, [now, previous], side="right") - 1
        is_old = newest == before and now != previous
        return None if newest < 0 or is_old else int(newest)


class Accounts(Book):
    """Positions whose legs on a venue share one account.

    The equity of an account is the sum over its legs, so it does not matter to which leg collateral is
    booked.
    """

    def __init__(self, sizes: Sizes, shape: tuple[int, int], account: Account) -> None:
        super().__init__(sizes.symbol, shape, account)
        self.sizes = sizes
        self.collateral = np.zeros(shape[1])
        """Target equity of each account [USD]."""
        self.allotted = 0.0

    def _by_venue(self, amounts: Floats) -> Floats:
        """Return the sums of the legs' amounts by venue."""
        there = self.legs >= 0
        return np.asarray(np.bincount(self.legs[there], amounts[there], self.collateral.size), float)

    def lost_legs(self) -> Bools:
        """Return a mask of legs on venues whose account is below its maintenance margin."""
        notional = self.coins * self.mark
        of_legs = self.account.maintenance_usd(self.symbol, self.legs, self.coins, notional)
        needs = self._by_venue(of_legs)
        lost = ~self.account.owned & (self._by_venue(self._equity()) < needs)
        return (self.legs >= 0) & lost[self.legs]

    def transfer(self, now: float, equity: float) -> None:
        """Set the accounts to their collateral, if the last transfer is long enough ago."""
        if now - self.allotted >= self.account.transfer_hours:
            self.allot(now, equity)

    def allot(self, now: float, equity: float) -> None:
        """Set the accounts to their collateral, scaled down equally if the equity [USD] is too small.

        Owned coins tie up their value: only the rest can be transferred.
        """
        notional = self._by_venue(self.coins * self.mark)
        owned = self.account.owned
        coins = notional * owned
        used = np.where((notional > 0.0) & ~owned, self.collateral, 0.0)
        share = max(equity - float(coins.sum()), 0.0) / max(float(used.sum()), 1e-12)
        self._book(coins + min(1.0, share) * used)
        self.allotted = now

    def close(self, at: Indices, *rest: Any, **named: Any) -> tuple[Floats, Any, Any]:
        """Close pairs as `Book.close` does; the P&L of their legs stays in the accounts."""
        left = self._by_venue(self._equity())
        traded = super().close(at, *rest, **named)
        self._book(left)
        return traded

    def _book(self, equity: Floats) -> None:
        """Book the equity of the accounts to their legs, by notional."""
        notional = self.coins * self.mark
        on_venue = self._by_venue(notional)
        share = equity / np.where(on_venue > 0.0, on_venue, 1.0)
        self.margin += np.where(self.legs >= 0, share[self.legs] * notional - self._equity(), 0.0)


class Contracts(NamedTuple):
    """Settlement of the contracts of each venue."""

    inverse: Bools
    """(venue): whether contracts are settled in their underlying coin."""
    settle: Indices
    """(venue): index of the settlement coin's symbol for a quanto contract, −1 for others."""

    @property
    def in_coin(self) -> Bools:
        """Mask of venues whose contracts are settled in a coin."""
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

    Payments and fees stay in coin until the exit. Changes of their value with the coin's price count as price
    P&L. The value of the collateral is not included.
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
        of_symbol = marks[self.symbol[at], legs]
        of_settlement = marks[np.maximum(self.contracts.settle[legs], 0), legs]
        quanto = self.contracts.settle[legs] >= 0
        return np.asarray(
            np.where(self.contracts.inverse[legs], of_symbol, np.where(quanto, of_settlement, 1.0))
        )

    def _price_coin(self, at: Indices) -> Floats:
        """Return the price gain of the legs since the entry [settlement coin; USD for linear legs]."""
        legs = self.legs[:, at]
        coins = self.coins[at]
        entry = self.entry[:, at]
        mark = self.mark[:, at]
        linear = coins / self.settle_entry[:, at] * (mark - entry)  # settle_entry is 1 for linear legs
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
        """Return a mask of positions that can be opened; the settlement coin must have a price too."""
        allowed = super().tradable(tradable, marks)
        settle = self.contracts.settle
        quanto = np.flatnonzero(settle >= 0)
        allowed[:, quanto] &= np.isfinite(marks[settle[quanto], quanto])
        return allowed

    def mark_to(self, marks: Floats, now: float, passed: float) -> Floats:
        """Set the marks of a row as `Book.mark_to` does, and revalue the coins of the legs."""
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
        """Book funding as `Book._receive` does, and the coins of coin-settled legs."""
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
        """Return a mask of legs whose equity is below the maintenance margin."""
        margined = (self.legs >= 0) & ~self.account.owned[self.legs]
        notional = self._notional(np.arange(self.symbol.size))
        coins = notional / np.where(self.mark > 0.0, self.mark, 1.0)
        needs = self.account.maintenance_usd(self.symbol, self.legs, coins, notional)
        return np.asarray(margined & (self._equity() < needs))

    def _equity(self) -> Floats:
        """Return the equity of each leg [USD], with coins at their current value."""
        every = np.arange(self.symbol.size)
        in_coin = self.contracts.in_coin[self.legs]
        paid = np.where(in_coin, 0.0, self.leg_funding)  # the value of coin legs includes the payments
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
        """Charge a trade as `Book._trade`, from the coins of coin-settled legs; `coins` is not used."""
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
