"""Answers of each endpoint as JSON schemas; their rows come from the library's tables."""

from __future__ import annotations

from typing import Any, TypeAlias

from derivdata import tables
from derivdata.tables import endpoints
from derivdata.tables.schema import Kind

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ISO: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"}
STAMP: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"}
NOTICES: Schema = {"type": "array", "items": {"type": "string"}}
_KINDS = {
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
    """Describe one of several."""
    return {"anyOf": list(schemas)}


def maybe(schema: Schema) -> Schema:
    """Describe the same, or null."""
    return either(schema, {"type": "null"})


def record(**fields: Schema) -> Schema:
    """Describe an object that has all of these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def row(table: str, drop: str = "", /, **more: Schema) -> Schema:
    """Describe a row of a table under its names on the wire, without some columns and with further fields."""
    definition = tables.TABLES[table]
    away = {*drop.split(), "kind", "resolution"}
    fields, required = {}, []
    for name, column in definition.columns.items():
        if name in away:
            continue
        wire, schema = definition.wire.get(name, name), _KINDS[column.kind]
        unit = f" [{column.unit}]" if column.unit else ""
        kind = schema if name in definition.key else maybe(schema)
        fields[wire] = {**kind, "description": column.doc + unit}
        required += [wire] * (name not in definition.optional)
    return {"type": "object", "properties": fields | more, "required": [*required, *more]}


def rows(place: str, table: str, drop: str = "", more: Schema | None = None, /, **beside: Schema) -> Schema:
    """Describe rows in the field `place` (``{}``: a list by venue) without what stands `beside` them."""
    name, by_venue, _ = place.partition("{}")
    listed = array(row(table, " ".join([drop, *beside, *["exchange"] * bool(by_venue)]), **(more or {})))
    return record(**{name: mapping(listed) if by_venue else listed}, **beside)


def _sometimes(schema: Schema, **fields: Schema) -> Schema:
    """Describe the same with fields that are not always there."""
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
_VENUES = record(exchange_names=array(_VENUE | {"required": ["name", "display"]}), exchanges=array(TEXT))
_COUNTS, _SUMS = ("long_count", "short_count", "total_count"), ("long_usd", "short_usd", "total_usd")
_COVERED = {"coverage": mapping(array(array(ISO))), "notices": NOTICES}
_SESSION = record(start=ISO, end=ISO, session=TEXT, is_tradable=FLAG)
_CALENDAR_TEXTS = ("name", "short_name", "mic", "timezone")
_DEPTHS = [f"{side}_depth_{bps}bps_usd" for bps in (10, 25, 50, 100) for side in ("bid", "ask")]
_MOVERS = array(row("markets_price_movers", "direction time"))
_RIVALS = "asset_class asset_group asset_subgroup time"

PAYLOADS: dict[str, Schema] = (
    {
        "/funding": record(
            symbols=array(TEXT),
            exchanges=_VENUES,
            funding_rates=mapping(mapping(NUMBER)),
            funding_rates_raw=mapping(mapping(TEXT)),
            funding_intervals=mapping(mapping(NUMBER)),
            oi_rankings=mapping(either(COUNT, TEXT)),
            default_oi_rank=TEXT,
            **_NOW,
        ),
        "/funding/metadata": record(symbols=array(TEXT), exchanges=_VENUES, **_NOW),
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
    | {  # what no document fixes
        e.path: record(success=FLAG, notices=NOTICES) | {"additionalProperties": True}
        for e in endpoints.ENDPOINTS
        if e.path.startswith(("/hip3-", "/hip4-", "/builder-"))
    }
)
"""Path of an endpoint to the schema of its payload."""
