"""What the figures of one answer say of each other: the relations as data, and what reads the figures.

A relation is a list of figures by name, and what finds the rows that break it. A breach of what the document
promises is an error, all else a notice: by its rule 7 figures of one answer may be of different minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from derivdata.client.reading import DAY_US, HOUR_US, CheckedAnswer
from derivdata.support import times
from derivdata.support.arrays import Array

__all__ = ["LIKELY", "PROMISED", "SHARES_TOLERANCE", "figure", "related"]

SHARES_TOLERANCE = 0.02
"""How far rounded market shares may be beyond 1, alone or added up."""

_HIGH_RATE_BPS = 400.0

_USUALLY = {
    **dict.fromkeys(("price_usd", "underlying_price", "index_price_usd", "atm_strike"), 4.0),
    **dict.fromkeys(("oi_usd", "total_oi_usd", "notional_oi_usd"), 8.0),
}
"""By how many times a figure may differ from the median of its series."""

Relations = dict[str, Callable[..., Any]]


def _far(factor: float) -> Callable[[Array, Array], Array]:
    """Return what finds figures that are `factor` times another figure, or that part of it."""
    return lambda a, b: (b > 0) & ((a > factor * b) | (a * factor < b))


def _spacing(factor: float) -> Relations:
    """Compare intervals with the time between payments; minutes taken for hours are 60 times apart.

    Payments that are missing make some of them longer apart, and none closer.
    """
    return {
        "@settled,typical hours_apart,typical interval_hours": lambda _, apart, h: _far(factor)(apart, h),
        "@settled,least hours_apart,least interval_hours": lambda _, apart, h: apart * factor < h,
    }


def _falling(name: str) -> Relations:
    """Compare ranks with 1, 2, 3 and with a figure that falls from one to the next."""
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
        "$count,#,limit": lambda n, rows, most: (n < rows) | ((n > rows) & (rows < most)),
        "$total,#,total_oi_usd": lambda n, rows, _: n != rows,
    },
    "volatility in percent": dict.fromkeys(("middle iv", "middle atm_iv"), lambda iv: iv > 10),
    "interval that ends first": {"start,end": lambda a, b: a >= b},
    "mover against rank": {
        "next:rank price_24h_change_pct,price_24h_change_pct,direction=loser": lambda n, pct, loser: np.where(
            loser, n < pct, n > pct
        ),
        "next:rank rank,rank,direction=loser": lambda n, rank, _: abs(n - rank - 1) > 0,
    },
    "leader against rank": _falling("funding_current_bps_8h"),
}
"""What the document promises, by rule."""

LIKELY: dict[str, Relations] = {
    "unlikely spacing": {  # an interval may become one of an hour, or of eight
        **_spacing(1.9),
        "@settled,interval_hours,typical interval_hours": lambda _, h, usual: _far(9)(h, usual),
    },
    "off the resolution": {
        "step_hours,time": lambda s, t: t.astype(np.int64) % np.int64(s[0] * HOUR_US) != 0,
        # What an archive or the sample has of prices may be sparser than any step: no other resolution.
        "step_hours,middle hours_apart,#,@hosted": lambda s, apart, n, _: (n > 4) & (apart > 1.5 * s),
    },
    "unlikely book": {
        "best:bid price_usd,best:ask price_usd": lambda bid, ask: (bid >= ask) | (ask > 1.5 * bid),
        "next:level price_usd,price_usd": lambda n, p: n == p,
    },
    "symbol against rank": {**_falling("oi_usd"), "rank": lambda rank: rank < 1},
    "stated total": {
        "$total_market_oi,sum total_oi_usd": _far(1.05),
        "$totals.total_usd,sum total_usd": _far(1.05),
        "$totals.total_count,sum total_count": _far(1.001),
        "sum market_share": lambda s: abs(s - 1) > SHARES_TOLERANCE,
    },
    "figure against its parts": {
        "market_share,total_oi_usd,sum total_oi_usd": lambda s, a, b: abs(s - a / b) > 0.001 + 0.1 * s,
        "total_usd,long_usd,short_usd": lambda t, a, b: abs(t - a - b) > 1 + 0.01 * t,
        "total_count,long_count,short_count": lambda t, a, b: t != a + b,
        "symbol_count,#symbols": lambda n, listed: n != listed,
        "volume_oi_ratio,volume_usd,oi_usd": lambda r, v, oi: abs(r - v / oi) > 0.001 + 0.02 * r,
        "value_usd,fill_price_usd,filled_quantity,order_price_usd,quantity": lambda v, fp, f, op, q: (
            _far(2)(v, fp * f) & _far(2)(v, op * q)
        ),
        "filled_quantity,quantity": lambda f, q: f > 1.001 * q,
        "order_price_usd,fill_price_usd": _far(2),
        "atm_iv,atm_iv_24h_ago,atm_iv_change_24h": lambda a, b, c: abs(a - b - c) > 0.005,
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
        "mark_coin,mark_usd,underlying_price": lambda c, m, s: (m > 5) & _far(1.2)(c * s, m),
        "index_price_usd,underlying_price": _far(1.5),
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
    "unlikely hour of expiry": {"expiry,instrument_name=": lambda t, _: t % DAY_US != 8 * HOUR_US},
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
"""What figures of one answer usually say of each other, by rule."""


def related(e: CheckedAnswer, *, name: str) -> Iterator[str]:
    """Show the first row in which figures break a relation of a rule."""
    for figures, broken in (PROMISED | LIKELY)[name].items():
        names = figures.split(",")
        values = [*takewhile(lambda one: one is not None, map(partial(figure, e), names))]
        if len(values) < len(names):
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.flatnonzero(broken(*values))
        if rows.size:
            shown = ", ".join(
                f"{n} {_text_of(n, v[min(rows[0], v.size - 1)])}"
                for n, v in zip(names, values, strict=True)
                if v is not None and not n.endswith("=") and n[0] != "@"
            )
            row = rows[0] if e.table is not None and e.size > rows[0] else None
            keys = [] if e.table is None or row is None else [k for k in e.table.key if k in e.words]
            where = " ".join(str(e.columns[key][row]) for key in keys)
            yield f"{name}: {shown} ({where}; {rows.size} of {e.size} rows)"


def figure(e: CheckedAnswer, name: str) -> Array | None:
    """Return figures by name, None where the answer has none.

    A column; ``column=word``: where it is the word; ``#``: the number of rows; ``#column``: how many words it
    lists; ``$field``: what stands beside the rows; ``limit``: that of the request; ``step_hours``: the
    resolution; ``hours_apart``: the time since the row before, of the same series; ``@table``: nothing unless
    the answer is of that table, ``@hosted`` unless a hosted service's, ``@settled`` unless of payments. For a
    word before a column see `_OF`.
    """
    if name not in e.figures:
        how, _, of = name.partition(" ")
        values = figure(e, of) if of else _named(e, name)
        if of:
            how, _, by = how.partition(":")
            some = values is not None and values.size and e.table is not None
            values = _OF[how](e, values, by or of) if some else None  # type: ignore[arg-type]
        e.figures[name] = values
    return e.figures[name]


def _named(e: CheckedAnswer, name: str) -> Array | None:
    values: Any = e.columns.get(name)
    if values is not None:
        # Of a payload that no document describes, words are no figures.
        is_figure = (
            e.table is not None or hasattr(values, "asi8") or getattr(values, "dtype", "") == np.float64
        )
        return e.numbers(name) if is_figure else None
    column, is_word, word = name.partition("=")
    if is_word:
        return np.asarray(e.columns[column] == word) if column in e.columns else None
    if name[0] == "#" and name[1:] in e.columns:
        return np.array([word.count(",") + bool(word) for word in e.columns[name[1:]]], dtype=np.float64)
    if name == "hours_apart" and e.table is not None and e.time_us is not None:
        return (e.time_us - _neighbour(e.time_us, e.time_us, e.series("time"), before=True)) / HOUR_US
    given = _beside_rows(e, name)
    return np.array([float(given)]) if isinstance(given, int | float) else None


def _beside_rows(e: CheckedAnswer, name: str) -> Any:
    """Return the one figure that a name stands for, None for nothing."""
    if name == "#":
        return e.size
    if name == "limit":
        return float(e.requested.get("limit", np.inf))
    if e.table is None:
        return None
    if name == "step_hours":
        words = (e.stated.get("resolution"), e.requested.get("resolution"))
        return e.step_us / HOUR_US if any(word in times.RESOLUTIONS for word in words) else None
    if name == "@hosted":
        return 1.0 if e.endpoint is not None and not e.endpoint.local else None
    if name == "@settled":
        return 1.0 if "settled" in e.words.get("kind", ()) else None
    if name[0] == "@":
        return 1.0 if e.table.name == name[1:] else None
    field, _, inner = name.removeprefix("$").partition(".")
    stated = e.stated.get(field) if name[0] == "$" else None
    return stated.get(inner) if inner and isinstance(stated, dict) else stated


def _neighbour(values: Array, by: Array, groups: Array, *, before: bool = False) -> Array:
    """Return of each row the value of the next one (or the one before) by a figure, in its group."""
    steps = np.diff(groups)
    if (steps < 0).any() or (np.diff(by)[steps == 0] < 0).any():
        order = np.lexsort((by, groups))
        found = np.empty(values.size)
        found[order] = _neighbour(values[order], by[order], groups[order], before=before)
        return found
    found, last = np.full(values.size, np.nan), max(values.size - 1, 0)
    to, of = (slice(1, None), slice(last)) if before else (slice(last), slice(1, None))
    found[to] = np.where(steps == 0, values[of], np.nan)
    return found


def _next(e: CheckedAnswer, values: Array, by: str) -> Array | None:
    """Follow places, ranks and distances of one instant; a rank counts the symbols and venues."""
    places = figure(e, by)
    if places is None:
        return None
    groups = e.series("time", by, *(("symbol", "exchange") if by == "rank" else ()))
    stamps = np.zeros(values.size) if e.time_us is None else e.time_us
    return _neighbour(values, places, groups * values.size + pd.factorize(stamps)[0])


def _usual(e: CheckedAnswer, values: Array, column: str) -> Array:
    alone = ("time", "days_ago", "expiry", *(("exchange",) if column == "price_usd" else ()))
    series = pd.Series(values).groupby(e.series(*alone))
    return np.asarray(series.transform("median").where(series.transform("count") > 3))


def _of_series(what: str, e: CheckedAnswer, values: Array, _: str) -> Array:
    return np.asarray(pd.Series(values).groupby(e.series("time")).transform(what))


def _middle(e: CheckedAnswer, values: Array, _: str) -> Array | None:
    known = values[~np.isnan(values)]
    return np.array([np.median(known)]) if known.size else None


def _best(e: CheckedAnswer, values: Array, side: str) -> Array | None:
    rows = np.flatnonzero(e.columns["side"] == side) if "level" in e.columns else ()
    return values[rows[:1]] if len(rows) else None


_OF: dict[str, Callable[[CheckedAnswer, Array, str], Array | None]] = {
    "sum": lambda e, values, _: np.array([values.sum()]),
    "middle": _middle,
    "usual": _usual,
    "typical": partial(_of_series, "median"),
    "least": partial(_of_series, "min"),
    "next": _next,
    "best": _best,
}
"""What is made of a column: its sum and median; the median of each row's series, which is `usual` where there
are more than three; the least of the series; the figure of the next rank, level or distance; that of a side's
first level.
"""


def _text_of(name: str, value: float) -> str:
    """Return a figure as text; instants, which are microseconds, as such."""
    is_instant = name in ("expiry", "time", "start", "end")
    return f"{np.datetime64(int(value), 'us').astype('datetime64[m]')}Z" if is_instant else f"{value:g}"
