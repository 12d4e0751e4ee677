"""Backtest an option strategy: settle and mark, call the rule, trade at bid and ask, hedge the delta."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.costs import Fees, OptionCosts, margin_of_short
from derivdata.analysis.backtest.option_book import (
    DELIVERED,
    TRADED,
    Accounting,
    Fill,
    Linear,
    Option,
    OptionBook,
    OptionRow,
    Tally,
    dataset,
    is_option,
    payoff,
    unit_slope,
    valued,
)
from derivdata.analysis.backtest.option_market import Contract, OptionMarket
from derivdata.analysis.backtest.option_rules import DeltaHedge, OptionState, Payments, PerpetualPrices
from derivdata.analysis.delivery import delivered, require_delivered
from derivdata.analysis.panels import Panel, positive
from derivdata.analysis.position.sensitivities import instruments
from derivdata.analysis.surface.fitting import SurfaceMethod
from derivdata.support.arguments import typed
from derivdata.support.times import length

_NOTHING = 1e-12  # coins
_FUTURES_MARGIN = 0.05
_HOUR_US = 3_600e6


@typed
def options(
    chains: pd.DataFrame,
    rule: Callable,  # type: ignore[type-arg]
    costs: OptionCosts,
    *,
    hedge: DeltaHedge | None = None,
    prices: Panel | None = None,
    funding: Panel | None = None,
    delivery: pd.DataFrame | Mapping[Any, Any] | None = None,
    contract: str | None = None,
    surfaces: xr.Dataset | None = None,
    method: SurfaceMethod = "svi",
    currency: Literal["usd", "coin"] = "usd",
    capital: float = 1_000_000.0,
) -> xr.Dataset:
    """Simulate an option strategy with its delta hedge and costs.

    Parameters
    ----------
    chains
        Table ``options_snapshot`` of one symbol on one venue at many times, with bid and ask, as in archives
        (``archive.read``). ``index_price_usd`` is the index price.
    rule
        Called at every chain but the last with an `OptionState`; returns the target legs as a table (see
        `derivdata.analysis.position`), an empty table to close all, or None to keep them. See `Roll`.
    costs
        Fees and slippage.
    hedge
        When the delta is hedged in a perpetual; None does not hedge.
    prices
        Marks of the perpetual on the hedge's venue [USD]. None uses the index price instead.
    funding
        Settlements of the perpetual on the hedge's venue [bps/8h]. None omits funding.
    delivery, contract
        Prices at which options and futures are settled, as in `derivdata.analysis.position.attribution`.
    surfaces
        Result of `derivdata.analysis.surface.from_chain` for the chains. None fits them.
    method
        Method of the fit, as in `derivdata.analysis.surface.from_chain`.
    currency
        Currency of the account. Cash in the other currency is exchanged immediately, at the index price;
        payoffs at the delivery price.
    capital
        Cash at the start [`currency`].

    Returns
    -------
    Dataset
        Amounts have the suffix ``_usd`` or ``_coin`` of `currency`.

        - Over ``time``, the chains and the deliveries between them: ``equity``, ``drawdown`` (fraction of the
          peak), ``option_pnl``, ``underlying_pnl`` (futures, perpetuals and spot of the rule), ``hedge_pnl``,
          ``funding``, ``fees`` and ``spread`` (of options: distance of the fills from the marks), each for
          the step that ends at the time. Equity is `capital` plus the cumulative P&L and funding, minus the
          cumulative fees and spread. ``contribution`` over ``term`` and ``time`` divides ``option_pnl``.
        - After the trades of each time: ``delta`` [coins] of the rule's position, ``net_delta`` with the
          hedge, ``gamma``, ``vega`` and ``theta`` of the options as in `derivdata.analysis.position.greeks`,
          ``hedge_quantity`` [coins, or USD of an inverse perpetual], ``margin`` and ``option_legs``.
        - Counts at each time: ``unmarked_options`` (no surface, the last mark is used),
          ``interpolated_marks`` (an expiry without a separate fit), ``refused_trades`` and ``unhedged`` (a
          hedge was due and the perpetual had no price).
        - Over ``fill``, each trade and delivery of a leg: ``fill_time``, ``fill_side``, ``fill_expiry``,
          ``fill_strike``, ``fill_quantity``, ``fill_price`` and ``fill_mark`` per coin, ``fill_fee`` and
          ``fill_reason``.
        - Scalars: ``net``, ``max_drawdown``, ``margin_calls`` (times at which the margin was above the
          equity), ``missing_funding_hours`` and ``gap_hours`` (time of gaps in the chains with open options).

    Raises
    ------
    TypeError, ValueError
        `chains` has no quotes, several symbols, venues or contracts, or one time; an open option expires
        without a delivery price; a fee is unknown; the rule does not return legs.

    Warns
    -----
    DataNotice
        Some marks, trades, hedges or payments were missing, chains have gaps, or the equity is below 0; with
        their numbers.

    Notes
    -----
    Options are bought at the ask and sold at the bid. A change of the position is traded as a whole or, if a
    quote is missing or crossed, not at all (``refused_trades``). The fee of an option is ``min(rate ×
    underlying, cap × price)``. Legs open at the last chain are marked, not closed.

    Futures are delivered without a fee.

    Marks are Black's prices at the volatility of the fitted surface and the forward of the expiry. Those of
    coin-settled options are worth the index price per coin. ``contribution`` has the terms of
    `derivdata.analysis.position.attribution`; ``carry`` is the change of an option's currency against the
    forward, and ``residual`` the rest.

    The hedge is the quantity of the perpetual that makes the account insensitive to a proportional move of
    all prices, at constant volatility by strike. It pays the settlements after its trade.

    ``margin`` approximates Deribit's standard margin: each short option needs ``max(0.15 − OTM/S, 0.1) S +
    mark`` USD (a put at least its maintenance margin), futures and perpetuals 5 % of their notional (an
    assumption). Offsets between legs, portfolio margin and liquidation are not included.

    Examples
    --------
    >>> start, end = pd.Timestamp("2026-06-22T08:00Z"), pd.Timestamp("2026-06-27T09:00Z")
    >>> chains = dd.sample.open().read("options_snapshot", start, end, symbols=["BTC"], venues=["deribit"])
    >>> chains = chains[chains["time"].dt.hour % 8 == 0]
    >>> backtest = dd.analysis.backtest
    >>> strangle = [backtest.OptionLeg(side, -1.0, "4d", delta=0.2) for side in ("call", "put")]
    >>> paid = dd.delivery.prices("BTC", start, end, venues="deribit")
    >>> result = backtest.options(chains, backtest.Roll(strangle), backtest.OptionCosts(), delivery=paid)
    >>> result["equity_usd"].dims, int((result["fill_reason"] == 1).sum())
    (('time',), 2)
    """
    positive(capital, "capital")
    market = OptionMarket(chains, surfaces, method)
    run = _Run(market, rule, costs, Accounting(currency == "coin"), capital, hedge)
    run.prices = _perpetual(market, prices, hedge, run.hedge_venue)
    run.payments = Payments(funding, market.symbol, run.hedge_venue)
    run.delivery = delivery
    run.delivery_contract = contract
    rows = run.simulate()
    return dataset(market, run.book, rows, rule, (chains, prices, funding, delivery), capital)


def _perpetual(
    market: OptionMarket, prices: Panel | None, hedge: DeltaHedge | None, venue: str
) -> PerpetualPrices:
    age = length("1h" if hedge is None else hedge.max_price_age, "max_price_age")
    index = market.times.astype(np.int64).astype(np.float64), market.spot
    return PerpetualPrices(prices, market.symbol, venue, age, index)


class _Run:
    """One simulation."""

    prices: PerpetualPrices
    payments: Payments
    delivery: pd.DataFrame | Mapping[Any, Any] | None
    delivery_contract: str | None

    def __init__(
        self,
        market: OptionMarket,
        rule: Callable[[OptionState], Any],
        costs: OptionCosts,
        account: Accounting,
        capital: float,
        hedge: DeltaHedge | None,
    ) -> None:
        self.market = market
        self.rule = rule
        self.account = account
        self.hedge = hedge
        self.hedge_venue = market.venue if hedge is None or hedge.venue is None else hedge.venue
        self.fees = Fees(costs, market.symbol, market.venue, self.hedge_venue)
        self.book = OptionBook(account, capital)
        self.opened: pd.Timestamp | None = None
        self.selected: pd.Timestamp | None = None
        self.expired = 0
        """Number of legs that expired since the rule's last target."""
        self.last = -np.inf
        """Time of the previous chain or delivery [µs]."""
        self.hedged_at = -np.inf
        self.hedge_waits = False
        """Whether a hedge was due but the perpetual's price is missing."""
        self.spot = float(market.spot[0])
        self.rows: list[OptionRow] = []

    def simulate(self) -> list[OptionRow]:
        """Process the chains and the deliveries between them in order."""
        stamps = self.market.times.astype(np.int64)
        for row, stamp in enumerate(stamps.tolist()):
            while (due := self._next_expiry(stamp)) is not None and due < stamp:
                self._work(due, None)
            self._work(stamp, row)
        return self.rows

    def _next_expiry(self, until: int) -> int | None:
        """Return the first expiry of an open leg up to a time [µs]; None without one."""
        held = [*self.book.options, *(contract for contract, _ in self.book.others)]
        due = [contract.expiry for contract in held if 0 < contract.expiry <= until]
        return min(due, default=None)

    def _work(self, timestamp: int, row: int | None) -> None:
        """Process one time: a chain, or a delivery between two chains."""
        # 1. Book settlements, gains and deliveries up to now.
        tally = Tally()
        place = len(self.rows)
        day = str(np.datetime64(timestamp, "us").astype("datetime64[D]"))
        if row is not None:
            self.spot = float(self.market.spot[row])
        self._pay(float(timestamp), tally)
        self._move_others(timestamp, row, tally)
        changed = self._deliver(timestamp, place, day, tally)

        # 2. At a chain, mark the options and call the rule; the last chain is only marked.
        if row is not None:
            self._mark_options(row, place, tally)
            if row < self.market.times.size - 1:
                changed |= self._follow(row, place, day, tally)

        # 3. Hedge the changed position.
        sensitivities = self.book.sensitivities(self.spot)
        sensitivities = self._hedge(timestamp, day, changed, sensitivities, tally)
        self.rows.append(self._recorded(timestamp, row, sensitivities, tally))
        self.last = float(timestamp)

    def _pay(self, timestamp: float, tally: Tally) -> None:
        """Pay the settlements since the last time to open perpetuals."""
        linear = self._linear()
        held = [own for own in linear if own.contract.side == "perpetual" and own.quantity != 0.0]
        if not held or not np.isfinite(self.last):
            return
        for time, share in self.payments.within(self.last, timestamp):
            price = self.prices.newest(time)
            for perpetual in held:
                usd = perpetual.quantity if perpetual.inverse else perpetual.quantity * price
                paid = -share * usd * self.account.of_usd(self.spot)
                tally.funding += paid
                self.book.cash += paid
        tally.missing_funding_hours += self.payments.missing_hours(self.last, timestamp)

    def _linear(self) -> list[Linear]:
        """Return futures, perpetuals and spot of the rule, and the hedge."""
        hedge = [] if self.book.hedge is None else [self.book.hedge]
        return [*self.book.others.values(), *hedge]

    def _price_of(self, contract: Contract, timestamp: int, row: int | None) -> float:
        """Return the price of a future, a perpetual or spot [USD], NaN if unknown."""
        if contract.side == "perpetual":
            return self.prices.at(float(timestamp))
        if row is None:
            return float("nan")
        return self.spot if contract.side == "spot" else self.market.forward(row, contract.expiry)

    def _move_others(self, timestamp: int, row: int | None, tally: Tally) -> None:
        """Book the gains of futures, perpetuals, spot and the hedge."""
        for (contract, _), held in self.book.others.items():
            if contract.side == "future" and contract.expiry <= timestamp:
                continue  # settled at the delivery price
            price = self._price_of(contract, timestamp, row)
            if np.isfinite(price):
                gain = held.gain(price, self.spot, self.account)
                tally.underlying_pnl += gain
                held.price = price
                if contract.side != "spot":  # spot is part of the value, so its gain is not cash
                    self.book.cash += gain
            elif row is not None:
                tally.unmarked += 1
        hedge = self.book.hedge
        price = self.prices.at(float(timestamp))
        if hedge is not None and np.isfinite(price):
            gain = hedge.gain(price, self.spot, self.account)
            tally.hedge_pnl += gain
            hedge.price = price
            self.book.cash += gain

    def _deliver(self, timestamp: int, place: int, day: str, tally: Tally) -> bool:
        """Settle the expiring legs; return whether there were any."""
        options = [held for key, held in self.book.options.items() if key.expiry == timestamp]
        futures = [key for key in self.book.others if 0 < key[0].expiry <= timestamp]
        for held in options:
            price = self._delivery_price(timestamp, "option")
            after = payoff(held.contract, price, self.account)
            self.book.move_option(held, after, place, tally)
            underlying = price * self.account.of_usd(price)
            fee = self.fees.of_delivery(after.value, underlying, day) * abs(held.quantity)
            tally.fees += fee
            self.book.cash += held.quantity * after.value - fee
            del self.book.options[held.contract]
            self._fill(place, held.contract, -held.quantity, after.value, after.value, fee, DELIVERED)
        for key in futures:
            price = self._delivery_price(timestamp, "future")
            future = self.book.others[key]
            gain = future.gain(price, price, self.account)
            tally.underlying_pnl += gain
            self.book.cash += gain
            del self.book.others[key]
            self._fill(place, key[0], -future.quantity, price, price, 0.0, DELIVERED)
        self.expired += len(options) + len(futures)
        return bool(options or futures)

    def _delivery_price(self, timestamp: int, kind: str) -> float:
        """Return the delivery price [USD] of an expiry [µs] from the table or mapping of the user."""
        stamp = pd.Timestamp(timestamp, unit="us")
        if self.delivery is None:
            raise ValueError(
                f"a leg that expires at {stamp:%Y-%m-%d %H:%M} UTC is still open: pass delivery=, the table "
                "of dd.delivery.prices or a mapping from expiries to prices [USD]"
            )
        labels = {"symbol": self.market.symbol or None, "exchange": self.market.venue or None}
        prices = delivered(
            self.delivery,
            pd.DatetimeIndex([stamp]).as_unit("us"),
            contract=self.delivery_contract,
            kind=kind,
            **labels,
        )
        require_delivered(prices)
        price = float(prices.iloc[0])
        self.market.require_near(price, self.spot, stamp)
        return price

    def _mark_options(self, row: int, place: int, tally: Tally) -> None:
        """Revalue all options at a row of the chain; `place` is the row of the result."""
        for held in self.book.options.values():
            mark = self.market.mark(row, held.contract)
            if not mark.is_complete:
                tally.unmarked += 1
                continue
            tally.interpolated += not mark.own
            after = valued(held.contract, mark, self.spot, self.account, held.in_coin)
            self.book.move_option(held, after, place, tally)

    def _follow(self, row: int, place: int, day: str, tally: Tally) -> bool:
        """Call the rule, and trade to its target; return whether the position changed."""
        state = OptionState(
            self.market, row, self.book.legs, equity=self.book.equity(), opened=self.opened,
            selected=self.selected, expired=self.expired,
        )  # fmt: skip
        try:
            target = self.rule(state)
        except Exception as fault:
            fault.add_note("the rule of the backtest raised this error")
            raise
        if target is None:
            return False
        if not isinstance(target, pd.DataFrame):
            raise TypeError(f"the rule must return a table of legs or None, got {type(target).__name__}")
        wanted = _wanted(target)
        trades = None if wanted is None else self._trades(wanted, row)
        # The target is traded completely or not at all.
        if trades is None:
            tally.refused += 1
            return False
        # An empty table closes all legs, and then no selection is active.
        self.selected = state.now if wanted else None
        self.expired = 0
        if trades:
            self.opened = state.now
        for trade in trades:
            trade(place, day, tally)
        return bool(trades)

    def _trades(
        self, wanted: dict[tuple[Contract, bool], float], row: int
    ) -> list[Callable[[int, str, Tally], None]] | None:
        """Return the trades from the current legs to the target, None if one of them is impossible."""
        present = {(key, False): held.quantity for key, held in self.book.options.items()}
        present |= {key: held.quantity for key, held in self.book.others.items()}
        trades: list[Callable[[int, str, Tally], None]] = []
        for key in dict.fromkeys([*present, *wanted]):
            change = wanted.get(key, 0.0) - present.get(key, 0.0)
            if abs(change) <= _NOTHING:
                continue
            if is_option(key[0]):
                trade = self._option_trade(key[0], change, row)
            else:
                trade = self._linear_trade(key, change, row)
            if trade is None:
                return None
            trades.append(trade)
        return trades

    def _option_trade(
        self, contract: Contract, change: float, row: int
    ) -> Callable[[int, str, Tally], None] | None:
        """Return a function that trades `change` of an option at its quote; None without quote or mark."""
        quote = self.market.quotes(row).get(contract)
        mark = self.market.mark(row, contract)
        if quote is None or not mark.is_complete:
            return None
        price = quote.ask if change > 0.0 else quote.bid
        if not price > 0.0:
            return None
        unit = self.account.of_quote(quote.in_coin, self.spot)
        now = valued(contract, mark, self.spot, self.account, quote.in_coin)

        def trade(place: int, day: str, tally: Tally) -> None:
            fill = price * unit
            underlying = unit if quote.in_coin else self.spot * unit
            fee = self.fees.of_trade(fill, underlying, day) * abs(change)
            tally.fees += fee
            tally.spread += change * (fill - now.value)
            self.book.cash -= change * fill + fee
            held = self.book.options.setdefault(contract, Option(contract, 0.0, quote.in_coin, now))
            held.quantity += change
            if abs(held.quantity) <= _NOTHING:
                del self.book.options[contract]
            self._fill(place, contract, change, fill, now.value, fee, TRADED)

        return trade

    def _linear_trade(
        self, key: tuple[Contract, bool], change: float, row: int
    ) -> Callable[[int, str, Tally], None] | None:
        """Return a function that trades `change` of a future, a perpetual or spot; None without a price."""
        contract, inverse = key
        price = self._price_of(contract, int(self.market.times[row].astype(np.int64)), row)
        if not price > 0.0:
            return None

        def trade(place: int, day: str, tally: Tally) -> None:
            held = self.book.others.setdefault(key, Linear(contract, 0.0, inverse, price))
            held.quantity += change
            if contract.side == "spot":
                self.book.cash -= change * self.account.of_coin(price)
            fee = self._pay_trade(change, price, inverse, day, tally)
            if abs(held.quantity) <= _NOTHING:
                del self.book.others[key]
            self._fill(place, contract, change, price, price, fee, TRADED)

        return trade

    def _pay_trade(self, change: float, price: float, inverse: bool, day: str, tally: Tally) -> float:
        """Pay fee and slippage of a trade of a future, a perpetual or spot."""
        notional = abs(change) * unit_slope(price, self.spot, self.account, inverse)
        fee = notional * self.fees.of_hedge(day)
        slippage = notional * self.fees.slippage
        tally.fees += fee
        tally.spread += slippage
        self.book.cash -= fee + slippage
        return fee

    def _hedge(
        self, timestamp: int, day: str, changed: bool, now: dict[str, float], tally: Tally
    ) -> dict[str, float]:
        """Trade the perpetual if a hedge is due; return the sensitivities afterwards."""
        rule = self.hedge
        if rule is None:
            return now
        price = self.prices.at(float(timestamp))
        inverse = rule.contract == "inverse"
        # An older price may show that a hedge is due, but the trade needs a current price.
        level = price if np.isfinite(price) else self.prices.newest(float(timestamp))
        net = now["slope"] / unit_slope(level, self.spot, self.account, inverse=False)
        hours = (timestamp - self.hedged_at) / _HOUR_US
        if not (changed or self.hedge_waits or rule.is_due(hours, net)):
            return now
        if not self.book.options and not self.book.others and self.book.hedge is None:
            return now
        self.hedge_waits = not np.isfinite(price)
        if self.hedge_waits:
            tally.unhedged += 1
            return now
        if self.book.hedge is None:
            self.book.hedge = Linear(Contract(0, 0.0, "perpetual"), 0.0, inverse, price)
        unit = unit_slope(price, self.spot, self.account, inverse)
        change = -now["slope"] / unit
        self.book.hedge.quantity += change
        self.hedged_at = float(timestamp)
        if abs(change) > _NOTHING:
            self._pay_trade(change, price, inverse, day, tally)
        return now | {"slope": now["slope"] + change * unit}

    def _fill(
        self,
        place: int,
        contract: Contract,
        quantity: float,
        price: float,
        mark: float,
        fee: float,
        reason: int,
    ) -> None:
        self.book.fills.append(Fill(place, contract, quantity, price, mark, fee, reason))

    def _margin(self) -> float:
        """Return the margin of the position [currency of the account]."""
        unit = self.account.of_usd(self.spot)
        usd = 0.0
        for held in self.book.options.values():
            if held.quantity < 0.0:
                mark = held.now.value / unit
                of_one = margin_of_short(held.contract.side, held.contract.strike, self.spot, mark)
                usd += abs(held.quantity) * of_one
        notional = 0.0
        for own in self._linear():
            if own.contract.side != "spot":
                notional += abs(own.quantity) * unit_slope(own.price, self.spot, self.account, own.inverse)
        return usd * unit + _FUTURES_MARGIN * notional

    def _recorded(self, timestamp: int, row: int | None, now: dict[str, float], tally: Tally) -> OptionRow:
        """Return the row of the result at a time; `now` has the greeks of all positions."""
        unit = unit_slope(self.spot, self.spot, self.account, inverse=False)
        option_slope = now["slope"]
        hedged = 0.0
        if self.book.hedge is not None:
            option_slope -= self.book.hedge.slope(self.spot, self.account)
            hedged = self.book.hedge.quantity
        return OptionRow(
            time=timestamp, is_chain=row is not None, equity=self.book.equity(), tally=tally,
            delta=option_slope / unit, net_delta=now["slope"] / unit, gamma=now["gamma"], vega=now["vega"],
            theta=now["theta"], hedge_quantity=hedged, margin=self._margin(),
            option_legs=len(self.book.options),
        )  # fmt: skip


def _wanted(target: pd.DataFrame) -> dict[tuple[Contract, bool], float] | None:
    """Return the quantities of the legs of a table; None if an option lacks its expiry or strike."""
    if target.empty:
        return {}
    if {"side", "expiry", "strike"} <= set(target.columns):
        is_chosen = target["expiry"].notna() & (target["strike"].notna() | (target["side"] == "future"))
        if not (is_chosen | target["side"].isin(("perpetual", "spot"))).all():
            return None
    legs = instruments(target)
    wanted: dict[tuple[Contract, bool], float] = {}
    for place in range(len(target)):
        expires = not bool(legs.has_no_expiry[place])
        option = bool(legs.is_option[place])
        contract = Contract(
            int(legs.expiry[place].to_numpy().astype("datetime64[us]").astype(np.int64)) if expires else 0,
            float(legs.strike[place]) if option else 0.0,
            str(target["side"].iloc[place]),
        )
        key = (contract, bool(legs.is_inverse[place]))
        wanted[key] = wanted.get(key, 0.0) + float(legs.quantity[place])
    return wanted
