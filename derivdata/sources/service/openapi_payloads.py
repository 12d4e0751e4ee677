"""Answers of each endpoint as JSON schemas."""

from __future__ import annotations

from derivdata.sources.service.openapi_schemas import (
    COUNT,
    FLAG,
    ISO,
    NOTICES,
    NUMBER,
    RESOLUTION,
    STAMP,
    TEXT,
    Schema,
    array,
    either,
    mapping,
    maybe,
    open_object,
    record,
    row,
)

_VENUES = record(
    exchange_names=array(record(name=TEXT, display=TEXT)),
    exchanges=array(TEXT),
)
_NAME = {"type": "object", "properties": {"name": TEXT, "display": TEXT, "interval": NUMBER}}
_INTERVALS = record(exchange_names=array(_NAME | {"required": ["name", "display"]}), exchanges=array(TEXT))
_SERIES = {"unit": TEXT, "resolution": RESOLUTION, "notices": NOTICES}
_PAIR = {"symbol": TEXT, "exchange": TEXT}
_DAYS = {**_PAIR, "days": COUNT, "range": TEXT}
_WIDE = array({"type": "object", "properties": {"timestamp": ISO}, "additionalProperties": NUMBER})
_OPEN = {"success": FLAG, "notices": NOTICES}
_ROLLING = {**_OPEN, "period": maybe(TEXT), "range": maybe(TEXT)}
_ROWS = array({"type": "object"})
_COUNTED = record(
    long_count=COUNT,
    short_count=COUNT,
    long_usd=NUMBER,
    short_usd=NUMBER,
    total_count=COUNT,
    total_usd=NUMBER,
)
_SESSION = record(start=ISO, end=ISO, session=TEXT, is_tradable=FLAG)
_RIVALS = "asset_class asset_group asset_subgroup"

_MARKETS: dict[str, Schema] = {
    "/markets/symbols": record(timestamp=STAMP, symbols=array(row("markets_symbols", drop=_RIVALS))),
    "/markets/price-movers": record(
        timestamp=STAMP,
        gainers=array(row("markets_price_movers", drop="direction")),
        losers=array(row("markets_price_movers", drop="direction")),
    ),
    "/markets/funding-leaders": record(
        timestamp=STAMP,
        exchanges_filter=maybe(array(TEXT)),
        data=array(row("markets_funding_leaders")),
    ),
    "/markets/price-buckets": record(
        timestamp=STAMP,
        buckets=array(row("markets_price_buckets", drop="rank symbols", symbols=array(TEXT))),
    ),
    "/markets/exchanges/all": record(timestamp=STAMP, exchanges=array(row("markets_exchanges"))),
    "/markets/exchanges/{exchange}/symbols": record(
        exchange=TEXT,
        timestamp=STAMP,
        symbols=array(row("markets_exchange_symbols", drop="exchange price_usd", price_usd=maybe(NUMBER))),
    ),
    "/markets/exchanges/{exchange}/timeseries": record(
        exchange=TEXT,
        range=maybe(TEXT),
        data=array(row("markets_exchange_history", drop="exchange", time=True)),
        **_SERIES,
    ),
    "/markets/{symbol}/exchanges": record(
        symbol=TEXT, timestamp=STAMP, exchanges=array(row("markets_symbol_exchanges", drop="symbol"))
    ),
    "/markets/{symbol}/stats": row("markets_symbol_stats", drop=_RIVALS, timestamp=STAMP),
}
_FUNDING: dict[str, Schema] = {
    "/funding": record(
        symbols=array(TEXT),
        exchanges=_VENUES,
        funding_rates=mapping(mapping(NUMBER)),
        funding_rates_raw=mapping(mapping(TEXT)),
        funding_intervals=mapping(mapping(NUMBER)),
        oi_rankings=mapping(either(COUNT, TEXT)),
        default_oi_rank=TEXT,
        timestamp=STAMP,
    ),
    "/funding/metadata": record(symbols=array(TEXT), exchanges=_INTERVALS, timestamp=STAMP),
    "/funding/historical": record(
        symbol=TEXT,
        series=mapping(array(row("funding_history", drop="symbol exchange", time=True, t=ISO))),
        **_SERIES,
    ),
    "/funding/settlement": record(
        symbol=TEXT,
        series=mapping(
            array(
                row(
                    "funding_settlements",
                    drop="symbol exchange interval_hours",
                    time=True,
                    t=ISO,
                    intervalMinutes=NUMBER,
                )
            )
        ),
        notices=NOTICES,
    ),
}
_LOCAL: dict[str, Schema] = {
    "/local/prices/history": record(
        symbol=TEXT,
        kind=TEXT,
        series=mapping(array(row("prices_history", drop="symbol exchange", time=True))),
        **_SERIES,
    ),
}
_TOTALS: dict[str, Schema] = {
    "/oi/exchanges-summary": record(
        exchanges=array(row("oi_exchanges", sparkline_7d=array(maybe(NUMBER)))),
        total=COUNT,
        total_market_oi=NUMBER,
    ),
    "/oi/exchange-totals": record(data=array(row("oi_exchange_totals", time=True)), **_SERIES),
    "/oi/{symbol}/timeseries": record(
        symbol=TEXT, data=array(row("oi_history", drop="symbol", time=True)), **_SERIES
    ),
    "/oi/exchange-top-symbols-timeseries": record(
        exchange=TEXT, symbols=array(TEXT), timeseries=_WIDE, **_SERIES
    ),
    "/volume/exchange-totals": record(data=array(row("volume_exchange_totals", time=True)), **_SERIES),
    "/volume/{symbol}/timeseries": record(
        symbol=TEXT, data=array(row("volume_history", drop="symbol", time=True)), **_SERIES
    ),
    "/volume/exchange-top-symbols-timeseries": record(
        exchange=TEXT, symbols=array(TEXT), timeseries=_WIDE, **_SERIES
    ),
    "/volume-oi-ratio": record(
        data=mapping(array(row("volume_oi_ratio", drop="exchange", time=True))), window_days=COUNT, **_SERIES
    ),
}


def _covered(schema: Schema) -> Schema:
    """Describe the same with the spans in which each venue was asked, and notices: not always there."""
    spans = {"coverage": mapping(array(array(ISO))), "notices": NOTICES}
    return {**schema, "properties": {**schema["properties"], **spans}}


_LIQUIDATIONS: dict[str, Schema] = {
    "/liquidations/events": _covered(
        record(events=array(row("liquidations_events", time=True)), count=COUNT)
    ),
    "/liquidations/history": _covered(
        record(
            data=array(record(date=ISO, exchanges=mapping(row("liquidations_history", drop="exchange")))),
            **_SERIES,
        )
    ),
    "/liquidations/aggregates": _covered(
        record(
            period=TEXT,
            range=TEXT,
            group_by=TEXT,
            totals=_COUNTED,
            groups=array(row("liquidations_aggregates", drop="group_by")),
            largest=maybe(record(name=TEXT, total_usd=NUMBER)),
        )
    ),
}
_CHAIN = record(**_PAIR, count=COUNT, instruments=array(row("options_snapshot", drop="symbol exchange")))
_OPTIONS: dict[str, Schema] = {
    "/options/snapshot": {**_CHAIN, "properties": {**_CHAIN["properties"], "time": ISO}},  # not always there
    "/options/metrics": record(
        **_PAIR, count=COUNT, data=array(row("options_metrics", drop="symbol exchange")), cached=FLAG
    ),
    "/options/atm-history": record(
        **_DAYS,
        count=COUNT,
        data=array(row("options_atm_history", drop="symbol exchange", time=True)),
        resolution=RESOLUTION,
        notices=NOTICES,
    ),
    "/options/surface-history": record(
        **_DAYS,
        hours=array(ISO),
        snapshots=mapping(array(row("options_surface_history", drop="symbol exchange"))),
        resolution=RESOLUTION,
        notices=NOTICES,
    ),
    "/options/overview-history": record(
        range=TEXT,
        days=COUNT,
        count=COUNT,
        data=array(row("options_overview_history", time=True)),
        **_SERIES,
    ),
}
_BOOKS: dict[str, Schema] = {
    "/orderbook/book": record(**_PAIR, timestamp=STAMP, bids=array(array(NUMBER)), asks=array(array(NUMBER))),
    "/orderbook/depth-history": record(
        **_PAIR,
        data=array(
            record(
                timestamp=ISO,
                **{f"{s}_depth_{d}bps_usd": maybe(NUMBER) for d in (10, 25, 50, 100) for s in ("bid", "ask")},
            )
        ),
        **_SERIES,
    ),
    "/rwa/market-hours": record(
        timestamp=STAMP,
        exchanges=array(
            record(
                id=TEXT,
                name=maybe(TEXT),
                short_name=maybe(TEXT),
                mic=maybe(TEXT),
                timezone=maybe(TEXT),
                is_tradable=FLAG,
                next_session=maybe(_SESSION),
                sessions=array(_SESSION),
                holidays=array(_SESSION),
            )
        ),
    ),
}
_ONCHAIN: dict[str, Schema] = {
    "/hip3-analytics/dashboard": open_object(**_ROLLING, summary={"type": "object"}, by_dex=_ROWS),
    "/hip3-analytics/dex-detail": open_object(**_ROLLING, dex_name=TEXT, by_symbol=_ROWS),
    "/hip3-analytics/by-dex": open_object(**_ROLLING, data=_ROWS),
    "/hip3-analytics/by-symbol": open_object(**_ROLLING, data=_ROWS),
    "/hip3-analytics/timeseries/symbol": open_object(**_ROLLING, data=_ROWS),
    "/hip3-analytics/timeseries/dex-breakdown": open_object(**_ROLLING, data=_WIDE, symbols=array(TEXT)),
    "/hip3-analytics/leaderboard": open_object(**_ROLLING, data=_ROWS, total_traders=COUNT),
    "/hip3-analytics/oi-trends/total": open_object(**_ROLLING, data=_ROWS, by_dex=mapping(_ROWS)),
    "/hip3-analytics/oi-trends/dex": open_object(**_ROLLING, aggregate=_ROWS, by_symbol=mapping(_ROWS)),
    "/hip3-analytics/candles": open_object(**_ROLLING, coin=TEXT, interval=TEXT, data=_ROWS),
    "/hip4-analytics/dashboard": open_object(**_ROLLING, summary={"type": "object"}, by_outcome=_ROWS),
    "/hip4-analytics/outcome/{outcome_id}": open_object(**_ROLLING, outcome_id=TEXT),
    "/hip4-analytics/oi-eod": open_object(**_OPEN, data=_ROWS),
    "/hip4-analytics/leaderboard": open_object(**_ROLLING, data=_ROWS, total_traders=COUNT),
    "/builder-analytics/dashboard": open_object(**_ROLLING, by_builder=_ROWS, timeseries=_ROWS),
}

PAYLOADS: dict[str, Schema] = (
    _FUNDING | _MARKETS | _TOTALS | _LIQUIDATIONS | _OPTIONS | _BOOKS | _ONCHAIN | _LOCAL
)
"""Path of an endpoint to the schema of its payload."""
