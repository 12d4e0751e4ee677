"""Liquidation orders from single fills, and from a store that holds whole orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources.query import Query
from derivdata.sources.service.data.view import View

TABLES = ("liquidations_fills", "liquidations_events")
LEAD = pd.Timedelta(1, "h")
"""Longest time between the fills of one order."""

_ORDER = ["exchange", "order_id"]


def events(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the orders with ``start <= time < end``, sorted by time; an order's time is its last fill's.

    Fills on both sides of the window, up to the clock, are read too. So an order is complete, and belongs to
    one of two adjacent windows. If the store has both the order and its fills, the order is used.
    """
    whole_orders, fills = (
        view.rows(Query(table, start - LEAD, end + LEAD, symbols, venues)) for table in reversed(TABLES)
    )
    orders = consolidate(fills)
    if len(whole_orders) and len(orders):
        both = pd.concat([whole_orders, orders], ignore_index=True).drop_duplicates(_ORDER, keep="first")
        orders = tables.TABLES["liquidations_events"].conform(both)
    elif orders.empty:
        orders = whole_orders
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def order_values(
    view: View, start: pd.Timestamp, end: pd.Timestamp, symbols: Sequence[str] | None
) -> pd.DataFrame:
    """Return time, venue, side and value of the orders that `events` returns, in any order of rows."""
    columns = ["exchange", "order_id", "time", "side", "value_usd"]
    whole_orders, fills = (
        view.rows(Query(table, start - LEAD, end + LEAD, symbols, columns=columns))
        for table in reversed(TABLES)
    )
    if len(whole_orders) and len(fills):  # some orders are in both, and count once
        return events(view, start, end, symbols=symbols)[["exchange", "time", "side", "value_usd"]]
    orders = whole_orders if fills.empty else _values(fills)
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def _values(fills: pd.DataFrame) -> pd.DataFrame:
    """Make one row per (exchange, order): time of the last fill, the first side that is known, all value."""
    venue = pd.Categorical(fills["exchange"])
    side = pd.Categorical(fills["side"])
    names = pd.factorize(fills["order_id"])[0]
    order, orders = pd.factorize(names * len(venue.categories) + venue.codes)
    by_time = np.argsort(fills["time"].array.asi8, kind="stable")
    # Of several values that are put in one place the last stays: so the first needs the order reversed.
    last = np.empty(len(orders), dtype=np.intp)
    last[order[by_time]] = by_time
    first_side = np.full(len(orders), -1, dtype=side.codes.dtype)
    known = by_time[side.codes[by_time] >= 0][::-1]
    first_side[order[known]] = side.codes[known]
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
