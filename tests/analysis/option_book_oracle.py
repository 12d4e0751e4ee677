"""A backtest of options, futures, perpetuals and spot as a plain loop: one leg and one time after the other.

Shares only the fitted surfaces with the library; their formula is repeated here. A plan lists the legs to
hold from each time on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tests.analysis.option_oracle import black, smile_vol

__all__ = ["Leg", "SlowBook"]


@dataclass(frozen=True)
class Leg:
    """A contract: its side, its expiry and strike (of options), and whether it is inverse."""

    side: str
    expiry: pd.Timestamp | None = None
    strike: float = 0.0
    inverse: bool = False


@dataclass
class Holding:
    """Coins of a leg, or USD of an inverse one, and the price at which it was valued last."""

    quantity: float
    price: float


@dataclass
class SlowBook:
    """Account of the oracle. `usd` and `coin` are the values of one USD and one coin in its currency."""

    chains: dict[pd.Timestamp, pd.DataFrame]
    surfaces: Any
    quoted_in_coin: bool
    in_coin: bool
    cash: float
    perpetual: dict[pd.Timestamp, float]
    payments: dict[pd.Timestamp, float]  # share of the notional that longs pay
    delivered: dict[pd.Timestamp, float]
    plan: dict[pd.Timestamp, dict[Leg, float]]
    fees: dict[str, float]
    hedge_hours: float | None = None
    hedge_band: float | None = None
    hedge_inverse: bool = False
    options: dict[Leg, Holding] = field(default_factory=dict)
    others: dict[Leg, Holding] = field(default_factory=dict)
    hedge: Holding | None = None
    hedged_at: pd.Timestamp | None = None
    waits: bool = False
    last_price: float = float("nan")

    def equity(self, with_hedge: bool) -> list[float]:
        """Return the equity after each chain."""
        times = sorted(self.chains)
        result = []
        for row, now in enumerate(times):
            self.now, self.row = now, row
            self.chain = self.chains[now]
            self.spot = float(self.chain["index_price_usd"].iloc[0])
            self.usd = 1.0 / self.spot if self.in_coin else 1.0
            self.coin = 1.0 if self.in_coin else self.spot
            self.price = self.perpetual.get(now)
            self.pay_funding()
            self.move_others()
            changed = self.deliver()
            if now != times[-1] and now in self.plan:
                changed = self.trade(self.plan[now]) or changed
            if with_hedge:
                self.trade_hedge(changed)
            result.append(self.value())
        return result

    def pay_funding(self) -> None:
        """Payments are valued at the newest price of the perpetual."""
        if self.price is not None:
            self.last_price = self.price
        share = self.payments.get(self.now)
        if share is None:
            return
        held = [(leg.inverse, item) for leg, item in self.others.items() if leg.side == "perpetual"]
        if self.hedge is not None:
            held.append((self.hedge_inverse, self.hedge))
        for inverse, holding in held:
            notional = holding.quantity if inverse else holding.quantity * self.last_price
            self.cash -= share * notional * self.usd

    def gain(self, holding: Holding, price: float, inverse: bool, usd: float, coin: float) -> float:
        if inverse:
            return holding.quantity * (1.0 / holding.price - 1.0 / price) * coin
        return holding.quantity * (price - holding.price) * usd

    def price_of(self, leg: Leg) -> float | None:
        if leg.side == "spot":
            return self.spot
        if leg.side == "perpetual":
            return self.price
        return self.forward(leg.expiry)

    def forward(self, expiry: Any) -> float | None:
        near = self.chain[self.chain["expiry"] == expiry]
        return None if near.empty else float(near["underlying_price"].iloc[0])

    def move_others(self) -> None:
        for leg, holding in self.others.items():
            if leg.expiry is not None and leg.expiry <= self.now:
                continue
            price = self.price_of(leg)
            if price is None:
                continue
            if leg.side != "spot":  # coins are valued in `value`
                self.cash += self.gain(holding, price, leg.inverse, self.usd, self.coin)
            holding.price = price
        if self.hedge is not None and self.price is not None:
            self.cash += self.gain(self.hedge, self.price, self.hedge_inverse, self.usd, self.coin)
            self.hedge.price = self.price

    def deliver(self) -> bool:
        due = [leg for leg in [*self.options, *self.others] if leg.expiry == self.now]
        for leg in due:
            price = self.delivered[self.now]
            usd = 1.0 / price if self.in_coin else 1.0
            if leg.side == "future":
                holding = self.others.pop(leg)
                self.cash += self.gain(holding, price, leg.inverse, usd, 1.0 if self.in_coin else price)
                continue
            holding = self.options.pop(leg)
            sign = 1.0 if leg.side == "call" else -1.0
            payoff = max(sign * (price - leg.strike), 0.0) * usd
            fee = min(self.fees["delivery"] * price * usd, self.fees["cap"] * payoff)
            self.cash += holding.quantity * payoff - abs(holding.quantity) * fee
        return bool(due)

    def trade(self, wanted: dict[Leg, float]) -> bool:
        """Trade to the wanted legs; nothing is traded where one of the trades has no price."""
        present = {leg: item.quantity for leg, item in [*self.options.items(), *self.others.items()]}
        changes = []
        for leg in [*present, *(leg for leg in wanted if leg not in present)]:
            change = wanted.get(leg, 0.0) - present.get(leg, 0.0)
            if abs(change) <= 1e-12:
                continue
            price = self.quote(leg, change) if leg.side in ("call", "put") else self.price_of(leg)
            if price is None:
                return False
            changes.append((leg, change, price))
        for leg, change, price in changes:
            if leg.side in ("call", "put"):
                self.trade_option(leg, change, price)
            else:
                self.trade_other(leg, change, price)
        return bool(changes)

    def quote(self, leg: Leg, change: float) -> float | None:
        unit = "coin" if self.quoted_in_coin else "usd"
        column = f"ask_{unit}" if change > 0.0 else f"bid_{unit}"
        same = (self.chain["expiry"] == leg.expiry) & (self.chain["strike"] == leg.strike)
        rows = self.chain[same & (self.chain["side"] == leg.side)]
        if rows.empty or not rows[column].iloc[0] > 0.0:
            return None
        return float(rows[column].iloc[0])

    def trade_option(self, leg: Leg, change: float, price: float) -> None:
        unit = self.coin if self.quoted_in_coin else self.usd
        fee = min(self.fees["option"] * self.coin, self.fees["cap"] * price * unit)
        self.cash -= change * price * unit + abs(change) * fee
        holding = self.options.setdefault(leg, Holding(0.0, 0.0))
        holding.quantity += change
        if abs(holding.quantity) <= 1e-12:
            del self.options[leg]

    def trade_other(self, leg: Leg, change: float, price: float) -> None:
        per_unit = self.coin / price if leg.inverse else price * self.usd
        self.cash -= abs(change) * per_unit * (self.fees["other"] + self.fees["slippage"])
        if leg.side == "spot":
            self.cash -= change * self.coin
        holding = self.others.setdefault(leg, Holding(0.0, price))
        holding.quantity += change
        if abs(holding.quantity) <= 1e-12:
            del self.others[leg]

    def of_option(self, leg: Leg) -> tuple[float, float]:
        """Return the value of one option, and its change per relative move of all prices."""
        forward = self.forward(leg.expiry)
        assert forward is not None
        assert leg.expiry is not None
        years = (leg.expiry - self.now) / pd.Timedelta(365, "D")
        vol = smile_vol(self.surfaces, self.row, leg.expiry, leg.strike, forward)
        price, delta = black(forward, leg.strike, years, vol, leg.side)
        if self.in_coin:
            ratio = 1.0 if self.quoted_in_coin else forward / self.spot
            return price / forward * ratio, (delta - price / forward) * ratio
        ratio = self.spot / forward if self.quoted_in_coin else 1.0
        return price * ratio, delta * forward * ratio

    def value(self) -> float:
        total = self.cash
        for leg, holding in self.options.items():
            total += holding.quantity * self.of_option(leg)[0]
        for leg, holding in self.others.items():
            if leg.side == "spot":
                total += holding.quantity * self.coin
        return total

    def slope(self) -> float:
        total = sum(holding.quantity * self.of_option(leg)[1] for leg, holding in self.options.items())
        for leg, holding in self.others.items():
            if leg.side == "spot":
                total += 0.0 if self.in_coin else holding.quantity * self.spot
            else:
                per_unit = self.coin / holding.price if leg.inverse else holding.price * self.usd
                total += holding.quantity * per_unit
        if self.hedge is not None:
            level = self.hedge.price
            per_unit = self.coin / level if self.hedge_inverse else level * self.usd
            total += self.hedge.quantity * per_unit
        return total

    def trade_hedge(self, changed: bool) -> None:
        """Trade the perpetual to a delta of zero after a trade, at a hedge time or outside the band."""
        slope = self.slope()
        net_coins = slope / (self.last_price * self.usd)
        is_due = changed or self.waits
        if self.hedge_hours is not None:
            hours = None if self.hedged_at is None else (self.now - self.hedged_at) / pd.Timedelta(1, "h")
            is_due = is_due or hours is None or hours >= self.hedge_hours
        if self.hedge_band is not None:
            is_due = is_due or abs(net_coins) > self.hedge_band
        if not is_due or not (self.options or self.others or self.hedge is not None):
            return
        self.waits = self.price is None
        if self.price is None:
            return
        if self.hedge is None:
            self.hedge = Holding(0.0, self.price)
        per_unit = self.coin / self.price if self.hedge_inverse else self.price * self.usd
        change = -slope / per_unit
        self.cash -= abs(change) * per_unit * (self.fees["other"] + self.fees["slippage"])
        self.hedge.quantity += change
        self.hedged_at = self.now
