"""HIP-3 dexes, HIP-4 outcome markets and builders: sums over single traders.

A response is declared as data: the base table that it reads, and the sections of its body. All sections use
the same rows, filtered by the parameters. Candles and the open interest of outcomes have their own windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from derivdata.sources import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import Answers, RequestContext
from derivdata.sources.service.data.store import not_found
from derivdata.sources.service.data.view import View
from derivdata.sources.service.data.windows import TICK, ResponseWindow
from derivdata.support import times

_QUARTER = pd.Timedelta(15, "min")
"""Step of the base tables. A step is visible after its end."""

_DAY = pd.Timedelta(1, "D")
_WEEK = pd.Timedelta(7, "D")
_MONTH = pd.Timedelta(30, "D")
_TRADERS_SHOWN = 100
_CANDLES_SHOWN = 500
_HIP3 = "hip3_traders"
_CANDLES = "hip3_hourly_candles"
_HIP4 = "hip4_traders"
_HIP4_OI = "hip4_oi"

# Columns of each kind of row: column of the base table → wire name. Rows are ranked by the first column.
_LIQUIDATIONS = {"liquidation_value_usd": "liquidation_value_usd", "liquidation_count": "liquidation_count"}
_DEX = {"volume_usd": "volume", "fees_usd": "total_fees", "trade_count": "trade_count", **_LIQUIDATIONS}
_SYMBOL = {
    "volume_usd": "volume_usd",
    "trade_count": "trades",
    "deployer_fees_usd": "builder_fees_usd",
    **_LIQUIDATIONS,
}
_OVER_TIME = {"volume_usd": "volume_usd", "trade_count": "trades", "fees_usd": "fees_usd", **_LIQUIDATIONS}
_TRADER = {"volume_usd": "volume", "fees_usd": "fees_paid", "trade_count": "trade_count"}
_HIP3_TRADER = _TRADER | {"deployer_fees_usd": "deployer_fees_paid"}
_HIP4_TRADER = _TRADER | {"fill_count": "fill_count"}
_OUTCOME = {
    "volume_usd": "volume",
    "fill_count": "fill_count",
    "trade_count": "trade_count",
    "fees_usd": "total_fees",
}
_BUILDER = {"volume_usd": "volume_usd", "fees_usd": "fees_usd", "trade_count": "trades"}
_BUILDERS = {
    "volume_usd": "total_volume_usd",
    "fees_usd": "total_builder_fees_usd",
    "trade_count": "total_trades",
}
_OPEN_INTEREST = {"oi_usd": "oi_usd", "open_interest": "oi_contracts"}


class _Selected(NamedTuple):
    """Selected rows of the base table, with the request and its window."""

    context: RequestContext
    window: ResponseWindow
    frame: pd.DataFrame


_Section: TypeAlias = Callable[[_Selected], Mapping[str, Any]]
"""Function that makes one or several fields of a body."""


class _Count(NamedTuple):
    """A count of distinct values of some columns, with its wire name."""

    name: str
    columns: tuple[str, ...] = ("address",)


def _summed(
    frame: pd.DataFrame, by: list[str], figures: Mapping[str, str], count: _Count | None = None
) -> pd.DataFrame:
    """Add up columns by group, under their wire names; the columns of the group come first."""
    grouped = frame.groupby(by, observed=True, sort=True)[list(figures)].sum()
    rows = grouped.rename(columns=dict(figures)).round(4).reset_index()
    if count is None:
        return rows
    distinct = frame.drop_duplicates([*by, *count.columns]).groupby(by, observed=True, sort=True).size()
    return rows.assign(**{count.name: distinct.to_numpy().astype("int64")})


def _totals(name: str, figures: Mapping[str, str], count: _Count | None = None) -> _Section:
    """Add up all rows, as the field `name`, or as fields of the body if `name` is empty."""

    def section(selected: _Selected) -> Mapping[str, Any]:
        frame = selected.frame
        sums = {wire: round(frame[column].sum().item(), 4) for column, wire in figures.items()}
        if count is not None:
            sums[count.name] = len(frame.drop_duplicates([*count.columns]))
        if not name:
            return sums
        return {name: sums}

    return section


def _ranked(
    name: str,
    by: str,
    figures: Mapping[str, str],
    count: _Count | None = None,
    *,
    shown: int | None = None,
    total: str = "",
    numbered: bool = False,
) -> _Section:
    """Rank groups by the first figure, ties by name; `total` counts them before any limit."""

    def section(selected: _Selected) -> Mapping[str, Any]:
        rows = _summed(selected.frame, by.split(), figures, count)
        first = [next(iter(figures.values())), rows.columns[0]]
        ordered = rows.sort_values(first, ascending=[False, True])
        if by == "dex":
            ordered = ordered.rename(columns={"dex": "dex_name"})
        if numbered:
            ordered["rank"] = np.arange(1, len(ordered) + 1)
        limit = selected.context.params.get("limit") or shown or len(ordered)
        fields: dict[str, Any] = {name: encoding.rows(ordered.head(limit))}
        if total:
            fields[total] = len(rows)
        return fields

    return section


def _stamped(selected: _Selected) -> pd.DataFrame:
    """Floor times to the hour for windows up to a week, else to the day."""
    step = "1D"
    if selected.window.requested <= _WEEK and selected.context.params.get("range") != "all":
        step = "1h"
    return selected.frame.assign(timestamp=selected.frame["time"].dt.floor(step))


def _series(name: str, figures: Mapping[str, str]) -> _Section:
    """Add up figures by hour or day, as the field `name`."""
    return lambda selected: {name: encoding.rows(_summed(_stamped(selected), ["timestamp"], figures))}


def _outcomes_by_day(selected: _Selected) -> Mapping[str, Any]:
    frame = selected.frame.assign(date=selected.frame["time"].dt.floor("1D"))
    return {"timeseries": encoding.rows(_summed(frame, ["date"], _OUTCOME, _TRADERS))}


def _breakdown(selected: _Selected) -> Mapping[str, Any]:
    """Make wide rows of volume over time with a field per symbol of a dex, or per dex."""
    column = "dex" if selected.context.params["dex"] is None else "symbol"
    added = _summed(_stamped(selected), ["timestamp", column], {"volume_usd": "volume"})
    wide = added.pivot(index="timestamp", columns=column, values="volume")
    wide = wide[sorted(wide.columns)]
    stamps = encoding.iso_tokens(pd.DatetimeIndex(wide.index))
    data = encoding.array(encoding.sparse_objects(stamps, wide))
    return {"symbols": [*map(str, wide.columns)], "data": data}


def _open_interest(name: str, key: str, names: str = "") -> _Section:
    """Return open interest at the end of every day and now: the total as `name`, and by the column `key`."""

    def section(selected: _Selected) -> Mapping[str, Any]:
        days = selected.frame.assign(day=selected.frame["time"].dt.floor("1D"))
        last = days.sort_values("time", kind="stable").drop_duplicates(["dex", "symbol", "day"], keep="last")
        rows = _summed(last, [key, "day"], _OPEN_INTEREST).sort_values([key, "day"])
        by_key = encoding.split(encoding.objects(rows.drop(columns=key)), rows[key].astype(object))
        fields: dict[str, Any] = {
            name: encoding.rows(_summed(last, ["day"], _OPEN_INTEREST)),
            f"by_{key}": by_key,
        }
        if names:
            fields[names] = list(by_key)
        return fields

    return section


_leaders = partial(_ranked, "data", "address", shown=_TRADERS_SHOWN, total="total_traders")
_USERS = _Count("unique_users")
_TRADERS = _Count("unique_traders")
_HIP3_ALL = _totals("summary", _DEX, _USERS), _series("timeseries", _OVER_TIME)
_HIP4_ALL = _totals("summary", _OUTCOME, _TRADERS), _outcomes_by_day
_SECTIONS: dict[str, tuple[str, tuple[_Section, ...]]] = {
    "/hip3-analytics/dashboard": (_HIP3, (*_HIP3_ALL, _ranked("by_dex", "dex", _DEX, _USERS))),
    "/hip3-analytics/dex-detail": (
        _HIP3,
        (*_HIP3_ALL, _ranked("by_symbol", "symbol dex", _SYMBOL, _USERS)),
    ),
    "/hip3-analytics/by-dex": (_HIP3, (_ranked("data", "dex", _DEX, _USERS),)),
    "/hip3-analytics/by-symbol": (_HIP3, (_ranked("data", "symbol dex", _SYMBOL, _USERS),)),
    "/hip3-analytics/timeseries/symbol": (_HIP3, (_series("data", _OVER_TIME),)),
    "/hip3-analytics/timeseries/dex-breakdown": (_HIP3, (_breakdown,)),
    "/hip3-analytics/leaderboard": (
        _HIP3,
        (_leaders(_HIP3_TRADER, _Count("symbols_traded", ("dex", "symbol"))),),
    ),
    "/hip3-analytics/oi-trends/total": (_CANDLES, (_open_interest("data", "dex"),)),
    "/hip3-analytics/oi-trends/dex": (_CANDLES, (_open_interest("aggregate", "symbol", "symbols"),)),
    "/hip4-analytics/dashboard": (
        _HIP4,
        (*_HIP4_ALL, _ranked("by_outcome", "outcome_id", _OUTCOME, _TRADERS)),
    ),
    "/hip4-analytics/outcome/{outcome_id}": (
        _HIP4,
        (*_HIP4_ALL, _ranked("by_venue", "venue", _OUTCOME, _TRADERS)),
    ),
    "/hip4-analytics/leaderboard": (
        _HIP4,
        (_leaders(_HIP4_TRADER, _Count("outcomes_traded", ("outcome_id",))),),
    ),
    "/builder-analytics/dashboard": (
        "builders_history",
        (
            _totals("", _BUILDERS),
            _ranked("by_builder", "builder", _BUILDER, numbered=True),
            _series("timeseries", _BUILDER),
        ),
    ),
}
"""Path of an endpoint to the base table of its response and the sections of its body."""

_ECHOED = {
    "/hip3-analytics/dex-detail": {"dex_name": "dex"},
    "/hip3-analytics/timeseries/symbol": {"symbol": "symbol"},
    "/hip3-analytics/oi-trends/dex": {"dex_name": "dex"},
    "/hip4-analytics/outcome/{outcome_id}": {"outcome_id": "outcome_id"},
}
"""Fields that repeat a parameter: name of the field to the parameter."""


def _body(context: RequestContext, path: str) -> dict[str, Any]:
    """Make the body of an endpoint from its sections."""
    table, sections = _SECTIONS[path]
    window = context.window()
    selected = _Selected(context, window, _filtered(context, _past(context.view, table, window)))
    body = {field: context.params[name] for field, name in _ECHOED.get(path, {}).items()}
    for section in sections:
        body |= section(selected)
    name = context.params.get("range") or "7d"
    return {"success": True, "period": name, "range": name, **body, "notices": window.notices}


def _past(view: View, table: str, window: ResponseWindow) -> pd.DataFrame:
    """Read the rows of a base table whose quarter of an hour is in the window and has ended."""
    view.need(table)
    return view.rows(Query(table, window.start, min(window.end, view.now - _QUARTER + TICK)))


def _filtered(context: RequestContext, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the requested dex, symbol, venue or outcome; raise `Refusal` (404) for an unknown one."""
    view = context.view
    params = context.params
    if params.get("dex") is not None:
        dexes = {dex for dex, _ in _listed(view, _CANDLES, "dex", "symbol")}
        _require(params["dex"] in dexes, f"unknown dex {params['dex']!r}")
        frame = frame[frame["dex"] == params["dex"]]
    symbol = params.get("symbol")
    if symbol is not None:
        dex, _, name = symbol.rpartition(":")
        names = {name for _, name in _listed(view, _CANDLES, "dex", "symbol")}
        _require(name in names, f"unknown symbol {symbol!r}")
        frame = frame[(frame["symbol"] == name) & ((frame["dex"] == dex) | (dex == ""))]
    if params.get("venue") is not None:
        frame = frame[frame["venue"] == params["venue"]]
    outcome = params.get("outcome_id")
    if outcome is not None:
        _require((outcome,) in _listed(view, _HIP4, "outcome_id"), f"unknown outcome {outcome!r}")
        frame = frame[frame["outcome_id"] == outcome]
    return frame


def _listed(view: View, table: str, *columns: str) -> frozenset[tuple[str, ...]]:
    """Return the distinct combinations of some columns of a table in the store."""
    view.need(table)

    def combinations() -> frozenset[tuple[str, ...]]:
        rows = view.rows(Query(table, view.store.start, view.horizon, columns=columns)).drop_duplicates()
        return frozenset(rows.astype(str).itertuples(index=False, name=None))

    return view.once(("names", table, columns), combinations)


def _require(exists: bool, otherwise: str) -> None:
    if not exists:
        raise not_found(otherwise)


def candles(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/candles``: the newest candles of the window, `limit` or 500."""
    view = context.view
    params = context.params
    dex, _, symbol = params["coin"].rpartition(":")
    is_listed = (dex, symbol) in _listed(view, _CANDLES, "dex", "symbol")
    _require(is_listed, f"unknown coin {params['coin']!r}; coins are written like xyz:TSLA")
    step = times.RESOLUTIONS[params["interval"]]
    limit = params["limit"] or _CANDLES_SHOWN
    window = context.window()
    if params["range"] is None and params["start"] is None:
        first = (window.end - step * limit).floor(step)
        window = context.window({**params, "start": first})
    full_steps = window._replace(start=window.start.ceil(step), end=window.end.ceil(step))

    def rows_of(table: str) -> pd.DataFrame:
        frame = _past(view, table, full_steps)
        return frame[(frame["dex"] == dex) & (frame["symbol"] == symbol)]

    prices = rows_of(_CANDLES)
    traded = rows_of(_HIP3)
    bars = prices.groupby(prices["time"].dt.floor(step)).agg(
        open=("open_usd", "first"),
        high=("high_usd", "max"),
        low=("low_usd", "min"),
        close=("close_usd", "last"),
    )
    volume = traded.groupby(traded["time"].dt.floor(step))["volume_usd"].sum().round(2)
    bars["volume"] = volume.reindex(bars.index, fill_value=0.0)
    rows = bars.rename_axis("timestamp").reset_index().tail(limit)
    return {
        "success": True,
        "period": params["range"],
        "range": params["range"],
        "coin": params["coin"],
        "interval": params["interval"],
        "data": encoding.rows(rows),
        "notices": window.notices,
    }


def oi_eod(context: RequestContext) -> dict[str, Any]:
    """``GET /hip4-analytics/oi-eod``: open interest at the end of each day since `start`, or of 30 days."""
    view = context.view
    view.need(_HIP4_OI)
    start = context.params["start"] or view.now - _MONTH
    window = context.window({"start": start})
    # A row at midnight is the end of the previous day.
    ends = _filtered(context, view.rows(Query(_HIP4_OI, window.start + _DAY, window.end)))
    rows = _summed(ends.assign(day=ends["time"] - _DAY), ["day"], _OPEN_INTEREST)
    return {"success": True, "data": encoding.rows(rows), "notices": window.notices}


ANSWERS: Answers = {path: partial(_body, path=path) for path in _SECTIONS} | {
    "/hip3-analytics/candles": candles,
    "/hip4-analytics/oi-eod": oi_eod,
}
