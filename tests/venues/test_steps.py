"""The step of a history is the one that its request names, in the units of the venue."""

from __future__ import annotations

import json
from typing import Any

import pytest

import derivdata as dd
from derivdata.errors import SchemaError
from derivdata.sources import venues
from derivdata.sources.venues.reading import step_name

AT = "2026-09-02T00:00:00Z"
_QUARTER_HOURS = [  # maddymedia123-jpg/Quant-dashboard, tests/fixtures/kraken_ohlc_15m.json, 2026-09-01
    [1788260400, "78000.0", "78024.0", "77903.2", "77966.5", "77958.4", "24.99326114", 793],
    [1788261300, "77966.6", "77995.3", "77865.2", "77975.7", "77924.8", "6.56216879", 612],
    [1788262200, "77975.6", "78178.7", "77928.1", "78074.7", "78074.0", "5.17840426", 906],
]


@pytest.mark.parametrize(
    ("text", "number_unit", "name"),
    [
        ("60", "m", "1h"),
        ("15", "m", "15m"),
        ("D", "m", "1d"),
        ("1440", "m", "1d"),
        ("10080", "m", "unstated"),  # a week
        ("60", "s", "1m"),
        ("300", "s", "5m"),
        ("3600", "s", "1h"),
        ("21600", "s", "unstated"),  # six hours
        ("60min", "m", "1h"),
        ("4hour", "m", "4h"),
        ("1day", "m", "1d"),
        ("1H", "m", "1h"),
        ("12Hutc", "m", "12h"),
        ("1Dutc", "m", "1d"),
        ("1M", "m", "unstated"),  # a month, not a minute
        ("M", "m", "unstated"),
        ("", "m", "unstated"),
        ("P1H", "m", "unstated"),
    ],
)
def test_a_step_has_the_name_of_its_length(text: str, number_unit: str, name: str) -> None:
    assert step_name(text, number_unit) == name


def _kraken(request: str, rows: list[Any] = _QUARTER_HOURS) -> Any:
    body = {"error": [], "result": {"XXBTZUSD": rows, "last": rows[-1][0]}}
    return dd.venues.read("kraken", request, json.dumps(body), at=AT)["prices_spot"]


@pytest.mark.parametrize("request_", ["/0/public/OHLC?pair=XBTUSD", "/0/public/OHLC?pair=XBTUSD&interval=15"])
def test_bars_of_kraken_have_the_step_of_the_request_or_of_the_rows(request_: str) -> None:
    spot = _kraken(request_)
    assert spot["price"].tolist() == [78000.0, 77966.6, 77975.6]
    assert set(spot["resolution"]) == {"15m"}


def test_bars_closer_than_the_step_of_the_request_are_rejected() -> None:
    with pytest.raises(SchemaError, match="PF_XBTUSD: expected bars 1h apart, got two 15 min apart: name"):
        _kraken("/0/public/OHLC?pair=XBTUSD&interval=60")


def test_a_gap_between_bars_is_not_another_step() -> None:
    assert len(_kraken("/0/public/OHLC?pair=XBTUSD&interval=15", _QUARTER_HOURS[::2])) == 2


def test_one_bar_without_an_interval_has_no_step() -> None:
    assert set(_kraken("/0/public/OHLC?pair=XBTUSD", _QUARTER_HOURS[:1])["resolution"]) == {"unstated"}


@pytest.mark.parametrize(
    ("venue", "request_", "body", "resolution"),
    [
        (
            "coinbase", "/products/BTC-USD/candles?granularity=60",
            [[1788260460, 77959.9, 78010.0, 77990.0, 78000.0, 2.5],
             [1788260400, 77980.0, 78024.0, 78000.0, 77990.0, 1.5]],
            "1m",
        ),
        (
            "huobi", "/index/market/history/linear_swap_mark_price_kline?contract_code=BTC-USDT&period=1min",
            {"ch": "market.BTC-USDT.mark_price.1min", "status": "ok", "data": [
                {"id": 1788260400, "open": "78000"}, {"id": 1788260460, "open": "78001"}]},
            "1m",
        ),
        (
            "deribit", "/public/get_volatility_index_data?currency=BTC&resolution=60",
            {"result": {"data": [[1788260400000, 40.1, 40.3, 40.0, 40.2]], "continuation": None}},
            "1m",
        ),
        (
            "kraken", "/api/charts/v1/analytics/PF_XBTUSD/open-interest?interval=60",
            {"result": {"timestamp": [1788260400, 1788260460], "data": [
                ["1", "2", "1", "2"], ["2", "2", "1", "1"]], "more": False}, "errors": []},
            "1m",
        ),
    ],
)  # fmt: skip
def test_numbers_of_a_step_are_in_the_units_of_the_venue(
    venue: str, request_: str, body: Any, resolution: str
) -> None:
    context = {"mark_price": 78_000.0}
    records = venues.records(venue, request_, json.dumps(body), at=AT, context=context)
    rows = [*records.prices, *records.indices, *records.oi]
    assert {row.resolution for row in rows} == {resolution}
