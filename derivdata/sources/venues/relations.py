"""What the figures of one row of a venue say of each other and of themselves: the relations, as data.

A relation names figures of a record, and what finds that they cannot be. Where a figure is missing, nothing
is checked. `derivdata.client.relations` has those of the API.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from derivdata.sources.venues.record_types import (
    Delivery,
    IndexPoint,
    Instrument,
    Interval,
    Liquidation,
    OiPoint,
    Option,
    Positioning,
    Price,
    Quotes,
    State,
    Taken,
    Traded,
)
from derivdata.tables.contracts import QUOTES
from derivdata.tables.payments import VALID_HOURS

_HOUR_US = 3_600_000_000
_DAY_US = 86_400_000_000
_LARGEST_PRICES = {"BTC": 3e6, "ETH": 1e5}
"""Prices [USD] above which a figure is in another unit: 20 times the highest price until 2026."""


def _far(factor: float) -> Callable[[float, float], bool]:
    """Return what finds a figure that is `factor` times another one of the same kind, or that part of it."""
    return lambda a, b: a > 0 < b and not b / factor <= a <= b * factor


def _is_negative(value: float) -> bool:
    return value < 0


def _is_no_price(item: Instrument, price: float) -> bool:
    """Return whether a price is above all that BTC or ETH may have in USD."""
    return item.quote in QUOTES and price > _LARGEST_PRICES.get(item.symbol, math.inf)


def _implies_no_price(item: Instrument, usd: float, coins: float) -> bool:
    """Return whether open interest in USD is not that in coins at a price that the coin may have."""
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
        "mark last": _far(20),  # a contract may not trade for long
        "period_h": _is_no_interval,
        "rate": lambda rate: abs(rate) > 1,  # no venue lets a contract pay its whole value at once
        "change_pct": lambda percent: percent < -100,
        # Some venues name a payment as the next for a while after it was made.
        # A payment is due within one interval; some venues count the hours from another minute.
        "next_payment time period_h": lambda due, now, hours: due - now > (hours + 0.25) * _HOUR_US,
        "next_payment time": lambda due, now: not -_HOUR_US <= due - now <= _DAY_US + _HOUR_US,
    },
    Option: {
        "delta side": lambda delta, side: (delta if side == "call" else -delta) < -1e-6,
        "delta": lambda delta: abs(delta) > 1.5,  # in coin it is that of the price in coin too
        "gamma": lambda gamma: gamma < -1e-9,
        "vega": lambda vega: vega < -1e-6,
        "theta": lambda theta: theta > 1e-6,
        "iv": lambda iv: not 0 <= iv <= 50,  # a cheap option may have any
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
    Taken: dict.fromkeys(("buy_usd", "sell_usd"), _is_negative),
    Traded: {
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
"""Figures of a record, by names, and what finds that they contradict each other or cannot be."""


_BY_KIND = {
    kind: [(names.split(), is_broken) for names, is_broken in relations.items()]
    for kind, relations in _RELATIONS.items()
}
_LEAST_LARGE_PRICE = min(_LARGEST_PRICES.values())


def _are_usual_prices(rows: Sequence[Any]) -> bool:
    """Return whether no price of a history can break a relation: histories are long."""
    prices: list[float] = [row.price for row in rows]
    return min(prices) >= 0.0 and max(prices) <= _LEAST_LARGE_PRICE


def _are_usual_amounts(rows: Sequence[Any]) -> bool:
    """Return whether no open interest of a history can break a relation."""
    pairs: list[tuple[float, float]] = [(row.oi_usd or 0.0, row.oi_coins or 0.0) for row in rows]
    return all(usd >= 0.0 and coins >= 0.0 and usd <= _LEAST_LARGE_PRICE * coins for usd, coins in pairs)


_USUAL: dict[type, Callable[[Sequence[Any]], bool]] = {Price: _are_usual_prices, OiPoint: _are_usual_amounts}
_NO_QUOTES = Quotes(in_coin=False)
_NAMING = ("instrument", "side", "time", "quotes.in_coin", "option.side", "option.quotes.in_coin")
"""What identifies a row or its unit, and is no figure."""


def contradictions(rows: Sequence[Any]) -> dict[int, list[str]]:
    """Return the figures that cannot be, of rows of one kind, by the places of the rows."""
    found: dict[int, list[str]] = {}
    kind = type(rows[0]) if rows else State
    if kind in _USUAL and _USUAL[kind](rows):
        return found
    if kind is Option:
        rows = [row if row.quotes is not None else row._replace(quotes=_NO_QUOTES) for row in rows]
    for names, is_broken in _BY_KIND.get(kind, ()):
        columns = [list(map(attrgetter(name), rows)) for name in names]
        for place, figures in enumerate(zip(*columns, strict=True)):
            if None not in figures and is_broken(*figures):
                found.setdefault(place, []).extend(name for name in names if name not in _NAMING)
    return found


def without(row: Any, names: Sequence[str]) -> Any | None:
    """Return a row without some figures; None: it is no row without them."""
    if not isinstance(row, State | Option):
        return None
    figures: dict[str, Any] = {name.partition(".")[0]: None for name in names}
    return row._replace(**figures)


def told(row: Any, names: Sequence[str]) -> str:
    """Return what a row says, for a message."""
    named = getattr(row, "instrument", getattr(row, "option", row))
    name = named.name if hasattr(named, "name") else named.symbol
    return f"{name}: " + " and ".join(f"{n} {attrgetter(n)(row):g}" for n in dict.fromkeys(names))
