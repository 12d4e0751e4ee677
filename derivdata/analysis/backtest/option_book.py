"""The position of an option strategy: legs, cash, hedge, and what each step gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.backtest.option_market import Contract, Mark
from derivdata.analysis.black76 import formulas
from derivdata.analysis.position.instruments import OPTIONS

_SIGN = {"call": 1.0, "put": -1.0}


class Accounting(NamedTuple):
    """The currency of the account, and how options and other prices are converted into it."""

    in_coin: bool

    @property
    def premium(self) -> str:
        """Return the premium of the greeks: of the USD value, or of the coin value."""
        return "inverse" if self.in_coin else "linear"

    def of_usd(self, spot: float) -> float:
        """Return what one USD is worth."""
        return 1.0 / spot if self.in_coin else 1.0

    def of_coin(self, spot: float) -> float:
        """Return what one coin is worth."""
        return 1.0 if self.in_coin else spot

    def of_quote(self, quoted_in_coin: bool, spot: float) -> float:
        """Return what one unit of an option's own currency is worth."""
        return self.of_coin(spot) if quoted_in_coin else self.of_usd(spot)

    def ratio(self, quoted_in_coin: bool, spot: float, forward: float) -> float:
        """Return an option's value over Black's value (in coin: that over the forward)."""
        if quoted_in_coin == self.in_coin:
            return 1.0
        return forward / spot if self.in_coin else spot / forward


class Valued(NamedTuple):
    """An option at a time: what it is made of, and its value per coin in the account's currency."""

    mark: Mark
    base: float
    ratio: float

    @property
    def value(self) -> float:
        """Return the value of one coin of the option."""
        return self.base * self.ratio


def valued(contract: Contract, mark: Mark, spot: float, account: Accounting, quoted_in_coin: bool) -> Valued:
    """Value an option at its mark."""
    base = formulas.price(
        np.array([mark.forward]),
        np.array([contract.strike]),
        np.array([mark.years]),
        np.array([mark.iv]),
        contract.side,
        interest_rate=mark.rate,
        premium=account.premium,  # type: ignore[arg-type]
    )
    return Valued(mark, float(base[0]), account.ratio(quoted_in_coin, spot, mark.forward))


def payoff(contract: Contract, price: float, account: Accounting) -> Valued:
    """Value an option that is delivered at a price [USD]; its coins are exchanged at it."""
    paid = max(_SIGN[contract.side] * (price - contract.strike), 0.0)
    mark = Mark(price, 0.0, 0.0, 0.0, True)
    return Valued(mark, paid / price if account.in_coin else paid, 1.0)


@dataclass
class Option:
    """One option that is held."""

    contract: Contract
    quantity: float
    in_coin: bool
    now: Valued


@dataclass
class Linear:
    """A future, a perpetual or spot that is held; `quantity` in coins, or USD of an inverse contract."""

    contract: Contract
    quantity: float
    inverse: bool
    price: float

    def gain(self, price: float, spot: float, account: Accounting) -> float:
        """Return the gain of a move to another price [currency of the account]."""
        if self.contract.side == "spot":
            return self.quantity * (price * account.of_usd(spot) - self.price * account.of_usd(self.price))
        if self.inverse:
            return self.quantity * (1.0 / self.price - 1.0 / price) * account.of_coin(spot)
        return self.quantity * (price - self.price) * account.of_usd(spot)

    def slope(self, spot: float, account: Accounting) -> float:
        """Return the change of the account per relative move of the price."""
        if self.contract.side == "spot":
            return 0.0 if account.in_coin else self.quantity * spot
        return self.quantity * unit_slope(self.price, spot, account, self.inverse)


def unit_slope(price: float, spot: float, account: Accounting, inverse: bool) -> float:
    """Return the change of the account per relative move of a future's price, for one coin or one USD."""
    if inverse:
        return account.of_coin(spot) / price
    return price * account.of_usd(spot)


class Step(NamedTuple):
    """One option from one value to the next, for the attribution."""

    row: int
    contract: Contract
    quantity: float
    before: Valued
    after: Valued


class Fill(NamedTuple):
    """One trade or delivery of a leg."""

    row: int
    contract: Contract
    quantity: float
    price: float
    mark: float
    fee: float
    reason: int


@dataclass
class Tally:
    """Sums of one row while it is worked on."""

    option_pnl: float = 0.0
    underlying_pnl: float = 0.0
    hedge_pnl: float = 0.0
    funding: float = 0.0
    fees: float = 0.0
    spread: float = 0.0
    unmarked: int = 0
    interpolated: int = 0
    missing_funding_hours: float = 0.0
    refused: int = 0
    unhedged: int = 0


@dataclass
class OptionBook:
    """Everything that is held, and the cash."""

    account: Accounting
    cash: float
    options: dict[Contract, Option] = field(default_factory=dict)
    others: dict[tuple[Contract, bool], Linear] = field(default_factory=dict)
    hedge: Linear | None = None
    steps: list[Step] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)

    def equity(self) -> float:
        """Return cash and value; futures and perpetuals have their gains in the cash."""
        options = sum(held.quantity * held.now.value for held in self.options.values())
        coins = [held for held in self.others.values() if held.contract.side == "spot"]
        spot = sum(held.quantity * self.account.of_coin(held.price) for held in coins)
        return self.cash + options + spot

    def move_option(self, held: Option, after: Valued, row: int, tally: Tally) -> None:
        """Value an option again."""
        tally.option_pnl += held.quantity * (after.value - held.now.value)
        self.steps.append(Step(row, held.contract, held.quantity, held.now, after))
        held.now = after

    def legs(self) -> pd.DataFrame:
        """Return the rule's position as a table of legs."""
        rows = [(held.contract, held.quantity, "linear") for held in self.options.values()] + [
            (held.contract, held.quantity, "inverse" if held.inverse else "linear")
            for held in self.others.values()
        ]
        stamps = [contract.expiry if contract.expiry else pd.NaT for contract, _, _ in rows]
        table = {
            "side": [contract.side for contract, _, _ in rows],
            "expiry": pd.to_datetime(pd.Series(stamps, dtype="object"), unit="us", utc=True),
            "strike": np.array([contract.strike or np.nan for contract, _, _ in rows], dtype=np.float64),
            "quantity": np.array([quantity for _, quantity, _ in rows], dtype=np.float64),
            "contract": [kind for _, _, kind in rows],
        }
        return pd.DataFrame(table)

    def sensitivities(self, spot: float) -> dict[str, float]:
        """Return the greeks of the options, and the slope of the account per relative move of all prices."""
        total = dict.fromkeys(("delta", "gamma", "vega", "theta"), 0.0)
        slope = sum(held.slope(spot, self.account) for held in self.others.values())
        if self.hedge is not None:
            slope += self.hedge.slope(spot, self.account)
        held = [option for option in self.options.values() if option.now.mark.years > 0.0]
        if held:
            greeks = greeks_of(held, self.account)
            scale = np.array([option.quantity * option.now.ratio for option in held])
            forward = np.array([option.now.mark.forward for option in held])
            slope += float((greeks["delta"] * scale * forward).sum())
            for name in total:
                total[name] = float((greeks[name] * scale).sum())
        return total | {"slope": slope}


def greeks_of(held: list[Option], account: Accounting) -> dict[str, Any]:
    """Return greeks of one coin of each option, to the forward, as `derivdata.analysis.position.greeks`."""
    marks = [option.now.mark for option in held]
    forward, years, iv, rate = (
        np.array([getattr(m, n) for m in marks]) for n in ("forward", "years", "iv", "rate")
    )
    strike = np.array([option.contract.strike for option in held])
    side = np.array([option.contract.side for option in held])
    greeks: dict[str, Any] = formulas.greeks(
        forward,
        strike,
        years,
        iv,
        side,
        which=["delta", "gamma", "vega", "theta"],
        delta="pa" if account.in_coin else "spot",
        interest_rate=rate,
        premium=account.premium,  # type: ignore[arg-type]
    )
    if account.in_coin:
        greeks["delta"] = greeks["delta"] / forward * np.exp(-rate * years)
    return greeks


def is_option(contract: Contract) -> bool:
    """Tell whether a contract is an option."""
    return contract.side in OPTIONS
