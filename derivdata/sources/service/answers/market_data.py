"""Order books, trading hours and the local tables: each response shows one table.

The API document does not describe books and depth, so their shape is this library's. Only the local service
has the local tables, such as prices over time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from msgspec import Raw

from derivdata.sources.query import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import Answers, RequestContext
from derivdata.sources.service.answers.oi_volume import notices
from derivdata.sources.service.data import windows
from derivdata.sources.service.data.view import StoredColumn, View
from derivdata.sources.service.data.windows import require_dev_range
from derivdata.sources.service.refusal import bad_request, not_found, unknown_symbol
from derivdata.support import times
from derivdata.tables import TABLES
from derivdata.tables.endpoints import ENDPOINTS, Endpoint

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
    at = view.now if params["end"] is None else min(params["end"], view.now)
    if context.tier == "dev":
        require_dev_range(at, view.now)
    pair = [params["symbol"]], [params["exchange"]]
    levels = view.latest("orderbook_book", at, windows.HOLD, *pair)
    if levels.empty:
        when = "now" if params["end"] is None else f"in the hour before {times.iso(at)}"
        raise not_found(f"no book of {params['symbol']} on {params['exchange']} {when}")
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
    pair = [params["symbol"]], [params["exchange"]]
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
    return {name: params[name] for name in ("symbol", "exchange")}


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
    pair = ([params["symbol"]], params["exchanges"])
    keys = {key: params[key] for key in TABLES[name].key if key in params}
    stated = keys | {"unit": endpoint.unit}
    filters = [(key, word) for key, word in keys.items() if key != "symbol"]
    column = StoredColumn(name, added=endpoint.rows == "added", only=filters[0] if filters else None)
    left_out: list[str] = []
    if endpoint.rows == "single":
        frame = view.rows(Query(name, window.start, window.end, *pair))[column.columns]
        frame = frame.sort_values("exchange", kind="stable")
    else:
        frame, stated["resolution"], left_out = view.series(column, window, params["resolution"], *pair)
    wire = TABLES[name].wire
    shown = {wire.get(n, n): frame[n] for n in frame if n not in ("symbol", "exchange")}
    return {
        **stated,
        "series": encoding.split(encoding.objects(shown), frame["exchange"]),
        "notices": notices(window, frame, left_out + context.missing(frame, window, name)),
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
    listed = {"timestamp": encoding.stamp(view.now), table.name: encoding.rows(table.conform(newest))}
    return listed | {"notices": [] if len(newest) else ["no contract of these symbols and venues"]}


def _extents(view: View, name: str) -> pd.DataFrame:
    """Return the catalog's rows of a table."""
    extents = view.store.extents(name, view.horizon)
    names = extents["exchange"].astype("object").where(extents["exchange"].notna(), "unstated")
    steps: dict[str, float] = {}
    if "order_id" not in TABLES[name].key:
        pairs = extents.dropna(subset=["exchange", "symbol", "last"])
        for within in _STEPS_WITHIN:  # half a day is too short to see a step of a day
            steps |= _steps(view, name, pairs[~pairs["exchange"].isin(list(steps))], within)
    rows = extents.assign(table=name, exchange=names, step_hours=names.map(steps).astype("float64"))
    return rows[[*TABLES["catalog"].columns]]


def _steps(view: View, name: str, pairs: pd.DataFrame, within: pd.Timedelta) -> dict[str, float]:
    """Return the median hours between the last rows of one symbol per venue with several rows."""
    if not len(pairs):
        return {}
    end = min(pairs["last"].max().floor("h") + pd.Timedelta(1, "h"), view.horizon)
    symbols, venues = (sorted(set(pairs[column])) for column in ("symbol", "exchange"))
    rows = view.store.rows(
        Query(name, end - within, end, symbols, venues, columns=("symbol", "exchange", "time"))
    )
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
    return {
        "id": first["exchange_id"],
        **{name: first[name] for name in ("name", "short_name", "mic", "timezone")},
        "is_tradable": bool(first["is_tradable_now"]),
        "next_session": None if later.empty else _intervals(later)[0],
        "sessions": _intervals(rows[~holiday]),
        "holidays": _intervals(rows[holiday]),
    }


def _intervals(rows: pd.DataFrame) -> list[Any]:
    return [Raw(item) for item in encoding.objects(rows[["start", "end", "session", "is_tradable"]])]


ANSWERS: Answers = {
    "/orderbook/book": book,
    "/orderbook/depth-history": depth_history,
    "/local/catalog": catalog,
    "/local/instruments": instruments,
    "/rwa/market-hours": market_hours,
} | {e.path: partial(table_rows, endpoint=e) for e in ENDPOINTS if e.rows}
