"""Liquidation orders from single fills, and from a store that holds whole orders."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata import tables
from derivdata.service.view import View

__all__ = ["LEAD", "TABLES", "consolidate", "events"]

TABLES = ("liquidations_fills", "liquidations_events")
LEAD = pd.Timedelta(1, "h")
"""Longest time over which the fills of one order are looked for."""

_ORDER = ["exchange", "order_id"]


def events(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    exchanges: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the orders with ``start <= time < end``, sorted by time; an order's time is its last fill's.

    Fills are looked for on both sides of the window, up to the clock, so that an order is whole and lies in
    one of two windows that meet. One that the store holds both whole and as fills is taken whole.
    """
    whole_orders, parts = (
        view.read(table, start - LEAD, end + LEAD, symbols=symbols, exchanges=exchanges)
        for table in reversed(TABLES)
    )
    orders = consolidate(parts)
    if len(whole_orders) and len(orders):
        both = pd.concat([whole_orders, orders], ignore_index=True).drop_duplicates(_ORDER, keep="first")
        orders = tables.LIQUIDATIONS_EVENTS.conform(both)
    elif orders.empty:
        orders = whole_orders
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def consolidate(fills: pd.DataFrame) -> pd.DataFrame:
    """Make one row per (exchange, order): the table ``liquidations_events``.

    Time and status are the last fill's, price and size of the order the first's. Filled size and value add
    up; the mean price is weighted by filled size.
    """
    if fills.empty:
        return tables.LIQUIDATIONS_EVENTS.empty()
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
    return tables.LIQUIDATIONS_EVENTS.conform(orders)
