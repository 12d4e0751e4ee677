"""The OpenAPI document with a JSON schema of each response, the endpoints as a page, and the status page.

The status page shows sources, freshness and gaps, widest spreads and last liquidations.
"""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from derivdata import tables
from derivdata.sources.service.data import market
from derivdata.sources.service.data.market import funding_now
from derivdata.sources.service.http.access import LARGEST
from derivdata.support.text import html_page
from derivdata.tables import endpoints
from derivdata.tables.schema import Kind

if TYPE_CHECKING:
    from derivdata.sources.service.data.view import View


Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ISO: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"}
STAMP: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"}
NOTICES: Schema = {"type": "array", "items": {"type": "string"}}
_JSON_TYPES = {
    Kind.TEXT: TEXT,
    Kind.LABEL: TEXT,
    Kind.NUMBER: NUMBER,
    Kind.COUNT: COUNT,
    Kind.RANK: {"type": ["integer", "string"]},
    Kind.FLAG: FLAG,
    Kind.TIME: ISO,
}


def array(items: Schema) -> Schema:
    """Describe a list of one kind of item."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Describe an object whose names are data."""
    return {"type": "object", "additionalProperties": values}


def either(*schemas: Schema) -> Schema:
    """Describe a value that fits one of several schemas."""
    return {"anyOf": list(schemas)}


def maybe(schema: Schema) -> Schema:
    """Describe a value of a schema, or null."""
    return either(schema, {"type": "null"})


def record(**fields: Schema) -> Schema:
    """Describe an object in which all fields are required."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def row(table: str, omitted: str = "", /, **extra_fields: Schema) -> Schema:
    """Describe a row of a table under its wire names, with `extra_fields`.

    `omitted` has the names of columns that the row lacks, separated by spaces.
    """
    definition = tables.TABLES[table]
    omitted_names = {*omitted.split(), "kind", "resolution"}
    fields = {}
    required = []
    for name, column in definition.columns.items():
        if name in omitted_names:
            continue
        wire = definition.wire.get(name, name)
        schema = _JSON_TYPES[column.kind]
        if name not in definition.key:
            schema = maybe(schema)
        description = column.doc
        if column.unit:
            description = f"{description} [{column.unit}]"
        fields[wire] = {**schema, "description": description}
        if name not in definition.optional:
            required.append(wire)
    return {"type": "object", "properties": fields | extra_fields, "required": [*required, *extra_fields]}


def rows(
    field: str, table: str, omitted: str = "", row_fields: Schema | None = None, /, **other_fields: Schema
) -> Schema:
    """Describe a response with the rows of a table in a field, and `other_fields`.

    A `field` that ends with ``{}`` has a list of rows by venue. A row lacks the columns in `omitted` and in
    `other_fields`, and has `row_fields` in addition.
    """
    name, by_venue, _ = field.partition("{}")
    omitted_names = [omitted, *other_fields]
    if by_venue:
        omitted_names.append("exchange")
    listed = array(row(table, " ".join(omitted_names), **(row_fields or {})))
    if by_venue:
        listed = mapping(listed)
    return record(**{name: listed}, **other_fields)


def _sometimes(schema: Schema, **fields: Schema) -> Schema:
    """Add optional fields to a schema."""
    return {**schema, "properties": {**schema["properties"], **fields}}


_UNIT = {"unit": TEXT, "resolution": TEXT, "notices": NOTICES}
_ONE = {"symbol": TEXT, **_UNIT}
_PAIR = {"symbol": TEXT, "exchange": TEXT}
_DAYS = {**_PAIR, "days": COUNT, "range": TEXT, "resolution": TEXT, "notices": NOTICES}
_NOW = {"timestamp": STAMP}
_FILTER = {"exchanges_filter": array(TEXT)}
_WIDE = record(
    exchange=TEXT,
    symbols=array(TEXT),
    timeseries=array({"type": "object", "properties": {"timestamp": ISO}, "additionalProperties": NUMBER}),
    **_UNIT,
)
_VENUE = {"type": "object", "properties": {"name": TEXT, "display": TEXT, "interval": NUMBER}}
_VENUE_LISTS = record(exchange_names=array(_VENUE | {"required": ["name", "display"]}), exchanges=array(TEXT))
_COUNTS = ("long_count", "short_count", "total_count")
_SUMS = ("long_usd", "short_usd", "total_usd")
_COVERED = {"coverage": mapping(array(array(ISO))), "notices": NOTICES}
_SESSION = record(start=ISO, end=ISO, session=TEXT, is_tradable=FLAG)
_CALENDAR_TEXTS = ("name", "short_name", "mic", "timezone")
_DEPTHS = [f"{side}_depth_{bps}bps_usd" for bps in (10, 25, 50, 100) for side in ("bid", "ask")]
_MOVERS = array(row("markets_price_movers", "direction time"))
_RIVALS = "asset_group asset_subgroup time"

PAYLOADS: dict[str, Schema] = (
    {
        "/funding": record(
            symbols=array(TEXT),
            exchanges=_VENUE_LISTS,
            funding_rates=mapping(mapping(NUMBER)),
            funding_rates_raw=mapping(mapping(TEXT)),
            funding_intervals=mapping(mapping(NUMBER)),
            oi_rankings=mapping(either(COUNT, TEXT)),
            default_oi_rank=TEXT,
            **_NOW,
        ),
        "/funding/metadata": record(symbols=array(TEXT), exchanges=_VENUE_LISTS, **_NOW),
        "/funding/historical": rows("series{}", "funding_history", "", {"t": ISO}, **_ONE),
        "/funding/settlement": rows(
            "series{}",
            "funding_settlements",
            "interval_hours",
            {"t": ISO, "intervalMinutes": NUMBER},
            symbol=TEXT,
            notices=NOTICES,
        ),
        "/markets/symbols": _sometimes(rows("symbols", "markets_symbols", _RIVALS, **_NOW), **_FILTER),
        "/markets/price-movers": _sometimes(record(gainers=_MOVERS, losers=_MOVERS, **_NOW), **_FILTER),
        "/markets/funding-leaders": rows(
            "data", "markets_funding_leaders", "time", exchanges_filter=maybe(array(TEXT)), **_NOW
        ),
        "/markets/price-buckets": rows(
            "buckets", "markets_price_buckets", "rank symbols time", {"symbols": array(TEXT)}, **_NOW
        ),
        "/markets/exchanges/all": rows("exchanges", "markets_exchanges", "time", **_NOW),
        "/markets/exchanges/{exchange}/symbols": rows(
            "symbols", "markets_exchange_symbols", "time", exchange=TEXT, **_NOW
        ),
        "/markets/exchanges/{exchange}/timeseries": rows(
            "data", "markets_exchange_history", exchange=TEXT, range=maybe(TEXT), **_UNIT
        ),
        "/markets/{symbol}/exchanges": rows(
            "exchanges", "markets_symbol_exchanges", "time", symbol=TEXT, **_NOW
        ),
        "/markets/{symbol}/stats": row("markets_symbol_stats", _RIVALS, **_NOW),
        "/oi/exchanges-summary": rows(
            "exchanges",
            "oi_exchanges",
            "time",
            {"sparkline_7d": array(maybe(NUMBER))},
            total=COUNT,
            total_market_oi=NUMBER,
        ),
        "/oi/exchange-totals": rows("data", "oi_exchange_totals", **_UNIT),
        "/oi/{symbol}/timeseries": rows("data", "oi_history", **_ONE),
        "/oi/exchange-top-symbols-timeseries": _WIDE,
        "/volume/exchange-totals": rows("data", "volume_exchange_totals", **_UNIT),
        "/volume/{symbol}/timeseries": rows("data", "volume_history", **_ONE),
        "/volume/exchange-top-symbols-timeseries": _WIDE,
        "/volume-oi-ratio": rows("data{}", "volume_oi_ratio", window_days=COUNT, **_UNIT),
        "/liquidations/events": _sometimes(rows("events", "liquidations_events", count=COUNT), **_COVERED),
        "/liquidations/history": _sometimes(
            record(
                data=array(
                    record(date=ISO, exchanges=mapping(row("liquidations_history", "time symbol exchange")))
                ),
                **_UNIT,
            ),
            **_COVERED,
        ),
        "/liquidations/aggregates": _sometimes(
            rows(
                "groups",
                "liquidations_aggregates",
                "time",
                period=TEXT,
                range=TEXT,
                group_by=TEXT,
                totals=record(**dict.fromkeys(_COUNTS, COUNT), **dict.fromkeys(_SUMS, NUMBER)),
                largest=maybe(record(name=TEXT, total_usd=NUMBER)),
            ),
            **_COVERED,
        ),
        "/options/snapshot": _sometimes(
            rows("instruments", "options_snapshot", "time", **_PAIR, count=COUNT), time=ISO
        ),
        "/options/metrics": rows("data", "options_metrics", "time", **_PAIR, count=COUNT, cached=FLAG),
        "/options/atm-history": rows("data", "options_atm_history", **_DAYS, count=COUNT),
        "/options/surface-history": rows(
            "snapshots{}", "options_surface_history", "time", **_DAYS, hours=array(ISO)
        ),
        "/options/overview-history": rows(
            "data", "options_overview_history", **_UNIT, range=TEXT, days=COUNT, count=COUNT
        ),
        "/orderbook/book": record(**_PAIR, **_NOW, bids=array(array(NUMBER)), asks=array(array(NUMBER))),
        "/orderbook/depth-history": record(
            **_PAIR, data=array(record(timestamp=ISO, **dict.fromkeys(_DEPTHS, maybe(NUMBER)))), **_UNIT
        ),
        "/rwa/market-hours": record(
            exchanges=array(
                record(
                    id=TEXT,
                    **dict.fromkeys(_CALENDAR_TEXTS, maybe(TEXT)),
                    is_tradable=FLAG,
                    next_session=maybe(_SESSION),
                    sessions=array(_SESSION),
                    holidays=array(_SESSION),
                )
            ),
            **_NOW,
        ),
        "/local/catalog": rows("tables", "catalog", timestamp=STAMP),
        "/local/instruments": rows("instruments", "instruments", timestamp=STAMP, notices=NOTICES),
    }
    | {
        e.path: rows(
            "series{}",
            e.table,
            **{p.name: TEXT for p in e.params if p.name in (*_ONE, *tables.TABLES[e.table].key)},
            unit=TEXT,
            notices=NOTICES,
        )
        for e in endpoints.ENDPOINTS
        if e.rows
    }
    | {  # endpoints whose fields the API document does not describe
        e.path: record(success=FLAG, notices=NOTICES) | {"additionalProperties": True}
        for e in endpoints.ENDPOINTS
        if e.path.startswith(("/hip3-", "/hip4-", "/builder-"))
    }
)
"""Path of an endpoint to the schema of its payload."""


PLAIN = ("/volume-oi-ratio",)
"""Paths whose 400 is plain text, as on the hosted service."""

_VENUES = ("exchange", "exchanges")
_REFUSALS = {
    "400": "A parameter is missing, unreadable, or does not fit the others.",
    "401": "The key is missing or unknown.",
    "403": "The key's tier does not include this; `required_tier` is the lowest tier that does.",
    "404": "Unknown symbol, venue or outcome, or data that the source does not have.",
    "429": "Too many requests; `retry_after` seconds to wait.",
    "500": "Internal error.",
    "503": "The store cannot be read, too many responses are unsent, or the service is shutting down.",
}
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": TEXT,
        "docs": TEXT,
        "required_tier": TEXT,
        "message": TEXT,
        "retry_after": {"type": "number"},
    },
    "required": ["error"],
}
_INTEGERS = {"type": "integer", "minimum": 1, "maximum": LARGEST}
_KINDS: dict[endpoints.ParamKind, Schema] = {
    endpoints.ParamKind.TEXT: {"type": "string", "minLength": 1},
    endpoints.ParamKind.LIST: {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": "^[^,\\s]+$"},
    },
    endpoints.ParamKind.INTEGER: _INTEGERS,
    endpoints.ParamKind.NUMBER: {"type": "number"},
    endpoints.ParamKind.TICK: {"type": "string", "format": "date-time"},
    endpoints.ParamKind.MILLIS: {"type": "integer", "minimum": 0, "maximum": 9_999_999_999_999},
    endpoints.ParamKind.DAYS: {"type": "string", "pattern": "^[1-9][0-9]{0,3}d$"},
}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h2{font:600 1rem ui-monospace,monospace;margin:2rem 0 .3rem}table{border-collapse:collapse;width:100%}"
    "td,th{border-bottom:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "code{font-family:ui-monospace,monospace}.tier{color:#777;font-weight:400}"
)
_ABOUT = (
    "Crypto derivatives data, read-only. Section numbers and tiers are those of the API document. Paths "
    "under /local are not part of that document: only this service has them."
)
_OURS = " Not part of the API document: the hosted service does not have it."


def document(exchanges: Collection[str], *, label: str, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all endpoints; `exchanges` are the slugs that the service knows."""
    return {
        "openapi": "3.1.0",
        "info": {"title": f"derivdata: {label}", "version": version, "description": _ABOUT},
        "security": [{"key": []}],
        "paths": {e.path: {"get": _operation(e, sorted(exchanges))} for e in endpoints.ENDPOINTS},
        "components": {
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}},
            "schemas": {"Error": _ERROR},
        },
    }


def page(label: str) -> str:
    """Return an HTML page that lists every endpoint with its tier and parameters."""
    title = f"derivdata: {label}"
    sections = "".join(map(_section, endpoints.ENDPOINTS))
    body = (
        f"<h1>{escape(title)}</h1>"
        "<p>Every request needs a key in the header <code>X-Api-Key</code>. As a file: "
        '<a href="/openapi.json">OpenAPI</a>.</p>'
        f"{sections}"
    )
    return html_page(title, body, style=_STYLE, policy="default-src 'none'; style-src 'unsafe-inline'")


def _operation(endpoint: endpoints.Endpoint, exchanges: list[str]) -> dict[str, Any]:
    """Return the OpenAPI description of an endpoint."""
    description = f"Tier: {endpoint.tier.title()} and above."
    if endpoint.local:
        description += _OURS
    return {
        "summary": endpoint.doc,
        "operationId": endpoint.path.strip("/").replace("/", "_").replace("{", "").replace("}", ""),
        "tags": [endpoint.path.split("/")[1]],
        "description": description,
        "parameters": [_parameter(p, exchanges, endpoint.path) for p in endpoint.params],
        "responses": {
            "200": _response("The data.", PAYLOADS[endpoint.path]),
            **{status: _refusal(endpoint.path, status, text) for status, text in _REFUSALS.items()},
        },
    }


def _parameter(p: endpoints.Param, exchanges: list[str], path: str) -> dict[str, Any]:
    """Return the OpenAPI description of a parameter; venues are limited to `exchanges`."""
    schema = dict(_KINDS[p.kind])
    if p.choices:
        schema = {"type": "string", "enum": list(p.choices)}
    elif p.name in _VENUES and not path.startswith("/rwa"):
        venues = {"type": "string", "enum": exchanges}
        if p.kind is endpoints.ParamKind.LIST:
            schema["items"] = venues
        else:
            schema = venues
    if p.default is not None:
        schema["default"] = p.default
    description = {
        "name": p.name,
        "in": "path" if p.in_path else "query",
        "required": p.required,
        "description": p.doc,
        "schema": schema,
    }
    if p.kind is endpoints.ParamKind.LIST:
        description |= {"style": "form", "explode": False}
    return description


def _refusal(path: str, status: str, text: str) -> dict[str, Any]:
    """Return the OpenAPI description of an error response."""
    if status == "400" and path in PLAIN:
        return {"description": text, "content": {"text/plain": {"schema": TEXT}}}
    return _response(text, {"$ref": "#/components/schemas/Error"})


def _response(text: str, schema: Schema) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _section(endpoint: endpoints.Endpoint) -> str:
    """Return the section of an endpoint on the page of endpoints."""
    table = "<p>No parameters.</p>"
    if endpoint.params:
        head = "<tr><th>parameter</th><th>kind</th><th>default</th><th>meaning</th></tr>"
        table = f"<table>{head}{''.join(map(_row, endpoint.params))}</table>"
    tier = f'<span class="tier">{endpoint.tier.title()} and above</span>'
    return f"<h2>GET {escape(endpoint.path)} {tier}</h2><p>{escape(endpoint.doc)}</p>{table}"


def _row(p: endpoints.Param) -> str:
    """Return the row of a parameter in the table of its endpoint."""
    kind = ", ".join(p.choices) or str(p.kind)
    default = ""
    if p.required:
        default = "required"
    elif p.default is not None:
        default = str(p.default)
    cells = (f"<code>{escape(p.name)}</code>", escape(kind), escape(default), escape(p.doc))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


REFRESH_SECONDS = 30
_SHOWN = 12
_WEEK = pd.Timedelta(7, "D")
_DAY = pd.Timedelta(1, "D")
_HOUR = pd.Timedelta(1, "h")
_LATE = pd.Timedelta(2, "h")
_FRESH = ("funding_history", "funding_settlements", "oi_history", "prices_history", "options_snapshot")
_EVENTS = "liquidations_events"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_NONE = "–"
_SECTIONS = {
    "freshness": "Freshness",
    "gaps": "Gaps",
    "spreads": "Widest funding spreads",
    "liquidations": "Last liquidations",
}


def status_page(view: View, ledger: pd.DataFrame | None) -> str:
    """Return the page, without scripts or external files; `ledger` is the `status` of a collected archive."""
    store = view.store
    title = f"derivdata: {store.label}"
    about = (
        f"As of {view.now:%Y-%m-%d %H:%M:%S} UTC, loaded again every {REFRESH_SECONDS} seconds. "
        f"Data since {store.start:%Y-%m-%d %H:%M} UTC; {len(store.tables())} tables."
    )
    if store.synthetic:
        about += ' <span class="late">Synthetic data.</span>'
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{about}</p>',
        "<nav>" + " ".join(f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS.items()) + "</nav>",
    ]
    bodies = (_freshness(view), _gaps(ledger), _spreads(view), _liquidations(view))
    for (name, heading), body in zip(_SECTIONS.items(), bodies, strict=True):
        sections += [f'<h2 id="{name}">{heading}</h2>', body]
    folder = resources.files("derivdata.sources.service.http")
    style = folder.joinpath("status.css").read_text(encoding="utf-8")
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">'
    return html_page(title, "\n".join(sections), style=style, policy=_POLICY, head=refresh)


def _freshness(view: View) -> str:
    """Return the age of each venue's newest row of the last week, oldest first; over two hours are marked."""
    ages: dict[str, pd.Series] = {}
    for name in _FRESH:
        if view.has(name):
            frame = view.latest(name, view.now, within=_WEEK)
            if len(frame):
                newest = frame.groupby(frame["exchange"].astype(str))["time"].max()
                ages[name] = view.now - newest
    if view.has(*market.TABLES):
        frame = market.liquidation_orders(view, view.now - _DAY, view.now)
        if len(frame):
            ages[_EVENTS] = view.now - frame.groupby(frame["exchange"].astype(str))["time"].max()
    if not ages:
        return "<p>There are no rows of the last week.</p>"
    table = pd.DataFrame(ages).sort_index()
    # Payments and liquidations have no regular step, so their age does not mean that a venue is late.
    sampled = ~table.columns.isin(["funding_settlements", _EVENTS])
    oldest = table.loc[:, sampled].max(axis=1).fillna(pd.Timedelta(0))
    oldest = oldest.sort_values(ascending=False, kind="stable")
    table = table.loc[oldest.index]
    rows = [[str(venue), *map(_age, row)] for venue, row in zip(table.index, table.to_numpy(), strict=True)]
    late = (table > _LATE).to_numpy() & sampled
    count = int((oldest > _LATE).sum())
    kind = "late" if count else "soft"
    summary = f'<p class="{kind}">{count} of {len(table)} venues late: no row for two hours.</p>'
    # + 1, because the first cell is the venue.
    late_cells = [[place + 1 for place in row.nonzero()[0]] for row in late]
    return summary + _table(["venue", *table.columns], rows, late_cells)


def _age(age: Any) -> str:
    """Return a length of time in minutes or hours, or a mark if it is missing."""
    age = pd.Timedelta(age)
    if age is pd.NaT:
        return _NONE
    minutes = age / pd.Timedelta(1, "min")
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.1f} h"


def _gaps(ledger: pd.DataFrame | None) -> str:
    """Return the venues and tables with missing rows or failed requests."""
    if ledger is None or ledger.empty:
        return "<p>Gaps are listed only for an archive that a collector writes.</p>"
    troubled = ledger[(ledger["holes"] > 0) | (ledger["failed"] > 0)]
    if troubled.empty:
        return f"<p>None: {len(ledger)} pairs of venue and table, all without gaps.</p>"
    columns = ["exchange", "table", "lag_minutes", "holes", "failed", "last_error"]
    cells = troubled[columns].astype(object)
    cells = cells.where(cells.notna(), _NONE).map(str)
    return _table(columns, cells.to_numpy().tolist())


def _spreads(view: View) -> str:
    """Return the symbols with the largest difference between the current rates of two venues."""
    frame = funding_now(view)
    by_symbol = frame.groupby(frame["symbol"].astype(str))["rate_bps_8h"].agg(["idxmin", "idxmax", "count"])
    by_symbol = by_symbol[by_symbol["count"] > 1]
    if by_symbol.empty:
        return "<p>A spread needs a symbol with rates on two venues.</p>"
    lowest = frame.loc[by_symbol["idxmin"]].set_axis(by_symbol.index)
    highest = frame.loc[by_symbol["idxmax"]].set_axis(by_symbol.index)
    spreads = highest["rate_bps_8h"] - lowest["rate_bps_8h"]
    # Sorted by symbol first, so that equal spreads are in alphabetical order.
    spreads = spreads.sort_index().sort_values(ascending=False, kind="stable")
    cells = []
    for symbol, spread in spreads.head(_SHOWN).items():
        low = lowest.loc[symbol]
        high = highest.loc[symbol]
        cells.append(
            [
                str(symbol),
                f"{spread:.2f}",
                f"{low['exchange']} ({low['rate_bps_8h']:+.2f})",
                f"{high['exchange']} ({high['rate_bps_8h']:+.2f})",
            ]
        )
    return _table(["symbol", "spread [bps/8h]", "long on", "short on"], cells)


def _liquidations(view: View) -> str:
    """Return the newest liquidations of the last hour, and their total."""
    if not view.has(*market.TABLES):
        return "<p>The source does not include liquidations.</p>"
    frame = market.liquidation_orders(view, view.now - _HOUR, view.now)
    if frame.empty:
        return "<p>None in the last hour.</p>"
    newest = frame.sort_values("time", ascending=False).head(_SHOWN)
    cells = [
        [f"{row.time:%H:%M:%S}", str(row.symbol), str(row.exchange), str(row.side), f"{row.value_usd:,.0f}"]
        for row in newest.itertuples()
    ]
    total = f"<p>{len(frame):,} orders, {frame['value_usd'].sum():,.0f} USD in the last hour.</p>"
    return total + _table(["time [UTC]", "symbol", "venue", "side", "value [USD]"], cells)


def _table(head: list[str], rows: list[list[str]], late: list[list[int]] | None = None) -> str:
    """Return an HTML table; `late` lists the positions of marked cells in each row."""
    # Names may break after an underscore, so that six columns fit on a tablet.
    names = "".join(f'<th scope="col">{escape(name).replace("_", "_<wbr>")}</th>' for name in head)
    body = []
    for number, row in enumerate(rows):
        marked = late[number] if late else []
        cells = []
        for place, cell in enumerate(row):
            attributes = ""
            if place in marked:
                attributes = ' class="late"'
            elif cell == _NONE:
                attributes = ' class="none"'
            if place:
                attributes += f' data-label="{escape(head[place])}"'
            cells.append(f"<td{attributes}>{escape(cell)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
