"""Faults and doubts of single series, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata import tables
from derivdata.sources.venues.endpoint import Paging
from derivdata.sources.venues.record_types import Instrument, OiPoint, State, contradictions
from derivdata.sources.venues.row_checks import (
    PageWindow,
    body_doubts,
    implied_price_doubts,
    row_faults,
    series_doubts,
    stated_cap,
)

START = pd.Timestamp("2026-08-01", tz="UTC").as_unit("us")
HOUR_US = 3_600_000_000


def payments(
    rates: list[float], symbol: str = "BTC", exchange: str = "binance", hours: float = 8.0
) -> pd.DataFrame:
    """Return payments of rates [bps of an interval]."""
    bps = np.array(rates)
    rows = {
        "symbol": symbol,
        "exchange": exchange,
        "time": pd.date_range(START, periods=len(rates), freq=pd.Timedelta(hours, "h")).as_unit("us"),
        "rate_bps_8h": bps * 8 / hours,
        "interval_hours": hours,
        "kind": "settled",
        "rate_native": bps / 1e4,
        "payment_count": 1,
        "interval_source": "row",
    }
    return tables.TABLES["funding_settlements"].conform(pd.DataFrame(rows))


def interest(values: list[float]) -> pd.DataFrame:
    rows = {
        "symbol": "BTC",
        "exchange": "okx",
        "time": pd.date_range(START, periods=len(values), freq="h").as_unit("us"),
        "oi_usd": values,
        "resolution": "1h",
    }
    return tables.TABLES["oi_history"].conform(pd.DataFrame(rows))


MIXED = [1.0, 0.31, 1.0, -0.72, 1.0, 0.54, 1.0, 0.18, 1.0, -0.27, 1.0, 0.63]
LEVELS = [5e9, 5.1e9, 5.05e9, 5.2e9, 5.15e9, 5.3e9, 5.25e9, 5.1e9]


def test_usual_series_give_no_notice() -> None:
    for rates in (MIXED, [1.0] * 84):
        assert list(body_doubts("binance", "funding_settlements", payments(rates))) == []
    assert list(body_doubts("okx", "oi_history", interest(LEVELS))) == []


@pytest.mark.parametrize("factor", [8.0, 100.0, 1e3, -1.0])
def test_interest_in_two_units_or_of_two_signs_is_reported(factor: float) -> None:
    wrong = [*MIXED, *(factor * rate for rate in MIXED)]
    result = list(series_doubts("binance", "funding_settlements", payments(wrong, "XRP")))
    assert any("repeats two values" in text for text in result)


def test_rates_above_the_cap_that_the_venue_stated_are_reported() -> None:
    # OKX stated 37.5 bps per interval of 8 h for BTC on 2026-09-11: 37 is a payment, 40 is not.
    assert list(series_doubts("okx", "funding_settlements", payments([*MIXED, 37.0], exchange="okx"))) == []
    (text,) = series_doubts("okx", "funding_settlements", payments([*MIXED, 40.0], exchange="okx"))
    assert text.startswith(
        "1 rates of BTC are above the cap of 37.5 bps per interval that the venue stated on"
    )
    cap = stated_cap("okx", "BTC")
    assert cap is not None
    assert cap.limit(START - pd.Timedelta(3000, "D")) == 75.0, "another regime years before"
    assert not cap.is_broken_by(0.5, 4.0, START), "the cap is that of 8 hours"


def test_zeros_and_constant_rows_are_reported_but_not_the_interest() -> None:
    (text,) = series_doubts("bybit", "funding_settlements", payments([-0.0] * 12, "XRP", "bybit"))
    assert text == "rate_bps_8h of XRP is 0 in 12 consecutive rows, first 2026-08-01T00:00:00Z"
    assert list(series_doubts("deribit", "funding_settlements", payments([0.0] * 12, "XRP", "deribit"))) == []
    assert list(series_doubts("bybit", "funding_settlements", payments([1.0] * 60, "XRP", "bybit"))) == []
    (text,) = series_doubts("bybit", "funding_settlements", payments([0.73214] * 12, "XRP", "bybit"))
    assert "is 0.73214 in 12 consecutive rows" in text


def test_payments_of_large_coins_above_all_recorded_ones_are_reported() -> None:
    rates = [46.0 + number / 7 for number in range(12)]
    (text,) = series_doubts("bingx", "funding_settlements", payments(rates, exchange="bingx"))
    assert "has a median of 46.8 bps in 12 payments" in text
    assert list(series_doubts("bingx", "funding_settlements", payments(rates, "XRP", "bingx"))) == []


def test_last_payment_within_the_interval_is_reported() -> None:
    rows = payments(MIXED[:7])
    rows.loc[6, "time"] -= pd.Timedelta(4, "h")
    rows.loc[6, "interval_hours"] = np.nan
    (text,) = series_doubts("binance", "funding_settlements", rows)
    assert text == (
        "the last payment of BTC, on 2026-08-02T20:00:00Z, is 4 h after the previous one, but earlier "
        "payments are 8 h apart: its interval is unknown"
    )


def test_impossible_open_interest_and_open_interest_of_two_sizes_are_reported() -> None:
    (text,) = series_doubts("okx", "oi_history", interest([100 * value for value in LEVELS]))
    assert text == "the median oi_usd of BTC is 5.125e+11: no venue has ever had as much"
    swapped = [*LEVELS, *(value / 90_000 for value in LEVELS)]
    assert any("values of two sizes" in text for text in row_faults("oi_history", interest(swapped)))


def test_missing_rows_and_rows_off_the_step_are_counted() -> None:
    rows = interest([*LEVELS, *(1.001 * value for value in LEVELS)])
    (text,) = body_doubts("okx", "oi_history", rows.drop(index=[4, 5]))
    assert text == "2 of 16 rows of BTC are missing on the 1 h grid, first 2026-08-01 04:00"
    late = rows.assign(time=rows["time"] + pd.Timedelta(61, "s"))
    (text,) = body_doubts("okx", "oi_history", late)
    assert text == "16 of 16 rows of BTC are off the 1 h grid, first 2026-08-01 00:01"


def test_rows_are_compared_with_the_window_of_the_request() -> None:
    rows = payments(MIXED)
    start = int(START.value) // 1000
    paging = Paging(limit=1000)
    before = {
        "startTime": str((start - 32 * HOUR_US) // 1000),
        "endTime": str((start + 96 * HOUR_US) // 1000),
    }
    assert PageWindow.of(paging, {}) is None
    window = PageWindow.of(paging, before | {"limit": "1000"})
    (text,) = body_doubts("binance", "funding_settlements", rows, window)
    assert text == (
        "rows of BTC begin at 2026-08-01T00:00:00Z, but the request at 2026-07-30 16:00: 4 rows are missing "
        "(step 8 h), or the contract was not listed"
    )
    outside = {"startTime": str((start + 32 * HOUR_US) // 1000), "endTime": before["endTime"]}
    (text,) = body_doubts("binance", "funding_settlements", rows, PageWindow.of(paging, outside))
    assert text == "3 of 12 rows of BTC are outside the requested window, first 2026-08-01T00:00:00Z"


def found(rates: list[float], symbol: str = "BTC", **changes: Any) -> list[str]:
    rows = payments(rates, symbol).assign(**changes)
    return list(series_doubts("binance", "funding_settlements", rows))


def test_repeated_page_of_payments_is_reported() -> None:
    page = [0.31, -0.72, 0.54, 0.18, -0.27, 0.63, 0.11, 0.95]
    (text,) = found([*page, 1.0, 1.0, *page])
    assert text.startswith("rate_bps_8h of BTC has the values of 2026-08-01T00:00:00Z and the rows after it")
    assert found([*page, 1.0, 1.0, *page[::-1]]) == []
    assert found([*page, *[1.0] * 8, *page]) == [], "rates of few digits repeat by chance"


def test_sorted_prices_are_reported() -> None:
    prices = [90_000.0 + 7 * number for number in range(48)]
    rows = interest(prices).rename(columns={"oi_usd": "price_usd"}).assign(kind="mark", quote="USDT")
    (text,) = series_doubts("binance", "prices_history", rows)
    assert (
        text
        == "price_usd of BTC never changes its direction in 48 rows: the rows may be sorted or cumulative"
    )
    fallen = rows.replace(prices[47], prices[0])
    assert list(series_doubts("binance", "prices_history", fallen)) == []


def test_rates_and_open_interest_may_rise_in_all_rows() -> None:
    assert found([round(0.3 + number / 90, 4) for number in range(48)]) == []
    assert list(series_doubts("binance", "oi_history", interest([1e6 + 7e4 * n for n in range(48)]))) == []


def test_tiny_payments_of_large_coins_are_reported() -> None:
    rates = [rate * 1e-4 for rate in MIXED * 4]
    assert any("bps in 95 % of 48 rows: rates may be in another unit" in text for text in found(rates))
    assert not any("another unit" in text for text in found(rates, "XRP"))
    assert not any(
        "another unit" in text for text in series_doubts("dydx", "funding_settlements", payments(rates))
    )


def test_payments_at_other_hours_than_the_rest_are_reported() -> None:
    times = payments(MIXED)["time"]
    late = times.where((times.index < 5) | (times.index > 8), times + pd.Timedelta(1, "h"))
    (text,) = found(MIXED, time=late)
    assert text == (
        "4 of 12 payments of BTC every 8 h are at other hours than the rest, first 2026-08-02T17:00:00Z: "
        "times may be in another time zone"
    )
    moved = times.where(times.index < 8, times + pd.Timedelta(4, "h"))
    assert found(MIXED, time=moved) == [], "a venue may move its payments once"
    assert found(MIXED, time=times + pd.Timedelta(4, "h")) == []


def points(prices: list[float], symbol: str = "BTC") -> list[OiPoint]:
    item = Instrument(f"{symbol}-USDT-SWAP", symbol, "USDT", 0.01)
    start = int(START.value) // 1000
    return [
        OiPoint(item, start + number * HOUR_US, 1000.0 * price, "1h", 1000.0)
        for number, price in enumerate(prices)
    ]


def test_usual_implied_prices_are_not_reported() -> None:
    """The helper makes open interest in USD and in coins, with these prices between them."""
    assert list(implied_price_doubts(points([90_000.0] * 12))) == []
    assert list(implied_price_doubts(points([90.0] * 12, "SOL"))) == []
    assert contradictions(points([9e4])) == {}


def test_implied_price_that_is_too_low_or_changes_is_reported() -> None:
    [text] = implied_price_doubts(points([900.0] * 12))
    assert "in USD is 900 times that in coins" in text
    [text] = implied_price_doubts(points([*[90.0] * 6, *[9e4] * 6], "SOL"))
    assert "is 9e+04 times that in coins from 2026-08-01 06:00 on, but 90 times before" in text


def test_implied_price_that_is_too_high_is_a_contradiction() -> None:
    assert list(contradictions(points([9e7]))) == [0]


def test_open_interest_of_0_usd_is_reported_unless_it_is_tiny_in_coins() -> None:
    [text] = implied_price_doubts([point._replace(oi_usd=0.0) for point in points([90_000.0] * 12)])
    assert text == "open interest of BTC-USDT-SWAP is 0 USD but not 0 coins in 12 rows: values may be missing"
    tiny = [point._replace(oi_usd=0.0, oi_coins=1e-6) for point in points([90_000.0] * 12)]
    assert list(implied_price_doubts(tiny)) == []


def test_prices_of_large_coins_in_thousands_are_contradictions() -> None:
    item = Instrument("BTCUSDT", "BTC", "USDT", 1.0)
    assert contradictions([State(item, 0, mark=9e4, index_price=9e4)]) == {}
    assert contradictions([State(item, 0, mark=9e7, index_price=9e7)]) == {0: ["mark", "index_price"]}
    other = item._replace(quote="IDR")
    assert contradictions([State(other, 0, mark=1.5e9, index_price=1.5e9)]) == {}


@pytest.mark.parametrize(
    "text", ["2026-08-01", "2026-08-01T00:00:00", "2026-08-01T00:00:00.000Z", "2026-08-01T02:00:00+02:00"]
)
def test_the_end_of_a_window_is_read_from_any_iso_text(text: str) -> None:
    """Requests have times with and without milliseconds and a zone, and no limit."""
    paging = Paging(descending=True, start="", end="effectiveBeforeOrAt", unit="iso", limit=1000)
    window = PageWindow.of(paging, {"effectiveBeforeOrAt": text})
    assert window == PageWindow(None, 1_785_542_400_000_000, None, is_newest_first=True)
    assert PageWindow.of(paging, {"effectiveBeforeOrAt": "latest"}) is None
