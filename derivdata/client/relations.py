"""Relations between the figures of one response, and option names compared with its columns.

A relation is a list of figures by name (`derivdata.client.reading.figure`) and a function that finds the rows
that break it. A breach of a relation that the API document guarantees is an error. All other breaches are
notices: by rule 7 of the document, figures of one response may be of different minutes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from derivdata.client.reading import DAY_US, HOUR_US, CheckedResponse
from derivdata.support.arrays import Array
from derivdata.tables import endpoints
from derivdata.tables.contracts import base, contract, names_coin
from derivdata.tables.frames import other_tickers

SHARES_TOLERANCE = 0.02
"""Maximum excess of rounded market shares over 1, single or summed."""

_HIGH_RATE_BPS = 400.0

_USUALLY = {
    **dict.fromkeys(("price_usd", "price", "underlying_price", "index_price_usd", "atm_strike"), 4.0),
    **dict.fromkeys(("oi_usd", "total_oi_usd", "notional_oi_usd"), 8.0),
    "index_pct": 8.0,
}
"""Factor by which a figure may differ from the median of its series."""

Relations = dict[str, Callable[..., Any]]


def _far(factor: float) -> Callable[[Array, Array], Array]:
    """Return a function that finds figures more than `factor` times above or below another figure."""
    return lambda a, b: (b > 0) & ((a > factor * b) | (a * factor < b))


def _spacing(factor: float) -> Relations:
    """Compare intervals with the time between payments. Minutes read as hours differ by a factor of 60.

    Missing payments make gaps longer, never shorter.
    """
    is_far = _far(factor)
    return {
        "@settled,typical hours_apart,typical interval_hours": lambda _, apart, hours: is_far(apart, hours),
        "@settled,min hours_apart,min interval_hours": lambda _, apart, hours: apart * factor < hours,
    }


def _falling(name: str) -> Relations:
    """Check that ranks are consecutive and that a figure falls from rank to rank."""
    return {
        f"next:rank {name},{name}": lambda following, figure: following > figure,
        f"next:rank rank,rank,{name}": lambda following, rank, _: abs(following - rank - 1) > 0,
    }


PROMISED: dict[str, Relations] = {
    "unsorted book": {
        "next:level price_usd,price_usd,side=bid": lambda n, p, bid: np.where(bid, n > p, n < p)
    },
    "closer than the resolution": {"step_hours,hours_apart": lambda s, apart: (apart > 0) & (apart <= s / 2)},
    "interval against spacing": _spacing(20.0),
    "stated count": {
        "$count,#,limit": lambda n, rows, limit: (n < rows) | ((n > rows) & (rows < limit)),
        "$total,#,total_oi_usd": lambda n, rows, _: n != rows,
    },
    # The median is compared, because single options trade above 1,000 % in their last hours.
    "volatility in percent": dict.fromkeys(("median iv", "median atm_iv"), lambda iv: iv > 10),
    "interval that ends first": {"start,end": lambda a, b: a >= b},
    "mover against rank": {
        "next:rank price_24h_change_pct,price_24h_change_pct,direction=loser": lambda n, pct, loser: np.where(
            loser, n < pct, n > pct
        ),
        "next:rank rank,rank,direction=loser": lambda n, rank, _: abs(n - rank - 1) > 0,
    },
    "leader against rank": _falling("funding_current_bps_8h"),
}
"""Relations that the API document guarantees, by rule."""

LIKELY: dict[str, Relations] = {
    "unlikely interval": {  # an interval may change between 1 and 8 hours, a factor of 8
        "@settled,interval_hours,typical interval_hours": lambda _, h, usual: _far(9)(h, usual),
    },
    "off the resolution": {
        "step_hours,time": lambda s, t: t.astype(np.int64) % np.int64(s[0] * HOUR_US) != 0,
        # "@regular": prices of an archive or the sample may be sparser than the step.
        "step_hours,median hours_apart,count hours_apart,@regular": lambda s, apart, n, _: (
            (n > 3) & (apart > 1.5 * s)
        ),
    },
    "unlikely book": {
        "best:bid price_usd,best:ask price_usd": lambda bid, ask: (bid >= ask) | (ask > 1.5 * bid),
        "next:level price_usd,price_usd": lambda n, p: n == p,
    },
    "symbol against rank": {
        **_falling("oi_usd"),
        "rank": lambda rank: rank < 1,
        "oi_rank": lambda rank: rank < 1,
    },
    "stated total": {
        "$total_market_oi,sum total_oi_usd": _far(1.05),
        "$totals.total_usd,sum total_usd": _far(1.05),
        "$totals.total_count,sum total_count": _far(1.001),
        **{f"$totals.{side}_usd,sum {side}_usd": _far(1.05) for side in ("long", "short")},
        **{f"$totals.{side}_count,sum {side}_count": _far(1.001) for side in ("long", "short")},
        "sum market_share": lambda s: abs(s - 1) > SHARES_TOLERANCE,
    },
    "figure against its parts": {
        "market_share,total_oi_usd,sum total_oi_usd": lambda s, a, b: abs(s - a / b) > 0.001 + 0.1 * s,
        "total_usd,long_usd,short_usd": lambda t, a, b: abs(t - a - b) > 1 + 0.01 * t,
        "total_count,long_count,short_count": lambda t, a, b: t != a + b,
        "long_share,short_share,long_short_ratio": lambda a, b, r: abs(r - a / b) > 0.005 * r,
        "symbol_count,#symbols": lambda n, listed: n != listed,
        "volume_oi_ratio,volume_usd,oi_usd": lambda r, v, oi: abs(r - v / oi) > 0.001 + 0.02 * r,
        "value_usd,fill_price_usd,filled_quantity,order_price_usd,quantity": lambda v, fp, f, op, q: (
            _far(2)(v, fp * f) & _far(2)(v, op * q)
        ),
        "filled_quantity,quantity": lambda f, q: f > 1.001 * q,
        "order_price_usd,fill_price_usd": _far(2),
        "atm_iv,atm_iv_24h_ago,atm_iv_change_24h": lambda a, b, c: abs(a - b - c) > 0.002,
        "atm_strike,underlying_price": _far(1.5),
        "strike,underlying_price,@options_atm_history": lambda k, s, _: _far(1.5)(k, s),
        **dict.fromkeys(
            ("symbol_count,total_oi_usd", "symbol_count,total_volume_usd", "symbol_count,oi_usd"),
            lambda n, usd: (n == 0) & (usd > 0),
        ),
        "lower_pct,upper_pct": lambda a, b: a > b,
        "low,open,close,high": lambda l, o, c, h: (l > np.fmin(o, c)) | (h < np.fmax(o, c)),  # noqa: E741
        "next:depth_bps bid_depth_usd,bid_depth_usd": lambda wider, depth: wider < depth,
        "next:depth_bps ask_depth_usd,ask_depth_usd": lambda wider, depth: wider < depth,
        "bid_coin,ask_coin": lambda b, a: (b > a) & (a > 0),
        "bid_usd,ask_usd": lambda b, a: (b > a) & (a > 0),
        # Only prices above 5 USD, because smaller ones are rounded to few ticks.
        "mark_coin,mark_usd,underlying_price": lambda c, m, s: (m > 5) & _far(1.2)(c * s, m),
        "index_price_usd": lambda index: index <= 0,
        "underlying_price": lambda forward: forward <= 0,
        "index_price_usd,underlying_price": _far(1.5),
        "price_usd,index_price_usd,@futures_history": lambda p, i, _: _far(1.5)(p, i),
        # A liquidation is a trade, so it is part of the volume.
        "liquidation_24h_usd,volume_24h_usd": lambda liquidated, volume: (liquidated > volume) & (volume > 0),
        **dict.fromkeys(
            ("volume_24h_usd,oi_usd", "notional_volume_24h_usd,notional_oi_usd"),
            lambda volume, oi: (oi > 1e4) & (volume > 1e3 * oi),
        ),
        # Distant futures, and venues that close on Saturdays, have few trades.
        "sum volume_24h_usd,sum oi_usd": lambda volume, oi: (oi > 1e9) & (volume > 0) & (volume < 1e-5 * oi),
        "sum notional_volume_24h_usd,sum notional_oi_usd": lambda volume, oi: volume > oi,
        **dict.fromkeys(
            ("fees_paid,volume", "total_fees,volume", "fees_usd,volume_usd", "builder_fees_usd,volume_usd"),
            lambda fees, volume: fees > volume,
        ),
    },
    "unlikely volatility": dict.fromkeys(("iv", "atm_iv", "atm_iv_24h_ago"), lambda iv: iv > 10),
    "unlikely greek": {
        "delta,side=call": lambda d, call: np.where(call, d, -d) < 0,
        "delta,strike,underlying_price": lambda d, k, s: abs(d) > 1.05 * np.fmax(1, k / s),
        "gamma": lambda g: g < 0,
        "vega": lambda v: v < 0,
    },
    "unlikely price of an option": dict.fromkeys(
        ("mark_coin,strike,underlying_price", "bid_coin,strike,underlying_price"),
        lambda p, k, s: p > 1.05 * np.fmax(1, k / s),
    ),
    "unlikely hour of expiry": {
        "expiry,instrument_name=": lambda t, _: (t == t) & (t % DAY_US != 8 * HOUR_US),
        "expiry,atm_iv": lambda t, _: (t == t) & (t % DAY_US != 8 * HOUR_US),
        "expiry,iv,@options_atm_history": lambda t, *_: (t == t) & (t % DAY_US != 8 * HOUR_US),
    },
    "payment without an interval": {"interval_hours,kind=settled": lambda h, paid: np.isnan(h) & paid},
    "far from the usual": {f"{name},usual {name}": _far(factor) for name, factor in _USUALLY.items()},
    "high rate": {
        "rate_bps_8h,interval_hours": lambda r, h: abs(r) * np.where(np.isnan(h), 8, h) > 8 * _HIGH_RATE_BPS,
        **dict.fromkeys(
            ("rate_bps_8h", "funding_current_bps_8h", "top_funding_bps_8h"),
            lambda r: abs(r) > 8 * _HIGH_RATE_BPS,
        ),
    },
    "expired option": {"expiry,time,instrument_name=": lambda x, now, _: x < now - DAY_US},
}
"""Relations that figures of one response usually satisfy, by rule."""


class _Option(NamedTuple):
    base: str
    day: int
    strike: float
    side: str


_OPTION = re.compile(
    r"(?P<base>[A-Z0-9]+)(?:[_-](?:USD[TC]?|EUR))?-(?P<date>\d{1,2}[A-Z]{3}\d{2}(?:\d{2})?|\d{6}|\d{8})"
    r"-(?P<strike>\d+(?:[d._]\d+)?)-(?P<side>[CP])(?:-[A-Z]+)?",
    re.IGNORECASE,
)
"""Names of Deribit, Binance, Bybit, OKX and Derive: ``XRP_USDC-3JUL26-1d5-C``, ``BTC-USD-260703-1000-P``."""


@lru_cache(maxsize=16384)
def _option(name: str) -> _Option | None:
    """Parse the name of an option; None for a name of another pattern."""
    match = _OPTION.fullmatch(name)
    if match is None:
        return None
    day = _day(match["date"])
    if day is None:
        return None
    strike = float(re.sub(r"[dD_]", ".", match["strike"]))
    return _Option(contract(match["base"]).symbol, day, strike, "call" if match["side"] in "Cc" else "put")


@lru_cache(maxsize=1024)
def _day(text: str) -> int | None:
    """Return the days since 1970 of a date in a name: ``3JUL26``, ``260703`` or ``20260703``; else None."""
    if text.isdecimal():
        form = "%Y%m%d" if len(text) == 8 else "%y%m%d"
    else:
        form = "%d%b%Y" if text[-4:].isdecimal() else "%d%b%y"
    try:
        date = dt.datetime.strptime(text, form).date()  # noqa: DTZ007
    except ValueError:
        return None
    return date.toordinal() - dt.date(1970, 1, 1).toordinal()


class OptionNames(NamedTuple):
    """Parsed names of a chain, one element per readable name; `places` are their rows."""

    places: Array
    bases: Array
    days: Array
    strikes: Array
    sides: Array


@lru_cache(maxsize=4)
def read_names(names: tuple[str, ...]) -> OptionNames:
    """Parse the names of a chain. Cached, because each poll has the same names."""
    options = [(place, option) for place, option in enumerate(map(_option, names)) if option is not None]
    bases, days, strikes, sides = ([option[field] for _, option in options] for field in range(4))
    return OptionNames(
        np.array([place for place, _ in options], dtype=np.intp),
        np.array(bases, dtype=str),
        np.array(days, dtype=np.int64),
        np.array(strikes, dtype=np.float64),
        np.array(sides, dtype=str),
    )


def names_against_options(e: CheckedResponse) -> Iterator[str]:
    """Yield a breach for the first option whose name and columns differ."""
    symbol = e.requested.get("symbol")
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    named = read_names(tuple(names))
    days = np.asarray(e.micros("expiry"))[named.places] // DAY_US
    strikes = np.asarray(e.columns["strike"])[named.places]
    puts = np.asarray(e.columns["side"] == "put")[named.places]
    # A strike is read from a decimal text twice, so the last bit may differ.
    tolerances = 1e-9 * np.maximum(np.abs(strikes), 1.0)
    is_other_symbol = np.zeros(days.size, dtype=bool)
    if symbol is not None:
        is_other_symbol = named.bases != contract(symbol).symbol
    is_other_side = (named.sides == "put") != puts
    is_other_strike = np.abs(named.strikes - strikes) > tolerances
    rows = np.flatnonzero(is_other_symbol | is_other_side | is_other_strike | (named.days != days))
    if not rows.size:
        return
    first = rows[0]
    name = names[named.places[first]]
    if is_other_symbol[first]:
        yield f"requested symbol {symbol!r}, but the response has the instrument {name!r}"
    elif is_other_side[first]:
        yield f"the instrument {name!r} has the side {'put' if puts[first] else 'call'!r}"
    elif is_other_strike[first]:
        yield f"the instrument {name!r} has the strike {strikes[first]:g}"
    else:
        yield f"the instrument {name!r} expires on {np.datetime64(int(days[first]), 'D')}"


def names_against_expiries(e: CheckedResponse) -> Iterator[str]:
    """Yield a breach for the first dated future whose name states a different coin or expiry."""
    if "side" in e.columns:
        return
    symbol = e.requested.get("symbol")
    coins: list[str] = []
    if symbol is not None:
        coin, _ = base(symbol)  # contracts of 1,000 coins and of one coin may have different names
        coins = [coin, *other_tickers(coin)]
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    days = (np.asarray(e.micros("expiry")) // DAY_US).tolist()
    for name, day in dict.fromkeys(zip(names, days, strict=True)):
        if coins and isinstance(name, str) and not any(names_coin(name, coin) for coin in coins):
            yield f"requested symbol {symbol!r}, but the response has the instrument {name!r}"
            return
        # Rows without an expiry have a day below 0.
        if day > 0 and _day(re.split("[-_]", name)[-1]) not in (None, day):
            yield f"the instrument {name!r} expires on {np.datetime64(day, 'D')}"
            return


def unread_names(e: CheckedResponse) -> Iterator[str]:
    """Yield a notice of option names that cannot be parsed, on venues whose pattern is known."""
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    unread = sorted({*range(len(names))}.difference(read_names(tuple(names)).places.tolist()))
    if unread and e.requested.get("exchange") in endpoints.OPTIONS_MATRIX.get("BTC", ()):
        yield f"{len(unread)} of {len(names)} option names cannot be read, first {names[unread[0]]!r}"


def options_twice(e: CheckedResponse) -> Iterator[str]:
    """Yield a notice of options with the same expiry, strike and side."""
    if "trade_id" in e.columns:  # rows are trades, and an option has many trades
        return
    distinct = np.unique([e.micros("expiry"), e.numbers("strike"), e.columns["side"] == "call"], axis=1)
    if duplicates := e.size - distinct.shape[1]:
        yield f"{duplicates} options have the same expiry, strike and side as another option"
