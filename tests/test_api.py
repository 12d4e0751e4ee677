"""The API document as data: one canonical request per call, errors before any request."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from derivdata import tables
from derivdata.client.transport.session import request_of
from derivdata.tables import endpoints as api

DOCUMENTED = {  # spec: path, lowest tier, parameters
    "/funding": ("free", ""),
    "/funding/metadata": ("dev", ""),
    "/funding/historical": ("dev", "symbol start end exchanges resolution"),
    "/funding/settlement": ("dev", "symbol start end exchanges"),
    "/markets/symbols": ("dev", "exchanges"),
    "/markets/price-movers": ("dev", "min_value limit exchanges"),
    "/markets/funding-leaders": ("dev", "exchanges"),
    "/oi/exchanges-summary": ("dev", ""),
    "/oi/{symbol}/timeseries": ("dev", "symbol start end range exchanges resolution"),
    "/liquidations/events": ("dev", "since limit min_usd exchange symbol exclude_symbol"),
    "/options/snapshot": ("free", "symbol exchange"),
}


def test_endpoints_are_as_documented() -> None:
    results = {endpoint.path: endpoint for endpoint in api.ENDPOINTS}
    for path, (tier, names) in DOCUMENTED.items():
        assert (results[path].tier, " ".join(p.name for p in results[path].params)) == (tier, names)
        assert results[path].table in tables.TABLES


def test_equivalent_arguments_give_one_request() -> None:
    ask = functools.partial(request_of, api.FUNDING_HISTORICAL)
    one = ask({"symbol": "BTC", "exchanges": ["okx", "binance", "okx"], "start": "2026-01-01", "end": None})
    two = ask({"start": "2026-01-01T01:00+01:00", "exchanges": "binance,okx", "symbol": "BTC"})
    assert one == two
    assert str(one) == ("/funding/historical?exchanges=binance,okx&start=2026-01-01T00:00:00Z&symbol=BTC")


def test_path_parameters_round_trip() -> None:
    request = request_of(api.OI_TIMESERIES, {"symbol": "龙/X", "range": "7d"})
    assert request.path == "/oi/%E9%BE%99%2FX/timeseries"
    assert api.endpoint_of(request.path) is api.OI_TIMESERIES
    assert api.endpoint_of("/oi/exchanges-summary") is api.OI_EXCHANGES_SUMMARY
    assert api.endpoint_of("/oi//timeseries") is None
    assert api.endpoint_of("/oi/a/b/timeseries") is None


@pytest.mark.parametrize(
    ("endpoint", "params", "kind", "message"),
    [
        (api.FUNDING_HISTORICAL, {}, ValueError, "/funding/historical needs the parameter symbol"),
        (api.FUNDING_HISTORICAL, {"symbol": "BTC", "days": 7}, ValueError, "the parameter 'days'"),
        (api.FUNDING_HISTORICAL, {"symbol": ""}, ValueError, "symbol must be non-empty text"),
        (api.FUNDING_HISTORICAL, {"symbol": 7}, TypeError, "symbol must be text"),
        (api.FUNDING_HISTORICAL, {"symbol": "B\nTC"}, ValueError, "control characters"),
        (api.FUNDING_HISTORICAL, {"symbol": "BTC", "exchanges": []}, ValueError, "empty list"),
        (api.FUNDING_HISTORICAL, {"symbol": "BTC", "exchanges": 5}, TypeError, "exchanges must be text"),
        (api.FUNDING_HISTORICAL, {"symbol": "BTC", "exchanges": ["a,b"]}, ValueError, "not contain commas"),
        (api.HIP4_DASHBOARD, {"venue": "both"}, ValueError, "venue must be one of out, skew.*got 'both'"),
        (api.OI_TIMESERIES, {"symbol": "BTC", "range": "7d", "start": "2026-01-01"}, ValueError, "exclude"),
        (api.LIQUIDATIONS_EVENTS, {"symbol": "BTC", "exclude_symbol": "ETH"}, ValueError, "exclude each"),
        (api.LIQUIDATIONS_EVENTS, {"limit": 2.5}, TypeError, "limit must be a whole number"),
        (api.LIQUIDATIONS_EVENTS, {"min_usd": float("nan")}, ValueError, "min_usd must be finite"),
        (api.LIQUIDATIONS_EVENTS, {"min_usd": "1000"}, TypeError, "min_usd must be a number"),
        (api.LIQUIDATIONS_EVENTS, {"since": 1_767_225_600_000}, TypeError, "since must be ISO text"),
    ],
)  # fmt: skip
def test_invalid_arguments_raise_before_a_request(
    endpoint: Any, params: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        request_of(endpoint, params)


def test_undocumented_choices_are_left_to_the_service() -> None:
    for endpoint, params in (
        (api.HIP3_BY_DEX, {"range": "1y"}),
        (api.HIP3_CANDLES, {"coin": "xyz:TSLA", "interval": "5m"}),
        (api.OI_TOP_SYMBOLS, {"exchange": "okx", "range": "1d"}),
        (api.LIQUIDATIONS_AGGREGATES, {"group_by": "side"}),
    ):
        assert dict(request_of(endpoint, params).query).items() >= params.items()


def test_since_is_sent_in_milliseconds_and_limits_as_integers() -> None:
    request = request_of(
        api.LIQUIDATIONS_EVENTS, {"since": "2026-01-01T00:00:00.123Z", "min_usd": 1e6, "limit": 5}
    )
    assert dict(request.query) == {"since": "1767225600123", "min_usd": "1000000", "limit": "5"}


def test_numpy_numbers_are_accepted() -> None:
    for limit, least in ((np.int64(5), np.float32(0.5)), (np.uint8(5), np.float64(0.5))):
        request = request_of(api.LIQUIDATIONS_EVENTS, {"limit": limit, "min_usd": least})
        assert dict(request.query) == {"limit": "5", "min_usd": "0.5"}
    with pytest.raises(TypeError, match="limit must be a whole number"):
        request_of(api.LIQUIDATIONS_EVENTS, {"limit": np.bool_(True)})


def test_tiers_are_ordered_and_the_options_matrix_is_as_documented() -> None:
    assert api.allows("team", "pro")
    assert api.allows("dev", "dev")
    assert not api.allows("free", "dev")
    pairs = {(s, e) for s, venues in api.OPTIONS_MATRIX.items() for e in venues}
    assert len(pairs) == 24
    assert ("HYPE", "derive") in pairs
    assert ("ZEC", "deribit") not in pairs
