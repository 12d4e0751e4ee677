"""Liquidations: single orders, value over time, and by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.sources import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import Answers, RequestContext
from derivdata.sources.service.data import market
from derivdata.sources.service.data.request_coverage import notices_of, on_wire, requested_spans
from derivdata.sources.service.data.view import View
from derivdata.sources.service.data.windows import DEV_DAYS, INSTANT, AnswerWindow
from derivdata.support import times

DEFAULT_LIMIT = 1000
_DAY = pd.Timedelta(1, "D")
_FIRST_STEP = pd.Timedelta(6, "h")
_FINEST = "1m"
_SUMS = "liquidations_history"
_SIDES = ("long_usd", "short_usd", "unknown_usd")
_FIGURES = ("long_count", "short_count", "long_usd", "short_usd", "total_count", "total_usd")


def events(context: RequestContext) -> dict[str, Any]:
    """``GET /liquidations/events``: a day from `min_usd` on, newest first; after `since`, oldest first."""
    view = context.view
    params = context.params
    limit = params["limit"] or DEFAULT_LIMIT
    view.need(*market.TABLES)
    filters = {"symbols": _symbols(view, params), "venues": params["exchange"]}
    notices: list[str] = []
    start = view.now - _DAY
    if params["since"] is None:
        orders = market.liquidation_orders(view, start, view.horizon, **filters)
        if params["min_usd"] is not None:
            orders = orders[orders["value_usd"] >= params["min_usd"]]
        orders = orders.iloc[::-1].head(limit)
    else:
        start = params["since"] + INSTANT
        floor = view.now - pd.Timedelta(DEV_DAYS, "D")
        if context.tier == "dev" and start < floor:
            notices = [
                f"since was raised from {times.iso(params['since'])} to {times.iso(floor)}: "
                f"Dev covers the rolling {DEV_DAYS} days that end now"
            ]
            start = floor
        orders = _since(view, start, limit, **filters)
    body = {"events": encoding.rows(_columns(orders)), "count": len(orders)}
    notices += _cover(view, body, start, view.now, **filters)
    return body | {"notices": notices} if notices else body


def history(context: RequestContext) -> dict[str, Any]:
    """``GET /liquidations/history``: buckets of a day, of an hour for windows under a day."""
    view = context.view
    params = context.params
    view.need(*market.TABLES, _SUMS)
    window = context.window()
    used = params["resolution"] or ("1h" if window.requested < _DAY else "1d")
    notices = []
    if used == "raw":
        notices = [f"resolution=raw is not available: the finest step of sums of liquidations is {_FINEST}"]
        used = _FINEST
    stored = _stored_sums(view, window, params["symbol"])
    finest = _step_of(stored)
    if times.RESOLUTIONS[finest] > times.RESOLUTIONS[used]:
        notices.append(f"the stored sums of liquidations are {finest} apart: resolution={finest} is used")
        used = finest
    sums = _history(view, window, used, params["symbol"])
    if len(stored):
        sums = pd.concat([sums, _summed_again(stored, window, used)], ignore_index=True)
        sums = sums.sort_values(["time", "exchange"], ignore_index=True)
    without_side = sums["unknown_usd"].sum()
    if without_side > 0:
        notices.append(f"{without_side:.2f} USD of liquidations without a side are left out")
    sums = sums[(sums["unknown_usd"] == 0) | (sums[["long_usd", "short_usd"]] > 0).any(axis=1)]
    venues = encoding.objects(sums[["long_usd", "short_usd"]])
    named = list(map(b"%b:%b".__mod__, zip(encoding.tokens(sums["exchange"]), venues, strict=True)))
    stamps = pd.Series(encoding.iso_tokens(pd.DatetimeIndex(sums["time"])), dtype=object)
    dates = encoding.split(named, stamps.str.decode("ascii"), b"{%b}")
    rows = [{"date": date.strip('"'), "exchanges": exchanges} for date, exchanges in dates.items()]
    if not rows:
        notices.append("no liquidations in this range")
    body: dict[str, Any] = {"data": rows, "unit": "usd", "resolution": used}
    notices += _cover(view, body, window.start, min(window.end, view.now), symbols=params["symbol"])
    return body | {"notices": window.notices + notices}


def aggregates(context: RequestContext) -> dict[str, Any]:
    """``GET /liquidations/aggregates``: orders of the last hours, the largest group first."""
    view = context.view
    params = context.params
    view.need(*market.TABLES)
    length = times.lookback(params["range"]) or _DAY
    orders = market.liquidation_orders(view, view.now - length, view.horizon)
    by = params["group_by"].split("_")
    names = pd.Series(dtype=object)
    if len(orders):
        names = orders[by].astype(object).agg(":".join, axis=1)
    groups = _counted(orders, names).sort_values(["total_usd", "name"], ascending=[False, True])
    totals = _counted(orders, pd.Series("all", index=orders.index, dtype=object))
    zeros = dict.fromkeys(_FIGURES, 0)
    body: dict[str, Any] = {
        "period": params["range"],
        "range": params["range"],
        "group_by": params["group_by"],
        "totals": totals[list(_FIGURES)].to_dict("records")[0] if len(totals) else zeros,
        "groups": encoding.rows(groups),
        "largest": groups[["name", "total_usd"]].to_dict("records")[0] if len(groups) else None,
    }
    notices = _cover(view, body, view.now - length, view.now)
    return body | {"notices": notices} if notices else body


def _cover(
    view: View, body: dict[str, Any], start: pd.Timestamp, end: pd.Timestamp, **filters: Sequence[str] | None
) -> list[str]:
    """Add the coverage of requests to the body, if the store has a ledger, and return notices about it."""
    if start >= end:
        return []
    coverage = requested_spans(view, start, end, **filters)
    if coverage is not None:
        body["coverage"] = on_wire(coverage)
    return notices_of(coverage, start, end)


def _symbols(view: View, params: Any) -> Sequence[str] | None:
    """Return the requested symbols, or all listed symbols except the excluded ones."""
    if params["exclude_symbol"] is None:
        return params["symbol"]  # type: ignore[no-any-return]
    listed = {symbol for table in market.TABLES if view.has(table) for symbol in view.store.symbols(table)}
    return sorted(listed - set(params["exclude_symbol"]))


def _since(view: View, start: pd.Timestamp, limit: int, **filters: Sequence[str] | None) -> pd.DataFrame:
    """Return the first `limit` events from `start` on, read in windows of growing length."""
    start = max(start, view.store.start)
    step = _FIRST_STEP
    steps = [tables.TABLES["liquidations_events"].empty()]
    count = 0
    while start < view.horizon and count < limit:
        end = min(start + step, view.horizon)
        orders = market.liquidation_orders(view, start, end, **filters)
        steps.append(orders)
        count += len(orders)
        start = end
        step = step * 2
    filled = [orders for orders in steps if len(orders)]  # an empty frame would change types in concat
    return pd.concat(filled or steps, ignore_index=True).head(limit)


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the columns under their wire names, in the order of the API document."""
    order = (
        "time exchange symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status "
        "order_id fill_count"
    )
    names = tables.TABLES["liquidations_events"].wire
    return {names.get(name, name): frame[name] for name in order.split()}


def _history(view: View, window: AnswerWindow, step: str, symbols: Sequence[str] | None) -> pd.DataFrame:
    """Return value by bucket, venue and side, of buckets that start in the window."""
    length = times.RESOLUTIONS[step]

    def made(block: AnswerWindow) -> tuple[pd.DataFrame, int]:
        orders = market.order_values(view, block.start.ceil(length), block.end.ceil(length), symbols)
        return _summed(orders, length), len(orders)

    blocks = view.blocks(window._replace(end=min(window.end, view.horizon)), made)
    filled = [sums for sums in blocks if len(sums)]
    empty = pd.DataFrame(columns=["time", "exchange", *_SIDES])
    return pd.concat(filled, ignore_index=True) if filled else empty


def _stored_sums(view: View, window: AnswerWindow, symbols: Sequence[str] | None) -> pd.DataFrame:
    """Return the stored sums of venues without stored orders."""
    if not view.has(_SUMS):
        return tables.TABLES[_SUMS].empty()
    stored = {venue for table in market.TABLES if view.has(table) for venue in view.store.exchanges(table)}
    venues = sorted({*view.store.exchanges(_SUMS)} - stored)
    end = min(window.end.ceil(_DAY), view.horizon)
    return view.rows(Query(_SUMS, window.start, end, symbols, venues))


def _step_of(sums: pd.DataFrame) -> str:
    """Return the step of stored sums: the shortest time between two of a series; the finest without two."""
    series = ["exchange", "symbol"]
    rows = sums[[*series, "time"]].sort_values([*series, "time"])
    apart = rows.groupby(series, observed=True)["time"].diff().min()
    if pd.isna(apart):
        return _FINEST
    return next((name for name, length in times.RESOLUTIONS.items() if length >= apart), "1d")


def _summed_again(sums: pd.DataFrame, window: AnswerWindow, step: str) -> pd.DataFrame:
    """Add up stored sums by bucket and venue, of buckets that start in the window."""
    length = times.RESOLUTIONS[step]
    start = sums["time"].dt.floor(length)
    values = sums[["long_usd", "short_usd"]].assign(time=start, exchange=sums["exchange"].astype(object))
    values = values[(start >= window.start) & (start < window.end)]
    added = values.groupby(["time", "exchange"]).sum().round(2).reset_index()
    return added.assign(unknown_usd=0.0)


def _summed(orders: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    """Add up the value of orders by bucket, venue and side; a missing side is unknown."""
    width = times.us(length)
    start = pd.DatetimeIndex((orders["time"].array.asi8 // width * width).view("M8[us]")).tz_localize("UTC")
    keys = {"time": start, "exchange": pd.Categorical(orders["exchange"])}
    values = pd.DataFrame(keys | _by_side(orders), copy=False)
    return values.groupby(list(keys), observed=True).sum().round(2).reset_index().astype({"exchange": object})


def _by_side(orders: pd.DataFrame) -> dict[str, Any]:
    """Return the value of each order in the column of its side, and 0 in the other columns."""
    side = orders["side"].astype(object)
    value = orders["value_usd"].fillna(0.0)
    is_long = side == "long"
    is_short = side == "short"
    masks = (is_long, is_short, ~(is_long | is_short))
    return {name: value.where(mask, 0.0).to_numpy() for name, mask in zip(_SIDES, masks, strict=True)}


def _counted(orders: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    """Count and sum orders by name, by side and in total; orders without a side are in the total only."""
    sides = _by_side(orders)
    columns = {
        "name": names,
        "long_count": (orders["side"] == "long").astype("int64"),
        "short_count": (orders["side"] == "short").astype("int64"),
        "long_usd": sides["long_usd"],
        "short_usd": sides["short_usd"],
        "total_count": 1,
        "total_usd": orders["value_usd"],
    }
    return pd.DataFrame(columns).groupby("name").sum().round(2).reset_index()


ANSWERS: Answers = {
    "/liquidations/events": events,
    "/liquidations/history": history,
    "/liquidations/aggregates": aggregates,
}
