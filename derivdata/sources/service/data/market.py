"""State of every (symbol, venue) at the service's clock, and liquidation orders from single fills."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources.query import Query
from derivdata.sources.service.data import windows
from derivdata.sources.service.data.view import View

TABLES = ("liquidations_fills", "liquidations_events")
LEAD = pd.Timedelta(1, "h")
"""Longest time between the fills of one order."""

_ORDER = ["exchange", "order_id"]


def liquidation_orders(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the orders with ``start <= time < end``, sorted by time; an order's time is its last fill's.

    Fills before and after the window, up to the clock, are read too. So an order is complete, and belongs to
    one of two adjacent windows. If the store has both the order and its fills, the order is used.
    """
    stored_orders, fills = (
        view.rows(Query(table, start - LEAD, end + LEAD, symbols, venues)) for table in reversed(TABLES)
    )
    orders = consolidate(fills)
    if len(stored_orders) and len(orders):
        both = pd.concat([stored_orders, orders], ignore_index=True).drop_duplicates(_ORDER, keep="first")
        orders = tables.TABLES["liquidations_events"].conform(both)
    elif orders.empty:
        orders = stored_orders
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def order_values(
    view: View, start: pd.Timestamp, end: pd.Timestamp, symbols: Sequence[str] | None
) -> pd.DataFrame:
    """Return time, venue, side and value of the orders that `events` returns, in any order of rows."""
    columns = ["exchange", "order_id", "time", "side", "value_usd"]
    stored_orders, fills = (
        view.rows(Query(table, start - LEAD, end + LEAD, symbols, columns=columns))
        for table in reversed(TABLES)
    )
    if len(stored_orders) and len(fills):  # an order may be in both tables, and counts once
        orders = liquidation_orders(view, start, end, symbols=symbols)
        return orders[["exchange", "time", "side", "value_usd"]]
    orders = stored_orders if fills.empty else _values(fills)
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def _values(fills: pd.DataFrame) -> pd.DataFrame:
    """Make one row per (exchange, order): time of the last fill, first known side, total value.

    Does what `consolidate` does for these columns, without a groupby: windows of a year have many fills.
    """
    venue = pd.Categorical(fills["exchange"])
    side = pd.Categorical(fills["side"])
    names = pd.factorize(fills["order_id"])[0]
    order, orders = pd.factorize(names * len(venue.categories) + venue.codes)
    by_time = np.argsort(fills["time"].array.asi8, kind="stable")
    # Where an index occurs several times in an assignment, the last value stays. So the last fill needs the
    # order of time, and the first known side the reverse order.
    last = np.empty(len(orders), dtype=np.intp)
    last[order[by_time]] = by_time
    first_side = np.full(len(orders), -1, dtype=side.codes.dtype)
    with_side = by_time[side.codes[by_time] >= 0][::-1]
    first_side[order[with_side]] = side.codes[with_side]
    columns = {
        "exchange": venue.take(last),
        "time": fills["time"].array.take(last),
        "side": pd.Categorical.from_codes(first_side, dtype=side.dtype),
        "value_usd": np.bincount(order, fills["value_usd"].fillna(0.0), minlength=len(orders)),
    }
    return pd.DataFrame(columns, copy=False)


def consolidate(fills: pd.DataFrame) -> pd.DataFrame:
    """Make one row per (exchange, order), ``liquidations_events``; the mean price is weighted by size."""
    if fills.empty:
        return tables.TABLES["liquidations_events"].empty()
    paid = fills["fill_price_usd"] * fills["filled_quantity"]
    grouped = fills.assign(paid=paid).sort_values("time", kind="stable").groupby(_ORDER, observed=True)
    orders = grouped.agg(
        time=("time", "last"),
        symbol=("symbol", "first"),
        side=("side", "first"),
        order_price_usd=("order_price_usd", "first"),
        quantity=("quantity", "first"),
        filled_quantity=("filled_quantity", "sum"),
        value_usd=("value_usd", "sum"),
        status=("status", "last"),
        fill_count=("fill_id", "size"),
        paid=("paid", "sum"),
    ).reset_index()
    orders["fill_price_usd"] = orders["paid"] / orders["filled_quantity"]
    return tables.TABLES["liquidations_events"].conform(orders)


_USD = ("volume_24h_usd", "volume_before_usd", "oi_usd", "oi_before_usd", "liquidation_24h_usd")
_DAY = pd.Timedelta(1, "D")
_KEYS = ["symbol", "exchange"]


def pairs(view: View) -> pd.DataFrame:
    """Return keys and figures of every pair with a current price, volume, open interest or rate.

    Unknown figures are NaN; columns with ``before`` are a day earlier. A figure comes from its history if the
    store has it, else from ``markets_symbol_exchanges``.
    """
    return view.once("pairs", lambda: _pairs(view))


def within(frame: pd.DataFrame, venues: Sequence[str] | None) -> pd.DataFrame:
    """Keep the rows of some venues, or all where none are named."""
    return frame if venues is None else frame[frame["exchange"].isin(venues)]


def funding_now(view: View, symbols: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the current rate [bps/8h] of every pair: its newest sample, else its newest settlement."""
    columns = [*_KEYS, "rate_bps_8h"]
    sampled, settled = (
        view.current(table, symbols=symbols)[columns].dropna(subset="rate_bps_8h")
        for table in ("funding_history", "funding_settlements")
    )
    keys = (pd.MultiIndex.from_frame(frame[_KEYS].astype(object)) for frame in (settled, sampled))
    more = settled[~next(keys).isin(next(keys))]
    if sampled.empty or more.empty:
        return more if sampled.empty else sampled
    return pd.concat([sampled.astype(dict.fromkeys(_KEYS, object)), more], ignore_index=True)


def intervals(view: View, symbols: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the settlement interval [h] of every pair, as its newest settlement states it."""
    frame = view.current("funding_settlements", symbols=symbols)
    return frame[frame["interval_hours"].notna()]


def oi_at(view: View, at: pd.Timestamp) -> pd.Series:
    """Return the open interest [USD] of every pair at a time, by (symbol, exchange)."""
    table = "oi_history" if view.has("oi_history") else "markets_symbol_exchanges"
    return _keyed(view.current(table, at=at), "oi_usd")


def oi_ranks(view: View) -> dict[str, int]:
    """Rank symbols by open interest on the reference venue, which is the venue with the largest total."""

    def ranks() -> dict[str, int]:
        oi = oi_at(view, view.now)
        if oi.empty:
            return {}
        reference = oi.groupby(level="exchange").sum().idxmax()
        ranked = oi.xs(reference, level="exchange").rename("oi_usd").reset_index()
        ranked = ranked.sort_values(["oi_usd", "symbol"], ascending=[False, True])
        return {symbol: rank for rank, symbol in enumerate(ranked["symbol"], 1)}

    return view.once("oi_ranks", ranks)


def board(frame: pd.DataFrame) -> pd.DataFrame:
    """Rank symbols by open interest from rows of `pairs`; prices are those of the largest venue."""
    frame = frame.sort_values(["symbol", "oi_usd", "exchange"], ascending=[True, False, True])
    symbols = frame.groupby("symbol", sort=True)
    total = symbols[[*_USD]].sum(min_count=1)
    first = symbols[["price_usd", "price_24h_change_pct"]].first()
    highest = frame.sort_values(["symbol", "funding_bps_8h", "exchange"], ascending=[True, False, True])
    top = highest.dropna(subset="funding_bps_8h").drop_duplicates("symbol").set_index("symbol")
    result = pd.DataFrame(
        {
            "price_usd": first["price_usd"],
            "price_24h_change_pct": first["price_24h_change_pct"],
            "volume_24h_usd": total["volume_24h_usd"].round(2),
            "volume_24h_change_pct": _percent(total["volume_24h_usd"], total["volume_before_usd"]),
            "oi_usd": total["oi_usd"].round(2),
            "oi_24h_change_pct": _percent(total["oi_usd"], total["oi_before_usd"]),
            "top_funding_bps": top["funding_bps_8h"].reindex(total.index),
            "top_funding_exchange": top["exchange"].reindex(total.index),
            "liquidation_24h_usd": total["liquidation_24h_usd"].round(2),
        }
    ).reset_index()
    result = result.sort_values(["oi_usd", "symbol"], ascending=[False, True], ignore_index=True)
    result.insert(0, "rank", np.arange(1, len(result) + 1))
    return result


def _percent(now: pd.Series, before: pd.Series) -> pd.Series:
    """Return the change in percent; NaN where the value before is 0 or unknown."""
    return ((now / before.where(before > 0) - 1) * 100).round(6)


def _pairs(view: View) -> pd.DataFrame:
    """Join all figures of the pairs: see `pairs`."""
    market = view.current("markets_symbol_exchanges")
    volume, before = _volumes(view, market)
    columns = {
        "price_usd": _keyed(market, "price_usd"),
        "price_24h_change_pct": _keyed(market, "price_24h_change_pct"),
        "volume_24h_usd": volume,
        "volume_before_usd": before,
        "oi_usd": oi_at(view, view.now),
        "oi_before_usd": oi_at(view, view.now - _DAY),
        "funding_bps_8h": _keyed(funding_now(view), "rate_bps_8h"),
        "liquidation_24h_usd": _keyed(market, "liquidation_24h_usd"),
    }
    if view.has(*TABLES):
        orders = liquidation_orders(view, view.now - _DAY, view.horizon)
        columns["liquidation_24h_usd"] = _summed(orders, "value_usd")
    joined = pd.concat(columns, axis=1, join="outer", sort=True).round(dict.fromkeys(_USD, 2))
    if view.has(*TABLES):
        joined["liquidation_24h_usd"] = joined["liquidation_24h_usd"].fillna(0.0)
    present = joined[["price_usd", "volume_24h_usd", "oi_usd", "funding_bps_8h"]].notna().any(axis=1)
    return joined[present].rename_axis(_KEYS).reset_index()


def _volumes(view: View, market: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the volume [USD] of the last 24 hours and of the 24 hours before, from rows that end in them."""
    if not view.has("volume_history"):
        return _keyed(market, "volume_24h_usd"), _keyed(market.iloc[:0], "volume_24h_usd")
    middle = view.now - _DAY
    rows = view.rows(Query("volume_history", middle - 2 * _DAY, view.horizon))
    ended = windows.ends(rows)
    before = (ended > middle - _DAY) & (ended <= middle)
    return _summed(rows[ended > middle], "volume_usd"), _summed(rows[before], "volume_usd")


def _keyed(frame: pd.DataFrame, column: str) -> pd.Series:
    """Return a column by (symbol, exchange), missing values dropped."""
    frame = frame[frame[column].notna()]
    index = pd.MultiIndex.from_arrays([frame[name].astype(object) for name in _KEYS], names=_KEYS)
    return pd.Series(frame[column].to_numpy(), index=index, dtype="float64")


def _summed(frame: pd.DataFrame, column: str) -> pd.Series:
    """Add up a column by (symbol, exchange)."""
    summed = frame.groupby(_KEYS, observed=True)[column].sum(min_count=1)
    return _keyed(summed.reset_index(), column)
