"""Perpetuals: funding now, over time and as settled; open interest and volume; liquidations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import tables, units
from derivdata.sources import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import FREE_SYMBOLS, Answers, RequestContext
from derivdata.sources.service.data import market
from derivdata.sources.service.data.market import totals
from derivdata.sources.service.data.store import DOCS, Refusal, bad_request, unknown_symbol
from derivdata.sources.service.data.view import StoredColumn, View, notices_of, on_wire, requested_spans
from derivdata.sources.service.data.windows import DEV_DAYS, TICK, ResponseWindow
from derivdata.support import times

_DEFAULT_RANK = "500+"
_MAX_RANK = 500
_TABLES = ("funding_history", "funding_settlements")
_MINUTES = 60


def snapshot(context: RequestContext) -> dict[str, Any]:
    """``GET /funding``: every pair with a current rate; Free sees BTC and ETH."""
    view = context.view
    view.need(*_TABLES)
    symbols = None
    if context.tier == "free":
        symbols = FREE_SYMBOLS
    rates = market.funding_now(view, symbols)
    intervals = market.intervals(view, symbols)[["symbol", "exchange", "interval_hours"]]
    merged = rates.merge(intervals, on=["symbol", "exchange"], how="left", suffixes=("_settled", ""))
    merged = merged.sort_values(["exchange", "symbol"])
    stated = merged[merged["interval_hours"].notna()]
    shown = sorted(merged["symbol"].astype(str).unique())
    native = units.convert(stated["rate_bps_8h"], "bps_8h", "native", hours=stated["interval_hours"])
    raw = [encoding.encode(_decimal(rate)) for rate in native.tolist()]
    return {
        "symbols": shown,
        "exchanges": _venues(sorted(merged["exchange"].astype(str).unique())),
        "funding_rates": _by_venue(merged, encoding.tokens(merged["rate_bps_8h"])),
        "funding_rates_raw": _by_venue(stated, raw),
        "funding_intervals": _by_venue(stated, _number_tokens(stated["interval_hours"])),
        "oi_rankings": {s: r for s, r in market.oi_ranks(view).items() if r <= _MAX_RANK and s in shown},
        "default_oi_rank": _DEFAULT_RANK,
        "timestamp": encoding.stamp(view.now),
    }


def metadata(context: RequestContext) -> dict[str, Any]:
    """``GET /funding/metadata``: symbols and venues, each with its most common interval."""
    view = context.view
    view.need(*_TABLES)
    rates = market.funding_now(view)
    hours = market.intervals(view).groupby("exchange", observed=True)["interval_hours"]
    # `mode` returns sorted values, so ties give the smallest interval.
    usual = hours.agg(lambda values: float(values.mode().iloc[0]))
    venues = _venues(sorted(rates["exchange"].astype(str).unique()))
    for venue in venues["exchange_names"]:
        if venue["name"] in usual.index:
            venue["interval"] = _number(float(usual[venue["name"]]))
    return {
        "symbols": sorted(rates["symbol"].astype(str).unique()),
        "exchanges": venues,
        "timestamp": encoding.stamp(view.now),
    }


def historical(context: RequestContext) -> dict[str, Any]:
    """``GET /funding/historical``: the sampled rate of one symbol; empty for an unknown symbol."""
    view = context.view
    params = context.params
    view.need("funding_history")
    window = context.window()
    column = StoredColumn("funding_history", "rate_bps_8h")
    filters = ([params["symbol"]], params["exchanges"])
    frame, used, _ = view.series(column, window, params["resolution"], *filters)
    stamps = encoding.iso_tokens(pd.DatetimeIndex(frame["time"]))
    points = encoding.objects({"t": stamps, "timestamp": stamps, "y": frame["rate_bps_8h"]})
    return {
        "symbol": params["symbol"],
        "unit": "bps_8h",
        "resolution": used,
        "series": encoding.split(points, frame["exchange"]),
        "notices": window.notices + _no_data(context, window, "funding_history", frame),
    }


def settlement(context: RequestContext) -> dict[str, Any]:
    """``GET /funding/settlement``: the payments of one symbol."""
    view = context.view
    params = context.params
    view.need("funding_settlements")
    window = context.window()
    filters = ([params["symbol"]], params["exchanges"])
    frame = view.rows(Query("funding_settlements", window.start, window.end, *filters))
    has_interval = frame["rate_bps_8h"].notna() & frame["interval_hours"].notna()
    frame = frame[has_interval | frame["rate_native"].notna()]
    stamps = encoding.iso_tokens(pd.DatetimeIndex(frame["time"]))
    fields: dict[str, Any] = {
        "t": stamps,
        "timestamp": stamps,
        "y": frame["rate_bps_8h"],
        "intervalMinutes": _number_tokens(frame["interval_hours"] * _MINUTES),
    }
    # Fields beyond the API document, only in responses with payments that need them.
    if frame["interval_hours"].isna().any():
        fields["rateNative"] = frame["rate_native"]
    if (frame["payment_count"].fillna(1) > 1).any():
        fields["paymentCount"] = frame["payment_count"].astype("float64")
    points = encoding.objects(fields)
    return {
        "symbol": params["symbol"],
        "series": encoding.split(points, frame["exchange"]),
        "notices": window.notices + _no_data(context, window, "funding_settlements", frame),
    }


def _no_data(context: RequestContext, window: ResponseWindow, table: str, frame: pd.DataFrame) -> list[str]:
    """Return notices with the reason for an empty response."""
    if len(frame):
        return []
    view = context.view
    first = context.view.store.start
    symbol = context.params["symbol"]
    venues = context.params["exchanges"]
    since = f"historical funding starts in {first.month_name()} {first.year} ({encoding.stamp(first)} UTC)"
    if window.start > view.now:
        why = f"the window begins after the time of {view.store.label}, {encoding.stamp(view.now)} UTC"
    elif window.end <= first:
        why = since
    elif venues is None:
        why = f"{view.store.label} has no rows of {symbol} in this window; {since}"
    else:
        why = f"{view.store.label} has no rows of {symbol} on {', '.join(venues)} in this window; {since}"
    return [f"no data for this request: {why}", *context.missing(frame, window, table)]


def _decimal(rate: float) -> str:
    """Format a rate with up to 15 decimals and at least 1, as the API does."""
    text = f"{rate:.15f}".rstrip("0")
    if text.endswith("."):
        text += "0"
    return text


def _venues(slugs: list[str]) -> dict[str, Any]:
    """Return the venues' slugs, and their names for display."""
    names = []
    for slug in slugs:
        display = slug.upper()
        if slug in tables.VENUES:
            display = tables.VENUES[slug].display_name
        names.append({"name": slug, "display": display})
    return {"exchange_names": names, "exchanges": slugs}


def _by_venue(frame: pd.DataFrame, values: list[bytes]) -> dict[str, Any]:
    """Map each venue to a JSON object of symbol and value, from rows sorted by venue and their tokens."""
    pairs = list(map(b"%b:%b".__mod__, zip(encoding.tokens(frame["symbol"]), values, strict=True)))
    return encoding.split(pairs, frame["exchange"], b"{%b}")


def _number_tokens(values: pd.Series) -> list[bytes]:
    """Write numbers as tokens, integers without a fraction."""
    return [encoding.encode(_number(value)) for value in values.tolist()]


def _number(value: float) -> float | int | None:
    """Return None for NaN, and an integer for a whole number."""
    if math.isnan(value):
        return None
    if value.is_integer():
        return int(value)
    return value


_DEFAULT_TOP = 50
_DAY = pd.Timedelta(1, "D")
_WEEK_DAYS = 7
_DEV_DAYS = 7
_MAX_DAYS = 365


class Measure(NamedTuple):
    """A figure: its stored column, and its wire names for a symbol (`single`) and for a venue (`total`).

    `all_contracts` is the wire name of its sum over all contracts of the symbol, which is sent if known.
    """

    column: StoredColumn
    single: str
    total: str
    all_contracts: str = ""


OI = Measure(
    StoredColumn("oi_history", "oi_usd", second="oi_all_contracts_usd"),
    "open_interest_usd",
    "total_open_interest_usd",
    "open_interest_all_contracts_usd",
)
VOLUME = Measure(StoredColumn("volume_history", "volume_usd", added=True), "volume_usd", "total_volume_usd")


def exchange_totals(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi/exchange-totals`` and ``GET /volume/exchange-totals``."""
    context.view.need(measure.column.table)
    window = context.window()
    venues = context.params["exchanges"]
    resolution = context.params.get("resolution")
    frame, used, omissions = totals(context.view, measure.column, window, resolution, venues=venues)
    columns = {
        "timestamp": frame["time"],
        "exchange": frame["exchange"],
        measure.total: frame["value"].round(2),
        "symbol_count": frame["symbol_count"],
    }
    return {
        "data": encoding.rows(columns),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, frame, omissions),
    }


def timeseries(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi/{symbol}/timeseries`` and ``GET /volume/{symbol}/timeseries``, by time and venue."""
    view = context.view
    params = context.params
    view.need(measure.column.table)
    symbols = view.store.symbols(measure.column.table)
    if params["symbol"] not in symbols:
        raise unknown_symbol(params["symbol"], symbols)
    window = context.window()
    filters = ([params["symbol"]], params["exchanges"])
    frame, used, omissions = view.series(measure.column, window, params["resolution"], *filters)
    names = {"time": "timestamp", "exchange": "exchange", measure.column.value: measure.single}
    if measure.all_contracts and frame[measure.column.second].notna().any():
        names[measure.column.second] = measure.all_contracts
    frame = frame.sort_values(["time", "exchange"])[list(names)].rename(columns=names)
    missing = context.missing(frame, window, measure.column.table)
    return {
        "symbol": params["symbol"],
        "unit": "usd",
        "resolution": used,
        "data": encoding.rows(frame),
        "notices": notices(window, frame, omissions) + missing,
    }


def top_symbols(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi|volume/exchange-top-symbols-timeseries``: wide rows, the largest over the window first."""
    view = context.view
    exchange = context.params["exchange"]
    view.need(measure.column.table)
    window = context.window()
    frame, used, omissions = view.series(measure.column, window, None, None, [exchange])
    values = frame[measure.column.value].to_numpy()
    # 1. Rank symbols by their sum; equal sums stay in alphabetical order.
    symbol, names = pd.factorize(frame["symbol"].astype(object), sort=True)
    largest = np.argsort(-np.bincount(symbol, values, minlength=len(names)), kind="stable")
    top = largest[: context.params["limit"] or _DEFAULT_TOP]
    # 2. Pivot the rows of the top symbols; pd.pivot of all symbols would need far more memory.
    column = np.full(len(names), -1)
    column[top] = np.arange(len(top))
    shown = np.flatnonzero(column[symbol] >= 0)
    row, stamps = pd.factorize(frame["time"].array.asi8[shown], sort=True)
    wide = np.full((len(stamps), len(top)), np.nan)
    wide[row, column[symbol[shown]]] = values[shown]
    tokens = encoding.iso_tokens(pd.DatetimeIndex(np.asarray(stamps).view("M8[us]"), tz="UTC"))
    return {
        "exchange": exchange,
        "symbols": names[top].tolist(),
        "timeseries": encoding.array(encoding.sparse_objects(tokens, pd.DataFrame(wide, columns=names[top]))),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, wide, omissions),
    }


def notices(window: ResponseWindow, rows: Any, omissions: list[str]) -> list[str]:
    """Return notices about the window, about omitted rows, and about an empty response."""
    texts = window.notices + omissions
    if not len(rows):
        texts.append("no data in this range")
    return texts


def exchanges_summary(context: RequestContext) -> dict[str, Any]:
    """``GET /oi/exchanges-summary``: changes in percent; the sparkline has one point per day and ends now."""
    view = context.view
    view.need("oi_history", "markets_symbol_exchanges")
    summary = view.once("oi_summary", lambda: _summary(view))
    total = float(summary["total_oi_usd"].sum())
    rows = dict(summary.items()) | {"sparkline_7d": summary["sparkline_7d"].tolist()}
    return {"exchanges": encoding.rows(rows), "total": len(summary), "total_market_oi": round(total, 2)}


def _summary(view: View) -> pd.DataFrame:
    """Return one row per venue, largest first, with the columns of the response."""
    # Totals of the venues at this time of each of the last eight days, the oldest first.
    daily = []
    for days_ago in range(_WEEK_DAYS, -1, -1):
        oi = market.oi_at(view, view.now - days_ago * _DAY)
        daily.append(oi.groupby(level="exchange").sum(min_count=1))
    now = market.oi_at(view, view.now).rename("oi_usd").reset_index()
    now = now[now["oi_usd"] > 0].sort_values(["exchange", "oi_usd", "symbol"], ascending=[True, False, True])
    venues = now.groupby("exchange", sort=True)
    total = venues["oi_usd"].sum()
    sparkline = pd.concat(daily[1:], axis=1, sort=True).reindex(total.index).round(2)
    summary = pd.DataFrame(
        {
            "total_oi_usd": total.round(2),
            "symbol_count": venues.size(),
            "top_symbol": venues["symbol"].first(),
            "change_24h": market.percent_change(total, daily[-2]),
            "change_7d": market.percent_change(total, daily[0]),
            "sparkline_7d": [encoding.encode(row) for row in sparkline.to_numpy().tolist()],
            "market_share": total / total.sum(),
        }
    ).reset_index()
    return summary.sort_values(["total_oi_usd", "exchange"], ascending=[False, True])


def ratio(context: RequestContext) -> dict[str, Any]:
    """``GET /volume-oi-ratio``: volume of the `window_days` before each step over its open interest."""
    view = context.view
    days = context.params["window_days"]
    view.need(OI.column.table)
    view.need(VOLUME.column.table)
    if days > _MAX_DAYS:
        raise bad_request(f"window_days must be from 1 to {_MAX_DAYS}, got {days}")
    if context.tier == "dev" and days > _DEV_DAYS:
        error = f"window_days must be at most {_DEV_DAYS} on the Dev tier, got {days}"
        raise Refusal(403, error, required_tier="pro", docs=DOCS)
    window = context.window()
    venues = context.params["exchanges"]
    oi, used, _ = totals(view, OI.column, window, context.params.get("resolution"), venues=venues)
    with_days_before = window._replace(start=window.start - (days + 1) * _DAY)
    volume, step, omissions = totals(view, VOLUME.column, with_days_before, "1h", venues=venues)
    volume = volume.assign(end=volume["time"] + (times.resolution(step) or pd.Timedelta(0)))
    has_full_volume = oi["time"] >= view.store.start + days * _DAY
    ratios = _ratios(oi[has_full_volume], volume, days * _DAY)
    return {
        "data": encoding.split(encoding.objects(ratios.drop(columns="exchange")), ratios["exchange"]),
        "window_days": days,
        "notices": notices(window, ratios, omissions),
        "unit": "ratio",
        "resolution": used,
    }


def _ratios(oi: pd.DataFrame, volume: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    """Return ratio, volume of the time `length` before, and open interest, sorted by venue and time."""
    ratios = oi.rename(columns={"time": "timestamp", "value": "open_interest"})
    ratios = ratios.sort_values(["exchange", "timestamp"], ignore_index=True)
    # Grouped once, because a mask of names per venue is slow.
    volumes = dict(iter(volume.groupby("exchange")))
    traded = []
    for exchange, rows in ratios.groupby("exchange", sort=True):
        steps = volumes.get(exchange, volume.iloc[:0])
        at = rows["timestamp"]
        # Volume of the steps that ended in ``(at − length, at]``, as a difference of the running sum.
        running = np.concatenate([[0.0], steps["value"].astype("float64").cumsum()])
        ended_at_end = np.searchsorted(steps["end"], at, side="right")
        ended_at_start = np.searchsorted(steps["end"], at - length, side="right")
        traded.append(running[ended_at_end] - running[ended_at_start])
    ratios["volume"] = np.concatenate([*traded, np.array([])])
    open_interest = ratios["open_interest"].astype("float64")
    ratios["ratio"] = (ratios["volume"] / open_interest.where(open_interest > 0)).round(6)
    ratios = ratios.round({"volume": 2, "open_interest": 2})
    return ratios[["exchange", "timestamp", "ratio", "volume", "open_interest"]]


DEFAULT_LIMIT = 1000
_FIRST_STEP = pd.Timedelta(6, "h")
"""Length of the first window in which `_first_events` reads."""
_FINEST_STEP = "1m"
_SUMS_TABLE = "liquidations_history"
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
        start = params["since"] + TICK
        floor = view.now - pd.Timedelta(DEV_DAYS, "D")
        if context.tier == "dev" and start < floor:
            notices = [
                f"since was raised from {times.iso(params['since'])} to {times.iso(floor)}: "
                f"Dev covers the rolling {DEV_DAYS} days that end now"
            ]
            start = floor
        orders = _first_events(view, start, limit, **filters)
    body = {"events": encoding.rows(_wire_columns(orders)), "count": len(orders)}
    notices += _add_coverage(view, body, start, view.now, **filters)
    if notices:
        body["notices"] = notices
    return body


def history(context: RequestContext) -> dict[str, Any]:
    """``GET /liquidations/history``: buckets of a day, of an hour for windows under a day."""
    view = context.view
    params = context.params
    view.need(*market.TABLES, _SUMS_TABLE)
    window = context.window()
    used = params["resolution"]
    if used is None:
        used = "1h" if window.requested < _DAY else "1d"
    notices = []
    if used == "raw":
        notices = [f"resolution=raw is not available: the finest step of liquidation sums is {_FINEST_STEP}"]
        used = _FINEST_STEP
    stored = _stored_sums(view, window, params["symbol"])
    finest = _step_of(stored)
    if times.RESOLUTIONS[finest] > times.RESOLUTIONS[used]:
        notices.append(
            f"the stored sums of liquidations have a step of {finest}: resolution={finest} is used"
        )
        used = finest
    sums = _sums_of_orders(view, window, used, params["symbol"])
    if len(stored):
        sums = pd.concat([sums, _sums_at_step(stored, window, used)], ignore_index=True)
        sums = sums.sort_values(["time", "exchange"], ignore_index=True)
    without_side = sums["unknown_usd"].sum()
    if without_side > 0:
        notices.append(f"liquidations without a side were omitted ({without_side:.2f} USD)")
    sums = sums[(sums["unknown_usd"] == 0) | (sums[["long_usd", "short_usd"]] > 0).any(axis=1)]
    rows = _rows_by_date(sums)
    if not rows:
        notices.append("no liquidations in this range")
    body: dict[str, Any] = {"data": rows, "unit": "usd", "resolution": used}
    notices += _add_coverage(view, body, window.start, min(window.end, view.now), symbols=params["symbol"])
    return body | {"notices": window.notices + notices}


def _rows_by_date(sums: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row per time, with the sums of each venue as JSON."""
    amounts = encoding.objects(sums[["long_usd", "short_usd"]])
    venues = encoding.tokens(sums["exchange"])
    by_venue = [b"%b:%b" % pair for pair in zip(venues, amounts, strict=True)]
    stamps = pd.Series(encoding.iso_tokens(pd.DatetimeIndex(sums["time"])), dtype=object)
    dates = encoding.split(by_venue, stamps.str.decode("ascii"), b"{%b}")
    return [{"date": date.strip('"'), "exchanges": exchanges} for date, exchanges in dates.items()]


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
    groups = _count_by_name(orders, names).sort_values(["total_usd", "name"], ascending=[False, True])
    totals = _count_by_name(orders, pd.Series("all", index=orders.index, dtype=object))
    body: dict[str, Any] = {
        "period": params["range"],
        "range": params["range"],
        "group_by": params["group_by"],
        "totals": dict.fromkeys(_FIGURES, 0),
        "groups": encoding.rows(groups),
        "largest": None,
    }
    if len(totals):
        body["totals"] = totals[list(_FIGURES)].to_dict("records")[0]
    if len(groups):
        body["largest"] = groups[["name", "total_usd"]].to_dict("records")[0]
    notices = _add_coverage(view, body, view.now - length, view.now)
    if notices:
        body["notices"] = notices
    return body


def _add_coverage(
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
    listed: set[str] = set()
    for table in filter(view.has, market.TABLES):
        listed.update(view.store.symbols(table))
    return sorted(listed.difference(params["exclude_symbol"]))


def _first_events(
    view: View, start: pd.Timestamp, limit: int, **filters: Sequence[str] | None
) -> pd.DataFrame:
    """Return the first `limit` events from `start` on, read in windows that double in length."""
    start = max(start, view.store.start)
    length = _FIRST_STEP
    blocks = []  # without empty frames, which would change dtypes in concat
    count = 0
    while start < view.horizon and count < limit:
        end = min(start + length, view.horizon)
        orders = market.liquidation_orders(view, start, end, **filters)
        if len(orders):
            blocks.append(orders)
        count += len(orders)
        start = end
        length = length * 2
    if not blocks:
        return tables.TABLES["liquidations_events"].empty()
    return pd.concat(blocks, ignore_index=True).head(limit)


def _wire_columns(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the columns under their wire names, in the order of the API document."""
    order = (
        "time exchange symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status "
        "order_id fill_count"
    )
    return dict(frame[order.split()].rename(columns=tables.TABLES["liquidations_events"].wire))


def _sums_of_orders(
    view: View, window: ResponseWindow, step: str, symbols: Sequence[str] | None
) -> pd.DataFrame:
    """Return the value of stored orders by bucket, venue and side, of buckets that start in the window."""
    length = times.RESOLUTIONS[step]

    def read_block(block: ResponseWindow) -> tuple[pd.DataFrame, int]:
        orders = market.order_values(view, block.start.ceil(length), block.end.ceil(length), symbols)
        return _sum_by_side(orders, length), len(orders)

    blocks = view.blocks(window._replace(end=min(window.end, view.horizon)), read_block)
    nonempty = [sums for sums in blocks if len(sums)]
    if not nonempty:
        return pd.DataFrame(columns=["time", "exchange", *_SIDES])
    return pd.concat(nonempty, ignore_index=True)


def _stored_sums(view: View, window: ResponseWindow, symbols: Sequence[str] | None) -> pd.DataFrame:
    """Return the stored sums of venues without stored orders."""
    if not view.has(_SUMS_TABLE):
        return tables.TABLES[_SUMS_TABLE].empty()
    venues = set(view.store.exchanges(_SUMS_TABLE))
    for table in filter(view.has, market.TABLES):
        venues.difference_update(view.store.exchanges(table))
    end = min(window.end.ceil(_DAY), view.horizon)
    return view.rows(Query(_SUMS_TABLE, window.start, end, symbols, sorted(venues)))


def _step_of(sums: pd.DataFrame) -> str:
    """Return the step of stored sums: the smallest gap between two of a series, else the finest step."""
    series = ["exchange", "symbol"]
    rows = sums[[*series, "time"]].sort_values([*series, "time"])
    smallest_gap = rows.groupby(series, observed=True)["time"].diff().min()
    if pd.isna(smallest_gap):
        return _FINEST_STEP
    for name, length in times.RESOLUTIONS.items():
        if length >= smallest_gap:
            return str(name)
    return "1d"


def _sums_at_step(sums: pd.DataFrame, window: ResponseWindow, step: str) -> pd.DataFrame:
    """Add up stored sums by bucket and venue, of buckets that start in the window."""
    length = times.RESOLUTIONS[step]
    start = sums["time"].dt.floor(length)
    values = sums[["long_usd", "short_usd"]].assign(time=start, exchange=sums["exchange"].astype(object))
    values = values[(start >= window.start) & (start < window.end)]
    added = values.groupby(["time", "exchange"]).sum().round(2).reset_index()
    return added.assign(unknown_usd=0.0)


def _sum_by_side(orders: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    """Add up the value of orders by bucket, venue and side; a missing side is unknown."""
    width = times.us(length)
    start = pd.DatetimeIndex((orders["time"].array.asi8 // width * width).view("M8[us]")).tz_localize("UTC")
    keys = {"time": start, "exchange": pd.Categorical(orders["exchange"])}
    values = pd.DataFrame(keys | _values_by_side(orders), copy=False)
    return values.groupby(list(keys), observed=True).sum().round(2).reset_index().astype({"exchange": object})


def _values_by_side(orders: pd.DataFrame) -> dict[str, Any]:
    """Return the value of each order in the column of its side, and 0 in the other columns."""
    side = orders["side"].astype(object)
    value = orders["value_usd"].fillna(0.0)
    is_long = side == "long"
    is_short = side == "short"
    masks = (is_long, is_short, ~(is_long | is_short))
    return {name: value.where(mask, 0.0).to_numpy() for name, mask in zip(_SIDES, masks, strict=True)}


def _count_by_name(orders: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    """Count and sum orders by name, by side and in total; orders without a side are in the total only."""
    sides = _values_by_side(orders)
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
    "/funding": snapshot,
    "/funding/metadata": metadata,
    "/funding/historical": historical,
    "/funding/settlement": settlement,
    "/oi/exchanges-summary": exchanges_summary,
    "/oi/exchange-totals": partial(exchange_totals, measure=OI),
    "/oi/{symbol}/timeseries": partial(timeseries, measure=OI),
    "/oi/exchange-top-symbols-timeseries": partial(top_symbols, measure=OI),
    "/volume/exchange-totals": partial(exchange_totals, measure=VOLUME),
    "/volume/{symbol}/timeseries": partial(timeseries, measure=VOLUME),
    "/volume/exchange-top-symbols-timeseries": partial(top_symbols, measure=VOLUME),
    "/volume-oi-ratio": ratio,
    "/liquidations/events": events,
    "/liquidations/history": history,
    "/liquidations/aggregates": aggregates,
}
