"""Records of a venue's values, one per contract and time, and the relations between the values.

An adapter converts a body to records; `tabulation.frames` converts records to tables. Times are microseconds
since 1970 (UTC). Missing times and numbers are None, never 0.

A relation has some values of a record, and a function that detects impossible ones. Missing values are not
checked. `derivdata.client.relations` has the relations of the API.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from derivdata.tables.contracts import QUOTES
from derivdata.tables.payments import VALID_HOURS

_QUOTE_RANKS = dict(zip(QUOTES, range(len(QUOTES)), strict=True))


class Instrument(NamedTuple):
    """One contract of a venue."""

    name: str  # the venue's own id
    # `symbol`, `quote`: base asset without quote, and the quote currency ("" where it is not known)
    symbol: str
    quote: str = ""
    # Coins of one contract; of an inverse contract its USD. None where it is not known
    size: float | None = None
    # `inverse`, `perpetual`, `active`: whether it is coin-margined, without expiry, and trading
    inverse: bool = False
    perpetual: bool = True
    active: bool = True
    # `strike` [USD] of an option, `expiry` [µs] of an option or a dated future, if a list has them
    strike: float | None = None
    expiry: int | None = None
    # `listed`, `delisted` [µs], `tick` of prices and `step` of sizes, if a list has them
    listed: int | None = None
    delisted: int | None = None
    tick: float | None = None
    step: float | None = None

    @property
    def is_dated(self) -> bool:
        """Return whether the contract is a future with a known expiry."""
        return not self.perpetual and self.expiry is not None and self.strike is None

    @property
    def margin(self) -> str:
        """Return ``"inverse"`` or ``"linear"``."""
        if self.inverse:
            return "inverse"
        return "linear"

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """Return the priority of the contract within its symbol; the lowest value is preferred."""
        return not self.perpetual, _QUOTE_RANKS.get(self.quote, len(QUOTES)), self.inverse

    def without_expiry(self) -> Instrument:
        """Return a perpetual with its stated expiry as the time of delisting; other contracts unchanged."""
        if not self.perpetual:
            return self
        return self._replace(expiry=None, delisted=self.expiry)

    def coins(self, contracts: float | None, price: float | None) -> float | None:
        """Return the coins of some contracts; an inverse contract needs the price."""
        if contracts is None or self.size is None:
            return None
        if not self.inverse:
            return contracts * self.size
        if not price:
            return None
        return contracts * self.size / price

    def usd(self, contracts: float | None, price: float | None) -> float | None:
        """Return the value of some contracts in USD; a linear contract needs the price."""
        if contracts is None or self.size is None:
            return None
        if self.inverse:
            return contracts * self.size
        if price is None:
            return None
        return contracts * self.size * price


class State(NamedTuple):
    """Current state of one contract in one response.

    `rate` is quoted for `period_h` hours and paid every `settle_h` hours, next at `next_payment` [µs].
    """

    instrument: Instrument
    time: int | None
    rate: float | None = None
    period_h: float | None = None
    settle_h: float | None = None
    mark: float | None = None
    index_price: float | None = None
    last: float | None = None
    price: float | None = None
    oi_usd: float | None = None
    oi_coins: float | None = None
    volume_usd: float | None = None
    change_pct: float | None = None
    next_payment: int | None = None
    oi_all_usd: float | None = None  # open interest of all perpetuals of the symbol


class Payment(NamedTuple):
    """One funding payment.

    The rate is quoted for `period_h` hours, None for the interval. `stated_h` is the interval that the row
    states.
    """

    instrument: Instrument
    time: int
    rate: float
    period_h: float | None = None
    stated_h: float | None = None


class StatedRate(NamedTuple):
    """A funding rate with the settlement [µs] that it is for, and its kind, settled, next or predicted.

    The rate is quoted for `period_h` hours and paid every `settle_h` hours, None if missing in the body.
    `venue` is the slug of another venue with this rate.
    """

    instrument: Instrument
    kind: str
    rate: float
    settlement: int | None
    time: int | None
    period_h: float | None
    settle_h: float | None
    venue: str | None = None


_N = TypeVar("_N", bound=tuple[Any, ...])


def from_columns(kind: type[_N], *columns: Iterable[Any]) -> list[_N]:
    """Return named tuples from one column for each field; some columns may repeat a value without end.

    Unlike ``kind._make``, this runs no Python code for each row, because histories are long.
    """
    return list(map(partial(tuple.__new__, kind), zip(*columns, strict=False)))


class OiPoint(NamedTuple):
    """Open interest of a contract at a past time."""

    instrument: Instrument
    time: int
    oi_usd: float | None
    resolution: str = "raw"
    oi_coins: float | None = None
    oi_all_usd: float | None = None  # open interest of all perpetuals of the symbol


class OiBar(NamedTuple):
    """Open interest of a contract in the step that begins at `time`: coins, or USD of an inverse contract."""

    instrument: Instrument
    time: int
    opened: float
    highest: float
    lowest: float
    closed: float
    resolution: str


class BorrowRate(NamedTuple):
    """Rate at which a venue lends a coin, as a fraction per year, up to `most` coins."""

    symbol: str
    time: int | None
    rate_apr: float
    most: float | None


class MarginTier(NamedTuple):
    """Margin of positions up to a size, in USD or in coins; margins are fractions of notional."""

    instrument: Instrument
    tier: int
    most_usd: float | None
    most_coins: float | None
    initial: float | None
    maintenance: float
    leverage: float | None


class Positioning(NamedTuple):
    """Long against short accounts or positions; `time` is the time of the state, or a period's end."""

    instrument: Instrument
    time: int
    kind: str
    long_share: float | None
    short_share: float | None
    ratio: float
    resolution: str


class TakerVolume(NamedTuple):
    """Volume that takers bought and sold in the step that begins at `time`; None if coins have no price."""

    instrument: Instrument
    time: int
    buy_usd: float | None
    sell_usd: float | None
    resolution: str


class Price(NamedTuple):
    """A price of the past: `kind` is mark, index, last or spot."""

    instrument: Instrument
    time: int
    kind: str
    price: float
    resolution: str


class Liquidation(NamedTuple):
    """One fill of a liquidated position; `side` is the side of the position, quantities are in coins."""

    instrument: Instrument
    time: int
    side: str
    order_price: float | None
    fill_price: float | None
    quantity: float | None
    filled: float | None
    value_usd: float | None
    native: tuple[object, ...]
    order_id: str = ""

    @classmethod
    def of(
        cls,
        item: Instrument,
        time: int,
        side: str,
        amount: float,
        *,
        order_price: float | None = None,
        fill_price: float | None = None,
        ordered: float | None = None,
        value_usd: float | None = None,
        native: tuple[object, ...] = (),
        order_id: str = "",
    ) -> Liquidation:
        """Return a liquidation of an amount in the venue's unit, valued at the fill's or the order's price.

        `ordered` is the quantity of the order if the venue has it; `value_usd` the venue's own value.
        """
        price = fill_price or order_price
        coins = item.coins(amount, price)
        usd = item.usd(amount, price)
        return cls(
            item,
            time,
            side,
            order_price,
            fill_price,
            coins if ordered is None else item.coins(ordered, price),
            coins,
            usd if value_usd is None else value_usd,
            native,
            order_id,
        )


class OrderBook(NamedTuple):
    """Order book of one contract: (price, coins) from the best price on; coins None if unknown."""

    instrument: Instrument
    time: int | None
    bids: list[tuple[float, float | None]]
    asks: list[tuple[float, float | None]]


class Quotes(NamedTuple):
    """Prices of an option, in coin if `in_coin`, else in USD; `volume` is contracts of 24 hours."""

    in_coin: bool
    bid: float | None = None
    ask: float | None = None
    mark: float | None = None
    index_price: float | None = None
    volume: float | None = None


class Option(NamedTuple):
    """One option in one response."""

    name: str
    symbol: str
    time: int | None
    expiry: int
    strike: float
    side: str
    iv: float | None = None
    delta: float | None = None
    gamma: float | None = None
    vega: float | None = None
    theta: float | None = None
    open_interest: float | None = None
    underlying: float | None = None
    quotes: Quotes | None = None
    rho: float | None = None
    interest_rate: float | None = None
    quoted_at: int | None = None


class OptionTrade(NamedTuple):
    """One trade of an option; the price is in coin if `option.quotes` says so, the size in coins."""

    option: Option
    trade_id: str
    taker_side: str
    execution: str
    price: float
    size: float


class Delivery(NamedTuple):
    """Settlement price of the contracts that expire at a time.

    `contract` is the kind of contract and the quote currency of its index, such as ``option:USD``.
    """

    symbol: str
    time: int
    price: float
    contract: str


class IndexPoint(NamedTuple):
    """A volatility index that a venue publishes [%], at the end of a step."""

    symbol: str
    time: int
    index_pct: float
    resolution: str


class Interval(NamedTuple):
    """Current hours between the funding payments of a contract."""

    instrument: Instrument
    hours: float


@dataclass
class Records:
    """The records of one or several bodies, by kind."""

    instruments: list[Instrument] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    rates: list[StatedRate] = field(default_factory=list)
    oi: list[OiPoint] = field(default_factory=list)
    oi_bars: list[OiBar] = field(default_factory=list)
    borrow_rates: list[BorrowRate] = field(default_factory=list)
    margin_tiers: list[MarginTier] = field(default_factory=list)
    prices: list[Price] = field(default_factory=list)
    positioning: list[Positioning] = field(default_factory=list)
    taker_volumes: list[TakerVolume] = field(default_factory=list)
    liquidations: list[Liquidation] = field(default_factory=list)
    books: list[OrderBook] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    trades: list[OptionTrade] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    indices: list[IndexPoint] = field(default_factory=list)
    dexes: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    """Raw timestamps of all rows of a page, including unused ones, from which the next page continues."""
    omitted: list[str] = field(default_factory=list)
    """Reasons for omitted rows that fail their own checks, such as contradictory values."""
    withheld: Records | None = None
    """Original rows, of which contradictory values were removed."""
    cursor: str | None = None
    """Token for the next page."""

    def merged(self) -> Records:
        """Merge several responses into one state per contract and one row per option.

        Missing values are filled from later responses. The state has the first timestamp. A chain has its
        newest timestamp, so that it has a single time.
        """
        states: dict[str, State] = {}
        for state in self.states:
            earlier = states.get(state.instrument.name, state)
            states[state.instrument.name] = State(*filled(earlier, state))
        options: dict[str, Option] = {}
        for option in self.options:
            first = options.get(option.name, option)
            whole = Option(*filled(first, option))
            if first.quotes is not None and option.quotes is not None:
                whole = whole._replace(quotes=Quotes(*filled(first.quotes, option.quotes)))
            options[option.name] = whole
        newest: dict[str, int] = {}
        for option in options.values():
            if option.time is not None:
                newest[option.symbol] = max(option.time, newest.get(option.symbol, 0))
        chain = [o._replace(time=newest.get(o.symbol)) for o in options.values()]
        return replace(self, states=[*states.values()], options=chain)

    def add_past(self, row: Payment | OiPoint | Price | Liquidation) -> None:
        """Add a row of a history and its timestamp."""
        self.times.append(row.time)
        past = {Payment: self.payments, OiPoint: self.oi, Price: self.prices, Liquidation: self.liquidations}
        past[type(row)].append(row)  # type: ignore[attr-defined]

    def add(self, other: Records) -> None:
        """Add the records of another body, and take over its cursor."""
        for name in _LISTS:
            value = getattr(other, name)
            if value:
                getattr(self, name).extend(value)
        self.cursor = other.cursor


_LISTS = [member.name for member in fields(Records) if member.default_factory is list]


def omitted(reasons: Sequence[str], what: str = "row") -> str:
    """Return a text with the number of omitted rows and the first reason; empty without reasons."""
    if not reasons:
        return ""
    if len(reasons) == 1:
        return f"1 {what} omitted: {reasons[0]}"
    return f"{len(reasons)} {what}s omitted, the first: {reasons[0]}"


def filled(first: tuple[Any, ...], second: tuple[Any, ...]) -> list[Any]:
    """Return the fields of the first record, with missing values from the second."""
    return [a if a is not None else b for a, b in zip(first, second, strict=True)]


_HOUR_US = 3_600_000_000
_DAY_US = 86_400_000_000
_LARGEST_PRICES = {"BTC": 3e6, "ETH": 1e5}
"""Prices [USD] above which a figure is in another unit: 20 times the highest price until 2026."""


def _far(factor: float) -> Callable[[float, float], bool]:
    """Return a function that detects two positive values that differ by more than a factor."""

    def is_far(first: float, second: float) -> bool:
        return min(first, second) > 0 and max(first, second) > factor * min(first, second)

    return is_far


def _is_negative(value: float) -> bool:
    return value < 0


def _is_no_price(item: Instrument, price: float) -> bool:
    """Return whether a price exceeds the maximum for BTC or ETH in USD."""
    return item.quote in QUOTES and price > _LARGEST_PRICES.get(item.symbol, math.inf)


def _implies_no_price(item: Instrument, usd: float, coins: float) -> bool:
    """Return whether open interest in USD and in coins implies an impossible price of the coin."""
    return usd > 0 < coins and _is_no_price(item, usd / coins)


def _is_no_interval(hours: float) -> bool:
    return hours not in VALID_HOURS


_RELATIONS: dict[type, dict[str, Callable[..., bool]]] = {
    State: {
        **dict.fromkeys(("mark", "index_price", "last", "price"), _is_negative),
        **dict.fromkeys(("oi_usd", "oi_coins", "volume_usd"), _is_negative),
        **dict.fromkeys(
            ("instrument mark", "instrument index_price", "instrument last", "instrument price"), _is_no_price
        ),
        "instrument oi_usd oi_coins": _implies_no_price,
        "mark index_price": _far(5),
        "mark last": _far(20),  # large tolerance, because a contract may not have traded for a long time
        "period_h": _is_no_interval,
        "rate": lambda rate: abs(rate) > 1,  # a payment cannot exceed the value of the contract
        "change_pct": lambda percent: percent < -100,
        # Some venues still name a payment as the next one shortly after it was made. A payment is due within
        # one interval; some venues count hours from another minute.
        "next_payment time period_h": lambda due, now, hours: due - now > (hours + 0.25) * _HOUR_US,
        "next_payment time": lambda due, now: not -_HOUR_US <= due - now <= _DAY_US + _HOUR_US,
    },
    Option: {
        "delta side": lambda delta, side: (delta if side == "call" else -delta) < -1e-6,
        "delta": lambda delta: abs(delta) > 1.5,  # an option in coin also has a delta in coin
        "gamma": lambda gamma: gamma < -1e-9,
        "vega": lambda vega: vega < -1e-6,
        "theta": lambda theta: theta > 1e-6,
        "iv": lambda iv: not 0 <= iv <= 50,  # cheap options may have any volatility
        **dict.fromkeys(("open_interest", "underlying", "quotes.volume"), _is_negative),
        **dict.fromkeys(("quotes.bid", "quotes.ask", "quotes.mark"), _is_negative),
        "quotes.bid quotes.ask": lambda bid, ask: bid > ask > 0,
        "underlying quotes.index_price": _far(1.5),
        "quotes.mark quotes.in_coin side": lambda mark, coin, side: coin and side == "call" and mark > 1.05,
        "quotes.mark quotes.in_coin underlying": lambda mark, coin, price: not coin and mark > 5 * price > 0,
    },
    Interval: {"hours": _is_no_interval},
    OiPoint: {
        **dict.fromkeys(("oi_usd", "oi_coins"), _is_negative),
        "instrument oi_usd oi_coins": _implies_no_price,
    },
    Price: {"price": _is_negative, "instrument price": _is_no_price},
    Liquidation: {
        **dict.fromkeys(("quantity", "filled", "value_usd"), _is_negative),
        **dict.fromkeys(("order_price", "fill_price"), _is_negative),
        "order_price fill_price": _far(2),
        "filled quantity": lambda filled, ordered: filled > 1.001 * ordered,
        "value_usd filled fill_price": lambda usd, coins, price: _far(2)(usd, coins * price),
    },
    Positioning: {
        **dict.fromkeys(("long_share", "short_share"), lambda share: not 0 <= share <= 1),
        "ratio": _is_negative,
    },
    TakerVolume: dict.fromkeys(("buy_usd", "sell_usd"), _is_negative),
    OptionTrade: {
        "price": _is_negative,
        "option.iv": lambda iv: not 0 <= iv <= 50,
        "option.underlying option.quotes.index_price": _far(1.5),
        "price option.quotes.in_coin option.side": lambda price, coin, side: (
            coin and side == "call" and price > 1.05
        ),
    },
    Delivery: {"price": _is_negative},
    IndexPoint: {"index_pct": lambda percent: not 1 <= percent <= 1000},
}
"""Values of a record, by names, and the function that returns whether they are impossible."""


_BY_KIND = {
    kind: [(names.split(), is_broken) for names, is_broken in relations.items()]
    for kind, relations in _RELATIONS.items()
}
_MIN_LARGE_PRICE = min(_LARGEST_PRICES.values())


def _are_usual_prices(rows: Sequence[Any]) -> bool:
    """Return whether all prices are plausible, so that a long history needs no check of each row."""
    prices: list[float] = [row.price for row in rows]
    return min(prices) >= 0.0 and max(prices) <= _MIN_LARGE_PRICE


def _are_usual_amounts(rows: Sequence[Any]) -> bool:
    """Return whether all open interest is plausible, as `_are_usual_prices` does."""
    pairs: list[tuple[float, float]] = [(row.oi_usd or 0.0, row.oi_coins or 0.0) for row in rows]
    return all(usd >= 0.0 and coins >= 0.0 and usd <= _MIN_LARGE_PRICE * coins for usd, coins in pairs)


_USUAL: dict[type, Callable[[Sequence[Any]], bool]] = {Price: _are_usual_prices, OiPoint: _are_usual_amounts}
_NO_QUOTES = Quotes(in_coin=False)
_NAMING = ("instrument", "side", "time", "quotes.in_coin", "option.side", "option.quotes.in_coin")
"""Fields that identify a row or its unit."""


def contradictions(rows: Sequence[Any]) -> dict[int, list[str]]:
    """Return the names of impossible values of rows of one kind, by the index of the row."""
    faults: dict[int, list[str]] = {}
    kind = type(rows[0]) if rows else State
    if kind in _USUAL and _USUAL[kind](rows):
        return faults
    if kind is Option:
        rows = [row if row.quotes is not None else row._replace(quotes=_NO_QUOTES) for row in rows]
    for names, is_broken in _BY_KIND.get(kind, ()):
        columns = [list(map(attrgetter(name), rows)) for name in names]
        for place, figures in enumerate(zip(*columns, strict=True)):
            if None not in figures and is_broken(*figures):
                faults.setdefault(place, []).extend(name for name in names if name not in _NAMING)
    return faults


def without(row: Any, names: Sequence[str]) -> Any | None:
    """Return a row without some values; None if it is invalid without them."""
    if not isinstance(row, State | Option):
        return None
    figures: dict[str, Any] = {name.partition(".")[0]: None for name in names}
    return row._replace(**figures)


def value_text(row: Any, names: Sequence[str]) -> str:
    """Return some values of a row as text for a message."""
    named = getattr(row, "instrument", getattr(row, "option", row))
    name = named.name if hasattr(named, "name") else named.symbol
    return f"{name}: " + " and ".join(f"{n} {attrgetter(n)(row):g}" for n in dict.fromkeys(names))
