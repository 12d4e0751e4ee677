"""Markets: leaderboard, movers, symbols and venues; order books, trading hours and the local tables.

The API document does not describe books and depth, so their shape is this library's. Only the local service
has the local tables, such as prices over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from msgspec import Raw

from derivdata.sources import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import FREE_SYMBOLS, Answers, RequestContext
from derivdata.sources.service.answers.perpetuals import OI, VOLUME, Measure, notices
from derivdata.sources.service.data import market, windows
from derivdata.sources.service.data.market import totals
from derivdata.sources.service.data.store import (
    DOCS,
    ClassifiedStore,
    Refusal,
    bad_request,
    not_found,
    unknown_symbol,
)
from derivdata.sources.service.data.view import Series, StoredColumn, View
from derivdata.sources.service.data.windows import ResponseWindow, length, require_dev_range
from derivdata.support import times
from derivdata.tables import TABLES
from derivdata.tables.endpoints import ENDPOINTS, Endpoint

_DEV_SYMBOLS = 200
_LEADERS = 10
_MOVERS = 10
_EDGES = (-20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
_BUCKETS: tuple[tuple[str, float | None, float | None], ...] = (
    ("<-20%", None, -20.0),
    ("<-10%", -20.0, -10.0),
    ("-10..-5%", -10.0, -5.0),
    ("-5..0%", -5.0, 0.0),
    ("0%", 0.0, 0.0),
    ("0..5%", 0.0, 5.0),
    ("5..10%", 5.0, 10.0),
    (">10%", 10.0, 20.0),
    (">20%", 20.0, None),
)
_UNCHANGED = 4
_WEEK = pd.Timedelta(7, "D")
_FIGURES = {
    "price_usd": "price_usd",
    "price_24h_change_pct": "price_24h_change_pct",
    "volume_24h_usd": "volume_24h_usd",
    "oi_usd": "oi_usd",
    "funding_current_bps": "funding_bps_8h",
    "liquidation_24h_usd": "liquidation_24h_usd",
}


def symbols(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/symbols``: ranked by open interest; Dev sees the first 200."""
    context.view.need("oi_history", "markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(context.view), context.params["exchanges"]))
    if context.tier == "dev":
        board = board.head(_DEV_SYMBOLS)
    return {**_snapshot(context), "symbols": encoding.rows(_classified(context.view, board))}


def _classified(view: View, board: pd.DataFrame) -> pd.DataFrame:
    """Add the asset class of each symbol if the source has it."""
    if not isinstance(view.store, ClassifiedStore):
        return board
    return board.assign(asset_class=board["symbol"].astype("str").map(view.store.asset_classes()))


def price_movers(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/price-movers``: largest changes in 24 hours with a volume of at least `min_value`."""
    context.view.need("markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(context.view), context.params["exchanges"]))
    traded = board[board["volume_24h_usd"] >= context.params["min_value"]]
    change = traded["price_24h_change_pct"]
    limit = context.params["limit"] or _MOVERS
    return {
        **_snapshot(context),
        "gainers": _movers(traded[change > 0], limit, ascending=False),
        "losers": _movers(traded[change < 0], limit, ascending=True),
    }


def funding_leaders(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/funding-leaders``: the ten pairs with the highest rate."""
    view = context.view
    venues = context.params["exchanges"]
    view.need("funding_history", "funding_settlements")
    rates = market.within(market.pairs(view), venues).dropna(subset="funding_bps_8h")
    ordered = rates.sort_values(["funding_bps_8h", "symbol", "exchange"], ascending=[False, True, True])
    top = ordered.head(_LEADERS)
    ranks = market.oi_ranks(view)
    columns = {
        "symbol": top["symbol"],
        "exchange": top["exchange"],
        "funding_current_bps": top["funding_bps_8h"],
        "oi_rank": [encoding.encode(ranks.get(symbol)) for symbol in top["symbol"]],
        "rank": pd.Series(np.arange(1, len(top) + 1)),
    }
    return {
        "timestamp": encoding.stamp(view.now),
        "exchanges_filter": None if venues is None else list(venues),
        "data": encoding.rows(columns),
    }


def price_buckets(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/price-buckets``: nine buckets, highest first; an edge belongs to the bucket nearer 0."""
    context.view.need("markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(context.view), context.params["exchanges"]))
    moved = board[board["price_24h_change_pct"].notna()].sort_values("symbol")
    bucket = _bucket_of(moved["price_24h_change_pct"].to_numpy())
    counts = []
    for number, (label, lower, upper) in enumerate(_BUCKETS):
        names = moved["symbol"][bucket == number].tolist()
        counts.append({"label": label, "min": lower, "max": upper, "count": len(names), "symbols": names})
    counts.reverse()
    return {**_snapshot(context), "buckets": counts}


def _snapshot(context: RequestContext) -> dict[str, Any]:
    """Return the time of a market snapshot and the venues of the filter, if any."""
    body: dict[str, Any] = {"timestamp": encoding.stamp(context.view.now)}
    venues = context.params["exchanges"]
    if venues is not None:
        body["exchanges_filter"] = list(venues)
    return body


def exchanges(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/exchanges/all``: one row per venue, largest open interest first."""
    venues = market.pairs(context.view).groupby("exchange")
    added = venues[["volume_24h_usd", "oi_usd", "liquidation_24h_usd"]].sum(min_count=1).round(2)
    rows = added.assign(symbol_count=venues.size()).reset_index()
    rows = rows.sort_values(["oi_usd", "exchange"], ascending=[False, True])
    return {"timestamp": encoding.stamp(context.view.now), "exchanges": encoding.rows(rows)}


def exchange_symbols(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/exchanges/{exchange}/symbols``: one row per symbol, largest open interest first."""
    view = context.view
    exchange = context.params["exchange"]
    pairs = market.pairs(view)
    rows = pairs[pairs["exchange"] == exchange].sort_values(["oi_usd", "symbol"], ascending=[False, True])
    if rows.empty and exchange not in view.exchanges:
        raise not_found(f"unknown exchange {exchange!r}")
    columns = {"symbol": rows["symbol"], **_figures(rows)}
    return {"exchange": exchange, "timestamp": encoding.stamp(view.now), "symbols": encoding.rows(columns)}


def exchange_timeseries(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/exchanges/{exchange}/timeseries``: volume and open interest of one venue."""
    view = context.view
    exchange = context.params["exchange"]
    view.need(OI.column.table, VOLUME.column.table)
    if exchange not in view.exchanges:
        raise not_found(f"unknown exchange {exchange!r}")
    window = context.window()
    measures = [measure for measure in (VOLUME, OI) if view.has(measure.column.table)]
    series, used = _at_same_resolution(context, measures, window)
    columns = {}
    omissions: list[str] = []
    for name, totals_of_measure in series.items():
        values = totals_of_measure.frame.set_index("time")["value"]
        columns[name] = values.astype("float64").round(2)
        omissions += totals_of_measure.notices
    joined = pd.concat(columns, axis=1, sort=True).reindex(columns=["volume_usd", "oi_usd"]).sort_index()
    joined = joined.rename_axis("timestamp").reset_index()
    return {
        "exchange": exchange,
        "range": context.params["range"],
        "data": encoding.rows(joined),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, joined, omissions),
    }


def symbol_exchanges(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/{symbol}/exchanges``: one row per venue, largest open interest first."""
    view = context.view
    symbol = context.params["symbol"]
    pairs = market.pairs(view)
    rows = pairs[pairs["symbol"] == symbol].sort_values(["oi_usd", "exchange"], ascending=[False, True])
    if rows.empty:
        raise unknown_symbol(symbol, pairs["symbol"].unique())
    mean = rows["exchange"].map(_mean_rates(view, symbol)).astype("float64")
    columns = {"exchange": rows["exchange"], **_figures(rows), "funding_avg_7d_bps": mean.round(6)}
    return {"symbol": symbol, "timestamp": encoding.stamp(view.now), "exchanges": encoding.rows(columns)}


def symbol_stats(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/{symbol}/stats``: the symbol's row of the leaderboard; Free sees BTC and ETH."""
    symbol = context.params["symbol"]
    if context.tier == "free" and symbol not in FREE_SYMBOLS:
        error = f"the Free tier covers {' and '.join(FREE_SYMBOLS)}, got {symbol}"
        raise Refusal(403, error, required_tier="dev", docs=DOCS)
    context.view.need("oi_history", "markets_symbol_exchanges")
    board = market.board(market.pairs(context.view))
    row = _classified(context.view, board)[board["symbol"] == symbol]
    if row.empty:
        raise unknown_symbol(symbol, board["symbol"].unique())
    figures = {name: _bare(value) for name, value in row.iloc[0].drop("symbol").items()}
    return {"symbol": symbol, "timestamp": encoding.stamp(context.view.now), **figures}


def _movers(board: pd.DataFrame, limit: int, *, ascending: bool) -> Any:
    """Return the symbols with the largest rises, or falls if `ascending`, as rows of a response."""
    by = ["price_24h_change_pct", "symbol"]
    top = board.sort_values(by, ascending=[ascending, True]).head(limit)
    top = top[["symbol", "price_usd", "price_24h_change_pct"]].assign(rank=np.arange(1, len(top) + 1))
    return encoding.rows(top)


def _bucket_of(change: Any) -> Any:
    """Return the number of each change's bucket in `_BUCKETS`; edges belong to the bucket nearer 0."""
    falling = np.searchsorted(_EDGES, change, side="right")
    rising = np.searchsorted(_EDGES, change, side="left") + 1
    return np.select([change < 0, change > 0], [falling, rising], _UNCHANGED)


def _figures(rows: pd.DataFrame) -> Mapping[str, Any]:
    return {name: rows[column] for name, column in _FIGURES.items()}


def _mean_rates(view: View, symbol: str) -> dict[str, float]:
    """Return the mean rate of every venue over the last 7 days [bps/8h], weighted by time."""
    if not view.has("funding_history"):
        frame = view.current("markets_symbol_exchanges", symbols=[symbol])
        return dict(zip(frame["exchange"].astype(str), frame["funding_avg_7d_bps_8h"], strict=True))
    start = view.now - _WEEK
    frame = view.rows(Query("funding_history", start - windows.HOLD, view.horizon, [symbol]))
    return windows.overall(frame, "rate_bps_8h", start, view.horizon)


def _bare(value: Any) -> Any:
    """Convert a value for msgspec, missing values to None."""
    if isinstance(value, np.generic):
        return value.item()
    if pd.isna(value):
        return None
    return value


def _at_same_resolution(
    context: RequestContext, measures: Sequence[Measure], window: ResponseWindow
) -> tuple[dict[str, Series], str]:
    """Return a venue's totals at the coarsest resolution that a measure needs, and this resolution."""
    venue = [context.params["exchange"]]
    requested = context.params.get("resolution")
    series: dict[str, Series] = {}
    for measure in measures:
        column = measure.column
        series[column.value] = totals(context.view, column, window, requested, venues=venue)
    used = max((s.used for s in series.values()), key=length)
    for measure in measures:
        column = measure.column
        if series[column.value].used != used:
            series[column.value] = totals(context.view, column, window, used, venues=venue)
    return series, used


_DEPTHS = (10, 25, 50, 100)
_DEPTH = "orderbook_depth_history"
_DAY = pd.Timedelta(1, "D")
_STEPS_WITHIN = (_DAY / 2, 10 * _DAY)
_EXCHANGE_NAMES = ("exchange_id", "short_name", "mic")


def book(context: RequestContext) -> dict[str, Any]:
    """``GET /orderbook/book``: the newest book at `end` (default: the clock), at most an hour old."""
    view = context.view
    params = context.params
    if params["start"] is not None:
        raise bad_request("start is not supported: a book has one time; use end")
    _require(view, "orderbook_book", params["symbol"])
    at = view.now
    when = "now"
    if params["end"] is not None:
        at = min(params["end"], view.now)
        when = f"in the hour before {times.iso(at)}"
    if context.tier == "dev":
        require_dev_range(at, view.now)
    levels = view.latest("orderbook_book", at, windows.HOLD, [params["symbol"]], [params["exchange"]])
    if levels.empty:
        raise not_found(f"no order book of {params['symbol']} on {params['exchange']} {when}")
    newest = levels["time"].max()
    levels = levels[levels["time"] == newest].sort_values("level")
    body = {**_pair(params), "timestamp": encoding.stamp(newest)}
    for side in ("bid", "ask"):
        rows = levels[levels["side"] == side].head(params["limit"] or len(levels))
        body[f"{side}s"] = np.column_stack([rows["price_usd"], rows["size"]]).tolist()
    return body


def depth_history(context: RequestContext) -> dict[str, Any]:
    """``GET /orderbook/depth-history``: value within 10, 25, 50 and 100 bps of the middle, by side."""
    view = context.view
    params = context.params
    _require(view, _DEPTH, params["symbol"])
    window = context.window()
    pair = ([params["symbol"]], [params["exchange"]])
    frame, used = view.around(StoredColumn(_DEPTH, "bid_depth_usd"), window, params["resolution"], *pair)
    values_by_name = {}
    for depth in _DEPTHS:
        band = frame[frame["depth_bps"] == depth]
        for column in ("bid_depth_usd", "ask_depth_usd"):
            depths = view.combined(band, StoredColumn(_DEPTH, column), window, used)
            values = depths.set_index("time")[column]
            values_by_name[column.replace("depth", f"depth_{depth}bps")] = values.round(2)
    joined = pd.concat(values_by_name, axis=1, sort=True).sort_index().rename_axis("timestamp").reset_index()
    return {
        **_pair(params),
        "data": encoding.rows(joined),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, joined, []),
    }


def _pair(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"symbol": params["symbol"], "exchange": params["exchange"]}


def _require(view: View, table: str, symbol: str) -> None:
    """Raise `Refusal` (404) if the store lacks a table, or a symbol in it."""
    view.need(table)
    symbols = view.store.symbols(table)
    if symbol not in symbols:
        raise unknown_symbol(symbol, symbols)


def table_rows(context: RequestContext, endpoint: Endpoint) -> dict[str, Any]:
    """Return the rows of one symbol in a local table, by venue; empty for an unknown symbol."""
    view = context.view
    params = context.params
    name = endpoint.table
    view.need(name)
    window = context.window()
    filters = ([params["symbol"]], params["exchanges"])
    keys = {key: params[key] for key in TABLES[name].key if key in params}
    stated = keys | {"unit": endpoint.unit}
    column = StoredColumn(name, added=endpoint.rows == "added")
    kinds = [(key, word) for key, word in keys.items() if key != "symbol"]
    if kinds:
        column = column._replace(only=kinds[0])
    omissions: list[str] = []
    if endpoint.rows == "single":
        frame = view.rows(Query(name, window.start, window.end, *filters))[column.columns]
        frame = frame.sort_values("exchange", kind="stable")
    else:
        frame, stated["resolution"], omissions = view.series(column, window, params["resolution"], *filters)
    shown = frame.drop(columns=["symbol", "exchange"]).rename(columns=TABLES[name].wire)
    return {
        **stated,
        "series": encoding.split(encoding.objects(shown), frame["exchange"]),
        "notices": notices(window, frame, omissions + context.missing(frame, window, name)),
    }


def catalog(context: RequestContext) -> dict[str, Any]:
    """``GET /local/catalog``: extents of the source's rows up to the clock, by table and venue."""
    view = context.view
    extents = pd.concat([_extents(view, name) for name in sorted(view.store.tables())])
    return {
        "timestamp": encoding.stamp(view.now),
        "tables": encoding.rows(TABLES["catalog"].conform(extents)),
    }


def instruments(context: RequestContext) -> dict[str, Any]:
    """``GET /local/instruments``: the newest listing of each contract, including delisted ones."""
    view = context.view
    table = TABLES["instruments"]
    view.need(table.name)
    query = Query(
        table.name,
        view.store.start,
        view.horizon,
        context.params["symbols"],
        context.params["exchanges"],
    )
    rows = view.rows(query).sort_values("time")
    newest = rows.drop_duplicates(["exchange", "instrument_name"], keep="last")
    texts = []
    if newest.empty:
        texts.append("no contract of these symbols and venues")
    return {
        "timestamp": encoding.stamp(view.now),
        table.name: encoding.rows(table.conform(newest)),
        "notices": texts,
    }


def _extents(view: View, name: str) -> pd.DataFrame:
    """Return the catalog's rows of a table."""
    extents = view.store.extents(name, view.horizon)
    names = extents["exchange"].astype("object").where(extents["exchange"].notna(), "unstated")
    steps: dict[str, float] = {}
    if "order_id" not in TABLES[name].key:
        pairs = extents.dropna(subset=["exchange", "symbol", "last"])
        for within in _STEPS_WITHIN:  # half a day is too short to detect a step of a day
            steps |= _steps(view, name, pairs[~pairs["exchange"].isin(list(steps))], within)
    rows = extents.assign(table=name, exchange=names, step_hours=names.map(steps).astype("float64"))
    return rows[[*TABLES["catalog"].columns]]


def _steps(view: View, name: str, pairs: pd.DataFrame, within: pd.Timedelta) -> dict[str, float]:
    """Return the median hours between the last rows of each venue, by venue; `pairs` has one symbol of each.

    Venues with fewer than two rows in the time `within` before the last row are missing.
    """
    if not len(pairs):
        return {}
    end = min(pairs["last"].max().floor("h") + pd.Timedelta(1, "h"), view.horizon)
    symbols = sorted(set(pairs["symbol"]))
    venues = sorted(set(pairs["exchange"]))
    columns = ("symbol", "exchange", "time")
    rows = view.store.rows(Query(name, end - within, end, symbols, venues, columns))
    rows = rows.astype({"symbol": "str", "exchange": "str"})
    rows = rows.merge(pairs[["exchange", "symbol"]].astype("str")).drop_duplicates().sort_values("time")
    gaps = rows.groupby("exchange")["time"].diff().dt.total_seconds() / 3600
    medians: dict[str, float] = gaps.groupby(rows["exchange"]).median().dropna().to_dict()
    return medians


def market_hours(context: RequestContext) -> dict[str, Any]:
    """``GET /rwa/market-hours``: sessions and holidays; the filter takes ids, short names and MICs."""
    view = context.view
    wanted = context.params["exchange"]
    view.need("rwa_market_hours")
    calendar = view.latest("rwa_market_hours", view.now, within=_DAY)
    calendar = calendar.sort_values(["exchange_id", "start", "end"])
    is_wanted = pd.Series(wanted is None, index=calendar.index)
    names = calendar[list(_EXCHANGE_NAMES)].apply(lambda column: column.str.lower())
    for name in wanted or ():
        matches = (names == name.lower()).any(axis=1)
        if not matches.any():
            raise bad_request(f"exchange must be an id, short name or market identifier code, got {name!r}")
        is_wanted |= matches
    venues = [_exchange(rows) for _, rows in calendar[is_wanted].groupby("exchange_id", sort=True)]
    return {"timestamp": encoding.stamp(view.now), "exchanges": venues}


def _exchange(rows: pd.DataFrame) -> dict[str, Any]:
    """Return an exchange's sessions and holidays in the shape of the API."""
    first = rows.iloc[0]
    holiday = rows["session"] == "holiday"
    later = rows[(rows["start"] == first["next_session_start"]) & ~holiday]
    next_session = None
    if len(later):
        next_session = _intervals(later)[0]
    return {
        "id": first["exchange_id"],
        "name": first["name"],
        "short_name": first["short_name"],
        "mic": first["mic"],
        "timezone": first["timezone"],
        "is_tradable": bool(first["is_tradable_now"]),
        "next_session": next_session,
        "sessions": _intervals(rows[~holiday]),
        "holidays": _intervals(rows[holiday]),
    }


def _intervals(rows: pd.DataFrame) -> list[Any]:
    return list(map(Raw, encoding.objects(rows[["start", "end", "session", "is_tradable"]])))


ANSWERS: Answers = {
    "/markets/symbols": symbols,
    "/markets/price-movers": price_movers,
    "/markets/funding-leaders": funding_leaders,
    "/markets/price-buckets": price_buckets,
    "/markets/exchanges/all": exchanges,
    "/markets/exchanges/{exchange}/symbols": exchange_symbols,
    "/markets/exchanges/{exchange}/timeseries": exchange_timeseries,
    "/markets/{symbol}/exchanges": symbol_exchanges,
    "/markets/{symbol}/stats": symbol_stats,
    "/orderbook/book": book,
    "/orderbook/depth-history": depth_history,
    "/local/catalog": catalog,
    "/local/instruments": instruments,
    "/rwa/market-hours": market_hours,
} | {e.path: partial(table_rows, endpoint=e) for e in ENDPOINTS if e.rows}
