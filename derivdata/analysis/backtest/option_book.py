"""Position of an option strategy (legs, cash, hedge), and the result of its steps as a dataset with units."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.option_market import Contract, Mark, OptionMarket
from derivdata.analysis.black76 import formulas
from derivdata.analysis.position import leg_terms
from derivdata.analysis.position.sensitivities import OPTIONS, Legs
from derivdata.support.text import described, warn_caller
from derivdata.tables.frames import joined_provenance
from derivdata.tables.panels import provenance

_SIGN = {"call": 1.0, "put": -1.0}


class Accounting(NamedTuple):
    """Currency of the account, with the conversion of option values and other prices."""

    in_coin: bool

    @property
    def premium(self) -> str:
        """Return the `premium` argument of the greeks, for values in USD or in coin."""
        return "inverse" if self.in_coin else "linear"

    def of_usd(self, spot: float) -> float:
        """Return the value of one USD."""
        return 1.0 / spot if self.in_coin else 1.0

    def of_coin(self, spot: float) -> float:
        """Return the value of one coin."""
        return 1.0 if self.in_coin else spot

    def of_quote(self, quoted_in_coin: bool, spot: float) -> float:
        """Return the value of one unit of an option's own currency."""
        return self.of_coin(spot) if quoted_in_coin else self.of_usd(spot)

    def ratio(self, quoted_in_coin: bool, spot: float, forward: float) -> float:
        """Return the ratio of an option's value to Black's price in the account's currency (B; in coin B/F).

        An option in the other currency is converted at the index price, not at the forward.
        """
        if quoted_in_coin == self.in_coin:
            return 1.0
        return forward / spot if self.in_coin else spot / forward


class Valued(NamedTuple):
    """An option at a time: its inputs, and its value per coin in the account's currency."""

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
    """Value an option that is delivered at a price [USD], at which coins are also converted."""
    paid = max(_SIGN[contract.side] * (price - contract.strike), 0.0)
    mark = Mark(forward=price, years=0.0, iv=0.0, rate=0.0, own=True)
    return Valued(mark, paid / price if account.in_coin else paid, 1.0)


@dataclass
class Option:
    """One open option."""

    contract: Contract
    quantity: float
    in_coin: bool
    now: Valued


@dataclass
class Linear:
    """An open future, perpetual or spot position; `quantity` in coins, or USD for an inverse contract."""

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
    """Two consecutive values of an option, for the attribution."""

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
    """Sums of the current row."""

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
    """All positions, and the cash."""

    account: Accounting
    cash: float
    options: dict[Contract, Option] = field(default_factory=dict)
    others: dict[tuple[Contract, bool], Linear] = field(default_factory=dict)
    hedge: Linear | None = None
    steps: list[Step] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)

    def equity(self) -> float:
        """Return cash plus value. The gains of futures and perpetuals are in the cash."""
        options = sum(held.quantity * held.now.value for held in self.options.values())
        spot = 0.0
        for held in self.others.values():
            if held.contract.side == "spot":
                spot += held.quantity * self.account.of_coin(held.price)
        return self.cash + options + spot

    def move_option(self, held: Option, after: Valued, row: int, tally: Tally) -> None:
        """Revalue an option."""
        tally.option_pnl += held.quantity * (after.value - held.now.value)
        self.steps.append(Step(row, held.contract, held.quantity, held.now, after))
        held.now = after

    def legs(self) -> pd.DataFrame:
        """Return the rule's position as a table of legs."""
        kinds = {False: "linear", True: "inverse"}
        rows = [(*held.contract, held.quantity, "linear") for held in self.options.values()]
        rows += [(*held.contract, held.quantity, kinds[held.inverse]) for held in self.others.values()]
        table = pd.DataFrame(rows, columns=["expiry", "strike", "side", "quantity", "contract"])
        # 0 marks a contract without an expiry or strike.
        stamps = table["expiry"].astype(object).where(table["expiry"] != 0, pd.NaT)
        table["expiry"] = pd.to_datetime(stamps, unit="us", utc=True)
        table["strike"] = table["strike"].astype(np.float64).where(table["strike"] != 0.0)
        table["quantity"] = table["quantity"].astype(np.float64)
        return table[["side", "expiry", "strike", "quantity", "contract"]]

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
    """Return greeks of one coin of each option by the forward, as `derivdata.analysis.position.greeks`."""
    forward, years, iv, rate, _ = map(np.array, zip(*(option.now.mark for option in held), strict=True))
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
    """Return whether a contract is an option."""
    return contract.side in OPTIONS


TRADED = 0
DELIVERED = 1
TERMS = (
    "theta", "delta", "gamma", "speed", "vega", "volga", "vanna", "charm", "veta", "settlement", "carry",
    "residual",
)  # fmt: skip
_GAP = 1.5  # multiple of the usual step between two chains


class OptionRow(NamedTuple):
    """Result of one time, and the positions after it."""

    time: int
    is_chain: bool
    equity: float
    tally: Tally
    delta: float
    net_delta: float
    gamma: float
    vega: float
    theta: float
    hedge_quantity: float
    margin: float
    option_legs: int


def dataset(
    market: OptionMarket,
    book: OptionBook,
    rows: list[OptionRow],
    rule: Any,
    data: tuple[Any, ...],
    capital: float,
) -> xr.Dataset:
    """Return the result of a backtest; see `derivdata.analysis.backtest.options`."""
    # 1. Amounts over time.
    currency, unit = ("coin", "coin") if book.account.in_coin else ("usd", "USD")
    times = np.array([row.time for row in rows], dtype=np.int64).view("datetime64[us]")
    equity = np.array([row.equity for row in rows])
    peak = np.maximum.accumulate(np.maximum(equity, capital))
    variables: dict[str, Any] = {
        f"equity_{currency}": ("time", equity, {"units": unit}),
        "drawdown": ("time", 1.0 - equity / peak, {"units": "fraction"}),
    }
    for name in ("option_pnl", "underlying_pnl", "hedge_pnl", "funding", "fees", "spread"):
        values = np.array([getattr(row.tally, name) for row in rows])
        variables[f"{name}_{currency}"] = ("time", values, {"units": unit})
    units = {
        "delta": "coin",
        "net_delta": "coin",
        "gamma": f"{unit}/USD^2",
        "vega": f"{unit} per 1.00 of volatility",
        "theta": f"{unit}/year",
        "hedge_quantity": "coin, or USD of an inverse perpetual",
        "option_legs": "count",
    }
    for name, its_unit in units.items():
        variables[name] = ("time", np.array([getattr(row, name) for row in rows]), {"units": its_unit})
    margin = np.array([row.margin for row in rows])
    variables[f"margin_{currency}"] = ("time", margin, {"units": unit})
    counts = {
        "unmarked": "unmarked_options",
        "interpolated": "interpolated_marks",
        "refused": "refused_trades",
        "unhedged": "unhedged",
    }
    for name, public in counts.items():
        values = np.array([getattr(row.tally, name) for row in rows])
        variables[public] = ("time", values, {"units": "count"})

    # 2. The attribution of the options' P&L, the fills, and scalars.
    contribution = _contributions(book, len(rows))
    variables[f"contribution_{currency}"] = (("term", "time"), contribution, {"units": unit})
    variables |= _fills(book, times, currency, unit)
    missing = sum(row.tally.missing_funding_hours for row in rows)
    variables |= {
        f"net_{currency}": ((), equity[-1] - capital, {"units": unit}),
        "max_drawdown": ((), float(np.max(1.0 - equity / peak)), {"units": "fraction"}),
        "margin_calls": ((), int((margin > equity).sum()), {"units": "count"}),
        "missing_funding_hours": ((), missing, {"units": "h"}),
        "gap_hours": ((), _gap_hours(rows), {"units": "h"}),
    }
    result = xr.Dataset(variables, {"time": times, "term": list(TERMS)})
    result.attrs = {
        "symbol": market.symbol,
        "exchange": market.venue,
        f"capital_{currency}": capital,
        "rule": described(rule),
        "index_price": market.spot_source,
    }
    _warn(result)
    return result.assign_attrs(_origin(data))


def _origin(data: tuple[Any, ...]) -> dict[str, str]:
    given = [table for table in data if hasattr(table, "attrs")]
    origins = [provenance(table) if "provenance" in table.attrs else None for table in given]
    return {"provenance": json.dumps(joined_provenance(origins), sort_keys=True)} if any(origins) else {}


def _fills(book: OptionBook, times: Any, currency: str, unit: str) -> dict[str, Any]:
    """Return the variables of the result that describe the fills; `unit` is that of the `currency`."""
    contracts = pd.DataFrame([fill.contract for fill in book.fills], columns=Contract._fields)
    fills = pd.DataFrame(book.fills, columns=Fill._fields)
    # 0 marks a contract without an expiry or strike.
    expiry = contracts["expiry"].astype(object).where(contracts["expiry"] != 0)
    stamps = pd.to_datetime(expiry, unit="us").to_numpy("datetime64[us]")
    strike = contracts["strike"].astype(np.float64).where(contracts["strike"] != 0.0).to_numpy()
    flags = {"flag_values": np.array([TRADED, DELIVERED], dtype=np.int8), "flag_meanings": "trade delivery"}
    price = {"units": f"{unit}; USD of futures, perpetuals and spot"}
    return {
        "fill_time": ("fill", times[fills["row"].to_numpy(np.intp)]),
        "fill_side": ("fill", contracts["side"].to_numpy(dtype=str)),
        "fill_expiry": ("fill", stamps),
        "fill_strike": ("fill", strike, {"units": "USD"}),
        "fill_quantity": ("fill", fills["quantity"].to_numpy(np.float64)),
        "fill_price": ("fill", fills["price"].to_numpy(np.float64), price),
        "fill_mark": ("fill", fills["mark"].to_numpy(np.float64), price),
        f"fill_fee_{currency}": ("fill", fills["fee"].to_numpy(np.float64), {"units": unit}),
        "fill_reason": ("fill", fills["reason"].to_numpy(np.int8), flags),
    }


def _gap_hours(rows: list[OptionRow]) -> float:
    """Return the hours beyond the usual step between chains while options were open."""
    chains = [row for row in rows if row.is_chain]
    hours = np.diff([row.time for row in chains]) / 3_600e6
    if not hours.size:
        return 0.0
    usual = float(np.median(hours))
    held = np.array([row.option_legs > 0 for row in chains[:-1]])
    return float((hours - usual)[held & (hours > _GAP * usual)].sum())


def _warn(result: xr.Dataset) -> None:
    """Give a notice with the counts of missing data."""
    totals = {
        "unmarked_options": "{} option marks are missing; the last known marks are used",
        "interpolated_marks": "{} option marks belong to expiries without a separate fit",
        "refused_trades": "{} position changes were not traded because a quote or mark is missing",
        "unhedged": "{} hedges were not traded because a price is missing",
        "missing_funding_hours": "funding payments are missing for {} h",
        "gap_hours": "chains are missing for {} h with open options",
    }
    messages = []
    for name, words in totals.items():
        count = float(result[name].sum())
        if count:
            messages.append(words.format(f"{count:g}"))
    below = 0
    for name in ("equity_usd", "equity_coin"):
        if name in result:
            below += int((result[name] < 0.0).sum())
    if below:
        messages.append(f"equity is below 0 at {below} timestamps: the position exceeds the capital")
    if messages:
        warn_caller("option backtest: " + "; ".join(messages))


def _contributions(book: OptionBook, rows: int) -> Any:
    """Return the contribution of each term at each time."""
    total = np.zeros((len(TERMS), rows))
    if not book.steps:
        return total
    terms = step_terms(book.steps, book.account.premium)
    place = np.array([step.row for step in book.steps])
    for at, name in enumerate(TERMS):
        np.add.at(total[at], place, terms[name])
    return total


def step_terms(steps: list[Step], premium: str) -> dict[str, Any]:
    """Split the P&L of each step of an option into the terms of `derivdata.analysis.position.attribution`.

    The value is Black's value times the ratio of currencies R. Changes of Black's value are multiplied by the
    earlier R. The change of R, multiplied by the later Black's value, is ``carry``.
    """

    def over(values: list[Any], kind: Any = np.float64) -> xr.DataArray:
        """Return the values over the dim ``leg``, one for each step."""
        return xr.DataArray(np.array(values, dtype=kind), dims="leg")

    # 1. Collect the inputs of all steps as arrays along `leg`.
    before = [step.before for step in steps]
    after = [step.after for step in steps]
    quantity = over([step.quantity for step in steps])
    ratio = over([value.ratio for value in before])
    ratio_after = over([value.ratio for value in after])
    base = over([value.base for value in before])
    base_after = over([value.base for value in after])
    forward = over([value.mark.forward for value in before])
    forward_after = over([value.mark.forward for value in after])
    iv = over([value.mark.iv for value in before])
    years = over([value.mark.years for value in before])
    years_after = over([value.mark.years for value in after])
    settled = years_after <= 0.0
    iv_after = xr.where(settled, iv, over([value.mark.iv for value in after]))  # type: ignore[no-untyped-call]
    rate = over([value.mark.rate for value in before])
    legs = Legs(
        strike=over([step.contract.strike for step in steps]),
        side=over([step.contract.side for step in steps], object),
        quantity=quantity * ratio,
        year_fraction=years,
        forward=forward,
        cut=None,  # type: ignore[arg-type]
        origin=None,  # type: ignore[arg-type]
        rules=None,
        dated=None,  # type: ignore[arg-type]
        is_option=over([True] * len(steps), bool),
        entry=over([np.nan] * len(steps)),
    )

    # 2. Compute the terms of Black's value, at the earlier ratio.
    later = legs._replace(year_fraction=years_after)
    move = forward_after - forward
    pnl_terms = leg_terms(legs, later, (iv, iv), (move, move, iv_after - iv), rate, premium)
    terms = {str(name): pnl_terms.sel(term=name).to_numpy() for name in pnl_terms["term"].to_numpy()}
    is_settled = settled.to_numpy()
    for name, values in terms.items():
        terms[name] = np.where(is_settled & np.isnan(values), 0.0, values)
    del terms["rho"]  # delta includes the full move of the forward

    # 3. Add the residual, and the change of the ratio.
    change = (quantity * ratio * (base_after - base)).to_numpy()
    unexplained = change - sum(terms.values())
    terms["settlement"] = np.where(is_settled, unexplained, 0.0)
    terms["carry"] = (quantity * base_after * (ratio_after - ratio)).to_numpy()
    terms["residual"] = np.where(is_settled, 0.0, unexplained)
    return terms
